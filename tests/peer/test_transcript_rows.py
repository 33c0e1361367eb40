"""Every kind of odd row in transcript files: the rows that the real import stores are those that ours would store."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from openclaw_cli import jsonl, jstext
from openclaw_cli.storage import connection, events
from openclaw_cli.transcript.rewrites import Rewrites, may_hold_rewrites, repaired
from openclaw_cli.transcript.upgrade import Upgrader, plan

STAMP = "2026-08-06T07:06:40.000Z"


def header(version: Any = 3, **more: Any) -> dict[str, Any]:
    """A header whose id is not the one of the index."""
    named = {} if version is None else {"version": version}
    return {"type": "session", **named, "id": "another", "timestamp": STAMP, "cwd": "/srv", **more}


def message(entry_id: str | None, role: str, content: Any, **more: Any) -> dict[str, Any]:
    """An entry of the current form, or without id for version 1."""
    linked = {} if entry_id is None else {"id": entry_id, "parentId": None}
    return {"type": "message", **linked, "timestamp": STAMP, "message": {"role": role, "content": content, **more}}


BLOCKS = [{"type": "text", "text": "words"}]
LEGACY_ROWS: list[Any] = [
    message(None, "user", "plain"),
    message(None, "assistant", "plain", providerReplay={"type": "anthropic-compaction", "x": 1}),
    message(None, "assistant", "plain", providerReplay={"type": "other"}),
    message(None, "toolResult", {"type": "text", "text": "x"}, toolCallId="c", toolName="t", isError=False),
    message(None, "toolResult", "text", toolCallId="c", toolName="t", isError=False),
    message(None, "toolResult", "text", toolCallId="c", toolName="t"),
    message(None, "hookMessage", BLOCKS),
    message(None, "hookMessage", BLOCKS, customType="mine"),
    message(None, "hookMessage", BLOCKS, customType=""),
    message(None, "hookMessage", [{"no": "type"}]),
    message(None, "custom", BLOCKS),
    message(None, "custom", BLOCKS, customType=None),
    message(None, "custom", 5),
    message(None, "bashExecution", None, command="ls", output="x"),
    message(None, "bashExecution", None, command="ls"),
    message(None, "system", "x"),
    {"type": "message", "timestamp": STAMP},
    {"type": "message", "id": "kept?", "message": {"role": "user", "content": "has an id"}},
    {"parentId": "elsewhere", "id": "old", "type": "thinking_level_change", "thinkingLevel": "high"},
    {"type": "model_change", "provider": "openai-codex", "modelId": "m"},
    {"type": "compaction", "summary": "s", "firstKeptEntryIndex": 2, "tokensBefore": 3},
    {"type": "compaction", "summary": "s", "firstKeptEntryIndex": 0, "tokensBefore": 3},
    {"type": "compaction", "summary": "s", "firstKeptEntryIndex": 1, "tokensBefore": 3, "firstKeptEntryId": "z"},
    {"type": "compaction", "summary": "s", "firstKeptEntryIndex": 16, "tokensBefore": 3},
    {"type": "compaction", "summary": "s", "firstKeptEntryIndex": 9999, "tokensBefore": 3},
    {"type": "compaction", "summary": "s", "firstKeptEntryIndex": 1.5, "tokensBefore": 3},
    {"type": "compaction", "summary": "s", "firstKeptEntryIndex": "1", "tokensBefore": 3},
    {"type": "compaction", "summary": "s", "firstKeptEntryIndex": -1, "tokensBefore": 3},
    {"type": "custom", "customType": "note", "data": {"k": [1]}},
    {"type": "unknown", "id": "u1", "parentId": None},
    {"type": "unknown"},
    {"type": "unknown"},
    {"type": ["message"]},
    {"type": "session", "id": "second", "version": 1},
    [1, 2],
    "str",
    42,
    42,
    {},
    [],
    None,
    0,
    False,
    "",
    True,
    message(None, "assistant", BLOCKS, provider=" OpenAI-Codex ", api="openai-codex-responses"),
    message(None, "assistant", BLOCKS, provider="codex", api="openai-responses"),
    message(None, "user", "again"),
    message(None, "user", "again"),
]
MEDIA: list[dict[str, Any]] = [
    {"MediaPath": "/a.png", "MediaType": "image/png", "MediaUrl": "http://x/a"},
    {"MediaPaths": ["/a.png", "/b.bin"], "MediaTypes": ["image/png", "audio"], "MediaUrls": ["u", ""]},
    {"MediaPaths": ["/a", " "], "MediaTypes": ["image", None], "MediaTranscribedIndexes": [1]},
    {"MediaPath": "", "MediaPaths": []},
    {"MediaUrl": "only", "MediaStaged": True, "MediaWorkspaceDir": " /w "},
    {"MediaPaths": ["/a"], "MediaStaged": True, "MediaType": "video"},
    {"media": [{"path": "/p", "kind": "image", "width": 10, "height": 0, "sizeBytes": 1.5, "origin": "paste"}]},
    {"media": [], "other": 1},
    {"media": "text"},
    {"__openclaw": {"runId": "r", "media": [{"path": "/p", "contentType": "image/png"}]}},
    {"__openclaw": {"media": [{"contentType": "image/png", "path": " /p "}], "z": 1}, "MediaPath": "/q"},
    {"__openclaw": {"media": [7, {"staged": True, "hydrationSuppressed": True, "messageId": "m", "durationMs": 3}]}},
    {"__openclaw": {}},
    {"__openclaw": {}, "media": None},
    {"__openclaw": 5, "MediaPath": "/x"},
    {"__openclaw": {"media": [{"path": "/p", "kind": "image"}]}, "MediaPaths": ["/p"], "MediaTypes": []},
    {"MediaType": "document", "MediaUrls": ["u1", "u2"], "MediaTypes": ["application/pdf", "text/plain"]},
]
HOSTILE = [
    r'{"type":"custom","id":"h1","parentId":null,"customType":"n","data":{"b":1,"1":2,"01":3,"4294967295":4,"0":5}}',
    r'{"type":"custom","id":"h2","parentId":null,"customType":"n","data":[1.0,-0,1e21,1E5,1e400,1e-7,18446744073709551616]}',
    r'{"type":"custom","id":"h3","parentId":null,"customType":"n","data":"\ud800 \/ \u00e9 \u2028 \u0000 \u007f"}',
    '{"type":"custom","id":"h4","parentId":null,"customType":"n","data":"\u2028\u2029\u0085"}',
    r'{"type":"custom","id":"a","id":"h5","parentId":null,"customType":"n","data":{"__proto__":{"x":1},"x":1,"x":2}}',
    '{"type":"custom","id":"h6","parentId":null,"customType":"n","data":' + "[" * 1500 + "]" * 1500 + "}",
    '\u00a0{"type":"custom","id":"h7","parentId":null,"customType":"n"}\ufeff',
    '  \t{"type":"custom", "id":"h8" ,"parentId":null,"customType":"n"} \r',
]


BEGIN, END = "<<<BEGIN_OPENCLAW_INTERNAL_CONTEXT>>>", "<<<END_OPENCLAW_INTERNAL_CONTEXT>>>"
NOTICE = "This context is runtime-generated, not user-authored. Keep internal details private."
CONTEXTS = {
    "block": f"{BEGIN}\nsecret\n{END}\n\nhello",
    "inside": f"hello\n{BEGIN}\nsecret\n{END}",
    "nested": f"{BEGIN}\n{BEGIN}\nx\n{END}\n{END}\nhello",
    "open": f"hello\r\n  {BEGIN}  \r\nnever closed",
    "preface": f"OpenClaw runtime event.\n{NOTICE}\nhello",
    "preceding": f"OpenClaw runtime context for the immediately preceding user message.\n{NOTICE}\n\n\nhello",
    "legacy": f"OpenClaw runtime context (internal):\n{NOTICE}\n\n[Internal task completion event]\nabc\n\nhello",
    "events": f"OpenClaw runtime context (internal):\n{NOTICE}\n\n[Internal task completion event]\n"
    "<<<BEGIN_UNTRUSTED_CHILD_RESULT>>>\nx\n\ny\n<<<END_UNTRUSTED_CHILD_RESULT>>>\n\nAction:\ndo\n\n---\n\n"
    "[Internal task completion event]\nz\n\nhello",
    "other text": f"{BEGIN}\nsecret\n{END}\n\nanother text",
    "not alone": f"quoted {BEGIN} hello",
    "only context": f"{BEGIN}\nhello\n{END}",
}


def linked(entry_id: str, parent: str | None, role: str, content: Any, **more: Any) -> dict[str, Any]:
    """A message entry with a parent."""
    return {
        "type": "message",
        "id": entry_id,
        "parentId": parent,
        "message": {"role": role, "content": content},
        **more,
    }


def rewrite(context: str) -> list[dict[str, Any]]:
    """A prompt with context, its answer, and the prompt once more without, on a branch beside."""
    return [
        header(3),
        linked("r", None, "user", "first"),
        linked("a", "r", "user", [{"type": "text", "text": context}]),
        linked("b", "a", "assistant", BLOCKS),
        linked("c", "r", "user", "hello"),
        linked("d", "c", "assistant", BLOCKS, provider="codex"),
    ]


def leaf(entry_id: str, target: str | None, **more: Any) -> dict[str, Any]:
    """A control that selects a leaf."""
    return {"type": "leaf", "id": entry_id, "parentId": None, "targetId": target, **more}


def rewrites() -> dict[str, list[Any]]:
    """Name → rows of a transcript with such a branch, or nearly one."""
    base = rewrite(CONTEXTS["block"])
    found = {f"rewrite {name}": rewrite(context) for name, context in CONTEXTS.items()}
    found["rewrite without header"] = base[1:]
    found["rewrite control"] = [*base, leaf("l", "d")]
    found["rewrite control back"] = [*base, leaf("l", "b")]
    found["rewrite control then row"] = [*base, leaf("l", "d"), linked("e", "l", "user", "more")]
    found["rewrite control append"] = [
        *base,
        {"type": "future", "id": "o", "parentId": "d"},
        leaf("l", "d", appendParentId="o"),
    ]
    found["rewrite control to nothing"] = [*base, leaf("l", "nobody"), leaf("m", "nobody")]
    found["rewrite opaque suffix"] = [*base, {"type": "future", "id": "o", "parentId": "d"}, {"type": "odd"}, [1], 7]
    found["rewrite side"] = [*base, linked("s", "d", "user", "aside", appendMode="side")]
    found["rewrite repeated"] = [*base[:4], base[2], *base[4:], base[4]]
    found["rewrite lost parent"] = [*base, linked("e", "nobody", "user", "x"), linked("f", "e", "user", "y")]
    found["rewrite reset"] = [
        *base,
        {"type": "reset", "id": "z", "parentId": "d", "reason": "new"},
        linked("e", "z", "user", "x"),
    ]
    found["rewrite flat"] = [{key: value for key, value in row.items() if key != "parentId"} for row in base]
    found["rewrite circle"] = [*base[:4], linked("c", "d", "user", "hello"), linked("d", "c", "user", "x")]
    found["rewrite v2"] = [header(2), *base[1:]]
    found["rewrite second header"] = [*base, header(3)]
    return found


def text(rows: list[Any]) -> bytes:
    """The rows as a file."""
    return b"".join(json.dumps(row, ensure_ascii=False).encode() + b"\n" for row in rows)


def files() -> dict[str, bytes]:
    """Session name → transcript."""
    linked = [
        row if not isinstance(row, dict) else {"id": f"i{n}", "parentId": None, **row}
        for n, row in enumerate(LEGACY_ROWS)
    ]
    media = [message(f"m{n}", "user" if n % 2 else "assistant", BLOCKS, **fields) for n, fields in enumerate(MEDIA)]
    hostile = text([header()]) + "\n".join(HOSTILE).encode()
    return {
        **{name: text(rows) for name, rows in rewrites().items()},
        "v1": text([header(None, sessionId="gone"), *LEGACY_ROWS]),
        "v1-number": text([header(1.0), *LEGACY_ROWS]),
        "v1-text-version": text([header("3"), *LEGACY_ROWS]),
        "headerless": text(LEGACY_ROWS),
        "late-header": text([LEGACY_ROWS[0], LEGACY_ROWS[9], header(None), *LEGACY_ROWS]),
        "late-header-v3": text([linked[0], linked[10], header(3), *linked[11:]]),
        "v2": text([header(2), *linked]),
        "v2-fraction": text([header(2.5), *linked]),
        "v3": text([header(3), *linked]),
        "v4": text([header(4), *linked]),
        "v9": text([{"type": "session", "version": 9, "id": 5, "sessionId": "x", "cwd": None}, *linked]),
        "media": text([header(3), *media]),
        "hostile": hostile,
        "bom": b"\xef\xbb\xbf" + text([header(3), linked[0]]).replace(b"\n", b"\r\n"),
    }


def ours(path: Path, session_id: str) -> list[bytes]:
    """The rows that our import would offer, without those that a store leaves out."""

    def records() -> Iterator[jsonl.Record]:
        with path.open("rb") as stream:
            yield from jsonl.read(stream, file=path.name, policy=jsonl.Policy.IMPORT, tally=jsonl.Tally())

    def upgraded() -> Iterator[tuple[int, Any, bool]]:
        upgrader = Upgrader(str(path), session_id, plan(records()))
        yield from ((record.line, *upgrader.feed(record)) for record in records())

    search = Rewrites()
    if may_hold_rewrites(path):
        for position, (_, value, _) in enumerate(upgraded()):
            search.feed(position, value)
    rows = [jstext.dumps(value) for _, value, _ in repaired(upgraded(), search.repair())]
    return list(dict.fromkeys(rows))


@pytest.fixture(scope="module")
def imported(tmp_path_factory: pytest.TempPathFactory, peer: Any) -> tuple[Path, dict[str, str], dict[str, Path]]:
    """One run of the real import over all files: the store, session ids by name, copies of the files by name."""
    state = tmp_path_factory.mktemp("state")
    sessions = state / "agents/main/sessions"
    sessions.mkdir(parents=True)
    ids = {name: str(UUID(int=number + 1)) for number, name in enumerate(files())}
    index = {
        f"agent:main:{name.replace(' ', '-')}": {"sessionId": ids[name], "updatedAt": 1786000000000 + number}
        for number, name in enumerate(ids)
    }
    (sessions / "sessions.json").write_text(json.dumps(index))
    expected = {}
    for name, content in files().items():
        path = sessions / f"{ids[name]}.jsonl"
        path.write_bytes(content)
        expected[name] = ours(path, ids[name])
    peer.run(state, "doctor", "--session-sqlite", "import", "--session-sqlite-all-agents", "--json")
    return state / "agents/main/agent/openclaw-agent.sqlite", ids, expected


@pytest.mark.parametrize("name", sorted(files()))
def test_rows_are_those_of_the_real_import(imported: Any, name: str) -> None:
    """Same rows, same order, same text byte for byte."""
    store_path, ids, expected = imported

    store = connection.open_read(store_path)
    try:
        actual = [row for _, row in events.stream(store, ids[name])]
    finally:
        store.close()

    assert actual
    assert actual == expected[name]
