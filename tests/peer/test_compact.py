"""Compacting beside the real program: the same keys and sizes, and each works on what the other left."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import roomy_stores as stores

COMPACT = ("doctor", "--session-sqlite", "compact", "--session-sqlite-all-agents")
INSPECT = ("doctor", "--session-sqlite", "inspect", "--session-sqlite-all-agents")


@pytest.fixture(params=["incremental", "none"])
def state(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """A state directory whose store has many unused pages, with both kinds of auto-vacuum."""
    state = tmp_path / "state"
    stores.make(database(state), kept=1500, deleted=3000, incremental=request.param == "incremental")
    (state / "openclaw.json").write_text("{}\n")
    return state


def database(state: Path) -> Path:
    """Where the store is."""
    return state / "agents/main/agent/openclaw-agent.sqlite"


def ours(run_cli: Callable[..., Any], state: Path) -> dict[str, Any]:
    """Our report."""
    done = run_cli(*COMPACT, "--state-dir", state, "--json")
    assert 0 == done.status, done.stderr + done.stdout
    return json.loads(done.stdout)


def test_both_reclaim_the_same(state: Path, tmp_path: Path, peer: Any, run_cli: Callable[..., Any]) -> None:
    """Every key of the real report is in ours with its type; sizes before are equal, ours is no bigger afterwards."""
    copy = Path(shutil.copytree(state, tmp_path / "copy"))
    before = stores.rows(database(state))
    mine, real = ours(run_cli, state), peer.json(copy, *COMPACT)
    left, right = mine["targets"][0]["compact"], real["targets"][0]["compact"]
    assert set(right) <= set(left)
    assert set(real["targets"][0]) <= set(mine["targets"][0])
    assert set(real["totals"]) <= set(mine["totals"])
    assert {name: type(value) for name, value in right.items()} == {name: type(left[name]) for name in right}
    for name in ("dbSizeBeforeBytes", "pageSizeBytes", "freelistBeforePages", "freelistAfterPages", "skipped"):
        assert (name, right[name]) == (name, left[name])
    # Merging the search index first frees what deleted messages left in it.
    assert left["dbSizeAfterBytes"] <= right["dbSizeAfterBytes"]
    assert 1 <= left["reclaimedBytes"] / right["reclaimedBytes"] < 3
    assert before == stores.rows(database(state)) == stores.rows(database(copy))


def test_the_real_program_accepts_ours(state: Path, peer: Any, run_cli: Callable[..., Any]) -> None:
    """It lists the sessions, inspects without an issue, and finds nothing more to reclaim."""
    ours(run_cli, state)
    before = stores.rows(database(state))
    assert ["agent:main:explicit:kept"] == [row["key"] for row in peer.json(state, "sessions")["sessions"]]
    inspected = peer.json(state, *INSPECT)
    assert (0, 1) == (inspected["totals"]["issues"], inspected["totals"]["sqliteEntries"])
    assert "ok" == inspected["targets"][0]["dbStats"]["integrityCheck"]
    assert 0 == peer.json(state, *COMPACT)["totals"]["reclaimedBytes"]
    assert before == stores.rows(database(state))


def test_ours_accepts_the_real_one(state: Path, peer: Any, run_cli: Callable[..., Any]) -> None:
    """After the real compaction ours runs, keeps every row, and gives back no more than the search index held."""
    real = peer.json(state, *COMPACT)["totals"]["reclaimedBytes"]
    before = stores.rows(database(state))
    mine = ours(run_cli, state)
    assert 0 <= mine["totals"]["reclaimedBytes"] < 2 * real
    assert 0 == mine["totals"]["issues"]
    assert before == stores.rows(database(state))


def test_a_store_of_the_real_program(peer: Any, state_copy: Callable[[str], Path], run_cli: Any) -> None:
    """A store that the real program made, with two agents: the same sizes afterwards."""
    mine, real = state_copy("13-s5"), state_copy("13-s5")
    left, right = ours(run_cli, mine)["targets"], peer.json(real, *COMPACT)["targets"]
    sizes = ("agentId", "sqliteEntries")
    assert [[found[name] for name in sizes] for found in right] == [[found[name] for name in sizes] for found in left]
    assert [found["compact"]["dbSizeAfterBytes"] for found in right] == [
        found["compact"]["dbSizeAfterBytes"] for found in left
    ]
