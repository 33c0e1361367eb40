"""What is wrong with a store is judged on a copy; what follows from whole rows is mended in place."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import apsw
import orjson
import pytest

from openclaw_cli.storage import connection, events, repairing, sessions, verify
from openclaw_cli.storage.repairing import Condition, Log

NOW = 1_796_000_000_000
SESSION = "00000000-0000-4000-8000-000000000001"


@pytest.fixture
def store(tmp_path: Path) -> Path:
    """A small sound store."""
    path = tmp_path / "state/openclaw-agent.sqlite"
    with connection.create(path, agent_id="main", now_ms=NOW) as opened, opened.transaction():
        entry = {"sessionId": SESSION, "updatedAt": NOW}
        sessions.write_entry(opened, "agent:main:main", entry, now_ms=NOW)
        rows = [{"type": "message", "id": f"m{n}", "parentId": f"m{n - 1}" if n else None} for n in range(4)]
        rows = [{**row, "message": {"role": "user", "content": "some words " * 200}} for row in rows]
        offered = [(orjson.dumps(row), row) for row in rows]
        events.append(opened, "agent:main:main", SESSION, offered, now_ms=NOW)
    return path


@pytest.fixture
def examine(tmp_path: Path) -> Callable[..., repairing.Health]:
    def look(path: Path, agent_id: str = "main") -> repairing.Health:
        place = tmp_path / "copy"
        shutil.rmtree(place, ignore_errors=True)
        place.mkdir()
        return repairing.examine(repairing.private_copy(path, place), agent_id)

    return look


def raw(path: Path, *statements: str) -> None:
    """Run statements that no writer of ours would run."""
    database = apsw.Connection(str(path))
    for statement in statements:
        list(database.execute(statement))
    database.close()


def test_a_sound_store_is_sound_and_untouched(store: Path, examine: Callable[..., repairing.Health]) -> None:
    """The look is at a copy."""
    before = store.read_bytes()
    assert repairing.Health(Condition.SOUND) == examine(store)
    assert before == store.read_bytes()


@pytest.mark.parametrize(
    "statements",
    [
        ("DROP INDEX idx_agent_transcript_message_idempotency",),
        ("DROP TRIGGER session_transcript_fts_rows_after_delete",),
        ("DELETE FROM session_transcript_active_events WHERE active_position = 2",),
        ("UPDATE session_transcript_index_state SET active_event_count = 9",),
        ("DELETE FROM transcript_event_identities WHERE event_id = 'm1'",),
        ("DELETE FROM session_transcript_fts_rows",),
        (
            "PRAGMA writable_schema=ON",
            "DELETE FROM sqlite_schema WHERE name = 'idx_agent_transcript_message_idempotency'",
        ),
        ("DROP TABLE session_transcript_fts",),
    ],
    ids=["index", "trigger", "active", "state", "identity", "search-rows", "stale-schema", "search"],
)
def test_what_follows_from_the_rows_is_made_anew(
    statements: tuple[str, ...], store: Path, examine: Callable[..., repairing.Health]
) -> None:
    """Named, rebuilt in place, sound afterwards; no event changes."""
    with connection.open_read(store) as opened:
        before = list(events.stream(opened, SESSION))
    raw(store, *statements)
    health = examine(store)
    assert Condition.DERIVED is health.condition, health
    assert health.findings

    repairing.rebuild_derived(store, agent_id="main", now_ms=NOW)

    assert repairing.Health(Condition.SOUND) == examine(store)
    with connection.open_write(store, agent_id="main") as opened:
        assert before == list(events.stream(opened, SESSION))
    with connection.open_read(store, temporary_tables=True) as opened:
        assert [] == list(verify.verify(opened))


@pytest.mark.parametrize(
    ("statement", "code"),
    [
        ("PRAGMA user_version=24", "schema_version"),
        ("UPDATE schema_meta SET agent_id = 'somebody'", "wrong_agent"),
        ("ALTER TABLE auth_profile_store ADD COLUMN extra TEXT", "table auth_profile_store is different"),
    ],
    ids=["newer", "owner", "drift"],
)
def test_what_is_not_ours_to_change_is_refused(
    statement: str, code: str, store: Path, examine: Callable[..., repairing.Health]
) -> None:
    """Another release, another agent, another schema: no damage."""
    raw(store, statement)
    health = examine(store)
    assert (Condition.REFUSED, (code,)) == (health.condition, health.findings)
    assert health.failure is not None


@pytest.mark.parametrize("number", [1, 2, 3])
def test_a_destroyed_page_is_damage(number: int, store: Path, examine: Callable[..., repairing.Health]) -> None:
    """The header's page included: a file that SQLite does not take for a database still has rows in it."""
    with store.open("r+b") as file:
        file.seek((number - 1) * 4096)
        file.write(bytes(4096))
    assert Condition.DAMAGED is examine(store).condition


def test_a_file_without_rows_is_no_store(tmp_path: Path, examine: Callable[..., repairing.Health]) -> None:
    """Some other database, or some other file, is left alone."""
    other = tmp_path / "other.sqlite"
    raw(other, "CREATE TABLE t(x)")
    assert Condition.REFUSED is examine(other).condition


def test_a_log_that_damages_a_sound_file_is_stale(
    store: Path, examine: Callable[..., repairing.Health], tmp_path: Path
) -> None:
    """The log of another time of the same file, kept while the file was replaced: the file alone is sound."""
    shutil.copyfile(store, tmp_path / "held.sqlite")
    with connection.open_write(store, agent_id="main") as opened:
        opened.execute("PRAGMA wal_autocheckpoint=0").fetchall()
        with opened.transaction():
            row = {"type": "message", "id": "m9", "parentId": "m3", "message": {"role": "user", "content": "x" * 9000}}
            events.append(opened, "agent:main:main", SESSION, [(orjson.dumps(row), row)], now_ms=NOW)
        log = Path(f"{store}-wal").read_bytes()
    shutil.copyfile(tmp_path / "held.sqlite", store)
    with connection.open_write(store, agent_id="main") as opened:
        # Elsewhere the same pages were used for something else.
        for number in range(12):
            session_id = f"00000000-0000-4000-8000-0000000001{number:02}"
            row = {
                "type": "message",
                "id": "m0",
                "parentId": None,
                "message": {"role": "user", "content": "y" * 30_000},
            }
            with opened.transaction():
                events.append(opened, f"agent:main:{number}", session_id, [(orjson.dumps(row), row)], now_ms=NOW)
        opened.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
    Path(f"{store}-wal").write_bytes(log)
    Path(f"{store}-shm").unlink(missing_ok=True)
    health = examine(store)
    assert (Condition.SOUND, Log.STALE) == (health.condition, health.log), health
