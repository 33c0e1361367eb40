"""The report of `doctor compact`: OpenClaw's `target.compact` and `reclaimedBytes`, and our numbers beside them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from openclaw_cli.migration.reporting import Report, TargetReport, issue_text
from openclaw_cli.storage.space import AUTO_VACUUM, Checkpoint, Measure, Sizes


@dataclass(frozen=True, slots=True)
class Place:
    """Room on the file system of `path`: bytes that are needed, and bytes that are free."""

    path: Path
    needed_bytes: int
    free_bytes: int

    def as_json(self) -> dict[str, Any]:
        """Its object in `room`."""
        return {"path": str(self.path), "neededBytes": self.needed_bytes, "freeBytes": self.free_bytes}


@dataclass(frozen=True, slots=True)
class Checkpoints:
    """What the two checkpoints did: before and after the database was rewritten."""

    first: Checkpoint
    last: Checkpoint

    def as_json(self) -> list[dict[str, Any]]:
        """Their objects, in this order."""
        return [
            {"logFrames": done.log_frames, "checkpointedFrames": done.checkpointed_frames, "blocked": done.blocked}
            for done in (self.first, self.last)
        ]


@dataclass(slots=True)
class CompactReport(Report):
    """All stores of a run."""

    def totals(self) -> dict[str, int]:
        """OpenClaw's sums; `reclaimableBytes` is what was known to be unused beforehand."""
        found = [target.extra["compact"] for target in self.targets if "compact" in target.extra]
        return Report.totals(self) | {
            "reclaimedBytes": sum(compact["reclaimedBytes"] for compact in found),
            "reclaimableBytes": sum(compact["reclaimableBytes"] for compact in found),
            "compacted": sum(compact["outcome"] == "compacted" for compact in found),
            "skipped": sum(compact["outcome"] == "skipped" for compact in found),
        }

    def text(self, *, dry_run: bool) -> Iterator[str]:
        """The report for people."""
        totals = self.totals()
        gained = (
            f"at least {totals['reclaimableBytes']} bytes to reclaim"
            if dry_run
            else f"{totals['reclaimedBytes']} bytes reclaimed"
        )
        yield (
            f"session-sqlite compact: {totals['targets']} target(s), {totals['sqliteEntries']} SQLite entries,"
            f" {gained}, {totals['issues']} issue(s)"
        )
        for target in self.targets:
            yield from _target_text(target)
        yield from issue_text(self.issues)
        if dry_run:
            yield "Dry run: nothing was changed."


def missing(sizes: Sizes) -> dict[str, Any]:
    """The object of a store that has no database: nothing to do."""
    zero = Measure(0, sizes.wal_bytes, 0, 0, 0, 0)
    document = known(zero, ()) | {"reclaimableBytes": 0, "autoVacuumBefore": None}
    return document | _openclaw(zero, zero) | {"skipped": True, "reclaimedBytes": 0, "outcome": "skipped"}


def known(before: Measure, places: Iterable[Place]) -> dict[str, Any]:
    """The object of a store that is not compacted yet: what comes after is null."""
    return {
        **_openclaw(before, None),
        "outcome": "planned",
        "reclaimableBytes": before.unused_bytes,
        "pagesBefore": before.pages,
        "pagesAfter": None,
        "autoVacuumBefore": AUTO_VACUUM[before.auto_vacuum],
        "autoVacuumAfter": None,
        "room": [place.as_json() for place in places],
        "checkpoints": [],
        "searchMergeSteps": 0,
    }


def compacted(
    before: Measure, after: Measure, places: Iterable[Place], checkpoints: Checkpoints, merge_steps: int
) -> dict[str, Any]:
    """The object of a store that was compacted."""
    return known(before, places) | {
        **_openclaw(before, after),
        "outcome": "compacted",
        "pagesAfter": after.pages,
        "autoVacuumAfter": AUTO_VACUUM[after.auto_vacuum],
        "checkpoints": checkpoints.as_json(),
        "searchMergeSteps": merge_steps,
    }


def _openclaw(before: Measure, after: Measure | None) -> dict[str, Any]:
    """OpenClaw's nine keys."""
    return {
        "dbSizeAfterBytes": after and after.database_bytes,
        "dbSizeBeforeBytes": before.database_bytes,
        "freelistAfterPages": after and after.freelist_pages,
        "freelistBeforePages": before.freelist_pages,
        "pageSizeBytes": before.page_size_bytes,
        "reclaimedBytes": max(0, before.file_bytes - after.file_bytes) if after else 0,
        "skipped": False,
        "walSizeAfterBytes": after and after.wal_bytes,
        "walSizeBeforeBytes": before.wal_bytes,
    }


def _target_text(target: TargetReport) -> Iterator[str]:
    compact = target.extra.get("compact")
    outcome = compact["outcome"] if compact else "failed"
    if outcome == "skipped":
        yield f"- {target.agent_id}: skipped, there is no database"
    elif outcome == "compacted":
        yield (
            f"- {target.agent_id}: reclaimed={compact['reclaimedBytes']} bytes,"
            f" db={compact['dbSizeBeforeBytes']}->{compact['dbSizeAfterBytes']} bytes,"
            f" wal={compact['walSizeBeforeBytes']}->{compact['walSizeAfterBytes']} bytes,"
            f" free pages={compact['freelistBeforePages']}->{compact['freelistAfterPages']}"
        )
    elif compact is None:
        yield f"- {target.agent_id}: not compacted"
    else:
        yield (
            f"- {target.agent_id}: {'not compacted' if outcome == 'failed' else 'would be compacted'},"
            f" unused={compact['reclaimableBytes']} bytes or more, db={compact['dbSizeBeforeBytes']} bytes,"
            f" wal={compact['walSizeBeforeBytes']} bytes, free pages={compact['freelistBeforePages']}"
        )
    yield f"  store {target.sqlite_path}"
    if compact and outcome != "skipped":
        yield from _detail_text(compact)
    yield from issue_text(target.issues)


def _detail_text(compact: dict[str, Any]) -> Iterator[str]:
    was = compact["autoVacuumBefore"]
    if was != "incremental":
        verb = "is" if compact["outcome"] == "compacted" else "would be"
        yield f"  auto_vacuum was {was} and {verb} incremental, so that deletions can shrink the file"
    if compact["outcome"] == "planned":
        for place in compact["room"]:
            needed, free = place["neededBytes"], place["freeBytes"]
            yield f"  needs {needed} bytes on the file system of {place['path']}, {free} are free"
