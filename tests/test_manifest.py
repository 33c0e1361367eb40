"""Manifests: what the real program wrote is read and written back unchanged, and nothing that is wrong is acted on."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import orjson
import pytest

from openclaw_cli import manifest
from openclaw_cli.durable import identity_of
from openclaw_cli.errors import Issue
from openclaw_cli.migration import archiving

NOW = 1_796_000_000_000


@pytest.fixture
def document() -> dict[str, Any]:
    """A whole manifest with one completed move."""
    move = {
        "archivePath": "/s/agents/main/session-sqlite-import-archive/k.a.jsonl.imported-1",
        "artifact": {
            "identity": {"dev": "1", "ino": "2", "mtimeNs": "3", "size": 4, "sha256": "a" * 64},
            "classification": "imported",
            "reason": "verified-import-original",
            "dependencies": ["/s/agents/main/sessions/a.jsonl"],
            "disposal": {"state": "retained"},
        },
        "kind": "transcript",
        "sessionKey": "agent:main:main",
        "sourcePath": "/s/agents/main/sessions/a.jsonl",
    }
    return {
        "manifestVersion": 3,
        "openClawVersion": "2026.9.6",
        "runId": "session-sqlite-1-abcdef01",
        "startedAt": "2026-11-30T00:00:00.000Z",
        "targets": [
            {
                "agentId": "main",
                "sqlitePath": "/s/agents/main/agent/openclaw-agent.sqlite",
                "storePath": "/s/agents/main/sessions/sessions.json",
                "completedMoves": [move],
                "issues": [{"code": "transcript_malformed", "message": "m"}],
                "plannedMoves": [copy.deepcopy(move)],
                "validationBeforeArchive": "passed",
            }
        ],
        "completedAt": "2026-11-30T00:00:01.000Z",
    }


@pytest.mark.parametrize("name", ["01-legacy", "13-s5", "15-z1", "16-e7"])
def test_real_manifests_come_back_unchanged(name: str, state_copy: Callable[[str], Path]) -> None:
    """Every manifest of the real program parses, and is written with the same keys and values."""
    found = list(manifest.runs(state_copy(name)))
    assert found
    for run in found:
        assert isinstance(run, manifest.Run)
        assert json.loads(run.path.read_bytes()) == manifest.as_json(run.manifest)


def at(document: Any, path: str) -> tuple[Any, Any]:
    """The container and the last key of a dotted path."""
    *way, last = [int(part) if part.isdecimal() else part for part in path.split(".")]
    for part in way:
        document = document[part]
    return document, last


WRONG: list[tuple[str, Any]] = [
    ("manifestVersion", 5),
    ("manifestVersion", True),
    ("runId", ""),
    ("targets", {}),
    ("targets.0.validationBeforeArchive", None),
    ("targets.0.storePath", "relative/sessions.json"),
    ("targets.0.issues", [{"message": "no code"}]),
    ("targets.0.plannedMoves", []),
    ("targets.0.plannedMoves.0.kind", "other"),
    ("targets.0.plannedMoves.0.sourcePath", "/s/agents/main/elsewhere/a.jsonl"),
    ("targets.0.plannedMoves.0.archivePath", "/s/agents/main/session-sqlite-import-archive/../sessions/x"),
    ("targets.0.plannedMoves.0.artifact.identity.sha256", "A" * 64),
    ("targets.0.plannedMoves.0.artifact.identity.dev", 1),
    ("targets.0.plannedMoves.0.artifact.classification", "unknown"),
    ("targets.0.plannedMoves.0.artifact.dependencies", ["/etc/passwd"]),
    ("targets.0.plannedMoves.0.artifact.disposal", {"state": "gone"}),
    ("failureReports", {"jsonPath": "/a", "markdownPath": "/b", "githubIssue": {"marker": "m"}}),
    ("restore", {"attemptedAt": "t", "status": "perhaps", "restoredFiles": [], "skippedFiles": [], "conflicts": []}),
]


@pytest.mark.parametrize(("path", "value"), WRONG, ids=lambda value: str(value)[:40])
def test_one_wrong_field_makes_it_invalid(path: str, value: Any, document: dict[str, Any]) -> None:
    """Each rule of the format by itself; the unchanged document is valid."""
    manifest.parse(copy.deepcopy(document), Path("m.json"))
    container, last = at(document, path)
    container[last] = value
    with pytest.raises(manifest.ManifestInvalidError):
        manifest.parse(document, Path("m.json"))


@pytest.mark.parametrize("what", ["targets", "plannedMoves", "completedMoves"])
def test_duplicates_are_invalid(what: str, document: dict[str, Any]) -> None:
    """A target or a move that occurs twice."""
    entries = document["targets"] if what == "targets" else document["targets"][0][what]
    entries.append(copy.deepcopy(entries[0]))
    with pytest.raises(manifest.ManifestInvalidError):
        manifest.parse(document, Path("m.json"))


def test_invalid_manifest_stands_beside_good_ones(tmp_path: Path) -> None:
    """Listing the runs gives the good ones and, for the bad one, why it is bad."""
    target = manifest.TargetRecord("main", tmp_path / "a/sessions/sessions.json", tmp_path / "a/agent/x.sqlite")
    run = manifest.create(tmp_path, [target], now_ms=NOW)
    (run.path.parent / "session-sqlite-0-bad.json").write_text("{")
    (run.path.parent / "session-sqlite-1-x.failure.json").write_text("{")
    kinds = [type(found).__name__ for found in manifest.runs(tmp_path)]
    assert ["ManifestInvalidError", "Run"] == kinds
    assert 0o700 == run.path.parent.stat().st_mode & 0o777
    assert 0o600 == run.path.stat().st_mode & 0o777


def test_changes_are_on_disk_at_once(tmp_path: Path) -> None:
    """Outcome and end of a run can be read back from the file after each call."""
    target = manifest.TargetRecord("main", tmp_path / "a/sessions/sessions.json", tmp_path / "a/agent/x.sqlite")
    run = manifest.create(tmp_path, [target], now_ms=NOW)
    # A warning is left out: the real program takes a finding that it does not know for a failure.
    run.record_outcome(target, "passed", [Issue("c", "error", "m", "k"), Issue("w", "warning", "m", "k")])
    (again,) = manifest.read(run.path).manifest.targets
    assert ("passed", [{"code": "c", "message": "m", "sessionKey": "k"}]) == (again.validation, again.issues)
    run.complete(NOW)
    text = run.path.read_text()
    assert "2026-11-30T" in text
    assert text.endswith("}\n")


def test_saving_beside_the_targets_gives_the_same_file(document: dict[str, Any], tmp_path: Path) -> None:
    """The short way writes what the whole way writes, and checks what it changes."""
    path = tmp_path / "run.json"
    path.write_text(json.dumps(document))
    run = manifest.read(path)
    record = {"attemptedAt": "2026-12-01T00:00:00.000Z", "consumedArchives": ["/a"], "conflicts": []}
    run.manifest.restore = record | {"restoredFiles": ["/b"], "skippedFiles": [], "status": "restored"}
    run.save()
    whole = path.read_bytes()

    for _ in range(2):
        path.unlink()
        run.save_beside_targets()
        assert whole == path.read_bytes()
    run.manifest.restore["consumedArchives"] = ["relative"]
    with pytest.raises(manifest.ManifestInvalidError):
        run.save_beside_targets()
    assert whole == path.read_bytes()


def many(root: Path, count: int) -> tuple[manifest.TargetRecord, list[manifest.Move]]:
    """A target with `count` files and a planned move of each."""
    sessions = root / "agents/main/sessions"
    sessions.mkdir(parents=True)
    record = manifest.TargetRecord("main", sessions / "sessions.json", root / "agents/main/agent/a.sqlite")
    moves = []
    for number in range(count):
        path = sessions / f"{number}.jsonl"
        path.write_text(f"{number}\n")
        artifact = manifest.Artifact(identity_of(path), "imported", "verified-import-original", (str(path),))
        moves.append(
            manifest.Move(path, record.archive_dir / f"{number}.imported", "transcript", artifact, "k\n\u2028")
        )
    return record, moves


def test_text_in_pieces_is_that_of_the_whole_document(tmp_path: Path) -> None:
    """A manifest that is written move by move has the bytes that its document has when it is written at once."""
    record, moves = many(tmp_path, 3)
    empty = manifest.TargetRecord("other", tmp_path / "o/sessions/sessions.json", tmp_path / "o/agent/a.sqlite")
    run = manifest.create(tmp_path, [record, empty], now_ms=NOW)
    run.plan_moves(record, moves)
    run.record_moves(record, moves[:2])
    run.record_outcome(record, "passed", [Issue("c", "error", 'a "targets": [] \n  "plannedMoves": []')])
    run.manifest.extra = {"later": {"targets": []}}
    run.complete(NOW)
    whole = orjson.dumps(manifest.as_json(run.manifest), option=orjson.OPT_INDENT_2) + b"\n"
    assert whole == run.path.read_bytes()
    assert run.manifest == manifest.read(run.path).manifest


def test_wrong_move_is_refused_also_behind_good_ones(tmp_path: Path) -> None:
    """Moves that come later are checked like the first ones."""
    record, moves = many(tmp_path, 2)
    run = manifest.create(tmp_path, [record], now_ms=NOW)
    run.plan_moves(record, moves[:1])
    before = run.path.read_bytes()
    with pytest.raises(manifest.ManifestInvalidError):
        run.plan_moves(record, [replace(moves[1], archive_path=tmp_path / "elsewhere")])
    assert before == run.path.read_bytes()
    with pytest.raises(manifest.ManifestInvalidError):
        manifest.create(tmp_path, [replace(record, planned=[], completed=moves[:1])], now_ms=NOW)


def test_number_of_records_does_not_grow_with_the_number_of_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The manifest is written whole for each record: 64 moves in the first one, twice as many in each that follows."""
    record, moves = many(tmp_path, 64 + 128 + 10)
    run = manifest.create(tmp_path, [record], now_ms=NOW)
    run.plan_moves(record, moves)
    sizes: list[int] = []
    save = manifest.Run.save

    def counted(self: manifest.Run) -> None:
        sizes.append(len(record.completed))
        save(self)

    monkeypatch.setattr(manifest.Run, "save", counted)
    done, issues = archiving.perform(run, record, moves)
    assert (len(moves), []) == (len(done), issues)
    assert [64, 192, 202] == sizes
