"""Stores for the tests of this room."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import orjson
import pytest

from openclaw_cli.storage import connection, events
from openclaw_cli.storage.connection import Store
from openclaw_cli.storage.sessions import write_entry

NOW_MS = 1_790_000_000_000
KEY = "agent:main:main"


@pytest.fixture
def database(tmp_path: Path) -> Path:
    """Where the store of a test is."""
    return tmp_path / "agents/main/agent/openclaw-agent.sqlite"


@pytest.fixture
def store(database: Path) -> Iterator[Store]:
    """An empty store, open for writing."""
    with connection.create(database, agent_id="main", now_ms=NOW_MS) as opened:
        yield opened


def header(session_id: str = "s1") -> dict[str, Any]:
    """The first event of a transcript."""
    return {"type": "session", "version": 3, "id": session_id, "timestamp": "2026-09-21T14:00:00.000Z", "cwd": "/w"}


def message(identity: str, parent: str | None, text: str = "hello", **more: Any) -> dict[str, Any]:
    """A user's message; `more` goes into the message."""
    body = {"role": "user", "content": [{"type": "text", "text": text}], **more}
    at = "2026-09-21T14:00:01.000Z"
    return {"type": "message", "id": identity, "parentId": parent, "timestamp": at, "message": body}


def chain(length: int, text: str = "hello") -> list[dict[str, Any]]:
    """A header and `length` messages, each the child of the one before."""
    return [header(), *(message(f"m{n}", f"m{n - 1}" if n else None, text) for n in range(length))]


@pytest.fixture
def add(store: Store) -> Callable[..., events.Appended]:
    """Append events to session s1 of the store in one transaction."""

    def run(rows: list[Any], session_id: str = "s1", **more: Any) -> events.Appended:
        offered = [(orjson.dumps(row), row) for row in rows]
        with store.transaction():
            return events.append(store, KEY, session_id, offered, **{"now_ms": NOW_MS, **more})

    return run


@pytest.fixture
def filled(store: Store, add: Callable[..., events.Appended]) -> Store:
    """The store with one session that has an entry and events of both encodings."""
    entry = {"sessionId": "s1", "updatedAt": NOW_MS, "label": "first", "status": "done", "chatType": "direct"}
    with store.transaction():
        write_entry(store, KEY, entry, now_ms=NOW_MS)
    rows = chain(6)
    rows.append(message("big", "m5", "a long text " * 300, idempotencyKey="key"))
    rows.append({"type": "model_change", "id": "model", "parentId": "big", "provider": "p", "modelId": "m"})
    add(rows)
    return store
