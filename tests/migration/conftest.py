"""A small file-era state directory to build up in a test, and the rows that an import makes of it."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from openclaw_cli.storage import connection, events

AT = "2026-08-06T07:06:40.000Z"
MTIME_NS = 1_786_000_000_000_000_000


class Legacy:
    """A state directory. `session` writes a transcript of N messages, `index` the rows of `sessions.json`."""

    def __init__(self, root: Path, agent: str = "main") -> None:
        self.root = root
        self.agent = agent
        self.sessions = root / "agents" / agent / "sessions"
        self.sessions.mkdir(parents=True)
        (root / "openclaw.json").write_text("{}\n")

    @property
    def archive(self) -> Path:
        return self.sessions.parent / "session-sqlite-import-archive"

    def session(self, session_id: str, messages: int = 2, *, name: str | None = None, mark: str = "") -> Path:
        """A transcript with header and `messages` entries; `mark` makes its texts differ from another one's."""
        rows: list[dict[str, Any]] = [{"type": "session", "version": 3, "id": session_id, "timestamp": AT, "cwd": "/w"}]
        parent = None
        for number in range(messages):
            message = {"role": "user", "content": f"{mark}text {number}"}
            rows.append(
                {"type": "message", "id": f"m{number}", "parentId": parent, "timestamp": AT, "message": message}
            )
            parent = f"m{number}"
        path = self.sessions / (name or f"{session_id}.jsonl")
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))
        os.utime(path, ns=(MTIME_NS, MTIME_NS))
        return path

    def index(self, rows: dict[str, Any]) -> Path:
        path = self.sessions / "sessions.json"
        path.write_text(json.dumps(rows))
        return path

    def entries(self, agent: str | None = None) -> dict[str, tuple[str, int]]:
        """Key → session id and number of its events, as the store has them."""
        path = self.root / "agents" / (agent or self.agent) / "agent/openclaw-agent.sqlite"
        if not path.exists():
            return {}
        with connection.open_read(path) as store:
            rows = store.execute("SELECT session_key, current_session_id FROM session_nodes WHERE entry_valid = 1")
            return {key: (session_id, events.count(store, session_id)) for key, session_id in rows.fetchall()}

    def names(self) -> list[str]:
        return sorted(path.name for path in self.sessions.iterdir())


@pytest.fixture
def legacy(tmp_path: Path) -> Legacy:
    return Legacy(tmp_path / "state")


@pytest.fixture
def doctor(run_cli: Callable[..., Any]) -> Callable[..., tuple[int, dict[str, Any]]]:
    """Run `doctor MODE --json` on a state directory; gives status and document."""

    def run(mode: str, legacy: Legacy, *options: str) -> tuple[int, dict[str, Any]]:
        outcome = run_cli("doctor", mode, "--state-dir", legacy.root, "--all-agents", "--json", *options)
        assert outcome.stdout, outcome.stderr
        return outcome.status, json.loads(outcome.stdout)

    return run
