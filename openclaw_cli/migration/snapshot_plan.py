"""What belongs into a snapshot of a state directory, and what stays out: decided by name and kind, nothing is written.

Everything is taken that holds history or says how to read it, and whatever is not known; links are taken as links.
Left out, each with its reason: secrets, what only a running process needs, work that is no history.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path

from openclaw_cli.config.paths import ARCHIVE_DIR_NAME, Target, is_state_dir
from openclaw_cli.durable import free_bytes
from openclaw_cli.errors import NoSpaceError, RefusedError
from openclaw_cli.manifest.runs import RUNS_DIR
from openclaw_cli.migration import discovery
from openclaw_cli.storage import backup

STATE_ROOT = "state"
"""Name of the state directory's copy in a snapshot; stores elsewhere are `store-1`, `store-2`, …"""

SPARE_BYTES = 16 * 2**20
"""Room beyond the bytes that are copied: directories, the manifest, what is written meanwhile."""

OnBytes = Callable[[int], None]

_SECRET_DIRS = frozenset({"credentials", "identity", "devices", "secrets"})
_SECRET_FILES = re.compile(
    r"auth(-profiles|-state)?\.json(\..+)?|oauth(-.+)?\.json|secrets?(\..+)?\.json|.+\.token\.json|\.env(\..+)?|.+\.(pem|key|p12)",
    re.IGNORECASE,
)
_NO_HISTORY_DIRS = frozenset({"browser", "canvas", "completions", "extensions", "logs", "node_modules", "sandboxes"})
_PASSING_DIRS = frozenset({"tmp", "cache"})
_PASSING_FILES = re.compile(r".+(-shm|\.lock|\.lock\.sqlite(-journal|-wal)?|\.part|\.creating)|\..+\.[0-9a-f]{12}\.tmp")
_COMPANIONS = ("-wal", "-journal")


class Kind(StrEnum):
    """What an item is, and so how it is copied."""

    FILE = "file"
    DATABASE = "database"
    LINK = "link"
    DIRECTORY = "directory"


@dataclass(frozen=True, slots=True)
class Root:
    """A directory whose content is copied to `name` in the snapshot.

    `names`: the only entries of it that are taken (None: all that is not left out).
    """

    name: str
    path: Path
    names: frozenset[str] | None = None


@dataclass(frozen=True, slots=True)
class Item:
    """Something to copy. `path`: its place in the snapshot; sizes in bytes, times in nanoseconds."""

    path: str
    source: Path
    kind: Kind
    size_bytes: int
    mode: int
    mtime_ns: int
    target: str | None = None

    @property
    def sign(self) -> tuple[str, int, int, str | None]:
        """Changes when the item has to be copied again. A database in use changes all the time and is one view."""
        moving = self.kind in (Kind.DATABASE, Kind.DIRECTORY)
        return self.kind, *((0, 0) if moving else (self.size_bytes, self.mtime_ns)), self.target


@dataclass(frozen=True, slots=True)
class LeftOut:
    """Something that is not copied. `reason`: secret, passing (of a running process), no-history, special."""

    path: str
    reason: str


@dataclass(slots=True)
class SnapshotPlan:
    """All that a snapshot will hold, directories before their content."""

    roots: tuple[Root, ...]
    items: list[Item] = field(default_factory=list)
    left_out: list[LeftOut] = field(default_factory=list)

    @property
    def total_bytes(self) -> int:
        """Bytes to copy."""
        return sum(item.size_bytes for item in self.items)


def roots_of(state_dir: Path, targets: Sequence[Target], config_path: Path | None = None) -> tuple[Root, ...]:
    """The state directory, and the places of stores and configuration that lie elsewhere (also behind a link)."""
    home = Path(os.path.realpath(state_dir))
    whole = is_state_dir(state_dir)
    found = [Root(STATE_ROOT, home)] if whole else []
    wanted: dict[Path, set[str] | None] = {}
    for target in targets:
        _add_store(wanted, target)
    if not whole:
        _want(wanted, home / RUNS_DIR, None)
    if config_path is not None and config_path.is_file():
        _want(wanted, Path(os.path.realpath(config_path)).parent, {os.path.basename(os.path.realpath(config_path))})
    for directory, names in sorted(wanted.items()):
        if any(root.names is None and directory.is_relative_to(root.path) for root in found):
            continue
        limit = None if names is None else frozenset(names)
        found.append(Root(f"store-{len(found) + (0 if whole else 1)}", directory, limit))
    return tuple(found)


def plan(roots: tuple[Root, ...]) -> SnapshotPlan:
    """Walk the roots. Raises RefusedError for a directory that cannot be read: a snapshot would not be complete."""
    made = SnapshotPlan(roots)
    for root in roots:
        for item in _walk(root, root.path, root.name, made.left_out.append):
            made.items.append(item)
    return made


def check_place(directory: Path, roots: Iterable[Root]) -> None:
    """Refuse a place inside what is copied. Raises RefusedError."""
    place = Path(os.path.realpath(directory))
    for root in roots:
        if place.is_relative_to(root.path) and root.names is None:
            raise RefusedError(
                f"{directory} lies inside {root.path}, which is to be copied",
                hint="name a directory outside of it, best on another disk",
                code="snapshot_inside",
            )


def check_room(directory: Path, needed_bytes: int) -> None:
    """Refuse a file system without enough room. Raises NoSpaceError."""
    needed, free = needed_bytes + SPARE_BYTES, free_bytes(directory)
    if free < needed:
        raise NoSpaceError(
            f"the snapshot needs {needed} bytes on the file system of {directory}, {free} are free",
            hint="free some space, or name a directory on another disk; nothing was written",
            neededBytes=needed,
            freeBytes=free,
        )


def _add_store(wanted: dict[Path, set[str] | None], target: Target) -> None:
    """The directories of one store, by their real places."""
    database = Path(os.path.realpath(target.sqlite_path))
    _want(wanted, database.parent, {database.name + suffix for suffix in ("", *_COMPANIONS)})
    sessions = Path(os.path.realpath(target.sessions_dir))
    if target.sessions_dir.name == "sessions":
        _want(wanted, sessions, None)
    else:
        listing = discovery.list_directory(sessions)
        taken = {
            name for kind, files in listing.files.items() if kind is not discovery.FileClass.OTHER for name in files
        }
        _want(wanted, sessions, taken | {target.store_path.name, ARCHIVE_DIR_NAME})
    _want(wanted, Path(os.path.realpath(target.archive_dir)), None)


def _want(wanted: dict[Path, set[str] | None], directory: Path, names: set[str] | None) -> None:
    if not directory.is_dir():
        return
    known = wanted.get(directory, set())
    wanted[directory] = None if names is None or known is None else known | names


def _walk(root: Root, directory: Path, place: str, leave_out: Callable[[LeftOut], None]) -> Iterator[Item]:
    try:
        yield _item(place, directory, os.stat(directory), Kind.DIRECTORY)
        with os.scandir(directory) as found:
            entries = sorted(found, key=lambda entry: entry.name)
    except FileNotFoundError:
        return  # Gone since its parent was read; what it held is found where it is now.
    except OSError as error:
        raise RefusedError(f"{directory} cannot be read: {error.strerror}", hint="check its owner and mode") from error
    top = directory == root.path
    names = {entry.name for entry in entries}
    databases = {entry.name for entry in entries if _is_database(entry)}
    for entry in entries:
        if top and root.names is not None and entry.name not in root.names:
            continue
        path = f"{place}/{entry.name}"
        reason = _left_out(entry, top=top and root.name == STATE_ROOT)
        if reason is not None:
            leave_out(LeftOut(path, reason))
        elif entry.is_dir(follow_symlinks=False):
            yield from _walk(root, Path(entry.path), path, leave_out)
        elif not _belongs_to(entry.name, names & databases):
            yield from _file(entry, path, entry.name in databases)


def _file(entry: os.DirEntry[str], path: str, database: bool) -> Iterator[Item]:
    try:
        status = entry.stat(follow_symlinks=False)
        if entry.is_symlink():
            yield _item(path, Path(entry.path), status, Kind.LINK, os.readlink(entry.path))
        elif database:
            size = backup.size_bytes(Path(entry.path))
            yield _item(path, Path(entry.path), status, Kind.DATABASE, size_bytes=size)
        else:
            yield _item(path, Path(entry.path), status, Kind.FILE, size_bytes=status.st_size)
    except FileNotFoundError:
        return  # Moved or removed since the directory was read; the next round of the copy looks again.


def _item(
    path: str, source: Path, status: os.stat_result, kind: Kind, target: str | None = None, size_bytes: int = 0
) -> Item:
    return Item(path, source, kind, size_bytes, stat.S_IMODE(status.st_mode), status.st_mtime_ns, target)


def _left_out(entry: os.DirEntry[str], *, top: bool) -> str | None:
    """Why an entry stays out of a snapshot, None when it is taken. `top`: it lies in the state directory itself."""
    name = entry.name
    if entry.is_symlink():
        return "secret" if _SECRET_FILES.fullmatch(name) or (top and name in _SECRET_DIRS) else None
    if entry.is_dir(follow_symlinks=False):
        if not top:
            return "no-history" if name == "node_modules" else None
        if name in _SECRET_DIRS:
            return "secret"
        if name in _PASSING_DIRS:
            return "passing"
        return "no-history" if name in _NO_HISTORY_DIRS or name.startswith("workspace") else None
    if not entry.is_file(follow_symlinks=False):
        return "special"
    if _SECRET_FILES.fullmatch(name):
        return "secret"
    return "passing" if _PASSING_FILES.fullmatch(name) else None


def _is_database(entry: os.DirEntry[str]) -> bool:
    """Whether a file is copied as a database. One that a recovery put aside is evidence and is copied as it is."""
    if ".corrupt-" in entry.name or entry.name.endswith(_COMPANIONS) or not entry.is_file(follow_symlinks=False):
        return False
    try:
        return backup.is_database(Path(entry.path))
    except OSError:
        return False  # Copying it as a file says what is wrong with it.


def _belongs_to(name: str, databases: set[str]) -> bool:
    """Whether a file is the log or journal of a database beside it, and so is in that one's copy."""
    return any(name.endswith(suffix) and name.removesuffix(suffix) in databases for suffix in _COMPANIONS)
