"""Rows of session keys: the node with its mirrored columns, the window of its session, the conversation link.

Order of one write (store format §3.3): conversation, node, `entry_valid`, window, link. The caller holds the
transaction. An older entry never replaces a newer one; its session stays as a window, that is as history of the key.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Literal

import orjson

from openclaw_cli.jstext import JS_WHITESPACE, dumps, parse
from openclaw_cli.storage import columns, conversations
from openclaw_cli.storage.connection import Store

Written = Literal["written", "kept_newer", "unchanged"]

PLACEHOLDER = "{}"
"""entry_json of a key that has history but no current entry."""

_NODE_COLUMNS = ("entry_json", *columns.NODE_PROJECTIONS)
_WINDOW_ONLY_ON_INSERT = ("session_id", "created_at")

expected_node_columns = columns.expected_node_columns
expected_window_columns = columns.expected_window_columns


def write_entry(
    store: Store,
    session_key: str,
    entry: Mapping[str, Any],
    *,
    entry_text: bytes | None = None,
    now_ms: int,
    reason: str | None = None,
    observed_ms: int | None = None,
    acp_receipt: Mapping[str, Any] | None = None,
    prefer_index: bool = False,
    time_invented: bool = False,
) -> Written:
    """Write the rows of one normalised entry inside the caller's transaction.

    `entry_text` is the JSON text of `entry` when the caller has it. `observed_ms` is the transcript time that the
    window is said to have seen (default: the stored one, else the entry's time). `prefer_index` lets an older entry
    win. `time_invented` says that updatedAt is no time of the entry's own: it never wins over a stored row.
    Gives what happened; writing the same entry twice changes nothing the second time.
    """
    previous = _Previous.read(store, session_key)
    merged = _carried_over(session_key, entry, previous.entry)
    text = entry_text if entry_text is not None and merged == dict(entry) else dumps(merged)
    if previous.is_current(text) and _has_window(store, merged["sessionId"]):
        return "unchanged"
    if previous.valid and not prefer_index and (time_invented or previous.updated_at >= _updated_at(merged, now_ms)):
        _keep_history(store, session_key, merged, previous, now_ms)
        return "kept_newer"
    _write(store, session_key, merged, text, previous, now_ms=now_ms, reason=reason, observed_ms=observed_ms)
    _write_receipts(store, session_key, merged, previous, acp_receipt)
    return "written"


class _Previous:
    """What the store has for a key before a write. `entry` is None for an unknown key and for a placeholder."""

    __slots__ = ("entry", "text", "updated_at", "valid")

    def __init__(self, entry: dict[str, Any] | None, text: str, updated_at: int, valid: bool) -> None:
        self.entry = entry
        self.text = text
        self.updated_at = updated_at
        self.valid = valid

    @classmethod
    def read(cls, store: Store, session_key: str) -> _Previous:
        row = store.execute(
            "SELECT current_session_id, entry_json, updated_at, entry_valid FROM session_nodes WHERE session_key = ?",
            (session_key,),
        ).fetchone()
        if row is None or row[1] == PLACEHOLDER:
            return cls(None, "", 0, False)
        session_id, text, updated_at, valid = row
        try:
            entry = parse(text.encode("utf-8"))
        except ValueError:
            entry = None
        usable = isinstance(entry, dict) and entry.get("sessionId") == session_id
        # A row that no reader accepts still tells which session the key had.
        fallback = {"sessionId": session_id, "updatedAt": updated_at}
        return cls(entry if usable else fallback, text, updated_at, usable and valid == 1)

    def is_current(self, text: bytes) -> bool:
        """Whether the stored row already has this text."""
        return self.valid and self.text.encode("utf-8") == text

    @property
    def session_id(self) -> str | None:
        """The session that the key had."""
        return None if self.entry is None else self.entry.get("sessionId")

    def same_generation(self, entry: Mapping[str, Any]) -> bool:
        """Whether `entry` continues the session that the key had."""
        return (
            self.entry is not None
            and self.entry.get("sessionId") == entry.get("sessionId")
            and self.entry.get("lifecycleRevision") == entry.get("lifecycleRevision")
        )


def _carried_over(session_key: str, entry: Mapping[str, Any], previous: dict[str, Any] | None) -> dict[str, Any]:
    """The entry as it is stored: what belongs to a session or a key only goes with it or stays (rules of the store).

    Kept from the stored entry: agentHarnessId, profileInvolvement, publicShare, a pending reset (updatedAt 0), the
    creation facts of a required sandbox. Dropped: providerReview, publicShare and visibility of another session.
    """
    merged = dict(entry)
    session_id = merged.get("sessionId")
    stored = previous or {}
    same = stored.get("sessionId") == session_id
    same_generation = same and stored.get("lifecycleRevision") == merged.get("lifecycleRevision")
    harness = columns.text(stored.get("agentHarnessId"))
    if same_generation and harness and merged.get("agentHarnessId") is None:
        merged["agentHarnessId"] = harness
    _drop_foreign(merged, "providerReview", session_id)
    if stored.get("sandbox") == "required":
        for name in ("createdVia", "createdActor", "createdAt"):
            merged.pop(name, None)
            merged |= {name: stored[name]} if name in stored else {}
        merged["sandbox"] = "required"
    involvement = stored.get("profileInvolvement") or merged.get("profileInvolvement")
    if isinstance(involvement, dict):
        merged["profileInvolvement"] = {**involvement, "key": session_key}
    if same_generation and stored.get("updatedAt") == 0:
        merged["updatedAt"] = 0
    if same and "publicShare" not in merged and isinstance(stored.get("publicShare"), dict):
        merged["publicShare"] = stored["publicShare"]
    _drop_foreign(merged, "publicShare", None if merged.get("incognito") is True else session_id)
    if previous is not None and not same:
        merged.pop("visibility", None)
    return merged


def _drop_foreign(entry: dict[str, Any], name: str, session_id: object) -> None:
    if name in entry:
        value = entry[name]
        if not isinstance(value, dict) or session_id is None or value.get("sessionId") != session_id:
            del entry[name]


def _updated_at(entry: Mapping[str, Any], now_ms: int) -> int:
    found = columns.integer(entry.get("updatedAt"))
    return now_ms if found is None else found


def _has_window(store: Store, session_id: str) -> bool:
    return store.value("SELECT 1 FROM session_windows WHERE session_id = ?", (session_id,)) is not None


def _keep_history(store: Store, session_key: str, entry: Mapping[str, Any], previous: _Previous, now_ms: int) -> None:
    """Give the session of a losing entry a window of the key, unless it has one."""
    if entry["sessionId"] != previous.session_id and not _has_window(store, entry["sessionId"]):
        _write_window(store, session_key, entry, previous, now_ms=now_ms, reason=None, observed_ms=None, node=None)


def _write(
    store: Store,
    session_key: str,
    entry: Mapping[str, Any],
    text: bytes,
    previous: _Previous,
    *,
    now_ms: int,
    reason: str | None,
    observed_ms: int | None,
) -> None:
    node = {"entry_json": text.decode("utf-8"), **columns.expected_node_columns(session_key, entry)}
    node["updated_at"] = _updated_at(entry, now_ms)
    _write_window(store, session_key, entry, previous, now_ms=now_ms, reason=reason, observed_ms=observed_ms, node=node)
    if previous.entry is not None and previous.session_id != entry["sessionId"]:
        # Members and suggestions were of the session that the key had before.
        for table in ("session_members", "session_suggestions"):
            store.execute(f"DELETE FROM {table} WHERE session_key = ?", (session_key,))


def _write_window(
    store: Store,
    session_key: str,
    entry: Mapping[str, Any],
    previous: _Previous,
    *,
    now_ms: int,
    reason: str | None,
    observed_ms: int | None,
    node: Mapping[str, Any] | None,
) -> None:
    """Conversation, node (None: leave it alone), window and link, in the order that the foreign keys need."""
    updated_at = _updated_at(entry, now_ms)
    session_id = entry["sessionId"]
    window = {"session_id": session_id, "session_key": session_key, "reason": reason}
    window |= columns.expected_window_columns(session_key, entry)
    window |= {"created_at": columns.window_created_at(entry), "updated_at": updated_at}
    talk = conversations.conversation_of(entry)
    role = None
    if talk is not None:
        ids = (session_id, previous.session_id or session_id)
        talk = conversations.known_before(store, talk, ids)
        role = conversations.role_of(talk, window["session_scope"])
        conversations.upsert(store, talk, updated_at)
    window["primary_conversation_id"] = talk.conversation_id if talk is not None and role == "primary" else None
    window |= _stored_facts(store, entry, previous, observed_ms)
    if window["transcript_observed_at"] is None:
        window["transcript_observed_at"] = updated_at
    if node is not None:
        _put_node(store, session_key, node)
    _put_window(store, window, keep_owner=previous.session_id == session_id)
    if talk is not None and role is not None:
        conversations.link(store, session_id, talk, role, updated_at, previous_session_id=previous.session_id)


def _stored_facts(
    store: Store, entry: Mapping[str, Any], previous: _Previous, observed_ms: int | None
) -> dict[str, Any]:
    """Columns of the window that depend on the stored one: who made the session, which transcript it has seen.

    Who made it is kept; a window that bare events made gets nothing of an entry.
    """
    wanted = columns.provenance_columns(entry)
    session_id = entry["sessionId"]
    stored = store.execute(
        "SELECT transcript_updated_at, session_entry_provenance, acp_owned, plugin_owner_id,"
        " hook_external_content_source FROM session_windows WHERE session_id = ?",
        (session_id,),
    ).fetchone()
    if stored is None:
        return wanted | {"transcript_observed_at": observed_ms}
    transcript_ms, by_entry, acp_owned, plugin, hook = stored
    if by_entry:
        wanted["acp_owned"] = 1 if acp_owned else wanted["acp_owned"]
        wanted["plugin_owner_id"] = wanted["plugin_owner_id"] or plugin
        wanted["hook_external_content_source"] = wanted["hook_external_content_source"] or hook
    elif previous.session_id == session_id or store.value(_HAS_EVENTS, (session_id,)):
        wanted = dict.fromkeys(wanted, None) | {"session_entry_provenance": 0, "acp_owned": 0}
    return wanted | {"transcript_observed_at": transcript_ms if observed_ms is None else observed_ms}


_HAS_EVENTS = "SELECT 1 FROM transcript_events WHERE session_id = ? LIMIT 1"


_PUT_NODE = (
    f"INSERT INTO session_nodes (session_key, entry_valid, {','.join(_NODE_COLUMNS)})"
    f" VALUES (?, 1, {','.join('?' * len(_NODE_COLUMNS))}) ON CONFLICT (session_key) DO UPDATE SET entry_valid = 1,"
    f" {','.join(f'{name} = excluded.{name}' for name in _NODE_COLUMNS)}"
)


def _put_node(store: Store, session_key: str, node: Mapping[str, Any]) -> None:
    store.execute(_PUT_NODE, (session_key, *(node[name] for name in _NODE_COLUMNS)))
    # Triggers set it to 0 at every insert and update, so it needs a statement of its own.
    store.execute("UPDATE session_nodes SET entry_valid = 1 WHERE session_key = ?", (session_key,))


def _put_window(store: Store, window: Mapping[str, Any], *, keep_owner: bool) -> None:
    kept = (*_WINDOW_ONLY_ON_INSERT, "session_key") if keep_owner else _WINDOW_ONLY_ON_INSERT
    changed = ",".join(f"{name} = excluded.{name}" for name in window if name not in kept)
    store.execute(
        f"INSERT INTO session_windows ({','.join(window)}) VALUES ({','.join('?' * len(window))})"
        f" ON CONFLICT (session_id) DO UPDATE SET {changed}",
        tuple(window.values()),
    )


def refresh_window(store: Store, session_id: str) -> None:
    """Let a session's row say what its owner's entry says, where it is that key's current session.

    Needed when another key that had the session, too, is gone: the row may mirror that one's entry.
    """
    sql = (
        "SELECT n.session_key, n.entry_json FROM session_windows w JOIN session_nodes n USING (session_key)"
        " WHERE w.session_id = ? AND n.current_session_id = w.session_id AND n.entry_valid = 1"
    )
    row = store.execute(sql, (session_id,)).fetchone()
    if row is None:
        return
    window = columns.expected_window_columns(row[0], parse(row[1].encode("utf-8")))
    changed = ", ".join(f"{name} = ?" for name in window)
    store.execute(f"UPDATE session_windows SET {changed} WHERE session_id = ?", (*window.values(), session_id))


def _write_receipts(
    store: Store,
    session_key: str,
    entry: Mapping[str, Any],
    previous: _Previous,
    receipt: Mapping[str, Any] | None,
) -> None:
    """Keep the receipts of the session that goes on, add the new one unless that source has left one already."""
    if receipt is None and previous.entry is None:
        return
    stored_text = store.value(
        "SELECT legacy_acp_migration_json FROM session_nodes WHERE session_key = ?", (session_key,)
    )
    receipts: list[dict[str, Any]] = orjson.loads(stored_text) if stored_text else []
    if previous.entry is not None and not previous.same_generation(entry):
        receipts = [known for known in receipts if _is_bound(known, entry)]
    if receipt is not None and all(_source(known) != _source(receipt) for known in receipts):
        receipts.append(dict(receipt))
    text = dumps(receipts).decode("utf-8") if receipts else None
    if text != stored_text:
        store.execute(
            "UPDATE session_nodes SET legacy_acp_migration_json = ? WHERE session_key = ?", (text, session_key)
        )


def _source(receipt: Mapping[str, Any]) -> tuple[Any, ...]:
    binding = receipt.get("lifecycleRevision") or receipt.get("sessionId")
    return receipt.get("sourcePath"), receipt.get("sourceSessionKey"), binding


def _is_bound(receipt: Mapping[str, Any], entry: Mapping[str, Any]) -> bool:
    revision = receipt.get("lifecycleRevision")
    if revision != entry.get("lifecycleRevision"):
        return False
    return revision is not None or receipt.get("sessionId") == entry.get("sessionId")


def set_main_key(store: Store, main_key: str, now_ms: int) -> bool:
    """Tell the store how main sessions are called (`session.mainKey`); call it before entries are written.

    The real program refuses every `agent:<id>:main` when that is not `main`; so a store that already has such keys
    keeps its name, and False is given. That program's own repair renames them.
    """
    folded = main_key.strip(JS_WHITESPACE).lower() or "main"
    if store.value("SELECT main_key FROM session_key_contract WHERE id = 1") == folded:
        return True
    if folded != "main" and store.value(_HAS_PLAIN_MAIN) is not None:
        return False
    store.execute(
        "INSERT INTO session_key_contract (id, main_key, updated_at) VALUES (1, ?, ?) ON CONFLICT (id) DO UPDATE SET"
        " main_key = excluded.main_key, updated_at = excluded.updated_at",
        (folded, now_ms),
    )
    return True


_HAS_PLAIN_MAIN = "SELECT 1 FROM session_nodes WHERE " + " OR ".join(
    f"({name} GLOB 'agent:*:main' AND {name} NOT GLOB 'agent:*:*:main')"
    for name in ("session_key", "parent_session_key", "spawned_by", "fork_source_session_key")
)


READABLE = frozenset((
    "session_key", "entry_valid", "legacy_acp_migration_json", "owner_actor_type", "owner_actor_id",
    "owner_assigned_by_type", "owner_assigned_by_id", "owner_assigned_at", *_NODE_COLUMNS,
))  # fmt: skip
"""Columns that `read_nodes` gives, besides ENTRY_METADATA."""

ENTRY_METADATA = "entry_metadata"
"""entry_json without skillsSnapshot and systemPromptReport, which are large and which no list shows."""

_METADATA_SQL = (
    "CASE WHEN octet_length(entry_json) > 2048 AND json_valid(entry_json)"
    " THEN json_remove(entry_json, '$.skillsSnapshot', '$.systemPromptReport') ELSE entry_json END"
)


def read_nodes(
    store: Store,
    *,
    columns: Sequence[str],
    valid_only: bool = True,
    newest_first: bool = False,
    limit: int | None = None,
) -> Iterator[tuple[Any, ...]]:
    """Plain tuples of the named columns (READABLE, ENTRY_METADATA), one for each session key, as they come.

    `valid_only` leaves placeholders and rows out that the real program would not show. Raises ValueError for an
    unknown column.
    """
    unknown = [name for name in columns if name not in READABLE and name != ENTRY_METADATA]
    if unknown:
        raise ValueError(f"no column of session_nodes: {unknown[0]}")
    wanted = ",".join(_METADATA_SQL if name == ENTRY_METADATA else name for name in columns)
    sql = f"SELECT {wanted} FROM session_nodes"
    if valid_only:
        sql += " WHERE entry_valid = 1"
    if newest_first:
        sql += " ORDER BY updated_at DESC, session_key"
    if limit is not None:
        sql += f" LIMIT {int(limit)}"
    yield from store.execute(sql)
