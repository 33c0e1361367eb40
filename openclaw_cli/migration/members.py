"""The members of one large JSON object, read one at a time, so that a big index is never in memory as values.

The text of a member is found in two ways: by the indentation that `JSON.stringify(…, null, 2)` leaves, proven by a
parser, or by a parser that tells where a value ends. What neither can judge is left to the caller (`Undecided`).
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator
from typing import Any, BinaryIO

import orjson

from openclaw_cli import jstext

_STEP_BYTES = 2**20
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"
_SPACE = re.compile(rb"[ \t\n\r]*")
_KEY = re.compile(rb'"(?:[^"\\]|\\.)*+"', re.DOTALL)
# So near to the end of what was read, a failure or the end of a number may be due to what has not been read yet.
_SEAM_CHARACTERS = 16


class Undecided(Exception):
    """The text is no plain object, or nests deeper than the parsers here go."""


class Broken(Exception):
    """The text is not JSON. `offset`: bytes before the place that cannot be read."""

    def __init__(self, offset: int) -> None:
        super().__init__(offset)
        self.offset = offset


class Members:
    """One pass over the object in `stream`. After it, or after `finish`, `size_bytes` and `sha256` are the file's."""

    def __init__(self, stream: BinaryIO) -> None:
        self._stream = stream
        self._digest = hashlib.sha256()
        self.size_bytes = 0
        # What was read and not passed yet: `_window[_at:]`; `_base` bytes of the file lie before the window.
        self._window = b""
        self._at = 0
        self._base = 0

    @property
    def sha256(self) -> str:
        """SHA-256 of what was read, in hex."""
        return self._digest.hexdigest()

    def finish(self) -> None:
        """Read the rest of the file for its size and digest, without holding it."""
        self._window, self._at = b"", 0
        while self._more():
            self._window = b""

    def read(self) -> Iterator[tuple[str, bytes, Any]]:
        """(key, JSON text, value) of each member in the file's order, repeated keys too.

        Raises Broken, or Undecided before or after any member.
        """
        if self._peek() == b"\xef" and self._window.startswith(_BYTE_ORDER_MARK):
            self._at += len(_BYTE_ORDER_MARK)
        if self._peek() != b"{":
            raise Undecided
        self._at += 1
        if self._peek() != b"}":
            yield self._member()
            while self._peek() == b",":
                self._at += 1
                yield self._member()
        if self._peek() != b"}":
            raise Broken(self._base + self._at)
        self._at += 1
        if self._peek():
            raise Undecided

    def _peek(self) -> bytes:
        """The next byte that is no white space; empty at the end."""
        while True:
            self._at = _SPACE.match(self._window, self._at).end()  # type: ignore[union-attr]
            if self._at < len(self._window) or not self._more():
                return self._window[self._at : self._at + 1]

    def _more(self) -> bool:
        """Read on, as much again as is held, so that a long member costs no square; False at the end of the file."""
        block = self._stream.read(max(_STEP_BYTES, len(self._window) - self._at))
        self._digest.update(block)
        self.size_bytes += len(block)
        self._base += self._at
        self._window, self._at = (self._window[self._at :] + block if self._at < len(self._window) else block), 0
        return bool(block)

    def _member(self) -> tuple[str, bytes, Any]:
        self._peek()
        indent = self._indent()
        key = self._key()
        if self._peek() != b":":
            raise Broken(self._base + self._at)
        self._at += 1
        opener = self._peek()
        found = self._indented(indent) if opener == b"{" and indent else None
        raw, value = self._measured() if found is None else found
        self._at += len(raw)
        return key, raw, value

    def _indent(self) -> bytes:
        """Line end and blanks before the key, empty when it does not begin a line."""
        start = self._window.rfind(b"\n", max(0, self._at - 64), self._at)
        before = self._window[start : self._at] if start >= 0 else b""
        return b"" if before.strip(b"\n ") else before

    def _key(self) -> str:
        while (found := _KEY.match(self._window, self._at)) is None:
            if not self._more():
                raise Broken(self._base + self._at)
        try:
            key = jstext.parse(found.group())
        except ValueError as error:
            raise Broken(self._base + self._at) from error
        self._at = found.end()
        return str(key)

    def _indented(self, indent: bytes) -> tuple[bytes, Any] | None:
        """The object whose last line is a brace as far in as its key, or None when that is no whole object."""
        searched = self._at
        while (end := self._window.find(indent + b"}", searched)) < 0:
            seen = len(self._window) - self._at
            if not self._more():
                return None
            searched = max(self._at, self._at + seen - len(indent))
        raw = self._window[self._at : end + len(indent) + 1]
        try:
            # A value ends where it first is whole, so what parses is the member and nothing else.
            return raw, orjson.loads(raw)
        except orjson.JSONDecodeError:
            return None

    def _measured(self) -> tuple[bytes, Any]:
        """The value that begins here, by a parser that tells where it ends."""
        while True:
            text = self._text()
            try:
                value, end = jstext.first_value(text)
            except json.JSONDecodeError as error:
                open_string = error.msg.startswith("Unterminated")
                if (open_string or error.pos >= len(text) - _SEAM_CHARACTERS) and self._more():
                    continue
                raise Broken(self._base + self._at + len(text[: error.pos].encode("utf-8"))) from error
            except RecursionError as error:
                raise Undecided from error
            if end + _SEAM_CHARACTERS <= len(text) or not self._more():
                return self._window[self._at : self._at + len(text[:end].encode("utf-8"))], value

    def _text(self) -> str:
        """What is read from here on, without a character that is cut at the end."""
        data = self._window[self._at :]
        try:
            return data.decode("utf-8")
        except UnicodeDecodeError as error:
            if error.start >= len(data) - 3:
                return data[: error.start].decode("utf-8")
            raise Undecided from error
