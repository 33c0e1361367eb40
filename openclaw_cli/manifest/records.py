"""A migration run as values: which file of which store moves where, and what is known of it."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

from openclaw_cli.durable import FileIdentity
from openclaw_cli.errors import CorruptError

OPENCLAW_VERSION = "2026.9.6"
WRITTEN_VERSION = 3

Kind = Literal["legacy-store", "transcript", "trajectory", "unreferenced-jsonl"]
Classification = Literal["imported", "repair-original", "protected"]
Validation = Literal["not_run", "passed", "failed"]


class ManifestInvalidError(CorruptError):
    """A manifest that does not hold what its format demands; it must not be acted on."""

    code = "manifest_invalid"


@dataclass(frozen=True, slots=True)
class Artifact:
    """What is known of an archived original: its identity, why it is kept and on which sources it depends."""

    identity: FileIdentity
    classification: Classification
    reason: str
    dependencies: tuple[str, ...] = ()
    disposal: dict[str, str] = field(default_factory=lambda: {"state": "retained"})


@dataclass(frozen=True, slots=True)
class Move:
    """One file's way from the sessions directory into the import archive."""

    source_path: Path
    archive_path: Path
    kind: Kind
    artifact: Artifact | None
    session_key: str | None = None

    @property
    def key(self) -> tuple[str, str]:
        """What makes two moves the same one."""
        return str(self.source_path), str(self.archive_path)


@dataclass(slots=True)
class TargetRecord:
    """One target of a run: an agent's index, its database and the moves between."""

    agent_id: str
    store_path: Path
    sqlite_path: Path
    planned: list[Move] = field(default_factory=list)
    completed: list[Move] = field(default_factory=list)
    issues: list[dict[str, str]] = field(default_factory=list)
    validation: Validation = "not_run"

    @property
    def sessions_dir(self) -> Path:
        """The only directory from which files may be moved."""
        return self.store_path.parent

    @property
    def archive_dir(self) -> Path:
        """The only directory into which files may be moved: beside the sessions directory."""
        return archive_dir_of(self.store_path)

    def open_moves(self) -> list[Move]:
        """Planned moves that are not recorded as completed."""
        done = {move.key for move in self.completed}
        return [move for move in self.planned if move.key not in done]


@dataclass(slots=True)
class Manifest:
    """A migration run. Unknown keys of the file are kept in `extra` and written back."""

    run_id: str
    started_at: str
    targets: list[TargetRecord]
    version: int = WRITTEN_VERSION
    openclaw_version: str = OPENCLAW_VERSION
    completed_at: str | None = None
    failed_at: str | None = None
    failure_reports: dict[str, Any] | None = None
    restore: dict[str, Any] | None = None
    extra: dict[str, Any] = field(default_factory=dict)


def archive_dir_of(store_path: Path) -> Path:
    """`session-sqlite-import-archive`, the sibling of the sessions directory (store format §1)."""
    return store_path.parent.parent / "session-sqlite-import-archive"


def with_identity(move: Move, identity: FileIdentity) -> Move:
    """The move as it happened: a copy has another inode than its source."""
    return move if move.artifact is None else replace(move, artifact=replace(move.artifact, identity=identity))
