"""`sessions undelete`: a session comes back from its archive, never over one that is there.

What is written is compared with the archive before the commit: the events of the store, hashed, are the content.
"""

from __future__ import annotations

import hashlib
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, BinaryIO

from openclaw_cli import archive, jstext
from openclaw_cli.config import Target
from openclaw_cli.errors import CorruptError, RefusedError
from openclaw_cli.retention import catalogue
from openclaw_cli.retention.audit import Audit
from openclaw_cli.retention.catalogue import Archive
from openclaw_cli.sessions.results import Result, refused
from openclaw_cli.storage import archives, connection, events, removal, trajectories
from openclaw_cli.storage.connection import Store
from openclaw_cli.storage.projections import parse
from openclaw_cli.storage.sessions import write_entry
from openclaw_cli.transcript.entries import timestamp_ms


@dataclass(frozen=True, slots=True)
class Session:
    """One session to bring back. `transcript` is None where only a trajectory was archived."""

    session_id: str
    session_key: str
    transcript: Archive | None
    others: tuple[Archive, ...] = ()

    @property
    def made_ms(self) -> int:
        """When it was removed."""
        first = self.transcript if self.transcript is not None else self.others[0]
        return first.kept.made_ms


@dataclass(slots=True)
class Chosen:
    """What a name means: the sessions of one removal, the one with the row's entry first."""

    sessions: list[Session] = field(default_factory=list)


def choose(found: Sequence[Archive], wanted: str, agent_id: str) -> Chosen | None:
    """The sessions that KEY, ID or ARCHIVE means; of a key those of its latest removal. None: there is none."""
    usable = [one for one in found if one.reason in ("deleted", "reset")]
    named = [one for one in usable if wanted in (one.name, str(one.path))]
    if named:
        return Chosen(_sessions([one for one in usable if _belongs(one, named[0])], agent_id))
    of_id = [one for one in usable if one.session_id == wanted]
    if of_id:
        newest = max(of_id, key=lambda one: one.kept.made_ms)
        return Chosen(_sessions([one for one in of_id if _belongs(one, newest)], agent_id))
    of_key = [one for one in usable if one.session_key == wanted and one.reason == "deleted"]
    if not of_key:
        return None
    latest = max(one.kept.made_ms for one in of_key)
    return Chosen(_sessions([one for one in of_key if one.kept.made_ms == latest], agent_id))


def _belongs(one: Archive, first: Archive) -> bool:
    """Whether two archives are of one session and one removal."""
    return one.session_id == first.session_id and one.kept.made_ms == first.kept.made_ms


def _sessions(found: Sequence[Archive], agent_id: str) -> list[Session]:
    made: list[Session] = []
    for session_id in dict.fromkeys(one.session_id for one in found):
        parts = [one for one in found if one.session_id == session_id]
        transcript = next((one for one in parts if one.kind == "jsonl"), None)
        key = next((one.session_key for one in parts if one.session_key), f"agent:{agent_id}:recovered:{session_id}")
        others = tuple(one for one in parts if one.kind != "jsonl")
        made.append(Session(session_id, key, transcript, others))
    return sorted(made, key=lambda each: _entry_of(each) is None)


def _entry_of(session: Session) -> str | None:
    note = None if session.transcript is None else session.transcript.note
    return None if note is None else note.entry


def verified(chosen: Chosen, target: Target) -> None:
    """Raises CorruptError for the first archive that does not hold what it should."""
    for session in chosen.sessions:
        for one in filter(None, (session.transcript, *session.others)):
            for issue in catalogue.verify(one, target).issues:
                if issue.severity == "error":
                    raise CorruptError(issue.message, hint="openclaw-cli archives verify", archive=one.name)


def act(
    store: Store, target: Target, wanted: str, chosen: Chosen, audit: Audit, now_ms: int, *, dry_run: bool
) -> Result:
    """Bring the sessions back, all in one transaction. Raises CorruptError, and what opening an archive raises."""
    taken = [one.session_id for one in chosen.sessions if removal.snapshot(store, one.session_id) is not None]
    if taken:
        return refused(wanted, f"session {taken[0]} is in the store; nothing is written over it")
    verified(chosen, target)
    first = chosen.sessions[0]
    facts: dict[str, Any] = {"sessionKey": first.session_key, "sessionId": first.session_id}
    if dry_run:
        return Result(wanted, "would_undelete", facts=facts | {"sessions": [one.session_id for one in chosen.sessions]})
    count = 0
    with store.transaction():
        for session in chosen.sessions:
            count += _restore(store, target, session, now_ms)
            audit.add("undeleted", session.session_key, session.session_id, "undelete")
        audit.flush()
    current = store.value("SELECT current_session_id FROM session_nodes WHERE session_key = ?", (first.session_key,))
    facts |= {"events": count, "sessions": [one.session_id for one in chosen.sessions]}
    return Result(wanted, "undeleted", facts=facts | {"current": current == first.session_id})


def _restore(store: Store, target: Target, session: Session, now_ms: int) -> int:
    """One session inside the transaction; gives the number of its events."""
    note = None if session.transcript is None else session.transcript.note
    window = {} if note is None else note.window
    at_ms = int(window.get("updated_at") or session.made_ms)
    _write_row(store, target, session, at_ms, now_ms)
    written = 0
    if session.transcript is not None:
        written = _write_events(store, target, session, session.transcript, at_ms)
    for one in session.others:
        with content(one, target) as stream:
            if one.kind == "trajectory":
                trajectories.insert(store, session.session_id, _pairs(stream), file_ms=at_ms)
            else:
                trajectories.insert_parent_stream(store, session.session_id, _pairs(stream), at_ms)
    removal.restore_window(store, session.session_id, window)
    return written


def _write_row(store: Store, target: Target, session: Session, at_ms: int, now_ms: int) -> None:
    """The key's row, where the key has none now; else the session becomes history of the key."""
    sql = "SELECT 1 FROM session_nodes WHERE session_key = ? AND entry_json <> '{}'"
    if store.value(sql, (session.session_key,)) is not None:
        events.ensure_root(store, session.session_key, session.session_id, at_ms)
        return
    text = _entry_of(session)
    entry = None if text is None else jstext.parse(text.encode("utf-8"))
    if isinstance(entry, dict) and entry.get("sessionId") == session.session_id:
        write_entry(store, session.session_key, entry, entry_text=text.encode("utf-8") if text else None, now_ms=now_ms)
        return
    if session.transcript is not None and session.transcript.note is not None:
        # History of a key whose row is gone: it waits for its key as OpenClaw keeps it, under a placeholder.
        events.ensure_root(store, session.session_key, session.session_id, at_ms)
        return
    started = _started_ms(session, target) or at_ms
    entry = {"sessionId": session.session_id, "sessionStartedAt": started, "updatedAt": at_ms}
    write_entry(store, session.session_key, {**entry, "delivery": {"kind": "none"}}, now_ms=now_ms)


def _started_ms(session: Session, target: Target) -> int | None:
    if session.transcript is None:
        return None
    with content(session.transcript, target) as stream:
        for _, value in _pairs(stream):
            return timestamp_ms(value.get("timestamp")) if isinstance(value, dict) else None
    return None


def _write_events(store: Store, target: Target, session: Session, one: Archive, at_ms: int) -> int:
    wanted = hashlib.sha256()

    def counted(stream: BinaryIO) -> Iterator[tuple[bytes, Any]]:
        for text, value in _pairs(stream):
            wanted.update(text + b"\n")
            yield text, value

    with content(one, target) as stream:
        events.append(store, session.session_key, session.session_id, counted(stream), now_ms=at_ms, exact=True)
    found, number = hashlib.sha256(), 0
    for _, text in events.stream(store, session.session_id):
        found.update(text + b"\n")
        number += 1
    if found.digest() != wanted.digest():
        raise RefusedError(
            f"{one.name}: what was written is not what the archive holds; nothing was changed",
            hint="import the transcript instead: zstd -dc ARCHIVE > FILE.jsonl",
        )
    return number


@contextmanager
def content(one: Archive, target: Target) -> Iterator[BinaryIO]:
    """The unpacked bytes of an archive: of its file, else of the row that has the same bytes."""
    if one.path is not None:
        with archive.open_stream(one.path) as stream:
            yield stream
        return
    with tempfile.TemporaryFile() as spooled:
        with connection.open_read(target.sqlite_path, agent_id=target.agent_id) as store:
            archives.copy_blob(store, one.name, spooled.write)
        spooled.seek(0)
        yield archive.unpack(spooled, one.name)


def _pairs(stream: BinaryIO) -> Iterator[tuple[bytes, Any]]:
    for line in stream:
        text = line.removesuffix(b"\n")
        if text:
            yield text, parse(text)
