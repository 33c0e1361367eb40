"""`--store PATH`: lock, manifests and configuration are those of the state directory that the store lies in."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from openclaw_cli import locks
from openclaw_cli.config.paths import home_of_store
from openclaw_cli.storage.lockfile import Exclusive
from tests.support.legacy_state import digests, jsonl, one_session, sid, turns

NOW = 1_790_000_000_000


@pytest.fixture
def state(tmp_path: Path) -> Path:
    """A state directory that is not the default one, with one session."""
    return one_session(tmp_path / "elsewhere", jsonl(turns(sid(1))))


def index_of(state: Path) -> Path:
    return state / "agents" / "main" / "sessions" / "sessions.json"


def owned(state: Path) -> locks.Ownership:
    return locks.take(state, config_path=state / "openclaw.json", take_lock=Exclusive, now_ms=NOW)


@pytest.mark.parametrize("mode", ["import", "restore", "compact"])
def test_a_named_store_was_written_under_another_states_lock(
    mode: str, state: Path, run_cli: Callable[..., Any]
) -> None:
    """The owner of the store's own state directory makes the run busy; nothing in it changes."""
    if mode == "compact":
        assert 0 == run_cli("doctor", "import", "--state-dir", state).status
    with owned(state):
        before = digests(state)
        outcome = run_cli("doctor", mode, "--store", index_of(state), "--json")
        assert (11, "busy") == (outcome.status, json.loads(outcome.stdout)["error"]["code"])
        assert before == digests(state)


def test_manifests_went_to_the_default_state_directory(
    state: Path, tmp_path: Path, run_cli: Callable[..., Any]
) -> None:
    """The manifest is in the store's state directory, where a restore finds it; the default one stays missing."""
    home = tmp_path / "home"
    home.mkdir()
    outcome = run_cli("doctor", "import", "--store", index_of(state), "--json", env={"HOME": str(home)})
    manifest = Path(json.loads(outcome.stdout)["migrationRun"]["manifestPath"])
    assert (0, state / "session-sqlite-migration-runs") == (outcome.status, manifest.parent)
    assert [] == list(home.iterdir())
    assert 0 == run_cli("doctor", "restore", "--store", index_of(state), env={"HOME": str(home)}).status
    assert index_of(state).exists()


def test_config_of_another_state_directory_was_used(state: Path, run_cli: Callable[..., Any]) -> None:
    """`openclaw.json` beside the store decides how keys are made."""
    (state / "openclaw.json").write_text('{"session": {"mainKey": "desk"}}')
    assert 0 == run_cli("doctor", "import", "--store", index_of(state)).status
    outcome = run_cli("sessions", "list", "--store", index_of(state), "--json")
    assert ["agent:main:desk"] == [row["key"] for row in json.loads(outcome.stdout)["sessions"]]


def test_contradicting_selectors_are_a_usage_error(state: Path, tmp_path: Path, run_cli: Callable[..., Any]) -> None:
    """Another --state-dir than the store's own is refused; the same one, also through a link, is not."""
    (tmp_path / "other").mkdir()
    link = tmp_path / "link"
    link.symlink_to(state)
    for mode in ("import", "restore", "compact", "inspect"):
        assert 2 == run_cli("doctor", mode, "--store", index_of(state), "--state-dir", tmp_path / "other").status
    for right in (state, link):
        assert 0 == run_cli("doctor", "dry-run", "--store", index_of(state), "--state-dir", right).status


def test_links_lead_to_the_state_directory_that_is_written(state: Path, tmp_path: Path) -> None:
    """A link to a directory, to an index or to a database: the real place decides."""
    (tmp_path / "dir").symlink_to(state / "agents" / "main" / "sessions")
    (tmp_path / "file.json").symlink_to(index_of(state))
    (tmp_path / "db.sqlite").symlink_to(state / "agents" / "main" / "agent" / "openclaw-agent.sqlite")
    for name in ("dir/sessions.json", "file.json", "db.sqlite"):
        assert state == home_of_store(tmp_path / name).state_dir, name
    assert index_of(state) == home_of_store(tmp_path / "file.json").path


def test_a_store_outside_any_state_directory_uses_its_own(tmp_path: Path, run_cli: Callable[..., Any]) -> None:
    """Lock and manifests are beside the store, which is said; the default state directory is not made."""
    home, place = tmp_path / "home", tmp_path / "place" / "sessions"
    home.mkdir()
    place.mkdir(parents=True)
    (place / "sessions.json").write_text(json.dumps({"agent:main:main": {"sessionId": sid(1), "updatedAt": NOW}}))
    (place / f"{sid(1)}.jsonl").write_bytes(jsonl(turns(sid(1))))
    outcome = run_cli("doctor", "import", "--store", place / "sessions.json", env={"HOME": str(home)})
    assert 0 == outcome.status
    assert f"are in {place}" in outcome.stderr
    assert (place / "session-sqlite-migration-runs").is_dir()
    assert [] == os.listdir(home)
    with owned(place):
        assert 11 == run_cli("doctor", "import", "--store", place / "sessions.json").status


def test_a_configured_store_belongs_to_the_state_directory_that_configures_it(
    tmp_path: Path, run_cli: Callable[..., Any]
) -> None:
    """`session.store` names a place outside: its lock is that of the state directory whose configuration says so."""
    state, place = tmp_path / "state", tmp_path / "custom"
    state.mkdir()
    place.mkdir()
    (place / "main.json").write_text(json.dumps({"agent:main:main": {"sessionId": sid(1), "updatedAt": NOW}}))
    (state / "openclaw.json").write_text(json.dumps({"session": {"store": f"{place}/{{agentId}}.json"}}))
    with owned(state):
        env = {"OPENCLAW_STATE_DIR": str(state)}
        assert 11 == run_cli("doctor", "import", "--store", place / "main.json", env=env).status
