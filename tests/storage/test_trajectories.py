"""Trajectory sidecars in the store."""

from __future__ import annotations

from typing import Any

import orjson

from openclaw_cli.storage import events, trajectories
from openclaw_cli.storage.connection import Store


def rows(*values: dict[str, Any]) -> list[tuple[bytes, Any]]:
    """Lines with their values."""
    return [(orjson.dumps(value), value) for value in values]


START = {"type": "trajectory.start", "ts": "2026-09-21T14:13:20.000Z"}
STEP = {"type": "step", "runId": "r1", "ts": "2026-09-21T14:13:21.000Z"}
PLAIN = {"type": "step", "runId": 5}


def test_lines_become_rows(store: Store) -> None:
    """seq from 0, run id where there is one, own time else the file's."""
    with store.transaction():
        events.ensure_root(store, "agent:main:main", "s1", 1)
        assert 3 == trajectories.insert(store, "s1", rows(START, STEP, PLAIN), file_ms=77)
    found = store.execute("SELECT seq, run_id, created_at FROM trajectory_runtime_events ORDER BY seq").fetchall()
    assert [(0, None, 1_790_000_000_000), (1, "r1", 1_790_000_001_000), (2, None, 77)] == found
    assert [text for text, _ in rows(START, STEP, PLAIN)] == [text for _, text in trajectories.stream(store, "s1")]


def test_the_same_file_again_adds_nothing(store: Store) -> None:
    """What stands there is passed over; what follows is appended."""
    with store.transaction():
        events.ensure_root(store, "agent:main:main", "s1", 1)
        trajectories.insert(store, "s1", rows(START, STEP), file_ms=77)
        assert 0 == trajectories.insert(store, "s1", rows(START, STEP), file_ms=78)
        assert 1 == trajectories.insert(store, "s1", rows(START, STEP, PLAIN), file_ms=78)
    assert 3 == trajectories.count(store, "s1")
