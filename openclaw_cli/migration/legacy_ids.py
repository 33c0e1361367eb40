"""Ids of rows that had none, when their transcript is read at another path than the first time.

The real importer makes the ids of version 1 rows from the path of the file (store format §5). A state directory that
was moved, copied or reached through a link would give the same rows other ids, and a second import would append the
whole conversation once more. So the ids that a session's stored rows already have are found again and used.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from openclaw_cli.storage import events
from openclaw_cli.storage.connection import Store
from openclaw_cli.storage.encoding import decode
from openclaw_cli.storage.projections import storable

_PREFIXES = (
    "SELECT substr(event_id, 1, 16) AS prefix FROM transcript_event_identities WHERE session_id = ?"
    f" AND event_id GLOB '{'[0-9a-f]' * 16}-[0-9a-z]*' AND length(event_id) < 32 GROUP BY prefix ORDER BY min(seq)"
)
_EVENT_OF_ID = (
    "SELECT event_json, event_zstd, event_utf8_bytes FROM transcript_events"
    " JOIN transcript_event_identities USING (session_id, seq) WHERE session_id = ? AND event_id = ?"
)


def stored_prefixes(store: Store, session_id: str) -> list[str]:
    """What the generated ids of a session's stored events begin with, oldest first; empty for most sessions."""
    return [row[0] for row in store.execute(_PREFIXES, (session_id,))]


def holds(store: Store, session_id: str, prefix: str, rows: Iterable[tuple[bytes, Any]]) -> bool:
    """Whether `rows` (JSON text, parsed form), with ids of this prefix, are those that the store has under such ids.

    The first row that the store has an id of decides. What follows may have grown; where it differs, that is a
    conflict under one id like any other, not a reason to append everything again.
    """
    for text, value in rows:
        identity = events.identity_of(value)
        if identity is None or not identity.event_id.startswith(prefix):
            continue
        row = store.execute(_EVENT_OF_ID, (session_id, storable(identity.event_id))).fetchone()
        if row is not None:
            return decode(*row) == text
    return False
