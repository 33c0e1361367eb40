"""What `sessions list` shows, hides, orders and derives."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from legacy_state import BASE_MS, KEY, NOW_MS, jsonl, make_state, sid, store, turns

HOUR = 3_600_000


def listing(run_cli: Callable[..., Any], folder: Path, entries: dict[str, dict[str, Any]]) -> Path:
    """A state directory with these rows already in the store; ids follow the order."""
    index = {
        key: {"sessionId": sid(number), "updatedAt": BASE_MS, **entry}
        for number, (key, entry) in enumerate(entries.items(), 1)
    }
    state = make_state(folder, index, {})
    done = run_cli("doctor", "import", "--state-dir", state)
    assert 0 == done.status, done.stdout
    return state


def keys(report: Any) -> list[str]:
    """The last part of each key, in order."""
    return [row["key"].removeprefix("agent:main:") for row in report["sessions"]]


def test_order_and_archived(run_cli: Callable[..., Any], sessions: Callable[..., Any], tmp_path: Path) -> None:
    """Newest first, pinned first, archived hidden (`--archived[=only]`)."""
    state = listing(
        run_cli,
        tmp_path / "s",
        {
            "agent:main:a": {"updatedAt": BASE_MS + 1 * HOUR},
            "agent:main:b": {"updatedAt": BASE_MS + 3 * HOUR},
            "agent:main:c": {"updatedAt": BASE_MS + 2 * HOUR},
            "agent:main:p": {"updatedAt": BASE_MS, "pinnedAt": BASE_MS},
            "agent:main:gone": {"updatedAt": BASE_MS + 9 * HOUR, "archivedAt": BASE_MS + 9 * HOUR},
        },
    )
    report = sessions(state)
    assert ["p", "b", "c", "a"] == keys(report)
    assert (4, False) == (report["count"], report["hasMore"])
    assert {"p": True, "a": False} == {
        row["key"][-1]: row["pinned"] for row in report["sessions"] if row["key"][-1] in "pa"
    }
    report = sessions(state, "--archived")
    assert ["p", "gone", "b", "c", "a"] == keys(report)
    assert [False, True, False, False, False] == [row["archived"] for row in report["sessions"]]
    assert ["gone"] == keys(sessions(state, "--archived=only"))
    text = run_cli("sessions", "list", "--state-dir", state)
    assert "1 archived not shown" in text.stdout + text.stderr
    assert "gone" not in text.stdout


def test_limits(run_cli: Callable[..., Any], sessions: Callable[..., Any], tmp_path: Path) -> None:
    """Bounded: 100 by default, `--limit`, `all` gives `limitApplied: null`; `hasMore`, `totalCount`."""
    entries = {f"agent:main:s{number:03d}": {"updatedAt": BASE_MS + number} for number in range(130)}
    state = listing(run_cli, tmp_path / "s", entries)
    names = ("count", "totalCount", "limitApplied", "hasMore")
    report = sessions(state)
    assert (100, 130, 100, True) == tuple(report[name] for name in names)
    assert "s129" == keys(report)[0]
    assert (3, 130, 3, True) == tuple(sessions(state, "--limit", "3")[name] for name in names)
    assert (130, 130, None, False) == tuple(sessions(state, "--limit", "all")[name] for name in names)
    assert (130, 130, 130, False) == tuple(sessions(state, "--limit", "130")[name] for name in names)
    text = run_cli("sessions", "list", "--state-dir", state, "--limit", "3").stdout
    assert "Sessions listed: 3 of 130 (limit 3)" in text


def test_active(run_cli: Callable[..., Any], sessions: Callable[..., Any], tmp_path: Path) -> None:
    """`activeMinutes` filters by age; `--now` decides."""
    state = listing(
        run_cli,
        tmp_path / "s",
        {
            "agent:main:old": {"updatedAt": NOW_MS - 61 * 60_000},
            "agent:main:new": {"updatedAt": NOW_MS - 59 * 60_000},
        },
    )
    report = sessions(state, "--active", "60")
    assert (["new"], 60) == (keys(report), report["activeMinutes"])
    assert 59 * 60_000 == report["sessions"][0]["ageMs"]


@pytest.mark.parametrize(
    "now", [str(NOW_MS), "2026-08-07T10:53:20Z", "2026-08-07T10:53:20.000Z", "2026-08-07T12:53:20+02:00"]
)
def test_now(run_cli: Callable[..., Any], sessions: Callable[..., Any], tmp_path: Path, now: str) -> None:
    """`--now` takes epoch ms or ISO 8601."""
    state = listing(run_cli, tmp_path / "s", {KEY: {"updatedAt": NOW_MS - 1234}})
    done = run_cli("sessions", "--state-dir", state, "--now", now, "--json")
    assert 1234 == json.loads(done.stdout)["sessions"][0]["ageMs"]


UNREAD: list[tuple[dict[str, Any], bool]] = [
    ({}, False),
    ({"lastReadAt": BASE_MS}, False),
    ({"lastReadAt": BASE_MS - 1, "lastActivityAt": BASE_MS}, True),
    ({"lastReadAt": BASE_MS, "lastActivityAt": BASE_MS}, False),
    ({"lastReadAt": BASE_MS, "markedUnreadAt": BASE_MS + 1}, True),
    ({"markedUnreadAt": BASE_MS}, True),
    ({"lastActivityAt": BASE_MS}, False),
]


def test_unread(run_cli: Callable[..., Any], sessions: Callable[..., Any], tmp_path: Path) -> None:
    """Never marked read and not marked unread → `unread: false`; newer activity than the last reading → true."""
    entries = {f"agent:main:s{number}": entry for number, (entry, _) in enumerate(UNREAD)}
    state = listing(run_cli, tmp_path / "s", entries)
    expected = {f"agent:main:s{number}": unread for number, (_, unread) in enumerate(UNREAD)}
    assert expected == {row["key"]: row["unread"] for row in sessions(state)["sessions"]}


def test_keys_of_the_document(run_cli: Callable[..., Any], sessions: Callable[..., Any], tmp_path: Path) -> None:
    """OpenClaw's keys of `sessions --json` are all there, with its types."""
    state = listing(run_cli, tmp_path / "s", {KEY: {"totalTokens": 5000, "label": "L", "displayName": "D"}})
    report = sessions(state)
    assert {"path", "count", "totalCount", "limitApplied", "hasMore", "activeMinutes", "sessions"} <= set(report)
    assert str(store(state)) == report["path"]
    (row,) = report["sessions"]
    assert {
        "key",
        "updatedAt",
        "ageMs",
        "sessionId",
        "visibility",
        "totalTokens",
        "totalTokensFresh",
        "model",
        "modelProvider",
        "contextTokens",
        "agentId",
        "acpRuntime",
        "agentRuntime",
        "kind",
        "archived",
        "pinned",
        "unread",
    } <= set(row)
    assert {"id", "source"} == set(row["agentRuntime"])
    assert ("direct", "main", BASE_MS, "L") == (row["kind"], row["agentId"], row["updatedAt"], row["label"])


def test_all_agents(run_cli: Callable[..., Any], cli_json: Callable[..., Any], tmp_path: Path) -> None:
    """`--all-agents` merges stores, newest first, and names the stores."""
    state = tmp_path / "s"
    for agent, number in (("main", 1), ("work", 2)):
        make_state(state, {f"agent:{agent}:main": {"sessionId": sid(number), "updatedAt": BASE_MS + number}}, {}, agent)
    assert 0 == run_cli("doctor", "import", "--all-agents", "--state-dir", state).status
    report = cli_json("sessions", "list", "--all-agents", "--state-dir", state)
    assert ["agent:work:main", "agent:main:main"] == [row["key"] for row in report["sessions"]]
    assert True is report["allAgents"]
    assert 2 == len(report["stores"])


def test_generations(doctor: Callable[..., Any], sessions: Callable[..., Any], tmp_path: Path) -> None:
    """`--generations` lists older windows of each key with their events."""
    state = make_state(
        tmp_path / "s", {KEY: {"sessionId": sid(1), "updatedAt": BASE_MS}}, {f"{sid(1)}.jsonl": jsonl(turns(sid(1), 2))}
    )
    doctor("import", state)
    make_state(
        state, {KEY: {"sessionId": sid(2), "updatedAt": BASE_MS + 5}}, {f"{sid(2)}.jsonl": jsonl(turns(sid(2), 4))}
    )
    doctor("import", state)
    assert [sid(2)] == [row["sessionId"] for row in sessions(state)["sessions"]]
    text = json.dumps(sessions(state, "--generations"))
    assert sid(1) in text and sid(2) in text


def test_tokens_and_freshness(run_cli: Callable[..., Any], sessions: Callable[..., Any], tmp_path: Path) -> None:
    """Unknown → null and `unknown/…`; a legacy fresh flag without version is not fresh; k and m."""
    state = listing(
        run_cli,
        tmp_path / "s",
        {
            "agent:main:none": {},
            "agent:main:legacy": {"totalTokens": 2345, "totalTokensFresh": True},
            "agent:main:big": {"totalTokens": 52_114},
        },
    )
    rows = {row["key"].rsplit(":", 1)[-1]: row for row in sessions(state)["sessions"]}
    assert (None, False) == (rows["none"]["totalTokens"], rows["none"]["totalTokensFresh"])
    assert (2345, False) == (rows["legacy"]["totalTokens"], rows["legacy"]["totalTokensFresh"])
    text = run_cli("sessions", "list", "--state-dir", state).stdout
    assert "unknown/200k (?%)" in text
    assert "2.3k/200k (?%)" in text
    assert "52k/200k (?%)" in text


def test_text_form(run_cli: Callable[..., Any], tmp_path: Path) -> None:
    """`Session store:`, `Sessions listed:` and the columns; empty: `No sessions found.`"""
    state = listing(run_cli, tmp_path / "s", {KEY: {}})
    lines = run_cli("sessions", "list", "--state-dir", state).stdout.splitlines()
    assert f"Session store: {store(state)}" == lines[0]
    assert "Sessions listed: 1" == lines[1]
    assert ["Kind", "Key", "Age", "Model"] == lines[2].split()[:4]
    (tmp_path / "empty").mkdir()
    assert "No sessions found." in run_cli("sessions", "list", "--state-dir", tmp_path / "empty").stdout


def test_withheld_rows(run_cli: Callable[..., Any], sessions: Callable[..., Any], tmp_path: Path) -> None:
    """Incognito, `internal-session-effects` and initialising rows are counted, never listed."""
    state = listing(
        run_cli,
        tmp_path / "s",
        {
            KEY: {},
            "agent:main:a": {"incognito": True},
            "agent:main:b": {"initializationPending": True},
            "agent:main:internal-session-effects:x": {},
        },
    )
    report = sessions(state, "--archived", "--limit", "all")
    assert ["main"] == keys(report)
    assert 1 == report["count"]


def test_kinds(run_cli: Callable[..., Any], sessions: Callable[..., Any], tmp_path: Path) -> None:
    """The kind follows the key."""
    state = listing(
        run_cli,
        tmp_path / "s",
        {
            "agent:main:cron:nightly": {},
            "agent:main:telegram:group:-1": {"chatType": "group"},
            "agent:main:telegram:direct:1": {"chatType": "direct"},
            "global": {},
        },
    )
    kinds = {row["key"]: row["kind"] for row in sessions(state)["sessions"]}
    assert ("cron", "group", "direct", "global") == tuple(
        kinds[key]
        for key in (
            "agent:main:cron:nightly",
            "agent:main:telegram:group:-1",
            "agent:main:telegram:direct:1",
            "global",
        )
    )


def test_store_of_the_real_program(sessions: Callable[..., Any], state_copy: Callable[..., Path]) -> None:
    """Holds: a store that the real program wrote is listed: every valid row, keys unchanged."""
    import apsw

    state = state_copy("15-z1-zstd")
    report = sessions(state, "--archived", "--limit", "all", now=1_900_000_000_000)
    connection = apsw.Connection(str(store(state)))
    stored = [key for (key,) in connection.execute("SELECT session_key FROM session_nodes WHERE entry_valid = 1")]
    connection.close()
    assert sorted(stored) == sorted(row["key"] for row in report["sessions"])
