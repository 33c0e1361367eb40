"""A live gateway of the real program on loopback: it owns the state, and what we are asked to change it changes."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import legacy_state as legacy
import pytest

from openclaw_cli.storage import connection, events
from openclaw_cli.storage.sessions import write_entry

pytestmark = pytest.mark.peer

TOKEN = "t0ken-of-the-test"
DATABASE = "agents/main/agent/openclaw-agent.sqlite"
KEYS = ("agent:main:explicit:a", "agent:main:explicit:b", "agent:main:hook:old")
DAY_MS = 86_400_000


@pytest.fixture
def state(tmp_path: Path) -> Path:
    """Two sessions that are new, one that is old; a port that is free."""
    made = tmp_path / "state"
    (made / "agents/main/sessions").mkdir(parents=True)
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        port = one.getsockname()[1]
    gateway = {"port": port, "mode": "local", "bind": "loopback", "auth": {"mode": "token", "token": TOKEN}}
    (made / "openclaw.json").write_text(json.dumps({"gateway": gateway}))
    now_ms = time.time_ns() // 10**6
    with connection.create(made / DATABASE, agent_id="main", now_ms=now_ms) as store, store.transaction():
        for number, key in enumerate(KEYS, 1):
            at = now_ms - (40 * DAY_MS if key.endswith("old") else 1000)
            entry = {"sessionId": legacy.sid(number), "updatedAt": at, "sessionStartedAt": at}
            write_entry(store, key, {**entry, "delivery": {"kind": "none"}}, now_ms=at)
            rows = legacy.turns(legacy.sid(number), 3)
            events.append(store, key, legacy.sid(number), [(legacy.line(row), row) for row in rows], now_ms=at)
    return made


@contextmanager
def living(peer: Any, state: Path, place: Path) -> Iterator[subprocess.Popen[bytes]]:
    """The gateway, ready; its log is in `place`."""
    port = json.loads((state / "openclaw.json").read_text())["gateway"]["port"]
    env = {
        "PATH": f"{peer.node.parent}{os.pathsep}{os.environ.get('PATH', '')}",
        "HOME": str(peer.home),
        "OPENCLAW_STATE_DIR": str(state),
        "OPENCLAW_SKIP_CHANNELS": "1",
        "TZ": "UTC",
        "NO_COLOR": "1",
    }
    argv = [str(peer.node), str(peer.program), "gateway", "run", "--port", str(port), "--bind", "loopback",
            "--auth", "token", "--token", TOKEN, "--allow-unconfigured"]  # fmt: skip
    with (place / "gateway.log").open("wb") as log:
        gateway = subprocess.Popen(argv, env=env, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        try:
            _wait_until_ready(gateway, port, place / "gateway.log")
            yield gateway
        finally:
            gateway.kill()
            gateway.wait(timeout=30)


def _wait_until_ready(gateway: subprocess.Popen[bytes], port: int, log: Path) -> None:
    ends = time.monotonic() + 150
    while time.monotonic() < ends:
        assert gateway.poll() is None, log.read_text()[-2000:]
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/readyz", timeout=2) as answer:
                if json.load(answer).get("ready"):
                    return
        except OSError:
            pass
        time.sleep(0.3)
    pytest.fail(log.read_text()[-2000:])


@pytest.mark.timeout(400)
def test_a_living_gateway_does_it(peer: Any, run_cli: Callable[..., Any], state: Path, tmp_path: Path) -> None:
    """Cleanup, a mark and a deletion are its doing; what it has no method for is busy; killed, we are free again."""

    def run(*words: str) -> tuple[int, Any]:
        done = run_cli(*words, "--state-dir", state, "--json")
        return done.status, json.loads(done.stdout)

    with living(peer, state, tmp_path) as gateway:
        assert (11, "busy") == (lambda found: (found[0], found[1]["error"]["code"]))(run("doctor", "compact"))
        assert 11 == run("sessions", "cleanup", "--enforce", "--gateway", "never")[0]
        assert 11 == run("sessions", "cleanup", "--enforce", "--limit", "1")[0]
        # Reading and previews need nobody.
        assert 3 == len(run("sessions", "list")[1]["sessions"])
        assert 1 == run("sessions", "cleanup")[1]["pruned"]

        status, document = run("sessions", "cleanup", "--enforce")
        assert (0, "gateway", 1) == (status, document.get("transport"), document.get("pruned")), document
        assert document["storePath"] == os.path.realpath(state / DATABASE)

        status, document = run("sessions", "archive", KEYS[0])
        assert (0, "archived") == (status, document["results"][0]["status"]), document
        assert "already_archived" == run("sessions", "archive", KEYS[0])[1]["results"][0]["status"]
        status, document = run("sessions", "delete", KEYS[1], "agent:main:explicit:no", "--yes")
        assert ["deleted", "not_found"] == [one["status"] for one in document["results"]], document
        (archived,) = document["results"][0]["archived"]
        assert Path(archived).is_file()
        assert 12 == run_cli(
            "sessions", "cleanup", "--enforce", "--state-dir", state, env={"OPENCLAW_GATEWAY_TOKEN": "wr0ng"}
        ).status  # fmt: skip
        gateway.kill()
        gateway.wait(timeout=30)
    # What a killed gateway leaves is known to be stale; its archive is whole, and comes back with our help.
    status, document = run("archives", "verify")
    assert 0 == status and {legacy.sid(2), legacy.sid(3)} <= {one["sessionId"] for one in document["archives"]}
    status, document = run("sessions", "undelete", KEYS[1])
    assert (0, 4) == (status, document["results"][0]["events"]), document
    listed = peer.json(state, "sessions", "--limit", "all")
    assert {KEYS[0], KEYS[1]} <= {row["key"] for row in listed["sessions"]}


@pytest.mark.timeout(400)
def test_it_waits_for_us(peer: Any, run_cli: Callable[..., Any], state: Path, tmp_path: Path) -> None:
    """While we hold the lock the real program's own maintenance refuses, and says who we are."""
    from openclaw_cli import locks
    from openclaw_cli.storage.lockfile import Exclusive

    (state / "state").mkdir(exist_ok=True)
    with locks.take(state, config_path=state / "openclaw.json", take_lock=Exclusive, now_ms=time.time_ns() // 10**6):
        found = peer.run(state, "doctor", "--session-sqlite", "compact", "--session-sqlite-all-agents")
    assert 0 != found.status
    assert "owns this OpenClaw state directory" in found.stdout + found.stderr
