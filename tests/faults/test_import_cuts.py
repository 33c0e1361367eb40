"""An import that is killed at any named step is completed by the next one: same rows, no file lost.

The cut is SIGKILL in a process of its own, right behind the effect that the step is named after.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from openclaw_cli import manifest
from openclaw_cli.faults import Step
from openclaw_cli.storage import connection, events, verify

NOW = 1796000000000
CUT = """
import sys
from openclaw_cli import faults
faults.arm(faults.Step(sys.argv[1]), int(sys.argv[2]))
from openclaw_cli.cli.app import run
sys.exit(run(sys.argv[3:]))
"""
VOLATILE = {"transcript_rewrite_watermarks": ("generation",)}
TABLES = (
    "session_nodes", "session_windows", "transcript_event_identities", "transcript_rewrite_watermarks",
    "session_transcript_index_state", "session_transcript_active_events", "session_transcript_fts_rows",
    "trajectory_runtime_events", "conversations", "session_conversations",
)  # fmt: skip
CUTS = [
    *((step, occurrence) for step in (Step.SESSION_ROWS_WRITTEN, Step.SESSION_COMMITTED) for occurrence in (1, 3)),
    *((step, occurrence) for step in (Step.MOVE_LINKED, Step.MOVE_UNLINKED) for occurrence in (1, 2, 6)),
    (Step.MANIFEST_CREATED, 1),
    (Step.DATABASE_CREATED, 1),
    (Step.TARGET_VALIDATED, 1),
    (Step.MOVES_PLANNED, 1),
    (Step.MOVE_RECORDED, 1),
    (Step.INDEX_MOVED, 1),
    (Step.MANIFEST_COMPLETED, 1),
]


@pytest.fixture
def legacy(state_copy: Callable[[str], Path], tmp_path: Path) -> Path:
    """A file-era state directory with every kind of file; its mtimes are fixed, so that two runs can be compared."""
    state = state_copy("01-legacy")
    for path in state.rglob("*"):
        if path.is_file():
            set_mtime(path)
    return Path(shutil.move(state, tmp_path / "state"))


def set_mtime(path: Path) -> None:
    os.utime(path, ns=(1_790_000_000_000_000_000, 1_790_000_000_000_000_000))


def argv(state: Path) -> list[str]:
    return ["doctor", "import", "--state-dir", str(state), "--all-agents", "--json", "--now", str(NOW)]


def snapshot(state: Path) -> dict[str, Any]:
    """Every row that an import writes, decoded; columns that are random by nature left out."""
    found: dict[str, Any] = {}
    (path,) = state.glob("agents/*/agent/openclaw-agent.sqlite")
    with connection.open_read(path, temporary_tables=True) as store:
        assert [] == verify.integrity(store)
        assert [] == list(verify.verify(store))
        for table in TABLES:
            columns = [row[1] for row in store.execute(f"PRAGMA table_info({table})")]
            kept = [name for name in columns if name not in VOLATILE.get(table, ())]
            found[table] = sorted(store.execute(f"SELECT {','.join(kept)} FROM {table}").fetchall(), key=repr)
        ids = [row[0] for row in store.execute("SELECT session_id FROM session_windows ORDER BY 1").fetchall()]
        found["events"] = {session_id: list(events.stream(store, session_id)) for session_id in ids}
    return found


def files(state: Path) -> Counter[str]:
    """Multiset of the digests in sessions directories and archives."""
    places = [*state.glob("agents/*/sessions/*"), *state.glob("agents/*/session-sqlite-import-archive/*")]
    return Counter(hashlib.sha256(path.read_bytes()).hexdigest() for path in places)


def names(state: Path) -> list[str]:
    """What an import leaves in the sessions directories."""
    return sorted(path.name for path in state.glob("agents/*/sessions/*"))


@pytest.mark.parametrize(("step", "occurrence"), CUTS, ids=lambda value: str(value))
def test_cut_import_is_completed(
    step: Step, occurrence: int, legacy: Path, tmp_path: Path, run_cli: Callable[..., Any]
) -> None:
    """Killed at `step`, run again: rows of an uncut run, all files there, the cut run's manifest closed, no debris."""
    original = Path(shutil.copytree(legacy, tmp_path / "original"))
    before = files(legacy)
    assert 3 == run_cli(*argv(legacy)).status
    uncut, left = snapshot(legacy), names(legacy)
    # Ids of upgraded entries depend on the path, so the cut run happens at the same place.
    shutil.rmtree(legacy)
    shutil.copytree(original, legacy)

    killed = subprocess.run([sys.executable, "-c", CUT, step, str(occurrence), *argv(legacy)], capture_output=True)
    assert -signal.SIGKILL == killed.returncode, killed.stderr.decode()
    after_cut = files(legacy)
    assert set(before) == set(after_cut)

    again = run_cli(*argv(legacy))
    assert again.status in (0, 3), again.stderr
    assert uncut == snapshot(legacy)
    assert before == files(legacy)
    assert left == names(legacy)
    for run in manifest.runs(legacy):
        assert isinstance(run, manifest.Run)
        if run.manifest.targets[0].store_path.is_relative_to(legacy):
            assert run.manifest.completed_at is not None
            assert [] == run.manifest.targets[0].open_moves()
    assert [] == [path for path in legacy.rglob("*") if path.suffix == ".tmp" or ".creating" in path.name]

    third = json.loads(run_cli(*argv(legacy)).stdout)
    assert (0, 0) == (third["totals"]["importedEntries"], third["totals"]["importedTranscriptEvents"])
    assert uncut == snapshot(legacy)


def test_every_step_of_an_import_is_cut(legacy: Path) -> None:
    """The list of cuts names each step that belongs to an import."""
    others = ("output-", "restore-", "recover-", "compact-", "snapshot-", "fix-", "successor-", "cleanup-")
    assert {step for step in Step if not step.startswith(others)} == {step for step, _ in CUTS}


def test_what_was_left_of_creating_a_store_goes(legacy: Path, run_cli: Callable[..., Any]) -> None:
    """A run that is killed while it gives a new store its name leaves a second one, which would stay for ever."""
    assert 3 == run_cli(*argv(legacy)).status
    (path,) = legacy.glob("agents/*/agent/openclaw-agent.sqlite")
    second = path.with_name(f"{path.name}.creating")
    os.link(path, second)

    run_cli(*argv(legacy))

    assert not second.exists()
    snapshot(legacy)
