"""Migration runs on disk: `<state>/session-sqlite-migration-runs/<runId>.json` (store format §6.2).

A manifest says which file is moved where *before* it is moved, so that a cut run can be settled and a finished one be
undone. It is validated strictly in both directions: the real program ignores a manifest with one wrong field.
"""

from __future__ import annotations

import os
import re
import secrets
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from itertools import islice
from pathlib import Path
from typing import Any, Literal, NamedTuple

import orjson

from openclaw_cli.config.values import iso_utc
from openclaw_cli.durable import FileIdentity, make_dir, replace_file
from openclaw_cli.errors import CorruptError, Issue, escaped
from openclaw_cli.faults import Step, reached

RUNS_DIR = "session-sqlite-migration-runs"
OPENCLAW_VERSION = "2026.9.6"
WRITTEN_VERSION = 3
READABLE_VERSIONS = (1, 2, 3, 4)

Kind = Literal["legacy-store", "transcript", "trajectory", "unreferenced-jsonl"]
Classification = Literal["imported", "repair-original", "protected"]
Validation = Literal["not_run", "passed", "failed"]
_KINDS = ("legacy-store", "transcript", "trajectory", "unreferenced-jsonl")
_CLASSIFICATIONS = ("imported", "repair-original", "protected")
_VALIDATIONS = ("not_run", "passed", "failed")
_RESTORE_STATES = ("restored", "partial", "conflicts", "failed", "noop")
_SHA256 = re.compile(r"[a-f0-9]{64}")
_CLAIM = re.compile(r"\.cleanup-[a-f0-9-]{36}")


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

    def as_json(self) -> dict[str, Any]:
        """The document in the order in which the real program writes it."""
        document: dict[str, Any] = {
            "manifestVersion": self.version,
            "openClawVersion": self.openclaw_version,
            "runId": self.run_id,
            "startedAt": self.started_at,
            "targets": [_target_as_json(target) for target in self.targets],
        }
        optional = {
            "restore": self.restore,
            "failureReports": self.failure_reports,
            "completedAt": self.completed_at,
            "failedAt": self.failed_at,
        }
        document.update({name: value for name, value in optional.items() if value is not None})
        return {**document, **self.extra}


@dataclass(slots=True)
class Run:
    """A manifest with its file. Every change is durable before the call returns."""

    path: Path
    manifest: Manifest
    _targets_text: bytes | None = None
    # How many moves of each list have been checked. The lists only grow; with thousands of moves in them, checking all
    # for every record would cost the square of their number.
    _checked: dict[tuple[int, str], int] = field(default_factory=dict)

    def save(self) -> None:
        """Validate what is new and replace the file."""
        self._targets_text = None
        bare = [replace(target, planned=[], completed=[]) for target in self.manifest.targets]
        document = replace(self.manifest, targets=bare).as_json()
        parse(document, self.path)
        self._check_moves()
        replace_file(self.path, self._text(document))

    def _check_moves(self) -> None:
        check = _Checker(self.path)
        for number, target in enumerate(self.manifest.targets):
            place = _Place.of(target)
            for name, moves in (("planned", target.planned), ("completed", target.completed)):
                for move in islice(moves, self._checked.get((number, name), 0), None):
                    _parse_move(_move_as_json(move), place, check)
                self._checked[number, name] = len(moves)
            _check_lists(target, check)

    def _text(self, document: dict[str, Any]) -> Iterator[bytes]:
        """The file's text in pieces, one for each move: held together they would be as large as the file."""
        targets = document["targets"]
        document["targets"] = []
        head, tail = _parted(document, "targets")
        yield head
        for number, target in enumerate(self.manifest.targets):
            yield b",\n    " if number else b"[\n    "
            yield from _target_text(target, targets[number])
        yield b"\n  ]" if targets else b"[]"
        yield tail + b"\n"

    def save_beside_targets(self) -> None:
        """Replace the file where no target changed: with thousands of moves, their text is made and checked once."""
        document = replace(self.manifest, targets=[]).as_json()
        parse(document, self.path)
        if self._targets_text is None:
            targets = [_target_as_json(target) for target in self.manifest.targets]
            self._targets_text = orjson.dumps(targets, option=orjson.OPT_INDENT_2).replace(b"\n", b"\n  ")
        document["targets"] = orjson.Fragment(self._targets_text)
        replace_file(self.path, orjson.dumps(document, option=orjson.OPT_INDENT_2) + b"\n")

    def plan_moves(self, target: TargetRecord, moves: Iterable[Move]) -> None:
        """Record moves that are about to happen."""
        known = {move.key for move in target.planned}
        target.planned.extend(move for move in moves if move.key not in known)
        self.save()

    def record_moves(self, target: TargetRecord, moves: Iterable[Move]) -> None:
        """Record moves that have happened; they must have been planned."""
        done = {move.key for move in target.completed}
        target.completed.extend(move for move in moves if move.key not in done)
        self.save()

    def record_outcome(self, target: TargetRecord, validation: Validation, issues: Iterable[Issue]) -> None:
        """Record whether the rows were found in the store, and the target's findings so far."""
        target.validation = validation
        target.issues = [_issue_as_json(issue) for issue in issues]
        self.save()

    def complete(self, now_ms: int, *, failed: bool = False) -> None:
        """Close the run; `failed` makes the real program's `recover` look at it."""
        self.manifest.completed_at = iso_utc(now_ms)
        if failed:
            self.manifest.failed_at = self.manifest.completed_at
        self.save()
        reached(Step.MANIFEST_COMPLETED)


def create(state_dir: Path, targets: Iterable[TargetRecord], *, now_ms: int) -> Run:
    """Begin a run: its manifest is durable before anything else happens."""
    run_id = f"session-sqlite-{now_ms}-{secrets.token_hex(4)}"
    directory = state_dir / RUNS_DIR
    make_dir(directory)
    run = Run(directory / f"{run_id}.json", Manifest(run_id, iso_utc(now_ms), list(targets)))
    run.save()
    reached(Step.MANIFEST_CREATED)
    return run


def read(path: Path) -> Run:
    """Read and check one manifest; raises `ManifestInvalidError` with the first thing that is wrong."""
    try:
        document = orjson.loads(path.read_bytes())
    except (OSError, orjson.JSONDecodeError) as error:
        raise ManifestInvalidError(f"{path}: not readable as JSON", hint="leave it; it is not acted on") from error
    return Run(path, parse(document, path))


def runs(state_dir: Path) -> Iterator[Run | ManifestInvalidError]:
    """Every manifest of a state directory, oldest first; one that is invalid comes as its error."""
    directory = state_dir / RUNS_DIR
    names = sorted(os.listdir(directory)) if directory.is_dir() else []
    for name in names:
        if not name.endswith(".json") or name.endswith(".failure.json") or name.startswith("."):
            continue
        try:
            yield read(directory / name)
        except ManifestInvalidError as error:
            yield error


def archive_dir_of(store_path: Path) -> Path:
    """`session-sqlite-import-archive`, the sibling of the sessions directory (store format §1)."""
    return store_path.parent.parent / "session-sqlite-import-archive"


# --- reading strictly -------------------------------------------------------------------------------------------


def parse(document: Any, path: Path) -> Manifest:
    """Check a parsed manifest against the format and give it as a value."""
    check = _Checker(path)
    check.that(isinstance(document, dict), "the document is no object")
    version = document.get("manifestVersion")
    check.that(version in READABLE_VERSIONS and type(version) is int, "manifestVersion is unknown")
    for name in ("openClawVersion", "runId", "startedAt"):
        check.text(document, name)
    for name in ("completedAt", "failedAt"):
        check.that(document.get(name) is None or isinstance(document[name], str), f"{name} is no text")
    check.that(isinstance(document.get("targets"), list), "targets is no list")
    targets = [_parse_target(item, check) for item in document["targets"]]
    names = [(target.agent_id, str(target.store_path)) for target in targets]
    check.that(len(set(names)) == len(names), "a target occurs twice")
    _check_failure_reports(document.get("failureReports"), version, check)
    _check_restore(document.get("restore"), check)
    return Manifest(
        run_id=document["runId"],
        started_at=document["startedAt"],
        targets=targets,
        version=version,
        openclaw_version=document["openClawVersion"],
        completed_at=document.get("completedAt"),
        failed_at=document.get("failedAt"),
        failure_reports=document.get("failureReports"),
        restore=document.get("restore"),
        extra={name: value for name, value in document.items() if name not in _KNOWN_KEYS},
    )


_KNOWN_KEYS = {"manifestVersion", "openClawVersion", "runId", "startedAt", "targets"}
_KNOWN_KEYS |= {"completedAt", "failedAt", "failureReports", "restore"}


@dataclass(frozen=True, slots=True)
class _Checker:
    path: Path

    def that(self, condition: bool, wrong: str) -> None:
        if not condition:
            raise ManifestInvalidError(f"{self.path}: {wrong}", hint="the manifest is left alone and not acted on")

    def text(self, item: dict[str, Any], name: str) -> str:
        value = item.get(name)
        self.that(isinstance(value, str) and value != "", f"{name} is no text")
        return str(value)

    def absolute(self, value: Any, name: str) -> Path:
        return Path(self.normal(value, name))

    def normal(self, value: Any, name: str) -> str:
        usable = isinstance(value, str) and "\0" not in value and os.path.isabs(value)
        self.that(usable, f"{name} is no absolute path")
        return os.path.normpath(value)


def _parse_target(item: Any, check: _Checker) -> TargetRecord:
    check.that(isinstance(item, dict), "a target is no object")
    target = TargetRecord(
        agent_id=check.text(item, "agentId"),
        store_path=check.absolute(item.get("storePath"), "storePath"),
        sqlite_path=check.absolute(item.get("sqlitePath"), "sqlitePath"),
    )
    for name in ("plannedMoves", "completedMoves", "issues"):
        check.that(isinstance(item.get(name), list), f"{name} is no list")
    check.that(item.get("validationBeforeArchive") in _VALIDATIONS, "validationBeforeArchive is missing or unknown")
    target.validation = item["validationBeforeArchive"]
    for issue in item["issues"]:
        whole = isinstance(issue, dict) and isinstance(issue.get("message"), str) and bool(issue.get("code"))
        check.that(whole, "an issue has no code or message")
    target.issues = list(item["issues"])
    place = _Place.of(target)
    target.planned = [_parse_move(move, place, check) for move in item["plannedMoves"]]
    target.completed = [_parse_move(move, place, check) for move in item["completedMoves"]]
    _check_lists(target, check)
    return target


def _check_lists(target: TargetRecord, check: _Checker) -> None:
    planned = {move.key for move in target.planned}
    completed = {move.key for move in target.completed}
    check.that(len(planned) == len(target.planned), "a planned move occurs twice")
    check.that(len(completed) == len(target.completed), "a completed move occurs twice")
    check.that(completed <= planned, "a completed move was never planned")


class _Place(NamedTuple):
    """The paths of a target that its moves are checked against, made once for thousands of them."""

    store_path: str
    sessions_dir: str
    archive_dir: str

    @classmethod
    def of(cls, target: TargetRecord) -> _Place:
        return cls(str(target.store_path), str(target.sessions_dir), str(target.archive_dir))


def _parse_move(item: Any, place: _Place, check: _Checker) -> Move:
    check.that(isinstance(item, dict), "a move is no object")
    check.that(item.get("kind") in _KINDS, "the kind of a move is unknown")
    source = check.normal(item.get("sourcePath"), "sourcePath")
    archive = check.normal(item.get("archivePath"), "archivePath")
    check.that(os.path.dirname(archive) == place.archive_dir, "an archive path lies outside the archive directory")
    if item["kind"] == "legacy-store":
        check.that(source == place.store_path, "the index of a move is not the target's")
    else:
        inside = os.path.dirname(source) == place.sessions_dir
        check.that(inside, "a source path lies outside the sessions directory")
    key = item.get("sessionKey")
    check.that(key is None or isinstance(key, str), "sessionKey is no text")
    artifact = None if item.get("artifact") is None else _parse_artifact(item["artifact"], place, archive, check)
    return Move(Path(source), Path(archive), item["kind"], artifact, key)


def _parse_artifact(item: Any, place: _Place, archive: str, check: _Checker) -> Artifact:
    check.that(isinstance(item, dict), "an artifact is no object")
    check.that(item.get("classification") in _CLASSIFICATIONS, "the classification of an artifact is unknown")
    reason = item.get("reason")
    check.that(isinstance(reason, str), "an artifact has no reason")
    dependencies = item.get("dependencies", [])
    check.that(isinstance(dependencies, list), "dependencies is no list")
    for dependency in dependencies:
        inside = isinstance(dependency, str) and os.path.dirname(dependency) == place.sessions_dir
        check.that(inside, "a dependency lies outside the sessions directory")
    disposal = item.get("disposal")
    _check_disposal(disposal, archive, check)
    identity = _parse_identity(item.get("identity"), check)
    return Artifact(identity, item["classification"], str(reason), tuple(dependencies), dict(disposal))


def _parse_identity(item: Any, check: _Checker) -> FileIdentity:
    check.that(isinstance(item, dict), "an artifact has no identity")
    numbers = []
    for name in ("dev", "ino", "mtimeNs"):
        value = item.get(name)
        check.that(isinstance(value, str) and value.lstrip("-").isdecimal(), f"identity.{name} is no decimal text")
        numbers.append(int(value))
    size, digest = item.get("size"), item.get("sha256")
    check.that(type(size) is int and size >= 0, "identity.size is no number")
    check.that(isinstance(digest, str) and _SHA256.fullmatch(digest) is not None, "identity.sha256 is no SHA-256")
    return FileIdentity(numbers[0], numbers[1], numbers[2], size, digest)


def _check_disposal(disposal: Any, archive: str, check: _Checker) -> None:
    check.that(isinstance(disposal, dict), "an artifact has no disposal")
    state = disposal.get("state")
    check.that(state in ("retained", "pending-disposal", "disposed"), "the disposal state is unknown")
    if state == "disposed":
        check.text(disposal, "disposedAt")
    if state == "pending-disposal":
        claim = Path(check.text(disposal, "claimPath"))
        check.text(disposal, "intendedAt")
        check.that(disposal.get("phase") in ("intent", "unlink-pending"), "the disposal phase is unknown")
        inside = str(claim.parent) == os.path.dirname(archive) and _CLAIM.fullmatch(claim.name) is not None
        check.that(inside, "a disposal claim lies outside the archive directory")


def _check_failure_reports(reports: Any, version: int, check: _Checker) -> None:
    if reports is None:
        return
    check.that(isinstance(reports, dict), "failureReports is no object")
    for name in ("jsonPath", "markdownPath"):
        check.absolute(reports.get(name), f"failureReports.{name}")
    if reports.get("githubIssue") is not None:
        check.that(version == 4, "a GitHub receipt needs manifest version 4")


def _check_restore(restore: Any, check: _Checker) -> None:
    if restore is None:
        return
    check.that(isinstance(restore, dict), "restore is no object")
    check.text(restore, "attemptedAt")
    check.that(restore.get("status") in _RESTORE_STATES, "restore.status is unknown")
    for name in ("restoredFiles", "skippedFiles"):
        check.that(isinstance(restore.get(name), list), f"restore.{name} is no list")
        for path in restore[name]:
            check.absolute(path, f"restore.{name}")
    consumed = restore.get("consumedArchives", [])
    check.that(isinstance(consumed, list), "restore.consumedArchives is no list")
    for path in consumed:
        check.absolute(path, "restore.consumedArchives")
    check.that(isinstance(restore.get("conflicts"), list), "restore.conflicts is no list")


# --- writing ------------------------------------------------------------------------------------------------------


def _target_as_json(target: TargetRecord) -> dict[str, Any]:
    return {
        "agentId": target.agent_id,
        "sqlitePath": str(target.sqlite_path),
        "storePath": str(target.store_path),
        "completedMoves": [_move_as_json(move) for move in target.completed],
        "issues": target.issues,
        "plannedMoves": [_move_as_json(move) for move in target.planned],
        "validationBeforeArchive": target.validation,
    }


def _parted(document: dict[str, Any], name: str) -> tuple[bytes, bytes]:
    """The text of an object before and behind the empty list that is its member `name`.

    A line end stands in such a text only where the object has one, never in a string.
    """
    text = orjson.dumps(document, option=orjson.OPT_INDENT_2)
    marker = f'\n  "{name}": '.encode()
    start = text.index(marker + b"[]") + len(marker)
    return text[:start], text[start + 2 :]


def _target_text(target: TargetRecord, bare: dict[str, Any]) -> Iterator[bytes]:
    """A target's text at its place in the file; `bare` is the same without moves."""
    head, rest = _parted(bare, "completedMoves")
    # `plannedMoves` comes later, so it is in the rest.
    marker = b'\n  "plannedMoves": '
    start = rest.index(marker + b"[]") + len(marker)
    yield head.replace(b"\n", b"\n    ")
    yield from _moves_text(target.completed)
    yield rest[:start].replace(b"\n", b"\n    ")
    yield from _moves_text(target.planned)
    yield rest[start + 2 :].replace(b"\n", b"\n    ")


def _moves_text(moves: list[Move]) -> Iterator[bytes]:
    for number, move in enumerate(moves):
        text = orjson.dumps(_move_as_json(move), option=orjson.OPT_INDENT_2)
        yield (b",\n        " if number else b"[\n        ") + text.replace(b"\n", b"\n        ")
    yield b"\n      ]" if moves else b"[]"


def _move_as_json(move: Move) -> dict[str, Any]:
    document: dict[str, Any] = {"archivePath": str(move.archive_path)}
    if move.artifact is not None:
        document["artifact"] = _artifact_as_json(move.artifact)
    document["kind"] = move.kind
    if move.session_key is not None:
        document["sessionKey"] = move.session_key
    document["sourcePath"] = str(move.source_path)
    return document


def _artifact_as_json(artifact: Artifact) -> dict[str, Any]:
    identity = artifact.identity
    return {
        "identity": {
            "dev": str(identity.device),
            "ino": str(identity.inode),
            "mtimeNs": str(identity.mtime_ns),
            "size": identity.size_bytes,
            "sha256": identity.sha256,
        },
        "classification": artifact.classification,
        "reason": artifact.reason,
        "dependencies": list(artifact.dependencies),
        "disposal": artifact.disposal,
    }


def _issue_as_json(issue: Issue) -> dict[str, str]:
    # A message may name what a damaged transcript calls itself.
    document = {"code": issue.code, "message": escaped(issue.message)}
    if issue.session_key is not None:
        document["sessionKey"] = escaped(issue.session_key)
    return document


def with_identity(move: Move, identity: FileIdentity) -> Move:
    """The move as it happened: a copy has another inode than its source."""
    return move if move.artifact is None else replace(move, artifact=replace(move.artifact, identity=identity))
