"""`sessions cleanup` across the two programs: the real one opens, lists and cleans what ours has left."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import unpacking

from openclaw_cli.storage import archives, connection, verify

pytestmark = pytest.mark.peer

SCENARIOS = Path(__file__).resolve().parents[2] / "fixtures/cleanup/scenarios"
DATABASE = "agents/main/agent/openclaw-agent.sqlite"


def unpacked(name: str, place: Path) -> tuple[Path, str]:
    """The state directory of a scenario, and the time of its run."""
    recorded = json.loads((SCENARIOS / f"{name}.json").read_text())
    unpacking.unpack(SCENARIOS / f"{name}.tar.gz", place)
    (run,) = (run for run in recorded["runs"] if run["label"] == "apply_json")
    return place / "state", str(run["now"])


@pytest.mark.parametrize(
    "name", ["01_age_prune", "02_cap_max_entries", "11_disk_budget_highwater", "15_disk_budget_cap_archived"]
)
def test_the_real_program_goes_on(peer: Any, run_cli: Callable[..., Any], tmp_path: Path, name: str) -> None:
    """It lists the rows that we left, finds nothing that is not as it wants it, and its own cleanup ends well."""
    state, now = unpacked(name, tmp_path)
    done = run_cli("sessions", "cleanup", "--state-dir", state, "--now", now, "--enforce", "--json")
    assert done.status in (0, 3), done.stderr
    document = json.loads(done.stdout)
    with connection.open_read(state / DATABASE) as store:
        kept = {one.name: one.sha256 for one in archives.stored(store)}
        keys = {key for (key,) in store.execute("SELECT session_key FROM session_nodes WHERE entry_valid = 1")}
    assert kept

    listed = peer.json(state, "sessions", "--limit", "all")
    again = peer.json(state, "sessions", "cleanup", "--store", str(state / DATABASE), "--dry-run")
    cleaned = peer.json(state, "sessions", "cleanup", "--store", str(state / DATABASE), "--enforce")

    assert keys == {row["key"] for row in listed["sessions"]}
    assert document["afterCount"] == again["beforeCount"] == cleaned["beforeCount"]
    # What it does to old archives is its own affair; those that count for nothing yet are where they were.
    if name[:2] in ("01", "02"):
        with connection.open_read(state / DATABASE) as store:
            assert kept.items() <= {one.name: one.sha256 for one in archives.stored(store)}.items()
    mine = run_cli("sessions", "cleanup", "--state-dir", state, "--now", now, "--json")
    assert mine.status in (0, 3), mine.stderr
    with connection.open_read(state / DATABASE, temporary_tables=True) as store:
        assert [] == [*verify.integrity(store), *verify.verify(store)]
