"""Fields that an entry of 2026.9.6 does not have any more, and what took their place (store format §4, §10). Pure."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from openclaw_cli.jstext import JS_WHITESPACE
from openclaw_cli.migration.icons import normal_color, normal_icon
from openclaw_cli.storage import columns

RETIRED = (
    "sessionFile",
    "transcriptPath",
    "pendingFinalDeliveryCreatedAt",
    "pendingFinalDeliveryLastAttemptAt",
    "pendingFinalDeliveryAttemptCount",
    "pendingFinalDeliveryLastError",
    "pendingFinalDeliveryText",
    "pendingFinalDeliveryContext",
    "pendingFinalDeliveryIntentId",
    "fallbackNoticeSelectedModel",
    "fallbackNoticeActiveModel",
    "fallbackNoticeReason",
    "memoryFlushAt",
    "memoryFlushCompactionCount",
    "memoryFlushContextHash",
    "memoryFlushFailureCount",
    "memoryFlushLastFailedAt",
    "memoryFlushLastFailureError",
    "owner",
    "participants",
    "participantCount",
)
"""Fields that no entry of 2026.9.6 has; what some of them said goes into their successors."""

ARCHIVE_REASONS = frozenset(("manual", "active-session-cap", "age-retention", "stale-dashboard", "restart-recovery"))
_NOTICE_STATES = frozenset(("owed", "unresolved", "acknowledged"))
_DELIVERY_STATES = frozenset(("prepared", "queued", "delivered", "suppressed", "unknown"))


def current_shape(entry: Mapping[str, Any]) -> dict[str, Any]:
    """`entry` without retired fields and with their successors; what is not valid in 2026.9.6 is left out."""
    shaped = {name: value for name, value in entry.items() if name not in RETIRED}
    _put(shaped, "icon", normal_icon(shaped.get("icon")))
    _put(shaped, "color", normal_color(shaped.get("color")))
    _put(shaped, "pendingFinalDelivery", _final_delivery(shaped.get("pendingFinalDelivery")) or _flat_delivery(entry))
    _put(shaped, "pendingDeliveryNotice", _delivery_notice(shaped.get("pendingDeliveryNotice")))
    _put(shaped, "pendingTranscriptRepair", _transcript_repair(shaped.get("pendingTranscriptRepair")))
    _put(shaped, "fallbackNotice", _fallback_notice(shaped.get("fallbackNotice")) or _flat_notice(entry))
    _put(shaped, "memoryFlush", _memory_flush(shaped.get("memoryFlush")) or _flat_flush(entry))
    if "archivedAt" in shaped:
        _put(shaped, "archiveReason", columns.one_of(shaped.get("archiveReason"), ARCHIVE_REASONS))
    else:
        shaped.pop("archivedBy", None)
        shaped.pop("archiveReason", None)
    snapshot = shaped.get("skillsSnapshot")
    if isinstance(snapshot, dict) and "resolvedSkills" in snapshot:
        shaped["skillsSnapshot"] = {name: value for name, value in snapshot.items() if name != "resolvedSkills"}
    return shaped


def _put(entry: dict[str, Any], name: str, value: object) -> None:
    if value is None:
        entry.pop(name, None)
    else:
        entry[name] = value


def _text(value: object) -> str | None:
    return value.strip(JS_WHITESPACE) or None if isinstance(value, str) else None


def _texts(source: Mapping[str, Any], *names: str) -> dict[str, str]:
    found = {name: _text(source.get(name)) for name in names}
    return {name: value for name, value in found.items() if value}


def _time(source: Mapping[str, Any], name: str) -> int | float | None:
    """A time of the entry in ms: absent is None, nonsense is 0."""
    if name not in source:
        return None
    found = columns.number(source[name])
    return found if found is not None and found >= 0 else 0


def _count(value: object) -> int | None:
    found = columns.number(value)
    return math.floor(found) if found is not None and found >= 0 else None


def _final_delivery(value: object) -> dict[str, Any] | None:
    """A reply that still has to be delivered, in the new form."""
    if not isinstance(value, dict):
        return None
    created = _time(value, "createdAt")
    if created is None:
        return None
    base: dict[str, Any] = {"createdAt": created}
    if isinstance(value.get("context"), dict):
        base["context"] = value["context"]
    base |= _texts(value, "intentId")
    states = _delivery_states(value.get("deliveries"))
    if states:
        base["deliveries"] = states
    if value.get("kind") == "transport-only":
        return {"kind": "transport-only", **base}
    text = _text(value.get("text"))
    return {"kind": "replayable", "text": text, **base} if value.get("kind") == "replayable" and text else None


def _delivery_states(value: object) -> list[dict[str, str]]:
    states = []
    for item in value if isinstance(value, list) else ():
        if isinstance(item, dict) and _text(item.get("id")) and columns.one_of(item.get("state"), _DELIVERY_STATES):
            states.append({"id": _text(item["id"]) or "", "state": item["state"]})
    return states


def _flat_delivery(entry: Mapping[str, Any]) -> dict[str, Any] | None:
    """The same from the flat fields of older versions."""
    text = _text(entry.get("pendingFinalDeliveryText"))
    if not text and entry.get("pendingFinalDelivery") is not True:
        return None
    made: dict[str, Any] = {"kind": "replayable", "text": text} if text else {"kind": "transport-only"}
    created = _time(entry, "pendingFinalDeliveryCreatedAt")
    if created is None:
        created = _time(entry, "updatedAt")
    made["createdAt"] = 0 if created is None else created
    if isinstance(entry.get("pendingFinalDeliveryContext"), dict):
        made["context"] = entry["pendingFinalDeliveryContext"]
    intent = _text(entry.get("pendingFinalDeliveryIntentId"))
    return {**made, "intentId": intent} if intent else made


def _delivery_notice(value: object) -> dict[str, Any] | None:
    if not isinstance(value, dict) or not isinstance(value.get("context"), dict):
        return None
    created, intent = _time(value, "createdAt"), _text(value.get("intentId"))
    state = columns.one_of(value.get("state"), _NOTICE_STATES)
    if created is None or not intent or not state:
        return None
    return {"createdAt": created, "context": value["context"], "intentId": intent, "state": state}


def _transcript_repair(value: object) -> list[dict[str, Any]] | None:
    repairs = []
    for item in value if isinstance(value, list) else ():
        if not isinstance(item, dict):
            continue
        named, created = _texts(item, "id", "text"), _time(item, "createdAt")
        if len(named) == 2 and created is not None:
            repairs.append({**named, **_texts(item, "provider", "model"), "createdAt": created})
    return repairs or None


def _fallback_notice(value: object) -> dict[str, Any] | None:
    if not isinstance(value, dict) or value.get("kind") != "active":
        return None
    return _notice(_texts(value, "selectedModel", "activeModel", "reason"))


def _flat_notice(entry: Mapping[str, Any]) -> dict[str, Any] | None:
    flat = {name: entry.get(f"fallbackNotice{name[0].upper()}{name[1:]}") for name in _NOTICE_NAMES}
    return _notice(_texts(flat, *_NOTICE_NAMES))


_NOTICE_NAMES = ("selectedModel", "activeModel", "reason")


def _notice(found: Mapping[str, str]) -> dict[str, Any] | None:
    complete = "selectedModel" in found and "activeModel" in found
    return {"kind": "active", **found} if complete else None


def _memory_flush(value: object) -> dict[str, Any] | None:
    if not isinstance(value, dict):
        return None
    compactions, failures = _count(value.get("compactionCount")), _count(value.get("failureCount"))
    if value.get("kind") == "succeeded":
        return None if compactions is None else {"kind": "succeeded", "compactionCount": compactions}
    return _failed_flush(compactions, failures) if value.get("kind") == "failed" else None


def _flat_flush(entry: Mapping[str, Any]) -> dict[str, Any] | None:
    compactions = _count(entry.get("memoryFlushCompactionCount"))
    failed = _failed_flush(compactions, _count(entry.get("memoryFlushFailureCount")))
    if failed or compactions is None:
        return failed
    return {"kind": "succeeded", "compactionCount": compactions}


def _failed_flush(compactions: int | None, failures: int | None) -> dict[str, Any] | None:
    if not failures:
        return None
    counted = {} if compactions is None else {"compactionCount": compactions}
    return {"kind": "failed", **counted, "failureCount": failures}
