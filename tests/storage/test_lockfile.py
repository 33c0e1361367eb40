"""The lock file that decides who owns a state directory."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import apsw
import pytest

from openclaw_cli.errors import BusyError
from openclaw_cli.storage.lockfile import Exclusive


def test_only_one_holds_it(tmp_path: Path) -> None:
    """A second taker is BUSY until the first lets go."""
    path = tmp_path / "x.lock.sqlite"
    with Exclusive(path):
        with pytest.raises(BusyError):
            Exclusive(path, wait_ms=1)
        with pytest.raises(apsw.BusyError):
            apsw.Connection(str(path)).execute("BEGIN IMMEDIATE")
    Exclusive(path).release()
    assert [path] == list(tmp_path.iterdir())
    assert 0o600 == path.stat().st_mode & 0o777


def test_a_killed_owner_lets_go(tmp_path: Path) -> None:
    """The lock is the process's: after `kill -9` the next one gets it."""
    path = tmp_path / "x.lock.sqlite"
    code = (
        "import os, signal, sys; from pathlib import Path; from openclaw_cli.storage.lockfile import Exclusive\n"
        "held = Exclusive(Path(sys.argv[1])); os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    done = subprocess.run([sys.executable, "-c", code, str(path)], check=False)
    assert -signal.SIGKILL == done.returncode
    Exclusive(path).release()


def test_releasing_twice_is_harmless(tmp_path: Path) -> None:
    """Whoever cleans up need not know whether it was done already."""
    lock = Exclusive(tmp_path / "x.lock.sqlite")
    lock.release()
    lock.release()
