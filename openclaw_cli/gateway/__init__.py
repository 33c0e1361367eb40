"""Talking to a running gateway of OpenClaw: protocol 4, and the verbs that are left to it (gateway page)."""
