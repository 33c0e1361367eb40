"""The test partner itself: it imports a file-era store, lists it, and shows what a model would see."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any


def test_it_runs_in_a_home_of_its_own(peer: Any, state_copy: Callable[[str], Path]) -> None:
    """The version is the one that the formats were read from, and nothing of the caller's home is used."""
    outcome = peer.run(state_copy("01"), "--version")

    assert outcome.status == 0
    assert "2026.9.6" in outcome.stdout


def test_it_imports_and_shows_a_session(
    peer: Any, peer_import: Callable[[Path], Any], state_copy: Callable[[str], Path]
) -> None:
    """A file-era store is imported, and the messages of a session come back from the new store."""
    state_dir = state_copy("01")

    report = peer_import(state_dir)
    store = state_dir / "agents/main/agent/openclaw-agent.sqlite"
    view = peer.read_context(state_dir, store, "agent:main:main", "00000abc-0000-4000-8000-000000000001")

    assert report["totals"]["targets"] == 1
    assert view["branch"]
    assert {"user", "assistant"} <= {message["role"] for message in view["model"]}


def test_it_lists_a_store_that_it_repaired(peer: Any, state_copy: Callable[[str], Path]) -> None:
    """Its list works on a store that it wrote. (After its own import alone it refuses: the keys are not canonical.)"""
    listed = peer.json(state_copy("13"), "sessions", "--all-agents")

    assert listed["count"] == 14
    assert "agent:main:main" in {row["key"] for row in listed["sessions"]}
