"""The group `archives`: what removals and resets have left."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from openclaw_cli.cli import doctor_run as run
from openclaw_cli.cli import options, output, ownership
from openclaw_cli.cli.doctor_run import AllowOwner, AssumeStopped
from openclaw_cli.cli.options import Common
from openclaw_cli.config import Config, Target
from openclaw_cli.config.values import parse_duration_ms
from openclaw_cli.errors import Exit, Issue, NotFoundError, UsageError, escaped

if TYPE_CHECKING:
    from openclaw_cli.retention.archive_report import ArchiveReport
    from openclaw_cli.retention.catalogue import Archive, Verified

Names = Annotated[
    list[str] | None,
    typer.Argument(metavar="[KEY|ID|NAME]...", help="Only archives of these keys, session ids or file names."),
]
ArchiveDir = Annotated[
    list[str] | None,
    typer.Option("--archive-dir", metavar="DIR", help="Also look there; directories of the audit are known."),
]


def register(app: typer.Typer) -> None:
    """Add the group `archives`."""
    members = options.group(app, "archives")
    options.command(
        members,
        "list",
        example="openclaw-cli archives list --all-agents --json | jq '.archives[] | [.sessionKey, .path]'",
        exits=(Exit.ISSUES, Exit.NOT_FOUND, Exit.CORRUPT),
        without=("dry_run", "wait"),
    )(list_archives)
    options.command(
        members,
        "verify",
        example="openclaw-cli archives verify --all-agents",
        exits=(Exit.ISSUES, Exit.NOT_FOUND, Exit.CORRUPT),
        without=("dry_run", "wait"),
    )(verify)
    options.command(
        members,
        "prune",
        example=(
            "openclaw-cli archives prune --all-agents --older-than 90d",
            "openclaw-cli archives prune --all-agents --older-than 90d --enforce",
        ),
        exits=(Exit.ISSUES, Exit.NOT_FOUND, Exit.BUSY, Exit.REFUSED, Exit.CORRUPT),
        without=("ndjson",),
    )(prune)


def list_archives(common: Common, name: Names = None, archive_dir: ArchiveDir = None) -> int:
    """List archives of removed and reset sessions: rows of stores, files beside them, and --archive-dir directories.

    Each with key, session id, time, size, and whether store and file have it. Archives of imports belong to doctor
    restore. Nothing is unpacked.
    """
    from openclaw_cli.retention.archive_report import ArchiveReport

    report = ArchiveReport(common.now_ms)
    report.found = _found(common, common.config(), name or [], archive_dir or [])[0]
    _print(report, common)
    return int(report.status())


def verify(common: Common, name: Names = None, archive_dir: ArchiveDir = None) -> int:
    """Unpack every archive to its end and compare: checksum, size, the recorded SHA-256, the row's own copy.

    An archive that does not hold what it should gives status 13; the others are verified all the same.
    """
    from openclaw_cli.retention import catalogue
    from openclaw_cli.retention.archive_report import ArchiveReport

    verified: list[Verified] = []
    report = ArchiveReport(common.now_ms, verified=verified)
    report.found, targets = _found(common, common.config(), name or [], archive_dir or [])
    by_agent = {target.agent_id: target for target in targets}
    total = sum(one.kept.size_bytes for one in report.found)
    with output.Progress(total, "verify", common) as bar:
        for one in report.found:
            verified.append(catalogue.verify(one, by_agent.get(one.agent_id or "")))
            bar.advance(one.kept.size_bytes)
    _print(report, common)
    return int(report.status())


def prune(
    common: Common,
    name: Names = None,
    older_than: Annotated[
        str | None, typer.Option("--older-than", metavar="TIME", help="Instead of resetArchiveRetention.")
    ] = None,
    archive_grace: Annotated[
        str, typer.Option("--archive-grace", metavar="TIME", help="Age below which no archive is deleted.")
    ] = "24h",
    archive_dir: ArchiveDir = None,
    enforce: Annotated[bool, typer.Option("--enforce", help="Delete; without it nothing changes.")] = False,
    assume_stopped: AssumeStopped = False,
    allow_owner: AllowOwner = False,
) -> int:
    """Delete archives that are older than session.maintenance.resetArchiveRetention, or than --older-than.

    This is content that goes for good: each archive is named with its SHA-256 here and in openclaw-cli/audit.jsonl. A
    row that OpenClaw has not published yet stays.
    """
    from openclaw_cli.retention import settings
    from openclaw_cli.retention.archive_report import ArchiveReport

    config = common.config()
    retention_ms = settings.from_config(config).reset_archive_retention_ms
    if older_than is not None:
        retention_ms = settings.age_ms(older_than)
    if retention_ms is None:
        raise UsageError(
            "say how old: session.maintenance.resetArchiveRetention is off", hint="--older-than 90d, for example"
        )
    limit_ms = common.now_ms - max(retention_ms, parse_duration_ms(archive_grace, default_unit="h"))
    writes = enforce and not common.dry_run
    ownership.judge_remote(common, config, writes=writes)
    report = ArchiveReport(common.now_ms, pruned=[], dry_run=not writes)
    report.found, targets = _found(common, config, name or [], archive_dir or [])
    old = [one for one in report.found if one.kept.made_ms < limit_ms and one.kept.is_published]
    allowed = {"assume_stopped": assume_stopped, "allow_owner": allow_owner}
    if writes:
        ownership.owned(common, config, targets, lambda: _delete(report, old, targets, common, config), **allowed)
    else:
        report.pruned = [(one, one.sha256 or one.kept.sha256()) for one in old]
        report.issues[:0] = ownership.foreseen(common, targets, **allowed)
    _print(report, common)
    return int(report.status())


def _delete(
    report: ArchiveReport, old: Sequence[Archive], targets: tuple[Target, ...], common: Common, config: Config
) -> ArchiveReport:
    from openclaw_cli.retention import ageing, pruning
    from openclaw_cli.retention.audit import Audit
    from openclaw_cli.storage import connection

    audit = Audit(common.state_dir, common.now_ms)
    pruned: list[tuple[Archive, str | None]] = []
    report.pruned = pruned
    places = {target.sessions_dir: target for target in targets}
    for one in old:
        target = places.get(one.path.parent) if one.path is not None else None
        target = target or next((each for each in targets if one.kept.row and each.agent_id == one.agent_id), None)
        sha256 = one.sha256 or one.kept.sha256()
        try:
            if target is not None and target.sqlite_path.exists():
                path, agent = target.sqlite_path, target.agent_id
                with connection.open_write(path, agent_id=agent, timeouts=run.timeouts(config)) as store:
                    pruning.delete(store, one.kept, sha256, ageing.RETENTION, audit)
            else:
                pruning.delete(None, one.kept, sha256, ageing.RETENTION, audit)
        except OSError as error:
            message = f"{escaped(one.name)} cannot be deleted: {error.strerror}"
            report.issues.append(Issue("archive_kept", "error", message))
            continue
        pruned.append((one, sha256))
    return report


def _found(
    common: Common, config: Config, names: Sequence[str], directories: Sequence[str]
) -> tuple[list[Archive], tuple[Target, ...]]:
    """The archives that are meant, and the stores. Raises `NotFoundError` for a name that none has."""
    from openclaw_cli.retention import catalogue

    targets = common.targets(config)
    told = catalogue.told_by_audit(common.state_dir)
    places = [Path(each).expanduser().absolute() for each in directories]
    for place in places:
        if not place.is_dir():
            raise NotFoundError(f"there is no directory {place}")
    found = list(catalogue.find(targets, [*places, *catalogue.directories_of(told)], told))
    if not names:
        return found, targets
    for wanted in names:
        if not any(_is(one, wanted) for one in found):
            raise NotFoundError(f"there is no archive of {escaped(wanted)}", hint="openclaw-cli archives list")
    return [one for one in found if any(_is(one, wanted) for wanted in names)], targets


def _is(one: Archive, wanted: str) -> bool:
    return wanted in (one.session_key, one.session_id, one.name, str(one.path))


def _print(report: ArchiveReport, common: Common) -> None:
    if common.ndjson:
        for row in report.rows():
            output.write_line({"type": "archive", **row})
        document = report.as_json()
        output.write_line({"type": "summary", **document["totals"], "issues": document["issues"]})
    else:
        output.emit(report.as_json(), report.text(), common)
