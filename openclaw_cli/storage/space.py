"""Disk space of a store: writing the log back, giving free pages to the file system, sizes.

All of it is best effort (design, invariant 7): what is blocked by another program comes back as numbers, never as an
error. Pages that `incremental_vacuum` frees leave the file only with the next checkpoint.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from openclaw_cli.errors import BusyError
from openclaw_cli.storage.connection import Store

Mode = Literal["PASSIVE", "TRUNCATE"]
"""PASSIVE never waits and never blocks others, TRUNCATE also empties the log; the modes in between are not used."""

VACUUM_STEP_PAGES = 512


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


def incremental_vacuum(store: Store, max_pages: int | None = None) -> int:
    """Free at most `max_pages` unused pages (None: all), in steps, each its own transaction; gives the pages freed.

    A store that was not created with incremental vacuum frees nothing; only a full VACUUM shrinks it.
    """
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
    return before - freelist_pages(store)


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
