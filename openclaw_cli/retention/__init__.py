"""Keeping stores small: which rows, windows, archives and files go, and taking them away without losing history."""
