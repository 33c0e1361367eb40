"""A restore that is killed at any named step is completed by the next one: same files, same manifests, no file lost.

The cut is SIGKILL in a process of its own, right behind the effect that the step is named after.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import archived_states as states
import pytest

from openclaw_cli.faults import Step

NOW = 1_796_000_000_000
CUT = """
import sys
from openclaw_cli import faults
faults.arm(faults.Step(sys.argv[1]), int(sys.argv[2]))
from openclaw_cli.cli.app import run
sys.exit(run(sys.argv[3:]))
"""
CUTS = [
    *((step, occurrence) for step in (Step.RESTORE_LINKED, Step.RESTORE_UNLINKED) for occurrence in (1, 2, 9, 17)),
    *((Step.RESTORE_RECORDED, occurrence) for occurrence in (1, 2, 17)),
    (Step.RESTORE_COMPLETED, 1),
]
IMPORT_CUTS = [
    (Step.MOVES_PLANNED, 1),
    (Step.MOVE_LINKED, 1),
    (Step.MOVE_LINKED, 6),
    (Step.MOVE_UNLINKED, 1),
    (Step.MOVE_UNLINKED, 6),
    (Step.MOVE_RECORDED, 1),
    (Step.INDEX_MOVED, 1),
    (Step.MANIFEST_COMPLETED, 1),
]


@pytest.fixture
def original(state_copy: Callable[[str], Path]) -> Path:
    """A file-era state directory with every kind of file, of different modes and times."""
    state = state_copy("01-legacy")
    states.vary(state)
    return state


def argv(mode: str, state: Path) -> list[str]:
    return ["doctor", mode, "--state-dir", str(state), "--all-agents", "--json", "--now", str(NOW)]


def kill(step: Step, occurrence: int, command: list[str]) -> None:
    """Run a command that dies at a step."""
    killed = subprocess.run([sys.executable, "-c", CUT, step, str(occurrence), *command], capture_output=True)
    assert -signal.SIGKILL == killed.returncode, killed.stderr.decode()


def debris(state: Path) -> list[Path]:
    """Temporary files that nobody will need."""
    return [path for path in state.rglob("*") if path.suffix == ".tmp"]


@pytest.fixture
def imported(original: Path, tmp_path: Path, run_cli: Callable[..., Any]) -> tuple[Path, Path]:
    """The state directory after its import, and a copy of it that keeps modes and times."""
    assert 3 == run_cli(*argv("import", original)).status
    assert 17 == len(states.archived(original))
    return original, Path(shutil.copytree(original, tmp_path / "imported"))


@pytest.mark.parametrize(("step", "occurrence"), CUTS, ids=lambda value: str(value))
def test_cut_restore_is_completed(
    step: Step, occurrence: int, imported: tuple[Path, Path], run_cli: Callable[..., Any]
) -> None:
    """Killed at `step`, run again: files and manifests of an uncut restore; at no time is a content missing."""
    state, copy = imported
    before = states.contents(state)
    assert 0 == run_cli(*argv("restore", state)).status
    files, manifests = states.sessions(state), [path.read_bytes() for path in states.manifests(state)]
    # The manifest names absolute paths, so the cut run happens at the same place.
    shutil.rmtree(state)
    shutil.copytree(copy, state)

    kill(step, occurrence, argv("restore", state))

    assert set(before) == set(states.contents(state))
    again = run_cli(*argv("restore", state))
    assert 0 == again.status, again.stdout
    assert files == states.sessions(state)
    assert before == states.contents(state)
    assert [] == states.archived(state)
    assert manifests == [path.read_bytes() for path in states.manifests(state)]
    assert [] == debris(state)


@pytest.mark.parametrize(("step", "occurrence"), CUTS, ids=lambda value: str(value))
def test_cut_restore_then_import(
    step: Step, occurrence: int, imported: tuple[Path, Path], run_cli: Callable[..., Any]
) -> None:
    """Who imports instead gets no new row, loses nothing, no file keeps two names; a restore then brings all back."""
    state, copy = imported
    before = states.contents(state)
    assert 0 == run_cli(*argv("restore", state)).status
    files = states.sessions(state)
    shutil.rmtree(state)
    shutil.copytree(copy, state)
    listed = json.loads(run_cli("sessions", "--state-dir", state, "--archived", "include", "--json").stdout)

    kill(step, occurrence, argv("restore", state))
    report = json.loads(run_cli(*argv("import", state)).stdout)

    assert 0 == report["totals"]["importedTranscriptEvents"]
    after = json.loads(run_cli("sessions", "--state-dir", state, "--archived", "include", "--json").stdout)
    assert [row["key"] for row in listed["sessions"]] == [row["key"] for row in after["sessions"]]
    assert before == states.contents(state)
    assert 0 == run_cli(*argv("restore", state)).status
    assert files == states.sessions(state)


@pytest.mark.parametrize(("step", "occurrence"), IMPORT_CUTS, ids=lambda value: str(value))
def test_restore_undoes_a_cut_import(step: Step, occurrence: int, original: Path, run_cli: Callable[..., Any]) -> None:
    """An import that was killed while it moved files is undone by a restore, without an import in between."""
    before, contents = states.sessions(original), states.contents(original)
    kill(step, occurrence, argv("import", original))

    status = run_cli(*argv("restore", original))

    assert 0 == status.status, status.stdout
    assert before == states.sessions(original)
    assert contents == states.contents(original)
    # 0 where the cut run could be settled by its manifest alone: nothing is read again then.
    assert run_cli(*argv("import", original)).status in (0, 3)
    assert 17 == len(states.archived(original))
    assert 0 == run_cli(*argv("restore", original)).status
    assert before == states.sessions(original)


def test_every_step_of_a_restore_is_cut() -> None:
    """The list of cuts names each step that belongs to a restore."""
    assert {step for step in Step if step.startswith("restore-")} == {step for step, _ in CUTS}


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_a_directory_that_cannot_be_written(imported: tuple[Path, Path], run_cli: Callable[..., Any]) -> None:
    """A read-only sessions directory: each file is named, nothing moves; made writable, the next run does it."""
    state, _ = imported
    directory = state / "agents/main/sessions"
    directory.chmod(0o500)
    try:
        assert 3 == run_cli(*argv("restore", state)).status
    finally:
        directory.chmod(0o700)
    assert 17 == len(states.archived(state))
    assert 0 == run_cli(*argv("restore", state)).status
    assert [] == states.archived(state)
