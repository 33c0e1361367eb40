"""Rows of the session list: derived booleans, tokens, model, kind."""

from __future__ import annotations

from typing import Any

import pytest

from openclaw_cli.sessions import rows
from openclaw_cli.sessions.rows import Defaults

DEFAULTS = Defaults("openai", "gpt-6-astra", 200_000)


def row(key: str = "agent:main:main", **entry: Any) -> dict[str, Any]:
    """The row of an entry at time 10 000."""
    return rows.row_document(key, {"sessionId": "s", "updatedAt": 4_000, **entry}, "main", DEFAULTS, 10_000)


@pytest.mark.parametrize(("entry", "unread"), [
    ({}, False),
    ({"updatedAt": 9, "lastReadAt": 1}, False),
    ({"lastActivityAt": 5}, False),
    ({"lastReadAt": 5, "lastActivityAt": 5}, False),
    ({"lastReadAt": 4, "lastActivityAt": 5}, True),
    ({"markedUnreadAt": 1}, True),
    ({"markedUnreadAt": 1, "lastReadAt": 9, "lastActivityAt": 5}, True),
])  # fmt: skip
def test_unread(entry: dict[str, Any], unread: bool) -> None:
    """Marked unread, or read before the last activity. Never read and not marked is read; updatedAt says nothing."""
    assert unread is rows.unread(entry)


@pytest.mark.parametrize(("entry", "archived", "pinned"), [
    ({}, False, False), ({"pinnedAt": 5}, False, True), ({"archivedAt": 5}, True, False),
    ({"archivedAt": 5, "pinnedAt": 5}, True, False), ({"archivedAt": None, "pinnedAt": "x"}, False, False),
])  # fmt: skip
def test_archived_and_pinned(entry: dict[str, Any], archived: bool, pinned: bool) -> None:
    """Both come from the time stamps; an archived session is not pinned."""
    found = row(**entry)

    assert (archived, pinned) == (found["archived"], found["pinned"])


@pytest.mark.parametrize(("entry", "total", "fresh", "cell"), [
    ({}, None, False, "unknown/200k (?%)"),
    ({"totalTokens": 2_345}, 2345, False, "2.3k/200k (?%)"),
    ({"totalTokens": 50_000, "totalTokensFresh": True}, 50_000, False, "50k/200k (?%)"),
    ({"totalTokens": 50_000, "totalTokensFresh": True, "totalTokensVersion": 1}, 50_000, True, "50k/200k (25%)"),
    ({"totalTokens": 9_999_999, "totalTokensFresh": True, "totalTokensVersion": 1, "contextTokens": 1_000}, 9_999_999,
     True, "10.0m/1.0k (999%)"),
    ({"totalTokens": -1}, None, False, "unknown/200k (?%)"),
    ({"totalTokens": "7"}, None, False, "unknown/200k (?%)"),
])  # fmt: skip
def test_tokens(entry: dict[str, Any], total: int | None, fresh: bool, cell: str) -> None:
    """Fresh needs the mark and the version of the counting rule; only then a share is shown, at most 999 %."""
    found = row(**entry)

    assert (total, fresh) == (found["totalTokens"], found["totalTokensFresh"])
    assert cell == rows.tokens_cell(found)


@pytest.mark.parametrize(("count", "label"), [
    (0, "0"), (999, "999"), (1_000, "1.0k"), (9_949, "9.9k"), (10_000, "10k"), (999_400, "999k"), (999_600, "1.0m"),
    (1_500_000, "1.5m"),
])  # fmt: skip
def test_token_label(count: int, label: str) -> None:
    """Whole below 1000, one decimal below ten thousand, then whole thousands, then millions."""
    assert label == rows.token_label(count)


@pytest.mark.parametrize(("entry", "provider", "model"), [
    ({}, "openai", "gpt-6-astra"),
    ({"model": "m", "modelProvider": "p"}, "p", "m"),
    ({"model": "p/m"}, "p", "m"),
    ({"model": "m"}, "openai", "m"),
    ({"modelOverride": "p/o", "providerOverride": "P", "model": "m", "modelProvider": "q"}, "P", "o"),
])  # fmt: skip
def test_model(entry: dict[str, Any], provider: str, model: str) -> None:
    """The override, what was used last, the default; a doubled provider prefix is dropped."""
    assert (provider, model) == rows.model_of(entry, DEFAULTS)


@pytest.mark.parametrize(("key", "entry", "kind"), [
    ("global", {}, "global"), ("unknown", {}, "unknown"), ("agent:a:cron:x:run:y", {"spawnedBy": "k"}, "cron"),
    ("agent:a:subagent:x", {"spawnedBy": "k"}, "spawn-child"), ("agent:a:x", {"chatType": "channel"}, "group"),
    ("agent:a:telegram:group:-1:topic:2", {}, "group"), ("agent:a:main", {"chatType": "direct"}, "direct"),
])  # fmt: skip
def test_kind(key: str, entry: dict[str, Any], kind: str) -> None:
    """The most specific sign decides."""
    assert kind == rows.kind_of(key, entry)


@pytest.mark.parametrize(("age_ms", "cell"), [
    (None, "unknown"), (-1, "unknown"), (0, "just now"), (29_999, "just now"), (31_000, "1m ago"),
    (3_600_000, "1h ago"), (47 * 3_600_000, "47h ago"), (49 * 3_600_000, "2d ago"),
])  # fmt: skip
def test_age(age_ms: int | None, cell: str) -> None:
    """One unit, rounded; a time to come is not an age."""
    assert cell == rows.age_cell(age_ms)


def test_runtime() -> None:
    """The binding to another agent program, the row's own choice, what the provider implies."""
    assert {"id": "codex", "source": "implicit"} == row()["agentRuntime"]
    assert {"id": "auto", "source": "implicit"} == row(model="m", modelProvider="anthropic")["agentRuntime"]
    assert {"id": "codex-x", "source": "session"} == row(agentRuntimeOverride="codex-x")["agentRuntime"]
    found = row("agent:main:acp:x", acp={"backend": "other"})
    assert (True, {"id": "other", "source": "session-key"}) == (found["acpRuntime"], found["agentRuntime"])


def test_a_row_of_nothing() -> None:
    """An entry without any field still gives a row."""
    found = rows.row_document("agent:x:main", {}, "main", DEFAULTS, 10_000)

    assert (None, None, "x", "shared") == (found["updatedAt"], found["ageMs"], found["agentId"], found["visibility"])
    assert "visibility:shared" == rows.flags_cell(found)


def test_flags() -> None:
    """Our marks come first, then the settings of the session in a fixed order."""
    found = row(pinnedAt=1, markedUnreadAt=1, thinkingLevel="low", systemSent=True, createdActor={"type": "human"})

    assert "pinned unread think:low system visibility:shared owner:human id:s" == rows.flags_cell(found)


def test_policy_key() -> None:
    """A main session that speaks with one external peer names the key that policies are looked up under."""
    delivery = {"kind": "external", "context": {"channel": "telegram", "to": "telegram:123"}}

    assert (
        "agent:main:telegram:default:direct:123" == row(chatType="direct", delivery=delivery)["runtimePolicySessionKey"]
    )
    assert "runtimePolicySessionKey" not in row("agent:main:x", chatType="direct", delivery=delivery)
    assert "runtimePolicySessionKey" not in row(chatType="group", delivery=delivery)
