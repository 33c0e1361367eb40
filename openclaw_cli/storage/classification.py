"""How the real program classifies a stored event when it builds the tree: canonical, leaf control, link or ignored.

An event is canonical only when its kind's required members have the right types (store format §5); the class and the
tree facts of the event are the `report` part of `navigation_json`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import orjson

from openclaw_cli.transcript.entries import JS_SPACE


def trimmed(value: Any) -> str | None:
    """`value` without what JavaScript trims at both ends; None when it is no string or nothing remains."""
    if type(value) is not str:
        return None
    return value.strip(JS_SPACE) or None


def report(event: dict[str, Any]) -> dict[str, Any]:
    """The class of `event` with the facts that stand beside it, as a JSON object in the real program's order."""
    if is_canonical(event):
        return {"kind": "canonical", "hasParentId": "parentId" in event, "entry": _canonical_facts(event)}
    if _is_leaf(event):
        entry = {key: event[key] for key in ("id", "parentId", "targetId", "appendParentId") if key in event}
        if event.get("appendMode") == "side":
            entry["appendMode"] = "side"
        return {"kind": "leaf", "entry": entry}
    if event.get("type") not in ("session", "leaf") and _filled(event.get("id")) and _has_link(event, "parentId"):
        return {"kind": "link", "id": event["id"], "parentId": event["parentId"]}
    return {"kind": "ignored"}


def is_canonical(event: dict[str, Any]) -> bool:
    """Whether every member that the event's kind requires is there with the right type."""
    check = _CHECKS.get(event.get("type")) if type(event.get("type")) is str else None
    if check is None or not _filled(event.get("id")):
        return False
    if "parentId" in event and not _has_link(event, "parentId"):
        return False
    if "timestamp" in event and type(event["timestamp"]) is not str:
        return False
    return check(event)


def _canonical_facts(event: dict[str, Any]) -> dict[str, Any]:
    facts = {key: event[key] for key in ("id", "parentId", "timestamp") if key in event}
    if "appendMode" in event:
        mode = event["appendMode"]
        facts["appendMode"] = mode if type(mode) is str else orjson.Fragment(_exact(mode))
    kind = facts["type"] = event["type"]
    if kind == "label":
        facts.update((key, event[key]) for key in ("targetId", "label") if key in event)
    elif kind == "custom_message":
        facts["customType"] = event["customType"]
    elif kind == "message" and event["message"].get("role") == "assistant":
        facts.update(assistant_facts(event["message"]))
    return facts


def assistant_facts(message: dict[str, Any]) -> dict[str, str]:
    """The run and the response that an assistant message belongs to."""
    facts = {}
    private = message.get("__openclaw")
    run_id = trimmed(private.get("runId")) if type(private) is dict else None
    if run_id is not None:
        facts["assistantRunId"] = run_id
    if type(message.get("responseId")) is str:
        facts["assistantResponseId"] = message["responseId"]
    return facts


def _exact(value: Any) -> bytes:
    from openclaw_cli import jstext  # needed by hardly any event

    return jstext.dumps(value)


def _filled(value: Any) -> bool:
    return type(value) is str and value != ""


def _has_link(event: dict[str, Any], key: str) -> bool:
    return key in event and (event[key] is None or type(event[key]) is str)


def _is_leaf(event: dict[str, Any]) -> bool:
    return (
        event.get("type") == "leaf"
        and _filled(event.get("id"))
        and _has_link(event, "parentId")
        and _has_link(event, "targetId")
        and ("appendParentId" not in event or _has_link(event, "appendParentId"))
        and event.get("appendMode", "side") == "side"
    )


def _readable(content: Any) -> bool:
    """Text, or blocks of which each names its type."""
    if type(content) is list:
        return all(type(block) is dict and type(block.get("type")) is str for block in content)
    return type(content) is str


def _message(event: dict[str, Any]) -> bool:
    message = event.get("message")
    if type(message) is not dict:
        return False
    role = message.get("role")
    if role in ("user", "assistant"):
        return _readable(message.get("content"))
    if role == "custom":
        # An old hook message has no customType; the reader supplies one.
        return type(message.get("customType", "")) is str and _readable(message.get("content"))
    if role == "toolResult":
        return (
            type(message.get("toolCallId")) is str
            and type(message.get("toolName")) is str
            and type(message.get("isError")) is bool
            and type(message.get("content")) is list
        )
    return role == "bashExecution" and type(message.get("command")) is str and type(message.get("output")) is str


def _compaction(event: dict[str, Any]) -> bool:
    return (
        type(event.get("summary")) is str
        and _filled(event.get("firstKeptEntryId"))
        and type(event.get("tokensBefore")) in (int, float)
    )


def _reset(event: dict[str, Any]) -> bool:
    reason = event.get("reason")
    while type(reason) is list and len(reason) == 1:
        # The reader turns the reason into text first, which makes ["new"] the same as "new".
        reason = reason[0]
    return reason in ("new", "reset", "idle", "daily", "cron-stale") and type(event.get("firstKeptEntryId", "")) is str


def _custom_message(event: dict[str, Any]) -> bool:
    return _filled(event.get("customType")) and _readable(event.get("content")) and type(event.get("display")) is bool


_CHECKS: dict[str, Callable[[dict[str, Any]], bool]] = {
    "message": _message,
    "thinking_level_change": lambda event: _filled(event.get("thinkingLevel")),
    "model_change": lambda event: _filled(event.get("provider")) and _filled(event.get("modelId")),
    "compaction": _compaction,
    "reset": _reset,
    "branch_summary": lambda event: type(event.get("fromId")) is str and type(event.get("summary")) is str,
    "custom": lambda event: _filled(event.get("customType")),
    "custom_message": _custom_message,
    "label": lambda event: _filled(event.get("targetId")) and type(event.get("label", "")) is str,
    "session_info": lambda event: type(event.get("name", "")) is str,
}
