"""A state directory with a SQLite store that the program's own writers make, to put faults into."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import orjson

from openclaw_cli.storage import connection, events
from openclaw_cli.storage.sessions import write_entry

NOW_MS = 1_790_000_000_000
KEY = "agent:main:main"
SESSION = "00000000-1111-4222-8333-444455556666"


class State:
    """A state directory with the store of agent `main`."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.base = root / "agents/main"
        self.database = self.base / "agent/openclaw-agent.sqlite"
        self.sessions = self.base / "sessions"
        self.sessions.mkdir(parents=True)
        self.configure({})

    def configure(self, value: Any) -> None:
        """Write `openclaw.json`."""
        (self.root / "openclaw.json").write_text(json.dumps(value))

    def store(self) -> connection.Store:
        """The store, open for writing; made when it is not there."""
        if self.database.exists():
            return connection.open_write(self.database, agent_id="main")
        return connection.create(self.database, agent_id="main", now_ms=NOW_MS)

    def add(self, rows: list[Any], *, key: str = KEY, session_id: str = SESSION, **entry: Any) -> None:
        """A session with these events; `entry` goes into its row."""
        with self.store() as store, store.transaction():
            value = {"sessionId": session_id, "updatedAt": NOW_MS, "status": "done", **entry}
            write_entry(store, key, value, now_ms=NOW_MS)
            if rows:
                rows = [{**rows[0], "id": session_id}, *rows[1:]] if rows[0]["type"] == "session" else rows
                events.append(store, key, session_id, [(orjson.dumps(row), row) for row in rows], now_ms=NOW_MS)

    def execute(self, *statements: str) -> None:
        """Change the store behind everybody's back."""
        with self.store() as store:
            for statement in statements:
                store.execute(statement).fetchall()
