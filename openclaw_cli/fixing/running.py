"""`doctor fix`: what would be done, and doing it in the right order.

Recovery first (damaged stores, leftovers, imports, open runs), then rows, then settings: rows can be read only in a
sound store, and an import brings further ones. Each part is a run of its own that a cut leaves whole, so that running
it again finishes it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from openclaw_cli.errors import Issue, OpenClawError
from openclaw_cli.fixing import canonicalising, configuring, transcripts
from openclaw_cli.fixing.canonicalising import Canonicalised
from openclaw_cli.fixing.configuring import ConfigPlan
from openclaw_cli.fixing.report import FixReport
from openclaw_cli.migration import recovering
from openclaw_cli.migration.job import Job
from openclaw_cli.migration.recover_report import RecoverReport
from openclaw_cli.migration.recovering import Diagnosis
from openclaw_cli.migration.reporting import TargetReport
from openclaw_cli.storage.repairing import Condition


@dataclass(frozen=True, slots=True)
class FixPlan:
    """Everything that was decided before anything is written. `rows`: agent → rows that are not in form."""

    diagnoses: list[Diagnosis]
    recovery: RecoverReport
    rows: dict[str, Canonicalised]
    config: ConfigPlan

    def steps(self) -> Iterator[str]:
        """The steps in words, in their order; none when there is nothing to do."""
        for one in self.diagnoses:
            if one.action != "none":
                yield f"{one.target.sqlite_path}: {one.action}"
        for target in self.recovery.targets:
            would = target.extra.get("wouldImport")
            if would and (would["files"] or would["sessions"]):
                yield (
                    f"{target.store_path.parent}: import {would['sessions']} session(s), {would['events']} event(s);"
                    f" archive {would['files']} file(s)"
                )
        for path in self.recovery.settled:
            yield f"{path}: close the run"
        for agent_id, found in self.rows.items():
            if found.fixes or found.main_key:
                yield f"store of {agent_id}: bring {len(found.fixes)} row(s) into form"
        for change in self.config.changes:
            yield f"{self.config.path}: {change.key} is {change.action}{f' to {change.to}' if change.to else ''}"


def decide(job: Job, config: ConfigPlan) -> FixPlan:
    """Look at everything; nothing is written."""
    diagnoses = recovering.diagnose(job)
    recovery = recovering.preview(job, diagnoses)
    rows: dict[str, Canonicalised] = {}
    for one, part in zip(diagnoses, recovery.targets, strict=True):
        if one.health.condition is Condition.SOUND and part.failure is None:
            try:
                rows[one.target.agent_id] = canonicalising.preview(one.target, job.rules, job.now_ms)
            except OpenClawError as error:
                _fail(part, error)
    return FixPlan(diagnoses, recovery, rows, config)


def preview(job: Job, plan: FixPlan) -> FixReport:
    """The report of a dry run."""
    report = _report(plan.recovery, plan)
    for part in report.targets:
        found = plan.rows.get(part.agent_id)
        if found is not None:
            report.rows[part.agent_id] = found
            part.issues.extend(found.issues)
            _name_transcripts(job, part)
    report.issues.extend(plan.config.issues())
    return report


def act(job: Job, plan: FixPlan) -> FixReport:
    """Do what was planned. The caller owns the state directory.

    What keeps one store from being mended is its failure; the others, and the settings, are mended all the same.
    """
    report = _report(recovering.act(job, plan.diagnoses), plan)
    by_agent = {target.agent_id: target for target in job.targets}
    for part in report.targets:
        target = by_agent[part.agent_id]
        if part.failure is not None or not target.sqlite_path.exists():
            continue
        try:
            done = canonicalising.act(target, job.rules, job.now_ms, job.timeouts)
        except OpenClawError as error:
            _fail(part, error)
            continue
        report.rows[part.agent_id] = done
        part.issues.extend(done.issues)
        _name_transcripts(job, part)
    try:
        report.backup = configuring.act(plan.config, job.now_ms)
    except OpenClawError as error:
        report.config = None
        report.issues.append(Issue("config_not_written", "error", error.message, facts={"path": str(plan.config.path)}))
    report.issues.extend(plan.config.issues())
    return report


def _report(recovery: RecoverReport, plan: FixPlan) -> FixReport:
    return FixReport(
        "fix",
        recovery.targets,
        recovery.run_id,
        recovery.manifest_path,
        recovery.issues,
        recovery.settled,
        recovery.mendings,
        plan=list(plan.steps()),
        config=plan.config,
    )


def _name_transcripts(job: Job, part: TargetReport) -> None:
    target = next(target for target in job.targets if target.agent_id == part.agent_id)
    try:
        part.issues.extend(transcripts.issues(target))
    except OpenClawError as error:
        _fail(part, error)


def _fail(part: TargetReport, error: OpenClawError) -> None:
    part.failure = error
    part.issues.append(Issue(f"sqlite_{error.code}", "error", error.message))
