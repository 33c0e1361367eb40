"""Run history of cron jobs in the shared database: counted, never written; the gateway prunes it (cleanup §8)."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from openclaw_cli.checks.finding import Finding
from openclaw_cli.errors import OpenClawError, escaped
from openclaw_cli.storage import shared
from openclaw_cli.storage.shared import JobHistory

MOST_RUNS = 2_000
"""How many runs of a job the gateway keeps."""


def of(state_dir: Path) -> tuple[list[JobHistory], list[Finding]]:
    """The counts of each job, and what is wrong with them; a database that cannot be read is a finding."""
    try:
        found = shared.cron_history(state_dir)
    except OpenClawError as error:
        path = shared.path_of(state_dir)
        advice = "OpenClaw keeps cron jobs, tasks and sub-agent runs there; its doctor mends it"
        return [], [Finding("state_unreadable", "error", error.message, None, {"path": str(path)}, advice)]
    return found, [*_findings(found)]


def _findings(found: list[JobHistory]) -> Iterator[Finding]:
    for job in found:
        if max(job.runs, job.receipts) > MOST_RUNS:
            message = f"cron job {escaped(job.job_id)} has {job.runs} run(s) and {job.receipts} receipt(s) on record"
            advice = f"A gateway that runs keeps the newest {MOST_RUNS} of each job; this program does not touch them"
            yield Finding("cron_history_large", "warning", message, None, job.as_json(), advice)
