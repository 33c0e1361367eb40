"""Files that stay behind after an import: the next run knows them again."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

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
