"""`sessions show`, `tail`, `export`, `search`: what a session says, by bounded reads, from wherever it lies."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import archived_states as states
import legacy_state as legacy
import pytest

from openclaw_cli import archive
from openclaw_cli.sessions import redacting, rendering
from openclaw_cli.storage import connection, events
from openclaw_cli.storage.sessions import write_entry

NOW_MS = legacy.BASE_MS + 1_000_000
KEY = "agent:main:explicit:a"
Run = Callable[..., tuple[int, Any]]


def pairs(rows: list[Any]) -> list[tuple[bytes, Any]]:
    """Events as they are appended."""
    return [(json.dumps(row, separators=(",", ":"), ensure_ascii=False).encode(), row) for row in rows]


def said(ident: str, parent: str | None, role: str, text: str, **more: Any) -> dict[str, Any]:
    """A message."""
    return {**legacy.message(ident, parent, 9, role, [legacy.text_block(text)]), **more}


CALL = {"type": "toolCall", "id": "t1", "name": "read", "arguments": {"p": "/home/eva/x"}}
ROWS = [
    *legacy.turns(legacy.sid(1), 2),
    said("a1", "m0000001", "user", "Bitte den Hafen Zürich prüfen, key " "sk-" "abcdefghijklmnop1234"),
    {
        **legacy.message("a2", "a1", 10, "assistant", [legacy.text_block("I look."), CALL])
    },
    legacy.message("a3", "a2", 11, "toolResult", [legacy.text_block("port: 8443")], toolCallId="t1", toolName="read"),
    said("a4", "a3", "assistant", "secret words", display=False),
    {"type": "model_change", "id": "a5", "parentId": "a4", "timestamp": legacy.iso(legacy.BASE_MS), "provider": "x"},
]  # fmt: skip


@pytest.fixture
def state(tmp_path: Path) -> Path:
    """A key with history, an incognito one, another agent."""
    made = tmp_path / "state"
    for agent in ("main", "ops"):
        (made / f"agents/{agent}/sessions").mkdir(parents=True)
        path = made / f"agents/{agent}/agent/openclaw-agent.sqlite"
        with connection.create(path, agent_id=agent, now_ms=NOW_MS) as store, store.transaction():
            key = KEY.replace("main", agent)
            entry = {"sessionId": legacy.sid(1), "updatedAt": NOW_MS, "label": "the label"}
            write_entry(store, key, entry, now_ms=NOW_MS)
            events.append(store, key, legacy.sid(1), pairs(ROWS), now_ms=NOW_MS)
            if agent == "main":
                old = [*legacy.turns(legacy.sid(2), 2), said("o1", "m0000001", "user", "old talk of ZURICH")]
                events.append(store, key, legacy.sid(2), pairs(old), now_ms=NOW_MS - 9000)
                hidden = {"sessionId": legacy.sid(3), "updatedAt": NOW_MS, "incognito": True}
                write_entry(store, "agent:main:explicit:hidden", hidden, now_ms=NOW_MS)
                text = pairs([*legacy.turns(legacy.sid(3), 1), said("h1", None, "user", "zurich in the dark")])
                events.append(store, "agent:main:explicit:hidden", legacy.sid(3), text, now_ms=NOW_MS)
    (made / "openclaw.json").write_text('{"agents": {"list": [{"id": "main", "default": true}, {"id": "ops"}]}}')
    return made


@pytest.fixture
def run(state: Path, run_cli: Callable[..., Any]) -> Run:
    """Run with --json; gives (status, document)."""

    def call(*words: str) -> tuple[int, Any]:
        done = run_cli("sessions", *words, "--state-dir", state, "--now", str(NOW_MS), "--json")
        return done.status, json.loads(done.stdout)

    return call


def test_show(state: Path, run: Run, run_cli: Callable[..., Any]) -> None:
    """Row, generations, the last events; hidden ones only on request; nothing changes."""
    before = states.everything(state)
    status, document = run("show", KEY)

    assert 0 == status
    assert ("the label", KEY) == (document["session"]["label"], document["sessionKey"])
    counts = [(one["current"], one["events"]) for one in document["generations"]]
    assert [(True, len(ROWS)), (False, 4)] == counts
    ids = [one["event"]["id"] for one in document["events"]]
    assert ["m0000000", "m0000001", "a1", "a2", "a3"] == ids
    assert ["a3", "a4", "a5"] == [one["event"]["id"] for one in run("show", KEY, "--all", "-n", "3")[1]["events"]]
    text = run_cli("sessions", "show", KEY, "--state-dir", state).stdout
    assert "call      read" in text and "result    read: port: 8443" in text and "secret words" not in text
    assert before == states.everything(state)


def test_a_session_is_found_by_key_id_and_history(run: Run) -> None:
    """Whatever is withheld is not found, by key or by id."""
    assert (True, legacy.sid(1)) == (
        run("show", legacy.sid(1))[1]["current"],
        run("show", "explicit:a")[1]["sessionId"],
    )
    assert not run("show", legacy.sid(2))[1]["current"]
    assert "agent:ops:explicit:a" == run("show", "agent:ops:explicit:a")[1]["sessionKey"]
    for name in ("agent:main:explicit:hidden", legacy.sid(3), "agent:main:nobody"):
        for verb in ("show", "tail"):
            assert 10 == run(verb, name)[0]
    assert 10 == run("export", legacy.sid(3))[0]


def test_tail_is_bounded(run: Run) -> None:
    """By a number of events and by bytes; the last one always comes."""
    status, document = run("tail", KEY, "-n", "2", "--all")
    assert (0, ["a4", "a5"]) == (status, [one["event"]["id"] for one in document["events"]])
    assert 1 == len(run("tail", KEY, "-n", "5", "--all", "--max-bytes", "1")[1]["events"])


def test_tail_follows(state: Path) -> None:
    """What is added comes within seconds, and what the key goes on with; Ctrl-C ends it with 130."""
    argv = [sys.executable, "-m", "openclaw_cli", "sessions", "tail", KEY, "-n", "1", "--follow", "--ndjson", "--all"]
    path = state / "agents/main/agent/openclaw-agent.sqlite"
    with subprocess.Popen([*argv, "--state-dir", str(state)], stdout=subprocess.PIPE) as tail:
        assert tail.stdout is not None
        assert "a5" == json.loads(tail.stdout.readline())["event"]["id"]
        with connection.open_write(path, agent_id="main") as store, store.transaction():
            events.append(store, KEY, legacy.sid(1), pairs([said("n1", "a5", "user", "more")]), now_ms=NOW_MS)
        assert "n1" == json.loads(tail.stdout.readline())["event"]["id"]
        with connection.open_write(path, agent_id="main") as store, store.transaction():
            write_entry(store, KEY, {"sessionId": legacy.sid(9), "updatedAt": NOW_MS + 9}, now_ms=NOW_MS + 9)
            events.append(store, KEY, legacy.sid(9), pairs([said("n2", None, "user", "new")]), now_ms=NOW_MS)
        assert "n2" == json.loads(tail.stdout.readline())["event"]["id"]
        tail.send_signal(signal.SIGINT)
        assert 130 == tail.wait(timeout=20)


def test_export_is_the_stored_text(state: Path, run_cli: Callable[..., Any], tmp_path: Path) -> None:
    """Byte by byte, to stdout, to a file, to a directory with all generations; no file is written over."""
    wanted = b"".join(text + b"\n" for text, _ in pairs(ROWS))
    assert wanted == run_cli("sessions", "export", KEY, "--state-dir", state).stdout.encode()
    out = tmp_path / "one.jsonl"
    words = ("sessions", "export", KEY, "--state-dir", state)
    assert 0 == run_cli(*words, "--output", out).status
    assert wanted == out.read_bytes()
    assert 12 == run_cli(*words, "--output", out).status
    assert 2 == run_cli(*words, "--generations").status
    assert 0 == run_cli(*words, "--generations", "--output", f"{tmp_path}/many/").status
    assert {f"{legacy.sid(1)}.jsonl", f"{legacy.sid(2)}.jsonl"} == {path.name for path in (tmp_path / "many").iterdir()}


def test_markdown(state: Path, run_cli: Callable[..., Any]) -> None:
    """Headings, tool calls as code; with --redact no key and no home."""
    text = run_cli("sessions", "export", KEY, "--format", "markdown", "--state-dir", state).stdout
    assert "## user · " in text and "```\nread " in text and "secret words" not in text
    assert (
        "secret words"
        in run_cli("sessions", "export", KEY, "--format", "markdown", "--all", "--state-dir", state).stdout
    )
    redacted = run_cli("sessions", "export", KEY, "--format", "markdown", "--redact", "--state-dir", state).stdout
    assert "sk-abc" in text and "eva" in text
    assert "sk-abc" not in redacted and "eva" not in redacted and "Zürich" in redacted


def test_archives_and_cold_files_are_read(state: Path, run: Run, run_cli: Callable[..., Any], tmp_path: Path) -> None:
    """A deleted session by key, id and path; a session whose events OpenClaw has moved out, as file and as blob."""
    wanted = b"".join(text + b"\n" for text, _ in pairs(ROWS))
    key = "agent:ops:explicit:a"
    words = ("sessions", "export")
    deleted = run("delete", key, "--yes")[1]["results"][0]["archived"][0]
    for name in (key, deleted):
        assert wanted == run_cli(*words, name, "--state-dir", state).stdout.encode()

    cold = state / "agents/main/sessions/cold"
    cold.mkdir()
    written = archive.write(cold / "c.jsonl.zst", [wanted], len(wanted))
    database = state / "agents/main/agent/openclaw-agent.sqlite"
    values = (legacy.sid(1), "g", "c.jsonl.zst", written.sha256, len(ROWS), len(wanted), 1, len(ROWS), NOW_MS, "file")
    with connection.open_write(database, agent_id="main") as store, store.transaction():
        store.execute("DELETE FROM transcript_events WHERE session_id = ?", (legacy.sid(1),))
        store.execute(
            "INSERT INTO session_transcript_cold_archives(session_id, generation, archive_name, archive_sha256,"
            " event_count, raw_bytes, archive_bytes, last_seq, archived_at, storage) VALUES (?,?,?,?,?,?,?,?,?,?)",
            values,
        )
    assert wanted == run_cli(*words, KEY, "--state-dir", state).stdout.encode()
    shown = run("show", KEY)[1]["generations"][0]
    assert (True, len(ROWS)) == (shown["cold"], shown["events"])
    data = bytearray(written.path.read_bytes())
    data[-3] ^= 1
    written.path.write_bytes(data)
    assert 13 == run_cli(*words, KEY, "--state-dir", state).status
    data[-3] ^= 1
    with connection.open_write(state / "agents/main/agent/openclaw-agent.sqlite", agent_id="main") as store:
        sql = "UPDATE session_transcript_cold_archives SET storage = 'sqlite', archive_blob = ?"
        store.execute(sql, (bytes(data),))
    written.path.unlink()
    assert wanted == run_cli(*words, KEY, "--state-dir", state).stdout.encode()


def test_search(state: Path, run: Run) -> None:
    """Present and past sessions of a key, without case and accents; nothing that is withheld; archives on request."""
    hits = run("search", "zürich")[1]["hits"]
    assert {(legacy.sid(1), True), (legacy.sid(2), False)} == {(one["sessionId"], one["current"]) for one in hits}
    assert 3 == len(run("search", "Zurich", "--all-agents")[1]["hits"])
    assert [legacy.sid(1)] == [one["sessionId"] for one in run("search", "hafen zurich")[1]["hits"]]
    assert [] == run("search", "dark")[1]["hits"]
    assert 2 == run("search", "  ...  ")[0]
    assert [] == run("search", 'a" OR "b')[1]["hits"]
    run("delete", "agent:ops:explicit:a", "--yes")
    found = run("search", "hafen", "--archives", "--all-agents")[1]["hits"]
    assert [False, True] == sorted(one["archive"] is not None for one in found)
    assert 1 == len(run("search", "hafen", "--archives", "--key", "agent:ops:explicit:a")[1]["hits"])


@pytest.mark.parametrize(
    ("text", "gone"),
    [
        ("key sk~-proj-abcdefghijklmnopqrst", "abcdefghijklmnopqrst"),
        ("ghp~_0123456789abcdefghij0123456789", "0123456789abcdefghij"),
        ("Authorization: Bearer abc.def-ghi_123", "abc.def"),
        ('"apiKey": "hunter2hunter2"', "hunter2"),
        ("PASSWORD=correcthorse", "correcthorse"),
        ("https://user:pa55word@host/x", "pa55word"),
        ("mail eva@example.org now", "eva@"),
        ("/home/eva/work", "eva"),
        ("C:\\Users\\Eva\\x", "Eva"),
        ("-----BEGIN RSA PRI~VATE KEY-----\nMIIabc\n-----END RSA PRI~VATE KEY-----", "MIIabc"),
        ("123456789:AAabcdefghijklmnopqrstuvwxyz0123456", "AAabcdef"),
        ("eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.abc", "eyJhbGci"),
        ("AKIA~ABCDEFGHIJKLMNOP", "AKIAABCD"),
    ],
)
def test_redaction(text: str, gone: str) -> None:
    """Secrets of known forms (a tilde keeps this file from looking as if it held some); twice is once."""
    once = redacting.redacted(text.replace("~", ""))
    assert gone not in once
    assert once == redacting.redacted(once)


@pytest.mark.parametrize(
    "text", ["tokens: 1234", "version 1.2.3", "see /etc/passwd", "a@b", "the secret is out", "x=1"]
)
def test_redaction_leaves_what_is_none(text: str) -> None:
    """Plain prose and numbers."""
    assert text == redacting.redacted(text)


def test_rendering_of_odd_events() -> None:
    """Nothing that a store may hold ends it."""
    odd = {"type": "message", "message": {"role": "assistant", "content": [None, {"type": "toolCall"}]}}
    number = {"type": "message", "message": {"content": 5}}
    for event in (None, [], 1, {}, {"type": 3}, {"type": "message"}, number, odd):
        assert [*rendering.shown(event)]
