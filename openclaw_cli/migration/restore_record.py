"""What a restore writes into the manifests: `restore`, in the form that the real program reads (store format §6.2)."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from openclaw_cli.config.values import iso_utc
from openclaw_cli.faults import Step, reached
from openclaw_cli.manifest import Run
from openclaw_cli.migration.claims import Decision, consumed_archives
from openclaw_cli.migration.restore_report import Outcomes


@dataclass(slots=True)
class _Entry:
    """The record of one run, in that run's own paths."""

    run: Run
    consumed: set[str]
    restored: list[str]
    considered: set[str] = field(default_factory=set)
    skipped: list[str] = field(default_factory=list)
    conflicts: list[dict[str, str]] = field(default_factory=list)

    def save(self, now_ms: int) -> None:
        """Make it durable, unless it says nothing new: a restore that is repeated changes no byte."""
        before = self.run.manifest.restore
        after = self._document(before or {}, now_ms)
        told = after["status"] != "noop" or "consumedArchives" in after
        if not told and before is None:
            return
        if before is not None and {**before, "attemptedAt": ""} == {**after, "attemptedAt": ""}:
            return
        self.run.manifest.restore = after
        self.run.save_beside_targets()

    def _document(self, before: dict[str, Any], now_ms: int) -> dict[str, Any]:
        # What an earlier restore said about files of other agents stays.
        skipped = [path for path in before.get("skippedFiles", ()) if path not in self.considered]
        conflicts = [item for item in before.get("conflicts", ()) if item["sourcePath"] not in self.considered]
        skipped += [path for path in dict.fromkeys(self.skipped) if path not in self.restored]
        conflicts += self.conflicts
        document: dict[str, Any] = {"attemptedAt": iso_utc(now_ms)}
        if self.consumed:
            document["consumedArchives"] = sorted(self.consumed)
        return document | {
            "conflicts": conflicts,
            "restoredFiles": self.restored,
            "skippedFiles": skipped,
            "status": _status(bool(conflicts), bool(self.restored)),
        }


class RestoreRecord:
    """Collects what happens in a restore and keeps the manifests up to date with it."""

    def __init__(self, now_ms: int) -> None:
        self._now_ms = now_ms
        self._entries: dict[int, _Entry] = {}

    def restored(self, decisions: Iterable[Decision]) -> None:
        """Record files that are at their original path now, before their archive names go."""
        touched: dict[int, _Entry] = {}
        for decision in decisions:
            for statement in decision.claim.statements:
                entry = self._entry(statement.run)
                touched[id(statement.run)] = entry
                entry.consumed.add(str(statement.move.archive_path))
                source = str(statement.move.source_path)
                if source not in entry.restored:
                    entry.restored.append(source)
        for entry in touched.values():
            entry.save(self._now_ms)

    def note(self, outcomes: Outcomes) -> None:
        """Take in how each claim of one store ended."""
        for decision, outcome in outcomes.items():
            for statement in decision.claim.statements:
                entry = self._entry(statement.run)
                source, archive = str(statement.move.source_path), str(statement.move.archive_path)
                entry.considered.add(source)
                if outcome.word == "skipped":
                    entry.skipped.append(source)
                    if decision.superseded:
                        entry.consumed.add(archive)
                elif outcome.word != "restored":
                    item = {"archivePath": archive, "reason": outcome.reason, "sourcePath": source}
                    entry.conflicts.append(item)

    def close(self) -> None:
        """Write the final word of every manifest that has one."""
        for entry in self._entries.values():
            entry.save(self._now_ms)
            reached(Step.RESTORE_COMPLETED)

    def _entry(self, run: Run) -> _Entry:
        if id(run) not in self._entries:
            restored = list((run.manifest.restore or {}).get("restoredFiles", ()))
            self._entries[id(run)] = _Entry(run, consumed_archives(run), restored)
        return self._entries[id(run)]


def _status(conflicts: bool, restored: bool) -> str:
    if conflicts:
        return "partial" if restored else "conflicts"
    return "restored" if restored else "noop"
