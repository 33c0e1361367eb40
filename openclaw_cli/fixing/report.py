"""The report of `doctor fix`: that of a recovery, and what was done to rows and settings."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from openclaw_cli.fixing import canonicalising, configuring
from openclaw_cli.fixing.canonicalising import Canonicalised
from openclaw_cli.fixing.configuring import ConfigPlan
from openclaw_cli.migration.recover_report import RecoverReport, Status
from openclaw_cli.migration.reporting import TargetReport

NEEDS_SUCCESSOR = "transcript_needs_successor"
"""Code of the warning that names a stored transcript with which OpenClaw does not go on."""


@dataclass(slots=True)
class FixReport(RecoverReport):
    """All stores of a fix. `plan`: the steps in words, as they were printed before the first of them."""

    plan: list[str] = field(default_factory=list)
    rows: dict[str, Canonicalised] = field(default_factory=dict)
    config: ConfigPlan | None = None
    backup: Path | None = None

    def verdict(self) -> Status:
        """The status of the whole run; a setting that was changed is a repair."""
        found = RecoverReport.verdict(self)
        changed = self.config is not None and self.config.changes
        return Status.REPAIRED if found is Status.CLEAN and changed else found

    def status_of(self, target: TargetReport) -> Status:
        """What a fix says of one store."""
        found = RecoverReport.status_of(self, target)
        rows = self.rows.get(target.agent_id)
        changed = rows is not None and (rows.fixes or rows.main_key)
        return Status.REPAIRED if found is Status.CLEAN and changed else found

    def advice(self, *, dry_run: bool) -> str:
        """One line that says what to do."""
        if self.config is not None and self.config.by_hand and self.verdict() is Status.BLOCKED:
            return "Not all of it: edit the configuration as the errors above say, then run this again."
        if self.verdict() is Status.CLEAN and any(issue.code == NEEDS_SUCCESSOR for issue in self.all_issues()):
            return "Stores, rows and settings are sound; the transcripts named above need a successor to go on."
        if self.verdict() is Status.CLEAN:
            return "Nothing to do: stores, rows and settings are sound and no run is open."
        return RecoverReport.advice(self, dry_run=dry_run)

    def as_json(self, *, dry_run: bool) -> dict[str, Any]:
        """The document of `--json`."""
        document = RecoverReport.as_json(self, dry_run=dry_run)
        for target, item in zip(self.targets, document["targets"], strict=True):
            rows = self.rows.get(target.agent_id)
            item["canonicalised"] = None if rows is None else rows.as_json()
        document["plan"] = self.plan
        document["config"] = None if self.config is None else configuring.as_json(self.config, self.backup)
        return document

    def _target_text(self, target: TargetReport, *, dry_run: bool) -> Iterator[str]:
        yield from RecoverReport._target_text(self, target, dry_run=dry_run)
        rows = self.rows.get(target.agent_id)
        if rows is not None:
            yield from canonicalising.words_of(rows, dry_run=dry_run)

    def text(self, *, dry_run: bool) -> Iterator[str]:
        """The report for people: that of the recovery, with the settings before its last line."""
        lines = list(RecoverReport.text(self, dry_run=dry_run))
        last = 2 if dry_run else 1
        yield from lines[:-last]
        yield from self._config_text(dry_run=dry_run)
        yield from lines[-last:]

    def _config_text(self, *, dry_run: bool) -> Iterator[str]:
        if self.config is None or not self.config.changes:
            return
        yield f"settings of {self.config.path}:"
        for change in self.config.changes:
            to = f" to {change.to}" if change.to else ""
            yield f"  {change.key}: {'would be ' if dry_run else ''}{change.action}{to}: {change.reason}"
        if self.backup is not None:
            yield f"  the file as it was: {self.backup}"
