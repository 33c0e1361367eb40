"""Reading a manifest strictly: the real program ignores one with a single wrong field (store format §6.2)."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from openclaw_cli.durable import FileIdentity
from openclaw_cli.manifest.records import Artifact, Manifest, ManifestInvalidError, Move, TargetRecord

READABLE_VERSIONS = (1, 2, 3, 4)
_KINDS = ("legacy-store", "transcript", "trajectory", "unreferenced-jsonl")
_CLASSIFICATIONS = ("imported", "repair-original", "protected")
_VALIDATIONS = ("not_run", "passed", "failed")
_RESTORE_STATES = ("restored", "partial", "conflicts", "failed", "noop")
_SHA256 = re.compile(r"[a-f0-9]{64}")
_CLAIM = re.compile(r"\.cleanup-[a-f0-9-]{36}")


def parse(document: Any, path: Path) -> Manifest:
    """Check a parsed manifest against the format and give it as a value."""
    check = Checker(path)
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
class Checker:
    """Says in which file what is wrong; every method raises `ManifestInvalidError` when it does not hold."""

    path: Path

    def that(self, condition: bool, wrong: str) -> None:
        """The condition holds."""
        if not condition:
            raise ManifestInvalidError(f"{self.path}: {wrong}", hint="the manifest is left alone and not acted on")

    def text(self, item: dict[str, Any], name: str) -> str:
        """The member is a text that is not empty."""
        value = item.get(name)
        self.that(isinstance(value, str) and value != "", f"{name} is no text")
        return str(value)

    def absolute(self, value: Any, name: str) -> Path:
        """An absolute path, as a `Path`."""
        return Path(self.normal(value, name))

    def normal(self, value: Any, name: str) -> str:
        """An absolute path, normalised as text."""
        usable = isinstance(value, str) and "\0" not in value and os.path.isabs(value)
        self.that(usable, f"{name} is no absolute path")
        return os.path.normpath(value)


def _parse_target(item: Any, check: Checker) -> TargetRecord:
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
    place = Place.of(target)
    target.planned = [parse_move(move, place, check) for move in item["plannedMoves"]]
    target.completed = [parse_move(move, place, check) for move in item["completedMoves"]]
    check_lists(target, check)
    return target


def check_lists(target: TargetRecord, check: Checker) -> None:
    """No move occurs twice, and what is completed was planned."""
    planned = {move.key for move in target.planned}
    completed = {move.key for move in target.completed}
    check.that(len(planned) == len(target.planned), "a planned move occurs twice")
    check.that(len(completed) == len(target.completed), "a completed move occurs twice")
    check.that(completed <= planned, "a completed move was never planned")


class Place(NamedTuple):
    """The paths of a target that its moves are checked against, made once for thousands of them."""

    store_path: str
    sessions_dir: str
    archive_dir: str

    @classmethod
    def of(cls, target: TargetRecord) -> Place:
        """The paths of one target."""
        return cls(str(target.store_path), str(target.sessions_dir), str(target.archive_dir))


def parse_move(item: Any, place: Place, check: Checker) -> Move:
    """Check one move of a target and give it as a value."""
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


def _parse_artifact(item: Any, place: Place, archive: str, check: Checker) -> Artifact:
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


def _parse_identity(item: Any, check: Checker) -> FileIdentity:
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


def _check_disposal(disposal: Any, archive: str, check: Checker) -> None:
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


def _check_failure_reports(reports: Any, version: int, check: Checker) -> None:
    if reports is None:
        return
    check.that(isinstance(reports, dict), "failureReports is no object")
    for name in ("jsonPath", "markdownPath"):
        check.absolute(reports.get(name), f"failureReports.{name}")
    if reports.get("githubIssue") is not None:
        check.that(version == 4, "a GitHub receipt needs manifest version 4")


def _check_restore(restore: Any, check: Checker) -> None:
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
