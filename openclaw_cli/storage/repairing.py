"""What is wrong with a store, judged on a private copy; and mending it where every row is whole.

Three kinds of trouble are kept apart: what follows from the rows (indexes, search, active path) is made anew in place;
a log that does not belong to the file is left out; damage to rows themselves needs a salvage.
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from openclaw_cli.errors import CorruptError, OpenClawError, RefusedError
from openclaw_cli.storage import connection, frames, identities, projections, schema, shapes, verify
from openclaw_cli.storage.connection import Store, Timeouts
from openclaw_cli.storage.pages import Pages
from openclaw_cli.storage.shapes import DERIVED

LOG_SUFFIXES = ("-wal", "-shm", "-journal")
"""What may lie beside a database file and belongs to it."""

_INDEX_ONLY = re.compile(
    r"(row \d+ missing from index |wrong # of entries in index |non-unique entry in index |"
    r"malformed inverted index for FTS\d table )"
)
_NEVER_USED = re.compile(r"page \d+: never used|page \d+ is never used", re.IGNORECASE)
_SHOWN = 10


class Condition(StrEnum):
    """How a store is. DERIVED: only what follows from its rows is wrong. REFUSED: not for this program to change."""

    SOUND = "sound"
    DERIVED = "derived-damage"
    DAMAGED = "damaged"
    MISSING = "missing"
    REFUSED = "refused"


class Log(StrEnum):
    """Whose the log beside a database is. STALE: it fits by name and page size, but damages a sound file."""

    NONE = "none"
    OWN = "own"
    FOREIGN = "foreign"
    STALE = "stale"


@dataclass(frozen=True, slots=True)
class Health:
    """What a look at the copy found. `findings` name tables, indexes and pages, never content."""

    condition: Condition
    log: Log = Log.NONE
    findings: tuple[str, ...] = ()
    failure: OpenClawError | None = None


def private_copy(path: Path, directory: Path) -> Path:
    """Copy a database with its log and journal into `directory`; gives the copy.

    A set that a cut recovery had begun to put aside is taken from both places. Raises OSError.
    """
    copy = directory / path.name
    shutil.copyfile(path, copy)
    for suffix in ("-wal", "-journal"):
        for place in (path.with_name(path.name + suffix), *_aside(path, suffix)):
            if place.is_file():
                shutil.copyfile(place, copy.with_name(copy.name + suffix))
                break
    return copy


def _aside(path: Path, suffix: str) -> Iterator[Path]:
    """Where a cut recovery has put a part of the set: the database itself then has a second name of that kind."""
    for other in path.parent.glob(f"{path.name}.corrupt-*"):
        if other.samefile(path):
            stamp = other.name[len(path.name) :]
            yield path.with_name(path.name + suffix + stamp)


def examine(copy: Path, agent_id: str) -> Health:
    """Judge a private copy. It is changed: a log that does not belong to it is removed, one that does is written back.

    What is found afterwards at `copy` is what a salvage should read.
    """
    log = _judge_log(copy, agent_id)
    health = _look(copy, agent_id)
    if log is Log.OWN and health.condition is Condition.DAMAGED:
        alone = _without_log(copy, agent_id)
        if alone is not None and alone.condition in (Condition.SOUND, Condition.DERIVED):
            return Health(alone.condition, Log.STALE, health.findings)
    _write_back(copy)
    return Health(health.condition, log, health.findings, health.failure)


def _judge_log(copy: Path, agent_id: str) -> Log:
    path = copy.with_name(copy.name + "-wal")
    if not path.exists() or path.stat().st_size == 0:
        return Log.NONE
    with Pages(copy) as pages:
        has_header = pages.has_header
    if connection.foreign_wal(copy) is None if has_header else _belongs(path, copy, agent_id):
        return Log.OWN
    path.unlink()
    return Log.FOREIGN


def _belongs(log: Path, copy: Path, agent_id: str) -> bool:
    """Whether a log fits a file whose header is destroyed: with it, the file is this agent's store or says nothing.

    SQLite cannot be asked; a log that does not fit would put other pages over the rows.
    """
    trial = Path(shutil.copyfile(copy, copy.with_name(copy.name + ".trial")))
    try:
        before = _rows(trial)
        frames.write_back(log, trial)
        with Pages(trial) as pages:
            leaves = shapes.layout(pages).leaves
            position = shapes.tables()["schema_meta"].columns.index("agent_id")
            owners = {cell.values[position] for n in leaves.get("schema_meta", []) for cell in pages.cells(n, [])}
        return owners <= {agent_id} and _rows(trial) >= before
    finally:
        trial.unlink()


def _without_log(copy: Path, agent_id: str) -> Health | None:
    path = copy.with_name(copy.name + "-wal")
    held = path.with_name(path.name + ".held")
    for suffix in ("-shm",):
        copy.with_name(copy.name + suffix).unlink(missing_ok=True)
    path.rename(held)
    health = _look(copy, agent_id)
    if health.condition in (Condition.SOUND, Condition.DERIVED):
        held.unlink()
        return health
    held.rename(path)
    return None


def _write_back(copy: Path) -> None:
    """Put the log into the copy; by hand, since SQLite may not open it."""
    path = copy.with_name(copy.name + "-wal")
    if path.exists():
        frames.write_back(path, copy)
        path.unlink()
    copy.with_name(copy.name + "-shm").unlink(missing_ok=True)


def _look(copy: Path, agent_id: str) -> Health:
    try:
        with connection.open_read(copy, agent_id=agent_id, temporary_tables=True) as store:
            return _judge(store)
    except CorruptError as error:
        return Health(Condition.DAMAGED, findings=(error.code,))
    except RefusedError as error:
        if error.code in ("not_a_store", "not_openable") and _rows(copy):
            return Health(Condition.DAMAGED, findings=(error.code,))
        return Health(Condition.REFUSED, findings=(error.code,), failure=error)


def _rows(copy: Path) -> int:
    """Rows of keys and sessions in a file that SQLite need not take for a store."""
    with Pages(copy) as pages:
        leaves = shapes.layout(pages).leaves
        wanted = leaves.get("session_nodes", []) + leaves.get("session_windows", [])
        return sum(1 for number in wanted for _ in pages.cells(number, []))


def _judge(store: Store) -> Health:
    if store.schema_version != schema.VERSION:
        try:
            connection.require_current_schema(store)
        except RefusedError as error:
            return Health(Condition.REFUSED, findings=(error.code,), failure=error)
    drift = schema.missing(store.execute("SELECT type, name, sql FROM sqlite_schema"))
    made_anew = ("session_transcript_fts", *DERIVED)
    foreign = [
        item for item in drift if item.problem != "missing" or (item.kind == "table" and item.name not in made_anew)
    ]
    if foreign:
        named = tuple(f"{item.kind} {item.name} is {item.problem}" for item in foreign[:_SHOWN])
        failure = RefusedError(f"the schema has drifted: {', '.join(named)}", code="schema_drift")
        return Health(Condition.REFUSED, findings=named, failure=failure)
    found = [f"{item.kind} {item.name} is missing" for item in drift]
    rows_are_whole = True
    # One text may have many lines, the first of which names the database.
    for line in (line for text in verify.integrity(store) for line in text.splitlines() if not line.startswith("***")):
        found.append(line)
        rows_are_whole &= bool(_INDEX_ONLY.match(line) or _NEVER_USED.match(line))
    if rows_are_whole and not any(item.kind == "table" for item in drift):
        found.extend(dict.fromkeys(f"{item.table} does not follow from its events" for item in derived_wrong(store)))
    if not found:
        return Health(Condition.SOUND)
    condition = Condition.DERIVED if rows_are_whole else Condition.DAMAGED
    return Health(condition, findings=tuple(found[:_SHOWN]))


def derived_wrong(store: Store) -> Iterator[verify.Mismatch]:
    """What does not follow from the events. Columns that mirror an entry are left out: they are content of a kind."""
    derived = (*DERIVED, "session_transcript_fts", "transcript_rewrite_watermarks")
    return (item for item in verify.verify(store) if item.table in derived)


def rebuild_derived(path: Path, *, agent_id: str, now_ms: int, timeouts: Timeouts | None = None) -> None:
    """Make indexes, search and everything else that follows from the rows of a store anew, in place.

    Objects and indexes in one transaction, then each session in one of its own: no lock is held for long, and a cut
    leaves sessions without projections, which the next look finds. The caller has seen that the rows are whole. Raises
    as `connection.open_write`, except for objects of the schema that are missing.
    """
    with connection.open_repair(path, agent_id=agent_id, timeouts=timeouts) as store:
        with store.transaction():
            store.execute("DROP TABLE IF EXISTS session_transcript_fts")
            for item in schema.missing(store.execute("SELECT type, name, sql FROM sqlite_schema").fetchall()):
                store.execute(next(thing.sql for thing in schema.objects() if thing.name == item.name))
            for table in ("session_transcript_active_events", "session_transcript_index_state"):
                store.execute(f"DELETE FROM {table}")
            # Without the trigger's help: there is nothing in the new search index that it could delete.
            store.execute("DROP TRIGGER session_transcript_fts_rows_after_delete")
            store.execute("DELETE FROM session_transcript_fts_rows")
            for item in schema.missing(store.execute("SELECT type, name, sql FROM sqlite_schema").fetchall()):
                store.execute(next(thing.sql for thing in schema.objects() if thing.name == item.name))
            store.execute("REINDEX")
        sql = "SELECT session_id FROM session_windows ORDER BY session_id"
        for (session_id,) in store.execute(sql).fetchall():
            with store.transaction():
                identities.rebuild(store, session_id)
                projections.rebuild(store, session_id, now_ms)
        if any(_NEVER_USED.search(text) for text in verify.integrity(store)):
            store.execute("VACUUM").fetchall()
