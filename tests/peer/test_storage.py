"""The storage room beside the real program: it accepts stores that we create, and our rows equal the ones it writes."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from openclaw_cli import jstext
from openclaw_cli.storage import connection, encoding, events, verify

NOW_MS = 1_790_000_000_000
TABLES = {
    "transcript_events": "seq, event_json, event_zstd, event_utf8_bytes, navigation_json, created_at",
    "transcript_event_identities": "event_id, seq, event_type, parent_id, message_idempotency_key, created_at",
    "session_transcript_active_events": "active_position, event_seq, message_position, context_eligible",
    "session_transcript_index_state": (
        "indexed_seq, leaf_event_id, needs_rebuild, active_event_count, active_message_count"
    ),
}
SEARCH = (
    "SELECT known.message_id, found.text, found.session_id, found.message_id, found.role, found.timestamp"
    " FROM session_transcript_fts_rows AS known JOIN session_transcript_fts AS found ON found.rowid = known.id"
    " WHERE known.session_id = ? ORDER BY known.id"
)
MADE_UP_RESULT = (
    "[openclaw] missing tool result in session history; inserted synthetic error result for transcript repair."
)


def stamp(position: int) -> str:
    """An ISO time that grows with the position."""
    return f"2026-09-21T14:{position // 60 % 60:02d}:{position % 60:02d}.000Z"


def filler(rng: random.Random, size: int = 1500) -> str:
    """Text that compresses well enough to be stored compressed."""
    words = ["store", "größe", "event", "window", "line", '"quoted"', "back\\slash", "tab\there", "é", "漢字"]
    return " ".join(rng.choice(words) for _ in range(size // 6))


def message_bodies(rng: random.Random) -> Iterator[dict[str, Any]]:
    """Messages of every role, plain ones and ones with unusual members."""
    text = {"type": "text", "text": filler(rng)}
    call = {"type": "toolCall", "id": "call_1", "name": "exec", "arguments": {"command": filler(rng)}}
    yield {"role": "user", "content": filler(rng), "timestamp": 1}
    yield {"role": "user", "content": [text], "idempotencyKey": " key-1 ", "provenance": {"kind": "x", "n": 1.5}}
    yield {"role": "user", "content": [text], "idempotencyKey": "key-1"}
    yield {"role": "user", "text": filler(rng)}
    yield {"role": "user", "content": [text], "__openclaw": {"upstreamUserText": filler(rng), "runId": "r", "x": 1}}
    yield {"role": "user", "content": [text], "__openclaw": {"upstreamUserText": "only"}}
    yield {
        "role": "assistant",
        "content": [text, call],
        "api": "a",
        "provider": "p",
        "model": "m",
        "stopReason": "x",
        "usage": {"cost": 0.25},
        "responseId": "resp",
        "__openclaw": {"runId": " run ", "contextFreeCommand": True},
        "providerReplay": {"type": "t", "data": filler(rng), "n": 1e21},
    }
    yield {
        "role": "assistant",
        "content": [{**call, "id": True, "name": {"a": [1.0]}}, {"type": "toolUse", "id": 7}, text],
    }
    yield {"role": "assistant", "content": {"a": {**call, "id": 2.5}, "b": 1}, "timestamp": 1.5, "display": {"x": [1]}}
    yield {"role": "assistant", "content": [text], "excludeFromContext": True}
    yield {"role": "assistant", "content": [text], "timestamp": 12345678901234567890, "model": None, "isError": False}
    result = {"role": "toolResult", "toolCallId": "call_1", "toolName": "exec", "isError": False, "content": [text]}
    yield result
    yield {**result, "details": {"status": "completed", "n": 0.1, "big": 1e300, "text": filler(rng)}}
    yield {**result, "details": {"openclawSyntheticMissingToolResult": True}, "providerReplay": {"type": 3}}
    yield {**result, "content": [{"type": "text", "text": MADE_UP_RESULT}, text]}
    yield {**result, "toolCallId": 5}
    yield {"role": "bashExecution", "command": "ls", "output": filler(rng)}
    yield {"role": "custom", "customType": "note", "content": filler(rng), "display": True}
    yield {"role": "custom", "content": filler(rng)}
    yield {"role": True, "content": [text]}
    yield {"details": filler(rng)}


def other_events(rng: random.Random) -> Iterator[dict[str, Any]]:
    """Events of every other kind, with the big member that each can have; some break their kind's rules."""
    text = filler(rng)
    yield {"type": "thinking_level_change", "thinkingLevel": "high", "note": text}
    yield {"type": "model_change", "provider": "p", "modelId": "m", "note": text}
    yield {"type": "custom", "customType": "c", "data": {"text": text, "n": [1.0, 1e-7, -0.0]}}
    yield {"type": "custom", "customType": "c", "data": text, "display": 1.25, "name": ["x", 1e22]}
    yield {"type": "custom_message", "customType": "c", "content": text, "display": False, "details": {"a": 1}}
    yield {"type": "custom_message", "customType": "c", "content": [{"type": "text", "text": text}], "display": 1}
    yield {"type": "session_info", "name": text}
    yield {"type": "session_info", "name": "n", "note": text, "timestamp": 1790000000123}
    yield {"type": "branch_summary", "fromId": "root", "summary": text}
    yield {"type": "label", "targetId": "e3", "label": "mark", "note": text}
    yield {"type": "label", "targetId": "e3", "label": None, "note": text}
    yield {"type": "compaction", "summary": text, "firstKeptEntryId": "e5", "tokensBefore": 1234.5}
    yield {"type": "compaction", "summary": text, "firstKeptEntryId": "e5", "tokensBefore": 99999999999999999999}
    yield {"type": "compaction", "summary": text, "firstKeptEntryId": "e5", "tokensBefore": 10, "fromHook": True}
    yield {"type": "weird", "payload": text}
    yield {"type": 5, "payload": text}
    yield {"type": "session_info", "name": "x" * 20_000}


def transcript(session_id: str, seed: int) -> list[dict[str, Any]]:
    """A linear transcript with one event of every form, in random order."""
    rng = random.Random(seed)
    forms: list[dict[str, Any]] = [{"type": "message", "message": body} for body in message_bodies(rng)]
    forms.extend(other_events(rng))
    rng.shuffle(forms)
    rows: list[dict[str, Any]] = [
        {"type": "session", "version": 3, "id": session_id, "timestamp": stamp(0), "cwd": "/w", "note": filler(rng)}
    ]
    parent = None
    for position, form in enumerate(forms, 1):
        kind, rest = form["type"], {key: value for key, value in form.items() if key not in ("type", "timestamp")}
        event = {"type": kind, "id": f"e{position}", "parentId": parent}
        event["timestamp"] = form.get("timestamp", stamp(position))
        rows.append({**event, **rest})
        parent = event["id"]
    return rows


def branching(session_id: str) -> list[Any]:
    """Side entries, leaf controls, opaque links, events without id: everything that is no chain."""
    rng = random.Random(5)

    def message(identity: str, parent: str | None, **more: Any) -> dict[str, Any]:
        body = {"role": "user", "content": [{"type": "text", "text": filler(rng)}]}
        row = {
            "type": "message",
            "id": identity,
            "parentId": parent,
            "timestamp": stamp(len(identity)),
            "message": body,
        }
        return {**row, **more}

    leaf = {"type": "leaf", "id": "l1", "parentId": "b", "targetId": "a", "note": filler(rng)}
    return [
        {"type": "session", "version": 3, "id": session_id, "timestamp": stamp(0), "cwd": "/w"},
        message("a", None),
        message("b", "a"),
        leaf,
        message("c", "l1"),
        message("side", "c", appendMode="side"),
        message("d", "c"),
        {"type": "weird", "id": "w", "parentId": "d", "payload": filler(rng)},
        message("e", "w"),
        {"note": filler(rng)},
        {"note": "other"},
        [1, 2],
        {"type": "message", "message": {"role": "user", "content": filler(rng)}},
        {"type": "leaf", "id": "l2", "parentId": "e", "targetId": None, "appendParentId": "e", "note": filler(rng)},
        message("f", "e"),
        {"type": "leaf", "id": "l3", "parentId": "f", "targetId": "f", "appendMode": "side", "note": filler(rng)},
        {"type": "leaf", "id": "l4", "parentId": "f", "targetId": "gone", "note": filler(rng)},
        message("g", "gone"),
    ]


def legacy_state(state_dir: Path, transcripts: dict[str, list[Any]]) -> None:
    """A file-era state directory with these transcripts."""
    sessions = state_dir / "agents/main/sessions"
    sessions.mkdir(parents=True)
    index = {}
    for session_id, rows in transcripts.items():
        index[f"agent:main:{session_id}"] = {"sessionId": session_id, "updatedAt": NOW_MS}
        lines = [json.dumps(row, ensure_ascii=False) for row in rows]
        (sessions / f"{session_id}.jsonl").write_text("\n".join(lines) + "\n", encoding="utf-8")
    (sessions / "sessions.json").write_text(json.dumps(index), encoding="utf-8")


@pytest.fixture
def imported(tmp_path: Path, peer_import: Callable[[Path], Any]) -> Path:
    """The database that the real program made of the generated transcripts."""
    state = tmp_path / "state"
    transcripts: dict[str, list[Any]] = {f"chain{seed}": transcript(f"chain{seed}", seed) for seed in range(4)}
    transcripts["branches"] = branching("branches")
    legacy_state(state, transcripts)
    report = peer_import(state)
    assert report["totals"]["importedEntries"] == 5
    return state / "agents/main/agent/openclaw-agent.sqlite"


def test_every_event_is_encoded_as_the_real_import_encodes_it(imported: Path) -> None:
    """Text or frame, the frame's bytes, the recorded size and the navigation facts are the same, byte for byte."""
    columns = "session_id, seq, event_json, event_zstd, event_utf8_bytes, navigation_json"
    compressed = 0
    with connection.open_read(imported) as store:
        for session_id, seq, *stored in store.execute(f"SELECT {columns} FROM transcript_events"):
            text = encoding.decode(*stored[:3])
            assert tuple(stored) == tuple(encoding.encode(text, jstext.parse(text))), (session_id, seq)
            compressed += stored[1] is not None
    assert compressed > 100


def test_appending_the_same_events_leaves_the_same_rows(imported: Path, tmp_path: Path) -> None:
    """Events, identities, active path, index state and search rows equal those of the real import."""
    with (
        connection.open_read(imported) as real,
        connection.create(tmp_path / "ours" / "openclaw-agent.sqlite", agent_id="main", now_ms=NOW_MS) as ours,
    ):
        keys = real.execute("SELECT session_id, session_key FROM session_windows ORDER BY session_id").fetchall()
        for session_id, session_key in keys:
            offered = ((text, jstext.parse(text)) for _, text in events.stream(real, session_id))
            wall_clock = real.value(
                "SELECT created_at FROM transcript_events WHERE session_id = ? AND event_json = '[1,2]'", (session_id,)
            )
            with ours.transaction():
                done = events.append(ours, session_key, session_id, offered, now_ms=wall_clock or NOW_MS)
            assert not done.divergent
            for table, columns in TABLES.items():
                sql = f"SELECT {columns} FROM {table} WHERE session_id = ? ORDER BY 1, 2"
                assert_rows_equal(real.execute(sql, (session_id,)), ours.execute(sql, (session_id,)), table)
            assert_rows_equal(real.execute(SEARCH, (session_id,)), ours.execute(SEARCH, (session_id,)), "search")


def assert_rows_equal(expected: Iterator[Any], actual: Iterator[Any], table: str) -> None:
    """Compare row by row; times that are the real program's wall clock may differ by the length of its run."""
    wanted, found = list(expected), list(actual)
    assert len(wanted) == len(found), table
    for want, have in zip(wanted, found, strict=True):
        if want != have and table in ("transcript_events", "transcript_event_identities"):
            assert (table, *want[:-1]) == (table, *have[:-1])
            assert abs(want[-1] - have[-1]) < 60_000
        else:
            assert (table, want) == (table, have)


def test_what_the_real_import_wrote_verifies(imported: Path) -> None:
    """Every projection of the real program follows from its events by our rules."""
    with connection.open_read(imported, temporary_tables=True) as store:
        assert [] == list(verify.verify(store))
        assert [] == verify.integrity(store)


def test_the_real_program_accepts_a_store_that_we_created(peer: Any, tmp_path: Path) -> None:
    """It lists our session, finds no issue while inspecting, and compacts the file."""
    state = tmp_path / "state"
    database = state / "agents/main/agent/openclaw-agent.sqlite"
    rows = [(jstext.dumps(row), row) for row in transcript("made-here", 1)]
    entry = {"sessionId": "made-here", "updatedAt": NOW_MS}
    with connection.create(database, agent_id="main", now_ms=NOW_MS) as store, store.transaction():
        events.append(store, "agent:main:made-here", "made-here", rows, now_ms=NOW_MS)
        store.execute(
            "UPDATE session_nodes SET entry_json = ?, updated_at = ? WHERE session_key = 'agent:main:made-here'",
            (json.dumps(entry), NOW_MS),
        )
        store.execute("UPDATE session_nodes SET entry_valid = 1")
    listed = peer.json(state, "sessions")
    assert [("agent:main:made-here", "made-here")] == [(row["key"], row["sessionId"]) for row in listed["sessions"]]
    for mode in ("inspect", "compact"):
        report = peer.json(state, "doctor", "--session-sqlite", mode, "--session-sqlite-all-agents")
        assert (1, 0) == (report["totals"]["targets"], report["totals"]["issues"]), report
    with connection.open_read(database, temporary_tables=True) as store:
        assert [] == list(verify.verify(store))
