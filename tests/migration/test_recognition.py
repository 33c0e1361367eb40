"""Files that are not OpenClaw's stay where they are."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.support.legacy_state import BASE_MS, digests, jsonl, sid, turns

ROW = {"agent:main:main": {"sessionId": sid(1), "updatedAt": BASE_MS}}
FOREIGN = {
    "package.json": '{"name": "x", "version": "1.0.0", "scripts": {"a": "b"}}',
    "tsconfig.json": '{"compilerOptions": {"strict": true}}',
    "list.json": "[1, 2]",
    "empty.json": "{}",
    "torn.json": '{"agent:main:main": {"sess',
    "words.json": "root:x:0:0",
    "mostly.json": json.dumps({**ROW, "a": 1, "b": "two"}),
}


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A directory of somebody's own work."""
    folder = tmp_path / "project"
    folder.mkdir()
    (folder / "training.jsonl").write_text('{"prompt": "a"}\n')
    return folder


@pytest.mark.parametrize("mode", ["import", "dry-run", "validate", "restore", "compact"])
@pytest.mark.parametrize("name", FOREIGN)
def test_jsonl_files_beside_a_package_json_were_taken_away(
    mode: str, name: str, project: Path, run_cli: Callable[..., Any]
) -> None:
    """A file that is no session index is refused, and nothing is created or moved."""
    (project / name).write_text(FOREIGN[name])
    before = digests(project.parent)
    outcome = run_cli("doctor", mode, "--store", project / name, "--json")
    assert (12, "not_a_session_index") == (outcome.status, json.loads(outcome.stdout)["error"]["code"])
    assert "not a session index" in outcome.stderr
    assert before == digests(project.parent)
    assert sorted(["training.jsonl", name]) == sorted(path.name for path in project.iterdir())


@pytest.mark.parametrize("name", ["sessions.json", "words.json"])
def test_rebuilding_took_the_files_of_any_directory(name: str, project: Path, run_cli: Callable[..., Any]) -> None:
    """What is not JSON is rebuilt from transcripts only in an agent's sessions directory."""
    (project / name).write_text("not JSON")
    (project / f"{sid(1)}.jsonl").write_bytes(jsonl(turns(sid(1))))
    before = digests(project)
    assert 12 == run_cli("doctor", "import", "--rebuild-index", "--store", project / name).status
    assert before == digests(project)


def test_foreign_files_beside_an_index_stay(project: Path, run_cli: Callable[..., Any]) -> None:
    """An index in a directory of other things: its transcripts move, also one that no row names; the rest stays."""
    (project / "main.json").write_text(json.dumps(ROW))
    for number in (1, 2):
        (project / f"{sid(number)}.jsonl").write_bytes(jsonl(turns(sid(number))))
    (project / "run.trajectory.jsonl").write_text('{"a": 1}\n')
    (project / f"x.checkpoint.{sid(3)}.jsonl").write_text('{"a": 1}\n')
    outcome = run_cli("doctor", "import", "--store", project / "main.json", "--json")
    assert (0, 2) == (outcome.status, json.loads(outcome.stdout)["totals"]["importedEntries"])
    left = {path.name for path in project.iterdir() if path.suffix == ".jsonl"}
    assert {"training.jsonl", "run.trajectory.jsonl", f"x.checkpoint.{sid(3)}.jsonl"} == left


def test_an_empty_index_is_one_where_indexes_lie(project: Path, run_cli: Callable[..., Any]) -> None:
    """`{}` is an index when it is called sessions.json or lies in a directory of sessions."""
    (project / "sessions").mkdir()
    for path in (project / "sessions.json", project / "sessions" / "main.json"):
        path.write_text("{}")
        assert 0 == run_cli("doctor", "dry-run", "--store", path).status


@pytest.mark.parametrize("path", ["/etc/passwd", "package.json"])
def test_listing_a_file_that_is_no_store_said_nothing(path: str, project: Path, run_cli: Callable[..., Any]) -> None:
    """Neither a database nor an index: a clear message, not an empty list."""
    (project / "package.json").write_text(FOREIGN["package.json"])
    outcome = run_cli("sessions", "--store", project / path)
    assert (2, "") == (outcome.status, outcome.stdout)
    assert "neither a SQLite store" in outcome.stderr
