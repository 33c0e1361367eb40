"""One SessionEntry of `sessions.json` in the form of 2026.9.6 (store format §4, §10).

Pure: the caller knows the clock and the transcript. Unknown fields and the order of keys stay; retired fields go or
become the field that replaced them, where the real importer puts it. Problems are values, one entry never stops
another.
"""

from __future__ import annotations

import hashlib
import re
import unicodedata
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Any

from openclaw_cli.errors import Issue, escaped
from openclaw_cli.jstext import JS_WHITESPACE, dumps
from openclaw_cli.migration import delivery
from openclaw_cli.migration.keys import canonical_key, owner_agent, proven_key
from openclaw_cli.migration.retired import current_shape
from openclaw_cli.storage import columns

_ACTOR_SOURCES = frozenset(("profile", "channel", "unknown"))
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
    # No session has a key with half a character, and the real program reads no store in which a row names one.
    usable = isinstance(stored, str) and escaped(stored) == stored
    settled = canonical_key(stored, agent_id=agent_id, **rules) if usable else ""
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
