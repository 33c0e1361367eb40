"""`sessions delete`: one row with all its sessions, archived first (cleanup §7.1, §8)."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from openclaw_cli.config import Target
from openclaw_cli.errors import Exit
from openclaw_cli.migration.plan import Rules
from openclaw_cli.retention.applying import Run
from openclaw_cli.retention.audit import Audit
from openclaw_cli.retention.classify import Row, row_of
from openclaw_cli.retention.cleaning import Options
from openclaw_cli.retention.planning import Action, Decision
from openclaw_cli.retention.settings import Maintenance
from openclaw_cli.sessions import marking
from openclaw_cli.sessions.results import Result, refused
from openclaw_cli.storage.connection import Store

REASON = "deleted"


@dataclass(frozen=True, slots=True)
class Asked:
    """What the command line says. `archive_dir`: where archives go instead of beside the store."""

    rules: Rules
    main_key: str
    now_ms: int
    archive_dir: Path | None = None
    force: bool = False
    dry_run: bool = False


def decide(store: Store, key: str, asked: Asked) -> Row | Result:
    """The row to delete, or why it stays."""
    entry = marking.entry_of(store, key)
    if isinstance(entry, Result):
        return entry
    if marking.is_main(key, asked.main_key):
        return refused(key, "the main session of an agent cannot be deleted")
    row = row_of(key, entry)
    if (row.running or row.locked) and not asked.force:
        why = "claims to run" if row.running else "is locked to its model"
        return refused(key, f"it {why}; --force deletes it all the same")
    return row


def act(store: Store, target: Target, key: str, asked: Asked, audit: Audit) -> Result:
    """Archive, verify, delete. Raises what writing an archive raises; the row stays then."""
    row = decide(store, key, asked)
    if isinstance(row, Result):
        return row
    if asked.dry_run:
        return Result(key, "would_delete", facts={"sessionId": row.session_id})
    options = Options(asked.rules, Maintenance(), asked.now_ms, archive_dir=asked.archive_dir)
    run = Run(store, target, options, audit)
    run.remove([Decision(row, Action.REMOVE, REASON)])
    if not run.applied.done:
        return Result(key, "failed", "it changed at this moment and stays; run again", Exit.BUSY)
    paths = [str(part.path) for part in run.applied.parts]
    return Result(key, "deleted", facts={"sessionId": row.session_id, "archived": paths})
