"""One state directory that is reached by two paths: its messages come in once."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from openclaw_cli.storage import connection, events

AT = "2026-08-06T07:06:40.000Z"
IDS = [f"aaaaaaaa-0000-4000-8000-00000000000{number}" for number in range(4)]
CUT = """
import sys
from openclaw_cli import faults
faults.arm(faults.Step(sys.argv[1]), int(sys.argv[2]))
from openclaw_cli.cli.app import run
sys.exit(run(sys.argv[3:]))
"""


def old_rows(mark: str, count: int = 4, *, header: str | None = "v1") -> bytes:
    """A transcript without ids, of version 1 or without a header."""
    rows: list[dict[str, Any]] = []
    if header:
        rows.append({"type": "session", "id": header, "timestamp": AT, "cwd": "/w"})
    for number in range(count):
        message = {"role": "user", "content": f"{mark} {number}"}
        rows.append({"type": "message", "timestamp": AT, "message": message})
    rows.append({"type": "compaction", "timestamp": AT, "summary": "s", "firstKeptEntryIndex": 2, "tokensBefore": 1})
    return "".join(json.dumps(row) + "\n" for row in rows).encode()


def fill(state: Path) -> None:
    sessions = state / "agents/main/sessions"
    sessions.mkdir(parents=True)
    (state / "openclaw.json").write_text("{}")
    index = {f"agent:main:s{number}": {"sessionId": own, "updatedAt": 5 + number} for number, own in enumerate(IDS)}
    (sessions / "sessions.json").write_text(json.dumps(index))
    for number, own in enumerate(IDS):
        data = old_rows(f"text of {number}", header=own if number != 2 else None)
        (sessions / f"{own}.jsonl").write_bytes(data)


def argv(state: Path) -> list[str]:
    return ["doctor", "import", "--state-dir", str(state), "--all-agents", "--json"]


def kill(state: Path, step: str, occurrence: int) -> None:
    killed = subprocess.run([sys.executable, "-c", CUT, step, str(occurrence), *argv(state)], capture_output=True)
    assert -signal.SIGKILL == killed.returncode, killed.stderr.decode()


def texts(state: Path, *, exact: bool) -> dict[str, list[str]]:
    """The stored events of every session; without `exact` the part of an id that depends on the path is left out."""
    with connection.open_read(state / "agents/main/agent/openclaw-agent.sqlite") as store:
        found = {own: [text.decode() for _, text in events.stream(store, own)] for own in IDS}
    if exact:
        return found
    return {own: [re.sub(r"[0-9a-f]{16}-", "", text) for text in rows] for own, rows in found.items()}


@pytest.fixture
def uncut(tmp_path: Path, run_cli: Callable[..., Any]) -> tuple[Path, dict[str, list[str]]]:
    """A state directory to import, and the events of one undisturbed import of it at that place."""
    state = tmp_path / "state"
    fill(state)
    assert 0 == run_cli(*argv(state)).status
    expected = texts(state, exact=True)
    shutil.rmtree(state)
    fill(state)
    return state, expected


def restore_originals(state: Path, run_cli: Callable[..., Any]) -> None:
    assert 0 == run_cli("doctor", "restore", "--state-dir", state, "--all-agents").status


@pytest.mark.parametrize("step", ["session-committed", "session-rows-written", "move-linked", "move-unlinked"])
def test_killed_through_a_link_and_run_again_by_the_real_path(
    step: str, uncut: tuple[Path, dict[str, list[str]]], tmp_path: Path, run_cli: Callable[..., Any]
) -> None:
    """Rows of one undisturbed run, whichever name the directory has in each run."""
    state, expected = uncut
    link = tmp_path / "link"
    link.symlink_to(state)
    kill(link, step, 2)
    assert 0 == run_cli(*argv(state)).status
    assert expected == texts(state, exact=True)
    restore_originals(state, run_cli)
    assert 0 == run_cli(*argv(link)).status
    assert expected == texts(state, exact=True)


@pytest.mark.parametrize("step", ["session-committed", "session-rows-written", "target-validated", "moves-planned"])
def test_killed_and_moved_elsewhere(
    step: str, uncut: tuple[Path, dict[str, list[str]]], tmp_path: Path, run_cli: Callable[..., Any]
) -> None:
    """The state directory was renamed before the import was run again: nothing comes in twice."""
    state, _ = uncut
    kill(state, step, 3 if step.startswith("session") else 1)
    moved = state.rename(tmp_path / "moved")
    again = run_cli(*argv(moved), "--assume-stopped")
    assert 0 == again.status, again.stdout
    shutil.rmtree(state, ignore_errors=True)
    fill(state)
    assert 0 == run_cli(*argv(state)).status
    assert texts(state, exact=False) == texts(moved, exact=False)


def test_old_transcripts_come_back_from_a_copy(
    uncut: tuple[Path, dict[str, list[str]]], tmp_path: Path, run_cli: Callable[..., Any]
) -> None:
    """A copied store with the old files beside it: all rows are known, what the file has more is appended."""
    state, expected = uncut
    assert 0 == run_cli(*argv(state)).status
    copy = Path(shutil.copytree(state, tmp_path / "copy"))
    sessions = copy / "agents/main/sessions"
    for number, own in enumerate(IDS):
        (sessions / f"{own}.jsonl").write_bytes(old_rows(f"text of {number}", header=own if number != 2 else None))
    more = {"type": "message", "timestamp": AT, "message": {"role": "user", "content": "later"}}
    with open(sessions / f"{IDS[0]}.jsonl", "ab") as stream:
        stream.write(json.dumps(more).encode() + b"\n")
    index = {f"agent:main:s{number}": {"sessionId": own, "updatedAt": 9 + number} for number, own in enumerate(IDS)}
    (sessions / "sessions.json").write_text(json.dumps(index))
    preview = json.loads(run_cli("doctor", "dry-run", "--state-dir", copy, "--all-agents", "--json").stdout)
    assert ["header_missing"] == [issue["code"] for issue in preview["targets"][0]["issues"]]
    document = json.loads(run_cli(*argv(copy)).stdout)
    assert 1 == document["totals"]["importedTranscriptEvents"]
    after = texts(copy, exact=True)
    (new,) = after[IDS[0]][len(expected[IDS[0]]) :]
    own_ids = [json.loads(text)["id"] for text in expected[IDS[0]]]
    assert own_ids[-1] == json.loads(new)["parentId"]
    after[IDS[0]].pop()
    assert expected == after


def test_another_old_transcript_of_the_session_is_no_repetition(
    uncut: tuple[Path, dict[str, list[str]]], tmp_path: Path, run_cli: Callable[..., Any]
) -> None:
    """Ids are taken over only for the same rows: another conversation comes in under ids of its own."""
    state, expected = uncut
    assert 0 == run_cli(*argv(state)).status
    moved = state.rename(tmp_path / "moved")
    sessions = moved / "agents/main/sessions"
    (sessions / f"{IDS[0]}.jsonl").write_bytes(old_rows("other words", header=IDS[0]))
    (sessions / "sessions.json").write_text(json.dumps({"agent:main:s0": {"sessionId": IDS[0], "updatedAt": 99}}))
    assert 0 == run_cli(*argv(moved)).status
    after = texts(moved, exact=True)[IDS[0]]
    assert expected[IDS[0]] == after[: len(expected[IDS[0]])]
    assert len(expected[IDS[0]]) - 1 == len(after) - len(expected[IDS[0]])


def test_a_linked_old_transcript_that_stays_is_not_doubled(tmp_path: Path, run_cli: Callable[..., Any]) -> None:
    """A transcript that stays because it is linked is read at every run, by whatever path."""
    state, link = tmp_path / "state", tmp_path / "link"
    fill(state)
    link.symlink_to(state)
    os.link(state / f"agents/main/sessions/{IDS[1]}.jsonl", tmp_path / "other-name")
    assert 0 == run_cli(*argv(link), "--keep-index").status
    before = texts(state, exact=True)
    assert 0 == run_cli(*argv(state), "--keep-index").status
    assert before == texts(state, exact=True)
