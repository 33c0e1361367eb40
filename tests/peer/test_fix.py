"""`doctor fix` and `sessions fork --repair` across the two programs: what one refuses, the other mends."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import legacy_state
import pytest
from store_states import KEY, SESSION, State

pytestmark = pytest.mark.peer

IMPORT = ("doctor", "--session-sqlite", "import", "--session-sqlite-all-agents")
CONFIG = """{
  // kept
  session: { idleMinutes: 90, parentForkMaxTokens: 5, maintenance: { pruneDays: 30, rotateBytes: "1mb" },
    resetByType: { dm: { mode: "daily" } } },
  agents: { defaults: { compaction: { truncateAfterCompaction: false, maxActiveTranscriptBytes: "5mb",
    reserveTokens: 9, reserveTokensFloor: 9, maxHistoryShare: 0.4, customInstructions: "x", identifierPolicy: "custom",
    identifierInstructions: "x", memoryFlush: { prompt: "p", systemPrompt: "s", enabled: true } } } },
}
"""


def test_a_store_and_a_configuration_that_the_real_program_refuses(
    peer: Any, run_cli: Callable[..., Any], tmp_path: Path
) -> None:
    """It imports keys in every spelling and then reads no session; after a fix it lists them all, and once only."""
    state = tmp_path / "state"
    sessions = state / "agents/main/sessions"
    sessions.mkdir(parents=True)
    keys = ("agent:main:main", "Agent:Main:Telegram:Direct:X", "legacykey", "agent:main:foo", "agent:main:Foo")
    index: dict[str, Any] = {}
    for number, key in enumerate(keys):
        session_id = legacy_state.sid(number)
        (sessions / f"{session_id}.jsonl").write_bytes(legacy_state.jsonl(legacy_state.turns(session_id, 3)))
        index[key] = {"sessionId": session_id, "updatedAt": legacy_state.BASE_MS + number}
    index["agent:main:foo"]["parentSessionKey"] = "legacykey"
    (sessions / "sessions.json").write_text(json.dumps(index))
    (state / "openclaw.json").write_text("{}\n")
    assert 0 == peer.run(state, *IMPORT).status
    assert "non-canonical persisted row" in (refused := peer.run(state, "sessions", "--json")).stdout + refused.stderr
    (state / "openclaw.json").write_text(CONFIG)
    assert "Invalid config" in (refused := peer.run(state, "sessions", "--json")).stdout + refused.stderr

    done = run_cli("doctor", "--fix", "--state-dir", state, "--json")

    assert 0 == done.status, done.stdout + done.stderr
    listed = peer.json(state, "sessions", "--json")["sessions"]
    assert {
        "agent:main:main": legacy_state.sid(0),
        "agent:main:telegram:direct:x": legacy_state.sid(1),
        "agent:main:legacykey": legacy_state.sid(2),
        "agent:main:foo": legacy_state.sid(4),
    } == {row["key"]: row["sessionId"] for row in listed}
    assert "// kept" in (state / "openclaw.json").read_text()


def test_the_real_program_goes_on_with_a_successor(peer: Any, run_cli: Callable[..., Any], tmp_path: Path) -> None:
    """It refuses the session whose header is old, and rebuilds the whole context of its successor."""
    state = State(tmp_path / "state")
    rows = legacy_state.turns(SESSION, 4)
    now_ms = time.time_ns() // 10**6
    state.add([{**rows[0], "version": 2}, *rows[1:]], updatedAt=now_ms)
    (tmp_path / "same").mkdir()
    same = State(tmp_path / "same/state")
    same.add(rows, updatedAt=now_ms)
    with pytest.raises(AssertionError):
        peer.read_context(state.root, state.database, KEY, SESSION)
    wanted = peer.read_context(same.root, same.database, KEY, SESSION)

    done = run_cli("sessions", "fork", KEY, "--repair", "--state-dir", state.root, "--json")

    assert 0 == done.status, done.stderr
    new = json.loads(done.stdout)["successorSessionId"]
    assert [new] == [row["sessionId"] for row in peer.json(state.root, "sessions", "--json")["sessions"]]
    found = peer.read_context(state.root, state.database, KEY, new)
    assert wanted == found
    assert wanted["model"] != []
