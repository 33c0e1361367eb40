"""What is wrong with a stored transcript that no stored event may be changed for (`sessions fork KEY --repair`)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from openclaw_cli.errors import CorruptError
from openclaw_cli.storage.connection import Store
from openclaw_cli.storage.encoding import decode
from openclaw_cli.storage.projections import parse

OLDEST_VERSION = 3
"""OpenClaw's runtime refuses a transcript of an older version (store format §5)."""

_FIRST = (
    "SELECT event_json, event_zstd, event_utf8_bytes FROM transcript_events WHERE session_id = ? ORDER BY seq LIMIT 1"
)
_GONE = (
    "SELECT count(*) FROM transcript_event_identities i WHERE i.session_id = ? AND i.parent_id IS NOT NULL"
    " AND NOT EXISTS (SELECT 1 FROM transcript_event_identities p WHERE p.session_id = i.session_id"
    " AND p.event_id = i.parent_id)"
)


@dataclass(frozen=True, slots=True)
class Need:
    """One reason for a successor: a code, words without content, and how many events it is about."""

    code: str
    text: str
    count: int = 1


def needs(store: Store, session_id: str) -> list[Need]:
    """Why a session needs a successor; empty when it needs none. One row and one count are read."""
    row = store.execute(_FIRST, (session_id,)).fetchone()
    if row is None:
        return []
    found = [need for need in (_header_need(row),) if need is not None]
    gone = store.value(_GONE, (session_id,))
    if gone:
        found.append(Need("parent_missing", f"{gone} event(s) whose parent is not there", gone))
    return found


def _header_need(row: tuple[Any, ...]) -> Need | None:
    try:
        event = parse(decode(*row))
    except (CorruptError, ValueError):
        return Need("header_unreadable", "its first event cannot be read")
    if not isinstance(event, dict) or event.get("type") != "session":
        return Need("header_missing", "its first event is no session header")
    version = event.get("version")
    number = version if isinstance(version, int) and not isinstance(version, bool) else 1
    if number < OLDEST_VERSION:
        return Need("transcript_version_old", f"stored in transcript version {number}")
    return None
