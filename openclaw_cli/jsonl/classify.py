"""What is the matter with one line that did not parse at once."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from openclaw_cli import jstext
from openclaw_cli.jsonl import resync
from openclaw_cli.jsonl.damage import Kind

# Marks a line that holds nothing: white space only, or one of JavaScript's falsy values.
BLANK = object()


@dataclass(frozen=True, slots=True)
class Finding:
    """A damaged line: the kind, the whole records inside it, the rest, and how many records are lost in the rest.

    `value` is set for a line that is whole but for bad content (bad UTF-8 as U+FFFD, control characters kept).
    """

    kind: Kind
    pieces: list[resync.Piece] = field(default_factory=list)
    gaps: list[resync.Gap] = field(default_factory=list)
    value: Any = None

    @property
    def lost(self) -> int:
        """Records of this line that cannot be brought back."""
        return sum(gap.lost for gap in self.gaps)


def examine(body: bytes, *, is_open: bool) -> Finding | Any:
    """The value of a line after all, BLANK, or the Finding that says what is wrong.

    `body` is the line without its end; `is_open` tells that it is the last one and has no line end.
    """
    try:
        return blank_or(jstext.parse(body))
    except ValueError:
        pass
    if is_blank(body):
        return BLANK
    if is_nul_only(body):
        return Finding(Kind.NUL_RUN)
    return _bad_content(body) or _broken(body, is_open)


def blank_or(value: Any) -> Any:
    """The value, or BLANK for what the real readers pass over (`null`, `false`, `0`, `""`)."""
    return BLANK if not value and type(value) not in (dict, list) else value


def is_blank(body: bytes) -> bool:
    """Whether a line is white space only, in JavaScript's sense."""
    try:
        return not body.decode("utf-8").strip(jstext.JS_WHITESPACE)
    except UnicodeDecodeError:
        return False


def is_nul_only(body: bytes) -> bool:
    """Whether a line holds NULs and nothing else."""
    return not body.strip(b"\0 \t\r")


def _bad_content(body: bytes) -> Finding | None:
    """The finding for a line whose framing is whole.

    Two NULs in a row are a hole, not a control character: a hole may have swallowed a line end, so the text around
    it need not be one record even if it reads like one.
    """
    if b"\0\0" in body:
        return None
    try:
        body.decode("utf-8")
        kind = Kind.CONTROL_CHAR
    except UnicodeDecodeError:
        kind = Kind.BAD_UTF8
    try:
        value = jstext.parse_text(body.decode("utf-8", "replace"), control_characters=True)
    except ValueError:
        return None
    return Finding(kind, value=value)


def _broken(body: bytes, is_open: bool) -> Finding:
    pieces = resync.whole_records(body)
    gaps = resync.gaps(body, pieces)
    if is_open and not pieces and body.lstrip().startswith(b"{"):
        return Finding(Kind.TORN_TAIL)
    if is_open and len(pieces) == 1 and pieces[0].start == 0 and is_nul_only(body[pieces[0].end :]):
        return Finding(Kind.NUL_TAIL, pieces, gaps)
    if b"\0" in body:
        return Finding(Kind.NUL_RUN, pieces, gaps)
    if pieces or resync.row_starts(body) > 1:
        return Finding(Kind.SPLICED, pieces, gaps)
    return Finding(Kind.NOT_JSON, pieces, gaps)
