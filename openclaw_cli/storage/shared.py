"""The state directory's shared database, `state/openclaw.sqlite`: read for counts, never written by this program."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from openclaw_cli.storage.connection import reader

_RUNS = (
    "SELECT source_id, count(*), sum(status = 'lost') FROM task_runs WHERE runtime = 'cron' AND source_id IS NOT NULL"
    " GROUP BY source_id ORDER BY source_id"
)
_RECEIPTS = "SELECT job_id, count(*) FROM cron_run_receipts GROUP BY job_id ORDER BY job_id"
_JOBS = "SELECT job_id FROM cron_jobs"


@dataclass(frozen=True, slots=True)
class JobHistory:
    """What is kept of the runs of one cron job. `lost`: runs of which nobody knows the end; `known`: the job exists."""

    job_id: str
    runs: int
    lost: int
    receipts: int
    known: bool

    def as_json(self) -> dict[str, Any]:
        """Its object in a report."""
        return {
            "jobId": self.job_id,
            "runs": self.runs,
            "lost": self.lost,
            "receipts": self.receipts,
            "known": self.known,
        }


def path_of(state_dir: Path) -> Path:
    """Where the shared database is."""
    return state_dir / "state" / "openclaw.sqlite"


def cron_history(state_dir: Path) -> list[JobHistory]:
    """Counts of each job; none where there is no such database, or none with these tables.

    Raises what opening a damaged database raises.
    """
    path = path_of(state_dir)
    if not path.is_file() or path.stat().st_size == 0:
        return []
    with reader(path, immutable=False, query_only=True) as store:
        tables = {name for (name,) in store.execute("SELECT name FROM sqlite_schema WHERE type = 'table'").fetchall()}
        runs = {job: (count, lost) for job, count, lost in store.execute(_RUNS)} if "task_runs" in tables else {}
        receipts = dict(store.execute(_RECEIPTS).fetchall()) if "cron_run_receipts" in tables else {}
        jobs = {job for (job,) in store.execute(_JOBS).fetchall()} if "cron_jobs" in tables else set()
    return [
        JobHistory(job, *(runs.get(job) or (0, 0)), receipts.get(job, 0), job in jobs)
        for job in sorted({*runs, *receipts})
    ]
