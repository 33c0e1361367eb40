"""The report of `sessions cleanup`: OpenClaw's summary of each store, and ours behind it (cleanup §9)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from openclaw_cli.config import Target
from openclaw_cli.errors import Issue, OpenClawError, escaped
from openclaw_cli.migration.reporting import issue_text
from openclaw_cli.retention import ageing, artifacts
from openclaw_cli.retention.applying import Applied
from openclaw_cli.retention.budget import Kind, Spent
from openclaw_cli.retention.cleaning import Look, Measured, measure
from openclaw_cli.retention.planning import Action, Plan
from openclaw_cli.retention.settings import Maintenance
from openclaw_cli.storage.connection import Store


@dataclass(slots=True)
class TargetReport:
    """What a preview or a run says of one store; keys and order of OpenClaw's, ours behind them (cleanup §9)."""

    target: Target
    settings: Maintenance
    now_ms: int
    dry_run: bool
    look: Look | None = None
    before_count: int = 0
    after_count: int = 0
    applied: Applied | None = None
    after: Measured | None = None
    spent: Spent | None = None
    issues: list[Issue] = field(default_factory=list)
    failure: OpenClawError | None = None

    def as_json(self) -> dict[str, Any]:
        """The flat summary."""
        document: dict[str, Any] = {
            "agentId": self.target.agent_id,
            "storePath": str(self.target.sqlite_path),
            "mode": self.settings.mode,
            "dryRun": self.dry_run,
            "beforeCount": self.before_count,
            "afterCount": self.after_count,
            **self.counts(),
            "unreferencedArtifacts": self._artifacts(),
            "diskBudget": self._budget(),
            "wouldMutate": self.would_mutate,
        }
        if not self.dry_run:
            document |= {"applied": self.failure is None, "appliedCount": self.after_count}
        return {
            **document,
            "decisions": [*self._decisions()],
            "withheld": 0 if self.look is None else self.look.rows.withheld,
            "issues": [issue.as_json() for issue in self.issues],
        }

    @property
    def would_mutate(self) -> bool:
        """Whether the plan or the disk budget takes anything."""
        taken = self.spent is not None and bool(self.spent.taken)
        return taken or (self.look is not None and self.look.would_mutate)

    def take(self, found: Look) -> None:
        """Add what was found; a preview says what there would be afterwards."""
        self.look = found
        self.issues.extend(found.rows.issues)
        self.before_count = found.rows.total
        gone = sum(each.action is Action.REMOVE for each in found.plan.taken())
        self.after_count = self.before_count - gone

    def foresee(self, spent: Spent) -> None:
        """Add what a trial says of the disk budget."""
        self.spent = spent
        self.issues.extend(spent.issues)
        self.after_count -= sum(each.kind is Kind.ROW for each in spent.taken)

    def finish(self, done: Applied, spent: Spent, store: Store) -> None:
        """Add what was really done, with the store as it is now."""
        self.applied, self.spent = done, spent
        self.issues.extend((*done.issues, *spent.issues))
        self.after_count = store.value("SELECT count(*) FROM session_nodes WHERE entry_json <> '{}'")
        files = list(artifacts.listing(self.target.sessions_dir, self.target.store_path.name))
        self.after = measure(self.target, files)

    def finish_index(self, done: Applied, spent: Spent, count: int) -> None:
        """As `finish`, of an index of the file era with `count` rows now."""
        self.applied, self.spent, self.after = done, spent, spent.after
        self.issues.extend((*done.issues, *spent.issues))
        self.after_count = count

    def fail(self, error: OpenClawError) -> None:
        """What stopped this store; the others go on."""
        self.failure = error
        if self.applied is not None:
            # What was done before it stays done.
            self.after_count = self.before_count - sum(each.action is Action.REMOVE for each in self.applied.done)
        self.issues.append(Issue(f"sqlite_{error.code}", "error", error.message))

    def counts(self) -> dict[str, int]:
        """OpenClaw's counters: of a run, what was really done."""
        if self.look is None:
            return Plan().counts()
        return self.look.plan.counts() if self.applied is None else self.applied.counts()

    def _artifacts(self) -> dict[str, int]:
        if self.look is None or (not self.dry_run and not self.settings.enforce):
            return {"scannedFiles": 0, "removedFiles": 0, "freedBytes": 0, "olderThanMs": self.settings.prune_after_ms}
        gone = [file for file, _ in self.look.orphans]
        if self.applied is not None:
            gone = self.applied.removed_files
        return {
            "scannedFiles": sum(file.name.kind is not artifacts.Class.MIGRATION for file in self.look.files),
            "removedFiles": len(gone),
            "freedBytes": sum(file.size_bytes for file in gone),
            "olderThanMs": self.settings.prune_after_ms,
        }

    def _budget(self) -> dict[str, Any] | None:
        settings = self.settings
        if self.look is None or settings.max_disk_bytes is None:
            return None
        spent = self.spent
        before = self.look.measured
        after = self.after or (before if spent is None else spent.after)
        document: dict[str, Any] = {
            "totalBytesBefore": before.total_bytes,
            "totalBytesAfter": after.total_bytes,
            "removedFiles": 0 if spent is None else spent.removed_files,
            "removedEntries": 0 if spent is None else spent.removed_entries,
            "freedBytes": max(0, before.total_bytes - after.total_bytes),
            "maxBytes": settings.max_disk_bytes,
            "highWaterBytes": settings.high_water_bytes,
            "overBudget": after.total_bytes > settings.max_disk_bytes,
            "split": {
                "databaseBytes": after.database_bytes,
                "walBytes": after.wal_bytes,
                "artifactBytes": after.artifact_bytes,
                "archiveBytes": after.archive_bytes,
                "protectedBytes": self.look.protected_bytes,
                "reclaimableBytes": self.look.reclaimable_bytes,
            },
        }
        if spent is not None and spent.deferred is not None:
            document["deferredReason"] = spent.deferred
        return {**document, "estimated": spent is not None and spent.estimated}

    def _decisions(self) -> Iterator[dict[str, Any]]:
        if self.look is None:
            return
        done = None if self.applied is None else {each.row.key for each in self.applied.done}
        for each in self.look.plan.decisions:
            document = each.as_json(self.look.sizes.get(each.row.key))
            if done is not None and each.action is not Action.KEEP and each.row.key not in done:
                document |= {"action": "keep", "reason": "not-done", "planned": str(each.reason)}
            yield document
        for taken in self.spent.taken if self.spent is not None else ():
            yield taken.as_json()
        for one, sha256 in self.look.aged if self.applied is None else self.applied.removed_archives:
            yield one.as_json(ageing.RETENTION, sha256)
        for file, reason in self.look.orphans:
            yield {
                "key": None,
                "sessionId": file.name.session_id,
                "action": "delete-artifact",
                **file.as_json(reason, self.now_ms),
                "path": escaped(str(file.path)),
            }

    def text(self) -> Iterator[str]:
        """The summary for people: OpenClaw's lines, then each row that changes with its reason."""
        yield f"Session store: {self.target.sqlite_path}"
        yield f"Maintenance mode: {self.settings.mode}"
        yield f"Entries: {self.before_count} -> {self.after_count} (remove {self.before_count - self.after_count})"
        would = "Would " if self.dry_run else "Did "
        for name, words in _LINES:
            count = self.counts()[name]
            if count:
                yield f"{would}{words}: {count}"
        found = self._artifacts()
        if found["removedFiles"]:
            yield f"{would}prune unreferenced artifacts: {found['removedFiles']} ({found['freedBytes']} bytes)"
        aged = self.look.aged if self.look is not None else []
        aged = aged if self.applied is None else self.applied.removed_archives
        if aged:
            size = sum(one.size_bytes for one, _ in aged)
            yield f"{would}delete archives past resetArchiveRetention: {len(aged)} ({size} bytes)"
        budget = self._budget()
        if budget is not None:
            over = ", over the budget" if budget["overBudget"] else ""
            sizes = f"{budget['totalBytesBefore']} -> {budget['totalBytesAfter']}"
            guess = ", estimated" if budget["estimated"] else ""
            yield f"Disk: {sizes} of {budget['maxBytes']} bytes{over}{guess}"
        if not self.settings.enforce:
            yield "Mode warn: a run changes nothing, unless it is told to --enforce"
        yield from self._rows_text()
        yield from issue_text(self.issues)

    def _rows_text(self) -> Iterator[str]:
        if self.look is None:
            return
        decisions = self.look.plan.taken() if self.applied is None else self.applied.done
        for each in decisions[:MOST_SHOWN]:
            yield f"  {each.action} {each.row.key}: {each.reason} ({self.look.sizes.get(each.row.key, 0)} bytes)"
        if len(decisions) > MOST_SHOWN:
            yield f"  … {len(decisions) - MOST_SHOWN} more (--json lists all)"
        for taken in (self.spent.taken if self.spent is not None else [])[:MOST_SHOWN]:
            what = taken.key or escaped(taken.name or "")
            yield f"  {taken.kind} {what}: disk budget ({taken.size_bytes} bytes)"
        spared = sum(each.spared is not None for each in self.look.plan.decisions)
        if spared:
            yield f"  {spared} more row(s) are spared by filters"
        stale = [each.row.key for each in self.look.plan.decisions if each.reason == "stale-running"]
        for key in stale[:MOST_SHOWN]:
            yield f"  keep {key}: claims to run, but was not written to for long (--include-stale-running)"


MOST_SHOWN = 40
"""Rows that people are shown."""

_LINES = (
    ("missing", "prune missing transcripts"),
    ("dmScopeRetired", "retire stale direct DM sessions"),
    ("cronRetention", "remove cron runs past their retention"),
    ("modelRunPruned", "prune stale model-run probes"),
    ("archived", "archive inactive sessions"),
    ("capArchived", "archive cap overflow"),
    ("pruned", "prune stale"),
    ("cappedRemoved", "remove cap overflow"),
)
