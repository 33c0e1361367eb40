"""The model context that we rebuild is the one that the real program rebuilt from the same trees."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from openclaw_cli.transcript.context import Branch, model_context
from openclaw_cli.transcript.entries import text_of


def simplified(message: dict[str, Any]) -> dict[str, Any]:
    """A message in the recorded form: role and its text, summary or command."""
    match message["role"]:
        case "compactionSummary" | "branchSummary":
            return {"role": message["role"], "summary": message["summary"]}
        case "bashExecution":
            return {"role": "bashExecution", "command": message["command"]}
    return {"role": message["role"], "text": text_of(message)}


def test_recorded_trees(fixtures: Path) -> None:
    """Compactions, resets, branch summaries, leaf controls: the same messages in the same order."""
    for case in json.loads((fixtures / "compaction/context_rebuild.json").read_text("utf-8"))["cases"]:
        assert case["messages"] == [simplified(message) for message in model_context(case["entries"])], case["name"]
        branch = Branch()
        for index, event in enumerate(case["entries"]):
            branch.feed(index, event)
        assert case["activeLeaf"] == branch.leaf_id, case["name"]


def entry(identity: str, parent: str | None, role: str = "user", **more: Any) -> dict[str, Any]:
    """A readable message entry with its id as text."""
    message: dict[str, Any] = {"role": role, "content": [{"type": "text", "text": identity}]}
    if role == "toolResult":
        message |= {"toolCallId": more.pop("call"), "toolName": "t", "isError": False}
    if role == "assistant" and "calls" in more:
        message["content"] = [{"type": "toolCall", "id": call, "name": "t"} for call in more.pop("calls")]
    timestamp = "2026-01-01T00:00:00.000Z"
    return {"type": "message", "id": identity, "parentId": parent, "timestamp": timestamp, "message": message, **more}


def seen(*events: dict[str, Any]) -> list[str]:
    """The ids of the entries in the model context."""
    branch = Branch()
    for index, event in enumerate(events):
        branch.feed(index, event)
    return [events[chosen.index]["id"] for chosen in branch.model_context()]


def test_child_of_the_append_parent_hangs_at_the_leaf() -> None:
    """A side entry moves only the append parent; the next entry must not pull it into the context."""
    assert ["a", "b"] == seen(entry("a", None), entry("side", "a", appendMode="side"), entry("b", "side"))


def test_unreadable_entries_are_walked_through() -> None:
    """A numeric timestamp makes an entry invisible, its children stay."""
    broken = {**entry("x", "a"), "timestamp": 5}
    assert ["a", "b"] == seen(entry("a", None), broken, entry("b", "x"))


def test_a_cycle_ends_the_walk() -> None:
    """Two entries that name each other as parents are read once each."""
    assert ["b", "a"] == seen(entry("b", "a"), entry("a", "b"))


def test_reset_keeps_turns_and_answered_results_only() -> None:
    """Before a reset, custom messages and results without their call are not retained."""
    reset = {"type": "reset", "id": "r", "parentId": "o", "reason": "new", "firstKeptEntryId": "u"}
    note = {"type": "custom_message", "id": "n", "parentId": "t", "customType": "c", "content": "x", "display": True}
    events = [
        entry("old", None),
        entry("u", "old"),
        entry("a", "u", "assistant", calls=["c1"]),
        entry("t", "a", "toolResult", call="c1"),
        note,
        entry("o", "n", "toolResult", call="c9"),
        reset,
        entry("z", "r"),
    ]
    assert ["u", "a", "t", "z"] == seen(*events)


def test_leaf_control_may_not_leave_a_reset() -> None:
    """After a reset no control brings the earlier conversation back."""
    reset = {"type": "reset", "id": "r", "parentId": "a", "reason": "new"}
    control = {"type": "leaf", "id": "l", "parentId": "b", "targetId": "a"}
    assert ["b", "c"] == seen(entry("a", None), reset, entry("b", "r"), control, entry("c", "l"))
