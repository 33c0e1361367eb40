"""The explicit repairs `--fix-missing` and `--fix-dm-scope` (cleanup §6), as decisions in front of a plan.

They respect what protects a row, which OpenClaw's own do not; `force` takes what OpenClaw would take (design 2.1).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator

from openclaw_cli.checks.keys import is_direct
from openclaw_cli.errors import CorruptError
from openclaw_cli.retention.classify import Row, held
from openclaw_cli.retention.planning import Action, Decision, Reason
from openclaw_cli.storage import events
from openclaw_cli.storage.connection import Store
from openclaw_cli.storage.projections import parse

_MESSAGE_ROLES = frozenset(("user", "assistant", "tool", "toolResult", "system"))
_HAS_MESSAGE = "SELECT 1 FROM transcript_event_identities WHERE session_id = ? AND event_type = 'message' LIMIT 1"
_IS_COLD = "SELECT 1 FROM session_transcript_cold_archives WHERE session_id = ?"


def missing(
    rows: Iterable[Row], active: Collection[str], has_no_message: Callable[[Row], bool], *, force: bool
) -> Iterator[Decision]:
    """Rows whose session has no message at all, by `has_no_message`."""
    for row in rows:
        # What is locked or archived stays under `force`, too, as in OpenClaw.
        why = held(row, keys=active) if not force or row.locked or row.archived else None
        if row.archived:
            why = why or "archived"
        if why is None and row.session_id and has_no_message(row):
            yield Decision(row, Action.REMOVE, Reason.MISSING)


def stale_direct(
    rows: Iterable[Row], agent_id: str, active_key: str | None, active: Collection[str], *, force: bool
) -> Iterator[Decision]:
    """Direct messages of single peers, where `session.dmScope` is `main` and new ones go to the main session."""
    for row in rows:
        if row.archived or row.key == active_key or not _is_direct(row, agent_id, force=force):
            continue
        if force or not (row.pinned or row.locked or row.running or row.key in active):
            yield Decision(row, Action.REMOVE, Reason.DM_SCOPE)


def _is_direct(row: Row, agent_id: str, *, force: bool) -> bool:
    if force:
        # OpenClaw takes `explicit:direct:x` for a peer's messages.
        parts = row.kind.rest.split(":")
        return (
            row.kind.agent_id == agent_id
            and parts[0] != "agent"
            and all(parts)
            and 2 <= len(parts) <= 4
            and parts[-2] == "direct"
        )
    return is_direct(row.key, agent_id)


def has_no_message(store: Store, session_id: str) -> bool:
    """Whether a stored session is known to have no message."""
    if store.value(_HAS_MESSAGE, (session_id,)) is not None or store.value(_IS_COLD, (session_id,)) is not None:
        return False
    try:
        return not any(is_message(parse(text)) for _, text in events.stream(store, session_id))
    except (CorruptError, ValueError):
        return False  # What cannot be read is not known to be empty.


def is_message(event: object) -> bool:
    """Whether an event is a message record, of old transcripts too."""
    if not isinstance(event, dict):
        return False
    if event.get("type") == "message":
        return True
    inner = event.get("message")
    role = event.get("role") or (inner.get("role") if isinstance(inner, dict) else None)
    return event.get("type") is None and role in _MESSAGE_ROLES
