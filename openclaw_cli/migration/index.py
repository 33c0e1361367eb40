"""Reading a file-era session index, `sessions.json`: every entry by itself, so that a bad one costs only itself."""

from __future__ import annotations

import hashlib
import re
import unicodedata
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from openclaw_cli import jstext
from openclaw_cli.errors import Issue, escaped
from openclaw_cli.migration import members

_CHECKPOINT = re.compile(r"\.checkpoint\.[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$", re.IGNORECASE)
_LONGEST_ID = 128
_LONGEST_NAME_BYTES = 255


@dataclass(frozen=True, slots=True)
class IndexEntry:
    """One usable row of an index: its key as written, its session id, and the row's JSON text.

    The text is held, not the values: they take several times the room, and an index may have 100 MB.
    """

    key: str
    session_id: str
    raw: bytes
    session_file: Any = None

    @property
    def entry(self) -> dict[str, Any]:
        """The whole entry, parsed anew at each use."""
        entry: dict[str, Any] = jstext.parse(self.raw)
        return entry


@dataclass(slots=True)
class Index:
    """An index as read. `usable` is False when the file exists and is no JSON object: then nothing is known."""

    path: Path
    exists: bool
    usable: bool = True
    size_bytes: int = 0
    sha256: str = ""
    entries: list[IndexEntry] = field(default_factory=list)
    issues: list[Issue] = field(default_factory=list)


def read_index(path: Path) -> Index:
    """Read an index; what is wrong with the file or with one entry becomes an issue that names the key.

    The file's text is held once, its values one entry at a time. Only a file that is no plain object of objects that
    the fast parsers can read is held as a whole.
    """
    try:
        with path.open("rb", buffering=0) as stream:
            return _streamed(path, members.Members(stream))
    except FileNotFoundError:
        return Index(path, exists=False)
    except members.Undecided:
        return _whole(path)
    except OSError as error:
        return _unusable(path, 0, "", f"cannot be read: {error.strerror}")


def _streamed(path: Path, source: members.Members) -> Index:
    # As in JavaScript the last of equal keys counts, at the place of the first, and array indexes come first.
    rows: dict[str, IndexEntry | Issue] = {}
    try:
        for key, raw, entry in source.read():
            rows[key] = _judged(path, key, raw, entry)
    except members.Broken as error:
        source.finish()
        return _unusable(path, source.size_bytes, source.sha256, "is not JSON", byteOffset=error.offset)
    return _index(path, source.size_bytes, source.sha256, rows)


def _whole(path: Path) -> Index:
    """The same for an odd file, through a parser that knows every rule."""
    try:
        raw = path.read_bytes()
    except OSError as error:
        return _unusable(path, 0, "", f"cannot be read: {error.strerror}")
    size, digest = len(raw), hashlib.sha256(raw).hexdigest()
    try:
        document = jstext.parse(raw.removeprefix(b"\xef\xbb\xbf"))
    except ValueError:
        return _unusable(path, size, digest, "is empty" if not raw.strip() else "is not JSON")
    del raw
    if not isinstance(document, dict):
        return _unusable(path, size, digest, "is no JSON object", code="store_not_object")
    rows = {key: _judged(path, key, jstext.dumps(entry), entry) for key, entry in document.items()}
    return _index(path, size, digest, rows)


def _index(path: Path, size: int, digest: str, rows: dict[str, IndexEntry | Issue]) -> Index:
    index = Index(path, exists=True, size_bytes=size, sha256=digest)
    for key in jstext.property_order(rows):
        row = rows[key]
        if isinstance(row, Issue):
            index.issues.append(row)
        else:
            index.entries.append(row)
    return index


def session_id_of(value: object) -> str | None:
    """The session id as file names use it, or None when it is none (store format §2)."""
    if not isinstance(value, str):
        return None
    text = unicodedata.normalize("NFC", value.strip())
    if not text or len(text) > _LONGEST_ID or len(f"{text}.jsonl".encode("utf-8", "replace")) > _LONGEST_NAME_BYTES:
        return None
    if unicodedata.category(text[0])[0] not in "LN" or _CHECKPOINT.search(text):
        return None
    usable = all(character in "._-" or unicodedata.category(character)[0] in "LNM" for character in text)
    return text if usable else None


def _judged(path: Path, key: str, raw: bytes, entry: object) -> IndexEntry | Issue:
    """One row, or why it is left out."""
    if not isinstance(entry, dict):
        return _invalid(path, key, "the entry is no object")
    stated = entry.get("sessionId")
    session_id = session_id_of(stated)
    if not key.strip():
        return _invalid(path, key, "the key is blank")
    if escaped(key) != key:
        return _invalid(path, key, "the key has half a character (a lone surrogate), which no store can hold")
    if session_id is None:
        missing = not isinstance(stated, str) or not stated.strip()
        return _invalid(path, key, "the entry has no sessionId" if missing else "its sessionId cannot be a session id")
    return IndexEntry(key, session_id, raw, entry.get("sessionFile"))


def _invalid(path: Path, key: str, wrong: str) -> Issue:
    message = f"{path}: {wrong}; it was left out, the others go on"
    return Issue("entry_invalid", "error", message, session_key=escaped(key))


def _unusable(path: Path, size: int, digest: str, wrong: str, code: str = "store_unreadable", **place: int) -> Index:
    where = f" (byte {place['byteOffset']})" if place else ""
    message = (
        f"{path} {wrong}{where}; nothing was imported. Use --rebuild-index to take the sessions from the transcripts"
    )
    facts = {"hint": "--rebuild-index", "bytes": size, **place}
    issue = Issue(code, "error", message, facts=facts)
    return Index(path, exists=True, usable=False, size_bytes=size, sha256=digest, issues=[issue])
