"""Session keys that lead elsewhere than they seem to: the first line of the documents' troubleshooting list."""

from __future__ import annotations

from collections.abc import Iterator

from openclaw_cli import jstext
from openclaw_cli.checks import remedies
from openclaw_cli.checks.finding import Finding, Places
from openclaw_cli.checks.scope import Scope
from openclaw_cli.migration.keys import canonical_key, owner_agent, proven_key
from openclaw_cli.sessions.listing import WITHHELD
from openclaw_cli.storage.connection import Store

_KEYS = (
    "SELECT session_key, entry_json, entry_valid FROM session_nodes"
    f" WHERE NOT (entry_valid = -1 AND entry_json = '{{}}') AND NOT {WITHHELD} ORDER BY session_key"
)
_MAIN_KEY = "SELECT main_key FROM session_key_contract WHERE id = 1"


def keys(store: Store, scope: Scope) -> Iterator[Finding]:
    """Keys in a spelling that OpenClaw refuses, keys of another agent, of another DM scope, invalid rows."""
    settings = scope.settings
    stored_main = store.value(_MAIN_KEY) if _has_contract(store) else settings.main_key
    if stored_main != settings.main_key:
        message = f"{store.path} calls main sessions {stored_main!r}, the configuration {settings.main_key!r}"
        evidence = {"storedMainKey": stored_main, "session.mainKey": settings.main_key}
        advice = "Messages go to a session with the name of the configuration, not to the stored one"
        command = remedies.of(scope.agent_id, "fix")
        yield Finding("main_key_differs", "warning", message, None, evidence, advice, command)
    direct, invalid = Places(), Places()
    for key, text, valid in store.execute(_KEYS):
        if valid != 1:
            invalid.add(key)
        yield from _spelling(key, text, str(stored_main), scope)
        if settings.dm_scope == "main" and is_direct(key, scope.agent_id):
            direct.add(key)
    if invalid.count:
        message = (
            f"{store.path}: {invalid.count} row(s) are not marked as valid; OpenClaw's lists and counts leave them out"
        )
        evidence = invalid.evidence("sessionKeys")
        command = remedies.of(scope.agent_id, "fix")
        yield Finding("entry_invalid", "error", message, None, evidence, "They are written anew", command)
    if direct.count:
        message = (
            f"{direct.count} session(s) of single peers, but session.dmScope is main: new messages of these peers go to"
            " the main session"
        )
        advice = "Set session.dmScope to per-peer or finer if each peer is to have a session; else they are history"
        evidence = direct.evidence("sessionKeys", dmScope=settings.dm_scope)
        command = remedies.listing(scope.agent_id)
        yield Finding("dm_scope_differs", "warning", message, None, evidence, advice, command)


def is_direct(key: str, agent_id: str) -> bool:
    """Whether a key is that of one peer's direct messages in a scope other than `main` (cleanup §6)."""
    prefix = f"agent:{agent_id}:"
    if not key.startswith(prefix):
        return False
    parts = key.removeprefix(prefix).split(":")
    return all(parts) and 2 <= len(parts) <= 4 and parts[-2] == "direct" and parts[0] not in ("explicit", "agent")


def _spelling(key: str, text: str, main_key: str, scope: Scope) -> Iterator[Finding]:
    settings = scope.settings
    owner = owner_agent(key)
    if owner is not None and owner != scope.agent_id:
        message = f"{key} is a key of agent {owner} in the store of agent {scope.agent_id}"
        evidence = {"ownerAgentId": owner, "agentId": scope.agent_id}
        advice = "OpenClaw looks for it in the other agent's store; here it stays readable as it is"
        yield Finding("key_of_other_agent", "warning", message, key, evidence, advice)
        return
    wanted = canonical_key(
        key, agent_id=scope.agent_id, main_key=main_key, scope=settings.scope, agents=settings.agents
    )
    entry = _entry(text)
    if entry is not None and wanted:
        wanted = proven_key(wanted, entry)
    if wanted != key:
        message = (
            f"{key} is not in OpenClaw's spelling ({wanted or 'there is none'}); one such key makes it refuse the store"
        )
        evidence = {"canonicalKey": wanted or None}
        command = remedies.of(scope.agent_id, "fix")
        yield Finding("key_not_canonical", "error", message, key, evidence, "It is renamed", command)


def _entry(text: str) -> dict[str, object] | None:
    try:
        value = jstext.parse(text.encode())
    except ValueError:
        return None  # The row is not valid either, which is a finding of its own.
    return value if isinstance(value, dict) else None


def _has_contract(store: Store) -> bool:
    sql = "SELECT 1 FROM sqlite_schema WHERE name = 'session_key_contract'"
    return store.value(sql) is not None and store.value(_MAIN_KEY) is not None
