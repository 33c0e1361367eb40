"""Sessions whose events lie in a cold archive: OpenClaw's background worker has moved them out (cleanup §3, §8).

Read only. Such a session has a window, a row in `session_transcript_cold_archives`, and no events.
"""

from __future__ import annotations

import hashlib
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from openclaw_cli import archive
from openclaw_cli.durable import sha256_file
from openclaw_cli.errors import CorruptError
from openclaw_cli.storage.connection import Store

_BLOCK_BYTES = 1 << 20


@dataclass(frozen=True, slots=True)
class Cold:
    """Where the events of a session are. `raw_bytes`: unpacked; `in_store`: as a blob of the row, else as a file."""

    session_id: str
    name: str
    sha256: str
    events: int
    raw_bytes: int
    in_store: bool


def of(store: Store, session_id: str) -> Cold | None:
    """The cold archive of a session, None where it has none."""
    row = store.execute(
        "SELECT session_id, archive_name, archive_sha256, event_count, raw_bytes, storage = 'sqlite'"
        " FROM session_transcript_cold_archives WHERE session_id = ?",
        (session_id,),
    ).fetchone()
    return None if row is None else Cold(*row[:5], bool(row[5]))


@contextmanager
def open_stream(store: Store, cold: Cold, sessions_dir: Path) -> Iterator[BinaryIO]:
    """The unpacked bytes, after the SHA-256 of the archive was compared. Raises CorruptError, OSError."""
    if not cold.in_store:
        path = sessions_dir / "cold" / cold.name
        if sha256_file(path) != cold.sha256:
            raise _damaged(cold)
        with archive.open_stream(path) as stream:
            yield stream
        return
    digest = hashlib.sha256()
    sql = "SELECT rowid FROM session_transcript_cold_archives WHERE session_id = ?"
    rowid = store.value(sql, (cold.session_id,))
    with tempfile.TemporaryFile() as spooled:
        table = "session_transcript_cold_archives"
        with store.connection.blob_open("main", table, "archive_blob", rowid, False) as blob:
            while block := blob.read(_BLOCK_BYTES):
                digest.update(block)
                spooled.write(block)
        if digest.hexdigest() != cold.sha256:
            raise _damaged(cold)
        spooled.seek(0)
        yield archive.unpack(spooled, cold.name)


def _damaged(cold: Cold) -> CorruptError:
    return CorruptError(f"the cold archive {cold.name} is not what was recorded", hint="openclaw-cli doctor check")
