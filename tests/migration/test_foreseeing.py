"""A dry run says what the import would meet, takes no lock and changes no byte."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import apsw
import pytest

from openclaw_cli import locks
from openclaw_cli.errors import NoSpaceError
from openclaw_cli.migration import importing, previewing
from openclaw_cli.storage.lockfile import Exclusive
from tests.support.legacy_state import BASE_MS, KEY, codes, digests, issues_of, jsonl, make_state, sid, store, turns

HOLD = (
    "import sys, pathlib; from openclaw_cli import locks; from openclaw_cli.storage.lockfile import Exclusive\n"
    "state = pathlib.Path(sys.argv[1])\n"
    "with locks.take(state, config_path=state / 'openclaw.json', take_lock=Exclusive, now_ms=1):\n"
    "    print('held', flush=True); sys.stdin.read()"
)


def index(*numbers: int) -> dict[str, Any]:
    return {f"{KEY}{number}": {"sessionId": sid(number), "updatedAt": BASE_MS} for number in numbers}


@pytest.fixture
def state(tmp_path: Path) -> Path:
    files = {f"{sid(number)}.jsonl": jsonl(turns(sid(number))) for number in (1, 2)}
    return make_state(tmp_path / "state", index(1, 2), files)


@pytest.fixture
def doctor(run_cli: Callable[..., Any]) -> Callable[..., tuple[int, dict[str, Any]]]:
    def run(state: Path, *argv: str) -> tuple[int, dict[str, Any]]:
        outcome = run_cli("doctor", *argv, "--state-dir", state, "--json")
        return outcome.status, json.loads(outcome.stdout)

    return run


def spoil(state: Path, how: str) -> None:
    """Make the store one that an import cannot write into."""
    path = store(state)
    if how == "damaged":
        path.write_bytes(b"SQLite format 3\0" + b"\xff" * 8000)
        return
    connection = apsw.Connection(str(path))
    if how == "schema":
        connection.execute("PRAGMA user_version = 24")
    elif how == "drift":
        connection.execute("CREATE TABLE unknown_to_us (a)")
        connection.execute("DROP TRIGGER IF EXISTS none; DROP TABLE session_transcript_index_state")
    else:
        connection.execute("UPDATE schema_meta SET agent_id = 'other'")
    connection.close()


@pytest.mark.parametrize(("how", "status"), [("schema", 12), ("drift", 12), ("foreign", 12), ("damaged", 13)])
def test_a_dry_run_promised_what_the_import_refused(how: str, status: int, state: Path, doctor: Any) -> None:
    """Another schema, a foreign owner, damage: the preview has the status and the issue of the import."""
    assert 0 == doctor(state, "import")[0]
    make_state(state, index(3), {f"{sid(3)}.jsonl": jsonl(turns(sid(3)))})
    spoil(state, how)
    before = digests(state)
    previews = [doctor(state, "dry-run"), doctor(state, "import", "--dry-run")]
    assert before == digests(state)
    done = doctor(state, "import")
    for preview in previews:
        assert (status, status) == (preview[0], done[0])
        assert [code for code in codes(done[1]) if code.startswith("sqlite_")] == codes(preview[1])


def test_validating_a_damaged_database_is_corrupt(state: Path, doctor: Any) -> None:
    """As `inspect` gives it."""
    assert 0 == doctor(state, "import")[0]
    spoil(state, "damaged")
    assert (13, 13) == (doctor(state, "validate")[0], doctor(state, "inspect")[0])


def test_a_full_disk_is_foreseen(monkeypatch: pytest.MonkeyPatch) -> None:
    """The preview asks for the room that the import asks for."""

    def refuse(_plans: Any) -> None:
        raise NoSpaceError("no room")

    monkeypatch.setattr(importing, "check_space", refuse)
    with pytest.raises(NoSpaceError):
        previewing.dry_run(None, [])  # type: ignore[arg-type]


def test_locks_are_foreseen_without_taking_one(state: Path, doctor: Any) -> None:
    """A living writer and a held state directory are warnings of the preview, which ends with 0."""
    sessions = state / "agents" / "main" / "sessions"
    (sessions / f"{sid(1)}.jsonl.lock").write_text(json.dumps({"pid": os.getpid()}))
    with subprocess.Popen(
        [sys.executable, "-c", HOLD, str(state)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as holder:
        assert holder.stdout is not None
        holder.stdout.readline()
        before = digests(state)
        for argv in (("dry-run",), ("import", "--dry-run"), ("restore", "--dry-run"), ("compact", "--dry-run")):
            status, report = doctor(state, *argv)
            assert (0, ["busy", "busy"]) == (status, codes(report)), argv
            assert {holder.pid, os.getpid()} == {issue["pid"] for issue in issues_of(report, "busy")}
        assert before == digests(state)
        holder.communicate()


def test_stale_locks_are_the_same_warnings(state: Path, doctor: Any) -> None:
    """What a killed writer left is named by the preview as by the import."""
    locks.take(state, config_path=state / "x", take_lock=Exclusive, now_ms=1).release()
    payload = {"pid": 2**22 + 1, "stateDir": str(state), "startTime": 1}
    (locks.names_dir(state) / "gateway.state.lock").write_text(json.dumps(payload))
    (state / "agents" / "main" / "sessions" / f"{sid(1)}.jsonl.lock").write_text("{}")
    before = digests(state)
    preview = doctor(state, "dry-run")[1]
    assert before == digests(state)
    assert ["stale_lock"] * 2 == codes(preview) == codes(doctor(state, "import")[1])


def test_a_dry_run_counts_what_would_be_done(state: Path, doctor: Any, run_cli: Callable[..., Any]) -> None:
    """Sessions, events and files are those of the import that follows; linked files are the same warnings."""
    sessions = state / "agents" / "main" / "sessions"
    os.link(sessions / f"{sid(2)}.jsonl", state / "second-name")
    (sessions / "notes.jsonl").write_text("{}\n")
    text = run_cli("doctor", "dry-run", "--state-dir", state)
    assert (0, "") == (text.status, text.stderr)
    assert "would import 2 session(s) / 10 event(s), would move 3 file(s)" in text.stdout
    assert "Dry run: nothing was changed." == text.stdout.splitlines()[-1]
    preview, done = doctor(state, "dry-run")[1], doctor(state, "import")[1]
    assert codes(done) == codes(preview)
    totals = done["totals"]
    moved = [totals[name] for name in totals if name.startswith("archived")]
    assert {
        "sessions": totals["importedEntries"],
        "events": totals["importedTranscriptEvents"],
        "files": sum(moved),
    } == preview["targets"][0]["wouldImport"]
    again = doctor(state, "dry-run")[1]["targets"][0]["wouldImport"]
    assert {"sessions": 0, "events": 0, "files": 0} == again
