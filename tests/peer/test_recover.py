"""Recoveries across the two programs: what one left unfinished or damaged, the other finds settled."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import legacy_state
import pytest

from openclaw_cli.storage import connection, events, shapes, verify
from openclaw_cli.storage.pages import Pages

pytestmark = pytest.mark.peer

IMPORT = ("doctor", "--session-sqlite", "import", "--session-sqlite-all-agents")
INSPECT = ("doctor", "--session-sqlite", "inspect", "--session-sqlite-all-agents")
RECOVER = ("doctor", "--session-sqlite", "recover", "--session-sqlite-all-agents")
DATABASE = "agents/main/agent/openclaw-agent.sqlite"


@pytest.fixture
def state(tmp_path: Path) -> Path:
    """A file-era state directory with nothing in it that an import would change."""
    sessions = tmp_path / "state/agents/main/sessions"
    sessions.mkdir(parents=True)
    index = {}
    for number in range(30):
        session_id = legacy_state.sid(number)
        rows = legacy_state.turns(session_id, 40)
        (sessions / f"{session_id}.jsonl").write_bytes(legacy_state.jsonl(rows))
        index[f"agent:main:explicit:s{number}"] = {"sessionId": session_id, "updatedAt": legacy_state.BASE_MS + number}
    (sessions / "sessions.json").write_text(json.dumps(index))
    (tmp_path / "state/openclaw.json").write_text("{}\n")
    return tmp_path / "state"


def ours(run_cli: Callable[..., Any], state: Path, mode: str, *options: str) -> dict[str, Any]:
    outcome = run_cli("doctor", mode, "--state-dir", state, "--all-agents", "--json", *options)
    assert outcome.status in (0, 3), outcome.stderr
    return json.loads(outcome.stdout)


def rows(state: Path) -> dict[str, list[bytes]]:
    with connection.open_read(state / DATABASE, temporary_tables=True) as store:
        assert [] == verify.integrity(store)
        assert [] == list(verify.verify(store))
        found = store.execute("SELECT session_id FROM session_windows ORDER BY 1").fetchall()
        return {one: [text for _, text in events.stream(store, one)] for (one,) in found}


def assert_nothing_to_recover(peer: Any, state: Path) -> None:
    """The real program's recovery takes no run for a failed one: it would move its files back."""
    before = sorted((state / "agents/main/sessions").iterdir())
    document = json.loads(peer.run(state, *RECOVER, "--json").stdout)
    codes = {issue["code"] for target in document["targets"] for issue in target["issues"]}
    assert codes <= {"recover_manifest_missing"}
    assert [] == [path for target in document["targets"] for path in target.get("restore", {}).get("restoredFiles", [])]
    assert before == sorted((state / "agents/main/sessions").iterdir())


def kill_all(state: Path) -> None:
    """SIGKILL for every process that works on a state directory: the program runs in a child of its own."""
    mark = f"OPENCLAW_STATE_DIR={state}".encode()
    for environ in Path("/proc").glob("[0-9]*/environ"):
        try:
            if mark in environ.read_bytes().split(b"\0"):
                os.kill(int(environ.parent.name), signal.SIGKILL)
        except (OSError, ProcessLookupError):
            continue  # Somebody else's process, or one that has just ended.


def test_a_store_that_we_recovered_is_sound_for_the_real_program(
    state: Path, peer: Any, run_cli: Callable[..., Any]
) -> None:
    """A page of events and the page of the keys destroyed in a store that the real program wrote."""
    peer.json(state, *IMPORT)
    database = state / DATABASE
    before = rows(state)
    listed = peer.json(state, "sessions")["sessions"]
    with Pages(database) as pages:
        leaves = shapes.layout(pages).leaves
    with database.open("r+b") as file:
        for number in (leaves["transcript_events"][0], leaves["session_nodes"][0]):
            file.seek((number - 1) * 4096)
            file.write(bytes(4096))

    report = ours(run_cli, state, "recover")

    assert "repaired" == report["status"]
    assert before == rows(state)
    inspected = peer.json(state, *INSPECT)
    assert (1, 0) == (inspected["totals"]["targets"], inspected["totals"]["issues"])
    again = peer.json(state, "sessions")["sessions"]
    assert {(row["key"], row["sessionId"]) for row in listed} == {(row["key"], row["sessionId"]) for row in again}


def test_a_run_of_the_real_program_that_was_killed_is_settled(
    state: Path, peer: Any, run_cli: Callable[..., Any]
) -> None:
    """Killed as soon as its manifest is there; afterwards no run is open for it and every file is archived."""
    (state / "openclaw.json").write_text("{}\n")
    env = {
        "PATH": f"{peer.node.parent}{os.pathsep}{os.environ.get('PATH', '')}",
        "HOME": str(peer.home),
        "OPENCLAW_STATE_DIR": str(state),
        "OPENCLAW_SKIP_CHANNELS": "1",
    }
    runs = state / "session-sqlite-migration-runs"
    with subprocess.Popen(
        [str(peer.node), str(peer.program), *IMPORT],
        env=env,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    ) as child:
        while child.poll() is None and not list(runs.glob("*.json")):
            time.sleep(0.005)
        kill_all(state)
    (manifest,) = runs.glob("*.json")
    killed = json.loads(manifest.read_bytes())

    report = ours(run_cli, state, "recover", "--assume-stopped")

    assert "completedAt" in json.loads(manifest.read_bytes())
    assert "repaired" == report["status"], (killed, report)
    assert [] == list((state / "agents/main/sessions").glob("*.jsonl"))
    assert "clean" == ours(run_cli, state, "recover", "--assume-stopped")["status"]
    assert_nothing_to_recover(peer, state)


def test_a_failed_run_that_we_closed_is_no_failed_run_for_the_real_program(
    state: Path, peer: Any, run_cli: Callable[..., Any]
) -> None:
    """It reads the manifest and finds nothing to recover; its restore still undoes the moves."""
    ours(run_cli, state, "import")
    (manifest,) = (state / "session-sqlite-migration-runs").glob("*.json")
    document = json.loads(manifest.read_bytes())
    document["failedAt"] = document["completedAt"]
    manifest.write_text(json.dumps(document, indent=2) + "\n")
    ours(run_cli, state, "recover")

    assert_nothing_to_recover(peer, state)
    restored = peer.json(state, "doctor", "--session-sqlite", "restore", "--session-sqlite-all-agents")
    assert len(document["targets"][0]["completedMoves"]) == sum(
        len(target["restore"]["restoredFiles"]) for target in restored["targets"]
    )
