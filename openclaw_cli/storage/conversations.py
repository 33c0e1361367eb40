"""The address book: which outside conversation a session talks to (store format §3.3, §10 "Delivery").

A conversation is known by channel, account, kind, peer and thread. Sessions are linked to it as `primary`; direct
chats that share the main session are `participant`s.
"""

from __future__ import annotations

import hashlib
import re
import uuid
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import orjson

from openclaw_cli.jstext import JS_WHITESPACE, dumps
from openclaw_cli.storage import columns
from openclaw_cli.storage.connection import Store

_PEER_PREFIX = re.compile(r"(?:user|channel|group|conversation|room|dm|thread):", re.ASCII | re.IGNORECASE)
_ACCOUNT_ID = re.compile(r"[a-z0-9][a-z0-9_-]{0,63}\Z", re.ASCII | re.IGNORECASE)
_BLOCKED = frozenset(("__proto__", "prototype", "constructor"))


@dataclass(frozen=True, slots=True)
class Conversation:
    """One row of `conversations`, without its times."""

    conversation_id: str
    channel: str
    account_id: str
    kind: str
    peer_id: str
    delivery_target: str
    parent_conversation_id: str | None
    thread_id: str | None
    native_channel_id: str | None
    native_direct_user_id: str | None
    label: str | None
    metadata_json: str | None = None


_FIELDS = tuple(Conversation.__slots__)


def peer_id(channel: str, target: str) -> str:
    """The bare peer of a delivery target: without `<channel>:` and one `user:`, `channel:`, `group:` … in front."""
    bare = target.strip(JS_WHITESPACE)
    prefix = f"{channel.strip(JS_WHITESPACE).lower()}:"
    if bare.lower().startswith(prefix):
        bare = bare[len(prefix) :].strip(JS_WHITESPACE)
    match = _PEER_PREFIX.match(bare)
    return bare[match.end() :].strip(JS_WHITESPACE) if match else bare


def account_id(value: object) -> str | None:
    """The account id as it stands in routes and rows: lower case, other characters as dashes; None when blank."""
    if not isinstance(value, str):
        return None
    trimmed = value.strip(JS_WHITESPACE)
    folded = trimmed.lower()
    if not _ACCOUNT_ID.match(trimmed):
        folded = re.sub(r"[^a-z0-9_-]+", "-", folded).strip("-")[:64]
    return folded if folded and folded not in _BLOCKED else None


def chat_kind(value: object) -> str | None:
    """direct, group or channel; `dm` is an old word for direct; None for everything else."""
    folded = value.strip(JS_WHITESPACE).lower() if isinstance(value, str) else None
    return "direct" if folded == "dm" else columns.one_of(folded, columns.CHAT_TYPES)


def conversation_of(entry: Mapping[str, Any]) -> Conversation | None:
    """The conversation that a normalised entry delivers to, None when its delivery names no target."""
    context, origin = columns.delivery_context(entry), columns.delivery_origin(entry)
    kind = chat_kind(entry.get("chatType")) or "direct"
    routed = columns.text(context.get("to"))
    owner: Mapping[str, Any] = context if routed else {**origin, "channel": columns.text(origin.get("provider"))}
    target = routed or (columns.text(origin.get("from")) if kind == "direct" else None)
    channel = (columns.text(owner.get("channel")) or "").lower()
    if not channel or not target:
        return None
    paired = _paired_peer(context, origin, target) if routed and kind == "direct" else None
    peer = peer_id(channel, paired or target)
    if not peer:
        return None
    account = account_id(owner.get("accountId")) or "default"
    thread = _thread(owner.get("threadId"))
    display, label = entry.get("displayName"), entry.get("label")
    return Conversation(
        conversation_id=_reference(channel, account, kind, peer, thread),
        channel=channel,
        account_id=account,
        kind=kind,
        peer_id=peer,
        delivery_target=target,
        parent_conversation_id=None,
        thread_id=thread,
        native_channel_id=columns.text(origin.get("nativeChannelId")),
        native_direct_user_id=columns.text(origin.get("nativeDirectUserId")),
        label=columns.text(label if display is None else display),
    )


def _reference(channel: str, account: str, kind: str, peer: str, thread: str | None) -> str:
    address = dumps([channel, account, kind, peer, "", thread or ""])
    return f"conv_{hashlib.sha256(address).hexdigest()[:32]}"


def _thread(value: object) -> str | None:
    found = columns.number(value)
    return columns.text(value) if found is None else columns.number_text(found)


def _paired_peer(context: Mapping[str, Any], origin: Mapping[str, Any], target: str) -> str | None:
    """The sender of a direct chat when origin and delivery are one and the same conversation."""
    provider, channel = columns.text(origin.get("provider")), columns.text(context.get("channel"))
    same = (
        columns.text(origin.get("to")) == target
        and provider is not None
        and provider.lower() == (channel or "").lower()
        and chat_kind(origin.get("chatType")) == "direct"
        and (account_id(origin.get("accountId")) or "default") == (account_id(context.get("accountId")) or "default")
        and _thread(origin.get("threadId")) == _thread(context.get("threadId"))
    )
    return columns.text(origin.get("from")) if same else None


def known_before(store: Store, found: Conversation, session_ids: tuple[str, ...]) -> Conversation:
    """`found`, or the row that one of the sessions is linked to at the same target.

    A gateway knows the peer behind a target better than the entry does; writing an entry must not undo that.
    """
    marks = ",".join("?" * len(session_ids))
    row = store.execute(
        f"SELECT {','.join(f'c.{name}' for name in _FIELDS)} FROM session_conversations s JOIN conversations c"
        f" ON c.conversation_id = s.conversation_id WHERE s.session_id IN ({marks}) AND c.channel = ?"
        " AND c.account_id = ? AND c.kind = ? AND c.delivery_target = ? AND c.thread_id IS ?"
        " AND s.role IN ('primary', 'participant') ORDER BY s.last_seen_at DESC LIMIT 1",
        (*session_ids, found.channel, found.account_id, found.kind, found.delivery_target, found.thread_id),
    ).fetchone()
    if row is None:
        return found
    stored = Conversation(*row)
    return replace(stored, label=found.label or stored.label)


def role_of(found: Conversation, session_scope: str) -> str:
    """How a session of this scope is linked to the conversation."""
    return "participant" if session_scope == "shared-main" and found.kind == "direct" else "primary"


def upsert(store: Store, found: Conversation, seen_ms: int) -> None:
    """Write the conversation's row; must come before the window that names it as primary."""
    settable = [name for name in _FIELDS if name != "conversation_id"]
    store.execute(
        f"INSERT INTO conversations ({','.join(_FIELDS)}, created_at, updated_at)"
        f" VALUES ({','.join('?' * len(_FIELDS))}, ?, ?) ON CONFLICT (conversation_id) DO UPDATE SET"
        f" {','.join(f'{name} = excluded.{name}' for name in settable)}, updated_at = excluded.updated_at",
        (*(getattr(found, name) for name in _FIELDS), seen_ms, seen_ms),
    )


def link(
    store: Store,
    session_id: str,
    found: Conversation,
    role: str,
    seen_ms: int,
    *,
    previous_session_id: str | None = None,
) -> None:
    """Link the session's window to the conversation; a former primary one stays as `related`.

    Routing facts that a gateway observed there, or on the key's previous session, stay with the link.
    """
    if role == "primary":
        _demote_others(store, session_id, found.conversation_id, seen_ms)
    here = (session_id, found.conversation_id)
    facts = _observed(store, *here)
    if facts is None and previous_session_id not in (None, session_id):
        facts = _observed(store, previous_session_id, found.conversation_id)
    store.execute(
        "DELETE FROM session_conversations WHERE session_id = ? AND conversation_id = ? AND role != ?", (*here, role)
    )
    _put_link(store, (*here, role), _route_context(*facts, seen_ms) if facts else None, seen_ms, seen_ms)


def _demote_others(store: Store, session_id: str, conversation_id: str, seen_ms: int) -> None:
    others = "session_id = ? AND role = 'primary' AND conversation_id != ?"
    stale = store.execute(
        "SELECT conversation_id, first_seen_at, last_seen_at, route_context_json FROM session_conversations"
        f" WHERE {others}",
        (session_id, conversation_id),
    ).fetchall()
    for other, first_seen, last_seen, context in stale:
        renewed = _route_context(last_seen, context, seen_ms)
        _put_link(store, (session_id, other, "related"), renewed, first_seen, seen_ms)
    if stale:
        store.execute(f"DELETE FROM session_conversations WHERE {others}", (session_id, conversation_id))


def _put_link(store: Store, key: tuple[str, str, str], context: str | None, first_seen: int, last_seen: int) -> None:
    store.execute(
        "INSERT INTO session_conversations (session_id, conversation_id, role, route_context_json, first_seen_at,"
        " last_seen_at) VALUES (?, ?, ?, ?, ?, ?) ON CONFLICT (session_id, conversation_id, role) DO UPDATE SET"
        " route_context_json = excluded.route_context_json, last_seen_at = excluded.last_seen_at",
        (*key, context, first_seen, last_seen),
    )


def _observed(store: Store, session_id: str | None, conversation_id: str) -> tuple[int, str | None] | None:
    return store.execute(
        "SELECT last_seen_at, route_context_json FROM session_conversations"
        " WHERE session_id = ? AND conversation_id = ? ORDER BY last_seen_at DESC LIMIT 1",
        (session_id, conversation_id),
    ).fetchone()


def _route_context(observed_ms: int, stored: str | None, seen_ms: int) -> str | None:
    """The stored routing facts as of `seen_ms`; None when there are none or they are not those of `observed_ms`.

    They are only believed while their time equals the link's, and a trigger clears a text that an update of the link
    leaves as it was: hence the new `writeId`.
    """
    try:
        facts = orjson.loads(stored) if stored else None
    except ValueError:
        return None
    if not isinstance(facts, dict) or facts.get("version") != 1 or facts.get("observedAt") != observed_ms:
        return None
    return dumps({**facts, "writeId": str(uuid.uuid4()), "observedAt": seen_ms}).decode("utf-8")
