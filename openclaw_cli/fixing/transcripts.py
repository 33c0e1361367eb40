"""Stored transcripts that OpenClaw does not go on with: named with the command that writes a corrected successor.

A stored event is never changed (the users' documents); so `doctor fix` only reports them.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator

from openclaw_cli.config import Target
from openclaw_cli.errors import Issue
from openclaw_cli.fixing.report import NEEDS_SUCCESSOR
from openclaw_cli.sessions import repairing
from openclaw_cli.sessions.listing import WITHHELD
from openclaw_cli.storage import connection

_CURRENT = (
    "SELECT session_key, current_session_id FROM session_nodes WHERE entry_valid = 1 AND entry_json <> '{}'"
    f" AND NOT {WITHHELD} ORDER BY session_key"
)


def issues(target: Target) -> Iterator[Issue]:
    """A warning for each key whose current transcript needs a successor. Raises what `open_read` raises."""
    with connection.open_read(target.sqlite_path, agent_id=target.agent_id) as store:
        for key, session_id in store.execute(_CURRENT).fetchall():
            needs = repairing.needs(store, session_id)
            if needs:
                command = f"openclaw-cli sessions fork {shlex.quote(key)} --agent {target.agent_id} --repair"
                message = f"session {session_id}: {', '.join(need.text for need in needs)}; a successor: {command}"
                facts = {"sessionId": session_id, "needs": [need.code for need in needs], "command": command}
                yield Issue(NEEDS_SUCCESSOR, "warning", message, key, facts)
