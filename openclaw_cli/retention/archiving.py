"""Archives of sessions that leave a store: durable, read back and compared before a row goes (design, invariant 1).

A session gives up to three files: its transcript, its trajectory, the stream that it had of a parent. In the sessions
directory the transcript's archive is a row of the store, too, as OpenClaw keeps it; in a directory of the user's own it
is only a file, since a row would stay in the database and count there (cleanup §7.4).
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from openclaw_cli import archive
from openclaw_cli.durable import sha256_file
from openclaw_cli.errors import CorruptError
from openclaw_cli.faults import Step, reached
from openclaw_cli.storage import archives, events, trajectories
from openclaw_cli.storage.connection import Store
from openclaw_cli.storage.removal import Snapshot

LONGEST_ID_BYTES = 96
"""A longer session id is named by its hash."""

_TAIL = r"\.deleted\.\d{4}-\d\d-\d\dT\d\d-\d\d-\d\d\.\d{3}Z\."


@dataclass(frozen=True, slots=True)
class Part:
    """One archive of a session. `kind`: `jsonl`, `trajectory`, `parent-stream`."""

    session_id: str
    kind: str
    generation: str
    path: Path
    sha256: str
    size_bytes: int
    reused: bool = False


@dataclass(frozen=True, slots=True)
class _Content:
    kind: str
    count: int
    size_bytes: int
    lines: Callable[[], Iterator[bytes]]


def write_parts(store: Store, found: Snapshot, directory: Path, generation: str, now_ms: int) -> list[Part]:
    """Archive everything that a session has; an archive of the same content that a cut run left is taken as it is.

    Raises what `archive.write` raises.
    """
    parts = []
    for content in _contents(store, found):
        stem = f"{stem_of(found.session_id)}.{content.kind}"
        known = _left_by_a_cut_run(directory, stem, generation, content)
        if known is not None:
            written = archive.Written(known, sha256_file(known), known.stat().st_size)
        else:
            path = directory / f"{stem}.deleted.{stamp_of(now_ms)}.{generation}.zst"
            written = archive.write(path, content.lines(), content.size_bytes)
        part = Part(found.session_id, content.kind, generation, *written, reused=known is not None)
        parts.append(part)
        reached(Step.ARCHIVE_WRITTEN)
    return parts


def record(store: Store, part: Part, session_key: str, now_ms: int) -> None:
    """Put a transcript's archive into the store as OpenClaw does: the same bytes, already published."""
    if part.kind != "jsonl":
        return
    with part.path.open("rb") as stream:
        archives.insert(
            store,
            archives.Row(part.session_id, part.generation, session_key, part.sha256, part.path.name, part.size_bytes),
            stream,
            now_ms,
        )


def stem_of(session_id: str) -> str:
    """How the name of an archive begins."""
    if len(session_id.encode("utf-8")) <= LONGEST_ID_BYTES:
        return session_id
    return f"session-{hashlib.sha256(session_id.encode('utf-8')).hexdigest()}"


def stamp_of(now_ms: int) -> str:
    """A time as it stands in file names."""
    moment = datetime.fromtimestamp(now_ms // 1000, UTC)
    return f"{moment:%Y-%m-%dT%H-%M-%S}.{now_ms % 1000:03d}Z"


def _contents(store: Store, found: Snapshot) -> Iterator[_Content]:
    session_id = found.session_id
    if found.last_event_seq is not None:
        count, size = events.extent(store, session_id)
        yield _Content("jsonl", count, size, lambda: _lines(events.stream(store, session_id)))
    if found.last_trajectory_seq is not None:
        count, size = trajectories.extent(store, session_id)
        yield _Content("trajectory", count, size, lambda: _lines(trajectories.stream(store, session_id)))
    if found.parent_stream_events:
        count, size = trajectories.parent_stream_extent(store, session_id)
        yield _Content("parent-stream", count, size, lambda: _lines(trajectories.parent_stream(store, session_id)))


def _lines(rows: Iterator[tuple[int, bytes]]) -> Iterator[bytes]:
    for _, text in rows:
        yield text + b"\n"


def _left_by_a_cut_run(directory: Path, stem: str, generation: str, content: _Content) -> Path | None:
    """An archive of this session and past with this very content.

    An append keeps the generation: a file that was left may be a prefix of what there is now, and is not taken then.
    """
    pattern = re.compile(re.escape(stem) + _TAIL + re.escape(generation) + r"\.zst\Z")
    names = sorted(path for path in directory.glob(f"*{generation}.zst") if pattern.match(path.name))
    if not names:
        return None
    digest = hashlib.sha256()
    for line in content.lines():
        digest.update(line)
    for path in names:
        try:
            if archive.content_sha256(path) == digest.hexdigest():
                return path
        except CorruptError:
            continue  # It was being written when the run was cut, or is damaged: then it is no archive of anything.
    return None
