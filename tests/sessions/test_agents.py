"""`agents list` and `agents delete`: everything of an agent can be brought back, nothing of another one moves."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import archived_states as states
import fake_gateway as fake
import pytest

from openclaw_cli.storage import connection

NOW_MS = 1_796_000_000_000
LISTED = """{ // kept
  agents: { list: [ {id: "main", default: true}, {id: "Ops", name: "Operations"}, {id: "lab"} ] },
  bindings: [ {agentId: "ops", match: {channel: "x"}}, {agentId: "main", match: {channel: "y"}} ],
  tools: { agentToAgent: { allow: ["ops", "lab"] } },
}
"""
KEYED = """{ // kept
  agents: { ownership: "explicit", entries: { main: {}, /* gone */ Ops: {name: "Operations"}, lab: {} } },
  bindings: [ {agentId: "ops"} ],
}
"""


@pytest.fixture
def state(tmp_path: Path) -> Path:
    """Three agents with stores and workspaces."""
    made = tmp_path / "state"
    for agent in ("main", "ops", "lab"):
        (made / f"agents/{agent}/sessions").mkdir(parents=True)
        path = made / f"agents/{agent}/agent/openclaw-agent.sqlite"
        connection.create(path, agent_id=agent, now_ms=NOW_MS).close()
        (made / ("workspace" if agent == "main" else f"workspace-{agent}")).mkdir()
    (made / "workspace-ops/NOTES.md").write_text("x")
    (made / "openclaw.json").write_text(LISTED)
    return made


@pytest.fixture
def run(state: Path, run_cli: Callable[..., Any]) -> Callable[..., tuple[int, Any]]:
    """Run with --json; gives (status, document)."""

    def call(*words: str) -> tuple[int, Any]:
        done = run_cli("agents", *words, "--state-dir", state, "--json", "--now", str(NOW_MS))
        return done.status, json.loads(done.stdout)

    return call


def test_list(state: Path, run: Callable[..., Any]) -> None:
    """OpenClaw's members, ours behind them; an agent that only has a directory, too."""
    (state / "agents/left/sessions").mkdir(parents=True)
    status, found = run("list")
    assert 0 == status
    assert [("main", True, 1), ("ops", False, 1), ("lab", False, 0), ("left", False, 0)] == [
        (one["id"], one["isDefault"], one["bindings"]) for one in found
    ]
    assert {"configured": True, "sessions": 0, "name": "Operations"}.items() <= found[1].items()
    assert {"configured": False, "sessions": None}.items() <= found[3].items()


@pytest.mark.parametrize("text", [LISTED, KEYED], ids=["list", "entries"])
def test_delete(state: Path, run: Callable[..., Any], text: str) -> None:
    """Its directory and workspace are in the trash, byte by byte; the roster and what names it are edited."""
    (state / "openclaw.json").write_text(text)
    before = states.everything(state)
    status, plan = run("delete", "ops", "--dry-run")
    assert (0, True) == (status, plan["dryRun"])
    assert before == states.everything(state)

    status, document = run("delete", "OPS", "--yes")

    assert 0 == status, document
    after = states.everything(state)
    trash = f"openclaw-cli/trash/ops-{NOW_MS}/"
    moved = {name.removeprefix(trash): digest for name, digest in after.items() if name.startswith(trash)}
    wanted = {
        name.removeprefix("agents/"): digest
        for name, digest in before.items()
        if name.startswith(("agents/ops/", "workspace-ops/"))
    }
    assert wanted == moved
    kept = {
        name: digest for name, digest in before.items() if name.startswith(("agents/main", "agents/lab", "workspace/"))
    }
    assert kept.items() <= after.items()
    written = (state / "openclaw.json").read_text()
    assert "// kept" in written and "ops" not in written.lower()
    assert text == Path(document["configBackup"]).read_text()
    assert (1, 1 if text is LISTED else 0) == (document["removedBindings"], document["removedAllow"])
    assert "ops" not in {one["id"] for one in run("list")[1]}
    assert 10 == run("delete", "ops", "--yes")[0]


def test_what_must_stay(state: Path, run: Callable[..., Any]) -> None:
    """The default agent, main, one that is not there; off a terminal --yes is needed."""
    before = states.everything(state)
    assert 12 == run("delete", "main", "--yes")[0]
    assert 10 == run("delete", "nobody", "--yes")[0]
    assert 2 == run("delete", "ops")[0]
    assert before == {name: digest for name, digest in states.everything(state).items() if name in before}


def test_a_workspace_of_others_stays(state: Path, run: Callable[..., Any], tmp_path: Path) -> None:
    """Shared, around another one's, or outside of the state directory."""
    for place in ("workspace-lab", "workspace-lab/below", str(tmp_path / "elsewhere")):
        path = Path(place) if place.startswith("/") else state / place
        path.mkdir(exist_ok=True)
        (state / "openclaw.json").write_text(
            LISTED.replace('name: "Operations"', f"workspace: {json.dumps(str(path))}")
        )
        document = run("delete", "ops", "--dry-run")[1]
        assert document["workspaceRetained"]
        assert (["lab"] if "lab" in place else []) == document["workspaceSharedWith"]


def test_a_configuration_that_cannot_be_edited(state: Path, run: Callable[..., Any]) -> None:
    """What an included file has, or a variable stands in: refused before anything moves."""
    (state / "agents.json5").write_text('{ list: [ {id: "main", default: true}, {id: "ops"} ] }')
    (state / "openclaw.json").write_text('{ agents: { $include: "./agents.json5" } }')
    before = states.everything(state)
    status, document = run("delete", "ops", "--yes")
    assert (12, "config_edit_by_hand") == (status, document["error"]["code"])
    after = states.everything(state)
    assert before.items() <= after.items()


def test_a_directory_that_cannot_be_moved(state: Path, run: Callable[..., Any]) -> None:
    """The configuration stays as it is; the next run completes what can be done then."""
    trash = state / f"openclaw-cli/trash/ops-{NOW_MS}"
    (trash / "ops/in-the-way").mkdir(parents=True)
    status, document = run("delete", "ops", "--yes")
    assert 3 == status and document["failed"]
    assert LISTED == (state / "openclaw.json").read_text()
    os.rename(trash, state / "aside")
    assert 0 == run("delete", "ops", "--yes")[0]
    assert not (state / "agents/ops").exists()


def test_by_a_gateway(state: Path, run_cli: Callable[..., Any], fixtures: Path) -> None:
    """The recorded answer comes through, what it could not remove is an error."""
    frames = [each["frame"] for each in json.loads((fixtures / "gateway/agents_delete.json").read_text())]
    answers = [frame for frame in frames if frame.get("type") == "res"]
    done = next(frame for frame in answers if frame["ok"])
    with fake.running(
        fake.FakeGateway(str(state), {"agents.delete": lambda _: {"ok": True, "payload": done["payload"]}})
    ) as (gateway):
        env = {"OPENCLAW_GATEWAY_PORT": str(gateway.port), "OPENCLAW_GATEWAY_TOKEN": fake.TOKEN}
        words = ("agents", "delete", "ops", "--yes", "--gateway", "require", "--state-dir", state, "--json")
        found = run_cli(*words, env=env)
    document = json.loads(found.stdout)
    assert "gateway" == document["transport"] and done["payload"]["agentId"] == document["agentId"]
    assert {"agentId": "ops", "deleteFiles": True} == gateway.requests[1]["params"]
    assert (3 if done["payload"].get("failed") else 0) == found.status


EVERYWHERE = """{ // kept
  agents: {
    ownership: "explicit",
    defaults: { heartbeat: { agentId: "ops", every: "5m" }, systemAgent: { agentId: "ops" },
      subagents: { allowAgents: ["lab", "ops"] } },
    entries: { main: {}, ops: {}, lab: { subagents: { allowAgents: ["ops", "main"] } } },
  },
  talk: { agentId: "ops" },
  broadcast: { strategy: "parallel", "peer:1": ["ops", "lab"], "peer:2": { agents: ["ops"] } },
  hooks: { allowedAgentIds: ["ops"], mappings: [ { agentId: "ops" }, { agentId: "lab" } ] },
}
"""


def test_no_reference_stays_behind(state: Path, run: Callable[..., Any]) -> None:
    """OpenClaw refuses a configuration that names an agent which it does not know."""
    (state / "openclaw.json").write_text(EVERYWHERE)
    status, document = run("delete", "ops", "--yes")
    assert 0 == status, document
    cleared = ["agents.defaults.systemAgent.agentId", "talk.agentId", "agents.defaults.heartbeat"]
    assert cleared == document["clearedOwnerRefs"]
    assert "ops" not in (state / "openclaw.json").read_text()
    assert "// kept" in (state / "openclaw.json").read_text()


def test_the_last_agent_keeps_its_workspace(state: Path, run: Callable[..., Any]) -> None:
    """Alone it would have another one by default."""
    (state / "openclaw.json").write_text('{ agents: { ownership: "explicit", entries: { main: {}, ops: {} } } }')
    (state / "agents/lab").rename(state / "aside")
    before = {one["id"]: one["workspace"] for one in run("list")[1]}
    assert 0 == run("delete", "ops", "--yes")[0]
    assert [before["main"]] == [one["workspace"] for one in run("list")[1]]


def test_directories_of_others_do_not_move(state: Path, run: Callable[..., Any]) -> None:
    """An agentDir that is another agent's, or around one, a workspace that is a part of the state itself."""
    for stated in ("agents/lab/agent", "agents/lab", "agents", "state"):
        entry = f"agentDir: {json.dumps(str(state / stated))}, workspace: {json.dumps(str(state / stated))}"
        (state / "openclaw.json").write_text(LISTED.replace('name: "Operations"', entry))
        done = run("delete", "ops", "--dry-run")[1]
        assert {"workspaceRetained": True}.items() <= done.items()
        assert [str(state / "agents/ops")] == done["moves"]
