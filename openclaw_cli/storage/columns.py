"""What the columns of a session's rows take from its entry (store format §3.3). Pure.

The entry is the truth, the columns are projections of it; writing and `verify` both ask here, so that they cannot
disagree.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from typing import Any

from openclaw_cli.jstext import JS_WHITESPACE, dumps

Entry = Mapping[str, Any]

STATUSES = frozenset(("running", "done", "failed", "killed", "timeout"))
CREATED_VIA = frozenset(("operator", "spawn", "channel", "cron", "talk", "run", "plugin", "internal"))
ACTOR_TYPES = frozenset(("human", "agent", "system"))
CHAT_TYPES = frozenset(("direct", "group", "channel"))

NODE_PROJECTIONS = (
    "current_session_id",
    "updated_at",
    "status",
    "created_at",
    "created_via",
    "created_actor_type",
    "created_actor_id",
    "project_id",
    "parent_session_key",
    "spawned_by",
    "fork_source_session_key",
    "fork_source_session_id",
    "fork_source_entry_id",
    "label",
    "display_name",
    "category",
    "icon",
    "pinned_at",
    "archived_at",
    "last_read_at",
    "last_interaction_at",
    "last_activity_at",
)
"""Columns of session_nodes that mirror the entry."""

_LONE_SURROGATE = re.compile("[\ud800-\udfff]")
_MAX_INTEGER = 2**53 - 1


def text(value: object) -> str | None:
    """A text column: the trimmed string, None for blanks and other types; lone surrogates become U+FFFD."""
    if not isinstance(value, str):
        return None
    trimmed = value.strip(JS_WHITESPACE)
    return storable(trimmed) if trimmed else None


def storable(value: str) -> str:
    """`value` as UTF-8 can hold it; JavaScript strings may have lone surrogates."""
    try:
        value.encode("utf-8")
    except UnicodeEncodeError:
        return _LONE_SURROGATE.sub("\ufffd", value)
    return value


def number(value: object) -> int | float | None:
    """`value` when it is a finite number (booleans are none), else None."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    try:
        return value if math.isfinite(value) else None
    except OverflowError:
        return None


def integer(value: object) -> int | None:
    """An INTEGER column: a finite number, a fraction rounded; None beyond JavaScript's safe integers.

    The real program cannot write a fraction and cannot read a larger integer; either would cost it the whole store.
    """
    found = number(value)
    if found is None:
        return None
    # JavaScript's numbers are doubles; Math.round lets halves go up.
    whole = int(float(found)) if isinstance(found, int) else math.floor(found + 0.5)
    return whole if -_MAX_INTEGER <= whole <= _MAX_INTEGER else None


def number_text(value: object) -> str:
    """`String(value)` of a string or number."""
    return value if isinstance(value, str) else dumps(value).decode("utf-8")


def one_of(value: object, known: frozenset[str]) -> str | None:
    """`value` when the schema's CHECK knows it, else None."""
    return value if isinstance(value, str) and value in known else None


def status(value: object) -> str | None:
    """The status column; `interrupted` of older versions counts as `failed`."""
    return "failed" if value == "interrupted" else one_of(value, STATUSES)


def _mapping(value: object) -> Entry:
    return value if isinstance(value, dict) else {}


def _external(entry: Entry) -> Entry:
    delivery = _mapping(entry.get("delivery"))
    return delivery if delivery.get("kind") == "external" else {}


def delivery_context(entry: Entry) -> Entry:
    """`{channel, to, accountId?, threadId?}` of an external delivery, else {}."""
    return _mapping(_external(entry).get("context"))


def delivery_origin(entry: Entry) -> Entry:
    """Where the conversation of an external delivery came from, else {}."""
    return _mapping(_external(entry).get("origin"))


def session_scope(session_key: str, entry: Entry) -> str:
    """shared-main for a direct chat in a main session, else the group's or channel's kind, else conversation."""
    chat_type = entry.get("chatType")
    folded = session_key.strip(JS_WHITESPACE).lower()
    if chat_type == "direct" and (folded == "main" or folded.endswith(":main")):
        return "shared-main"
    return chat_type if chat_type in ("group", "channel") else "conversation"


def expected_node_columns(session_key: str, entry: Entry) -> dict[str, Any]:
    """Every column of session_nodes that mirrors the normalised `entry`, by name (NODE_PROJECTIONS)."""
    actor = _mapping(entry.get("createdActor"))
    fork = _mapping(entry.get("forkSource"))
    spawned_by = text(entry.get("spawnedBy"))
    return {
        "current_session_id": entry.get("sessionId"),
        "updated_at": integer(entry.get("updatedAt")),
        "status": status(entry.get("status")),
        "created_at": integer(entry.get("createdAt")),
        "created_via": one_of(entry.get("createdVia"), CREATED_VIA),
        "created_actor_type": one_of(actor.get("type"), ACTOR_TYPES),
        "created_actor_id": text(actor.get("id")),
        "project_id": text(entry.get("projectId")),
        "parent_session_key": text(entry.get("parentSessionKey")) or spawned_by,
        "spawned_by": spawned_by,
        "fork_source_session_key": text(fork.get("sessionKey")),
        "fork_source_session_id": text(fork.get("sessionId")),
        "fork_source_entry_id": text(fork.get("entryId")),
        "label": text(entry.get("label")),
        "display_name": text(entry.get("displayName")),
        "category": text(entry.get("category")),
        "icon": text(entry.get("icon")),
        "pinned_at": integer(entry.get("pinnedAt")),
        "archived_at": integer(entry.get("archivedAt")),
        "last_read_at": integer(entry.get("lastReadAt")),
        "last_interaction_at": integer(entry.get("lastInteractionAt")),
        "last_activity_at": integer(entry.get("lastActivityAt")),
    }


def expected_window_columns(session_key: str, entry: Entry) -> dict[str, Any]:
    """Every column of session_windows that mirrors the entry whose current session the window is.

    Holds only while the window belongs to `session_key`: of two keys with one session id the last writer owns it.
    `display_name` falls back to label, subject and group id here, unlike in the node.
    """
    context, origin = delivery_context(entry), delivery_origin(entry)
    channel = context.get("channel")
    names = (text(entry.get(name)) for name in ("displayName", "label", "subject", "groupId"))
    return {
        "previous_session_id": text(entry.get("previousSessionId")),
        "session_scope": session_scope(session_key, entry),
        "started_at": integer(entry.get("startedAt")),
        "ended_at": integer(entry.get("endedAt")),
        "status": status(entry.get("status")),
        "chat_type": one_of(entry.get("chatType"), CHAT_TYPES),
        "channel": text(origin.get("provider") if channel is None else channel),
        "account_id": text(context.get("accountId")),
        "model_provider": text(entry.get("modelProvider")),
        "model": text(entry.get("model")),
        "agent_harness_id": text(entry.get("agentHarnessId")),
        "parent_session_key": text(entry.get("parentSessionKey")),
        "spawned_by": text(entry.get("spawnedBy")),
        "display_name": next((name for name in names if name), None),
    }


def provenance_columns(entry: Entry) -> dict[str, Any]:
    """Columns of session_windows about who made the session; a later entry adds to them but takes nothing away."""
    acp = entry.get("acp")
    source = entry.get("hookExternalContentSource")
    source = "webhook" if source == "email" else source
    return {
        "session_entry_provenance": 1,
        "acp_owned": 1 if isinstance(acp, dict | list) or acp not in (None, False, 0, "") else 0,
        "plugin_owner_id": text(entry.get("pluginOwnerId")),
        "hook_external_content_source": source if source in ("gmail", "webhook") else None,
    }


def window_created_at(entry: Entry) -> int:
    """First finite time of sessionStartedAt, startedAt and updatedAt that is not negative; else updatedAt. Epoch ms."""
    for name in ("sessionStartedAt", "startedAt", "updatedAt"):
        found = integer(entry.get(name))
        if found is not None and found >= 0:
            return found
    return integer(entry.get("updatedAt")) or 0
