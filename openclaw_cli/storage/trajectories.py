"""Run trajectories of a session: the lines of its `*.trajectory.jsonl` sidecar in `trajectory_runtime_events`.

Rule (store format §10, "Trajectory sidecars"): seq counts from 0, `run_id` is the event's `runId` when it has one,
`event_json` is the line, `created_at` the event's own time, else the time of the file.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from openclaw_cli.storage.connection import Store
from openclaw_cli.storage.projections import storable
from openclaw_cli.transcript.entries import timestamp_ms

BATCH_ROWS = 256
_TIME_MEMBERS = ("ts", "timestamp", "time")
_EXTENT = "count(*), coalesce(sum(octet_length(event_json) + 1), 0)"
_INSERT = (
    "INSERT INTO trajectory_runtime_events(session_id, seq, run_id, event_json, created_at) VALUES (?, ?, ?, ?, ?)"
)


def insert(store: Store, session_id: str, events: Iterable[tuple[bytes, Any]], *, file_ms: int) -> int:
    """Store the trajectory of a session (JSON text, parsed form), inside the caller's transaction; gives the new rows.

    Importing the same file again adds nothing: events that stand already under the same numbers with the same text are
    passed over, and from the first other one on everything is appended.
    """
    start = count(store, session_id)
    pending: list[tuple[Any, ...]] = []
    added = 0
    for text, event in _beyond(stream(store, session_id), iter(events)):
        pending.append(_row(session_id, start + added, text, event, file_ms))
        added += 1
        if len(pending) >= BATCH_ROWS:
            store.executemany(_INSERT, pending)
            pending.clear()
    store.executemany(_INSERT, pending)
    return added


def _beyond(stored: Iterator[tuple[int, bytes]], events: Iterator[tuple[bytes, Any]]) -> Iterator[tuple[bytes, Any]]:
    """The events behind those that stand in the store already with the same text, from its first event on."""
    for text, event in events:
        known = next(stored, None)
        if known is None or known[1] != text:
            yield text, event
            break
    yield from events


def stream(store: Store, session_id: str) -> Iterator[tuple[int, bytes]]:
    """(seq, JSON text) of the stored trajectory in order."""
    sql = "SELECT seq, event_json FROM trajectory_runtime_events WHERE session_id = ? ORDER BY seq"
    for seq, text in store.execute(sql, (session_id,)):
        yield seq, text.encode()


def count(store: Store, session_id: str) -> int:
    """Number of stored trajectory events of a session."""
    return store.value("SELECT count(*) FROM trajectory_runtime_events WHERE session_id = ?", (session_id,))


def extent(store: Store, session_id: str) -> tuple[int, int]:
    """(number, bytes with a line feed behind each) of the stored trajectory events of a session."""
    sql = f"SELECT {_EXTENT} FROM trajectory_runtime_events WHERE session_id = ?"
    count, size_bytes = store.execute(sql, (session_id,)).fetchone() or (0, 0)
    return count, size_bytes


def parent_stream(store: Store, session_id: str) -> Iterator[tuple[int, bytes]]:
    """(seq, JSON text) of what a session has of its parent's stream, run by run."""
    sql = "SELECT seq, event_json FROM acp_parent_stream_events WHERE session_id = ? ORDER BY run_id, seq"
    for seq, text in store.execute(sql, (session_id,)):
        yield seq, text.encode()


def insert_parent_stream(store: Store, session_id: str, events: Iterable[tuple[bytes, Any]], at_ms: int) -> None:
    """Put back what a session had of its parent's stream, in the order of `parent_stream`."""
    counts: dict[str, int] = {}
    for text, event in events:
        run_id = event.get("runId") if type(event) is dict else None
        name = storable(run_id) if type(run_id) is str else "restored"
        store.execute(
            "INSERT INTO acp_parent_stream_events(session_id, run_id, seq, event_json, created_at)"
            " VALUES (?, ?, ?, ?, ?)",
            (session_id, name, counts.get(name, 0), text.decode(), at_ms),
        )
        counts[name] = counts.get(name, 0) + 1


def parent_stream_extent(store: Store, session_id: str) -> tuple[int, int]:
    """(number, bytes with a line feed behind each) of what a session has of its parent's stream."""
    sql = f"SELECT {_EXTENT} FROM acp_parent_stream_events WHERE session_id = ?"
    count, size_bytes = store.execute(sql, (session_id,)).fetchone() or (0, 0)
    return count, size_bytes


def _row(session_id: str, seq: int, text: bytes, event: Any, file_ms: int) -> tuple[Any, ...]:
    members = event if type(event) is dict else {}
    run_id = members.get("runId")
    times = (timestamp_ms(members.get(name)) for name in _TIME_MEMBERS)
    at = next((moment for moment in times if moment is not None), file_ms)
    return session_id, seq, storable(run_id) if type(run_id) is str else None, text.decode(), at
