"""The audit: one line for each row, session and file that was taken away, in `<state>/openclaw-cli/audit.jsonl`.

A line has time, key, id, reason, bytes, archive and SHA-256, never content. The file is rotated by size.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from openclaw_cli.durable import adopt_owner, fsync_dir, make_dir, sync_file
from openclaw_cli.errors import escaped
from openclaw_cli.jstext import dumps
from openclaw_cli.retention.archiving import Part

MOST_BYTES = 8 * 2**20
KEPT_FILES = 5
"""How many full files are kept besides the one that is written to."""


class Audit:
    """Lines are gathered by `add` and become durable with `flush`."""

    def __init__(self, state_dir: Path, now_ms: int) -> None:
        self.path = state_dir / "openclaw-cli" / "audit.jsonl"
        self._now_ms = now_ms
        self._lines: list[bytes] = []

    def add(
        self,
        event: str,
        key: str | None,
        session_id: str | None,
        reason: str,
        part: Part | None = None,
        *,
        path: Path | None = None,
        sha256: str | None = None,
    ) -> None:
        """One line; `part` is the archive that has the content, `path` the file that went."""
        line: dict[str, Any] = {"time": self._now_ms, "event": event, "key": key, "sessionId": session_id}
        line["reason"] = str(reason)
        if path is not None:
            line["path"] = escaped(str(path))
        if part is not None:
            line |= {"archive": escaped(str(part.path)), "bytes": part.size_bytes, "sha256": part.sha256}
        elif sha256 is not None:
            line["sha256"] = sha256
        self._lines.append(dumps(line) + b"\n")

    def flush(self) -> None:
        """Append the gathered lines durably. Raises OSError."""
        if not self._lines:
            return
        make_dir(self.path.parent)
        self._rotate()
        is_new = not self.path.exists()
        descriptor = os.open(self.path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        try:
            # A run that was cut has left half a line; without an end of its own it would spoil the next one.
            torn = b"" if is_new or self._ends_a_line() else b"\n"
            view = memoryview(torn + b"".join(self._lines))
            while view:
                view = view[os.write(descriptor, view) :]
            sync_file(descriptor)
        finally:
            os.close(descriptor)
        if is_new:
            adopt_owner(self.path)
            fsync_dir(self.path.parent)
        self._lines.clear()

    def _ends_a_line(self) -> bool:
        with self.path.open("rb") as stream:
            if stream.seek(0, os.SEEK_END) == 0:
                return True
            stream.seek(-1, os.SEEK_END)
            return stream.read(1) == b"\n"

    def _rotate(self) -> None:
        if not self.path.exists() or self.path.stat().st_size < MOST_BYTES:
            return
        for number in range(KEPT_FILES - 1, 0, -1):
            older = self.path.with_name(f"{self.path.name}.{number}")
            if older.exists():
                os.replace(older, self.path.with_name(f"{self.path.name}.{number + 1}"))
        os.replace(self.path, self.path.with_name(f"{self.path.name}.1"))


class Silent(Audit):
    """Of a trial on a private copy: nothing is written."""

    def flush(self) -> None:
        """Forget the lines."""
        self._lines.clear()
