"""The three standard streams as the run needs them: always there, and with an answer when they cannot be written.

A program may be started with a stream closed (`>&-`). The first file that it opens would then get that number, and
whatever is printed would go into it: into a database, for example. So a missing stream becomes the null device before
anything else is opened. Imports nothing of ours on the way to a printed help page.
"""

from __future__ import annotations

import contextlib
import errno
import io
import os
import sys
from typing import Any, TextIO

NO_SPACE = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


class OutputError(Exception):
    """stdout cannot be written, for another reason than a reader that went away. `reason` is the system's.

    No `OSError`, so that nothing on the way takes it for a failure of the file that it is at work on.
    """

    def __init__(self, reason: OSError) -> None:
        super().__init__(str(reason))
        self.reason = reason


class _Result(io.FileIO):
    """The bytes of stdout."""

    def write(self, data: Any, /) -> int | None:
        try:
            return super().write(data)
        except BrokenPipeError:
            raise
        except OSError as error:
            raise OutputError(error) from error


class _Remarks(io.FileIO):
    """The bytes of stderr. A run whose remarks nobody can read goes on: its status still tells how it ended."""

    def write(self, data: Any, /) -> int | None:
        with contextlib.suppress(OSError):
            super().write(data)
        return len(memoryview(data).cast("B"))


_documents = {"begun": False}


def begin_run() -> None:
    """No document has been printed yet."""
    _documents["begun"] = False


def begin_document() -> None:
    """The document of the run is being printed from now on."""
    _documents["begun"] = True


def document_begun() -> bool:
    """Whether stdout carries a document, or the beginning of one: a second one must not follow it."""
    return _documents["begun"]


def prepare() -> None:
    """Replace closed streams by the null device, and let stdout and stderr fail as this module says.

    For the start of a process only: it takes the place of the interpreter's own streams.
    """
    for number, mode in ((0, os.O_RDONLY), (1, os.O_WRONLY), (2, os.O_WRONLY)):
        _fill(number, mode)
    if sys.stdin is None:
        sys.stdin = open(0, encoding="utf-8", closefd=False)  # noqa: SIM115
    sys.stdout = _text(_Result(1, "wb", closefd=False), sys.stdout, "strict", buffered=True)
    sys.stderr = _text(_Remarks(2, "wb", closefd=False), sys.stderr, "backslashreplace", buffered=False)


def printed(text: str) -> int:
    """Print the whole answer of a run and return its status."""
    try:
        sys.stdout.write(text)
        sys.stdout.flush()
    except (BrokenPipeError, OutputError) as error:
        return unwritten(error)
    return 0


def unwritten(error: BrokenPipeError | OutputError, remark: str = "") -> int:
    """The status of a run whose result could not be written; the reason goes to stderr, save for a closed pipe."""
    from openclaw_cli.errors import Exit

    silence_stdout()
    if isinstance(error, BrokenPipeError):
        return Exit.PIPE_CLOSED
    reason = error.reason.strerror
    print(f"openclaw-cli: standard output cannot be written: {reason}{remark}", file=sys.stderr)  # noqa: T201
    return Exit.REFUSED if error.reason.errno in NO_SPACE else Exit.FAILED


def silence_stdout() -> None:
    """Point stdout to nowhere, or the interpreter would fail again when it flushes at exit."""
    with contextlib.suppress(OSError, ValueError):
        null = os.open(os.devnull, os.O_WRONLY)
        os.dup2(null, sys.stdout.fileno())
        os.close(null)


def _fill(number: int, mode: int) -> None:
    """Open the null device as file `number` if nothing is open there."""
    try:
        os.fstat(number)
    except OSError:
        null = os.open(os.devnull, mode)
        if null == number:
            os.set_inheritable(null, True)
            return
        os.dup2(null, number)
        os.close(null)


def _text(raw: io.FileIO, before: TextIO | None, errors: str, *, buffered: bool) -> TextIO:
    """A text stream on `raw` with the encoding of the one that stood there."""
    encoding = before.encoding if before is not None else "utf-8"
    by_line = not buffered or raw.isatty()
    return io.TextIOWrapper(io.BufferedWriter(raw), encoding, errors, line_buffering=by_line)
