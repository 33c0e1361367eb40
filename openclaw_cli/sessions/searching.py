"""Search over the messages of stores, every session of a key, and over archives.

Words are found in any order, all of them, without case and accents: in a store by its search index, in an archive by
reading it.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, BinaryIO

from openclaw_cli.errors import escaped
from openclaw_cli.sessions.listing import WITHHELD
from openclaw_cli.storage.connection import Store
from openclaw_cli.storage.projections import parse, searchable
from openclaw_cli.transcript.entries import timestamp_ms

_SNIPPET_WORDS = 24
_AROUND = 80
_FIND = (
    "SELECT w.session_key, f.session_id, f.message_id, f.role, f.timestamp,"
    f" snippet(session_transcript_fts, 0, '', '', '…', {_SNIPPET_WORDS}),"
    " EXISTS (SELECT 1 FROM session_nodes c WHERE c.current_session_id = f.session_id)"
    " FROM session_transcript_fts f JOIN session_windows w ON w.session_id = f.session_id"
    " WHERE session_transcript_fts MATCH ?"
    f" AND w.session_key NOT IN (SELECT session_key FROM session_nodes WHERE {WITHHELD})"
)


@dataclass(frozen=True, slots=True)
class Hit:
    """One message. `current`: of the session that its key goes on with; `archive`: the file that it was found in."""

    agent_id: str | None
    session_key: str | None
    session_id: str
    message_id: str
    role: str
    time_ms: int | None
    snippet: str
    current: bool = False
    archive: str | None = None

    def as_json(self) -> dict[str, Any]:
        """Its object in `hits`."""
        return {
            "agentId": self.agent_id,
            "sessionKey": None if self.session_key is None else escaped(self.session_key),
            "sessionId": escaped(self.session_id),
            "current": self.current,
            "messageId": self.message_id,
            "role": self.role,
            "timestamp": self.time_ms,
            "snippet": self.snippet,
            "archive": None if self.archive is None else escaped(self.archive),
        }


def words_of(query: str) -> list[str]:
    """The words of a query, folded; at least one has a letter or a digit, else the list is empty."""
    words = [word for word in folded(query).split() if any(character.isalnum() for character in word)]
    return words


def in_store(
    store: Store, agent_id: str, words: Sequence[str], keys: Sequence[str], limit: int | None
) -> Iterator[Hit]:
    """Hits by the index, the best first; of all keys, or of `keys` with everything that is history of them."""
    match = " ".join(f'"{word.replace(chr(34), chr(34) * 2)}"' for word in words)
    sql = _FIND
    bindings: list[Any] = [match]
    if keys:
        sql += f" AND w.session_key IN ({', '.join('?' * len(keys))})"
        bindings.extend(keys)
    sql += " ORDER BY rank"
    if limit is not None:
        sql, bindings = sql + " LIMIT ?", [*bindings, limit]
    for key, session_id, message_id, role, at, snippet, current in store.execute(sql, tuple(bindings)):
        moment = None if at is None else round(float(at))
        text = " ".join(str(snippet).split())
        yield Hit(agent_id, key, session_id, message_id, role, moment, text, current=bool(current))


def in_archive(
    stream: BinaryIO, words: Sequence[str], agent_id: str | None, key: str | None, session_id: str, name: str
) -> Iterator[Hit]:
    """Hits in the unpacked bytes of an archive, in its order; a line that cannot be read has none."""
    for line in stream:
        try:
            event = parse(line)
        except ValueError:
            continue
        at = timestamp_ms(event.get("timestamp")) if isinstance(event, dict) else None
        found = searchable(event, at or 0)
        if found is None:
            continue
        text = folded(found.text)
        if all(word in text for word in words):
            snippet = _around(found.text, text.find(words[0]))
            yield Hit(agent_id, key, session_id, found.message_id, found.role, at, snippet, archive=name)


def folded(text: str) -> str:
    """Without case and accents."""
    plain = unicodedata.normalize("NFKD", text.casefold())
    return "".join(character for character in plain if not unicodedata.combining(character))


def _around(text: str, at: int) -> str:
    start = max(0, at - _AROUND)
    piece = " ".join(text[start : at + _AROUND].split())
    return f"{'…' if start else ''}{piece}{'…' if at + _AROUND < len(text) else ''}"
