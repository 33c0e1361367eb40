"""Copies of databases in use: one view with what the log holds, no writer waits, nothing half-done is left."""

from __future__ import annotations

import os
from pathlib import Path

import apsw
import pytest

from openclaw_cli.errors import BusyError, CorruptError
from openclaw_cli.storage import backup
from openclaw_cli.storage.connection import Store


def rows(path: Path, sql: str = "SELECT count(*) FROM transcript_events") -> int:
    """The first value of `sql` in a database that lies alone."""
    opened = apsw.Connection(f"{path.as_uri()}?immutable=1", flags=apsw.SQLITE_OPEN_READONLY | apsw.SQLITE_OPEN_URI)
    value = opened.execute(sql).fetchone()[0]
    opened.close()
    return int(value)


def test_what_only_the_log_holds_is_in_the_copy(filled: Store, database: Path, tmp_path: Path) -> None:
    """Rows that a living writer has committed and not yet written back are copied; the copy needs no log."""
    filled.execute("UPDATE schema_meta SET app_version = 'only in the log'")
    assert (database.parent / (database.name + "-wal")).stat().st_size > 0
    copied = backup.copy_database(database, tmp_path / "copy.sqlite")

    assert (tmp_path / "copy.sqlite").stat().st_size == copied.size_bytes
    assert [] == backup.faults(tmp_path / "copy.sqlite")
    assert 1 == rows(tmp_path / "copy.sqlite", "SELECT app_version = 'only in the log' FROM schema_meta")
    assert ["agents", "copy.sqlite"] == sorted(os.listdir(tmp_path))


def test_a_writer_goes_on_while_the_copy_keeps_its_view(filled: Store, database: Path, tmp_path: Path) -> None:
    """Commits between two steps neither wait nor come into the copy, and it never begins again."""
    before = filled.value("SELECT count(*) FROM transcript_events")
    steps = []

    def write(_: int) -> None:
        steps.append(1)
        filled.execute("UPDATE schema_meta SET updated_at = updated_at + 1")
        filled.execute("DELETE FROM transcript_events WHERE seq = (SELECT max(seq) FROM transcript_events)")

    backup.copy_database(database, tmp_path / "copy.sqlite", on_bytes=write, step_pages=16)

    assert before == rows(tmp_path / "copy.sqlite")
    assert 1 < len(steps)
    assert [] == backup.faults(tmp_path / "copy.sqlite")


@pytest.fixture
def plain(tmp_path: Path) -> Path:
    """A database with a rollback journal, some hundred pages."""
    path = tmp_path / "plain.sqlite"
    opened = apsw.Connection(str(path))
    opened.execute("CREATE TABLE t(n INTEGER PRIMARY KEY, x)")
    opened.execute("INSERT INTO t(x) SELECT zeroblob(3000) FROM (SELECT 1 FROM pragma_function_list LIMIT 150)")
    opened.close()
    return path


def test_without_a_log_the_copy_begins_again(plain: Path, tmp_path: Path) -> None:
    """With a rollback journal a writer does not wait either; its rows are in the copy, which began again."""
    writer = apsw.Connection(str(plain))
    left = [2]

    def write(_: int) -> None:
        if left[0]:
            left[0] -= 1
            writer.execute("INSERT INTO t(x) VALUES ('new')")

    backup.copy_database(plain, tmp_path / "copy.sqlite", on_bytes=write, step_pages=8)

    assert 152 == rows(tmp_path / "copy.sqlite", "SELECT count(*) FROM t")


def test_a_copy_that_never_ends_is_given_up(plain: Path, tmp_path: Path) -> None:
    """Who writes between all steps makes the database busy; no part of a copy stays, an older copy is untouched."""
    (tmp_path / "copy.sqlite").write_bytes(b"older")
    writer = apsw.Connection(str(plain))

    def write(_: int) -> None:
        writer.execute("INSERT INTO t(x) VALUES (zeroblob(40000))")

    with pytest.raises(BusyError):
        backup.copy_database(plain, tmp_path / "copy.sqlite", on_bytes=write, step_pages=8)

    assert b"older" == (tmp_path / "copy.sqlite").read_bytes()
    assert ["copy.sqlite", "plain.sqlite"] == sorted(os.listdir(tmp_path))


def test_what_is_no_database_is_not_copied(tmp_path: Path) -> None:
    """A file that only begins like one is damaged; nothing is left of the attempt."""
    (tmp_path / "bad.sqlite").write_bytes(backup.MAGIC + bytes(5000))

    assert backup.is_database(tmp_path / "bad.sqlite")
    with pytest.raises(CorruptError):
        backup.copy_database(tmp_path / "bad.sqlite", tmp_path / "copy.sqlite")
    assert ["bad.sqlite"] == os.listdir(tmp_path)


def test_damage_is_found_in_a_copy(filled: Store, database: Path, tmp_path: Path) -> None:
    """The full check of a copy names the pages of an index that the schema has lost, and makes no file beside it."""
    filled.close()
    opened = apsw.Connection(str(database))
    opened.pragma("writable_schema", True)
    opened.execute(
        "DELETE FROM sqlite_schema WHERE type = 'index' AND sql IS NOT NULL AND tbl_name LIKE 'transcript_event_id%'"
    )
    opened.close()
    backup.copy_database(database, tmp_path / "copy.sqlite")

    assert any("never used" in line for line in backup.faults(tmp_path / "copy.sqlite"))
    assert ["agents", "copy.sqlite"] == sorted(os.listdir(tmp_path))
