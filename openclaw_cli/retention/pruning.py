"""Deleting archives: the only content that goes for good, by age or by the disk budget (design, D6)."""

from __future__ import annotations

from pathlib import Path

from openclaw_cli.durable import fsync_dir
from openclaw_cli.retention.ageing import Kept
from openclaw_cli.retention.audit import Audit
from openclaw_cli.storage import archives
from openclaw_cli.storage.connection import Store


def delete(store: Store | None, one: Kept, sha256: str | None, reason: str, audit: Audit) -> None:
    """Delete an archive: its row first, since a row without file is published again by OpenClaw, then the file.

    The audit names it before. Raises OSError.
    """
    audit.add("archive-removed", None, one.session_id, reason, path=one.path or Path(one.name), sha256=sha256)
    audit.flush()
    if store is not None:
        with store.transaction():
            archives.delete(store, one.name)
    if one.path is not None:
        one.path.unlink(missing_ok=True)
        fsync_dir(one.path.parent)
