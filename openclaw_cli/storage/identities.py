"""The identity rows of events: what an event is looked up by (store format §3.3, `transcript_event_identities`)."""

from __future__ import annotations

from typing import Any, NamedTuple

from openclaw_cli.storage.connection import Store
from openclaw_cli.storage.encoding import decode
from openclaw_cli.storage.projections import parse, storable
from openclaw_cli.transcript.entries import JS_SPACE

INSERT_IDENTITY = (
    "INSERT INTO transcript_event_identities"
    "(session_id, event_id, seq, event_type, parent_id, message_idempotency_key, created_at)"
    " VALUES (?, ?, ?, ?, ?, ?, ?)"
)

_BATCH_ROWS = 512


class Identity(NamedTuple):
    """The columns of `transcript_event_identities` that come out of the event itself."""

    event_id: str
    event_type: str | None
    parent_id: str | None
    idempotency_key: str | None


def identity_of(event: Any) -> Identity | None:
    """Identity of an event as the store holds it (U+FFFD for surrogates); None without a nonblank string `id`."""
    if type(event) is not dict:
        return None
    own = event.get("id")
    own = own.strip(JS_SPACE) if type(own) is str else ""
    if not own:
        return None
    kind, parent, message = event.get("type"), event.get("parentId"), event.get("message")
    key = message.get("idempotencyKey") if type(message) is dict else None
    if not own.isascii():
        own = storable(own)
    key = storable(key) if type(key) is str and not key.isascii() else key
    return Identity(
        own,
        kind if type(kind) is str else None,
        parent if type(parent) is str else None,
        (key.strip(JS_SPACE) or None) if type(key) is str else None,
    )


def storable_rows(rows: list[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
    """`rows` with lone surrogates replaced; the usual batch has none and comes back as it is."""
    if all(row[1].isascii() and (row[4] or "").isascii() and (row[5] or "").isascii() for row in rows):
        return rows
    return [tuple(storable(column) if type(column) is str else column for column in row) for row in rows]


def rebuild(store: Store, session_id: str) -> None:
    """Make the identity rows of a session anew from its events, inside the caller's transaction.

    The first event with an idempotency key keeps it. An event whose id an earlier one has gets no identity.
    """
    store.execute("DELETE FROM transcript_event_identities WHERE session_id = ?", (session_id,))
    sql = (
        "SELECT seq, event_json, event_zstd, event_utf8_bytes, created_at FROM transcript_events"
        " WHERE session_id = ? ORDER BY seq"
    )
    ids: set[str] = set()
    keys: set[str] = set()
    rows: list[tuple[Any, ...]] = []
    for seq, text, packed, size, at in store.execute(sql, (session_id,)):
        identity = identity_of(parse(decode(text, packed, size)))
        if identity is None or identity.event_id in ids:
            continue
        ids.add(identity.event_id)
        key = None if identity.idempotency_key in keys else identity.idempotency_key
        if key is not None:
            keys.add(key)
        rows.append((session_id, identity.event_id, seq, identity.event_type, identity.parent_id, key, at))
        if len(rows) == _BATCH_ROWS:
            store.executemany(INSERT_IDENTITY, storable_rows(rows))
            rows.clear()
    store.executemany(INSERT_IDENTITY, storable_rows(rows))
