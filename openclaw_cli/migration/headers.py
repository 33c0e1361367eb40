"""The session header of a damaged transcript.

The header decides what every other line means: without it a transcript counts as version 1, whose entries get new ids.
A header whose framing is whole is therefore read with its bad content in every import, and not only in a salvage; which
makes it the same header that a salvage stores.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

from openclaw_cli import jsonl
from openclaw_cli.jsonl.classify import Finding, examine
from openclaw_cli.transcript.upgrade import CURRENT_VERSION


def is_header(value: object) -> bool:
    """Whether a record is a session header."""
    return isinstance(value, dict) and value.get("type") == "session"


def with_header(records: Iterator[jsonl.Record], tally: jsonl.Tally, path: Path) -> Iterator[jsonl.Record]:
    """The records of a file, a header in front that was kept out for its content; its damage counts as salvaged.

    Raises OSError.
    """
    first = next(records, None)
    damage = tally.damage[0] if tally.damage else None
    if damage is not None and damage.action is jsonl.Action.KEPT_OUT and (first is None or damage.line < first.line):
        header = _read(damage, path)
        if header is not None:
            tally.damage[0] = replace(damage, action=jsonl.Action.SALVAGED)
            tally.lines_salvageable -= 1
            yield header
    if first is not None:
        yield first
        del first
    yield from records


def _read(damage: jsonl.Damage, path: Path) -> jsonl.Record | None:
    """The damaged line as a record, when its framing is whole and it is a header."""
    with path.open("rb", buffering=0) as stream:
        stream.seek(damage.byte_offset)
        body = stream.read(damage.bytes)
    found = examine(body, is_open=False)
    if not isinstance(found, Finding) or not is_header(found.value):
        return None
    return jsonl.Record(damage.line, damage.byte_offset, body, found.value)


def new_header(session_id: str, first: object) -> dict[str, Any]:
    """The header of a transcript that lost its own: nothing in it is guessed (store format §5)."""
    moment = first.get("timestamp") if isinstance(first, dict) else None
    stated = moment if isinstance(moment, str) else ""
    return {"type": "session", "version": CURRENT_VERSION, "id": session_id, "timestamp": stated, "cwd": ""}
