"""Where the values of a JSON5 text stand: the tree of its objects and arrays with the offsets of each part.

Only for editing a file by spans; what the values mean is read by a JSON5 library. Whoever edits parses the result
again and compares, so this reader may refuse a text, but a wrong offset cannot do harm.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

MAX_DEPTH = 200

_SPACE = re.compile(r"(?:[\s\ufeff\u2028\u2029]|//[^\n\r\u2028\u2029]*|/\*.*?\*/)*", re.DOTALL)
_STRING = re.compile(r'"(?:[^"\\\n\r]|\\.|\\\r\n)*"|' + r"'(?:[^'\\\n\r]|\\.|\\\r\n)*'", re.DOTALL)
_BARE = re.compile(r"[^\s,:{}\[\]\"'/\ufeff\u2028\u2029]+")


class NotEditableError(Exception):
    """The text cannot be edited by spans; the reason is the message, without any text of the file."""


@dataclass(slots=True)
class Node:
    """A value at `[start, end)`. `members`: the members of an object in their order; `items`: those of an array."""

    start: int
    end: int
    members: list[Member] | None = None
    items: list[Node] | None = None


@dataclass(slots=True)
class Member:
    """One `key: value`; `start` is that of the key, `comma` the offset of the comma behind the value, if any."""

    key: str
    start: int
    key_end: int
    value: Node
    comma: int | None = field(default=None)


def parse(text: str) -> Node:
    """The tree of a whole text. Raises NotEditableError where this reader cannot follow it."""
    reader = _Reader(text)
    node = reader.value(reader.skip(0), 0)
    if reader.skip(node.end) != len(text):
        raise NotEditableError("something stands behind the value")
    return node


def member_of(node: Node, key: str) -> Member | None:
    """The member of an object with this key. Raises NotEditableError when it stands there twice."""
    found = [member for member in node.members or () if member.key == key]
    if len(found) > 1:
        raise NotEditableError(f"{key} stands there twice")
    return found[0] if found else None


class _Reader:
    def __init__(self, text: str) -> None:
        self._text = text

    def skip(self, at: int) -> int:
        """The offset behind white space and comments."""
        found = _SPACE.match(self._text, at)
        return found.end() if found else at

    def value(self, at: int, depth: int) -> Node:
        if depth > MAX_DEPTH:
            raise NotEditableError(f"it is nested deeper than {MAX_DEPTH}")
        match self._text[at : at + 1]:
            case "{":
                return self._object(at, depth)
            case "[":
                return self._array(at, depth)
            case '"' | "'":
                return Node(at, self._matched(_STRING, at))
        return Node(at, self._matched(_BARE, at))

    def _object(self, start: int, depth: int) -> Node:
        members: list[Member] = []
        at = self.skip(start + 1)
        while self._text[at : at + 1] != "}":
            key, key_end = self._key(at)
            colon = self.skip(key_end)
            if self._text[colon : colon + 1] != ":":
                raise NotEditableError(f"a colon is missing at offset {colon}")
            value = self.value(self.skip(colon + 1), depth + 1)
            member = Member(key, at, key_end, value)
            members.append(member)
            at = self.skip(value.end)
            if self._text[at : at + 1] == ",":
                member.comma = at
                at = self.skip(at + 1)
            elif self._text[at : at + 1] != "}":
                raise NotEditableError(f"a comma is missing at offset {at}")
        return Node(start, at + 1, members=members)

    def _array(self, start: int, depth: int) -> Node:
        items: list[Node] = []
        at = self.skip(start + 1)
        while self._text[at : at + 1] != "]":
            item = self.value(at, depth + 1)
            items.append(item)
            at = self.skip(item.end)
            if self._text[at : at + 1] == ",":
                at = self.skip(at + 1)
            elif self._text[at : at + 1] != "]":
                raise NotEditableError(f"a comma is missing at offset {at}")
        return Node(start, at + 1, items=items)

    def _key(self, at: int) -> tuple[str, int]:
        quoted = self._text[at : at + 1] in ('"', "'")
        end = self._matched(_STRING if quoted else _BARE, at)
        raw = self._text[at + 1 : end - 1] if quoted else self._text[at:end]
        # A key with an escape is none of those that are edited, unless somebody hides one; comparing would notice.
        return raw, end

    def _matched(self, pattern: re.Pattern[str], at: int) -> int:
        found = pattern.match(self._text, at)
        if found is None:
            raise NotEditableError(f"no value at offset {at}")
        return found.end()
