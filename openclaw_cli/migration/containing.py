"""Whether a store holds the events of a source, in their order: what `doctor validate` compares."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from openclaw_cli.storage import events
from openclaw_cli.storage.connection import Store
from openclaw_cli.storage.encoding import decode
from openclaw_cli.storage.projections import storable

MAX_LISTED = 100
"""Events of each kind that a session's report names; beyond them only their number is kept."""

_HELD_BYTES = 1 << 20

_EVENT_OF_ID = (
    "SELECT seq, event_json, event_zstd, event_utf8_bytes FROM transcript_events"
    " JOIN transcript_event_identities USING (session_id, seq) WHERE session_id = ? AND event_id = ?"
)
_EVENTS_WITHOUT_ID = (
    "SELECT seq, event_json, event_zstd, event_utf8_bytes FROM transcript_events AS event WHERE session_id = ?"
    " AND NOT EXISTS (SELECT 1 FROM transcript_event_identities AS known"
    " WHERE known.session_id = event.session_id AND known.seq = event.seq)"
)


def _compared(text: bytes) -> bytes:
    """What stands for a row's text beside that of a source: a long one would be in memory twice."""
    return text if len(text) <= _HELD_BYTES else hashlib.sha256(text).digest()


class Place(NamedTuple):
    """An event of a source: its id, None without one, and its line."""

    event_id: str | None
    line: int

    def as_json(self) -> dict[str, Any]:
        """The form in the report."""
        return {"eventId": self.event_id, "line": self.line}


@dataclass(slots=True)
class Places:
    """Events of one kind: how many there are, and the first of them."""

    total: int = 0
    listed: list[Place] = field(default_factory=list)

    def add(self, place: Place) -> None:
        """Count one more."""
        self.total += 1
        if len(self.listed) < MAX_LISTED:
            self.listed.append(place)


class Containment:
    """Compares the events of one source, given in order, with those that a store has of a session.

    Equal rows go by in step, one of each in memory; only what is out of step is looked up. Of the rows that were met a
    bit each is held, so that an exact repetition in the source is told from a row that stands in another order.
    """

    def __init__(self, store: Store | None, session_id: str) -> None:
        self.records = 0
        self.contained = 0
        self.missing = Places()
        self.different = Places()
        self.disordered = Places()
        self._session_id = session_id
        self._stored = 0 if store is None else events.count(store, session_id)
        self._store = store if self._stored else None
        self._rows = events.stream(store, session_id) if store is not None and self._stored else iter(())
        self._next = self._following()
        self._last = -1
        self._met = bytearray()
        self._met_rows = 0
        self._without_id: dict[int, int] | None = None

    @property
    def extra(self) -> int:
        """Stored events that the source does not have: turns since then, or another branch."""
        return self._stored - self._met_rows

    @property
    def is_whole(self) -> bool:
        """Whether every event of the source is stored as it is, in the same order."""
        return not (self.missing.total or self.different.total or self.disordered.total)

    def add(self, line: int, text: bytes, value: Any) -> None:
        """Look for the next event of the source; `text` is what an import would store for it."""
        self.records += 1
        if self._next is not None and self._next[1] == _compared(text):
            seq = self._next[0]
            self._next = self._following()
            self._take(seq, Place(None, line))
            return
        identity = events.identity_of(value)
        place = Place(None if identity is None else identity.event_id, line)
        found = self._of_text(text) if identity is None else self._of_id(identity.event_id)
        if found is None:
            self.missing.add(place)
            return
        seq, stored = found
        if stored is not None and stored != text:
            self.different.add(place)
            self._meet(seq)
            return
        while self._next is not None and self._next[0] <= seq:
            self._next = self._following()
        self._take(seq, place)

    def _following(self) -> tuple[int, bytes] | None:
        """The next stored row: its number, and what of its text is compared."""
        row = next(self._rows, None)
        return None if row is None else (row[0], _compared(row[1]))

    def _take(self, seq: int, place: Place) -> None:
        """The stored row `seq` is that of the source; an exact repetition needs no place of its own."""
        self.contained += 1
        is_new = self._meet(seq)
        if seq > self._last:
            self._last = seq
        elif is_new:
            self.disordered.add(place)

    def _meet(self, seq: int) -> bool:
        """Mark a stored row; False when it was marked before."""
        index, bit = seq >> 3, 1 << (seq & 7)
        if index >= len(self._met):
            self._met.extend(bytes(index + 1 - len(self._met)))
        if self._met[index] & bit:
            return False
        self._met[index] |= bit
        self._met_rows += 1
        return True

    def _of_id(self, event_id: str) -> tuple[int, bytes | None] | None:
        if self._store is None:
            return None
        row = self._store.execute(_EVENT_OF_ID, (self._session_id, storable(event_id))).fetchone()
        return None if row is None else (row[0], decode(*row[1:]))

    def _of_text(self, text: bytes) -> tuple[int, bytes | None] | None:
        """By the text alone; there are few such rows: the header and rows of unknown form."""
        if self._without_id is None:
            rows = () if self._store is None else self._store.execute(_EVENTS_WITHOUT_ID, (self._session_id,))
            self._without_id = {hash(decode(*row[1:])): row[0] for row in rows}
        seq = self._without_id.get(hash(text))
        return None if seq is None else (seq, None)
