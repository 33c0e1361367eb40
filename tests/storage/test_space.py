"""Checkpoints and free pages: numbers, never errors."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from openclaw_cli.storage import connection, space
from openclaw_cli.storage.connection import Store
from openclaw_cli.storage.events import Appended
from openclaw_cli.storage.space import Checkpoint


def test_truncate_empties_the_log(filled: Store, database: Path) -> None:
    """Every frame is written back and the log has no bytes left."""
    filled.execute("UPDATE memory_index_state SET revision = 5")
    assert space.sizes(database).wal_bytes > 0
    done = space.checkpoint(filled, "TRUNCATE")
    assert (False, 0) == (done.blocked, space.sizes(database).wal_bytes)
    assert done.log_frames == done.checkpointed_frames


def test_a_reader_with_an_old_view_blocks_by_numbers(filled: Store, database: Path) -> None:
    """PASSIVE writes back what it may, TRUNCATE says that it could not; both return."""
    with connection.open_read(database) as reader:
        reader.execute("BEGIN")
        reader.value("SELECT count(*) FROM session_nodes")
        filled.execute("UPDATE memory_index_state SET revision = 5")
        passive = space.checkpoint(filled, "PASSIVE")
        truncate = space.checkpoint(filled, "TRUNCATE")
    assert passive.blocked and passive.checkpointed_frames < passive.log_frames
    assert truncate.blocked
    assert Checkpoint(0, 0, False) == space.checkpoint(filled, "TRUNCATE")


def test_a_writer_elsewhere_blocks_by_numbers(filled: Store, database: Path) -> None:
    """A transaction that is open on another connection is no error either."""
    with connection.open_write(database, agent_id="main") as other, other.transaction():
        other.execute("UPDATE memory_index_state SET revision = 6")
        assert space.checkpoint(filled, "TRUNCATE").blocked


def test_free_pages_come_back_in_steps(store: Store, database: Path, add: Callable[..., Appended]) -> None:
    """The pages of what was deleted leave the file with the checkpoint after the vacuum, and not before."""
    # An escape keeps an event from being compressed.
    add([{"type": "custom", "id": str(n), "data": "\x01" * 600} for n in range(1500)])
    with store.transaction():
        for table in ("transcript_event_identities", "session_transcript_active_events", "transcript_events"):
            store.execute(f"DELETE FROM {table}")
    space.checkpoint(store, "TRUNCATE")
    free, before = space.freelist_pages(store), space.sizes(database).database_bytes
    assert free > 2 * space.VACUUM_STEP_PAGES
    assert 700 == space.incremental_vacuum(store, 700)
    assert free - 700 == space.freelist_pages(store)
    assert free - 700 == space.incremental_vacuum(store)
    assert before == space.sizes(database).database_bytes
    space.checkpoint(store, "TRUNCATE")
    # Pages that mapped the freed ones go as well.
    assert space.sizes(database).database_bytes <= before - free * space.page_size_bytes(store)
    assert 0 == space.incremental_vacuum(store)


def test_a_store_without_incremental_vacuum_says_so(store: Store) -> None:
    """Nothing is freed there, and asking is no error."""
    assert space.can_vacuum_incrementally(store)
    for pragma in ("journal_mode=DELETE", "auto_vacuum=0"):
        store.execute(f"PRAGMA {pragma}").fetchall()
    store.execute("VACUUM")
    assert not space.can_vacuum_incrementally(store)
    assert 0 == space.incremental_vacuum(store)


def test_sizes_of_what_is_not_there(tmp_path: Path) -> None:
    """A missing database has no bytes."""
    assert 0 == space.sizes(tmp_path / "none.sqlite").total_bytes
