"""Find the whole records inside a line that is not one JSON text.

Lines get damaged where two writers met or a machine lost power: a record cut short with the next one behind it on
the same line, two records without a line end between them, a run of NULs where data was never written. The records
around such a place are whole and can be found again; nothing is ever completed or invented.
"""

from __future__ import annotations

import json
import re
from typing import Any, NamedTuple

from openclaw_cli import jstext

# Beginnings of transcript rows (store format §5). Content blocks inside a message have other types.
_ROW_START = re.compile(
    rb'\{"type":"(?:session|message|thinking_level_change|model_change|compaction|reset|branch_summary'
    rb'|custom|custom_message|label|session_info|leaf)"'
)
# A row has at least one of these beside its type; a content block (text, toolCall, image, …) has none of them.
_ROW_FIELDS = frozenset(("parentId", "timestamp", "message", "customType", "summary", "version", "targetId"))
_GLUE = re.compile(r"[ \t\r\0]*")
# Attempts that fail far from their start could make a hostile line quadratic; real lines need a fraction of this.
_EFFORT_PER_CHARACTER = 8
_EFFORT_FLOOR = 2**20


class Piece(NamedTuple):
    """A whole record inside a line: byte range within the line, and its value."""

    start: int
    end: int
    value: Any


class Gap(NamedTuple):
    """Bytes of a line that belong to no whole record, and how many records they are the rest of."""

    start: int
    end: int
    lost: int


def whole_records(line: bytes) -> list[Piece]:
    """The whole records of a damaged line, in order.

    An object at the very start, or directly behind a whole record, is trusted as it is. One that is found behind a
    cut or a run of NULs must look like a row (else a content block of the cut record would pass for one) and must
    end where a row ends: at the end of the line, before NULs or before the next object.
    """
    text = line.decode("utf-8", "surrogateescape")
    return [_piece(line, start, end) for start, end in _to_bytes(text, _spans(text))]


def gaps(line: bytes, pieces: list[Piece]) -> list[Gap]:
    """What lies between the whole records, without surrounding white space; NULs count as lost nothing."""
    found: list[Gap] = []
    begin = 0
    for end, following in [*((piece.start, piece.end) for piece in pieces), (len(line), len(line))]:
        rest = line[begin:end]
        left = len(rest) - len(rest.lstrip(b" \t\r"))
        content = rest.strip(b" \t\r")
        if content:
            found.append(Gap(begin + left, begin + left + len(content), _lost_in(content)))
        begin = following
    return found


def row_starts(line: bytes) -> int:
    """How many transcript rows begin in `line`."""
    return len(_ROW_START.findall(line))


def _lost_in(content: bytes) -> int:
    return max(1, row_starts(content)) if content.strip(b"\0 \t\r") else 0


def _spans(text: str) -> list[tuple[int, int]]:
    """Character ranges of the whole records in `text`."""
    found: list[tuple[int, int]] = []
    effort = _EFFORT_FLOOR + _EFFORT_PER_CHARACTER * len(text)
    at, trusted = 0, True
    while effort > 0:
        start = _GLUE.match(text, at).end()  # type: ignore[union-attr]  # the pattern matches the empty text too
        trusted = trusted and "\0" not in text[at:start]
        value, end = _attempt(text, start)
        if value is not None and (trusted or (_is_row(value) and _ends_a_row(text, end))):
            found.append((start, end))
            at, trusted = end, True
            continue
        effort -= max(1, end - start)
        # Behind an object that is whole but no row nothing inside it can be one; else look right behind the brace.
        at = text.find('{"', end if value is not None else start + 1)
        trusted = False
        if at < 0:
            break
    return found


def _attempt(text: str, start: int) -> tuple[dict[str, Any] | None, int]:
    """The object that begins at `start` and its end; or None and how far the reading got."""
    if not text.startswith("{", start):
        return None, start
    try:
        value, end = jstext.raw_decode(text, start)
    except json.JSONDecodeError as error:
        return None, error.pos
    except (RecursionError, ValueError):
        return None, len(text)
    return (value, end) if value else (None, end)


def _is_row(value: dict[str, Any]) -> bool:
    return isinstance(value.get("type"), str) and not _ROW_FIELDS.isdisjoint(value)


def _ends_a_row(text: str, end: int) -> bool:
    following = text[end : end + 1]
    if following in ("", "\0", "{"):
        return True
    return not text[end:].strip(" \t\r") if following in (" ", "\t", "\r") else False


def _to_bytes(text: str, spans: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """Character ranges as byte ranges of the text's UTF-8 (invalid bytes stand as escaped surrogates)."""
    if text.isascii():
        return spans
    result = []
    character = byte = 0
    for start, end in spans:
        byte += len(text[character:start].encode("utf-8", "surrogateescape"))
        length = len(text[start:end].encode("utf-8", "surrogateescape"))
        result.append((byte, byte + length))
        byte += length
        character = end
    return result


def _piece(line: bytes, start: int, end: int) -> Piece:
    raw = line[start:end]
    try:
        value = jstext.parse(raw)
    except ValueError:
        value = jstext.parse_text(raw.decode("utf-8", "replace"), control_characters=True)
    return Piece(start, end, value)
