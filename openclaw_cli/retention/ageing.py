"""Archives beside a store and in it, as one: a file, a row, or both; and which of them are old (cleanup §7.4)."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from openclaw_cli.durable import sha256_file
from openclaw_cli.errors import escaped
from openclaw_cli.retention.artifacts import Artifact, Class
from openclaw_cli.storage import archives

RETENTION = "reset-archive-retention"


@dataclass(frozen=True, slots=True)
class Kept:
    """One archive: `file` in the sessions directory, `row` of the store, at least one of them."""

    name: str
    file: Artifact | None
    row: archives.Stored | None

    @property
    def made_ms(self) -> int:
        """When it was made: by its row, else by the time in its name, else by the file's own; in epoch ms."""
        if self.row is not None:
            return self.row.created_at
        if self.file is None:
            return 0
        return self.file.modified_ms if self.file.name.at_ms is None else self.file.name.at_ms

    @property
    def size_bytes(self) -> int:
        """Of file and row together: both count for a disk budget."""
        file = 0 if self.file is None else self.file.size_bytes
        return file + (0 if self.row is None else self.row.size_bytes)

    @property
    def session_id(self) -> str | None:
        """Whose it is, where that is known."""
        if self.row is not None:
            return self.row.session_id
        return None if self.file is None else self.file.name.session_id

    @property
    def path(self) -> Path | None:
        """Of the file."""
        return None if self.file is None else self.file.path

    @property
    def is_published(self) -> bool:
        """Whether it may go: a row that was not published yet is the only place of its content."""
        return self.row is None or self.row.published

    def sha256(self) -> str | None:
        """Of the archive's bytes, read where no row tells it."""
        if self.row is not None:
            return self.row.sha256
        return None if self.file is None else sha256_file(self.file.path)

    def as_json(self, reason: str, sha256: str | None) -> dict[str, Any]:
        """Its object in `decisions`."""
        return {
            "key": None,
            "sessionId": self.session_id,
            "action": "delete-archive",
            "reason": reason,
            "bytes": self.size_bytes,
            "archive": escaped(self.name),
            "sha256": sha256,
        }


def kept(files: Iterable[Artifact], rows: Iterable[archives.Stored]) -> list[Kept]:
    """Every archive, the oldest first: of removals, of resets, and `.bak.<time>` copies."""
    by_row = {row.name: row for row in rows}
    by_file = {file.path.name: file for file in files if file.name.kind is Class.ARCHIVE}
    found = [Kept(name, by_file.get(name), by_row.get(name)) for name in {*by_row, *by_file}]
    return sorted(found, key=lambda each: (each.made_ms, each.name))


def older_than(found: Iterable[Kept], limit_ms: int) -> list[Kept]:
    """Those that were made before that time and may go."""
    return [each for each in found if each.made_ms < limit_ms and each.is_published]


def spendable(found: Iterable[Kept], limit_ms: int) -> list[Kept]:
    """What a disk budget may take: archives of removals and resets that are older than the grace, no `.bak` copies."""
    old = older_than(found, limit_ms)
    return [each for each in old if each.file is None or each.file.name.reason in ("deleted", "reset")]


def aged(found: Iterable[Kept], *, now_ms: int, retention_ms: int | None, grace_ms: int) -> list[Kept]:
    """What `resetArchiveRetention` takes: nothing where it is off, and nothing that is younger than the grace."""
    if retention_ms is None:
        return []
    return older_than(found, now_ms - max(retention_ms, grace_ms))
