"""A compaction that is killed, interrupted or runs out of disk leaves the store whole, and the next one completes it.

A kill is SIGKILL in a process of its own: behind the effect that a step is named after, in the middle of VACUUM, or
while its result is written into the log. A full disk is a VFS that fails from the N-th write on, or a limit on the
size of files.
"""

from __future__ import annotations

import json
import os
import resource
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import roomy_stores as stores

from openclaw_cli.faults import Step
from openclaw_cli.storage import connection, space

CUT = """
import sys
from openclaw_cli import faults
faults.arm(faults.Step(sys.argv[1]), int(sys.argv[2]))
from openclaw_cli.cli.app import run
sys.exit(run(sys.argv[3:]))
"""
INTERRUPT = """
import os, signal, sys
from openclaw_cli import faults
def reached(step):
    if step is faults.Step.COMPACT_VACUUMING:
        os.kill(os.getpid(), int(sys.argv[1]))
faults.reached = reached
from openclaw_cli.cli.app import run
sys.exit(run(sys.argv[2:]))
"""
FULL_DISK = """
import sys
import apsw
left = int(sys.argv[1])
fault, code = {
    "full": (apsw.FullError, apsw.SQLITE_FULL),
    "io": (apsw.IOError, apsw.SQLITE_IOERR_WRITE),
}[sys.argv[2]]
class File(apsw.VFSFile):
    def xWrite(self, data, offset):
        global left
        left -= 1
        if left < 0:
            error = fault("cut")
            error.extendedresult = code
            raise error
        super().xWrite(data, offset)
class Vfs(apsw.VFS):
    def __init__(self):
        super().__init__("cut", "unix", makedefault=True)
    def xOpen(self, name, flags):
        return File("unix", name, flags)
vfs = Vfs()
from openclaw_cli.cli.app import run
status = run(sys.argv[3:])
sys.stderr.write(f"left={left}")
sys.exit(status)
"""
CUTS = [
    (Step.COMPACT_CHECKPOINTED, 1),
    (Step.COMPACT_SEARCH_MERGED, 1),
    *((Step.COMPACT_VACUUMING, occurrence) for occurrence in (1, 3)),
    (Step.COMPACT_VACUUMED, 1),
    (Step.COMPACT_WRITTEN_BACK, 1),
    (Step.COMPACT_CHECKED, 1),
]


@pytest.fixture
def store(tmp_path: Path) -> Path:
    """A store with many unused pages, created without incremental vacuum, in a state directory of its own."""
    return stores.make(
        tmp_path / "state/agents/main/agent/openclaw-agent.sqlite", kept=2000, deleted=1500, incremental=False
    )


def argv(store: Path) -> list[str]:
    return ["doctor", "compact", "--state-dir", str(store.parents[3]), "--all-agents", "--json"]


def completed(store: Path, before: dict[str, str], run_cli: Callable[..., Any]) -> None:
    """The store is whole with all its rows; a further run succeeds and leaves it small, with nothing beside it."""
    assert before == stores.rows(store)
    again = run_cli(*argv(store))
    assert 0 == again.status, again.stderr + again.stdout
    compact = json.loads(again.stdout)["targets"][0]["compact"]
    assert ("compacted", 0, "incremental") == (
        compact["outcome"], compact["freelistAfterPages"], compact["autoVacuumAfter"],
    )  # fmt: skip
    assert before == stores.rows(store)
    assert space.sizes(store).database_bytes < 6_000_000
    names = {"openclaw-agent.sqlite", "openclaw-agent.sqlite-wal", "openclaw-agent.sqlite-shm"}
    assert set() == set(stores.beside(store)) - names


@pytest.mark.parametrize(("step", "occurrence"), CUTS, ids=lambda value: str(value))
def test_killed_compaction_is_completed(
    step: Step, occurrence: int, store: Path, tmp_path: Path, run_cli: Callable[..., Any]
) -> None:
    """Killed at `step`: the store opens and verifies, every row is there, the next run completes; no stray file."""
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    before = stores.rows(store)
    killed = subprocess.run(
        [sys.executable, "-c", CUT, step, str(occurrence), *argv(store)],
        capture_output=True,
        env={**os.environ, "SQLITE_TMPDIR": str(temporary)},
    )
    assert -signal.SIGKILL == killed.returncode, killed.stderr.decode()
    assert [] == list(temporary.iterdir())
    completed(store, before, run_cli)


@pytest.mark.parametrize("log_bytes", [1, 2_000_000])
def test_killed_while_the_result_is_written(log_bytes: int, store: Path, run_cli: Callable[..., Any]) -> None:
    """Killed when the log has grown so far: either state of the store is whole, and the next run completes."""
    before = stores.rows(store)
    with subprocess.Popen([sys.executable, "-m", "openclaw_cli", *argv(store)], stdout=subprocess.DEVNULL) as running:
        while running.poll() is None and space.sizes(store).wal_bytes < log_bytes:
            pass
        running.kill()
    completed(store, before, run_cli)


def test_every_step_of_a_compaction_is_cut() -> None:
    """The list of cuts names each step that belongs to a compaction."""
    assert {step for step in Step if step.startswith("compact-")} == {step for step, _ in CUTS}


@pytest.mark.parametrize(("number", "status"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_ends_vacuum(number: int, status: int, store: Path, run_cli: Callable[..., Any]) -> None:
    """Ctrl-C and SIGTERM end the long statement at once; it is rolled back."""
    before = stores.rows(store)
    ended = subprocess.run([sys.executable, "-c", INTERRUPT, str(number), *argv(store)], capture_output=True)
    assert status == ended.returncode, ended.stderr.decode()
    assert space.sizes(store).database_bytes > 8_000_000
    completed(store, before, run_cli)


@pytest.mark.parametrize(
    ("fault", "writes"), [*(("full", n) for n in (0, 20, 1500, 4000)), *(("io", n) for n in (1, 700, 2600, 5400))]
)
def test_a_disk_that_fails(fault: str, writes: int, store: Path, run_cli: Callable[..., Any]) -> None:
    """Whichever write fails, in the log, the database or SQLite's temporary file: no row is lost, and it is said."""
    before = stores.rows(store)
    cut = subprocess.run([sys.executable, "-c", FULL_DISK, str(writes), fault, *argv(store)], capture_output=True)
    assert cut.returncode in (3, 12), cut.stderr.decode()
    assert b"left=-" in cut.stderr
    (issue,) = json.loads(cut.stdout)["targets"][0]["issues"]
    assert "sqlite_compact_failed" == issue["code"]
    # A write that fails without a full disk may be a limit (12) or a broken disk (3).
    reasons = {"full": {"no_space": 12}, "io": {"not_writable": 12, "storage_io": 3}}
    assert reasons[fault][issue["reason"]] == cut.returncode
    completed(store, before, run_cli)


def test_a_limit_on_the_size_of_files(store: Path, run_cli: Callable[..., Any]) -> None:
    """The system refuses to let the copy grow: the run ends with an issue, the store stays as it was."""
    before = stores.rows(store)
    size = space.sizes(store).database_bytes
    limit = 4_000_000
    cut = subprocess.run(
        [sys.executable, "-B", "-m", "openclaw_cli", *argv(store)],
        capture_output=True,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit)),
    )
    # A write that fails without a full disk: no room, or an input and output error, as SQLite tells them apart.
    assert cut.returncode in (3, 12), cut.stderr.decode()
    target = json.loads(cut.stdout)["targets"][0]
    assert ["sqlite_compact_failed"] == [issue["code"] for issue in target["issues"]]
    assert ("failed", None) == (target["compact"]["outcome"], target["compact"]["dbSizeAfterBytes"])
    assert size == space.sizes(store).database_bytes
    completed(store, before, run_cli)


def test_an_exception_rolls_vacuum_back(store: Path) -> None:
    """What a sign of life raises ends the statement, and the same connection goes on."""

    def stop() -> None:
        raise KeyboardInterrupt

    before = stores.rows(store)
    with connection.open_write(store, agent_id="main") as opened:
        with pytest.raises(KeyboardInterrupt):
            space.vacuum(opened, stop)
        assert not opened.in_transaction()
        space.vacuum(opened)
        assert 0 == space.freelist_pages(opened)
    assert before == stores.rows(store)
