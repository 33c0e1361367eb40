"""Who may write where: remote gateways, and waiting for those who hold something."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.support.legacy_state import digests, jsonl, one_session, sid, turns

REMOTE = '{"gateway": {"mode": "remote", "remote": {"url": "${UNSET_URL}"}}}'


@pytest.fixture
def state(tmp_path: Path) -> Path:
    return one_session(tmp_path / "state", jsonl(turns(sid(1))))


@pytest.mark.parametrize("how", ["file", "environment"])
def test_a_store_of_a_remote_gateway_was_written_here(how: str, state: Path, run_cli: Callable[..., Any]) -> None:
    """Writers are refused and change nothing, readers say once where the sessions may be, --local overrides both."""
    env = {"OPENCLAW_GATEWAY_URL": "wss://gateway.example/?token=secret"} if how == "environment" else {}
    if how == "file":
        (state / "openclaw.json").write_text(REMOTE)
    before = digests(state)
    for mode in ("import", "restore", "compact"):
        outcome = run_cli("doctor", mode, "--state-dir", state, "--json", env=env)
        assert (12, "remote_gateway") == (outcome.status, json.loads(outcome.stdout)["error"]["code"])
        assert "--local" in outcome.stderr
        assert "secret" not in outcome.stderr
    readers = [["doctor", mode] for mode in ("inspect", "dry-run", "validate")]
    for reader in (*readers, ["doctor", "import", "--dry-run"], ["sessions", "list"]):
        outcome = run_cli(*reader, "--state-dir", state, env=env)
        assert 12 != outcome.status
        assert 1 == outcome.stderr.count("may not hold the sessions"), reader
        assert "may not" not in run_cli(*reader, "--state-dir", state, "--local", env=env).stderr
    assert before == digests(state)
    assert 0 == run_cli("doctor", "import", "--state-dir", state, "--local", env=env).status


def test_waiting_did_not_wait_for_a_transcript_lock(state: Path, run_cli: Callable[..., Any]) -> None:
    """A lock file of a living process that goes away within --wait does not end the run."""
    lock = state / "agents" / "main" / "sessions" / f"{sid(1)}.jsonl.lock"
    lock.write_text(json.dumps({"pid": os.getpid()}))
    assert 11 == run_cli("doctor", "import", "--state-dir", state, "--wait", "0").status
    going = threading.Timer(1.5, lock.unlink)
    going.start()
    assert 0 == run_cli("doctor", "import", "--state-dir", state, "--wait", "60s").status
    going.join()


@pytest.mark.parametrize("role", ["sqlite-maintenance", "gateway"])
def test_another_import_was_called_a_gateway(role: str, state: Path, run_cli: Callable[..., Any]) -> None:
    """The owner is named as what it is, and only a gateway is to be stopped."""
    script = (
        "import sys, pathlib; from openclaw_cli import locks; from openclaw_cli.storage.lockfile import Exclusive\n"
        "state = pathlib.Path(sys.argv[1]); locks.ROLE = sys.argv[2]\n"
        "with locks.take(state, config_path=state / 'openclaw.json', take_lock=Exclusive, now_ms=1):\n"
        "    print('held', flush=True); sys.stdin.read()"
    )
    argv = [sys.executable, "-c", script, str(state), role]
    with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as holder:
        assert holder.stdout is not None
        assert b"held\n" == holder.stdout.readline()
        outcome = run_cli("doctor", "import", "--state-dir", state)
        holder.communicate()
    assert 11 == outcome.status
    named = "gateway, pid" if role == "gateway" else "another maintenance run, pid"
    assert f"{named} {holder.pid}" in outcome.stderr
    assert (role == "gateway") == ("stop the gateway" in outcome.stderr)


def test_a_named_store_is_this_hosts(state: Path, run_cli: Callable[..., Any]) -> None:
    """--store names the very file, so no gateway is meant."""
    index = state / "agents" / "main" / "sessions" / "sessions.json"
    assert 0 == run_cli("doctor", "import", "--store", index, env={"OPENCLAW_GATEWAY_URL": "wss://x"}).status
