"""`doctor snapshot`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from openclaw_cli.cli import options, output, ownership
from openclaw_cli.cli.options import Common
from openclaw_cli.config import environment
from openclaw_cli.errors import CorruptError, Exit, NotFoundError


def register(members: typer.Typer) -> None:
    """Add the command to the group."""
    options.command(
        members,
        "snapshot",
        example=(
            "openclaw-cli doctor snapshot /mnt/backup/openclaw-2026-12-01",
            "openclaw-cli doctor snapshot /mnt/backup/openclaw-2026-12-01 --verify",
        ),
        exits=(Exit.OK, Exit.ISSUES, Exit.NOT_FOUND, Exit.BUSY, Exit.REFUSED, Exit.CORRUPT),
        without=("ndjson", "store", "agent", "all_agents", "wait"),
    )(snapshot)


def snapshot(
    common: Common,
    directory: Annotated[str, typer.Argument(metavar="DIR", help="A new or empty directory, outside of the state.")],
    verify: Annotated[
        bool, typer.Option("--verify", help="Compare a finished snapshot with its record; nothing is written.")
    ] = False,
) -> int:
    """Copy a state directory, databases and files, and check the copy; the gateway may go on running.

    Each database is one view, with what its log holds, made in steps that no writer waits for, and fully checked. A
    damaged one is copied as its files are. Indexes, transcripts, archives, manifests, configuration and whatever is not
    known are copied with mode and time, links as links. Stores elsewhere come as store-1, store-2, … Credentials,
    locks, sockets, logs and workspaces stay out; the report lists them. DIR/snapshot.json, written last, has size and
    SHA-256 of everything: without it a snapshot is incomplete, and the same command completes it.

    To go back: stop the gateway, move the state directory aside, copy DIR/state to its place (mv STATE STATE.old;
    cp -a DIR/state STATE), then bring back from STATE.old what was left out. Never copy single databases over present
    ones: a log that lies beside would be applied to them.
    """
    place = Path(directory).expanduser()
    return _verify(common, place) if verify else _take(common, place)


def _take(common: Common, place: Path) -> int:
    from openclaw_cli.config.paths import agent_target, agents_on_disk, is_state_dir
    from openclaw_cli.migration import snapshot as snapshots

    config = common.config()
    ownership.judge_remote(common, config, writes=False)
    if not is_state_dir(common.state_dir):
        raise NotFoundError(
            f"{common.state_dir} holds no agents of OpenClaw", hint="check --state-dir or OPENCLAW_STATE_DIR"
        )
    agents = dict.fromkeys([*config.agents, *agents_on_disk(common.state_dir)])
    targets = [agent_target(config, common.state_dir, agent, environment()) for agent in agents]
    made = snapshots.prepare(common.state_dir, place, targets=targets, config_path=config.openclaw_path)
    if not common.dry_run:
        with output.Progress(made.plan.total_bytes, "snapshot", common) as bar:
            made = snapshots.copy(made, common.now_ms, bar.advance)
    output.emit(made.as_json(dry_run=common.dry_run), made.text(dry_run=common.dry_run), common)
    return int(made.status())


def _verify(common: Common, place: Path) -> int:
    from openclaw_cli.migration import snapshot_record

    with output.Progress(None, "verify", common) as bar:
        found = snapshot_record.verify(place, bar.advance)
    errors = [issue for issue in found.issues if issue.severity == "error"]
    record = found.record
    document: dict[str, Any] = {
        "mode": "snapshot-verify",
        "directory": str(place),
        "createdAt": record.created_at,
        "entries": len(record.entries),
        "bytes": sum(entry.size_bytes for entry in record.entries),
        "ok": not errors,
        "issues": [issue.as_json() for issue in found.issues],
    }
    lines = [
        f"snapshot of {record.created_at} in {place}: {len(record.entries)} entries, {document['bytes']} bytes,"
        f" {len(errors)} difference(s)",
        *(f"  {issue.severity} {issue.code}: {issue.message}" for issue in found.issues),
    ]
    output.emit(document, lines, common)
    return int(CorruptError.exit if errors else Exit.OK)
