"""`sessions fork KEY --repair`: a corrected successor of a stored transcript that OpenClaw does not go on with.

The stored session stays as it is, as history of its key; the key goes on with the successor, which has a header that
the runtime reads, entries in the present form, and a parent for every entry. Ids of entries stay.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from openclaw_cli import jstext
from openclaw_cli.config.values import iso_utc
from openclaw_cli.errors import CorruptError, NotFoundError, RefusedError
from openclaw_cli.faults import Step, reached
from openclaw_cli.sessions import repairing
from openclaw_cli.sessions.repairing import Need
from openclaw_cli.storage import events, sessions
from openclaw_cli.storage.connection import Store
from openclaw_cli.storage.projections import parse
from openclaw_cli.transcript.runtime_context import MARKERS
from openclaw_cli.transcript.tree import Tree
from openclaw_cli.transcript.upgrade import CURRENT_VERSION, Plan, Upgrader, plan

NEWEST_VERSION = 4
"""Version of the header of a new session (compaction §1)."""

LINKED_VERSION = 2
"""The first version whose entries have ids and parents."""


@dataclass(frozen=True, slots=True)
class RepairPlan:
    """What a repair would do. `needs` is empty where nothing is wrong; then nothing is written.

    `version`: 4; 3 where texts have marks of hidden context, which version 4 would show to the model (compaction §1).
    """

    key: str
    session_id: str
    needs: tuple[Need, ...]
    entry: dict[str, Any]
    header: dict[str, Any]
    found: Plan
    events: int
    mended: int


@dataclass(frozen=True, slots=True)
class Successor:
    """The session that was written."""

    session_id: str
    events: int
    mended: int


def decide(store: Store, key: str, now_ms: int) -> RepairPlan:
    """Look at the current session of `key`; nothing is written.

    Raises `NotFoundError` for a key without an entry, `RefusedError` while a run of it goes on, `CorruptError` when an
    event cannot be read.
    """
    row = store.execute(
        "SELECT current_session_id, entry_json FROM session_nodes WHERE session_key = ? AND entry_json <> '{}'", (key,)
    ).fetchone()
    if row is None:
        raise NotFoundError(f"{store.path} has no session with the key {key}", hint="`openclaw-cli sessions list`")
    session_id, entry = row[0], jstext.parse(row[1].encode("utf-8"))
    if entry.get("status") == "running":
        raise RefusedError(f"a run of {key} goes on", hint="wait until it has ended", code="session_running")
    needs = tuple(repairing.needs(store, session_id))
    found, header, marked = _survey(store, session_id) if needs else (Plan(-1, CURRENT_VERSION), None, False)
    version = CURRENT_VERSION if marked else NEWEST_VERSION
    mended = sum(need.count for need in needs if need.code == "parent_missing")
    return RepairPlan(
        key,
        session_id,
        needs,
        entry,
        _header(store, session_id, header, version, now_ms),
        found,
        events.count(store, session_id),
        mended,
    )


def act(store: Store, wanted: RepairPlan, now_ms: int) -> Successor:
    """Write the successor in one transaction and look at it before that ends. The caller owns the state directory.

    Raises `CorruptError` when the successor is not what it should be; nothing is changed then.
    """
    new_id = session_id_at(now_ms)
    with store.transaction():
        # Decided again under the write lock: the session may have grown since.
        wanted = decide(store, wanted.key, now_ms)
        entry = wanted.entry | {"sessionId": new_id, "updatedAt": now_ms, "previousSessionId": wanted.session_id}
        sessions.write_entry(store, wanted.key, entry, now_ms=now_ms, reason="recovery", prefer_index=True)
        mender = _Mender(lambda name: events.has_event(store, wanted.session_id, name))
        source = _rows(store, wanted, new_id, mender)
        appended = events.append(store, wanted.key, new_id, source, now_ms=now_ms)
        _require_sound(store, wanted, new_id, appended.new)
    reached(Step.SUCCESSOR_WRITTEN)
    return Successor(new_id, appended.new, mender.mended)


def session_id_at(now_ms: int) -> str:
    """A new session id: a UUID of version 7, which begins with its time (compaction §1)."""
    value = (now_ms & (1 << 48) - 1) << 80 | 7 << 76 | secrets.randbits(12) << 64 | 2 << 62 | secrets.randbits(62)
    digits = f"{value:032x}"
    return "-".join((digits[:8], digits[8:12], digits[12:16], digits[16:20], digits[20:]))


class _Mender:
    """Gives entries whose parent is not in the session the one that readers go on from."""

    def __init__(self, present: Callable[[str], bool]) -> None:
        self._present = present
        self._tree = Tree()
        self.mended = 0

    def feed(self, seq: int, event: Any) -> bool:
        """Mend the next event in place; whether it was changed."""
        leaf = self._tree.leaf_id
        node = self._tree.add(seq, event)
        parent = event.get("parentId") if isinstance(event, dict) else None
        if not isinstance(parent, str) or parent in self._tree.nodes or self._present(parent):
            return False
        settled = node.parent if node is not None else None
        event["parentId"] = settled if settled in self._tree.nodes else leaf
        self.mended += 1
        return True


def _survey(store: Store, session_id: str) -> tuple[Plan, dict[str, Any] | None, bool]:
    """Where the header stands and what it says, and whether any text has marks of hidden context."""
    found = plan(_Row(parse(text)) for _, text in events.stream(store, session_id))
    header, linked, marked = None, False, False
    for index, (_, text) in enumerate(events.stream(store, session_id)):
        marked |= any(mark in text for mark in MARKERS)
        value = parse(text)
        if index == found.header_index:
            header = value
        linked |= isinstance(value, dict) and isinstance(value.get("id"), str) and "parentId" in value
    if linked and found.version < LINKED_VERSION:
        # Entries of version 1 all get new ids, and so would those of a transcript without header; these have theirs.
        found = Plan(found.header_index, LINKED_VERSION)
    return found, header, marked


def _header(store: Store, session_id: str, header: dict[str, Any] | None, version: int, now_ms: int) -> dict[str, Any]:
    """The header of the successor: what the old one said, the present version; without one what is known."""
    if header is None:
        created_at = store.value("SELECT created_at FROM session_windows WHERE session_id = ?", (session_id,))
        header = {"timestamp": iso_utc(now_ms if created_at is None else created_at), "cwd": ""}
    kept = {name: value for name, value in header.items() if name not in ("type", "version", "id", "sessionId")}
    return {"type": "session", "version": version, "id": session_id, **kept}


def _rows(store: Store, wanted: RepairPlan, new_id: str, mender: _Mender) -> Iterator[tuple[bytes, Any]]:
    """The events of the successor, in order."""
    header = wanted.header | {"id": new_id}
    yield jstext.dumps(header), header
    upgrader = Upgrader(str(store.path), new_id, wanted.found)
    for index, (seq, text) in enumerate(events.stream(store, wanted.session_id)):
        value, changed = upgrader.feed(_Row(parse(text)))
        if index == wanted.found.header_index:
            continue
        changed = mender.feed(seq, value) or changed
        yield (jstext.dumps(value) if changed else text), value


@dataclass(frozen=True, slots=True)
class _Row:
    value: Any


def _require_sound(store: Store, wanted: RepairPlan, new_id: str, written: int) -> None:
    expected = wanted.events + (wanted.found.header_index < 0)
    left = repairing.needs(store, new_id)
    if written != expected or left:
        raise CorruptError(
            f"the successor of session {wanted.session_id} has {written} of {expected} event(s) and"
            f" {len(left)} fault(s); nothing was changed",
            hint="see what openclaw-cli doctor check says of this session",
        )
