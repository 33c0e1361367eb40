"""Flag > environment > openclaw-cli.yaml > openclaw.json (JSON5, `$include`, `${ENV}`) > default."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from legacy_state import BASE_MS, KEY, digests, jsonl, make_state, sid, turns


@pytest.fixture
def shown(cli_json: Callable[..., Any]) -> Callable[..., Any]:
    """One setting as `(value, origin)`."""

    def run(state: Path, name: str, *argv: str, env: dict[str, str] | None = None) -> tuple[Any, str]:
        report = cli_json("config", "show", "--origin", "--state-dir", state, *argv, env=env)
        return report["settings"][name]["value"], report["settings"][name]["origin"]

    return run


def test_default(shown: Callable[..., Any], tmp_path: Path) -> None:
    """The lowest source is the default, and it is named so."""
    state = make_state(tmp_path / "s", None, {})
    assert ("main", "default") == shown(state, "session.mainKey")
    assert (256 * 1024 * 1024, "default") == shown(state, "import.maxLine")


def test_json5(shown: Callable[..., Any], tmp_path: Path) -> None:
    """`openclaw.json` is read as JSON5 and named as the origin."""
    config = "// a comment\n{session: {mainKey: 'home',},}\n"
    value, origin = shown(make_state(tmp_path / "s", None, {}, config=config), "session.mainKey")
    assert "home" == value
    assert "openclaw.json" in origin


def test_include(shown: Callable[..., Any], tmp_path: Path) -> None:
    """`$include` is relative to the including file; sibling keys override the included object."""
    state = make_state(tmp_path / "s", None, {}, config='{"session": {"$include": "./parts/session.json5"}}')
    (state / "parts").mkdir()
    (state / "parts/session.json5").write_text("{mainKey: 'included'}")
    assert "included" == shown(state, "session.mainKey")[0]
    (state / "openclaw.json").write_text("{session: {$include: ['parts/session.json5'], mainKey: 'sibling'}}")
    assert "sibling" == shown(state, "session.mainKey")[0]


def test_include_outside_or_in_a_circle(run_cli: Callable[..., Any], tmp_path: Path) -> None:
    """An include must stay in the config directory; cycles are errors: status 2."""
    (tmp_path / "outside.json").write_text("{}")
    state = make_state(tmp_path / "s", None, {}, config='{"$include": "../outside.json"}')
    assert 2 == run_cli("config", "show", "--state-dir", state, "--json").status
    (state / "openclaw.json").write_text('{"$include": "./a.json"}')
    (state / "a.json").write_text('{"$include": "./openclaw.json"}')
    assert 2 == run_cli("config", "show", "--state-dir", state, "--json").status


def test_environment_in_json5(shown: Callable[..., Any], run_cli: Callable[..., Any], tmp_path: Path) -> None:
    """`${NAME}` is replaced, `$${NAME}` is literal."""
    state = make_state(tmp_path / "s", None, {}, config="{session: {mainKey: '${OUR_MAIN}'}}")
    assert "von-env" == shown(state, "session.mainKey", env={"OUR_MAIN": "von-env"})[0]
    (state / "openclaw.json").write_text("{agents: {defaults: {model: 'x/$${OUR_MAIN}'}}}")
    assert "x/${OUR_MAIN}" == shown(state, "agents.defaults.model", env={"OUR_MAIN": "von-env"})[0]


def test_yaml_beats_json5(shown: Callable[..., Any], tmp_path: Path) -> None:
    """`openclaw-cli.yaml` beats `openclaw.json`."""
    state = make_state(tmp_path / "s", None, {}, config="{agents: {defaults: {contextTokens: 111}}}")
    assert 111 == shown(state, "agents.defaults.contextTokens")[0]
    (state / "openclaw-cli.yaml").write_text("agents:\n  defaults:\n    contextTokens: 222\n")
    value, origin = shown(state, "agents.defaults.contextTokens")
    assert 222 == value
    assert "openclaw-cli.yaml" in origin


def test_yaml_own_keys(shown: Callable[..., Any], tmp_path: Path) -> None:
    """Our own configuration holds our own settings; sizes are read with units."""
    state = make_state(tmp_path / "s", None, {})
    (state / "openclaw-cli.yaml").write_text("import:\n  maxLine: 4kb\ncompact:\n  labels: de\n")
    assert 4096 == shown(state, "import.maxLine")[0]
    assert "de" == shown(state, "compact.labels")[0]


def test_yaml_places(shown: Callable[..., Any], tmp_path: Path) -> None:
    """`--config`, `$OPENCLAW_CLI_CONFIG`, `<state>/openclaw-cli.yaml`, `$XDG_CONFIG_HOME/openclaw-cli/config.yaml`."""
    state = make_state(tmp_path / "s", None, {})
    xdg = tmp_path / "xdg"
    (xdg / "openclaw-cli").mkdir(parents=True)
    (xdg / "openclaw-cli/config.yaml").write_text("import: {maxLine: 1001}\n")
    env = {"XDG_CONFIG_HOME": str(xdg)}
    assert 1001 == shown(state, "import.maxLine", env=env)[0]
    (state / "openclaw-cli.yaml").write_text("import: {maxLine: 1002}\n")
    assert 1002 == shown(state, "import.maxLine", env=env)[0]
    (tmp_path / "named.yaml").write_text("import: {maxLine: 1003}\n")
    env["OPENCLAW_CLI_CONFIG"] = str(tmp_path / "named.yaml")
    assert 1003 == shown(state, "import.maxLine", env=env)[0]
    (tmp_path / "flag.yaml").write_text("import: {maxLine: 1004}\n")
    assert 1004 == shown(state, "import.maxLine", "--config", str(tmp_path / "flag.yaml"), env=env)[0]


def test_environment_beats_the_default(shown: Callable[..., Any], tmp_path: Path) -> None:
    """The environment beats what is below it, and is named; only it overrides the lock defaults."""
    state = make_state(tmp_path / "s", None, {})
    assert (1_800_000, "default") == shown(state, "locks.stale")
    value, origin = shown(state, "locks.stale", env={"OPENCLAW_SESSION_WRITE_LOCK_STALE_MS": "7000"})
    assert 7000 == value
    assert "OPENCLAW_SESSION_WRITE_LOCK_STALE_MS" in origin


def test_flag_beats_environment(cli_json: Callable[..., Any], tmp_path: Path) -> None:
    """A flag beats the environment: `--state-dir` against OPENCLAW_STATE_DIR."""
    flag = make_state(tmp_path / "flag", None, {})
    env = make_state(tmp_path / "env", None, {})
    report = cli_json("config", "show", "--origin", "--state-dir", flag, env={"OPENCLAW_STATE_DIR": str(env)})
    assert str(flag) == report["settings"]["stateDir"]["value"]
    assert "--state-dir" in report["settings"]["stateDir"]["origin"]
    report = cli_json("config", "show", "--origin", env={"OPENCLAW_STATE_DIR": str(env)})
    assert str(env) == report["settings"]["stateDir"]["value"]
    assert "OPENCLAW_STATE_DIR" in report["settings"]["stateDir"]["origin"]


def test_flag_beats_yaml_for_max_line(doctor: Callable[..., Any], tmp_path: Path) -> None:
    """The setting is used by the command, and the flag beats it."""
    index = {KEY: {"sessionId": sid(1), "updatedAt": BASE_MS}}
    state = make_state(tmp_path / "s", index, {f"{sid(1)}.jsonl": jsonl(turns(sid(1)))})
    (state / "openclaw-cli.yaml").write_text("import: {maxLine: 100}\n")
    (target,) = doctor("dry-run", state, status=3)["targets"]
    assert "too-long" == target["damage"][0]["kind"]
    (target,) = doctor("dry-run", state, "--max-line", "1mb")["targets"]
    assert [] == target["damage"]


@pytest.mark.parametrize(
    "text",
    ["nonsense: 1\n", "import: {maxLines: 5}\n", "compact:\n  label: de\n"],
    ids=["top", "nested", "misspelt"],
)
@pytest.mark.parametrize("command", [["config", "show"], ["sessions", "list"]])
def test_unknown_key(run_cli: Callable[..., Any], tmp_path: Path, command: list[str], text: str) -> None:
    """An unknown key in our own configuration is status 2, and the message names it."""
    state = make_state(tmp_path / "s", None, {})
    (state / "openclaw-cli.yaml").write_text(text)
    done = run_cli(*command, "--state-dir", state)
    assert 2 == done.status
    assert re.findall(r"(\w+):", text)[-1] in done.stderr


@pytest.mark.parametrize("text", ["import: {maxLine: lots}\n", "compact: {labels: fr}\n", "a: [1\n", "- 1\n"])
def test_bad_yaml(run_cli: Callable[..., Any], tmp_path: Path, text: str) -> None:
    """Wrong configuration is status 2."""
    state = make_state(tmp_path / "s", None, {})
    (state / "openclaw-cli.yaml").write_text(text)
    done = run_cli("config", "show", "--state-dir", state, "--json")
    assert 2 == done.status
    assert "Traceback" not in done.stderr


def test_bad_json5(run_cli: Callable[..., Any], tmp_path: Path) -> None:
    """An `openclaw.json` that cannot be read is a wrong configuration: status 2."""
    state = make_state(tmp_path / "s", None, {}, config="{session: {")
    assert 2 == run_cli("config", "show", "--state-dir", state, "--json").status


def test_openclaw_json_may_hold_keys_of_others(cli_json: Callable[..., Any], tmp_path: Path) -> None:
    """Only our own configuration is strict; `openclaw.json` belongs to OpenClaw."""
    state = make_state(tmp_path / "s", None, {}, config='{"gateway": {"port": 1}, "somethingNew": {"a": 1}}')
    cli_json("config", "show", "--state-dir", state)


def test_session_store_setting(sessions: Callable[..., Any], doctor: Callable[..., Any], tmp_path: Path) -> None:
    """`session.store` with `{agentId}` moves the index, and the store stands beside it."""
    elsewhere = tmp_path / "elsewhere" / "main"
    elsewhere.mkdir(parents=True)
    config = f'{{session: {{store: "{tmp_path}/elsewhere/{{agentId}}/sessions.json"}}}}'
    state = make_state(tmp_path / "s", None, {}, config=config)
    import json

    (elsewhere / "sessions.json").write_text(json.dumps({KEY: {"sessionId": sid(1), "updatedAt": BASE_MS}}))
    (elsewhere / f"{sid(1)}.jsonl").write_bytes(jsonl(turns(sid(1))))
    (target,) = doctor("import", state)["targets"]
    assert str(elsewhere / "openclaw-agent.sqlite") == target["sqlitePath"]
    assert [KEY] == [row["key"] for row in sessions(state)["sessions"]]


def test_show_writes_nothing(run_cli: Callable[..., Any], tmp_path: Path) -> None:
    """Reading the configuration changes no file."""
    state = make_state(tmp_path / "s", {KEY: {"sessionId": sid(1)}}, {})
    before = digests(state)
    assert 0 == run_cli("config", "show", "--origin", "--state-dir", state).status
    assert before == digests(state)
