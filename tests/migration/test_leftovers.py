"""Files that stay behind after an import: the next run knows them again."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from openclaw_cli import manifest

A, B = (f"aaaaaaaa-0000-4000-8000-00000000000{number}" for number in range(2))
NOW = 1_790_000_000_000


def found(document: dict[str, Any]) -> list[str]:
    issues = [*document["issues"], *(issue for target in document["targets"] for issue in target["issues"])]
    return sorted(f"{issue['severity']} {issue['code']}" for issue in issues)


def link(legacy: Any, session_id: str, how: str, elsewhere: Path) -> Path:
    path = legacy.session(session_id)
    if how == "hard":
        os.link(path, elsewhere)
    else:
        path.rename(elsewhere)
        path.symlink_to(elsewhere)
    return path


@pytest.mark.parametrize("how", ["hard", "symbolic"])
@pytest.mark.parametrize("mode", ["import", "dry-run"])
def test_linked_transcript_makes_no_second_key(how: str, mode: str, legacy: Any, doctor: Any, tmp_path: Path) -> None:
    """The index is archived, the linked file stays: a second run warns again and makes no key of its own for it."""
    link(legacy, A, how, tmp_path / "elsewhere")
    legacy.index({"agent:main:telegram:direct:1": {"sessionId": A, "updatedAt": NOW}})
    doctor("import", legacy)
    before = legacy.entries()
    assert {"agent:main:telegram:direct:1": (A, 3)} == before
    status, document = doctor(mode, legacy)
    assert (0, ["warning transcript_archive_failed"]) == (status, found(document))
    if mode == "import":
        assert 0 == document["totals"]["importedEntries"] + document["totals"]["importedTranscriptEvents"]
    assert before == legacy.entries()
    assert [f"{A}.jsonl"] == legacy.names()


def test_linked_transcript_of_another_agent(legacy: Any, doctor: Any, tmp_path: Path) -> None:
    """A row that belongs to another agent's store is found there."""
    link(legacy, A, "hard", tmp_path / "elsewhere")
    legacy.index({"agent:other:work": {"sessionId": A, "updatedAt": NOW}})
    doctor("import", legacy)
    assert {"agent:other:work": (A, 3)} == legacy.entries("other")
    status, _ = doctor("import", legacy)
    assert 0 == status
    assert ({}, {"agent:other:work": (A, 3)}) == (legacy.entries(), legacy.entries("other"))


def test_leftover_that_went_on_is_appended_and_moved(legacy: Any, doctor: Any) -> None:
    """A transcript that came back with more rows, without an index: its new rows go to the key it has."""
    legacy.session(A)
    legacy.index({"agent:main:main": {"sessionId": A, "updatedAt": NOW}})
    doctor("import", legacy)
    legacy.session(A, messages=5)
    status, document = doctor("import", legacy)
    assert (0, [], 3) == (status, found(document), document["totals"]["importedTranscriptEvents"])
    assert {"agent:main:main": (A, 6)} == legacy.entries()
    assert [] == legacy.names()


def test_leftover_of_a_session_that_its_key_has_left(legacy: Any, doctor: Any, tmp_path: Path) -> None:
    """A linked transcript of an older session of the key stays history of that key."""
    link(legacy, A, "hard", tmp_path / "elsewhere")
    legacy.index({"agent:main:main": {"sessionId": A, "updatedAt": NOW}})
    doctor("import", legacy)
    legacy.session(B)
    legacy.index({"agent:main:main": {"sessionId": B, "updatedAt": NOW + 5}})
    doctor("import", legacy)
    status, document = doctor("import", legacy)
    assert (0, ["warning transcript_archive_failed"]) == (status, found(document))
    assert {"agent:main:main": (B, 3)} == legacy.entries()


def test_leftover_changes_no_row(legacy: Any, doctor: Any, tmp_path: Path, run_cli: Any) -> None:
    """Listing the sessions gives the same bytes after the second run as after the first."""
    link(legacy, A, "symbolic", tmp_path / "elsewhere")
    rows = {"agent:main:main": {"sessionId": A, "updatedAt": NOW, "displayName": "n", "lastChannel": "telegram"}}
    legacy.index(rows)
    doctor("import", legacy)
    argv = ("sessions", "list", "--state-dir", legacy.root, "--json", "--now", str(NOW))
    before = json.loads(run_cli(*argv).stdout)
    doctor("import", legacy)
    assert before == json.loads(run_cli(*argv).stdout)


UNLINK_REFUSED = """
import errno, os, sys
unlink = os.unlink
def refusing(path, *args, **options):
    if os.path.basename(os.path.dirname(os.fspath(path))) == "sessions":
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), os.fspath(path))
    unlink(path, *args, **options)
os.unlink = refusing
if sys.argv[1] == "half":
    from openclaw_cli import durable
    def linked_only(source, destination, *, expected_sha256, linked=None):
        os.link(source, destination)
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), os.fspath(source))
    durable.move_no_replace = linked_only
from openclaw_cli.cli.app import run
sys.exit(run(sys.argv[2:]))
"""


def archived(legacy: Any) -> list[str]:
    return sorted(path.name for path in legacy.archive.iterdir()) if legacy.archive.exists() else []


@pytest.mark.parametrize("way", ["whole", "half"])
def test_directory_that_gives_no_name_away(way: str, legacy: Any, doctor: Any, tmp_path: Path) -> None:
    """Files that could be linked and not unlinked are moved by the next run, wherever the directory is by then.

    `half`: the archive names stayed behind, as when the run was killed there.
    """
    legacy.session(A)
    legacy.session(B)
    rows = {"agent:main:a": {"sessionId": A, "updatedAt": 5}, "agent:main:b": {"sessionId": B, "updatedAt": 6}}
    legacy.index(rows)
    argv = ["doctor", "import", "--state-dir", str(legacy.root), "--all-agents", "--json"]
    refused = subprocess.run([sys.executable, "-c", UNLINK_REFUSED, way, *argv], capture_output=True)
    assert 3 == refused.returncode, refused.stderr.decode()
    expected = ["error transcript_archive_failed"] * 2 + ["warning index_kept"]
    assert expected == found(json.loads(refused.stdout))
    assert (2 if way == "half" else 0) == len(archived(legacy))
    if way == "half":
        moved = tmp_path / "moved"
        legacy.root.rename(moved)
        legacy.root, legacy.sessions = moved, moved / "agents/main/sessions"
    status, document = doctor("import", legacy)
    assert (0, []) == (status, found(document))
    assert ([], 3) == (legacy.names(), len(archived(legacy)))
    assert {"agent:main:a": (A, 3), "agent:main:b": (B, 3)} == legacy.entries()
    assert all(path.stat().st_nlink == 1 for path in legacy.archive.iterdir())


def test_name_of_somebody_else_is_not_taken_for_a_half_made_move(legacy: Any, doctor: Any, tmp_path: Path) -> None:
    """A link that no manifest planned is the user's, also in the archive directory."""
    path = legacy.session(A)
    legacy.archive.mkdir()
    os.link(path, legacy.archive / "mine.jsonl")
    legacy.index({"agent:main:a": {"sessionId": A, "updatedAt": 5}})
    for _ in range(2):
        status, document = doctor("import", legacy)
        assert (0, ["warning transcript_archive_failed"]) == (status, found(document))
    assert 2 == path.stat().st_nlink


def test_run_that_moves_nothing_leaves_no_manifest(legacy: Any, doctor: Any, tmp_path: Path) -> None:
    """A linked transcript is looked at in every run; only the run that moved the index is recorded."""
    link(legacy, A, "hard", tmp_path / "elsewhere")
    legacy.index({"agent:main:main": {"sessionId": A, "updatedAt": NOW}})
    doctor("import", legacy)
    for _ in range(2):
        assert "migrationRun" not in doctor("import", legacy)[1]
    assert 1 == len(list(manifest.runs(legacy.root)))
