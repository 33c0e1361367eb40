"""Which marker ends which sub-task (lifecycles §3.3 and §3.4). Pure.

The order is child session key, run id, child session id, name; never the order of lines alone. A marker that names a
child which is not here is a completion without spawn, even when a label would fit. A session id names a child only
where its key is known: from another marker, or from the index beside the transcript.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from openclaw_cli.lifecycles import blocks, markers
from openclaw_cli.lifecycles.facts import Call, Marker
from openclaw_cli.lifecycles.records import Completion, Spawn, SpawnResult, State

_SETTLE_TITLE_CHARS = 256


@dataclass(slots=True)
class Task:
    """One spawn with everything that was found to belong to it; `ends` are markers with how each was matched."""

    call: Call
    ends: list[tuple[Marker, str]] = field(default_factory=list)

    @property
    def accepted(self) -> bool:
        """Whether the spawn was accepted, so that an end can be expected."""
        return self.call.answer is not None and self.call.answer.verdict == "accepted"

    @property
    def child_key(self) -> str | None:
        """The child's session key, when the spawn was accepted and told it."""
        return self.call.answer.child_key if self.accepted and self.call.answer else None

    @property
    def run_id(self) -> str | None:
        """The child's run id, when the spawn was accepted and told it."""
        return self.call.answer.run_id if self.accepted and self.call.answer else None

    @property
    def label(self) -> str | None:
        """The name that the agent gave."""
        return blocks.text_field(self.call.request.arguments, "label")

    @property
    def task_name(self) -> str | None:
        """The `taskName` of the later versions."""
        return blocks.text_field(self.call.request.arguments, "taskName", "task_name")

    def names(self) -> set[str]:
        """The normalised names under which a marker may speak of it."""
        given = (self.label, self.task_name, self.call.task)
        return {normal_name(name) for name in given if name} | {
            normal_name(name[:_SETTLE_TITLE_CHARS]) for name in given if name
        }

    @property
    def state(self) -> State:
        """Where it stands; of several markers the last one that tells an outcome decides."""
        if self.ends:
            told = [marker.notice for marker, _ in self.ends if marker.notice.status is not None]
            return State(f"completed_{told[-1].outcome if told else 'unknown'}")
        if self.call.answer is None:
            return State.PENDING
        verdicts = {"accepted": State.ACCEPTED, "forbidden": State.SPAWN_FORBIDDEN, "error": State.SPAWN_ERROR}
        return verdicts[self.call.answer.verdict]


def normal_name(name: str) -> str:
    """A label, task name or task text as it is compared: white space collapsed, case folded, quotes off."""
    return " ".join(name.split()).strip("'\"`").casefold()


class Matcher:
    """Gives each marker of one source to its task. `child_sessions` gives session id → session key when asked."""

    def __init__(self, calls: Sequence[Call], child_sessions: Callable[[], Mapping[str, str]] | None = None) -> None:
        self.tasks = [Task(call) for call in calls]
        self.orphans: list[Marker] = []
        self._ask = child_sessions
        self._child_sessions: dict[str, str] = {}
        self._by_key: dict[str, list[Task]] = {}
        self._by_run: dict[str, list[Task]] = {}
        for task in self.tasks:
            if task.child_key:
                self._by_key.setdefault(task.child_key, []).append(task)
            if task.run_id:
                self._by_run.setdefault(task.run_id, []).append(task)

    def match(self, found: Sequence[Marker]) -> None:
        """Match markers in line order; afterwards `tasks` hold their ends, `orphans` those of other files."""
        for marker in found:
            notice = marker.notice
            if notice.key and notice.session_id:
                self._child_sessions.setdefault(notice.session_id, notice.key)
        index = 0
        while index < len(found):
            stop = index + 1
            if found[index].notice.format == markers.SETTLE:
                while stop < len(found) and found[stop].line == found[index].line:
                    stop += 1
                self._match_batch(found[index:stop])
            else:
                self._match_one(found[index])
            index = stop

    def _match_one(self, marker: Marker) -> None:
        notice = marker.notice
        key = notice.key or self._key_of_session(notice.session_id)
        how = "childSessionKey" if notice.key else "sessionId"
        task = self._pick(self._by_key.get(key or "", ()), marker)
        if task is None and notice.run_id:
            how, task = "runId", self._pick(self._by_run.get(notice.run_id, ()), marker)
        if task is None and notice.trusted:
            how, task = "label", self._named(marker)
        if task is not None:
            if notice.session_id and task.child_key:
                # The same message may come again; it must not end another task of the same name.
                self._child_sessions.setdefault(notice.session_id, task.child_key)
            task.ends.append((marker, how))
        elif notice.trusted and notice.format != markers.DOCUMENT:
            self.orphans.append(marker)

    def _key_of_session(self, session_id: str | None) -> str | None:
        if session_id is None:
            return None
        if session_id not in self._child_sessions and self._ask is not None:
            self._child_sessions = {**self._ask(), **self._child_sessions}
            self._ask = None
        return self._child_sessions.get(session_id)

    def _pick(self, tasks: Sequence[Task], marker: Marker) -> Task | None:
        """Of several tasks of one child: the one of that run, else the oldest open one, else the latest."""
        before = [task for task in tasks if task.call.carrier.line < marker.line]
        same_run = [task for task in before if marker.notice.run_id and task.run_id == marker.notice.run_id]
        unended = [task for task in before if not task.ends]
        return same_run[0] if same_run else unended[0] if unended else before[-1] if before else None

    def _named(self, marker: Marker) -> Task | None:
        """The oldest open accepted task of that name; the document's form needs exactly one."""
        notice = marker.notice
        if not notice.label:
            return None
        name = normal_name(notice.label)
        fitting = [task for task in self._open_before(marker.line) if name in task.names()]
        if notice.key or self._key_of_session(notice.session_id):
            # The marker names its child; only a task that does not know its child can still be meant.
            fitting = [task for task in fitting if task.child_key is None]
        elif notice.session_id:
            # Nothing tells whose session that is; it is not that of a child whose session is known to be another.
            known = set(self._child_sessions.values())
            fitting = [task for task in fitting if task.child_key not in known]
        if notice.format == markers.DOCUMENT and len(fitting) != 1:
            return None
        return fitting[0] if fitting else None

    def _open_before(self, line: int) -> list[Task]:
        return [task for task in self.tasks if task.accepted and not task.ends and task.call.carrier.line < line]

    def _match_batch(self, items: Sequence[Marker]) -> None:
        """A settle message: its runs name the tasks, its sections stand in spawn order with a title each."""
        line = items[0].line
        runs = items[0].notice.runs
        known = [self._by_run[run][0] for run in runs if run in self._by_run]
        known = sorted((task for task in known if task.call.carrier.line < line), key=lambda task: _place(task.call))
        if len(known) == len(items) == len(runs):
            pairs = _by_title_then_order(known, items)
            for task, marker in pairs:
                task.ends.append((marker, "runId"))
            return
        for marker in items:
            titled = [task for task in known if _has_title(task, marker)]
            if titled:
                known.remove(titled[0])
                titled[0].ends.append((marker, "runId"))
            elif runs:
                self.orphans.append(marker)
            else:
                self._match_one(marker)


def _place(call: Call) -> tuple[int, int]:
    return call.carrier.line, call.block


def _has_title(task: Task, marker: Marker) -> bool:
    label = marker.notice.label
    return label is not None and normal_name(label) in task.names()


def _by_title_then_order(tasks: list[Task], items: Sequence[Marker]) -> list[tuple[Task, Marker]]:
    """Pairs of equal title first (in order), what is left over in order."""
    left = list(tasks)
    pairs: list[tuple[Task, Marker]] = []
    untitled = []
    for marker in items:
        titled = next((task for task in left if _has_title(task, marker)), None)
        if titled is None:
            untitled.append(marker)
        else:
            left.remove(titled)
            pairs.append((titled, marker))
    return pairs + list(zip(left, untitled, strict=True))


def spawn_of(task: Task) -> Spawn:
    """The public form of a spawn."""
    call, arguments = task.call, task.call.request.arguments
    return Spawn(
        line=call.carrier.line,
        block=call.block,
        entry_id=call.entry_id,
        tool_call_id=call.call_id,
        wrapped_in_tool_call=call.request.wrapped,
        tool_name=call.request.name,
        label=task.label,
        task_name=task.task_name,
        task=call.task,
        agent_id=blocks.text_field(arguments, "agentId", "agent_id"),
        runtime=blocks.text_field(arguments, "runtime"),
        mode=blocks.text_field(arguments, "mode"),
        timestamp=call.timestamp,
    )


def result_of(task: Task) -> SpawnResult | None:
    """The public form of a spawn's result."""
    call = task.call
    if call.answer is None:
        return None
    line = call.answer_line if call.answer_line is not None else call.nested[0]
    return SpawnResult(line, call.answer_entry_id, call.answer.child_key, call.answer.run_id, call.answer.error)


def completion_of(marker: Marker, matched_by: str | None, started_ms: int | None) -> Completion:
    """The public form of a marker; `started_ms` is the time of the spawn."""
    notice = marker.notice
    wall = marker.timestamp_ms - started_ms if marker.timestamp_ms is not None and started_ms is not None else None

    return Completion(
        line=marker.line,
        entry_id=marker.entry_id,
        format=notice.format,
        matched_by=matched_by,
        status=notice.status,
        outcome=notice.outcome,
        stats=notice.stats,
        timestamp=marker.timestamp,
        wall_ms=wall,
        result=marker.reply,
    )
