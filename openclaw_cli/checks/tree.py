"""Breaks between events and their parents, and transcripts whose beginning OpenClaw refuses (store format §5)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from openclaw_cli.checks import remedies
from openclaw_cli.checks.finding import Finding, Places
from openclaw_cli.checks.scope import Scope, Session
from openclaw_cli.sessions.repairing import OLDEST_VERSION
from openclaw_cli.storage.connection import Store

_BREAKS = (
    "SELECT i.seq, i.event_id, i.parent_id, (SELECT p.seq FROM transcript_event_identities p"
    " WHERE p.session_id = i.session_id AND p.event_id = i.parent_id) AS parent_seq"
    " FROM transcript_event_identities i WHERE i.session_id = ? AND i.parent_id IS NOT NULL"
    " AND (parent_seq IS NULL OR parent_seq >= i.seq) ORDER BY i.seq"
)


class Beginning:
    """Looks at the first event of a session, which is its header."""

    def __init__(self, scope: Scope, session: Session) -> None:
        self._scope = scope
        self._session = session
        self._found: Finding | None = None

    def feed(self, seq: int, size_bytes: int, event: Any) -> None:
        """The next event."""
        if seq != 0:
            return
        session_id = self._session.session_id
        evidence: dict[str, Any] = {"sessionId": session_id, "seq": 0}
        advice = "A stored event is never changed; a successor goes on in its place, the old one stays as history"
        command = _successor(self._scope, self._session)
        if not isinstance(event, dict) or event.get("type") != "session":
            message = f"session {session_id}: its first event is no session header"
            self._found = Finding("header_missing", "warning", message, self._session.key, evidence, advice, command)
            return
        version = event.get("version")
        number = version if isinstance(version, int) and not isinstance(version, bool) else 1
        if number < OLDEST_VERSION:
            message = (
                f"session {session_id}: stored in transcript version {number}, the runtime reads {OLDEST_VERSION} and 4"
            )
            self._found = Finding(
                "transcript_version_old",
                "warning",
                message,
                self._session.key,
                {**evidence, "version": number},
                advice,
                command,
            )

    def findings(self) -> Iterator[Finding]:
        """At most one finding."""
        if self._found is not None:
            yield self._found


def parents(store: Store, scope: Scope, session: Session) -> Iterator[Finding]:
    """Events whose parent is not in their session, or comes after them."""
    gone, later = Places(), Places()
    for seq, event_id, parent_id, parent_seq in store.execute(_BREAKS, (session.session_id,)):
        place = {"seq": seq, "eventId": event_id, "parentId": parent_id}
        if parent_seq is None:
            gone.add(place)
        else:
            later.add({**place, "parentSeq": parent_seq})
    command = _successor(scope, session)
    if gone.count:
        message = f"session {session.session_id}: {gone.count} event(s) whose parent is not in the session"
        advice = (
            "Readers go on from the event before. If damage in the original cost the parent: doctor restore, then"
            " doctor import --salvage"
        )
        evidence = gone.evidence("events", sessionId=session.session_id)
        yield Finding("parent_missing", "warning", message, session.key, evidence, advice, command)
    if later.count:
        message = f"session {session.session_id}: {later.count} event(s) stand before their parent"
        advice = "OpenClaw's own readers disagree about the branch of such events; nothing is lost"
        evidence = later.evidence("events", sessionId=session.session_id)
        command = remedies.of(scope.agent_id, "validate")
        yield Finding("parent_later", "warning", message, session.key, evidence, advice, command)


def _successor(scope: Scope, session: Session) -> str:
    """What mends a current transcript; history is not gone on with, and validate says what it has."""
    if session.entry is None:
        return remedies.of(scope.agent_id, "validate")
    return remedies.successor(scope.agent_id, session.key)
