"""Session keys in the one spelling that the real program accepts (store format §2).

A store with a single key in another spelling is refused as a whole by the real program, so keys are settled before
anything is written. Pure; the white space and case rules are those of JavaScript, where the keys were made.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from typing import Any

from openclaw_cli.jstext import JS_WHITESPACE
from openclaw_cli.storage.columns import delivery_context, delivery_origin, number_text
from openclaw_cli.storage.conversations import peer_id

SENTINELS = ("global", "unknown")
"""Keys that belong to no agent; each store has its own."""

DEFAULT_AGENT = "main"
"""The agent of installations that never named one; `agent:main:main` is the old name of every main session."""

_AGENT_ID = re.compile(r"[a-z0-9][a-z0-9_-]{0,63}\Z", re.ASCII | re.IGNORECASE)
_SIGNAL_GROUP = re.compile(r"(?:^|:)signal:group:([^:]+)", re.ASCII | re.IGNORECASE)
_MATRIX_ROOM = re.compile(r"(?:(?:agent:[^:]*:)+:*)?matrix:(?:channel|group):", re.ASCII | re.IGNORECASE)
_THREAD = ":thread:"


def normal_agent_id(text: str) -> str:
    """The agent id as in paths and keys: lower case, other characters as dashes, `main` when nothing is left."""
    trimmed = text.strip(JS_WHITESPACE)
    folded = trimmed.lower()
    if _AGENT_ID.match(trimmed):
        return folded
    dashed = re.sub(r"[^a-z0-9_-]+", "-", folded).strip("-")[:64]
    return dashed or DEFAULT_AGENT


def fold(key: str) -> str:
    """`key` trimmed and in lower case, except the spans whose case means something.

    Those are the id behind `signal:group:` and all that follows `matrix:channel:` or `matrix:group:`, thread ids
    included. Gives "" for a blank key.
    """
    raw = key.strip(JS_WHITESPACE)
    folded = raw.lower()
    if "signal:" not in folded and "matrix:" not in folded:
        return folded
    parts: list[str] = []
    cursor = 0
    for start, end, trimmed in _opaque_spans(raw):
        if start < cursor:
            continue
        parts.append(raw[cursor:start].strip(JS_WHITESPACE).lower())
        span = raw[start:end]
        parts.append(span.strip(JS_WHITESPACE) if trimmed else span)
        cursor = end
    parts.append(raw[cursor:].strip(JS_WHITESPACE).lower())
    return "".join(parts)


def _opaque_spans(raw: str) -> list[tuple[int, int, bool]]:
    spans = [(*match.span(1), True) for match in _SIGNAL_GROUP.finditer(raw)]
    room = _MATRIX_ROOM.match(raw)
    if room is not None and room.end() < len(raw):
        tail = raw[room.end() :]
        marker = tail.lower().rfind(_THREAD)
        middle = len(raw) if marker < 0 else room.end() + marker
        spans.append((room.end(), middle, False))
        if marker >= 0:
            spans.append((middle + len(_THREAD), len(raw), False))
    return sorted(span for span in spans if span[1] > span[0])


def split_agent(key: str) -> tuple[str, str] | None:
    """(agent id, rest) of a folded key `agent:<id>:<rest>`, None for every other key."""
    if key[:6].lower() != "agent:":
        return None
    end = key.find(":", 6)
    if end < 0:
        return None
    agent, rest = key[6:end].strip(JS_WHITESPACE), key[end + 1 :]
    return (agent, rest) if agent and rest and not rest.startswith(":") else None


def owner_agent(key: str) -> str | None:
    """The agent whose store a key belongs to; None for the sentinels and for legacy keys without an agent."""
    parsed = split_agent(fold(key))
    return parsed[0] if parsed is not None and _AGENT_ID.match(parsed[0]) else None


def canonical_key(
    key: str,
    *,
    agent_id: str,
    main_key: str = "main",
    scope: str = "per-sender",
    agents: Collection[str] | None = None,
) -> str:
    """The canonical key of `key` as it was found in the store of `agent_id`; "" when nothing can be made of it.

    Keys without a valid `agent:<id>:` in front get that of `agent_id`; every name of a main session becomes the one
    with `main_key`, or `global` where `session.scope` is `global`. `agents` is the roster: when it has no `main`,
    keys of `main` are those of `agent_id`. The agent of the result may be another one than `agent_id` (see
    `owner_agent`).
    """
    folded = fold(key)
    if not folded or folded in SENTINELS:
        return folded
    main = main_key.strip(JS_WHITESPACE).lower() or "main"
    own = normal_agent_id(agent_id)
    parsed = split_agent(folded)
    if parsed is None or not _AGENT_ID.match(parsed[0]):
        # The channel of such a group is not known any more; `unknown` stands for it.
        rest = f"unknown:{folded}" if folded.startswith(("group:", "channel:")) else folded.lstrip(":")
        if not rest:
            return ""  # The real program reads no store with a key whose first part is empty.
    else:
        owner, rest = parsed
        # An installation that named its agent later still has `main` in the keys of the time before.
        is_old_name = owner == DEFAULT_AGENT and agents is not None and DEFAULT_AGENT not in agents
        own = own if is_old_name else owner
    if rest in ("main", main):
        return "global" if scope == "global" else f"agent:{own}:{main}"
    return f"agent:{own}:{rest}"


def proven_key(key: str, entry: Mapping[str, Any]) -> str:
    """`key` with the case of a peer that the entry's own delivery target proves (store format §2, Matrix rooms).

    An old version stored such keys in lower case; the real program recognises them by the target and refuses the
    store until they are spelled like it.
    """
    context = delivery_context(entry)
    channel, target = context.get("channel"), context.get("to")
    if not isinstance(channel, str) or not isinstance(target, str):
        return key
    channel = channel.strip(JS_WHITESPACE).lower()
    peer = peer_id(channel, target)
    if not channel or not peer:
        return key
    base, thread = split_thread(key)
    start = _peer_start(base, channel)
    if start < 0 or base[start:].lower() != peer.lower():
        return key
    if thread:
        stored = context.get("threadId")
        thread = (thread if stored is None else number_text(stored)).strip(JS_WHITESPACE)
    candidate = fold(base[:start] + peer + (f"{_THREAD}{thread}" if thread else ""))
    if candidate != key and key in _folded_aliases(candidate) and _is_confirmed(entry, candidate):
        return candidate
    return key


def split_thread(key: str) -> tuple[str, str | None]:
    """(base, thread id) of a key; the thread id is None without a `:thread:` part."""
    raw = key.strip(JS_WHITESPACE)
    marker = raw.lower().rfind(_THREAD)
    if marker < 0:
        return raw, None
    return raw[:marker], raw[marker + len(_THREAD) :].strip(JS_WHITESPACE) or None


def _peer_start(base: str, channel: str) -> int:
    folded = base.lower()
    start = -1
    for kind in ("channel", "group"):
        marker = f"{channel}:{kind}:"
        nested = folded.rfind(f":{marker}")
        at = 0 if folded.startswith(marker) else nested + 1 if nested >= 0 else -1
        if at >= 0:
            start = max(start, at + len(marker))
    return start


def _folded_aliases(key: str) -> set[str]:
    aliases = {key.lower()} - {key}
    if _has_opaque_tail(key):
        base, thread = split_thread(key)
        if base and thread and base.lower() != base:
            aliases.add(f"{base.lower()}{_THREAD}{thread}")
    return aliases


def _has_opaque_tail(key: str) -> bool:
    return _MATRIX_ROOM.match(key) is not None


def _is_confirmed(entry: Mapping[str, Any], key: str) -> bool:
    """Whether the entry delivers to the room that `key` names; keys without an opaque tail need no such proof."""
    if not _has_opaque_tail(key):
        return True
    base, thread = split_thread(key)
    origin = delivery_origin(entry)
    context = delivery_context(entry)
    targets = (context.get("to"), origin.get("nativeChannelId"), origin.get("to"), entry.get("groupId"))
    rooms = [_room(target) for target in targets if isinstance(target, str)]
    if not any(room and room in base for room in rooms):
        return False
    if not thread:
        return True
    stored = context.get("threadId")
    known = isinstance(stored, str | int | float) and not isinstance(stored, bool)
    return known and number_text(stored).strip(JS_WHITESPACE) == thread


def _room(target: str) -> str:
    trimmed = target.strip(JS_WHITESPACE)
    sigils = [at for at in (trimmed.find("!"), trimmed.find("#")) if at >= 0]
    return trimmed[min(sigils) :] if sigils else trimmed
