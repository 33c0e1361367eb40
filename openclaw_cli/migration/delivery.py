"""From the eight routing fields of a file-era entry to its one `delivery` field (store format §4, §10 "Delivery").

An address ("context" below) is `{channel?, to?, accountId?, threadId?}`; a route is the same in nested form with
details about target and thread. Fields that disagree are never mixed: the stronger source gives the whole address.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from openclaw_cli.jstext import JS_WHITESPACE
from openclaw_cli.storage import columns
from openclaw_cli.storage.conversations import account_id

LEGACY_FIELDS = (
    "route",
    "deliveryContext",
    "origin",
    "channel",
    "lastChannel",
    "lastTo",
    "lastAccountId",
    "lastThreadId",
)
"""Retired fields that `delivery` stands for."""

INTERNAL_CHANNELS = frozenset(("webchat", "heartbeat", "cron", "webhook", "voice", "sessions_send"))
"""Channels that nothing is delivered to."""

CHANNEL_ALIASES = {
    "lark": "feishu",
    "gchat": "googlechat",
    "google-chat": "googlechat",
    "imsg": "imessage",
    "internet-relay-chat": "irc",
    "teams": "msteams",
    "nc": "nextcloud-talk",
    "nc-talk": "nextcloud-talk",
    "twitch-chat": "twitch",
    "zl": "zalo",
    "zlu": "zalouser",
    "qywx": "wecom",
    "wework": "wecom",
    "enterprise-wechat": "wecom",
    "weixin": "openclaw-weixin",
    "wechat": "openclaw-weixin",
    "微信": "openclaw-weixin",
    "zaloclawbot": "openclaw-zaloclawbot",
    "zalo-clawbot": "openclaw-zaloclawbot",
    "yb": "yuanbao",
    "tencent-yuanbao": "yuanbao",
    "元宝": "yuanbao",
}
"""Other names of the channels that come with OpenClaw 2026.9.6; channels of plugins have none here."""

Address = dict[str, Any]


def spread(value: object) -> dict[str, Any]:
    """`{...value}` of JavaScript for a JSON value."""
    if isinstance(value, dict):
        return dict(value)
    if isinstance(value, list | str):
        return {str(index): item for index, item in enumerate(value)}
    return {}


def address(context: object) -> Address | None:
    """`context` with known channel names, trimmed targets and plain account ids; None when nothing is left."""
    if not isinstance(context, dict):
        return None
    channel = _trimmed(context.get("channel"))
    folded = channel.lower() if channel else None
    found = {
        "channel": CHANNEL_ALIASES.get(folded, folded) if folded else None,
        "to": _trimmed(context.get("to")),
        "accountId": account_id(context.get("accountId")),
        "threadId": _thread_id(context.get("threadId")),
    }
    present = {name: value for name, value in found.items() if value is not None}
    return present or None


def _trimmed(value: object) -> str | None:
    # Not columns.text: the entry keeps lone surrogates, only columns cannot hold them.
    return value.strip(JS_WHITESPACE) or None if isinstance(value, str) else None


def _thread_id(value: object) -> int | float | str | None:
    found = columns.number(value)
    return _trimmed(value) if found is None else int(found)


def is_canonical(delivery: object) -> bool:
    """Whether a `delivery` value has the form of 2026.9.6."""
    if not isinstance(delivery, dict):
        return False
    if delivery.get("kind") in ("none", "internal"):
        return True
    parts = (delivery.get(name) for name in ("route", "context", "origin"))
    return delivery.get("kind") == "external" and all(isinstance(part, dict | list) for part in parts)


def migrate(entry: Mapping[str, Any]) -> dict[str, Any]:
    """`entry` with `delivery` instead of LEGACY_FIELDS; a chatType that only the origin knows comes along."""
    legacy = any(name in entry for name in LEGACY_FIELDS)
    stored = entry.get("delivery")
    if is_canonical(stored) and not legacy:
        return dict(entry)
    delivery = _from_legacy(entry)
    if is_canonical(stored) and not _improves(stored, delivery):
        delivery = stored
    migrated = {**entry, "delivery": delivery}
    origin = entry.get("origin")
    chat_type = origin.get("chatType") if isinstance(origin, dict) else None
    if migrated.get("chatType") is None and columns.one_of(chat_type, columns.CHAT_TYPES):
        migrated["chatType"] = chat_type
    for name in LEGACY_FIELDS:
        migrated.pop(name, None)
    return migrated


def repair(entry: dict[str, Any]) -> list[str]:
    """Take members of a wrong type out of the entry's external `delivery`; gives their paths.

    The real program copies such a `delivery` as it is, then fails at every look at the store.
    """
    stored = entry.get("delivery")
    if not isinstance(stored, dict) or stored.get("kind") != "external":
        return []
    repaired, gone = dict(stored), []
    for part, names in _TEXT_MEMBERS.items():
        members = stored.get(part)
        if not isinstance(members, dict):
            continue
        wrong = [name for name in names if not isinstance(members.get(name), str | None)]
        if "threadId" in members and not _is_thread(members["threadId"]):
            wrong.append("threadId")
        if wrong:
            repaired[part] = {name: value for name, value in members.items() if name not in wrong}
            gone += [f"{part}.{name}" for name in wrong]
    if gone:
        entry["delivery"] = repaired
    return gone


def _is_thread(value: object) -> bool:
    return value is None or isinstance(value, str) or columns.number(value) is not None


_TEXT_MEMBERS = {
    "route": ("channel", "accountId"),
    "context": ("channel", "to", "accountId"),
    "origin": ("provider", "to", "accountId", "from"),
}


def _improves(stored: Mapping[str, Any], legacy: Mapping[str, Any]) -> bool:
    """Whether the retired fields know a delivery that the new field has lost."""
    if stored["kind"] == "none":
        return legacy["kind"] != "none"
    return stored["kind"] == "internal" and legacy["kind"] == "external"


def _from_legacy(entry: Mapping[str, Any]) -> dict[str, Any]:
    route = _route(entry.get("route"))
    routed = _address_of_route(route)
    explicit = address(entry.get("deliveryContext"))
    origin = entry.get("origin")
    came_from = _address_of_origin(origin)
    by_channel = address({"channel": entry.get("channel")})
    last = _last_address(entry, explicit)
    fallback = _merge(last, _merge(explicit, _merge(by_channel, came_from)))
    internal = _internal_address(routed, last, by_channel)
    if internal is not None and _reaches_outside(explicit):
        route, context = None, _outside_over_inside(explicit, internal)
    else:
        context = _merge(routed, fallback)
    return _delivery(route, context, origin)


def _last_address(entry: Mapping[str, Any], explicit: Address | None) -> Address | None:
    """The address of lastChannel, lastTo, … when it is whole enough to be believed."""
    own = address({"channel": entry.get("lastChannel")})
    fields = address(
        {"to": entry.get("lastTo"), "accountId": entry.get("lastAccountId"), "threadId": entry.get("lastThreadId")}
    )
    channel = own["channel"] if own else None
    if channel is None and fields:
        origin = entry.get("origin")
        provider = origin.get("provider") if isinstance(origin, dict) else None
        stored = address({"channel": entry.get("channel")}) or address({"channel": provider}) or {}
        channel = stored.get("channel")
    candidate = address({"channel": channel, **(fields or {})})
    if candidate is None:
        return None
    believed = (
        _is_internal(candidate)
        or _reaches_outside(candidate)
        or own is not None
        or (candidate.get("channel") is not None and candidate.get("channel") == (explicit or {}).get("channel"))
    )
    return candidate if believed else None


def _internal_address(routed: Address | None, last: Address | None, by_channel: Address | None) -> Address | None:
    if _is_internal(routed):
        return _merge(routed, last)
    if _is_internal(last):
        return last
    return _merge(by_channel, last) if _is_internal(by_channel) else None


def _delivery(route: dict[str, Any] | None, context: Address | None, origin: object) -> dict[str, Any]:
    routed = _address_of_route(route)
    came_from = _address_of_origin(origin)
    inside = _is_internal(routed) and _reaches_outside(context)
    if inside:
        merged = _outside_over_inside(context, _merge(routed, came_from))
    else:
        merged = _merge(routed, _merge(context, came_from))
    if merged is None:
        return {"kind": "none"}
    if _is_internal(merged):
        return {"kind": "internal"}
    final = _completed_route(None if inside else route, merged)
    target = final.get("target") or {}
    source = spread(origin)
    defaults = {name: merged.get(key) for name, key in _ORIGIN_FIELDS} | {"chatType": target.get("chatType")}
    for name, value in defaults.items():
        if value is not None and source.get(name) is None:
            source[name] = value
        elif value is None and name in source and source[name] is None:
            del source[name]
    return {"kind": "external", "route": final, "context": merged, "origin": source}


_ORIGIN_FIELDS = (("provider", "channel"), ("to", "to"), ("accountId", "accountId"), ("threadId", "threadId"))


def _address_of_origin(origin: object) -> Address | None:
    if not isinstance(origin, dict):
        return None
    return address({key: origin.get(name) for name, key in _ORIGIN_FIELDS})


def _route(value: object) -> dict[str, Any] | None:
    """A stored route in the form of 2026.9.6: `{channel?, accountId?, target?, thread?}`."""
    if not isinstance(value, dict):
        return None
    target = value.get("target") if isinstance(value.get("target"), dict) else {}
    thread = value.get("thread") if isinstance(value.get("thread"), dict) else {}
    return _build_route(
        value.get("channel"), target.get("to"), value.get("accountId"), thread.get("id"), target, thread
    )


def _completed_route(route: dict[str, Any] | None, context: Address) -> dict[str, Any]:
    """`route` with what only `context` knows."""
    known = route or {}
    target, thread = known.get("target") or {}, known.get("thread") or {}
    built = _build_route(
        known.get("channel") or context.get("channel"),
        target.get("to") or context.get("to"),
        known.get("accountId") or context.get("accountId"),
        thread["id"] if "id" in thread else context.get("threadId"),
        target,
        thread,
    )
    return built or {}


def _build_route(
    channel: object,
    to: object,
    account: object,
    thread_id: object,
    target: Mapping[str, Any],
    thread: Mapping[str, Any],
) -> dict[str, Any] | None:
    route: dict[str, Any] = {}
    folded = (_trimmed(channel) or "").lower()
    if folded:
        route["channel"] = folded
    known_account = account_id(account)
    if known_account:
        route["accountId"] = known_account
    to_text, raw_to = _trimmed(to), _trimmed(target.get("rawTo"))
    if to_text:
        route["target"] = {"to": to_text}
        if raw_to and raw_to != to_text:
            route["target"]["rawTo"] = raw_to
        if _is_truthy(target.get("chatType")):
            route["target"]["chatType"] = target["chatType"]
    known_thread = _thread_id(thread_id)
    if known_thread is not None:
        route["thread"] = {"id": known_thread}
        route["thread"] |= {name: thread[name] for name in ("kind", "source") if _is_truthy(thread.get(name))}
    return route or None


def _is_truthy(value: object) -> bool:
    return isinstance(value, dict | list) or bool(value)


def _address_of_route(route: Mapping[str, Any] | None) -> Address | None:
    if route is None:
        return None
    thread = route.get("thread") or {}
    return address(
        {
            "channel": route.get("channel"),
            "to": (route.get("target") or {}).get("to"),
            "accountId": route.get("accountId"),
            "threadId": thread.get("id"),
        }
    )


def _is_internal(context: Address | None) -> bool:
    return context is not None and context.get("channel") in INTERNAL_CHANNELS


def _reaches_outside(context: Address | None) -> bool:
    if context is None or context.get("channel") is None or context.get("to") is None:
        return False
    return context["channel"] not in INTERNAL_CHANNELS


def _outside_over_inside(outside: Address | None, inside: Address | None) -> Address | None:
    """Channel and target of `outside`; account and thread may come from `inside`."""
    own, other = outside or {}, inside or {}
    return address(
        {
            "channel": own.get("channel"),
            "to": own.get("to"),
            "accountId": _first(own.get("accountId"), other.get("accountId")),
            "threadId": _first(own.get("threadId"), other.get("threadId")),
        }
    )


def _merge(primary: Address | None, fallback: Address | None) -> Address | None:
    """`primary` filled up from `fallback`; of two that name different channels or accounts only `primary` counts."""
    own, other = primary or {}, fallback or {}
    if not own and not other:
        return None
    channels = _conflict(own.get("channel"), other.get("channel"))
    accounts = _conflict(own.get("accountId"), other.get("accountId"))
    filler = {} if channels or accounts else other
    return address(
        {
            "channel": own.get("channel") if accounts else _first(own.get("channel"), other.get("channel")),
            "to": _first(own.get("to"), filler.get("to")),
            "accountId": _first(own.get("accountId"), filler.get("accountId")),
            "threadId": _first(own.get("threadId"), filler.get("threadId")),
        }
    )


def _conflict(one: object, other: object) -> bool:
    return one is not None and other is not None and one != other


def _first(one: object, other: object) -> object:
    return other if one is None else one
