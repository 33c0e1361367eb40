"""`doctor check`."""

from __future__ import annotations

import typer

from openclaw_cli.cli import doctor_run as run
from openclaw_cli.cli import options, output
from openclaw_cli.cli.options import Common
from openclaw_cli.errors import Exit


def register(members: typer.Typer) -> None:
    """Add the command to the group."""
    options.command(
        members,
        "check",
        example=(
            "openclaw-cli doctor check --all-agents",
            "openclaw-cli doctor check --json | jq -r '.targets[].findings[] | [.code, .command] | @tsv'",
        ),
        exits=(Exit.OK, Exit.ISSUES, Exit.NOT_FOUND, Exit.CORRUPT),
        without=("ndjson", "dry_run", "wait"),
    )(check)


def check(common: Common) -> int:
    """Look for known trouble in stores, transcripts and files; every finding names what mends it. Reads only.

    Session keys that lead elsewhere; rows and transcripts that do not belong together; too many compactions, windows
    that are too small or not known, totals that are stale; silent turns that were delivered; tool calls and results
    without partner; events without parent; damage, search and active path that do not follow from the events; a log
    that does not shrink, incremental vacuum off, unused pages; a sessions.json that stayed, leftovers, open runs; run
    history of cron jobs, which is counted for each job.

    The biggest events and sessions are listed in any case. Evidence is numbers, keys, ids and paths, never text. Any
    finding gives status 3, a damaged store 13. It works while a gateway runs.
    """
    from openclaw_cli.checks import checking, configured
    from openclaw_cli.storage import space

    config = common.config()
    targets = run.targets_of(common, config)
    total = sum(space.sizes(target.sqlite_path).total_bytes for target in targets)
    with output.Progress(total, "check", common) as bar:
        report = checking.check(
            common.state_dir, targets, configured.settings_of(config), common.now_ms, on_bytes=bar.advance
        )
    output.emit(report.as_json(), report.text(), common)
    return int(report.status())
