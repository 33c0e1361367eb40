"""The index beside a transcript: the key of each session id, for markers that name a child by its id only."""

from __future__ import annotations

from pathlib import Path

import orjson

_INDEX = "sessions.json"
_MAX_BYTES = 64 * 2**20


def child_sessions(transcript: Path) -> dict[str, str]:
    """Session id → session key of the file-era index in the transcript's directory.

    Empty when there is none or it cannot be read: matching then goes on with names (lifecycles §3.3).
    """
    index = transcript.parent / _INDEX
    try:
        if index.stat().st_size > _MAX_BYTES:
            return {}
        rows = orjson.loads(index.read_bytes())
    except (OSError, orjson.JSONDecodeError):
        return {}
    if not isinstance(rows, dict):
        return {}
    return {
        entry["sessionId"]: key
        for key, entry in rows.items()
        if isinstance(entry, dict) and isinstance(entry.get("sessionId"), str)
    }
