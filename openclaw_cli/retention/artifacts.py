"""Files in a sessions directory by their names, and which of them nobody refers to any more (cleanup §7.3, §7.4)."""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum
from pathlib import Path
from typing import Any

TEMPORARY_AGE_MS = 300_000
"""What a crashed writer left is taken after five minutes."""

_STAMP = re.compile(r"\d{4}-\d\d-\d\dT\d\d-\d\d-\d\d(?:\.\d{3})?Z(?:\.[0-9a-f]{32})?", re.ASCII)
_REASONS = ("deleted", "reset", "bak")
_UUID = r"[0-9a-f]{8}-[0-9a-f]{4}-[1-5][0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}"
_ANY_UUID = r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}"
_CHECKPOINT = re.compile(rf"(.+)\.checkpoint\.{_UUID}\.jsonl", re.IGNORECASE)
_PRE_DOCTOR = re.compile(r"\.jsonl\.pre-doctor-(?:branch|openai-codex)-repair-.+\.bak\Z")
_MIGRATED = re.compile(r"\.migrated(?:\.\d+)?\Z")
_INDEX_BACKUP = re.compile(r"sessions\.json\.bak\.\d+\Z")
_INDEX_TEMPORARY = re.compile(rf"(?:\d+\.)?{_ANY_UUID}\.tmp", re.IGNORECASE)
_STAGE = re.compile(rf".+\.{_ANY_UUID}\.(?:jsonl-stage|stage|tmp)", re.IGNORECASE)
_OURS = re.compile(r"\..+\.[0-9a-f]{12}\.tmp")


class Class(StrEnum):
    """What a file is. KEPT: nothing that this program takes away, whatever its age."""

    TRANSCRIPT = "transcript"
    TRAJECTORY = "trajectory"
    CHECKPOINT = "checkpoint"
    ARCHIVE = "archive"
    TEMPORARY = "temporary"
    MIGRATION = "migration"
    KEPT = "kept"


@dataclass(frozen=True, slots=True)
class Name:
    """What a name says. `session_id` of a transcript or an archive; `at_ms`: when an archive was made."""

    kind: Class
    session_id: str | None = None
    reason: str | None = None
    at_ms: int | None = None


@dataclass(frozen=True, slots=True)
class Artifact:
    """One regular file directly in a sessions directory. Times in epoch ms."""

    path: Path
    name: Name
    size_bytes: int
    modified_ms: int

    def as_json(self, reason: str, now_ms: int) -> dict[str, Any]:
        """Its object in a report."""
        return {
            "path": str(self.path),
            "class": str(self.name.kind),
            "ageMs": now_ms - self.modified_ms,
            "bytes": self.size_bytes,
            "reason": reason,
        }


def classify(name: str, index_name: str = "sessions.json") -> Name:
    """What a file of this name is. `index_name`: that of the store's index, whose temporary files are known by it."""
    archived = _archive(name)
    if archived is not None:
        return archived
    if _PRE_DOCTOR.search(name) or _MIGRATED.search(name):
        return Name(Class.MIGRATION)
    if name.startswith(f"{index_name}.") and _INDEX_TEMPORARY.fullmatch(name[len(index_name) + 1 :]):
        return Name(Class.TEMPORARY)
    if _STAGE.fullmatch(name) or _OURS.fullmatch(name):
        return Name(Class.TEMPORARY)
    if name.endswith((".trajectory.jsonl", ".trajectory-path.json")):
        return Name(Class.TRAJECTORY)
    checkpoint = _CHECKPOINT.fullmatch(name)
    if checkpoint is not None:
        return Name(Class.CHECKPOINT, checkpoint[1])
    if name.endswith(".jsonl"):
        return Name(Class.TRANSCRIPT, name.removesuffix(".jsonl"))
    return Name(Class.KEPT)


def _archive(name: str) -> Name | None:
    if _INDEX_BACKUP.fullmatch(name):
        return Name(Class.KEPT, reason="bak")
    plain = name.removesuffix(".zst")
    for reason in _REASONS:
        stem, mark, tail = plain.rpartition(f".{reason}.")
        if mark and _STAMP.fullmatch(tail):
            session_id = stem.removesuffix(".jsonl") if stem.endswith(".jsonl") and reason != "bak" else None
            return Name(Class.ARCHIVE, session_id, reason, _time_ms(tail))
    return None


def _time_ms(tail: str) -> int | None:
    moment, _, _ = tail.partition("Z")
    day, _, clock = moment.partition("T")
    text = f"{day}T{clock.replace('-', ':')}+00:00"
    try:
        return round(datetime.fromisoformat(text).astimezone(UTC).timestamp() * 1000)
    except ValueError:
        return None  # A day that no calendar has: it is an archive all the same, of unknown age.


def listing(directory: Path, index_name: str = "sessions.json") -> Iterator[Artifact]:
    """The regular files directly in a sessions directory, in the order of names; none where it is missing."""
    if not directory.is_dir():
        return
    for name in sorted(os.listdir(directory)):
        path = directory / name
        try:
            found = path.lstat()
        except FileNotFoundError:
            continue  # Gone since the directory was read.
        if stat.S_ISREG(found.st_mode):
            yield Artifact(path, classify(name, index_name), found.st_size, found.st_mtime_ns // 1_000_000)


def counted_bytes(files: Iterable[Artifact]) -> int:
    """What the files count for the disk budget; originals of migrations do not."""
    return sum(file.size_bytes for file in files if file.name.kind is not Class.MIGRATION)


def referenced_names(entries: Iterable[Mapping[str, Any]]) -> set[str]:
    """Names of the files that rows refer to: transcript, trajectory and checkpoints of each (cleanup §7.3)."""
    found: set[str] = set()
    for entry in entries:
        stems = {Path(file).name.removesuffix(".jsonl") for file in _files_of(entry)}
        session_id = entry.get("sessionId")
        if isinstance(session_id, str):
            stems.add(session_id)
        for stem in stems:
            found |= {f"{stem}.jsonl", f"{stem}.trajectory.jsonl", f"{stem}.trajectory-path.json"}
    return found


def _files_of(entry: Mapping[str, Any]) -> Iterator[str]:
    points = entry.get("compactionCheckpoints")
    holders: list[Any] = [entry]
    for point in points if isinstance(points, list) else ():
        if isinstance(point, Mapping):
            holders += [point, point.get("preCompaction"), point.get("postCompaction")]
    for holder in holders:
        for name in ("sessionFile", "transcriptPath"):
            if isinstance(holder, Mapping) and isinstance(file := holder.get(name), str) and file:
                yield file


def orphans(
    files: Iterable[Artifact], referenced: Callable[[], set[str]], *, now_ms: int, prune_after_ms: int
) -> list[tuple[Artifact, str]]:
    """Files that nothing refers to and that are old enough, the oldest first, each with the reason.

    `referenced` is asked only where there is a file that it could be about.
    """
    found: list[tuple[Artifact, str]] = []
    names: set[str] | None = None
    for file in files:
        age_ms = now_ms - file.modified_ms
        match file.name.kind:
            case Class.TEMPORARY if age_ms > TEMPORARY_AGE_MS:
                found.append((file, "temporary-leftover"))
            case Class.TRANSCRIPT | Class.TRAJECTORY | Class.CHECKPOINT:
                if age_ms >= prune_after_ms:
                    names = referenced() if names is None else names
                    if file.path.name not in names:
                        found.append((file, "unreferenced"))
    return sorted(found, key=lambda each: (each[0].modified_ms, each[0].path.name))
