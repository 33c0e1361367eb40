"""Our import beside the real one, row by row, and what the real program says of stores that we imported.

Both import the same files at the same path, one after the other: ids of upgraded entries depend on the path.

Volatile, and not compared: `transcript_rewrite_watermarks.generation` (random), every column that holds the clock of
the run (VOLATILE), and index states of rebuilt trees, whose time is the clock too.

Deliberate deviations, each undone on our side before rows are compared (`as_real`): `sessionStartedAt` out of the
header (the users' documents want it; it also makes the window's `created_at`), canonical keys, history that the real
program leaves aside because another entry is bad, trajectory rows.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from openclaw_cli import locks
from openclaw_cli.storage import connection
from openclaw_cli.storage.encoding import decode
from openclaw_cli.storage.lockfile import Exclusive

BENCH = Path(__file__).resolve().parent.parent / "bench"
IMPORT = ("doctor", "--session-sqlite", "import", "--session-sqlite-all-agents")
TABLES = {
    "session_nodes": "session_key",
    "session_windows": "session_id",
    "transcript_events": "session_id, seq",
    "transcript_event_identities": "session_id, event_id",
    "session_transcript_active_events": "session_id, active_position",
    "session_transcript_fts": "session_id, message_id, rowid",
    "session_transcript_index_state": "session_id",
    "transcript_rewrite_watermarks": "session_id",
    "conversations": "conversation_id",
    "session_conversations": "session_id, conversation_id",
}
VOLATILE = {("transcript_rewrite_watermarks", "generation"), ("transcript_rewrite_watermarks", "updated_at")}
Rows = dict[str, list[dict[str, Any]]]


def rows_of(state: Path, agent: str) -> Rows:
    """The rows of an agent's store; events decoded, with the encoding that was chosen."""
    found: Rows = {}
    with connection.open_read(state / f"agents/{agent}/agent/openclaw-agent.sqlite") as store:
        for table, order in TABLES.items():
            columns = [row[1] for row in store.execute(f"PRAGMA table_info({table})")]
            kept = [name for name in columns if (table, name) not in VOLATILE]
            cursor = store.execute(f"SELECT {','.join(kept)} FROM {table} ORDER BY {order}")
            found[table] = [dict(zip(kept, row, strict=True)) for row in cursor]
    for event in found["transcript_events"]:
        packed = event.pop("event_zstd")
        event["encoding"] = "identity" if packed is None else "zstd"
        event["event_json"] = decode(event["event_json"], packed, event["event_utf8_bytes"]).decode()
    return found


def as_real(ours: Rows, real: Rows, keys: dict[str, str]) -> Rows:
    """Our rows with the deliberate deviations taken back. `keys`: canonical key → the key as the real one keeps it."""
    known = {row["session_id"] for row in real["session_windows"]}
    kept = {
        table: [row for row in rows if row.get("session_id", next(iter(known))) in known]
        for table, rows in ours.items()
    }
    current = {row["session_key"] for row in real["session_nodes"]}
    kept["session_nodes"] = [
        row for row in kept["session_nodes"] if keys.get(row["session_key"], row["session_key"]) in current
    ]
    started = {}
    for row in [*kept["session_nodes"], *kept["session_windows"]]:
        row["session_key"] = keys.get(row["session_key"], row["session_key"])
    stated = {row["session_key"]: json.loads(row["entry_json"]) for row in real["session_nodes"]}
    for row in kept["session_nodes"]:
        entry = json.loads(row["entry_json"])
        if "sessionStartedAt" not in stated[row["session_key"]]:
            started[row["current_session_id"]] = entry.pop("sessionStartedAt", None)
        row["entry_json"] = json.dumps(entry, separators=(",", ":"), ensure_ascii=False)
    created = {row["session_id"]: row["created_at"] for row in real["session_windows"]}
    for row in kept["session_windows"]:
        if started.get(row["session_id"]) == row["created_at"]:
            row["created_at"] = created[row["session_id"]]
    rebuilt = {row["session_id"]: row["updated_at"] for row in real["session_transcript_index_state"]}
    last = {row["session_id"]: row["created_at"] for row in real["transcript_events"]}
    for row in kept["session_transcript_index_state"]:
        session = row["session_id"]
        if row["updated_at"] != last[session] != rebuilt[session]:
            row["updated_at"] = rebuilt[session]
    return {table: sorted(rows, key=_order(table)) for table, rows in kept.items()}


def _order(table: str) -> Callable[[dict[str, Any]], Any]:
    names = [name.strip() for name in TABLES[table].split(",") if name.strip() != "rowid"]
    return lambda row: tuple(row[name] for name in names)


@pytest.fixture
def both(peer: Any, run_cli: Callable[..., Any], tmp_path: Path) -> Callable[[Path, int], tuple[Path, Path]]:
    """Import a state directory with ours and with the real program at the same path; gives (ours, real)."""

    def run(state: Path, status: int = 0) -> tuple[Path, Path]:
        if not (state / "openclaw.json").exists():
            (state / "openclaw.json").write_text("{}\n")
        original = Path(shutil.copytree(state, tmp_path / "original"))
        outcome = run_cli("doctor", "import", "--state-dir", state, "--all-agents", "--json")
        assert status == outcome.status, outcome.stderr
        assert json.loads(outcome.stdout)["totals"]["targets"] >= 1
        ours = Path(shutil.move(state, tmp_path / "ours"))
        shutil.copytree(original, state)
        report = peer.json(state, *IMPORT)
        assert report["totals"]["targets"] >= 1
        return ours, state

    return run


def agents(state: Path) -> Iterator[str]:
    for path in sorted(state.glob("agents/*/agent/openclaw-agent.sqlite")):
        yield path.parent.parent.name


def compare(ours: Path, real: Path, keys: dict[str, dict[str, str]]) -> None:
    """Every row of every agent's store; the table is named where they differ."""
    compared = list(agents(real))
    assert compared == list(agents(ours))
    for agent in compared:
        wanted = rows_of(real, agent)
        found = as_real(rows_of(ours, agent), wanted, keys.get(agent, {}))
        for table, rows in wanted.items():
            assert (agent, table, rows) == (agent, table, found[table])


def generated(tmp_path: Path, megabytes: float, sessions: int, seed: int) -> Path:
    """A file-era store like those of the benchmarks."""
    state = tmp_path / "generated"
    numbers = ["--mb", str(megabytes), "--sessions", str(sessions), "--seed", str(seed)]
    argv = [sys.executable, BENCH / "make_legacy_store.py", state, *numbers]
    subprocess.run(argv, check=True, capture_output=True)
    return state


def legacy_keys(agent: str) -> dict[str, str]:
    return {f"agent:{agent}:discord:channel:555": "discord:channel:555"}


@pytest.mark.parametrize("name", ["01-legacy", "10-s2-legacy"])
def test_rows_equal_the_real_import(name: str, both: Any, state_copy: Callable[[str], Path]) -> None:
    """Versions 1 to 3, groups, topics, cron, sub-agents, a torn tail, damage in the middle, duplicates."""
    ours, real = both(state_copy(name), 3)
    compare(ours, real, {agent: legacy_keys(agent) for agent in agents(real)})


@pytest.mark.parametrize("seed", [1, 2])
def test_generated_rows_equal_the_real_import(seed: int, both: Any, tmp_path: Path) -> None:
    """Tool calls and results, sub-tasks, messages of many sizes, in both encodings."""
    ours, real = both(generated(tmp_path, 2, 5, seed))
    compare(ours, real, {})
    assert {"identity", "zstd"} == {row["encoding"] for row in rows_of(ours, "main")["transcript_events"]}


def test_the_real_program_accepts_our_store(peer: Any, run_cli: Callable[..., Any], state_copy: Any) -> None:
    """It lists the canonical keys with their ids, and finds nothing wrong when it inspects and compacts."""
    state = state_copy("10-s2-legacy")
    roster = {"agents": {"entries": {"main": {"default": True}, "work": {}}}}
    (state / "openclaw.json").write_text(json.dumps(roster))
    assert 3 == run_cli("doctor", "import", "--state-dir", state, "--all-agents").status
    expected = {}
    for agent in agents(state):
        expected |= {row["session_key"]: row["current_session_id"] for row in rows_of(state, agent)["session_nodes"]}
    listed = peer.json(state, "sessions", "--all-agents", "--limit", "all")["sessions"]
    assert expected == {row["key"]: row["sessionId"] for row in listed}
    for mode in ("inspect", "compact"):
        report = peer.json(state, "doctor", "--session-sqlite", mode, "--session-sqlite-all-agents")
        assert report["totals"]["targets"] >= 2
        assert [] == [issue for target in report["targets"] for issue in target["issues"]]


def test_the_real_program_reads_the_context(peer: Any, run_cli: Callable[..., Any], tmp_path: Path) -> None:
    """The messages of an imported session come back in order."""
    state = generated(tmp_path, 1, 2, 3)
    source = json.loads((state / "agents/main/sessions/sessions.json").read_text())["agent:main:main"]
    lines = (state / f"agents/main/sessions/{source['sessionId']}.jsonl").read_text().splitlines()
    wanted = [json.loads(line)["id"] for line in lines[1:]]
    assert 0 == run_cli("doctor", "import", "--state-dir", state, "--all-agents").status
    store = state / "agents/main/agent/openclaw-agent.sqlite"
    context = peer.read_context(state, store, "agent:main:main", source["sessionId"])
    assert wanted == [row["id"] for row in context["branch"]]


def test_our_manifest_restores_in_the_real_program(peer: Any, run_cli: Callable[..., Any], state_copy: Any) -> None:
    """The real `restore` takes our manifest and puts every file back where it was."""
    state = state_copy("10-s2-legacy")
    (state / "openclaw.json").write_text("{}\n")
    before = {path: path.read_bytes() for path in state.glob("agents/*/sessions/*")}
    assert 3 == run_cli("doctor", "import", "--state-dir", state, "--all-agents").status
    peer.json(state, "doctor", "--session-sqlite", "restore", "--session-sqlite-all-agents")
    assert before == {path: path.read_bytes() for path in state.glob("agents/*/sessions/*")}


def test_each_side_refuses_while_the_other_owns(peer: Any, run_cli: Callable[..., Any], state_copy: Any) -> None:
    """While we own the state directory the real maintenance refuses, and it does its work once we have let go."""
    state = state_copy("10-s2-legacy")
    (state / "openclaw.json").write_text("{}\n")
    owned = locks.take(
        state, config_path=state / "openclaw.json", take_lock=Exclusive, now_ms=time.time_ns() // 1_000_000
    )
    with owned:
        refused = peer.run(state, *IMPORT, "--json")
        assert 2 == refused.status
        assert "owns this OpenClaw state directory" in refused.stdout + refused.stderr
        busy = run_cli("doctor", "import", "--state-dir", state, "--all-agents", "--json")
        assert (11, os.getpid()) == (busy.status, json.loads(busy.stdout)["error"]["pid"])
    assert peer.json(state, *IMPORT)["totals"]["targets"] >= 1
