"""`doctor import` and its dry run: file-era sessions into SQLite, validated before any file moves.

Both start from the same plan and read through the same reader; the import commits and archives, the dry run counts.
One transaction per session holds its rows, its events and all projections: a session is in the store whole or not.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from openclaw_cli import manifest
from openclaw_cli.config.paths import Target
from openclaw_cli.durable import FileIdentity, SourceChangedError, free_bytes, sync_file
from openclaw_cli.errors import Issue, NoSpaceError, OpenClawError
from openclaw_cli.faults import Step, reached
from openclaw_cli.migration import archiving, comparing
from openclaw_cli.migration.archiving import Request
from openclaw_cli.migration.discovery import FileClass, Source
from openclaw_cli.migration.plan import KeyPlan, Rules, SessionPlan, TargetPlan, plan_target
from openclaw_cli.migration.reading import OnBytes, Reading, SidecarReading, lines_of
from openclaw_cli.migration.reporting import Report, TargetReport
from openclaw_cli.storage import connection, events, sessions, space, trajectories
from openclaw_cli.storage.connection import Store, Timeouts

SPACE_FACTOR = 2.2
"""Room that database and log need at most, in multiples of the source (design: storage rules)."""


@dataclass(frozen=True, slots=True)
class Job:
    """One run over one or more stores. `target_of` gives the store of any agent (a row may belong to another)."""

    state_dir: Path
    targets: tuple[Target, ...]
    rules: Rules
    now_ms: int
    target_of: Callable[[str], Target]
    timeouts: Timeouts = field(default_factory=Timeouts)
    on_bytes: OnBytes | None = None


@dataclass(slots=True)
class Outcome:
    """What became of one session. `stays` says why its transcript must not be moved, None when it may."""

    session: SessionPlan
    identity: FileIdentity | None = None
    classification: manifest.Classification = "imported"
    reason: str = "verified-import-original"
    committed: bool = False
    stays: str | None = None


def plan_all(job: Job) -> list[TargetPlan]:
    """The plans of all stores of a run; nothing is written."""
    return [plan_target(target, job.rules, job.now_ms) for target in job.targets]


def dry_run(job: Job, plans: Iterable[TargetPlan]) -> Report:
    """What `run` would do, with the same counts; nothing is written and no lock is taken."""
    report = Report("dry-run")
    for plan in plans:
        target = new_report(plan)
        report.targets.append(target)
        with comparing.Existing(job.target_of, target.issues) as existing:
            for session in plan.sessions:
                if not _is_skipped(session, job.rules, target):
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
    reading = open_reading(session, job)
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
        report.issues.append(_unreadable(session, error))
    else:
        if duplicates.divergent:
            report.issues.append(divergent_issue(session, duplicates.divergent, job.rules.max_line_bytes))
        else:
            report.validated_entries += len(keys)
            report.validated_events += reading.offered
    report.count_lines(reading.tally)
    report.issues.extend(reading.issues(key))


def run(job: Job, plans: list[TargetPlan]) -> Report:
    """Import. The caller owns the state directory. Raises `NoSpaceError` before anything is written."""
    report = Report("import")
    check_space(plans)
    settled, issues = archiving.settle_cut_runs(job.state_dir, job.targets, job.now_ms)
    report.issues.extend(issues)
    if settled:
        plans = plan_all(job)
    if not any(plan.has_work for plan in plans):
        report.targets.extend(_idle_report(plan, settled) for plan in plans)
        return report
    records = [archiving.real_paths(plan.target) for plan in plans]
    started = manifest.create(job.state_dir, records, now_ms=job.now_ms)
    report.run_id, report.manifest_path = started.manifest.run_id, started.path
    for plan, record in zip(plans, records, strict=True):
        target = new_report(plan)
        report.targets.append(target)
        count_moves(target, [move for move in settled if move.source_path.parent == record.sessions_dir])
        _import_target(plan, record, started, job, target)
    started.complete(job.now_ms, failed=any(target.failure is not None for target in report.targets))
    return report


def _idle_report(plan: TargetPlan, settled: list[manifest.Move]) -> TargetReport:
    """The report of a store in which there was nothing left to import; no manifest is written for that."""
    report = new_report(plan)
    count_moves(
        report, [move for move in settled if move.source_path.parent == plan.target.store_path.parent.resolve()]
    )
    if plan.target.sqlite_path.exists():
        with connection.open_read(plan.target.sqlite_path) as store:
            report.sqlite_entries = sum(1 for _ in sessions.read_nodes(store, columns=["session_key"]))
    return report


def check_space(plans: Iterable[TargetPlan]) -> None:
    """Refuse when a file system has less room than databases and logs may need."""
    needed: dict[int, int] = {}
    places: dict[int, Path] = {}
    for plan in plans:
        place = _existing_parent(plan.target.sqlite_path)
        device = os.stat(place).st_dev
        places[device] = place
        needed[device] = needed.get(device, 0) + int(plan.source_bytes * SPACE_FACTOR)
    for device, place in places.items():
        free = free_bytes(place)
        if free < needed[device]:
            raise NoSpaceError(
                f"the import needs {needed[device]} bytes on the file system of {place}, {free} are free",
                hint="free some space, then run again; nothing was changed",
                neededBytes=needed[device],
                freeBytes=free,
            )


def new_report(plan: TargetPlan) -> TargetReport:
    """A target's report with what the plan alone says."""
    return TargetReport(
        plan.target.agent_id,
        plan.target.store_path,
        plan.target.sqlite_path,
        unreferenced=[source.path for source in plan.unreferenced],
        legacy_entries=sum(len(session.keys) for session in plan.sessions),
        referenced_files=plan.referenced_files,
        issues=list(plan.issues),
    )


# --- one store ----------------------------------------------------------------------------------------------------


class Stores:
    """The databases of a run, opened or created when a session needs them."""

    def __init__(self, job: Job) -> None:
        self._job = job
        self._open: dict[str, Store] = {}

    def of(self, agent_id: str, own: Target) -> Store:
        """The database of an agent, writable."""
        if agent_id not in self._open:
            target = own if own.agent_id == agent_id else self._job.target_of(agent_id)
            self._open[agent_id] = self._writable(target)
        return self._open[agent_id]

    def _writable(self, target: Target) -> Store:
        path, timeouts = target.sqlite_path, self._job.timeouts
        if path.exists():
            store = connection.open_write(path, agent_id=target.agent_id, timeouts=timeouts)
        else:
            store = connection.create(path, agent_id=target.agent_id, now_ms=self._job.now_ms, timeouts=timeouts)
        sessions.set_main_key(store, self._job.rules.main_key, self._job.now_ms)
        return store

    def __iter__(self) -> Iterator[Store]:
        return iter(self._open.values())

    def __enter__(self) -> Stores:
        return self

    def __exit__(self, *_: object) -> None:
        for store in self._open.values():
            store.close()


def _import_target(
    plan: TargetPlan, record: manifest.TargetRecord, started: manifest.Run, job: Job, report: TargetReport
) -> None:
    """Rows first, then validation, then the moves: each stage durable before the next begins."""
    with Stores(job) as stores:
        outcomes = []
        try:
            for session in plan.sessions:
                if _is_skipped(session, job.rules, report):
                    continue
                store = stores.of(session.agent_id, plan.target)
                outcomes.append(import_session(store, session, job, report))
            for store in stores:
                make_durable(store)
        except OpenClawError as error:
            # This store cannot go on (another schema, damage, a full disk); the other stores of the run can.
            report.failure = error
            report.issues.append(Issue(f"sqlite_{error.code}", "error", error.message))
        complete = report.failure is None and plan.usable
        reached(Step.TARGET_VALIDATED)
        started.record_outcome(record, "passed" if complete else "failed", report.issues)
        if complete:
            _archive(plan, outcomes, record, started, job, report)
            started.record_outcome(record, "passed", report.issues)
        report.sqlite_entries = sum(1 for store in stores for _ in sessions.read_nodes(store, columns=["session_key"]))


def _is_skipped(session: SessionPlan, rules: Rules, report: TargetReport) -> bool:
    """Whether `--skip-empty` leaves the rows of a session out: it has no transcript, or an empty one."""
    if not rules.skip_empty or (session.source is not None and session.source.size_bytes > 0):
        return False
    for keyed in session.keys:
        report.issues.append(Issue("empty_session_skipped", "warning", "the row has no transcript", keyed.key))
    return True


def make_durable(store: Store) -> None:
    """Make the committed rows survive a power cut: with synchronous=NORMAL a commit alone does not."""
    result = space.checkpoint(store, "TRUNCATE")
    log = store.path.with_name(store.path.name + "-wal")
    if not result.blocked or not log.exists():
        return
    # A reader holds the log. It stays, so it is the log that must be on the medium.
    descriptor = os.open(log, os.O_RDONLY)
    try:
        sync_file(descriptor)
    finally:
        os.close(descriptor)


# --- one session --------------------------------------------------------------------------------------------------


class _RolledBackError(Exception):
    """Ends the transaction of a session; carries the issue that says why."""

    def __init__(self, issue: Issue) -> None:
        super().__init__(issue.code)
        self.issue = issue


def import_session(store: Store, session: SessionPlan, job: Job, report: TargetReport) -> Outcome:
    """Bring one session into the store, whole or not at all."""
    outcome = Outcome(session)
    reading = open_reading(session, job)
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
        report.issues.append(_unreadable(session, error))
        outcome.stays = "transcript_unreadable"
    else:
        outcome.committed = True
        _count_session(report, counts)
        _classify(outcome, reading, counts)
    if reading is not None:
        report.count_lines(reading.tally)
        report.issues.extend(reading.issues(key))
        outcome.identity = reading.identity
    return outcome


@dataclass(slots=True)
class Counts:
    """What the transaction of one session wrote and found."""

    entries: int = 0
    validated_entries: int = 0
    new_events: int = 0
    events: int = 0
    repeated: int = 0
    stored_before: int = 0
    trajectory_events: int = 0


def open_reading(session: SessionPlan, job: Job) -> Reading | None:
    """The reading of a session's transcript, None when it has none."""
    if session.source is None:
        return None
    return Reading(session.source, session.session_id, max_line_bytes=job.rules.max_line_bytes, on_bytes=job.on_bytes)


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
    if appended.divergent:
        positions = [(item.position, item.event_id) for item in appended.divergent]
        raise _RolledBackError(divergent_issue(session, positions, job.rules.max_line_bytes))
    counts.new_events, counts.repeated = appended.new, appended.repeated
    counts.events = appended.new + appended.repeated
    stored = events.count(store, session.session_id)
    if stored != before + appended.new or counts.events != reading.offered:
        message = (
            f"{reading.source.path}: {reading.offered} events read, {appended.new} new and {appended.repeated} known,"
            f" but the store went from {before} to {stored}; nothing of the session was committed"
        )
        issue = Issue("sqlite_transcript_count_mismatch", "error", message, session.keys[0].key)
        raise _RolledBackError(issue)


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


def missing_issues(session: SessionPlan, *, stored_events: int) -> list[Issue]:
    """`transcript_missing` where a row names a file that is not there and the store has no events of the session."""
    resolution = session.resolution
    if resolution is None or resolution.refused or not resolution.stated or stored_events:
        return []
    message = "the row names a transcript that is not in the sessions directory; the row itself is kept"
    return [Issue("transcript_missing", "warning", message, keyed.key) for keyed in session.keys]


def divergent_issue(session: SessionPlan, positions: list[tuple[int, str]], max_line_bytes: int) -> Issue:
    """Two different events under one id: names both lines, or the line and the store."""
    source = session.source
    if source is None:
        raise ValueError("only a transcript can diverge")
    listed = positions[:10]
    wanted = {position for position, _ in listed}
    lines = lines_of(source, session.session_id, wanted, {event_id for _, event_id in listed}, max_line_bytes)
    pairs = [{"eventId": event_id, "lines": _pair(lines, position, event_id)} for position, event_id in listed]
    shown = "; ".join(
        f"line {pair['lines'][1]} differs from line {pair['lines'][0]}"
        if pair["lines"][0] != pair["lines"][1]
        else f"line {pair['lines'][1]} differs from the stored event"
        for pair in pairs
    )
    message = (
        f"{source.path}: different events under one id ({shown}); nothing of this session was committed and its file"
        " stays"
    )
    facts = {"file": str(source.path), "divergent": pairs, "divergentTotal": len(positions)}
    return Issue("event_id_conflict", "error", message, session.keys[0].key, facts)


def _pair(lines: dict[Any, int], position: int, event_id: str) -> list[int | None]:
    second = lines.get(position)
    return [lines.get(event_id, second), second]


def _unreadable(session: SessionPlan, error: OSError) -> Issue:
    path = session.source.path if session.source is not None else None
    message = f"{path} cannot be read: {error.strerror}; nothing of this session was committed"
    return Issue("transcript_unreadable", "error", message, session.keys[0].key)


def _count_session(report: TargetReport, counts: Counts) -> None:
    report.imported_entries += counts.entries
    report.imported_events += counts.new_events
    report.imported_trajectory_events += counts.trajectory_events
    report.validated_entries += counts.validated_entries
    report.validated_events += counts.events


def _classify(outcome: Outcome, reading: Reading | None, counts: Counts) -> None:
    """What the manifest says of the original: only one whose every line is in the store may ever be disposed of."""
    if reading is not None and reading.tally.damage:
        outcome.classification, outcome.reason = "protected", "unimported-or-unknown-history"
    elif outcome.session.historical:
        outcome.classification, outcome.reason = "protected", "indexed-historical-primary"
    elif counts.repeated > counts.stored_before:
        outcome.classification = "repair-original"


# --- the archive --------------------------------------------------------------------------------------------------


def _archive(
    plan: TargetPlan,
    outcomes: list[Outcome],
    record: manifest.TargetRecord,
    started: manifest.Run,
    job: Job,
    report: TargetReport,
) -> None:
    requests = list(_requests(plan, outcomes, report))
    index = _index_request(plan, outcomes, requests, record, job, report)
    if index is not None:
        requests.append(index)
    moves = archiving.plan_moves(requests, record, job.now_ms)
    if not moves:
        return
    started.plan_moves(record, moves)
    reached(Step.MOVES_PLANNED)
    moved, issues = archiving.perform(started, record, moves)
    report.issues.extend(issues)
    count_moves(report, moved)


def _requests(plan: TargetPlan, outcomes: list[Outcome], report: TargetReport) -> Iterator[Request]:
    """Every file that may move: imported transcripts with their sidecars, then history that nothing names."""
    blocked = {outcome.session.source.path for outcome in outcomes if outcome.stays and outcome.session.source}
    seen: set[Path] = set()
    for outcome in outcomes:
        source, key = outcome.session.source, outcome.session.keys[0].key
        if source is None or outcome.identity is None or source.path in blocked or source.path in seen:
            continue
        seen.add(source.path)
        if source.linked:
            report.issues.append(archiving.linked_issue(source, key))
            continue
        yield Request(source, "transcript", outcome.identity, outcome.classification, outcome.reason, key)
        yield from _unread(outcome.session.sidecars, "trajectory", "unimported-or-unknown-history", key, report)
    yield from _unread(plan.unreferenced, "unreferenced-jsonl", "unreferenced-history", None, report)


def _unread(
    sources: Iterable[Source], kind: manifest.Kind, reason: str, key: str | None, report: TargetReport
) -> Iterator[Request]:
    """Files that go to the archive as they are."""
    for source in sources:
        if source.linked:
            report.issues.append(archiving.linked_issue(source, key))
            continue
        try:
            identity = archiving.whole_identity(source)
        except (OSError, SourceChangedError) as error:
            code = "transcript_archive_failed" if key else "unreferenced_jsonl_archive_failed"
            reason_text = error.message if isinstance(error, SourceChangedError) else error.strerror
            report.issues.append(Issue(code, "error", f"{source.path} stays where it is: {reason_text}", key))
            continue
        yield Request(source, kind, identity, "protected", reason, key)


def _index_request(
    plan: TargetPlan,
    outcomes: list[Outcome],
    requests: list[Request],
    record: manifest.TargetRecord,
    job: Job,
    report: TargetReport,
) -> Request | None:
    """The index goes last, and only when no session of it still waits for another import."""
    if not plan.index.exists:
        return None
    path = plan.target.store_path
    waiting = [outcome for outcome in outcomes if not outcome.committed]
    if job.rules.keep_index or waiting:
        why = "--keep-index was given" if not waiting else f"{len(waiting)} session(s) of it were not imported"
        report.issues.append(archiving.index_kept(path, why))
        return None
    source = plan.listing.files[FileClass.INDEX].get(path.name)
    if source is None or source.linked:
        report.issues.append(archiving.index_kept(path, "it is a link, or no regular file of the sessions directory"))
        return None
    whole = not plan.index.issues and all(request.classification == "imported" for request in requests)
    reason = "verified-index-import" if whole else "incomplete-index-import"
    transcripts = tuple(
        str(record.sessions_dir / request.source.name) for request in requests if request.kind == "transcript"
    )
    identity = archiving.whole_identity(source)
    if identity.sha256 != plan.index.sha256:
        message = f"{path} changed while it was imported; it stays, run the import again"
        report.issues.append(Issue("legacy_store_archive_failed", "error", message))
        return None
    classification: manifest.Classification = "imported" if whole else "protected"
    return Request(source, "legacy-store", identity, classification, reason, None, transcripts)


def count_moves(report: TargetReport, moved: Iterable[manifest.Move]) -> None:
    """Put finished moves into the report's lists."""
    lists = {"legacy-store": report.archived_indexes, "unreferenced-jsonl": report.archived_unreferenced}
    for move in moved:
        lists.get(move.kind, report.archived_transcripts).append(move.archive_path)
        if move.source_path in report.unreferenced:
            report.unreferenced.remove(move.source_path)


def _existing_parent(path: Path) -> Path:
    place = path
    while not place.exists():
        place = place.parent
    return place
