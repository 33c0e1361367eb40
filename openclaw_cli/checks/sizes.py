"""The biggest events and sessions of a store, and those that are too big."""

from __future__ import annotations

import heapq
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from openclaw_cli.checks import remedies
from openclaw_cli.checks.finding import Finding
from openclaw_cli.checks.scope import Scope, Session
from openclaw_cli.migration.inspecting import described

SHOWN = 5
"""How many of the biggest are listed in a report, large or not."""

LARGE_EVENT_BYTES = 4 * 2**20
"""Beyond it an event is never stored compressed, and each reader holds it whole (store format §3.3)."""


@dataclass(slots=True)
class Biggest:
    """The biggest events and sessions of one store so far, as heaps of (bytes, order, document)."""

    events: list[tuple[int, int, dict[str, Any]]] = field(default_factory=list)
    sessions: list[tuple[int, int, dict[str, Any]]] = field(default_factory=list)
    _order: int = 0

    def add(self, heap: list[tuple[int, int, dict[str, Any]]], size_bytes: int, make: Any) -> None:
        """Keep it if it is one of the biggest; `make` gives its document."""
        if len(heap) < SHOWN or size_bytes > heap[0][0]:
            self._order += 1
            heapq.heappush(heap, (size_bytes, -self._order, make()))
            if len(heap) > SHOWN:
                heapq.heappop(heap)

    def as_json(self) -> dict[str, list[dict[str, Any]]]:
        """Both lists, the biggest first."""
        return {
            "events": [document for *_, document in sorted(self.events, reverse=True)],
            "sessions": [document for *_, document in sorted(self.sessions, reverse=True)],
        }


class Sizes:
    """Sizes of one session's events."""

    def __init__(self, scope: Scope, session: Session, biggest: Biggest) -> None:
        self._scope = scope
        self._session = session
        self._biggest = biggest
        self._count = self._bytes = 0
        self._large: list[dict[str, Any]] = []
        self._large_count = 0

    def feed(self, seq: int, size_bytes: int, event: Any) -> None:
        """The next event."""
        self._count += 1
        self._bytes += size_bytes

        def document() -> dict[str, Any]:
            kind, tool = described(event)
            return {
                "sessionId": self._session.session_id, "seq": seq, "bytes": size_bytes, "type": kind, "tool": tool,
            }  # fmt: skip

        self._biggest.add(self._biggest.events, size_bytes, document)
        if size_bytes > LARGE_EVENT_BYTES:
            self._large_count += 1
            if len(self._large) < SHOWN:
                self._large.append(document())

    def findings(self) -> Iterator[Finding]:
        """Events and sessions that are too big."""
        session = self._session
        row = {"sessionId": session.session_id, "sessionKey": session.key, "events": self._count, "bytes": self._bytes}
        self._biggest.add(self._biggest.sessions, self._bytes, lambda: row)
        command = remedies.of(self._scope.agent_id, "inspect --top 10")
        if self._large_count:
            message = (
                f"session {session.session_id}: {self._large_count} event(s) of more than {LARGE_EVENT_BYTES} bytes"
            )
            evidence = {"count": self._large_count, "events": self._large, "limitBytes": LARGE_EVENT_BYTES}
            advice = "Mostly a tool's output: let the tool write a file, or cut what it returns"
            yield Finding("event_large", "warning", message, session.key, evidence, advice, command)
        most = self._scope.settings.most_active_bytes
        if session.entry is not None and self._bytes >= most:
            message = f"{session.key}: its transcript has {self._bytes} bytes, the limit is {most}"
            advice = "Reset the session; the old one stays as history. The limit: maxActiveTranscriptBytes, else 20mb"
            yield Finding(
                "session_large", "warning", message, session.key, {**row, "limitBytes": most}, advice, command
            )
