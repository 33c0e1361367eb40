"""`sessions --json` beside the real program's, on stores that the real program wrote."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

OURS = {"archived", "pinned", "unread"}
VOLATILE = {"ageMs"}
CONFIGURATIONS = ("{}", "{agents: {defaults: {model: 'anthropic/claude-sonnet-4-5'}}}")


def rows(document: Any) -> dict[str, dict[str, Any]]:
    """Key → row without what depends on the moment of the call."""
    return {
        row["key"]: {name: value for name, value in row.items() if name not in OURS | VOLATILE}
        for row in document["sessions"]
    }


@pytest.mark.parametrize("configuration", CONFIGURATIONS)
@pytest.mark.parametrize(("state", "agent"), [("13", "main"), ("15", "main")])
def test_rows_equal_those_of_the_real_list(
    peer: Any,
    state_copy: Callable[[str], Path],
    run_cli: Callable[..., Any],
    state: str,
    agent: str,
    configuration: str,
) -> None:
    """With archived rows included, both lists have the same head, rows, keys of a row and values."""
    state_dir = state_copy(state)
    (state_dir / "openclaw.json").write_text(configuration, encoding="utf-8")
    theirs = peer.json(state_dir, "sessions", "--agent", agent)
    done = run_cli("sessions", "--agent", agent, "--archived", "--json", "--state-dir", str(state_dir))
    ours = json.loads(done.stdout)

    assert rows(theirs) == rows(ours)
    head = {name: value for name, value in theirs.items() if name != "sessions"}
    assert head == {name: ours[name] for name in head}


def test_all_agents_name_the_same_stores(
    peer: Any, state_copy: Callable[[str], Path], run_cli: Callable[..., Any]
) -> None:
    """Aggregated over agents, both name the same stores and list the same rows."""
    state_dir = state_copy("13")
    (state_dir / "openclaw.json").write_text(
        "{agents: {ownership: 'explicit', entries: {main: {}, work: {}}}}", encoding="utf-8"
    )
    theirs = peer.json(state_dir, "sessions", "--all-agents", "--limit", "all")
    done = run_cli("sessions", "--all-agents", "--archived", "--limit", "all", "--json", "--state-dir", str(state_dir))
    ours = json.loads(done.stdout)

    assert theirs["stores"] == ours["stores"]
    assert set(rows(theirs)) == set(rows(ours))
    assert theirs["totalCount"] == ours["totalCount"]


def test_a_store_that_the_real_list_refuses_is_listed(
    peer: Any, state_copy: Callable[[str], Path], run_cli: Callable[..., Any]
) -> None:
    """One key that is not canonical makes the real list fail as a whole; ours shows every row."""
    state_dir = state_copy("16")

    assert 1 == peer.run(state_dir, "sessions", "--json").status
    done = run_cli("sessions", "--json", "--state-dir", str(state_dir))
    assert "Agent:Main:Explicit:UPPER" in rows(json.loads(done.stdout))
