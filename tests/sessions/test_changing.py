"""`sessions archive … unread`, `delete`, `undelete`, and `archives`: changes of sessions by their keys."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import archived_states as states
import legacy_state as legacy
import pytest

from openclaw_cli.storage import connection, events, removal, trajectories, verify
from openclaw_cli.storage.sessions import write_entry

NOW_MS = legacy.BASE_MS + 1_000_000
KEYS = ("agent:main:main", "agent:main:explicit:a", "agent:main:subagent:s", "agent:main:hook:h")
Run = Callable[..., tuple[int, Any]]


def pairs(rows: list[Any]) -> list[tuple[bytes, Any]]:
    """Events as they are appended."""
    return [(json.dumps(row, separators=(",", ":")).encode(), row) for row in rows]


@pytest.fixture
def state(tmp_path: Path) -> Path:
    """Four keys; `explicit:a` has history, a trajectory, and events that are there twice."""
    made = tmp_path / "state"
    (made / "agents/main/sessions").mkdir(parents=True)
    (made / "openclaw.json").write_text("{}")
    path = made / "agents/main/agent/openclaw-agent.sqlite"
    with connection.create(path, agent_id="main", now_ms=NOW_MS) as store, store.transaction():
        for number, key in enumerate(KEYS, 1):
            session_id = legacy.sid(number)
            entry = {"sessionId": session_id, "updatedAt": NOW_MS - number, "sessionStartedAt": NOW_MS - 500}
            write_entry(store, key, {**entry, "label": f"label {number}"}, now_ms=NOW_MS)
            events.append(store, key, session_id, pairs(legacy.turns(session_id, 4)), now_ms=NOW_MS)
        old = legacy.sid(20)
        events.append(store, KEYS[1], old, pairs(legacy.turns(old, 3)), now_ms=NOW_MS - 9000)
        odd = {"type": "custom", "customType": "x", "data": {"n": 1}}
        events.append(store, KEYS[1], legacy.sid(2), pairs([odd, odd]), now_ms=NOW_MS, exact=True)
        trajectories.insert(store, legacy.sid(2), pairs([{"type": "tool", "runId": "r"}]), file_ms=NOW_MS)
    return made


@pytest.fixture
def run(state: Path, run_cli: Callable[..., Any]) -> Run:
    """Run a command on the state with --json; gives (status, document)."""

    def call(*words: str, now_ms: int = NOW_MS) -> tuple[int, Any]:
        done = run_cli(*words, "--state-dir", state, "--now", str(now_ms), "--json")
        return done.status, json.loads(done.stdout)

    return call


def database(state: Path) -> Path:
    return state / "agents/main/agent/openclaw-agent.sqlite"


def entry(state: Path, key: str) -> dict[str, Any]:
    """The entry of a key; the store is whole."""
    with connection.open_read(database(state), temporary_tables=True) as store:
        assert [] == [*verify.integrity(store), *verify.verify(store)]
        text = store.value("SELECT entry_json FROM session_nodes WHERE session_key = ?", (key,))
    return json.loads(text)


def everything(state: Path) -> dict[str, Any]:
    """Rows, events, trajectories and windows of every session."""
    with connection.open_read(database(state), temporary_tables=True) as store:
        assert [] == [*verify.integrity(store), *verify.verify(store)]
        ids = [each for (each,) in store.execute("SELECT session_id FROM session_windows ORDER BY 1").fetchall()]
        return {
            "rows": dict(store.execute("SELECT session_key, entry_json FROM session_nodes").fetchall()),
            "owner": dict(store.execute("SELECT session_id, session_key FROM session_windows").fetchall()),
            "events": {each: list(events.stream(store, each)) for each in ids},
            "trajectories": {each: list(trajectories.stream(store, each)) for each in ids},
            "windows": {each: removal.window_values(store, each) for each in ids},
        }


def test_marks(state: Path, run: Run) -> None:
    """Each verb does what `sessions.patch` of the real program does to the row, says what there was nothing to do."""
    key = KEYS[1]
    before = entry(state, key)
    assert "pinned" == run("sessions", "pin", key)[1]["results"][0]["status"]
    assert NOW_MS == entry(state, key)["pinnedAt"]
    assert "already_pinned" == run("sessions", "pin", key)[1]["results"][0]["status"]

    assert "archived" == run("sessions", "archive", key, now_ms=NOW_MS + 5)[1]["results"][0]["status"]
    archived = entry(state, key)
    assert (NOW_MS + 5, "manual", NOW_MS + 5) == tuple(
        archived[n] for n in ("archivedAt", "archiveReason", "updatedAt")
    )
    assert "pinnedAt" not in archived
    assert 12 == run("sessions", "pin", key)[0]
    assert "already_archived" == run("sessions", "archive", key)[1]["results"][0]["status"]

    assert "unarchived" == run("sessions", "unarchive", key)[1]["results"][0]["status"]
    assert "not_archived" == run("sessions", "unarchive", key)[1]["results"][0]["status"]
    assert "unread" == run("sessions", "unread", key)[1]["results"][0]["status"]
    assert NOW_MS == entry(state, key)["markedUnreadAt"]
    assert "read" == run("sessions", "read", key, now_ms=NOW_MS + 9)[1]["results"][0]["status"]
    after = entry(state, key)
    assert {**before, "updatedAt": NOW_MS + 9, "lastReadAt": NOW_MS + 9} == after


def test_several_keys_in_their_order(state: Path, run: Run) -> None:
    """One that is not there and one that may not are told; the others are done; the highest status counts."""
    status, document = run("sessions", "archive", "agent:main:no", KEYS[1], "main", KEYS[3])

    assert 12 == status
    assert ["not_found", "archived", "failed", "archived"] == [one["status"] for one in document["results"]]
    assert not document["ok"] and "cli_error" == document["error"]["type"]
    assert 10 == run("sessions", "unarchive", "agent:main:no", KEYS[1])[0]


def test_a_dry_run_changes_nothing(state: Path, run: Run) -> None:
    """Of any of them."""
    before = states.everything(state)
    for verb in ("archive", "pin", "read", "unread", "delete"):
        status, document = run("sessions", verb, KEYS[1], "--dry-run")
        assert (0, True) == (status, document["dryRun"])
        assert document["results"][0]["status"].startswith("would_")
    assert before == states.everything(state)


def test_delete_asks(state: Path, run: Run) -> None:
    """Off a terminal --yes is needed; the main session stays, and what claims to run."""
    assert 2 == run("sessions", "delete", KEYS[1])[0]
    assert 12 == run("sessions", "delete", KEYS[0], "--yes")[0]
    with connection.open_write(database(state), agent_id="main") as store, store.transaction():
        write_entry(store, KEYS[3], {**entry(state, KEYS[3]), "status": "running", "updatedAt": NOW_MS}, now_ms=NOW_MS)
    assert 12 == run("sessions", "delete", KEYS[3], "--yes")[0]
    assert 0 == run("sessions", "delete", KEYS[3], "--yes", "--force")[0]


@pytest.mark.parametrize("elsewhere", [False, True])
def test_undelete_brings_back_what_was_deleted(state: Path, run: Run, tmp_path: Path, elsewhere: bool) -> None:
    """Rows, events, trajectory, history and its times; the archive stays, and is found by key wherever it is."""
    before = everything(state)
    more = ("--archive-dir", str(tmp_path / "elsewhere")) if elsewhere else ()

    status, document = run("sessions", "delete", *KEYS[1:], "--yes", *more)
    assert 0 == status
    assert 5 == sum(len(one["archived"]) for one in document["results"])
    left = everything(state)
    assert {KEYS[0]} == set(left["rows"])
    assert (0, 0) == (run("archives", "verify")[0], run("archives", "verify")[1]["totals"]["failed"])

    status, document = run("sessions", "undelete", *KEYS[1:], now_ms=NOW_MS + 1)
    assert 0 == status, document
    after = everything(state)
    for part in ("rows", "owner", "events", "trajectories"):
        assert before[part] == after[part], part
    drop = ("transcript_observed_at", "transcript_updated_at")
    for each, window in before["windows"].items():
        assert {k: v for k, v in window.items() if k not in drop} == {
            k: v for k, v in after["windows"][each].items() if k not in drop
        }
    assert 5 == run("archives", "list")[1]["totals"]["archives"]
    # Nothing is written over what is there.
    status, document = run("sessions", "undelete", KEYS[1])
    assert (12, "failed") == (status, document["results"][0]["status"])
    assert after == everything(state)


def test_undelete_by_id_and_by_archive(state: Path, run: Run) -> None:
    """An id, a path; what comes back to a key that is in use again is its history."""
    _, document = run("sessions", "delete", KEYS[3], "--yes")
    (path,) = document["results"][0]["archived"]
    with connection.open_write(database(state), agent_id="main") as store, store.transaction():
        new = {"sessionId": legacy.sid(30), "updatedAt": NOW_MS, "sessionStartedAt": NOW_MS}
        write_entry(store, KEYS[3], new, now_ms=NOW_MS)

    status, document = run("sessions", "undelete", path)

    assert (0, False) == (status, document["results"][0]["current"])
    assert legacy.sid(30) == entry(state, KEYS[3])["sessionId"]
    assert KEYS[3] == everything(state)["owner"][legacy.sid(4)]
    assert 10 == run("sessions", "undelete", "nobody")[0]
    assert 12 == run("sessions", "undelete", legacy.sid(4))[0]


def test_an_archive_of_the_real_program_comes_back(state: Path, run: Run) -> None:
    """It has no note: the key is that of the store's row, and a minimal row is made."""
    _, document = run("sessions", "delete", KEYS[3], "--yes")
    (path,) = map(Path, document["results"][0]["archived"])
    import zstandard

    text = zstandard.ZstdDecompressor().stream_reader(path.read_bytes()).read()
    packed = zstandard.ZstdCompressor(level=3, write_content_size=False).compress(text)
    path.write_bytes(packed)
    with connection.open_write(database(state), agent_id="main") as store, store.transaction():
        store.execute(
            "UPDATE session_transcript_archives SET archive_blob = ?, archive_sha256 = ?",
            (packed, states.hashlib.sha256(packed).hexdigest()),
        )

    assert 0 == run("archives", "verify")[0]
    status, document = run("sessions", "undelete", legacy.sid(4))

    assert 0 == status, document
    found = entry(state, KEYS[3])
    assert (legacy.sid(4), legacy.BASE_MS) == (found["sessionId"], found["sessionStartedAt"])
    assert 5 == len(everything(state)["events"][legacy.sid(4)])


def test_a_row_without_file(state: Path, run: Run) -> None:
    """The copy in the store is enough."""
    before = everything(state)
    _, document = run("sessions", "delete", KEYS[3], "--yes")
    for path in document["results"][0]["archived"]:
        Path(path).unlink()

    status, listed = run("archives", "verify")
    assert 0 == status
    assert ["archive_file_missing"] == [issue["code"] for issue in listed["issues"]]
    assert 0 == run("sessions", "undelete", KEYS[3])[0]
    assert before["events"] == everything(state)["events"]


@pytest.mark.parametrize("damage", ["flip", "cut", "note"])
def test_a_damaged_archive(state: Path, run: Run, tmp_path: Path, damage: str) -> None:
    """Verify gives 13 and names it, the others are verified; undelete writes nothing."""
    place = tmp_path / "elsewhere"
    run("sessions", "delete", KEYS[2], KEYS[3], "--yes", "--archive-dir", str(place))
    path = next(path for path in place.iterdir() if path.name.startswith(legacy.sid(4)))
    data = bytearray(path.read_bytes())
    if damage == "cut":
        del data[len(data) // 3 :]
    else:
        data[len(data) // 3 if damage == "flip" else -5] ^= 0xFF
    path.write_bytes(data)
    before = everything(state)

    status, document = run("archives", "verify")

    assert (13, 1, 2) == (status, document["totals"]["failed"], document["totals"]["archives"])
    assert {path.name} == {issue["archive"] for issue in document["issues"]}
    assert 13 == run("sessions", "undelete", legacy.sid(4))[0]
    assert before == everything(state)


def test_prune(state: Path, run: Run, tmp_path: Path) -> None:
    """Only what is old, with SHA-256 in report and audit, from the store and elsewhere; a preview changes nothing."""
    run("sessions", "delete", KEYS[2], "--yes")
    run("sessions", "delete", KEYS[3], "--yes", "--archive-dir", str(tmp_path / "elsewhere"))
    day = 86_400_000

    assert 2 == run("archives", "prune")[0]
    assert 0 == run("archives", "prune", "--older-than", "1h")[1]["totals"]["pruned"]
    everything_there = states.everything(state)
    status, plan = run("archives", "prune", "--older-than", "1h", now_ms=NOW_MS + 2 * day)
    assert (0, True, 2) == (status, plan["dryRun"], plan["totals"]["pruned"])
    assert everything_there == states.everything(state)
    _, done = run("archives", "prune", "--older-than", "1h", "--enforce", now_ms=NOW_MS + 2 * day)

    assert plan["archives"] == done["archives"]
    assert [] == [*state.glob("agents/main/sessions/*.zst"), *(tmp_path / "elsewhere").iterdir()]
    assert 0 == run("archives", "list")[1]["totals"]["archives"]
    audit = [json.loads(line) for line in (state / "openclaw-cli/audit.jsonl").read_bytes().splitlines()]
    gone = {line["sha256"] for line in audit if line["event"] == "archive-removed"}
    assert {one["sha256"] for one in done["archives"]} == gone


def test_deleting_and_bringing_back_at_random(state: Path, run: Run) -> None:
    """Any order of deletions and returns ends in the events that there were."""
    before = everything(state)
    chance = random.Random(7)
    gone: set[str] = set()
    for number in range(12):
        key = chance.choice(KEYS[1:])
        verb = "undelete" if key in gone else "delete"
        status, _ = run("sessions", verb, key, *(("--yes",) if verb == "delete" else ()), now_ms=NOW_MS + number)
        assert 0 == status
        gone ^= {key}
    if gone:
        assert 0 == run("sessions", "undelete", *sorted(gone), now_ms=NOW_MS + 99)[0]
    after = everything(state)
    assert before["events"] == after["events"] and before["rows"] == after["rows"]
