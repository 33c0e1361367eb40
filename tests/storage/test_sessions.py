"""Writing the rows of session keys, and reading them back."""

from __future__ import annotations

from typing import Any

import orjson
import pytest
from index_rows import rows_of

from openclaw_cli.storage import columns, conversations, sessions
from openclaw_cli.storage.connection import Store

NOW_MS = 1_790_000_000_000
KEY = "agent:main:x"


def write(store: Store, key: str = KEY, **entry: Any) -> str:
    """Write an entry for a key in a transaction of its own; names that begin with `_` are options."""
    options = {name[1:]: entry.pop(name) for name in list(entry) if name.startswith("_")}
    with store.transaction():
        return sessions.write_entry(
            store, key, {"sessionId": "s1", "updatedAt": 100, **entry}, now_ms=NOW_MS, **options
        )


def delivery(to: str = "telegram:5", **more: Any) -> dict[str, Any]:
    """A delivery to one target."""
    context = {"channel": "telegram", "to": to, **more}
    return {"kind": "external", "route": {"channel": "telegram"}, "context": context, "origin": {}}


def node(store: Store, key: str = KEY) -> dict[str, Any]:
    """The key's row without NULL columns."""
    return next(row for row in rows_of(store)["session_nodes"] if row["session_key"] == key)


def windows(store: Store) -> dict[str, dict[str, Any]]:
    """Every window by session id."""
    return {row["session_id"]: row for row in rows_of(store)["session_windows"]}


def links(store: Store) -> list[tuple[Any, ...]]:
    """Session, role and target of every link."""
    sql = (
        "SELECT session_id, role, delivery_target FROM session_conversations JOIN conversations"
        " USING (conversation_id) ORDER BY 1, 2, 3"
    )
    return store.execute(sql).fetchall()


def test_a_row_is_valid_after_writing(store: Store) -> None:
    """Triggers void every write; the separate statement makes the row visible to readers again."""
    assert "written" == write(store)
    assert "written" == write(store, updatedAt=101)
    assert 1 == store.value("SELECT entry_valid FROM session_nodes")


def test_writing_twice_changes_nothing(store: Store) -> None:
    """The second time is noticed; not a byte of any row differs."""
    entry = {"delivery": delivery(), "label": "L", "acp": {"a": 1}}
    assert "written" == write(store, **entry)
    before = rows_of(store)
    assert "unchanged" == write(store, **entry)
    assert before == rows_of(store)


@pytest.mark.parametrize("updated_at", [99, 100])
def test_an_older_or_equally_old_entry_does_not_win(store: Store, updated_at: int) -> None:
    """What the store has may have been changed since; only a newer entry replaces it."""
    write(store, label="stored")
    assert "kept_newer" == write(store, label="stale", updatedAt=updated_at)
    assert "stored" == node(store)["label"]


def test_prefer_index_lets_the_older_entry_win(store: Store) -> None:
    """The switch gives the real program's way: the index always overwrites."""
    write(store, label="stored")
    assert "written" == write(store, label="old", updatedAt=1, _prefer_index=True)
    assert ("old", 1) == (node(store)["label"], node(store)["updated_at"])


def test_an_invented_time_never_wins(store: Store) -> None:
    """A row without a time of its own gets the clock's, which says nothing about its age."""
    write(store, label="stored")
    assert "kept_newer" == write(store, label="x", updatedAt=NOW_MS, _time_invented=True)
    assert "written" == write(store, "agent:main:new", sessionId="s2", updatedAt=NOW_MS, _time_invented=True)


def test_the_session_of_a_losing_entry_is_history(store: Store) -> None:
    """Two spellings of one key: the newer row is the key's, the other's session stays as a window of the key."""
    write(store, sessionId="new", updatedAt=200)
    assert "kept_newer" == write(store, sessionId="old", updatedAt=100, delivery=delivery(), label="Old")
    assert ("new", KEY) == (node(store)["current_session_id"], windows(store)["old"]["session_key"])
    assert "Old" == windows(store)["old"]["display_name"]
    before = rows_of(store)
    assert "kept_newer" == write(store, sessionId="old", updatedAt=100, delivery=delivery(), label="Old")
    assert before == rows_of(store)


def test_a_newer_entry_with_another_session_leaves_a_window(store: Store) -> None:
    """The former session stays in the history of the key."""
    write(store, sessionId="old")
    write(store, sessionId="new", updatedAt=200)
    assert {"old": KEY, "new": KEY} == {name: row["session_key"] for name, row in windows(store).items()}


def test_the_window_belongs_to_the_last_writer(store: Store) -> None:
    """A cron job and its run share a session; writing the first again takes nothing back."""
    write(store, "agent:main:cron:j", label="job")
    write(store, "agent:main:cron:j:run:r", label="run")
    assert "agent:main:cron:j:run:r" == windows(store)["s1"]["session_key"]
    write(store, "agent:main:cron:j", label="job", updatedAt=300)
    assert "agent:main:cron:j:run:r" == windows(store)["s1"]["session_key"]


def test_a_placeholder_is_replaced(store: Store) -> None:
    """A key that events made before its entry becomes valid; its window keeps saying that events made it."""
    with store.transaction():
        names = "session_key, current_session_id, entry_json, updated_at"
        store.execute(f"INSERT INTO session_nodes ({names}) VALUES (?, 's1', '{{}}', 9)", (KEY,))
        store.execute("UPDATE session_nodes SET entry_valid = -1")
        sql = "INSERT INTO session_windows (session_id, session_key, created_at, updated_at) VALUES ('s1', ?, 9, 9)"
        store.execute(sql, (KEY,))
        names = "session_id, seq, event_json, event_utf8_bytes, created_at"
        store.execute(f"INSERT INTO transcript_events ({names}) VALUES ('s1', 0, '{{}}', 2, 1)")
    assert "written" == write(store, acp={"a": 1}, updatedAt=5)
    assert (1, 0, 0) == (
        store.value("SELECT entry_valid FROM session_nodes"),
        windows(store)["s1"]["session_entry_provenance"],
        windows(store)["s1"]["acp_owned"],
    )


def test_an_unreadable_row_is_replaced(store: Store) -> None:
    """A row that no reader accepts cannot be the newer one."""
    write(store)
    store.execute("UPDATE session_nodes SET entry_json = '[]', updated_at = 999999")
    assert "written" == write(store, updatedAt=5, label="whole")
    assert "whole" == node(store)["label"]


def test_what_a_window_knows_of_its_makers_is_kept(store: Store) -> None:
    """A later entry adds to acp, plugin and hook source, and takes nothing away."""
    write(store, acp={"a": 1}, pluginOwnerId="p", hookExternalContentSource="gmail")
    write(store, updatedAt=200)
    window = windows(store)["s1"]
    assert (1, "p", "gmail") == (
        window["acp_owned"],
        window["plugin_owner_id"],
        window["hook_external_content_source"],
    )


def test_a_pending_reset_stays_pending(store: Store) -> None:
    """updatedAt 0 of the stored row asks for a reset; an index from before does not take it back."""
    write(store, updatedAt=0)
    assert "kept_newer" == write(store, updatedAt=500, label="x")
    assert 0 == node(store)["updated_at"]


def test_what_belongs_to_another_session_goes(store: Store) -> None:
    """Publication and review count for their session only; visibility ends with the session."""
    share = {"id": "f" * 48, "sessionId": "s1", "createdAt": 1}
    write(store, publicShare=share, providerReview={"sessionId": "s1"}, visibility="v")
    assert {"publicShare", "providerReview", "visibility"} <= orjson.loads(node(store)["entry_json"]).keys()
    write(store, sessionId="s2", updatedAt=200, publicShare=share, providerReview={"sessionId": "s1"}, visibility="v")
    assert {"sessionId", "updatedAt"} == orjson.loads(node(store)["entry_json"]).keys()


def test_receipts_are_added_once_and_go_with_their_session(store: Store) -> None:
    """One receipt for a source; those of a former session are dropped."""
    receipt = {"sourcePath": "/a", "sourceSessionKey": "k", "sessionId": "s1", "sourceSha256": "0" * 64}
    write(store, _acp_receipt=receipt)
    write(store, updatedAt=200, _acp_receipt=receipt)
    assert [receipt] == orjson.loads(node(store)["legacy_acp_migration_json"])
    other = {**receipt, "sessionId": "s2"}
    write(store, sessionId="s2", updatedAt=300, _acp_receipt=other)
    assert [other] == orjson.loads(node(store)["legacy_acp_migration_json"])


def test_observed_time(store: Store) -> None:
    """A window has seen the transcript as the caller says, else as stored, else at the entry's time."""
    write(store)
    assert 100 == windows(store)["s1"]["transcript_observed_at"]
    store.execute("UPDATE session_windows SET transcript_updated_at = 150")
    write(store, updatedAt=200)
    assert 150 == windows(store)["s1"]["transcript_observed_at"]
    write(store, updatedAt=300, _observed_ms=170)
    assert 170 == windows(store)["s1"]["transcript_observed_at"]


def test_links(store: Store) -> None:
    """A direct chat in the main session takes part, other sessions have one primary conversation."""
    write(store, "agent:main:main", chatType="direct", delivery=delivery("telegram:1"))
    write(store, sessionId="s2", delivery=delivery("telegram:2"))
    assert [("s1", "participant", "telegram:1"), ("s2", "primary", "telegram:2")] == links(store)
    assert ("primary_conversation_id" in windows(store)["s1"], "primary_conversation_id" in windows(store)["s2"]) == (
        False,
        True,
    )


def test_a_former_conversation_stays_related(store: Store) -> None:
    """When a session moves to another conversation the old one is still known."""
    write(store, delivery=delivery("telegram:1"))
    write(store, delivery=delivery("telegram:2"), updatedAt=200)
    assert [("s1", "primary", "telegram:2"), ("s1", "related", "telegram:1")] == links(store)


def test_routing_facts_survive_a_new_link(store: Store) -> None:
    """Facts that a gateway observed are believed only at the link's time, so they move with it."""
    write(store, delivery=delivery())
    facts = {"version": 1, "writeId": "w", "observedAt": 100, "context": {"guildId": "g"}}
    store.execute("UPDATE session_conversations SET route_context_json = ?", (orjson.dumps(facts).decode(),))
    write(store, delivery=delivery(), updatedAt=200)
    kept = orjson.loads(store.value("SELECT route_context_json FROM session_conversations"))
    assert (200, {"guildId": "g"}) == (kept["observedAt"], kept["context"])
    store.execute("UPDATE session_conversations SET route_context_json = ?", (orjson.dumps(facts).decode(),))
    write(store, delivery=delivery(), updatedAt=300)
    assert store.value("SELECT route_context_json FROM session_conversations") is None


def test_a_known_peer_is_not_forgotten(store: Store) -> None:
    """The gateway knows the peer behind a target; the entry knows the target alone."""
    write(store, delivery=delivery("bot:1"))
    store.execute("UPDATE conversations SET peer_id = 'real-peer'")
    write(store, delivery=delivery("bot:1"), updatedAt=200, label="New")
    assert [("real-peer", "New")] == store.execute("SELECT peer_id, label FROM conversations").fetchall()


def test_conversation_without_target() -> None:
    """A channel alone is no address; a group needs a target, a direct chat may answer the sender."""
    origin = {"provider": "telegram", "from": "telegram:user:7"}
    external = {"kind": "external", "route": {}, "context": {"channel": "telegram"}, "origin": origin}
    direct = conversations.conversation_of({"delivery": external})
    assert direct is not None
    assert ("direct", "7", "telegram:user:7") == (direct.kind, direct.peer_id, direct.delivery_target)
    assert conversations.conversation_of({"delivery": external, "chatType": "group"}) is None
    assert conversations.conversation_of({"delivery": {**external, "origin": {}}}) is None
    assert conversations.conversation_of({"delivery": {"kind": "none"}}) is None


def test_main_key(store: Store) -> None:
    """The name of main sessions is set while no plain `main` is in the store."""
    assert sessions.set_main_key(store, " Work ", NOW_MS)
    assert "work" == store.value("SELECT main_key FROM session_key_contract")
    assert sessions.set_main_key(store, "", NOW_MS)
    write(store, "agent:main:team:main", sessionId="s2")
    assert sessions.set_main_key(store, "work", NOW_MS)
    sessions.set_main_key(store, "main", NOW_MS)
    write(store, "agent:main:main")
    assert not sessions.set_main_key(store, "work", NOW_MS)
    assert "main" == store.value("SELECT main_key FROM session_key_contract")


def test_reading(store: Store) -> None:
    """Tuples of the wanted columns; invalid rows are left out unless asked for."""
    for number in range(5):
        write(store, f"agent:main:{number}", sessionId=f"s{number}", updatedAt=100 + number)
    store.execute("UPDATE session_nodes SET entry_valid = 0 WHERE session_key = 'agent:main:2'")
    wanted = ["current_session_id", "updated_at"]
    newest = list(sessions.read_nodes(store, columns=wanted, newest_first=True, limit=2))
    assert [("s4", 104), ("s3", 103)] == newest
    assert 4 == len(list(sessions.read_nodes(store, columns=wanted)))
    assert 5 == len(list(sessions.read_nodes(store, columns=wanted, valid_only=False)))
    with pytest.raises(ValueError, match="no_such"):
        list(sessions.read_nodes(store, columns=["no_such"]))


def test_lists_do_not_read_the_large_members(store: Store) -> None:
    """The snapshot of skills and the prompt report stay in the database."""
    write(store, label="L", skillsSnapshot={"prompt": "p" * 4000}, systemPromptReport={"x": 1})
    ((metadata,),) = sessions.read_nodes(store, columns=[sessions.ENTRY_METADATA])
    assert {"sessionId": "s1", "updatedAt": 100, "label": "L"} == orjson.loads(metadata)


@pytest.mark.parametrize(
    ("value", "expected"),
    [(5, 5), (5.0, 5), (1.5, 2), (-1.5, -1), (True, None), ("5", None), (None, None), (2**53, None), (1e300, None)],
)
def test_integer_columns(value: object, expected: int | None) -> None:
    """Finite numbers, rounded, within what JavaScript can read back."""
    assert expected == columns.integer(value)


def test_text_columns() -> None:
    """Trimmed as JavaScript trims, blank is NULL, lone surrogates cannot be stored."""
    values = (" x ", "\ufeff\u00a0", "\u0085y", "a\ud800", 5, None, "a\u0000b")
    assert ["x", None, "\u0085y", "a\ufffd", None, None, "a\u0000b"] == [columns.text(value) for value in values]
