"""`doctor snapshot`: a complete, verified copy of a state directory, also while a gateway writes to it; reads only.

Files first, then databases (one view of each, with its log), then what was moved or changed meanwhile. Each copy is
synced and read back; the record of all of them comes last (`snapshot_record.py`). A run that is cut is completed by
the next one with the same directory.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from openclaw_cli.config.paths import Target
from openclaw_cli.durable import as_refusal, free_bytes, fsync_dir, make_dir, make_dirs, sha256_file, sync_file
from openclaw_cli.errors import CorruptError, Exit, Issue, RefusedError, escaped, status_of
from openclaw_cli.faults import Step, reached
from openclaw_cli.migration import snapshot_plan, snapshot_record
from openclaw_cli.migration.reporting import issue_text
from openclaw_cli.migration.snapshot_plan import Item, Kind, OnBytes, SnapshotPlan
from openclaw_cli.migration.snapshot_record import Entry
from openclaw_cli.storage import backup, connection

MOST_ROUNDS = 4
"""How often what changed meanwhile is copied again."""

_BLOCK_BYTES = 1 << 20
_PART = ".snapshot-part"


@dataclass(slots=True)
class Snapshot:
    """A snapshot that was taken, or (dry run) would be."""

    state_dir: Path
    directory: Path
    plan: SnapshotPlan
    entries: dict[str, Entry] = field(default_factory=dict)
    issues: list[Issue] = field(default_factory=list)
    free_bytes: int = 0

    def status(self) -> Exit:
        """OK when everything is in it."""
        return status_of(self.issues)

    def counts(self) -> dict[str, int]:
        """How many items of each kind, and their bytes."""
        items = list(self.entries.values()) or self.plan.items
        kinds = [item.kind for item in items]
        return {
            "files": kinds.count(Kind.FILE),
            "databases": kinds.count(Kind.DATABASE),
            "links": kinds.count(Kind.LINK),
            "directories": kinds.count(Kind.DIRECTORY),
            "bytes": sum(item.size_bytes for item in items),
        }

    def as_json(self, *, dry_run: bool = False) -> dict[str, Any]:
        """The document of `--json`."""
        return {
            "mode": "snapshot",
            "dryRun": dry_run,
            "stateDir": str(self.state_dir),
            "directory": str(self.directory),
            "recordPath": None if dry_run else str(self.directory / snapshot_record.RECORD_NAME),
            "roots": [{"name": root.name, "path": str(root.path)} for root in self.plan.roots],
            "leftOut": [{"path": escaped(item.path), "reason": item.reason} for item in self.plan.left_out],
            "freeBytes": self.free_bytes,
            "totals": self.counts(),
            "issues": [issue.as_json() for issue in self.issues],
        }

    def text(self, *, dry_run: bool = False) -> Iterator[str]:
        """The report for people."""
        counts = self.counts()
        word = "would copy" if dry_run else "copied and verified"
        yield (
            f"snapshot of {self.state_dir}: {word} {counts['databases']} database(s), {counts['files']} file(s),"
            f" {counts['links']} link(s), {counts['bytes']} bytes"
        )
        for root in self.plan.roots:
            yield f"  {root.path} -> {self.directory / root.name}"
        for reason in ("secret", "passing", "no-history", "special"):
            paths = [escaped(item.path) for item in self.plan.left_out if item.reason == reason]
            if paths:
                more = f" and {len(paths) - 5} more" if len(paths) > 5 else ""
                yield f"  left out ({reason}): {', '.join(paths[:5])}{more}"
        yield "  openclaw.json and the databases may hold tokens: keep this copy as private as the state directory"
        yield from issue_text(self.issues)
        yield "Dry run: nothing was changed." if dry_run else f"record: {self.directory / snapshot_record.RECORD_NAME}"


def prepare(
    state_dir: Path, directory: Path, *, targets: Sequence[Target] = (), config_path: Path | None = None
) -> Snapshot:
    """Decide what a snapshot of `state_dir` holds, and refuse a place that will not do; nothing is written.

    `targets`: stores that may lie outside of the state directory. Raises RefusedError (the place is inside, is not
    empty, is no directory), NoSpaceError.
    """
    place = Path(os.path.abspath(directory))
    roots = snapshot_plan.roots_of(state_dir, targets, config_path)
    snapshot_plan.check_place(place, roots)
    _require_free(place, state_dir)
    made = Snapshot(state_dir, place, snapshot_plan.plan(roots), free_bytes=free_bytes(place))
    snapshot_plan.check_room(place, made.plan.total_bytes - _bytes_in(place))
    made.issues.extend(_links_outside(made.plan))
    return made


def take(
    state_dir: Path,
    directory: Path,
    now_ms: int,
    *,
    targets: Sequence[Target] = (),
    config_path: Path | None = None,
    on_bytes: OnBytes | None = None,
) -> Snapshot:
    """Take a snapshot; its status is not OK when something changed faster than it could be copied.

    Raises as `prepare`, and OSError as `RefusedError` or `NoSpaceError` where the place cannot be written.
    """
    made = prepare(state_dir, directory, targets=targets, config_path=config_path)
    return copy(made, now_ms, on_bytes)


def copy(made: Snapshot, now_ms: int, on_bytes: OnBytes | None = None) -> Snapshot:
    """Carry out what `prepare` decided."""
    make_dirs(made.directory)
    snapshot_record.mark(made.directory, Path(os.path.realpath(made.state_dir)), now_ms)
    reached(Step.SNAPSHOT_MARKED)
    _Copier(made, on_bytes or (lambda _: None)).run()
    _settle_directories(made)
    snapshot_record.write(made.directory, made.plan.roots, made.entries.values(), made.plan.left_out, now_ms)
    reached(Step.SNAPSHOT_RECORDED)
    (made.directory / snapshot_record.MARKER_NAME).unlink()
    fsync_dir(made.directory)
    return made


class _Copier:
    """Copies items, round by round, until nothing changes any more."""

    def __init__(self, made: Snapshot, on_bytes: OnBytes) -> None:
        self._made = made
        self._on_bytes = on_bytes
        self._done: dict[str, tuple[Any, ...]] = {}

    def run(self) -> None:
        made = self._made
        for _ in range(MOST_ROUNDS):
            todo = self._todo()
            if not todo:
                return
            for item in sorted(todo, key=lambda item: item.kind is Kind.DATABASE):
                self._copy(item)
            made.plan = snapshot_plan.plan(made.plan.roots)
        for item in self._todo():
            message = f"{item.source} changed each time that it was copied; the copy is of one moment between"
            made.issues.append(Issue("changed_while_copied", "error", message, facts={"path": str(item.source)}))

    def _todo(self) -> list[Item]:
        return [item for item in self._made.plan.items if self._done.get(item.path) != item.sign]

    def _copy(self, item: Item) -> None:
        destination = self._made.directory / item.path
        try:
            match item.kind:
                case Kind.DIRECTORY:
                    _directory(destination)
                    entries = [Entry.of(item)]
                case Kind.LINK:
                    _link(item, destination)
                    entries = [Entry.of(item)]
                case Kind.DATABASE:
                    entries = self._database(item, destination)
                    reached(Step.SNAPSHOT_DATABASE_COPIED)
                case _:
                    entries = [_file(item, destination, self._on_bytes)]
                    reached(Step.SNAPSHOT_FILE_COPIED)
        except FileNotFoundError:
            if item.source.exists():
                raise
            return  # Moved since it was planned; the next round finds it where it is now.
        except OSError as error:
            raise as_refusal(error, destination) from error
        self._done[item.path] = item.sign
        self._made.entries.update((entry.path, entry) for entry in entries)

    def _database(self, item: Item, destination: Path) -> list[Entry]:
        """One view of a database; where SQLite cannot give one that is whole, the files as they are."""
        foreign = connection.foreign_wal(item.source)
        reason = None if foreign is None else foreign.message
        if reason is None:
            try:
                backup.copy_database(item.source, destination, on_bytes=self._on_bytes)
                found = backup.faults(destination)
                reason = found[0] if found else None
            except CorruptError as error:
                reason = error.message
            except RefusedError as error:
                if error.code == "not_checkable":
                    self._note("database_unchecked", item, error.message)
                elif error.code == "not_openable" and os.access(item.source, os.R_OK):
                    reason = error.message  # Such as a journal that only a writer may roll back.
                else:
                    raise
        if reason is not None:
            self._note("database_damaged", item, f"{reason}; its files were copied as they are")
            return list(self._files(item))
        os.chmod(destination, item.mode)
        os.utime(destination, ns=(item.mtime_ns, item.mtime_ns))
        return [Entry.of(item, destination.stat().st_size, sha256_file(destination))]

    def _files(self, item: Item) -> Iterator[Entry]:
        for suffix in ("", "-wal", "-journal"):
            source = item.source.with_name(item.source.name + suffix)
            if source.is_file():
                status = source.stat()
                part = Item(
                    item.path + suffix, source, Kind.FILE, status.st_size, status.st_mode & 0o7777, status.st_mtime_ns
                )
                yield _file(part, self._made.directory / part.path, self._on_bytes)

    def _note(self, code: str, item: Item, why: str) -> None:
        message = why if str(item.source) in why else f"{item.source}: {why}"
        if all(known.message != message for known in self._made.issues):
            self._made.issues.append(Issue(code, "warning", message, facts={"path": str(item.source)}))


def _file(item: Item, destination: Path, on_bytes: OnBytes) -> Entry:
    """Copy a file, sync it, read it back; a copy that a cut run finished is taken as it is if its bytes are right."""
    sha256 = _present(item, destination)
    if sha256 is None:
        building = destination.with_name(destination.name[:200] + _PART)
        building.unlink(missing_ok=True)
        sha256 = _written(item, building, on_bytes)
        if sha256_file(building) != sha256:
            raise CorruptError(f"{building} does not hold what was written to it", hint="look at that disk")
        os.replace(building, destination)
    else:
        on_bytes(item.size_bytes)
    return Entry.of(item, destination.stat().st_size, sha256)


def _present(item: Item, destination: Path) -> str | None:
    if not destination.is_file() or destination.is_symlink():
        return None
    status = destination.stat()
    if (status.st_size, status.st_mtime_ns, status.st_mode & 0o7777) != (item.size_bytes, item.mtime_ns, item.mode):
        return None
    digest = sha256_file(destination)
    return digest if digest == sha256_file(item.source) else None


def _written(item: Item, building: Path, on_bytes: OnBytes) -> str:
    digest = hashlib.sha256()
    reader = os.open(item.source, os.O_RDONLY | os.O_NOFOLLOW)
    try:
        writer = os.open(building, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        try:
            # No further than was planned: a file that somebody writes to would never end. The next round has the rest.
            left = item.size_bytes
            while left > 0 and (block := os.read(reader, min(left, _BLOCK_BYTES))):
                left -= len(block)
                digest.update(block)
                view = memoryview(block)
                while view:
                    view = view[os.write(writer, view) :]
                on_bytes(len(block))
            os.fchmod(writer, item.mode)
            os.utime(writer, ns=(item.mtime_ns, item.mtime_ns))
            sync_file(writer)
        finally:
            os.close(writer)
    finally:
        os.close(reader)
    return digest.hexdigest()


def _directory(destination: Path) -> None:
    make_dir(destination)
    # A cut run may have given it the mode of its source already, which need not let anybody write.
    os.chmod(destination, 0o700)


def _link(item: Item, destination: Path) -> None:
    if destination.is_symlink() and os.readlink(destination) == item.target:
        return
    building = destination.with_name(destination.name[:200] + _PART)
    building.unlink(missing_ok=True)
    os.symlink(str(item.target), building)
    os.replace(building, destination)


def _settle_directories(made: Snapshot) -> None:
    """Give directories mode and time of their sources, the deepest first, and make all names durable."""
    for entry in sorted(made.entries.values(), key=lambda entry: entry.path.count("/"), reverse=True):
        if entry.kind is Kind.DIRECTORY:
            place = made.directory / entry.path
            fsync_dir(place)
            os.utime(place, ns=(entry.mtime_ns, entry.mtime_ns))
            os.chmod(place, entry.mode)
    fsync_dir(made.directory)


def _require_free(place: Path, state_dir: Path) -> None:
    """Only a new or empty directory will do, or one with an unfinished snapshot of the same state directory."""
    if not os.path.lexists(place):
        return
    if not place.is_dir():
        raise RefusedError(f"{place} is no directory", hint="name a new directory", code="snapshot_place")
    if not any(place.iterdir()):
        return
    finished = (place / snapshot_record.RECORD_NAME).exists()
    if finished or snapshot_record.marked_for(place) != Path(os.path.realpath(state_dir)):
        what = "holds a finished snapshot" if finished else "is not empty"
        raise RefusedError(f"{place} {what}; nothing was written", hint="name a new directory", code="snapshot_place")


def _bytes_in(place: Path) -> int:
    """Bytes of an unfinished snapshot, which are written over rather than added to."""
    return sum(os.lstat(os.path.join(folder, name)).st_size for folder, _, names in os.walk(place) for name in names)


def _links_outside(plan: SnapshotPlan) -> Iterator[Issue]:
    for item in plan.items:
        if item.kind is Kind.LINK:
            behind = Path(os.path.realpath(item.source))
            if not any(behind.is_relative_to(root.path) for root in plan.roots):
                message = f"{item.source} is a link out of what is copied: the link is in the snapshot, {behind} is not"
                yield Issue("link_outside", "warning", message, facts={"path": str(item.source)})


def require_complete(made: Snapshot) -> None:
    """Raise `RefusedError` unless everything is in the snapshot: what was to be done after it must not begin."""
    if made.status() is not Exit.OK:
        errors = [issue.message for issue in made.issues if issue.severity == "error"]
        raise RefusedError(
            f"the snapshot in {made.directory} is not complete: {errors[0]}",
            hint="stop the writer, then run again with another directory",
            code="snapshot_incomplete",
        )
