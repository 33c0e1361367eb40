"""The text of a manifest, in the order in which the real program writes it, move by move."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import orjson

from openclaw_cli.errors import Issue, escaped
from openclaw_cli.manifest.records import Artifact, Manifest, Move, TargetRecord


def as_json(manifest: Manifest) -> dict[str, Any]:
    """The document in the order in which the real program writes it."""
    document: dict[str, Any] = {
        "manifestVersion": manifest.version,
        "openClawVersion": manifest.openclaw_version,
        "runId": manifest.run_id,
        "startedAt": manifest.started_at,
        "targets": [target_as_json(target) for target in manifest.targets],
    }
    optional = {
        "restore": manifest.restore,
        "failureReports": manifest.failure_reports,
        "completedAt": manifest.completed_at,
        "failedAt": manifest.failed_at,
    }
    document.update({name: value for name, value in optional.items() if value is not None})
    return {**document, **manifest.extra}


def target_as_json(target: TargetRecord) -> dict[str, Any]:
    """One target with its moves."""
    return {
        "agentId": target.agent_id,
        "sqlitePath": str(target.sqlite_path),
        "storePath": str(target.store_path),
        "completedMoves": [move_as_json(move) for move in target.completed],
        "issues": target.issues,
        "plannedMoves": [move_as_json(move) for move in target.planned],
        "validationBeforeArchive": target.validation,
    }


def parted(document: dict[str, Any], name: str) -> tuple[bytes, bytes]:
    """The text of an object before and behind the empty list that is its member `name`.

    A line end stands in such a text only where the object has one, never in a string.
    """
    text = orjson.dumps(document, option=orjson.OPT_INDENT_2)
    marker = f'\n  "{name}": '.encode()
    start = text.index(marker + b"[]") + len(marker)
    return text[:start], text[start + 2 :]


def target_text(target: TargetRecord, bare: dict[str, Any]) -> Iterator[bytes]:
    """A target's text at its place in the file; `bare` is the same without moves."""
    head, rest = parted(bare, "completedMoves")
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
        text = orjson.dumps(move_as_json(move), option=orjson.OPT_INDENT_2)
        yield (b",\n        " if number else b"[\n        ") + text.replace(b"\n", b"\n        ")
    yield b"\n      ]" if moves else b"[]"


def move_as_json(move: Move) -> dict[str, Any]:
    """One move."""
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


def issue_as_json(issue: Issue) -> dict[str, str]:
    """One finding of a target."""
    # A message may name what a damaged transcript calls itself.
    document = {"code": issue.code, "message": escaped(issue.message)}
    if issue.session_key is not None:
        document["sessionKey"] = escaped(issue.session_key)
    return document
