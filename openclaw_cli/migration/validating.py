"""`doctor validate`: whether what the old index and its transcripts say is in the store, row for row; reads only."""

from __future__ import annotations

from collections.abc import Iterable

from openclaw_cli.durable import SourceChangedError
from openclaw_cli.errors import Issue
from openclaw_cli.migration import comparing
from openclaw_cli.migration.job import Job, new_report, open_reading
from openclaw_cli.migration.plan import KeyPlan, SessionPlan, TargetPlan
from openclaw_cli.migration.reporting import Report, TargetReport
from openclaw_cli.storage.connection import Store

_NODE = "SELECT current_session_id, entry_valid FROM session_nodes WHERE session_key = ?"


def validate(job: Job, plans: Iterable[TargetPlan]) -> Report:
    """Compare each session of the plans with the stores.

    A key must lead to the same session id, and every event of the transcript must be in the store with the same text;
    more events there are no fault (the session went on).
    """
    report = Report("validate")
    for plan in plans:
        target = new_report(plan, job.rules)
        report.targets.append(target)
        with comparing.Existing(job.target_of, target.issues) as existing:
            for session in plan.sessions:
                _validate_session(session, existing.of(session.agent_id, plan.target), job, target)
            target.sqlite_entries = existing.entries(plan.target)
    return report


def _validate_session(session: SessionPlan, store: Store | None, job: Job, report: TargetReport) -> None:
    for keyed in session.keys:
        if keyed.superseded:
            continue
        issue = _key_issue(keyed, session.session_id, store)
        if issue is None:
            report.validated_entries += 1
        else:
            report.issues.append(issue)
    if session.source is not None:
        _validate_events(session, store, job, report)


def _key_issue(keyed: KeyPlan, session_id: str, store: Store | None) -> Issue | None:
    row = None if store is None else store.execute(_NODE, (keyed.key,)).fetchone()
    if row is None or row[1] != 1:
        wrong = "has no row in the store" if row is None else "has a row in the store that is not valid"
        return Issue("sqlite_entry_missing", "error", f"the key {wrong}", keyed.key)
    if row[0] != session_id:
        message = f"the key leads to session {row[0]} in the store, to {session_id} in the index"
        return Issue("sqlite_entry_mismatch", "error", message, keyed.key)
    return None


def _validate_events(session: SessionPlan, store: Store | None, job: Job, report: TargetReport) -> None:
    reading = open_reading(session, job)
    if reading is None:
        return
    contained = comparing.Contained(store, session.session_id)
    key = session.keys[0].key
    try:
        for text, value in reading.events():
            contained.add(text, value)
    except SourceChangedError as error:
        report.issues.append(Issue("source_changed", "error", error.message, key))
    except OSError as error:
        message = f"{reading.source.path} cannot be read: {error.strerror}"
        report.issues.append(Issue("transcript_unreadable", "error", message, key))
    else:
        report.validated_events += contained.found
        if contained.found != reading.offered:
            message = (
                f"{reading.source.path}: {reading.offered - contained.found} of {reading.offered} events are not in"
                " the store as they stand in the file"
            )
            report.issues.append(Issue("sqlite_transcript_count_mismatch", "error", message, key))
    report.count_lines(reading.tally)
    report.issues.extend(reading.issues(key))
