"""The report of `doctor restore`: OpenClaw's `target.restore`, and beside it the outcome of every file."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from openclaw_cli.errors import Issue
from openclaw_cli.manifest import Run, TargetRecord
from openclaw_cli.migration.claims import Decision, State
from openclaw_cli.migration.remaining import Remaining
from openclaw_cli.migration.reporting import MAX_SHOWN_ISSUES, Report, TargetReport, issue_text, more


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of a claim: `restored`, `skipped`, `conflict` or `failed`."""

    word: str
    reason: str


Outcomes = dict[Decision, Outcome]


@dataclass(slots=True)
class RestoreReport(Report):
    """All stores of a restore."""

    def totals(self) -> dict[str, int]:
        """OpenClaw's sums, and those of a restore."""
        restores = [target.extra["restore"] for target in self.targets]
        return Report.totals(self) | {
            "restoredFiles": sum(len(restore["restoredFiles"]) for restore in restores),
            "skippedFiles": sum(len(restore["skippedFiles"]) for restore in restores),
            "conflicts": sum(len(restore["conflicts"]) for restore in restores),
            "sqliteOnly": sum(len(target.extra["sqliteOnly"]) for target in self.targets),
            "sqliteNewer": sum(len(target.extra["sqliteNewer"]) for target in self.targets),
        }

    def text(self, *, dry_run: bool) -> Iterator[str]:
        """The report for people; the last line says what an older runtime will not see."""
        totals = self.totals()
        yield (
            f"session-sqlite restore: {totals['targets']} target(s), {totals['restoredFiles']} file(s)"
            f" {'to restore' if dry_run else 'restored'}, {totals['skippedFiles']} skipped,"
            f" {totals['conflicts']} conflict(s), {totals['issues']} issue(s)"
        )
        for target in self.targets:
            yield from _target_text(target, dry_run=dry_run)
        yield from issue_text(self.issues)
        if not totals["restoredFiles"] and not totals["conflicts"]:
            yield "Nothing to restore: no manifest has an archived file whose original is missing."
        yield from _older_text(self.targets)
        if dry_run:
            yield "Dry run: nothing was changed."


def restored_target(
    record: TargetRecord, runs: Iterable[Run], outcomes: Outcomes, remaining: Remaining
) -> TargetReport:
    """One store's part of the report."""
    report = TargetReport(record.agent_id, record.store_path, record.sqlite_path)
    report.sqlite_entries = remaining.sqlite_entries
    listed: dict[str, list[str]] = {"restored": [], "skipped": []}
    conflicts = []
    for decision, outcome in outcomes.items():
        source = str(decision.claim.source_path)
        if outcome.word in listed:
            listed[outcome.word].append(source)
        else:
            archive = str(decision.claim.archive_path)
            conflicts.append({"sourcePath": source, "archivePath": archive, "reason": outcome.reason})
        report.issues.extend(_issues(decision, outcome))
    report.issues.extend(remaining.issues)
    report.extra = {
        "restore": {
            "manifestPaths": [str(run.path) for run in runs],
            "restoredFiles": listed["restored"],
            "skippedFiles": listed["skipped"],
            "conflicts": conflicts,
        },
        "files": [_file(decision, outcome) for decision, outcome in outcomes.items()],
        "sqliteOnly": remaining.only,
        "sqliteNewer": remaining.newer,
    }
    return report


def _file(decision: Decision, outcome: Outcome) -> dict[str, Any]:
    claim, look = decision.claim, decision.look
    return {
        "sourcePath": str(claim.source_path),
        "archivePath": str(claim.archive_path),
        "kind": claim.kind,
        "outcome": outcome.word,
        "reason": outcome.reason,
        "bytes": look.size_bytes if look.sha256 is not None else None,
        "sha256": look.sha256,
    }


def _issues(decision: Decision, outcome: Outcome) -> Iterator[Issue]:
    claim = decision.claim
    facts = {"sourcePath": str(claim.source_path), "archivePath": str(claim.archive_path)}
    if outcome.word in ("conflict", "failed"):
        code = "restore_conflict" if outcome.word == "conflict" else "restore_failed"
        message = f"{claim.source_path}: {outcome.reason}; the archive stays"
        yield Issue(code, "error", message, claim.session_key, facts)
    elif outcome.word == "skipped" and decision.look.state is State.UNUSABLE:
        yield Issue("archive_unusable", "warning", f"{claim.archive_path}: {outcome.reason}", claim.session_key, facts)


def _target_text(target: TargetReport, *, dry_run: bool) -> Iterator[str]:
    restore = target.extra["restore"]
    done = [file for file in target.extra["files"] if file["outcome"] == "restored"]
    yield (
        f"- {target.agent_id}: restored={len(done)} ({sum(file['bytes'] for file in done)} bytes),"
        f" skipped={len(restore['skippedFiles'])}, conflicts={len(restore['conflicts'])},"
        f" manifests={len(restore['manifestPaths'])}"
    )
    yield f"  index {target.store_path}"
    yield f"  store {target.sqlite_path}"
    for file in done[:MAX_SHOWN_ISSUES]:
        yield f"  {'would restore' if dry_run else 'restored'} {file['sourcePath']}"
    yield from more(len(done))
    yield from issue_text(target.issues)


def _older_text(targets: Iterable[TargetReport]) -> Iterator[str]:
    """What stays behind in the database, by name."""
    newer = [item for target in targets for item in target.extra["sqliteNewer"]]
    only = [item for target in targets for item in target.extra["sqliteOnly"]]
    if newer:
        yield f"Newer turns only in SQLite, an older runtime will not see them: {_named(newer)}"
    if only:
        yield f"Only in SQLite, an older runtime will not see them: {_named(only)}"
    else:
        yield "No session exists only in SQLite: an older runtime will see them all."


def _named(found: list[dict[str, Any]]) -> str:
    shown = ", ".join(f"{item['sessionKey']} ({item['sessionId']})" for item in found[:MAX_SHOWN_ISSUES])
    rest = len(found) - MAX_SHOWN_ISSUES
    return f"{len(found)} session(s): {shown}" + (f" and {rest} more (--json lists all)" if rest > 0 else "")
