"""The SQLite lock file by which programs of one host agree on the owner of a state directory (store format §3.5)."""

from __future__ import annotations

import fcntl
import os
import struct
import sys
from pathlib import Path

import apsw

from openclaw_cli.errors import BusyError
from openclaw_cli.storage.failures import fail

_PENDING_BYTE = 2**30
_LOCK_BYTES = 512
# struct flock: type, whence, start, length, pid; the order differs.
_FLOCK = ("qqihh", (_PENDING_BYTE, _LOCK_BYTES, 0, fcntl.F_RDLCK, os.SEEK_SET), 3)
if not sys.platform.startswith("darwin"):
    _FLOCK = ("hhqqi", (fcntl.F_RDLCK, os.SEEK_SET, _PENDING_BYTE, _LOCK_BYTES, 0), 0)


def is_held(path: Path) -> bool:
    """Whether another process has the lock; asked of the system without taking anything, so that nobody is disturbed.

    SQLite's own lock bytes are looked at. A process must not ask about a lock that it holds itself: closing the file
    would give it away.
    """
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        return False
    try:
        form, request, kind = _FLOCK
        answer = struct.unpack(form, fcntl.fcntl(descriptor, fcntl.F_GETLK, struct.pack(form, *request)))
    finally:
        os.close(descriptor)
    return bool(answer[kind] != fcntl.F_UNLCK)


class Exclusive:
    """An exclusive lock on the database file `path`, held until `release` or the end of the process.

    The owner keeps `BEGIN EXCLUSIVE` open on the file, with its journal in memory so that nothing else appears beside
    it. The file is created when it is missing (mode 0600) and stays afterwards.
    """

    __slots__ = ("_connection", "path")

    def __init__(self, path: Path, wait_ms: int = 0) -> None:
        """Take the lock, waiting at most `wait_ms`. Raises BusyError when another process has it."""
        self.path = path
        self._connection: apsw.Connection | None = None
        # SQLite would create the file with the umask's mode; a lock that others can open is one that they can hold.
        os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600))
        try:
            connection = apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READWRITE)
        except apsw.Error as error:
            fail(error, path)
        try:
            connection.set_busy_timeout(wait_ms)
            connection.execute("PRAGMA journal_mode=MEMORY").fetchall()
            connection.execute("BEGIN EXCLUSIVE")
        except (apsw.BusyError, apsw.LockedError) as error:
            connection.close()
            raise BusyError(f"{path} is locked by another process", path=str(path)) from error
        except apsw.Error as error:
            connection.close()
            fail(error, path)
        self._connection = connection

    def release(self) -> None:
        """Give the lock back; doing it twice is harmless."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def __enter__(self) -> Exclusive:
        return self

    def __exit__(self, *_: object) -> None:
        self.release()
