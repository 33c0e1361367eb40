"""Taking sessions out of a store: what refers to a session, what it was when it was judged, deleting it (cleanup §7).

The caller holds the transaction and has the content in a durable archive. What refers to a session is asked again in
that transaction; a session that changed since it was judged is left alone.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import apsw

from openclaw_cli import jstext
from openclaw_cli.storage import events, sessions, trajectories
from openclaw_cli.storage.connection import Store


@dataclass(frozen=True, slots=True)
class Snapshot:
    """One session as it was judged; any difference at the time of the deletion means that somebody wrote to it.

    `generation`: that of its past, None where none is recorded.
    """

    session_id: str
    session_key: str
    updated_at: int | None
    transcript_updated_at: int | None
    generation: str | None
    last_event_seq: int | None
    last_trajectory_seq: int | None
    parent_stream_events: int


_SNAPSHOT = (
    "SELECT w.session_id, w.session_key, w.updated_at, w.transcript_updated_at,"
    " (SELECT generation FROM transcript_rewrite_watermarks r WHERE r.session_id = w.session_id),"
    " (SELECT max(seq) FROM transcript_events e WHERE e.session_id = w.session_id),"
    " (SELECT max(seq) FROM trajectory_runtime_events t WHERE t.session_id = w.session_id),"
    " (SELECT count(*) FROM acp_parent_stream_events a WHERE a.session_id = w.session_id)"
    " FROM session_windows w WHERE w.session_id = ?"
)


def snapshot(store: Store, session_id: str) -> Snapshot | None:
    """The session as it is now; None when it has no window."""
    row = store.execute(_SNAPSHOT, (session_id,)).fetchone()
    return None if row is None else Snapshot(*row)


def windows_of(store: Store, session_key: str) -> list[str]:
    """Ids of every session that is current or history of a key."""
    sql = "SELECT session_id FROM session_windows WHERE session_key = ? ORDER BY session_id"
    return [session_id for (session_id,) in store.execute(sql, (session_key,)).fetchall()]


WINDOW_COLUMNS = (
    *("previous_session_id", "reason", "session_scope", "created_at", "updated_at", "transcript_updated_at"),
    *("transcript_observed_at", "session_entry_provenance", "acp_owned", "plugin_owner_id"),
    *("hook_external_content_source", "started_at", "ended_at", "status", "chat_type", "channel", "account_id"),
    *("primary_conversation_id", "model_provider", "model", "agent_harness_id", "parent_session_key", "spawned_by"),
    "display_name",
)


def window_values(store: Store, session_id: str) -> dict[str, Any]:
    """Column → value of a session's row, what is NULL left out; {} where there is none."""
    row = store.execute(f"SELECT {', '.join(WINDOW_COLUMNS)} FROM session_windows WHERE session_id = ?", (session_id,))
    values = row.fetchone()
    if values is None:
        return {}
    return {name: value for name, value in zip(WINDOW_COLUMNS, values, strict=True) if value is not None}


def restore_window(store: Store, session_id: str, values: Mapping[str, Any]) -> None:
    """Give a session's row the values that it had, those of `window_values`; a conversation only where it is known."""
    wanted = {name: values.get(name) for name in WINDOW_COLUMNS if name in values}
    talk = wanted.get("primary_conversation_id")
    known = "SELECT 1 FROM conversations WHERE conversation_id = ?"
    if talk is not None and store.value(known, (talk,)) is None:
        del wanted["primary_conversation_id"]
    if wanted:
        changed = ", ".join(f"{name} = ?" for name in wanted)
        store.execute(f"UPDATE session_windows SET {changed} WHERE session_id = ?", (*wanted.values(), session_id))


def ids_in(entry: Mapping[str, Any]) -> set[str]:
    """Ids of all sessions that an entry names as its own (cleanup §7.1)."""
    found: list[Any] = [entry.get("sessionId"), entry.get("previousSessionId")]
    family = entry.get("usageFamilySessionIds")
    found.extend(family if isinstance(family, list) else ())
    checkpoints = entry.get("compactionCheckpoints")
    for point in checkpoints if isinstance(checkpoints, list) else ():
        if isinstance(point, Mapping):
            sides = (point, point.get("preCompaction"), point.get("postCompaction"))
            found.extend(side.get("sessionId") for side in sides if isinstance(side, Mapping))
    return {one for one in found if isinstance(one, str) and one}


class References:
    """Which keys refer to which sessions, for as long as nobody else writes to the store.

    `data_version` of SQLite tells whether another connection has; then everything is read again.
    """

    def __init__(self, store: Store) -> None:
        self._store = store
        self._version = -1
        self._keys: dict[str, set[str]] = {}
        self._held: set[str] = set()
        self._cold: set[str] = set()

    def refresh(self) -> None:
        """Read all entries, unless they are known to be unchanged. Call it in the transaction that deletes."""
        version = self._store.value("PRAGMA data_version")
        if version == self._version:
            return
        self._keys.clear()
        self._held.clear()
        sql = "SELECT session_key, current_session_id, entry_json, archived_at, pinned_at FROM session_nodes"
        for key, current, text, archived_at, pinned_at in self._store.execute(sql):
            if archived_at is not None or pinned_at is not None:
                self._held.add(key)
            for session_id in {current} | _ids_of(text):
                self._keys.setdefault(session_id, set()).add(key)
        cold = self._store.execute("SELECT session_id FROM session_transcript_cold_archives")
        self._cold = {session_id for (session_id,) in cold}
        self._version = version

    def forget(self, key: str) -> None:
        """A key that was deleted by this connection refers to nothing any more."""
        for keys in self._keys.values():
            keys.discard(key)
        self._held.discard(key)

    def forget_all(self, keys: Collection[str]) -> None:
        """As `forget`, for many keys at once."""
        gone = set(keys)
        for session_id in [one for one, known in self._keys.items() if known & gone]:
            self._keys[session_id] -= gone
        self._held -= gone

    def others(self, session_id: str, without: Collection[str]) -> list[str]:
        """Keys that refer to a session, in order, `without` those that go with it."""
        return sorted(key for key in self._keys.get(session_id, ()) if key not in without)

    def is_referenced(self, session_id: str, without: Collection[str], released: Collection[str] = ()) -> bool:
        """Whether a session must stay: another key names it, its window is a held key's, or its events lie cold.

        `released`: archived keys whose history may go all the same (the disk budget's last tier).
        """
        if self.others(session_id, without):
            return True
        sql = "SELECT session_key FROM session_windows WHERE session_id = ?"
        owner = self._store.value(sql, (session_id,))
        if owner in self._held and owner not in without and owner not in released:
            return True
        return session_id in self._cold


def _ids_of(text: str) -> set[str]:
    # Nearly every entry names its current session only, and parsing all of them would cost most of a run.
    if "previousSessionId" not in text and "usageFamilySessionIds" not in text and "compactionCheckpoints" not in text:
        return set()
    try:
        entry = jstext.parse(text.encode("utf-8"))
    except ValueError:
        return set()
    return ids_in(entry) if isinstance(entry, dict) else set()


def delete_session(store: Store, session_id: str) -> None:
    """Delete a session with its events, trajectory, search and projections. Its archive is the caller's."""
    # The search index is not reached by foreign keys: its rows go through a trigger of the table that maps them.
    for table in ("session_transcript_fts_rows", "session_transcript_active_events", "session_transcript_index_state"):
        store.execute(f"DELETE FROM {table} WHERE session_id = ?", (session_id,))
    store.execute("DELETE FROM session_windows WHERE session_id = ?", (session_id,))


def delete_whole(store: Store, session_key: str, session_ids: Iterable[str]) -> None:
    """Delete a node with all its sessions, to which nobody else refers: what hangs on them goes with the node."""
    for session_id in session_ids:
        # The search index is not reached by foreign keys.
        store.execute("DELETE FROM session_transcript_fts_rows WHERE session_id = ?", (session_id,))
    store.execute("DELETE FROM session_goal_operations WHERE session_key = ?", (session_key,))
    store.execute("DELETE FROM session_nodes WHERE session_key = ?", (session_key,))


def delete_key(store: Store, session_key: str, references: References, without: Collection[str]) -> None:
    """Delete a node whose unreferenced sessions are gone already.

    Sessions that another key refers to become windows of that key. Where windows are left all the same the node stays
    as a placeholder: it has history then, but no current session.
    """
    sql = "SELECT current_session_id FROM session_nodes WHERE session_key = ?"
    left = windows_of(store, session_key)
    shared = {store.value(sql, (session_key,)), *left}
    for session_id in sorted(shared):
        heirs = references.others(session_id, without)
        if heirs:
            store.execute(
                "UPDATE session_windows SET session_key = ? WHERE session_id = ? AND session_key = ?",
                (heirs[0], session_id, session_key),
            )
            sessions.refresh_window(store, session_id)
    newest = None
    if left:
        order = "ORDER BY updated_at DESC, session_id"
        sql = f"SELECT session_id, updated_at FROM session_windows WHERE session_key = ? {order}"
        newest = store.execute(sql, (session_key,)).fetchone()
    store.execute("DELETE FROM session_goal_operations WHERE session_key = ?", (session_key,))
    if newest is None:
        store.execute("DELETE FROM session_nodes WHERE session_key = ?", (session_key,))
    else:
        _make_placeholder(store, session_key, *newest)


_SIDE_TABLES = (
    "session_participants",
    "session_members",
    "session_suggestions",
    "board_widgets",
    "board_tabs",
    "session_progress_cards",
    "heartbeat_outcomes",
    "session_pending_inputs",
    "session_input_completions",
)


def _make_placeholder(store: Store, session_key: str, session_id: str, updated_at: int) -> None:
    for table in _SIDE_TABLES:
        store.execute(f"DELETE FROM {table} WHERE session_key = ?", (session_key,))
    names = [
        name
        for (name,) in store.execute("SELECT name FROM pragma_table_info('session_nodes')").fetchall()
        if name not in ("session_key", "current_session_id", "entry_json", "entry_valid", "updated_at")
    ]
    store.execute(
        f"UPDATE session_nodes SET entry_json = ?, current_session_id = ?, updated_at = ?,"
        f" {', '.join(f'{name} = NULL' for name in names)} WHERE session_key = ?",
        (sessions.PLACEHOLDER, session_id, updated_at, session_key),
    )
    # Triggers have set it to 0.
    store.execute("UPDATE session_nodes SET entry_valid = -1 WHERE session_key = ?", (session_key,))


def entries_of(store: Store, session_keys: list[str]) -> dict[str, dict[str, Any]]:
    """Key → entry, of those of the keys whose rows are valid."""
    sql = (
        "SELECT session_key, entry_json FROM session_nodes"
        " WHERE entry_valid = 1 AND session_key IN (SELECT value FROM carray(?))"
    )
    found = {}
    for key, text in store.execute(sql, (apsw.carray(tuple(session_keys)),)):
        entry = jstext.parse(text.encode("utf-8"))
        if isinstance(entry, dict):
            found[key] = entry
    return found


def archive_entries(store: Store, rows: Iterable[tuple[str, Mapping[str, Any], str]], now_ms: int) -> None:
    """Mark rows (key, entry, reason) as archived, as OpenClaw does: neither time nor sessions change (cleanup §5)."""
    changed = [(_archived(entry, reason, now_ms), now_ms, key) for key, entry, reason in rows]
    store.executemany("UPDATE session_nodes SET entry_json = ?, archived_at = ? WHERE session_key = ?", changed)
    # Triggers have set it to 0 with the entry, so it needs a statement of its own.
    keys = [(key,) for _, _, key in changed]
    store.executemany("UPDATE session_nodes SET entry_valid = 1 WHERE session_key = ?", keys)


def _archived(entry: Mapping[str, Any], reason: str, now_ms: int) -> str:
    gone = ("archivedBy", "archivedAt", "archiveReason")
    archived = {name: value for name, value in entry.items() if name not in gone}
    return jstext.dumps(archived | {"archivedAt": now_ms, "archiveReason": reason}).decode("utf-8")


def analyze(store: Store) -> None:
    """Bring the statistics of the planner up to date after many deletions, as OpenClaw does."""
    store.execute("PRAGMA analysis_limit = 1000").fetchall()
    store.execute("ANALYZE main").fetchall()


def size_bytes(store: Store, session_ids: Iterable[str]) -> int:
    """Bytes of the JSON text of the sessions' events and trajectories."""
    return sum(
        events.extent(store, session_id)[1] + trajectories.extent(store, session_id)[1] for session_id in session_ids
    )


_KEY_BYTES = (
    "SELECT (SELECT coalesce(sum(coalesce(event_utf8_bytes, octet_length(event_json)) + 1), 0) FROM transcript_events"
    " WHERE session_id IN (SELECT session_id FROM session_windows WHERE session_key = ?1)) +"
    " (SELECT coalesce(sum(octet_length(event_json) + 1), 0) FROM trajectory_runtime_events"
    " WHERE session_id IN (SELECT session_id FROM session_windows WHERE session_key = ?1))"
)


def key_bytes(store: Store, session_key: str) -> int:
    """As `size_bytes`, of every session of a key."""
    found: int = store.value(_KEY_BYTES, (session_key,))
    return found
