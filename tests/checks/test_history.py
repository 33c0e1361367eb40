"""The run history of cron jobs: counted by `doctor check`, never written."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import apsw
import archived_states as states
import pytest
from store_states import State

RUN = "INSERT INTO task_runs VALUES (?, 'cron', ?, ?)"


@pytest.fixture
def state(tmp_path: Path) -> State:
    """A state with a shared database of two jobs, one of them gone."""
    made = State(tmp_path / "state")
    made.add([])
    (made.root / "state").mkdir()
    database = apsw.Connection(str(made.root / "state/openclaw.sqlite"))
    database.execute(
        "CREATE TABLE task_runs(task_id TEXT PRIMARY KEY, runtime TEXT, source_id TEXT, status TEXT);"
        "CREATE TABLE cron_run_receipts(receipt_id TEXT, job_id TEXT);"
        "CREATE TABLE cron_jobs(store_key TEXT, job_id TEXT);"
        "INSERT INTO cron_jobs VALUES ('s', 'daily');"
        "INSERT INTO task_runs VALUES ('x', 'subagent', 'daily', 'done')"
    )
    rows = [(f"t{number}", ("daily", "old")[number % 2], ("done", "lost")[number % 3 == 0]) for number in range(10)]
    database.executemany(RUN, rows)
    database.executemany("INSERT INTO cron_run_receipts VALUES (?, 'daily')", [(str(n),) for n in range(4)])
    database.close()
    return made


def check(run_cli: Callable[..., Any], state: State) -> tuple[int, Any]:
    """`doctor check --json`."""
    done = run_cli("doctor", "check", "--state-dir", state.root, "--json")
    return done.status, json.loads(done.stdout)


def test_counts_of_each_job(state: State, run_cli: Callable[..., Any]) -> None:
    """Runs, lost ones, receipts; a job that is gone; no finding, no byte changed."""
    before = states.everything(state.root)
    status, document = check(run_cli, state)
    assert [
        {"jobId": "daily", "runs": 5, "lost": 2, "receipts": 4, "known": True},
        {"jobId": "old", "runs": 5, "lost": 2, "receipts": 0, "known": False},
    ] == document["cron"]
    assert (0, []) == (status, document["findings"])
    assert before == states.everything(state.root)


def test_more_than_a_gateway_keeps(state: State, run_cli: Callable[..., Any]) -> None:
    """A finding, since no gateway has pruned it."""
    database = apsw.Connection(str(state.root / "state/openclaw.sqlite"))
    with database:
        database.executemany(RUN, [(f"m{number}", "daily", "done") for number in range(2000)])
    database.close()
    status, document = check(run_cli, state)
    assert (3, ["cron_history_large"]) == (status, [finding["code"] for finding in document["findings"]])


@pytest.mark.parametrize("damage", ["none", "empty", "no tables", "garbage"])
def test_other_databases(state: State, run_cli: Callable[..., Any], damage: str) -> None:
    """One that is not there, is empty or has no such tables says nothing; one that cannot be read is a finding."""
    path = state.root / "state/openclaw.sqlite"
    path.unlink()
    if damage == "empty":
        path.touch()
    elif damage == "no tables":
        apsw.Connection(str(path)).execute("CREATE TABLE x(y)")
    elif damage == "garbage":
        path.write_bytes(b"no database at all" * 100)
    status, document = check(run_cli, state)
    assert [] == document["cron"]
    codes = [finding["code"] for finding in document["findings"]]
    assert (["state_unreadable"] if damage == "garbage" else []) == codes
    assert (3 if damage == "garbage" else 0) == status
