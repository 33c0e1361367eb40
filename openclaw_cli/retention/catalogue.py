"""Archives of removed and reset sessions wherever they are: rows of stores, files beside them, directories elsewhere.

A directory of the user's own (`--archive-dir`) is known from the audit, or is named. Archives of imports are not among
them: they belong to `doctor restore`.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from openclaw_cli import archive
from openclaw_cli.config import Target
from openclaw_cli.durable import sha256_file
from openclaw_cli.errors import CorruptError, Issue, escaped
from openclaw_cli.retention import ageing, artifacts, notes
from openclaw_cli.retention.ageing import Kept
from openclaw_cli.retention.notes import Note
from openclaw_cli.storage import archives, connection

KINDS = ("jsonl", "trajectory", "parent-stream")


@dataclass(frozen=True, slots=True)
class Archive:
    """One archive. `agent_id`: whose sessions directory or store it is in, None in a directory of the user's own.

    `kept` has the file and the row; `session_key` is None where neither row nor note nor audit tells it.
    """

    agent_id: str | None
    kept: Kept
    session_key: str | None
    sha256: str | None
    note: Note | None = None

    @property
    def name(self) -> str:
        """Of the file, whether it is there or only the row."""
        return self.kept.name

    @property
    def path(self) -> Path | None:
        """Of the file."""
        return self.kept.path

    @property
    def kind(self) -> str:
        """What of a session it holds."""
        stem = self.name.split(".deleted.")[0].split(".reset.")[0]
        return next((kind for kind in KINDS[1:] if stem.endswith(f".{kind}")), KINDS[0])

    @property
    def reason(self) -> str | None:
        """Why it was made: deleted, reset, bak."""
        return artifacts.classify(self.name).reason

    @property
    def session_id(self) -> str:
        """Whose it is, by the row, the note or the name."""
        if self.note is not None:
            return self.note.session_id
        known = self.kept.session_id
        return known if known is not None else session_id_in(self.name)

    def as_json(self, now_ms: int) -> dict[str, Any]:
        """Its object in a list."""
        file, row = self.kept.file, self.kept.row
        return {
            "agentId": self.agent_id,
            "name": escaped(self.name),
            "path": None if self.path is None else escaped(str(self.path)),
            "sessionId": escaped(self.session_id),
            "sessionKey": None if self.session_key is None else escaped(self.session_key),
            "kind": self.kind,
            "reason": self.reason,
            "createdAt": self.kept.made_ms,
            "ageMs": now_ms - self.kept.made_ms,
            "bytes": file.size_bytes if file is not None else row.size_bytes if row is not None else 0,
            "inStore": row is not None,
            "inFiles": file is not None,
            "sha256": self.sha256,
        }


def session_id_in(name: str) -> str:
    """The session id that the name of an archive begins with."""
    for reason in ("deleted", "reset", "bak"):
        stem, mark, _ = name.partition(f".{reason}.")
        if mark:
            for kind in KINDS:
                stem = stem.removesuffix(f".{kind}")
            return stem
    return name


def find(targets: Iterable[Target], directories: Sequence[Path], told: dict[str, dict[str, Any]]) -> Iterator[Archive]:
    """All archives of stores, then those in other directories, the oldest first of each; nothing is unpacked.

    `told`: path → line of the audit. Raises what opening a store raises.
    """
    seen: set[Path] = set()
    for target in targets:
        seen.add(target.sessions_dir.resolve())
        files = list(artifacts.listing(target.sessions_dir, target.store_path.name))
        with _opened(target) as store:
            rows = {} if store is None else dict(archives.with_keys(store))
            stored = [] if store is None else list(archives.stored(store))
        for one in ageing.kept(files, stored):
            yield _archive(target.agent_id, one, rows.get(one.name), told)
    for directory in directories:
        if directory.resolve() not in seen:
            seen.add(directory.resolve())
            for one in ageing.kept(artifacts.listing(directory), ()):
                yield _archive(None, one, None, told)


def _opened(target: Target) -> Any:
    if not target.sqlite_path.exists():
        return nullcontext(None)
    return connection.open_read(target.sqlite_path, agent_id=target.agent_id)


def _archive(agent_id: str | None, one: Kept, key: str | None, told: dict[str, dict[str, Any]]) -> Archive:
    line = told.get(str(one.path), {})
    note = None
    if one.path is not None:
        try:
            note = notes.read(one.path)
        except (CorruptError, ValueError, KeyError):
            note = None  # `verify` tells; a list is to show it all the same.
    if key is None:
        key = note.session_key if note is not None else line.get("key")
    sha256 = one.row.sha256 if one.row is not None else line.get("sha256")
    return Archive(agent_id if note is None else note.agent_id, one, key, sha256, note)


def told_by_audit(state_dir: Path) -> dict[str, dict[str, Any]]:
    """Path of an archive → the audit line that says that it was written; lines that cannot be read are left out."""
    found: dict[str, dict[str, Any]] = {}
    directory = state_dir / "openclaw-cli"
    for path in sorted(directory.glob("audit.jsonl*"), reverse=True):
        with path.open("rb") as stream:
            for raw in stream:
                try:
                    line = json.loads(raw)
                except ValueError:
                    continue  # The last line of a run that was cut.
                if isinstance(line, dict) and line.get("event") == "session-archived":
                    found[str(line.get("archive"))] = line
    return found


def directories_of(told: dict[str, dict[str, Any]]) -> list[Path]:
    """Directories that archives were written to and that are there."""
    return sorted({Path(path).parent for path in told if Path(path).parent.is_dir()})


@dataclass(frozen=True, slots=True)
class Verified:
    """What unpacking an archive gave: bytes and lines of its content, and what is wrong."""

    one: Archive
    content_bytes: int
    lines: int
    issues: tuple[Issue, ...] = ()


def verify(one: Archive, target: Target | None) -> Verified:
    """Unpack an archive to its end and compare it with what row, note and audit say of it."""
    issues: list[Issue] = []
    size = lines = 0
    if one.path is not None:
        try:
            size, lines = _measured(one.path)
            notes.read(one.path)
            found = sha256_file(one.path)
            if one.sha256 is not None and found != one.sha256:
                issues.append(_issue(one, "archive_changed", "its SHA-256 is not the one that was recorded"))
        except CorruptError as error:
            issues.append(_issue(one, "archive_corrupt", error.message))
        except (OSError, ValueError, KeyError) as error:
            issues.append(_issue(one, "archive_unreadable", str(error)))
    if one.kept.row is not None and target is not None:
        issues.extend(_row_issues(one, target))
    return Verified(one, size, lines, tuple(issues))


def _row_issues(one: Archive, target: Target) -> Iterator[Issue]:
    row = one.kept.row
    if row is None:
        return
    with connection.open_read(target.sqlite_path, agent_id=target.agent_id) as store:
        if archives.blob_sha256(store, one.name) != row.sha256:
            yield _issue(one, "archive_row_corrupt", "what the row holds is not what its SHA-256 says")
    if one.path is None:
        message = "only the row is there, its file is not; OpenClaw writes it again"
        yield Issue("archive_file_missing", "warning", message, facts={"archive": escaped(one.name)})


def _measured(path: Path) -> tuple[int, int]:
    size = lines = 0
    with archive.open_stream(path) as stream:
        while block := stream.read(1 << 20):
            size += len(block)
            lines += block.count(b"\n")
    return size, lines


def _issue(one: Archive, code: str, message: str) -> Issue:
    return Issue(
        code, "error", f"{escaped(one.name)}: {message}", one.session_key, facts={"archive": escaped(one.name)}
    )
