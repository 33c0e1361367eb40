"""Properties of the scanner on generated transcripts: every era, any order, any amount of other work in between."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

OUTCOMES = st.sampled_from(["ok", "timeout", "error"])
TEXT = st.text(alphabet=st.sampled_from('abc de"\n<>&•:—é🙂\u2028'), min_size=1, max_size=40)
RESULTS = TEXT.filter(lambda text: text.strip() == text)
ERAS = ["event-d", "event-e", "plain", "background", "subagent", "queued", "settle", "reply"]
NOISE = st.lists(st.sampled_from(["work", "chat", "quote", "custom", "tool-quote"]), max_size=3)


@st.composite
def scripts(draw: st.DrawFn) -> list[tuple[str, Any]]:
    """Steps of a conversation: noise, spawns, and for most spawns a completion somewhere behind it."""
    count = draw(st.integers(1, 4))
    plans = [(draw(st.sampled_from(ERAS)), draw(OUTCOMES), draw(RESULTS), draw(st.booleans())) for _ in range(count)]
    order = draw(st.permutations([number for number in range(count) for _ in range(2)]))
    steps: list[tuple[str, Any]] = []
    seen: set[int] = set()
    for number in order:
        steps.extend((kind, None) for kind in draw(NOISE))
        if number not in seen:
            seen.add(number)
            steps.append(("spawn", (number, plans[number])))
        elif plans[number][3]:
            steps.append(("end", (number, plans[number])))
    return steps


def child_of(kit: Any, number: int, plan: tuple[str, str, str, bool]) -> Any:
    return kit.Child(number + 1, label=f'task "{number}"', outcome=plan[1], result=plan[2])


def noise(kit: Any, transcript: Any, kind: str, children: list[Any]) -> None:
    quoted = children[0] if children else kit.Child(77, label="a")
    if kind == "work":
        transcript.other_work(len(transcript.lines))
    elif kind == "chat":
        transcript.user("and now?")
        transcript.assistant("soon")
    elif kind == "quote":
        transcript.user("\n".join("> " + line for line in kit.event(quoted).splitlines()))
        transcript.user(f"they said: subagent '{quoted.label}' completed")
    elif kind == "custom":
        transcript.entry(
            {"type": "custom", "customType": "x", "data": {"runId": f"announce:v1:{quoted.key}:{quoted.run}"}}
        )
    else:
        transcript.assistant(kit.era_e(quoted), kit.call(f"q{len(transcript.lines)}", "read", {"path": "log"}))
        transcript.result(f"q{len(transcript.lines) - 1}", None, text=kit.era_e(quoted))


def end(kit: Any, transcript: Any, era: str, child: Any, *, marked: bool) -> tuple[int, str]:
    """`marked`: the transcript is of an era in which every announcement has a provenance."""
    marks = {"provenance": child.provenance()} if marked else {}
    if era == "settle":
        text, envelope = kit.settle([child])
        return transcript.user(text, **envelope), "settle-batch"
    if era == "reply":
        run = {"runId": f"announce:v1:{child.key}:{child.run}"}
        return transcript.assistant("There it is.", __openclaw=run), "announce-run-reply"
    if era == "queued":
        text = f"[Queued announce messages while agent was busy]\n\n---\nQueued #1\n{kit.just(child, 'subagent')}"
        return transcript.user(text, **marks), "subagent task"
    texts = {"event-d": kit.era_d, "event-e": kit.era_e, "plain": kit.plain}
    if era in texts:
        return transcript.user(texts[era](child), **marks), "plain" if era == "plain" else "event"
    return transcript.user(kit.just(child, era), **marks), f"{era} task"


def build(kit: Any, steps: list[tuple[str, Any]], *, with_noise: bool) -> tuple[Any, dict[int, dict[str, Any]]]:
    """The transcript, and for each child what must be found of it."""
    transcript = kit.Transcript()
    labels: dict[int, dict[str, Any]] = {}
    children: list[Any] = []
    marked = any(kind == "end" and detail[1][0] in ("settle", "reply") for kind, detail in steps)
    for kind, detail in steps:
        if kind == "spawn":
            child = child_of(kit, *detail)
            children.append(child)
            spawn, result = transcript.spawn(child)
            labels[detail[0]] = {"spawn": spawn, "result": result, "state": "accepted", "answer": None, "end": None}
        elif kind == "end":
            child = child_of(kit, *detail)
            line, form = end(kit, transcript, detail[1][0], child, marked=marked)
            told = "unknown" if form == "announce-run-reply" else child.outcome
            answer = "There it is." if form == "announce-run-reply" else child.result
            labels[detail[0]] |= {"state": f"completed_{told}", "answer": answer, "end": (line, form)}
        elif with_noise:
            noise(kit, transcript, kind, children)
    transcript.assistant("done")
    return transcript, labels


def found_in(kit: Any, transcript: Any) -> list[dict[str, Any]]:
    return [
        {
            "spawn": life.spawn.line,
            "result": life.result.line,
            "state": str(life.state),
            "answer": life.answer,
            "end": (life.completion.line, life.completion.format) if life.completion else None,
        }
        for life in kit.scan(transcript).lifecycles
    ]


@given(steps=scripts())
def test_labels_are_reproduced_whatever_lies_between(kit: Any, steps: list[tuple[str, Any]]) -> None:
    """Each child has the state, the lines, the format and the answer that the generator wrote."""
    transcript, labels = build(kit, steps, with_noise=True)
    assert list(labels.values()) == found_in(kit, transcript)
    assert () == kit.scan(transcript).completions_without_spawn


@given(steps=scripts())
def test_other_entries_change_nothing_but_lines(kit: Any, steps: list[tuple[str, Any]]) -> None:
    """With and without unrelated entries, quotations included, the same states, formats and answers are found."""
    bare, noisy = (
        [
            {**row, "spawn": 0, "result": 0, "end": row["end"] and row["end"][1]}
            for row in found_in(kit, build(kit, steps, with_noise=with_noise)[0])
        ]
        for with_noise in (False, True)
    )
    assert bare == noisy


@given(steps=scripts())
def test_removals_keep_calls_with_their_results(kit: Any, steps: list[tuple[str, Any]]) -> None:
    """What goes are whole pairs and announcements: no result loses its call, no call its result, no person a word."""
    transcript, _ = build(kit, steps, with_noise=True)
    removals = [life.removal for life in kit.scan(transcript).lifecycles]
    gone = {line for removal in removals for line in removal.lines}
    blocks = {block for removal in removals for block in removal.blocks}
    calls, results = set(), set()
    for line, raw in enumerate(transcript.lines, 1):
        message = json.loads(raw).get("message") or {}
        if message.get("role") == "assistant":
            assert line not in gone
            kept = [b for n, b in enumerate(message["content"]) if b["type"] == "toolCall" and (line, n) not in blocks]
            calls.update(block["id"] for block in kept)
        elif message.get("role") == "toolResult" and line not in gone:
            results.add(message["toolCallId"])
        elif message.get("role") == "user" and line in gone:
            text = message["content"][0]["text"]
            assert "task" in text
            assert not text.startswith((">", "and now", "they said"))
    assert calls == results


@given(data=st.binary(max_size=400))
def test_any_bytes(kit: Any, data: bytes) -> None:
    """Whatever stands in the file, the scan ends with a report."""
    transcript = kit.Transcript()
    transcript.tail = data
    assert () == kit.scan(transcript, count_tokens=True).lifecycles
