"""Changing single lines of a transcript: byte for byte where it can be, else as JavaScript writes JSON. Pure."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import orjson

from openclaw_cli import jstext
from openclaw_cli.transcript.entries import TOOL_CALL_TYPES

Event = dict[str, Any]

_THINKING = ("thinking", "redacted_thinking")


@dataclass(slots=True)
class Edit:
    """What happens to one line. `drop`: it goes. `blocks`: content blocks that go. `fields`: references that change."""

    drop: bool = False
    blocks: frozenset[int] = frozenset()
    fields: dict[str, Any] = field(default_factory=dict)


@dataclass(slots=True)
class Edits:
    """All changes of one file: edits by line, and new lines (without line end) to be written before a line."""

    changed: dict[int, Edit] = field(default_factory=dict)
    inserted: dict[int, list[bytes]] = field(default_factory=dict)

    def at(self, line: int) -> Edit:
        """The edit of a line, made when there is none yet."""
        return self.changed.setdefault(line, Edit())


def apply(lines: Iterable[bytes], edits: Edits) -> Iterator[bytes]:
    """The lines of the new file from those of the old one (with their line ends). Untouched lines pass as they are."""
    last = b"\n"
    for number, line in enumerate(lines, start=1):
        for inserted in edits.inserted.get(number, ()):
            yield inserted + b"\n"
        edit = edits.changed.get(number)
        if edit is None:
            last = line
            yield line
        elif not edit.drop:
            last = edited(line, edit)
            yield last
    if edits.changed and not last.endswith(b"\n"):
        yield b"\n"


def edited(line: bytes, edit: Edit) -> bytes:
    """One line with its changes; its line end stays what it was."""
    body = line.rstrip(b"\r\n")
    end = line[len(body) :]
    mark = b"\xef\xbb\xbf" if body.startswith(b"\xef\xbb\xbf") else b""
    body = body[len(mark) :]
    value = jstext.parse(body)
    if edit.blocks:
        value = without_blocks(value, edit.blocks)
        body = jstext.dumps(value)
    return mark + with_fields(body, value, edit.fields) + end


def with_fields(body: bytes, value: Event, fields: Mapping[str, Any]) -> bytes:
    """The JSON text with other values for some of its top-level keys, everything else byte for byte."""
    for key, new in fields.items():
        if key in value and value[key] == new:
            continue
        wanted = {**value, key: new}
        body = _spliced(body, key, new, wanted) or jstext.dumps(wanted)
        value = wanted
    return body


def _spliced(body: bytes, key: str, new: Any, wanted: Event) -> bytes | None:
    """The text with the value of one key exchanged in place (or added), checked by parsing; None: no place is right."""
    name, text = re.escape(orjson.dumps(key)), orjson.dumps(new)
    for found in re.finditer(name + rb'\s*:\s*("(?:[^"\\]|\\.)*"|null|-?\d+)', body):
        candidate = body[: found.start(1)] + text + body[found.end(1) :]
        if _parsed(candidate) == wanted:
            return candidate
    opened = body.find(b"{") + 1
    candidate = body[:opened] + orjson.dumps(key) + b":" + text + b"," + body[opened:]
    return candidate if _parsed(candidate) == wanted else None


def _parsed(body: bytes) -> Any:
    try:
        return jstext.parse(body)
    except ValueError:
        return None


def without_blocks(event: Event, gone: Collection[int]) -> Event:
    """An assistant entry without some content blocks.

    Reasoning that carries a signature goes too: it signs the message as it was. So does provider state that counts
    content positions. Without any tool call left the message ends its turn.
    """
    message = event["message"]
    content = [b for i, b in enumerate(message["content"]) if i not in gone and not _is_signed(b)]
    changed = {key: content if key == "content" else part for key, part in message.items() if key != "providerReplay"}
    if "stopReason" in changed and not any(_kind(block) in TOOL_CALL_TYPES for block in content):
        changed["stopReason"] = "stop"
    return {**event, "message": changed}


def is_empty_without(event: Event, gone: Collection[int]) -> bool:
    """Whether nothing that matters is left of an assistant entry: no tool call, no text, no image."""
    content = event["message"]["content"]
    rest: Sequence[Any] = [block for index, block in enumerate(content) if index not in gone]
    return not any(_matters(block) for block in rest)


def _matters(block: Any) -> bool:
    if _kind(block) == "text":
        return isinstance(block.get("text"), str) and bool(block["text"].strip())
    return _kind(block) not in (*_THINKING, None)


def _is_signed(block: Any) -> bool:
    return _kind(block) in _THINKING and any("signature" in key.lower() and block[key] for key in block)


def _kind(block: Any) -> str | None:
    kind = block.get("type") if isinstance(block, dict) else None
    return kind if isinstance(kind, str) else None
