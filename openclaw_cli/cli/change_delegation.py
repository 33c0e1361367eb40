"""Marks and deletions by the gateway that owns the sessions, key by key, in the results of the local commands."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from openclaw_cli.cli.options import Common
from openclaw_cli.config import Target
from openclaw_cli.errors import Exit, OpenClawError

if TYPE_CHECKING:
    from openclaw_cli.gateway.client import Gateway
    from openclaw_cli.sessions.results import Result, Results

_STANDS = {
    "archive": ("archived", True),
    "unarchive": ("archived", False),
    "pin": ("pinned", True),
    "unpin": ("pinned", False),
}


def run(
    gateway: Gateway,
    common: Common,
    report: Results,
    groups: Sequence[tuple[Target, list[tuple[int, str]]]],
    main_key: str,
) -> Results:
    """Ask for each key in the order in which it was named."""
    keyed = sorted(
        ((number, key, target) for target, named in groups for number, key in named), key=lambda each: each[0]
    )
    report.results = [_one(gateway, common, report.operation, key, target, main_key) for _, key, target in keyed]
    return report


def _one(gateway: Gateway, common: Common, operation: str, key: str, target: Target, main_key: str) -> Result:
    from openclaw_cli.gateway.failures import OutcomeUnknownError
    from openclaw_cli.sessions.results import Result

    try:
        return _asked(gateway, common, operation, key, main_key)
    except OutcomeUnknownError as error:
        return _looked(operation, key, target, error)
    except OpenClawError as error:
        return Result(key, "failed", error.message, Exit(error.exit))


def _asked(gateway: Gateway, common: Common, operation: str, key: str, main_key: str) -> Result:
    from openclaw_cli.gateway import delegate
    from openclaw_cli.sessions import marking
    from openclaw_cli.sessions.results import Result, not_found, refused

    timeout_s = common.gateway.timeout_s
    row = delegate.describe(gateway, key, timeout_s)
    if row is None:
        return not_found(key)
    facts: dict[str, Any] = {"transport": "gateway"}
    if operation == "delete":
        if marking.is_main(key, main_key):
            return refused(key, "the main session of an agent cannot be deleted")
        archived = row.get("archived") is True
        paths = delegate.delete(gateway, key, row.get("sessionId"), archived=archived, timeout_s=timeout_s)
        if paths is None:
            return not_found(key)
        return Result(key, "deleted", facts=facts | {"sessionId": row.get("sessionId"), "archived": paths})
    name, stands = _STANDS.get(operation, (None, None))
    if name is not None and (row.get(name) is True) is stands:
        return Result(key, marking.VERBS[operation].already, facts=facts)
    delegate.patch(gateway, operation, key, row.get("sessionId"), timeout_s)
    return Result(key, marking.VERBS[operation].done, facts=facts)


def _looked(operation: str, key: str, target: Target, error: OpenClawError) -> Result:
    """The outcome is not known: what the store of this host says of it, where it can be read."""
    from openclaw_cli.sessions.results import Result

    found = _stands(operation, key, target)
    facts: dict[str, Any] = {"transport": "gateway", "outcome": "unknown", "done": found}
    seen = {True: "; the store shows that it was done", False: "; the store does not show it yet", None: ""}[found]
    return Result(key, "failed", f"{error.message}{seen}", Exit.ISSUES, facts)


def _stands(operation: str, key: str, target: Target) -> bool | None:
    from openclaw_cli.sessions import viewing
    from openclaw_cli.storage import connection

    if not target.sqlite_path.exists():
        return None
    try:
        with connection.open_read(target.sqlite_path, agent_id=target.agent_id) as store:
            found = viewing.find(store, key)
            if operation == "delete":
                return found is None
            return None if found is None else _shows(operation, viewing.entry_of(store, key))
    except OpenClawError:
        return None  # What cannot be read tells nothing.


def _shows(operation: str, entry: Mapping[str, Any]) -> bool:
    """Whether a row is as the operation leaves it."""
    name = {"archive": "archivedAt", "unarchive": "archivedAt", "pin": "pinnedAt", "unpin": "pinnedAt"}.get(operation)
    if name is not None:
        return (name in entry) is (operation in ("archive", "pin"))
    return ("markedUnreadAt" in entry) is (operation == "unread")
