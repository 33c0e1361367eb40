"""The output of `scan-lifecycles`: keys, states, formats, matching, tokens, odd sources."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import zstandard
from legacy_state import (
    STATS,
    accepted,
    announce,
    assistant,
    call,
    child_key,
    entry,
    event_block,
    header,
    jsonl,
    message,
    one_task,
    result,
    sid,
    text_block,
    turns,
)

LIFECYCLE = {
    "spawn",
    "result",
    "completion",
    "repeats",
    "state",
    "overlaps",
    "entries",
    "tokens",
    "foldable",
    "reason",
}
SPAWN = {
    "line",
    "block",
    "entryId",
    "toolCallId",
    "wrappedInToolCall",
    "label",
    "taskName",
    "agentId",
    "runtime",
    "mode",
    "timestamp",
}
RESULT = {"line", "entryId", "childSessionKey", "runId", "error"}
COMPLETION = {
    "line",
    "entryId",
    "format",
    "matchedBy",
    "status",
    "outcome",
    "stats",
    "timestamp",
    "wallMs",
}


@pytest.fixture
def scan(cli_json: Callable[..., Any], tmp_path: Path) -> Callable[..., Any]:
    """Scan rows; gives the report of the one source."""

    def run(rows: list[Any], *argv: str, status: int = 0) -> Any:
        path = tmp_path / "t.jsonl"
        path.write_bytes(rows if isinstance(rows, bytes) else jsonl(rows))
        report = cli_json("scan-lifecycles", path, *argv, status=status)
        assert {"sources", "totals"} <= set(report)
        (source,) = report["sources"]
        return source

    return run


def ended(text: str, role: str = "user", **fields: Any) -> list[Any]:
    """An accepted spawn named `alpha` and a message with this text, answered."""
    rows = one_task()[:5]
    spawn = rows[2]["message"]["content"][0]
    spawn["arguments"] = {"task": "Build it", "label": "alpha"}
    content = [text_block(text)]
    rows.append(message("00000005", "00000004", 60, role, content, **fields))
    rows.append(assistant("00000006", "00000005", 61, [text_block("Good.")]))
    return rows


def test_every_key(scan: Callable[..., Any]) -> None:
    """The output contract, key by key, with 1-based file lines."""
    source = scan(one_task(label="parser", taskName="p1", agentId="dev", runtime="acp", mode="run"))
    assert {"source", "records", "lifecycles", "completionsWithoutSpawn"} <= set(source)
    assert 9 == source["records"]
    (found,) = source["lifecycles"]
    assert LIFECYCLE == set(found)
    assert {
        "line": 3,
        "block": 0,
        "entryId": "00000002",
        "toolCallId": "call-1",
        "wrappedInToolCall": False,
        "label": "parser",
        "taskName": "p1",
        "agentId": "dev",
        "runtime": "acp",
        "mode": "run",
        "timestamp": "2026-08-06T07:06:42.000Z",
    } == found["spawn"]
    assert {
        "line": 4,
        "entryId": "00000003",
        "childSessionKey": child_key(1),
        "runId": "run-1",
        "error": None,
    } == found["result"]
    completion = found["completion"]
    assert COMPLETION == set(completion)
    assert (6, "00000005", "event", "childSessionKey", "completed successfully", "ok", 58_000) == tuple(
        completion[name] for name in ("line", "entryId", "format", "matchedBy", "status", "outcome", "wallMs")
    )
    assert {"runtimeMs": 316_000, "totalTokens": 53_800, "inputTokens": 37_300, "outputTokens": 16_500} == completion[
        "stats"
    ]
    assert ("completed_ok", [], 0, True, None) == tuple(
        found[name] for name in ("state", "repeats", "overlaps", "foldable", "reason")
    )
    assert {"removed", "childTokens"} == set(found["tokens"])
    assert 53_800 == found["tokens"]["childTokens"]


def test_totals(cli_json: Callable[..., Any], tmp_path: Path) -> None:
    """`totals{sources, records, lifecycles, byState{}, foldable, tokensRemovable, damage}`."""
    one, two = tmp_path / "one.jsonl", tmp_path / "two.jsonl"
    one.write_bytes(jsonl(one_task()))
    two.write_bytes(jsonl(turns(sid(2))))
    report = cli_json("scan-lifecycles", one, two)
    totals = report["totals"]
    assert {"sources", "records", "lifecycles", "byState", "foldable", "tokensRemovable", "damage"} == set(totals)
    removed = report["sources"][0]["lifecycles"][0]["tokens"]["removed"]
    assert (2, 14, 1, {"completed_ok": 1}, 1, removed, 0) == tuple(
        totals[name]
        for name in (
            "sources",
            "records",
            "lifecycles",
            "byState",
            "foldable",
            "tokensRemovable",
            "damage",
        )
    )
    assert [str(one), str(two)] == [source["source"] for source in report["sources"]]


def test_spawndirect_against_its_labels(cli_json: Callable[..., Any], fixtures: Path) -> None:
    """A transcript of the real program: spawn, result, completion, repeats, state as labelled."""
    labels = json.loads((fixtures / "lifecycles/spawndirect.labels.json").read_text())
    report = cli_json("scan-lifecycles", fixtures / "lifecycles/spawndirect.jsonl")
    (source,) = report["sources"]
    assert labels["records"] == source["records"]
    assert len(labels["lifecycles"]) == len(source["lifecycles"])
    for label, found in zip(labels["lifecycles"], source["lifecycles"], strict=True):
        wanted = {name: value for name, value in label["spawn"].items() if name in SPAWN}
        assert wanted == found["spawn"]
        assert label["state"] == found["state"]
        assert (label["result"] is None) == (found["result"] is None)
        if label["result"]:
            names = [name for name in RESULT if name != "error"]
            assert {n: label["result"][n] for n in names} == {n: found["result"][n] for n in names}
        assert (label["completion"] is None) == (found["completion"] is None)
        if label["completion"]:
            names = [name for name in label["completion"] if name in COMPLETION and name != "stats"]
            assert {n: label["completion"][n] for n in names} == {n: found["completion"][n] for n in names}
        assert [(one["line"], one["format"], one["outcome"]) for one in label["repeats"]] == [
            (one["line"], one["format"], one["outcome"]) for one in found["repeats"]
        ]


def test_lifecycle_mess(cli_json: Callable[..., Any], fixtures: Path) -> None:
    """States, repeats, no usable result, ghost, quotation, nothing foldable before an answer."""
    path = fixtures / "lifecycles/29-lifecycle-mess.jsonl"
    report = cli_json("scan-lifecycles", path)
    (source,) = report["sources"]
    by_call = {one["spawn"]["toolCallId"]: one for one in source["lifecycles"]}
    assert {"c1": "completed_ok", "c2": "completed_timeout", "c3": "spawn_error", "c4": "completed_ok"} == {
        name: one["state"] for name, one in by_call.items()
    }
    assert [1, 0, 0, 0] == [len(by_call[name]["repeats"]) for name in ("c1", "c2", "c3", "c4")]
    assert [False] * 4 == [one["foldable"] for one in source["lifecycles"]]
    assert all("completion not answered yet" in by_call[name]["reason"] for name in ("c1", "c2", "c4"))
    assert "usable result" in by_call["c4"]["reason"]
    assert 1 == len(source["completionsWithoutSpawn"])
    report = cli_json("scan-lifecycles", path, "--keep-last", "0")
    assert ["c1"] == [one["spawn"]["toolCallId"] for one in report["sources"][0]["lifecycles"] if one["foldable"]]


def test_keep_last_counts_assistant_turns(scan: Callable[..., Any]) -> None:
    """A lifecycle is folded only when at least N assistant turns follow its completion (default 1)."""
    rows = one_task()
    for keep, cut, foldable in (
        ("1", 6, False),
        ("1", 7, True),
        ("2", 8, False),
        ("2", 9, True),
        ("3", 9, False),
    ):
        (found,) = scan(rows[:cut], "--keep-last", keep)["lifecycles"]
        assert foldable is found["foldable"], (keep, cut)
        assert foldable == (found["reason"] is None)
    assert scan(rows)["lifecycles"][0]["foldable"] is True


def test_no_tokens(scan: Callable[..., Any], cli_json: Callable[..., Any], tmp_path: Path) -> None:
    """`tokens.removed` is null with `--no-tokens`; all else is equal."""
    rows = one_task()
    counted, bare = scan(rows), scan(rows, "--no-tokens")
    assert None is bare["lifecycles"][0]["tokens"]["removed"]
    assert None is cli_json("scan-lifecycles", tmp_path / "t.jsonl", "--no-tokens")["totals"]["tokensRemovable"]
    counted["lifecycles"][0]["tokens"]["removed"] = None
    assert counted == bare


def test_tokens_are_of_the_removed_part(scan: Callable[..., Any]) -> None:
    """Tokens of a lifecycle = the o200k count of what is removed: kept entries do not count."""
    extra = [message("0000000a", "00000004", 10, "user", "An unrelated question. " * 400)]
    small = scan(one_task())["lifecycles"][0]["tokens"]["removed"]
    assert small == scan(one_task(between=extra))["lifecycles"][0]["tokens"]["removed"]
    more = scan(one_task(answer="word " * 1000 + "end."))["lifecycles"][0]["tokens"]["removed"]
    assert 950 <= more - small <= 1050


def test_tokens_only_for_closed_ones(scan: Callable[..., Any]) -> None:
    """`tokens.removed` is counted only for lifecycles that are closed."""
    (found,) = scan(one_task()[:5])["lifecycles"]
    assert ("accepted", None, None, False) == (
        found["state"],
        found["tokens"]["removed"],
        found["completion"],
        found["foldable"],
    )


def test_pending(scan: Callable[..., Any]) -> None:
    """No result at all → `pending`, `result: null`."""
    (found,) = scan(one_task()[:3])["lifecycles"]
    assert ("pending", None, None, False) == (found["state"], found["result"], found["completion"], found["foldable"])


@pytest.mark.parametrize(
    "details, is_error, state, error",
    [
        ({"status": "error", "error": "max depth reached"}, True, "spawn_error", "max depth reached"),
        ({"status": "error", "error": "no", "childSessionKey": child_key(1)}, False, "spawn_error", "no"),
        (
            {"status": "forbidden", "error": "agentId is not allowed"},
            False,
            "spawn_forbidden",
            "agentId is not allowed",
        ),
        ({"status": "forbidden", "error": "agentId is not allowed"}, True, "spawn_forbidden", "agentId is not allowed"),
    ],
)
def test_spawn_failures(scan: Callable[..., Any], details: Any, is_error: bool, state: str, error: str) -> None:
    """Error and forbidden, whatever isError says; an error may carry a childSessionKey."""
    rows = one_task()[:5]
    rows[3] = result("00000003", "00000002", 3, "call-1", details)
    rows[3]["message"]["isError"] = is_error
    for form in ("both", "text only"):
        if form == "text only":
            del rows[3]["message"]["details"]
        (found,) = scan(rows)["lifecycles"]
        assert (state, error, False) == (found["state"], found["result"]["error"], found["foldable"]), form


def test_schema_failure(scan: Callable[..., Any]) -> None:
    """A failed validation is a spawn error."""
    rows = one_task()[:5]
    rows[3] = result("00000003", "00000002", 3, "call-1", {})
    rows[3]["message"] |= {
        "isError": True,
        "content": [text_block('Validation failed for tool "sessions_spawn": task')],
    }
    assert "spawn_error" == scan(rows)["lifecycles"][0]["state"]


OUTCOMES = [
    ("completed successfully", "completed_ok", "ok"),
    ("completed; ready for parent review", "completed_ok", "ok"),
    ("timed out", "completed_timeout", "timeout"),
    ("timed out: after 60s", "completed_timeout", "timeout"),
    ("failed: exploded", "completed_error", "error"),
    ("cancelled", "completed_killed", "killed"),
    ("finished with unknown status", "completed_unknown", "unknown"),
]


@pytest.fixture
def states(cli_json: Callable[..., Any], tmp_path: Path) -> Callable[..., Any]:
    """Scan many transcripts in one run; gives the only lifecycle of each."""

    def run(*transcripts: list[Any]) -> list[Any]:
        paths = [tmp_path / f"{number}.jsonl" for number in range(len(transcripts))]
        for path, rows in zip(paths, transcripts, strict=True):
            path.write_bytes(jsonl(rows))
        found = [source["lifecycles"] for source in cli_json("scan-lifecycles", *paths)["sources"]]
        assert [1] * len(found) == [len(one) for one in found]
        return [one[0] for one in found]

    return run


def test_outcomes(states: Callable[..., Any]) -> None:
    """The status line gives outcome and state."""
    found = states(*(one_task(status=status) for status, _, _ in OUTCOMES))
    assert OUTCOMES == [(one["completion"]["status"], one["state"], one["completion"]["outcome"]) for one in found]


FORMATS = [
    (
        "background task",
        'A background task "alpha" just completed successfully.\n\nFindings:\nall done\n\n'
        f"Stats: runtime 1m46s \u2022 tokens n/a \u2022 sessionKey {child_key(1)} "
        f"\u2022 sessionId {sid(6001)} \u2022 transcript /x.jsonl",
        "childSessionKey",
    ),
    (
        "subagent task",
        f'[Fri 2026-02-13 12:01 GMT+8] A subagent task "alpha" just completed successfully.\n\nFindings:\nall done\n\n'
        f"Stats: runtime 1m46s \u2022 tokens n/a \u2022 sessionKey {child_key(1)} \u2022 sessionId {sid(6001)}",
        "childSessionKey",
    ),
    (
        "system message",
        f'[System Message] [sessionId: {sid(6001)}] A subagent task "alpha" just completed successfully.\n\nResult:\n'
        "all done\n\nStats: runtime 1m46s \u2022 tokens 5k (in 4k / out 1k)",
        "label",
    ),
    (
        "plain",
        "A background task completed. Use this result to reply to the user in your normal assistant voice.\n\n"
        f"source: subagent\nsession_key: {child_key(1)}\nsession_id: {sid(6001)}\ntype: subagent task\ntask: alpha\n"
        f"status: completed successfully\n\nResult:\nall done\n\n{STATS}\n\nInstruction:\nTell the user.",
        "childSessionKey",
    ),
    ("document", "subagent 'alpha' completed", "label"),
]


@pytest.mark.parametrize("name, text, matched", FORMATS, ids=[row[0] for row in FORMATS])
def test_formats(scan: Callable[..., Any], name: str, text: str, matched: str) -> None:
    """Each era's wording closes the spawn, with its format and what it was matched by."""
    role = "system" if name == "document" else "user"
    (found,) = scan(ended(text, role))["lifecycles"]
    assert ("completed_ok", name, 6) == (found["state"], found["completion"]["format"], found["completion"]["line"])
    assert matched == found["completion"]["matchedBy"]


def test_reply_run_and_run_id(scan: Callable[..., Any]) -> None:
    """`__openclaw.runId = announce:v1:<key>:<run>` closes without a user message."""
    rows = ended("Something else.", "user")[:5]
    reply = assistant("00000005", "00000004", 60, [text_block("The child is done.")])
    reply["message"]["__openclaw"] = {"runId": f"announce:v1:{child_key(1)}:run-1"}
    (found,) = scan([*rows, reply, assistant("00000006", "00000005", 61, [text_block("x")])])["lifecycles"]
    assert ("announce-run-reply", "childSessionKey", "completed_unknown") == (
        found["completion"]["format"],
        found["completion"]["matchedBy"],
        found["state"],
    )


def test_matched_by_run_id(scan: Callable[..., Any]) -> None:
    """The run id in `idempotencyKey` matches where the child key is absent."""
    rows = ended("x")
    rows[3] = result("00000003", "00000002", 3, "call-1", {"status": "accepted", "runId": "run-1"})
    text = event_block(1, "nameless", "completed successfully", "done")
    key = f"announce:v1:{child_key(1)}:run-1:active-wake"
    rows[5] = message("00000005", "00000004", 60, "user", [text_block(text)], idempotencyKey=key)
    (found,) = scan(rows)["lifecycles"]
    assert ("runId", "completed_ok") == (found["completion"]["matchedBy"], found["state"])


def test_document_marker_needs_the_whole_text(states: Callable[..., Any]) -> None:
    """The document's own marker counts only as the whole text; a quotation never counts."""
    quoted = (
        "Someone wrote: subagent 'alpha' completed. That is only a quotation.",
        "subagent 'alpha' completed\nand more",
        "subagent 'beta' completed",
    )
    found = states(
        ended("subagent 'alpha' completed", "system"),
        *(ended(text, role) for text in quoted for role in ("system", "user")),
    )
    assert ["completed_ok", *["accepted"] * 6] == [one["state"] for one in found]


def test_document_marker_typed_by_a_person(scan: Callable[..., Any]) -> None:
    """Role system or an *injected* user message: the assistant's own words do not count."""
    assert "accepted" == scan(ended("subagent 'alpha' completed", "assistant"))["lifecycles"][0]["state"]


def test_document_marker_needs_exactly_one_spawn(scan: Callable[..., Any]) -> None:
    """Matched to exactly one open accepted spawn of that name: two of a name → none is closed."""
    rows = ended("subagent 'alpha' completed", "system")
    rows[2]["message"]["content"].append(call("call-2", task="Build it again", label="alpha"))
    rows.insert(4, result("0000000b", "00000003", 4, "call-2", accepted(2)))
    rows[5]["parentId"] = "0000000b"
    source = scan(rows)
    assert ["accepted", "accepted"] == [one["state"] for one in source["lifecycles"]]


def test_a_user_quoting_a_block(scan: Callable[..., Any]) -> None:
    """A user's quotation of the old wording is no completion without block or provenance."""
    text = 'He said: A subagent task "alpha" just completed successfully. Is that so?'
    assert "accepted" == scan(ended(text))["lifecycles"][0]["state"]


def test_not_subagents(scan: Callable[..., Any]) -> None:
    """Source cron and other task types are ignored."""
    text = event_block(1, "alpha", "completed successfully", "done")
    for old, new in (("source: subagent", "source: cron"), ("type: subagent task", "type: image generation task")):
        assert "accepted" == scan(ended(text.replace(old, new)))["lifecycles"][0]["state"], new


def test_repeats_and_last_outcome(scan: Callable[..., Any]) -> None:
    """The first marker closes, later ones are repeats; the state is that of the last."""
    rows = one_task(status="timed out")
    late = event_block(1, "again", "completed successfully", "late result")
    rows.append(announce("00000009", "00000008", 80, 1, late))
    rows.append(assistant("0000000a", "00000009", 81, [text_block("Noted.")]))
    (found,) = scan(rows)["lifecycles"]
    assert ("completed_ok", 6, "timeout") == (
        found["state"],
        found["completion"]["line"],
        found["completion"]["outcome"],
    )
    assert [(10, "event", "ok")] == [(one["line"], one["format"], one["outcome"]) for one in found["repeats"]]


def test_wrapped_spawn(scan: Callable[..., Any]) -> None:
    """`tool_call` with id `sessions_spawn` or `openclaw:core:sessions_spawn` is a wrapped spawn."""
    for name in ("sessions_spawn", "openclaw:core:sessions_spawn"):
        rows = one_task()
        rows[2]["message"]["content"] = [call("call-1", "tool_call", id=name, args={"task": "Build", "label": "alpha"})]
        rows[3]["message"] |= {
            "toolName": "tool_call",
            "details": {"tool": {"id": name}, "result": {"content": [], "details": accepted(1)}},
            "content": [text_block(json.dumps({"tool": name, "result": accepted(1)}))],
        }
        (found,) = scan(rows)["lifecycles"]
        assert (True, "alpha", "completed_ok") == (
            found["spawn"]["wrappedInToolCall"],
            found["spawn"]["label"],
            found["state"],
        )
    rows[2]["message"]["content"] = [call("call-1", "tool_call", id="openclaw:core:exec", args={"task": "x"})]
    assert [] == scan(rows)["lifecycles"]


@pytest.mark.parametrize("kind", ["tool_use", "toolUse", "functionCall"])
def test_other_block_shapes(scan: Callable[..., Any], kind: str) -> None:
    """Other block types, `input` instead of `arguments`, JSON text."""
    rows = one_task()
    arguments = {"task": "Build", "label": "alpha"}
    for block in (
        {"type": kind, "id": "call-1", "name": "sessions_spawn", "input": arguments},
        {"type": kind, "id": "call-1", "name": "delegate_task", "arguments": json.dumps(arguments)},
    ):
        rows[2]["message"]["content"] = [block]
        assert [("alpha", "completed_ok")] == [
            (one["spawn"]["label"], one["state"]) for one in scan(rows)["lifecycles"]
        ]


def test_overlaps(scan: Callable[..., Any]) -> None:
    """`overlaps` counts the other lifecycles that run meanwhile; `block` is the place in the message."""
    rows = one_task()
    rows[2]["message"]["content"].append(call("call-2", task="Second"))
    rows.insert(4, result("0000000b", "00000003", 3, "call-2", accepted(2)))
    rows[5]["parentId"] = "0000000b"
    rows.append(announce("0000000c", "00000008", 90, 2, event_block(2, "Second", "completed successfully", "ok")))
    rows.append(assistant("0000000d", "0000000c", 91, [text_block("Both.")]))
    found = scan(rows)["lifecycles"]
    assert [(0, 1), (1, 1)] == [(one["spawn"]["block"], one["overlaps"]) for one in found]


def test_same_tool_id_twice(scan: Callable[..., Any]) -> None:
    """Tool ids repeat in one file: a result belongs to the nearest unclaimed spawn before it."""
    rows = one_task()
    again = copy.deepcopy(one_task()[2:7])
    for number, row in enumerate(again):
        row["id"] = f"1000000{number}"
        row["parentId"] = again[number - 1]["id"] if number else "00000008"
    again[1] = result("10000001", "10000000", 95, "call-1", accepted(2))
    again[3] = announce("10000003", "10000002", 99, 2, event_block(2, "x", "timed out", "none"))
    found = scan([*rows, *again])["lifecycles"]
    assert [(3, 4, 6, "completed_ok"), (10, 11, 13, "completed_timeout")] == [
        (one["spawn"]["line"], one["result"]["line"], one["completion"]["line"], one["state"]) for one in found
    ]


def test_compaction_in_between(scan: Callable[..., Any]) -> None:
    """A lifecycle with a `compaction` between spawn and completion is not folded."""
    between = [
        entry("compaction", "0000000e", "00000004", 20, summary="s", firstKeptEntryId="00000001", tokensBefore=1)
    ]
    (found,) = scan(one_task(between=between))["lifecycles"]
    assert ("completed_ok", False) == (found["state"], found["foldable"])
    assert "compaction" in found["reason"]


def test_branch_point_inside(scan: Callable[..., Any]) -> None:
    """A lifecycle with a branch point inside is not folded."""
    between = [
        message("0000000e", "00000003", 20, "user", "another way"),
        assistant("0000000f", "00000004", 21, [text_block("the first way")]),
    ]
    (found,) = scan(one_task(between=between))["lifecycles"]
    assert False is found["foldable"]
    assert "branch" in found["reason"]


def test_lines_are_lines_of_the_file(scan: Callable[..., Any]) -> None:
    """Lines are 1-based file lines: blank ones count, U+2028 and U+0085 do not break."""
    rows = one_task()
    rows[1]["message"]["content"] = "a\u2028b\u0085c"
    data = jsonl(rows[:2]) + b"\n\n" + jsonl(rows[2:])
    (found,) = scan(data)["lifecycles"]
    assert (5, 6, 8) == (found["spawn"]["line"], found["result"]["line"], found["completion"]["line"])


def test_sources(cli_json: Callable[..., Any], tmp_path: Path) -> None:
    """SOURCE = transcript.jsonl[.zst] or `-`: the same lifecycles."""
    data = jsonl(one_task())
    plain, packed = tmp_path / "t.jsonl", tmp_path / "t.jsonl.zst"
    plain.write_bytes(data)
    packed.write_bytes(zstandard.compress(data))
    expected = cli_json("scan-lifecycles", plain)["sources"][0]["lifecycles"]
    assert expected == cli_json("scan-lifecycles", packed)["sources"][0]["lifecycles"]
    assert expected == cli_json("scan-lifecycles", "-", stdin=data)["sources"][0]["lifecycles"]
    packed.write_bytes(data)
    report = cli_json("scan-lifecycles", packed)
    assert expected == report["sources"][0]["lifecycles"]


def test_empty_source(cli_json: Callable[..., Any], tmp_path: Path) -> None:
    """Bad input: an empty file is status 0 with an empty list, also from stdin."""
    path = tmp_path / "e.jsonl"
    path.write_bytes(b"")
    assert [] == cli_json("scan-lifecycles", path)["sources"][0]["lifecycles"]
    assert [] == cli_json("scan-lifecycles", "-", stdin=b"")["sources"][0]["lifecycles"]


def test_foreign_transcript(cli_json: Callable[..., Any], tmp_path: Path) -> None:
    """Bad input: another program's transcript: status 0, empty list, one warning."""
    path = tmp_path / "f.jsonl"
    path.write_bytes(jsonl([{"role": "user", "content": "hi"}, {"role": "assistant", "content": "ho"}] * 5))
    (source,) = cli_json("scan-lifecycles", path)["sources"]
    assert ([], 1) == (source["lifecycles"], len(source["warnings"]))


@pytest.mark.parametrize("data", [b"\x00" * 100_000, bytes(range(256)) * 400, b"just some prose\n" * 9000])
def test_binary_source(run_cli: Callable[..., Any], tmp_path: Path, data: bytes) -> None:
    """Bad input: no JSON line in the first 64 KiB: status 2, `not_a_transcript`."""
    path = tmp_path / "b.jsonl"
    path.write_bytes(data)
    done = run_cli("scan-lifecycles", path, "--json")
    assert (2, "not_a_transcript") == (done.status, json.loads(done.stdout)["error"]["code"])


def test_no_header(scan: Callable[..., Any]) -> None:
    """`scan-lifecycles` works on a file without header."""
    (found,) = scan(one_task()[1:])["lifecycles"]
    assert ("completed_ok", 2) == (found["state"], found["spawn"]["line"])


def test_damage_does_not_end_the_scan(scan: Callable[..., Any]) -> None:
    """Damage is counted and located; lost content is status 3; lifecycles around it are still found."""
    rows = one_task()
    data = jsonl(rows[:2]) + b"garbage\n" + jsonl(rows[2:])
    source = scan(data, status=3)
    assert 1 == len(source["damage"])
    assert ["completed_ok"] == [one["state"] for one in source["lifecycles"]]


def test_ghost(scan: Callable[..., Any]) -> None:
    """A completion whose spawn is not here stands under `completionsWithoutSpawn`."""
    rows = [header(sid(1)), announce("00000001", None, 1, 9, event_block(9, "ghost", "completed successfully", "x"))]
    source = scan(rows)
    assert [] == source["lifecycles"]
    (ghost,) = source["completionsWithoutSpawn"]
    assert (2, "00000001", "event", "ok") == tuple(ghost[name] for name in ("line", "entryId", "format", "outcome"))
