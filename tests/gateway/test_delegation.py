"""Who does the work: this host, or the gateway that holds the lock of the state directory (design, D7)."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import archived_states as states
import fake_gateway as fake
import legacy_state as legacy
import pytest

from openclaw_cli import locks
from openclaw_cli.storage import connection, events
from openclaw_cli.storage.lockfile import Exclusive
from openclaw_cli.storage.sessions import write_entry

NOW_MS = 1_796_000_000_000
OLD_MS = NOW_MS - 40 * 86_400_000
KEY = "agent:main:hook:h"
SUMMARY = {
    "agentId": "main", "storePath": "/s", "mode": "enforce", "dryRun": False, "beforeCount": 2, "afterCount": 1,
    "missing": 0, "dmScopeRetired": 0, "modelRunPruned": 0, "archived": 0, "capArchived": 0, "pruned": 1, "capped": 0,
    "wouldMutate": True, "applied": True, "appliedCount": 1,
}  # fmt: skip


@pytest.fixture
def state(tmp_path: Path) -> Path:
    """A store with one row that is old."""
    made = tmp_path / "state"
    (made / "agents/main/sessions").mkdir(parents=True)
    (made / "state").mkdir()
    (made / "openclaw.json").write_text(json.dumps({"gateway": {"auth": {"token": fake.TOKEN}}}))
    path = made / "agents/main/agent/openclaw-agent.sqlite"
    with connection.create(path, agent_id="main", now_ms=NOW_MS) as store, store.transaction():
        for number, (key, at) in enumerate((("agent:main:main", NOW_MS), (KEY, OLD_MS)), 1):
            write_entry(store, key, {"sessionId": legacy.sid(number), "updatedAt": at}, now_ms=at)
            rows = legacy.turns(legacy.sid(number), 2)
            events.append(store, key, legacy.sid(number), [(legacy.line(row), row) for row in rows], now_ms=at)
    return made


@contextmanager
def held(state: Path, port: int | None, *, stated: str | None = None, role: str | None = None) -> Iterator[None]:
    """A gateway of this host owns the state directory: SQLite lock and JSON lock, the process is ours."""
    locks.lock_dir().mkdir(mode=0o700, exist_ok=True)
    lock = Exclusive(locks.lifecycle_path(state), 0)
    names = locks.names_dir(state)
    names.mkdir(parents=True, exist_ok=True)
    payload = {
        "pid": os.getpid(), "startTime": locks.start_time(os.getpid()), "createdAt": "2026-01-01T00:00:00.000Z",
        "configPath": str(state / "openclaw.json"), "stateDir": stated or str(state), "port": port,
    }  # fmt: skip
    if role is not None:
        payload["role"] = role
    path = names / "gateway.state.lock"
    path.write_text(json.dumps(payload) + "\n \t \n")
    try:
        yield
    finally:
        path.unlink()
        lock.release()


@pytest.fixture
def run(state: Path, run_cli: Callable[..., Any]) -> Callable[..., tuple[int, Any, str]]:
    """Run with --json; gives (status, document, stderr)."""

    def call(*words: str, **env: str) -> tuple[int, Any, str]:
        more = () if "--store" in words else ("--state-dir", state)
        done = run_cli(*words, *more, "--now", str(NOW_MS), "--json", env=env)
        return done.status, json.loads(done.stdout), done.stderr

    return call


CLEANUP = ("sessions", "cleanup", "--enforce")


def cleaning(summary: dict[str, Any] | None = None) -> dict[str, fake.Answer]:
    """A gateway that cleans up."""
    return {"sessions.cleanup": lambda _: {"ok": True, "payload": summary or SUMMARY}}


def test_free_means_local(run: Callable[..., Any]) -> None:
    """No secret is needed, nobody is asked."""
    status, document, _ = run(*CLEANUP)
    assert (0, 1, 1) == (status, document["afterCount"], document["pruned"])
    assert "transport" not in document


def test_held_means_delegated(state: Path, run: Callable[..., Any]) -> None:
    """By the port in the lock; the store is left alone, a preview never connects, OpenClaw's document comes through."""
    before = states.everything(state)
    with fake.running(fake.FakeGateway(str(state), cleaning())) as gateway, held(state, gateway.port):
        assert 0 == run("sessions", "cleanup")[0]
        assert [] == gateway.requests
        status, document, said = run(*CLEANUP, "--fix-missing", "--active-key", "agent:main:main")

    assert 0 == status
    assert SUMMARY.items() <= document.items() and "gateway" == document["transport"]
    wanted = {"allAgents": False, "enforce": True, "fixMissing": True, "fixDmScope": False}
    assert {**wanted, "activeKey": "agent:main:main"} == gateway.requests[1]["params"]
    assert fake.TOKEN not in said + json.dumps(document)
    after = {name: digest for name, digest in states.everything(state).items() if "tmp/" not in name}
    assert {name: digest for name, digest in before.items() if "tmp/" not in name} == after


def test_never_and_require(state: Path, run: Callable[..., Any]) -> None:
    """`never`: busy, as before; `require`: also where nobody holds the lock."""
    with fake.running(fake.FakeGateway(str(state), cleaning())) as gateway:
        with held(state, gateway.port):
            assert 11 == run(*CLEANUP, "--gateway", "never")[0]
        assert [] == gateway.requests
        port = {"OPENCLAW_GATEWAY_PORT": str(gateway.port)}
        status, document, _ = run(*CLEANUP, "--gateway", "require", **port)
        assert (0, "gateway") == (status, document["transport"])
    assert 11 == run(*CLEANUP, "--gateway", "require", **port)[0]


def test_a_gateway_of_another_state_is_not_asked(state: Path, run: Callable[..., Any], tmp_path: Path) -> None:
    """Its port may be that of another profile; only what it says of itself counts."""
    for stated in (str(tmp_path / "other"), None):
        with fake.running(fake.FakeGateway(stated, cleaning())) as gateway, held(state, gateway.port):
            status, document, _ = run(*CLEANUP)
        assert (12, "gateway_of_other_state") == (status, document["error"]["code"])
        assert ["connect"] == [each["method"] for each in gateway.requests]


def test_a_gateway_in_a_container(state: Path, run: Callable[..., Any]) -> None:
    """It sees the directory under another name; the lock that lies in ours names that very one."""
    inside = "/home/node/.openclaw"
    with fake.running(fake.FakeGateway(inside, cleaning())) as gateway, held(state, gateway.port, stated=inside):
        assert 0 == run(*CLEANUP)[0]


def test_maintenance_is_no_gateway(state: Path, run: Callable[..., Any]) -> None:
    """Another run of ours: busy."""
    with held(state, None, role="sqlite-maintenance"):
        assert 11 == run(*CLEANUP)[0]


def test_store_never_connects(state: Path, run: Callable[..., Any]) -> None:
    """Held: busy; --force-local goes on beside it and says so."""
    store = str(state / "agents/main/agent/openclaw-agent.sqlite")
    with fake.running(fake.FakeGateway(str(state), cleaning())) as gateway, held(state, gateway.port):
        assert 11 == run(*CLEANUP, "--store", store)[0]
        status, document, said = run(*CLEANUP, "--store", store, "--force-local")
        assert (0, 1) == (status, document["pruned"])
        assert "forced_local" in {issue["code"] for issue in document["issues"]} and "--force-local" in said
        assert [] == gateway.requests
    assert 2 == run(*CLEANUP, "--store", store, "--gateway", "require")[0]
    assert 2 == run(*CLEANUP, "--force-local")[0]


def test_what_the_gateway_cannot_do_is_not_asked_of_it(state: Path, run: Callable[..., Any]) -> None:
    """Filters, limits, an archive directory: busy, with what to do."""
    for more in (("--limit", "1"), ("--max-entries", "3"), ("--archive-dir", "/x"), ("--vacuum",), ("--force",)):
        with fake.running(fake.FakeGateway(str(state), cleaning())) as gateway, held(state, gateway.port):
            status, document, _ = run(*CLEANUP, *more)
        assert (11, "busy") == (status, document["error"]["code"]), more
        assert ["connect"] == [each["method"] for each in gateway.requests]


def test_a_lost_answer_is_followed_up(state: Path, run: Callable[..., Any]) -> None:
    """Status 3, and what a look at the store shows."""
    silent = fake.FakeGateway(str(state), {"sessions.cleanup": lambda _: None})
    with fake.running(silent) as gateway, held(state, gateway.port):
        status, document, _ = run(*CLEANUP, "--timeout", "300ms")
    assert (3, "outcome_unknown") == (status, document["error"]["code"])
    assert [{"agentId": "main", "entries": 2, "wouldMutate": True}] == document["followUp"]["stores"]


def test_a_wrong_secret(state: Path, run: Callable[..., Any], tmp_path: Path) -> None:
    """Refused, never done locally; a token file helps."""
    before = states.everything(state)
    with fake.running(fake.FakeGateway(str(state), cleaning())) as gateway, held(state, gateway.port):
        wrong = {"OPENCLAW_GATEWAY_TOKEN": "wr0ng-secret"}
        status, document, said = run(*CLEANUP, **wrong)
        assert (12, "gateway_unauthorized") == (status, document["error"]["code"])
        assert "wr0ng-secret" not in said + json.dumps(document)
        (tmp_path / "token").write_text(fake.TOKEN)
        assert 0 == run(*CLEANUP, "--token-file", str(tmp_path / "token"), **wrong)[0]
        (state / "openclaw.json").write_text("{}")
        assert "gateway_credentials_missing" == run(*CLEANUP)[1]["error"]["code"]
    after = states.everything(state)
    assert all(before[name] == after[name] for name in before if "tmp/" not in name and name != "openclaw.json")


def test_a_remote_gateway_owns_the_sessions(state: Path, run: Callable[..., Any]) -> None:
    """It is asked, wherever the state of this host is; --local works here, `never` refuses."""
    with fake.running(fake.FakeGateway("/elsewhere", cleaning())) as gateway:
        remote = {"url": f"ws://127.0.0.1:{gateway.port}", "token": fake.TOKEN}
        (state / "openclaw.json").write_text(json.dumps({"gateway": {"mode": "remote", "remote": remote}}))
        status, document, _ = run(*CLEANUP)
        assert (0, "gateway") == (status, document["transport"])
        assert 12 == run(*CLEANUP, "--gateway", "never")[0]
        assert "transport" not in run(*CLEANUP, "--local")[1]


def administration(rows: dict[str, dict[str, Any]], log: list[Any]) -> dict[str, fake.Answer]:
    """A gateway with these sessions."""

    def describe(params: dict[str, Any]) -> dict[str, Any]:
        return {"ok": True, "payload": {"session": rows.get(params["key"])}}

    def patch(params: dict[str, Any]) -> dict[str, Any]:
        log.append(params)
        return {"ok": True, "payload": {"ok": True, "key": params["key"], "entry": {"sessionId": "s"}}}

    def delete(params: dict[str, Any]) -> dict[str, Any]:
        log.append(params)
        gone = rows.pop(params["key"], None)
        payload = {"ok": True, "key": params["key"], "deleted": gone is not None, "archived": ["/a.zst"]}
        return {"ok": True, "payload": payload}

    return {"sessions.describe": describe, "sessions.patch": patch, "sessions.delete": delete}


def test_marks_and_deletions(state: Path, run: Callable[..., Any]) -> None:
    """Key by key, with what a session is now; the results are those of the local commands."""
    rows = {KEY: {"sessionId": "s", "archived": False, "pinned": False}, "agent:main:b": {"sessionId": "t"}}
    log: list[Any] = []
    with fake.running(fake.FakeGateway(str(state), administration(rows, log))) as gateway, held(state, gateway.port):
        status, document, _ = run("sessions", "archive", KEY, "agent:main:no")
        assert 10 == status
        assert ["archived", "not_found"] == [one["status"] for one in document["results"]]
        rows[KEY]["archived"] = True
        assert "already_archived" == run("sessions", "archive", KEY)[1]["results"][0]["status"]
        assert "unread" == run("sessions", "unread", KEY)[1]["results"][0]["status"]
        status, document, _ = run("sessions", "delete", KEY, "agent:main:main", "--yes")
        assert 10 == status
        assert ["deleted", "not_found"] == [one["status"] for one in document["results"]]
        assert ["/a.zst"] == document["results"][0]["archived"]
        # There is no method for these.
        assert 11 == run("sessions", "undelete", KEY)[0]
        assert 11 == run("archives", "prune", "--older-than", "1d", "--enforce")[0]
    assert {"key": KEY, "archived": True, "expectedSessionId": "s"} == log[0]
    assert {"key": KEY, "unread": True, "expectedSessionId": "s"} == log[1]
    deleted = {"key": KEY, "deleteTranscript": True, "expectedSessionId": "s", "archivedOnly": True}
    assert deleted == log[2]


def test_a_deletion_whose_answer_is_lost(state: Path, run: Callable[..., Any]) -> None:
    """The store is looked at: there still, and gone."""
    answers = administration({KEY: {"sessionId": "s"}}, [])
    answers["sessions.delete"] = lambda _: None
    with fake.running(fake.FakeGateway(str(state), answers)) as gateway, held(state, gateway.port):
        status, document, _ = run("sessions", "delete", KEY, "--yes", "--timeout", "300ms")
    found = document["results"][0]
    assert (3, "unknown", False) == (status, found["outcome"], found["done"])


def test_without_the_package(state: Path, run_cli: Callable[..., Any], tmp_path: Path) -> None:
    """What to install is said; the rest of the program does not need it."""
    (tmp_path / "sitecustomize.py").write_text("import sys\nsys.modules['websockets'] = None\n")
    with fake.running(fake.FakeGateway(str(state), cleaning())) as gateway, held(state, gateway.port):
        words = (*CLEANUP, "--state-dir", state, "--json")
        done = run_cli(*words, env={"PYTHONPATH": str(tmp_path)})
    assert 2 == done.status and "openclaw-cli[gateway]" in done.stdout
