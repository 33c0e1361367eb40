"""Disk space of a store: writing the log back, giving free pages to the file system, sizes.

All of it is best effort (design, invariant 7): what is blocked by another program comes back as numbers, never as an
error. Pages that `incremental_vacuum` frees leave the file only with the next checkpoint.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from openclaw_cli import faults
from openclaw_cli.errors import BusyError
from openclaw_cli.faults import Step
from openclaw_cli.storage.connection import Store

Mode = Literal["PASSIVE", "TRUNCATE"]
"""PASSIVE never waits and never blocks others, TRUNCATE also empties the log; the modes in between are not used."""

TURN_SECONDS = 0.25
PAUSE_SECONDS = 0.11
VACUUM_STEP_PAGES = 512
SEARCH_STEP_PAGES = 512
"""Pages of the search index that one merge step may write: a step holds the write lock for some 10 ms."""

VACUUM_PROGRESS_STEPS = 10_000
"""Virtual machine steps between two signs of life of a VACUUM (some 2,000 rows)."""

AUTO_VACUUM = ("none", "full", "incremental")
"""Names of the values of `PRAGMA auto_vacuum`."""

LOADING_LOG_PAGES = 8192
"""Pages (32 MiB) that a load lets the log grow by before SQLite writes it back by itself. With SQLite's 1,000 the same
inner pages of the trees are copied many times over; the log is emptied at the end of the load either way."""

LOADING_CACHE_KIB = 8192
"""Memory for pages during a load. With SQLite's 2 MiB the pages of one large session are written and read again before
its transaction ends."""

OnProgress = Callable[[], None]


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """What a checkpoint did: frames in the log, frames written back, and whether somebody stood in its way."""

    log_frames: int
    checkpointed_frames: int
    blocked: bool


@dataclass(frozen=True, slots=True)
class Sizes:
    """Bytes of the database file, its log and its shared-memory file; 0 for a file that is not there."""

    database_bytes: int
    wal_bytes: int
    shm_bytes: int

    @property
    def total_bytes(self) -> int:
        """All three together."""
        return self.database_bytes + self.wal_bytes + self.shm_bytes


@dataclass(frozen=True, slots=True)
class Measure:
    """How big a store is: its files in bytes, its pages with those that hold nothing, and its kind of auto-vacuum."""

    database_bytes: int
    wal_bytes: int
    page_size_bytes: int
    pages: int
    freelist_pages: int
    auto_vacuum: int

    @property
    def file_bytes(self) -> int:
        """Database and log together, as a disk sees them."""
        return self.database_bytes + self.wal_bytes

    @property
    def whole_bytes(self) -> int:
        """The database with everything in its log written back; never less than the file has now."""
        return max(self.database_bytes, self.pages * self.page_size_bytes)

    @property
    def unused_bytes(self) -> int:
        """What the files have beyond the pages in use: the least that compacting gives back."""
        return max(0, self.file_bytes - (self.pages - self.freelist_pages) * self.page_size_bytes)


def prepare_load(store: Store) -> None:
    """Give this connection room in memory and log for many rows at once; nothing of that is stored in the database."""
    store.execute(f"PRAGMA wal_autocheckpoint={LOADING_LOG_PAGES}").fetchall()
    store.execute(f"PRAGMA cache_size=-{LOADING_CACHE_KIB}").fetchall()


def checkpoint(store: Store, mode: Mode, *, wait_ms: int = 0) -> Checkpoint:
    """Write the log back into the database, waiting at most `wait_ms` for readers (TRUNCATE only).

    `blocked` is set when another connection kept the log from being written back, or from being emptied.
    """
    connection = store.connection
    connection.set_busy_timeout(wait_ms)
    try:
        busy, log, done = store.execute(f"PRAGMA wal_checkpoint({mode})").fetchone()
    except BusyError:
        # Somebody is checkpointing or writing at this moment; the log's size is not known then.
        return Checkpoint(-1, -1, True)
    finally:
        connection.set_busy_timeout(store.timeouts.acquire_ms)
    return Checkpoint(log, done, bool(busy) or done < log)


class _Turns:
    """Lets others write between many transactions in a row.

    Somebody who waits for the write lock asks for it every 100 ms at most; between transactions that follow each other
    at once it is never free at that moment, and his second runs out.
    """

    def __init__(self) -> None:
        self._since = time.monotonic()

    def give(self) -> None:
        """Pause, if the lock has been taken again and again for a while."""
        if time.monotonic() - self._since > TURN_SECONDS:
            time.sleep(PAUSE_SECONDS)
            self._since = time.monotonic()


def incremental_vacuum(store: Store, max_pages: int | None = None) -> int:
    """Free at most `max_pages` unused pages (None: all), in steps, each its own transaction; gives the pages freed.

    A store that was not created with incremental vacuum frees nothing; only a full VACUUM shrinks it.
    """
    turns = _Turns()
    before = freelist_pages(store)
    left = before if max_pages is None else min(before, max_pages)
    while left > 0:
        step = min(left, VACUUM_STEP_PAGES)
        start = freelist_pages(store)
        # The statement frees one page per row that is fetched, so it has to be read to its end.
        store.execute(f"PRAGMA incremental_vacuum({step})").fetchall()
        if freelist_pages(store) >= start:
            break
        left -= step
        turns.give()
    return before - freelist_pages(store)


def vacuum(store: Store, on_progress: OnProgress | None = None) -> None:
    """Write the whole database anew without its unused pages, in one transaction; incremental vacuum is on afterwards.

    Rows, page size and journal mode stay. SQLite builds the copy in its temporary directory and brings it back through
    the log: both need as much room as the result, and the file itself shrinks with the next checkpoint. Whatever
    `on_progress` raises ends the statement and rolls it back.
    """
    if not can_vacuum_incrementally(store):
        # From "none" this takes effect only with the VACUUM that follows (field: files that never shrink).
        store.execute("PRAGMA auto_vacuum=2").fetchall()

    def go_on() -> bool:
        faults.reached(Step.COMPACT_VACUUMING)
        if on_progress is not None:
            on_progress()
        return False

    store.connection.set_progress_handler(go_on, VACUUM_PROGRESS_STEPS, id="vacuum")
    try:
        store.execute("VACUUM").fetchall()
    finally:
        store.connection.set_progress_handler(None, id="vacuum")


def merge_search(store: Store) -> int:
    """Merge the segments of the search index into one, in small transactions of their own; gives the steps taken.

    What was deleted leaves the index with its segment. Nothing that a search finds changes.
    """
    turns = _Turns()
    steps = 0
    # A negative size once: it makes every segment a candidate, as `optimize` does, but without doing all at once.
    wanted = -SEARCH_STEP_PAGES
    while True:
        before = store.connection.total_changes()
        store.execute(
            "INSERT INTO session_transcript_fts(session_transcript_fts, rank) VALUES ('merge', ?)", (wanted,)
        ).fetchall()
        if store.connection.total_changes() - before < 2:
            return steps
        steps += 1
        faults.reached(Step.COMPACT_SEARCH_MERGED)
        turns.give()
        wanted = SEARCH_STEP_PAGES


def measure(store: Store) -> Measure:
    """The sizes of an open store; a symbolic link counts as the file that it names."""
    found = sizes(Path(os.path.realpath(store.path)))
    return Measure(
        found.database_bytes,
        found.wal_bytes,
        page_size_bytes(store),
        store.value("PRAGMA page_count"),
        freelist_pages(store),
        store.value("PRAGMA auto_vacuum"),
    )


def temporary_dir(env: Mapping[str, str]) -> Path | None:
    """Where SQLite puts its temporary files: the first directory of its own list that can be written to."""
    named = [env[name] for name in ("SQLITE_TMPDIR", "TMPDIR") if env.get(name)]
    for place in (*named, "/var/tmp", "/usr/tmp", "/tmp", "."):
        if os.path.isdir(place) and os.access(place, os.W_OK | os.X_OK):
            return Path(place)
    return None


def freelist_pages(store: Store) -> int:
    """Pages of the database that hold nothing."""
    return store.value("PRAGMA freelist_count")


def page_size_bytes(store: Store) -> int:
    """Bytes of one page."""
    return store.value("PRAGMA page_size")


def can_vacuum_incrementally(store: Store) -> bool:
    """Whether free pages can be given back without rewriting the whole file."""
    return store.value("PRAGMA auto_vacuum") == 2


def sizes(path: Path) -> Sizes:
    """Sizes of the three files of the database at `path`."""
    return Sizes(*(_size(path.with_name(path.name + suffix)) for suffix in ("", "-wal", "-shm")))


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except FileNotFoundError:
        return 0
