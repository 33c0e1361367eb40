"""What `doctor import` writes, moves, keeps and says."""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from legacy_state import (
    BASE_MS,
    KEY,
    NOW_MS,
    codes,
    digests,
    events,
    header,
    iso,
    issues_of,
    jsonl,
    line,
    make_state,
    one_session,
    rows,
    sid,
    store,
    turns,
)

NOW = ["--now", str(NOW_MS)]


def sha(path: Path | str) -> str:
    """SHA-256 of a file."""
    return hashlib.sha256(Path(path).read_bytes()).hexdigest()


def manifest(report: Any) -> Any:
    """The manifest of an import."""
    return json.loads(Path(report["migrationRun"]["manifestPath"]).read_text())


def files(state: Path) -> list[str]:
    """The multiset of SHA-256 of sources and archives."""
    found = []
    for name in ("sessions", "session-sqlite-import-archive"):
        for path in (state / "agents/main" / name).rglob("*"):
            if path.is_file():
                found.append(sha(path))
    return sorted(found)


def node(state: Path, key: str = KEY, agent: str = "main") -> dict[str, Any]:
    """The stored entry of a session."""
    ((text,),) = rows(state, "SELECT entry_json FROM session_nodes WHERE session_key = ?", key, agent=agent)
    return json.loads(text)


def keys(state: Path, agent: str = "main") -> list[str]:
    """All session keys of a store."""
    sql = "SELECT session_key FROM session_nodes ORDER BY 1"
    return [key for (key,) in rows(state, sql, agent=agent)]


def test_manifest_fields(doctor: Callable[..., Any], tmp_path: Path) -> None:
    """Manifest version 3, its fields, each move with identity and SHA-256; all planned moves completed."""
    state = one_session(tmp_path / "s", jsonl(turns(sid(1))))
    sessions = state / "agents/main/sessions"
    source = sessions / f"{sid(1)}.jsonl"
    os.utime(source, ns=(1_700_000_000_123_456_789, 1_700_000_000_123_456_789))
    stat, digest = source.stat(), sha(source)
    report = doctor("import", state, *NOW)
    path = Path(report["migrationRun"]["manifestPath"])
    run = manifest(report)
    assert re.fullmatch(r"session-sqlite-\d+-[0-9a-f]{8}", run["runId"])
    assert (report["migrationRun"]["runId"], f"{run['runId']}.json") == (run["runId"], path.name)
    assert (3, "2026.9.6") == (run["manifestVersion"], run["openClawVersion"])
    assert {"startedAt", "completedAt"} <= set(run)
    assert json.dumps(run, indent=2, ensure_ascii=False) + "\n" == path.read_text()
    assert (0o600, 0o700) == (path.stat().st_mode & 0o777, path.parent.stat().st_mode & 0o777)
    assert state / "session-sqlite-migration-runs" == path.parent
    (target,) = run["targets"]
    assert {
        "agentId",
        "sqlitePath",
        "storePath",
        "plannedMoves",
        "completedMoves",
        "issues",
        "validationBeforeArchive",
    } == set(target)
    assert ("main", "passed", str(store(state)), str(sessions / "sessions.json")) == tuple(
        target[name] for name in ("agentId", "validationBeforeArchive", "sqlitePath", "storePath")
    )
    assert target["plannedMoves"] == target["completedMoves"]
    assert ["transcript", "legacy-store"] == [move["kind"] for move in target["completedMoves"]]
    transcript, index = target["completedMoves"]
    assert {
        "dev": str(stat.st_dev),
        "ino": str(stat.st_ino),
        "mtimeNs": str(stat.st_mtime_ns),
        "size": stat.st_size,
        "sha256": digest,
    } == transcript["artifact"]["identity"]
    assert ("imported", "verified-import-original", [], {"state": "retained"}) == tuple(
        transcript["artifact"][name] for name in ("classification", "reason", "dependencies", "disposal")
    )
    assert ("verified-index-import", [str(source)]) == (
        index["artifact"]["reason"],
        index["artifact"]["dependencies"],
    )
    assert (KEY, str(source)) == (transcript["sessionKey"], transcript["sourcePath"])


def test_archive_names(doctor: Callable[..., Any], tmp_path: Path) -> None:
    """`<slug(key,120)>.<slug(basename,160)>.imported-<epoch ms>`, `legacy-store` for the index."""
    key = "agent:main:telegram:group:-100:topic:2"
    name = f"{sid(1)}-topic-2.jsonl"
    index = {key: {"sessionId": sid(1), "updatedAt": BASE_MS, "sessionFile": name}}
    state = make_state(tmp_path / "s", index, {name: jsonl(turns(sid(1)))})
    report = doctor("import", state, *NOW)
    archive = state / "agents/main/session-sqlite-import-archive"
    assert [
        f"agent_main_telegram_group_-100_topic_2.{name}.imported-{NOW_MS}",
        f"legacy-store.sessions.json.imported-{NOW_MS}",
    ] == sorted(path.name for path in archive.iterdir())
    assert [str(archive / f"agent_main_telegram_group_-100_topic_2.{name}.imported-{NOW_MS}")] == report["targets"][0][
        "archivedTranscriptFiles"
    ]


def test_slug_is_cut(doctor: Callable[..., Any], tmp_path: Path) -> None:
    """The slug of the key has at most 120 characters."""
    key = "agent:main:explicit:" + "x" * 300
    state = one_session(tmp_path / "s", jsonl(turns(sid(1))), key=key)
    report = doctor("import", state)
    (path,) = report["targets"][0]["archivedTranscriptFiles"]
    assert re.sub(r"[^A-Za-z0-9_.-]+", "_", key)[:120] == Path(path).name.split(".")[0]


def test_mode_and_mtime_are_kept(doctor: Callable[..., Any], tmp_path: Path) -> None:
    """File mode and mtime are kept by the move; no byte is lost."""
    state = one_session(tmp_path / "s", jsonl(turns(sid(1))))
    source = state / "agents/main/sessions" / f"{sid(1)}.jsonl"
    source.chmod(0o640)
    os.utime(source, ns=(1_700_000_000_000_000_001, 1_700_000_000_000_000_001))
    inode, before = source.stat().st_ino, files(state)
    (path,) = doctor("import", state)["targets"][0]["archivedTranscriptFiles"]
    moved = Path(path).stat()
    assert (0o640, 1_700_000_000_000_000_001, inode) == (moved.st_mode & 0o777, moved.st_mtime_ns, moved.st_ino)
    assert before == files(state)
    assert not source.exists()


def test_index_goes_last_and_keep_index(doctor: Callable[..., Any], tmp_path: Path) -> None:
    """`sessions.json` last; `--keep-index` leaves it and says what that means."""
    state = one_session(tmp_path / "s", jsonl(turns(sid(1))))
    index = state / "agents/main/sessions/sessions.json"
    report = doctor("import", state, "--keep-index")
    assert index.exists()
    assert [] == report["targets"][0]["archivedLegacyStoreFiles"]
    assert "index" in " ".join(issue["message"] for target in report["targets"] for issue in target["issues"])
    report = doctor("import", state)
    assert not index.exists()
    assert 1 == len(report["targets"][0]["archivedLegacyStoreFiles"])


def test_store_is_schema_23(doctor: Callable[..., Any], tmp_path: Path) -> None:
    """Schema 23, WAL, incremental vacuum, 0600, identity rows, valid rows."""
    state = one_session(tmp_path / "s", jsonl(turns(sid(1))))
    doctor("import", state)
    assert [(23,)] == rows(state, "PRAGMA user_version")
    assert [(2,)] == rows(state, "PRAGMA auto_vacuum")
    assert [("wal",)] == rows(state, "PRAGMA journal_mode")
    assert [("agent", 23, "main")] == rows(state, "SELECT role, schema_version, agent_id FROM schema_meta")
    assert [(1,)] == rows(state, "SELECT entry_valid FROM session_nodes")
    assert [("ok",)] == rows(state, "PRAGMA integrity_check")
    assert [] == rows(state, "PRAGMA foreign_key_check")
    assert 0o600 == store(state).stat().st_mode & 0o777


def test_projections(doctor: Callable[..., Any], tmp_path: Path) -> None:
    """Identities, active path and full text agree with the events."""
    state = one_session(tmp_path / "s", jsonl(turns(sid(1))))
    doctor("import", state)
    made = turns(sid(1))
    assert [(row["id"], row["parentId"]) for row in made[1:]] == rows(
        state,
        "SELECT event_id, parent_id FROM transcript_event_identities WHERE seq > 0 ORDER BY seq",
    )
    assert [(0, 1), (1, 2), (2, 3), (3, 4)] == rows(
        state, "SELECT active_position, event_seq FROM session_transcript_active_events ORDER BY 1"
    )
    assert [(row["id"],) for row in made[1:]] == rows(
        state, "SELECT message_id FROM session_transcript_fts WHERE session_transcript_fts MATCH 'turn' ORDER BY rowid"
    )


def test_text_is_kept_as_the_real_importer_stores_it(doctor: Callable[..., Any], tmp_path: Path) -> None:
    """JSON text is re-serialised without spaces, key order and numbers kept as JSON.stringify writes them."""
    made = turns(sid(1))
    odd = b'{ "type": "custom",  "id": "c1", "parentId": "m0000003", "timestamp": "2026-08-06T07:07:00.000Z",'
    odd += b' "customType": "x", "data": {"z": 1.0, "a": 1e3, "u": "\\u00e4\\/", "big": 12345678901234567890} }'
    state = one_session(tmp_path / "s", jsonl(made) + odd + b"\n")
    doctor("import", state)
    expected = (
        '{"type":"custom","id":"c1","parentId":"m0000003","timestamp":"2026-08-06T07:07:00.000Z","customType":"x",'
        '"data":{"z":1,"a":1000,"u":"ä/","big":12345678901234567000}}'
    )
    assert [(expected,)] == rows(state, "SELECT event_json FROM transcript_events WHERE seq = 5")


def test_reimport_is_idempotent(doctor: Callable[..., Any], tmp_path: Path) -> None:
    """Importing twice gives the state of importing once."""
    state = one_session(tmp_path / "s", jsonl(turns(sid(1))))
    sessions = state / "agents/main/sessions"
    saved = {path.name: path.read_bytes() for path in sessions.iterdir()}
    tables = [
        "SELECT session_key, entry_json, entry_valid FROM session_nodes",
        "SELECT session_id, seq, event_json, hex(event_zstd) FROM transcript_events ORDER BY 1, 2",
        "SELECT session_id, event_id, seq FROM transcript_event_identities ORDER BY 1, 2",
        "SELECT session_id, active_position, event_seq FROM session_transcript_active_events ORDER BY 1, 2",
        "SELECT text, session_id, message_id FROM session_transcript_fts ORDER BY rowid",
    ]
    doctor("import", state)
    first = [rows(state, sql) for sql in tables]
    doctor("import", state)
    assert first == [rows(state, sql) for sql in tables]
    for name, data in saved.items():
        (sessions / name).write_bytes(data)
    report = doctor("import", state)
    assert first == [rows(state, sql) for sql in tables]
    assert 0 == report["totals"]["importedTranscriptEvents"]
    assert [] == list(sessions.iterdir())


def test_more_lines_later(doctor: Callable[..., Any], tmp_path: Path) -> None:
    """Rows that are not stored yet are added by a later import of a longer transcript."""
    state = one_session(tmp_path / "s", jsonl(turns(sid(1), 4)))
    doctor("import", state)
    one_session(state, jsonl(turns(sid(1), 6)))
    report = doctor("import", state)
    assert 2 == report["totals"]["importedTranscriptEvents"]
    assert turns(sid(1), 6) == events(state, sid(1))


def test_older_row_never_overwrites(doctor: Callable[..., Any], tmp_path: Path) -> None:
    """An older row never overwrites a newer one; `--prefer-index` forces it."""
    state = one_session(tmp_path / "s", jsonl(turns(sid(1))), updatedAt=BASE_MS + 90_000, label="newer")
    doctor("import", state)
    stale = {KEY: {"sessionId": sid(2), "updatedAt": BASE_MS + 10_000, "label": "older"}}
    make_state(state, stale, {f"{sid(2)}.jsonl": jsonl(turns(sid(2)))})
    preview = doctor("dry-run", state)
    doctor("import", state)
    assert ("newer", sid(1)) == (node(state)["label"], node(state)["sessionId"])
    assert turns(sid(1)) == events(state, sid(1))
    assert [] != preview["targets"][0]["issues"]
    make_state(state, stale, {f"{sid(2)}.jsonl": jsonl(turns(sid(2)))})
    doctor("import", state, "--prefer-index")
    assert ("older", sid(2)) == (node(state)["label"], node(state)["sessionId"])


def test_newer_row_overwrites(doctor: Callable[..., Any], tmp_path: Path) -> None:
    """A newer row of the index replaces the stored one."""
    state = one_session(tmp_path / "s", jsonl(turns(sid(1))), label="first")
    doctor("import", state)
    one_session(state, jsonl(turns(sid(1))), updatedAt=BASE_MS + 90_000, label="second")
    doctor("import", state)
    assert "second" == node(state)["label"]


CANONICAL = {
    "discord:channel:555": "agent:main:discord:channel:555",
    "main": "agent:main:main",
    "Agent:Main:Telegram:Direct:ABC": "agent:main:telegram:direct:abc",
    "agent:main:signal:group:AbCd==": "agent:main:signal:group:AbCd==",
    "agent:main:matrix:channel:!RoomID:Server.org": "agent:main:matrix:channel:!RoomID:Server.org",
    "global": "global",
}


def test_canonical_keys(doctor: Callable[..., Any], tmp_path: Path) -> None:
    """Keys are canonicalised at import and named; opaque spans keep their case; sentinels stay."""
    index = {key: {"sessionId": sid(number), "updatedAt": BASE_MS} for number, key in enumerate(CANONICAL)}
    state = make_state(tmp_path / "s", index, {})
    report = doctor("import", state)
    assert sorted(CANONICAL.values()) == keys(state)
    warned = issues_of(report, "key_canonicalised")
    assert {key for key, stored in CANONICAL.items() if key != stored} == {issue["sessionKey"] for issue in warned}
    assert {"warning"} == {issue["severity"] for issue in warned}


def test_lineage_keys(doctor: Callable[..., Any], tmp_path: Path) -> None:
    """`parentSessionKey`, `spawnedBy`, `forkSource.sessionKey` are canonicalised, in JSON and columns."""
    fork = {"sessionKey": "Discord:Channel:1", "sessionId": sid(9)}
    fields = {"parentSessionKey": "main", "spawnedBy": "MAIN", "forkSource": fork}
    key = "agent:main:subagent:" + sid(3)
    state = one_session(tmp_path / "s", jsonl(turns(sid(1))), key=key, **fields)
    doctor("import", state)
    stored = node(state, key)
    assert ("agent:main:main", "agent:main:main", "agent:main:discord:channel:1") == (
        stored["parentSessionKey"],
        stored["spawnedBy"],
        stored["forkSource"]["sessionKey"],
    )
    assert [("agent:main:main", "agent:main:main", "agent:main:discord:channel:1")] == rows(
        state, "SELECT parent_session_key, spawned_by, fork_source_session_key FROM session_nodes"
    )


def test_two_spellings_of_one_key(doctor: Callable[..., Any], tmp_path: Path) -> None:
    """Two spellings collide: the newer `updatedAt` wins, the other's window stays as history."""
    index = {
        "Discord:Channel:1": {"sessionId": sid(1), "updatedAt": BASE_MS + 5000, "label": "new"},
        "agent:main:discord:channel:1": {"sessionId": sid(2), "updatedAt": BASE_MS, "label": "old"},
    }
    data = {f"{sid(n)}.jsonl": jsonl(turns(sid(n))) for n in (1, 2)}
    state = make_state(tmp_path / "s", index, data)
    doctor("import", state)
    key = "agent:main:discord:channel:1"
    assert ([key], "new") == (keys(state), node(state, key)["label"])
    assert [(sid(1), key), (sid(2), key)] == rows(
        state, "SELECT session_id, session_key FROM session_windows ORDER BY 1"
    )
    assert turns(sid(2)) == events(state, sid(2))


def test_key_of_another_agent(doctor: Callable[..., Any], tmp_path: Path) -> None:
    """A key `agent:<other>:…` belongs into the other agent's store."""
    state = one_session(tmp_path / "s", jsonl(turns(sid(1))))
    make_state(
        state,
        {
            KEY: {"sessionId": sid(1), "updatedAt": BASE_MS},
            "agent:work:main": {"sessionId": sid(2), "updatedAt": BASE_MS},
        },
        {f"{sid(2)}.jsonl": jsonl(turns(sid(2)))},
    )
    doctor("import", state)
    assert [KEY] == keys(state)
    assert ["agent:work:main"] == keys(state, "work")
    assert turns(sid(2)) == events(state, sid(2), "work")


def test_session_started_at(doctor: Callable[..., Any], tmp_path: Path) -> None:
    """`sessionStartedAt` comes from the header where the row lacks it, and the row's own wins."""
    state = one_session(tmp_path / "a", jsonl(turns(sid(1))))
    doctor("import", state)
    assert BASE_MS == node(state)["sessionStartedAt"]
    state = one_session(tmp_path / "b", jsonl(turns(sid(1))), sessionStartedAt=BASE_MS - 7)
    doctor("import", state)
    assert BASE_MS - 7 == node(state)["sessionStartedAt"]


def test_legacy_entry_migration(doctor: Callable[..., Any], tmp_path: Path) -> None:
    """Retired fields become the new ones, unknown fields stay."""
    state = one_session(
        tmp_path / "s",
        jsonl(turns(sid(1))),
        key="agent:main:telegram:direct:42",
        chatType="direct",
        lastChannel=" Telegram",
        lastTo=" 42 ",
        lastAccountId="acc",
        sessionFile=f"{sid(1)}.jsonl",
        icon="no emoji",
        memoryFlushAt=5,
        somethingUnknown={"kept": [1]},
        status="interrupted",
        label=" x ",
    )
    doctor("import", state)
    stored = node(state, "agent:main:telegram:direct:42")
    gone = {"sessionFile", "lastChannel", "lastTo", "lastAccountId", "icon", "memoryFlushAt", "memoryFlush"}
    assert set() == gone & set(stored)
    assert {"kept": [1]} == stored["somethingUnknown"]
    assert ("external", "telegram", "42") == (
        stored["delivery"]["kind"],
        stored["delivery"]["route"]["channel"],
        stored["delivery"]["route"]["target"]["to"],
    )
    assert ("interrupted", " x ") == (stored["status"], stored["label"])
    assert [("failed", "x")] == rows(state, "SELECT status, label FROM session_nodes")
    digest = hashlib.sha256(b'["telegram","acc","direct","42","",""]').hexdigest()[:32]
    assert [(f"conv_{digest}",)] == rows(state, "SELECT conversation_id FROM conversations")


def test_fractional_updated_at(doctor: Callable[..., Any], tmp_path: Path) -> None:
    """A fractional `updatedAt` is rounded and reported, status 0."""
    state = one_session(tmp_path / "s", jsonl(turns(sid(1))), updatedAt=BASE_MS + 0.6)
    report = doctor("import", state)
    assert BASE_MS + 1 == node(state)["updatedAt"]
    assert [(BASE_MS + 1,)] == rows(state, "SELECT updated_at FROM session_nodes")
    assert [] != report["targets"][0]["issues"]


@pytest.mark.parametrize("version, stored", [(2, 3), (3, 3), (4, 4)])
def test_versions(doctor: Callable[..., Any], tmp_path: Path, version: int, stored: int) -> None:
    """V1/v2 → 3, with 3 and 4 kept."""
    state = one_session(tmp_path / "s", jsonl(turns(sid(1), 2, version)))
    doctor("import", state)
    assert stored == events(state, sid(1))[0]["version"]


def test_version_1(doctor: Callable[..., Any], tmp_path: Path) -> None:
    """V1 rows get ids `first16hex(sha256(path NUL sessionId))-<base36 index>` and a parent chain."""
    made = turns(sid(1), 2, 1)
    for row in made[1:]:
        del row["id"], row["parentId"]
    state = one_session(tmp_path / "s", jsonl(made))
    path = os.path.realpath(state / "agents/main/sessions" / f"{sid(1)}.jsonl")
    doctor("import", state)
    head, first, second = events(state, sid(1))
    prefix = hashlib.sha256(f"{path}\0{sid(1)}".encode()).hexdigest()[:16]
    assert (3, f"{prefix}-1", None, f"{prefix}-2", f"{prefix}-1") == (
        head["version"],
        first["id"],
        first["parentId"],
        second["id"],
        second["parentId"],
    )


def test_recovered_keys(doctor: Callable[..., Any], tmp_path: Path) -> None:
    """Unreferenced history comes in as `agent:<id>:recovered:<sid>`, archived, and its file is moved."""
    state = one_session(tmp_path / "s", jsonl(turns(sid(1))))
    orphan = state / "agents/main/sessions" / f"{sid(7)}.jsonl"
    orphan.write_bytes(jsonl(turns(sid(7))))
    report = doctor("import", state)
    key = f"agent:main:recovered:{sid(7)}"
    assert [KEY, key] == keys(state)
    assert turns(sid(7)) == events(state, sid(7))
    assert "archivedAt" in node(state, key)
    assert not orphan.exists()
    assert 2 == report["totals"]["importedEntries"]


def test_recovered_with_a_timestamp_name(doctor: Callable[..., Any], tmp_path: Path) -> None:
    """`<timestamp>_<id>.jsonl` imports under the header id."""
    state = one_session(tmp_path / "s", jsonl(turns(sid(1))))
    name = f"2026-06-01T10-00-00-000Z_{sid(7)}.jsonl"
    (state / "agents/main/sessions" / name).write_bytes(jsonl(turns(sid(7))))
    doctor("import", state)
    assert f"agent:main:recovered:{sid(7)}" in keys(state)


def test_header_names_another_id(doctor: Callable[..., Any], tmp_path: Path) -> None:
    """A mismatching orphan is archived, `header_id_mismatch` names both ids, status 3; nothing disappears."""
    state = one_session(tmp_path / "s", jsonl(turns(sid(1))))
    (state / "agents/main/sessions" / f"{sid(7)}.jsonl").write_bytes(jsonl(turns(sid(8))))
    before = files(state)
    report = doctor("import", state, status=3)
    (issue,) = issues_of(report, "header_id_mismatch")
    assert "error" == issue["severity"]
    assert sid(7) in issue["message"] and sid(8) in issue["message"]
    assert before == files(state)
    assert 1 == len(report["targets"][0]["archivedUnreferencedJsonlFiles"])


def test_tombstones_stay(doctor: Callable[..., Any], tmp_path: Path) -> None:
    """`*.deleted.*` and `*.reset.*` are left in place."""
    state = one_session(tmp_path / "s", jsonl(turns(sid(1))))
    folder = state / "agents/main/sessions"
    names = [f"{sid(7)}.jsonl.{kind}.2026-06-01T10-00-00.000Z" for kind in ("deleted", "reset")]
    for name in names:
        (folder / name).write_bytes(jsonl(turns(sid(7))))
    doctor("import", state)
    assert names == sorted(path.name for path in folder.iterdir())
    assert [KEY] == keys(state)


def test_trajectory_rows(doctor: Callable[..., Any], tmp_path: Path) -> None:
    """Sidecars → `trajectory_runtime_events(session_id, seq from 0, run_id, event_json, created_at)`."""
    state = one_session(tmp_path / "s", jsonl(turns(sid(1))))
    folder = state / "agents/main/sessions"
    first = {"type": "run.start", "runId": "r1", "timestamp": iso(BASE_MS + 5)}
    second = {"type": "note"}
    (folder / f"{sid(1)}.trajectory.jsonl").write_bytes(jsonl([first, second]))
    report = doctor("import", state)
    found = rows(state, "SELECT session_id, seq, run_id, event_json FROM trajectory_runtime_events ORDER BY seq")
    assert [(sid(1), 0, "r1", first), (sid(1), 1, None, second)] == [(*row[:3], json.loads(row[3])) for row in found]
    assert [(BASE_MS + 5,)] == rows(state, "SELECT created_at FROM trajectory_runtime_events WHERE seq = 0")
    assert 2 == report["totals"]["importedTrajectoryEvents"]
    moves = manifest(report)["targets"][0]["completedMoves"]
    assert "trajectory" in [move["kind"] for move in moves]


@pytest.mark.parametrize("kind", ["hard", "symbolic"])
def test_linked_source(doctor: Callable[..., Any], tmp_path: Path, kind: str) -> None:
    """Hard-linked and symlinked sources are imported, not moved, and reported (a warning)."""
    state = one_session(tmp_path / "s", jsonl(turns(sid(1))))
    source = state / "agents/main/sessions" / f"{sid(1)}.jsonl"
    other = tmp_path / "other.jsonl"
    if kind == "hard":
        other.hardlink_to(source)
    else:
        source.rename(other)
        source.symlink_to(other)
    report = doctor("import", state)
    assert turns(sid(1)) == events(state, sid(1))
    assert source.exists() and other.exists()
    assert (kind == "symbolic") == source.is_symlink()
    assert [] == report["targets"][0]["archivedTranscriptFiles"]
    (issue,) = issues_of(report, "transcript_archive_failed")
    assert "warning" == issue["severity"]


def test_one_bad_entry_is_isolated(doctor: Callable[..., Any], tmp_path: Path) -> None:
    """One bad entry (id, key, file) is an issue naming the key; the others go on."""
    index = {
        KEY: {"sessionId": sid(1), "updatedAt": BASE_MS},
        "agent:main:evil-id": {"sessionId": "../evil", "updatedAt": BASE_MS},
        "agent:main:no-id": {"updatedAt": BASE_MS},
        "agent:main:nothing": None,
        "agent:main:text": "oops",
        "agent:main:list": [1],
        "agent:main:number-id": {"sessionId": 5, "updatedAt": BASE_MS},
        "agent:main:outside": {"sessionId": sid(3), "updatedAt": BASE_MS, "sessionFile": f"../../../{sid(3)}.jsonl"},
        "": {"sessionId": sid(4), "updatedAt": BASE_MS},
    }
    state = make_state(tmp_path / "s", index, {f"{sid(1)}.jsonl": jsonl(turns(sid(1)))})
    (tmp_path / f"{sid(3)}.jsonl").write_bytes(jsonl(turns(sid(3))))
    report = doctor("import", state, status=3)
    named = {issue["sessionKey"] for issue in issues_of(report, "entry_invalid")}
    assert {f"agent:main:{name}" for name in ("evil-id", "no-id", "nothing", "text", "list", "number-id")} <= named
    assert ["agent:main:outside"] == [issue["sessionKey"] for issue in issues_of(report, "transcript_path_refused")]
    assert [KEY, "agent:main:outside"] == [key for key in keys(state) if "recovered" not in key]
    assert turns(sid(1)) == events(state, sid(1))
    assert [] == events(state, sid(3))


@pytest.mark.parametrize(
    "data, code", [(b"", "store_unreadable"), (b"{", "store_unreadable"), (b"[]", "store_not_object")]
)
def test_unreadable_index(doctor: Callable[..., Any], tmp_path: Path, data: bytes, code: str) -> None:
    """An index of 0 bytes is `store_unreadable`, status 3; nothing is moved."""
    state = make_state(tmp_path / "s", data, {f"{sid(1)}.jsonl": jsonl(turns(sid(1)))})
    before = files(state)
    for mode in ("dry-run", "import"):
        report = doctor(mode, state, status=3)
        (issue,) = issues_of(report, code)
        assert "error" == issue["severity"]
    assert before == files(state)
    assert (state / "agents/main/sessions" / f"{sid(1)}.jsonl").exists()


def test_missing_transcript_and_skip_empty(doctor: Callable[..., Any], tmp_path: Path) -> None:
    """A row without a transcript is imported with `transcript_missing`; `--skip-empty` leaves it out."""
    index = {
        KEY: {"sessionId": sid(1), "updatedAt": BASE_MS},
        "agent:main:gone": {"sessionId": sid(2), "updatedAt": BASE_MS, "sessionFile": f"{sid(2)}.jsonl", "label": "L"},
    }
    for name, argv, expected in (("a", [], [KEY, "agent:main:gone"][::-1]), ("b", ["--skip-empty"], [KEY])):
        state = make_state(tmp_path / name, index, {f"{sid(1)}.jsonl": jsonl(turns(sid(1)))})
        report = doctor("import", state, *argv)
        assert sorted(expected) == keys(state)
        if not argv:
            (issue,) = issues_of(report, "transcript_missing")
            assert ("agent:main:gone", "warning") == (issue["sessionKey"], issue["severity"])
            assert "L" == node(state, "agent:main:gone")["label"]


def test_paths_of_other_machines(doctor: Callable[..., Any], tmp_path: Path) -> None:
    """Windows and foreign POSIX paths are re-rooted by their basename."""
    index = {
        "agent:main:win": {
            "sessionId": sid(1),
            "updatedAt": 1,
            "sessionFile": f"C:\\Users\\d\\sessions\\{sid(1)}.jsonl",
        },
        "agent:main:posix": {"sessionId": sid(2), "updatedAt": 1, "sessionFile": f"/home/d/sessions/{sid(2)}.jsonl"},
    }
    state = make_state(tmp_path / "s", index, {f"{sid(n)}.jsonl": jsonl(turns(sid(n))) for n in (1, 2)})
    doctor("import", state)
    assert [turns(sid(1)), turns(sid(2))] == [events(state, sid(1)), events(state, sid(2))]


def test_two_keys_on_one_transcript(doctor: Callable[..., Any], tmp_path: Path) -> None:
    """Two keys on one id: one transcript, both keys live."""
    index = {f"agent:main:{name}": {"sessionId": sid(1), "updatedAt": BASE_MS} for name in ("alias-a", "alias-b")}
    state = make_state(tmp_path / "s", index, {f"{sid(1)}.jsonl": jsonl(turns(sid(1)))})
    report = doctor("import", state)
    assert ["agent:main:alias-a", "agent:main:alias-b"] == keys(state)
    assert turns(sid(1)) == events(state, sid(1))
    assert 1 == len(report["targets"][0]["archivedTranscriptFiles"])


def test_entry_without_updated_at(doctor: Callable[..., Any], tmp_path: Path) -> None:
    """A time is never invented as now: such a row does not jump to the top of the list."""
    index = {KEY: {"sessionId": sid(1)}, "agent:main:b": {"sessionId": sid(2), "updatedAt": BASE_MS + 999_000}}
    state = make_state(tmp_path / "s", index, {f"{sid(n)}.jsonl": jsonl(turns(sid(n))) for n in (1, 2)})
    doctor("import", state, *NOW)
    assert node(state)["updatedAt"] < BASE_MS + 999_000


def test_rebuild_of_every_byte(doctor: Callable[..., Any], tmp_path: Path) -> None:
    """An import with damage, orphans and sidecars loses no file: the multiset of SHA-256 stays."""
    state = one_session(tmp_path / "s", jsonl(turns(sid(1))) + b"garbage\n" + line({"a": 1}) + b"\n")
    folder = state / "agents/main/sessions"
    (folder / f"{sid(7)}.jsonl").write_bytes(jsonl(turns(sid(7))))
    (folder / "foreign.jsonl").write_bytes(b'{"some": "thing"}\n')
    (folder / f"{sid(1)}.trajectory.jsonl").write_bytes(b'{"type":"x"}\n')
    (folder / f"{sid(1)}.checkpoint.{sid(9)}.jsonl").write_bytes(jsonl(turns(sid(1))))
    (folder / "notes.txt").write_text("mine")
    before = files(state)
    doctor("import", state, status=3)
    assert before == files(state)
    assert (folder / "notes.txt").exists()


def test_validate(doctor: Callable[..., Any], tmp_path: Path) -> None:
    """`validate` compares the old index with the store, before, after, and after a loss."""
    state = one_session(tmp_path / "s", jsonl(turns(sid(1))))
    report = doctor("validate", state, status=3)
    assert "sqlite_entry_missing" in codes(report)
    saved = {path.name: path.read_bytes() for path in (state / "agents/main/sessions").iterdir()}
    doctor("import", state)
    assert [] == codes(doctor("validate", state))
    make_state(state, None, saved)
    report = doctor("validate", state)
    assert (1, 5) == (report["totals"]["validatedEntries"], report["totals"]["validatedTranscriptEvents"])
    import apsw

    connection = apsw.Connection(str(store(state)))
    connection.execute("DELETE FROM transcript_event_identities WHERE seq = 4")
    connection.execute("DELETE FROM transcript_events WHERE seq = 4")
    connection.close()
    assert "sqlite_transcript_count_mismatch" in codes(doctor("validate", state, status=3))


def test_validate_accepts_new_turns(doctor: Callable[..., Any], tmp_path: Path) -> None:
    """`validate` gives no false alarm when the store has more turns than the old file."""
    state = one_session(tmp_path / "s", jsonl(turns(sid(1), 6)))
    doctor("import", state)
    one_session(state, jsonl(turns(sid(1), 4)))
    assert [] == [issue for target in doctor("validate", state)["targets"] for issue in target["issues"]]


def test_inspect_top_of_index_and_store(doctor: Callable[..., Any], tmp_path: Path) -> None:
    """`inspect --top N`: biggest rows: session, line or seq, type, tool, bytes."""
    made = turns(sid(1))
    from legacy_state import message

    made.insert(
        3, message("big00001", "m0000001", 9, "toolResult", "A" * 20_000, toolCallId="c", toolName="view_image")
    )
    made[4]["parentId"] = "big00001"
    state = one_session(tmp_path / "s", jsonl(made))

    def biggest() -> dict[str, Any]:
        """The first of `--top 2`."""
        (target,) = doctor("inspect", state, "--top", "2")["targets"]
        (found,) = [value for name, value in target.items() if "top" in name.lower() and value]
        assert 2 == len(found)
        assert found[0]["bytes"] >= found[1]["bytes"]
        return found[0]

    before = biggest()
    assert (4, "view_image", len(line(made[3]))) == (before["line"], before["tool"], before["bytes"])
    assert sid(1) == before["sessionId"]
    doctor("import", state)
    after = biggest()
    assert (3, "view_image", sid(1)) == (after["seq"], after["tool"], after["sessionId"])


def test_inspect_file_of_a_whole_transcript(cli_json: Callable[..., Any], tmp_path: Path) -> None:
    """`inspect --file F`: header id, id in the name, lines and damage of one file."""
    path = tmp_path / f"{sid(1)}.jsonl"
    path.write_bytes(jsonl(turns(sid(1))))
    report = cli_json("doctor", "inspect", "--file", path)
    assert (sid(1), sid(1), 5, []) == tuple(report[name] for name in ("headerId", "nameId", "linesTotal", "damage"))


def test_inspect_counts(doctor: Callable[..., Any], tmp_path: Path) -> None:
    """Inspect counts entries, transcripts and rows, checks the database and never parses JSONL."""
    state = one_session(tmp_path / "s", b"garbage, not looked at\n")
    report = doctor("inspect", state)
    assert (1, 0) == (report["totals"]["legacyEntries"], report["totals"]["sqliteEntries"])
    one_session(state, jsonl(turns(sid(1))))
    doctor("import", state)
    (target,) = doctor("inspect", state)["targets"]
    assert (0, 1, "ok") == (target["legacyEntries"], target["sqliteEntries"], target["dbStats"]["integrityCheck"])
    (largest,) = target["dbStats"]["largestSessions"]
    assert (sid(1), 5) == (largest["sessionId"], largest["events"])


def test_killed_before_the_end(doctor: Callable[..., Any], tmp_path: Path) -> None:
    """A run whose transcripts were moved but whose index was not is completed by the next."""
    state = one_session(tmp_path / "s", jsonl(turns(sid(1))))
    doctor("import", state, "--keep-index")
    before = files(state)
    doctor("import", state)
    assert before == files(state)
    assert turns(sid(1)) == events(state, sid(1))
    assert not (state / "agents/main/sessions/sessions.json").exists()


def test_symlinked_state_directory(doctor: Callable[..., Any], tmp_path: Path) -> None:
    """Paths of a manifest are absolute with directories resolved."""
    real = one_session(tmp_path / "real", jsonl(turns(sid(1))))
    (tmp_path / "link").symlink_to(real)
    report = doctor("import", tmp_path / "link")
    assert str(real.resolve() / "agents/main/sessions/sessions.json") == manifest(report)["targets"][0]["storePath"]


def test_empty_transcript_file(doctor: Callable[..., Any], tmp_path: Path) -> None:
    """An empty file is imported cleanly: a row without events."""
    state = one_session(tmp_path / "s", b"")
    doctor("import", state)
    assert [KEY] == keys(state)
    assert [] == events(state, sid(1))


def test_header_of_another_session_in_the_index(run_cli: Callable[..., Any], tmp_path: Path) -> None:
    """The header id is forced to the index's session id; it is said with both ids, never silent."""
    state = one_session(tmp_path / "s", jsonl([header(sid(8)), *turns(sid(1))[1:]]))
    report = json.loads(run_cli("doctor", "import", "--state-dir", state, "--json").stdout)
    assert turns(sid(1)) == events(state, sid(1))
    (issue,) = [one for one in report["targets"][0]["issues"] if one["code"].startswith("header_id")]
    assert KEY == issue["sessionKey"]
    assert sid(1) in issue["message"] and sid(8) in issue["message"]


def test_dry_run_takes_no_lock_and_tells_the_same(doctor: Callable[..., Any], tmp_path: Path) -> None:
    """A dry run is the real plan: read-only, and the later run finds the same damage and issues."""
    state = one_session(tmp_path / "s", jsonl(turns(sid(1))) + b"garbage\n")
    before = digests(tmp_path)
    preview = doctor("dry-run", state, *NOW, status=3)
    assert before == digests(tmp_path)
    real = doctor("import", state, *NOW, status=3)
    for name in ("damage", "issues", "linesTotal", "linesLost", "linesSalvageable", "validatedTranscriptEvents"):
        assert preview["targets"][0][name] == real["targets"][0][name], name
