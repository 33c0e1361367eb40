"""Others write to a store while it is cleaned up: none of them waits for a second, and nothing of theirs is lost."""

from __future__ import annotations

import json
import random
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import orjson
import pytest

from openclaw_cli.storage import connection, events, verify
from openclaw_cli.storage.sessions import write_entry

NOW_MS = 1_796_000_000_000
DAY_MS = 86_400_000
WORDS = ("alpha", "beta", "gamma", "delta", "epsilon", "zeta", "eta", "theta")
WRITER = """
import json, pathlib, select, sys, time
from openclaw_cli.storage import connection, events
path, key, session_id, ready = sys.argv[1:]
timeouts = connection.Timeouts(acquire_ms=1000)
failed, waits, number = 0, [], 0
open(ready, "w").close()
while not sys.stdin.closed:
    row = {"type": "message", "id": f"w{number:06d}", "parentId": None, "message": {"role": "user", "content": "hello"}}
    begin = time.monotonic()
    try:
        with connection.open_write(pathlib.Path(path), agent_id="main", timeouts=timeouts) as store:
            for _ in range(20):
                row["id"] = f"w{number:06d}"
                begin = time.monotonic()
                with store.transaction():
                    events.append(store, key, session_id, [(json.dumps(row).encode(), row)], now_ms=number + 1)
                waits.append(time.monotonic() - begin)
                number += 1
                time.sleep(0.005)
    except Exception as error:
        failed += 1
        print(type(error).__name__, error, time.monotonic() - begin, file=sys.stderr, flush=True)
    if select.select([sys.stdin], [], [], 0)[0]:
        break
print(json.dumps({"failed": failed, "written": number, "longest_s": max(waits)}))
"""


def _make(database: Path, megabytes: int) -> int:
    """Sessions of about 100 KB, half of them to be removed, and one that is written to; gives their number."""
    chance = random.Random(5)
    number = megabytes * 10
    with connection.create(database, agent_id="main", now_ms=NOW_MS) as store:
        for start in range(0, number, 50):
            with store.transaction():
                for each in range(start, start + 50):
                    old = NOW_MS - (40 if each % 2 else 1) * DAY_MS
                    session_id = f"{each:08x}-0000-4000-8000-000000000000"
                    entry = {"sessionId": session_id, "updatedAt": old, "sessionStartedAt": old}
                    write_entry(store, f"agent:main:subagent:s{each}", entry, now_ms=NOW_MS)
                    header = {"type": "session", "version": 4, "id": session_id, "timestamp": "2026-01-01T00:00:00Z"}
                    rows = [header]
                    for part in range(20):
                        words = " ".join(chance.choices(WORDS, k=750))
                        message = {"role": "user", "content": [{"type": "text", "text": words}]}
                        parent = f"m{part - 1}" if part else None
                        rows.append({"type": "message", "id": f"m{part}", "parentId": parent, "message": message})
                    pairs = [(orjson.dumps(row), row) for row in rows]
                    events.append(store, f"agent:main:subagent:s{each}", session_id, pairs, now_ms=old)
    return number


@pytest.mark.timeout(900)
@pytest.mark.parametrize("megabytes", [20, pytest.param(200, marks=pytest.mark.slow)])
def test_writers_go_on(
    megabytes: int, tmp_path: Path, run_cli: Callable[..., Any], record_property: Callable[[str, object], None]
) -> None:
    """No write fails with a second to wait, each is there afterwards, the cleanup ends as ever."""
    state = tmp_path / "state"
    database = state / "agents/main/agent/openclaw-agent.sqlite"
    (state / "agents/main/sessions").mkdir(parents=True)
    (state / "openclaw.json").write_text("{}")
    number = _make(database, megabytes)
    ready = tmp_path / "ready"
    argv = [sys.executable, "-c", WRITER, str(database), "agent:main:main", "wwwwwwww", str(ready)]
    with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as writer:
        while not ready.exists():
            assert writer.poll() is None
        words = ("--state-dir", state, "--now", str(NOW_MS), "--enforce", "--vacuum", "--json")
        done = run_cli("sessions", "cleanup", *words)
        said, complaint = writer.communicate(b"stop\n")
    found = json.loads(said)
    record_property("summary", f"writers during the cleanup of {megabytes} MB: {found}")

    assert 0 == done.status, done.stderr + done.stdout[-2000:]
    assert 0 == found["failed"], complaint
    assert number // 2 == json.loads(done.stdout)["pruned"]
    with connection.open_read(database, temporary_tables=True) as store:
        assert found["written"] == store.value("SELECT count(*) FROM transcript_events WHERE session_id = 'wwwwwwww'")
        assert [] == [*verify.integrity(store), *verify.verify(store)]
