"""The one place where whatever ends a run becomes an exit status, a message, and a document: all of `--json`, the last
line of `--ndjson`."""

from __future__ import annotations

import contextlib
import errno
import os
import signal
import sys
import threading
import traceback
from collections.abc import Callable, Iterable, Iterator, Sequence
from types import FrameType
from typing import Any

from openclaw_cli.cli import streams
from openclaw_cli.errors import Exit, NoSpaceError, NotFoundError, OpenClawError, RefusedError, UsageError

PROGRAM = "openclaw-cli"


class Terminated(BaseException):
    """SIGTERM arrived. No `Exception`, so that nothing on the way out takes it for a failure of its own."""


class IncompleteError(UsageError):
    """A group was called without one of its commands; `page` is the help that a person gets to see then."""

    def __init__(self, group: str, members: Iterable[str], page: str) -> None:
        super().__init__(f"{group} needs one of its commands: {', '.join(members)}", hint=f"{PROGRAM} {group} --help")
        self.page = page


def guarded(argv: Sequence[str], body: Callable[[], Any]) -> int:
    """Run `body` (which returns a status or None) and return the exit status; nothing is raised.

    `argv` tells whether `--json`, `--ndjson` and `--debug` were asked for, also when it could not be parsed.
    """
    words = list(argv[: argv.index("--")]) if "--" in argv else list(argv)
    streams.begin_run()
    try:
        with _signals():
            try:
                status = _finished(words, body)
            except (KeyboardInterrupt, Terminated) as cut:
                status = _report_cut(cut, words)
            sys.stdout.flush()
            return status
    except (BrokenPipeError, streams.OutputError) as error:
        return streams.unwritten(error, "; what the command has done stays done")
    except (KeyboardInterrupt, Terminated) as cut:  # again, while the first one was reported
        streams.silence_stdout()
        return _cut(cut)[0]


def _finished(words: Sequence[str], body: Callable[[], Any]) -> int:
    try:
        return int(body() or 0)
    except (BrokenPipeError, streams.OutputError):
        raise
    except OpenClawError as error:
        return _report(error, words)
    except OSError as error:
        return _report(_of_system(error), words)
    except Exception as error:
        known = _of_parser(error)
        if isinstance(known, int):
            return known
        return _report(known, words) if known is not None else _report_bug(error, words)


def _of_parser(error: Exception) -> OpenClawError | int | None:
    """What the command-line parser raised, by shape: typer brings its own or another copy of these classes."""
    code = getattr(error, "exit_code", None)
    if hasattr(error, "format_message") and code is not None:
        context = getattr(error, "ctx", None)
        path = getattr(context, "command_path", None) or PROGRAM
        return UsageError(error.format_message(), hint=f"{path} --help")
    if type(error).__name__ == "Exit" and isinstance(code, int):
        return code
    if type(error).__name__ == "Abort":
        raise KeyboardInterrupt from error
    return None


def _of_system(error: OSError) -> OpenClawError:
    reason = error.strerror or type(error).__name__
    name = os.fsdecode(error.filename) if isinstance(error.filename, (str, bytes)) else None
    message = f"{name}: {reason}" if name is not None else reason
    facts = {"path": name} if name is not None else {}
    if error.errno in streams.NO_SPACE:
        return NoSpaceError(message, **facts)
    if isinstance(error, (FileNotFoundError, NotADirectoryError)):
        return NotFoundError(message, **facts)
    if isinstance(error, PermissionError) or error.errno == errno.EROFS:
        return RefusedError(message, **facts)
    return OpenClawError(message, **facts)


def _report(error: OpenClawError, words: Sequence[str]) -> int:
    _say(error.message)
    if isinstance(error, IncompleteError) and not {"--json", "--ndjson"} & set(words):
        print(f"\n{error.page}", file=sys.stderr)  # noqa: T201
    elif error.hint:
        _say(f"hint: {error.hint}")
    if "--debug" in words:
        _print_frames(error)
    _print_document(error, words)
    return int(error.exit)


def _cut(cut: BaseException) -> tuple[Exit, str]:
    """Status and code of a run that a signal ended."""
    return (Exit.TERMINATED, "terminated") if isinstance(cut, Terminated) else (Exit.INTERRUPTED, "interrupted")


def _report_cut(cut: BaseException, words: Sequence[str]) -> int:
    """A run that was cut from outside; everything that it had opened is closed by now."""
    status, code = _cut(cut)
    error = OpenClawError(f"{code} before the end; nothing was lost", hint="run the same command again", code=code)
    _say(f"{error.message}: {error.hint}")
    _print_document(error, words)
    return status


def _report_bug(error: Exception, words: Sequence[str]) -> int:
    """A fault of ours: frames, type and versions, but not the message, which may quote a transcript."""
    from openclaw_cli import __version__

    name = type(error).__name__
    _say(f"unexpected {name}; this is a fault of {PROGRAM}, please report the lines below")
    _print_frames(error)
    _say(f"{PROGRAM} {__version__}, Python {sys.version.split()[0]}, {sys.platform}")
    _print_document(OpenClawError(f"unexpected {name}", hint="the stack trace is on stderr", code="internal"), words)
    return Exit.FAILED


def _print_frames(error: BaseException) -> None:
    cause: BaseException | None = error
    seen: set[int] = set()
    while cause is not None and id(cause) not in seen:
        seen.add(id(cause))  # `raise error from error` makes a chain that never ends
        for frame in traceback.extract_tb(cause.__traceback__):
            _say(f"  {frame.filename}:{frame.lineno} in {frame.name}")
        cause = cause.__cause__
        if cause is not None:
            _say(f"  caused by {type(cause).__name__}")


def _print_document(error: OpenClawError, words: Sequence[str]) -> None:
    """The failure for a program that reads stdout; with `--ndjson` a last line behind those of the items done."""
    from openclaw_cli.cli.output import write_document, write_line

    if "--json" in words and not streams.document_begun():
        write_document(error.as_json())
    elif "--ndjson" in words:
        write_line({"type": "error", **error.as_json()})


def _say(text: str) -> None:
    from openclaw_cli.cli.output import escape

    with contextlib.suppress(BrokenPipeError, ValueError):  # nobody reads stderr any more: the status still tells
        print(f"{PROGRAM}: {escape(text)}" if not text.startswith("  ") else escape(text), file=sys.stderr)  # noqa: T201


@contextlib.contextmanager
def _signals() -> Iterator[None]:
    """Turn SIGTERM into an exception, so that transactions roll back and temporary files go."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def terminate(_number: int, _frame: FrameType | None) -> None:
        raise Terminated

    before = signal.signal(signal.SIGTERM, terminate)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
