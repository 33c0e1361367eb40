"""Copying a database that may be in use: SQLite's backup interface, in steps, with what its log holds.

In WAL mode the copy is made of one view that a read transaction keeps, so it never starts again and no writer waits.
With a rollback journal a reader would block writers, so the lock is given back between two steps, and the copy starts
again when somebody wrote. The copy appears under its name whole and synced.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import apsw

from openclaw_cli.durable import as_refusal, fsync_dir, sync_file
from openclaw_cli.errors import BusyError, RefusedError
from openclaw_cli.storage.connection import PROGRESS_STEPS
from openclaw_cli.storage.failures import translate

MAGIC = b"SQLite format 3\0"
STEP_PAGES = 1024
"""Pages of one step (4 MiB): a signal is seen, and a lock given back, at least that often."""

MOST_ROUNDS = 8
"""How many times a copy may begin again because of others' writes before it is given up as busy."""

PART_SUFFIX = ".part"
"""Behind the name of a copy that is not finished."""

OnBytes = Callable[[int], None]


@dataclass(frozen=True, slots=True)
class Copied:
    """What a copy has: its pages, and the bytes of one."""

    pages: int
    page_size_bytes: int

    @property
    def size_bytes(self) -> int:
        """Bytes of the copy; it has no log."""
        return self.pages * self.page_size_bytes


def is_database(path: Path) -> bool:
    """Whether a file begins as a SQLite database does. Raises OSError."""
    with open(path, "rb", buffering=0) as stream:
        return stream.read(len(MAGIC)) == MAGIC


def size_bytes(path: Path) -> int:
    """At most how large a copy of the database at `path` can be: file and log. Raises OSError for the file."""
    log = path.with_name(path.name + "-wal")
    return path.stat().st_size + (log.stat().st_size if log.is_file() else 0)


def copy_database(
    source: Path,
    destination: Path,
    *,
    on_bytes: OnBytes | None = None,
    step_pages: int = STEP_PAGES,
    wait_ms: int = 5_000,
) -> Copied:
    """Copy the database `source`, with its own log, to `destination`, which is replaced in one step; mode 0600.

    Nothing of the source changes (SQLite's own `-shm` and an empty `-wal` excepted). `on_bytes` hears of each step's
    bytes. Raises CorruptError (it cannot be read as a database), BusyError (others write faster than it can be read),
    RefusedError (it cannot be opened, or the place cannot be written), NoSpaceError.
    """
    building = destination.with_name(destination.name + PART_SUFFIX)
    _discard(building)
    try:
        copied = _copy(source, building, on_bytes or (lambda _: None), step_pages, wait_ms)
        _publish(building, destination)
    except OSError as error:
        _discard(building)
        raise as_refusal(error, destination) from error
    except BaseException:
        _discard(building)
        raise
    return copied


def faults(path: Path) -> list[str]:
    """What SQLite's full check finds in a database that lies alone and that nobody writes; empty when it is sound.

    Nothing is created beside it. Raises CorruptError when it cannot be read as a database, and RefusedError
    (`not_checkable`) when its schema needs an extension that is not here.
    """
    connection = None
    try:
        connection = _open(f"{path.absolute().as_uri()}?immutable=1", apsw.SQLITE_OPEN_READONLY, 0)
        rows = connection.cursor().execute("PRAGMA integrity_check")
        return [line for (text,) in rows for line in text.splitlines() if line != "ok" and not line.startswith("***")]
    except apsw.SQLError as error:
        raise RefusedError(f"{path} cannot be checked: {error}", code="not_checkable", path=str(path)) from error
    except apsw.Error as error:
        ours = translate(error, path)
        raise ours from (None if ours is error else error)
    finally:
        if connection is not None:
            connection.close()


def _copy(source: Path, building: Path, on_bytes: OnBytes, step_pages: int, wait_ms: int) -> Copied:
    opened: list[apsw.Connection] = []
    try:
        reader = _open(source.absolute().as_uri() + "?mode=ro", apsw.SQLITE_OPEN_READONLY, wait_ms)
        opened.append(reader)
        mode = reader.pragma("journal_mode")
        page_size_bytes = int(reader.pragma("page_size"))
        if mode == "wal":
            # Holds one view: without it every commit of somebody else would begin the copy anew.
            reader.execute("BEGIN")
            reader.execute("SELECT count(*) FROM sqlite_schema").fetchall()
        os.close(os.open(building, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))
        writer = _open(building.absolute().as_uri() + "?mode=rw", apsw.SQLITE_OPEN_READWRITE, 0)
        opened.append(writer)
        # Nothing is there that a journal could bring back; the finished file is synced as a whole.
        writer.pragma("journal_mode", "off")
        writer.pragma("synchronous", "off")
        pages = _steps(reader, writer, source, page_size_bytes, on_bytes, step_pages)
    except apsw.Error as error:
        ours = translate(error, source if len(opened) < 2 else building)
        raise ours from (None if ours is error else error)
    finally:
        for connection in reversed(opened):
            connection.close()
    return Copied(pages, page_size_bytes)


def _steps(
    reader: apsw.Connection,
    writer: apsw.Connection,
    source: Path,
    page_size_bytes: int,
    on_bytes: OnBytes,
    step_pages: int,
) -> int:
    rounds, left = 1, None
    with writer.backup("main", reader, "main") as backup:
        while not backup.done:
            backup.step(step_pages)
            if left is not None and backup.remaining >= left and not backup.done:
                rounds += 1
                if rounds > MOST_ROUNDS:
                    raise BusyError(f"{source} is written faster than it can be copied", hint="try again later")
            else:
                on_bytes(min(step_pages, backup.page_count if left is None else left) * page_size_bytes)
            left = backup.remaining
        return int(backup.page_count)


def _open(uri: str, flags: int, wait_ms: int) -> apsw.Connection:
    connection = apsw.Connection(uri, flags=flags | apsw.SQLITE_OPEN_URI)
    connection.set_busy_timeout(wait_ms)
    # A pending SIGINT is seen only while Python runs.
    connection.set_progress_handler(lambda: False, PROGRESS_STEPS)
    connection.cursor().execute("PRAGMA trusted_schema=OFF").fetchall()
    return connection


def _publish(building: Path, destination: Path) -> None:
    descriptor = os.open(building, os.O_RDONLY)
    try:
        sync_file(descriptor)
    finally:
        os.close(descriptor)
    os.replace(building, destination)
    fsync_dir(destination.parent)


def _discard(building: Path) -> None:
    for suffix in ("", "-wal", "-shm", "-journal"):
        building.with_name(building.name + suffix).unlink(missing_ok=True)
