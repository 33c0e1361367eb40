"""A recovery that is killed at any named step leaves a database, and the next one ends as an undisturbed one does.

The cut is SIGKILL in a process of its own, right behind the effect that the step is named after.
"""

from __future__ import annotations

import json
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from openclaw_cli import manifest
from openclaw_cli.faults import Step
from openclaw_cli.storage import connection, events, shapes, verify
from openclaw_cli.storage.pages import Pages

NOW = 1_796_000_000_000
DATABASE = "agents/main/agent/openclaw-agent.sqlite"
CUT = """
import sys
from openclaw_cli import faults
faults.arm(faults.Step(sys.argv[1]), int(sys.argv[2]))
from openclaw_cli.cli.app import run
sys.exit(run(sys.argv[3:]))
"""
CUTS = [
    (Step.DATABASE_CREATED, 1),
    *((Step.SESSION_COMMITTED, occurrence) for occurrence in (1, 6)),
    (Step.RECOVER_REIMPORTED, 1),
    (Step.RECOVER_LINKED, 1),
    (Step.RECOVER_LOG_ASIDE, 1),
    (Step.RECOVER_PUBLISHED, 1),
    (Step.MOVES_PLANNED, 1),
    (Step.MOVE_LINKED, 1),
    (Step.MOVE_UNLINKED, 1),
    (Step.MANIFEST_COMPLETED, 1),
    (Step.RECOVER_SETTLED, 1),
]


def argv(state: Path) -> list[str]:
    return ["doctor", "recover", "--state-dir", str(state), "--all-agents", "--json", "--now", str(NOW)]


@pytest.fixture
def damaged(state_copy: Callable[[str], Path], run_cli: Callable[..., Any]) -> Path:
    """Turns that only the log has, a page of events destroyed, a failed run, a leftover in the sessions directory."""
    state = state_copy("10-s2-legacy")
    run_cli("doctor", "import", "--state-dir", state, "--all-agents", "--json", "--now", NOW)
    (run,) = (run for run in manifest.runs(state) if isinstance(run, manifest.Run))
    run.manifest.failed_at = run.manifest.completed_at
    run.save()
    database = state / DATABASE
    (leftover,) = (state / "agents/main/session-sqlite-import-archive").glob("*02.jsonl.imported-*")
    shutil.copyfile(leftover, state / "agents/main/sessions/00000abc-0000-4000-8000-000000000002.jsonl")
    with Pages(database) as pages:
        number = shapes.layout(pages).leaves["transcript_events"][0]
    held = state / "held"
    held.mkdir()
    with connection.open_write(database, agent_id="main") as store:
        store.execute("PRAGMA wal_autocheckpoint=0").fetchall()
        with store.transaction():
            row = b'{"type":"message","id":"late","parentId":null,"message":{"role":"user","content":"late"}}'
            (key, session) = store.execute("SELECT session_key, session_id FROM session_windows LIMIT 1").fetchone()
            events.append(store, key, session, [(row, json.loads(row))], now_ms=NOW)
        for suffix in ("", "-wal"):
            shutil.copyfile(f"{database}{suffix}", held / f"db{suffix}")
    for suffix in ("", "-wal"):
        shutil.copyfile(held / f"db{suffix}", f"{database}{suffix}")
    shutil.rmtree(held)
    with database.open("r+b") as file:
        file.seek((number - 1) * 4096)
        file.write(bytes(4096))
    return state


def ended(state: Path) -> dict[str, Any]:
    """What a recovery leaves: rows, sound, and names of files without the times in them."""
    with connection.open_read(state / DATABASE, temporary_tables=True) as store:
        assert [] == verify.integrity(store)
        assert [] == list(verify.verify(store))
        keys = store.execute("SELECT session_key, entry_json FROM session_nodes ORDER BY 1").fetchall()
        sessions = store.execute("SELECT session_id FROM session_windows ORDER BY 1").fetchall()
        texts = {one: sorted(text for _, text in events.stream(store, one)) for (one,) in sessions}
    left = sorted(path.name for path in (state / "agents/main/sessions").iterdir())
    debris = [path.name for path in state.rglob("*") if ".recovering" in path.name or path.suffix == ".tmp"]
    return {"keys": keys, "texts": texts, "left": left, "debris": debris}


@pytest.fixture
def undisturbed(damaged: Path, tmp_path: Path, run_cli: Callable[..., Any]) -> dict[str, Any]:
    copy = Path(shutil.copytree(damaged, tmp_path / "undisturbed"))
    assert 0 == run_cli(*argv(copy)).status
    return ended(copy)


@pytest.mark.parametrize(("step", "occurrence"), CUTS, ids=lambda value: str(value))
def test_cut_recovery_is_completed(
    step: Step, occurrence: int, damaged: Path, undisturbed: dict[str, Any], run_cli: Callable[..., Any]
) -> None:
    """The turns of the damaged file, of its log and of the archives are all there; the damaged set is kept whole."""
    whole = (damaged / DATABASE).read_bytes()
    log = (damaged / f"{DATABASE}-wal").read_bytes()
    killed = subprocess.run([sys.executable, "-c", CUT, step, str(occurrence), *argv(damaged)], capture_output=True)
    assert -signal.SIGKILL == killed.returncode, killed.stderr.decode()
    assert (damaged / DATABASE).exists()

    outcome = run_cli(*argv(damaged))
    assert 0 == outcome.status, outcome.stdout
    assert undisturbed == ended(damaged)
    kept = sorted((damaged / DATABASE).parent.glob("openclaw-agent.sqlite*.corrupt-*"))
    assert whole in [path.read_bytes() for path in kept]
    assert log in [path.read_bytes() for path in kept]
    again = json.loads(run_cli(*argv(damaged)).stdout)
    assert "clean" == again["status"]
