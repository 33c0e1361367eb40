"""Editing `openclaw.json` without touching anything else in it: comments, order and spelling stay.

An edit is made twice: on the text, by the spans of its tokens, and on the parsed document. The text that results is
parsed again and must be the document that results; anything else is refused (design 2.1: a
configuration that OpenClaw refuses stops every command of it).
"""

from __future__ import annotations

import copy
import json
import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from openclaw_cli.config.json5_spans import Member, Node, NotEditableError, member_of, parse
from openclaw_cli.config.openclaw_json import parse_text
from openclaw_cli.durable import replace_file
from openclaw_cli.errors import ConfigError
from openclaw_cli.faults import Step, reached

Keys = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Remove:
    """Take the member at `keys` away."""

    keys: Keys


@dataclass(frozen=True, slots=True)
class Rename:
    """Give the member at `keys` another key; its value and place stay."""

    keys: Keys
    key: str


@dataclass(frozen=True, slots=True)
class Insert:
    """Put a member with a plain JSON value at the end of the object at `keys[:-1]`, where it is not yet."""

    keys: Keys
    value: Any


@dataclass(frozen=True, slots=True)
class Replace:
    """Give the member at `keys` another plain JSON value."""

    keys: Keys
    value: Any


Edit = Remove | Rename | Insert | Replace


def edited(data: bytes, edits: Sequence[Edit], path: Path) -> bytes:
    """The bytes of the file with all `edits` made. Raises NotEditableError where that is not safe.

    `path` is named in errors. Raises `ConfigError` when the file is not valid to begin with.
    """
    wanted = after(parse_text(data, path), edits)
    bom = data[:3] if data.startswith(b"\xef\xbb\xbf") else b""
    try:
        text = data[len(bom) :].decode("utf-8")
    except UnicodeDecodeError:
        raise NotEditableError("it is not UTF-8") from None
    for edit in edits:
        text = _in_text(text, edit)
    result = bom + text.encode("utf-8")
    try:
        found = parse_text(result, path)
    except ConfigError:
        raise NotEditableError("the edited text would not be valid") from None
    if _order(found) != _order(wanted):
        raise NotEditableError("the edited text would say something else")
    return result


def after(document: Any, edits: Iterable[Edit]) -> Any:
    """The document that the edits make of `document`, which stays as it is."""
    document = copy.deepcopy(document)
    for edit in edits:
        owner = document
        for key in edit.keys[:-1]:
            owner = owner[key]
        key = edit.keys[-1]
        match edit:
            case Remove():
                del owner[key]
            case Rename(key=new):
                items = [(new if name == key else name, value) for name, value in owner.items()]
                owner.clear()
                owner.update(items)
            case Insert(value=value) | Replace(value=value):
                owner[key] = value
    return document


def _order(document: Any) -> str:
    """The document as one text, so that 1, 1.0 and True differ and the order of keys counts."""
    return json.dumps(document)


def _in_text(text: str, edit: Edit) -> str:
    owner = parse(text)
    for key in edit.keys[:-1]:
        member = member_of(owner, key)
        if member is None:
            raise NotEditableError(f"{key} is not in this file itself")
        owner = member.value
    if owner.members is None:
        raise NotEditableError(f"{'.'.join(edit.keys[:-1])} is no object in this file")
    member = member_of(owner, edit.keys[-1])
    if isinstance(edit, Insert):
        if member is not None:
            raise NotEditableError(f"{'.'.join(edit.keys)} is set already")
        return _inserted(text, owner, json.dumps(edit.keys[-1]), json.dumps(edit.value))
    if member is None:
        raise NotEditableError(f"{'.'.join(edit.keys)} is not in this file itself")
    match edit:
        case Remove():
            return _removed(text, owner, member)
        case Rename(key=new):
            return text[: member.start] + json.dumps(new) + text[member.key_end :]
        case Replace(value=value):
            return text[: member.value.start] + json.dumps(value) + text[member.value.end :]


def _removed(text: str, owner: Node, member: Member) -> str:
    """Without the member, its comma, and its line where nothing else stands there."""
    members = owner.members or []
    start, end = member.start, member.value.end
    if member.comma is not None:
        end = member.comma + 1
    elif (position := members.index(member)) > 0 and (comma := members[position - 1].comma) is not None:
        # The last member: the comma before it goes, since plain JSON takes none at the end.
        between = text[comma + 1 : start]
        gap = 1 if between.strip(" \t") else 1 + len(between)
        text = text[:comma] + text[comma + gap :]
        start, end = start - gap, end - gap
    line_start = text.rfind("\n", 0, start) + 1
    line_end = text.find("\n", end)
    if line_end >= 0 and not text[line_start:start].strip() and not text[end:line_end].strip():
        return text[:line_start] + text[line_end + 1 :]
    # On a line with others, the blanks behind it go too.
    while text[end : end + 1] == " ":
        end += 1
    return text[:start] + text[end:]


def _inserted(text: str, owner: Node, key: str, value: str) -> str:
    """With a member more at the end of the object, on a line of its own where the others have one."""
    members = owner.members or []
    if not members:
        return f"{text[: owner.start + 1]}{key}: {value}{text[owner.start + 1 :]}"
    last = members[-1]
    line_start = text.rfind("\n", 0, last.start) + 1
    indent = text[line_start : last.start]
    own_line = line_start > owner.start and not indent.strip()
    newline = "\r\n" if text[max(0, line_start - 2) : line_start] == "\r\n" else "\n"
    lead = f"{newline}{indent}" if own_line else " "
    if last.comma is not None:
        return f"{text[: last.comma + 1]}{lead}{key}: {value},{text[last.comma + 1 :]}"
    return f"{text[: last.value.end]},{lead}{key}: {value}{text[last.value.end :]}"


def real_path(path: Path) -> Path:
    """The file itself where its name is a symbolic link: the link stays."""
    return Path(os.path.realpath(path))


def with_backup(path: Path, before: bytes, after: bytes, stamp: int) -> Path:
    """Write `after` in place of `before`, which is kept beside it under a name that nobody has; gives that name.

    Raises what `replace_file` raises; the file stays as it is then.
    """
    mode = os.stat(path).st_mode & 0o777
    backup, number = path.with_name(f"{path.name}.bak-{stamp}"), 0
    while backup.exists():
        number += 1
        backup = path.with_name(f"{path.name}.bak-{stamp}.{number}")
    replace_file(backup, before, mode=mode)
    reached(Step.FIX_CONFIG_BACKED_UP)
    replace_file(path, after, mode=mode)
    return backup
