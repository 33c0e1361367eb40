"""One SessionEntry of `sessions.json` in the form of 2026.9.6 (store format §4, §10).

Pure: the caller knows the clock and the transcript. Unknown fields and the order of keys stay; retired fields go or
become the field that replaced them, where the real importer puts it. Problems are values, one entry never stops
another.
"""

from __future__ import annotations

import hashlib
import math
import re
import unicodedata
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Any

from openclaw_cli.errors import Issue
from openclaw_cli.jstext import JS_WHITESPACE, dumps
from openclaw_cli.migration import delivery
from openclaw_cli.migration.icons import normal_color, normal_icon
from openclaw_cli.migration.keys import canonical_key, owner_agent, proven_key
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
_ACTOR_SOURCES = frozenset(("profile", "channel", "unknown"))
_NOTICE_STATES = frozenset(("owed", "unresolved", "acknowledged"))
_DELIVERY_STATES = frozenset(("prepared", "queued", "delivered", "suppressed", "unknown"))
_CHECKPOINT = re.compile(
    r".+\.checkpoint\.[0-9a-f]{8}-[0-9a-f]{4}-[1-5][0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}\Z", re.ASCII | re.I
)
_LONGEST_FILE_NAME_BYTES = 255
_LONGEST_SESSION_ID = 128


@dataclass(frozen=True, slots=True)
class Normalised:
    """What became of one row of the index.

    `entry` is None when the row must be kept out (`problems` then has an error). `agent_id` is the agent whose store
    `key` belongs into. `time_invented`: updatedAt is no time of the row's own. `notes` say in short words which
    retired things were changed.
    """

    key: str
    agent_id: str
    entry: dict[str, Any] | None
    problems: tuple[Issue, ...] = ()
    notes: tuple[str, ...] = ()
    time_invented: bool = False


@dataclass(slots=True)
class _Findings:
    key: str
    problems: list[Issue] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    def error(self, why: str) -> None:
        self.problems.append(Issue("entry_invalid", "error", f"session entry is kept out: {why}", self.key))

    def warn(self, code: str, message: str, **facts: Any) -> None:
        self.problems.append(Issue(code, "warning", message, self.key, facts))


def session_id_problem(session_id: object) -> str | None:
    """Why `session_id` cannot name a session, None when it can (store format §2)."""
    if not isinstance(session_id, str) or not session_id.strip(JS_WHITESPACE):
        return "it has no sessionId"
    trimmed = session_id.strip(JS_WHITESPACE)
    kinds = [unicodedata.category(character)[0] for character in trimmed]
    safe = (
        kinds[0] in "LN"
        and all(kind in "LNM" or character in "._-" for kind, character in zip(kinds, trimmed, strict=True))
        and len(trimmed) <= _LONGEST_SESSION_ID
        and unicodedata.is_normalized("NFC", trimmed)
        and len(trimmed.encode("utf-8", "surrogatepass")) + len(".jsonl") <= _LONGEST_FILE_NAME_BYTES
        and not _CHECKPOINT.match(trimmed)
    )
    return None if safe else "its sessionId cannot be the name of a session"


def normalise(
    entry: object,
    *,
    key: str,
    agent_id: str,
    main_key: str = "main",
    now_ms: int,
    started_ms: int | None = None,
    scope: str = "per-sender",
    agents: Collection[str] | None = None,
) -> Normalised:
    """The row `entry` of the index of `agent_id` as the store keeps it.

    `started_ms` is the time of the transcript's header; it becomes sessionStartedAt when the row has none. A row
    without updatedAt gets sessionStartedAt, else `now_ms`. `scope` and `agents`: see `canonical_key`.
    """
    findings = _Findings(key)
    named = canonical_key(key, agent_id=agent_id, main_key=main_key, scope=scope, agents=agents)
    problem = "it is no object" if not isinstance(entry, dict) else session_id_problem(entry.get("sessionId"))
    if not problem and not named:
        problem = "its key is empty"
    if problem or not isinstance(entry, dict):
        findings.error(problem or "")
        return Normalised(named, owner_agent(named) or agent_id, None, tuple(findings.problems))
    shaped = _creator(delivery.migrate(_named(entry, findings)))
    broken = delivery.repair(shaped)
    if broken:
        findings.warn("delivery_repaired", f"delivery has members of a wrong type: {', '.join(broken)}", fields=broken)
    _settle_lineage(shaped, findings, agent_id=agent_id, main_key=main_key, scope=scope, agents=agents)
    if started_ms is not None and columns.number(shaped.get("sessionStartedAt")) is None:
        shaped["sessionStartedAt"] = started_ms
    _settle_times(shaped, findings)
    invented = _settle_updated_at(shaped, now_ms)
    if invented:
        findings.notes.append("updatedAt missing")
    final = proven_key(named, shaped)
    if final != key:
        findings.warn("key_canonicalised", f"session key is stored as {final}", canonicalKey=final)
    shaped = current_shape(shaped)
    _note_retired(entry, shaped, findings)
    owner = owner_agent(final) or agent_id
    return Normalised(final, owner, shaped, tuple(findings.problems), tuple(findings.notes), invented)


def _named(entry: Mapping[str, Any], findings: _Findings) -> dict[str, Any]:
    named = dict(entry)
    trimmed = named["sessionId"].strip(JS_WHITESPACE)
    if trimmed != named["sessionId"]:
        named["sessionId"] = trimmed
        findings.notes.append("sessionId trimmed")
    return named


def _creator(entry: dict[str, Any]) -> dict[str, Any]:
    """Who made the session: an object `createdBy` becomes createdActor, a human actor says where the name is from."""
    actor, legacy = entry.get("createdActor"), entry.get("createdBy")
    if actor is None and isinstance(legacy, dict):
        actor = {**legacy, "type": "human", "source": "unknown"}
    if not isinstance(actor, dict) or actor.get("type") != "human":
        return entry
    source = columns.one_of(actor.get("source"), _ACTOR_SOURCES)
    if source is None:
        by_origin = {"operator": "profile", "run": "profile", "channel": "channel"}
        via = entry.get("createdVia")
        source = by_origin.get(via, "unknown") if isinstance(via, str) else "unknown"
    if entry.get("createdActor") is actor and source == actor.get("source") and not _is_truthy(legacy):
        return entry
    migrated = {**entry, "createdActor": {**actor, "source": source}}
    migrated.pop("createdBy", None)
    return migrated


def _is_truthy(value: object) -> bool:
    return isinstance(value, dict | list) or bool(value)


def _settle_lineage(entry: dict[str, Any], findings: _Findings, *, agent_id: str, **rules: Any) -> None:
    """Canonical parentSessionKey, spawnedBy and forkSource.sessionKey.

    The real program refuses a store in which one of them is spelled otherwise, blank or no string.
    """
    for name in ("parentSessionKey", "spawnedBy"):
        _settle_link(entry, name, name, findings, agent_id=agent_id, **rules)
    fork = entry.get("forkSource")
    if isinstance(fork, dict):
        settled = dict(fork)
        _settle_link(settled, "sessionKey", "forkSource.sessionKey", findings, agent_id=agent_id, **rules)
        entry["forkSource"] = settled


def _settle_link(
    holder: dict[str, Any], name: str, path: str, findings: _Findings, *, agent_id: str, **rules: Any
) -> None:
    stored = holder.get(name)
    if stored is None:
        return
    settled = canonical_key(stored, agent_id=agent_id, **rules) if isinstance(stored, str) else ""
    if settled and settled == stored:
        return
    if settled:
        holder[name] = settled
        findings.warn("key_canonicalised", f"{path} is stored as {settled}", field=path, canonicalKey=settled)
    else:
        del holder[name]
        findings.warn("lineage_dropped", f"{path} names no session and is left out", field=path)


_TIMES = (
    "updatedAt",
    "sessionStartedAt",
    "startedAt",
    "endedAt",
    "createdAt",
    "pinnedAt",
    "archivedAt",
    "lastReadAt",
    "lastInteractionAt",
    "lastActivityAt",
)
"""Times that integer columns mirror."""


def _settle_times(entry: dict[str, Any], findings: _Findings) -> None:
    """Whole milliseconds, because the real program fails at each write of an entry with another number here."""
    for name in _TIMES:
        stored = columns.number(entry.get(name))
        whole = columns.integer(stored)
        if stored is None or whole == stored:
            continue
        if whole is None:
            del entry[name]
            findings.warn("entry_time_dropped", f"{name} is no time in milliseconds and is left out", field=name)
        else:
            entry[name] = whole
            findings.warn("entry_time_rounded", f"{name} is no whole number of milliseconds and is rounded", field=name)


def _settle_updated_at(entry: dict[str, Any], now_ms: int) -> bool:
    """Fill in a missing updatedAt; True when it was missing."""
    if columns.number(entry.get("updatedAt")) is not None:
        return False
    started = columns.integer(entry.get("sessionStartedAt"))
    entry["updatedAt"] = now_ms if started is None else started
    return True


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


def _note_retired(before: Mapping[str, Any], after: Mapping[str, Any], findings: _Findings) -> None:
    gone = [name for name in before if name not in after]
    if gone:
        findings.notes.append("retired: " + ", ".join(gone))


def acp_receipt(
    entry: Mapping[str, Any], *, source_path: str, source_key: str, session_id: str
) -> dict[str, Any] | None:
    """The receipt for `acp` metadata that an ACP plugin still has to take over, None when the entry has none.

    `source_path` is the absolute path of the index, `source_key` the key as it stands there. The digest is that of
    the metadata with its binding, keys sorted (store format §10).
    """
    meta = entry.get("acp")
    if not _is_truthy(meta):
        return None
    # Receipts with another type here are refused by every reader, and with them the session.
    revision = entry.get("lifecycleRevision") if isinstance(entry.get("lifecycleRevision"), str) else None
    key = source_key.strip(JS_WHITESPACE)
    bound = {"sessionKey": key, "sessionBinding": session_id if revision is None else revision, "meta": meta}
    serialized = _sorted_json(bound)
    receipt = {"sourcePath": source_path, "sourceSessionKey": key, "sessionId": session_id}
    if revision is not None:
        receipt["lifecycleRevision"] = revision
    digest = hashlib.sha256(serialized).hexdigest()
    return {**receipt, "sourceSha256": digest, "sourceSizeBytes": len(serialized)}


def _sorted_json(value: object) -> bytes:
    if isinstance(value, dict):
        # JavaScript sorts by UTF-16 code units.
        names = sorted(value, key=lambda name: name.encode("utf-16-be", "surrogatepass"))
        return b"{" + b",".join(dumps(name) + b":" + _sorted_json(value[name]) for name in names) + b"}"
    if isinstance(value, list):
        return b"[" + b",".join(_sorted_json(item) for item in value) + b"]"
    return dumps(value)
