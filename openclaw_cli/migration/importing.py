"""`doctor import`: file-era sessions into SQLite, validated before any file moves.

One transaction per session: a session is in the store whole or not. One manifest per run: a file is where the manifest
says, whenever the run was cut.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from pathlib import Path

from openclaw_cli import manifest
from openclaw_cli.config.paths import Target
from openclaw_cli.durable import free_bytes, sync_file
from openclaw_cli.errors import Issue, NoSpaceError, OpenClawError
from openclaw_cli.faults import Step, reached
from openclaw_cli.migration import archiving
from openclaw_cli.migration.committing import import_session
from openclaw_cli.migration.job import Job, is_skipped, new_report, plan_all
from openclaw_cli.migration.originals import archive, count_moves
from openclaw_cli.migration.plan import TargetPlan
from openclaw_cli.migration.reporting import Report, TargetReport
from openclaw_cli.storage import connection, sessions, space
from openclaw_cli.storage.connection import Store

SPACE_FACTOR = 2.2
"""Room that database and log need at most, in multiples of the source (design: storage rules)."""


def run(job: Job, plans: list[TargetPlan]) -> Report:
    """Import. The caller owns the state directory. Raises `NoSpaceError` before anything is written."""
    report = Report("import")
    check_space(plans)
    settled = archiving.settle_cut_runs(job.state_dir, job.targets, job.now_ms)
    report.issues.extend(settled.issues)
    if settled:
        plans = plan_all(job)
    if not any(plan.has_work for plan in plans):
        report.targets.extend(_idle_report(plan, settled.moves, job) for plan in plans)
        return report
    records = [archiving.real_paths(plan.target) for plan in plans]
    started = None
    if any(plan.may_move(job.rules) for plan in plans):
        started = manifest.create(job.state_dir, records, now_ms=job.now_ms)
        report.run_id, report.manifest_path = started.manifest.run_id, started.path
    for plan, record in zip(plans, records, strict=True):
        target = new_report(plan, job.rules)
        report.targets.append(target)
        count_moves(target, [move for move in settled.moves if move.source_path.parent == record.sessions_dir])
        _import_target(plan, record, started, job, target)
    if started is not None:
        started.complete(job.now_ms, failed=any(target.failure is not None for target in report.targets))
    return report


def _idle_report(plan: TargetPlan, settled: list[manifest.Move], job: Job) -> TargetReport:
    """The report of a store in which there was nothing left to import; no manifest is written for that."""
    report = new_report(plan, job.rules)
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
        space.prepare_load(store)
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
    plan: TargetPlan, record: manifest.TargetRecord, started: manifest.Run | None, job: Job, report: TargetReport
) -> None:
    """Rows first, then validation, then the moves: each stage durable before the next begins.

    `started` is None when no file can move: then there is nothing that a manifest would have to tell.
    """
    with Stores(job) as stores:
        outcomes = []
        try:
            for session in plan.sessions:
                if is_skipped(session, job.rules, report):
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
        if started is not None:
            started.record_outcome(record, "passed" if complete else "failed", report.issues)
        if complete:
            archive(plan, outcomes, record, started, job, report)
            if started is not None:
                started.record_outcome(record, "passed", report.issues)
        report.sqlite_entries = sum(1 for store in stores for _ in sessions.read_nodes(store, columns=["session_key"]))


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


def _existing_parent(path: Path) -> Path:
    place = path
    while not place.exists():
        place = place.parent
    return place
