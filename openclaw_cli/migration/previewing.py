"""The dry run of an import: the same plan, the same reading, the same counts, and nothing written."""

from __future__ import annotations

from collections.abc import Iterable

from openclaw_cli.durable import SourceChangedError
from openclaw_cli.errors import Issue
from openclaw_cli.migration import comparing
from openclaw_cli.migration.job import (
    Job,
    divergent_issue,
    is_skipped,
    missing_issues,
    new_report,
    open_reading,
    unreadable,
)
from openclaw_cli.migration.plan import SessionPlan, TargetPlan
from openclaw_cli.migration.reporting import Report, TargetReport
from openclaw_cli.storage import events
from openclaw_cli.storage.projections import storable


def dry_run(job: Job, plans: Iterable[TargetPlan]) -> Report:
    """What `run` would do, with the same counts; nothing is written and no lock is taken."""
    report = Report("dry-run")
    for plan in plans:
        target = new_report(plan, job.rules)
        report.targets.append(target)
        with comparing.Existing(job.target_of, target.issues) as existing:
            for session in plan.sessions:
                if not is_skipped(session, job.rules, target):
                    _try_session(session, existing, job, plan, target)
            target.sqlite_entries = existing.entries(plan.target)
    return report


def _try_session(
    session: SessionPlan, existing: comparing.Existing, job: Job, plan: TargetPlan, report: TargetReport
) -> None:
    """Read one session as the import would and count what it would validate."""
    store = existing.of(session.agent_id, plan.target)
    keys = {keyed.key for keyed in session.keys if not keyed.superseded}
    if store is not None and not job.rules.prefer_index:
        stale = [issue for keyed in session.keys for issue in comparing.stale_issues(store, keyed)]
        report.issues.extend(stale)
        keys -= {str(issue.session_key) for issue in stale}
    reading = open_reading(session, job, store)
    if reading is None:
        stored = 0 if store is None else events.count(store, session.session_id)
        report.issues.extend(missing_issues(session, stored_events=stored))
        report.validated_entries += len(keys)
        return
    duplicates = comparing.Duplicates(store, session.session_id)
    key = session.keys[-1].key
    try:
        for text, value in reading.events():
            duplicates.add(text, value)
    except SourceChangedError as error:
        report.issues.append(Issue("source_changed", "error", error.message, key))
    except OSError as error:
        report.issues.append(unreadable(session, error))
    else:
        if duplicates.divergent:
            report.issues.append(divergent_issue(session, duplicates.divergent, job.rules))
        if not duplicates.divergent or job.rules.salvage:
            report.validated_entries += len(keys)
            report.validated_events += reading.offered - len(duplicates.divergent)
    if reading.parents is not None:
        reading.parents.settle(
            lambda own: store is not None and events.has_event(store, session.session_id, storable(own))
        )
        report.parent_breaks += reading.parents.breaks
    report.count_lines(reading.tally)
    report.issues.extend(reading.issues(key))
