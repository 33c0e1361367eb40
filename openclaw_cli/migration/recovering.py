"""`doctor recover`: damaged stores, failed and cut runs, files that an import left behind; each ends in a named state.

Every store is judged on a private copy. Then, store by store: a log of another database is put aside, what follows
from the rows is made anew in place, a store with damaged rows is replaced by one made of its readable rows while the
damaged set is kept. What the new store lacks comes from the archived originals; then an import settles what lies in the
sessions directory; then earlier runs are closed.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from openclaw_cli.config.paths import Target
from openclaw_cli.durable import free_bytes, fsync_dir, replace_file
from openclaw_cli.errors import CorruptError, Issue, NoSpaceError, OpenClawError, RefusedError
from openclaw_cli.faults import Step, reached
from openclaw_cli.migration import importing, previewing, replacing, settling
from openclaw_cli.migration.job import Job, plan_all
from openclaw_cli.migration.plan import plan_target
from openclaw_cli.migration.recover_report import ROWS_LOST, Mending, RecoverReport, Status
from openclaw_cli.migration.reimporting import reimport
from openclaw_cli.migration.reporting import TargetReport
from openclaw_cli.storage import repairing, salvaging
from openclaw_cli.storage.losses import Losses, still_lost
from openclaw_cli.storage.repairing import Condition, Health, Log
from openclaw_cli.storage.salvaging import Salvaged

_ACTIONS = {
    Condition.DERIVED: "rebuilding what follows from the rows",
    Condition.DAMAGED: "a new store from the readable rows and the archived originals",
    Condition.MISSING: "a new store from the archived originals",
}


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """What was found out about one store, and what is to be done."""

    target: Target
    health: Health
    action: str


def diagnose(job: Job) -> list[Diagnosis]:
    """Judge every store of a run. Nothing in the state directory is written."""
    return [_diagnosis(target) for target in job.targets]


def _diagnosis(target: Target) -> Diagnosis:
    try:
        with _copied(real_file(target)) as copy:
            health = Health(Condition.MISSING) if copy is None else repairing.examine(copy, target.agent_id)
            if copy is not None and health.failure is not None:
                health = _named(health, health.failure, copy, target.sqlite_path)
    except RefusedError as error:
        # What keeps one store from being looked at (mode, room) is its failure; the others are mended.
        health = Health(Condition.REFUSED, findings=(error.code,), failure=error)
    action = _ACTIONS.get(health.condition, "none")
    if health.condition is Condition.MISSING and not _has_archives(target):
        action = "none"
    if health.log in (Log.FOREIGN, Log.STALE):
        aside = f"putting the {health.log} log aside"
        action = aside if action == "none" else f"{aside}, {action}"
    return Diagnosis(target, health, action)


def _named(health: Health, failure: OpenClawError, copy: Path, path: Path) -> Health:
    """The same, with the store's name where the failure names the private copy."""
    message = failure.message.replace(str(copy), str(path))
    return replace(health, failure=RefusedError(message, hint=failure.hint, code=failure.code))


@contextmanager
def _copied(path: Path) -> Iterator[Path | None]:
    """A private copy of a database's file set in a temporary directory; None where there is no database."""
    if not path.exists():
        yield None
        return
    with tempfile.TemporaryDirectory(prefix="openclaw-recover-") as place:
        directory = Path(place)
        log = path.with_name(path.name + "-wal")
        needed = path.stat().st_size + (log.stat().st_size if log.exists() else 0)
        if free_bytes(directory) < needed:
            raise NoSpaceError(
                f"a private copy of {path} needs {needed} bytes in {directory.parent}",
                hint="point TMPDIR to a directory with more room",
            )
        try:
            copy = repairing.private_copy(path, directory)
        except OSError as error:
            raise RefusedError(f"{path} cannot be copied: {error.strerror}", code="not_openable") from error
        yield copy


def real_file(target: Target) -> Path:
    """The database itself where its name is a symbolic link: its log lies beside it, and the link stays."""
    return Path(os.path.realpath(target.sqlite_path))


def _has_archives(target: Target) -> bool:
    return target.archive_dir.is_dir() and any(target.archive_dir.iterdir())


def preview(job: Job, found: list[Diagnosis]) -> RecoverReport:
    """What `act` would do. Nothing is written."""
    report = RecoverReport("recover")
    usable = [one.target for one in found if one.health.condition in (Condition.SOUND, Condition.MISSING)]
    for one in found:
        mending = Mending(one.health, one.action)
        report.mendings[one.target.agent_id] = mending
        if one.target in usable and one.action == "none":
            part = previewing.dry_run(_of(job, one.target), [plan_target(one.target, job.rules, job.now_ms)])
            report.targets.extend(part.targets)
        else:
            report.targets.append(_refused(TargetReport(*_names(one.target)), one.health))
    report.settled.extend(run.path for run in settling.open_runs(job.state_dir))
    return report


def act(job: Job, found: list[Diagnosis], export_dir: Path | None = None) -> RecoverReport:
    """Mend what `diagnose` found. The caller owns the state directory.

    Raises RefusedError before anything is done when `export_dir` cannot be made.
    """
    if export_dir is not None:
        _make_export_dir(export_dir)
    report = RecoverReport("recover")
    mended: list[Target] = []
    first: dict[str, TargetReport] = {}
    for one in found:
        mending = Mending(one.health, one.action)
        report.mendings[one.target.agent_id] = mending
        part = first[one.target.agent_id] = TargetReport(*_names(one.target))
        try:
            if export_dir is not None:
                mending.exported = _export(one, export_dir / one.target.agent_id, job.now_ms)
            _mend(one, mending, job, part)
        except OSError as error:
            place = error.filename or one.target.sqlite_path
            part.failure = RefusedError(
                f"{place}: {error.strerror}", hint="mend that, then run again", code="storage_io"
            )
        except OpenClawError as error:
            part.failure = error
        if _refused(part, one.health).failure is None:
            mended.append(one.target)
    _import_leftovers(job, mended, report, first)
    sound = {part.agent_id for part in report.targets if report.status_of(part) is not Status.BLOCKED}
    report.settled.extend(run.path for run in settling.settle(job.state_dir, sound, job.now_ms))
    return report


def _import_leftovers(job: Job, mended: list[Target], report: RecoverReport, first: dict[str, TargetReport]) -> None:
    """Import what lies in the sessions directories, and put both parts of each target's report together."""
    ours = _of(job, *mended)
    done = importing.run(ours, plan_all(ours)) if mended else RecoverReport("recover")
    report.issues.extend(done.issues)
    report.run_id, report.manifest_path = done.run_id, done.manifest_path
    later = {part.agent_id: part for part in done.targets}
    for agent_id, part in first.items():
        whole = later.get(agent_id, part)
        if whole is not part:
            whole.issues[:0] = part.issues
            whole.failure = whole.failure or part.failure
        report.targets.append(whole)


def _mend(one: Diagnosis, mending: Mending, job: Job, part: TargetReport) -> None:
    path, health = real_file(one.target), one.health
    if health.log in (Log.FOREIGN, Log.STALE):
        mending.kept.append(replacing.set_log_aside(path, str(health.log), job.now_ms))
    if health.condition is Condition.DERIVED:
        repairing.rebuild_derived(path, agent_id=one.target.agent_id, now_ms=job.now_ms, timeouts=job.timeouts)
        _require_sound(one.target)
    elif health.condition in (Condition.DAMAGED, Condition.MISSING) and one.action != "none":
        _replace(one, mending, job, part)


def _replace(one: Diagnosis, mending: Mending, job: Job, part: TargetReport) -> None:
    """Build a whole new store beside the damaged one, then let them change places: a cut leaves the old one or both."""
    path = real_file(one.target)
    new = replacing.building_path(path)
    try:
        lost = _build(one, mending, job, part, new)
    except (OpenClawError, OSError):
        # What was built is worth nothing without the rest, and on a full disk it is in the way.
        replacing.building_path(path)
        raise
    if not new.exists():
        return
    if path.exists():
        mending.kept.extend(replacing.set_aside(path, job.now_ms))
    replacing.put_in_place(new, path)
    if mending.salvaged is not None and (mending.salvaged.lost or mending.salvaged.refused):
        part.issues.append(_lost_issue(path, mending, mending.salvaged, lost))


def _lost_issue(path: Path, mending: Mending, salvaged: Salvaged, lost: Losses | None) -> Issue:
    """A warning where everything came back from the archives, else an error: the damaged set is the only place then."""
    unread = f"{len(salvaged.pages_lost)} page(s) and {sum(salvaged.refused.values())} row(s) could not be read"
    kept = f"the damaged set is kept as {mending.kept[0].name}"
    facts = {"pages": salvaged.pages_lost}
    if not lost:
        return Issue(
            "sqlite_rows_unreadable", "warning", f"{path}: {unread}; nothing of them is missing; {kept}", facts=facts
        )
    named = ", ".join(name or "unknown" for name in lost.tables)
    more = f"; rows of {named} may be missing" if named else ""
    message = f"{path}: {unread}; {lost.events} event(s) and {lost.keys} key(s) are gone{more}; {kept}"
    facts |= {"events": lost.events, "keys": lost.keys, "tables": list(lost.tables)}
    return Issue(ROWS_LOST, "error", message, facts=facts)


def _build(one: Diagnosis, mending: Mending, job: Job, part: TargetReport, new: Path) -> Losses | None:
    """The whole new store: the readable rows of the damaged one, then what the archived originals have more.

    Gives what is missing even so; None where there was no damaged store.
    """
    path = real_file(one.target)
    if path.exists() and free_bytes(path.parent) < (needed := 2 * path.stat().st_size):
        raise NoSpaceError(
            f"a new store beside {path} needs {needed} bytes",
            hint="free some space, then run again; nothing was changed",
        )
    with _copied(path) as copy:
        if copy is not None:
            repairing.examine(copy, one.target.agent_id)
            mending.salvaged = salvaging.salvage(copy, new, agent_id=one.target.agent_id, now_ms=job.now_ms)
        mending.from_archives = reimport(job, one.target, new, part.issues)
        reached(Step.RECOVER_REIMPORTED)
        if copy is None or mending.salvaged is None:
            return None
        return still_lost(copy, new, mending.salvaged)


def _require_sound(target: Target) -> None:
    with _copied(real_file(target)) as copy:
        after = Health(Condition.MISSING) if copy is None else repairing.examine(copy, target.agent_id)
    if after.condition is not Condition.SOUND:
        raise CorruptError(
            f"{target.sqlite_path} is still damaged: {', '.join(after.findings[:3])}",
            hint="run this again; what is readable: openclaw-cli doctor recover --export-readable DIR",
        )


def _make_export_dir(directory: Path) -> None:
    try:
        directory.mkdir(parents=True, exist_ok=True, mode=0o700)
    except OSError as error:
        raise RefusedError(
            f"{directory} cannot be made: {error.strerror}", hint="name another directory; nothing was changed"
        ) from error


def _export(one: Diagnosis, directory: Path, now_ms: int) -> int:
    """Write every readable session of a store as JSONL, before anything is renamed; gives their number."""
    with _copied(real_file(one.target)) as copy:
        if copy is None:
            return 0
        repairing.examine(copy, one.target.agent_id)
        new = copy.with_name("readable.sqlite")
        salvaging.salvage(copy, new, agent_id=one.target.agent_id, now_ms=now_ms)
        directory.mkdir(parents=True, exist_ok=True, mode=0o700)
        count = 0
        for session_id, _, texts in salvaging.readable_sessions(new):
            _write_lines(directory, session_id, texts)
            count += 1
        fsync_dir(directory)
        return count


def _write_lines(directory: Path, session_id: str, texts: Iterator[bytes]) -> None:
    """One transcript under a free name; a file that is there is never written to."""
    name, number = f"{session_id.replace(os.sep, '_')}.jsonl", 0
    while (directory / name).exists():
        number += 1
        name = f"{session_id.replace(os.sep, '_')}.{number}.jsonl"
    replace_file(directory / name, (piece for text in texts for piece in (text, b"\n")))


def _refused(part: TargetReport, health: Health) -> TargetReport:
    """A store that is not for this program to change is a failure of its target; the others are mended."""
    if health.condition is Condition.REFUSED and health.failure is not None:
        part.failure = health.failure
    if part.failure is not None:
        part.issues.append(Issue(f"sqlite_{part.failure.code}", "error", part.failure.message))
    return part


def _of(job: Job, *targets: Target) -> Job:
    return replace(job, targets=tuple(targets))


def _names(target: Target) -> tuple[str, Path, Path]:
    return target.agent_id, target.store_path, target.sqlite_path
