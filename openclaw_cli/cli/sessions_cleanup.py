"""`sessions cleanup`."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from openclaw_cli.cli import doctor_run as run
from openclaw_cli.cli import options, output, ownership
from openclaw_cli.cli.doctor_run import AllowOwner, AssumeStopped
from openclaw_cli.cli.options import Common
from openclaw_cli.config import Config, Target
from openclaw_cli.config.values import parse_duration_ms, parse_size_bytes
from openclaw_cli.errors import Exit, Issue, OpenClawError, UsageError, status_of

if TYPE_CHECKING:
    from openclaw_cli.retention.audit import Audit
    from openclaw_cli.retention.cleaning import Look, Options
    from openclaw_cli.retention.filters import Filters
    from openclaw_cli.retention.report import TargetReport
    from openclaw_cli.retention.settings import Maintenance
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
        without=("ndjson",),
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

    Filters only narrow the plan. Every decision is in --json with its reason. Each removal is a line of
    openclaw-cli/audit.jsonl in the state directory.

    Over maxDiskBytes, until highWaterBytes are left: unused space goes back, then archives older than the grace go,
    then history of keys, by-products of runs and cap-archived sessions, each archived first. A preview tries that on a
    copy; what cannot be reached gives status 3.
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

    # Under warn nothing changes but by --enforce, which sets the mode.
    asked = enforce or (bool(config.get("cleanup.apply").value) and wanted.settings.enforce)
    writes = asked and not common.dry_run
    ownership.judge_remote(common, config, writes=writes)
    targets = common.targets(config)
    report = _Report(wanted.settings, not writes, common.all_agents and len(targets) > 1)
    if writes:
        audit = Audit(common.state_dir, common.now_ms)
        ownership.owned(common, config, targets, lambda: _act(report, targets, wanted, audit), **allowed)
    else:
        _preview(report, targets, wanted)
        report.issues[:0] = ownership.foreseen(common, targets, **allowed)
    output.emit(report.as_json(), report.text(), common)
    status = report.status()
    if exit_code and not writes and status is Exit.OK and report.would_mutate:
        return int(Exit.ISSUES)
    return int(status)


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


@dataclass(slots=True)
class _Report:
    settings: Maintenance
    dry_run: bool
    several: bool
    targets: list[TargetReport] = field(default_factory=list)
    issues: list[Issue] = field(default_factory=list)

    @property
    def would_mutate(self) -> bool:
        return any(target.would_mutate for target in self.targets)

    def status(self) -> Exit:
        issues = [*self.issues, *(issue for target in self.targets for issue in target.issues)]
        return status_of(issues, [target.failure for target in self.targets if target.failure is not None])

    def as_json(self) -> dict[str, Any]:
        """OpenClaw's flat form for one store, `stores` for several."""
        documents = [target.as_json() for target in self.targets]
        if not self.several:
            documents[0]["issues"] = [*(issue.as_json() for issue in self.issues), *documents[0]["issues"]]
            return documents[0]
        document = {"allAgents": True, "mode": self.settings.mode, "dryRun": self.dry_run, "stores": documents}
        return {**document, "issues": [issue.as_json() for issue in self.issues]}

    def text(self) -> Iterator[str | output.Table]:
        from openclaw_cli.migration.reporting import issue_text

        for number, target in enumerate(self.targets):
            if number:
                yield ""
            if self.several:
                yield f"Agent: {target.target.agent_id}"
            yield from target.text()
        yield from issue_text(self.issues)
        if self.dry_run:
            yield "Dry run: nothing was changed. --enforce carries it out."


def _preview(report: _Report, targets: tuple[Target, ...], wanted: Options) -> None:
    from openclaw_cli.retention import cleaning
    from openclaw_cli.storage import connection

    for target in targets:
        part = _part(report, target, wanted)
        if not _is_migrated(part):
            continue
        try:
            with connection.open_read(target.sqlite_path, agent_id=target.agent_id) as store:
                found = cleaning.look(store, target, wanted)
                part.take(found)
                _foresee_budget(part, found, store, wanted)
        except OpenClawError as error:
            part.fail(error)


def _foresee_budget(part: TargetReport, found: Look, store: Store, wanted: Options) -> None:
    """What the disk budget would take: by a trial on a private copy, or by sizes where there is no room for one."""
    from openclaw_cli.retention import budget, trial

    if not wanted.settings.enforce or not trial.is_needed(found, wanted):
        return
    if trial.has_room(found):
        part.foresee(trial.run(part.target, found, wanted)[1])
    else:
        part.foresee(budget.estimate(store, part.target, wanted))


def _act(report: _Report, targets: tuple[Target, ...], wanted: Options, audit: Audit) -> _Report:
    from openclaw_cli.retention import applying, budget, cleaning
    from openclaw_cli.storage import connection

    for target in targets:
        part = _part(report, target, wanted)
        if not _is_migrated(part):
            continue
        try:
            with connection.open_write(target.sqlite_path, agent_id=target.agent_id, timeouts=wanted.timeouts) as store:
                found = cleaning.look(store, target, wanted)
                part.take(found)
                done = applying.act(store, target, found, wanted, audit)
                part.finish(done.applied, budget.enforce(store, target, done, wanted), store)
        except OpenClawError as error:
            part.fail(error)
    return report


def _is_migrated(part: TargetReport) -> bool:
    """Whether there is a database to look at; a store of the time before is named, since its files are not judged."""
    target = part.target
    if target.sqlite_path.exists():
        return True
    if target.store_path.exists():
        message = f"{target.store_path} is not migrated, so nothing was looked at; first: openclaw-cli doctor import"
        part.issues.append(Issue("store_not_migrated", "error", message, facts={"storePath": str(target.store_path)}))
    return False


def _part(report: _Report, target: Target, wanted: Options) -> TargetReport:
    from openclaw_cli.retention.report import TargetReport

    part = TargetReport(target, wanted.settings, wanted.now_ms, report.dry_run)
    report.targets.append(part)
    return part
