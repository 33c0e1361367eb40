"""Bringing back from the archived originals what a store has lost; the archives stay where they are.

The archives of each import are laid out under their old names, as links in a directory of their own, oldest import
first, and read as an import reads a sessions directory. What the store has already is recognised event by event.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from openclaw_cli.config.paths import Target
from openclaw_cli.durable import sha256_file
from openclaw_cli.errors import Issue
from openclaw_cli.migration import restoring
from openclaw_cli.migration.claims import Claim
from openclaw_cli.migration.committing import import_session
from openclaw_cli.migration.importing import Stores, make_durable
from openclaw_cli.migration.job import Job
from openclaw_cli.migration.plan import plan_target
from openclaw_cli.migration.reporting import TargetReport


def reimport(job: Job, target: Target, database: Path, issues: list[Issue]) -> int:
    """Read every archived original of `target` into `database`, which is created when it is not there.

    Gives the number of events that it lacked. Damaged archives are read as far as they go: what they have lost was said
    when they were imported. One whose bytes are not the recorded ones is an issue and left out.
    """
    report = TargetReport(target.agent_id, target.store_path, database)
    rules = replace(job.rules, salvage=True)
    for claims in _imports(job, target):
        with tempfile.TemporaryDirectory(prefix="openclaw-recover-") as place:
            sessions = Path(place) / "sessions"
            sessions.mkdir()
            _lay_out(claims, sessions, issues)
            store_path = sessions / target.store_path.name
            staged = replace(target, store_path=store_path, sessions_dir=sessions, sqlite_path=database)
            # Ids of old transcripts are made from the path; the manifest has it as it was, on whatever machine.
            original_dir = claims[0].statements[-1].move.source_path.parent
            _read(replace(job, rules=rules, original_dir=original_dir), staged, report)
    return report.imported_events


def _imports(job: Job, target: Target) -> Iterator[list[Claim]]:
    """The archives of each import, oldest import first."""
    known, _ = restoring.known_runs(job.state_dir)
    for _, _, found in restoring.stores(job.state_dir, (target,), known):
        claims = [claim for candidates in found.values() for claim in candidates if claim.archive_path.is_file()]
        for age in sorted({claim.age for claim in claims}):
            yield [claim for claim in claims if claim.age == age]


def _lay_out(claims: list[Claim], sessions: Path, issues: list[Issue]) -> None:
    for claim in claims:
        if claim.recorded_sha256 is not None and sha256_file(claim.archive_path) != claim.recorded_sha256:
            message = f"{claim.archive_path} has not the bytes that were archived; nothing was taken from it"
            issues.append(Issue("archive_changed", "error", message, claim.session_key))
            continue
        place = sessions / claim.source_path.name
        if not place.is_symlink():
            place.symlink_to(claim.archive_path)


def _read(job: Job, staged: Target, report: TargetReport) -> None:
    plan = plan_target(staged, job.rules, job.now_ms)
    with Stores(job) as stores:
        for session in plan.sessions:
            import_session(stores.of(session.agent_id, staged), session, job, report)
        for store in stores:
            make_durable(store)
