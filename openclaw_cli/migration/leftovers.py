"""Transcripts that no index names any more although the store has their session: what an earlier import left behind.

A linked file stays where it is when it was imported, and so does one that could not be moved, while the index went to
the archive. Such a file belongs to the key that its session has in the store; it is no session of its own.
"""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from openclaw_cli.config.paths import Target
from openclaw_cli.errors import OpenClawError, escaped
from openclaw_cli.storage import connection
from openclaw_cli.storage.connection import Store

_OWNER = (
    "SELECT session_key, current_session_id, entry_json, updated_at FROM session_nodes WHERE entry_valid = 1"
    " AND (current_session_id = ?1 OR session_key = (SELECT session_key FROM session_windows WHERE session_id = ?1))"
    " ORDER BY current_session_id = ?1 DESC, session_key LIMIT 1"
)


class StoredKey(NamedTuple):
    """The key that a session has in a store. `is_current`: the key leads to it now, else it is history of the key."""

    agent_id: str
    key: str
    entry_text: bytes
    updated_at: int
    is_current: bool


class StoredSessions:
    """The sessions that are in a target's store, or in that of another agent of the same state directory.

    Stores are opened, for reading, when the first session is looked for.
    """

    def __init__(self, target: Target) -> None:
        self._target = target
        self._stores: list[tuple[str, Store]] | None = None

    def key_of(self, session_id: str) -> StoredKey | None:
        """The key of a session, None when no store has it."""
        if escaped(session_id) != session_id:
            return None  # Half a character: no store has such an id.
        if self._stores is None:
            self._stores = [pair for pair in map(_opened, _places(self._target)) if pair is not None]
        for agent_id, store in self._stores:
            row = store.execute(_OWNER, (session_id,)).fetchone()
            if row is not None:
                key, current, text, updated_at = row
                return StoredKey(agent_id, key, text.encode("utf-8"), updated_at, current == session_id)
        return None

    def __enter__(self) -> StoredSessions:
        return self

    def __exit__(self, *_: object) -> None:
        for _, store in self._stores or ():
            store.close()


def _places(target: Target) -> list[tuple[str, Path]]:
    """(agent, database) of the target, then of its neighbours: a row may belong to another agent than its index."""
    own = target.sqlite_path
    neighbours = sorted(own.parent.parent.parent.glob(f"*/{own.parent.name}/{own.name}"))
    others = [(path.parent.parent.name, path) for path in neighbours if path != own]
    return [(target.agent_id, own), *others]


def _opened(place: tuple[str, Path]) -> tuple[str, Store] | None:
    agent_id, path = place
    if not path.exists():
        return None
    try:
        return agent_id, connection.open_read(path)
    except OpenClawError:
        return None  # The import or the check of this very store says what is wrong with it.
