"""Checks of the database file, of keys and rows, of files beside it, of configuration and runs; with and without."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import apsw
import conversations as talk
import pytest

from openclaw_cli.checks import remedies
from openclaw_cli.cli import tree

Check = Callable[..., dict[str, dict[str, Any]]]
NOW_MS = 1_790_000_000_000
SESSION = "00000000-1111-4222-8333-444455556666"
OTHER = "00000000-1111-4222-8333-44445555ffff"


@pytest.fixture
def story() -> talk.Conversation:
    """A short session in order."""
    made = talk.Conversation()
    made.user()
    made.says()
    return made


@pytest.fixture
def sound(state: Any, story: talk.Conversation) -> Any:
    """A state directory whose store is in order."""
    state.add(story.rows)
    return state


def test_a_sound_store_has_no_finding(sound: Any, check: Check) -> None:
    """Status 0, and the biggest are listed all the same."""
    assert {} == check(sound)


def test_incremental_vacuum_is_off(sound: Any, check: Check) -> None:
    """A store that never shrinks."""
    sound.execute("PRAGMA auto_vacuum=0", "VACUUM")

    assert "openclaw-cli doctor compact --agent main" == check(sound)["auto_vacuum_off"]["command"]


def test_unused_pages(sound: Any, check: Check, run_cli: Callable[..., Any]) -> None:
    """They are counted; after the command that is named they are gone."""
    sound.execute("CREATE TABLE zz(x)", "INSERT INTO zz VALUES (zeroblob(3000000))", "DROP TABLE zz")
    found = check(sound)
    assert {"free_pages"} == set(found)
    words = found["free_pages"]["command"].split()[1:]
    assert 0 == run_cli(*words, "--state-dir", sound.root).status

    assert {} == check(sound)


def test_a_log_that_does_not_shrink(sound: Any, check: Check) -> None:
    """A reader that holds an old view keeps the log; without it there is nothing to find."""
    reader = apsw.Connection(str(sound.database))
    reader.execute("BEGIN")
    reader.execute("SELECT count(*) FROM session_nodes").fetchall()
    sound.execute("CREATE TABLE zz(x)", "INSERT INTO zz VALUES (zeroblob(12000000))", "DROP TABLE zz")
    assert 8_000_000 < check(sound)["wal_large"]["evidence"]["walBytes"]
    reader.close()
    sound.execute("PRAGMA wal_checkpoint(TRUNCATE)")

    assert "wal_large" not in check(sound)


def test_damage_gives_13(sound: Any, check: Check) -> None:
    """An index that the schema lost is found by the full check only."""
    opened = apsw.Connection(str(sound.database))
    opened.pragma("writable_schema", True)
    opened.execute("DELETE FROM sqlite_schema WHERE type='index' AND sql IS NOT NULL AND tbl_name LIKE '%identities'")
    opened.close()

    assert "openclaw-cli doctor recover --agent main" == check(sound, status=13)["store_damaged"]["command"]


def test_what_is_no_database_gives_13(sound: Any, check: Check) -> None:
    """A first page of zeros."""
    with open(sound.database, "r+b") as stream:
        stream.write(bytes(4096))

    assert {"store_damaged"} == set(check(sound, status=13))


def test_search_that_does_not_follow_from_the_events(sound: Any, check: Check, run_cli: Callable[..., Any]) -> None:
    """Rows of the search map that went are found by table, and the command that is named mends it."""
    sound.execute("DELETE FROM session_transcript_fts_rows")
    found = check(sound)["projection_differs"]
    assert "session_transcript_fts_rows" == found["evidence"]["table"]
    assert 0 == run_cli(*found["command"].split()[1:], "--state-dir", sound.root).status

    assert {} == check(sound)


def test_columns_that_do_not_mirror_the_entry(sound: Any, check: Check) -> None:
    """A column that was changed alone."""
    sound.execute("UPDATE session_nodes SET label = 'other'", "UPDATE session_nodes SET entry_valid = 1")

    assert "openclaw-cli doctor fix --agent main" == check(sound)["columns_differ"]["command"]


@pytest.mark.parametrize(
    ("key", "code"),
    [
        ("discord:channel:555", "key_not_canonical"),
        ("agent:main:Explicit:A", "key_not_canonical"),
        ("agent:other:explicit:a", "key_of_other_agent"),
        ("agent:main:telegram:direct:7", "dm_scope_differs"),
        ("agent:main:telegram:group:7", None),
        ("agent:main:matrix:channel:!Room:server", None),
    ],
)
def test_wrong_keys(sound: Any, check: Check, story: talk.Conversation, key: str, code: str | None) -> None:
    """Keys in another spelling, of another agent, of another scope of direct messages."""
    sound.add(story.rows, key=key, session_id=OTHER)

    assert ({code} if code else set()) == set(check(sound))


def test_direct_sessions_belong_to_their_scope(sound: Any, check: Check, story: talk.Conversation) -> None:
    """With session.dmScope per-channel-peer such keys are right."""
    sound.add(story.rows, key="agent:main:telegram:direct:7", session_id=OTHER)
    sound.configure({"session": {"dmScope": "per-channel-peer"}})

    assert {} == check(sound)


def test_another_name_of_main_sessions(sound: Any, check: Check) -> None:
    """Store and configuration must agree about it."""
    sound.configure({"session": {"mainKey": "home"}})

    assert "main" == check(sound)["main_key_differs"]["evidence"]["storedMainKey"]


def test_a_row_that_is_not_valid(sound: Any, check: Check) -> None:
    """It is invisible for OpenClaw."""
    sound.execute("UPDATE session_nodes SET entry_valid = 0")

    assert {"entry_invalid", "columns_differ"} == set(check(sound))


def test_a_row_in_use_without_events(sound: Any, check: Check) -> None:
    """Only rows that were in use must have events."""
    sound.add([], key="agent:main:explicit:new", session_id=OTHER)
    assert {} == check(sound)
    sound.add([], key="agent:main:explicit:new", session_id=OTHER, totalTokens=5, updatedAt=NOW_MS + 1)
    rows = check(sound)["transcript_without_events"]["evidence"]["rows"]

    assert [{"sessionKey": "agent:main:explicit:new", "sessionId": OTHER}] == rows


def test_two_keys_of_one_session(sound: Any, check: Check) -> None:
    """Cron keys share one by design, others do not."""
    sound.add([], key="agent:main:cron:job", session_id=SESSION)
    assert {} == check(sound)
    sound.add([], key="agent:main:explicit:twin", session_id=SESSION)

    assert ["agent:main:explicit:twin", "agent:main:main"] == sorted(
        check(sound)["session_shared"]["evidence"]["sessionKeys"]
    )


def test_a_remote_gateway_and_a_second_database(
    sound: Any, check: Check, story: talk.Conversation, tmp_path: Path
) -> None:
    """Store and transcript that seem to differ may be those of two places."""
    elsewhere = tmp_path / "moved/sessions.json"
    elsewhere.parent.mkdir()
    sound.configure({"gateway": {"mode": "remote"}, "session": {"store": str(elsewhere)}})
    elsewhere.write_text("{}")
    found = check(sound)

    assert {"gateway_remote", "store_second", "store_not_imported"} == set(found)
    assert str(sound.database) == found["store_second"]["evidence"]["otherPath"]


def test_an_index_that_stayed(sound: Any, check: Check, run_cli: Callable[..., Any]) -> None:
    """It is counted which rows are older; the import that is named takes it away."""
    rows = {"agent:main:main": {"sessionId": SESSION, "updatedAt": NOW_MS - 1}}
    (sound.sessions / "sessions.json").write_text(json.dumps(rows))
    found = check(sound)["stale_index"]
    assert (1, 1, 0) == tuple(found["evidence"][name] for name in ("rows", "older", "newer"))
    assert 0 == run_cli(*found["command"].split()[1:], "--state-dir", sound.root).status

    assert {} == check(sound)


def test_transcripts_beside_the_store(sound: Any, check: Check, story: talk.Conversation, run_cli: Any) -> None:
    """Those that the store has, and those that it lacks; the commands that are named settle both."""
    for session_id in (SESSION, OTHER):
        rows = [{**story.rows[0], "id": session_id}, *story.rows[1:]]
        (sound.sessions / f"{session_id}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    found = check(sound)
    assert {"transcript_beside_store", "transcript_not_imported"} == set(found)
    for finding in found.values():
        run_cli(*finding["command"].split()[1:], "--state-dir", sound.root)

    assert {} == check(sound)


def test_artifacts_of_no_session(sound: Any, check: Check, run_cli: Callable[..., Any]) -> None:
    """Sidecars of sessions that are known are none; a temporary file must be old."""
    (sound.sessions / f"{SESSION}.trajectory.jsonl").write_text("{}\n")
    fresh = sound.sessions / "sessions.json.1.tmp"
    fresh.write_text("{}")
    os.utime(fresh, ns=(NOW_MS * 10**6,) * 2)
    assert {} == check(sound)
    (sound.sessions / f"{OTHER}.trajectory-path.json").write_text("{}")
    found = check(sound)["artifact_orphan"]
    assert (1, "pointer") == (found["evidence"]["count"], found["evidence"]["kind"])
    run_cli(*found["command"].split()[1:], "--state-dir", sound.root)
    os.utime(fresh, ns=((NOW_MS - 400_000) * 10**6,) * 2)

    assert "temporary" == check(sound)["artifact_orphan"]["evidence"]["kind"]


def test_keys_that_openclaw_no_longer_takes(sound: Any, check: Check) -> None:
    """All of them are named; present ones are not."""
    sound.configure({"session": {"idleMinutes": 5, "dmScope": "main", "maintenance": {"rotateBytes": "1mb"}}})

    assert ["session.maintenance.rotateBytes", "session.idleMinutes"] == check(sound)["config_key_retired"]["evidence"][
        "keys"
    ]


def test_a_run_that_did_not_end(sound: Any, check: Check, run_cli: Callable[..., Any], story: Any) -> None:
    """It is named until `recover` has closed it."""
    (sound.sessions / "sessions.json").write_text("{}")
    assert 0 == run_cli("doctor", "import", "--state-dir", sound.root).status
    assert {} == check(sound)
    (manifest,) = (sound.root / "session-sqlite-migration-runs").glob("*.json")
    document = json.loads(manifest.read_text())
    del document["completedAt"]
    manifest.write_text(json.dumps(document))
    found = check(sound)["run_open"]
    assert 0 == run_cli(*found["command"].split()[1:], "--state-dir", sound.root).status

    assert {} == check(sound)


def test_a_store_of_another_agent(sound: Any, check: Check) -> None:
    """It cannot be looked at; that is the finding."""
    sound.execute("UPDATE schema_meta SET agent_id = 'somebody'")

    assert "wrong_agent" == check(sound)["store_unreadable"]["evidence"]["code"]


def test_a_newer_schema(sound: Any, check: Check) -> None:
    """A store of a newer release is looked at as far as it is known, and named."""
    sound.execute("PRAGMA user_version=24")

    assert 24 == check(sound)["schema_version"]["evidence"]["schemaVersion"]


def test_selectors(sound: Any, check: Check, run_cli: Callable[..., Any]) -> None:
    """One agent or one store may be named; one that is not there is 10."""
    assert {} == check(sound, "--agent", "main")
    assert {} == check(sound, "--store", str(sound.database))
    assert 10 == run_cli("doctor", "check", "--agent", "nobody", "--state-dir", sound.root).status


def test_every_command_that_findings_name_exists() -> None:
    """Commands of this program are in its command tree."""
    sources = [path.read_text() for path in Path(remedies.__file__).parent.glob("*.py")]
    verbs = {verb for text in sources for verb in re.findall(r'remedies\.of\([\w.]+, "([\w-]+)', text)}
    known = {command.path for command in tree.walk(tree.commands())}

    assert {"import", "recover", "compact", "fix", "validate", "inspect"} == verbs
    assert {("doctor", verb) for verb in verbs} | {("sessions", "list"), ("config", "show")} <= known
