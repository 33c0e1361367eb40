"""The report of `doctor check`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from openclaw_cli.checks.finding import Finding
from openclaw_cli.checks.sizes import Biggest
from openclaw_cli.config import Target
from openclaw_cli.errors import CorruptError, Exit, OpenClawError, escaped
from openclaw_cli.storage.shared import JobHistory

MOST_SHOWN = 40
"""Findings of one store that people are shown; `--json` has all."""


@dataclass(slots=True)
class TargetFindings:
    """What was found in one store. `failure`: why it could not be looked at, or not be believed."""

    target: Target
    findings: list[Finding] = field(default_factory=list)
    biggest: Biggest = field(default_factory=Biggest)
    sessions: int = 0
    events: int = 0
    failure: OpenClawError | None = None

    def as_json(self) -> dict[str, Any]:
        """The target's object."""
        return {
            "agentId": self.target.agent_id,
            "storePath": str(self.target.store_path),
            "sqlitePath": str(self.target.sqlite_path),
            "sessions": self.sessions,
            "events": self.events,
            "biggest": self.biggest.as_json(),
            "findings": [finding.as_json() for finding in self.findings],
        }


@dataclass(slots=True)
class CheckReport:
    """All stores of one run, and what concerns the state directory as a whole."""

    state_dir: Path
    findings: list[Finding] = field(default_factory=list)
    targets: list[TargetFindings] = field(default_factory=list)
    cron: list[JobHistory] = field(default_factory=list)

    def all_findings(self) -> Iterator[Finding]:
        """Those of the state directory, then those of the stores."""
        yield from self.findings
        for target in self.targets:
            yield from target.findings

    def status(self) -> Exit:
        """CORRUPT for a damaged store, ISSUES for any other finding, else OK."""
        if any(isinstance(target.failure, CorruptError) for target in self.targets):
            return Exit.CORRUPT
        return Exit.ISSUES if any(True for _ in self.all_findings()) else Exit.OK

    def as_json(self) -> dict[str, Any]:
        """The document of `--json`."""
        by_code = Counter(finding.code for finding in self.all_findings())
        severities = Counter(finding.severity for finding in self.all_findings())
        return {
            "mode": "check",
            "stateDir": str(self.state_dir),
            "targets": [target.as_json() for target in self.targets],
            "findings": [finding.as_json() for finding in self.findings],
            "cron": [job.as_json() for job in self.cron],
            "totals": {
                "targets": len(self.targets),
                "sessions": sum(target.sessions for target in self.targets),
                "events": sum(target.events for target in self.targets),
                "findings": by_code.total(),
                "errors": severities["error"],
                "warnings": severities["warning"],
                "byCode": dict(sorted(by_code.items())),
            },
        }

    def text(self) -> Iterator[str]:
        """The report for people."""
        count = sum(1 for _ in self.all_findings())
        yield f"check: {len(self.targets)} store(s), {count} finding(s)"
        yield from _lines(self.findings)
        for job in self.cron[:MOST_SHOWN]:
            lost = f", {job.lost} lost" if job.lost else ""
            gone = "" if job.known else ", of a job that is gone"
            yield f"- cron job {escaped(job.job_id)}: {job.runs} run(s), {job.receipts} receipt(s){lost}{gone}"
        for target in self.targets:
            yield (
                f"- {target.target.agent_id}: {target.sessions} session(s), {target.events} event(s),"
                f" {len(target.findings)} finding(s), {target.target.sqlite_path}"
            )
            for row in target.biggest.as_json()["sessions"][:3]:
                yield f"  biggest: session {row['sessionId']}, {row['events']} event(s), {row['bytes']} bytes"
            for row in target.biggest.as_json()["events"][:3]:
                named = " ".join(str(row[name]) for name in ("type", "tool") if row[name])
                place = f"session {row['sessionId']} seq {row['seq']}"
                yield f"  biggest: {row['bytes']} bytes, {place}, {named or 'unknown'}"
            yield from _lines(target.findings)


def _lines(findings: list[Finding]) -> Iterator[str]:
    listed = sorted(findings, key=lambda finding: finding.severity != "error")
    for finding in listed[:MOST_SHOWN]:
        yield f"  {finding.severity} {finding.code}: {finding.message}"
        if finding.advice:
            yield f"    {finding.advice}"
        if finding.command:
            yield f"    -> {finding.command}"
    if len(listed) > MOST_SHOWN:
        yield f"  … {len(listed) - MOST_SHOWN} more (--json lists all)"
