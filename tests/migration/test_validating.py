"""`doctor validate`: every event of the sources is in the store, in order; live files and archived originals alike."""

from __future__ import annotations

import hashlib
import json
import shutil
from pathlib import Path
from typing import Any

import apsw
import pytest

from openclaw_cli.migration.containing import Containment, Place
from openclaw_cli.storage import connection, events

SESSION = "0f5e0c0e-7d3c-4b6e-9d7e-2a35b7a1c001"
KEY = "agent:main:main"
NOW = 1_790_000_000_000


@pytest.fixture
def imported(legacy: Any, doctor: Any) -> Any:
    """A session of four messages that was imported; its original lies in the archive."""
    legacy.session(SESSION, 4)
    legacy.index({KEY: {"sessionId": SESSION, "updatedAt": NOW}})
    assert 0 == doctor("import", legacy)[0]
    return legacy


def store_of(legacy: Any) -> Path:
    return Path(legacy.root) / "agents/main/agent/openclaw-agent.sqlite"


def archived(legacy: Any) -> Path:
    (path,) = legacy.archive.glob("agent_main_main.*")
    return Path(path)


def change(legacy: Any, *statements: str) -> None:
    """What somebody did to the store."""
    database = apsw.Connection(str(store_of(legacy)))
    for statement in statements:
        database.execute(statement)
    database.close()


def append(legacy: Any, *rows: dict[str, Any]) -> None:
    """Turns that came after the import."""
    with connection.open_write(store_of(legacy), agent_id="main") as store, store.transaction():
        events.append(store, KEY, SESSION, [(json.dumps(row).encode(), row) for row in rows], now_ms=NOW)


def message(identity: str, parent: str | None, text: str = "new") -> dict[str, Any]:
    content = {"role": "user", "content": text}
    return {
        "type": "message",
        "id": identity,
        "parentId": parent,
        "timestamp": "2026-08-06T07:06:40Z",
        "message": content,
    }


def digests(root: Path) -> dict[str, str]:
    paths = (path for path in root.rglob("*") if path.is_file() and not path.name.endswith(("-shm", "-wal")))
    return {str(path): hashlib.sha256(path.read_bytes()).hexdigest() for path in paths}


def validated(doctor: Any, legacy: Any, *options: str) -> tuple[int, list[str], dict[str, Any]]:
    """Status, issue codes, and the only target."""
    status, document = doctor("validate", legacy, *options)
    (target,) = document["targets"]
    issues = [*document["issues"], *target["issues"]]
    return status, sorted(f"{issue['severity']} {issue['code']}" for issue in issues), target


def test_archived_originals_are_compared(imported: Any, doctor: Any) -> None:
    """After an import the originals are found through the manifest; all is well, and no file changes."""
    before = digests(imported.root)
    status, codes, target = validated(doctor, imported)
    assert (0, [], []) == (status, codes, target["sessions"])
    assert {"files": 1, "records": 5, "contained": 5} == target["archives"]
    assert before == digests(imported.root)


def test_verbose_lists_every_session(imported: Any, doctor: Any) -> None:
    """`-v` names each source with its counts."""
    _, _, target = validated(doctor, imported, "-v")
    (row,) = target["sessions"]
    assert (KEY, SESSION, str(archived(imported)), 5, 5, 0) == tuple(
        row[name] for name in ("sessionKey", "sessionId", "source", "records", "contained", "extra")
    )
    assert [[], [], []] == [row[name] for name in ("missing", "different", "disordered")]


def test_new_turns_are_no_fault(imported: Any, doctor: Any) -> None:
    """Later rows of the store, on the branch or beside it, are counted as extra."""
    append(imported, message("n0", "m3"), message("n1", "m1"))
    status, codes, target = validated(doctor, imported, "-v")
    assert (0, []) == (status, codes)
    assert 2 == target["sessions"][0]["extra"]


def test_missing_and_different_events_are_named(imported: Any, doctor: Any) -> None:
    """A row that has gone and one that was changed: by id and line, with status 3."""
    change(
        imported,
        "PRAGMA foreign_keys = ON",
        "DELETE FROM transcript_events WHERE seq = 2",
        "UPDATE transcript_events SET event_json = replace(event_json, 'text 2', 'text X') WHERE seq = 3",
    )
    status, codes, target = validated(doctor, imported)
    assert (3, ["error sqlite_transcript_count_mismatch"]) == (status, codes)
    (row,) = target["sessions"]
    assert [{"eventId": "m1", "line": 3}] == row["missing"]
    assert [{"eventId": "m2", "line": 4}] == row["different"]
    assert (5, 3, 0, 1, 1) == tuple(
        row[name] for name in ("records", "contained", "extra", "missingTotal", "differentTotal")
    )
    assert "text" not in target["issues"][0]["message"]


def test_repetitions_are_no_fault(legacy: Any, doctor: Any) -> None:
    """A row that the file has twice is stored once; that is no difference."""
    path = legacy.session(SESSION, 3)
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join([*lines[:3], *lines[1:3], *lines[3:], lines[0]]))
    legacy.index({KEY: {"sessionId": SESSION, "updatedAt": NOW}})
    assert 0 == doctor("import", legacy)[0]
    status, codes, target = validated(doctor, legacy, "-v")
    assert (0, []) == (status, codes)
    (row,) = target["sessions"]
    assert (7, 7, 0) == (row["records"], row["contained"], row["extra"])


def test_changed_and_missing_archives(imported: Any, doctor: Any) -> None:
    """An archive with other bytes, or none at all, is named; it is not taken for the source."""
    path = archived(imported)
    raw = path.read_bytes()
    path.write_bytes(raw.replace(b"text 1", b"text 7"))
    assert (3, ["error archive_changed"]) == validated(doctor, imported)[:2]
    path.unlink()
    assert (3, ["error archived_file_missing"]) == validated(doctor, imported)[:2]
    path.write_bytes(raw)
    assert (0, []) == validated(doctor, imported)[:2]


def test_after_a_restore(imported: Any, doctor: Any) -> None:
    """A restored file is a source again; the archive that it came from is not missed."""
    assert 0 == doctor("restore", imported)[0]
    status, codes, target = validated(doctor, imported)
    assert (0, []) == (status, codes)
    assert (1, 5, 0) == (target["validatedEntries"], target["validatedTranscriptEvents"], target["archives"]["files"])


def test_copied_state_directory(imported: Any, doctor: Any, tmp_path: Path) -> None:
    """In a copy of the state directory the archives of the copy are compared."""
    copy = shutil.copytree(imported.root, tmp_path / "copy")
    shutil.rmtree(imported.root)
    imported.root = copy
    status, codes, target = validated(doctor, imported, "-v")
    assert (0, []) == (status, codes)
    assert target["sessions"][0]["source"].startswith(str(copy))


def test_records_behind_damage(legacy: Any, doctor: Any) -> None:
    """Whole records behind damage are missed after a plain import, and no more after a salvage."""
    path = legacy.session(SESSION, 4)
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join([*lines[:2], lines[2][:50], *lines[3:]]))
    legacy.index({KEY: {"sessionId": SESSION, "updatedAt": NOW}})
    assert 3 == doctor("import", legacy)[0]
    status, codes, target = validated(doctor, legacy)
    assert (3, ["error sqlite_transcript_count_mismatch", "warning transcript_malformed"]) == (status, codes)
    assert [{"eventId": "m2", "line": 3}, {"eventId": "m3", "line": 4}] == target["sessions"][0]["missing"]
    assert 0 == doctor("restore", legacy)[0]
    assert 3 == doctor("import", legacy, "--salvage")[0]
    assert (0, ["warning transcript_malformed"]) == validated(doctor, legacy)[:2]


def test_header_of_another_session(legacy: Any, doctor: Any) -> None:
    """The index decides which session a file is; its archived original is compared with that one."""
    legacy.session("aaaaaaaa-0000-4000-8000-000000000001", 3, name="old-name.jsonl")
    rows = {KEY: {"sessionId": SESSION, "sessionFile": "old-name.jsonl", "updatedAt": NOW}}
    legacy.index(rows)
    assert 0 == doctor("import", legacy)[0]
    status, codes, target = validated(doctor, legacy, "-v")
    assert (0, []) == (status, codes)
    assert [SESSION] == [row["sessionId"] for row in target["sessions"]]


def test_version_1_originals(legacy: Any, doctor: Any) -> None:
    """Rows that got their ids from the path of the live file are found again from the archive."""
    path = legacy.session(SESSION, 3)
    rows = [json.loads(line) for line in path.read_text().splitlines()]
    del rows[0]["version"]
    for row in rows[1:]:
        del row["id"], row["parentId"]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    legacy.index({KEY: {"sessionId": SESSION, "updatedAt": NOW}})
    assert 0 == doctor("import", legacy)[0]
    status, codes, target = validated(doctor, legacy)
    assert (0, []) == (status, codes)
    assert {"files": 1, "records": 4, "contained": 4} == target["archives"]


def test_order_is_compared(tmp_path: Path) -> None:
    """Rows that the store has in another order are named; rows between them are no fault."""
    rows = [message(f"m{number}", None) for number in range(4)]
    texts = [json.dumps(row).encode() for row in rows]
    with connection.create(tmp_path / "s.sqlite", agent_id="main", now_ms=NOW) as store:
        with store.transaction():
            order = (0, 3, 1, 2)
            events.append(store, KEY, SESSION, [(texts[place], rows[place]) for place in order], now_ms=NOW)
        found = Containment(store, SESSION)
        for line, place in enumerate((0, 1, 3), start=1):
            found.add(line, texts[place], rows[place])
    assert (3, 3, 1, False) == (found.records, found.contained, found.extra, found.is_whole)
    assert [Place("m3", 3)] == found.disordered.listed
