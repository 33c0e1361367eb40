"""Protocol 4: the recorded conversations of the real program, and every way in which a call can fail."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import fake_gateway as fake
import pytest

from openclaw_cli.config.gateway import GatewayAccess, Given, access, shown
from openclaw_cli.errors import NotFoundError, RefusedError, UsageError
from openclaw_cli.gateway import delegate
from openclaw_cli.gateway.client import Gateway
from openclaw_cli.gateway.failures import CallFailedError, GatewayRefusedError, OutcomeUnknownError, UnreachableError

CLEANUP = {"allAgents": False, "enforce": True, "fixMissing": False, "fixDmScope": False}


def reach(gateway: fake.FakeGateway, token: str = fake.TOKEN) -> GatewayAccess:
    """The address of a fake gateway."""
    return GatewayAccess(f"ws://127.0.0.1:{gateway.port}", "--url", True, token)


def played(fixtures: Path, name: str, ends: int | str | None, work: Callable[[Gateway], Any]) -> Any:
    """Talk to a recording; gives what `work` gives, and the frames that we sent."""
    recorded = fake.Recorded(fixtures / f"gateway/{name}.json", ends)
    with fake.running(recorded) as gateway, Gateway(reach(gateway)) as connection:
        return work(connection), gateway.requests


def test_the_frames_are_those_of_the_real_program(fixtures: Path) -> None:
    """Member by member what its own command line sends, but for ids, version and our name."""
    answer, sent = played(fixtures, "fake_ok", None, lambda gateway: delegate.cleanup(gateway, CLEANUP, 5))
    recorded = [each["frame"] for each in json.loads((fixtures / "gateway/fake_ok.json").read_text())]
    wanted = [frame for frame in recorded if frame.get("type") == "req"]

    assert {"agentId": "main", "storePath": "/fake", "afterCount": 1}.items() <= answer.document.items()
    assert wanted[1]["params"] == sent[1]["params"] and "sessions.cleanup" == sent[1]["method"]
    ours, theirs = sent[0]["params"], wanted[0]["params"]
    same = ("minProtocol", "maxProtocol", "caps", "role", "scopes")
    assert [theirs[name] for name in same] == [ours[name] for name in same]
    assert ("cli", "cli") == (ours["client"]["id"], ours["client"]["mode"])
    assert {"token"} == set(ours["auth"])


@pytest.mark.parametrize(
    ("name", "ends", "error", "code"),
    [
        ("fake_error", None, CallFailedError, "gateway_call_failed"),
        # As recorded its partial error lacks members, and so it is no partial result.
        ("fake_partial", None, CallFailedError, "gateway_call_failed"),
        ("fake_no_method", None, GatewayRefusedError, "gateway_refused"),
        ("fake_die_midway", "die", OutcomeUnknownError, "outcome_unknown"),
        ("fake_close_midway_1012", 1012, OutcomeUnknownError, "outcome_unknown"),
        ("fake_close_prehello_1006", "die", UnreachableError, "gateway_unreachable"),
        ("connect_cli_bad_token", None, GatewayRefusedError, "gateway_unauthorized"),
        ("connect_cli_no_auth", None, GatewayRefusedError, "gateway_unauthorized"),
        ("connect_proto3", None, GatewayRefusedError, "gateway_protocol"),
    ],
)
def test_recorded_failures(fixtures: Path, name: str, ends: Any, error: type[Exception], code: str) -> None:
    """Each is the error that it is; no secret is in what it says."""
    with pytest.raises(error) as caught:
        played(fixtures, name, ends, lambda gateway: delegate.cleanup(gateway, CLEANUP, 5))
    assert code == caught.value.code  # type: ignore[attr-defined]
    assert fake.TOKEN not in str(caught.value) and fake.TOKEN not in repr(caught.value.__dict__)


def in_turn(answers: list[dict[str, Any]]) -> fake.Answer:
    """One answer after the other."""
    left = iter(answers)
    return lambda _: next(left)


def test_methods_of_the_recorded_administration(fixtures: Path) -> None:
    """A recorded answer of each method is understood."""
    frames = [each["frame"] for each in json.loads((fixtures / "gateway/session_admin.json").read_text())]
    asked = {frame["id"]: frame for frame in frames if frame.get("type") == "req"}
    answers: dict[str, list[Any]] = {}
    for frame in frames:
        if frame.get("type") == "res":
            body = {name: frame[name] for name in ("ok", "payload", "error") if name in frame}
            answers.setdefault(asked[frame["id"]]["method"], []).append(body)
    served: dict[str, fake.Answer] = {name: in_turn(found) for name, found in answers.items() if name != "connect"}
    with fake.running(fake.FakeGateway("/x", served)) as gateway, Gateway(reach(gateway)) as connection:
        row = delegate.describe(connection, "k", 5)
        assert row is not None and row["key"].startswith("agent:main:dashboard:")
        assert "sessionId" in delegate.patch(connection, "pin", "k", row["sessionId"], 5)
        with pytest.raises(CallFailedError):
            delegate.patch(connection, "pin", "k", None, 5)
        assert 2 == delegate.cleanup(connection, CLEANUP, 5).document["beforeCount"]
        assert "agentId" in delegate.cleanup(connection, {"allAgents": True}, 5).document
        for _ in range(3):
            with pytest.raises(CallFailedError):
                delegate.cleanup(connection, CLEANUP, 5)
        (path,) = delegate.delete(connection, "k", None, archived=False, timeout_s=5) or ()
        assert path.endswith(".zst")
        assert delegate.delete(connection, "k", None, archived=False, timeout_s=5) is None


def partial(**change: Any) -> dict[str, Any]:
    """The error of a cleanup that was done in part."""
    summary = {"agentId": "main", "storePath": "/s", "mode": "enforce", "beforeCount": 3, "afterCount": 2}
    error = {"failingAgentId": "b", "failingStorePath": "/b", "message": "no", "lifecycleCommitted": False}
    details = {"allAgents": True, "mode": "enforce", "dryRun": False, "stores": [summary], "partialError": error}
    return {"ok": False, "error": {"code": "UNAVAILABLE", "message": "x", "details": {**details, **change}}}


def test_a_partial_result_counts_only_when_it_is_whole() -> None:
    """Every summary and all four members of the error; else it is a plain failure."""
    answers = iter([partial(), partial(stores=[{"agentId": "main"}]), partial(partialError={"message": "no"})])
    served: dict[str, fake.Answer] = {"sessions.cleanup": lambda _: next(answers)}
    with fake.running(fake.FakeGateway("/x", served)) as gateway, Gateway(reach(gateway)) as connection:
        found = delegate.cleanup(connection, CLEANUP, 5)
        assert ["gateway_partial"] == [issue.code for issue in found.issues]
        assert 1 == len(found.document["stores"])
        for _ in range(2):
            with pytest.raises(CallFailedError):
                delegate.cleanup(connection, CLEANUP, 5)


def test_an_answer_that_says_no(fixtures: Path) -> None:
    """`ok` of the frame is not enough: the payload's own counts."""
    summary = {"agentId": "m", "storePath": "/s", "mode": "enforce", "beforeCount": 1, "afterCount": 1}
    refused = {"ok": True, "payload": {**summary, "ok": False, "reason": "not now"}}
    served: dict[str, fake.Answer] = {"sessions.cleanup": lambda _: refused}
    with fake.running(fake.FakeGateway("/x", served)) as gateway, Gateway(reach(gateway)) as connection:
        found = delegate.cleanup(connection, CLEANUP, 5)
    assert ["gateway_did_nothing"] == [issue.code for issue in found.issues]


def test_no_answer_in_time() -> None:
    """Nothing is known then; the wait is bounded."""
    silent = fake.FakeGateway("/x", {"sessions.cleanup": lambda _: None})
    with fake.running(silent) as gateway, Gateway(reach(gateway)) as connection, pytest.raises(OutcomeUnknownError):
        delegate.cleanup(connection, CLEANUP, 0.3)


def test_nobody_answers(unused_port: int) -> None:
    """A free port."""
    with pytest.raises(UnreachableError):
        Gateway(GatewayAccess(f"ws://127.0.0.1:{unused_port}", "gateway.port", False, "t"))


@pytest.fixture
def unused_port() -> int:
    import socket

    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]


class FakeConfig:
    """As much of a configuration as addresses need."""

    def __init__(self, gateway: Any) -> None:
        self._gateway = gateway

    def openclaw(self) -> Any:
        return {"gateway": self._gateway}


def found(gateway: Any = None, env: dict[str, str] | None = None, **given: Any) -> GatewayAccess:
    """The access by configuration, variables and command line."""
    return access(FakeConfig(gateway or {}), env or {}, Given(**given))  # type: ignore[arg-type]


AUTH = {"auth": {"token": "t"}}


@pytest.mark.parametrize(
    ("gateway", "env", "given", "url"),
    [
        (AUTH, {}, {}, "ws://127.0.0.1:18789"),
        ({**AUTH, "port": 5}, {}, {}, "ws://127.0.0.1:5"),
        ({**AUTH, "port": 5}, {"OPENCLAW_GATEWAY_PORT": "6"}, {}, "ws://127.0.0.1:6"),
        ({**AUTH, "port": 5}, {"OPENCLAW_GATEWAY_PORT": "6"}, {"port": 7}, "ws://127.0.0.1:7"),
        ({**AUTH, "tls": {"enabled": True}}, {}, {}, "wss://127.0.0.1:18789"),
        ({"mode": "remote", "remote": {"url": "wss://h", "token": "t"}}, {}, {"port": 7}, "wss://h"),
        (AUTH, {"OPENCLAW_GATEWAY_URL": "wss://e", "OPENCLAW_GATEWAY_TOKEN": "t"}, {}, "wss://e"),
        (AUTH, {"OPENCLAW_GATEWAY_TOKEN": "t"}, {"url": "wss://u"}, "wss://u"),
    ],
)
def test_addresses(gateway: Any, env: dict[str, str], given: dict[str, Any], url: str) -> None:
    """What is nearest to the user wins (gateway page §4)."""
    assert url == found(gateway, env, **given).url


def test_secrets(tmp_path: Path) -> None:
    """From a file, a variable, the configuration; never to an address that the configuration does not name."""
    path = tmp_path / "token"
    path.write_text("from-file\nsecond line\n")
    assert "from-file" == found(AUTH, {"OPENCLAW_GATEWAY_TOKEN": "e"}, token_file=str(path)).token
    assert "e" == found(AUTH, {"OPENCLAW_GATEWAY_TOKEN": "e"}).token
    assert ("t", None) == (found(AUTH).token, found(AUTH).password)
    assert "p" == found({"auth": {"mode": "password", "password": "p"}}).password
    assert "s3cret" not in repr(found({"auth": {"token": "s3cret", "password": "s3cret"}}))
    for wrong in ({"url": "wss://u"}, {}):
        with pytest.raises(RefusedError):
            found(AUTH if wrong else {"auth": {"token": {"source": "env"}}}, **wrong)
    assert found({"auth": {"mode": "none"}}).token is None
    with pytest.raises(NotFoundError):
        found(AUTH, token_file=str(tmp_path / "none"))


@pytest.mark.parametrize("url", ["ws://example.org", "ws://192.168.1.2:18789"])
def test_secrets_do_not_go_in_the_clear(url: str) -> None:
    """But on loopback, and where a variable allows it."""
    with pytest.raises(RefusedError):
        found(AUTH, {"OPENCLAW_GATEWAY_TOKEN": "t"}, url=url)
    allowed = {"OPENCLAW_GATEWAY_TOKEN": "t", "OPENCLAW_ALLOW_INSECURE_PRIVATE_WS": "1"}
    assert url == found(AUTH, allowed, url=url).url


def test_odd_addresses() -> None:
    """No gateway's address; one with a secret in it is shown without."""
    for url in ("http://h", "ws://", "nonsense"):
        with pytest.raises(UsageError):
            found(AUTH, {"OPENCLAW_GATEWAY_TOKEN": "t"}, url=url)
    with pytest.raises(UsageError):
        found({"mode": "remote"})
    assert "wss://h:1" == shown("wss://user:secret@h:1/path?token=x")
