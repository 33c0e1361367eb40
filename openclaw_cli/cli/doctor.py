"""The group `doctor`: inspect, dry-run, import, validate, restore and compact session stores."""

from __future__ import annotations

import sys
from collections.abc import Collection
from typing import TYPE_CHECKING, Annotated, Any

import typer

from openclaw_cli.cli import options, output, ownership
from openclaw_cli.cli.options import Common
from openclaw_cli.config import Config, Target, environment
from openclaw_cli.config.values import parse_size_bytes
from openclaw_cli.errors import UsageError

if TYPE_CHECKING:
    from openclaw_cli.migration.job import Job
    from openclaw_cli.migration.reporting import Report
    from openclaw_cli.storage.connection import Timeouts

MaxLine = Annotated[
    str | None,
    typer.Option(
        "--max-line",
        metavar="SIZE",
        help="Longest line to read; a longer one ends its session. Default: import.maxLine, which is 256mb.",
    ),
]
SkipEmpty = Annotated[bool, typer.Option("--skip-empty", help="Leave out rows that have no transcript.")]
PreferIndex = Annotated[
    bool, typer.Option("--prefer-index", help="Let a row of the index replace a newer one of the store.")
]
RebuildIndex = Annotated[
    bool,
    typer.Option(
        "--rebuild-index",
        help="Where sessions.json is empty or torn, take the sessions from the headers of their transcripts, as"
        " agent:<id>:recovered:<session id>; the broken index goes to the archive. A missing index needs no flag.",
    ),
]
Salvage = Annotated[
    bool,
    typer.Option(
        "--salvage",
        help="Read on behind damage: every whole record comes in, also from torn, spliced and NUL-ridden lines; each"
        " lost range is named by line, byte and length, and gives status 3.",
    ),
]
AssumeStopped = Annotated[
    bool, typer.Option("--assume-stopped", help="No gateway runs anywhere, whatever lock files say.")
]
AllowOwner = Annotated[
    bool, typer.Option("--allow-owner", help="Write although the state directory belongs to another user.")
]
MODES = (0, 3, 10, 11, 12, 13)


def register(app: typer.Typer) -> None:
    """Add the group `doctor`."""
    members = options.group(app, "doctor")
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
    options.command(
        members, "restore", example=f"openclaw-cli doctor restore {every} --dry-run", exits=MODES, without=("ndjson",)
    )(restore)
    options.command(
        members, "compact", example=f"openclaw-cli doctor compact {every} --dry-run", exits=MODES, without=("ndjson",)
    )(compact)


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
) -> int:
    """Import file-era sessions (sessions.json and JSONL transcripts) into SQLite and archive the originals.

    Each session is committed whole, checked, and only then are its files moved to session-sqlite-import-archive. The
    index is moved last. A run that was interrupted is completed by the next one.
    """
    from openclaw_cli.migration import importing, previewing

    config = common.config()
    rules = _rules(config, max_line, skip_empty, prefer_index, rebuild_index, keep_index, salvage)
    job = _job(common, config, rules, writes=not common.dry_run)
    if common.dry_run:
        allowed = {"assume_stopped": assume_stopped, "allow_owner": allow_owner}
        return _preview(_with_progress(common, job, "dry-run", previewing.dry_run), common, job.targets, **allowed)
    report = ownership.owned(
        common,
        config,
        job.targets,
        lambda: _with_progress(common, job, "import", importing.run),
        assume_stopped=assume_stopped,
        allow_owner=allow_owner,
    )
    return _emit(report, common, dry_run=False)


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
    rules = _rules(config, max_line, skip_empty, prefer_index, rebuild_index, False, salvage)
    job = _job(common, config, rules)
    return _preview(_with_progress(common, job, "dry-run", previewing.dry_run), common, job.targets)


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
        found = inspecting.inspect_file(file, stdin, max_line_bytes=_max_line_bytes(config, max_line), top=top)
        output.emit(found.as_json(), found.text(), common)
        return int(found.status())
    job = _job(common, config, _rules(config, max_line))
    report = inspecting.inspect(job, top=top)
    return _emit(report, common, dry_run=False)


def validate(common: Common, max_line: MaxLine = None) -> int:
    """Check that every session of the old files is in the store: same key, same session, all its events in order.

    Old files that an import has moved are found through the manifests, checked by SHA-256, and compared too. Events
    that are missing or different are named by id and line, and give status 3; further events in the store are no fault.
    -v lists every session. Nothing is written.
    """
    from openclaw_cli.migration import restoring, validating

    config = common.config()
    job = _job(common, config, _rules(config, max_line), archived=restoring.agents_of_manifests(common.state_dir))
    archives = validating.find_archives(job)

    def validation(job: Job, plans: Any) -> Report:
        return validating.validate(job, plans, archives, every=common.verbose)

    return _emit(_with_progress(common, job, "validate", validation, archives.source_bytes), common, dry_run=False)


def restore(
    common: Common,
    assume_stopped: AssumeStopped = False,
    allow_owner: AllowOwner = False,
) -> int:
    """Move archived originals back to where they were before the import, for a downgrade to an older OpenClaw.

    Every manifest of the state directory is read, those of the real program too. A file moves only where its original
    is missing, and only when its SHA-256 is the recorded one. Different archives of one file are a conflict: none of
    them moves, the other files do. The database stays; the last line names the sessions that only it holds.
    """
    from openclaw_cli.migration import restoring

    config = common.config()
    targets = _targets(common, config, restoring.agents_of_manifests(common.state_dir), writes=not common.dry_run)

    def planned() -> restoring.RestorePlan:
        total = restoring.archived_bytes(targets)
        with output.Progress(total, "restore", common) as bar:
            return restoring.plan(common.state_dir, targets, on_bytes=bar.advance)

    if common.dry_run:
        allowed = {"assume_stopped": assume_stopped, "allow_owner": allow_owner}
        return _preview(restoring.preview(planned()), common, targets, **allowed)
    report = ownership.owned(
        common,
        config,
        targets,
        lambda: restoring.act(planned(), common.now_ms),
        assume_stopped=assume_stopped,
        allow_owner=allow_owner,
    )
    return _emit(report, common, dry_run=False)


def compact(
    common: Common,
    assume_stopped: AssumeStopped = False,
    allow_owner: AllowOwner = False,
) -> int:
    """Reclaim the disk space that SQLite stores hold and no longer use. Summarizes nothing, changes no row.

    Per store: check it, write its log back, merge the search index, rewrite the database without unused pages (VACUUM),
    write the log back, check again. It needs twice the database's size free on its file system, and once that size in
    SQLite's temporary directory where that is on another one; else the store is refused and left as it is. A program
    that keeps the log is named as busy, and nothing is rewritten. A run that was interrupted left the store whole; the
    next one does what is left. A store that was not asked for by name and has no database is listed as skipped.
    """
    from openclaw_cli.migration import compacting

    config = common.config()
    targets = _targets(common, config, writes=not common.dry_run)
    plans = compacting.plan(targets, environment(), named=bool(common.agent or common.store))
    if common.dry_run:
        allowed = {"assume_stopped": assume_stopped, "allow_owner": allow_owner}
        return _preview(compacting.preview(plans), common, targets, **allowed)
    limits = compacting.Limits(_timeouts(config), common.wait_ms, environment())

    def act() -> Report:
        with output.Progress(None, "compact", common, counted=False) as bar:
            return compacting.run(plans, limits, bar.describe)

    if not compacting.has_work(plans):
        return _emit(act(), common, dry_run=False)
    report = ownership.owned(common, config, targets, act, assume_stopped=assume_stopped, allow_owner=allow_owner)
    return _emit(report, common, dry_run=False)


def _rules(
    config: Config,
    max_line: str | None,
    skip_empty: bool = False,
    prefer_index: bool = False,
    rebuild_index: bool = False,
    keep_index: bool = False,
    salvage: bool = False,
) -> Any:
    from openclaw_cli.migration.plan import Rules

    return Rules(
        main_key=config.main_key,
        agents=config.agents if config.roster_is_explicit else None,
        scope=str(config.get("session.scope", None).value or "per-sender"),
        max_line_bytes=_max_line_bytes(config, max_line),
        skip_empty=skip_empty,
        prefer_index=prefer_index,
        keep_index=keep_index,
        rebuild_index=rebuild_index,
        salvage=salvage,
    )


def _max_line_bytes(config: Config, text: str | None) -> int:
    """The flag, else the setting. Raises `UsageError` for nothing."""
    limit = config.get("import.maxLine").value if text is None else parse_size_bytes(text)
    if limit <= 0:
        raise UsageError("--max-line must be more than nothing")
    return int(limit)


def _timeouts(config: Config) -> Timeouts:
    """The limits of a writer, which only the environment changes."""
    from openclaw_cli.storage.connection import Timeouts

    names = ("locks.acquireTimeout", "locks.stale", "locks.maxHold")
    return Timeouts(*(int(config.get(name).value) for name in names))


def _targets(
    common: Common,
    config: Config,
    archived: Collection[str] | None = None,
    *,
    rebuild: bool = False,
    writes: bool = False,
) -> tuple[Target, ...]:
    """The stores of the run. A named file that is no index is refused here, before a lock makes files beside it."""
    from openclaw_cli.migration import recognition

    ownership.judge_remote(common, config, writes=writes)
    targets = common.targets(config, archived=archived)
    if common.store:
        for target in targets:
            recognition.require_index(target, rebuild=rebuild)
    return targets


def _job(
    common: Common, config: Config, rules: Any, archived: Collection[str] | None = None, *, writes: bool = False
) -> Job:
    from openclaw_cli.config.paths import agent_target
    from openclaw_cli.migration.job import Job

    targets = _targets(common, config, archived, rebuild=rules.rebuild_index, writes=writes)

    def target_of(agent_id: str) -> Target:
        known = next((target for target in targets if target.agent_id == agent_id), None)
        return known or agent_target(config, common.state_dir, agent_id, environment())

    return Job(common.state_dir, targets, rules, common.now_ms, target_of, timeouts=_timeouts(config))


def _with_progress(common: Common, job: Job, word: str, act: Any, more_bytes: int = 0) -> Report:
    """Plan, then act with a bar by bytes of the transcripts, labelled with the `word` of the command."""
    from dataclasses import replace

    from openclaw_cli.migration.job import plan_all

    plans = plan_all(job)
    total = sum(plan.source_bytes for plan in plans) + more_bytes
    with output.Progress(total, word, common) as bar:
        return act(replace(job, on_bytes=bar.advance), plans)


def _preview(report: Report, common: Common, targets: tuple[Target, ...], **allowed: bool) -> int:
    """Print a preview, with what the run itself would meet of locks."""
    report.issues[:0] = ownership.foreseen(common, targets, **allowed)
    return _emit(report, common, dry_run=True)


def _emit(report: Report, common: Common, *, dry_run: bool) -> int:
    output.emit(report.as_json(dry_run=dry_run), lambda: report.text(dry_run=dry_run), common)
    return int(report.status())
