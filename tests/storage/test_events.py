"""Appending events and reading them back."""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable, Iterator
from typing import Any

import apsw
import orjson
import pytest

from openclaw_cli.errors import RefusedError
from openclaw_cli.storage import events, projections, verify
from openclaw_cli.storage.connection import Store
from openclaw_cli.storage.events import Appended, Divergent

NOW_MS = 1_790_000_000_000
Add = Callable[..., Appended]

PROJECTIONS = (
    "SELECT active_position, event_seq, message_position, context_eligible FROM session_transcript_active_events"
    " WHERE session_id = 's1' ORDER BY 1",
    "SELECT indexed_seq, leaf_event_id, needs_rebuild, active_event_count, active_message_count"
    " FROM session_transcript_index_state WHERE session_id = 's1'",
    "SELECT known.message_id, found.text, found.role, found.timestamp FROM session_transcript_fts_rows AS known"
    " JOIN session_transcript_fts AS found ON found.rowid = known.id WHERE known.session_id = 's1' ORDER BY known.id",
)


def header() -> dict[str, Any]:
    """The first event of a transcript."""
    return {"type": "session", "version": 3, "id": "s1", "timestamp": "2026-09-21T14:00:00.000Z", "cwd": "/w"}


def message(identity: str, parent: str | None, text: str = "hello", **more: Any) -> dict[str, Any]:
    """A user's message; `more` goes into the message."""
    body = {"role": "user", "content": [{"type": "text", "text": text}], **more}
    at = "2026-09-21T14:00:01.000Z"
    return {"type": "message", "id": identity, "parentId": parent, "timestamp": at, "message": body}


def chain(length: int, text: str = "hello") -> list[dict[str, Any]]:
    """A header and `length` messages, each the child of the one before."""
    return [header(), *(message(f"m{n}", f"m{n - 1}" if n else None, text) for n in range(length))]


def projected(store: Store) -> list[list[tuple[Any, ...]]]:
    """Everything that the store derives from the events of s1."""
    return [store.execute(sql).fetchall() for sql in PROJECTIONS]


def test_a_chain_is_appended_with_everything_derived_from_it(store: Store, add: Add) -> None:
    """Rows, identities, active path, index state and search rows of a short transcript."""
    done = add([*chain(2), {"type": "model_change", "id": "x", "parentId": "m1", "provider": "p", "modelId": "m"}])
    assert Appended(new=4) == done
    rows = store.execute("SELECT event_id, seq, event_type, parent_id FROM transcript_event_identities ORDER BY seq")
    expected = [("s1", 0, "session", None), ("m0", 1, "message", None), ("m1", 2, "message", "m0")]
    assert [*expected, ("x", 3, "model_change", "m1")] == rows.fetchall()
    active, state, search = projected(store)
    assert [(0, 1, 0, 1), (1, 2, 1, 1), (2, 3, None, 1)] == active
    assert [(3, "x", 0, 3, 2)] == state
    assert [("m0", "hello", "user"), ("m1", "hello", "user")] == [row[:3] for row in search]
    # The last event has no time of its own, so it happened now.
    assert NOW_MS == store.value("SELECT updated_at FROM session_transcript_index_state")
    assert [] == list(verify.verify(store))


def test_appending_in_parts_equals_appending_at_once(store: Store, add: Add) -> None:
    """A chain continues from the stored state, whatever the parts are."""
    rows = chain(30)
    for start in range(0, len(rows), 7):
        add(rows[start : start + 7])
    parts = projected(store)
    with store.transaction():
        projections.rebuild(store, "s1", NOW_MS)
    assert projected(store) == parts
    assert 31 == events.count(store, "s1")


@pytest.mark.parametrize("size", [1, 2, 5])
def test_batches_leave_no_trace(store: Store, add: Add, monkeypatch: pytest.MonkeyPatch, size: int) -> None:
    """The size of a batch changes nothing, also where a repeated id lies in another batch."""
    monkeypatch.setattr(events, "BATCH_EVENTS", size)
    rows = chain(12)
    done = add([*rows, rows[3], message("m5", "m4", "other")])
    assert Appended(new=13, repeated=1, divergent=[Divergent(14, "m5", 6)]) == done
    assert [] == list(verify.verify(store))


def test_an_id_is_appended_once(store: Store, add: Add) -> None:
    """The same bytes count as repeated, other bytes are returned and not written."""
    rows = chain(3)
    add(rows)
    done = add([*rows, message("m1", "m0", "changed")])
    assert Appended(new=0, repeated=4, divergent=[Divergent(4, "m1", 2)]) == done
    assert [orjson.dumps(row) for row in rows] == [text for _, text in events.stream(store, "s1")]


def test_ids_are_compared_trimmed(store: Store, add: Add) -> None:
    """Blanks around an id do not make another id."""
    add([header(), message("a", None)])
    assert [Divergent(0, "a", 1)] == add([message(" a ", None)]).divergent


def test_an_event_without_id_is_repeated_when_its_text_is(store: Store, add: Add) -> None:
    """Rows that nothing names are told apart by their text, in one append and in a later one."""
    rows = [header(), {"note": 1}, {"note": 1}, [1, 2], "text", {}]
    assert Appended(new=5, repeated=1) == add(rows)
    assert Appended(new=1, repeated=6) == add([*rows, {"note": 2}])


def test_a_second_owner_of_an_idempotency_key_stands_without(store: Store, add: Add) -> None:
    """The key is unique per session; the first message keeps it, in one append and in a later one."""
    add([header(), message("a", None, idempotencyKey=" k "), message("b", "a", idempotencyKey="k")])
    add([message("c", "b", idempotencyKey="k"), message("d", "c", idempotencyKey="k2")])
    found = store.execute("SELECT event_id, message_idempotency_key FROM transcript_event_identities ORDER BY seq")
    assert [("s1", None), ("a", "k"), ("b", None), ("c", None), ("d", "k2")] == found.fetchall()
    assert [] == list(verify.verify(store))


def test_the_watermark_is_kept_by_appends(store: Store, add: Add) -> None:
    """The generation is made at the first append and stays."""
    sql = "SELECT generation FROM transcript_rewrite_watermarks WHERE session_id = 's1'"
    add(chain(1))
    generation = store.value(sql)
    add([message("x", "m0")])
    assert (32, generation) == (len(generation), store.value(sql))


def test_window_times_follow_the_events_and_the_source(store: Store, add: Add) -> None:
    """`updated_at` is the last offered event's time; `transcript_updated_at` the file's, else always growing."""
    sql = "SELECT updated_at, transcript_updated_at FROM session_windows WHERE session_id = 's1'"
    at = 1_790_000_000_000
    late = {**message("b", "a"), "timestamp": at + 5}
    add([header(), {**message("a", None), "timestamp": at}], observed_ms=77)
    assert (at, 77) == store.execute(sql).fetchone()
    add([late], observed_ms=50)
    assert (at + 5, 77) == store.execute(sql).fetchone()
    add([{**message("c", "b"), "timestamp": at + 9}], now_ms=60)
    assert (at + 9, 78) == store.execute(sql).fetchone()
    add([{**message("c", "b", "divergent"), "timestamp": at + 11}])
    assert (at + 11, 78) == store.execute(sql).fetchone()
    add([late])
    assert (at + 11, 78) == store.execute(sql).fetchone()


def test_missing_rows_of_a_session_are_made_as_placeholders(store: Store, add: Add) -> None:
    """A node that no reader takes for an entry, and its window."""
    add(chain(1))
    node = "SELECT entry_json, entry_valid, current_session_id FROM session_nodes"
    assert [("{}", -1, "s1")] == store.execute(node).fetchall()
    assert "conversation" == store.value("SELECT session_scope FROM session_windows WHERE session_id = 's1'")


TREES: dict[str, list[Any]] = {
    "branch": [header(), message("a", None), message("b", "a"), message("c", "a")],
    "leaf": [
        *[header(), message("a", None), message("b", "a")],
        {"type": "leaf", "id": "l", "parentId": "b", "targetId": "a"},
        message("c", "l"),
    ],
    "side": [header(), message("a", None), {**message("s", "a"), "appendMode": "side"}, message("b", "a")],
    "opaque": [header(), message("a", None), {"type": "weird", "id": "w", "parentId": "a"}, message("b", "w")],
    "no link": [header(), message("a", None), {"type": "message", "message": {"role": "user", "content": "x"}}],
}


@pytest.mark.parametrize("name", TREES)
def test_what_is_no_chain_is_resolved_over_the_tree(store: Store, add: Add, name: str) -> None:
    """The projections of any tree agree with its events, at once and row by row."""
    add(TREES[name])
    assert [] == list(verify.verify(store))
    add([message("end", TREES[name][-1].get("id", "a"))])
    assert [] == list(verify.verify(store))
    assert "end" == store.value("SELECT leaf_event_id FROM session_transcript_index_state")


def test_a_state_that_needs_a_rebuild_gets_one(store: Store, add: Add) -> None:
    """Another writer may leave the projections behind; the next append makes them good."""
    add(chain(4))
    store.execute("UPDATE session_transcript_index_state SET needs_rebuild = 1, indexed_seq = 2")
    store.execute("DELETE FROM session_transcript_active_events WHERE active_position > 1")
    assert add([message("x", "m3")]).rebuilt
    assert [] == list(verify.verify(store))


def test_lone_surrogates_are_stored_as_the_replacement_character(store: Store, add: Add) -> None:
    """The event keeps its escape; search text and id columns get U+FFFD, which UTF-8 can hold."""
    text = b'{"type":"message","id":"a\\ud800","parentId":null,"message":{"role":"user","content":"x\\udc00y"}}'
    value = {"type": "message", "id": "a\ud800", "parentId": None, "message": {"role": "user", "content": "x\udc00y"}}
    with store.transaction():
        events.append(store, "agent:main:main", "s1", [(b'{"type":"custom"}', {"type": "custom"})], now_ms=NOW_MS)
        events.append(store, "agent:main:main", "s1", [(text, value)], now_ms=NOW_MS)
    assert text == events.tail(store, "s1", events=1)[0][1]
    assert "a\ufffd" == store.value("SELECT event_id FROM transcript_event_identities")
    assert [("x\ufffdy", "a\ufffd")] == store.execute("SELECT text, message_id FROM session_transcript_fts").fetchall()


def test_a_very_long_text_is_stored_and_searchable(store: Store, add: Add) -> None:
    """Nothing is lost on the way that spares memory."""
    text = "größe " * 300_000 + "needle"
    add([header(), message("a", None, text), message("b", "a", "x" * 1_500_000)])
    assert [] == list(verify.verify(store))
    found = "SELECT message_id FROM session_transcript_fts WHERE session_transcript_fts MATCH 'needle'"
    assert "a" == store.value(found)


def test_a_cold_session_is_not_written(store: Store, add: Add) -> None:
    """Its events lie in an archive: appending would give the transcript a second beginning."""
    add(chain(1))
    store.execute(
        "INSERT INTO session_transcript_cold_archives VALUES ('s1', 'g', 'a.zst', ?, 1, 1, 1, 0, 1, 'file', NULL)",
        ("0" * 64,),
    )
    with pytest.raises(RefusedError):
        add([message("x", "m0")])


def test_appending_needs_a_transaction(store: Store) -> None:
    """Half an append must never be committed."""
    with pytest.raises(RuntimeError):
        events.append(store, "agent:main:main", "s1", [], now_ms=NOW_MS)


@pytest.mark.parametrize(
    ("limits", "expected"),
    [
        ({"events": 3}, 3),
        ({"events": 1000}, 41),
        ({"max_bytes": 1}, 1),
        ({"events": 5, "max_bytes": 1_000_000}, 5),
        ({}, 41),
    ],
)
def test_the_tail_is_the_end_in_order(store: Store, add: Add, limits: dict[str, int], expected: int) -> None:
    """The last events by number or by bytes, oldest first; the last one always comes."""
    rows = chain(40)
    add(rows)
    wanted = [(seq, orjson.dumps(row)) for seq, row in enumerate(rows)][-expected:]
    assert wanted == events.tail(store, "s1", **limits)


def test_the_tail_stays_within_its_bytes(store: Store, add: Add) -> None:
    """As many whole events as fit."""
    rows = chain(40)
    add(rows)
    size = len(orjson.dumps(rows[-1]))
    assert [38, 39, 40] == [seq for seq, _ in events.tail(store, "s1", max_bytes=3 * size + 5)]


@pytest.mark.parametrize("limits", [{"events": 5}, {"max_bytes": 700}])
def test_a_tail_reads_no_more_rows_than_it_gives(store: Store, add: Add, limits: dict[str, int]) -> None:
    """SQLite itself counts the rows that it hands out: the number does not depend on the session's length."""
    counts = []
    for length in (50, 2000):
        add(chain(length), session_id=f"long{length}")
        read: list[int] = []
        store.connection.trace_v2(apsw.SQLITE_TRACE_ROW, lambda _, read=read: read.append(1))
        got = events.tail(store, f"long{length}", **limits)
        store.connection.trace_v2(0, None)
        counts.append(len(read))
        assert len(read) <= len(got) + 1
    assert counts[0] == counts[1]


def test_memory_does_not_grow_with_the_session(store: Store) -> None:
    """A chain eight times as long needs no more memory than a short one."""

    def rows(length: int) -> Iterator[tuple[bytes, Any]]:
        for row in (message(f"m{n}", f"m{n - 1}" if n else None, "hello " * 100) for n in range(length)):
            yield orjson.dumps(row), row

    def peak(session_id: str, length: int) -> int:
        tracemalloc.start()
        with store.transaction():
            events.append(store, f"agent:main:{session_id}", session_id, rows(length), now_ms=NOW_MS)
        used = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        return used

    peak("warm", 1000)
    assert peak("long", 8000) < 1.5 * peak("short", 1000)


def test_has_event(store: Store, add: Add) -> None:
    """By id, within the session."""
    add(chain(1))
    found = [events.has_event(store, *pair) for pair in (("s1", "m0"), ("s1", "x"), ("s2", "m0"))]
    assert [True, False, False] == found
