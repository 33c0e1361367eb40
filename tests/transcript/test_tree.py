"""The active path as the store's projections keep it."""

from __future__ import annotations

from typing import Any

from openclaw_cli.transcript.tree import ActivePath, Cursor, Position

HEADER = {"type": "session", "version": 4, "id": "s"}


def message(identity: Any, parent: Any = "absent", **more: Any) -> dict[str, Any]:
    """A message row; `parent` "absent" leaves the field out."""
    event: dict[str, Any] = {"type": "message", "id": identity, "message": {"role": "user", "content": "x"}, **more}
    return event if parent == "absent" else {**event, "parentId": parent}


def active(*events: object) -> list[int]:
    """The seqs of the active rows of a transcript with a header at seq 0."""
    path = ActivePath()
    for seq, event in enumerate((HEADER, *events)):
        path.feed(seq, event)
    return [position.seq for position in path.positions()]


def test_linear_chain_is_followed_without_the_tree() -> None:
    """Each row that names the one before it is active; flags tell messages and hidden ones."""
    hidden = message("b", "a")
    hidden["message"] = {"role": "custom", "customType": "x", "content": "", "excludeFromContext": True}
    path = ActivePath()
    for seq, event in enumerate([HEADER, message("a", None), hidden, {"type": "custom", "id": "c", "parentId": "b"}]):
        path.feed(seq, event)
    assert path.linear
    assert "c" == path.leaf_id
    expected = [Position(1, True, True), Position(2, True, False), Position(3, False, True)]
    assert expected == list(path.positions())


def test_branch_leaves_the_old_end_out() -> None:
    """A row under an earlier entry begins a new branch; the later one is the leaf."""
    assert [1, 3] == active(message("a", None), message("b", "a"), message("c", "a"))


def test_missing_parent_field_continues_at_the_leaf() -> None:
    """A canonical row without `parentId` is a child of the current leaf."""
    assert [1, 2, 3] == active(message("a", None), message("b"), message("c", "b"))


def test_unknown_parent_continues_at_the_leaf() -> None:
    """A parent that the file does not hold is replaced by the current leaf."""
    assert [1, 2, 3] == active(message("a", None), message("b", "gone"), message("c", "b"))


def test_rows_without_a_usable_id_are_active_on_a_linear_chain() -> None:
    """Blank and numeric ids take no part in the tree, yet the appended projection counts them."""
    assert [1, 2, 3, 4] == active(message("a", None), message(7, "a"), message("  ", "a"), message("b", "a"))


def test_leaf_control_moves_the_leaf_and_is_transparent() -> None:
    """Children of a control continue at its target; the control itself is never active."""
    control = {"type": "leaf", "id": "l", "parentId": "b", "targetId": "a"}
    assert [1, 4] == active(message("a", None), message("b", "a"), control, message("c", "l"))


def test_leaf_control_to_nothing_empties_the_path() -> None:
    """A control with a null target chooses the empty branch."""
    assert [] == active(message("a", None), {"type": "leaf", "id": "l", "parentId": "a", "targetId": None})


def test_leaf_control_to_an_unknown_entry_is_ignored() -> None:
    """The path stays as it was."""
    control = {"type": "leaf", "id": "l", "parentId": "a", "targetId": "gone"}
    assert [1, 3] == active(message("a", None), control, message("b", "a"))


def test_side_entries_stay_out() -> None:
    """A side entry moves only the append parent; who names it as parent hangs at the leaf."""
    assert [1, 3] == active(message("a", None), message("s", "a", appendMode="side"), message("b", "s"))


def test_opaque_links_are_walked_through() -> None:
    """A row of unknown kind with id and parent links its child to its own parent."""
    assert [1, 3] == active(message("a", None), {"type": "weird", "id": "w", "parentId": "a"}, message("b", "w"))


def test_after_a_reset_foreign_parents_hang_at_the_leaf() -> None:
    """What names an entry before the reset continues after it."""
    reset = {"type": "reset", "id": "r", "parentId": "a", "reason": "new"}
    assert [1, 2, 3, 4] == active(message("a", None), reset, message("b", "a"), message("c", None))


def test_a_cycle_gives_every_row() -> None:
    """Without a path and without a control the store falls back to all rows."""
    assert [1, 2] == active(message("a", "b"), message("b", "a"))


def test_cursor_resumes_from_the_stored_state() -> None:
    """Five values of the index state are enough to go on."""
    cursor = Cursor(indexed_seq=3, leaf_id="c", active_count=3, message_count=2)
    assert Position(4, True, True) == cursor.advance(4, message("d", "c"))
    assert ("d", 4, 3, False) == (cursor.leaf_id, cursor.active_count, cursor.message_count, cursor.broken)
    assert cursor.advance(5, message("e", "a")) is None
    assert cursor.broken


def test_first_entry_that_names_an_unknown_parent() -> None:
    """At the very beginning there is no leaf to fall back to: the path is the entry alone."""
    assert [1, 2] == active(message("a", "gone"), message("b", "a"))
