"""What lies in a sessions directory, and which transcript belongs to which row of the index."""

from __future__ import annotations

import ntpath
import os
import posixpath
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Any

from openclaw_cli import jsonl, jstext
from openclaw_cli.errors import Issue, escaped

INDEX_NAME = "sessions.json"
_HEADER_BYTES = 64 * 1024
_UUID = r"[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}"
_CHECKPOINT = re.compile(rf"\.checkpoint\.{_UUID}\.jsonl$")
_TIMESTAMP_PREFIX = re.compile(r"^\d{4}-\d{2}-\d{2}T\d{2}-\d{2}-\d{2}(?:[-.]\d{3})?Z?_")
_TOPIC_SUFFIX = re.compile(r"-topic-[^/]*$")
_HISTORICAL_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,127}")
_HISTORICAL_VERSIONS = (None, 1, 2, 3, 4)
_DRIVE = re.compile(r"^[A-Za-z]:[\\/]|^\\\\")


class FileClass(StrEnum):
    """What a name in the sessions directory says of its file."""

    INDEX = "index"
    TRANSCRIPT = "transcript"
    TRAJECTORY = "trajectory"
    POINTER = "pointer"
    CHECKPOINT = "checkpoint"
    LOCK = "lock"
    OTHER = "other"


@dataclass(frozen=True, slots=True)
class Source:
    """One file of the sessions directory. `linked` says why it must not be moved: hard link or symbolic link."""

    path: Path
    size_bytes: int
    mtime_ms: int
    linked: str | None = None

    @property
    def name(self) -> str:
        """The file's name."""
        return self.path.name


@dataclass(slots=True)
class Listing:
    """The files of one sessions directory by class, each by name. `issues`: files that cannot be taken in."""

    directory: Path
    files: dict[FileClass, dict[str, Source]] = field(default_factory=lambda: {kind: {} for kind in FileClass})
    issues: list[Issue] = field(default_factory=list)

    @property
    def transcripts(self) -> Mapping[str, Source]:
        """Files that may be a session's own transcript."""
        return self.files[FileClass.TRANSCRIPT]

    def sidecars(self, transcript: str) -> list[Source]:
        """Trajectory files beside a transcript: the events, then the pointer."""
        stem = transcript.removesuffix(".jsonl")
        found = (
            self.files[FileClass.TRAJECTORY].get(f"{stem}.trajectory.jsonl"),
            self.files[FileClass.POINTER].get(f"{stem}.trajectory-path.json"),
        )
        return [source for source in found if source is not None]


@dataclass(frozen=True, slots=True)
class Resolution:
    """The transcript that a row names. `refused`: the row names a place outside the directory; nothing is opened."""

    source: Source | None
    stated: bool = False
    refused: bool = False


@dataclass(frozen=True, slots=True)
class Header:
    """The first row of a transcript. `kind`: session, empty, foreign (JSON, but no header), damaged."""

    kind: str
    session_id: str | None = None
    version: object = None
    timestamp: object = None


def classify(name: str) -> FileClass:
    """The class of a file by its name (store format §1, §6)."""
    if name == INDEX_NAME:
        return FileClass.INDEX
    if name.endswith(".jsonl.lock") or name == f"{INDEX_NAME}.lock":
        return FileClass.LOCK
    if name.endswith(".trajectory.jsonl"):
        return FileClass.TRAJECTORY
    if name.endswith(".trajectory-path.json"):
        return FileClass.POINTER
    if _CHECKPOINT.search(name):
        return FileClass.CHECKPOINT
    return FileClass.TRANSCRIPT if name.endswith(".jsonl") and name != ".jsonl" else FileClass.OTHER


def list_directory(directory: Path) -> Listing:
    """Read a sessions directory once; directories in it and what vanishes meanwhile are passed over.

    A file of a session that cannot be looked at, or whose name no JSON text can hold, is an issue of the listing.
    """
    listing = Listing(directory)
    if not directory.is_dir():
        return listing
    with os.scandir(directory) as found:
        for item in sorted(found, key=lambda item: item.name):
            try:
                status = item.stat()
            except FileNotFoundError:
                continue  # Gone since the directory was read, or a symbolic link to nothing.
            except OSError as error:
                # A link that leads to itself, a mount that does not answer: the other files are not concerned.
                _refuse(listing, item.name, "transcript_unreadable", f"cannot be read: {error.strerror}")
                continue
            if not item.is_file():
                continue
            if escaped(item.name) != item.name:
                why = "has a name that is not UTF-8, which no manifest can hold; it stays, rename it and run again"
                _refuse(listing, item.name, "transcript_path_refused", why)
                continue
            linked = "symbolic link" if item.is_symlink() else ("hard link" if status.st_nlink > 1 else None)
            source = Source(directory / item.name, status.st_size, status.st_mtime_ns // 1_000_000, linked)
            listing.files[classify(item.name)][item.name] = source
    return listing


def _refuse(listing: Listing, name: str, code: str, why: str) -> None:
    """Note a file that stays out, unless its name says that nothing of a session is in it."""
    if classify(name) not in (FileClass.OTHER, FileClass.LOCK):
        listing.issues.append(Issue(code, "error", f"{listing.directory / escaped(name)} {why}"))


def resolve(entry: Mapping[str, Any], session_id: str, listing: Listing) -> Resolution:
    """Find a row's transcript: the named file, re-rooted by its base name, else `<id>.jsonl`.

    A path of another machine, POSIX or Windows, keeps only its base name; a relative path that climbs out of the
    directory is refused and nothing is tried in its place.
    """
    stated = entry.get("sessionFile")
    if isinstance(stated, str) and stated.strip():
        name = _base_name(stated.strip())
        if name is None:
            return Resolution(None, stated=True, refused=True)
        source = listing.transcripts.get(name)
        if source is not None:
            return Resolution(source, stated=True)
        return Resolution(listing.transcripts.get(f"{session_id}.jsonl"), stated=True)
    return Resolution(listing.transcripts.get(f"{session_id}.jsonl"))


def id_in_name(name: str) -> str:
    """The session id that a transcript's name carries: without `.jsonl`, timestamp prefix and topic suffix."""
    stem = name.removesuffix(".jsonl")
    return _TOPIC_SUFFIX.sub("", _TIMESTAMP_PREFIX.sub("", stem))


def read_header(path: Path) -> Header:
    """Read the first row of a transcript; no more than 64 KiB are touched."""
    with open(path, "rb") as stream:
        stream.seek(0)
        block = stream.read(_HEADER_BYTES)
    block = block.removeprefix(b"\xef\xbb\xbf")
    lines = (line.strip() for line in block.split(b"\n"))
    first = next((line for line in lines if line), b"")
    if not first:
        return Header("empty")
    try:
        value = jstext.parse(first)
    except ValueError:
        return Header("damaged")
    return header_of(value)


def salvaged_header(path: Path, max_line_bytes: int) -> Header:
    """The header of a transcript whose first line is damaged, as a salvage finds it.

    When the header is lost, but a whole row of a transcript follows, the file's name says which session it is; only a
    name with a UUID is believed. Raises OSError.
    """
    with open(path, "rb", buffering=0) as stream:
        records = jsonl.read(
            stream,
            file=str(path),
            policy=jsonl.Policy.SALVAGE,
            tally=jsonl.Tally(),
            max_line_bytes=max_line_bytes,
        )
        first = next(records, None)
    if first is None:
        return Header("damaged")
    found = header_of(first.value)
    named = id_in_name(path.name)
    is_row = found.kind == "foreign" and isinstance(first.value, dict) and isinstance(first.value.get("type"), str)
    if is_row and re.fullmatch(_UUID, named) is not None:
        return Header("session", named, None, first.value.get("timestamp"))
    return found


def header_of(value: object) -> Header:
    """The header that a transcript's first record is, of kind `foreign` when it is none."""
    if value is None:
        return Header("empty")
    if not isinstance(value, dict) or value.get("type") != "session":
        return Header("foreign")
    identity = value.get("id")
    named = identity if isinstance(identity, str) else None
    return Header("session", named, value.get("version"), value.get("timestamp"))


def is_historical(header: Header, name: str) -> bool:
    """Whether an unreferenced file is a session of its own: header and name agree, in a version that is known."""
    return (
        header.kind == "session"
        and header.session_id is not None
        and _HISTORICAL_ID.fullmatch(header.session_id) is not None
        and header.session_id == id_in_name(name)
        and header.version in _HISTORICAL_VERSIONS
    )


def _base_name(stated: str) -> str | None:
    """The file's own name in a stated path, None when the path may not be followed."""
    windows = _DRIVE.match(stated) is not None or ("\\" in stated and "/" not in stated)
    parts = re.split(r"[\\/]", stated) if windows else stated.split("/")
    absolute = (windows and ntpath.isabs(stated)) or posixpath.isabs(stated)
    if not absolute and ".." in parts:
        return None
    name = parts[-1]
    usable = name.endswith(".jsonl") and "\0" not in name and name not in ("", ".", "..")
    return name if usable else None
