"""Downgrade and re-upgrade: what both sides wrote meanwhile is kept, nothing twice, nothing overwritten in silence."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from openclaw_cli.storage import connection, events, sessions, verify

NOW = 1_796_000_000_000
SESSION = "00000abc-0000-4000-8000-000000000002"
KEY = "agent:main:telegram:group:-100123"
DATABASE = "agents/main/agent/openclaw-agent.sqlite"


def row(ident: str, parent: str | None, at: str) -> dict[str, Any]:
    """A turn."""
    message = {"role": "user", "content": f"turn {ident}"}
    return {"type": "message", "id": ident, "parentId": parent, "timestamp": at, "message": message}


@pytest.fixture
def doctor(run_cli: Callable[..., Any]) -> Callable[..., tuple[int, dict[str, Any]]]:
    def run(mode: str, state: Path, *options: str) -> tuple[int, dict[str, Any]]:
        outcome = run_cli("doctor", mode, "--state-dir", state, "--agent", "main", "--json", *options)
        return outcome.status, json.loads(outcome.stdout)

    return run


@pytest.fixture
def downgraded(state_copy: Callable[[str], Path], doctor: Any) -> Path:
    """Imported and restored: the files are back, the database is still there."""
    state = state_copy("10-s2-legacy")
    doctor("import", state)
    doctor("restore", state)
    return state


def write_stored(state: Path, ident: str, parent: str) -> None:
    """A turn that only the database gets."""
    value = row(ident, parent, "2026-09-22T00:00:00.000Z")
    with connection.open_write(state / DATABASE, agent_id="main") as store, store.transaction():
        events.append(store, KEY, SESSION, [(json.dumps(value).encode(), value)], now_ms=NOW)


def write_file(state: Path, ident: str, parent: str) -> None:
    """A turn that the older runtime appends, and its index row."""
    place = state / "agents/main/sessions"
    with (place / f"{SESSION}.jsonl").open("ab") as file:
        file.write(json.dumps(row(ident, parent, "2026-09-23T00:00:00.000Z")).encode() + b"\n")
    edit_index(state, {KEY: {"updatedAt": NOW}})


def edit_index(state: Path, changes: dict[str, dict[str, Any]]) -> None:
    path = state / "agents/main/sessions/sessions.json"
    index = json.loads(path.read_bytes())
    for key, change in changes.items():
        # The index of an old runtime has the key in its own spelling.
        (stated,) = [one for one in index if one == key] or [key]
        index[stated] = {**index.get(stated, {}), **change}
    path.write_text(json.dumps(index))


def stored(state: Path) -> tuple[dict[str, list[Any]], list[str]]:
    """Session → ids of its events, and the active path of the session of these tests; the store is sound."""
    with connection.open_read(state / DATABASE, temporary_tables=True) as store:
        assert [] == verify.integrity(store)
        assert [] == list(verify.verify(store))
        found = store.execute("SELECT session_id FROM session_windows ORDER BY 1").fetchall()
        ids = {one: [json.loads(text).get("id") for _, text in events.stream(store, one)] for (one,) in found}
        active = store.execute(
            "SELECT event_id FROM session_transcript_active_events AS a JOIN transcript_event_identities AS i"
            " ON i.session_id = a.session_id AND i.seq = a.event_seq WHERE a.session_id = ? ORDER BY active_position",
            (SESSION,),
        ).fetchall()
        return ids, [one for (one,) in active]


def codes(document: dict[str, Any]) -> list[str]:
    return sorted(issue["code"] for issue in document["targets"][0]["issues"])


def test_new_turns_of_the_older_runtime_come_in(downgraded: Path, doctor: Any) -> None:
    """Only the file moved on: its turns continue the session; the second import adds nothing."""
    before, _ = stored(downgraded)
    write_file(downgraded, "old1", "b2")
    write_file(downgraded, "old2", "old1")
    _, report = doctor("import", downgraded)
    after, active = stored(downgraded)
    assert [*before[SESSION], "old1", "old2"] == after[SESSION]
    assert ["b1", "b2", "old1", "old2"] == active
    assert "both_sides_kept" not in codes(report)
    assert {**before, SESSION: after[SESSION]} == after
    doctor("restore", downgraded)
    assert 0 == doctor("import", downgraded)[1]["totals"]["importedTranscriptEvents"]
    assert after == stored(downgraded)[0]


def test_turns_of_both_sides_are_branches(downgraded: Path, doctor: Any) -> None:
    """Both have the same parent; nothing is lost, and it is said; a dry run says the same."""
    write_stored(downgraded, "new1", "b2")
    write_file(downgraded, "old1", "b2")
    _, previewed = doctor("dry-run", downgraded)
    _, report = doctor("import", downgraded)
    ids, active = stored(downgraded)
    assert ["new1", "old1"] == ids[SESSION][-2:]
    assert ["b1", "b2", "old1"] == active
    (issue,) = [issue for issue in report["targets"][0]["issues"] if issue["code"] == "both_sides_kept"]
    assert (KEY, 1, 1, "warning") == (
        issue["sessionKey"],
        issue["onlyStored"],
        issue["onlyInTranscript"],
        issue["severity"],
    )
    assert codes(previewed) == codes(report)
    _, checked = doctor("validate", downgraded)
    assert "event_id_conflict" not in codes(checked)
    assert "sqlite_entry_mismatch" not in codes(checked)


def test_turns_of_the_store_alone_stay_the_active_branch(downgraded: Path, doctor: Any) -> None:
    """The restored file is older than the store: the import takes nothing from it and moves nothing back."""
    write_stored(downgraded, "new1", "b2")
    _, report = doctor("import", downgraded)
    ids, active = stored(downgraded)
    assert ["b1", "b2", "new1"] == active
    assert "new1" == ids[SESSION][-1]
    assert 0 == report["totals"]["importedTranscriptEvents"]


def test_sessions_that_the_older_runtime_began_and_reset(downgraded: Path, doctor: Any) -> None:
    """A new key comes in; a key that leads to a new id keeps the old session as history."""
    place = downgraded / "agents/main/sessions"
    fresh, reset = "99999999-0000-4000-8000-000000000001", "99999999-0000-4000-8000-000000000002"
    for session_id in (fresh, reset):
        header = {"type": "session", "version": 3, "id": session_id, "timestamp": "2026-09-23T00:00:00.000Z", "cwd": ""}
        turn = row("n1", None, "2026-09-23T00:00:01.000Z")
        (place / f"{session_id}.jsonl").write_text(json.dumps(header) + "\n" + json.dumps(turn) + "\n")
    edit_index(
        downgraded,
        {
            "agent:main:explicit:fresh": {"sessionId": fresh, "updatedAt": NOW},
            KEY: {"sessionId": reset, "updatedAt": NOW, "sessionFile": None},
        },
    )
    before, _ = stored(downgraded)
    doctor("import", downgraded)
    after, _ = stored(downgraded)
    assert before == {session_id: ids for session_id, ids in after.items() if session_id in before}
    with connection.open_read(downgraded / DATABASE) as store:
        current = dict(store.execute("SELECT session_key, current_session_id FROM session_nodes").fetchall())
        owners = dict(store.execute("SELECT session_id, session_key FROM session_windows").fetchall())
    assert (fresh, reset) == (current["agent:main:explicit:fresh"], current[KEY])
    assert {KEY} == {owners[SESSION], owners[reset]}


def test_an_older_index_row_does_not_win(downgraded: Path, doctor: Any) -> None:
    """The store's key was reset meanwhile; the restored index still names the old session."""
    newer = "99999999-0000-4000-8000-000000000003"
    with connection.open_write(downgraded / DATABASE, agent_id="main") as store, store.transaction():
        text = store.value("SELECT entry_json FROM session_nodes WHERE session_key = ?", (KEY,))
        entry = {**json.loads(text), "sessionId": newer, "updatedAt": NOW}
        sessions.write_entry(store, KEY, entry, now_ms=NOW, reason="reset")
    _, report = doctor("import", downgraded)
    with connection.open_read(downgraded / DATABASE) as store:
        assert newer == store.value("SELECT current_session_id FROM session_nodes WHERE session_key = ?", (KEY,))
    assert "stale_index" in codes(report)


def test_a_second_restore_gives_back_what_the_older_runtime_wrote(downgraded: Path, doctor: Any) -> None:
    """Byte for byte, the turns that it wrote among them."""
    write_stored(downgraded, "new1", "b2")
    write_file(downgraded, "old1", "b2")
    place = downgraded / "agents/main/sessions"

    def files() -> dict[str, str]:
        return {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in place.iterdir()}

    before = files()
    doctor("import", downgraded)
    _, report = doctor("restore", downgraded)
    assert before == files()
    assert 0 == report["totals"]["conflicts"]
