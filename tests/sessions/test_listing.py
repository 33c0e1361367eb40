"""`sessions list` on stores that this program wrote: order, bounds, what is never shown."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import apsw
import pytest

from openclaw_cli.cli.app import run
from openclaw_cli.storage.connection import create
from openclaw_cli.storage.events import append
from openclaw_cli.storage.sessions import write_entry

NOW_MS = 1_800_000_000_000
Lister = Callable[..., Any]


def store_path(state: Path, agent: str = "main") -> Path:
    """Where the store of an agent is."""
    return state / "agents" / agent / "agent/openclaw-agent.sqlite"


def fill(state: Path, entries: dict[str, dict[str, Any]], agent: str = "main") -> Path:
    """A store with these entries; `sessionId` and `updatedAt` have defaults."""
    path = store_path(state, agent)
    with create(path, agent_id=agent, now_ms=NOW_MS) as store, store.transaction():
        for number, (key, entry) in enumerate(entries.items()):
            whole = {"sessionId": f"s{number}", "updatedAt": NOW_MS - 60_000 * (number + 1), **entry}
            write_entry(store, f"agent:{agent}:{key}", whole, now_ms=NOW_MS)
    return path


@pytest.fixture
def listed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Lister:
    """Run `sessions ARGS --json` on the test's state directory and parse the document."""

    def call(*argv: str, status: int = 0) -> Any:
        assert status == run(["sessions", *argv, "--json", "--state-dir", str(tmp_path), "--now", str(NOW_MS)])
        return json.loads(capsys.readouterr().out)

    return call


def keys(document: Any) -> list[str]:
    """The keys of a listing, without their agent."""
    return [session["key"].split(":", 2)[2] for session in document["sessions"]]


def test_newest_first_and_pinned_before(tmp_path: Path, listed: Lister) -> None:
    """Pinned sessions come first; both parts are newest first, equal times by key."""
    fill(tmp_path, {"old": {"updatedAt": 1}, "new": {"updatedAt": 9}, "b": {"updatedAt": 5}, "a": {"updatedAt": 5},
                    "pin1": {"updatedAt": 2, "pinnedAt": 7}, "pin2": {"updatedAt": 3, "pinnedAt": 6}})  # fmt: skip

    assert ["pin2", "pin1", "new", "a", "b", "old"] == keys(listed())


def test_archived_are_hidden_and_counted(tmp_path: Path, listed: Lister, capsys: pytest.CaptureFixture[str]) -> None:
    """Left out by default with a line that says so; `--archived` shows all, `--archived=only` those alone."""
    fill(tmp_path, {"a": {}, "b": {"archivedAt": 5, "pinnedAt": 5}, "c": {}})

    document = listed()
    assert (["a", "c"], 2, 1) == (keys(document), document["totalCount"], document["archivedNotShown"])
    document = listed("--archived")
    assert (["a", "b", "c"], 3, 0) == (keys(document), document["totalCount"], document["archivedNotShown"])
    assert ["b"] == keys(listed("--archived=only"))
    assert ["b"] == keys(listed("--archived", "only"))
    run(["sessions", "--state-dir", str(tmp_path)])
    assert "1 archived not shown (--archived)" in capsys.readouterr().out.splitlines()


def test_bounds(tmp_path: Path, listed: Lister) -> None:
    """A limit, `all`, and minutes; the document says what was left out, in OpenClaw's keys."""
    fill(tmp_path, {f"k{number}": {} for number in range(5)})

    document = listed("--limit", "2")
    assert ["k0", "k1"] == keys(document)
    head = {name: document[name] for name in ("count", "totalCount", "limitApplied", "hasMore", "activeMinutes")}
    assert {"count": 2, "totalCount": 5, "limitApplied": 2, "hasMore": True, "activeMinutes": None} == head
    document = listed("--limit", "all", "--active", "3")
    assert ["k0", "k1", "k2"] == keys(document)
    assert (None, False, 3) == (document["limitApplied"], document["hasMore"], document["activeMinutes"])


def test_some_rows_are_never_listed(tmp_path: Path, listed: Lister) -> None:
    """Internal effects, incognito and unfinished rows are counted only; a key that merely looks like one is shown."""
    fill(tmp_path, {"a": {}, "internal-session-effects:x": {}, "dashboard:incognito-1": {}, "b": {"incognito": True},
                    "c": {"initializationPending": True}, "d": {"incognito": False, "note": '"incognito"'},
                    "chat:internal-session-effects:x": {}})  # fmt: skip

    document = listed("--archived")
    assert ["a", "d", "chat:internal-session-effects:x"] == keys(document)
    assert (3, 4) == (document["totalCount"], document["withheld"])


def test_generations(tmp_path: Path, listed: Lister) -> None:
    """Older windows of a key are listed newest first with their events; without the switch they are not looked at."""
    path = fill(tmp_path, {"a": {"sessionId": "first", "updatedAt": 10}})
    from openclaw_cli.storage.connection import open_write

    with open_write(path, agent_id="main") as store, store.transaction():
        lines = [b'{"type":"session","version":3,"id":"first","timestamp":"2026-01-01T00:00:00.000Z","cwd":""}']
        append(store, "agent:main:a", "first", [(line, json.loads(line)) for line in lines], now_ms=NOW_MS)
        write_entry(store, "agent:main:a", {"sessionId": "second", "updatedAt": 20}, now_ms=NOW_MS, reason="reset")

    assert "generations" not in listed()["sessions"][0]
    session = listed("--generations")["sessions"][0]
    assert ("second", 0) == (session["sessionId"], session["events"])
    assert [("first", 1)] == [(window["sessionId"], window["events"]) for window in session["generations"]]


def test_several_stores_are_merged(tmp_path: Path, listed: Lister) -> None:
    """`--all-agents` gives one order over all stores, names them, and bounds the whole."""
    fill(tmp_path, {"a": {"updatedAt": 1}, "c": {"updatedAt": 3}})
    fill(tmp_path, {"b": {"updatedAt": 2}, "p": {"updatedAt": 0, "pinnedAt": 1}}, "work")

    document = listed("--all-agents", "--limit", "3")
    assert (["p", "c", "b"], 4) == (keys(document), document["totalCount"])
    assert (None, True) == (document["path"], document["allAgents"])
    assert ["main", "work"] == [store["agentId"] for store in document["stores"]]
    assert ["work", "main", "work"] == [session["agentId"] for session in document["sessions"]]


def test_nothing_there(tmp_path: Path, listed: Lister, capsys: pytest.CaptureFixture[str]) -> None:
    """An empty state lists nothing and is no failure; a selector that matches nothing is one."""
    document = listed()
    assert (0, 0, []) == (document["count"], document["totalCount"], document["sessions"])
    for argv in (["--agent", "x"], ["--all-agents"], ["--store", str(tmp_path / "x.sqlite")]):
        assert "not_found" == listed(*argv, status=10)["error"]["code"]
    fill(tmp_path, {"a": {}}, "work")
    assert 0 == run(["sessions", "--state-dir", str(tmp_path)])
    shown = capsys.readouterr()
    assert "No sessions found." in shown.out
    assert "work (--all-agents)" in shown.err


def test_a_store_that_was_not_imported_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A file-era index alone lists nothing and says what to do."""
    index = tmp_path / "agents/main/sessions/sessions.json"
    index.parent.mkdir(parents=True)
    index.write_text("{}")

    assert 0 == run(["sessions", "--store", str(index)])
    assert "doctor import" in capsys.readouterr().err


def test_lines(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """`--ndjson`: one object per session, the summary last."""
    fill(tmp_path, {"a": {}, "b": {}})

    assert 0 == run(["sessions", "--ndjson", "--state-dir", str(tmp_path)])
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert ["session", "session", "summary"] == [line["type"] for line in lines]
    assert 2 == lines[-1]["count"]


@pytest.mark.parametrize("version", [22, 24])
def test_another_schema_is_read_and_named_once(
    tmp_path: Path, version: int, capsys: pytest.CaptureFixture[str]
) -> None:
    """A store of a newer or older schema is listed; stderr says its version once."""
    path = fill(tmp_path, {"a": {}, "b": {}})
    change(path, f"PRAGMA user_version={version}")

    assert 0 == run(["sessions", "--json", "--state-dir", str(tmp_path)])
    shown = capsys.readouterr()
    assert 2 == json.loads(shown.out)["count"]
    assert 1 == shown.err.count(f"schema {version}")


def test_columns_that_are_not_there_are_read_from_the_entry(tmp_path: Path, listed: Lister) -> None:
    """Archived and pinned work without their columns."""
    path = fill(tmp_path, {"a": {}, "p": {"pinnedAt": 5}, "x": {"archivedAt": 5}})
    change(
        path,
        "PRAGMA legacy_alter_table=ON",
        "CREATE TABLE other AS SELECT session_key, current_session_id, entry_json, updated_at FROM session_nodes",
        "DROP TABLE session_nodes",
        "ALTER TABLE other RENAME TO session_nodes",
        "PRAGMA user_version=20",
    )

    document = listed()
    assert (["p", "a"], 1) == (keys(document), document["archivedNotShown"])


def test_a_row_that_is_no_entry_is_shown_and_is_an_error(
    tmp_path: Path, listed: Lister, capsys: pytest.CaptureFixture[str]
) -> None:
    """Its columns are listed, the key is named on stderr, the status is 3."""
    path = fill(tmp_path, {"a": {}, "b": {}})
    change(path, "UPDATE session_nodes SET entry_json = '[1]' WHERE session_key = 'agent:main:b'",
           "UPDATE session_nodes SET entry_valid = 1")  # fmt: skip

    assert ["a", "b"] == keys(listed(status=3))
    run(["sessions", "--state-dir", str(tmp_path)])
    assert "agent:main:b" in capsys.readouterr().err


def test_control_characters_of_a_key_do_not_reach_the_terminal(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A stored label cannot act on the terminal, in text and in JSON."""
    fill(tmp_path, {"a": {"label": "\x1b[2Jx\x9b\u202e"}})

    for argv in ([], ["--json"]):
        run(["sessions", *argv, "--state-dir", str(tmp_path)])
        assert not set("\x1b\x9b\u202e") & set(capsys.readouterr().out)


def test_a_listing_changes_no_file(tmp_path: Path, listed: Lister) -> None:
    """Every file of the state directory is as it was, apart from what SQLite keeps beside a database."""
    fill(tmp_path, {"a": {}, "b": {"archivedAt": 1}})
    before = digests(tmp_path)
    listed("--generations", "--archived")

    assert before == digests(tmp_path)


def test_no_json_of_hidden_rows_is_parsed(tmp_path: Path, listed: Lister, monkeypatch: pytest.MonkeyPatch) -> None:
    """Entries are parsed for rows that are shown, and for those only."""
    from openclaw_cli.sessions import listing

    fill(tmp_path, {f"k{number}": {} for number in range(50)})
    parsed: list[bytes] = []
    genuine = listing.parse
    monkeypatch.setattr(listing, "parse", lambda text: parsed.append(text) or genuine(text))
    listed("--limit", "3")

    assert 3 == len(parsed)


def change(path: Path, *statements: str) -> None:
    """Change a store behind the program's back."""
    connection = apsw.Connection(str(path))
    for statement in statements:
        connection.execute(statement)
    connection.close()


def digests(state: Path) -> dict[str, str]:
    """Hash of every file but SQLite's shared memory and empty logs."""
    return {
        str(path.relative_to(state)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in state.rglob("*")
        if path.is_file()
        and not path.name.endswith("-shm")
        and not (path.name.endswith("-wal") and not path.stat().st_size)
    }
