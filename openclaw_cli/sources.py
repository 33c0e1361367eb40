"""What a user names as SOURCE, as a stream that can be read from the start again.

A source is a transcript file, plain or compressed, or `-` for the standard input, which is spooled into a temporary
file without a name because commands read a source more than once.
"""

from __future__ import annotations

import re
import stat
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from openclaw_cli import archive
from openclaw_cli.errors import CorruptError, Issue, NotATranscriptError, NotFoundError, RefusedError, UsageError

STDIN = "-"
OnBytes = Callable[[int], None]

_SNIFF_BYTES = 2**16
_SPOOL_STEP_BYTES = 2**20
_SQLITE_MAGIC = b"SQLite format 3\0"
# `{"` with white space as JSON allows it; a row is an object with at least one key.
_OBJECT_START = re.compile(rb'(?:\xef\xbb\xbf)?[ \t\r]*\{[ \t\r]*["}]')
_SESSION_ID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}", re.IGNORECASE)
_NAME_A_FILE = "name a transcript file, as in: agents/main/sessions/SESSION-ID.jsonl (or .jsonl.zst, or - for stdin)"


@dataclass(slots=True)
class SourceFile:
    """One opened source.

    `name`: as the user gave it. `path`: the file, None for a spooled stream. `stream`: the unpacked bytes, at the
    start; seekable, for a compressed file by unpacking again. `size_bytes`: what is stored on disk. `issues`: warnings
    about the file as a whole. Close it, or use it as a context manager.
    """

    name: str
    path: Path | None
    stream: BinaryIO
    size_bytes: int
    issues: tuple[Issue, ...] = ()

    @property
    def shortage(self) -> CorruptError | None:
        """What is missing of a compressed file that was opened leniently, known once its end was read."""
        return archive.shortage(self.stream)

    def __enter__(self) -> SourceFile:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Release the file; a spooled one is gone with it."""
        self.stream.close()


def open_source(
    spec: str, stdin: BinaryIO | None = None, *, on_spooled: OnBytes | None = None, lenient: bool = False
) -> SourceFile:
    """Open what the user named.

    `stdin` is the stream behind `-`; `on_spooled` hears of each step's bytes while it is spooled. `lenient`: a
    compressed file that is cut short ends there, and `shortage` of the source tells once it was read.
    Raises NotFoundError for what does not exist and for a directory that is no state or agent directory, UsageError for
    a kind of source that is not supported, NotATranscriptError for a file without a JSON line in its first 64 KiB,
    RefusedError for a file that may not be read, CorruptError for a compressed file that fails its verification near
    its beginning.
    """
    if spec == STDIN:
        if stdin is None:
            raise UsageError("there is no standard input to read", hint=_NAME_A_FILE)
        return _checked(_spooled(spec, None, stdin, on_spooled, lenient))
    path = Path(spec)
    try:
        mode = path.stat().st_mode
        if stat.S_ISDIR(mode):
            raise _directory_error(path)
        if not stat.S_ISREG(mode):
            with path.open("rb") as pipe:
                return _checked(_spooled(spec, path, pipe, on_spooled, lenient))
        return _checked(_file(spec, path, lenient))
    except (FileNotFoundError, NotADirectoryError) as error:
        raise _missing(spec) from error
    except PermissionError as error:
        raise RefusedError(f"{spec} may not be read", hint="check its permissions", path=spec) from error
    except (OSError, ValueError) as error:
        # A name that is too long, or that holds a NUL (ValueError), cannot be that of a file.
        reason = getattr(error, "strerror", None) or "no possible file name"
        shown = repr(spec if len(spec) <= 200 else f"{spec[:200]}…")
        raise NotFoundError(f"{shown} cannot be opened: {reason}", hint=_NAME_A_FILE) from error


def _file(spec: str, path: Path, lenient: bool) -> SourceFile:
    issues: tuple[Issue, ...] = ()
    if archive.encoding_of(path) is archive.Encoding.PLAIN_BEHIND_ZST:
        message = f"{spec} is named like an archive but holds plain text; it was read as text"
        issues = (Issue("archive_not_compressed", "warning", message, facts={"path": spec}),)
    return SourceFile(spec, path, archive.open_stream(path, lenient=lenient), path.stat().st_size, issues)


def _spooled(spec: str, path: Path | None, stream: BinaryIO, on_spooled: OnBytes | None, lenient: bool) -> SourceFile:
    import tempfile  # 20 ms with all that it loads, for the rarer kind of source

    spool: BinaryIO = tempfile.TemporaryFile(buffering=0)  # type: ignore[assignment]  # noqa: SIM115  # SourceFile closes it
    size = 0
    while block := stream.read(_SPOOL_STEP_BYTES):
        spool.write(block)
        size += len(block)
        if on_spooled is not None:
            on_spooled(len(block))
    return SourceFile(spec, path, archive.unpack(spool, spec, lenient=lenient), size)


def _checked(source: SourceFile) -> SourceFile:
    """The source at its start again, after a look at its first 64 KiB."""
    try:
        head = source.stream.read(_SNIFF_BYTES)
        source.stream.seek(0)
        if head.startswith(_SQLITE_MAGIC):
            message = f"{source.name} is a database; this version reads transcripts from files only"
            raise UsageError(message, hint=_NAME_A_FILE, source=source.name)
        if head.strip() and not any(map(_OBJECT_START.match, head.split(b"\n"))):
            message = f"{source.name} is not a transcript: no JSON line in its first 64 KiB"
            raise NotATranscriptError(message, hint=_NAME_A_FILE, source=source.name)
    except BaseException:
        source.close()
        raise
    return source


def _directory_error(path: Path) -> UsageError | NotFoundError:
    kind = _kind_of_directory(path)
    if kind is None:
        message = f"{path} is a directory, but no state or agent directory"
        return NotFoundError(message, hint=_NAME_A_FILE, source=str(path))
    message = f"{path} is {kind}; this version reads single transcripts only"
    return UsageError(message, hint=_NAME_A_FILE, source=str(path))


def _kind_of_directory(path: Path) -> str | None:
    if (path / "agents").is_dir() or (path / "openclaw.json").is_file():
        return "a state directory"
    if (path / "sessions").is_dir() or (path / "agent" / "openclaw-agent.sqlite").is_file():
        return "an agent's directory"
    if (path / "sessions.json").is_file() or (path.name == "sessions" and any(path.glob("*.jsonl"))):
        return "a directory of transcripts"
    return None


def _missing(spec: str) -> UsageError | NotFoundError:
    if spec.startswith("agent:") or _SESSION_ID.fullmatch(spec):
        message = f"{spec} looks like a session; this version reads transcripts from files only"
        return UsageError(message, hint=_NAME_A_FILE, source=spec)
    return NotFoundError(f"{spec} does not exist", hint=_NAME_A_FILE, source=spec)
