"""The facts that the real program stores beside a compressed event, so that queries need not unpack it.

Rule, observed on stores that the real program wrote (store format §3.3, §10, "navigation_json"): one object
`{version: 1, report, navigation, reset, model, modelBytes, modelWithoutCheckpointBytes, withoutCustomDataBytes}`.
SQLite's JSON functions make it from the event, hence:

* members stand in the event's order, filtered by a list of keys; made-up members follow (`message` of `reset`,
  `content` … `details` of a message in `model`, `summary`, `content` of a custom message);
* a copied object or array keeps its text, a copied scalar goes through an SQL value: a real number is written as SQLite
  writes it, and where a value is *extracted* (role, type, id and name of tool calls) true and false become 1 and 0;
* `modelBytes` is the size of the event without `message.__openclaw.upstreamUserText` and, for tool results, without
  `message.details`; `modelWithoutCheckpointBytes` also without `message.providerReplay`; `withoutCustomDataBytes` is
  the size without the root's `data`;
* there are no facts (the event stays text) when `message` is neither object nor null, or when the event nests deeper
  than SQLite's JSON reader goes.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import apsw
import orjson

from openclaw_cli.storage.classification import assistant_facts, is_canonical, report

MAX_DEPTH = 1000
"""Nesting at which SQLite's JSON reader gives up."""

MISSING_RESULT_KEY = "openclawSyntheticMissingToolResult"
MISSING_RESULT_TEXT = (
    "[openclaw] missing tool result in session history; inserted synthetic error result for transcript repair."
)
"""The text by which the real program recognises a tool result that it made up; a constant of the format."""

_USUAL_MEMBERS = ("type", "id", "parentId", "timestamp", "message")
_MESSAGE_MEMBER = b',"message":'
_USUAL_START = b'{"type":"message","id":"'
_ROLE = frozenset(("role",))
_PLAIN = frozenset((str, bool, type(None)))
_TREE_KEYS = frozenset(("type", "id", "parentId", "targetId", "appendParentId", "appendMode"))
_RESET_KEYS = _TREE_KEYS | {"timestamp", "firstKeptEntryId", "customType", "display"}
_MODEL_KEYS = _RESET_KEYS | {
    *("version", "cwd", "reason", "tokensBefore", "thinkingLevel", "provider", "modelId", "fromId", "label", "name")
}
_MESSAGE_KEYS = frozenset(("role", "idempotencyKey", "provenance", "excludeFromContext", "__openclaw"))
_PRIVATE_KEYS = frozenset(("runId", "steerTargetRunId", "contextFreeCommand"))
_FACT_KEYS = frozenset(
    (
        *("role", "provider", "model", "timestamp", "excludeFromContext", "toolCallId", "toolUseId", "tool_call_id"),
        *("tool_use_id", "callId", "call_id", "toolName", "isError", "stopReason", "customType", "display"),
    )
)
_CALL_TYPES = frozenset(("toolCall", "toolUse", "functionCall"))


def navigation(text: bytes, event: dict[str, Any]) -> bytes | None:
    """The facts of `event` (whose JSON text is `text`) as UTF-8 JSON; None when the event has to stay text."""
    message = event.get("message")
    if message is not None and type(message) is not dict:
        return None
    size = len(text)
    # Every level has two brackets, so most events are told by their size or by the number of brackets.
    may_be_deep = size > 2 * MAX_DEPTH and text.count(b"{") + text.count(b"[") > MAX_DEPTH
    if may_be_deep and _deeper_than(event, MAX_DEPTH):
        return None
    model_bytes, without_checkpoint = _model_sizes(size, message)
    if message is not None and _is_usual(event):
        return _usual(text, event, message, model_bytes, without_checkpoint)
    entry = _pick(event, _MODEL_KEYS)
    return orjson.dumps(
        {
            "version": 1,
            "report": report(event),
            "navigation": _navigation(event, message, entry),
            "reset": {**_only(entry, _RESET_KEYS), "message": {"role": _extracted(message, "role")}},
            "model": _model(event, message, entry),
            "modelBytes": model_bytes,
            "modelWithoutCheckpointBytes": without_checkpoint,
            "withoutCustomDataBytes": size - member_bytes(event, "data"),
        }
    )


def least_bytes(event: dict[str, Any]) -> int:
    """A size that the facts of `event` have at least, told without making them."""
    if not _is_usual(event):
        return 0
    return _skeleton_bytes() + 3 * (len(event["id"]) + len(event["parentId"] or "") + len(event["timestamp"]))


@cache
def _skeleton_bytes() -> int:
    """Size of the facts of a usual message that holds nothing; null as parent takes more than its empty text."""
    bare = {"type": "message", "id": "", "parentId": "", "timestamp": "", "message": {}}
    return len(_usual(orjson.dumps(bare), bare, bare["message"], 1000, 1000))


def _is_usual(event: dict[str, Any]) -> bool:
    """Whether the root has the members that nearly every message has, in their usual order and of their usual types."""
    if tuple(event) != _USUAL_MEMBERS:
        return False
    kind, identity, parent, moment, _ = event.values()
    plain = type(identity) is str and type(moment) is str and (parent is None or type(parent) is str)
    return plain and kind == "message"


def _usual(text: bytes, event: dict[str, Any], message: dict[str, Any], model_bytes: int, without: int) -> bytes:
    """The facts of a usual message: the three projections share their root, so it is written once."""
    root = _root(text, event)
    role = message.get("role")
    if type(role) is str and _MESSAGE_KEYS.isdisjoint(message.keys() - _ROLE):
        # The role alone: `reset` and `navigation` have the same message then.
        reset = reduced = b'{"role":%b}' % orjson.dumps(role)
    else:
        reset = b'{"role":%b}' % orjson.dumps(_extracted(message, "role"))
        reduced = orjson.dumps(_reduced(message))
    return (
        b'{"version":1,"report":%b,"navigation":%b,"message":%b},"reset":%b,"message":%b},'
        b'"model":%b,"message":%b},"modelBytes":%d,"modelWithoutCheckpointBytes":%d,"withoutCustomDataBytes":%d}'
    ) % (
        *(_usual_report(root, event, message, role), root, reduced, root, reset),
        *(root, orjson.dumps(_message_facts(message)), model_bytes, without, len(text)),
    )


def _root(text: bytes, event: dict[str, Any]) -> bytes:
    """The root's members before `message` as JSON without the closing brace: where nothing is escaped, a plain copy.

    A quote inside a string is escaped in JSON, so the first `,"message":` is the member.
    """
    root = text[: text.find(_MESSAGE_MEMBER)]
    if root.startswith(_USUAL_START) and b"\\" not in root:
        return root
    return orjson.dumps({key: event[key] for key in _USUAL_MEMBERS[:-1]})[:-1]


def _usual_report(root: bytes, event: dict[str, Any], message: dict[str, Any], role: Any) -> bytes:
    """The class of a usual message; that of a plain canonical one is its root with the type at the end."""
    if not is_canonical(event):
        return orjson.dumps(report(event))
    links = root[len(b'{"type":"message",') :]
    facts = assistant_facts(message) if role == "assistant" else None
    more = b"," + orjson.dumps(facts)[1:-1] if facts else b""
    return b'{"kind":"canonical","hasParentId":true,"entry":{%b,"type":"message"%b}}' % (links, more)


def member_bytes(owner: Any, key: str) -> int:
    """Bytes by which the JSON text of object `owner` shrinks when member `key` goes, its comma included."""
    if type(owner) is not dict or key not in owner:
        return 0
    return len(orjson.dumps(key)) + 1 + len(_text(owner[key])) + (1 if len(owner) > 1 else 0)


def _model_sizes(size: int, message: dict[str, Any] | None) -> tuple[int, int]:
    """Sizes of the event as the model sees it, with and without the provider's checkpoint."""
    if message is None:
        return size, size
    details = "details" in message and message.get("role") == "toolResult"
    size -= member_bytes(message.get("__openclaw"), "upstreamUserText")
    if details:
        size -= member_bytes(message, "details")
    if "providerReplay" not in message:
        return size, size
    # With the details gone already the replay may be the last member, which has no comma.
    last = details and len(message) == 2
    return size, size - member_bytes(message, "providerReplay") + (1 if last else 0)


def _navigation(event: dict[str, Any], message: dict[str, Any] | None, entry: dict[str, Any]) -> dict[str, Any]:
    """Root members in order with `message` cut down to what routing needs."""
    if "message" not in event:
        return entry
    reduced = None if message is None else _reduced(message)
    return {key: reduced if key == "message" else entry[key] for key in event if key == "message" or key in entry}


def _reduced(message: dict[str, Any]) -> dict[str, Any]:
    reduced = _pick(message, _MESSAGE_KEYS)
    private = message.get("__openclaw")
    if type(private) is dict:
        reduced["__openclaw"] = _pick(private, _PRIVATE_KEYS)
    return reduced


def _model(event: dict[str, Any], message: dict[str, Any] | None, entry: dict[str, Any]) -> dict[str, Any]:
    """Root members plus what the context builder asks of each kind of event."""
    kind = event.get("type")
    if kind == "message":
        return {**entry, "message": _message_facts(message or {})}
    if kind == "custom_message":
        return {**entry, "content": []}
    if kind in ("compaction", "branch_summary"):
        return {**entry, "summary": ""}
    return entry


def _message_facts(message: dict[str, Any]) -> dict[str, Any]:
    facts = _pick(message, _FACT_KEYS)
    content = message.get("content")
    blocks = content if type(content) is list else content.values() if type(content) is dict else ()
    objects = [block for block in blocks if type(block) is dict]
    facts["content"] = [
        {"type": kind, "id": _extracted(block, "id"), "name": _extracted(block, "name")}
        for block in objects
        if type(kind := block.get("type")) is str and kind in _CALL_TYPES
    ]
    facts["command"] = ""
    facts["output"] = ""
    facts["providerReplay"] = {"type": _extracted(message.get("providerReplay"), "type")}
    facts["details"] = {MISSING_RESULT_KEY: _is_made_up(message.get("details"), objects)}
    return facts


def _is_made_up(details: Any, objects: list[dict[str, Any]]) -> bool:
    """Whether a tool result was inserted by a repair: marked in its details or known by its text."""
    if type(details) is dict and MISSING_RESULT_KEY in details:
        mark = details[MISSING_RESULT_KEY]
        if type(mark) in (bool, int, float) and mark == 1:
            return True
    return any(block.get("text") == MISSING_RESULT_TEXT and block.get("type") == "text" for block in objects)


def _only(entry: dict[str, Any], keys: frozenset[str]) -> dict[str, Any]:
    return {key: value for key, value in entry.items() if key in keys}


def _pick(owner: dict[str, Any], keys: frozenset[str]) -> dict[str, Any]:
    """Members of `owner` that are in `keys`, in its order, as SQLite copies them."""
    picked = {key: value for key, value in owner.items() if key in keys}
    for key, value in picked.items():
        if type(value) not in _PLAIN:
            picked[key] = _copied(value)
    return picked


def _copied(value: Any) -> Any:
    """A number, array or object as SQLite writes its copy."""
    if type(value) in (dict, list):
        return orjson.Fragment(_text(value))
    return _number(value)


def _extracted(owner: Any, key: str) -> Any:
    """`owner[key]` as an SQL value: null when absent, 1 and 0 for true and false."""
    if type(owner) is not dict:
        return None
    value = owner.get(key)
    if value is None or type(value) is str:
        return value
    if type(value) is bool:
        return int(value)
    return _copied(value)


def _number(value: int | float) -> Any:
    """A number as SQLite reads it from the stored text, which is JavaScript's spelling, and writes it again."""
    if type(value) is int and -(2**53) <= value <= 2**53:
        return value
    written = _text(value)
    whole = written.lstrip(b"-").isdigit()
    if whole and -(2**63) <= int(written) < 2**63:
        return int(written)
    return orjson.Fragment(_real_text(float(written)))


@cache
def _calculator() -> apsw.Connection:
    return apsw.Connection(":memory:")


def _real_text(value: float) -> str:
    """A real number as SQLite's JSON functions write it; SQLite itself is asked, the rule differs between releases."""
    return next(_calculator().execute("SELECT json_array(?)", (value,)))[0][1:-1]


def _text(value: Any) -> bytes:
    """JSON text of a part of an event, exactly as it stands in the event."""
    from openclaw_cli import jstext  # the module is needed by few events and costs start-up time

    return jstext.dumps(value)


def _deeper_than(value: Any, limit: int) -> bool:
    """Whether arrays and objects nest deeper than `limit`; without recursion, for any depth."""
    level = [value]
    for _ in range(limit):
        level = [
            child
            for owner in level
            for child in (owner.values() if type(owner) is dict else owner)
            if type(child) in (dict, list)
        ]
        if not level:
            return False
    return True
