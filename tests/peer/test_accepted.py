"""What our import and our folding write, the real program takes as its own."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]
DEMO = ROOT / "openclaw_cli/data/demo/state"
AGENTS = {"agents": {"list": [{"id": "main", "default": True}, {"id": "work"}]}}


@pytest.fixture(params=["demo", "01", "10"])
def imported(
    request: pytest.FixtureRequest, state_copy: Callable[[str], Path], run_cli: Callable[..., Any], tmp_path: Path
) -> Path:
    """A state directory of file era after our import."""
    if request.param == "demo":
        state_dir = Path(shutil.copytree(DEMO, tmp_path / "state"))
    else:
        state_dir = state_copy(request.param)
        (state_dir / "openclaw.json").write_text(json.dumps(AGENTS if request.param == "10" else {}), encoding="utf-8")
    run = run_cli("doctor", "import", "--all-agents", "--state-dir", state_dir, "--json")
    assert run.status in (0, 3), run.stderr
    return state_dir


def rows(document: Any) -> set[tuple[str, str, int]]:
    """Key, session id and time of the last change of each listed session."""
    return {(row["key"], row["sessionId"], row["updatedAt"]) for row in document["sessions"]}


def messages(path: Path) -> Iterator[tuple[str, Any]]:
    """Role and content of every message of a transcript, as far as its lines parse."""
    for line in path.read_bytes().splitlines():
        try:
            message = json.loads(line).get("message")
        except ValueError:
            return
        if message:
            yield message["role"], message["content"]


def test_it_lists_checks_and_compacts_our_store(peer: Any, imported: Path, run_cli: Callable[..., Any]) -> None:
    """It lists the sessions that we list, archived ones too; its inspection and its compaction report no issue."""
    ours = json.loads(
        run_cli(
            "sessions", "list", "--archived", "--all-agents", "--limit", "all", "--state-dir", imported, "--json"
        ).stdout
    )

    listed = peer.json(imported, "sessions", "--all-agents", "--limit", "all")
    inspected = peer.json(imported, "doctor", "--session-sqlite", "inspect", "--session-sqlite-all-agents")
    compacted = peer.json(imported, "doctor", "--session-sqlite", "compact", "--session-sqlite-all-agents")

    assert rows(ours) == rows(listed)
    assert rows(ours)
    assert len({target.parent for target in imported.glob("agents/*/agent/*.sqlite")}) == inspected["totals"]["targets"]
    assert (0, 0) == (inspected["totals"]["issues"], compacted["totals"]["issues"])
    assert len(rows(listed)) == inspected["totals"]["sqliteEntries"]


def test_it_reads_our_events_in_order(peer: Any, run_cli: Callable[..., Any], tmp_path: Path) -> None:
    """The model context that it rebuilds from our store has every message of the source, in order."""
    state_dir = Path(shutil.copytree(DEMO, tmp_path / "state"))
    source = DEMO / "agents/main/sessions/5f0c2a9e-3b1d-4c58-9a57-0d2f6e8b1c01.jsonl"
    assert run_cli("doctor", "import", "--all-agents", "--state-dir", state_dir).status == 0
    store = state_dir / "agents/main/agent/openclaw-agent.sqlite"

    view = peer.read_context(state_dir, store, "agent:main:main", source.stem)

    assert list(messages(source)) == [(message["role"], message["content"]) for message in view["session"]]


def test_it_loads_our_folded_transcript(
    peer: Any, peer_import: Callable[[Path], Any], run_cli: Callable[..., Any], tmp_path: Path
) -> None:
    """Imported by the real program, a folded transcript shows the model exactly the messages of the folded file."""
    state_dir = Path(shutil.copytree(DEMO, tmp_path / "state"))
    source = state_dir / "agents/main/sessions/5f0c2a9e-3b1d-4c58-9a57-0d2f6e8b1c01.jsonl"
    folded = tmp_path / "folded.jsonl"
    assert run_cli("compact", "--lifecycles", source, "-o", folded).status == 0
    shutil.copy(folded, source)

    report = peer_import(state_dir)
    store = state_dir / "agents/main/agent/openclaw-agent.sqlite"
    view = peer.read_context(state_dir, store, "agent:main:main", source.stem)

    assert 5 == report["totals"]["importedEntries"]
    expected = list(messages(folded))
    assert expected == [(message["role"], message["content"]) for message in view["model"]]
    assert 5 == sum("KOMPAKTE AUFGABE" in str(content) or "COMPACTED TASK" in str(content) for _, content in expected)
