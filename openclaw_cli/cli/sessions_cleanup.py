"""`sessions cleanup`."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from openclaw_cli.cli import cleanup_delegation, delegation, options, output, ownership
from openclaw_cli.cli import doctor_run as run
from openclaw_cli.cli.doctor_run import AllowOwner, AssumeStopped
from openclaw_cli.cli.options import Common
from openclaw_cli.config import Config, Target
from openclaw_cli.config.values import parse_duration_ms, parse_size_bytes
from openclaw_cli.errors import Exit, OpenClawError, UsageError

if TYPE_CHECKING:
    from openclaw_cli.retention.audit import Audit
    from openclaw_cli.retention.cleaning import Look, Options
    from openclaw_cli.retention.filters import Filters
    from openclaw_cli.retention.report import TargetReport
    from openclaw_cli.retention.settings import Maintenance
    from openclaw_cli.retention.summary import Report
    from openclaw_cli.storage.connection import Store


Enforce = Annotated[bool, typer.Option("--enforce", help="Carry the plan out; without it nothing changes.")]
ActiveKey = Annotated[
    str | None, typer.Option("--active-key", metavar="KEY", help="Keep this session and its parents.")
]
FixMissing = Annotated[bool, typer.Option("--fix-missing", help="Also remove rows whose session has no message.")]
FixDmScope = Annotated[
    bool,
    typer.Option("--fix-dm-scope", help="Also remove direct messages of single peers where dmScope is main."),
]
Force = Annotated[
    bool, typer.Option("--force", help="Let the two repairs take rows that are protected, as OpenClaw's do.")
]
IncludeStaleRunning = Annotated[
    bool,
    typer.Option("--include-stale-running", help="Take rows that claim to run but were not written to for long."),
]
OlderThan = Annotated[
    str | None, typer.Option("--older-than", metavar="TIME", help="Only rows last written to before that.")
]
Kind = Annotated[
    list[str] | None,
    typer.Option("--kind", metavar="KIND", help="Only keys of this kind, such as cron-run or subagent; repeatable."),
]
KeyGlob = Annotated[
    str | None, typer.Option("--key-glob", metavar="GLOB", help="Only keys that match, such as 'agent:*:hook:*'.")
]
MinBytes = Annotated[
    str | None, typer.Option("--min-bytes", metavar="SIZE", help="Only rows whose sessions have so much text.")
]
KeepLast = Annotated[
    int | None, typer.Option("--keep-last", metavar="N", help="Keep the N most recently active of them.")
]
Limit = Annotated[int | None, typer.Option("--limit", metavar="N", help="Change at most N rows.")]
MaxEntries = Annotated[
    int | None, typer.Option("--max-entries", metavar="N", help="Instead of session.maintenance.maxEntries.")
]
PruneAfter = Annotated[
    str | None, typer.Option("--prune-after", metavar="TIME", help="Instead of session.maintenance.pruneAfter.")
]
CronRetention = Annotated[
    str | None, typer.Option("--cron-retention", metavar="TIME|off", help="Instead of cron.sessionRetention.")
]
MaxDisk = Annotated[
    str | None,
    typer.Option("--max-disk", metavar="SIZE", help="Instead of session.maintenance.maxDiskBytes; 0 is off."),
]
HighWater = Annotated[
    str | None, typer.Option("--high-water", metavar="SIZE", help="Instead of session.maintenance.highWaterBytes.")
]
ArchiveGrace = Annotated[
    str, typer.Option("--archive-grace", metavar="TIME", help="Age below which the budget takes no archive.")
]
ArchiveDir = Annotated[
    str | None,
    typer.Option("--archive-dir", metavar="DIR", help="Put archives there, outside of store and disk budget."),
]
Vacuum = Annotated[bool, typer.Option("--vacuum", help="Give the space of what was removed back to the file system.")]
ExitCode = Annotated[bool, typer.Option("--exit-code", help="Let a preview end with 3 when there is something to do.")]


def register(members: typer.Typer) -> None:
    """Add the command to the group."""
    options.command(
        members,
        "cleanup",
        example=(
            "openclaw-cli sessions cleanup --all-agents",
            "openclaw-cli sessions cleanup --all-agents --enforce --archive-dir /mnt/backup/sessions --json",
        ),
        exits=(Exit.OK, Exit.ISSUES, Exit.NOT_FOUND, Exit.BUSY, Exit.REFUSED, Exit.CORRUPT),
        gateway=True,
    )(cleanup)


def cleanup(
    common: Common,
    enforce: Enforce = False,
    active_key: ActiveKey = None,
    fix_missing: FixMissing = False,
    fix_dm_scope: FixDmScope = False,
    force: Force = False,
    include_stale_running: IncludeStaleRunning = False,
    older_than: OlderThan = None,
    kind: Kind = None,
    key_glob: KeyGlob = None,
    min_bytes: MinBytes = None,
    keep_last: KeepLast = None,
    limit: Limit = None,
    max_entries: MaxEntries = None,
    prune_after: PruneAfter = None,
    cron_retention: CronRetention = None,
    max_disk: MaxDisk = None,
    high_water: HighWater = None,
    archive_dir: ArchiveDir = None,
    archive_grace: ArchiveGrace = "24h",
    vacuum: Vacuum = False,
    exit_code: ExitCode = False,
    assume_stopped: AssumeStopped = False,
    allow_owner: AllowOwner = False,
) -> int:
    """Archive and remove old sessions by session.maintenance and cron.sessionRetention; previews unless --enforce.

    By-products of runs (cron, sub-agents, hooks, heartbeats) are removed when they are old, other sessions are only
    marked as archived; conversations, pinned, locked and running sessions stay. What is removed is archived first, read
    back and compared, as .jsonl.deleted.<time>.zst. Files that nobody refers to go after pruneAfter.

    Filters only narrow the plan. --json has every decision; each removal is a line of openclaw-cli/audit.jsonl.

    Over maxDiskBytes, until highWaterBytes are left: unused space goes back, then archives older than the grace go,
    then history of keys, by-products of runs and cap-archived sessions, each archived first. A preview tries that on a
    copy; what cannot be reached gives status 3.

    --store …/sessions.json works on the files of a store that is not migrated, under the lock of that index.
    """
    config = common.config()
    wanted = _options(
        common,
        config,
        _settings(config, enforce, max_entries, prune_after, cron_retention, max_disk, high_water),
        _filters(older_than, kind or [], key_glob, min_bytes, keep_last, limit),
    )
    wanted = replace(
        wanted,
        active_key=active_key,
        fix_missing=fix_missing,
        fix_dm_scope=fix_dm_scope,
        force=force,
        stale_running=include_stale_running,
        archive_dir=None if archive_dir is None else Path(archive_dir).expanduser().absolute(),
        archive_grace_ms=parse_duration_ms(archive_grace, default_unit="h"),
        vacuum=vacuum,
    )
    allowed = {"assume_stopped": assume_stopped, "allow_owner": allow_owner}
    return _carry_out(common, config, wanted, allowed, enforce=enforce, exit_code=exit_code)


def _carry_out(
    common: Common, config: Config, wanted: Options, allowed: dict[str, bool], *, enforce: bool, exit_code: bool
) -> int:
    from openclaw_cli.retention.audit import Audit
    from openclaw_cli.retention.summary import Report

    # Under warn nothing changes but by --enforce, which sets the mode.
    asked = enforce or (bool(config.get("cleanup.apply").value) and wanted.settings.enforce)
    writes = asked and not common.dry_run
    if not writes:
        ownership.judge_remote(common, config, writes=False)
    targets = common.targets(config)
    several = common.all_agents and len(targets) > 1
    report = Report(wanted.settings, not writes, several, _is_index_named(common))
    if common.ndjson:
        report.on_line = output.write_line
    if writes:
        audit = Audit(common.state_dir, common.now_ms)
        done = delegation.run(
            common,
            config,
            targets,
            lambda: _act(report, targets, wanted, audit),
            lambda gateway: cleanup_delegation.run(gateway, common, config, targets, wanted),
            allowed,
        )
        if done is not report:
            output.emit(done.as_json(), done.text(), common)
            return int(done.status())
    else:
        _preview(report, targets, wanted)
        report.issues[:0] = ownership.foreseen(common, targets, **allowed)
    if common.ndjson:
        output.write_line(report.summary())
    else:
        output.emit(report.as_json(), report.text(), common)
    status = report.status()
    if exit_code and not writes and status is Exit.OK and report.would_mutate:
        return int(Exit.ISSUES)
    return int(status)


def _is_index_named(common: Common) -> bool:
    """Whether `--store` names an index itself: then its files are worked on where no database stands for it."""
    return common.store is not None and Path(common.store).name == "sessions.json"


def _settings(
    config: Config,
    enforce: bool,
    max_entries: int | None,
    prune_after: str | None,
    cron_retention: str | None,
    max_disk: str | None,
    high_water: str | None,
) -> Maintenance:
    from openclaw_cli.retention import settings

    found = settings.from_config(config)
    if enforce:
        found = replace(found, enforce=True)
    if max_entries is not None:
        found = replace(found, max_entries=settings.most_entries(max_entries))
    if prune_after is not None:
        found = replace(found, prune_after_ms=settings.age_ms(prune_after))
    if cron_retention is not None:
        value = False if cron_retention.strip().lower() == "off" else cron_retention
        found = replace(found, cron_retention_ms=settings.cron_retention_ms(value))
    if max_disk is not None or high_water is not None:
        most = found.max_disk_bytes if max_disk is None else settings.budget_bytes(max_disk)
        # Another budget has its own high water, unless one is named.
        high = None if high_water is None else parse_size_bytes(high_water)
        found = settings.with_budget(found, most, high)
    return found


def _filters(
    older_than: str | None,
    kinds: list[str],
    key_glob: str | None,
    min_bytes: str | None,
    keep_last: int | None,
    limit: int | None,
) -> Filters:
    from openclaw_cli.retention.filters import KINDS, Filters
    from openclaw_cli.retention.settings import age_ms

    unknown = [kind for kind in kinds if kind not in KINDS]
    if unknown:
        raise UsageError(f"--kind {unknown[0]}: there is no such kind", hint=f"one of {', '.join(KINDS)}")
    for name, number in (("--keep-last", keep_last), ("--limit", limit)):
        if number is not None and number < 0:
            raise UsageError(f"{name} takes a whole number from 0 on")
    return Filters(
        None if older_than is None else age_ms(older_than),
        frozenset(kinds),
        key_glob,
        None if min_bytes is None else parse_size_bytes(min_bytes),
        keep_last,
        limit,
    )


def _options(common: Common, config: Config, settings: Maintenance, filters: Filters) -> Options:
    from openclaw_cli.retention.cleaning import Options

    return Options(
        run.rules_of(config, None),
        settings,
        common.now_ms,
        dm_scope=str(config.get("session.dmScope").value or "main"),
        filters=filters,
        timeouts=run.timeouts(config),
    )


def _preview(report: Report, targets: tuple[Target, ...], wanted: Options) -> None:
    from openclaw_cli.retention import cleaning
    from openclaw_cli.storage import connection

    for target in targets:
        part = report.begin(target, wanted)
        try:
            if target.sqlite_path.exists():
                with connection.open_read(target.sqlite_path, agent_id=target.agent_id) as store:
                    found = cleaning.look(store, target, wanted)
                    part.take(found)
                    _foresee_budget(part, found, store, wanted)
            elif report.is_index_named:
                _preview_index(part, target, wanted)
        except OpenClawError as error:
            part.fail(error)
        report.end(part)


def _foresee_budget(part: TargetReport, found: Look, store: Store, wanted: Options) -> None:
    """What the disk budget would take: by a trial on a private copy, or by sizes where there is no room for one."""
    from openclaw_cli.retention import budget, trial

    if not wanted.settings.enforce or not trial.is_needed(found, wanted):
        return
    if trial.has_room(found):
        part.foresee(trial.run(part.target, found, wanted)[1])
    else:
        part.foresee(budget.estimate(store, part.target, wanted))


def _preview_index(part: TargetReport, target: Target, wanted: Options) -> None:
    from openclaw_cli.retention import index_foreseeing, index_store

    if not target.store_path.exists():
        return
    store, issues = index_store.open_index(target)
    found = index_store.look(store, issues, wanted)
    part.take(found)
    if wanted.settings.enforce:
        part.foresee(index_foreseeing.foresee(store, found, wanted))


def _act(report: Report, targets: tuple[Target, ...], wanted: Options, audit: Audit) -> Report:
    from openclaw_cli.retention import applying, budget, cleaning
    from openclaw_cli.storage import connection

    for target in targets:
        part = report.begin(target, wanted)
        try:
            if target.sqlite_path.exists():
                timeouts = wanted.timeouts
                with connection.open_write(target.sqlite_path, agent_id=target.agent_id, timeouts=timeouts) as store:
                    found = cleaning.look(store, target, wanted)
                    part.take(found)
                    part.applied = applying.Applied()
                    done = applying.act(store, target, found, wanted, audit, part.applied)
                    part.finish(done.applied, budget.enforce(store, target, done, wanted), store)
            elif report.is_index_named:
                _act_on_index(part, target, wanted, audit)
        except OpenClawError as error:
            part.fail(error)
        report.end(part)
    return report


def _act_on_index(part: TargetReport, target: Target, wanted: Options, audit: Audit) -> None:
    """The explicit offline repair of a store that is not migrated (the document on maintenance)."""
    from openclaw_cli import locks
    from openclaw_cli.retention import index_store
    from openclaw_cli.retention.index_applying import IndexRun

    if not target.store_path.exists():
        return
    with locks.index_lock(target.store_path, wanted.now_ms):
        store, issues = index_store.open_index(target)
        found = index_store.look(store, issues, wanted)
        part.take(found)
        run = IndexRun(store, wanted, audit)
        part.applied = run.applied
        part.finish_index(run.applied, run.act(found), len(store.raw) + len(store.index.issues))
