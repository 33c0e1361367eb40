"""`doctor compact`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import typer

from openclaw_cli.cli import doctor_run as run
from openclaw_cli.cli import options, output, ownership
from openclaw_cli.cli.doctor_run import MODES, AllowOwner, AssumeStopped, SnapshotDir
from openclaw_cli.cli.options import Common
from openclaw_cli.config import environment

if TYPE_CHECKING:
    from openclaw_cli.migration.reporting import Report


def register(members: typer.Typer) -> None:
    """Add the command to the group."""
    options.command(
        members,
        "compact",
        example="openclaw-cli doctor compact --all-agents --dry-run",
        exits=MODES,
        without=("ndjson",),
    )(compact)


def compact(
    common: Common,
    assume_stopped: AssumeStopped = False,
    allow_owner: AllowOwner = False,
    snapshot: SnapshotDir = None,
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
    targets = run.targets_of(common, config, writes=not common.dry_run)
    plans = compacting.plan(targets, environment(), named=bool(common.agent or common.store))
    if common.dry_run:
        allowed = {"assume_stopped": assume_stopped, "allow_owner": allow_owner}
        return run.preview(compacting.preview(plans), common, targets, **allowed)
    limits = compacting.Limits(run.timeouts(config), common.wait_ms, environment())

    taken: dict[str, Any] | None = None

    def act() -> Report:
        nonlocal taken
        taken = run.snapshot_first(common, config, targets, snapshot)
        with output.Progress(None, "compact", common, counted=False) as bar:
            return compacting.run(plans, limits, bar.describe)

    if not compacting.has_work(plans):
        report = compacting.run(plans, limits, lambda _: None)
        return run.emit(report, common, dry_run=False)
    report = ownership.owned(common, config, targets, act, assume_stopped=assume_stopped, allow_owner=allow_owner)
    return run.emit(report, common, dry_run=False, snapshot=taken)
