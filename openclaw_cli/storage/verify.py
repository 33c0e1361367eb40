"""Checking a store: does everything that is derived agree with what it is derived from?

`verify` derives identities, active path, search rows and index state again from the events, one session at a time and
in temporary tables on disk, and compares row by row; the mirrored columns of nodes and windows are compared with their
entries. `integrity` is SQLite's own check. Times that nothing stored determines (`updated_at` of the index state and of
the windows, `transcript_updated_at`) are not compared.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

from openclaw_cli.errors import CorruptError
from openclaw_cli.storage import columns, projections
from openclaw_cli.storage.connection import Store
from openclaw_cli.storage.encoding import decode
from openclaw_cli.storage.identities import Identity, identity_of
from openclaw_cli.storage.navigation import navigation
from openclaw_cli.storage.projections import ActiveRow, IndexState, Resolved, parse, searchable, storable
from openclaw_cli.transcript.entries import timestamp_ms
from openclaw_cli.transcript.tree import Cursor

BATCH_ROWS = 512

_TEMP_TABLES = (
    "CREATE TEMP TABLE IF NOT EXISTS expected_identities(event_id TEXT PRIMARY KEY, seq, event_type, parent_id,"
    " message_idempotency_key, created_at) WITHOUT ROWID",
    "CREATE TEMP TABLE IF NOT EXISTS expected_active(active_position INTEGER PRIMARY KEY, event_seq, message_position,"
    " context_eligible)",
    "CREATE TEMP TABLE IF NOT EXISTS expected_search(message_id TEXT, text, role, timestamp)",
)
_STATE_COLUMNS = IndexState._fields


class Mismatch(NamedTuple):
    """One stored value that is not what its source says.

    `key` names the row (values of its key columns). A row that is missing has `actual` None in its key column, one
    that should not be there `expected` None. Text of a transcript is shown only by its digest.
    """

    table: str
    key: tuple[Any, ...]
    column: str
    expected: Any
    actual: Any


def verify(store: Store) -> Iterator[Mismatch]:
    """Everything that does not agree, session by session. The store must be open with temporary tables allowed.

    Runs on one snapshot. Raises CorruptError when an event cannot be decoded or parsed.
    """
    with _snapshot(store):
        for statement in _TEMP_TABLES:
            store.execute(statement)
        yield from verify_nodes(store)
        sessions = "SELECT session_id FROM session_windows ORDER BY session_id"
        for (session_id,) in store.execute(sessions):
            yield from verify_session(store, session_id)
        yield from _orphans(store)


def verify_session(store: Store, session_id: str) -> Iterator[Mismatch]:
    """The part of `verify` that concerns the events of one session; nothing for a session without stored events."""
    for statement in _TEMP_TABLES:
        store.execute(statement)
    for table in ("expected_identities", "expected_active", "expected_search"):
        store.execute(f"DELETE FROM temp.{table}")
    derived = _Derived(store, session_id)
    yield from derived.run()
    if derived.events == 0:
        return
    if store.value("SELECT 1 FROM transcript_rewrite_watermarks WHERE session_id = ?", (session_id,)) is None:
        yield Mismatch("transcript_rewrite_watermarks", (session_id,), "session_id", session_id, None)
    stored = projections.read_state(store, session_id)
    state = derived.settle(stored)
    yield from _compare_state(session_id, state, stored)
    yield from _compare_identities(store, session_id)
    yield from _compare_active(store, session_id)
    yield from _compare_search(store, session_id)


def integrity(store: Store, *, quick: bool = False) -> list[str]:
    """What SQLite's own checks find: pages, indexes, CHECKs, search index (`integrity_check`), then foreign keys.

    `quick` leaves out the comparison of indexes with their tables. Empty when all is well.
    """
    check = "quick_check" if quick else "integrity_check"
    found = [text for (text,) in store.execute(f"PRAGMA {check}") if text != "ok"]
    keys = store.execute("PRAGMA foreign_key_check")
    found.extend(f"row {row} of {table} refers to no row of {parent}" for table, row, parent, _ in keys)
    return found


class _Derived:
    """What the events of one session say, gathered in the temporary tables."""

    def __init__(self, store: Store, session_id: str) -> None:
        self._store = store
        self._session_id = session_id
        self._cursor = Cursor()
        self._identities: list[tuple[Any, ...]] = []
        self._active: list[tuple[Any, ...]] = []
        self._search: list[tuple[Any, ...]] = []
        self.events = 0

    def run(self) -> Iterator[Mismatch]:
        """Read every event once; gives what is wrong with the event rows themselves."""
        sql = (
            "SELECT seq, event_json, event_zstd, event_utf8_bytes, navigation_json, created_at FROM transcript_events"
            " WHERE session_id = ? ORDER BY seq"
        )
        for seq, text, packed, size, facts, at in self._store.execute(sql, (self._session_id,)):
            raw = decode(text, packed, size)
            del text  # A long event is in memory often enough without it.
            event = self._parsed(raw, seq)
            yield from self._compare_event(seq, raw, event, (packed, size, facts, at))
            self._take(seq, event, at)
            self.events += 1
            if self.events % BATCH_ROWS == 0:
                self._flush()
        self._flush()

    def settle(self, stored: IndexState | None) -> IndexState:
        """The index state that must be stored.

        A chain that only grew is projected as it grew; a rebuilt one is resolved over the tree. The two differ for
        messages without a usable id, and the stored counts say which one the store has. (A chain that such entries
        continued after a rebuild is neither; no program writes entries without id or parent.)
        """
        cursor = self._cursor
        grown = IndexState(cursor.indexed_seq, cursor.leaf_id, 0, cursor.active_count, cursor.message_count)
        if not cursor.broken:
            if stored is None or _same_path(grown, stored):
                return grown
            resolved = Resolved(self._store, self._session_id)
            for _ in resolved.rows():
                pass
            if not _same_path(resolved.state, stored):
                return grown
        return self._resolve()

    def _resolve(self) -> IndexState:
        """Put the rows of the resolved tree in place of those of the grown chain."""
        self._store.execute("DELETE FROM temp.expected_active")
        self._store.execute("DELETE FROM temp.expected_search")
        resolved = Resolved(self._store, self._session_id)
        for row in resolved.rows():
            self._gather(row)
            if len(self._active) >= BATCH_ROWS:
                self._flush()
        self._flush()
        return resolved.state

    def _parsed(self, raw: bytes, seq: int) -> Any:
        try:
            return parse(raw)
        except ValueError as error:
            raise CorruptError(f"event {seq} of session {self._session_id} is no JSON", seq=seq) from error

    def _compare_event(
        self, seq: int, raw: bytes, event: Any, stored: tuple[bytes | None, int | None, str | None, int]
    ) -> Iterator[Mismatch]:
        packed, size, facts, at = stored
        wanted: dict[str, tuple[Any, Any]] = {"event_utf8_bytes": (len(raw), size)}
        own_time = timestamp_ms(event.get("timestamp")) if type(event) is dict else None
        if own_time is not None:
            wanted["created_at"] = (own_time, at)
        if packed is not None:
            made = navigation(raw, event) if type(event) is dict else None
            wanted["navigation_json"] = (_digest(made), _digest(facts))
        if seq != self.events:
            yield Mismatch("transcript_events", (self._session_id, seq), "seq", self.events, seq)
        yield from _differences("transcript_events", (self._session_id, seq), wanted)

    def _take(self, seq: int, event: Any, at: int) -> None:
        identity = identity_of(event)
        if identity is not None:
            self._identities.append(_identity_row(identity, seq, at))
        cursor = self._cursor
        row = cursor.advance(seq, event)
        if cursor.broken:
            return
        found = searchable(event, at)
        if row is not None:
            message_position = cursor.message_count - 1 if row.is_message else None
            active = ActiveRow(cursor.active_count - 1, seq, message_position, int(row.context_eligible), found)
            self._gather(active)
        elif found is not None:
            self._search.append(_search_row(found))

    def _gather(self, row: ActiveRow) -> None:
        self._active.append(row[:4])
        if row.search is not None:
            self._search.append(_search_row(row.search))

    def _flush(self) -> None:
        store = self._store
        # A repeated id has one row only, the first event's.
        store.executemany("INSERT OR IGNORE INTO temp.expected_identities VALUES (?,?,?,?,?,?)", self._identities)
        store.executemany("INSERT INTO temp.expected_active VALUES (?,?,?,?)", self._active)
        store.executemany("INSERT INTO temp.expected_search VALUES (?,?,?,?)", self._search)
        self._identities, self._active, self._search = [], [], []


@contextmanager
def _snapshot(store: Store) -> Iterator[None]:
    """One view of the store for the whole check; inside a transaction that is open already, that one."""
    if store.in_transaction():
        yield
        return
    store.execute("PRAGMA temp_store=FILE").fetchall()
    store.execute("BEGIN DEFERRED")
    try:
        yield
    finally:
        store.execute("ROLLBACK")


def _same_path(derived: IndexState, stored: IndexState) -> bool:
    """Whether both have the same number of active rows and messages."""
    return derived.active_event_count == stored.active_event_count and (
        derived.active_message_count == stored.active_message_count
    )


def _digest(text: str | bytes | None) -> str | None:
    """A short name for a text that must not be shown."""
    if text is None:
        return None
    raw = text.encode() if isinstance(text, str) else text
    return f"{len(raw)} bytes, blake2 {hashlib.blake2b(raw, digest_size=8).hexdigest()}"


def _identity_row(identity: Identity, seq: int, at: int) -> tuple[Any, ...]:
    texts = [storable(value) if value is not None else None for value in identity]
    return (texts[0], seq, *texts[1:], at)


def _search_row(found: projections.Searchable) -> tuple[Any, ...]:
    return storable(found.message_id), _digest(storable(found.text)), found.role, found.timestamp


def _differences(table: str, key: tuple[Any, ...], values: dict[str, tuple[Any, Any]]) -> Iterator[Mismatch]:
    for column, (expected, actual) in values.items():
        if expected != actual:
            yield Mismatch(table, key, column, expected, actual)


def _paired(
    expected: Iterator[tuple[Any, ...]], actual: Iterator[tuple[Any, ...]]
) -> Iterator[tuple[tuple[Any, ...] | None, tuple[Any, ...] | None]]:
    """Rows of two sorted streams side by side, by their first column; None where one of them has no such row."""
    left, right = next(expected, None), next(actual, None)
    while left is not None or right is not None:
        order = _order(left, right)
        yield (left if order <= 0 else None), (right if order >= 0 else None)
        if order <= 0:
            left = next(expected, None)
        if order >= 0:
            right = next(actual, None)


def _order(left: tuple[Any, ...] | None, right: tuple[Any, ...] | None) -> int:
    """Which row comes first: -1 the left one, 1 the right one, 0 both have the same key. NULL keys come first."""
    if left is None or right is None:
        return 1 if left is None else -1
    a, b = left[0], right[0]
    if a == b:
        return 0
    if a is None or b is None:
        return -1 if a is None else 1
    return -1 if a < b else 1


def _compare_rows(
    table: str,
    session_id: str,
    names: Sequence[str],
    expected: Iterator[tuple[Any, ...]],
    actual: Iterator[tuple[Any, ...]],
) -> Iterator[Mismatch]:
    """Two sorted streams of rows whose columns are `names`, the key first."""
    for left, right in _paired(expected, actual):
        if left is None or right is None:
            present = left if left is not None else right
            key = present[0]  # type: ignore[index]  # one of the two is a row
            wanted, found = (key, None) if right is None else (None, key)
            yield Mismatch(table, (session_id, key), names[0], wanted, found)
            continue
        values = {name: (left[index], right[index]) for index, name in enumerate(names)}
        yield from _differences(table, (session_id, left[0]), values)


def _compare_state(session_id: str, state: IndexState, stored: IndexState | None) -> Iterator[Mismatch]:
    table = "session_transcript_index_state"
    if stored is None:
        yield Mismatch(table, (session_id,), "session_id", session_id, None)
        return
    leaf = None if state.leaf_event_id is None else storable(state.leaf_event_id)
    state = state._replace(leaf_event_id=leaf)
    yield from _differences(
        table, (session_id,), dict(zip(_STATE_COLUMNS, zip(state, stored, strict=True), strict=True))
    )


def _compare_identities(store: Store, session_id: str) -> Iterator[Mismatch]:
    names = ("event_id", "seq", "event_type", "parent_id", "message_idempotency_key", "created_at")
    listed = ", ".join(names)
    table = "transcript_event_identities"
    expected = store.execute(f"SELECT {listed} FROM temp.expected_identities ORDER BY event_id")
    actual = store.execute(f"SELECT {listed} FROM main.{table} WHERE session_id = ? ORDER BY event_id", (session_id,))
    owner = f"SELECT 1 FROM main.{table} WHERE session_id = ? AND message_idempotency_key = ? AND event_id <> ?"
    for mismatch in _compare_rows(table, session_id, names, expected, actual):
        if mismatch.column == "message_idempotency_key" and mismatch.actual is None:
            # Of several messages with one key only one owns it; the others stand without.
            event_id = mismatch.key[1]
            if store.value(owner, (session_id, mismatch.expected, event_id)) is not None:
                continue
        yield mismatch


def _compare_active(store: Store, session_id: str) -> Iterator[Mismatch]:
    names = ("active_position", "event_seq", "message_position", "context_eligible")
    listed = ", ".join(names)
    table = "session_transcript_active_events"
    expected = store.execute(f"SELECT {listed} FROM temp.expected_active ORDER BY active_position")
    actual = store.execute(
        f"SELECT {listed} FROM main.{table} WHERE session_id = ? ORDER BY active_position", (session_id,)
    )
    yield from _compare_rows(table, session_id, names, expected, actual)


def _compare_search(store: Store, session_id: str) -> Iterator[Mismatch]:
    expected = store.execute("SELECT message_id, text, role, timestamp FROM temp.expected_search ORDER BY 1, 2")
    actual = store.execute(
        "SELECT known.message_id, found.rowid, found.text, found.session_id, found.message_id, found.role,"
        " found.timestamp FROM main.session_transcript_fts_rows AS known"
        " LEFT JOIN main.session_transcript_fts AS found ON found.rowid = known.id"
        " WHERE known.session_id = ? ORDER BY known.message_id, known.id",
        (session_id,),
    )
    for left, right in _paired(expected, actual):
        if left is None or right is None:
            key = (left or right)[0]  # type: ignore[index]  # one of the two is a row
            wanted, found = (key, None) if right is None else (None, key)
            yield Mismatch("session_transcript_fts_rows", (session_id, key), "message_id", wanted, found)
            continue
        yield from _compare_search_row(session_id, left, right)


def _compare_search_row(session_id: str, left: tuple[Any, ...], right: tuple[Any, ...]) -> Iterator[Mismatch]:
    message_id, text, role, timestamp = left
    _, number, stored_text, stored_session, stored_message, stored_role, stored_time = right
    key = (session_id, message_id)
    if number is None:
        yield Mismatch("session_transcript_fts", key, "rowid", "a row", None)
        return
    values = {
        "text": (text, _digest(stored_text)),
        "session_id": (session_id, stored_session),
        "message_id": (message_id, stored_message),
        "role": (role, stored_role),
        "timestamp": (timestamp, stored_time),
    }
    yield from _differences("session_transcript_fts", key, values)


def _orphans(store: Store) -> Iterator[Mismatch]:
    """Derived rows that belong to no stored event."""
    for table in ("session_transcript_active_events", "session_transcript_fts_rows", "session_transcript_index_state"):
        sql = (
            f"SELECT DISTINCT session_id FROM main.{table} AS derived WHERE NOT EXISTS ("
            "SELECT 1 FROM main.transcript_events AS event WHERE event.session_id = derived.session_id)"
            " AND NOT EXISTS (SELECT 1 FROM main.session_transcript_cold_archives AS cold"
            " WHERE cold.session_id = derived.session_id)"
        )
        for (session_id,) in store.execute(sql):
            yield Mismatch(table, (session_id,), "session_id", None, session_id)
    unmapped = (
        "SELECT id FROM main.session_transcript_fts_docsize"
        " WHERE id NOT IN (SELECT id FROM main.session_transcript_fts_rows)"
    )
    for (number,) in store.execute(unmapped):
        yield Mismatch("session_transcript_fts", (number,), "rowid", None, number)


def verify_nodes(store: Store) -> Iterator[Mismatch]:
    """Mirrored columns of every node with its entry, and of the window of its current session; no event is read."""
    names = columns.NODE_PROJECTIONS
    sql = f"SELECT session_key, entry_json, entry_valid, {', '.join(names)} FROM session_nodes ORDER BY session_key"
    for session_key, entry_json, valid, *stored in store.execute(sql):
        key = (session_key,)
        if valid == -1 and entry_json == "{}":
            continue
        if valid != 1:
            yield Mismatch("session_nodes", key, "entry_valid", 1, valid)
        entry = _entry(entry_json)
        if entry is None:
            yield Mismatch("session_nodes", key, "entry_json", "an object", "something else")
            continue
        expected = columns.expected_node_columns(session_key, entry)
        yield from _differences(
            "session_nodes", key, {name: (expected[name], value) for name, value in zip(names, stored, strict=True)}
        )
        yield from _verify_window(store, session_key, entry)


def _entry(entry_json: str) -> dict[str, Any] | None:
    try:
        entry = parse(entry_json)
    except ValueError:
        return None
    return entry if type(entry) is dict else None


def _verify_window(store: Store, session_key: str, entry: dict[str, Any]) -> Iterator[Mismatch]:
    """The window of the entry's session; one that several keys share mirrors whichever was written last."""
    session_id = entry.get("sessionId")
    expected = columns.expected_window_columns(session_key, entry)
    provenance = columns.provenance_columns(entry)
    names = (*expected, *provenance)
    keys = "(SELECT count(*) FROM session_nodes WHERE current_session_id = session_windows.session_id)"
    sql = f"SELECT session_key, {keys}, {', '.join(names)} FROM session_windows WHERE session_id = ?"
    row = store.execute(sql, (session_id,)).fetchone() if type(session_id) is str else None
    if row is None:
        yield Mismatch("session_windows", (session_id,), "session_id", session_id, None)
        return
    if row[0] != session_key or row[1] > 1:
        return
    stored = dict(zip(names, row[2:], strict=True))
    yield from _differences(
        "session_windows", (session_id,), {name: (value, stored[name]) for name, value in expected.items()}
    )
    if stored["session_entry_provenance"] == 1:
        # A later entry adds to these and takes nothing away, so only what the entry names must be there.
        named = {name: (value, stored[name]) for name, value in provenance.items() if value}
        yield from _differences("session_windows", (session_id,), named)
