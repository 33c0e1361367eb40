"""The dry run of an import: the same plan, the same reading, the same counts, and nothing written."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from openclaw_cli import manifest
from openclaw_cli.durable import SourceChangedError
from openclaw_cli.errors import Issue, OpenClawError
from openclaw_cli.migration import archiving, comparing, importing, originals
from openclaw_cli.migration.discovery import Source
from openclaw_cli.migration.job import (
    Job,
    both_sides_issue,
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
from openclaw_cli.storage.connection import Store
from openclaw_cli.storage.projections import storable


def dry_run(job: Job, plans: Iterable[TargetPlan]) -> Report:
    """What `run` would do and meet, with the same counts; nothing is written and no lock is taken.

    Raises `NoSpaceError` as the import does.
    """
    plans = list(plans)
    importing.check_space(plans)
    report = Report("dry-run", issues=list(_run_issues(job)))
    for plan in plans:
        target = new_report(plan, job.rules)
        report.targets.append(target)
        _try_target(plan, job, target)
    return report


@dataclass(slots=True)
class _Would:
    """What an import of one store would do. `stays`: transcripts that must not move."""

    sessions: int = 0
    events: int = 0
    files: int = 0
    waiting: int = 0
    stays: set[Path] = field(default_factory=set)
    moves: dict[Path, tuple[Source, SessionPlan]] = field(default_factory=dict)

    def as_json(self) -> dict[str, int]:
        return {"sessions": self.sessions, "events": self.events, "files": self.files}


def _run_issues(job: Job) -> Iterator[Issue]:
    """What the import would say of earlier runs before it begins."""
    for run in manifest.runs(job.state_dir):
        if isinstance(run, manifest.ManifestInvalidError):
            yield Issue("manifest_invalid", "error", run.message)


def _try_target(plan: TargetPlan, job: Job, report: TargetReport) -> None:
    """One store, up to where an import of it would end."""
    would = _Would()
    with comparing.Existing(job.target_of, report, writes=True) as existing:
        try:
            for session in plan.sessions:
                if not is_skipped(session, job.rules, report):
                    _try_session(session, existing, job, plan, report, would)
            report.sqlite_entries = existing.entries(plan.target)
        except OpenClawError as error:
            # As in the import: this store cannot go on, the others of the run can.
            report.failure = error
            report.issues.append(Issue(f"sqlite_{error.code}", "error", error.message))
            would = _Would()
        else:
            if plan.usable:
                _count_moves(plan, job, would, report)
    report.extra["wouldImport"] = would.as_json()


def _count_moves(plan: TargetPlan, job: Job, would: _Would, report: TargetReport) -> None:
    """Count the files that would move; what would stay is said in the words of the import."""
    found: list[tuple[Source, str | None]] = []
    for path, (source, session) in would.moves.items():
        if path in would.stays:
            continue
        key = session.keys[0].key
        found.append((source, key))
        if not source.linked:
            found.extend((sidecar, key) for sidecar in session.sidecars)
    found.extend((source, None) for source in plan.unreferenced)
    for source, key in found:
        if source.linked:
            report.issues.append(archiving.linked_issue(source, key))
        else:
            would.files += 1
    if not plan.index.exists:
        return
    why = originals.why_index_stays(plan, job.rules, would.waiting)
    if why is None:
        would.files += 1
    else:
        report.issues.append(archiving.index_kept(plan.target.store_path, why))


def _try_session(
    session: SessionPlan,
    existing: comparing.Existing,
    job: Job,
    plan: TargetPlan,
    report: TargetReport,
    would: _Would,
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
        would.sessions += _has_new_key(store, session)
        return
    duplicates = comparing.Duplicates(store, session.session_id)
    key = session.keys[-1].key
    committed = False
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
            committed = True
            parting = None if store is None else _parting(store, session, duplicates, reading.offered)
            report.issues.extend([] if parting is None else [parting])
            would.sessions += duplicates.new > 0 or _has_new_key(store, session)
            would.events += duplicates.new
            report.validated_entries += len(keys)
            report.validated_events += reading.offered - len(duplicates.divergent)
    would.moves.setdefault(reading.source.path, (reading.source, session))
    if not committed:
        would.waiting += 1
        would.stays.add(reading.source.path)
    if reading.parents is not None:
        reading.parents.settle(
            lambda own: store is not None and events.has_event(store, session.session_id, storable(own))
        )
        report.parent_breaks += reading.parents.breaks
    report.count_lines(reading.tally)
    report.issues.extend(reading.issues(key))


def _parting(store: Store, session: SessionPlan, found: comparing.Duplicates, offered: int) -> Issue | None:
    """What the import would say where both sides were written to."""
    stored = events.count(store, session.session_id)
    repeated = offered - found.new - len(found.divergent)
    return both_sides_issue(session, new=found.new, stored=stored, repeated=repeated)


def _has_new_key(store: Store | None, session: SessionPlan) -> bool:
    """Whether a key of the session does not lead to it in the store yet."""
    sql = "SELECT 1 FROM session_nodes WHERE session_key = ? AND current_session_id = ?"
    return store is None or any(
        store.value(sql, (keyed.key, session.session_id)) is None for keyed in session.keys if not keyed.superseded
    )
