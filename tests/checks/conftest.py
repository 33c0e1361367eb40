"""Stores with one fault, made by the program's own writers, and what `doctor check` finds in them."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import archived_states as states
import pytest
from store_states import NOW_MS, State


@pytest.fixture
def state(tmp_path: Path) -> State:
    """An empty state directory."""
    return State(tmp_path / "state")


@pytest.fixture
def check(run_cli: Callable[..., Any]) -> Callable[..., dict[str, dict[str, Any]]]:
    """Run `doctor check --json`; gives the findings by code, and requires that no file changed and the status fits."""

    def run(state: State, *options: str, status: int | None = None) -> dict[str, dict[str, Any]]:
        before = states.everything(state.root)
        words = options or ("--all-agents", "--now", str(NOW_MS))
        done = run_cli("doctor", "check", "--state-dir", state.root, "--json", *words)
        assert done.stdout, done.stderr
        document = json.loads(done.stdout)
        found = [*document["findings"], *(each for target in document["targets"] for each in target["findings"])]
        assert (status if status is not None else (3 if found else 0)) == done.status, done.stderr
        assert before == states.everything(state.root)
        assert len(found) == document["totals"]["findings"]
        return {each["code"]: each for each in found}

    return run
