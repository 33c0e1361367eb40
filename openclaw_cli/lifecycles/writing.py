"""Writing a new transcript beside an old one: whole or not at all, and never in place of another file unasked."""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterable
from pathlib import Path

from openclaw_cli import durable
from openclaw_cli.errors import NoSpaceError, UsageError
from openclaw_cli.faults import Step, reached

_BATCH_BYTES = 1 << 20
# Room for cards beside what the source needs.
_SPARE_BYTES = 4 << 20


def check_target(target: Path, *, force: bool, source: Path | None, source_bytes: int) -> None:
    """Refuse a target before any work: it is no file, it exists (unless `force`), is the source, has no room.

    Raises UsageError or NoSpaceError.
    """
    if source is not None and durable.same_file(source.resolve(), target.resolve()):
        raise UsageError(f"{target} is the source itself", hint="name another file with -o", path=str(target))
    if target.exists() and not target.is_file():
        # A rename would fail on a directory, and would put a file in the place of a device or a pipe.
        kind = "a directory" if target.is_dir() else "no regular file"
        raise UsageError(f"{target} is {kind}", hint="name a file with -o, or - for standard output", path=str(target))
    if os.path.lexists(target) and not force:
        raise _exists(target)
    free = durable.free_bytes(target.parent)
    if free < source_bytes + _SPARE_BYTES:
        message = f"{target.parent} has {free} bytes free, {source_bytes + _SPARE_BYTES} are needed"
        raise NoSpaceError(message, hint="make room or name another place with -o", path=str(target))


def _exists(target: Path) -> UsageError:
    hint = "name another file with -o, or replace it with --force"
    return UsageError(f"{target} exists already", hint=hint, code="output_exists", path=str(target))


def write_file(target: Path, chunks: Iterable[bytes], *, force: bool) -> int:
    """Write a file durably and return its size in bytes: temporary file, sync, new name, sync of the directory.

    A reader sees the whole file or none. Without `force` a file that has appeared meanwhile stays and UsageError is
    raised.
    """
    temporary = target.with_name(f".{target.name}.{secrets.token_hex(6)}.tmp")
    try:
        descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(descriptor, "wb", buffering=_BATCH_BYTES) as stream:
            stream.writelines(chunks)
            stream.flush()
            size = stream.tell()
            durable.sync_file(stream.fileno())
        reached(Step.OUTPUT_WRITTEN)
        if not force and os.path.lexists(target):
            raise _exists(target)
        os.replace(temporary, target)
        reached(Step.OUTPUT_RENAMED)
    except OSError as error:
        temporary.unlink(missing_ok=True)
        raise durable.as_refusal(error, target) from error
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    durable.fsync_dir(target.parent)
    return size
