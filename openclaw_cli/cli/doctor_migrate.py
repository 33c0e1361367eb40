"""`doctor import`, `dry-run`, `inspect` and `validate`."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated, Any

import typer

from openclaw_cli.cli import doctor_run as run
from openclaw_cli.cli import options, output, ownership
from openclaw_cli.cli.doctor_run import (
    MODES,
    AllowOwner,
    AssumeStopped,
    GithubIssue,
    MaxLine,
    PreferIndex,
    RebuildIndex,
    Salvage,
    SkipEmpty,
)
from openclaw_cli.cli.options import Common

if TYPE_CHECKING:
    from openclaw_cli.migration.job import Job
    from openclaw_cli.migration.reporting import Report


def register(members: typer.Typer) -> None:
    """Add the commands to the group."""
    every = "--all-agents"
    options.command(
        members,
        "inspect",
        example=f"openclaw-cli doctor inspect {every} --top 10",
        exits=MODES,
        without=("dry_run", "wait", "ndjson"),
    )(inspect)
    options.command(
        members,
        "dry-run",
        example=f"openclaw-cli doctor dry-run {every} --json",
        exits=MODES,
        without=("dry_run", "wait", "ndjson"),
    )(dry_run)
    options.command(members, "import", example=f"openclaw-cli doctor import {every}", exits=MODES, without=("ndjson",))(
        import_sessions
    )
    options.command(
        members,
        "validate",
        example=f"openclaw-cli doctor validate {every}",
        exits=MODES,
        without=("dry_run", "wait", "ndjson"),
    )(validate)


def import_sessions(
    common: Common,
    max_line: MaxLine = None,
    skip_empty: SkipEmpty = False,
    prefer_index: PreferIndex = False,
    rebuild_index: RebuildIndex = False,
    salvage: Salvage = False,
    keep_index: Annotated[
        bool,
        typer.Option(
            "--keep-index",
            help="Leave sessions.json in place. OpenClaw imports it again at every start as long as it is there.",
        ),
    ] = False,
    assume_stopped: AssumeStopped = False,
    allow_owner: AllowOwner = False,
    github_issue: GithubIssue = False,
) -> int:
    """Import file-era sessions (sessions.json and JSONL transcripts) into SQLite and archive the originals.

    Each session is committed whole, checked, and only then are its files moved to session-sqlite-import-archive. The
    index is moved last. A run that was interrupted is completed by the next one.
    """
    from openclaw_cli.migration import importing, previewing

    config = common.config()
    rules = run.rules_of(config, max_line, skip_empty, prefer_index, rebuild_index, keep_index, salvage)
    job = run.job_of(common, config, rules, writes=not common.dry_run)
    if common.dry_run:
        allowed = {"assume_stopped": assume_stopped, "allow_owner": allow_owner}
        return run.preview(
            run.with_progress(common, job, "dry-run", previewing.dry_run), common, job.targets, **allowed
        )
    report = ownership.owned(
        common,
        config,
        job.targets,
        lambda: run.with_progress(common, job, "import", importing.run),
        assume_stopped=assume_stopped,
        allow_owner=allow_owner,
    )
    return run.emit(report, common, dry_run=False, github_issue=github_issue)


def dry_run(
    common: Common,
    max_line: MaxLine = None,
    skip_empty: SkipEmpty = False,
    prefer_index: PreferIndex = False,
    rebuild_index: RebuildIndex = False,
    salvage: Salvage = False,
) -> int:
    """Read everything that an import would read and print what it would do; nothing is written."""
    from openclaw_cli.migration import previewing

    config = common.config()
    rules = run.rules_of(config, max_line, skip_empty, prefer_index, rebuild_index, False, salvage)
    job = run.job_of(common, config, rules)
    return run.preview(run.with_progress(common, job, "dry-run", previewing.dry_run), common, job.targets)


def inspect(
    common: Common,
    top: Annotated[int, typer.Option("--top", metavar="N", min=0, help="List the N biggest rows and lines.")] = 0,
    file: Annotated[
        str | None,
        typer.Option("--file", metavar="PATH", help="Look at one transcript file instead of a store, - for stdin."),
    ] = None,
    max_line: MaxLine = None,
) -> int:
    """Count what the old index and the SQLite store hold and check the database; transcripts are not parsed.

    `--top` reads every event to find the biggest; `--file` reads one transcript and says what is wrong with it.
    """
    from openclaw_cli.migration import inspecting

    config = common.config()
    if file is not None:
        stdin = sys.stdin.buffer if sys.stdin is not None else None
        found = inspecting.inspect_file(file, stdin, max_line_bytes=run.max_line_bytes(config, max_line), top=top)
        output.emit(found.as_json(), found.text(), common)
        return int(found.status())
    job = run.job_of(common, config, run.rules_of(config, max_line))
    report = inspecting.inspect(job, top=top)
    return run.emit(report, common, dry_run=False)


def validate(common: Common, max_line: MaxLine = None) -> int:
    """Check that every session of the old files is in the store: same key, same session, all its events in order.

    Old files that an import has moved are found through the manifests, checked by SHA-256, and compared too. Events
    that are missing or different are named by id and line, and give status 3; further events in the store are no fault.
    -v lists every session. Nothing is written.
    """
    from openclaw_cli.migration import restoring, validating

    config = common.config()
    job = run.job_of(
        common, config, run.rules_of(config, max_line), archived=restoring.agents_of_manifests(common.state_dir)
    )
    archives = validating.find_archives(job)

    def validation(job: Job, plans: Any) -> Report:
        return validating.validate(job, plans, archives, every=common.verbose)

    return run.emit(
        run.with_progress(common, job, "validate", validation, archives.source_bytes), common, dry_run=False
    )
