"""OpenClaw's own token estimate, by weighted characters (compaction §3.1–3.3). Pure; no vocabulary is needed.

It is not a count: it is the figure that the real program compares with its budgets, so reports use it for a whole
context, and exact counts (tokens.py) for parts.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from openclaw_cli import jstext
from openclaw_cli.transcript.entries import JS_SPACE, TOOL_CALL_TYPES

Message = dict[str, Any]

_CHARS_PER_TOKEN = 4
_IMAGE_CHARS = 8000
# In place of contents that are no text the real program puts one note per kind; only the lengths of the notes count.
_IMAGE_NOTE_CHARS = 39
_OTHER_NOTE_CHARS = 42
_NOTE_EXTRA_CHARS = 17

# (weight, characters): what one UTF-16 unit costs. Astral characters outside the list cost 2, all others 1.
_WEIGHTS = (
    (4, "\u00b7\u3000-\u319f\u4e00-\u9fa5\uac00-\ud7af\uff01-\uff60"),
    (
        12,
        "\u1100-\u11ff\u2e80-\u2fff\u31a0-\u4dff\u9fa6-\u9fff\ua000-\ua4ff\ua700-\ua707\ua960-\ua97f\ud7b0-\ud7ff"
        "\uf900-\ufaff\U0001d360-\U0001d371",
    ),
    (8, "\u02c7\u02c9-\u02cb\u02d9\u02ea\u02eb\u0305\u0323\ufe10-\ufe4f\uff61-\uffdc\uffe0-\uffe6"),
    (
        16,
        "\U00016fe0-\U00016fff\U0001aff0-\U0001b16f\U0001f200-\U0001f2ff\U00020000-\U0002fa1f\U00030000-\U0003347f",
    ),
)
_CLASSES = tuple((weight, re.compile(f"[{characters}]")) for weight, characters in _WEIGHTS)
_WEIGHTED = re.compile("[" + "".join(characters for _, characters in _WEIGHTS) + "]")


def utf16_length(text: str) -> int:
    """The length that JavaScript gives: UTF-16 units."""
    return len(text) if text.isascii() else len(text.encode("utf-16-le", "surrogatepass")) // 2


def string_chars(text: str, *, minimum: int = 1) -> int:
    """The weighted length of a text (compaction §3.1). `minimum` 2 counts every UTF-16 unit at least twice (§19 E)."""
    total = utf16_length(text) * minimum
    if text.isascii() or not _WEIGHTED.search(text):
        return total
    for weight, pattern in _CLASSES:
        for character in pattern.findall(text):
            total += weight - minimum * (1 if character < "\U00010000" else 2)
    return total


def string_tokens(text: str) -> int:
    """The estimate for one text: a quarter of its weighted length, rounded up."""
    return -(-string_chars(text) // _CHARS_PER_TOKEN)


def message_tokens(message: Message) -> int:
    """The estimate for one message of a model context (compaction §3.2); unknown roles and excluded ones are 0."""
    if message.get("excludeFromContext") is True:
        return 0
    count = _COUNTERS.get(message.get("role"))  # type: ignore[arg-type]
    return -(-count(message) // _CHARS_PER_TOKEN) if count else 0


def _text(value: object) -> int:
    return string_chars(value) if isinstance(value, str) else 0


def _assistant_chars(message: Message) -> int:
    content = message.get("content")
    if isinstance(content, str):
        return 0
    total = 0
    for block in content if isinstance(content, list) else ():
        if not isinstance(block, dict):
            continue
        kind = block.get("type")
        if kind == "text" or kind == "thinking":
            total += _text(block.get(kind))
        elif kind in TOOL_CALL_TYPES:
            total += _text(block.get("name")) + _arguments_chars(block)
    return total


def _arguments_chars(block: Message) -> int:
    if "arguments" not in block:
        return len("undefined")
    return string_chars(jstext.dumps(block["arguments"]).decode("utf-8", "surrogatepass"))


def _content_chars(message: Message) -> int:
    content = message.get("content")
    if isinstance(content, str):
        return string_chars(content)
    texts: list[str] = []
    images = 0
    notes: set[int] = set()
    for block in content if isinstance(content, list) else ():
        if not isinstance(block, dict):
            continue
        images += block.get("type") == "image"
        text = _block_text(block)
        if text:
            texts.append(text)
        elif block.get("type") != "text":
            notes.add(_IMAGE_NOTE_CHARS if block.get("type") == "image" else _OTHER_NOTE_CHARS)
    note_chars = sum(notes) + len(notes) - 1 + _NOTE_EXTRA_CHARS if notes else 0
    return string_chars("\n".join(texts)) + images * _IMAGE_CHARS + note_chars


def _block_text(block: Message) -> str:
    is_result = block.get("type") in ("toolResult", "tool_result")
    if block.get("type") == "text" or is_result:
        text = block.get("text")
        if isinstance(text, str) and text:
            return text
    content = block.get("content")
    return content if is_result and isinstance(content, str) else ""


def _user_chars(message: Message) -> int:
    return _content_chars(message) + _text(_sender_suffix(message))


def _sender_suffix(message: Message) -> str:
    """What a user turn with a known sender is prefixed with; counted only when the sender has an id."""
    facts = message.get("__openclaw")
    if not isinstance(facts, dict):
        return ""
    sender: dict[str, str] = {}
    for name, key in (("id", "senderId"), ("name", "senderName"), ("username", "senderUsername")):
        value = facts.get(key)
        cleaned = value.replace("\0", "").strip(JS_SPACE) if isinstance(value, str) else ""
        if cleaned:
            sender[name] = cleaned
    if "id" not in sender:
        return ""
    return " sender=" + jstext.dumps(sender).decode("utf-8", "surrogatepass")


def _shell_chars(message: Message) -> int:
    return _text(message.get("command")) + _text(message.get("output"))


def _summary_chars(message: Message) -> int:
    return _text(message.get("summary"))


_COUNTERS = {
    "assistant": _assistant_chars,
    "user": _user_chars,
    "custom": _content_chars,
    "toolResult": _content_chars,
    "bashExecution": _shell_chars,
    "branchSummary": _summary_chars,
    "compactionSummary": _summary_chars,
}


@dataclass(frozen=True, slots=True)
class ContextEstimate:
    """`tokens` = what the provider last reported (`usage_tokens`) + the estimate of everything after it."""

    tokens: int
    usage_tokens: int
    trailing_tokens: int
    last_usage_index: int | None


def context_tokens(messages: Sequence[Message]) -> ContextEstimate:
    """The estimate for a whole context (compaction §3.3): the provider's last usable figure, then characters."""
    index = _last_usage(messages)
    usage = 0 if index is None else usage_total(messages[index]["usage"])
    trailing = sum(map(message_tokens, messages[0 if index is None else index + 1 :]))
    return ContextEstimate(usage + trailing, usage, trailing, index)


def usage_total(usage: Message) -> int:
    """The context size that a usage record stands for."""
    context = usage.get("contextUsage")
    if isinstance(context, dict) and context.get("state") == "available":
        return _number(context.get("totalTokens"))
    parts = (usage.get(key) for key in ("input", "output", "cacheRead", "cacheWrite"))
    return _number(usage.get("totalTokens")) or sum(map(_number, parts))


def _number(value: object) -> int:
    return int(value) if isinstance(value, int | float) and not isinstance(value, bool) else 0


def _last_usage(messages: Sequence[Message]) -> int | None:
    for index in range(len(messages) - 1, -1, -1):
        message = messages[index]
        usage = message.get("usage")
        if message.get("role") != "assistant" or not isinstance(usage, dict):
            continue
        context = usage.get("contextUsage")
        state = context.get("state") if isinstance(context, dict) else None
        total = usage_total(usage)
        # A barrier: the provider said nothing usable about anything before this message.
        if (message.get("api") == "cli" and "contextUsage" not in usage) or (state == "unavailable" and total == 0):
            return None
        if message.get("stopReason") not in ("aborted", "error") and total > 0 and state != "unavailable":
            return index
    return None
