"""One session of a store as `show`, `tail` and `export` read it: found by key or id, its events streamed, cold too."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from openclaw_cli import jstext
from openclaw_cli.errors import CorruptError
from openclaw_cli.sessions.listing import WITHHELD
from openclaw_cli.storage import cold, events
from openclaw_cli.storage.connection import Store
from openclaw_cli.storage.projections import parse

_BY_KEY = f"SELECT current_session_id FROM session_nodes WHERE session_key = ? AND NOT {WITHHELD}"
_BY_ID = (
    "SELECT session_key FROM session_windows WHERE session_id = ?"
    f" AND session_key NOT IN (SELECT session_key FROM session_nodes WHERE {WITHHELD})"
)


@dataclass(frozen=True, slots=True)
class Found:
    """A session: the key that it belongs to, its id, and whether the key goes on with it."""

    session_key: str
    session_id: str
    current: bool


@dataclass(frozen=True, slots=True)
class Generation:
    """One session of a key."""

    session_id: str
    reason: str | None
    updated_at: int | None
    events: int
    bytes: int
    cold: bool
    current: bool

    def as_json(self) -> dict[str, Any]:
        """Its object in `generations`."""
        return {
            "sessionId": self.session_id,
            "reason": self.reason,
            "updatedAt": self.updated_at,
            "events": self.events,
            "bytes": self.bytes,
            "cold": self.cold,
            "current": self.current,
        }


def find(store: Store, name: str) -> Found | None:
    """The session that a key or an id means; rows that are never shown are not found."""
    current = store.value(_BY_KEY, (name,))
    if current is not None:
        return Found(name, current, True)
    key = store.value(_BY_ID, (name,))
    if key is None:
        return None
    return Found(key, name, store.value(_BY_KEY, (key,)) == name)


def entry_of(store: Store, key: str) -> dict[str, Any]:
    """The row's entry; {} for a placeholder or a damaged one."""
    text = store.value("SELECT entry_json FROM session_nodes WHERE session_key = ?", (key,))
    try:
        entry = jstext.parse(text.encode("utf-8"))
    except ValueError:
        return {}
    return entry if isinstance(entry, dict) else {}


def generations(store: Store, key: str) -> list[Generation]:
    """Every session of a key, the present one first, then the newest."""
    current = store.value("SELECT current_session_id FROM session_nodes WHERE session_key = ?", (key,))
    sql = (
        "SELECT session_id, reason, updated_at FROM session_windows WHERE session_key = ?"
        " ORDER BY session_id = ? DESC, updated_at DESC, session_id"
    )
    found = []
    for session_id, reason, updated_at in store.execute(sql, (key, current)).fetchall():
        count, size = events.extent(store, session_id)
        away = cold.of(store, session_id)
        if away is not None:
            count, size = away.events, away.raw_bytes
        found.append(Generation(session_id, reason, updated_at, count, size, away is not None, session_id == current))
    return found


def last(store: Store, session_id: str, count: int, max_bytes: int) -> list[tuple[int, Any]]:
    """(seq, event) of the last events; the rest of the session is not read."""
    return [(seq, parsed(text)) for seq, text in events.tail(store, session_id, events=count, max_bytes=max_bytes)]


def since(store: Store, session_id: str, seq: int) -> Iterator[tuple[int, Any]]:
    """(seq, event) of what came behind `seq`."""
    for number, text in events.stream(store, session_id, after=seq):
        yield number, parsed(text)


def lines(store: Store, session_id: str, sessions_dir: Path) -> Iterator[bytes]:
    """The JSON text of every event in order, also of a session that lies in a cold archive. Raises CorruptError."""
    away = cold.of(store, session_id)
    if away is None:
        for _, text in events.stream(store, session_id):
            yield text
        return
    with cold.open_stream(store, away, sessions_dir) as stream:
        count = 0
        for line in stream:
            count += 1
            yield line.removesuffix(b"\n")
    if count != away.events:
        raise CorruptError(
            f"the cold archive {away.name} has {count} events, {away.events} are recorded",
            hint="openclaw-cli doctor check",
        )


def parsed(text: bytes) -> Any:
    """The event, None where its text is damaged."""
    try:
        return parse(text)
    except ValueError:
        return None
