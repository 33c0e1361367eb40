"""What may be folded, and what goes when it is (lifecycles §5, "Rules that a first implementation got wrong"). Pure.

Only what belongs to one finished sub-task goes: its spawn block, the answers to it, looks at that child alone, and the
messages that announce its end. Words of people and unrelated work inside the range stay.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Mapping, Sequence

from openclaw_cli.lifecycles import markers
from openclaw_cli.lifecycles.facts import Call, Marker
from openclaw_cli.lifecycles.matching import Task
from openclaw_cli.lifecycles.passes import Passes
from openclaw_cli.lifecycles.records import Removal

NOT_ANSWERED = "completion not answered yet"
NO_RESULT = "no usable result"
REST = -1


class Removals:
    """Decides for all tasks of one source. `keep_last` turns of the agent must follow a completion."""

    def __init__(self, passes: Passes, tasks: Sequence[Task], orphans: Sequence[Marker], keep_last: int) -> None:
        self._passes = passes
        self._tasks = tasks
        self._keep_last = keep_last
        self._jumps = passes.chain.links()
        self._kept = passes.chain.kept_lines()
        self._polls = _polls_of(tasks, passes.polls)
        self.reasons = [self._reason(task) for task in tasks]
        self._speakers = _speakers(tasks, orphans)
        self._going = _going_blocks(tasks, self._polls, self.reasons)

    def _reason(self, task: Task) -> str | None:
        """Why a task is not folded, or None."""
        answer = task.call.answer
        if answer is None:
            return "no result of the spawn yet"
        if answer.verdict != "accepted":
            return f"spawn {'failed' if answer.verdict == 'error' else 'forbidden'}"
        if not task.ends:
            return "not completed yet"
        return "; ".join(self._obstacles(task)) or None

    def _obstacles(self, task: Task) -> list[str]:
        first, closing = task.call.carrier.line, task.ends[0][0]
        found = []
        following = len(self._passes.turns) - bisect_right(self._passes.turns, closing.line)
        if following < self._keep_last:
            few = f"only {following} of {self._keep_last} turns follow the completion"
            found.append(few if following else NOT_ANSWERED)
        if not self._has_result(task):
            found.append(NO_RESULT)
        # Both cut the context: what is told after the cut must not move before it.
        for name, cuts in (("compaction", self._passes.compactions), ("reset", self._passes.resets)):
            if bisect_left(cuts, closing.line) > bisect_right(cuts, first):
                found.append(f"{name} between spawn and completion")
        # The kept part would begin at its end, the card stands at its beginning: the model would lose what came of it.
        last = max(marker.line for marker, _ in task.ends)
        if bisect_right(self._kept, last) > bisect_right(self._kept, first):
            found.append("a compaction keeps only a part of it")
        if self._branches_inside(first, closing.line):
            found.append("branch point inside")
        if task.call.in_code:
            found.append("spawned inside code")
        elif any(line is None for line in task.call.carrier.results.values()):
            found.append("another call of the same message has no result")
        return found

    def _has_result(self, task: Task) -> bool:
        """Whether anything tells what came of it; a failure or time-out is told by its status."""
        if any(markers.usable(marker.reply) for marker, _ in task.ends):
            return True
        closing = task.ends[0][0].notice
        return closing.format == markers.DOCUMENT or task.state.value not in ("completed_ok", "completed_unknown")

    def _heard(self, line: int) -> bool:
        """Whether the agent has reacted to what stands there; until then the message stays (`--keep-last 0`: goes)."""
        return self._keep_last == 0 or len(self._passes.turns) > bisect_right(self._passes.turns, line)

    def _branches_inside(self, first: int, last: int) -> bool:
        return any(
            first < line <= last or (parent is not None and first <= parent < last)
            for line, parent in self._jumps.items()
        )

    def of(self, index: int) -> Removal:
        """The removal of the task with that index; empty when it is not folded."""
        return self._removal(index) if self.reasons[index] is None else Removal()

    def pieces(self, index: int) -> Removal | None:
        """What belongs to a closed task, foldable or not (the base of its token count); None while it is open."""
        return self._removal(index) if self._tasks[index].ends else None

    def _removal(self, index: int) -> Removal:
        task = self._tasks[index]
        calls = [task.call, *self._polls.get(index, ())]
        lines = {call.answer_line for call in calls if call.answer_line is not None}
        lines.update(line for call in calls for line in call.nested)
        shared = {}
        for marker, _ in task.ends:
            spoken = self._speakers[marker.line]
            if not marker.removable or None in spoken or not self._heard(marker.line):
                continue
            owners = tuple(sorted(owner for owner in spoken if owner is not None))
            if all(self.reasons[owner] is None for owner in owners if owner != index):
                lines.add(marker.line)
                if len(owners) > 1:
                    shared[marker.line] = owners
        found = tuple(sorted((call.carrier.line, call.block) for call in calls))
        return Removal(tuple(sorted(lines)), found, self._card_parent(task.call), tuple(sorted(shared.items())))

    def counted(self, index: int) -> list[tuple[int, int | None]] | None:
        """What to count for a closed task as (line, block), block None for the whole entry and REST for the blocks
        of a message beside its tool calls. What several tasks share is counted for the first of them only.
        """
        removal = self.pieces(index)
        if removal is None:
            return None
        shared = dict(removal.shared)
        found: list[tuple[int, int | None]] = [
            (line, None) for line in removal.lines if shared.get(line, (index,))[0] == index
        ]
        found.extend(removal.blocks)
        task = self._tasks[index]
        for call in (task.call, *self._polls.get(index, ())):
            if not call.carrier.has_words and self._is_first_of_emptied(call, set(removal.blocks)):
                found.append((call.carrier.line, REST))
        return found

    def _is_first_of_emptied(self, call: Call, own: set[tuple[int, int]]) -> bool:
        """Whether all calls of the message go, and this is the first of them."""
        line = call.carrier.line
        going = all((line, block) in own or (line, block) in self._going for block in call.carrier.results)
        return going and call.block == min(call.carrier.results, default=call.block)

    def _card_parent(self, call: Call) -> int | None:
        """The entry under which the card goes: see the rule "Where the card goes"."""
        line = call.carrier.line
        kept = [result for block, result in call.carrier.results.items() if (line, block) not in self._going]
        last = max((result for result in kept if result is not None), default=None)
        if last is not None:
            return last
        return line if call.carrier.has_words else self.parent_of(line)

    def parent_of(self, line: int) -> int | None:
        """The line of an entry's parent; None for a root."""
        if line in self._jumps:
            return self._jumps[line]
        lines = self._passes.chain.lines
        place = bisect_left(lines, line)
        return lines[place - 1] if place > 0 else None


def _speakers(tasks: Sequence[Task], orphans: Sequence[Marker]) -> Mapping[int, set[int | None]]:
    """For each line with markers the tasks that it speaks of; None stands for a child that is not in this source."""
    found: dict[int, set[int | None]] = {}
    for index, task in enumerate(tasks):
        for marker, _ in task.ends:
            found.setdefault(marker.line, set()).add(index)
    for marker in orphans:
        found.setdefault(marker.line, set()).add(None)
    return found


def _polls_of(tasks: Sequence[Task], polls: Sequence[Call]) -> dict[int, list[Call]]:
    """Answered looks at exactly one child, made between its spawn and its end, by task index."""
    names: dict[str, set[int]] = {}
    for index, task in enumerate(tasks if polls else ()):
        for name in (task.child_key, task.run_id, task.label, task.task_name):
            if name:
                names.setdefault(name, set()).add(index)
    found: dict[int, list[Call]] = {}
    for poll in polls:
        meant: set[int] = set().union(*(names.get(name, set()) for name in poll.names))
        if len(meant) != 1 or poll.answer_line is None:
            continue
        (index,) = meant
        task = tasks[index]
        if task.ends and task.call.carrier.line < poll.carrier.line < task.ends[0][0].line:
            found.setdefault(index, []).append(poll)
    return found


def _going_blocks(
    tasks: Sequence[Task], polls: Mapping[int, list[Call]], reasons: Sequence[str | None]
) -> set[tuple[int, int]]:
    """All tool-call blocks that go when everything foldable is folded."""
    return {
        (call.carrier.line, call.block)
        for index, task in enumerate(tasks)
        if reasons[index] is None
        for call in (task.call, *polls.get(index, ()))
    }
