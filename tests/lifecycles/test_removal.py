"""What a fold removes, and what forbids it."""

from __future__ import annotations

from typing import Any

import pytest


def finished(kit: Any, transcript: Any, child: Any) -> int:
    return transcript.user(kit.era_d(child))


def test_message_with_words_keeps_them(kit: Any) -> None:
    """The spawn block goes, its words stay, the card hangs below them."""
    child = kit.Child(1)
    transcript = kit.Transcript()
    transcript.user("go")
    spawn_line, result = transcript.spawn(child, "I delegate this.")
    end = finished(kit, transcript, child)
    transcript.assistant("ok")
    removal = kit.scan(transcript).lifecycles[0].removal
    assert ((result, end), ((spawn_line, 1),), spawn_line) == (removal.lines, removal.blocks, removal.card_parent_line)


def test_message_without_words_goes_and_the_card_takes_its_place(kit: Any) -> None:
    """The card hangs where the spawning message hung; for a first entry that is the root."""
    child = kit.Child(1)
    transcript = kit.Transcript()
    transcript.spawn(child)
    finished(kit, transcript, child)
    transcript.assistant("ok")
    assert None is kit.scan(transcript).lifecycles[0].removal.card_parent_line


def test_card_goes_below_the_last_result_of_calls_that_stay(kit: Any) -> None:
    """Never between a call and its result."""
    child = kit.Child(1)
    transcript = kit.Transcript()
    transcript.assistant(kit.call(child.call, "sessions_spawn", child.arguments), kit.call("e", "exec", {}))
    transcript.result(child.call, child.accepted)
    last = transcript.result("e", None, text="x")
    finished(kit, transcript, child)
    transcript.assistant("ok")
    assert last == kit.scan(transcript).lifecycles[0].removal.card_parent_line


def test_parallel_spawns_that_all_go_leave_no_message(kit: Any) -> None:
    """When every call of the message goes, the cards take the place of the message."""
    one, two = kit.Child(1), kit.Child(2)
    transcript = kit.Transcript()
    before = transcript.user("go")
    transcript.assistant(*(kit.call(child.call, "sessions_spawn", child.arguments) for child in (one, two)))
    transcript.result(two.call, two.accepted)
    transcript.result(one.call, one.accepted)
    finished(kit, transcript, one)
    finished(kit, transcript, two)
    transcript.assistant("ok")
    assert [before, before] == [life.removal.card_parent_line for life in kit.scan(transcript).lifecycles]


def poll(kit: Any, transcript: Any, name: str, arguments: dict[str, Any], number: int) -> tuple[int, int]:
    line = transcript.assistant(kit.call(f"p{number}", name, arguments))
    return line, transcript.result(f"p{number}", None, text="running")


def test_looks_at_one_child_go_with_it(kit: Any) -> None:
    """Polling that names only this child goes; polling of all, steering, and looks after the end stay."""
    child, other = kit.Child(1, label="a"), kit.Child(2, label="b")
    transcript = kit.Transcript()
    spawn_line, result = transcript.spawn(child)
    transcript.spawn(other)
    look, seen = poll(kit, transcript, "sessions_history", {"sessionKey": child.key}, 1)
    status, told = poll(kit, transcript, "subagents", {"action": "log", "target": "a"}, 2)
    poll(kit, transcript, "subagents", {"action": "list"}, 3)
    poll(kit, transcript, "subagents", {"action": "steer", "target": child.key, "message": "faster"}, 4)
    poll(kit, transcript, "sessions_list", {"keys": [child.key, other.key]}, 5)
    end = finished(kit, transcript, child)
    poll(kit, transcript, "sessions_history", {"sessionKey": child.key}, 6)
    transcript.assistant("ok")
    first, second = kit.scan(transcript).lifecycles
    assert ((result, seen, told, end), ((spawn_line, 0), (look, 0), (status, 0))) == (
        first.removal.lines,
        first.removal.blocks,
    )
    assert "not completed yet" == second.reason


def test_wrapped_polls_go_too(kit: Any) -> None:
    """A look through `tool_call` is a look."""
    child = kit.Child(1)
    transcript = kit.Transcript()
    transcript.spawn(child)
    look, seen = poll(kit, transcript, "tool_call", {"id": "sessions_history", "args": {"sessionKey": child.key}}, 1)
    finished(kit, transcript, child)
    transcript.assistant("ok")
    removal = kit.scan(transcript).lifecycles[0].removal
    assert (True, True) == ((look, 0) in removal.blocks, seen in removal.lines)


@pytest.mark.parametrize(
    ("turns", "keep_last", "foldable"), [(0, 1, False), (1, 1, True), (1, 2, False), (2, 2, True), (0, 0, True)]
)
def test_turns_that_must_follow(kit: Any, turns: int, keep_last: int, foldable: bool) -> None:
    """A turn is everything the agent does on one prompt, however many messages it takes."""
    child = kit.Child(1)
    transcript = kit.Transcript()
    transcript.spawn(child)
    finished(kit, transcript, child)
    for number in range(turns):
        transcript.other_work(number)
        transcript.assistant("done")
        transcript.user("next")
    (life,) = kit.scan(transcript, keep_last=keep_last).lifecycles
    assert foldable == life.foldable


def test_failed_turn_is_no_answer(kit: Any) -> None:
    """An empty message that ended in an error or was aborted is not a reaction to the completion."""
    child = kit.Child(1)
    transcript = kit.Transcript()
    transcript.spawn(child)
    finished(kit, transcript, child)
    transcript.assistant(stopReason="error")
    assert "completion not answered yet" == kit.scan(transcript).lifecycles[0].reason


def test_repeat_that_nobody_answered_stays(kit: Any) -> None:
    """The agent has still to react to it."""
    child = kit.Child(1)
    transcript = kit.Transcript()
    transcript.spawn(child)
    end = finished(kit, transcript, child)
    transcript.assistant("ok")
    repeat = finished(kit, transcript, child)
    (life,) = kit.scan(transcript).lifecycles
    assert (True, True, False) == (life.foldable, end in life.removal.lines, repeat in life.removal.lines)


def test_branch_point_inside(kit: Any) -> None:
    """A range in which the conversation forks is not folded; a fork elsewhere does not matter."""
    child, later = kit.Child(1), kit.Child(2)
    transcript = kit.Transcript()
    transcript.spawn(child)
    fork = transcript.last
    transcript.user("one way")
    transcript.last = fork
    finished(kit, transcript, child)
    transcript.assistant("ok")
    transcript.spawn(later)
    finished(kit, transcript, later)
    transcript.assistant("ok")
    assert ["branch point inside", None] == [life.reason for life in kit.scan(transcript).lifecycles]


def test_missing_and_unknown_parents_follow_the_previous_entry(kit: Any) -> None:
    """Neither makes a branch point (lifecycles §5)."""
    child = kit.Child(1)
    transcript = kit.Transcript()
    transcript.spawn(child)
    transcript.message({"role": "user", "content": "x"}, parentId="nowhere")
    transcript.raw({"type": "message", "id": "no-parent", "message": {"role": "assistant", "content": []}})
    transcript.last = "no-parent"
    finished(kit, transcript, child)
    transcript.assistant("ok")
    assert None is kit.scan(transcript).lifecycles[0].reason


def test_side_entries_are_no_branches(kit: Any) -> None:
    """An entry that was appended beside the path leaves the path whole."""
    child = kit.Child(1)
    transcript = kit.Transcript()
    transcript.spawn(child)
    before = transcript.last
    transcript.entry({"type": "custom", "customType": "x", "appendMode": "side"})
    transcript.last = before
    finished(kit, transcript, child)
    transcript.assistant("ok")
    assert None is kit.scan(transcript).lifecycles[0].reason


CUTS = {
    "compaction": {"type": "compaction", "summary": "s", "firstKeptEntryId": "00000001", "tokensBefore": 1},
    "reset": {"type": "reset", "reason": "new"},
}


@pytest.mark.parametrize("kind", CUTS)
def test_context_cut_inside(kit: Any, kind: str) -> None:
    """A sub-task that was open when the context was cut is not folded: its end would move before the cut."""
    child = kit.Child(1)
    transcript = kit.Transcript()
    transcript.spawn(child)
    transcript.entry(CUTS[kind])
    finished(kit, transcript, child)
    transcript.assistant("ok")
    assert f"{kind} between spawn and completion" == kit.scan(transcript).lifecycles[0].reason


@pytest.mark.parametrize(
    "result", ["", "(no output)", "NO_REPLY", "[truncated-by-retention: complete child answer unavailable]\nx"]
)
@pytest.mark.parametrize(("outcome", "reason"), [("ok", "no usable result"), ("timeout", None)])
def test_success_needs_a_result(kit: Any, result: str, outcome: str, reason: str | None) -> None:
    """A success without an answer is not folded; a failure is told by its status."""
    child = kit.Child(1, result=result, outcome=outcome)
    transcript = kit.Transcript()
    transcript.spawn(child)
    finished(kit, transcript, child)
    transcript.assistant("ok")
    assert reason == kit.scan(transcript).lifecycles[0].reason


def test_unanswered_call_beside_the_spawn(kit: Any) -> None:
    """Without the result of its neighbour there is no place for a card that parts no call from its result."""
    child = kit.Child(1)
    transcript = kit.Transcript()
    transcript.assistant(kit.call(child.call, "sessions_spawn", child.arguments), kit.call("e", "exec", {}))
    transcript.result(child.call, child.accepted)
    finished(kit, transcript, child)
    transcript.assistant("ok")
    assert "another call of the same message has no result" == kit.scan(transcript).lifecycles[0].reason
