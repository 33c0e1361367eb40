"""Rows of archived transcripts in the store itself: `session_transcript_archives` (cleanup §7.4)."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import BinaryIO

from openclaw_cli.storage.connection import Store

_BLOCK_BYTES = 1 << 20


@dataclass(frozen=True, slots=True)
class Row:
    """What a row says of an archive; its blob has `size_bytes`, the same bytes as the file of that name."""

    session_id: str
    generation: str
    session_key: str
    sha256: str
    name: str
    size_bytes: int


def insert(store: Store, row: Row, stream: BinaryIO, now_ms: int, *, reason: str = "deleted") -> None:
    """Add a row whose file is published already; one of the same session and past is replaced by it.

    A large blob is copied in blocks, so that memory does not grow with the archive. Inside the caller's transaction.
    """
    is_small = row.size_bytes <= _BLOCK_BYTES
    blob = stream.read() if is_small else row.size_bytes
    store.execute(
        "INSERT OR REPLACE INTO session_transcript_archives(session_id, generation, session_key, reason, encoding,"
        f" archive_blob, archive_sha256, archive_name, created_at, published_at) VALUES (?, ?, ?, ?, 'zstd',"
        f" {'?' if is_small else 'zeroblob(?)'}, ?, ?, ?, ?)",
        (row.session_id, row.generation, row.session_key, reason, blob, row.sha256, row.name, now_ms, now_ms),
    )
    if is_small:
        return
    rowid = store.connection.last_insert_rowid()
    with store.connection.blob_open("main", "session_transcript_archives", "archive_blob", rowid, True) as blob:
        while block := stream.read(_BLOCK_BYTES):
            blob.write(block)


@dataclass(frozen=True, slots=True)
class Stored:
    """A row as it stands. `size_bytes`: of the blob, which is as large as the file. `created_at` in epoch ms."""

    session_id: str
    name: str
    sha256: str
    size_bytes: int
    created_at: int
    published: bool


def stored(store: Store) -> Iterator[Stored]:
    """All rows, the oldest first."""
    sql = (
        "SELECT session_id, archive_name, archive_sha256, octet_length(archive_blob), created_at,"
        " published_at IS NOT NULL FROM session_transcript_archives ORDER BY created_at, session_id, generation"
    )
    for values in store.execute(sql):
        yield Stored(*values[:5], bool(values[5]))


def with_keys(store: Store) -> Iterator[tuple[str, str]]:
    """(name, session key) of every row."""
    yield from store.execute("SELECT archive_name, session_key FROM session_transcript_archives")


def blob_sha256(store: Store, name: str) -> str | None:
    """SHA-256 of what a row holds, read in blocks; None when there is no such row."""
    sql = "SELECT rowid FROM session_transcript_archives WHERE archive_name = ?"
    rowid = store.value(sql, (name,))
    if rowid is None:
        return None
    digest = hashlib.sha256()
    with store.connection.blob_open("main", "session_transcript_archives", "archive_blob", rowid, False) as blob:
        while block := blob.read(_BLOCK_BYTES):
            digest.update(block)
    return digest.hexdigest()


def copy_blob(store: Store, name: str, write: Callable[[bytes], object]) -> None:
    """Give what a row holds to `write`, in blocks."""
    rowid = store.value("SELECT rowid FROM session_transcript_archives WHERE archive_name = ?", (name,))
    with store.connection.blob_open("main", "session_transcript_archives", "archive_blob", rowid, False) as blob:
        while block := blob.read(_BLOCK_BYTES):
            write(block)


def delete(store: Store, name: str) -> None:
    """Delete the row of an archive, if there is one; inside the caller's transaction."""
    store.execute("DELETE FROM session_transcript_archives WHERE archive_name = ?", (name,))


def names(store: Store) -> Iterator[str]:
    """Names of the files of all rows."""
    for (name,) in store.execute("SELECT archive_name FROM session_transcript_archives ORDER BY archive_name"):
        yield name
