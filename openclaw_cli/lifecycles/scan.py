"""The scanner: one streaming read of a source, its sub-task lifecycles as values (lifecycles §1 to §5).

Memory stays flat: a few bytes per entry, small objects per lifecycle. Only for token counts are lines looked at twice,
and only those that a fold would remove.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, BinaryIO, Protocol

from openclaw_cli import jsonl
from openclaw_cli.lifecycles import blocks
from openclaw_cli.lifecycles.facts import Call
from openclaw_cli.lifecycles.matching import Matcher, Task, completion_of, result_of, spawn_of
from openclaw_cli.lifecycles.passes import Passes
from openclaw_cli.lifecycles.records import Lifecycle, SourceScan
from openclaw_cli.lifecycles.removal import Removals
from openclaw_cli.transcript import entries

# Results and companion records of a code call follow it closely, even with many calls at once.
_LOOK_BACK = 400

NOT_OPENCLAW = "not a transcript of OpenClaw: no session header and no entries"


class Source(Protocol):
    """What the scanner needs of `sources.SourceFile`: a name and a stream that can be read from the start again."""

    name: str
    stream: BinaryIO


def scan(
    source: Source,
    *,
    keep_last: int = 1,
    count_tokens: bool = True,
    names: frozenset[str] = blocks.SPAWN_NAMES,
    child_sessions: Callable[[], Mapping[str, str]] | None = None,
    max_line_bytes: int = jsonl.DEFAULT_MAX_LINE_BYTES,
    on_bytes: Callable[[int], None] | None = None,
) -> SourceScan:
    """All lifecycles of one transcript.

    `keep_last`: so many turns of the agent must follow a completion before it may be folded. `names`: the tools that
    start sub-tasks. `child_sessions` gives child session id → child session key, for markers of the eras that name only
    the id; it is asked only when there is one. `on_bytes` hears of each chunk's size. Damaged lines are passed over and
    listed. Raises nothing for what stands in the file.
    """
    passes = Passes(names)
    tally = jsonl.Tally()
    passes.read(
        jsonl.read(
            source.stream,
            file=source.name,
            policy=jsonl.Policy.SCAN,
            tally=tally,
            max_line_bytes=max_line_bytes,
            on_bytes=on_bytes,
        )
    )
    for call, parent in passes.unplaced:
        _place(source, passes, call, parent)
    passes.finish()
    matcher = Matcher(passes.spawns, child_sessions)
    matcher.match(passes.markers)
    removals = Removals(passes, matcher.tasks, matcher.orphans, keep_last)
    pieces = [removals.counted(index) if count_tokens else None for index in range(len(matcher.tasks))]
    counts = _count(source, passes, pieces)
    lifecycles = _lifecycles(passes, matcher.tasks, removals, counts)
    return SourceScan(
        source=source.name,
        records=passes.records,
        lifecycles=lifecycles,
        completions_without_spawn=tuple(completion_of(marker, None, None) for marker in matcher.orphans),
        damage=tuple(tally.damage),
        damage_omitted=tally.damage_omitted,
        warnings=(NOT_OPENCLAW,) if passes.records and not passes.recognised else (),
    )


def _place(source: Source, passes: Passes, spawn: Call, parent: str) -> None:
    """Give a spawn made inside code the line and block of its code call, which stands a little above its record."""
    lines = passes.chain.lines
    place = bisect_left(lines, spawn.carrier.line)
    for line, value in read_lines(source, passes, lines[max(0, place - _LOOK_BACK) : place]):
        for block, call in entries.tool_calls(entries.message_of(value)):
            if call.get("id") == parent:
                spawn.carrier.line, spawn.block, spawn.entry_id = line, block, entries.entry_id(value)


def _lifecycles(
    passes: Passes, tasks: Sequence[Task], removals: Removals, counts: Sequence[int | None]
) -> tuple[Lifecycle, ...]:
    ranges = [(task.call.carrier.line, task.ends[0][0].line) if task.ends else None for task in tasks]
    closed = [span for span in ranges if span]
    starts, ends = sorted(first for first, _ in closed), sorted(last for _, last in closed)
    lines = passes.chain.lines
    found = []
    for index, task in enumerate(tasks):
        started = task.call.timestamp_ms
        completions = [completion_of(marker, how, started) for marker, how in task.ends]
        span, overlaps, inside = ranges[index], None, None
        if span:
            # All that begin before this one ends, without those that ended before it began, and without itself.
            overlaps = bisect_right(starts, span[1]) - bisect_left(ends, span[0]) - 1
            inside = bisect_right(lines, span[1]) - bisect_left(lines, span[0])
        told = [completion.stats["totalTokens"] for completion in completions if "totalTokens" in completion.stats]
        found.append(
            Lifecycle(
                spawn=spawn_of(task),
                result=result_of(task),
                completion=completions[0] if completions else None,
                repeats=tuple(completions[1:]),
                state=task.state,
                overlaps=overlaps,
                entries=inside,
                tokens_removed=counts[index],
                child_tokens=told[-1] if told else None,
                foldable=removals.reasons[index] is None,
                reason=removals.reasons[index],
                removal=removals.of(index),
            )
        )
    return tuple(found)


def _count(
    source: Source, passes: Passes, pieces: Sequence[Sequence[tuple[int, int | None]] | None]
) -> list[int | None]:
    """The o200k tokens of the pieces of each lifecycle, by reading just these lines again; None stays None."""
    wanted: dict[int, list[tuple[int, int | None]]] = {}
    for index, found in enumerate(pieces):
        for line, block in found or ():
            wanted.setdefault(line, []).append((index, block))
    totals = [None if found is None else 0 for found in pieces]
    if not wanted:
        return totals
    from openclaw_cli import tokens

    for line, value in read_lines(source, passes, sorted(wanted)):
        message = value.get("message") if isinstance(value, dict) else None
        if not isinstance(message, dict) or message.get("excludeFromContext") is True:
            continue
        for index, block in wanted[line]:
            counted = sum(map(tokens.count, blocks.visible_text(message, block)))
            totals[index] = (totals[index] or 0) + counted
    return totals


def read_lines(source: Source, passes: Passes, lines: Iterable[int]) -> Iterator[tuple[int, Any]]:
    """The parsed values of some entries, by line number in ascending order."""
    from openclaw_cli import jstext

    table = passes.chain
    for line in lines:
        source.stream.seek(table.offsets[bisect_left(table.lines, line)])
        yield line, jstext.parse(source.stream.readline().rstrip(b"\r\n"))
