"""Whatever page of a store is destroyed, a salvage loses no more rows than that page and its overflow chain held."""

from __future__ import annotations

import random
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import orjson
import pytest

from openclaw_cli.storage import connection, events, frames, salvaging, sessions, verify
from openclaw_cli.storage.encoding import decode
from openclaw_cli.storage.pages import PageError, Pages, record, varint

NOW = 1_796_000_000_000
TABLES = ("session_nodes", "session_windows", "transcript_events", "conversations")
EVENTS = "SELECT session_id, event_json, event_zstd, event_utf8_bytes FROM transcript_events"


@pytest.fixture(scope="module")
def healthy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store with many keys, both encodings, and events that reach over several overflow pages."""
    path = tmp_path_factory.mktemp("healthy") / "openclaw-agent.sqlite"
    noise = random.Random(7)
    with connection.create(path, agent_id="main", now_ms=NOW) as store:
        for number in range(12):
            key, session_id = f"agent:main:explicit:s{number}", f"00000000-0000-4000-8000-{number:012d}"
            entry = {"sessionId": session_id, "updatedAt": NOW + number, "label": "x" * 90 * number}
            if number == 7:
                entry["displayName"] = "y" * 9000
            entry |= {"lastChannel": "telegram", "lastTo": f"telegram:{number}"}
            rows: list[Any] = [{"type": "session", "version": 3, "id": session_id, "timestamp": "", "cwd": ""}]
            parent = None
            for step in range(6):
                words = " ".join(f"word{noise.randrange(999)}" for _ in range((40, 400, 4, 3000)[step % 4]))
                message = {"role": "user", "content": words}
                if step == 5:
                    message["content"] = noise.randbytes(9000).hex()
                rows.append({"type": "message", "id": f"m{step}", "parentId": parent, "message": message})
                parent = f"m{step}"
            with store.transaction():
                sessions.write_entry(store, key, entry, now_ms=NOW)
                offered = [(orjson.dumps(row), row) for row in rows]
                events.append(store, key, session_id, offered, now_ms=NOW)
    return path


def content(path: Path) -> dict[str, set[Any]]:
    """The rows that matter, whole; a placeholder is none of them."""
    with connection.open_read(path) as store:
        windows = "SELECT session_id, session_key, created_at FROM session_windows"
        return {
            "session_nodes": set(store.execute("SELECT session_key, entry_json FROM session_nodes").fetchall()),
            "session_windows": set(store.execute(windows).fetchall()),
            "transcript_events": {(row[0], decode(*row[1:])) for row in store.execute(EVENTS)},
            "conversations": set(store.execute("SELECT conversation_id, peer_id FROM conversations").fetchall()),
        }


def rows_of(path: Path) -> dict[int, int]:
    """Page → rows that need it: those of a leaf of a table, and for an overflow page those of the leaf it hangs on."""
    found = {}
    with Pages(path) as pages:
        for number in range(1, pages.count + 1):
            leaf = number
            while (entry := pages.kind_and_parent(leaf)) is not None and entry[0] in (3, 4):
                leaf = entry[1]
            found[number] = len(list(pages.cells(leaf, []))) if pages.is_leaf(leaf) else 0
    return found


def damaged(path: Path, place: Path, number: int, data: bytes) -> Path:
    """A copy of a database with other bytes on one page."""
    copy = Path(shutil.copyfile(path, place / "damaged.sqlite"))
    with copy.open("r+b") as file:
        file.seek((number - 1) * 4096)
        file.write(data)
    return copy


def salvaged(copy: Path, place: Path) -> Path:
    new = place / "new.sqlite"
    for old in place.glob("new.sqlite*"):
        old.unlink()
    salvaging.salvage(copy, new, agent_id="main", now_ms=NOW)
    return new


@pytest.mark.parametrize("kind", ["zero", "random"])
def test_no_page_takes_more_than_its_own_rows(
    kind: str, healthy: Path, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    """Every page in turn, the header, the schema and the pointer map among them; the new store is sound each time."""
    before, held = content(healthy), rows_of(healthy)
    assert sum(1 for rows in held.values() if rows) > 40
    noise = random.Random(11)
    step = 1 if request.config.getoption("--full") else (7 if kind == "zero" else 11)
    for number in range(1, len(held) + 1, step):
        data = bytes(4096) if kind == "zero" else noise.randbytes(4096)
        after = content(salvaged(damaged(healthy, tmp_path, number, data), tmp_path))
        lost = {table: len(before[table] - after[table]) for table in TABLES}
        assert sum(lost.values()) <= held[number], (number, lost)
        assert set() == after["transcript_events"] - before["transcript_events"], number


def test_a_sound_store_comes_through_whole(healthy: Path, tmp_path: Path) -> None:
    """Every row of every table that is no projection, and all projections anew."""
    new = salvaged(healthy, tmp_path)
    with connection.open_read(healthy) as one, connection.open_read(new, temporary_tables=True) as other:
        for table in (*TABLES, "session_conversations", "transcript_event_identities", "schema_meta"):
            sql = f"SELECT * FROM {table} ORDER BY 1, 2"
            assert one.execute(sql).fetchall() == other.execute(sql).fetchall(), table
        assert [] == list(verify.verify(other))
        assert [] == verify.integrity(other)


@pytest.mark.parametrize("number", [1, 2])
@pytest.mark.parametrize("seed", range(4))
def test_a_pointer_map_that_lies_loses_no_row(seed: int, number: int, healthy: Path, tmp_path: Path) -> None:
    """Random bytes name about every fiftieth page as unused or as one of a tree; the trees and chains know better."""
    data = random.Random(seed).randbytes(4096)
    after = content(salvaged(damaged(healthy, tmp_path, number, data), tmp_path))
    assert content(healthy) == after


@pytest.mark.parametrize("pages", [1, 40, 120])
def test_a_file_that_is_cut_short_gives_what_is_there(pages: int, healthy: Path, tmp_path: Path) -> None:
    """Truncated anywhere, in the middle of a page too."""
    copy = Path(shutil.copyfile(healthy, tmp_path / "cut.sqlite"))
    with copy.open("r+b") as file:
        file.truncate(pages * 4096 + 100)
    after, before = content(salvaged(copy, tmp_path)), content(healthy)
    assert set() == after["transcript_events"] - before["transcript_events"]


@pytest.mark.parametrize("kind", ["header", "map", "lying-map", "list"])
def test_deleted_rows_stay_deleted(kind: str, healthy: Path, tmp_path: Path) -> None:
    """Pages that SQLite has given up still hold old rows, and a salvage must not bring a deleted session back.

    The pointer map and the header's list both know these pages; one of the two may be gone.
    """
    copy = Path(shutil.copyfile(healthy, tmp_path / "deleted.sqlite"))
    with connection.open_write(copy, agent_id="main") as store, store.transaction():
        store.execute("DELETE FROM session_nodes WHERE session_key != 'agent:main:explicit:s3'")
    before = content(copy)
    assert 1 == len(before["session_nodes"])
    trunk = int.from_bytes(copy.read_bytes()[32:36], "big")
    number, data = {
        "header": (1, bytes(4096)),
        "map": (2, bytes(4096)),
        "lying-map": (2, random.Random(3).randbytes(4096)),
        "list": (trunk, bytes(4096)),
    }[kind]
    assert before == content(salvaged(damaged(copy, tmp_path, number, data), tmp_path))


def test_an_entry_whose_last_piece_is_wiped_is_lost_not_altered(healthy: Path, tmp_path: Path) -> None:
    """Zeros end an overflow chain and are text: the row would look whole. Its window and events are kept."""
    before, data = content(healthy), healthy.read_bytes()
    number = data.index(b"y" * 4000) // 4096 + 1
    with Pages(healthy) as pages:
        while following := int.from_bytes(pages.page(number)[:4], "big"):
            number = following
    after = content(salvaged(damaged(healthy, tmp_path, number, bytes(4096)), tmp_path))
    lost = {key for key, _ in before["session_nodes"] - after["session_nodes"]}
    assert {"agent:main:explicit:s7"} == lost
    assert {("agent:main:explicit:s7", "{}")} == after["session_nodes"] - before["session_nodes"]
    assert before["transcript_events"] == after["transcript_events"]
    assert before["session_windows"] == after["session_windows"]


def test_an_entry_that_is_no_json_any_more_is_no_valid_entry(healthy: Path, tmp_path: Path) -> None:
    """Damage within a row that the format does not notice."""
    before, data = content(healthy), bytearray(healthy.read_bytes())
    at = data.index(b"y" * 4000)
    data[at + 100] = 0x22
    copy = tmp_path / "quoted.sqlite"
    copy.write_bytes(data)
    after = content(salvaged(copy, tmp_path))
    assert {("agent:main:explicit:s7", "{}")} == after["session_nodes"] - before["session_nodes"]


@pytest.mark.parametrize("link", [0, 1, 2**31])
def test_a_list_of_unused_pages_that_lies_ends(link: int, healthy: Path, tmp_path: Path) -> None:
    """Trunks in a circle, the header as a trunk, pages outside of the file."""
    copy = Path(shutil.copyfile(healthy, tmp_path / "deleted.sqlite"))
    with connection.open_write(copy, agent_id="main") as store, store.transaction():
        store.execute("DELETE FROM session_nodes WHERE session_key != 'agent:main:explicit:s3'")
    data = bytearray(copy.read_bytes())
    trunk = int.from_bytes(data[32:36], "big")
    at = (trunk - 1) * 4096
    data[at : at + 4] = (link or trunk).to_bytes(4, "big")
    copy.write_bytes(data)
    with Pages(copy) as pages:
        marks = bytearray(pages.count + 1)
        pages.mark_free(marks)
    assert marks[trunk] == 1
    assert sum(marks) == int.from_bytes(data[36:40], "big") + (link == 1)


def test_what_a_page_says_of_itself_is_not_believed(healthy: Path, tmp_path: Path) -> None:
    """Children, chains and sizes that point anywhere, in circles too, end with rows lost and no more."""
    noise = random.Random(5)
    data = bytearray(healthy.read_bytes())
    for _ in range(300):
        number = noise.randrange(len(data) // 4096)
        data[number * 4096 + noise.randrange(64)] = noise.randrange(256)
    copy = tmp_path / "lies.sqlite"
    copy.write_bytes(data)
    after, before = content(salvaged(copy, tmp_path)), content(healthy)
    assert len(after["transcript_events"] & before["transcript_events"]) > 0


def test_a_log_is_written_back_by_hand(healthy: Path, tmp_path: Path) -> None:
    """With page 1 destroyed SQLite opens neither file nor log; the committed frames are found all the same."""
    copy = Path(shutil.copyfile(healthy, tmp_path / "logged.sqlite"))
    with connection.open_write(copy, agent_id="main") as store:
        store.execute("PRAGMA wal_autocheckpoint=0").fetchall()
        with store.transaction():
            row = {"type": "message", "id": "late", "parentId": "m5", "message": {"role": "user", "content": "late"}}
            session_id = "00000000-0000-4000-8000-000000000003"
            events.append(store, "agent:main:explicit:s3", session_id, [(orjson.dumps(row), row)], now_ms=NOW)
        log = Path(shutil.copyfile(f"{copy}-wal", tmp_path / "kept-wal"))
        bare = damaged(Path(shutil.copyfile(copy, tmp_path / "bare.sqlite")), tmp_path, 5, bytes(4096))
        wanted = content(copy)
    assert frames.write_back(log, bare) > 0
    after = content(salvaged(bare, tmp_path))
    assert set() == wanted["transcript_events"] - after["transcript_events"]
    whole = frames.committed(log)
    log.write_bytes(log.read_bytes()[:-1])
    assert [] == frames.committed(log)
    assert whole


def records() -> Iterator[tuple[bytes, Any]]:
    yield bytes([5, 0, 1, 9, 19]) + b"\x07abc", (None, 7, 1, "abc")
    yield bytes([3, 7, 18]) + b"\x3f\xf8\0\0\0\0\0\0" + b"\0\1\2", (1.5, b"\0\1\2")
    yield bytes([2, 6]) + b"\xff" * 8, (-1,)


@pytest.mark.parametrize(("payload", "values"), list(records()), ids=["small", "real-and-blob", "negative"])
def test_rows_are_read_as_the_format_says(payload: bytes, values: Any) -> None:
    """Serial types of every family."""
    assert values == record(payload)


@pytest.mark.parametrize(
    "payload", [b"", b"\x09\x01", b"\x02\x0a", b"\x02\x13ab", b"\x03\x01\x01\x05", b"\x02\x01\x05\x05"]
)
def test_what_is_no_row_is_refused(payload: bytes) -> None:
    """Headers and values that reach beyond the row, reserved types, rows longer than their values."""
    with pytest.raises((PageError, IndexError)):
        record(payload)


def test_integers_of_variable_length() -> None:
    """One to nine bytes."""
    assert (127, 1) == varint(b"\x7f", 0)
    assert (128, 2) == varint(b"\x81\x00", 0)
    assert (2**64 - 1, 9) == varint(b"\xff" * 9, 0)
