"""What a run says when it cannot write its files: full disks, limits of file sizes, targets that are no files."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parent.parent.parent
STATE = ROOT / "openclaw_cli/data/demo/state"
TRANSCRIPT = STATE / "agents/main/sessions/5f0c2a9e-3b1d-4c58-9a57-0d2f6e8b1c01.jsonl"


def limited(kib: int, *argv: str | Path, **env: str | Path) -> subprocess.CompletedProcess[str]:
    """Run the program where no file may become larger than `kib` KiB."""
    words = ["bash", "-c", f'ulimit -f {kib}; exec "$@"', "bash", sys.executable, "-m", "openclaw_cli"]
    # Early releases of Python 3.11 do not see that a compiled module was cut short, and every later run falls over it.
    kept = {"PYTHONDONTWRITEBYTECODE": "1"}
    full = {**os.environ, **kept, **{name: str(value) for name, value in env.items()}}
    return subprocess.run([*words, *map(str, argv)], capture_output=True, text=True, env=full, timeout=60)


@pytest.mark.parametrize("force", [[], ["--force"]])
@pytest.mark.parametrize("kind", ["directory", "pipe"])
def test_an_output_that_is_no_file_was_an_unexpected_failure(
    run_cli: Callable[..., Any], tmp_path: Path, kind: str, force: list[str]
) -> None:
    """A directory or a device behind `-o` is a wrong call; it stays what it is, and nothing is left beside it."""
    target = tmp_path / "there"
    target.mkdir() if kind == "directory" else os.mkfifo(target)
    done = run_cli("compact", TRANSCRIPT, "-o", target, *force)

    assert (2, "") == (done.status, done.stdout)
    assert f"{target} is " in done.stderr
    assert ".tmp" not in done.stderr
    assert [target] == list(tmp_path.iterdir())


@pytest.mark.parametrize("kib", [1, 40, 200, 700])
def test_a_limit_of_file_sizes_was_an_error_like_any(run_cli: Callable[..., Any], tmp_path: Path, kib: int) -> None:
    """The import ends with the status of no room, every source stays, and the next run is whole."""
    state = shutil.copytree(STATE, tmp_path / "state")
    before = {path.name: path.read_bytes() for path in (state / "agents/main/sessions").iterdir()}
    done = limited(kib, "doctor", "import", "--state-dir", state, "--json")

    assert 12 == done.returncode, done.stdout + done.stderr
    assert before == {path.name: path.read_bytes() for path in (state / "agents/main/sessions").iterdir()}
    report = run_cli("doctor", "import", "--state-dir", state, "--json")
    assert (0, 60) == (report.status, json.loads(report.stdout)["totals"]["validatedTranscriptEvents"])


def test_a_fold_beyond_the_limit_named_a_temporary_file(tmp_path: Path) -> None:
    """No room for the folded transcript: status 12, the file that was asked for is named, nothing is left."""
    target = tmp_path / "short.jsonl"
    done = limited(1, "compact", TRANSCRIPT, "-o", target)

    assert (12, []) == (done.returncode, list(tmp_path.iterdir()))
    assert f"no room to write {target}" in done.stderr


@pytest.mark.parametrize("kib", [0, 1, 600])
def test_a_demo_without_room_was_a_fault_of_ours(tmp_path: Path, kib: int) -> None:
    """The demo says that there is no room and what to do, whichever of its steps finds out."""
    done = limited(kib, "demo", "--json", TMPDIR=tmp_path)

    assert 12 == done.returncode, done.stderr
    assert "TMPDIR" in json.loads(done.stdout)["error"]["hint"]
    assert "Traceback" not in done.stderr
