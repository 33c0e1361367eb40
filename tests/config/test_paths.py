"""Directories, agent ids, stores."""

from __future__ import annotations

from pathlib import Path

import pytest

from openclaw_cli.config import Target, load, normalize_agent_id, resolve_state_dir, targets
from openclaw_cli.config.paths import openclaw_config_path, store_target
from openclaw_cli.errors import NotFoundError, UsageError


@pytest.mark.parametrize(("text", "wanted"), [
    ("Main", "main"), (" work_1 ", "work_1"), ("Ä b/c", "b-c"), ("--x--", "x"), ("", "main"), ("日本", "main"),
    ("a" * 70, "a" * 64), ("-a", "a"), ("a.b", "a-b"),
])  # fmt: skip
def test_agent_ids(text: str, wanted: str) -> None:
    """Ids are lower-cased; what they cannot hold becomes a dash; nothing usable is `main`."""
    assert wanted == normalize_agent_id(text)


def test_state_directory(tmp_path: Path) -> None:
    """Flag, variable, ~/.openclaw, an older ~/.clawdbot; `~` is the home that OPENCLAW_HOME may move."""
    env = {"HOME": str(tmp_path)}

    assert Path("/flag") == resolve_state_dir("/flag", {**env, "OPENCLAW_STATE_DIR": "/variable"})
    assert tmp_path / "x" == resolve_state_dir(None, {**env, "OPENCLAW_STATE_DIR": " ~/x "})
    assert tmp_path / ".openclaw" == resolve_state_dir(None, env)
    (tmp_path / ".clawdbot").mkdir()
    assert tmp_path / ".clawdbot" == resolve_state_dir(None, env)
    (tmp_path / ".openclaw").mkdir()
    assert tmp_path / ".openclaw" == resolve_state_dir("", {**env, "OPENCLAW_STATE_DIR": " "})
    assert tmp_path / "other/.openclaw" == resolve_state_dir(None, {**env, "OPENCLAW_HOME": "~/other"})


def test_configuration_path(tmp_path: Path) -> None:
    """The state directory's file, an older name beside it, the home's only for the home's own state directory."""
    env, state = {"HOME": str(tmp_path)}, tmp_path / "state"
    state.mkdir()
    (tmp_path / ".openclaw").mkdir()
    (tmp_path / ".openclaw/openclaw.json").write_text("{}")

    assert state / "openclaw.json" == openclaw_config_path(state, env)
    (state / "clawdbot.json").write_text("{}")
    assert state / "clawdbot.json" == openclaw_config_path(state, env)
    assert tmp_path / ".openclaw/openclaw.json" == openclaw_config_path(tmp_path / ".clawdbot", env)
    assert Path("/x.json") == openclaw_config_path(state, {**env, "OPENCLAW_CONFIG_PATH": "/x.json"})


@pytest.mark.parametrize(("path", "index", "database", "archive"), [
    ("/s/agents/a/sessions/sessions.json", "/s/agents/a/sessions/sessions.json",
     "/s/agents/a/agent/openclaw-agent.sqlite", "/s/agents/a/session-sqlite-import-archive"),
    ("/s/agents/a/agent/openclaw-agent.sqlite", "/s/agents/a/sessions/sessions.json",
     "/s/agents/a/agent/openclaw-agent.sqlite", "/s/agents/a/session-sqlite-import-archive"),
    ("/x/sessions.json", "/x/sessions.json", "/x/openclaw-agent.sqlite", "/x/session-sqlite-import-archive"),
    ("/x/foo.json", "/x/foo.json", "/x/foo.sqlite", "/x/session-sqlite-import-archive"),
    ("/x/foo.sqlite", "/x/foo.json", "/x/foo.sqlite", "/x/session-sqlite-import-archive"),
])  # fmt: skip
def test_store_paths(path: str, index: str, database: str, archive: str) -> None:
    """The index of a store names its database and the other way round."""
    target = store_target(Path(path), "a")

    assert (Path(index), Path(database), Path(archive)) == (target.store_path, target.sqlite_path, target.archive_dir)


def found(state: Path, **selectors: object) -> tuple[Target, ...]:
    """The targets of a state directory."""
    env = {"HOME": str(state)}
    return targets(load(state, None, env), state, env=env, **selectors)  # type: ignore[arg-type]


def test_targets(tmp_path: Path) -> None:
    """No selector: the default agent, even without a store. A selector must match something."""
    assert ["main"] == [target.agent_id for target in found(tmp_path)]
    for selectors in (
        {"agent": "x"},
        {"all_agents": True},
        {"store": str(tmp_path / "x.json")},
        {"store": str(tmp_path)},
    ):
        with pytest.raises(NotFoundError):
            found(tmp_path, **selectors)
    for name in ("work", "Bad Name", "beta"):
        (tmp_path / "agents" / name / "sessions").mkdir(parents=True)
    (tmp_path / "agents/link").symlink_to(tmp_path / "agents/work")

    assert ["beta", "link", "work"] == [target.agent_id for target in found(tmp_path, all_agents=True)]
    assert ["work"] == [target.agent_id for target in found(tmp_path, agent="WORK")]
    with pytest.raises(UsageError):
        found(tmp_path, agent="work", all_agents=True)


def test_configured_stores(tmp_path: Path) -> None:
    """`session.store` and `agentDir` move stores; agents that share one path get databases of their own."""
    (tmp_path / "openclaw.json").write_text(
        '{session: {store: "~/all/s.json"}, agents: {entries: {a: {default: true}, b: {}}}}'
    )
    assert tmp_path / "all/s.sqlite" == found(tmp_path)[0].sqlite_path
    assert tmp_path / "all/s.b.sqlite" == found(tmp_path, agent="b")[0].sqlite_path
    (tmp_path / "openclaw.json").write_text('{session: {store: "~/{agentId}/sessions.json"}}')
    assert tmp_path / "main/openclaw-agent.sqlite" == found(tmp_path)[0].sqlite_path
    (tmp_path / "openclaw.json").write_text('{agents: {entries: {a: {agentDir: "~/moved"}}}}')
    assert tmp_path / "moved/openclaw-agent.sqlite" == found(tmp_path)[0].sqlite_path


def test_several_agents_without_a_default_need_a_selector(tmp_path: Path) -> None:
    """Nothing is guessed."""
    (tmp_path / "openclaw.json").write_text("{agents: {entries: {a: {}, b: {}}}}")
    with pytest.raises(UsageError, match="default"):
        found(tmp_path)


def test_a_named_store_tells_its_agent(tmp_path: Path) -> None:
    """The layout names the agent; an explicit agent wins."""
    index = tmp_path / "agents/Work/sessions/sessions.json"
    index.parent.mkdir(parents=True)
    index.write_text("{}")

    assert "work" == found(tmp_path, store=str(index))[0].agent_id
    assert "other" == found(tmp_path, store=str(index), agent="other")[0].agent_id
