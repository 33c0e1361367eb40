"""Owning a state directory: who is named, what counts as stale, what is refused."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from openclaw_cli import locks
from openclaw_cli.errors import BusyError, RefusedError
from openclaw_cli.storage.lockfile import Exclusive

NOW = 1_796_000_000_000
ABSENT_PID = 2**22 + 1


@pytest.fixture
def state(tmp_path: Path) -> Path:
    path = tmp_path / "state"
    path.mkdir()
    return path


def take(state: Path, **options: Any) -> locks.Ownership:
    return locks.take(state, config_path=state / "openclaw.json", take_lock=Exclusive, now_ms=NOW, **options)


def leave(state: Path, **fields: Any) -> Path:
    """A JSON lock file as a killed owner leaves it, padded as OpenClaw pads it."""
    payload = {
        "pid": ABSENT_PID,
        "createdAt": "2026-11-30T00:00:00.000Z",
        "stateDir": str(state),
        "configPath": str(state / "openclaw.json"),
        "startTime": 1,
    }
    path = locks.names_dir(state) / "gateway.state.lock"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps({**payload, **fields}) + " \t \t  ")
    return path


def test_owner_is_named_to_others(state: Path) -> None:
    """The second one is told pid, role and age of the first, and can take the directory once it is free."""
    with take(state), pytest.raises(BusyError) as raised:
        take(state)
    assert (os.getpid(), "sqlite-maintenance", 0) == tuple(
        raised.value.facts[name] for name in ("pid", "role", "ageMs")
    )
    take(state).release()


def test_release_leaves_only_the_lock_databases(state: Path) -> None:
    """Our name goes with us; the SQLite lock files stay, as those of the real program do."""
    take(state).release()
    left = [path.name for path in locks.names_dir(state).iterdir()]
    assert all(name.endswith(".lock.sqlite") for name in left)
    assert locks.lifecycle_path(state).exists()


def test_a_killed_process_holds_nothing(state: Path) -> None:
    """After SIGKILL the SQLite lock is free, and the name that stayed is stale: a warning that names it."""
    script = (
        "import os, signal, sys; from pathlib import Path; from openclaw_cli import locks;"
        "from openclaw_cli.storage.lockfile import Exclusive; state = Path(sys.argv[1]);"
        "held = locks.take(state, config_path=state / 'openclaw.json', take_lock=Exclusive, now_ms=1);"
        "os.kill(os.getpid(), signal.SIGKILL)"
    )
    subprocess.run([sys.executable, "-c", script, str(state)])
    with take(state) as owned:
        assert ["stale_lock"] * 2 == [issue.code for issue in owned.issues]
        assert {"warning"} == {issue.severity for issue in owned.issues}


def test_lock_without_a_lifecycle_file_is_foreign(state: Path) -> None:
    """A name in the directory, but no SQLite lock of this host: an owner in a container or on another host."""
    leave(state)
    with pytest.raises(RefusedError) as raised:
        take(state)
    assert "foreign_owner" == raised.value.code
    with take(state, assume_stopped=True) as owned:
        assert ["stale_lock"] == [issue.code for issue in owned.issues]


def test_lock_of_another_state_dir_is_foreign(state: Path) -> None:
    """The path inside the lock is not ours: the directory is shared under two names."""
    take(state).release()
    leave(state, stateDir="/home/node/.openclaw")
    with pytest.raises(RefusedError):
        take(state)


def test_answering_port_is_an_owner(state: Path) -> None:
    """A port that answers is a gateway, whatever its pid is here, and also when it is said to be stopped."""
    take(state).release()
    with socket.create_server(("127.0.0.1", 0)) as server:
        leave(state, port=server.getsockname()[1])
        for assumed in (False, True):
            with pytest.raises(BusyError) as raised:
                take(state, assume_stopped=assumed)
            assert server.getsockname()[1] == raised.value.facts["port"]


def test_failed_taking_holds_nothing(state: Path) -> None:
    """When a later check refuses, the locks that were taken before are given back."""
    take(state).release()
    leave(state, stateDir="/home/node/.openclaw")
    with pytest.raises(RefusedError):
        take(state)
    Exclusive(locks.lifecycle_path(state), 0).release()


def test_refused_once_is_refused_again(state: Path) -> None:
    """A refused attempt leaves nothing behind that would make the foreign lock look like one of ours."""
    leave(state)
    for _ in range(2):
        with pytest.raises(RefusedError):
            take(state)
    assert not locks.lifecycle_path(state).exists()


def test_other_users_directory(state: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another user's directory is refused before a lock is taken, unless it is allowed."""
    monkeypatch.setattr(os, "geteuid", lambda: state.stat().st_uid + 1)
    with pytest.raises(RefusedError) as raised:
        take(state)
    assert "other_owner" == raised.value.code
    locks.refuse_other_user(state, allow_owner=True)


@pytest.mark.parametrize("kind", ["nfs4", "virtiofs", "9p", "fuse.sshfs"])
def test_remote_mounts_are_refused(kind: str, state: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """On such a mount an owner on another host would not be seen."""
    monkeypatch.setattr(locks, "mount_type", lambda _: kind)
    with pytest.raises(RefusedError):
        take(state)
    take(state, assume_stopped=True).release()


@pytest.mark.parametrize("text", ["", "not json", "[1]", '{"pid": "x"}', '{"pid": -1}', '{"pid": 0}'])
def test_unreadable_lock_names_nobody(text: str, tmp_path: Path) -> None:
    """What cannot be read is no living owner."""
    path = tmp_path / "a.jsonl.lock"
    path.write_text(text)
    assert not locks.is_alive(locks.read_lock(path))


def test_pid_that_was_given_to_another_process(tmp_path: Path) -> None:
    """The pid lives, its start time is another: the owner is gone."""
    path = tmp_path / "a.jsonl.lock"
    started = locks.start_time(os.getpid())
    for stated, alive in ((started, True), (1, False), (None, True)):
        path.write_text(json.dumps({"pid": os.getpid(), "starttime": stated}))
        assert alive == locks.is_alive(locks.read_lock(path))
