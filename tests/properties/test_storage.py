"""Any transcript, appended in any parts, leaves projections that follow from its events."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count
from typing import Any

import orjson
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from openclaw_cli.storage import connection, events, verify
from openclaw_cli.storage.connection import Store
from openclaw_cli.transcript.tree import ActivePath, Tree, is_projected

NOW_MS = 1_790_000_000_000
IDS = st.sampled_from(["a", "b", "c", "d", "e", " f ", "", "g"])
REFERENCES = st.one_of(st.none(), IDS)
MESSAGES = st.fixed_dictionaries(
    {"role": st.sampled_from(["user", "assistant", "toolResult"]), "content": st.sampled_from(["", " x ", "words"])},
    optional={"excludeFromContext": st.booleans(), "idempotencyKey": st.sampled_from(["k", " k ", "l"])},
)
EVENTS = st.one_of(
    st.fixed_dictionaries(
        {"type": st.just("message"), "message": MESSAGES},
        optional={"id": IDS, "parentId": REFERENCES, "appendMode": st.sampled_from(["side", "x"])},
    ),
    st.fixed_dictionaries(
        {"type": st.sampled_from(["custom", "reset", "compaction", "weird", "session"]), "id": IDS},
        optional={"parentId": REFERENCES, "message": st.none(), "appendMode": st.just("side")},
    ),
    st.fixed_dictionaries(
        {"type": st.just("leaf"), "id": IDS, "parentId": REFERENCES, "targetId": REFERENCES},
        optional={"appendParentId": REFERENCES, "appendMode": st.just("side")},
    ),
    st.sampled_from([{}, [], [1], "text", 5]),
)


NAMES = st.sampled_from(["a", "b", "c", "d", "e", "f", "g"])
PARENTS = st.one_of(st.none(), NAMES)
LINKED = st.one_of(
    st.fixed_dictionaries(
        {"type": st.just("message"), "id": NAMES, "parentId": PARENTS, "message": MESSAGES},
        optional={"appendMode": st.just("side")},
    ),
    st.fixed_dictionaries(
        {"type": st.sampled_from(["custom", "reset", "compaction", "weird"]), "id": NAMES, "parentId": PARENTS}
    ),
    st.fixed_dictionaries(
        {"type": st.just("leaf"), "id": NAMES, "parentId": PARENTS, "targetId": PARENTS},
        optional={"appendParentId": PARENTS, "appendMode": st.just("side")},
    ),
    st.sampled_from([{}, [], [1], "text", 5, {"type": "session", "id": "s1"}]),
)


_numbers = count()


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
    """One store for all examples; each has a session of its own."""
    path = tmp_path_factory.mktemp("properties") / "openclaw-agent.sqlite"
    with connection.create(path, agent_id="main", now_ms=NOW_MS) as opened:
        yield opened


def append(store: Store, session_id: str, rows: list[Any]) -> events.Appended:
    """Append rows to a session in a transaction of its own."""
    with store.transaction():
        offered = [(orjson.dumps(row), row) for row in rows]
        return events.append(store, f"agent:main:{session_id}", session_id, offered, now_ms=NOW_MS)


def backwards(rows: list[Any]) -> list[Any]:
    """The rows, where a reference to a later row names one that is nowhere."""
    seen: set[str | None] = {None}
    made = []
    for row in rows:
        if type(row) is dict:
            names = ("parentId", "targetId", "appendParentId")
            gone = {name: f"no-{row[name]}" for name in names if name in row and row[name] not in seen}
            seen.add(row.get("id"))
            row = {**row, **gone}
        made.append(row)
    return made


def ends_unlinked(rows: list[Any], parts: list[int]) -> bool:
    """Whether a part but the last ends where no row leads to a leaf, as behind nothing but side entries."""
    tree, end = Tree(), 0
    for start in range(len(rows)):
        tree.add(start, rows[start])
        if start + 1 < len(rows) and start + 1 == end + parts[end % len(parts)]:
            end = start + 1
            if not tree.path_ids() and not tree.has_leaf_control and any(map(is_projected, rows[:end])):
                return True
    return False


@settings(deadline=None)
@given(rows=st.lists(LINKED, max_size=14), parts=st.lists(st.integers(1, 6), min_size=1, max_size=5))
def test_projections_follow_from_events(store: Store, rows: list[Any], parts: list[int]) -> None:
    """Identities, active path, search rows and state verify after every part; offering all again adds nothing.

    Entries without id or parent are left out here: appended to a path that was resolved before, they stay on it, and
    resolved anew they do not, in the real program too. An entry that names one that comes later closes a circle, which
    is seen only when the whole is resolved; who appends names what is there, or what is nowhere. Where nothing could be
    linked when a part ended, every row was taken as active, and what is appended behind it follows that, too.
    """
    rows = backwards(rows)
    assume(not ends_unlinked(rows, parts))
    session_id = f"parts{next(_numbers)}"
    start = 0
    while start < len(rows):
        end = start + parts[start % len(parts)]
        append(store, session_id, rows[start:end])
        assert [] == list(verify.verify_session(store, session_id))
        start = end
    assert 0 == append(store, session_id, rows).new


@settings(deadline=None)
@given(rows=st.lists(EVENTS, max_size=14))
def test_one_append_gives_the_active_path(store: Store, rows: list[Any]) -> None:
    """What is stored as active is what the transcript's own resolution says."""
    session_id = f"whole{next(_numbers)}"
    append(store, session_id, rows)
    active = ActivePath()
    for seq, text in events.stream(store, session_id):
        active.feed(seq, orjson.loads(text))
    sql = (
        "SELECT event_seq, message_position IS NOT NULL, context_eligible FROM session_transcript_active_events"
        " WHERE session_id = ? ORDER BY active_position"
    )
    assert [tuple(map(int, row)) for row in active.positions()] == store.execute(sql, (session_id,)).fetchall()
    state = "SELECT leaf_event_id FROM session_transcript_index_state WHERE session_id = ?"
    assert active.leaf_id == store.value(state, (session_id,))
    assert [] == list(verify.verify_session(store, session_id))


def test_an_opaque_link_behind_an_empty_path_stays_off_it(store: Store) -> None:
    """A control chose the empty path; an unknown entry that is appended later does not begin a new one."""
    for row in (
        {"type": "message", "id": "a", "parentId": None, "message": {"role": "user", "content": ""}},
        {"type": "leaf", "id": "c", "parentId": None, "targetId": None},
        {"type": "weird", "id": "b", "parentId": None},
        {"type": "message", "id": "d", "parentId": None, "message": {"role": "user", "content": "on"}},
    ):
        append(store, "emptied", [row])
        assert [] == list(verify.verify_session(store, "emptied"))


def test_the_store_of_all_examples_is_whole(store: Store) -> None:
    """After everything that the examples wrote."""
    append(store, "last", [{"type": "session", "id": "last"}])
    assert [] == verify.integrity(store)
    assert [] == list(verify.verify(store))
