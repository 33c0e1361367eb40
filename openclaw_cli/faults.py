"""The steps at which a run can be cut, named once for code and tests.

`reached(step)` stands right behind the effect that the step is named after. It does nothing unless a test armed that
step in the same process; then the process dies by SIGKILL, as it would by `kill -9` or a power cut.
"""

from __future__ import annotations

import os
import signal
from enum import StrEnum


class Step(StrEnum):
    """Effects of a run, in the order in which they happen."""

    MANIFEST_CREATED = "manifest-created"
    DATABASE_CREATED = "database-created"
    SESSION_ROWS_WRITTEN = "session-rows-written"
    SESSION_COMMITTED = "session-committed"
    TARGET_VALIDATED = "target-validated"
    MOVES_PLANNED = "moves-planned"
    MOVE_LINKED = "move-linked"
    MOVE_UNLINKED = "move-unlinked"
    MOVE_RECORDED = "move-recorded"
    INDEX_MOVED = "index-moved"
    MANIFEST_COMPLETED = "manifest-completed"
    RESTORE_LINKED = "restore-linked"
    RESTORE_RECORDED = "restore-recorded"
    RESTORE_UNLINKED = "restore-unlinked"
    RESTORE_COMPLETED = "restore-completed"
    RECOVER_LINKED = "recover-linked"
    RECOVER_LOG_ASIDE = "recover-log-aside"
    RECOVER_PUBLISHED = "recover-published"
    RECOVER_REIMPORTED = "recover-reimported"
    RECOVER_SETTLED = "recover-settled"
    COMPACT_CHECKPOINTED = "compact-checkpointed"
    COMPACT_SEARCH_MERGED = "compact-search-merged"
    COMPACT_VACUUMING = "compact-vacuuming"
    COMPACT_VACUUMED = "compact-vacuumed"
    COMPACT_WRITTEN_BACK = "compact-written-back"
    COMPACT_CHECKED = "compact-checked"
    SNAPSHOT_MARKED = "snapshot-marked"
    SNAPSHOT_FILE_COPIED = "snapshot-file-copied"
    SNAPSHOT_DATABASE_COPIED = "snapshot-database-copied"
    SNAPSHOT_RECORDED = "snapshot-recorded"
    FIX_ROWS_KEPT = "fix-rows-kept"
    FIX_ROWS_WRITTEN = "fix-rows-written"
    FIX_OWN_CONFIG_WRITTEN = "fix-own-config-written"
    FIX_CONFIG_BACKED_UP = "fix-config-backed-up"
    SUCCESSOR_WRITTEN = "successor-written"
    ARCHIVE_WRITTEN = "cleanup-archive-written"
    CLEANUP_COMMITTED = "cleanup-committed"
    CLEANUP_AUDITED = "cleanup-audited"
    ARTIFACT_REMOVED = "cleanup-artifact-removed"
    OUTPUT_WRITTEN = "output-written"
    OUTPUT_RENAMED = "output-renamed"


_armed: dict[Step, int] = {}


def arm(step: Step, occurrence: int = 1) -> None:
    """Die when `step` is reached for the `occurrence`-th time (1 = the first). Only tests call this."""
    _armed[step] = occurrence


def reached(step: Step) -> None:
    """Mark that the effect `step` has just happened."""
    if not _armed or step not in _armed:
        return
    _armed[step] -= 1
    if _armed[step] == 0:
        os.kill(os.getpid(), signal.SIGKILL)
