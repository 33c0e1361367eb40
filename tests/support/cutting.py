"""Every place at which a run changes a file, counted; and any one of them made to fail.

The seam is below the program: SQLite's writes, syncs, truncations, deletions and creating opens come through a VFS,
those of Python code through the functions of `os` and `open`. Only paths below one directory count. A point that is
cut fails before its effect; a write that is cut by SIGKILL has left its first half. Kinds:

* `exception`: something that no code expects (a plain Exception), once;
* `sigkill`: the process is gone;
* `enospc`: the disk is full there and stays full: whatever needs room fails from then on;
* `eio`: an input or output error, once;
* `erofs`: nothing below a directory can be changed, from the beginning to the end (no point of its own).
"""

from __future__ import annotations

import builtins
import errno
import io
import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any, NoReturn

import apsw

KINDS = ("exception", "sigkill", "enospc", "eio")
_NEEDS_ROOM = {"write", "create", "open", "link", "mkdir", "symlink", "sendfile", "vfs-write", "vfs-create"}
_WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND


class CutError(Exception):
    """The failure that nobody expects."""


class Cutter:
    """Counts the points of one process and cuts one of them."""

    def __init__(
        self, root: Path, *, at: int | None = None, kind: str = "", closed: Path | None = None, links: bool = True
    ) -> None:
        """`root`: where points count; `at`: which point is cut (0 = the first); `closed`: what is read-only under
        `erofs`; without `links` the file system has no hard links."""
        self.root = os.path.realpath(root)
        self.points: list[str] = []
        self._at, self._kind, self._links = at, kind, links
        self._closed = None if closed is None else os.path.realpath(closed)
        self._full = False

    def point(self, name: str, path: str, half: Callable[[], object] | None = None) -> None:
        """The effect `name` is about to happen at `path`. Raises when it is the one to be cut; `half` does half of
        it."""
        if not _below(path, self.root):
            return
        if self.is_closed(path):
            self._fail(name, path, errno.EROFS)
        if name == "link" and not self._links and not os.path.lexists(path):
            raise OSError(errno.EPERM, os.strerror(errno.EPERM), path)
        number = len(self.points)
        self.points.append(f"{name} {os.path.relpath(path, self.root)}")
        if self._full and name in _NEEDS_ROOM:
            self._fail(name, path, errno.ENOSPC)
        if number != self._at:
            return
        if self._kind == "sigkill":
            if half is not None:
                half()
            os.kill(os.getpid(), signal.SIGKILL)
        if self._kind == "exception":
            raise CutError("cut")
        self._full = self._kind == "enospc"
        self._fail(name, path, errno.ENOSPC if self._full else errno.EIO)

    def is_closed(self, path: str) -> bool:
        """Whether nothing can be changed there."""
        return self._closed is not None and _below(path, self._closed)

    def _fail(self, name: str, path: str, number: int) -> NoReturn:
        if name.startswith("vfs-"):
            raise _sqlite_error(name, number)
        raise OSError(number, os.strerror(number), path)


def _below(path: str, place: str) -> bool:
    return path == place or path.startswith(place + os.sep)


def _sqlite_error(name: str, number: int) -> apsw.Error:
    """What SQLite's own file layer would say of an errno."""
    if name == "vfs-create":
        error: apsw.Error = apsw.CantOpenError("cut")
        error.extendedresult = apsw.SQLITE_CANTOPEN
        return error
    if name == "vfs-write" and number == errno.ENOSPC:
        error = apsw.FullError("cut")
        error.extendedresult = apsw.SQLITE_FULL
        return error
    error = apsw.IOError("cut")
    error.extendedresult = {
        "vfs-write": apsw.SQLITE_IOERR_WRITE,
        "vfs-sync": apsw.SQLITE_IOERR_FSYNC,
        "vfs-truncate": apsw.SQLITE_IOERR_TRUNCATE,
        "vfs-delete": apsw.SQLITE_IOERR_DELETE,
    }[name]
    return error


class _File(apsw.VFSFile):
    cutter: Cutter

    def __init__(self, name: Any, flags: list[int]) -> None:
        super().__init__("unix", name, flags)
        self.path = _text(name)
        self.reads_only = not flags[1] & apsw.SQLITE_OPEN_READWRITE

    def xLock(self, level: int) -> None:
        try:
            super().xLock(level)
        except apsw.IOError as error:
            # Whoever closes a file that it only reads asks for a lock that it cannot have; SQLite goes on without. As
            # an exception that would end the run; the only failure of a lock that apsw hands over silently is this.
            if not self.reads_only:
                raise
            raise apsw.BusyError("read-only") from error

    def xWrite(self, data: bytes, offset: int) -> None:
        half = bytes(data[: len(data) // 2])
        self.cutter.point("vfs-write", self.path, lambda: super(_File, self).xWrite(half, offset))
        super().xWrite(data, offset)

    def xSync(self, flags: int) -> None:
        self.cutter.point("vfs-sync", self.path)
        super().xSync(flags)

    def xTruncate(self, size: int) -> None:
        self.cutter.point("vfs-truncate", self.path)
        super().xTruncate(size)


class _Vfs(apsw.VFS):
    def __init__(self, cutter: Cutter) -> None:
        super().__init__("cutting", "unix", makedefault=True)
        self.cutter = cutter

    def xOpen(self, name: Any, flags: list[int]) -> apsw.VFSFile:
        path = _text(name)
        if flags[0] & apsw.SQLITE_OPEN_CREATE and path and not os.path.exists(path):
            self.cutter.point("vfs-create", path)
        if self.cutter.is_closed(path) and flags[0] & apsw.SQLITE_OPEN_READWRITE:
            # What SQLite itself does where a file system is read-only.
            flags[0] = flags[0] & ~(apsw.SQLITE_OPEN_READWRITE | apsw.SQLITE_OPEN_CREATE) | apsw.SQLITE_OPEN_READONLY
        file = _File(name, flags)
        file.cutter = self.cutter
        return file

    def xDelete(self, name: str, syncdir: bool) -> None:
        if os.path.lexists(name):
            self.cutter.point("vfs-delete", os.path.realpath(name))
        super().xDelete(name, syncdir)


def _text(name: Any) -> str:
    """The path of a file that SQLite opens; "" for one without a name (temporary files)."""
    found = name.filename() if isinstance(name, apsw.URIFilename) else name
    return os.path.realpath(found) if found else ""


def install(cutter: Cutter) -> object:
    """Put the seam under this process, for good; gives what must be kept alive."""
    for name in ("rename", "replace", "link", "symlink"):
        _wrap_pair(cutter, name)
    for name, point in (
        ("unlink", "unlink"), ("remove", "unlink"), ("mkdir", "mkdir"), ("rmdir", "rmdir"), ("chmod", "chmod"),
        ("chown", "chown"), ("utime", "utime"), ("truncate", "truncate"),
    ):  # fmt: skip
        _wrap_path(cutter, name, point)
    for name in ("fsync", "fdatasync", "fchmod", "ftruncate", "sendfile"):
        _wrap_descriptor(cutter, name)
    _wrap_opening(cutter)
    return _Vfs(cutter)


def _place(path: Any, dir_fd: int | None = None) -> str:
    """The absolute path of an argument, its last part not resolved."""
    if isinstance(path, int):
        return os.readlink(f"/proc/self/fd/{path}")
    text = os.fsdecode(path)
    if dir_fd is not None and not os.path.isabs(text):
        text = os.path.join(os.readlink(f"/proc/self/fd/{dir_fd}"), text)
    directory, name = os.path.split(os.path.abspath(text))
    return os.path.join(os.path.realpath(directory), name)


def _wrap_pair(cutter: Cutter, name: str) -> None:
    """A function whose second argument is the name that comes into being."""
    real = getattr(os, name)

    def wrapped(source: Any, destination: Any, *args: Any, **kwargs: Any) -> Any:
        cutter.point("rename" if name == "replace" else name, _place(destination))
        return real(source, destination, *args, **kwargs)

    setattr(os, name, wrapped)


def _wrap_path(cutter: Cutter, name: str, point: str) -> None:
    real = getattr(os, name)

    def wrapped(path: Any, *args: Any, dir_fd: int | None = None, **kwargs: Any) -> Any:
        place = _place(path, dir_fd)
        # What has nothing to act on changes nothing.
        if point not in ("unlink", "rmdir") or os.path.lexists(place):
            cutter.point(point, place)
        return real(path, *args, **kwargs) if dir_fd is None else real(path, *args, dir_fd=dir_fd, **kwargs)

    setattr(os, name, wrapped)


def _wrap_descriptor(cutter: Cutter, name: str) -> None:
    real = getattr(os, name)

    def wrapped(descriptor: Any, *args: Any, **kwargs: Any) -> Any:
        number = descriptor if isinstance(descriptor, int) else descriptor.fileno()
        cutter.point(name, _place(number))
        return real(descriptor, *args, **kwargs)

    setattr(os, name, wrapped)


def _wrap_opening(cutter: Cutter) -> None:
    """`os.open`, `open` and `os.write`: a file that comes into being, one that is opened for writing, its bytes."""
    real_open, real_os_open, real_write = builtins.open, os.open, os.write

    def os_open(path: Any, flags: int, *args: Any, dir_fd: int | None = None, **kwargs: Any) -> int:
        if flags & _WRITING:
            place = _place(path, dir_fd)
            cutter.point("open" if os.path.lexists(place) else "create", place)
        return real_os_open(path, flags, *args, dir_fd=dir_fd, **kwargs)

    def opened(file: Any, mode: str = "r", *args: Any, **kwargs: Any) -> Any:
        if set(mode) & set("wax+") and not isinstance(file, int):
            place = _place(file)
            cutter.point("open" if os.path.lexists(place) else "create", place)
        return real_open(file, mode, *args, **kwargs)

    def write(descriptor: int, data: Any) -> int:
        half = bytes(data[: len(data) // 2])
        cutter.point("write", _place(descriptor), lambda: real_write(descriptor, half))
        return real_write(descriptor, data)

    os.open, os.write = os_open, write  # type: ignore[assignment]
    builtins.open = io.open = opened  # type: ignore[assignment]
