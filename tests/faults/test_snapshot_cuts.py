"""A snapshot that is killed is known to be incomplete, and the same command completes it."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import archived_states as states
import pytest

from openclaw_cli.faults import Step
from openclaw_cli.migration import snapshot_record

CUT = """
import sys
from openclaw_cli import faults
faults.arm(faults.Step(sys.argv[1]), int(sys.argv[2]))
from openclaw_cli.cli.app import run
sys.exit(run(sys.argv[3:]))
"""
CUTS = [
    (Step.SNAPSHOT_MARKED, 1),
    (Step.SNAPSHOT_FILE_COPIED, 1),
    (Step.SNAPSHOT_FILE_COPIED, 7),
    (Step.SNAPSHOT_DATABASE_COPIED, 1),
    (Step.SNAPSHOT_RECORDED, 1),
]


@pytest.mark.parametrize(("step", "occurrence"), CUTS)
def test_a_cut_snapshot_is_completed(
    state_copy: Callable[[str], Path], run_cli: Callable[..., Any], tmp_path: Path, step: Step, occurrence: int
) -> None:
    """Until the record is there `--verify` gives 13; the next run ends in a whole one; the source never changes."""
    state = state_copy("01-legacy")
    assert 3 == run_cli("doctor", "import", "--all-agents", "--state-dir", state).status
    before = states.everything(state)
    words = ("doctor", "snapshot", str(tmp_path / "snap"), "--state-dir", str(state), "--json")
    done = subprocess.run([sys.executable, "-c", CUT, step, str(occurrence), *words], capture_output=True, timeout=60)
    assert -signal.SIGKILL == done.returncode
    recorded = step is Step.SNAPSHOT_RECORDED
    assert (0 if recorded else 13) == run_cli(*words, "--verify").status
    if not recorded:
        again = run_cli(*words)
        assert 0 == again.status, again.stdout
        assert json.loads(again.stdout)["totals"]["databases"] == 1

    assert [] == snapshot_record.verify(tmp_path / "snap").issues
    assert before == states.everything(state)
