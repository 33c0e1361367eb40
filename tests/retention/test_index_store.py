"""`sessions cleanup --store …/sessions.json`: the same plan on the files of a store that is not migrated."""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import archived_states as states
import legacy_state as legacy
import pytest

from openclaw_cli import archive
from openclaw_cli.retention import notes

DAY_MS = 86_400_000
NOW_MS = legacy.BASE_MS + 100 * DAY_MS
OLD_MS = NOW_MS - 40 * DAY_MS
NEW_MS = NOW_MS - 3_600_000
ROWS = {
    "agent:main:main": (1, NEW_MS, {}),
    "agent:main:subagent:a": (2, OLD_MS, {"spawnedBy": "agent:main:main"}),
    "agent:main:cron:j:run:r": (3, OLD_MS, {}),
    "agent:main:explicit:old": (4, OLD_MS, {"label": "kept"}),
    "agent:main:telegram:group:-5": (5, OLD_MS, {"chatType": "group"}),
    "agent:main:explicit:shared": (6, NEW_MS, {}),
    "agent:main:hook:shared": (6, OLD_MS, {}),
    "Agent:Main:Odd": (7, OLD_MS, {}),
    "agent:main:node:gone": (8, OLD_MS, {}),
}


@pytest.fixture
def state(tmp_path: Path) -> Path:
    """Rows of several kinds, two of one session, one without a transcript, one that cannot be judged."""
    index: dict[str, Any] = {
        key: {"sessionId": legacy.sid(number), "updatedAt": at, **more} for key, (number, at, more) in ROWS.items()
    }
    index["agent:main:bad"] = "no object"
    files = {f"{legacy.sid(number)}.jsonl": legacy.jsonl(legacy.turns(legacy.sid(number), 3)) for number in range(1, 8)}
    files[f"{legacy.sid(2)}.trajectory.jsonl"] = b'{"type":"tool","runId":"r"}\n'
    files["orphan.jsonl"] = legacy.jsonl(legacy.turns("orphan", 2))
    made = legacy.make_state(tmp_path / "state", index, files)
    for path in (made / "agents/main/sessions").iterdir():
        os.utime(path, ns=(OLD_MS * 10**6, OLD_MS * 10**6))
    return made


def lines(state: Path, *places: Path) -> Counter[tuple[str, bytes]]:
    """Multiset of (session id, line) in transcripts and archives."""
    found: Counter[tuple[str, bytes]] = Counter()
    for place in (state / "agents/main/sessions", *places):
        for path in place.iterdir():
            if ".jsonl" in path.name or path.name.endswith(".zst"):
                with archive.open_stream(path) as stream:
                    found.update((path.name.split(".")[0], line) for line in stream)
    return found


@pytest.fixture
def run(state: Path, run_cli: Callable[..., Any]) -> Callable[..., Any]:
    """Run on the index, with --json; gives (status, document)."""

    def call(*more: str) -> tuple[int, Any]:
        index = state / "agents/main/sessions/sessions.json"
        done = run_cli("sessions", "cleanup", "--store", index, "--now", str(NOW_MS), "--json", *more)
        return done.status, json.loads(done.stdout)

    return call


def test_the_same_plan_on_files(state: Path, run: Callable[..., Any]) -> None:
    """A preview changes nothing; the run does what it said; what goes is in archives with its row."""
    sessions = state / "agents/main/sessions"
    before, everything = lines(state), states.everything(state)
    text = (sessions / "sessions.json").read_text()

    status, plan = run()
    assert 3 == status  # A row that is no object is an error of the store, as at an import.
    assert everything == states.everything(state)
    status, done = run("--enforce")

    assert 3 == status
    assert {"entry_invalid", "key_not_canonical"} == {issue["code"] for issue in done["issues"]}
    assert plan["decisions"] == done["decisions"]
    assert (10, 6) == (done["beforeCount"], done["afterCount"])
    index = json.loads((sessions / "sessions.json").read_text())
    assert {
        "agent:main:main", "agent:main:explicit:old", "agent:main:telegram:group:-5", "agent:main:explicit:shared",
        "Agent:Main:Odd", "agent:main:bad",
    } == set(index)  # fmt: skip
    old = index["agent:main:explicit:old"]
    assert ("age-retention", NOW_MS, "kept") == (old["archiveReason"], old["archivedAt"], old["label"])
    # Rows that stay keep their very text.
    kept = json.dumps(json.loads(text)["agent:main:main"], separators=(",", ":"))
    assert kept in (sessions / "sessions.json").read_text().replace("\n", "").replace(" ", "")
    names = sorted(path.name for path in sessions.iterdir())
    assert f"{legacy.sid(6)}.jsonl" in names and f"{legacy.sid(2)}.jsonl" not in names and "orphan.jsonl" not in names
    assert before == lines(state)
    (kept_row,) = (path for path in sessions.iterdir() if path.name.startswith(f"{legacy.sid(2)}.jsonl.deleted."))
    note = notes.read(kept_row)
    assert note is not None and "agent:main:subagent:a" == note.session_key
    assert OLD_MS == json.loads(note.entry or "")["updatedAt"]
    # A row without a transcript leaves its entry.
    assert any(path.name.startswith(f"{legacy.sid(8)}.jsonl.deleted.") for path in sessions.iterdir())
    assert [] == [path for path in sessions.iterdir() if path.name.endswith((".lock", ".tmp"))]

    again = states.everything(state)
    assert not run("--enforce")[1]["wouldMutate"]
    assert again == states.everything(state)


def test_an_audit_line_for_each(state: Path, run: Callable[..., Any]) -> None:
    """Key, id, reason, archive and digest."""
    run("--enforce")

    audit = [json.loads(line) for line in (state / "openclaw-cli/audit.jsonl").read_bytes().splitlines()]
    assert {"agent:main:subagent:a", "agent:main:cron:j:run:r", "agent:main:hook:shared", "agent:main:node:gone"} == {
        line["key"] for line in audit if line["event"] == "removed"
    }
    for line in audit:
        if line["event"] == "session-archived":
            assert states.digest(Path(line["archive"])) == line["sha256"]


def test_a_database_beside_it_is_the_target(state: Path, run: Callable[..., Any], run_cli: Callable[..., Any]) -> None:
    """Then the index is not touched."""
    assert run_cli("doctor", "import", "--all-agents", "--keep-index", "--state-dir", state).status in (0, 3)
    index = (state / "agents/main/sessions/sessions.json").read_bytes()

    _, document = run("--enforce")

    assert document["storePath"].endswith("openclaw-agent.sqlite")
    assert document["afterCount"] < document["beforeCount"]
    assert index == (state / "agents/main/sessions/sessions.json").read_bytes()


def test_a_store_that_is_not_named_is_not_touched(state: Path, run_cli: Callable[..., Any]) -> None:
    """The message names the way."""
    before = states.everything(state)

    done = run_cli("sessions", "cleanup", "--state-dir", state, "--enforce")

    assert 3 == done.status
    assert "--store" in done.stdout and "doctor import" in done.stdout
    after = states.everything(state)
    assert before == {name: digest for name, digest in after.items() if name in before}


def test_a_writer_of_the_index_is_waited_for_no_longer(state: Path, run_cli: Callable[..., Any]) -> None:
    """A living process has its lock: busy. A dead one: its lock is replaced."""
    sessions = state / "agents/main/sessions"
    lock = sessions / "sessions.json.lock"
    lock.write_text(json.dumps({"pid": os.getppid(), "createdAt": "2026-01-01T00:00:00.000Z"}))
    words = ("sessions", "cleanup", "--store", sessions / "sessions.json", "--now", str(NOW_MS), "--enforce")

    assert 11 == run_cli(*words, "--wait", "0").status
    lock.write_text(json.dumps({"pid": 2**22 + 1, "createdAt": "2026-01-01T00:00:00.000Z"}))
    assert 3 == run_cli(*words).status
    assert not lock.exists()


def test_a_disk_budget_on_files(state: Path, run: Callable[..., Any], tmp_path: Path) -> None:
    """The preview tells the bytes that will be left; archives elsewhere do not count."""
    (state / "agents/main/sessions/blob.bin").write_bytes(os.urandom(5000))
    before = lines(state)
    words = ("--max-disk", "9kb", "--high-water", "1kb", "--max-entries", "1", "--prune-after", "90d")

    _, plan = run("--enforce", "--dry-run", *words, "--archive-dir", str(tmp_path / "archives"))
    status, done = run("--enforce", *words, "--archive-dir", str(tmp_path / "archives"))

    assert 3 == status
    assert "disk_budget_unreached" in {issue["code"] for issue in done["issues"]}
    assert plan["decisions"] == done["decisions"]
    assert plan["diskBudget"] == done["diskBudget"]
    assert any(each["reason"] == "disk-budget" for each in done["decisions"])
    assert before == lines(state, tmp_path / "archives")


@pytest.mark.parametrize("step", ["cleanup-archive-written", "cleanup-audited", "cleanup-committed",
                                  "cleanup-artifact-removed"])  # fmt: skip
@pytest.mark.parametrize("occurrence", [1, 2])
def test_a_run_that_is_killed(state: Path, run: Callable[..., Any], cut_run: Callable[..., int], step: str,
                              occurrence: int) -> None:  # fmt: skip
    """Nothing is lost at any moment, nothing is archived twice, the next run ends as ever."""
    before = lines(state)
    index = state / "agents/main/sessions/sessions.json"
    words = ("sessions", "cleanup", "--store", str(index), "--now", str(NOW_MS - 1000), "--enforce")
    killed = cut_run(step, occurrence, *words)
    assert killed == -9 or (step in ("cleanup-committed", "cleanup-audited") and occurrence == 2)
    assert set(before) <= set(lines(state))

    run("--enforce")

    assert before == lines(state)
    assert {"agent:main:main", "agent:main:explicit:old"} < set(json.loads(index.read_text()))
    assert "agent:main:subagent:a" not in json.loads(index.read_text())
