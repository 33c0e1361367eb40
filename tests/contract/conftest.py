"""Runs the program from outside and reads what it says."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest


@pytest.fixture
def cli_json(run_cli: Callable[..., Any]) -> Callable[..., Any]:
    """Run with `--json`, require the status, give the one document of stdout."""

    def run(*argv: str | Path, status: int = 0, **options: Any) -> Any:
        done = run_cli(*argv, "--json", **options)
        assert status == done.status, f"{done.stdout[-1500:]}\n{done.stderr[-1500:]}"
        return json.loads(done.stdout)

    return run


@pytest.fixture
def doctor(cli_json: Callable[..., Any]) -> Callable[..., Any]:
    """Run one mode of `doctor` over all agents of a state directory."""

    def run(mode: str, state: Path, *argv: str | Path, status: int = 0, **options: Any) -> Any:
        return cli_json("doctor", mode, "--all-agents", "--state-dir", state, *argv, status=status, **options)

    return run


@pytest.fixture
def sessions(cli_json: Callable[..., Any]) -> Callable[..., Any]:
    """`sessions list` of a state directory at a fixed moment."""

    def run(state: Path, *argv: str | Path, now: int = 1_786_100_000_000, status: int = 0, **options: Any) -> Any:
        return cli_json("sessions", "list", "--state-dir", state, "--now", str(now), *argv, status=status, **options)

    return run
