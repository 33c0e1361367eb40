"""What a damaged line looks like, without a word of what it says: lengths, kinds, names that belong to the format."""

from __future__ import annotations

from typing import Any

from openclaw_cli import jstext

KNOWN_NAMES = frozenset(
    (
        *("type", "id", "parentId", "timestamp", "version", "cwd", "message", "role", "content", "text", "name"),
        *("arguments", "toolCallId", "toolName", "isError", "stopReason", "provider", "model", "api", "usage"),
        *("customType", "data", "details", "display", "summary", "firstKeptEntryId", "firstKeptEntryIndex"),
        *("tokensBefore", "tokensAfter", "targetId", "appendParentId", "appendMode", "fromId", "label", "modelId"),
        *("thinkingLevel", "reason", "input", "output", "cacheRead", "cacheWrite", "totalTokens", "cost", "total"),
    )
)
"""Names of members that a report may show; every other name is shown by its length."""

_DEEPEST = 6
_WIDEST = 24


def shape(line: bytes) -> dict[str, Any]:
    """The shape of one line: its bytes by class, and the outline of its JSON where it has one."""
    facts: dict[str, Any] = {
        "bytes": len(line),
        "nulBytes": line.count(b"\0"),
        "controlBytes": sum(line.count(bytes([code])) for code in (*range(1, 9), 11, 12, *range(14, 32))),
        "quotes": line.count(b'"'),
        "openBraces": line.count(b"{"),
        "closeBraces": line.count(b"}"),
        "startsLikeObject": line.lstrip(b" \t\r\0").startswith(b"{"),
        "endsLikeObject": line.rstrip(b" \t\r\0").endswith(b"}"),
    }
    try:
        text = line.decode("utf-8")
        facts["utf8"] = True
    except UnicodeDecodeError as error:
        facts["utf8"] = False
        facts["firstBadByte"] = error.start
        text = line.decode("utf-8", "replace")
    try:
        facts["outline"] = outline(jstext.parse_text(text, control_characters=True))
    except ValueError as error:
        facts["outline"] = None
        # The parser's own words may quote the text; only the place is taken.
        facts["jsonEndsAt"] = getattr(error, "pos", None)
    return facts


def outline(value: Any, depth: int = 0) -> str:
    """Kinds and lengths of a JSON value, as `{type:str(7), ?(12):num, content:[2]}`; no value, no foreign name."""
    if isinstance(value, dict):
        if depth == _DEEPEST:
            return f"{{{len(value)}}}"
        shown = [f"{_name(name)}:{outline(member, depth + 1)}" for name, member in list(value.items())[:_WIDEST]]
        return "{" + ", ".join(shown) + (", …" if len(value) > _WIDEST else "") + "}"
    if isinstance(value, list):
        inner = f" of {outline(value[0], depth + 1)}" if value and depth < _DEEPEST else ""
        return f"[{len(value)}{inner}]"
    if isinstance(value, str):
        return f"str({len(value)})"
    if value is None or isinstance(value, bool):
        return "null" if value is None else "bool"
    return "num"


def _name(name: str) -> str:
    return name if name in KNOWN_NAMES else f"?({len(name)})"
