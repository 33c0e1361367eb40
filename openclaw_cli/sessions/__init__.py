"""Listing the sessions of a store."""
