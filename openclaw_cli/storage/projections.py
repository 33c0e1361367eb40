"""What the store derives from a session's events: the active path, the search rows and the index state.

`Searchable` and `ActiveRow` are the rows; `forward` makes them while a chain only grows at its end, `resolved` makes
them from the whole tree, `rebuild` writes the latter. Rules: store format §3.3 (tables), §3.4 step 7, §5 "Tree" and
§10 "Tree", "Times"; the tree itself is in `transcript.tree`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, NamedTuple

import orjson

from openclaw_cli.storage.connection import Store
from openclaw_cli.storage.encoding import decode
from openclaw_cli.transcript.entries import JS_SPACE, TEXT_TYPES, timestamp_ms
from openclaw_cli.transcript.tree import Cursor, Tree, flags_of, is_projected

BATCH_ROWS = 512
"""Rows that are gathered for one executemany."""

LONG_TEXT = 1024 * 1024
"""Characters or bytes from which on a text is worth some care with memory."""

INSERT_ACTIVE = (
    "INSERT INTO session_transcript_active_events"
    "(session_id, active_position, event_seq, message_position, context_eligible) VALUES (?, ?, ?, ?, ?)"
)
INSERT_MAP = "INSERT INTO session_transcript_fts_rows(id, session_id, message_id) VALUES (?, ?, ?)"
INSERT_FTS = (
    "INSERT INTO session_transcript_fts(rowid, text, session_id, message_id, role, timestamp) VALUES (?, ?, ?, ?, ?, ?)"
)
_MAKE_SPOOL = "CREATE TEMP TABLE IF NOT EXISTS long_texts(id INTEGER PRIMARY KEY, text BLOB)"
_SPOOL = "INSERT INTO temp.long_texts(id, text) VALUES (?, ?)"
_INSERT_SPOOLED = (
    "INSERT INTO session_transcript_fts(rowid, text, session_id, message_id, role, timestamp)"
    " SELECT id, CAST(text AS TEXT), ?, ?, ?, ? FROM temp.long_texts WHERE id = ?"
)
_WRITE_STATE = (
    "INSERT INTO session_transcript_index_state(session_id, indexed_seq, leaf_event_id, needs_rebuild,"
    " active_event_count, active_message_count, updated_at) VALUES (?, ?, ?, ?, ?, ?, ?)"
    " ON CONFLICT(session_id) DO UPDATE SET indexed_seq = excluded.indexed_seq, leaf_event_id = excluded.leaf_event_id,"
    " needs_rebuild = excluded.needs_rebuild, active_event_count = excluded.active_event_count,"
    " active_message_count = excluded.active_message_count, updated_at = excluded.updated_at"
)

_LONE_SURROGATE = re.compile("[\ud800-\udfff]")


class Searchable(NamedTuple):
    """One row of the search index; `timestamp` is in milliseconds and stored as a real number.

    `margins`: characters at both ends of `text` that do not belong to it (only with `searchable(…, copy=False)`).
    """

    text: str
    message_id: str
    role: str
    timestamp: float
    margins: tuple[int, int] = (0, 0)

    def storable(self) -> Searchable:
        """The same without lone surrogates. Only an event whose text has a `\\u` escape can hold one."""
        return self._replace(text=storable(self.text), message_id=storable(self.message_id))


class ActiveRow(NamedTuple):
    """One row of the active path, with its search row if it has one."""

    position: int
    seq: int
    message_position: int | None
    context_eligible: int
    search: Searchable | None


class IndexState(NamedTuple):
    """Where the projections of one session stand (`session_transcript_index_state` without the time)."""

    indexed_seq: int
    leaf_event_id: str | None
    needs_rebuild: int
    active_event_count: int
    active_message_count: int


def storable(text: str) -> str:
    """`text` as UTF-8 can hold it: a lone surrogate becomes U+FFFD (store format §10, "Times")."""
    return _LONE_SURROGATE.sub("\ufffd", text)


def created_at(event: Any, now_ms: int) -> int:
    """`transcript_events.created_at`: the event's own time in epoch milliseconds, else `now_ms`."""
    own = timestamp_ms(event.get("timestamp")) if type(event) is dict else None
    return now_ms if own is None else own


def searchable(event: Any, event_created_at: int, *, copy: bool = True) -> Searchable | None:
    """The search row of `event`: a user's or an assistant's message with an id and text that is not blank.

    `copy=False`: the text may be a string of the event with margins, for a text too long to be copied.
    """
    if type(event) is not dict or event.get("type") != "message":
        return None
    message, identity = event.get("message"), event.get("id")
    if type(message) is not dict or type(identity) is not str:
        return None
    role = message.get("role")
    identity = identity.strip(JS_SPACE)
    if not identity or role not in ("user", "assistant"):
        return None
    own = None if copy else _one_text(message)
    if own is not None and len(own) >= LONG_TEXT:
        margins = _margins(own)
        return Searchable(own, identity, role, float(event_created_at), margins) if sum(margins) < len(own) else None
    text = message_text(message)
    return Searchable(text, identity, role, float(event_created_at)) if text else None


def message_text(message: dict[str, Any]) -> str:
    """The text of a message that is searched: trimmed when it is one string, text blocks untrimmed on own lines."""
    own = _one_text(message)
    if own is not None:
        return own.strip(JS_SPACE)
    content = message.get("content")
    if type(content) is not list:
        return ""
    return "\n".join(filter(None, map(_block_text, content)))


def _one_text(message: dict[str, Any]) -> str | None:
    """The text of a message whose text is one string."""
    content = message.get("content")
    if type(content) is str:
        return content
    text = message.get("text")
    return text if type(text) is str else None


def _margins(text: str) -> tuple[int, int]:
    """Number of characters that trimming takes at the beginning and at the end of `text`."""
    start, end = 0, len(text)
    while start < end and text[start] in JS_SPACE:
        start += 1
    while end > start and text[end - 1] in JS_SPACE:
        end -= 1
    return start, len(text) - end


def _block_text(block: Any) -> str | None:
    if type(block) is not dict or type(block.get("type")) is not str or block["type"] not in TEXT_TYPES:
        return None
    text = block.get("text")
    return text if type(text) is str and text.strip(JS_SPACE) else None


def read_state(store: Store, session_id: str) -> IndexState | None:
    """The stored index state of a session."""
    row = store.execute(
        "SELECT indexed_seq, leaf_event_id, needs_rebuild, active_event_count, active_message_count"
        " FROM session_transcript_index_state WHERE session_id = ?",
        (session_id,),
    ).fetchone()
    return None if row is None else IndexState(*row)


def needs_rebuild(store: Store, session_id: str, state: IndexState | None) -> bool:
    """Whether the projections do not describe the stored events as they are now."""
    latest = store.value("SELECT max(seq) FROM transcript_events WHERE session_id = ?", (session_id,))
    if state is None or state.needs_rebuild or state.indexed_seq != latest:
        return latest is not None
    pending = "SELECT 1 FROM session_transcript_active_events WHERE session_id = ? AND context_eligible IS NULL LIMIT 1"
    return store.value(pending, (session_id,)) is not None


def cursor_at(store: Store, session_id: str, state: IndexState | None) -> Cursor:
    """The cursor that goes on behind `state`.

    A state does not say whether its path only grew or was resolved over the tree. Where the path ends at the leaf both
    go on alike; where it does not (a control chose another place, a side entry came last), a resolved one must be
    resolved again, and the events themselves tell which it is.
    """
    if state is None:
        return Cursor()
    cursor = Cursor(state.indexed_seq, state.leaf_event_id, state.active_event_count, state.active_message_count)
    cursor.broken = not _ends_at_leaf(store, session_id, state) and not _has_only_grown(store, session_id)
    return cursor


def _ends_at_leaf(store: Store, session_id: str, state: IndexState) -> bool:
    path = "SELECT event_seq FROM session_transcript_active_events WHERE session_id = ?"
    last = store.value(f"{path} ORDER BY active_position DESC LIMIT 1", (session_id,))
    leaf = "SELECT seq FROM transcript_event_identities WHERE session_id = ? AND event_id = ?"
    return last is not None and last == store.value(leaf, (session_id, state.leaf_event_id))


def _has_only_grown(store: Store, session_id: str) -> bool:
    cursor = Cursor()
    for seq, event in navigation_facts(store, session_id):
        cursor.advance(seq, event)
        if cursor.broken:
            return False
    return True


class Resolved:
    """The projections of one session, resolved over its whole tree.

    Only navigation facts are held (one small tuple per linked event); `rows` reads each active event again when it
    comes to it. `state` is complete once `rows` is exhausted.
    """

    def __init__(self, store: Store, session_id: str) -> None:
        self._store = store
        self._session_id = session_id
        self._tree = Tree()
        self._indexed_seq = -1
        self._active = 0
        self._messages = 0
        for seq, event in navigation_facts(store, session_id):
            self._tree.add(seq, event)
            self._indexed_seq = seq

    def rows(self) -> Iterator[ActiveRow]:
        """The active rows in order."""
        for seq, event, stored_at in self._events():
            if not is_projected(event):
                continue
            flags = flags_of(event)
            found = searchable(event, stored_at)
            row = ActiveRow(
                self._active,
                seq,
                self._messages if flags & 1 else None,
                0 if flags & 2 else 1,
                None if found is None else found.storable(),
            )
            self._active += 1
            self._messages += flags & 1
            yield row

    @property
    def state(self) -> IndexState:
        """The index state that goes with the rows read so far."""
        return IndexState(self._indexed_seq, self._tree.append_parent_id, 0, self._active, self._messages)

    def _events(self) -> Iterator[tuple[int, Any, int]]:
        path = self._tree.path()
        columns = "SELECT seq, event_json, event_zstd, event_utf8_bytes, created_at FROM transcript_events"
        if path:
            for node in path:
                row = self._store.execute(
                    f"{columns} WHERE session_id = ? AND seq = ?", (self._session_id, node.seq)
                ).fetchone()
                yield row[0], parse(decode(*row[1:4])), row[4]
        elif not self._tree.has_leaf_control:
            # Nothing can be linked: the whole transcript is active, unless a control chose the empty path.
            for row in self._store.execute(f"{columns} WHERE session_id = ? ORDER BY seq", (self._session_id,)):
                yield row[0], parse(decode(*row[1:4])), row[4]


def navigation_facts(store: Store, session_id: str) -> Iterator[tuple[int, Any]]:
    """(seq, event) in order, where a compressed event comes as its stored navigation facts and is not unpacked."""
    sql = (
        "SELECT seq, coalesce(event_json, json_extract(navigation_json, '$.navigation')) FROM transcript_events"
        " WHERE session_id = ? ORDER BY seq"
    )
    for seq, text in store.execute(sql, (session_id,)):
        yield seq, parse(text)


def parse(text: bytes | str) -> Any:
    """An event's JSON text as a value; what orjson cannot hold goes to the slower, complete parser."""
    try:
        return orjson.loads(text)
    except orjson.JSONDecodeError:
        from openclaw_cli import jstext  # few events need it

        return jstext.parse(text if isinstance(text, bytes) else text.encode())


def delete(store: Store, session_id: str) -> None:
    """Remove the active path and the search rows of a session (a trigger takes the index entries along)."""
    store.execute("DELETE FROM session_transcript_fts_rows WHERE session_id = ?", (session_id,))
    store.execute("DELETE FROM session_transcript_active_events WHERE session_id = ?", (session_id,))


def rebuild(store: Store, session_id: str, now_ms: int) -> IndexState:
    """Derive the projections of a session anew from all its events, inside the caller's transaction."""
    delete(store, session_id)
    resolved = Resolved(store, session_id)
    writer = RowWriter(store, session_id)
    for row in resolved.rows():
        writer.add(row)
        if len(writer) >= BATCH_ROWS:
            writer.flush()
    writer.flush()
    state = resolved.state
    if state.indexed_seq >= 0:
        write_state(store, session_id, state, now_ms)
    return state


def write_state(store: Store, session_id: str, state: IndexState, updated_at: int) -> None:
    """Store where the projections of a session stand."""
    leaf = None if state.leaf_event_id is None else storable(state.leaf_event_id)
    store.execute(_WRITE_STATE, (session_id, *state._replace(leaf_event_id=leaf), updated_at))


class RowWriter:
    """Gathers active and search rows of one session and writes them in batches.

    The search index copies a text twice while it takes it in, so a long one waits for that in a temporary table: in
    memory there are never more than three forms of it at once.
    """

    __slots__ = ("_active", "_fts", "_long", "_map", "_next_id", "_session_id", "_spooled", "_store")

    def __init__(self, store: Store, session_id: str) -> None:
        self._store = store
        self._session_id = session_id
        self._active: list[tuple[Any, ...]] = []
        self._map: list[tuple[Any, ...]] = []
        self._fts: list[tuple[Any, ...]] = []
        self._long: list[tuple[int, Searchable]] = []
        self._spooled: list[tuple[Any, ...]] = []
        self._next_id: int | None = None

    def __len__(self) -> int:
        return len(self._active)

    def add(self, row: ActiveRow) -> None:
        """Take one row."""
        self._active.append((self._session_id, *row[:4]))
        if row[4] is not None:
            self.add_search(row[4])

    def add_search(self, found: Searchable) -> None:
        """Take one search row without lone surrogates; its number in the index is assigned here."""
        if self._next_id is None:
            self._next_id = self._store.value("SELECT coalesce(max(id), 0) + 1 FROM session_transcript_fts_rows")
        number, session_id = self._next_id, self._session_id
        self._next_id += 1
        text, message_id, role, timestamp, _ = found
        self._map.append((number, session_id, message_id))
        if len(text) < LONG_TEXT:
            self._fts.append((number, text, session_id, message_id, role, timestamp))
        else:
            self._long.append((number, found))

    def spool(self) -> None:
        """Put the long texts aside; whoever holds the event lets go of it before."""
        while self._long:
            number, found = self._long.pop()
            self._spooled.append((self._session_id, *found[1:4], number))
            text, (before, behind) = found.text, found.margins
            start, end = len(text[:before].encode()), len(text[len(text) - behind :].encode())
            data = text.encode()
            del found, text
            data = data[start : len(data) - end]
            self._store.execute(_MAKE_SPOOL)
            self._store.execute_once(_SPOOL, (number, data))

    def flush(self) -> None:
        """Write what was gathered; the events of the rows must be stored already."""
        self.spool()
        if self._map:
            self._store.executemany(INSERT_MAP, self._map)
            self._store.executemany(INSERT_FTS, self._fts)
        for row in self._spooled:
            self._store.execute_once(_INSERT_SPOOLED, row)
            self._store.execute("DELETE FROM temp.long_texts WHERE id = ?", row[-1:])
        if self._active:
            self._store.executemany(INSERT_ACTIVE, self._active)
        self.discard()

    def discard(self) -> None:
        """Forget what was gathered and not written."""
        if self._spooled:
            self._store.execute("DELETE FROM temp.long_texts")
        self._active, self._map, self._fts, self._long, self._spooled = [], [], [], [], []
