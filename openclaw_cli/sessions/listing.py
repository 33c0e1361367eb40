"""Listing the sessions of stores: bounded, newest first, pinned before them, archived apart.

The database filters, sorts and cuts on columns; the JSON of an entry is parsed only for rows that are shown. Some keys
are never listed, only counted: incognito rows, internal effects of sessions, rows whose set-up has not ended
(design: invariants, 9).
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from openclaw_cli.errors import Issue, RefusedError
from openclaw_cli.jstext import parse
from openclaw_cli.sessions.rows import Defaults, row_document

if TYPE_CHECKING:
    from openclaw_cli.storage.connection import Store

Archived = Literal["hide", "include", "only"]

KNOWN_SCHEMA = 23

# Columns that a listing needs, and where the entry itself holds the same value for a store without the column.
_NEEDED = {"session_key": None, "current_session_id": "sessionId", "entry_json": None, "updated_at": "updatedAt"}
_PROJECTED = {"archived_at": "archivedAt", "pinned_at": "pinnedAt"}

_HIDDEN_KEYS = (
    "(session_key GLOB 'agent:*:internal-session-effects:*'"
    " AND substr(session_key, instr(substr(session_key, 7), ':') + 7) GLOB 'internal-session-effects:*')"
    " OR session_key GLOB 'agent:*:dashboard:incognito-*' OR session_key GLOB 'agent:*:subagent:incognito-*'"
)


@dataclass(frozen=True, slots=True)
class Query:
    """What to list. `active_since_ms`: epoch ms or None; `limit`: rows or None for all."""

    archived: Archived = "hide"
    active_since_ms: int | None = None
    limit: int | None = 100
    generations: bool = False


@dataclass(frozen=True, slots=True)
class Counts:
    """`total`: rows that the query means; `archived`: left out as archived; `withheld`: never listed."""

    total: int
    archived: int
    withheld: int


class _Head(NamedTuple):
    """Sort key of a row and how to fetch it: pinned first, then the newest, then by key."""

    unpinned: int
    minus_updated_at: int
    key: str
    source: int


class Listing:
    """The sessions of one open store that a query means. `issues` fills while rows are read."""

    def __init__(self, store: Store, agent_id: str, defaults: Defaults, query: Query, now_ms: int) -> None:
        self.store = store
        self.agent_id = agent_id
        self.issues: list[Issue] = [*store.issues, *_schema_issue(store)]
        self._defaults = defaults
        self._query = query
        self._now_ms = now_ms
        present = {row[1] for row in store.execute("PRAGMA table_info(session_nodes)")}
        lacking = [name for name in _NEEDED if name not in present]
        if lacking:
            raise RefusedError(
                f"{store.path} cannot be listed: session_nodes has no column {', '.join(lacking)}",
                code="columns_missing",
                columns=lacking,
            )
        self._archived = _column("archived_at", present)
        self._pinned = f"({_column('pinned_at', present)} IS NOT NULL AND {self._archived} IS NULL)"
        valid = "entry_valid >= 0 AND " if "entry_valid" in present else ""
        self._shown = f"{valid}entry_json <> '{{}}'"
        self._withheld = WITHHELD

    def counts(self) -> Counts:
        """How many rows the query means and how many it leaves out; one pass over the table, one test of each row."""
        groups = self.store.execute(
            f"SELECT CASE WHEN NOT ({self._shown}) THEN 'none' WHEN {self._withheld} THEN 'withheld'"
            f" WHEN NOT (TRUE{self._since()}) THEN 'none' WHEN {self._archived} IS NULL THEN 'active' ELSE 'archived'"
            " END AS state, count(*) FROM session_nodes GROUP BY state"
        )
        found = dict.fromkeys(("active", "archived", "withheld"), 0) | dict(groups)
        active, archived, withheld = found["active"], found["archived"], found["withheld"]
        match self._query.archived:
            case "hide":
                return Counts(active, archived, withheld)
            case "only":
                return Counts(archived, 0, withheld)
        return Counts(active + archived, 0, withheld)

    def heads(self, source: int) -> Iterator[_Head]:
        """Sort keys in order, at most `limit` of them; `source` marks where they come from."""
        condition = {"hide": f" AND {self._archived} IS NULL", "only": f" AND {self._archived} IS NOT NULL"}
        limit = "" if self._query.limit is None else f" LIMIT {self._query.limit}"
        for pinned, updated_at, key in self.store.execute(
            f"SELECT {self._pinned} AS pinned, updated_at, session_key FROM session_nodes"
            f" WHERE {self._shown} AND NOT {self._withheld}{self._since()}{condition.get(self._query.archived, '')}"
            f" ORDER BY pinned DESC, updated_at DESC, session_key{limit}"
        ):
            yield _Head(1 - (pinned or 0), -(updated_at or 0), key, source)

    def row(self, key: str) -> dict[str, Any] | None:
        """The document of one row; None when it has gone since its key was read."""
        found = self.store.execute(
            "SELECT entry_json, updated_at, current_session_id FROM session_nodes WHERE session_key = ?", (key,)
        ).fetchone()
        if found is None:
            return None
        text, updated_at, session_id = found
        entry = self._entry(key, text)
        columns = {"updatedAt": updated_at, "sessionId": session_id}
        row = row_document(key, {**columns, **entry}, self.agent_id, self._defaults, self._now_ms)
        if self._query.generations:
            row["events"] = self._event_count(session_id)
            row["generations"] = self._generations(key, session_id)
        return row

    def _entry(self, key: str, text: str) -> dict[str, Any]:
        try:
            entry = parse(text.encode("utf-8", "surrogatepass"))
        except ValueError:
            entry = None
        if isinstance(entry, dict):
            return entry
        # The columns still say when it was used and which session it is.
        self.issues.append(
            Issue("entry_invalid", "error", "the stored entry is no JSON object; only its columns are shown", key)
        )
        return {}

    def _generations(self, key: str, current: str) -> list[dict[str, Any]]:
        """Older windows of a key, newest first: what a reset or rollover left behind."""
        windows = self.store.execute(
            "SELECT session_id, reason, created_at, updated_at FROM session_windows"
            " WHERE session_key = ? AND session_id <> ? ORDER BY updated_at DESC, session_id",
            (key, current),
        ).fetchall()
        return [
            {
                "sessionId": session_id,
                "reason": reason,
                "createdAt": created_at,
                "updatedAt": updated_at,
                "events": self._event_count(session_id),
            }
            for session_id, reason, created_at, updated_at in windows
        ]

    def _event_count(self, session_id: str) -> int:
        """Events of one session. Numbers are contiguous from 0, so the ends tell without a walk over the rows."""
        first, last = self.store.execute(
            "SELECT (SELECT min(seq) FROM transcript_events WHERE session_id = ?1),"
            " (SELECT max(seq) FROM transcript_events WHERE session_id = ?1)",
            (session_id,),
        ).fetchone() or (None, None)
        return 0 if last is None else last - first + 1

    def _since(self) -> str:
        since = self._query.active_since_ms
        return "" if since is None else f" AND updated_at >= {int(since)}"


def merged_rows(listings: list[Listing], limit: int | None) -> Iterator[dict[str, Any]]:
    """Rows of several stores in one order, at most `limit`; each row is read when its turn comes."""
    heads = heapq.merge(*(listing.heads(source) for source, listing in enumerate(listings)))
    for head in islice(heads, limit):
        row = listings[head.source].row(head.key)
        if row is not None:
            yield row


def total(counts: Iterable[Counts], of: Callable[[Counts], int]) -> int:
    """One number over all stores."""
    return sum(map(of, counts))


def _column(name: str, present: set[str]) -> str:
    return name if name in present else _extract(_PROJECTED[name])


def _flag(name: str) -> str:
    # instr first: parsing the JSON of every row would cost more than the whole listing.
    return f"(instr(entry_json, '\"{name}\"') > 0 AND coalesce({_extract(name)}, 0) = 1)"


def _extract(name: str) -> str:
    return f"(CASE WHEN json_valid(entry_json) THEN json_extract(entry_json, '$.{name}') END)"


def _schema_issue(store: Store) -> list[Issue]:
    if store.schema_version == KNOWN_SCHEMA:
        return []
    age = "newer" if store.schema_version > KNOWN_SCHEMA else "older"
    return [
        Issue(
            "schema_version",
            "warning",
            f"{store.path} has the {age} schema {store.schema_version}; known is {KNOWN_SCHEMA}, it is read as far as"
            " its columns allow",
            facts={"path": str(store.path), "schemaVersion": store.schema_version},
        )
    ]


WITHHELD = f"({_HIDDEN_KEYS} OR {_flag('incognito')} OR {_flag('initializationPending')})"
"""SQL condition on a row of session_nodes: it is never listed or named."""
