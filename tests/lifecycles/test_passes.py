"""Passes 1 and 2: how spawns are written, and what their results say."""

from __future__ import annotations

import json
from typing import Any

import pytest


def wrapped(child: Any, identity: str) -> dict[str, Any]:
    return {"id": identity, "args": child.arguments}


SHAPES = {
    "object": lambda kit, c: kit.call(c.call, "sessions_spawn", c.arguments),
    "json-text": lambda kit, c: kit.call(c.call, "sessions_spawn", json.dumps(c.arguments)),
    "input": lambda kit, c: {"type": "tool_use", "id": c.call, "name": "sessions_spawn", "input": c.arguments},
    "toolUse": lambda kit, c: kit.call(c.call, "sessions_spawn", c.arguments, "toolUse"),
    "functionCall": lambda kit, c: kit.call(c.call, "sessions_spawn", c.arguments, "functionCall"),
    "delegate": lambda kit, c: kit.call(c.call, "delegate_task", c.arguments),
    "mcp": lambda kit, c: kit.call(c.call, "worker-http__delegate_task", c.arguments),
    "wrapped": lambda kit, c: kit.call(c.call, "tool_call", wrapped(c, "sessions_spawn")),
    "wrapped-core": lambda kit, c: kit.call(c.call, "tool_call", wrapped(c, "openclaw:core:sessions_spawn")),
    "wrapped-mcp": lambda kit, c: kit.call(c.call, "tool_call", wrapped(c, "mcp:worker:worker__delegate_task")),
    "wrapped-text": lambda kit, c: kit.call(
        c.call, "tool_call", {"id": "sessions_spawn", "args": json.dumps(c.arguments)}
    ),
}


@pytest.mark.parametrize("shape", SHAPES)
def test_spawn_shapes(kit: Any, shape: str) -> None:
    """Every way to write the call gives the same spawn; only the wrapper is told apart."""
    child = kit.Child(1, label="a", task="t")
    transcript = kit.Transcript()
    line = transcript.assistant("I delegate.", SHAPES[shape](kit, child))
    transcript.result(child.call, child.accepted)
    (life,) = kit.scan(transcript).lifecycles
    assert (line, 1, child.call, "a", "t", shape.startswith("wrapped"), "accepted", child.key) == (
        life.spawn.line,
        life.spawn.block,
        life.spawn.tool_call_id,
        life.spawn.label,
        life.spawn.task,
        life.spawn.wrapped_in_tool_call,
        life.state,
        life.result.child_session_key,
    )


def test_spawn_fields(kit: Any) -> None:
    """Label, task name, agent, runtime and mode are those of the call, not of its result."""
    arguments = {"task": "t", "taskName": "n", "agentId": "ops", "runtime": "acp", "mode": "session"}
    transcript = kit.Transcript()
    transcript.assistant(kit.call("c", "sessions_spawn", arguments))
    transcript.result("c", {"status": "accepted", "mode": "run"})
    document = kit.scan(transcript).lifecycles[0].spawn.as_json()
    assert ("n", "ops", "acp", "session") == tuple(document[key] for key in ("taskName", "agentId", "runtime", "mode"))


RESULTS = {
    "accepted": ({"status": "accepted", "childSessionKey": "k", "runId": "r"}, {}, "accepted", ("k", "r", None)),
    "wrapped": (
        {
            "tool": {},
            "result": {"content": [], "details": {"status": "accepted", "childSessionKey": "k", "runId": "r"}},
        },
        {},
        "accepted",
        ("k", "r", None),
    ),
    "text-only": (
        None,
        {"text": '{"status":"accepted","childSessionKey":"k","runId":"r"}'},
        "accepted",
        ("k", "r", None),
    ),
    "wrapped-text": (
        None,
        {"text": '{"tool":{},"result":{"details":{"status":"accepted","childSessionKey":"k","runId":"r"}}}'},
        "accepted",
        ("k", "r", None),
    ),
    "untrusted": (
        None,
        {
            "text": 'SECURITY NOTICE\n<<<EXTERNAL_UNTRUSTED_CONTENT id="1">>>\n---\n'
            '{"jobId":"j","state":"running"}\n<<<END>>>'
        },
        "accepted",
        (None, "j", None),
    ),
    "forbidden": ({"status": "forbidden", "error": "not\nallowed"}, {}, "spawn_forbidden", (None, None, "not allowed")),
    "error-with-key": (
        {"status": "error", "error": "no thread", "childSessionKey": "k"},
        {"isError": True},
        "spawn_error",
        ("k", None, "no thread"),
    ),
    "schema": (
        {},
        {"text": 'Validation failed for tool "sessions_spawn":\n  - task', "isError": True},
        "spawn_error",
        (None, None, 'Validation failed for tool "sessions_spawn": - task'),
    ),
}


@pytest.mark.parametrize("name", RESULTS)
def test_results(kit: Any, name: str) -> None:
    """A result is read from details, then from what a wrapper put inside, then from the text, then from isError."""
    details, extra, state, expected = RESULTS[name]
    transcript = kit.Transcript()
    transcript.assistant(kit.call("c", "sessions_spawn", {"task": "t"}))
    transcript.result("c", details, **extra)
    (life,) = kit.scan(transcript).lifecycles
    assert (state, expected) == (life.state, (life.result.child_session_key, life.result.run_id, life.result.error))


def test_no_result_is_pending_and_an_error_key_is_no_child(kit: Any) -> None:
    """Without a result the spawn is pending; a marker for the key of a failed spawn is an orphan."""
    child = kit.Child(1)
    transcript = kit.Transcript()
    transcript.assistant(kit.call("c0", "sessions_spawn", {"task": "t"}))
    transcript.assistant(kit.call(child.call, "sessions_spawn", child.arguments))
    transcript.result(child.call, {"status": "error", "error": "e", "childSessionKey": child.key})
    transcript.user(kit.era_d(child))
    found = kit.scan(transcript)
    assert (["pending", "spawn_error"], 1) == (
        [life.state for life in found.lifecycles],
        len(found.completions_without_spawn),
    )


def test_tool_ids_repeat_inside_one_file(kit: Any) -> None:
    """A result belongs to the nearest call of that id before it, also when that call is no spawn."""
    one, two = kit.Child(1), kit.Child(2)
    transcript = kit.Transcript()
    transcript.assistant(kit.call("exec:7", "sessions_spawn", one.arguments))
    transcript.result("exec:7", one.accepted)
    transcript.assistant(kit.call("exec:7", "sessions_spawn", {"task": "never answered"}))
    transcript.assistant(kit.call("exec:7", "exec", {"command": "ls"}))
    transcript.result("exec:7", None, text="a.py")
    transcript.assistant(kit.call("exec:7", "sessions_spawn", two.arguments))
    transcript.result("exec:7", two.accepted)
    lives = kit.scan(transcript).lifecycles
    assert [one.key, None, two.key] == [life.result and life.result.child_session_key for life in lives]


def test_failed_messages(kit: Any) -> None:
    """A spawn in an aborted message counts only when somebody answered it."""
    child = kit.Child(1)
    transcript = kit.Transcript()
    transcript.assistant(kit.call("lost", "sessions_spawn", {"task": "t"}), stopReason="aborted")
    transcript.assistant(kit.call(child.call, "sessions_spawn", child.arguments), stopReason="error")
    transcript.result(child.call, child.accepted)
    assert [child.key] == [life.result.child_session_key for life in kit.scan(transcript).lifecycles]


def nested(child: Any, parent: str, name: str = "sessions_spawn") -> dict[str, Any]:
    details = {"parentToolCallId": parent, "toolCallId": f"tool_search_code:{parent}:{name}:1", "toolName": name}
    details |= {"input": child.arguments, "result": {"content": [], "details": child.accepted}, "isError": False}
    custom = {"role": "custom", "customType": "openclaw.nested-tool.v1", "excludeFromContext": True, "content": ""}
    return {"type": "message", "message": {**custom, "details": details}}


@pytest.mark.parametrize("before", [True, False], ids=["before-result", "after-result"])
def test_companion_record_belongs_to_its_wrapped_call(kit: Any, before: bool) -> None:
    """The record goes with the call that it accompanies, and gives the child key when the result does not."""
    child = kit.Child(1)
    transcript = kit.Transcript()
    spawn_line = transcript.assistant(kit.call(child.call, "tool_call", wrapped(child, "sessions_spawn")))
    if before:
        record = transcript.entry(nested(child, child.call))
    result = transcript.result(child.call, None, text="started")
    if not before:
        record = transcript.entry(nested(child, child.call))
    end = transcript.user(kit.era_d(child))
    transcript.assistant("ok")
    (life,) = kit.scan(transcript).lifecycles
    assert (tuple(sorted((record, result, end))), ((spawn_line, 0),)) == (life.removal.lines, life.removal.blocks)
    assert (child.key, result) == (life.result.child_session_key, life.result.line)


def test_spawn_made_inside_code(kit: Any) -> None:
    """A code-mode spawn stands on the line of the code call and is not folded: the code may have done more."""
    child = kit.Child(1, label="a")
    transcript = kit.Transcript()
    line = transcript.assistant("x", kit.call("code", "tool_search_code", {"code": "spawn()"}))
    record = transcript.entry(nested(child, "code"))
    transcript.result("code", None, text="done")
    transcript.user(kit.era_d(child))
    transcript.assistant("ok")
    (life,) = kit.scan(transcript).lifecycles
    assert (line, 1, "a", record) == (life.spawn.line, life.spawn.block, life.spawn.label, life.result.line)
    assert ("completed_ok", False, "spawned inside code") == (life.state, life.foldable, life.reason)


def test_names_of_spawning_tools_can_be_chosen(kit: Any) -> None:
    """Another tool starts sub-tasks when it is named."""
    transcript = kit.Transcript()
    transcript.assistant(kit.call("c", "run_helper", {"task": "t"}))
    assert (0, 1) == (
        len(kit.scan(transcript).lifecycles),
        len(kit.scan(transcript, names=frozenset({"run_helper"})).lifecycles),
    )


ODD = [None, 1, "x", [], {}, True, [None], {"a": []}, [[]], "\ud800"]


@pytest.mark.parametrize("odd", ODD, ids=range(len(ODD)))
def test_odd_values_in_every_place(kit: Any, odd: object) -> None:
    """A field of a foreign type never stops the scan and hides nothing that is whole."""
    child = kit.Child(1)
    transcript = kit.Transcript()
    for key in ("id", "parentId", "timestamp", "message", "type", "appendMode"):
        transcript.raw({"type": "message", "id": "z", "message": {"role": "user", "content": "x"}, key: odd})
    for key in ("role", "content", "toolCallId", "details", "stopReason", "__openclaw", "provenance", "idempotencyKey"):
        for role in ("user", "assistant", "toolResult", "system", "custom"):
            message = {"role": role, "content": kit.era_d(child), "customType": "openclaw.nested-tool.v1", key: odd}
            transcript.raw({"type": "message", "message": message})
    for key in ("type", "id", "name", "arguments"):
        block = kit.call("q", "sessions_spawn", {"task": "t"}) | {key: odd}
        transcript.raw({"type": "message", "message": {"role": "assistant", "content": [block, odd]}})
        transcript.raw(
            {"type": "message", "message": {"role": "assistant", "content": [{**block, "name": "tool_call"}]}}
        )
    for key in ("id", "args"):
        arguments = {"id": "sessions_spawn", "args": {"task": "t"}} | {key: odd}
        transcript.assistant(kit.call("w", "tool_call", arguments))
        transcript.result("w", odd)
    transcript.entry({"type": "custom", "customType": "openclaw.nested-tool.v1", "details": odd, "content": odd})
    transcript.entry({"type": "custom_message", "customType": odd, "content": odd})
    fresh = kit.Child(5)
    transcript.spawn(fresh)
    transcript.user(kit.era_d(fresh))
    found = kit.scan(transcript, count_tokens=True)
    assert "completed_ok" == found.lifecycles[-1].state
