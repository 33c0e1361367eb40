"""Putting events that a salvage brought back where they belong, among events that were stored without them.

An append puts them at the end, which would make them the newest of the session: the leaf, and with it the whole active
path. Texts are not touched and no stored event changes its order; only the numbers move (store format §3.3).
"""

from __future__ import annotations

from collections.abc import Iterable

from openclaw_cli.storage import projections
from openclaw_cli.storage.connection import Store
from openclaw_cli.storage.events import new_generation

_ORDER = (
    "INSERT INTO temp.placed_events(old, new) SELECT seq, row_number() OVER"
    " (ORDER BY coalesce(anchor, seq), anchor IS NOT NULL, seq) - 1"
    " FROM transcript_events LEFT JOIN temp.event_anchors USING (seq) WHERE session_id = ?"
)


def place(store: Store, session_id: str, anchors: Iterable[tuple[int, int]], now_ms: int) -> None:
    """Move events of a session behind others: `anchors` are pairs (seq, seq of the event to stand behind, or -1).

    Inside the caller's transaction. The events are numbered anew from 0; the token of the transcript's past changes,
    as after any rewrite.
    """
    if not store.in_transaction():
        raise RuntimeError("events are placed only inside a transaction")
    store.execute("CREATE TEMP TABLE IF NOT EXISTS event_anchors(seq INTEGER PRIMARY KEY, anchor INTEGER NOT NULL)")
    store.execute("CREATE TEMP TABLE IF NOT EXISTS placed_events(old INTEGER PRIMARY KEY, new INTEGER NOT NULL)")
    for table in ("event_anchors", "placed_events"):
        store.execute(f"DELETE FROM temp.{table}")
    store.executemany("INSERT INTO temp.event_anchors VALUES (?, ?)", anchors)
    store.execute(_ORDER, (session_id,))
    store.execute("DELETE FROM temp.placed_events WHERE old = new")
    projections.delete(store, session_id)
    # Identities point at events by number; both are wrong together only until the last statement.
    store.execute("PRAGMA defer_foreign_keys = ON")
    for table in ("transcript_events", "transcript_event_identities"):
        # By way of negative numbers: a number may be taken as long as its owner has not moved.
        move = f"UPDATE {table} SET seq = -1 - new FROM temp.placed_events WHERE session_id = ? AND seq = old"
        store.execute(move, (session_id,))
        store.execute(f"UPDATE {table} SET seq = -1 - seq WHERE session_id = ? AND seq < 0", (session_id,))
    projections.rebuild(store, session_id, now_ms)
    store.execute(
        "UPDATE transcript_rewrite_watermarks SET generation = ?, updated_at = ? WHERE session_id = ?",
        (new_generation(), now_ms, session_id),
    )
