"""The report of `doctor recover`: what was wrong with each store, what was done, and what is left to do."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Any

from openclaw_cli.migration.reporting import Report, TargetReport, issue_text
from openclaw_cli.storage.repairing import Health
from openclaw_cli.storage.salvaging import Salvaged

ROWS_LOST = "sqlite_rows_lost"
"""Code of the issue that names rows which neither the damaged store nor an archive could give back."""


class Status(StrEnum):
    """What a recovery says of a store, and of a run: the worst of its stores."""

    CLEAN = "clean"
    REPAIRED = "repaired"
    BLOCKED = "blocked"


@dataclass(slots=True)
class Mending:
    """What was done, or would be, for one store. `kept`: files of the damaged set under their new names."""

    health: Health
    action: str
    kept: list[Path] = field(default_factory=list)
    salvaged: Salvaged | None = None
    from_archives: int = 0
    exported: int = 0

    def as_json(self) -> dict[str, Any]:
        """The keys that a recovery adds to a target."""
        return {
            "condition": str(self.health.condition),
            "log": str(self.health.log),
            "findings": list(self.health.findings),
            "action": self.action,
            "corruptRecovery": {"movedFiles": [str(path) for path in self.kept], "skippedFiles": []},
            "salvage": None if self.salvaged is None else self.salvaged.as_json(),
            "eventsFromArchives": self.from_archives,
            "exportedSessions": self.exported,
        }


@dataclass(slots=True)
class RecoverReport(Report):
    """All stores of a recovery. `settled`: earlier runs that were closed."""

    settled: list[Path] = field(default_factory=list)
    mendings: dict[str, Mending] = field(default_factory=dict)

    def verdict(self) -> Status:
        """The status of the whole run."""
        words = [self.status_of(target) for target in self.targets]
        if any(issue.severity == "error" for issue in self.issues):
            return Status.BLOCKED
        if Status.BLOCKED in words:
            return Status.BLOCKED
        if Status.REPAIRED in words or self.settled:
            return Status.REPAIRED
        return Status.CLEAN

    def status_of(self, target: TargetReport) -> Status:
        """What a recovery says of one store."""
        mending = self.mendings[target.agent_id]
        # Rows that are gone for good keep nobody from going on; they are an error of the report all the same.
        blocking = any(issue.severity == "error" and issue.code != ROWS_LOST for issue in target.issues)
        if target.failure is not None or blocking:
            return Status.BLOCKED
        moved = target.archived_transcripts or target.archived_unreferenced or target.archived_indexes
        if mending.action != "none" or mending.from_archives or moved or target.imported_events:
            return Status.REPAIRED
        return Status.CLEAN

    def advice(self, *, dry_run: bool) -> str:
        """One line that says what to do."""
        verdict = self.verdict()
        if verdict is Status.CLEAN:
            return "Nothing to do: the stores are sound and no run is open."
        if verdict is Status.REPAIRED and dry_run:
            return "It can be repaired: run this again without --dry-run."
        if any(issue.code == ROWS_LOST for target in self.targets for issue in target.issues):
            return "Repaired as far as it goes: see what is gone. Keep the damaged set, and look into a backup."
        if verdict is Status.REPAIRED:
            kept = [str(path) for mending in self.mendings.values() for path in mending.kept]
            if kept:
                return f"Repaired. The damaged set is kept ({kept[0]} …); check with: openclaw-cli doctor validate"
            return "Repaired. Check with: openclaw-cli doctor validate"
        if any(issue.code == "manifest_invalid" for issue in self.issues):
            return "Blocked: a manifest is invalid and was not used; move it away once you need no move in it any more."
        return "Blocked: see the errors above; what is named there needs a decision, then run this again."

    def as_json(self, *, dry_run: bool) -> dict[str, Any]:
        """The document of `--json`."""
        document = Report.as_json(self, dry_run=dry_run)
        for target, item in zip(self.targets, document["targets"], strict=True):
            item.update(self.mendings[target.agent_id].as_json())
            item["status"] = str(self.status_of(target))
        document["status"] = str(self.verdict())
        document["advice"] = self.advice(dry_run=dry_run)
        document["settledRuns"] = [str(path) for path in self.settled]
        return document

    def text(self, *, dry_run: bool) -> Iterator[str]:
        """The report for people; the last line but that of a dry run says what to do."""
        yield f"session-sqlite {self.mode}: {self.verdict()}, {len(self.targets)} target(s)"
        for target in self.targets:
            yield from self._target_text(target, dry_run=dry_run)
        yield from issue_text(self.issues)
        for path in self.settled:
            yield f"{'would close' if dry_run else 'closed'} run {path}"
        yield self.advice(dry_run=dry_run)
        if dry_run:
            yield "Dry run: nothing was changed."

    def _target_text(self, target: TargetReport, *, dry_run: bool) -> Iterator[str]:
        mending = self.mendings[target.agent_id]
        health = mending.health
        yield f"- {target.agent_id}: {self.status_of(target)}; store {health.condition}, log {health.log}"
        yield f"  store {target.sqlite_path}"
        for finding in health.findings:
            yield f"  found: {finding}"
        if mending.action != "none":
            done = not dry_run and target.failure is None
            yield f"  {'was' if done else 'would be'} mended by: {mending.action}"
        for path in mending.kept:
            yield f"  kept {path}"
        if mending.salvaged is not None:
            rows = mending.salvaged.rows
            yield (
                f"  salvaged {rows.get('session_nodes', 0)} key(s), {rows.get('session_windows', 0)} session(s),"
                f" {rows.get('transcript_events', 0)} event(s); {len(mending.salvaged.pages_lost)} page(s) unreadable"
            )
        if mending.from_archives:
            yield f"  {mending.from_archives} event(s) brought back from the archived originals"
        moved = len(target.archived_transcripts) + len(target.archived_unreferenced) + len(target.archived_indexes)
        if moved or target.imported_events:
            yield f"  leftovers: {target.imported_events} event(s) imported, {moved} file(s) archived"
        yield from issue_text(target.issues)
