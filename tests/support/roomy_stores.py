"""Stores with many unused pages, and what must not change when they are compacted."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

import orjson

from openclaw_cli.storage import connection, events, verify
from openclaw_cli.storage.connection import Store
from openclaw_cli.storage.sessions import write_entry

NOW_MS = 1_790_000_000_000
STAMP = "2026-09-21T14:00:01.000Z"
# The search index keeps its segments in these two; merging rewrites them and finds the same.
SEGMENTS = ("session_transcript_fts_data", "session_transcript_fts_idx")


def make(
    path: Path, *, kept: int = 3000, deleted: int = 3000, agent_id: str = "main", incremental: bool = True
) -> Path:
    """A store with one session of `kept` messages, from which another of `deleted` messages went; gives its path.

    With `incremental` off it is one that was created before incremental vacuum was turned on.
    """
    with connection.create(path, agent_id=agent_id, now_ms=NOW_MS) as store:
        for name, count in (("kept", kept), ("gone", deleted)):
            _session(store, f"agent:{agent_id}:explicit:{name}", name, count)
        if not incremental:
            for statement in ("PRAGMA auto_vacuum=0", "VACUUM"):
                store.execute(statement).fetchall()
        _delete(store, "gone")
    return path


def rows(path: Path) -> dict[str, str]:
    """SHA-256 over all rows of every table, the hidden ones of the search index too; the store must verify."""
    with connection.open_read(path, temporary_tables=True) as store:
        assert [] == verify.integrity(store)
        assert [] == list(verify.verify(store))
        named = "SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE 'sqlite_%' ORDER BY name"
        names = [name for (name,) in store.execute(named).fetchall()]
        return {name: _digest(store, name) for name in names if name not in SEGMENTS}


def found(path: Path, word: str) -> list[tuple[Any, ...]]:
    """What the search index finds."""
    with connection.open_read(path) as store:
        sql = "SELECT rowid, session_id, message_id FROM session_transcript_fts WHERE session_transcript_fts MATCH ?"
        return sorted(store.execute(sql, (word,)).fetchall())


def beside(path: Path) -> list[str]:
    """Names in the store's directory."""
    return sorted(name.name for name in path.parent.iterdir())


def _digest(store: Store, table: str) -> str:
    lines = sorted(repr(row) for row in store.execute(f'SELECT * FROM "{table}"'))
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()


def _session(store: Store, key: str, session_id: str, count: int) -> None:
    entry = {"sessionId": session_id, "updatedAt": NOW_MS, "label": session_id, "status": "done"}
    header = {"type": "session", "version": 3, "id": session_id, "timestamp": STAMP, "cwd": "/w"}
    for start in range(0, count, 500):
        with store.transaction():
            if start == 0:
                write_entry(store, key, entry, now_ms=NOW_MS)
                _append(store, key, session_id, [header])
            numbers = range(start, min(start + 500, count))
            _append(store, key, session_id, [_message(session_id, number) for number in numbers])


def _append(store: Store, key: str, session_id: str, values: list[Any]) -> None:
    events.append(store, key, session_id, [(orjson.dumps(value), value) for value in values], now_ms=NOW_MS)


def _message(session_id: str, number: int) -> dict[str, Any]:
    # The escape keeps an event from being compressed.
    text = f"\x01 {session_id} word{number % 97} " + hashlib.sha256(f"{number}".encode()).hexdigest() * 8
    body = {"role": "user", "content": [{"type": "text", "text": text}]}
    parent = f"{session_id}-{number - 1}" if number else None
    return {"type": "message", "id": f"{session_id}-{number}", "parentId": parent, "timestamp": STAMP, "message": body}


def _delete(store: Store, session_id: str) -> None:
    """As the real program deletes a session (store format §3.4)."""
    with store.transaction():
        for table in (
            "transcript_event_identities", "transcript_events", "session_transcript_fts_rows",
            "session_transcript_active_events", "session_transcript_index_state", "transcript_rewrite_watermarks",
            "session_windows",
        ):  # fmt: skip
            store.execute(f"DELETE FROM {table} WHERE session_id = ?", (session_id,))
        store.execute("DELETE FROM session_nodes WHERE current_session_id = ?", (session_id,))
