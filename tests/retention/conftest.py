"""Recorded scenarios of the real program's cleanup, and what a store holds."""

from __future__ import annotations

import json
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import unpacking

from openclaw_cli import archive
from openclaw_cli.storage import connection, events, verify

SCENARIOS = Path(__file__).resolve().parents[2] / "fixtures/cleanup/scenarios"


class Scenario:
    """One state directory as it was, and the recorded runs by their labels."""

    def __init__(self, name: str, place: Path) -> None:
        recorded = json.loads((SCENARIOS / f"{name}.json").read_text())
        unpacking.unpack(SCENARIOS / f"{name}.tar.gz", place)
        self.state = place / "state"
        self.runs = {run["label"]: run for run in recorded["runs"]}

    def database(self, agent: str = "main") -> Path:
        """The store of an agent."""
        return self.state / f"agents/{agent}/agent/openclaw-agent.sqlite"

    def configure(self, change: Callable[[dict[str, Any]], None]) -> None:
        """Change `openclaw.json`."""
        path = self.state / "openclaw.json"
        config = json.loads(path.read_text())
        change(config)
        path.write_text(json.dumps(config))

    def rows(self) -> dict[str, Any]:
        """What the stores hold now, in the form of the recorded rows; every store is whole."""
        return {path.parts[-3]: _rows(path) for path in sorted(self.state.glob("agents/*/agent/*.sqlite"))}

    def files(self) -> list[str]:
        """All files below the sessions directories."""
        paths = (path for path in self.state.glob("agents/*/sessions/**/*") if path.is_file())
        return sorted(str(path.relative_to(self.state)) for path in paths)

    def content(self, *places: Path) -> Counter[tuple[str, bytes]]:
        """Multiset of (session id, event): stores, and archives of removals beside them and in `places`."""
        found: Counter[tuple[str, bytes]] = Counter()
        for path in self.state.glob("agents/*/agent/*.sqlite"):
            with connection.open_read(path) as store:
                for (session_id,) in store.execute("SELECT session_id FROM session_windows").fetchall():
                    found.update((session_id, text) for _, text in events.stream(store, session_id))
        for place in (*self.state.glob("agents/*/sessions"), *places):
            for path in place.glob("*.jsonl.deleted.*.zst"):
                with archive.open_stream(path) as stream:
                    session_id = path.name.split(".jsonl.deleted.")[0]
                    found.update((session_id, line.rstrip(b"\n")) for line in stream)
        return found


def _rows(path: Path) -> dict[str, Any]:
    with connection.open_read(path, temporary_tables=True) as store:
        assert [] == [*verify.integrity(store), *verify.verify(store)]
        assert [] == store.execute("PRAGMA foreign_key_check").fetchall()
        nodes = store.execute("SELECT session_key, entry_json, archived_at FROM session_nodes").fetchall()
        counts = store.execute("SELECT session_id, count(*) FROM transcript_events GROUP BY session_id").fetchall()
        archives = store.execute(
            "SELECT session_id, generation, session_key, reason FROM session_transcript_archives ORDER BY 1, 2"
        ).fetchall()
        return {
            "nodes": {
                key: json.loads(text).get("archiveReason") if archived is not None else None
                for key, text, archived in nodes
            },
            "archivedKeys": sorted(key for key, _, archived in nodes if archived is not None),
            "windows": dict(store.execute("SELECT session_id, session_key FROM session_windows").fetchall()),
            "events": dict(counts),
            "archives": [list(row) for row in archives],
        }


@pytest.fixture
def scenario(tmp_path: Path) -> Callable[[str], Scenario]:
    """A scenario by its name, unpacked."""

    def make(name: str) -> Scenario:
        return Scenario(name, tmp_path / name)

    return make


@pytest.fixture
def cleanup(run_cli: Callable[..., Any]) -> Callable[..., dict[str, Any]]:
    """Run `sessions cleanup --json` at a recorded time; gives the document."""

    def run(made: Scenario, label: str, *more: str, status: int = 0, args: list[str] | None = None) -> dict[str, Any]:
        recorded = made.runs[label]
        words = [word for word in (recorded["args"] if args is None else args) if word != "--json"]
        done = run_cli(
            *("sessions", "cleanup", "--state-dir", made.state, "--now", str(recorded["now"]), "--json"), *words, *more
        )
        assert status == done.status, done.stderr + done.stdout
        return json.loads(done.stdout)

    return run


_CUT = """
import sys
from openclaw_cli import faults
faults.arm(faults.Step(sys.argv[1]), int(sys.argv[2]))
from openclaw_cli.cli.app import run
sys.exit(run(sys.argv[3:]))
"""


@pytest.fixture
def cut_run() -> Callable[..., int]:
    """Run the program and kill it when it comes to a step for the n-th time; gives how it ended."""

    def run(step: str, occurrence: int, *words: str) -> int:
        argv = [sys.executable, "-c", _CUT, step, str(occurrence), *words]
        return subprocess.run(argv, capture_output=True, timeout=60).returncode

    return run
