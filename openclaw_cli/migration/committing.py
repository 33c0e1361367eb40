"""One session on its way into the store: one transaction for rows, events and projections, proven before it ends."""

from __future__ import annotations

from dataclasses import dataclass, replace

from openclaw_cli import manifest
from openclaw_cli.durable import FileIdentity, SourceChangedError
from openclaw_cli.errors import Issue
from openclaw_cli.faults import Step, reached
from openclaw_cli.migration import comparing
from openclaw_cli.migration.job import Job, both_sides_issue, divergent_issue, missing_issues, open_reading, unreadable
from openclaw_cli.migration.plan import KeyPlan, SessionPlan
from openclaw_cli.migration.reading import Reading, SidecarReading
from openclaw_cli.migration.reporting import TargetReport
from openclaw_cli.storage import events, placing, sessions, trajectories
from openclaw_cli.storage.connection import Store
from openclaw_cli.storage.projections import storable


@dataclass(slots=True)
class Outcome:
    """What became of one session. `stays` says why its transcript must not be moved, None when it may."""

    session: SessionPlan
    identity: FileIdentity | None = None
    classification: manifest.Classification = "imported"
    reason: str = "verified-import-original"
    committed: bool = False
    stays: str | None = None


class _RolledBackError(Exception):
    """Ends the transaction of a session; carries the issue that says why."""

    def __init__(self, issue: Issue) -> None:
        super().__init__(issue.code)
        self.issue = issue


def import_session(store: Store, session: SessionPlan, job: Job, report: TargetReport) -> Outcome:
    """Bring one session into the store, whole or not at all."""
    outcome = Outcome(session)
    reading = open_reading(session, job, store)
    key = session.keys[-1].key
    try:
        with store.transaction():
            counts = _write_session(store, session, reading, job, report)
            reached(Step.SESSION_ROWS_WRITTEN)
        reached(Step.SESSION_COMMITTED)
    except _RolledBackError as error:
        report.issues.append(error.issue)
        outcome.stays = error.issue.code
    except SourceChangedError as error:
        report.issues.append(Issue("source_changed", "error", error.message, key))
        outcome.stays = error.code
    except OSError as error:
        report.issues.append(unreadable(session, error))
        outcome.stays = "transcript_unreadable"
    else:
        outcome.committed = True
        _count_session(report, counts)
        _classify(outcome, reading, counts)
        report.issues.extend(issue for issue in (counts.conflict, counts.parting) if issue is not None)
    if reading is not None:
        report.count_lines(reading.tally)
        report.parent_breaks += reading.parents.breaks if reading.parents is not None else 0
        report.issues.extend(reading.issues(key))
        outcome.identity = reading.identity
    return outcome


@dataclass(slots=True)
class Counts:
    """What the transaction of one session wrote and found. `conflict`: rows that a salvage left out."""

    entries: int = 0
    validated_entries: int = 0
    new_events: int = 0
    events: int = 0
    repeated: int = 0
    stored_before: int = 0
    trajectory_events: int = 0
    conflict: Issue | None = None
    parting: Issue | None = None


def _write_session(
    store: Store, session: SessionPlan, reading: Reading | None, job: Job, report: TargetReport
) -> Counts:
    """All rows of one session, and the proof that they are there; inside the session's transaction."""
    before = events.count(store, session.session_id)
    counts = Counts(stored_before=before)
    # A row that another one of the same key supersedes comes last: it is kept as history then, not as the key's row.
    keys = sorted(session.keys, key=lambda keyed: keyed.superseded)
    counts.entries += _write_key(store, keys[0], job, report)
    if reading is None:
        report.issues.extend(missing_issues(session, stored_events=before))
    else:
        _append_events(store, session, reading, counts, job)
        counts.trajectory_events = _load_trajectories(store, session, job, report)
    # Further keys come behind the events, as in the real import: their windows have seen the transcript.
    for keyed in keys[1:]:
        counts.entries += _write_key(store, keyed, job, report)
    counts.validated_entries = _validated_keys(store, session)
    return counts


def _write_key(store: Store, keyed: KeyPlan, job: Job, report: TargetReport) -> int:
    result = sessions.write_entry(
        store,
        keyed.key,
        keyed.entry,
        entry_text=keyed.text,
        now_ms=job.now_ms,
        acp_receipt=keyed.receipt,
        prefer_index=job.rules.prefer_index and not keyed.superseded,
        time_invented=keyed.time_invented,
    )
    if result == "kept_newer" and not keyed.superseded:
        report.issues.extend(comparing.stale_issues(store, keyed))
    return int(result == "written")


def _append_events(store: Store, session: SessionPlan, reading: Reading, counts: Counts, job: Job) -> None:
    """Append the transcript and compare count and order of what is stored with what was read."""
    appended = events.append(
        store,
        session.keys[0].key,
        session.session_id,
        reading.events(),
        now_ms=job.now_ms,
        observed_ms=reading.source.mtime_ms,
    )
    before = counts.stored_before
    if job.rules.salvage and before and appended.new:
        _place(store, session, job, appended.new)
    if appended.divergent:
        positions = [(item.position, item.event_id) for item in appended.divergent]
        counts.conflict = divergent_issue(session, positions, job.rules)
        if not job.rules.salvage:
            raise _RolledBackError(counts.conflict)
    if reading.parents is not None:
        reading.parents.settle(lambda own: events.has_event(store, session.session_id, storable(own)))
    counts.new_events, counts.repeated = appended.new, appended.repeated
    counts.events = appended.new + appended.repeated
    counts.parting = both_sides_issue(session, new=appended.new, stored=before, repeated=appended.repeated)
    stored = events.count(store, session.session_id)
    if stored != before + appended.new or counts.events + len(appended.divergent) != reading.offered:
        message = (
            f"{reading.source.path}: {reading.offered} events read, {appended.new} new and {appended.repeated} known,"
            f" but the store went from {before} to {stored}; nothing of the session was committed"
        )
        issue = Issue("sqlite_transcript_count_mismatch", "error", message, session.keys[0].key)
        raise _RolledBackError(issue)


def _place(store: Store, session: SessionPlan, job: Job, new: int) -> None:
    """Put events that are new to a session which is stored already where the file has them."""
    again = open_reading(session, replace(job, on_bytes=None), store)
    if again is None:
        return
    values = (value for _, value in again.events())
    anchors = list(comparing.anchors(store, session.session_id, values, new))
    if anchors:
        placing.place(store, session.session_id, anchors, job.now_ms)


def _load_trajectories(store: Store, session: SessionPlan, job: Job, report: TargetReport) -> int:
    """Rows of the trajectory sidecar; a damaged line of it costs only that line, the file stays in the archive."""
    loaded = 0
    for sidecar in session.sidecars:
        if not sidecar.name.endswith(".trajectory.jsonl"):
            continue
        lines = SidecarReading(sidecar, job.rules.max_line_bytes)
        loaded += trajectories.insert(store, session.session_id, lines.rows(), file_ms=sidecar.mtime_ms)
        report.issues.extend(lines.issues(session.keys[0].key))
    return loaded


def _validated_keys(store: Store, session: SessionPlan) -> int:
    """Number of the session's keys that lead to it in the store and are valid for every reader."""
    sql = "SELECT 1 FROM session_nodes WHERE session_key = ? AND current_session_id = ? AND entry_valid = 1"
    keys = {keyed.key for keyed in session.keys}
    return sum(store.value(sql, (key, session.session_id)) is not None for key in keys)


def _count_session(report: TargetReport, counts: Counts) -> None:
    report.imported_entries += counts.entries
    report.imported_events += counts.new_events
    report.imported_trajectory_events += counts.trajectory_events
    report.validated_entries += counts.validated_entries
    report.validated_events += counts.events


def _classify(outcome: Outcome, reading: Reading | None, counts: Counts) -> None:
    """What the manifest says of the original: only one whose every line is in the store may ever be disposed of."""
    if counts.conflict is not None or (reading is not None and reading.tally.damage):
        outcome.classification, outcome.reason = "protected", "unimported-or-unknown-history"
    elif outcome.session.historical:
        outcome.classification, outcome.reason = "protected", "indexed-historical-primary"
    elif counts.repeated > counts.stored_before:
        outcome.classification = "repair-original"
