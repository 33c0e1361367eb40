"""Opening and creating stores: what is refused, what is never changed, what becomes which error."""

from __future__ import annotations

import hashlib
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import apsw
import pytest

from openclaw_cli.errors import BusyError, CorruptError, NoSpaceError, NotFoundError, OpenClawError, RefusedError
from openclaw_cli.storage import connection, events, failures, schema
from openclaw_cli.storage.connection import Store, Timeouts

NOW_MS = 1_790_000_000_000
IMPATIENT = Timeouts(acquire_ms=0)


def digests(directory: Path) -> dict[str, str]:
    """SHA-256 of every file but SQLite's shared memory and an empty log."""
    return {
        path.name: hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(directory.iterdir())
        if not path.name.endswith("-shm") and not (path.name.endswith("-wal") and path.stat().st_size == 0)
    }


def change(path: Path, *statements: str) -> None:
    """Run statements on the file without any of our rules, and write the log back."""
    raw = apsw.Connection(str(path))
    for statement in statements:
        raw.execute(statement).fetchall()
    raw.close()


def test_a_new_store_has_the_real_programs_pragmas_rows_and_modes(store: Store, database: Path) -> None:
    """Persistent pragmas, identity rows, file and directory modes are those of store format §3.1 and §3.2."""
    assert {} == connection.persistent_differences(store)
    assert (0o600, 0o700) == (database.stat().st_mode & 0o777, database.parent.stat().st_mode & 0o777)
    meta = ("primary", "agent", 23, "main", "2026.9.6", NOW_MS, NOW_MS)
    assert [meta] == store.execute("SELECT * FROM schema_meta").fetchall()
    assert [(1, "main", None, 0)] == store.execute("SELECT * FROM session_key_contract").fetchall()
    assert [(1, 0)] == store.execute("SELECT * FROM memory_index_state").fetchall()
    assert ("main", 23) == (store.agent_id, store.schema_version)
    assert [database.name] == [path.name for path in database.parent.iterdir() if "-" not in path.name[-4:]]


def test_an_existing_file_is_not_created_again(store: Store, database: Path) -> None:
    """Creating over a store is refused and leaves it alone."""
    before = digests(database.parent)
    with pytest.raises(RefusedError):
        connection.create(database, agent_id="main", now_ms=NOW_MS)
    assert before == digests(database.parent)


def test_what_a_killed_creation_left_is_cleared_away(database: Path) -> None:
    """A half-built file under the working name does not stand in the way."""
    database.parent.mkdir(parents=True)
    database.with_name(database.name + ".creating").write_bytes(b"half")
    connection.create(database, agent_id="main", now_ms=NOW_MS).close()
    assert [database.name] == [path.name for path in database.parent.iterdir()]


def test_reading_changes_no_file_and_cannot_write(filled: Store, database: Path) -> None:
    """A reader leaves every byte as it was; an attempt to write through it is refused."""
    filled.close()
    before = digests(database.parent)
    with connection.open_read(database) as reader:
        assert 1 == reader.value("SELECT count(*) FROM session_nodes")
        with pytest.raises(RefusedError):
            reader.execute("DELETE FROM session_nodes")
        assert 0 == reader.value("PRAGMA trusted_schema")
    assert before == digests(database.parent)


def test_a_store_without_log_is_read_where_nothing_can_be_created(filled: Store, database: Path) -> None:
    """SQLite wants to create files even to read; where it cannot, the main file alone is read if it is whole."""
    filled.close()
    folder = Path(tempfile.mkdtemp(prefix="read-only-", dir="/tmp"))
    copy = folder / database.name
    shutil.copyfile(database, copy)
    copy.chmod(0o444)
    folder.chmod(0o555)
    user = os.geteuid()
    try:
        if user == 0:
            # Root may write anywhere.
            os.seteuid(65534)
        with connection.open_read(copy, temporary_tables=True) as reader:
            assert 1 == reader.value("SELECT count(*) FROM session_nodes")
    finally:
        os.seteuid(user)
        folder.chmod(0o755)
        shutil.rmtree(folder)


def test_a_full_disk_is_refused_and_rolled_back(store: Store) -> None:
    """No space is its own error; what the transaction wrote is gone."""
    store.execute(f"PRAGMA max_page_count={store.value('PRAGMA page_count') + 3}").fetchall()
    with pytest.raises(NoSpaceError), store.transaction():
        for number in range(100):
            events.ensure_root(store, f"agent:main:{'x' * 1000}{number}", str(number), NOW_MS)
    assert 0 == store.value("SELECT count(*) FROM session_nodes")


def test_a_missing_store_is_not_found(database: Path) -> None:
    """Neither opening creates a file."""
    for attempt in (connection.open_read, lambda path: connection.open_write(path, agent_id="main")):
        with pytest.raises(NotFoundError):
            attempt(database)
    assert not database.exists()


@pytest.mark.parametrize(
    ("statement", "code"),
    [
        ("DROP TABLE transcript_events", "not_a_store"),
        ("UPDATE schema_meta SET role = 'state'", "not_a_store"),
        ("DELETE FROM schema_meta", "not_a_store"),
        ("UPDATE schema_meta SET agent_id = 'somebody'", "wrong_agent"),
    ],
)
def test_readers_look_before_they_believe(store: Store, database: Path, statement: str, code: str) -> None:
    """Role, owner and required tables are checked before any row is read."""
    store.close()
    change(database, "PRAGMA foreign_keys=OFF", statement)
    with pytest.raises(RefusedError) as caught:
        connection.open_read(database, agent_id="main")
    assert code == caught.value.code


@pytest.mark.parametrize(
    ("statements", "code"),
    [
        (("PRAGMA user_version=24",), "schema_version"),
        (("UPDATE schema_meta SET schema_version = 24",), "schema_version"),
        (("PRAGMA user_version=22", "UPDATE schema_meta SET schema_version = 22"), "schema_version"),
        (("DROP TRIGGER session_nodes_entry_valid_after_insert",), "schema_drift"),
        (("DROP INDEX idx_agent_transcript_event_parent",), "schema_drift"),
        (("ALTER TABLE conversations ADD COLUMN more TEXT",), "schema_drift"),
        (("UPDATE schema_meta SET agent_id = 'somebody'",), "wrong_agent"),
    ],
)
def test_writers_refuse_what_readers_may_read(
    store: Store, database: Path, statements: tuple[str, ...], code: str
) -> None:
    """Another version or one drifted object: refused for writing, readable as long as the columns are there."""
    store.close()
    change(database, *statements)
    with pytest.raises(RefusedError) as caught:
        connection.open_write(database, agent_id="main")
    assert code == caught.value.code
    connection.open_read(database).close()


@pytest.mark.parametrize("version", ["3.40.1", "3.43.0", "3.44.5", "3.45.0", "3.50.6", "3.51.2"])
def test_a_sqlite_that_can_lose_a_log_is_refused(version: str) -> None:
    """The releases with the WAL-reset bug, and those without octet_length."""
    with pytest.raises(RefusedError):
        connection.require_safe_sqlite(version)


@pytest.mark.parametrize("version", ["3.44.6", "3.50.7", "3.51.3", "3.54.1", "4.0.0"])
def test_a_sqlite_without_the_bug_is_taken(version: str) -> None:
    """The releases in which it was mended."""
    connection.require_safe_sqlite(version)


def test_a_second_writer_is_busy(store: Store, database: Path) -> None:
    """A transaction that is open elsewhere is BUSY, and is told as soon as the time is over."""
    with (
        store.transaction(),
        connection.open_write(database, agent_id="main", timeouts=IMPATIENT) as other,
        pytest.raises(BusyError),
        other.transaction(),
    ):
        raise AssertionError("two writers at once")


def test_a_failed_transaction_leaves_nothing(store: Store) -> None:
    """Any exception inside rolls back, also through a nested one."""
    with pytest.raises(ZeroDivisionError), store.transaction():
        store.execute("UPDATE memory_index_state SET revision = 7")
        with store.transaction():
            store.execute("UPDATE memory_index_state SET revision = 8")
        raise ZeroDivisionError
    assert 0 == store.value("SELECT revision FROM memory_index_state")
    assert not store.in_transaction()


def test_a_damaged_first_page_is_corrupt(store: Store, database: Path) -> None:
    """A file whose header is gone is CORRUPT and stays as it is."""
    store.close()
    with database.open("r+b") as handle:
        handle.write(bytes(4096))
    before = digests(database.parent)
    for attempt in (connection.open_read, lambda path: connection.open_write(path, agent_id="main")):
        with pytest.raises((CorruptError, RefusedError)):
            attempt(database)
    assert before == digests(database.parent)


def test_a_damaged_page_is_corrupt_while_rows_are_fetched(filled: Store, database: Path) -> None:
    """Damage that shows up only when a cursor reaches it is our error too."""
    filled.close()
    size = database.stat().st_size
    with database.open("r+b") as handle:
        for page in range(8, size // 4096):
            handle.seek(page * 4096)
            handle.write(b"\xff" * 64)
    with pytest.raises(CorruptError), connection.open_read(database) as reader:
        for table in ("transcript_events", "session_windows", "transcript_event_identities"):
            reader.execute(f"SELECT * FROM {table} ORDER BY 1").fetchall()


def foreign_log(database: Path, tmp_path: Path, make: Callable[[Path], None]) -> None:
    """Put the log of another database, written by `make`, beside the store."""
    other = tmp_path / "other.sqlite"
    make(other)
    shutil.copy(other.with_name("other.sqlite-wal"), database.with_name(database.name + "-wal"))


def write_plain_log(path: Path) -> None:
    """A database that is no store, with its content in the log; the process ends without writing it back."""
    code = (
        "import apsw, os, sys; c = apsw.Connection(sys.argv[1])\n"
        "for s in ('PRAGMA journal_mode=WAL', 'PRAGMA wal_autocheckpoint=0', 'CREATE TABLE t(x)',"
        " 'INSERT INTO t SELECT zeroblob(9000) FROM json_each(?)'):\n"
        "    c.execute(s, ('[' + ','.join('1' * 50) + ']',) if '?' in s else ()).fetchall()\n"
        "os._exit(0)"
    )
    subprocess.run([sys.executable, "-c", code, str(path)], check=True)


def test_a_log_of_another_database_is_said_and_not_applied(filled: Store, database: Path, tmp_path: Path) -> None:
    """A reader sees the store as its main file has it and carries `foreign_wal`; a writer refuses; nothing changes."""
    filled.close()
    foreign_log(database, tmp_path, write_plain_log)
    before = digests(database.parent)
    with connection.open_read(database, agent_id="main") as reader:
        assert ["foreign_wal"] == [issue.code for issue in reader.issues]
        assert 1 == reader.value("SELECT count(*) FROM session_nodes")
    with pytest.raises(RefusedError) as caught:
        connection.open_write(database, agent_id="main")
    assert "foreign_wal" == caught.value.code
    assert before == digests(database.parent)


def test_a_log_of_another_store_is_foreign_too(filled: Store, database: Path, tmp_path: Path) -> None:
    """The other database being a store does not make its log ours: the time of creation differs."""
    filled.close()
    code = (
        "import os, sys; from pathlib import Path; from openclaw_cli.storage import connection\n"
        "store = connection.create(Path(sys.argv[1]), agent_id='main', now_ms=5)\n"
        "store.execute('PRAGMA wal_autocheckpoint=0').fetchall()\n"
        "store.execute('VACUUM'); os._exit(0)"
    )

    def make(path: Path) -> None:
        subprocess.run([sys.executable, "-c", code, str(path)], check=True)

    foreign_log(database, tmp_path, make)
    issue = connection.foreign_wal(database)
    assert issue is not None and "foreign_wal" == issue.code


def test_an_own_log_is_applied(filled: Store, database: Path) -> None:
    """Rows that are committed and only in the log yet are read, without an issue."""
    filled.execute("PRAGMA wal_autocheckpoint=0").fetchall()
    filled.execute("UPDATE memory_index_state SET revision = 9")
    with connection.open_read(database) as reader:
        assert ((), 9) == (reader.issues, reader.value("SELECT revision FROM memory_index_state"))


def test_a_log_with_another_page_size_is_foreign(filled: Store, database: Path, tmp_path: Path) -> None:
    """The header of the log alone tells it."""
    filled.close()
    foreign_log(database, tmp_path, write_plain_log)
    log = database.with_name(database.name + "-wal")
    raw = bytearray(log.read_bytes())
    raw[8:12] = (8192).to_bytes(4, "big")
    log.write_bytes(raw)
    issue = connection.foreign_wal(database)
    assert issue is not None and "page size" in issue.message


def test_a_killed_transaction_leaves_nothing(store: Store, database: Path) -> None:
    """`kill -9` between the first and the last row of an append: the next reader sees none of it."""
    store.close()
    code = (
        "import os, signal, sys; from pathlib import Path; from openclaw_cli.storage import connection, events\n"
        "store = connection.open_write(Path(sys.argv[1]), agent_id='main')\n"
        "def rows():\n"
        "    for n in range(5000):\n"
        "        yield b'{\"type\":\"custom\",\"id\":\"%d\"}' % n, {'type': 'custom', 'id': str(n)}\n"
        "    os.kill(os.getpid(), signal.SIGKILL)\n"
        "with store.transaction():\n"
        "    events.append(store, 'agent:main:main', 's1', rows(), now_ms=1)\n"
    )
    done = subprocess.run([sys.executable, "-c", code, str(database)], check=False)
    assert -signal.SIGKILL == done.returncode
    with connection.open_read(database) as reader:
        tables = ("transcript_events", "session_nodes", "session_windows", "session_transcript_index_state")
        assert [0] * 4 == [reader.value(f"SELECT count(*) FROM {table}") for table in tables]
        assert "ok" == reader.value("PRAGMA integrity_check")


def test_ctrl_c_ends_a_long_statement(store: Store, database: Path) -> None:
    """SIGINT while SQLite is busy with one statement stops the program with KeyboardInterrupt, in good time."""
    store.close()
    code = (
        "import sys; from pathlib import Path; from openclaw_cli.storage import connection\n"
        "store = connection.open_read(Path(sys.argv[1])); print('ready', flush=True)\n"
        "store.value('WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT max(i) FROM n')\n"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", code, str(database)], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    assert process.stdout is not None
    assert b"ready\n" == process.stdout.readline()
    start = time.monotonic()
    while process.poll() is None and time.monotonic() - start < 30:
        process.send_signal(signal.SIGINT)
        os.sched_yield()
    # One that does not stop would take a processor for ever.
    process.kill()
    _, errors = process.communicate(timeout=30)
    assert b"KeyboardInterrupt" in errors


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (apsw.BusyError, BusyError),
        (apsw.LockedError, BusyError),
        (apsw.CorruptError, CorruptError),
        (apsw.NotADBError, CorruptError),
        (apsw.FullError, RefusedError),
        (apsw.ReadOnlyError, RefusedError),
        (apsw.CantOpenError, RefusedError),
        (apsw.IOError, OpenClawError),
        (apsw.ConstraintError, apsw.ConstraintError),
    ],
)
def test_every_failure_of_sqlite_has_its_status(error: type[apsw.Error], kind: type[Exception]) -> None:
    """Failures that a user can meet become ours; what only a fault of ours can cause stays as it is."""
    assert isinstance(failures.translate(error("x"), Path("store.sqlite")), kind)


def test_every_object_of_the_schema_is_there(store: Store) -> None:
    """A created store lacks nothing of what a writer demands."""
    assert [] == schema.missing(store.execute("SELECT type, name, sql FROM sqlite_schema"))


def test_a_failure_of_ours_is_not_its_own_cause(store: Store) -> None:
    """What is no user's failure comes out as SQLite gave it, with a chain of causes that ends."""
    with pytest.raises(apsw.SQLError) as caught:
        store.execute("SELECT nothing FROM nowhere")
    assert caught.value.__cause__ is None
