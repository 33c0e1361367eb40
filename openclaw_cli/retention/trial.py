"""A run on a private copy: what a disk budget would take is told to the byte, instead of being guessed.

The copy has the database as it is now and files of the same names, sizes and times; those that a run would read are
copied, the others are empty ones of that size.
"""

from __future__ import annotations

import dataclasses
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from openclaw_cli.config import Target
from openclaw_cli.durable import free_bytes, sha256_file
from openclaw_cli.retention import applying, budget, cleaning
from openclaw_cli.retention.applying import Applied
from openclaw_cli.retention.audit import Silent
from openclaw_cli.retention.budget import Kind, Spent, Taken
from openclaw_cli.retention.cleaning import Look, Options
from openclaw_cli.storage import backup, connection


def is_needed(found: Look, options: Options) -> bool:
    """Whether a run could exceed the budget: what there is, and what archives may add, is more than that."""
    most = options.settings.max_disk_bytes
    return most is not None and found.measured.total_bytes + 2 * sum(found.sizes.values()) > most


def has_room(found: Look) -> bool:
    """Whether the temporary directory takes a copy of the database, its log and what a run writes."""
    needed = 3 * (found.measured.database_bytes + found.measured.wal_bytes)
    return free_bytes(Path(tempfile.gettempdir())) > needed


def run(target: Target, found: Look, options: Options) -> tuple[Applied, Spent]:
    """Carry everything out on a copy; gives what was done there, with the numbers of the real store before it."""
    with _copied(target, found, options) as (copy, elsewhere):
        limits = replace(options, archive_dir=elsewhere)
        with connection.open_write(copy.sqlite_path, agent_id=target.agent_id, timeouts=options.timeouts) as store:
            audit = Silent(copy.sessions_dir, options.now_ms)
            again = cleaning.look(store, copy, limits)
            done = applying.act(store, copy, again, limits, audit)
            spent = budget.enforce(store, copy, done, limits)
        _name_the_store(spent, copy, target)
    spent.taken[:] = [_with_real_digest(each, target) for each in spent.taken]
    spent.before = found.measured
    return done.applied, spent


def _with_real_digest(taken: Taken, target: Target) -> Taken:
    """Archives are empty files of the same size on the copy; a plan names them by what they really hold."""
    path = None if taken.name is None else target.sessions_dir / taken.name
    if taken.kind is not Kind.ARCHIVE or path is None or not path.is_file():
        return taken
    return replace(taken, sha256=sha256_file(path))


def _name_the_store(spent: Spent, copy: Target, target: Target) -> None:
    """Issues name the store that they are about, not the copy on which they were found."""
    spent.issues[:] = [
        dataclasses.replace(issue, message=issue.message.replace(str(copy.sqlite_path), str(target.sqlite_path)))
        for issue in spent.issues
    ]


@contextmanager
def _copied(target: Target, found: Look, options: Options) -> Iterator[tuple[Target, Path | None]]:
    with tempfile.TemporaryDirectory(prefix="openclaw-trial-") as place:
        base = Path(place)
        sessions = base / "sessions"
        sessions.mkdir()
        database = base / "agent" / target.sqlite_path.name
        database.parent.mkdir()
        backup.copy_database(target.sqlite_path, database)
        read = {file.path for file, _ in found.orphans}
        for file in found.files:
            _file(file.path, sessions / file.path.name, copied=file.path in read)
        for name in ("cold", "skills-prompts"):
            _tree(target.sessions_dir / name, sessions / name)
        elsewhere = None
        if options.archive_dir is not None:
            elsewhere = base / "archives"
            elsewhere.mkdir()
        index = sessions / target.store_path.name
        yield replace(target, store_path=index, sqlite_path=database, sessions_dir=sessions), elsewhere


def _file(source: Path, copy: Path, *, copied: bool) -> None:
    status = source.stat()
    if copied:
        shutil.copyfile(source, copy)
    else:
        with copy.open("wb") as stream:
            stream.truncate(status.st_size)
    os.utime(copy, ns=(status.st_mtime_ns, status.st_mtime_ns))


def _tree(source: Path, copy: Path) -> None:
    for folder, _, names in os.walk(source):
        below = copy / os.path.relpath(folder, source)
        below.mkdir(parents=True, exist_ok=True)
        for name in names:
            place = Path(folder) / name
            if place.is_file() and not place.is_symlink():
                _file(place, below / name, copied=False)
