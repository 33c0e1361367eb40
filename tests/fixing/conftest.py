"""A state directory to put in order, and `doctor fix` on it."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from store_states import NOW_MS, State


@pytest.fixture
def state(tmp_path: Path) -> State:
    """An empty state directory."""
    return State(tmp_path / "state")


@pytest.fixture
def fix(run_cli: Callable[..., Any]) -> Callable[..., dict[str, Any]]:
    """Run `doctor fix --json`; gives the document. `status` is what it must end with."""

    def run(state: State, *options: str, status: int = 0) -> dict[str, Any]:
        words = ("--state-dir", state.root, "--all-agents", "--json", "--now", str(NOW_MS + 1000))
        done = run_cli("doctor", "fix", *words, *options)
        assert status == done.status, done.stderr + done.stdout
        return json.loads(done.stdout)

    return run
