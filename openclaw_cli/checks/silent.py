"""Silent turns that were not silent: the token NO_REPLY with other text around it (documents; compaction §11).

An answer that is the token and nothing else is not delivered. With text behind or before it, at least that text is.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from openclaw_cli.checks.finding import Finding, Places
from openclaw_cli.checks.scope import Scope, Session
from openclaw_cli.transcript.entries import JS_SPACE, message_of, text_of

TOKEN = "NO_REPLY"
_LONGEST_EDGE = 4096
"""Characters at both ends of an answer that are looked at; the token stands at an end or does not count."""

_EDGE = r"[\s*_`~\"'“”‘’.,!?:;()\[\]{}<>-]*"
_WHOLE = re.compile(rf"{_EDGE}{TOKEN}(?:[\s]+{TOKEN})*{_EDGE}", re.IGNORECASE)
_PAYLOAD = re.compile(rf'\{{\s*"action"\s*:\s*"{TOKEN}"\s*\}}')
_REASONED = re.compile(rf"<think(?:ing)?>.*?</think(?:ing)?>|reasoning\s*\n(?=\s*{TOKEN})", re.IGNORECASE | re.DOTALL)
_LEADING = re.compile(rf"\s*[*`]*{TOKEN}", re.IGNORECASE)
_TRAILING = re.compile(rf"(?:^|[\s*`]){TOKEN}[\s*`.!]*\Z", re.IGNORECASE)


def is_silent(text: str) -> bool:
    """Whether an answer is a silent one: not delivered at all."""
    trimmed = text.strip(JS_SPACE)
    if len(trimmed) > _LONGEST_EDGE:
        return False
    if _WHOLE.fullmatch(trimmed) or _PAYLOAD.fullmatch(trimmed):
        return True
    reasoned = _REASONED.match(trimmed)
    return reasoned is not None and _TRAILING.search(trimmed) is not None


def leak_of(text: str) -> str | None:
    """How an answer that has the token at one end is delivered all the same; None for every other answer.

    `text_after`: the token, then text; `text_before`: text, then the token.
    """
    if TOKEN not in text.upper() or is_silent(text):
        return None
    if _LEADING.match(text[:_LONGEST_EDGE]):
        return "text_after"
    return "text_before" if _TRAILING.search(text[-_LONGEST_EDGE:].strip(JS_SPACE)) else None


class Silent:
    """Collects answers of one session that were meant to be silent, and were not."""

    def __init__(self, scope: Scope, session: Session) -> None:
        self._session = session
        self._leaks = Places()

    def feed(self, seq: int, size_bytes: int, event: Any) -> None:
        """The next event."""
        message = message_of(event)
        if message is None or message.get("role") != "assistant":
            return
        text = text_of(message)
        kind = leak_of(text) if text else None
        if kind is not None:
            self._leaks.add({"seq": seq, "eventId": event.get("id"), "kind": kind})

    def findings(self) -> Iterator[Finding]:
        """One finding for the session."""
        if not self._leaks.count:
            return
        session_id = self._session.session_id
        message = f"session {session_id}: {self._leaks.count} answer(s) with {TOKEN} and other text, which is delivered"
        advice = (
            f"A silent answer is {TOKEN} and nothing else, in any case of letters; say so in the prompt that asks for"
            " it, and use OpenClaw 2026.1.10 or later, which keeps drafts of it back"
        )
        evidence = self._leaks.evidence("answers", sessionId=session_id)
        yield Finding("silent_turn_leaks", "warning", message, self._session.key, evidence, advice)
