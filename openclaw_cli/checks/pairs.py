"""Tool calls without result and results without call (compaction §2.4, field reports 37–40)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from openclaw_cli.checks import remedies
from openclaw_cli.checks.finding import Finding, Places
from openclaw_cli.checks.scope import Scope, Session
from openclaw_cli.transcript.entries import message_of
from openclaw_cli.transcript.pairing import facts_of

_ADVICE = (
    "OpenClaw leaves such halves out, or fills them in, each time that it reads; the stored events stay. If the"
    " archived original has the other half, validate names it"
)


class Pairs:
    """Pairs calls and results by id, in the order of events. A call of a turn that failed waits for nothing."""

    def __init__(self, scope: Scope, session: Session) -> None:
        self._scope = scope
        self._session = session
        self._open: dict[str, int] = {}
        # Of ids only their hash is kept: a long session has many, and each may be long.
        self._answered: set[int] = set()
        self._without_call = Places()
        self._last_turn = -1

    def feed(self, seq: int, size_bytes: int, event: Any) -> None:
        """The next event."""
        message = message_of(event)
        if message is None:
            return
        facts = facts_of(message)
        if facts.role == "assistant":
            self._last_turn = seq
            if message.get("stopReason") not in ("aborted", "error"):
                self._open.update((identity, seq) for identity, _ in facts.calls)
            else:
                self._answered.update(hash(identity) for identity, _ in facts.calls)
        elif facts.role == "toolResult":
            self._answer(seq, facts.result_id)

    def _answer(self, seq: int, identity: str | None) -> None:
        if identity is None and len(self._open) == 1:
            identity = next(iter(self._open))  # Old results have no id; with one open call there is no doubt.
        if identity is not None and self._open.pop(identity, None) is not None:
            self._answered.add(hash(identity))
        elif identity is None or hash(identity) not in self._answered:
            self._without_call.add({"seq": seq, "toolCallId": identity})

    def findings(self) -> Iterator[Finding]:
        """What has no partner. A call of the last turn of a session that runs may still get its result."""
        command = remedies.of(self._scope.agent_id, "validate")
        key, session_id = self._session.key, self._session.session_id
        waiting = Places()
        for identity, seq in self._open.items():
            if not (self._session.running and seq == self._last_turn):
                waiting.add({"seq": seq, "toolCallId": identity})
        if waiting.count:
            message = f"session {session_id}: {waiting.count} tool call(s) without a result"
            evidence = waiting.evidence("calls", sessionId=session_id)
            yield Finding("call_without_result", "warning", message, key, evidence, _ADVICE, command)
        if self._without_call.count:
            message = f"session {session_id}: {self._without_call.count} tool result(s) without a call"
            evidence = self._without_call.evidence("results", sessionId=session_id)
            yield Finding("result_without_call", "warning", message, key, evidence, _ADVICE, command)
