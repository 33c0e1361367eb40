"""Rows that OpenClaw would refuse the store for come into form, all at once, and nothing that gave way is lost."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import archived_states as states
import conversations as talk
import pytest
from store_states import KEY, NOW_MS, SESSION, State

from openclaw_cli.storage import connection, events, verify

Fix = Callable[..., dict[str, Any]]
OTHER = "00000000-1111-4222-8333-44445555ffff"
THIRD = "00000000-1111-4222-8333-44445555eeee"


def rows_of(text: str) -> list[Any]:
    """A session of two entries."""
    made = talk.Conversation()
    made.user(text)
    made.says()
    return made.rows


def keys(state: State) -> dict[str, str]:
    """Key → session id of every row, all of them valid; the store is whole and every column follows."""
    with connection.open_read(state.database, temporary_tables=True) as store:
        assert [] == verify.integrity(store)
        assert [] == list(verify.verify(store))
        assert [] == store.execute("PRAGMA foreign_key_check").fetchall()
        return dict(store.execute("SELECT session_key, current_session_id FROM session_nodes").fetchall())


def sessions(state: State) -> dict[str, list[bytes]]:
    """Session id → its events as they are stored."""
    with connection.open_read(state.database) as store:
        ids = [one for (one,) in store.execute("SELECT session_id FROM session_windows").fetchall()]
        return {one: [text for _, text in events.stream(store, one)] for one in ids}


def test_a_key_in_another_spelling_is_renamed(state: State, fix: Fix) -> None:
    """With everything that names the session by it; events stay as they are; a second run changes nothing."""
    state.add(rows_of("a"), key="Agent:Main:Telegram:Direct:X")
    state.execute(
        "INSERT INTO session_participants VALUES ('Agent:Main:Telegram:Direct:X', 'n', 'a', 1, 1, 1)",
        "INSERT INTO board_tabs(session_key, tab_id, title, position, created_by, revision)"
        " VALUES ('Agent:Main:Telegram:Direct:X', 't', 't', 0, 'user', 0)",
    )
    before = sessions(state)

    document = fix(state)

    canonical = document["targets"][0]["canonicalised"]
    assert [("Agent:Main:Telegram:Direct:X", "agent:main:telegram:direct:x", "renamed")] == [
        (row["sessionKey"], row["canonicalKey"], row["action"]) for row in canonical["rows"]
    ]
    assert ("repaired", None) == (document["status"], canonical["keptRowsPath"])
    assert {"agent:main:telegram:direct:x": SESSION} == keys(state)
    assert before == sessions(state)
    with connection.open_read(state.database) as store:
        for table in ("session_participants", "board_tabs"):
            sql = f"SELECT session_key FROM {table}"
            assert [("agent:main:telegram:direct:x",)] == store.execute(sql).fetchall()
    everything = states.everything(state.root)
    assert "clean" == fix(state)["status"]
    assert everything == states.everything(state.root)


@pytest.mark.parametrize("newer", [True, False])
def test_two_keys_that_are_one(state: State, fix: Fix, newer: bool) -> None:
    """The newer entry is the key's, the other session its history; what gave way is in a file beside the store."""
    state.add(rows_of("a"), key="agent:main:foo", updatedAt=NOW_MS, label="mine")
    state.add(rows_of("b"), key="agent:main:Foo", session_id=OTHER, updatedAt=NOW_MS + (1 if newer else -1), label="x")
    before = sessions(state)

    document = fix(state)

    canonical = document["targets"][0]["canonicalised"]
    assert ["merged"] == [row["action"] for row in canonical["rows"]]
    assert {"agent:main:foo": OTHER if newer else SESSION} == keys(state)
    assert before == sessions(state)
    kept = [json.loads(line) for line in Path(canonical["keptRowsPath"]).read_text().splitlines()]
    nodes = {row["row"]["session_key"]: json.loads(row["row"]["entry_json"]) for row in kept}
    wanted = {"agent:main:Foo": OTHER} | ({"agent:main:foo": SESSION} if newer else {})
    assert wanted == {key: entry["sessionId"] for key, entry in nodes.items() if entry}
    assert 0o600 == Path(canonical["keptRowsPath"]).stat().st_mode & 0o777


def test_lineage_in_another_spelling(state: State, fix: Fix) -> None:
    """The key that another row names is renamed in it, too."""
    state.add(rows_of("a"), key="old")
    state.add(rows_of("b"), key="agent:main:child", session_id=OTHER, parentSessionKey="old", spawnedBy="Main")

    fix(state)

    assert {"agent:main:old": SESSION, "agent:main:child": OTHER} == keys(state)
    with connection.open_read(state.database) as store:
        sql = "SELECT parent_session_key, spawned_by FROM session_nodes WHERE session_key = 'agent:main:child'"
        assert [("agent:main:old", KEY)] == store.execute(sql).fetchall()


def test_rows_that_are_not_valid_or_do_not_mirror_their_entry(state: State, fix: Fix) -> None:
    """They are written anew from their entries; others are left alone."""
    state.add(rows_of("a"), key=KEY, label="mine")
    state.add(rows_of("b"), key="agent:main:b", session_id=OTHER, label="yours")
    state.add(rows_of("c"), key="agent:main:c", session_id=THIRD)
    state.execute(
        f"UPDATE session_nodes SET entry_valid = 0 WHERE session_key = '{KEY}'",
        "UPDATE session_nodes SET label = 'stray' WHERE session_key = 'agent:main:b'",
        "UPDATE session_nodes SET entry_valid = 1 WHERE session_key = 'agent:main:b'",
    )

    document = fix(state)

    assert {(KEY, "rewritten"), ("agent:main:b", "rewritten")} == {
        (row["sessionKey"], row["action"]) for row in document["targets"][0]["canonicalised"]["rows"]
    }
    assert {KEY: SESSION, "agent:main:b": OTHER, "agent:main:c": THIRD} == keys(state)


def test_the_name_of_main_sessions(state: State, fix: Fix) -> None:
    """Where the configuration calls them otherwise than the store, they are renamed and the store is told."""
    state.add(rows_of("a"), key="agent:main:main")
    state.configure({"session": {"mainKey": "home"}})

    document = fix(state)

    assert "home" == document["targets"][0]["canonicalised"]["mainKey"]
    assert {"agent:main:home": SESSION} == keys(state)
    assert "clean" == fix(state)["status"]


def test_what_cannot_be_brought_into_form_is_named(state: State, fix: Fix) -> None:
    """A key of another agent stays (a warning), an entry that is no object (an error); others are mended."""
    state.add(rows_of("a"), key="agent:other:x")
    state.add(rows_of("b"), key="agent:main:broken", session_id=OTHER)
    state.add(rows_of("c"), key="Agent:Main:C", session_id=THIRD)
    state.execute("UPDATE session_nodes SET entry_json = '[1' WHERE session_key = 'agent:main:broken'")

    document = fix(state, status=3)

    issues = {(issue["code"], issue["sessionKey"]) for issue in document["targets"][0]["issues"]}
    assert {("key_of_other_agent", "agent:other:x"), ("entry_invalid", "agent:main:broken")} == issues
    assert "blocked" == document["status"]
    with connection.open_read(state.database) as store:
        found = {key for (key,) in store.execute("SELECT session_key FROM session_nodes").fetchall()}
    assert {"agent:other:x", "agent:main:broken", "agent:main:c"} == found


def test_a_key_that_is_never_listed_is_not_named(state: State, fix: Fix) -> None:
    """It is mended and counted."""
    state.add(rows_of("a"), key="Agent:Main:Secret", incognito=True)

    document = fix(state)

    canonical = document["targets"][0]["canonicalised"]
    assert ([], 1) == (canonical["rows"], canonical["hiddenRows"])
    assert "ecret" not in json.dumps(document)
    assert ["agent:main:secret"] == list(keys(state))


def test_a_preview_is_what_is_done(state: State, fix: Fix) -> None:
    """The same rows with the same actions, and no byte changes."""
    state.add(rows_of("a"), key="agent:main:foo")
    state.add(rows_of("b"), key="agent:main:FOO", session_id=OTHER)
    state.add(rows_of("c"), key="c", session_id=THIRD)
    before = states.everything(state.root)
    planned = fix(state, "--dry-run")
    assert before == states.everything(state.root)

    done = fix(state)

    assert planned["targets"][0]["canonicalised"]["rows"] == done["targets"][0]["canonicalised"]["rows"]
    assert planned["plan"] == done["plan"] != []
    assert (True, False) == (planned["dryRun"], done["dryRun"])
