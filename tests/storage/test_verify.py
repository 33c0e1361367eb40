"""Finding every way in which a store can disagree with its sources."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import apsw
import pytest

from openclaw_cli.errors import CorruptError
from openclaw_cli.storage import columns, connection, verify
from openclaw_cli.storage.connection import Store

KEY = "agent:main:main"
EVENT = "session_id = 's1' AND seq = 3"
BIG = "session_id = 's1' AND event_zstd IS NOT NULL"
IDENTITY = "event_id = 'm2'"
ACTIVE = "session_id = 's1' AND active_position = 2"
SEARCH = "rowid = (SELECT id FROM session_transcript_fts_rows WHERE message_id = 'm2')"
STATE = "session_id = 's1'"
NODE = f"session_key = '{KEY}'"

FACTS = "json_set(navigation_json, '$.modelBytes', 1)"
DERIVED = [
    ("transcript_events", EVENT, "seq", "100", (100,)),
    ("transcript_events", EVENT, "event_utf8_bytes", "event_utf8_bytes + 1", ("s1", 3)),
    ("transcript_events", BIG, "navigation_json", FACTS, ("s1", 7)),
    ("transcript_events", EVENT, "created_at", "created_at + 1", ("s1", 3)),
    ("transcript_event_identities", IDENTITY, "event_id", "'zz'", ("s1", "zz")),
    ("transcript_event_identities", IDENTITY, "seq", "1", ("s1", "m2")),
    ("transcript_event_identities", IDENTITY, "event_type", "'custom'", ("s1", "m2")),
    ("transcript_event_identities", IDENTITY, "parent_id", "NULL", ("s1", "m2")),
    ("transcript_event_identities", IDENTITY, "message_idempotency_key", "'other'", ("s1", "m2")),
    ("transcript_event_identities", "event_id = 'big'", "message_idempotency_key", "NULL", ("s1", "big")),
    ("transcript_event_identities", IDENTITY, "created_at", "created_at + 1", ("s1", "m2")),
    ("session_transcript_active_events", ACTIVE, "active_position", "50", ("s1", 50)),
    ("session_transcript_active_events", ACTIVE, "event_seq", "0", ("s1", 2)),
    ("session_transcript_active_events", ACTIVE, "message_position", "60", ("s1", 2)),
    ("session_transcript_active_events", ACTIVE, "context_eligible", "0", ("s1", 2)),
    ("session_transcript_active_events", ACTIVE, "context_eligible", "NULL", ("s1", 2)),
    ("session_transcript_fts_rows", "message_id = 'm2'", "message_id", "'zz'", ("s1", "zz")),
    ("session_transcript_fts_rows", "message_id = 'm2'", "session_id", "'gone'", ("gone",)),
    ("session_transcript_fts", SEARCH, "text", "'other'", ("s1", "m2")),
    ("session_transcript_fts", SEARCH, "session_id", "'s2'", ("s1", "m2")),
    ("session_transcript_fts", SEARCH, "message_id", "'m3'", ("s1", "m2")),
    ("session_transcript_fts", SEARCH, "role", "'assistant'", ("s1", "m2")),
    ("session_transcript_fts", SEARCH, "timestamp", "1.5", ("s1", "m2")),
    ("session_transcript_index_state", STATE, "indexed_seq", "2", ("s1",)),
    ("session_transcript_index_state", STATE, "leaf_event_id", "'m0'", ("s1",)),
    ("session_transcript_index_state", STATE, "leaf_event_id", "NULL", ("s1",)),
    ("session_transcript_index_state", STATE, "needs_rebuild", "1", ("s1",)),
    ("session_transcript_index_state", STATE, "active_event_count", "1", ("s1",)),
    ("session_transcript_index_state", STATE, "active_message_count", "1", ("s1",)),
    ("session_transcript_index_state", STATE, "session_id", "'gone'", ("gone",)),
    ("transcript_rewrite_watermarks", STATE, "session_id", "'gone'", ("s1",)),
    ("session_nodes", NODE, "entry_valid", "0", (KEY,)),
]
CHECKED = {
    "status": "'killed'",
    "created_via": "'cron'",
    "created_actor_type": "'human'",
    "session_scope": "'group'",
    "chat_type": "'group'",
}
WINDOW_COLUMNS = tuple(columns.expected_window_columns(KEY, {"sessionId": "s1"}))


def value_for(column: str) -> str:
    """An SQL value that differs from what the store of these tests has and that the schema's CHECKs allow."""
    return CHECKED.get(column, "12345" if column.endswith("_at") else "'mutated'")


MIRRORED = [
    *(("session_nodes", NODE, column, value_for(column), (KEY,)) for column in columns.NODE_PROJECTIONS),
    *(("session_windows", STATE, column, value_for(column), ("s1",)) for column in WINDOW_COLUMNS),
]


def mutate(database: Path, statement: str) -> None:
    """Change a row without foreign keys and without any of our rules."""
    raw = apsw.Connection(str(database))
    raw.execute("PRAGMA foreign_keys=OFF").fetchall()
    raw.execute(statement)
    assert raw.total_changes() > 0
    raw.close()


def found(database: Path) -> list[verify.Mismatch]:
    """What a reader's verify says."""
    with connection.open_read(database, temporary_tables=True) as store:
        return list(verify.verify(store))


@pytest.mark.parametrize(
    ("table", "where", "column", "value", "key"),
    [*DERIVED, *MIRRORED],
    ids=[f"{case[0]}.{case[2]}={case[3]}" for case in [*DERIVED, *MIRRORED]],
)
def test_each_changed_column_is_named(
    filled: Store, database: Path, table: str, where: str, column: str, value: str, key: tuple[Any, ...]
) -> None:
    """Changing one projected column makes verify name its table, its row and the column."""
    filled.close()
    assert [] == found(database)
    mutate(database, f"UPDATE {table} SET {column} = {value} WHERE {where}")
    named = [(item.table, item.column, item.key) for item in found(database)]
    matching = [item[2] for item in named if item[:2] == (table, column)]
    assert any(set(key) <= set(row) for row in matching), named


@pytest.mark.parametrize(
    ("statement", "table"),
    [
        ("DELETE FROM transcript_event_identities WHERE event_id = 'm2'", "transcript_event_identities"),
        ("DELETE FROM session_transcript_active_events WHERE active_position = 7", "session_transcript_active_events"),
        ("DELETE FROM session_transcript_fts_rows WHERE message_id = 'm2'", "session_transcript_fts_rows"),
        ("DELETE FROM session_transcript_fts WHERE message_id = 'm2'", "session_transcript_fts"),
        ("DELETE FROM session_transcript_index_state", "session_transcript_index_state"),
        ("DELETE FROM session_windows", "session_windows"),
        (
            "INSERT INTO session_transcript_active_events VALUES ('s1', 90, 0, NULL, 1)",
            "session_transcript_active_events",
        ),
        ("INSERT INTO session_transcript_fts_rows VALUES (900, 's1', 'more')", "session_transcript_fts_rows"),
        ("INSERT INTO session_transcript_fts(rowid, text) VALUES (900, 'x')", "session_transcript_fts"),
        ("UPDATE session_nodes SET entry_json = '[]'", "session_nodes"),
        ("UPDATE session_nodes SET entry_json = '{not json'", "session_nodes"),
    ],
)
def test_missing_and_surplus_rows_are_named(filled: Store, database: Path, statement: str, table: str) -> None:
    """A row too few or too many is found in every derived table."""
    filled.close()
    mutate(database, statement)
    assert table in {item.table for item in found(database)}


def test_no_text_of_a_transcript_is_shown(filled: Store, database: Path) -> None:
    """A differing search text appears by its digest only."""
    filled.close()
    mutate(database, "UPDATE session_transcript_fts SET text = 'a secret' WHERE rowid = 1")
    assert "secret" not in repr(found(database))


def test_an_event_that_is_no_json_is_corrupt(filled: Store, database: Path) -> None:
    """Nothing can be derived from it, so the check ends."""
    filled.close()
    mutate(database, "UPDATE transcript_events SET event_json = '{\"a\":' WHERE seq = 2")
    with pytest.raises(CorruptError):
        found(database)


@pytest.mark.parametrize("name", ["13-s5-after-doctor-fix", "15-z1-zstd", "16-e7-edge-cases"])
def test_stores_of_the_real_program_verify(state_copy: Callable[[str], Path], name: str) -> None:
    """Everything that the real program derived follows from its events and entries by our rules."""
    databases = sorted(state_copy(name).rglob("openclaw-agent.sqlite"))
    assert databases
    for database in databases:
        assert [] == found(database)
        with connection.open_read(database) as store:
            assert [] == verify.integrity(store)


def test_verifying_changes_nothing(filled: Store, database: Path) -> None:
    """The temporary tables are elsewhere: the file keeps its bytes, and a writer may check as well."""
    assert [] == list(verify.verify(filled))
    filled.close()
    before = database.read_bytes()
    found(database)
    assert before == database.read_bytes()


def test_integrity_names_a_broken_reference(filled: Store, database: Path) -> None:
    """Foreign keys are part of the check."""
    filled.close()
    mutate(database, "UPDATE transcript_events SET session_id = 'gone' WHERE seq = 1")
    with connection.open_read(database) as store:
        assert any("transcript_events" in line for line in verify.integrity(store))
