"""Tool calls that start or watch sub-tasks, and the results that answer them (lifecycles §1 and §2). Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import orjson

from openclaw_cli.transcript import entries

SPAWN_NAMES = frozenset({"sessions_spawn", "delegate_task", "spawn_agent"})
WRAPPER = "tool_call"
NESTED_TYPE = "openclaw.nested-tool.v1"

# Calls that only look at children. `subagents` also steers and kills, which is more than looking.
POLL_NAMES = frozenset({"subagents", "sessions_history", "session_status", "sessions_list", "task_wait", "task_result"})
_POLL_ACTIONS = frozenset({"list", "status", "log", "logs", "info", "history", "wait", "poll"})
_ACCEPTED = frozenset(
    {"accepted", "ok", "queued", "running", "started", "pending", "completed", "succeeded", "failed", "cancelled"}
    | {"timed_out", "interrupted"}
)
_ERROR_CHARS = 2000


@dataclass(frozen=True, slots=True)
class Request:
    """A tool call with its wrapper taken off: the real tool's name and arguments."""

    name: str
    arguments: Mapping[str, Any]
    wrapped: bool


@dataclass(frozen=True, slots=True)
class Answer:
    """What a tool result says of a spawn: `verdict` is accepted, forbidden or error."""

    verdict: str
    child_key: str | None
    run_id: str | None
    error: str | None


def as_object(value: object) -> Mapping[str, Any]:
    """Arguments as an object: given as one, or as JSON text of one; anything else is empty."""
    if isinstance(value, dict):
        return value
    if isinstance(value, str) and value.lstrip().startswith("{"):
        try:
            parsed = orjson.loads(value.encode("utf-8", "surrogatepass"))
        except orjson.JSONDecodeError:
            return {}
        return parsed if isinstance(parsed, dict) else {}
    return {}


def plain_name(name: object) -> str:
    """A tool's own name without catalogue and server in front (`openclaw:core:x`, `mcp:s:s__x`, `s__x` → `x`)."""
    return name.rsplit(":", 1)[-1].rsplit("__", 1)[-1] if isinstance(name, str) else ""


def request_of(block: Mapping[str, Any]) -> Request:
    """The request in a tool-call block, looking through `tool_call`."""
    name = plain_name(block.get("name"))
    given = block.get("arguments")
    arguments = as_object(given if given is not None else block.get("input"))
    if name != WRAPPER:
        return Request(name, arguments, wrapped=False)
    inner = plain_name(arguments.get("id") or arguments.get("tool") or arguments.get("name"))
    args = arguments.get("args")
    return Request(inner, as_object(args if args is not None else arguments.get("arguments")), wrapped=True)


def is_poll(request: Request) -> bool:
    """Whether the call only looks at children."""
    if request.name not in POLL_NAMES:
        return False
    action = request.arguments.get("action")
    return request.name != "subagents" or (isinstance(action, str) and action in _POLL_ACTIONS)


def names_in(value: object, depth: int = 0) -> Iterator[str]:
    """The string values inside arguments, those that can be a key, run id or label (at most 256 characters)."""
    if isinstance(value, str):
        if len(value) <= 256:
            yield value
    elif isinstance(value, dict | list) and depth < 4:
        for item in value.values() if isinstance(value, dict) else value:
            yield from names_in(item, depth + 1)


def text_field(source: Mapping[str, Any], *names: str) -> str | None:
    """The first of the named fields that is a non-blank string."""
    for name in names:
        value = source.get(name)
        if isinstance(value, str) and value.strip():
            return value
    return None


def _json_in(text: str) -> Mapping[str, Any]:
    """The JSON object that a result text is or, inside an untrusted-content wrapper, holds as its body."""
    whole = as_object(text)
    if whole:
        return whole
    start, end = text.find("\n{"), text.rfind("}")
    return as_object(text[start + 1 : end + 1]) if 0 <= start < end else {}


def _candidates(details: object, text: str) -> Iterator[Mapping[str, Any]]:
    """Objects that may hold `status`, best first: details, what a wrapper put inside, the JSON in the text."""
    for outer in (as_object(details), _json_in(text)):
        yield outer
        result = as_object(outer.get("result"))
        yield as_object(result.get("details"))
        yield as_object(as_object(result.get("details")).get("structuredContent"))
        yield as_object(outer.get("structuredContent"))
        yield result


def answer_of(message: Mapping[str, Any]) -> Answer:
    """What a tool result (or the `result` of a nested record) says: details, then the text's JSON, then `isError`."""
    text = entries.text_of(message)  # type: ignore[arg-type]  # only read
    failed = message.get("isError") is True
    for candidate in _candidates(message.get("details"), text):
        status = text_field(candidate, "status", "state")
        key = text_field(candidate, "childSessionKey", "sessionKey")
        run_id = text_field(candidate, "runId", "jobId", "taskId", "job_id", "task_id")
        if status is None and not (key or run_id):
            continue
        error = text_field(candidate, "error")
        if status == "forbidden":
            return Answer("forbidden", key, run_id, _short(error or text))
        if status in _ACCEPTED or (status is None and not failed):
            return Answer("accepted", key, run_id, None)
        return Answer("error", key, run_id, _short(error or text))
    return Answer("error", None, None, _short(text)) if failed else Answer("accepted", None, None, None)


def _short(text: str) -> str | None:
    """An error text on one line, of bounded length."""
    line = " ".join(text.split())
    return line[:_ERROR_CHARS] or None


def visible_text(message: Mapping[str, Any], only_block: int | None = None) -> Iterator[str]:
    """The texts of a message that reach the model: text, reasoning, tool names and arguments; the base of token counts.

    `only_block` limits it to one content block, -1 to those that are no tool calls. Details, usage and
    envelope never reach the model.
    """
    content = message.get("content")
    if isinstance(content, str):
        yield content
        return
    for index, block in enumerate(content if isinstance(content, list) else ()):
        if not isinstance(block, dict):
            continue
        is_call = block.get("type") in entries.TOOL_CALL_TYPES
        if only_block is not None and (is_call if only_block < 0 else index != only_block):
            continue
        if is_call:
            yield str(block.get("name") or "")
            given = block.get("arguments")
            yield _as_text(given if given is not None else block.get("input"))
        else:
            for name in ("text", "thinking"):
                if isinstance(block.get(name), str):
                    yield block[name]


def _as_text(value: object) -> str:
    if isinstance(value, str):
        return value
    try:
        return orjson.dumps(value).decode()
    except (TypeError, ValueError):
        # Lone surrogates and integers beyond 64 bits: the slower writer knows both.
        from openclaw_cli import jstext

        return jstext.dumps(value).decode("utf-8", "surrogatepass")
