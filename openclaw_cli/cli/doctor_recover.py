"""`doctor recover`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from openclaw_cli.cli import doctor_run as run
from openclaw_cli.cli import options, ownership
from openclaw_cli.cli.doctor_run import MODES, AllowOwner, AssumeStopped, GithubIssue, MaxLine, Salvage, SnapshotDir
from openclaw_cli.cli.options import Common

if TYPE_CHECKING:
    from openclaw_cli.migration.reporting import Report


def register(members: typer.Typer) -> None:
    """Add the command to the group."""
    options.command(
        members,
        "recover",
        example=(
            "openclaw-cli doctor recover --all-agents --dry-run",
            "openclaw-cli doctor recover --all-agents --export-readable ./readable",
        ),
        exits=MODES,
        without=("ndjson",),
    )(recover)


def recover(
    common: Common,
    export_readable: Annotated[
        str | None,
        typer.Option(
            "--export-readable",
            metavar="DIR",
            help="First write every readable session as JSONL below DIR, one directory for each agent.",
        ),
    ] = None,
    max_line: MaxLine = None,
    salvage: Salvage = False,
    assume_stopped: AssumeStopped = False,
    allow_owner: AllowOwner = False,
    github_issue: GithubIssue = False,
    snapshot: SnapshotDir = None,
) -> int:
    """Mend damaged stores, finish and close runs that failed, and settle the files that they left behind.

    A store is judged on a private copy. Damaged indexes, search and projections are made anew in place. A store whose
    rows are damaged is replaced by a new one with every readable row; the damaged files are kept beside it, under one
    .corrupt-<time> suffix, and what is missing comes from the archived originals. A log of another database is put
    aside, never applied. Old files whose events are in the store are archived, longer ones imported, different ones
    kept and named. It ends with clean, repaired or blocked, and with what to do. Run twice, it changes nothing.
    """
    from openclaw_cli.migration import recovering, restoring

    config = common.config()
    rules = run.rules_of(config, max_line, salvage=salvage)
    archived = restoring.agents_of_manifests(common.state_dir)
    job = run.job_of(common, config, rules, archived, writes=not common.dry_run)
    allowed = {"assume_stopped": assume_stopped, "allow_owner": allow_owner}
    if common.dry_run:
        return run.preview(recovering.preview(job, recovering.diagnose(job)), common, job.targets, **allowed)
    place = None if export_readable is None else Path(export_readable)
    taken: dict[str, Any] | None = None

    def act() -> Report:
        nonlocal taken
        taken = run.snapshot_first(common, config, job.targets, snapshot)
        return recovering.act(job, recovering.diagnose(job), place)

    report = ownership.owned(common, config, job.targets, act, **allowed)
    return run.emit(report, common, dry_run=False, github_issue=github_issue, snapshot=taken)
