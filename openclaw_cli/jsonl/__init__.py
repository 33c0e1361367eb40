"""Bytes to lines to objects, streaming, with damage as values.

`read` is the one way into a JSONL file. It holds one line at a time, never raises for what stands in the file, and
says of every byte that it could not use where it is and why (design D8).
"""

from __future__ import annotations

from openclaw_cli.jsonl.damage import Action, Damage, Kind, Policy, Record, Tally
from openclaw_cli.jsonl.reader import DEFAULT_MAX_LINE_BYTES, read

__all__ = ["DEFAULT_MAX_LINE_BYTES", "Action", "Damage", "Kind", "Policy", "Record", "Tally", "read"]
