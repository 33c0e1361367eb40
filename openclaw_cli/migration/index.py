"""Reading a file-era session index, `sessions.json`: every entry by itself, so that a bad one costs only itself."""

from __future__ import annotations

import hashlib
import re
import unicodedata
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from openclaw_cli import jstext
from openclaw_cli.errors import Issue

_CHECKPOINT = re.compile(r"\.checkpoint\.[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$", re.IGNORECASE)
_LONGEST_ID = 128
_LONGEST_NAME_BYTES = 255


@dataclass(frozen=True, slots=True)
class IndexEntry:
    """One usable row of an index: its key as written, its session id, and the whole entry."""

    key: str
    session_id: str
    entry: dict[str, Any]


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

    The file is held in memory once, as bytes and then as values (about four times its size at most).
    """
    try:
        raw = path.read_bytes()
    except FileNotFoundError:
        return Index(path, exists=False)
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
    index = Index(path, exists=True, size_bytes=size, sha256=digest)
    for key, entry in document.items():
        _add(index, key, entry)
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


def _add(index: Index, key: str, entry: object) -> None:
    if not isinstance(entry, dict):
        index.issues.append(_invalid(index.path, key, "the entry is no object"))
        return
    stated = entry.get("sessionId")
    session_id = session_id_of(stated)
    if not key.strip():
        index.issues.append(_invalid(index.path, key, "the key is blank"))
    elif session_id is None:
        missing = not isinstance(stated, str) or not stated.strip()
        wrong = "the entry has no sessionId" if missing else "its sessionId cannot be a session id"
        index.issues.append(_invalid(index.path, key, wrong))
    else:
        index.entries.append(IndexEntry(key, session_id, entry))


def _invalid(path: Path, key: str, wrong: str) -> Issue:
    return Issue("entry_invalid", "error", f"{path}: {wrong}; it was left out, the others go on", session_key=key)


def _unusable(path: Path, size: int, digest: str, wrong: str, code: str = "store_unreadable") -> Index:
    message = f"{path} {wrong}; nothing was imported. Use --rebuild-index to take the sessions from the transcripts"
    facts = {"hint": "--rebuild-index", "bytes": size}
    issue = Issue(code, "error", message, facts=facts)
    return Index(path, exists=True, usable=False, size_bytes=size, sha256=digest, issues=[issue])
