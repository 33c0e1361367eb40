"""What kind of session a key is, and what protects a row from maintenance (cleanup §4). Pure.

Keys are compared in their folded form. Synthetic rows are by-products of runs: they are removed, everything else is
only archived.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

from openclaw_cli.jstext import JS_WHITESPACE
from openclaw_cli.migration.keys import fold, split_agent
from openclaw_cli.storage.columns import delivery_origin, number

CAP_REASON = "active-session-cap"
"""archiveReason of a row that the cap on active sessions has archived."""

_MODEL_RUN = re.compile(
    r"agent:[^:\s]+:explicit:model-run-[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\Z", re.ASCII
)
_CRON_RUN = re.compile(r"cron:.+?:run:[^:]+(?::.*)?\Z", re.DOTALL)
_CONVERSATION = re.compile(r"direct:.+|[^:]+:(?:group|channel):.+|telegram:(?:direct|dm):.+:topic:[^:]+", re.DOTALL)
_GROUP_TYPES = frozenset(("group", "channel", "thread"))
_ROUTE_KINDS = frozenset(("channel", "direct", "dm", "group"))
_THREAD = ":thread:"


@dataclass(frozen=True, slots=True)
class Key:
    """A session key taken apart. `rest` is the whole key where it names no agent (`agent_id` is None then)."""

    text: str
    agent_id: str | None
    rest: str

    @property
    def is_model_run(self) -> bool:
        """A probe of a model: kept for a day at most, under pressure."""
        return _MODEL_RUN.match(self.text) is not None

    @property
    def is_subagent(self) -> bool:
        """A sub-agent's session."""
        return self.rest.startswith("subagent:") or self.text.startswith("subagent:")

    @property
    def is_dashboard(self) -> bool:
        """A chat that was begun in the dashboard."""
        return self.rest.startswith("dashboard:")

    @property
    def is_cron_run(self) -> bool:
        """A run of a cron job, or something below one."""
        return self.agent_id is not None and _CRON_RUN.match(self.rest) is not None

    @property
    def is_synthetic(self) -> bool:
        """A by-product of runs."""
        rest = self.rest
        if self.is_model_run or self.is_subagent or rest.startswith(("acp:", "acp-bridge:", "hook:", "node:")):
            return True
        if rest.startswith("cron:"):
            return self.agent_id is not None
        return rest == "heartbeat" or rest.endswith(":heartbeat") or ":heartbeat:" in rest


def parse_key(key: str) -> Key:
    """Take a key apart, in whatever spelling it is."""
    folded = fold(key)
    parsed = split_agent(folded)
    # White space inside is none of a key's parts: such a key belongs to no agent.
    if parsed is None or folded[6 : folded.index(":", 6)] != parsed[0]:
        return Key(folded, None, folded)
    return Key(folded, *parsed)


@dataclass(frozen=True, slots=True)
class Row:
    """What maintenance knows of one row of a store. Times are epoch ms; None where the row has none.

    `protected`: why its key or entry is a conversation that is never touched. `pinned`: pinned, and may be.
    `archived`, `locked`, `running`: facts of the entry.
    """

    key: str
    session_id: str
    kind: Key
    updated_at: float | None
    activity_ms: float
    protected: str | None = None
    pinned: bool = False
    archived: bool = False
    archive_reason: str | None = None
    locked: bool = False
    running: bool = False
    parent_key: str | None = None
    spawned_by: str | None = None


def row_of(key: str, entry: Mapping[str, Any]) -> Row:
    """The row of `key` with its entry, of which only the fields matter that this module names."""
    kind = parse_key(key)
    updated_at = number(entry.get("updatedAt"))
    session_id, parent, spawned = (_text(entry.get(name)) for name in ("sessionId", "parentSessionKey", "spawnedBy"))
    return Row(
        key,
        session_id or "",
        kind,
        updated_at,
        activity_ms(entry),
        None if kind.is_synthetic else protection(kind, entry),
        _is_pinned(kind, entry),
        # Present is what counts: a null says that somebody has written it.
        "archivedAt" in entry,
        _text(entry.get("archiveReason")),
        entry.get("modelSelectionLocked") is True,
        entry.get("status") == "running",
        parent,
        spawned,
    )


def activity_ms(entry: Mapping[str, Any]) -> float:
    """The latest of the four times that tell when a session was used; 0 where there is none."""
    latest: float = 0
    for name in ("lastInteractionAt", "lastActivityAt", "sessionStartedAt", "updatedAt"):
        found = entry.get(name)
        if found is not None and (value := number(found)) is not None and value > latest:
            latest = value
    return latest


def protection(kind: Key, entry: Mapping[str, Any]) -> str | None:
    """Why a key that is not synthetic is a conversation with people, None when it is none."""
    delivery = entry.get("delivery")
    chat_type = _text(entry.get("chatType"))
    if chat_type is None:
        chat_type = _text(delivery_origin(entry).get("chatType"))
    if kind.text == "global" or (kind.agent_id is not None and kind.rest == "main"):
        return "primary"
    if _thread_of(kind.text):
        return "thread"
    if isinstance(delivery, Mapping) and delivery.get("kind") == "external":
        return "delivery"
    if (kind.agent_id is not None and _is_route(kind.rest)) or _CONVERSATION.fullmatch(kind.rest):
        return "conversation"
    if chat_type is not None and chat_type.strip(JS_WHITESPACE).lower() in _GROUP_TYPES:
        return "group"
    return None


def preserved(row: Row, *, keys: Collection[str] = (), recent_since_ms: float | None = None) -> str | None:
    """Why no step of the plan takes a row, None when one may (cleanup §4).

    `keys`: kept whatever they are (the active session and its parents). `recent_since_ms`: activity from then on
    protects a row that is not synthetic.
    """
    if row.archived:
        return "archived"
    return held(row, keys=keys, recent_since_ms=recent_since_ms)


def held(row: Row, *, keys: Collection[str] = (), recent_since_ms: float | None = None) -> str | None:
    """As `preserved`, of an archived row as well: what keeps the disk budget from it."""
    if row.pinned:
        return "pinned"
    if row.locked:
        return "locked"
    if row.running:
        return "running"
    if row.key in keys:
        return "active"
    if recent_since_ms is not None and not row.kind.is_synthetic and row.activity_ms >= recent_since_ms:
        return "recent"
    return row.protected


def is_cap_archived(row: Row) -> bool:
    """Whether only the cap has archived a row: the last that a disk budget may take."""
    return row.archived and row.archive_reason == CAP_REASON


def _is_pinned(kind: Key, entry: Mapping[str, Any]) -> bool:
    return "pinnedAt" in entry and may_be_pinned(kind, entry)


def may_be_pinned(kind: Key, entry: Mapping[str, Any]) -> bool:
    """Whether OpenClaw takes a pin of the row for one: no sub-agent, below no session but the main one."""
    if kind.is_subagent or _text(entry.get("spawnedBy")):
        return False
    parent = _text(entry.get("parentSessionKey"))
    return parent is None or (kind.agent_id is not None and parent == f"agent:{kind.agent_id}:main")


def _thread_of(key: str) -> str:
    marker = key.lower().rfind(_THREAD)
    return key[marker + len(_THREAD) :].strip(JS_WHITESPACE) if marker >= 0 else ""


def _is_route(rest: str) -> bool:
    """`channel:account:direct:peer` or `channel:kind:peer`, without a thread."""
    marker = rest.lower().rfind(_THREAD)
    parts = (rest[:marker] if marker >= 0 else rest).split(":")
    if len(parts) < 3 or parts[0] == "agent":
        return False
    if parts[2] in ("direct", "dm") and len(parts) >= 4 and parts[1] and parts[3]:
        return True
    return parts[1] in _ROUTE_KINDS and bool(parts[2])


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) and value.strip(JS_WHITESPACE) else None
