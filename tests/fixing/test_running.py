"""`doctor fix` as a whole: a file-era state with everything wrong ends in order; cuts; settings."""

from __future__ import annotations

import json
import os
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
from openclaw_cli.storage import connection, events, verify

Fix = Callable[..., dict[str, Any]]
OTHER = "00000000-1111-4222-8333-44445555ffff"
CONFIG = """{
  // who reads this
  session: { idleMinutes: 90, maintenance: { rotateBytes: "10mb", maxEntries: 50 } }, // keep
  agents: { defaults: { compaction: { memoryFlush: { prompt: "Save it" } } } },
}
"""
CUT = """
import sys
from openclaw_cli import faults
faults.arm(faults.Step(sys.argv[1]))
from openclaw_cli.cli.app import run
sys.exit(run(sys.argv[2:]))
"""


def story() -> list[Any]:
    """A session of two entries."""
    made = talk.Conversation()
    made.user()
    made.says()
    return made.rows


@pytest.fixture
def messy(state: State) -> State:
    """A store with two spellings of one key, a transcript that was left beside it, retired settings."""
    state.add(story(), key="agent:main:foo")
    state.add(story(), key="agent:main:Foo", session_id=OTHER, updatedAt=NOW_MS + 1)
    (state.sessions / "sessions.json").write_text(json.dumps({"main": {"sessionId": "late", "updatedAt": NOW_MS}}))
    rows = [{**story()[0], "id": "late"}, *story()[1:]]
    (state.sessions / "late.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    (state.root / "openclaw.json").write_text(CONFIG)
    os.chmod(state.root / "openclaw.json", 0o640)
    return state


def assert_in_order(state: State) -> None:
    """Every key canonical, every session there, nothing left beside the store."""
    with connection.open_read(state.database, temporary_tables=True) as store:
        assert [] == [*verify.integrity(store), *verify.verify(store)]
        found = dict(store.execute("SELECT session_key, current_session_id FROM session_nodes").fetchall())
        assert {"agent:main:foo": OTHER, KEY: "late"} == found
        assert [3, 3, 3] == [events.count(store, one) for one in (SESSION, OTHER, "late")]
    assert [] == os.listdir(state.sessions)


def test_everything_at_once(messy: State, fix: Fix) -> None:
    """Import, rows and settings in one run; what is left is clean, also for `doctor check`."""
    document = fix(messy)

    assert_in_order(messy)
    assert "repaired" == document["status"]
    text = (messy.root / "openclaw.json").read_text()
    assert "// who reads this" in text and "// keep" in text
    assert "idleMinutes" in text and "rotateBytes" not in text and "prompt" not in text
    assert "Save it" in (messy.root / "openclaw-cli.yaml").read_text()
    backup = Path(document["config"]["backupPath"])
    assert CONFIG == backup.read_text()
    assert 0o640 == backup.stat().st_mode & 0o777 == (messy.root / "openclaw.json").stat().st_mode & 0o777
    assert "Save it" not in json.dumps(document)
    before = states.everything(messy.root)
    assert ("clean", []) == ((again := fix(messy))["status"], again["plan"])
    assert before == states.everything(messy.root)


@pytest.mark.parametrize(
    "step",
    [
        Step.SESSION_COMMITTED,
        Step.MOVE_LINKED,
        Step.MANIFEST_COMPLETED,
        Step.FIX_ROWS_KEPT,
        Step.FIX_ROWS_WRITTEN,
        Step.FIX_OWN_CONFIG_WRITTEN,
        Step.FIX_CONFIG_BACKED_UP,
    ],
)
def test_a_cut_run_is_finished_by_the_next(messy: State, fix: Fix, step: Step) -> None:
    """`kill -9` anywhere: `openclaw.json` is whole, nothing is lost, and the same command ends in order."""
    words = ("doctor", "fix", "--state-dir", str(messy.root), "--all-agents", "--json")
    done = subprocess.run([sys.executable, "-c", CUT, step, *words], capture_output=True, timeout=60)
    assert -signal.SIGKILL == done.returncode
    assert CONFIG == (messy.root / "openclaw.json").read_text()

    fix(messy)

    assert_in_order(messy)
    assert "rotateBytes" not in (messy.root / "openclaw.json").read_text()
    assert 1 == (messy.root / "openclaw-cli.yaml").read_text().count("Save it")
    assert [] == list(messy.root.rglob("*.tmp"))


def test_an_edit_that_is_not_safe_is_printed(state: State, fix: Fix) -> None:
    """A key that stands twice, a value that names a variable, a key of an included file: status 3, the file stays."""
    state.add(story())
    text = (
        '{"$include": "more.json", "session": {"parentForkMaxTokens": 1, "parentForkMaxTokens": 2}, "agents":'
        ' {"defaults": {"compaction": {"customInstructions": "${WHAT}"}}}}'
    )
    (state.root / "openclaw.json").write_text(text)
    (state.root / "more.json").write_text('{"session": {"maintenance": {"rotateBytes": 1}}}')

    document = fix(state, status=3)

    assert text == (state.root / "openclaw.json").read_text()
    found = {issue["key"]: issue for issue in document["issues"]}
    assert {"config_edit_by_hand"} == {issue["code"] for issue in document["issues"]}
    assert str(state.root / "more.json") == found["session.maintenance.rotateBytes"]["path"]
    assert "remove session.parentForkMaxTokens" in found["session.parentForkMaxTokens"]["message"]
    assert "openclaw-cli.yaml" in found["agents.defaults.compaction.customInstructions"]["message"]
    assert "WHAT" not in json.dumps(document)


def test_the_file_behind_a_link_is_edited(state: State, fix: Fix, tmp_path: Path) -> None:
    """The link stays one."""
    state.add(story())
    real = tmp_path / "real.json"
    (state.root / "openclaw.json").rename(real)
    real.write_text('{"session": {"parentForkMaxTokens": 1}}')
    (state.root / "openclaw.json").symlink_to(real)

    fix(state)

    assert (state.root / "openclaw.json").is_symlink()
    assert '{"session": {}}' == real.read_text()


def test_the_settings_are_mended_where_a_store_cannot_be(state: State, fix: Fix) -> None:
    """What stops one part does not stop the other; a store of another schema stays as it is."""
    state.add(story())
    state.execute("PRAGMA user_version = 99")
    (state.root / "openclaw.json").write_text('{"session": {"parentForkMaxTokens": 1}}')

    document = fix(state, status=12)

    assert '{"session": {}}' == (state.root / "openclaw.json").read_text()
    assert "blocked" == document["status"]


def test_stored_transcripts_are_named_with_the_command_for_a_successor(
    state: State, fix: Fix, run_cli: Callable[..., Any]
) -> None:
    """No stored event changes; after the command that is named nothing is left to do."""
    rows = story()
    state.add([{**rows[0], "version": 1}, *rows[1:]])

    document = fix(state)

    (issue,) = document["targets"][0]["issues"]
    assert ("transcript_needs_successor", ["transcript_version_old"]) == (issue["code"], issue["needs"])
    assert "clean" == document["status"]
    assert "need a successor" in document["advice"]
    words = issue["command"].split()[1:]
    assert 0 == run_cli(*words, "--state-dir", state.root).status
    assert [] == fix(state)["targets"][0]["issues"]


def test_openclaws_own_spelling(messy: State, run_cli: Callable[..., Any]) -> None:
    """`doctor --fix` is the same command; the plan is printed before anything is done."""
    done = run_cli("doctor", "--fix", "--state-dir", messy.root)

    assert 0 == done.status, done.stderr
    assert "plan: store of main: bring 1 row(s) into form" in done.stderr
    assert_in_order(messy)


def test_a_snapshot_first(messy: State, fix: Fix, tmp_path: Path) -> None:
    """`--snapshot DIR` has everything as it was."""
    document = fix(messy, "--snapshot", str(tmp_path / "snap"))

    assert str(tmp_path / "snap") == document["snapshot"]["directory"]
    assert CONFIG == next((tmp_path / "snap").rglob("openclaw.json")).read_text()
