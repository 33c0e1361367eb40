"""Events of a transcript as people read them: who, when, what was said, which tools were called. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from openclaw_cli.jstext import dumps
from openclaw_cli.storage.projections import message_text
from openclaw_cli.transcript.entries import timestamp_ms

_ROLES = {"user": "user", "assistant": "assistant", "toolResult": "result", "tool": "result", "system": "system"}
_CALLS = frozenset(("toolCall", "tool_use", "toolUse", "functionCall"))


@dataclass(frozen=True, slots=True)
class Shown:
    """One event. `who`: user, assistant, call, result, system, or the type of what is no message.

    `hidden`: shown only on request (`display: false`, thinking, bookkeeping).
    """

    who: str
    text: str
    time_ms: int | None = None
    event_id: str | None = None
    hidden: bool = False

    def clock(self) -> str:
        """Date and time in UTC, blanks where the event has none."""
        if self.time_ms is None:
            return " " * 19
        return f"{datetime.fromtimestamp(self.time_ms / 1000, UTC):%Y-%m-%d %H:%M:%S}"

    def line(self, width: int = 200) -> str:
        """One line of at most so many characters of text."""
        text = " ".join(self.text.split())
        return f"{self.clock()} {self.who:9} {text if len(text) <= width else text[: width - 1] + '…'}"


def shown(event: Any) -> Iterator[Shown]:
    """What there is to show of an event: one for its text, one for each tool call."""
    if not isinstance(event, dict):
        yield Shown("other", "", hidden=True)
        return
    kind = event.get("type")
    at, event_id = timestamp_ms(event.get("timestamp")), event.get("id")
    identity = event_id if isinstance(event_id, str) else None
    hidden = event.get("display") is False
    message = event.get("message")
    if kind == "message" and isinstance(message, dict):
        yield from _message(message, at, identity, hidden or message.get("display") is False)
    elif kind == "custom_message":
        yield Shown("message", _text({"content": event.get("content")}), at, identity, hidden)
    elif kind in ("compaction", "branch_summary"):
        yield Shown(str(kind), str(event.get("summary") or ""), at, identity, hidden)
    else:
        yield Shown(str(kind or "other"), _facts(event), at, identity, True)


def _message(message: dict[str, Any], at: int | None, identity: str | None, hidden: bool) -> Iterator[Shown]:
    role = message.get("role")
    who = _ROLES.get(role, "other") if isinstance(role, str) else "other"
    text = _text(message)
    calls = list(_calls(message))
    if who == "result":
        name = message.get("toolName")
        text = f"{name}: {text}" if isinstance(name, str) else text
    if text or not calls:
        yield Shown(who, text, at, identity, hidden)
    for name, arguments in calls:
        yield Shown("call", f"{name} {arguments}", at, identity, hidden)


def _text(message: dict[str, Any]) -> str:
    text = message_text(message)
    content = message.get("content")
    blocks = content if isinstance(content, list) else ()
    images = sum(isinstance(one, dict) and one.get("type") == "image" for one in blocks)
    return text + f"\n[{images} image(s)]" * bool(images)


def _calls(message: dict[str, Any]) -> Iterator[tuple[str, str]]:
    content = message.get("content")
    for block in content if isinstance(content, list) else ():
        if isinstance(block, dict) and block.get("type") in _CALLS:
            arguments = block.get("arguments", block.get("input", {}))
            yield str(block.get("name")), dumps(arguments).decode("utf-8", "replace")


def _facts(event: dict[str, Any]) -> str:
    names = ("version", "customType", "provider", "modelId", "thinkingLevel", "name", "label", "targetId")
    return " ".join(f"{name}={event[name]}" for name in names if isinstance(event.get(name), str | int))


def markdown(events: Iterator[Any], title: str, *, everything: bool) -> Iterator[str]:
    """A transcript as Markdown: a heading for each message, tool calls and results as code blocks."""
    yield f"# {title}\n"
    for event in events:
        for one in shown(event):
            if one.hidden and not everything:
                continue
            yield f"\n## {one.who} · {one.clock().strip() or 'no time'}\n"
            text = one.text.rstrip("\n")
            yield _fenced(text) if one.who in ("call", "result") else f"\n{text}\n"


def _fenced(text: str) -> str:
    """As a code block, with a fence that is longer than any in the text."""
    longest = max(map(len, re.findall("`+", text)), default=0)
    fence = "`" * max(3, longest + 1)
    return f"\n{fence}\n{text}\n{fence}\n"
