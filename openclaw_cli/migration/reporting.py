"""The report of `doctor inspect | dry-run | import | validate`: OpenClaw's keys, and ours beside them (store §6)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from openclaw_cli.errors import Exit, Issue, OpenClawError, status_of
from openclaw_cli.jsonl import Damage, Tally

MAX_SHOWN_ISSUES = 10


@dataclass(slots=True)
class TargetReport:
    """What a mode found out about one store. Counters as in OpenClaw's report; `damage`, `lines_*` are ours.

    `salvaging`: what is salvageable was brought back.
    """

    agent_id: str
    store_path: Path
    sqlite_path: Path
    archived_transcripts: list[Path] = field(default_factory=list)
    archived_unreferenced: list[Path] = field(default_factory=list)
    archived_indexes: list[Path] = field(default_factory=list)
    unreferenced: list[Path] = field(default_factory=list)
    imported_entries: int = 0
    imported_events: int = 0
    imported_trajectory_events: int = 0
    validated_entries: int = 0
    validated_events: int = 0
    legacy_entries: int = 0
    referenced_files: int = 0
    sqlite_entries: int = 0
    lines_total: int = 0
    lines_lost: int = 0
    lines_salvageable: int = 0
    damage: list[Damage] = field(default_factory=list)
    salvaging: bool = False
    parent_breaks: int = 0
    issues: list[Issue] = field(default_factory=list)
    extra: dict[str, Any] = field(default_factory=dict)
    failure: OpenClawError | None = None

    def count_lines(self, tally: Tally) -> None:
        """Add what one reading met."""
        self.lines_total += tally.lines_total
        self.lines_lost += tally.lines_lost
        self.lines_salvageable += tally.lines_salvageable
        self.damage.extend(tally.damage)

    def as_json(self) -> dict[str, Any]:
        """The target's object in the report."""
        document: dict[str, Any] = {
            "agentId": self.agent_id,
            "storePath": str(self.store_path),
            "sqlitePath": str(self.sqlite_path),
            "archivedTranscriptFiles": _paths(self.archived_transcripts),
            "archivedUnreferencedJsonlFiles": _paths(self.archived_unreferenced),
            "archivedLegacyStoreFiles": _paths(self.archived_indexes),
            "unreferencedJsonlFiles": _paths(self.unreferenced),
            "importedEntries": self.imported_entries,
            "importedTranscriptEvents": self.imported_events,
            "importedTrajectoryEvents": self.imported_trajectory_events,
            "validatedEntries": self.validated_entries,
            "validatedTranscriptEvents": self.validated_events,
            "legacyEntries": self.legacy_entries,
            "referencedTranscriptFiles": self.referenced_files,
            "sqliteEntries": self.sqlite_entries,
            "linesTotal": self.lines_total,
            "linesLost": self.lines_lost,
            "linesSalvageable": self.lines_salvageable,
            "damage": [damage.as_json() for damage in self.damage],
            "issues": [issue.as_json() for issue in self.issues],
        }
        if self.salvaging:
            document["linesSalvaged"] = self.lines_salvageable
            document["parentBreaks"] = self.parent_breaks
        return {**document, **self.extra}


@dataclass(slots=True)
class Report:
    """All targets of one run."""

    mode: str
    targets: list[TargetReport] = field(default_factory=list)
    run_id: str | None = None
    manifest_path: Path | None = None
    issues: list[Issue] = field(default_factory=list)

    def all_issues(self) -> Iterator[Issue]:
        """Issues of the run and of its targets."""
        yield from self.issues
        for target in self.targets:
            yield from target.issues

    def status(self) -> Exit:
        """The exit status of the run."""
        failures = [target.failure for target in self.targets if target.failure is not None]
        return status_of(self.all_issues(), failures)

    def as_json(self, *, dry_run: bool) -> dict[str, Any]:
        """The document of `--json`."""
        document: dict[str, Any] = {}
        if self.manifest_path is not None:
            document["migrationRun"] = {"manifestPath": str(self.manifest_path), "runId": self.run_id}
        document["mode"] = self.mode
        document["dryRun"] = dry_run
        document["targets"] = [target.as_json() for target in self.targets]
        document["issues"] = [issue.as_json() for issue in self.issues]
        document["totals"] = self.totals()
        return document

    def totals(self) -> dict[str, int]:
        """Sums over the targets."""
        targets = self.targets
        return {
            "targets": len(targets),
            "archivedLegacyStoreFiles": sum(len(target.archived_indexes) for target in targets),
            "archivedTranscriptFiles": sum(len(target.archived_transcripts) for target in targets),
            "archivedUnreferencedJsonlFiles": sum(len(target.archived_unreferenced) for target in targets),
            "importedEntries": sum(target.imported_entries for target in targets),
            "importedTranscriptEvents": sum(target.imported_events for target in targets),
            "importedTrajectoryEvents": sum(target.imported_trajectory_events for target in targets),
            "issues": sum(1 for _ in self.all_issues()),
            "legacyEntries": sum(target.legacy_entries for target in targets),
            "linesTotal": sum(target.lines_total for target in targets),
            "linesLost": sum(target.lines_lost for target in targets),
            "linesSalvageable": sum(target.lines_salvageable for target in targets),
            "damage": sum(len(target.damage) for target in targets),
            "reclaimedBytes": 0,
            "sqliteEntries": sum(target.sqlite_entries for target in targets),
            "unreferencedJsonlFiles": sum(len(target.unreferenced) for target in targets),
            "validatedEntries": sum(target.validated_entries for target in targets),
            "validatedTranscriptEvents": sum(target.validated_events for target in targets),
        }

    def text(self, *, dry_run: bool) -> Iterator[str]:
        """The report for people."""
        totals = self.totals()
        yield (
            f"session-sqlite {self.mode}: {totals['targets']} target(s), {totals['legacyEntries']} legacy entries,"
            f" {totals['sqliteEntries']} SQLite entries, {totals['issues']} issue(s)"
        )
        for target in self.targets:
            yield from _target_text(target)
        yield from issue_text(self.issues)
        if self.manifest_path is not None:
            yield f"migration run: {self.manifest_path}"
        if dry_run:
            yield "Dry run: nothing was changed."


def _target_text(target: TargetReport) -> Iterator[str]:
    yield (
        f"- {target.agent_id}: imported={target.imported_entries}/{target.imported_events} events,"
        f" validated={target.validated_entries}/{target.validated_events} events,"
        f" archived-unreferenced-jsonl={len(target.archived_unreferenced)},"
        f" unreferenced-jsonl={len(target.unreferenced)}"
    )
    would = target.extra.get("wouldImport")
    if would:
        yield (
            f"  would import {would['sessions']} session(s) / {would['events']} event(s),"
            f" would move {would['files']} file(s) to the archive"
        )
    yield f"  index {target.store_path}"
    yield f"  store {target.sqlite_path}"
    moved = len(target.archived_transcripts) + len(target.archived_indexes)
    if moved:
        yield f"  archived {moved} file(s), the index included: {len(target.archived_indexes)}"
    if target.damage:
        back = "salvaged" if target.salvaging else "salvageable"
        yield (
            f"  damage: {len(target.damage)} place(s), {target.lines_lost} record(s) lost,"
            f" {target.lines_salvageable} {back}, of {target.lines_total} line(s)"
        )
        for damage in target.damage[:MAX_SHOWN_ISSUES]:
            yield (
                f"    {damage.file} line {damage.line}, byte {damage.byte_offset}: {damage.kind},"
                f" {damage.bytes} bytes, {damage.action}"
            )
        yield from more(len(target.damage))
    if target.parent_breaks:
        yield f"  parent breaks: {target.parent_breaks}"
    yield from _stats_text(target.extra)
    yield from _sessions_text(target.extra)
    if target.unreferenced:
        names = ", ".join(path.name for path in target.unreferenced[:MAX_SHOWN_ISSUES])
        yield f"  unreferenced: {names}"
        yield from more(len(target.unreferenced))
    yield from issue_text(target.issues)


def _stats_text(extra: dict[str, Any]) -> Iterator[str]:
    stats = extra.get("dbStats")
    if stats:
        check = stats.get("integrityCheck", "no database")
        yield f"  database {stats['dbSizeBytes']} bytes, log {stats['walSizeBytes']} bytes, quick check: {check}"
        for row in stats["largestSessions"]:
            yield f"  session {row['sessionId']}: {row['events']} event(s), {row['rowBytes']} bytes"
    for big in extra.get("top", ()):
        place = f"seq {big['seq']}" if "seq" in big else f"{big['file']} line {big['line']}"
        named = " ".join(str(big[name]) for name in ("type", "tool") if big[name])
        yield f"  {big['bytes']} bytes: session {big['sessionId']}, {place}, {named or 'unknown'}"


def _sessions_text(extra: dict[str, Any]) -> Iterator[str]:
    archives = extra.get("archives")
    if archives and archives["files"]:
        yield (
            f"  archived originals: {archives['files']} compared, {archives['contained']} of {archives['records']}"
            " event(s) in the store"
        )
    rows = extra.get("sessions", ())
    for row in rows[:MAX_SHOWN_ISSUES]:
        yield (
            f"  {row['sessionKey']} {row['sessionId']}: {row['contained']}/{row['records']} event(s) in the store,"
            f" {row['missingTotal']} missing, {row['differentTotal']} different, {row['extra']} more there;"
            f" {row['source']}"
        )
    yield from more(len(rows))


def issue_text(issues: Iterable[Issue]) -> Iterator[str]:
    """At most ten issues for people, and how many more there are."""
    listed = list(issues)
    # Errors first: with more than ten issues they must not hide behind warnings.
    listed.sort(key=lambda issue: issue.severity != "error")
    for issue in listed[:MAX_SHOWN_ISSUES]:
        place = f" [{issue.session_key}]" if issue.session_key else ""
        yield f"  {issue.severity} {issue.code}{place}: {issue.message}"
    yield from more(len(listed))


def more(count: int) -> Iterator[str]:
    """The line that says how many of `count` items were not shown."""
    if count > MAX_SHOWN_ISSUES:
        yield f"    … {count - MAX_SHOWN_ISSUES} more (--json lists all)"


def _paths(paths: Iterable[Path]) -> list[str]:
    return [str(path) for path in paths]
