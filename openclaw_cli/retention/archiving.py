"""Archives of sessions that leave a store: durable, read back and compared before a row goes (design, invariant 1).

A session gives up to three files: its transcript, its trajectory, the stream that it had of a parent. In the sessions
directory the transcript's archive is a row of the store, too, as OpenClaw keeps it; in a directory of the user's own it
is only a file, since a row would stay in the database and count there (cleanup §7.4).
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from openclaw_cli import archive
from openclaw_cli.durable import make_dirs, sha256_file
from openclaw_cli.errors import CorruptError, RefusedError
from openclaw_cli.faults import Step, reached
from openclaw_cli.retention import notes
from openclaw_cli.retention.notes import Note
from openclaw_cli.storage import archives, events, trajectories
from openclaw_cli.storage.connection import Store
from openclaw_cli.storage.removal import Snapshot

EMPTY_SHA256 = hashlib.sha256().hexdigest()
LONGEST_ID_BYTES = 96
"""A longer session id is named by its hash."""


@dataclass(frozen=True, slots=True)
class Part:
    """One archive of a session. `kind`: `jsonl`, `trajectory`, `parent-stream`; `count`: events in it."""

    session_id: str
    kind: str
    generation: str
    path: Path
    sha256: str
    size_bytes: int
    reused: bool = False
    count: int = 0


@dataclass(frozen=True, slots=True)
class _Content:
    kind: str
    count: int
    size_bytes: int
    lines: Callable[[], Iterator[bytes]]

    def sha256(self) -> str:
        """Of everything together."""
        digest = hashlib.sha256()
        for line in self.lines():
            digest.update(line)
        return digest.hexdigest()


class Place:
    """A directory that archives go to. What stands in it is read once: a run does not look for what it wrote itself."""

    def __init__(self, directory: Path) -> None:
        try:
            make_dirs(directory)
        except OSError as error:
            raise RefusedError(
                f"{directory} cannot be made: {error.strerror}", hint="archives need a directory to write to"
            ) from error
        self.directory = directory
        self._names: dict[str, list[str]] = {}
        for name in sorted(os.listdir(directory)):
            if name.endswith(".zst"):
                self._names.setdefault(name[:-4].rpartition(".")[2], []).append(name)

    def holding(
        self,
        stem: str,
        generation: str,
        content_sha256: Callable[[], str],
        is_note: Callable[[Note | None], bool] = lambda _: True,
    ) -> Path | None:
        """An archive of this name and past with this very content and such a note, which a cut run has left.

        An append keeps the generation: a file that was left may be a prefix of what there is now, and is not taken.
        """
        names = [name for name in self._names.get(generation, ()) if name.startswith(f"{stem}.deleted.")]
        wanted = content_sha256() if names else None
        for name in names:
            try:
                path = self.directory / name
                if archive.content_sha256(path) == wanted and is_note(notes.read(path)):
                    return path
            except CorruptError:
                continue  # It was being written when the run was cut, or is damaged: no archive of anything.
        return None

    def new(self, stem: str, generation: str, now_ms: int) -> Path:
        """The name of an archive that is made now."""
        return self.directory / f"{stem}.deleted.{stamp_of(now_ms)}.{generation}.zst"


def write_parts(store: Store, found: Snapshot, place: Place, generation: str, now_ms: int, note: Note) -> list[Part]:
    """Archive everything that a session has; an archive of the same content that a cut run left is taken as it is.

    The transcript's archive has the note, also where it is empty and only the row's entry is worth keeping. The names
    become durable only when the caller syncs the directory. Raises what `archive.write` raises.
    """
    parts = []
    for content in _contents(store, found, note):
        stem = f"{stem_of(found.session_id)}.{content.kind}"
        own = note if content.kind == "jsonl" else None
        known = place.holding(stem, generation, content.sha256, lambda found, own=own: found == own)
        if known is not None:
            written = archive.Written(known, sha256_file(known), known.stat().st_size)
        else:
            path = place.new(stem, generation, now_ms)
            text = None if own is None else notes.encode(own)
            written = archive.write(path, content.lines(), content.size_bytes, note=text, sync_dir=False)
        part = Part(found.session_id, content.kind, generation, *written, reused=known is not None, count=content.count)
        parts.append(part)
        reached(Step.ARCHIVE_WRITTEN)
    return parts


def record(store: Store, part: Part, session_key: str, now_ms: int) -> None:
    """Put a transcript's archive into the store as OpenClaw does: the same bytes, already published."""
    if part.kind != "jsonl" or part.count == 0:
        return
    with part.path.open("rb") as stream:
        archives.insert(
            store,
            archives.Row(part.session_id, part.generation, session_key, part.sha256, part.path.name, part.size_bytes),
            stream,
            now_ms,
        )


def entry_generation(note: Note) -> str:
    """The generation in the name of an archive that holds an entry alone, the same at each run."""
    return hashlib.sha256(notes.encode(note)).hexdigest()[:32]


def stem_of(session_id: str) -> str:
    """How the name of an archive begins."""
    if len(session_id.encode("utf-8")) <= LONGEST_ID_BYTES:
        return session_id
    return f"session-{hashlib.sha256(session_id.encode('utf-8')).hexdigest()}"


def stamp_of(now_ms: int) -> str:
    """A time as it stands in file names."""
    moment = datetime.fromtimestamp(now_ms // 1000, UTC)
    return f"{moment:%Y-%m-%dT%H-%M-%S}.{now_ms % 1000:03d}Z"


def _contents(store: Store, found: Snapshot, note: Note) -> Iterator[_Content]:
    session_id = found.session_id
    if found.last_event_seq is not None or note.entry is not None:
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
