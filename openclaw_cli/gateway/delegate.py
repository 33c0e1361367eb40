"""Verbs that are left to the gateway that owns the sessions (design, D7; gateway page §3).

Each answer is checked before it counts: `ok` of the frame, `ok` of the payload, and every summary of a partial result.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from openclaw_cli.config.gateway import GatewayAccess
from openclaw_cli.errors import Issue
from openclaw_cli.gateway.client import Gateway
from openclaw_cli.gateway.failures import CallFailedError, GatewayRefusedError
from openclaw_cli.locks import LockFile

_SUMMARY = ("agentId", "storePath", "mode", "beforeCount", "afterCount")
PATCHES: dict[str, dict[str, Any]] = {
    "archive": {"archived": True},
    "unarchive": {"archived": False},
    "pin": {"pinned": True},
    "unpin": {"pinned": False},
    "read": {"unread": False},
    "unread": {"unread": True},
}


@dataclass(frozen=True, slots=True)
class Answer:
    """What a gateway did. `document`: its result as it came; `issues`: what was wrong with it."""

    document: dict[str, Any]
    issues: list[Issue] = field(default_factory=list)


def require_ours(gateway: Gateway, access: GatewayAccess, state_dir: Path, owner: LockFile | None) -> None:
    """Raises GatewayRefusedError unless the gateway works on this state directory.

    In a container it sees it under another name: then the lock that lies in ours names that very directory. A gateway
    that the user has named himself is taken at its word.
    """
    if access.is_elsewhere:
        return
    stated = gateway.state_dir
    if stated is not None:
        if os.path.realpath(stated) == os.path.realpath(state_dir):
            return
        if owner is not None and owner.role == "gateway" and owner.state_dir == stated:
            return
    raise GatewayRefusedError(
        f"the gateway there works on another state directory than {state_dir}; nothing was asked of it",
        hint="is OPENCLAW_GATEWAY_PORT that of another profile? --url names a gateway, --local the store of this host",
        code="gateway_of_other_state",
    )


def cleanup(gateway: Gateway, params: Mapping[str, Any], timeout_s: float | None) -> Answer:
    """`sessions.cleanup`: one flat summary, or `stores`; a partial result with its error. Raises what `call` raises."""
    try:
        payload = gateway.call("sessions.cleanup", params, timeout_s)
    except CallFailedError as error:
        if not _is_partial(error.details):
            raise
        message = str(error.details["partialError"]["message"]).splitlines()[0][:300]
        agent = error.details["partialError"]["failingAgentId"]
        issue = Issue("gateway_partial", "error", f"the gateway did not clean up {agent}: {message}")
        return Answer(dict(error.details), [issue])
    if not isinstance(payload, dict) or not (_is_summary(payload) or _are_summaries(payload.get("stores"))):
        raise CallFailedError("what the gateway says of its cleanup cannot be understood", payload)
    return Answer(payload, _refusal(payload))


def _refusal(payload: Mapping[str, Any]) -> list[Issue]:
    """An answer that says itself that nothing was done."""
    if payload.get("ok") is not False:
        return []
    reason = str(payload.get("reason") or "no reason was given").splitlines()[0][:300]
    return [Issue("gateway_did_nothing", "error", f"the gateway did not do it: {reason}")]


def _is_summary(value: Any) -> bool:
    return isinstance(value, Mapping) and all(name in value for name in _SUMMARY)


def _are_summaries(value: Any) -> bool:
    return isinstance(value, list) and all(map(_is_summary, value))


def _is_partial(details: Any) -> bool:
    """Whether an error carries what was done: only when everything in it is whole."""
    if not isinstance(details, Mapping) or not _are_summaries(details.get("stores")):
        return False
    error = details.get("partialError")
    names = ("failingAgentId", "failingStorePath", "message", "lifecycleCommitted")
    return isinstance(error, Mapping) and all(name in error for name in names)


def delete_agent(gateway: Gateway, agent_id: str, timeout_s: float | None) -> dict[str, Any]:
    """`agents.delete` with its files; gives the gateway's answer."""
    payload = gateway.call("agents.delete", {"agentId": agent_id, "deleteFiles": True}, timeout_s)
    if not isinstance(payload, dict) or payload.get("ok") is not True:
        raise CallFailedError("the gateway does not confirm the deletion", payload)
    return payload


def describe(gateway: Gateway, key: str, timeout_s: float | None) -> Mapping[str, Any] | None:
    """The row of a session as the gateway lists it, None where there is none."""
    payload = gateway.call("sessions.describe", {"key": key}, timeout_s)
    found = payload.get("session") if isinstance(payload, Mapping) else None
    return found if isinstance(found, Mapping) else None


def patch(gateway: Gateway, verb: str, key: str, session_id: Any, timeout_s: float | None) -> Mapping[str, Any]:
    """One of the marks; gives the entry afterwards."""
    params = {"key": key, **PATCHES[verb]}
    if isinstance(session_id, str):
        params["expectedSessionId"] = session_id
    payload = gateway.call("sessions.patch", params, timeout_s)
    entry = payload.get("entry") if isinstance(payload, Mapping) else None
    if not isinstance(payload, Mapping) or payload.get("ok") is not True or not isinstance(entry, Mapping):
        raise CallFailedError("the gateway does not confirm the change", payload)
    return entry


def delete(gateway: Gateway, key: str, session_id: Any, *, archived: bool, timeout_s: float | None) -> list[str] | None:
    """Delete a session with its transcript; gives the archives, None where it was gone already."""
    params: dict[str, Any] = {"key": key, "deleteTranscript": True}
    if isinstance(session_id, str):
        params["expectedSessionId"] = session_id
    if archived:
        params["archivedOnly"] = True
    payload = gateway.call("sessions.delete", params, timeout_s)
    if not isinstance(payload, Mapping) or payload.get("ok") is not True:
        raise CallFailedError("the gateway does not confirm the deletion", payload)
    if payload.get("deleted") is not True:
        return None
    paths = payload.get("archived")
    return [path for path in paths if isinstance(path, str)] if isinstance(paths, list) else []
