"""SQLite's failures as ours: which of them a user meets, and with which exit status."""

from __future__ import annotations

from pathlib import Path
from typing import NoReturn

import apsw

from openclaw_cli.errors import BusyError, CorruptError, NoSpaceError, OpenClawError, RefusedError

_WRITE_RESULTS = (apsw.SQLITE_IOERR_WRITE, apsw.SQLITE_IOERR_TRUNCATE, apsw.SQLITE_IOERR_SHMSIZE)


def translate(error: apsw.Error, path: Path) -> OpenClawError | apsw.Error:
    """The failure that a user meets for `error`; what can only be a fault of ours comes back as it is."""
    facts = {"path": str(path)}
    if isinstance(error, apsw.BusyError | apsw.LockedError):
        return BusyError(f"another program is writing {path}", hint="try again later", **facts)
    if isinstance(error, apsw.CorruptError | apsw.NotADBError):
        return CorruptError(
            f"{path} is damaged: {error}",
            hint="openclaw-cli doctor recover; what is readable first: --export-readable DIR",
            **facts,
        )
    if isinstance(error, apsw.FullError):
        return NoSpaceError(f"no space left while writing {path}", hint="free some space, then run again", **facts)
    if isinstance(error, apsw.ReadOnlyError | apsw.PermissionsError | apsw.AuthError | apsw.CantOpenError):
        return RefusedError(
            f"{path} cannot be opened: {error}", hint="check owner and mode", code="not_openable", **facts
        )
    if isinstance(error, apsw.IOError) and getattr(error, "extendedresult", None) in _WRITE_RESULTS:
        # SQLite calls it full only when the disk is; a quota and a limit of file sizes come as a failed write.
        return NoSpaceError(
            f"{path} cannot be written any further: {error}",
            hint="lift the quota or the limit of file sizes (ulimit -f), or look at the disk; then run again",
            code="not_writable",
            **facts,
        )
    if isinstance(error, apsw.IOError):
        return OpenClawError(f"input or output error on {path}: {error}", code="storage_io", **facts)
    return error


def fail(error: apsw.Error, path: Path) -> NoReturn:
    """Raise what `translate` makes of `error`, which is being handled."""
    ours = translate(error, path)
    if ours is error:
        # `from` would make the exception its own cause, and who walks the chain of causes would not end.
        raise error
    raise ours from error
