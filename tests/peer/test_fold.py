"""Folded transcripts in the real program: it imports them without an issue and rebuilds the context that we predict."""

from __future__ import annotations

import io
import json
import random
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

import pytest
from conversations import Conversation, call, random_conversation, spawn

from openclaw_cli.lifecycles import fold, scan
from openclaw_cli.transcript.context import Branch, model_context
from openclaw_cli.transcript.entries import text_of
from openclaw_cli.transcript.tree import Tree

Rows = list[dict[str, Any]]


@dataclass
class Source:
    """A transcript in memory."""

    name: str
    stream: BinaryIO


def session_id(number: int) -> str:
    """A session id that the program accepts."""
    return f"0f01d000-0000-4000-8000-{number:012d}"


def write_store(state_dir: Path, transcripts: list[bytes]) -> None:
    """A file-era store with one session per transcript."""
    sessions = state_dir / "agents/main/sessions"
    sessions.mkdir(parents=True)
    index = {}
    for number, data in enumerate(transcripts):
        header, rest = data.split(b"\n", 1)
        value = {**json.loads(header), "id": session_id(number)}
        (sessions / f"{session_id(number)}.jsonl").write_bytes(json.dumps(value).encode() + b"\n" + rest)
        index[f"agent:main:t{number}"] = {"sessionId": session_id(number), "updatedAt": 1_790_000_000_000 + number}
    (sessions / "sessions.json").write_text(json.dumps(index), encoding="utf-8")


def folded(data: bytes) -> tuple[bytes, fold.Plan]:
    """The folded file and its plan."""
    source = Source("made-up", io.BytesIO(data))
    plan = fold.plan(scan.scan(source), source.stream)
    return b"".join(fold.rewritten(plan, source.stream)), plan


def shown(message: dict[str, Any]) -> tuple[str, str, tuple[str, ...]]:
    """What identifies a message in a context: role, text or summary, tool calls."""
    content = message.get("content")
    calls = [b["id"] for b in content if b.get("type") == "toolCall"] if isinstance(content, list) else []
    return message["role"], message.get("summary") or text_of(message), tuple(calls)


def relinked(rows: Rows) -> Rows:
    """The rows as an importer links them: a parent that the file does not hold is the current leaf."""
    tree = Tree()
    found = []
    for seq, row in enumerate(rows):
        unknown = isinstance(row.get("parentId"), str) and row["parentId"] not in tree.nodes
        node = tree.add(seq, row)
        found.append({**row, "parentId": node.parent} if unknown and node else row)
    return found


def branch_of(rows: Rows) -> list[str]:
    """The ids of the branch that we expect."""
    branch = Branch()
    for index, row in enumerate(rows):
        branch.feed(index, row)
    return [fact.id for fact in branch.path()]


def context_of(rows: Rows) -> list[tuple[str, str, tuple[str, ...]]]:
    """The context that we expect."""
    return [shown(message) for message in model_context(rows)]


def rows_of(data: bytes) -> Rows:
    """The rows of a transcript."""
    return [json.loads(line) for line in data.splitlines()]


def compare(peer: Any, state_dir: Path, transcripts: list[bytes]) -> None:
    """Import with the real program, then ask it for each session."""
    write_store(state_dir, transcripts)
    report = peer.json(state_dir, "doctor", "--session-sqlite", "import", "--session-sqlite-all-agents")
    assert 0 == report["totals"]["issues"], report["targets"]
    store = state_dir / "agents/main/agent/openclaw-agent.sqlite"
    for number, data in enumerate(transcripts):
        view = peer.read_context(state_dir, store, f"agent:main:t{number}", session_id(number))
        rows = rows_of(data)
        assert branch_of(rows) == [entry["id"] for entry in view["branch"]], number
        assert context_of(rows) == [shown(message) for message in view["session"]], number
        # The view before inference hangs an entry with an unknown parent at the leaf, the other one makes it a root.
        assert context_of(relinked(rows)) == [shown(message) for message in view["model"]], number


def examples() -> list[Conversation]:
    """One sub-task of each shape of removal."""
    plain = Conversation()
    plain.user("Go.")
    plain.sub_task()
    plain.says("It is done.")
    parallel = Conversation(version=4)
    parallel.user("Go.")
    parallel.assistant([{"type": "text", "text": "Two of them."}, spawn(1), call("r"), spawn(2)])
    parallel.accepted(1)
    parallel.result("r")
    parallel.accepted(2)
    parallel.user("Meanwhile?")
    parallel.completed(2)
    parallel.says("Second first.")
    parallel.completed(1)
    parallel.says("Both.")
    return [plain, parallel]


def test_folded_examples_and_golden_transcripts(peer: Any, tmp_path: Path, fixtures: Path) -> None:
    """Cards stand where we say, no result is dropped, every kept message comes back in order."""
    sources = [talk.data() for talk in examples()]
    sources += [path.read_bytes() for path in sorted((fixtures / "lifecycles").glob("*.jsonl"))]
    results = [folded(data) for data in sources]
    assert sum(len(plan.folded) for _, plan in results) >= 3
    compare(peer, tmp_path, [data for data, _ in results])


@pytest.mark.parametrize("seed", [1, pytest.param(2, marks=pytest.mark.slow), pytest.param(3, marks=pytest.mark.slow)])
def test_folded_random_conversations(peer: Any, tmp_path: Path, seed: int) -> None:
    """Branches, controls, side entries, compactions, resets: folded, then rebuilt as predicted."""
    rng = random.Random(seed)
    results: list[bytes] = []
    while len(results) < 8:
        data, plan = folded(random_conversation(rng).data())
        if plan.folded:
            results.append(data)
    compare(peer, tmp_path, results)


def test_random_trees_as_they_are(peer: Any, tmp_path: Path) -> None:
    """The tree rules themselves, without any fold."""
    rng = random.Random(7)
    compare(peer, tmp_path, [random_conversation(rng).data() for _ in range(8)])


def test_our_context_rules_hold_for_what_the_program_wrote(
    peer: Any, peer_import: Callable[[Path], Any], state_copy: Callable[[str], Path]
) -> None:
    """A real store: the context that we rebuild from its source file is the one that the program rebuilds."""
    state_dir = state_copy("01")
    name = "00000abc-0000-4000-8000-000000000001"
    rows = rows_of((state_dir / f"agents/main/sessions/{name}.jsonl").read_bytes())
    peer_import(state_dir)
    view = peer.read_context(state_dir, state_dir / "agents/main/agent/openclaw-agent.sqlite", "agent:main:main", name)
    assert context_of(relinked(rows)) == [shown(message) for message in view["model"]]
