"""Appending events to a session's transcript with everything that the store derives from them, and reading them back.

Order and rules of an append: store format §3.4, §10 "Times" and "Re-import". Rows go in by batches; nothing that grows
with the session is held, except while a tree that is no plain chain is resolved again (`projections.rebuild`).
"""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import islice
from typing import Any, NamedTuple

import apsw

from openclaw_cli.errors import RefusedError
from openclaw_cli.storage import projections
from openclaw_cli.storage.connection import Store
from openclaw_cli.storage.encoding import compressed, decode, has_escape
from openclaw_cli.storage.identities import INSERT_IDENTITY, Identity, identity_of, storable_rows
from openclaw_cli.storage.projections import LONG_TEXT, ActiveRow, IndexState, RowWriter, searchable, storable
from openclaw_cli.transcript.entries import timestamp_ms
from openclaw_cli.transcript.tree import Cursor, Position

BATCH_EVENTS = 256
BATCH_BYTES = 1024 * 1024
"""Limits of one batch; a single longer event is a batch of its own."""

_EVENT_COLUMNS = "event_json, event_zstd, event_utf8_bytes"
_INSERT_EVENT = (
    "INSERT INTO transcript_events"
    "(session_id, seq, event_json, created_at, event_zstd, event_utf8_bytes, navigation_json)"
    # Texts are bound as bytes: turning them into strings and back costs more than anything else that happens here.
    " VALUES (?, ?, CAST(? AS TEXT), ?, ?, ?, CAST(? AS TEXT))"
)


class Divergent(NamedTuple):
    """An event that was offered under an id which the session holds already with other bytes.

    `position` counts the offered events from 0; `seq` is the stored one's, None when both were offered in this call.
    """

    position: int
    event_id: str
    seq: int | None


@dataclass(slots=True)
class Appended:
    """What an append did. `new + repeated + len(divergent)` is the number of events offered."""

    new: int = 0
    repeated: int = 0
    divergent: list[Divergent] = field(default_factory=list)
    rebuilt: bool = False


def append(
    store: Store,
    session_key: str,
    session_id: str,
    events: Iterable[tuple[bytes, Any]],
    *,
    now_ms: int,
    observed_ms: int | None = None,
    exact: bool = False,
) -> Appended:
    """Append `events` (JSON text as it is to be stored, parsed form) to a session, inside the caller's transaction.

    An event whose id the session has is not appended: it counts as repeated when its bytes are the stored ones, else it
    is returned as divergent and the caller decides. An event without id is repeated when its exact text is stored.
    Node and window are created as a placeholder when they are missing. `observed_ms` is the modification time of the
    file that the events come from; without it the append counts as a change made now. Raises RefusedError for a
    session whose events lie in a cold archive. The parsed form of a long event is emptied once it is not needed.
    `exact`: every event is stored as it comes, repeated ones too (a session that comes back from its archive).
    """
    if not store.in_transaction():
        raise RuntimeError("events are appended only inside a transaction")
    return _Appender(store, session_key, session_id, now_ms, exact=exact).run(events, observed_ms)


def stream(store: Store, session_id: str, *, after: int = -1) -> Iterator[tuple[int, bytes]]:
    """(seq, JSON text) of the events of a session behind `after`, in order; one row is in memory at a time."""
    sql = f"SELECT seq, {_EVENT_COLUMNS} FROM transcript_events WHERE session_id = ? AND seq > ? ORDER BY seq"
    # A loop of its own would keep a row's columns beside the event until the next row is asked for.
    yield from map(_decoded, store.execute(sql, (session_id, after)))


def _decoded(row: tuple[Any, ...]) -> tuple[int, bytes]:
    return row[0], decode(*row[1:])


def tail(
    store: Store, session_id: str, *, events: int | None = None, max_bytes: int | None = None
) -> list[tuple[int, bytes]]:
    """The last events of a session in order: at most `events` of them, together at most `max_bytes` of JSON text.

    Reads backwards and stops at the limit, so the rest of the session is not touched. The last event always comes, even
    when it is longer than `max_bytes`.
    """
    sql = f"SELECT seq, {_EVENT_COLUMNS} FROM transcript_events WHERE session_id = ? ORDER BY seq DESC"
    bindings: tuple[Any, ...] = (session_id,)
    if events is not None:
        sql, bindings = sql + " LIMIT ?", (session_id, events)
    found: list[tuple[int, bytes]] = []
    total = 0
    for seq, text, packed, size in store.execute(sql, bindings):
        event = decode(text, packed, size)
        total += len(event)
        if max_bytes is not None and found and total > max_bytes:
            break
        found.append((seq, event))
        if max_bytes is not None and total >= max_bytes:
            break
    found.reverse()
    return found


def has_event(store: Store, session_id: str, event_id: str) -> bool:
    """Whether the session holds an event with this id."""
    sql = "SELECT 1 FROM transcript_event_identities WHERE session_id = ? AND event_id = ?"
    return store.value(sql, (session_id, event_id)) is not None


def count(store: Store, session_id: str) -> int:
    """Number of stored events of a session."""
    return store.value("SELECT count(*) FROM transcript_events WHERE session_id = ?", (session_id,))


def extent(store: Store, session_id: str) -> tuple[int, int]:
    """(number, bytes with a line feed behind each) of the stored events of a session."""
    sql = (
        "SELECT count(*), coalesce(sum(coalesce(event_utf8_bytes, octet_length(event_json)) + 1), 0)"
        " FROM transcript_events WHERE session_id = ?"
    )
    found, size_bytes = store.execute(sql, (session_id,)).fetchone() or (0, 0)
    return found, size_bytes


def ensure_root(store: Store, session_key: str, session_id: str, at_ms: int) -> None:
    """Create node (placeholder, `entry_valid` -1) and window of a session where they are missing."""
    store.execute(
        "INSERT INTO session_nodes(session_key, current_session_id, entry_json, entry_valid, updated_at)"
        " VALUES (?, ?, '{}', -1, ?) ON CONFLICT(session_key) DO NOTHING",
        (session_key, session_id, at_ms),
    )
    if store.changes():
        # A trigger has set it to 0 on insertion.
        store.execute("UPDATE session_nodes SET entry_valid = -1 WHERE session_key = ?", (session_key,))
    store.execute(
        "INSERT INTO session_windows(session_id, session_key, session_scope, created_at, updated_at)"
        " VALUES (?, ?, 'conversation', ?, ?) ON CONFLICT(session_id) DO NOTHING",
        (session_id, session_key, at_ms, at_ms),
    )


def new_generation() -> str:
    """A token that names one state of a transcript's past: 32 hexadecimal digits."""
    return secrets.token_hex(16)


class _Appender:
    """One append. `_projecting` is off as soon as an event does not continue the chain; then a rebuild follows."""

    def __init__(self, store: Store, session_key: str, session_id: str, now_ms: int, *, exact: bool) -> None:
        self._exact = exact
        self._store = store
        self._session_key = session_key
        self._session_id = session_id
        self._now_ms = now_ms
        self._result = Appended()
        self._offered_at: int | None = None
        self._last_created_at = now_ms
        self._position = 0
        self._unidentified: _Unidentified | None = None

    def run(self, events: Iterable[tuple[bytes, Any]], observed_ms: int | None) -> Appended:
        self._refuse_cold()
        latest = self._store.value("SELECT max(seq) FROM transcript_events WHERE session_id = ?", (self._session_id,))
        self._next_seq = 0 if latest is None else latest + 1
        self._fresh = latest is None
        state = projections.read_state(self._store, self._session_id)
        self._projecting = not projections.needs_rebuild(self._store, self._session_id, state)
        self._projected_any = False
        self._cursor = projections.cursor_at(self._store, self._session_id, state)
        self._writer = RowWriter(self._store, self._session_id)
        source = iter(events)
        while batch := _batch(source):
            self._append_batch(batch)
        self._finish(observed_ms)
        return self._result

    def _refuse_cold(self) -> None:
        cold = "SELECT archive_name FROM session_transcript_cold_archives WHERE session_id = ?"
        if self._store.value(cold, (self._session_id,)) is not None:
            raise RefusedError(f"the events of session {self._session_id} lie in a cold archive", code="cold_session")

    def _append_batch(self, batch: list[tuple[bytes, Any]]) -> None:
        identities = [identity_of(event) for _, event in batch]
        known = self._known_ids(identities)
        rows: list[tuple[Any, ...]] = []
        identity_rows: list[tuple[Any, ...]] = []
        keys = self._taken_keys(identities)
        offered: dict[str, bytes] = {}
        session_id, now_ms = self._session_id, self._now_ms
        for (text, event), identity in zip(batch, identities, strict=True):
            position = self._position
            self._position += 1
            moment = timestamp_ms(event.get("timestamp")) if type(event) is dict else None
            at = now_ms if moment is None else moment
            if self._exact and identity is not None and (identity.event_id in known or identity.event_id in offered):
                # The first event with an id owns it; what follows from the rows is made of all of them at the end.
                identity, self._projecting = None, False
                self._writer.discard()
            if identity is None:
                if not self._exact and self._is_repeated(text):
                    self._result.repeated += 1
                    continue
            elif identity.event_id in known or identity.event_id in offered:
                self._reject(position, identity.event_id, text, at, known, offered)
                continue
            self._offered_at = at
            seq = self._next_seq
            self._next_seq += 1
            escaped = has_escape(text)
            packed = compressed(text, event, escaped)
            if packed is None:
                rows.append((session_id, seq, text, at, None, len(text), None))
            else:
                rows.append((session_id, seq, None, at, packed[0], len(text), packed[1]))
            if self._projecting:
                self._project(seq, escaped, event, at, identity, len(text) >= LONG_TEXT)
            if identity is not None:
                event_id, kind, parent, key = identity
                offered[event_id] = text
                if key is not None:
                    key = None if key in keys else key
                    keys.add(key)
                identity_rows.append((session_id, event_id, seq, kind, parent, key, at))
            self._last_created_at = at
            if len(text) >= LONG_TEXT and type(event) is dict:
                # A very long event would otherwise stay in memory in every form that it had on its way: the reader
                # still holds its value. Nobody needs it any more.
                event.clear()
                self._store.execute("PRAGMA shrink_memory").fetchall()
                self._writer.spool()
        del text, event
        offered.clear()
        batch.clear()
        self._write(rows, identity_rows)

    def _write(self, rows: list[tuple[Any, ...]], identity_rows: list[tuple[Any, ...]]) -> None:
        if not rows:
            return
        if not self._result.new:
            self._open_session(rows[0][3])
        self._store.executemany(_INSERT_EVENT, rows, keep=max(row[5] for row in rows) < LONG_TEXT)
        self._result.new += len(rows)
        rows.clear()
        self._writer.flush()
        self._store.executemany(INSERT_IDENTITY, storable_rows(identity_rows))

    def _open_session(self, at_ms: int) -> None:
        ensure_root(self._store, self._session_key, self._session_id, at_ms)
        self._store.execute(
            "INSERT INTO transcript_rewrite_watermarks(session_id, generation, updated_at) VALUES (?, ?, ?)"
            " ON CONFLICT(session_id) DO NOTHING",
            (self._session_id, new_generation(), self._now_ms),
        )

    def _project(self, seq: int, escaped: bool, event: Any, at: int, identity: Identity | None, is_long: bool) -> None:
        """Extend the active path by an event that continues the chain, or give up projecting."""
        cursor = self._cursor
        if identity is not None and identity[1] == "message" and _continues(cursor, seq, event):
            row = _extend(cursor, seq, identity[0], event)
        else:
            row = cursor.advance(seq, event)
        if cursor.broken:
            self._projecting = False
            self._writer.discard()
            return
        self._projected_any = True
        found = searchable(event, at, copy=not is_long)
        if found is not None and escaped:
            found = found.storable()
        if row is not None:
            message_position = cursor.message_count - 1 if row[1] else None
            self._writer.add(ActiveRow(cursor.active_count - 1, seq, message_position, int(row[2]), found))
        elif found is not None:
            self._writer.add_search(found)

    def _known_ids(self, identities: list[Identity | None]) -> dict[str, int]:
        """Those ids of the batch that the session holds already, with their seq."""
        if self._fresh and not self._result.new:
            return {}
        ids = tuple(storable(identity.event_id) for identity in identities if identity is not None)
        if not ids:
            return {}
        sql = (
            "SELECT event_id, seq FROM transcript_event_identities"
            " WHERE session_id = ? AND event_id IN (SELECT value FROM carray(?))"
        )
        return dict(self._store.execute(sql, (self._session_id, apsw.carray(ids))))

    def _taken_keys(self, identities: list[Identity | None]) -> set[str | None]:
        """Those idempotency keys of the batch that belong to a stored event; the first owner keeps a key."""
        keys = tuple({identity.idempotency_key for identity in identities if identity and identity.idempotency_key})
        if not keys:
            return set()
        sql = (
            "SELECT message_idempotency_key FROM transcript_event_identities"
            " WHERE session_id = ? AND message_idempotency_key IN (SELECT value FROM carray(?))"
        )
        return {key for (key,) in self._store.execute(sql, (self._session_id, apsw.carray(keys)))}

    def _reject(
        self, position: int, event_id: str, text: bytes, at: int, known: dict[str, int], offered: dict[str, bytes]
    ) -> None:
        """Count an event whose id is taken as repeated or divergent."""
        seq = known.get(event_id)
        if (self._stored_text(seq) if seq is not None else offered[event_id]) == text:
            self._result.repeated += 1
            return
        # The window's time follows every event that was offered to the store, even one that it did not take.
        self._offered_at = at
        self._result.divergent.append(Divergent(position, event_id, seq))

    def _stored_text(self, seq: int) -> bytes:
        sql = f"SELECT {_EVENT_COLUMNS} FROM transcript_events WHERE session_id = ? AND seq = ?"
        return decode(*self._store.execute(sql, (self._session_id, seq)).fetchone())

    def _is_repeated(self, text: bytes) -> bool:
        if self._unidentified is None:
            self._unidentified = _Unidentified(self._store, self._session_id)
        return not self._unidentified.add(text)

    def _finish(self, observed_ms: int | None) -> None:
        store, session_id = self._store, self._session_id
        if self._offered_at is not None:
            store.execute(
                "UPDATE session_windows SET updated_at = ? WHERE session_id = ?", (self._offered_at, session_id)
            )
        if not self._projecting:
            projections.rebuild(store, session_id, self._now_ms)
            self._result.rebuilt = True
        elif self._projected_any:
            cursor = self._cursor
            state = IndexState(cursor.indexed_seq, cursor.leaf_id, 0, cursor.active_count, cursor.message_count)
            projections.write_state(store, session_id, state, self._last_created_at)
        if observed_ms is not None:
            _observe(store, session_id, observed_ms)
        elif self._result.new:
            touch(store, session_id, self._now_ms)


def _continues(cursor: Cursor, seq: int, event: dict[str, Any]) -> bool:
    """Whether a message with an id is the plain next link of the chain: the case that needs no other rule."""
    leaf = cursor.leaf_id
    return (
        seq == cursor.indexed_seq + 1
        and seq > 0
        and "appendMode" not in event
        and event.get("parentId", event) == leaf
        and (leaf is not None or cursor.active_count == 0)
    )


def _extend(cursor: Cursor, seq: int, event_id: str, event: dict[str, Any]) -> Position:
    """What `Cursor.advance` does in that case, without asking for the event's kind again."""
    has_message = "message" in event
    message = event.get("message")
    cursor.indexed_seq = seq
    cursor.leaf_id = event_id
    cursor.active_count += 1
    cursor.message_count += has_message
    return Position(seq, has_message, not (type(message) is dict and message.get("excludeFromContext") is True))


def touch(store: Store, session_id: str, now_ms: int) -> None:
    """Mark that the transcript changed now; the mark always moves forward (store format §3.3, session_windows)."""
    store.execute(
        "UPDATE session_windows SET transcript_updated_at = max(?, coalesce(transcript_updated_at, -1) + 1,"
        " coalesce(transcript_observed_at, -1) + 1) WHERE session_id = ?",
        (now_ms, session_id),
    )


def _observe(store: Store, session_id: str, observed_ms: int) -> None:
    """Mark the time at which the source of the transcript was changed, unless a later one is known."""
    store.execute(
        "UPDATE session_windows SET transcript_updated_at = ?1"
        " WHERE session_id = ?2 AND (transcript_updated_at IS NULL OR transcript_updated_at < ?1)",
        (max(observed_ms, 0), session_id),
    )


class _Unidentified:
    """The exact texts of a session's events that have no id, as digests in a temporary table (disk, not memory)."""

    def __init__(self, store: Store, session_id: str) -> None:
        self._store = store
        store.execute("CREATE TEMP TABLE IF NOT EXISTS unidentified(digest BLOB PRIMARY KEY) WITHOUT ROWID")
        store.execute("DELETE FROM temp.unidentified")
        sql = (
            f"SELECT {_EVENT_COLUMNS} FROM transcript_events AS event WHERE session_id = ? AND NOT EXISTS ("
            "SELECT 1 FROM transcript_event_identities AS known"
            " WHERE known.session_id = event.session_id AND known.seq = event.seq)"
        )
        for row in store.execute(sql, (session_id,)):
            self.add(decode(*row))

    def add(self, text: bytes) -> bool:
        """Remember `text`; False when it was known."""
        digest = hashlib.blake2b(text, digest_size=16).digest()
        self._store.execute("INSERT OR IGNORE INTO temp.unidentified VALUES (?)", (digest,))
        return bool(self._store.changes())


def _batch(source: Iterator[tuple[bytes, Any]]) -> list[tuple[bytes, Any]]:
    """The next events of `source` up to the limits of a batch; empty at its end."""
    batch = []
    size = 0
    for item in islice(source, BATCH_EVENTS):
        batch.append(item)
        size += len(item[0])
        if size >= BATCH_BYTES:
            break
    return batch
