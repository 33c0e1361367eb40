"""The readable rows of a damaged store, in a new store that is sound.

Rows come from the pages (`pages`, `shapes`), never through SQLite, which stops at the first damage. What the store
derives from its events (identities, active path, search) is not copied but made anew; so is what holds rows together
where a row in between is lost: a session without its row gets a placeholder, events are numbered anew. Raises nothing
for what the file holds.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import apsw

from openclaw_cli.errors import CorruptError
from openclaw_cli.storage import connection, events, identities, projections, sessions, shapes, space, verify
from openclaw_cli.storage.connection import Store
from openclaw_cli.storage.encoding import decode
from openclaw_cli.storage.pages import Cell, Lost, Pages
from openclaw_cli.storage.shapes import DERIVED

_BUILT_WITH_ROWS = frozenset(("schema_meta", "session_key_contract", "memory_index_state"))
_TEXT_OF_EVENT = ("event_json", "event_zstd", "event_utf8_bytes")
_RENUMBER = (
    "UPDATE transcript_events SET seq = -1 - new FROM (SELECT seq AS old, row_number() OVER (ORDER BY seq) - 1 AS new"
    " FROM transcript_events WHERE session_id = ?1) WHERE session_id = ?1 AND seq = old"
)


@dataclass(slots=True)
class Salvaged:
    """What a salvage brought back. `rows`: rows per table; `refused`: rows that the schema does not admit any more.

    `lost`: places of the file that could not be read, `lost_in`: the tables that they are of; `strangers`: tables of
    other programs, which were left out; `placeholders`: sessions whose own row is lost; `gaps`: events that are missing
    between others.
    """

    rows: dict[str, int] = field(default_factory=dict)
    refused: dict[str, int] = field(default_factory=dict)
    lost: list[Lost] = field(default_factory=list)
    lost_in: set[str] = field(default_factory=set)
    strangers: list[str] = field(default_factory=list)
    placeholders: int = 0
    gaps: int = 0

    @property
    def pages_lost(self) -> list[int]:
        """Numbers of the pages that gave less than they held."""
        return sorted({lost.page for lost in self.lost})

    def as_json(self) -> dict[str, Any]:
        """The form in a report."""
        return {
            "rows": {name: count for name, count in sorted(self.rows.items()) if count},
            "refusedRows": {name: count for name, count in sorted(self.refused.items()) if count},
            "pagesLost": self.pages_lost,
            "otherTables": sorted(self.strangers),
            "placeholders": self.placeholders,
            "missingEvents": self.gaps,
        }


def salvage(copy: Path, new: Path, *, agent_id: str, now_ms: int) -> Salvaged:
    """Build a sound store at `new` from the readable rows of the database file `copy`, which is only read.

    `copy` is a private copy with its log written back. `new` must not exist. Raises RefusedError when it does, and
    CorruptError when the new store does not pass its own checks.
    """
    result = Salvaged()
    with Pages(copy) as pages, connection.create(new, agent_id=agent_id, now_ms=now_ms) as store:
        found = shapes.layout(pages)
        for name, lost in found.lost.items():
            _lose(result, name, lost)
        result.strangers.extend(name for name in found.strangers if _is_foreign(name))
        store.execute("PRAGMA foreign_keys=OFF").fetchall()
        valid: list[str] = []
        with store.transaction():
            for name in _order(found.leaves):
                _load(store, pages, shapes.tables()[name], found.leaves[name], result, valid)
            _own(store, agent_id)
            _connect(store, agent_id, now_ms, result)
        for (session_id,) in store.execute("SELECT session_id FROM session_windows ORDER BY session_id").fetchall():
            with store.transaction():
                _derive(store, session_id, now_ms, result)
        with store.transaction():
            _settle_references(store, result)
            for key in valid:
                store.execute("UPDATE session_nodes SET entry_valid = 1 WHERE session_key = ?", (key,))
        space.checkpoint(store, "TRUNCATE")
    _prove(new)
    return result


def readable_sessions(path: Path) -> Iterator[tuple[str, str, Iterator[bytes]]]:
    """(session id, session key, JSON texts of its events in order) of a store that `salvage` has built."""
    with connection.open_read(path) as store:
        sql = "SELECT session_id, session_key FROM session_windows ORDER BY session_id"
        for session_id, key in store.execute(sql).fetchall():
            yield session_id, key, (text for _, text in events.stream(store, session_id))


def _is_foreign(name: str) -> bool:
    own = name.startswith(("sqlite_", "session_transcript_fts", "standing_intents_fts"))
    return not own


def _order(leaves: dict[str, list[int]]) -> list[str]:
    """The tables to load. The counter of the memory index comes last: loading its rows moves it."""
    names = [name for name in shapes.tables() if name in leaves and name not in DERIVED]
    return sorted(names, key=lambda name: name == "memory_index_state")


def _load(
    store: Store, pages: Pages, table: shapes.Table, leaves: list[int], result: Salvaged, valid: list[str]
) -> None:
    """Insert the rows of a table as they were stored."""
    verb = "INSERT OR REPLACE" if table.name in _BUILT_WITH_ROWS else "INSERT OR IGNORE"
    columns = ", ".join(f'"{column}"' for column in table.columns)
    sql = f'{verb} INTO "{table.name}" ({columns}) VALUES ({", ".join("?" * len(table.columns))})'
    lost: list[Lost] = []
    for number in leaves:
        for cell in pages.cells(number, lost):
            row = table.row(cell)
            if not _is_readable(table, cell):
                _refuse(result, table.name)
                continue
            try:
                store.execute(sql, row)
            except apsw.ConstraintError:
                _refuse(result, table.name)
                continue
            result.rows[table.name] = result.rows.get(table.name, 0) + store.changes()
            if table.name == "session_nodes" and row[table.columns.index("entry_valid")] == 1:
                valid.append(str(row[0]))
    _lose(result, table.name, lost)


def _lose(result: Salvaged, name: str, lost: list[Lost]) -> None:
    if lost:
        result.lost_in.add(name)
        result.lost.extend(lost if name not in DERIVED else ())


def _refuse(result: Salvaged, name: str) -> None:
    result.refused[name] = result.refused.get(name, 0) + 1


def _is_readable(table: shapes.Table, cell: Cell) -> bool:
    """Whether the JSON of an event or entry can be had; what else its row says is checked by the schema.

    An entry that was not valid before is no worse now and is kept.
    """
    values = dict(zip(table.columns, cell.values, strict=False))
    try:
        if table.name == "transcript_events":
            projections.parse(decode(*(values[name] for name in _TEXT_OF_EVENT)))  # type: ignore[arg-type]
        elif table.name == "trajectory_runtime_events":
            projections.parse(values["event_json"])  # type: ignore[arg-type]
        elif table.name == "session_nodes" and values["entry_valid"] == 1:
            return isinstance(projections.parse(values["entry_json"]), dict)  # type: ignore[arg-type]
    except (CorruptError, ValueError, AttributeError, TypeError, KeyError):
        return False
    return True


def _own(store: Store, agent_id: str) -> None:
    """The identity of the store, should its row say something else."""
    store.execute("UPDATE schema_meta SET role = 'agent', agent_id = ? WHERE meta_key = 'primary'", (agent_id,))


def _connect(store: Store, agent_id: str, now_ms: int, result: Salvaged) -> None:
    """Rows in between that are lost: the row of a key whose windows are there, the window of events that are there."""
    _rewrite(store, result)
    orphans = (
        "SELECT DISTINCT session_id FROM (SELECT session_id FROM transcript_events"
        " UNION SELECT session_id FROM trajectory_runtime_events)"
        " WHERE session_id NOT IN (SELECT session_id FROM session_windows)"
    )
    for (session_id,) in store.execute(orphans).fetchall():
        key = store.value("SELECT session_key FROM session_nodes WHERE current_session_id = ?", (session_id,))
        last = "SELECT max(created_at) FROM transcript_events WHERE session_id = ?"
        at = store.value(last, (session_id,))
        key = key or f"agent:{agent_id}:recovered:{session_id}"
        events.ensure_root(store, key, session_id, now_ms if at is None else at)
        result.placeholders += 1
    keyless = (
        "SELECT session_key, session_id, max(updated_at) FROM session_windows"
        " WHERE session_key NOT IN (SELECT session_key FROM session_nodes) GROUP BY session_key"
    )
    for key, session_id, at in store.execute(keyless).fetchall():
        events.ensure_root(store, key, session_id, at)
        result.placeholders += 1


def _rewrite(store: Store, result: Salvaged) -> None:
    """Write the entries again whose window or conversation is lost: both follow from the entry."""
    windowless = "current_session_id NOT IN (SELECT session_id FROM session_windows)"
    unheard = (
        "current_session_id IN (SELECT session_id FROM session_windows WHERE primary_conversation_id IS NOT NULL"
        " AND primary_conversation_id NOT IN (SELECT conversation_id FROM conversations))"
    )
    sql = f"SELECT session_key, entry_json, updated_at FROM session_nodes WHERE {windowless} OR {unheard}"
    for key, text, at in store.execute(sql).fetchall():
        try:
            entry = projections.parse(text)
        except ValueError:
            entry = None
        session_id = store.value("SELECT current_session_id FROM session_nodes WHERE session_key = ?", (key,))
        if isinstance(entry, dict) and entry.get("sessionId") == session_id:
            sessions.write_entry(store, key, entry, entry_text=text.encode(), now_ms=at)
        else:
            events.ensure_root(store, key, session_id, at)
            result.placeholders += 1


def _derive(store: Store, session_id: str, now_ms: int, result: Salvaged) -> None:
    """Number the events of a session anew where some are missing, and make what follows from them."""
    count, last = store.execute(
        "SELECT count(*), max(seq) FROM transcript_events WHERE session_id = ?", (session_id,)
    ).fetchone() or (0, None)
    if not count:
        return
    if last + 1 != count:
        result.gaps += max(0, last + 1 - count)
        store.execute(_RENUMBER, (session_id,))
        store.execute("UPDATE transcript_events SET seq = -1 - seq WHERE session_id = ? AND seq < 0", (session_id,))
    identities.rebuild(store, session_id)
    store.execute(
        "INSERT INTO transcript_rewrite_watermarks(session_id, generation, updated_at) VALUES (?, ?, ?)"
        " ON CONFLICT(session_id) DO NOTHING",
        (session_id, events.new_generation(), now_ms),
    )
    projections.rebuild(store, session_id, now_ms)


def _settle_references(store: Store, result: Salvaged) -> None:
    """Rows that name a lost row: the name is dropped where it may be empty, else the row goes with what it is about."""
    store.execute(
        "UPDATE session_windows SET primary_conversation_id = NULL"
        " WHERE primary_conversation_id NOT IN (SELECT conversation_id FROM conversations)"
    )
    while broken := store.execute("PRAGMA foreign_key_check").fetchall():
        for table, rowid, _, _ in broken:
            store.execute(f'DELETE FROM "{table}" WHERE rowid = ?', (rowid,))
            _refuse(result, table)


def _prove(path: Path) -> None:
    with connection.open_read(path, temporary_tables=True) as store:
        found = [*verify.integrity(store), *(f"{item.table}.{item.column}" for item in _wrong(store))]
        if found:
            raise CorruptError(
                f"the store made from the readable rows does not pass its checks: {', '.join(found[:5])}",
                hint="nothing was replaced; please report this",
                path=str(path),
            )


def _wrong(store: Store) -> Iterator[verify.Mismatch]:
    """What does not follow from its source. Mirrored columns are rows of their own here and stay as they were."""
    return (item for item in verify.verify(store) if item.table not in ("session_nodes", "session_windows"))
