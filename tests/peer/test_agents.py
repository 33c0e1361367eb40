"""`agents delete` across the two programs: the configuration that we leave is one that the real program accepts."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.peer

CONFIG = """{
  // kept
  agents: { ownership: "explicit", defaults: { heartbeat: { agentId: "ops" }, systemAgent: { agentId: "main" } },
    entries: { main: {}, ops: {}, lab: { subagents: { allowAgents: ["ops"] } } } },
  talk: { agentId: "ops" },
  bindings: [ { agentId: "ops", match: { channel: "telegram" } } ],
  broadcast: { "telegram:1": ["ops", "lab"] },
  tools: { agentToAgent: { enabled: true, allow: ["ops", "lab"] } },
}
"""


@pytest.mark.parametrize("agents", [("ops",), ("ops", "lab")])
def test_the_real_program_accepts_what_is_left(
    peer: Any, run_cli: Callable[..., Any], tmp_path: Path, agents: tuple[str, ...]
) -> None:
    """It lists the agents that are left, each with the workspace that it had; before and after."""
    state = tmp_path / "state"
    state.mkdir()
    (state / "openclaw.json").write_text(CONFIG)
    before = {one["id"]: one["workspace"] for one in peer.json(state, "agents", "list")}
    assert {"main", "ops", "lab"} == set(before)
    # It writes the file anew where it has something to bring up to date; ours is to work on what people wrote.
    (state / "openclaw.json").write_text(CONFIG)
    for agent in agents:
        done = run_cli("agents", "delete", agent, "--yes", "--state-dir", state, "--json")
        assert 0 == done.status, done.stdout

    listed = run_cli("agents", "list", "--state-dir", state, "--json").stdout
    left = {one["id"]: one["workspace"] for one in peer.json(state, "agents", "list")}

    assert {name: place for name, place in before.items() if name not in agents} == left
    assert left == {one["id"]: one["workspace"] for one in json.loads(listed)}
