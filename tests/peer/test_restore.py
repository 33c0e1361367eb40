"""Restores across the two programs: each brings back what the other archived, and reads the other's record of it."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import archived_states as states
import pytest

RESTORE = ("doctor", "--session-sqlite", "restore", "--session-sqlite-all-agents")
IMPORT = ("doctor", "--session-sqlite", "import", "--session-sqlite-all-agents")
ROOT = Path(__file__).resolve().parent.parent.parent
# Not 16: the real program reads nothing of it. Not 07 and 16-…-zero-bytes: an import leaves every file in place.
CASES = ["02-torn-tail", "10-bad-utf8-surrogates", "15-header-filename-mismatch", "18-incomplete-entries"]
STATES = ["01-legacy", "10-s2-legacy"]
# Every other one of which an import moves files.
FURTHER = [
    pytest.param(name, marks=pytest.mark.slow)
    for name in (
        "01-nul-tail",
        "04-no-header",
        "05-spliced-lines",
        "09-bom-crlf",
        "11-raw-u2028-and-controls",
        "19-orphans-and-tombstones",
        "21-locks",
    )
]


@pytest.fixture
def state(request: pytest.FixtureRequest, tmp_path: Path, state_copy: Callable[[str], Path]) -> Path:
    """A file-era state directory with different modes and times, and a configuration so that it has targets."""
    case = ROOT / "fixtures/cases" / request.param / "state"
    found = Path(shutil.copytree(case, tmp_path / "state")) if case.exists() else state_copy(request.param)
    shutil.rmtree(found / states.RUNS, ignore_errors=True)
    if not (found / "openclaw.json").exists():
        (found / "openclaw.json").write_text("{}\n")
    states.vary(found)
    return found


def ours(run_cli: Callable[..., Any], state: Path, mode: str) -> dict[str, Any]:
    """Run our `doctor MODE --json`; gives the document."""
    outcome = run_cli("doctor", mode, "--state-dir", state, "--all-agents", "--json")
    assert outcome.status in (0, 3), outcome.stderr
    return json.loads(outcome.stdout)


def names(document: dict[str, Any], key: str) -> list[str]:
    """Paths of one list of the restores of a report."""
    return sorted(path for target in document["targets"] for path in target.get("restore", {}).get(key, ()))


@pytest.mark.parametrize("state", [*CASES, *STATES, *FURTHER], indirect=True)
def test_the_real_program_restores_what_we_archived(state: Path, peer: Any, run_cli: Callable[..., Any]) -> None:
    """Our manifest is accepted, every file comes back; our restore then finds nothing left to do."""
    before = states.sessions(state)
    ours(run_cli, state, "import")
    moved = len(states.archived(state))
    assert moved > 0

    document = peer.json(state, *RESTORE)

    assert before == states.sessions(state)
    assert moved == len(names(document, "restoredFiles"))
    again = ours(run_cli, state, "restore")
    assert (0, 0) == (again["totals"]["restoredFiles"], again["totals"]["conflicts"])
    assert before == states.sessions(state)


@pytest.mark.parametrize("state", [*CASES, *STATES, *FURTHER], indirect=True)
def test_we_restore_what_the_real_program_archived(state: Path, peer: Any, run_cli: Callable[..., Any]) -> None:
    """Its manifests are read, every file comes back; its own restore then finds nothing to do and no conflict."""
    before = states.sessions(state)
    peer.json(state, *IMPORT)
    moved = len(states.archived(state))
    assert moved > 0

    document = ours(run_cli, state, "restore")

    assert before == states.sessions(state)
    assert (moved, 0) == (document["totals"]["restoredFiles"], document["totals"]["conflicts"])
    again = peer.json(state, *RESTORE)
    assert ([], []) == (names(again, "restoredFiles"), names(again, "conflicts"))
    assert before == states.sessions(state)


@pytest.mark.parametrize("state", ["01-legacy"], indirect=True)
def test_both_programs_in_turn(state: Path, peer: Any, run_cli: Callable[..., Any]) -> None:
    """Imports and restores of both, one after the other, each going by the other's records."""
    before = states.sessions(state)
    for _ in range(2):
        ours(run_cli, state, "import")
        ours(run_cli, state, "restore")
        assert before == states.sessions(state)
        peer.json(state, *IMPORT)
        peer.json(state, *RESTORE)
        assert before == states.sessions(state)
    peer.json(state, *IMPORT)
    ours(run_cli, state, "restore")
    assert before == states.sessions(state)
    ours(run_cli, state, "import")
    peer.json(state, *RESTORE)
    assert before == states.sessions(state)


@pytest.mark.parametrize("state", ["01-legacy"], indirect=True)
def test_the_real_program_knows_our_conflicts(state: Path, peer: Any, run_cli: Callable[..., Any]) -> None:
    """A file in the way: our record of the conflict is a manifest that it still reads and finishes."""
    before = states.sessions(state)
    ours(run_cli, state, "import")
    blocked = state / next(iter(name for name in before if name.endswith("0001.jsonl")))
    blocked.write_text("in the way\n")
    document = ours(run_cli, state, "restore")
    assert 1 == document["totals"]["conflicts"]
    blocked.unlink()

    finished = peer.json(state, *RESTORE)

    assert [str(blocked)] == names(finished, "restoredFiles")
    assert before == states.sessions(state)
