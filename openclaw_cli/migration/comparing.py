"""What a store already holds, seen by a dry run: stored rows, stored events, and ids that occur twice."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

from openclaw_cli.config.paths import Target
from openclaw_cli.errors import CorruptError, Issue, OpenClawError
from openclaw_cli.migration.plan import KeyPlan
from openclaw_cli.migration.reporting import TargetReport
from openclaw_cli.storage import connection, events, sessions
from openclaw_cli.storage.connection import Store
from openclaw_cli.storage.encoding import decode
from openclaw_cli.storage.projections import storable

_EVENT_OF_ID = (
    "SELECT event_json, event_zstd, event_utf8_bytes FROM transcript_events"
    " JOIN transcript_event_identities USING (session_id, seq) WHERE session_id = ? AND event_id = ?"
)
_EVENTS_WITHOUT_ID = (
    "SELECT event_json, event_zstd, event_utf8_bytes FROM transcript_events AS event WHERE session_id = ?"
    " AND NOT EXISTS (SELECT 1 FROM transcript_event_identities AS known"
    " WHERE known.session_id = event.session_id AND known.seq = event.seq)"
)


class Existing:
    """The databases that an import would write into, opened for reading.

    What cannot be read is an issue of the report, damage its failure. With `writes` whatever an import would not write
    into is raised, as it would be there.
    """

    def __init__(self, target_of: Callable[[str], Target], report: TargetReport, *, writes: bool = False) -> None:
        self._target_of = target_of
        self._report = report
        self._writes = writes
        self._open: dict[str, Store | None] = {}

    def of(self, agent_id: str, own: Target) -> Store | None:
        """The database of an agent, None where there is none yet."""
        if agent_id not in self._open:
            target = own if own.agent_id == agent_id else self._target_of(agent_id)
            self._open[agent_id] = self._readable(target)
        return self._open[agent_id]

    def entries(self, target: Target) -> int:
        """Number of session keys in the target's own database."""
        store = self.of(target.agent_id, target)
        return 0 if store is None else sum(1 for _ in sessions.read_nodes(store, columns=["session_key"]))

    def _readable(self, target: Target) -> Store | None:
        if not target.sqlite_path.exists():
            return None
        if self._writes:
            connection.check_writable(target.sqlite_path, agent_id=target.agent_id)
        try:
            store = connection.open_read(target.sqlite_path, agent_id=target.agent_id)
        except OpenClawError as error:
            self._report.issues.append(Issue(f"sqlite_{error.code}", "error", error.message))
            if isinstance(error, CorruptError):
                self._report.failure = error
            return None
        self._report.issues.extend(store.issues)
        return store

    def __enter__(self) -> Existing:
        return self

    def __exit__(self, *_: object) -> None:
        for store in self._open.values():
            if store is not None:
                store.close()


class Duplicates:
    """Finds ids under which a transcript offers different events, against itself and against the store.

    Holds two hashes per event, no text: about 150 bytes for each.
    """

    def __init__(self, store: Store | None, session_id: str) -> None:
        self._seen: dict[int, int] = {}
        self._session_id = session_id
        self._store = store if store is not None and events.count(store, session_id) else None
        self._position = 0
        self._without_id: set[int] | None = None
        self.new = 0
        self.divergent: list[tuple[int, str]] = []

    def add(self, text: bytes, value: Any) -> None:
        """Look at the next event."""
        position = self._position
        self._position += 1
        identity = events.identity_of(value)
        if identity is None:
            known = self._texts_without_id()
            self.new += hash(text) not in known
            known.add(hash(text))
            return
        event_id, content = identity.event_id, hash(text)
        # As in an append: what the store has under an id counts, else the first event of the file.
        stored = self._stored(event_id)
        if stored is None:
            self.new += hash(event_id) not in self._seen
            if self._seen.setdefault(hash(event_id), content) == content:
                return
        if stored != text:
            self.divergent.append((position, event_id))

    def _texts_without_id(self) -> set[int]:
        """Hashes of the texts that have no id, of store and file; there are few: the header and rows of odd form."""
        if self._without_id is None:
            rows = self._store.execute(_EVENTS_WITHOUT_ID, (self._session_id,)) if self._store is not None else ()
            self._without_id = {hash(decode(*row)) for row in rows}
        return self._without_id

    def _stored(self, event_id: str) -> bytes | None:
        if self._store is None:
            return None
        row = self._store.execute(_EVENT_OF_ID, (self._session_id, storable(event_id))).fetchone()
        return None if row is None else decode(*row)


def stale_issues(store: Store, keyed: KeyPlan) -> list[Issue]:
    """`stale_index` when the store's row of a key is newer than the index's and was kept."""
    sql = "SELECT current_session_id, updated_at FROM session_nodes WHERE session_key = ? AND entry_valid = 1"
    row = store.execute(sql, (keyed.key,)).fetchone()
    if row is None or row[1] <= keyed.updated_at:
        return []
    message = "the row in the store is newer than the one in the index and is kept (--prefer-index turns this round)"
    facts = {"storedSessionId": row[0], "storedUpdatedAt": row[1], "indexUpdatedAt": keyed.updated_at}
    return [Issue("stale_index", "warning", message, keyed.key, facts)]


def anchors(store: Store, session_id: str, values: Iterable[Any], new: int) -> Iterator[tuple[int, int]]:
    """Where the last `new` events of a session belong by the order of a file: (seq, seq of the one before, or -1).

    `values` are the events of the file. What follows the last event that was stored before stays at the end, as does an
    event without an id.
    """
    first_new = int(store.value("SELECT max(seq) FROM transcript_events WHERE session_id = ?", (session_id,))) + 1 - new
    sql = "SELECT seq FROM transcript_event_identities WHERE session_id = ? AND event_id = ?"
    anchor, waiting = -1, dict[int, int]()
    for value in values:
        identity = events.identity_of(value)
        if identity is None:
            continue
        seq = store.value(sql, (session_id, storable(identity.event_id)))
        if seq is None or seq >= first_new:
            if seq is not None:
                waiting.setdefault(seq, anchor)
            continue
        yield from waiting.items()
        waiting.clear()
        anchor = seq
