"""One row of the session list, from a SessionEntry. Pure; the keys are those of OpenClaw's `sessions --json`."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

TOKENS_VERSION = 1
"""`totalTokens` counted by an older rule has another version and is never fresh (compaction §15)."""

_BEFORE_VISIBILITY = (
    "sessionId",
    "spawnedBy",
    "spawnedWorkspaceDir",
    "spawnedCwd",
    "parentSessionKey",
    "forkedFromParent",
    "spawnDepth",
    "subagentRole",
    "subagentControlScope",
    "sessionStartedAt",
    "lastInteractionAt",
    "label",
    "color",
    "status",
)
_BEFORE_TOKENS = (
    "createdActor",
    "systemSent",
    "abortedLastRun",
    "thinkingLevel",
    "verboseLevel",
    "traceLevel",
    "reasoningLevel",
    "elevatedLevel",
    "responseUsage",
    "groupActivation",
    "inputTokens",
    "outputTokens",
)
_OVERRIDES = ("totalTokensVersion", "providerOverride", "modelOverride")
_CRON = re.compile(r"agent:[^:]+:cron:")
_DEFAULT_RUNTIMES = frozenset({"", "auto", "default"})


@dataclass(frozen=True, slots=True)
class Defaults:
    """What a row that does not say takes: the model of its agent, the context window, the key of main sessions."""

    provider: str
    model: str
    context_tokens: int
    main_key: str = "main"


def row_document(key: str, entry: Mapping[str, Any], agent_id: str, defaults: Defaults, now_ms: int) -> dict[str, Any]:
    """OpenClaw's keys in its order, then ours: `archived, pinned, unread`.

    `model` and `contextTokens` are those of the row, else `defaults`; OpenClaw takes the window of a model from its
    catalog first, which a store does not hold.
    """
    updated_at = _number(entry.get("updatedAt"))
    row: dict[str, Any] = {"key": key, "updatedAt": updated_at}
    row["ageMs"] = now_ms - updated_at if updated_at else None
    _copy(entry, _BEFORE_VISIBILITY, row)
    if entry.get("forkSource") is not None:
        row["forkedFromParent"] = True
    row["visibility"] = entry.get("visibility") or "shared"
    _copy(entry, _BEFORE_TOKENS, row)
    row["totalTokens"] = total_tokens(entry)
    row["totalTokensFresh"] = fresh_tokens(entry) is not None
    _copy(entry, _OVERRIDES, row)
    row["modelProvider"], row["model"] = model_of(entry, defaults)
    row["contextTokens"] = _positive(entry.get("contextTokens")) or defaults.context_tokens
    owner = agent_of(key) or agent_id
    row["agentId"] = owner
    row["acpRuntime"] = bool(entry.get("acp"))
    row["agentRuntime"] = _runtime(key, entry, row["modelProvider"])
    row["kind"] = kind_of(key, entry)
    policy = _policy_key(key, entry, owner, defaults.main_key)
    if policy is not None:
        row["runtimePolicySessionKey"] = policy
    row["archived"] = _number(entry.get("archivedAt")) is not None
    row["pinned"] = _number(entry.get("pinnedAt")) is not None and not row["archived"]
    row["unread"] = unread(entry)
    return row


def unread(entry: Mapping[str, Any]) -> bool:
    """Marked as unread, or read before the last activity; what was never marked either way is read.

    `updatedAt` is no sign of activity: patches of metadata move it too.
    """
    if _number(entry.get("markedUnreadAt")) is not None:
        return True
    read_at, active_at = _number(entry.get("lastReadAt")), _number(entry.get("lastActivityAt"))
    return read_at is not None and active_at is not None and read_at < active_at


def total_tokens(entry: Mapping[str, Any]) -> int | float | None:
    """The recorded size of the context in tokens, or None when it is unknown."""
    value = _number(entry.get("totalTokens"))
    return value if value is not None and value >= 0 else None


def fresh_tokens(entry: Mapping[str, Any]) -> int | float | None:
    """`total_tokens` when it describes the context as it is now, else None."""
    current = entry.get("totalTokensFresh") is True and entry.get("totalTokensVersion") == TOKENS_VERSION
    return total_tokens(entry) if current else None


def kind_of(key: str, entry: Mapping[str, Any]) -> str:
    """What sort of session this is; the first rule that fits counts."""
    if key in ("global", "unknown"):
        return key
    if _CRON.match(key):
        return "cron"
    if entry.get("spawnedBy"):
        return "spawn-child"
    if entry.get("chatType") in ("group", "channel") or ":group:" in key or ":channel:" in key:
        return "group"
    return "direct"


def agent_of(key: str) -> str | None:
    """The agent that a key `agent:<id>:<rest>` names."""
    parts = key.split(":", 2)
    return parts[1] if len(parts) == 3 and parts[0] == "agent" and parts[1] else None


def model_of(entry: Mapping[str, Any], defaults: Defaults) -> tuple[str, str]:
    """(provider, model) that the session uses: the override, what it used last, the agent's default."""
    for provider_name, model_name in (("providerOverride", "modelOverride"), ("modelProvider", "model")):
        model = _text(entry.get(model_name))
        if model is None:
            continue
        provider = _text(entry.get(provider_name))
        if provider is None:
            return split_model(model, defaults.provider)
        prefix = f"{provider.lower()}/"
        return provider, (model[len(prefix) :] if model.lower().startswith(prefix) else model) or model
    return defaults.provider, defaults.model


def split_model(reference: str, default_provider: str) -> tuple[str, str]:
    """(provider, model) of `provider/model`; the first slash parts them."""
    provider, slash, model = reference.partition("/")
    return (provider, model) if slash and provider and model else (default_provider, reference)


def token_label(count: int | float) -> str:
    """`950`, `2.3k`, `41k`, `1.0m`."""
    if count < 1_000:
        return str(round(count))
    thousands = f"{count / 1_000:.{0 if count >= 10_000 else 1}f}"
    return f"{thousands}k" if count < 1_000_000 and float(thousands) < 1_000 else f"{count / 1_000_000:.1f}m"


def tokens_cell(row: Mapping[str, Any]) -> str:
    """`2.3k/200k (1%)`: used, window, share; `?` where the number is unknown or no longer describes the context."""
    window, total = row["contextTokens"], row["totalTokens"]
    label = "unknown" if total is None else token_label(total)
    share = "?" if total is None or not row["totalTokensFresh"] else str(min(999, round(total / window * 100)))
    return f"{label}/{token_label(window)} ({share}%)"


def age_cell(age_ms: int | float | None) -> str:
    """`just now`, `5m ago`, `3h ago`, `12d ago`; `unknown` for none and for times that have not come yet."""
    if age_ms is None or age_ms < 0:
        return "unknown"
    minutes = round(age_ms / 60_000)
    if minutes < 1:
        return "just now"
    if minutes < 60:
        return f"{minutes}m ago"
    hours = round(minutes / 60)
    return f"{hours}h ago" if hours < 48 else f"{round(hours / 24)}d ago"


def flags_cell(row: Mapping[str, Any]) -> str:
    """Our marks (pinned, archived, unread, generations), then OpenClaw's flags in its order."""
    flags = [name for name in ("pinned", "archived", "unread") if row.get(name)]
    if row.get("generations"):
        flags.append(f"generations:{len(row['generations'])}")
    for name, label in (
        ("thinkingLevel", "think"),
        ("verboseLevel", "verbose"),
        ("traceLevel", "trace"),
        ("reasoningLevel", "reasoning"),
        ("elevatedLevel", "elev"),
        ("responseUsage", "usage"),
        ("groupActivation", "activation"),
    ):
        if row.get(name):
            flags.append(f"{label}:{row[name]}")
    flags += [label for name, label in (("systemSent", "system"), ("abortedLastRun", "aborted")) if row.get(name)]
    flags.append(f"visibility:{row['visibility']}")
    actor = row.get("createdActor")
    if isinstance(actor, Mapping):
        flags.append(f"owner:{actor.get('label') or actor.get('id') or actor.get('type')}")
    if row.get("runtimePolicySessionKey"):
        flags.append(f"policy:{row['runtimePolicySessionKey']}")
    if row.get("sessionId"):
        flags.append(f"id:{row['sessionId']}")
    return " ".join(flags)


def _copy(entry: Mapping[str, Any], names: tuple[str, ...], row: dict[str, Any]) -> None:
    for name in names:
        if name in entry and entry[name] is not None:
            row[name] = entry[name]


def _runtime(key: str, entry: Mapping[str, Any], provider: str) -> dict[str, str]:
    """The harness that runs the agent: of the ACP binding, of the row, else the one that its provider implies."""
    acp = entry.get("acp")
    if acp and key.split(":", 2)[2:] and key.split(":", 2)[2].startswith("acp:"):
        backend = _text(acp.get("backend")) if isinstance(acp, Mapping) else None
        return {"id": backend or "acpx", "source": "session-key"}
    for name in ("agentRuntimeOverride", "agentHarnessId"):
        stored = (_text(entry.get(name)) or "").lower()
        if stored not in _DEFAULT_RUNTIMES:
            return {"id": stored, "source": "session"}
    return {"id": "codex" if provider == "openai" else "auto", "source": "implicit"}


def _policy_key(key: str, entry: Mapping[str, Any], agent_id: str, main_key: str) -> str | None:
    """The key under which policies of a main session are looked up that speaks with one external peer."""
    delivery = entry.get("delivery")
    if key not in (f"agent:{agent_id}:{main_key}", f"agent:{agent_id}:main") or not isinstance(delivery, Mapping):
        return None
    origin, context = (
        value if isinstance(value, Mapping) else {} for value in (delivery.get("origin"), delivery.get("context"))
    )
    channel = (_text(origin.get("provider")) or _text(context.get("channel")) or "").lower()
    peer = _text(origin.get("nativeDirectUserId")) or _text(origin.get("to")) or _text(context.get("to"))
    chat_type = origin.get("chatType") or entry.get("chatType")
    if chat_type != "direct" or not channel or channel == "webchat" or peer is None:
        return None
    account = _text(origin.get("accountId")) or _text(context.get("accountId")) or "default"
    bare = peer[len(channel) + 1 :] if peer.lower().startswith(f"{channel}:") else peer
    return f"agent:{agent_id}:{channel}:{account.lower()}:direct:{bare.split(':topic:')[0].lower()}"


def _number(value: Any) -> int | float | None:
    return value if isinstance(value, (int, float)) and not isinstance(value, bool) else None


def _positive(value: Any) -> int | float | None:
    number = _number(value)
    return number if number is not None and number > 0 else None


def _text(value: Any) -> str | None:
    return value.strip() or None if isinstance(value, str) else None
