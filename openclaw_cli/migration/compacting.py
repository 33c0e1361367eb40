"""`doctor compact`: give the unused disk space of stores back to the file system; no row changes.

SQLite does the work in transactions of its own, so a run that is cut leaves the store as it was before the step, or as
it is after it; the next run does what is left.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from openclaw_cli.config.paths import Target
from openclaw_cli.durable import free_bytes
from openclaw_cli.errors import BusyError, CorruptError, Issue, NoSpaceError, NotFoundError, OpenClawError, RefusedError
from openclaw_cli.faults import Step, reached
from openclaw_cli.migration.compact_report import Checkpoints, CompactReport, Place, compacted, known, missing
from openclaw_cli.migration.inspecting import add_session_bytes
from openclaw_cli.migration.reporting import TargetReport
from openclaw_cli.storage import connection, sessions, space, verify
from openclaw_cli.storage.connection import Store, Timeouts
from openclaw_cli.storage.space import Checkpoint, Measure

SPACE_FACTOR = 2
"""Room on the database's file system, in multiples of the database: its log, and what others write meanwhile."""

OnStep = Callable[[str], None]
"""Hears what is being done, for a progress bar."""


@dataclass(frozen=True, slots=True)
class Compaction:
    """What is known of one store before anything is written. `before` is None where there is no database.

    `failure` says why it cannot be compacted; `places` are the file systems that need room.
    """

    target: Target
    before: Measure | None = None
    places: tuple[Place, ...] = ()
    sqlite_entries: int = 0
    failure: OpenClawError | None = None


@dataclass(frozen=True, slots=True)
class Limits:
    """How a run behaves: SQLite's timeouts, how long a checkpoint waits for readers, the environment."""

    timeouts: Timeouts
    wait_ms: int
    env: Mapping[str, str]


def plan(targets: Iterable[Target], env: Mapping[str, str], *, named: bool) -> list[Compaction]:
    """Look at every store; nothing is written. `named`: a store was asked for, so that it must have a database.

    Raises `NotFoundError`.
    """
    return [_plan_target(target, env, named) for target in targets]


def preview(plans: Iterable[Compaction]) -> CompactReport:
    """The report of a dry run: the numbers that are known beforehand, and why a store would be refused."""
    report = CompactReport("compact")
    for planned in plans:
        target = _new_report(planned)
        if planned.failure is not None:
            _fail(target, planned.failure)
        report.targets.append(target)
    return report


def run(plans: Sequence[Compaction], limits: Limits, on_step: OnStep) -> CompactReport:
    """Compact one store after the other. The caller owns the state directory.

    What stops one store (a reader that stays, no room, damage) is that target's failure; the others go on.
    """
    report = CompactReport("compact")
    for planned in plans:
        target = _new_report(planned)
        report.targets.append(target)
        if planned.before is None and planned.failure is None:
            continue
        try:
            _compact(planned.target, target, limits, lambda step, at=planned.target: on_step(f"{at.agent_id}: {step}"))
        except OpenClawError as error:
            _fail(target, error)
    return report


def has_work(plans: Iterable[Compaction]) -> bool:
    """Whether any store is there."""
    return any(planned.before is not None or planned.failure is not None for planned in plans)


def _plan_target(target: Target, env: Mapping[str, str], named: bool) -> Compaction:
    path = target.sqlite_path
    if not os.path.lexists(path):
        if named:
            raise NotFoundError(
                f"there is no database {path}", hint="openclaw-cli doctor import makes one", sqlitePath=str(path)
            )
        return Compaction(target)
    try:
        with connection.open_read(path, agent_id=target.agent_id) as store:
            before = space.measure(store)
            places = _places(path, before, env)
            entries = _entries(store)
            return Compaction(target, before, places, entries, _obstacle(store, places))
    except OpenClawError as error:
        return Compaction(target, failure=error)


def _obstacle(store: Store, places: Iterable[Place]) -> OpenClawError | None:
    """What would keep a run from compacting this store, as far as reading can tell."""
    try:
        for issue in store.issues:
            raise RefusedError(issue.message, hint="openclaw-cli doctor recover puts it aside", code=issue.code)
        connection.require_current_schema(store)
        _require_room(store.path, places)
    except RefusedError as error:
        return error
    return None


def _places(path: Path, before: Measure, env: Mapping[str, str]) -> tuple[Place, ...]:
    """The file systems that need room: the database's, and that of SQLite's temporary files if it is another one."""
    home = Path(os.path.realpath(path)).parent
    found = [Place(home, before.whole_bytes * SPACE_FACTOR, free_bytes(home))]
    temporary = space.temporary_dir(env)
    if temporary is not None and temporary.stat().st_dev != home.stat().st_dev:
        found.append(Place(temporary, before.whole_bytes, free_bytes(temporary)))
    return tuple(found)


def _require_room(path: Path, places: Iterable[Place]) -> None:
    for place in places:
        if place.free_bytes < place.needed_bytes:
            raise NoSpaceError(
                f"compacting {path} needs {place.needed_bytes} bytes on the file system of {place.path},"
                f" {place.free_bytes} are free",
                hint="free some space (or set SQLITE_TMPDIR), then run again; this store was not changed",
                neededBytes=place.needed_bytes,
                freeBytes=place.free_bytes,
            )


def _compact(target: Target, report: TargetReport, limits: Limits, on_step: OnStep) -> None:
    """Check, act, check again, and put the numbers into the report. Raises what stops it."""
    with connection.open_write(target.sqlite_path, agent_id=target.agent_id, timeouts=limits.timeouts) as store:
        before = space.measure(store)
        places = _places(store.path, before, limits.env)
        report.extra["compact"] = known(before, places)
        _require_room(store.path, places)
        on_step("checking")
        _require_whole(store, verify.integrity(store), "nothing was changed")
        on_step("writing the log back")
        first = _empty_log(store, limits.wait_ms)
        on_step("merging the search index")
        merged = space.merge_search(store)
        on_step("rewriting the database")
        space.vacuum(store)
        reached(Step.COMPACT_VACUUMED)
        on_step("writing the log back")
        last = space.checkpoint(store, "TRUNCATE", wait_ms=limits.wait_ms)
        reached(Step.COMPACT_WRITTEN_BACK)
        on_step("checking the result")
        found = verify.integrity(store, quick=True) or verify.integrity(store)
        _require_whole(store, found, "after it was compacted")
        reached(Step.COMPACT_CHECKED)
        after = space.measure(store)
        report.extra["compact"] = compacted(before, after, places, Checkpoints(first, last), merged)
        report.extra["dbStats"] = _stats(store, after)
        report.sqlite_entries = _entries(store)
    report.issues.extend(_blocked(store.path, last, after))


def _empty_log(store: Store, wait_ms: int) -> Checkpoint:
    """Write the log back whole; beside somebody who keeps it, the new copy would only lie in the log as well.

    Raises `BusyError` with the numbers.
    """
    done = space.checkpoint(store, "TRUNCATE", wait_ms=wait_ms)
    reached(Step.COMPACT_CHECKPOINTED)
    if not done.blocked:
        return done
    frames = f" ({done.checkpointed_frames} of {done.log_frames} frames)" if done.log_frames >= 0 else ""
    raise BusyError(
        f"another program is reading or writing {store.path}: its log could not be written back whole{frames}",
        hint="stop that program or wait for it (--wait); nothing was compacted",
        logFrames=done.log_frames,
        checkpointedFrames=done.checkpointed_frames,
        walSizeBytes=space.sizes(store.path).wal_bytes,
    )


def _require_whole(store: Store, found: Sequence[str], when: str) -> None:
    if found:
        raise CorruptError(
            f"{store.path} fails its check, {when}: {len(found)} fault(s), the first: {found[0]}",
            hint="openclaw-cli doctor recover; what is readable first: --export-readable DIR",
            faults=len(found),
        )


def _blocked(path: Path, last: Checkpoint, after: Measure) -> Iterator[Issue]:
    """The warning that the space comes back later: somebody began to read while the database was rewritten."""
    if last.blocked:
        yield Issue(
            "checkpoint_blocked",
            "warning",
            f"{path} is compacted, but another program keeps its log ({last.checkpointed_frames} of {last.log_frames}"
            f" frames written back, {after.wal_bytes} bytes); the file shrinks with the next checkpoint",
            facts={
                "logFrames": last.log_frames,
                "checkpointedFrames": last.checkpointed_frames,
                "walSizeBytes": after.wal_bytes,
            },
        )


def _new_report(planned: Compaction) -> TargetReport:
    target = planned.target
    report = TargetReport(target.agent_id, target.store_path, target.sqlite_path)
    report.sqlite_entries = planned.sqlite_entries
    if planned.before is not None:
        report.extra["compact"] = known(planned.before, planned.places)
    elif planned.failure is None:
        report.extra["compact"] = missing(space.sizes(target.sqlite_path))
    return report


def _fail(report: TargetReport, error: OpenClawError) -> None:
    """OpenClaw's code for whatever stopped a store; ours stands beside it as `reason`."""
    report.failure = error
    if "compact" in report.extra:
        report.extra["compact"]["outcome"] = "failed"
    facts = {"reason": error.code, "hint": error.hint, **error.facts}
    report.issues.append(Issue("sqlite_compact_failed", "error", error.message, facts=facts))


def _entries(store: Store) -> int:
    return sum(1 for _ in sessions.read_nodes(store, columns=["session_key"]))


def _stats(store: Store, after: Measure) -> dict[str, Any]:
    stats: dict[str, Any] = {
        "dbSizeBytes": after.database_bytes,
        "walSizeBytes": after.wal_bytes,
        "integrityCheck": "ok",
        "totalTranscriptRowBytes": 0,
        "largestSessions": [],
    }
    add_session_bytes(store, stats)
    return stats
