"""`sessions fork KEY --repair`: a successor that OpenClaw goes on with; the stored session stays as it is."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import archived_states as states
import conversations as talk
import pytest
from store_states import KEY, NOW_MS, SESSION, State

from openclaw_cli.faults import Step
from openclaw_cli.sessions import forking
from openclaw_cli.storage import connection, events, verify

UUID7 = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}\Z")
AT = "2026-08-06T07:06:40.000Z"


@pytest.fixture
def state(tmp_path: Path) -> State:
    """An empty state directory."""
    return State(tmp_path / "state")


@pytest.fixture
def fork(run_cli: Callable[..., Any]) -> Callable[..., dict[str, Any]]:
    """Run the repair with `--json`; gives the document."""

    def run(state: State, *options: str, key: str = KEY, status: int = 0) -> dict[str, Any]:
        words = ("--repair", "--state-dir", state.root, "--json", "--now", str(NOW_MS + 5000))
        done = run_cli("sessions", "fork", key, *words, *options)
        assert status == done.status, done.stderr + done.stdout
        return json.loads(done.stdout)

    return run


def story() -> list[Any]:
    """Header and four entries."""
    made = talk.Conversation()
    made.user("one")
    made.says()
    made.user("two")
    made.says()
    return made.rows


def stored(state: State, session_id: str) -> list[Any]:
    """The events of a session."""
    with connection.open_read(state.database) as store:
        return [json.loads(text) for _, text in events.stream(store, session_id)]


def assert_sound(state: State, old: str, new: str, *, history: int = 1) -> None:
    """The key goes on with the successor, the old session is its history, all columns and projections follow."""
    with connection.open_read(state.database, temporary_tables=True) as store:
        assert [] == [*verify.integrity(store), *verify.verify(store)]
        sql = "SELECT current_session_id, json_extract(entry_json, '$.previousSessionId') FROM session_nodes"
        assert [(new, old)] == store.execute(sql).fetchall()
        windows = store.execute("SELECT session_id, session_key, reason, previous_session_id FROM session_windows")
        found = {row[0]: row[1:] for row in windows.fetchall()}
        assert (KEY, "recovery", old) == found[new]
        assert KEY == found[old][0]
        assert history + 1 == len(found)


@pytest.mark.parametrize("version", [1, 2, None])
def test_an_old_header(state: State, fork: Callable[..., Any], version: int | None) -> None:
    """Header 4 with a new id, everything else of the header and all entries as they were."""
    rows = story()
    header = {name: value for name, value in rows[0].items() if name != "version"} | {"extra": 1}
    state.add([header if version is None else {**header, "version": version}, *rows[1:]], label="mine")
    before = stored(state, SESSION)

    document = fork(state)

    new = document["successorSessionId"]
    assert UUID7.match(new)
    assert (True, 4, 5, 0) == tuple(document[k] for k in ("repaired", "headerVersion", "events", "parentsMended"))
    found = stored(state, new)
    assert {**before[0], "version": 4, "id": new} == found[0]
    assert before[1:] == found[1:]
    assert before == stored(state, SESSION)
    assert_sound(state, SESSION, new)


def test_no_header(state: State, fork: Callable[..., Any]) -> None:
    """One is made; entries that have ids and parents keep them."""
    state.add(story()[1:])

    document = fork(state)

    assert [{"code": "header_missing", "count": 1}] == document["needs"]
    found = stored(state, document["successorSessionId"])
    assert ("session", 4, "") == (found[0]["type"], found[0]["version"], found[0]["cwd"])
    assert story()[1:] == found[1:]
    assert_sound(state, SESSION, document["successorSessionId"])


def test_rows_of_version_1_get_ids_and_parents(state: State, fork: Callable[..., Any]) -> None:
    """As an import gives them: a chain."""
    rows = [{name: value for name, value in row.items() if name not in ("id", "parentId")} for row in story()[1:]]
    state.add([{"type": "session", "id": SESSION, "timestamp": AT, "cwd": "/w"}, *rows])

    found = stored(state, fork(state)["successorSessionId"])

    assert [None, *(row["id"] for row in found[1:-1])] == [row["parentId"] for row in found[1:]]
    assert 5 == len({row["id"] for row in found})


def test_parents_that_are_not_there(state: State, fork: Callable[..., Any]) -> None:
    """Each such entry follows the one that readers go on from; the model sees the same entries as before."""
    rows = story()
    rows[1] = {**rows[1], "parentId": "gone-1"}
    rows[3] = {**rows[3], "parentId": "gone-2"}
    state.add(rows)
    active = _active(state, SESSION)

    document = fork(state)

    assert ([{"code": "parent_missing", "count": 2}], 2) == (document["needs"], document["parentsMended"])
    found = stored(state, document["successorSessionId"])
    assert [None, *(row["id"] for row in found[1:-1])] == [row["parentId"] for row in found[1:]]
    assert active == _active(state, document["successorSessionId"])
    assert_sound(state, SESSION, document["successorSessionId"])


def _active(state: State, session_id: str) -> list[int]:
    sql = "SELECT event_seq FROM session_transcript_active_events WHERE session_id = ? ORDER BY 1"
    with connection.open_read(state.database) as store:
        return [seq for (seq,) in store.execute(sql, (session_id,)).fetchall()]


def test_marks_of_hidden_context_keep_version_3(state: State, fork: Callable[..., Any]) -> None:
    """Under version 4 the model would see what was hidden from it."""
    made = talk.Conversation()
    made.user("<<<BEGIN_OPENCLAW_INTERNAL_CONTEXT>>>\nx\n<<<END_OPENCLAW_INTERNAL_CONTEXT>>>\nhello")
    state.add([{**made.rows[0], "version": 2}, *made.rows[1:]])

    assert 3 == fork(state)["headerVersion"]


def test_nothing_is_wrong(state: State, fork: Callable[..., Any]) -> None:
    """Nothing is written; also after a repair."""
    state.add(story())
    before = states.digest(state.database)
    assert (False, "sound") == ((done := fork(state))["repaired"], done["reason"])
    assert before == states.digest(state.database)


def test_a_preview_changes_nothing(state: State, fork: Callable[..., Any]) -> None:
    """It says what is wrong and what would be written."""
    state.add(story()[1:])
    before = states.everything(state.root)

    document = fork(state, "--dry-run")

    assert (True, False, ["header_missing"], 4) == (
        document["dryRun"],
        document["repaired"],
        [need["code"] for need in document["needs"]],
        document["headerVersion"],
    )
    assert before == states.everything(state.root)


@pytest.mark.parametrize(
    ("key", "options", "status"),
    [("agent:main:nobody", (), 10), ("agent:other:main", (), 10), (KEY, ("--agent", "other"), 10), ("", (), 2)],
)
def test_what_is_not_there(
    state: State, run_cli: Callable[..., Any], key: str, options: tuple[str, ...], status: int
) -> None:
    """A key, an agent, nothing at all."""
    state.add(story()[1:])

    assert status == run_cli("sessions", "fork", key, "--repair", "--state-dir", state.root, *options).status


def test_a_running_session_is_left_alone(state: State, run_cli: Callable[..., Any]) -> None:
    """Its run would write into the old one."""
    state.add(story()[1:], status="running")

    done = run_cli("sessions", "fork", KEY, "--repair", "--state-dir", state.root)

    assert 12 == done.status
    assert "goes on" in done.stderr


def test_a_short_name_is_the_key(state: State, fork: Callable[..., Any]) -> None:
    """As OpenClaw's own commands take it."""
    state.add(story()[1:])

    assert KEY == fork(state, key="main")["sessionKey"]


def test_a_cut_repair(state: State, fork: Callable[..., Any]) -> None:
    """Once it is committed, the next run finds nothing to do."""
    state.add(story()[1:])
    code = (
        "import sys; from openclaw_cli import faults; faults.arm(faults.Step(sys.argv[1]));"
        "from openclaw_cli.cli.app import run; sys.exit(run(sys.argv[2:]))"
    )
    words = ("sessions", "fork", KEY, "--repair", "--state-dir", str(state.root))
    done = subprocess.run([sys.executable, "-c", code, Step.SUCCESSOR_WRITTEN, *words], capture_output=True, timeout=60)
    assert -signal.SIGKILL == done.returncode

    document = fork(state)

    assert "sound" == document["reason"]
    assert_sound(state, SESSION, document["sessionId"])


def test_session_ids_are_in_order_of_time() -> None:
    """Version 7 of a UUID: the time first."""
    ids = [forking.session_id_at(NOW_MS + number) for number in range(50)]

    assert ids == sorted(ids)
    assert all(UUID7.match(one) for one in ids)
    assert NOW_MS == int(ids[0][:13].replace("-", ""), 16)
