"""What an archive says of the session in it: its key, the row's entry, its place in the history of the key.

A transcript has none of that, and `sessions undelete` needs it. It stands behind the content in a frame that every zstd
reader passes over (RFC 8878 §3.1.2), so that one file has everything and OpenClaw reads it as ever.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from openclaw_cli import archive, jstext
from openclaw_cli.errors import CorruptError

FORMAT = 1
_MARK = b"openclaw-cli note\0"
_DIGEST_BYTES = 32


@dataclass(frozen=True, slots=True)
class Note:
    """`entry`: JSON text of the row that went with the session, None for a session that was only history.

    `window`: column → value of the session's row in `session_windows`, and of nothing that is derived.
    """

    session_key: str
    session_id: str
    agent_id: str
    entry: str | None
    window: dict[str, Any]


def encode(note: Note) -> bytes:
    """The content of the frame, with a checksum of its own: the frame has none."""
    document = {
        "format": FORMAT,
        "sessionKey": note.session_key,
        "sessionId": note.session_id,
        "agentId": note.agent_id,
        "entry": note.entry,
        "window": note.window,
    }
    text = jstext.dumps(document)
    return _MARK + hashlib.sha256(text).digest() + text


def read(path: Path) -> Note | None:
    """The note of an archive; None where it has none. Raises CorruptError for one that is damaged, OSError."""
    for data in archive.skippable_frames(path):
        if data.startswith(_MARK):
            return _decoded(data[len(_MARK) :], path)
    return None


def _decoded(data: bytes, path: Path) -> Note:
    digest, text = data[:_DIGEST_BYTES], data[_DIGEST_BYTES:]
    if hashlib.sha256(text).digest() != digest:
        raise CorruptError(
            f"{path}: what it says of its session is damaged", hint="its transcript may be whole: archives verify"
        )
    document = jstext.parse(text)
    if document["format"] != FORMAT:
        raise CorruptError(f"{path} was written by a newer version of this program", hint="update openclaw-cli")
    names = ("sessionKey", "sessionId", "agentId", "entry", "window")
    return Note(*(document[name] for name in names))
