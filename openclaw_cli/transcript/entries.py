"""What a transcript entry is: accessors over raw events as the parser gave them. Pure.

An event is any JSON value of one row or line. Only objects with a known `type` are *canonical* entries; a `leaf` object
is a navigation control; every other object that has an id and a `parentId` is an *opaque link* (store format §5).
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from typing import Any

Event = dict[str, Any]

CANONICAL_TYPES = frozenset(
    {
        "message",
        "thinking_level_change",
        "model_change",
        "compaction",
        "reset",
        "branch_summary",
        "custom",
        "custom_message",
        "label",
        "session_info",
    }
)
# Tuples, not sets: a stored `type` may be a list or an object, which no set can be asked for.
TOOL_CALL_TYPES = ("toolCall", "toolUse", "tool_use", "functionCall")
TEXT_TYPES = ("text", "input_text", "output_text")

# JavaScript's white space; `str.strip()` also removes \x1c-\x1f and \x85 and leaves U+FEFF.
JS_SPACE = "\t\n\v\f\r \u00a0\u1680\u2028\u2029\u202f\u205f\u3000\ufeff" + "".join(map(chr, range(0x2000, 0x200B)))


def non_blank(value: object) -> str | None:
    """The string itself when it holds more than white space (as JavaScript counts it), else None."""
    return value if isinstance(value, str) and value.strip(JS_SPACE) else None


def entry_id(event: object) -> str | None:
    """The id of an event, untrimmed; None when it is missing, blank or no string."""
    return non_blank(event.get("id")) if isinstance(event, dict) else None


def kind(event: object) -> str | None:
    """The `type` of an event when it is a string."""
    value = event.get("type") if isinstance(event, dict) else None
    return value if isinstance(value, str) else None


def is_canonical(event: object) -> bool:
    """Whether the event is one of the ten entry types (store format §5)."""
    return isinstance(event, dict) and kind(event) in CANONICAL_TYPES


def is_side(event: object) -> bool:
    """Whether the event is a canonical entry that does not move the leaf."""
    return is_canonical(event) and event.get("appendMode") == "side"  # type: ignore[union-attr]


def has_message(event: object) -> bool:
    """Whether the event counts as a message in the active-path table: a `message` field of any value."""
    return isinstance(event, dict) and "message" in event


def message_of(event: object) -> dict[str, Any] | None:
    """The message object of a `message` entry, else None."""
    if not isinstance(event, dict) or event.get("type") != "message":
        return None
    message = event.get("message")
    return message if isinstance(message, dict) else None


def role(event: object) -> str | None:
    """The role of a `message` entry, else None."""
    message = message_of(event)
    value = message.get("role") if message else None
    return value if isinstance(value, str) else None


def excluded_from_context(event: object) -> bool:
    """Whether `message.excludeFromContext` is exactly true, for whatever type the event has."""
    message = event.get("message") if isinstance(event, dict) else None
    return isinstance(message, dict) and message.get("excludeFromContext") is True


def blocks(message: dict[str, Any] | None) -> list[dict[str, Any]]:
    """The content blocks of a message; a string content is one text block, anything else is none."""
    content = message.get("content") if message else None
    if isinstance(content, str):
        return [{"type": "text", "text": content}]
    return [block for block in content if isinstance(block, dict)] if isinstance(content, list) else []


def text_of(message: dict[str, Any] | None) -> str:
    """The text blocks of a message joined by a line break."""
    parts = [block.get("text") for block in blocks(message) if block.get("type") in TEXT_TYPES]
    return "\n".join(part for part in parts if isinstance(part, str))


def tool_calls(message: dict[str, Any] | None) -> Iterator[tuple[int, dict[str, Any]]]:
    """The tool calls of an assistant message as (index in `content`, block)."""
    content = message.get("content") if message else None
    for index, block in enumerate(content if isinstance(content, list) else ()):
        if isinstance(block, dict) and block.get("type") in TOOL_CALL_TYPES:
            yield index, block


def timestamp_ms(value: object) -> int | None:
    """A timestamp (epoch milliseconds or ISO 8601 text) in epoch milliseconds; None when it is neither."""
    if isinstance(value, bool):
        return None
    if isinstance(value, int | float):
        # NaN and infinities cannot come out of JSON, but a number too large for a clock can.
        return int(value) if abs(value) < 1e17 else None
    if not isinstance(value, str):
        return None
    try:
        moment = datetime.fromisoformat(value.strip(JS_SPACE))
    except ValueError:
        return None
    if moment.tzinfo is None:
        return None
    return round(moment.timestamp() * 1000)


def _is_content(value: object) -> bool:
    if isinstance(value, str):
        return True
    return isinstance(value, list) and all(isinstance(b, dict) and isinstance(b.get("type"), str) for b in value)


def _is_text(value: object) -> bool:
    return isinstance(value, str)


def _is_name(value: object) -> bool:
    return isinstance(value, str) and value != ""


def _is_readable_message(message: object) -> bool:
    """Whether the real reader accepts a message object: by role, the fields that it cannot do without."""
    if not isinstance(message, dict):
        return False
    match message.get("role"):
        case "user" | "assistant":
            return _is_content(message.get("content"))
        case "toolResult":
            texts = _is_text(message.get("toolCallId")) and _is_text(message.get("toolName"))
            return texts and isinstance(message.get("isError"), bool) and isinstance(message.get("content"), list)
        case "custom":
            return _is_text(message.get("customType", "hook")) and _is_content(message.get("content"))
        case "bashExecution":
            return _is_text(message.get("command")) and _is_text(message.get("output"))
    return False


_RESET_REASONS = frozenset({"new", "reset", "idle", "daily", "cron-stale"})


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def is_readable(event: object) -> bool:
    """Whether the real reader takes the event for an entry (compaction §1, checked against the program).

    Others are at best opaque links: a numeric timestamp or id, an unknown role, a missing required field.
    """
    if not isinstance(event, dict) or not _is_name(event.get("id")):
        return False
    parent = event.get("parentId")
    if not (parent is None or isinstance(parent, str)) or not _is_text(event.get("timestamp", "")):
        return False
    match event.get("type"):
        case "message":
            return _is_readable_message(event.get("message"))
        case "thinking_level_change":
            return _is_name(event.get("thinkingLevel"))
        case "model_change":
            return _is_name(event.get("provider")) and _is_name(event.get("modelId"))
        case "compaction":
            texts = _is_text(event.get("summary")) and _is_name(event.get("firstKeptEntryId"))
            return texts and _is_number(event.get("tokensBefore"))
        case "reset":
            return event.get("reason") in _RESET_REASONS and _is_text(event.get("firstKeptEntryId", ""))
        case "branch_summary":
            return _is_text(event.get("fromId")) and _is_text(event.get("summary"))
        case "custom":
            return _is_name(event.get("customType"))
        case "custom_message":
            return (
                _is_name(event.get("customType"))
                and _is_content(event.get("content"))
                and (isinstance(event.get("display"), bool))
            )
        case "label":
            return _is_name(event.get("targetId")) and _is_text(event.get("label", ""))
        case "session_info":
            return _is_text(event.get("name", ""))
    return False
