"""Rows and transcripts that do not belong together, and stores that are not the ones in use."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from openclaw_cli.checks import remedies
from openclaw_cli.checks.finding import Finding, Places
from openclaw_cli.checks.scope import Scope
from openclaw_cli.config.paths import DATABASE_NAME
from openclaw_cli.errors import OpenClawError
from openclaw_cli.sessions.listing import WITHHELD
from openclaw_cli.storage import connection
from openclaw_cli.storage.connection import Store

# A row that was used: tokens, a compaction, or a system prompt that was sent. A cold session has its events in a file.
_WITHOUT_EVENTS = (
    "SELECT n.session_key, n.current_session_id, w.session_id IS NULL FROM session_nodes n"
    " LEFT JOIN session_windows w ON w.session_id = n.current_session_id"
    " WHERE n.entry_valid = 1 AND json_valid(n.entry_json) AND n.session_key NOT IN"
    f" (SELECT session_key FROM session_nodes WHERE {WITHHELD})"
    " AND NOT EXISTS (SELECT 1 FROM transcript_events e WHERE e.session_id = n.current_session_id AND e.seq > 0)"
    " AND NOT EXISTS (SELECT 1 FROM session_transcript_cold_archives c WHERE c.session_id = n.current_session_id)"
    " AND (w.session_id IS NULL OR coalesce(json_extract(n.entry_json, '$.totalTokens'), 0) > 0"
    " OR coalesce(json_extract(n.entry_json, '$.inputTokens'), 0) > 0"
    " OR coalesce(json_extract(n.entry_json, '$.compactionCount'), 0) > 0"
    " OR coalesce(json_extract(n.entry_json, '$.systemSent'), 0) = 1) ORDER BY n.session_key"
)
_SHARED = (
    "SELECT current_session_id, count(*), group_concat(session_key, char(10)) FROM session_nodes WHERE entry_valid = 1"
    " AND session_key NOT GLOB 'agent:*:cron:*' AND session_key NOT IN"
    f" (SELECT session_key FROM session_nodes WHERE {WITHHELD}) GROUP BY current_session_id HAVING count(*) > 1"
)


def transcripts(store: Store, scope: Scope) -> Iterator[Finding]:
    """Rows in use whose session has no events, and sessions that several keys lead to."""
    empty = Places()
    for key, session_id, _ in store.execute(_WITHOUT_EVENTS):
        empty.add({"sessionKey": key, "sessionId": session_id})
    if empty.count:
        message = f"{store.path}: {empty.count} row(s) that were in use lead to a session without events"
        advice = "If a transcript lies beside the store, an import brings it in; else look into archives and backups"
        command = remedies.of(scope.agent_id, "import")
        evidence = empty.evidence("rows")
        yield Finding("transcript_without_events", "error", message, None, evidence, advice, command)
    for session_id, count, joined in store.execute(_SHARED):
        message = f"session {session_id} is the current one of {count} keys: they write into one transcript"
        evidence = {"sessionId": session_id, "count": count, "sessionKeys": joined.split("\n")[:10]}
        advice = "Reset one of them in the chat; the other keeps the transcript"
        command = remedies.listing(scope.agent_id)
        yield Finding("session_shared", "warning", message, None, evidence, advice, command)


def elsewhere(scope: Scope, state_dir: Path) -> Iterator[Finding]:
    """The gateway of another host, and a second database of the agent at the usual place."""
    settings, own = scope.settings, scope.target.sqlite_path
    if settings.remote is not None:
        message = f"{settings.remote}: the sessions in use may be on that host, not in {own}"
        evidence = {"sqlitePath": str(own), "reason": settings.remote}
        advice = "Compare with the gateway host and the store path of openclaw status"
        yield Finding("gateway_remote", "warning", message, None, evidence, advice, remedies.SHOW_CONFIG)
    usual = state_dir / "agents" / scope.agent_id / "agent" / DATABASE_NAME
    if not usual.is_file() or os.path.realpath(usual) == os.path.realpath(own):
        return
    count = _rows_of(usual)
    if count:
        message = f"{usual} has {count} row(s) too, but the store in use is {own}"
        evidence = {"sqlitePath": str(own), "otherPath": str(usual), "otherRows": count}
        advice = "session.store or agentDir was changed; the sessions of the other database are not seen"
        command = f"openclaw-cli sessions list --store {usual}"
        yield Finding("store_second", "warning", message, None, evidence, advice, command)


def _rows_of(path: Path) -> int:
    try:
        with connection.open_read(path) as store:
            return int(store.value("SELECT count(*) FROM session_nodes"))
    except OpenClawError:
        return 0  # Not the store in use, and no sessions in it that could be missed: nothing to say here.
