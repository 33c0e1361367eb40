"""Whole transcripts through the scanner: the real program's golden file, the hostile case, every era and shape."""

from __future__ import annotations

import json
from typing import Any

import pytest

from openclaw_cli.lifecycles import facts, markers
from openclaw_cli.lifecycles.scan import NOT_OPENCLAW


def test_golden_labels_are_reproduced_field_by_field(kit: Any) -> None:
    """Spawn, result, completion, repeats, state, range and overlap equal the label file of the real program's run."""
    labels = json.loads((kit.fixtures / "spawndirect.labels.json").read_text())
    found = kit.scan(kit.fixtures / "spawndirect.jsonl")
    assert labels["records"] == found.records
    assert [] == list(found.completions_without_spawn)
    expected, actual = [], []
    for label, lifecycle in zip(labels["lifecycles"], found.lifecycles, strict=True):
        del label["parentOutputTokensInRange"], label["spawn"]["taskSha256"], label["spawn"]["taskChars"]
        label["overlaps"], label["entries"] = label.pop("overlapsOtherLifecycles"), label.pop("rangeEntries")
        expected.append(label)
        document = lifecycle.as_json()
        actual.append({key: document[key] for key in label})
    assert expected == actual


def test_hostile_case_as_its_page_says(kit: Any) -> None:
    """Same labels, a refused spawn, a repeat, a lost answer, a quotation, a ghost, a compaction, a late time-out."""
    path = kit.fixtures / "29-lifecycle-mess.jsonl"
    found = kit.scan(path)
    one, two, refused, four = found.lifecycles
    assert ("completed_ok", 1, "completion not answered yet") == (one.state, len(one.repeats), one.reason)
    assert ("completed_timeout", 18) == (two.state, two.completion.line)
    assert "compaction between spawn and completion" in two.reason
    assert ("spawn_error", None) == (refused.state, refused.completion)
    assert "completed_ok" == four.state
    assert "no usable result" in four.reason
    assert [15] == [ghost.line for ghost in found.completions_without_spawn]
    assert [False] * 4 == [lifecycle.foldable for lifecycle in found.lifecycles]
    assert [True, False, False, False] == [life.foldable for life in kit.scan(path, keep_last=0).lifecycles]


def test_hostile_case_removes_calls_with_their_results(kit: Any) -> None:
    """The card of the first child goes below the last result that its message keeps; both its notices go."""
    removal = kit.scan(kit.fixtures / "29-lifecycle-mess.jsonl", keep_last=0).lifecycles[0].removal
    assert ((4, 11, 12), ((3, 1),), 6, ()) == (removal.lines, removal.blocks, removal.card_parent_line, removal.shared)


ERAS = [
    ("event", "childSessionKey", lambda kit, c: (kit.era_d(c), {})),
    ("event", "childSessionKey", lambda kit, c: (kit.era_e(c), {"provenance": c.provenance()})),
    ("plain", "childSessionKey", lambda kit, c: (kit.plain(c), {})),
    ("background task", "childSessionKey", lambda kit, c: (kit.just(c, "background"), {})),
    ("subagent task", "childSessionKey", lambda kit, c: (kit.just(c, "subagent"), {})),
    ("subagent task", "label", lambda kit, c: (kit.just(c, "subagent", named=False), {})),
    (
        "subagent task",
        "childSessionKey",
        lambda kit, c: (kit.just(c, "subagent", named=False), {"provenance": c.provenance()}),
    ),
    (
        "system message",
        "sessionId",
        lambda kit, c: (
            f"[System Message] [sessionId: {c.session}] " + kit.just(c, "subagent", "Result", named=False),
            {},
        ),
    ),
    ("settle-batch", "runId", lambda kit, c: kit.settle([c])),
    ("document", "label", lambda kit, c: (f"subagent '{c.label}' completed", {"provenance": c.provenance("other")})),
]


CASES = [
    pytest.param(*era, outcome, prefix, id=f"{era[0]}-{era[1]}-{outcome}-{'dated' if prefix else 'bare'}-{number}")
    for number, era in enumerate(ERAS)
    for outcome in ("ok", "timeout", "error")
    for prefix in ("", "[Fri 2026-02-13 12:01 GMT+8] ")
    # The document's form knows success only, and is the whole text.
    if era[0] != "document" or (outcome == "ok" and not prefix)
]


@pytest.mark.parametrize(("form", "matched_by", "write", "outcome", "prefix"), CASES)
def test_every_era(kit: Any, form: str, matched_by: str, write: Any, outcome: str, prefix: str) -> None:
    """A completion in each era's wording closes its sub-task with the right outcome, and is folded once answered."""
    child = kit.Child(7, label='fix "it" <now>' if form != "document" else "fix-it", outcome=outcome)
    transcript = kit.Transcript()
    transcript.user("please do it")
    spawn_line, result_line = transcript.spawn(child)
    transcript.other_work(1)
    text, envelope = write(kit, child)
    end = transcript.user(prefix + text, **envelope)
    transcript.assistant("It is done.")
    found = kit.scan(transcript, child_sessions=lambda: {child.session: child.key})
    (life,) = found.lifecycles
    assert (form, matched_by, end) == (life.completion.format, life.completion.matched_by, life.completion.line)
    assert f"completed_{outcome}" == life.state
    assert (True, None) == (life.foldable, life.reason)
    assert ((result_line, end), ((spawn_line, 0),)) == (life.removal.lines, life.removal.blocks)
    assert ("It is done." if form == "document" else child.result) == life.answer
    assert () == found.completions_without_spawn


def test_statistics(kit: Any) -> None:
    """Runtime and the child's tokens come out of the statistics line; `n/a` leaves them out."""
    child = kit.Child(1, label="a")
    transcript = kit.Transcript()
    transcript.spawn(child)
    transcript.user(kit.era_d(child))
    transcript.user(kit.just(child, "background"))
    (life,) = kit.scan(transcript).lifecycles
    assert {"runtimeMs": 106_000, "totalTokens": 53_800, "inputTokens": 37_300, "outputTokens": 16_500} == dict(
        life.completion.stats
    )
    assert 53_800 == life.child_tokens
    assert {
        "runtimeMs": 106_000,
        "sessionKey": child.key,
        "sessionId": child.session,
        "transcript": "/t.jsonl",
    } == dict(life.repeats[0].stats)


def test_announce_run_reply_stays(kit: Any) -> None:
    """Format G: the reply is the completion and stays, what came before goes; its run is told once."""
    child = kit.Child(3, label="a")
    mark = {"__openclaw": {"runId": f"announce:v1:{child.key}:{child.run}"}}
    transcript = kit.Transcript()
    spawn_line, result_line = transcript.spawn(child)
    end = transcript.assistant(kit.call("x", "exec", {}), **mark)
    transcript.result("x", None, text="ok")
    transcript.assistant("The child is done.", **mark)
    transcript.user("thanks")
    transcript.assistant("welcome")
    (life,) = kit.scan(transcript).lifecycles
    assert ("announce-run-reply", "childSessionKey", end) == (
        life.completion.format,
        life.completion.matched_by,
        life.completion.line,
    )
    assert ("completed_unknown", (), "The child is done.") == (life.state, life.repeats, life.answer)
    assert ((result_line,), ((spawn_line, 0),)) == (life.removal.lines, life.removal.blocks)


def test_active_wake_matches_by_its_envelope(kit: Any) -> None:
    """Format H without a key in the text: key and run id of the idempotency key match it."""
    child = kit.Child(3)
    transcript = kit.Transcript()
    transcript.spawn(child)
    text = kit.era_e(child).replace(child.key, "unknown")
    transcript.user(text, idempotencyKey=f"announce:v1:{child.key}:{child.run}:active-wake")
    (life,) = kit.scan(transcript).lifecycles
    assert ("event", "childSessionKey") == (life.completion.format, life.completion.matched_by)


def test_settle_batch_of_several(kit: Any) -> None:
    """Sections go to their children by run id and title, whatever the order of the runs; a foreign run is an orphan."""
    children = [kit.Child(9, label="x"), kit.Child(2, label="y", outcome="killed"), kit.Child(5, outcome="timeout")]
    ghost = kit.Child(4, label="ghost")
    transcript = kit.Transcript()
    for child in children:
        transcript.spawn(child)
    text, envelope = kit.settle(children)
    line = transcript.user(text, **envelope)
    foreign_text, foreign = kit.settle([ghost])
    transcript.user(foreign_text, **foreign)
    transcript.assistant("all done")
    found = kit.scan(transcript)
    assert ["completed_ok", "completed_killed", "completed_timeout"] == [life.state for life in found.lifecycles]
    assert {("settle-batch", "runId", line)} == {
        (life.completion.format, life.completion.matched_by, life.completion.line) for life in found.lifecycles
    }
    assert [((line, (0, 1, 2)),)] * 3 == [life.removal.shared for life in found.lifecycles]
    assert [line + 1] == [orphan.line for orphan in found.completions_without_spawn]


def test_first_marker_closes_last_outcome_counts(kit: Any) -> None:
    """A time-out followed by the late result: the range ends at the first, the state is that of the last."""
    child = kit.Child(1, outcome="timeout")
    late = kit.Child(1, outcome="ok")
    transcript = kit.Transcript()
    transcript.spawn(child)
    first = transcript.user(kit.era_d(child))
    transcript.user(kit.era_d(late))
    (life,) = kit.scan(transcript).lifecycles
    assert (first, "timeout", "completed_ok") == (life.completion.line, life.completion.outcome, life.state)
    assert ["ok"] == [repeat.outcome for repeat in life.repeats]


def test_several_events_in_one_message(kit: Any) -> None:
    """Queued announcements and separated events are told apart; the message goes only when all its tasks are folded."""
    one, two, three = kit.Child(1, label="a"), kit.Child(2, label="b"), kit.Child(3, label="c")
    transcript = kit.Transcript()
    for child in (one, two, three):
        transcript.spawn(child)
    queue = "[Queued announce messages while agent was busy]"
    line = transcript.user(
        f"{queue}\n\n---\nQueued #1\n{kit.just(one, 'subagent')}\n\n---\nQueued #2\n{kit.just(two, 'background')}"
    )
    both = transcript.user(f"{kit.era_d(three)}\n\n---\n\n{kit.event(kit.Child(8, label='ghost'))}")
    transcript.assistant("ok")
    found = kit.scan(transcript)
    assert [line, line, both] == [life.completion.line for life in found.lifecycles]
    assert ["subagent task", "background task", "event"] == [life.completion.format for life in found.lifecycles]
    assert [one.result, two.result, three.result] == [life.answer for life in found.lifecycles]
    assert [True, True, False] == [life.completion.line in life.removal.lines for life in found.lifecycles]
    assert [both] == [orphan.line for orphan in found.completions_without_spawn]


def test_long_prefix_multiline_task_and_quotes_in_the_result(kit: Any) -> None:
    """Nothing is anchored: a preface of thousands of characters, a task of many lines, a result that quotes markers."""
    inner = kit.Child(66, label="inner")
    child = kit.Child(1, task="do this\nsource: the web\ntype: essay\nthen that", result=kit.just(inner, "background"))
    transcript = kit.Transcript()
    transcript.spawn(child)
    preface = "Note: Reference memory below may be stale.\n" + "remember the milk\n" * 500
    line = transcript.user(preface + "[Fri 2026-02-13 12:01 GMT+8] " + kit.era_d(child))
    transcript.assistant("ok")
    found = kit.scan(transcript)
    (life,) = found.lifecycles
    assert (line, child.result, ()) == (life.completion.line, life.answer, found.completions_without_spawn)
    assert line in life.removal.lines


PASTED = {
    "before": "Here is what came in, please check it.\n{}",
    "behind": "{}\nBitte erklären!",
    "paragraph behind": "{}\n\nBitte erklären!",
    "around": "vorher {} nachher",
    "behind a preface": "Note: Reference memory below.\n<memory>\n- a\n</memory>\n\nWas heißt das hier?\n\n{}",
}


@pytest.mark.parametrize("quote", PASTED.values(), ids=PASTED)
@pytest.mark.parametrize("form", ["era_d", "era_e", "plain", "just"])
def test_pasted_block_with_words_of_a_person_ends_nothing(kit: Any, quote: str, form: str) -> None:
    """A block without provenance with any other word around it is a quotation: the running sub-task stays open."""
    child = kit.Child(1, label="a")
    block = kit.just(child, "subagent") if form == "just" else getattr(kit, form)(child)
    transcript = kit.Transcript()
    transcript.spawn(child)
    transcript.user(quote.format(block))
    transcript.assistant("ok")
    found = kit.scan(transcript)
    assert (["accepted"], ()) == ([life.state for life in found.lifecycles], found.completions_without_spawn)


def test_pasted_block_beside_an_image_ends_nothing(kit: Any) -> None:
    """An image in the same message is a person's; with provenance the message ends the sub-task and stays."""
    child = kit.Child(1, label="a")
    states = []
    for envelope in ({}, {"provenance": child.provenance()}):
        transcript = kit.Transcript()
        transcript.spawn(child)
        image = {"type": "image", "data": "AAAA", "mimeType": "image/png"}
        content = [{"type": "text", "text": kit.era_d(child)}, image]
        line = transcript.message({"role": "user", "content": content, **envelope})
        transcript.assistant("ok")
        (life,) = kit.scan(transcript).lifecycles
        states.append(life.state)
        assert line not in life.removal.lines
    assert ["accepted", "completed_ok"] == states


def test_whole_pasted_block_ends_nothing_where_announcements_are_marked(kit: Any) -> None:
    """One announcement with provenance, or a session file of 2026.9, tells that unmarked blocks are quotations."""
    one, two = kit.Child(1, label="a"), kit.Child(2, label="b")
    transcript = kit.Transcript()
    transcript.spawn(one)
    transcript.spawn(two)
    transcript.user(kit.era_d(one))
    transcript.user(kit.era_d(two), provenance=two.provenance())
    transcript.assistant("ok")
    assert ["accepted", "completed_ok"] == [life.state for life in kit.scan(transcript).lifecycles]
    late = kit.Transcript(lines=[b'{"type":"session","version":4,"id":"s"}'])
    late.spawn(one)
    late.user(kit.era_d(one))
    assert ["accepted"] == [life.state for life in kit.scan(late).lifecycles]


def test_tagged_memory_preface_is_part_of_the_injected_form(kit: Any) -> None:
    """Behind the closing tag of a memory plugin's preface the announcement is still the program's own."""
    child = kit.Child(1, label="a")
    preface = "Note: Reference memory below.\n\n```text\n<memory>\n- a\n</memory>\n```\n\n**Note**: for memory.\n\n"
    transcript = kit.Transcript()
    transcript.spawn(child)
    line = transcript.user(preface + "[Fri 2026-02-13 12:01 GMT+8] " + kit.era_d(child))
    transcript.assistant("ok")
    (life,) = kit.scan(transcript).lifecycles
    assert (line, True) == (life.completion.line, line in life.removal.lines)


def system_message(kit: Any, child: Any, session: str | None = None) -> str:
    """Era C: the child's session id, its name, no key."""
    return f"[System Message] [sessionId: {session or child.session}] " + kit.just(
        child, "subagent", "Result", named=False
    )


PREFIXES = [
    "",
    "[Fri 2026-02-13 12:01 GMT+8] ",
    "[Queued announce messages while agent was busy]\n\n---\nQueued #1\n",
    "Note: Reference memory below is context.\n" + "- an old remark\n" * 300 + "\n",
]


@pytest.mark.parametrize("prefix", PREFIXES, ids=["bare", "dated", "queued", "memory"])
def test_system_message_without_a_known_session_matches_by_name(kit: Any, prefix: str) -> None:
    """Era C, nothing tells the key of the session id: the oldest open accepted spawn of that name, then its repeat."""
    refused, first, second = (kit.Child(number, label="Fix  It") for number in (1, 2, 3))
    transcript = kit.Transcript()
    transcript.assistant(kit.call(refused.call, "sessions_spawn", refused.arguments))
    transcript.result(refused.call, {"status": "error", "error": "no", "childSessionKey": refused.key})
    for child in (first, second):
        transcript.spawn(child)
    told = kit.Child(9, label="fix it")
    end = transcript.user(prefix + system_message(kit, told))
    again = transcript.user(prefix + system_message(kit, told))
    transcript.assistant("Good.")
    error, one, two = kit.scan(transcript).lifecycles
    assert ("spawn_error", "completed_ok", "accepted") == (error.state, one.state, two.state)
    assert ("system message", "label", end) == (one.completion.format, one.completion.matched_by, one.completion.line)
    assert ([again], True) == ([repeat.line for repeat in one.repeats], one.foldable)


def test_system_message_of_another_child_ends_nothing(kit: Any) -> None:
    """The index knows the session as that of a child which is not here, or another one for the only child that fits."""
    child, other = kit.Child(1, label="a"), kit.Child(2, label="a")
    for known in ({other.session: other.key}, {child.session: child.key}):
        transcript = kit.Transcript()
        transcript.spawn(child)
        line = transcript.user(system_message(kit, other))
        found = kit.scan(transcript, child_sessions=lambda known=known: known)
        assert "accepted" == found.lifecycles[0].state
        assert [line] == [orphan.line for orphan in found.completions_without_spawn]


SYSTEM_QUOTES = [
    "Why did I get this? {}",
    "I got this:\n\n{}",
    "I got this:\n---\n{}",
    "> {}",
    "Note: {}",
    "Look\n\n---\n\nQueued #1\n{}",
]


@pytest.mark.parametrize("quote", SYSTEM_QUOTES, ids=range(len(SYSTEM_QUOTES)))
@pytest.mark.parametrize("known", [True, False], ids=["known", "unknown"])
def test_quoted_system_message_changes_nothing(kit: Any, quote: str, known: bool) -> None:
    """Era C in the middle of a person's words ends nothing, even when its session is that of an open sub-task."""
    child = kit.Child(1, label="a")
    transcript = kit.Transcript()
    transcript.spawn(child)
    transcript.user(quote.format(system_message(kit, child)))
    transcript.assistant(system_message(kit, child))
    found = kit.scan(transcript, child_sessions=lambda: {child.session: child.key} if known else {})
    assert (["accepted"], ()) == ([life.state for life in found.lifecycles], found.completions_without_spawn)


QUOTES = [
    "Someone wrote: subagent 'a' completed. That is only a quotation.",
    "subagent 'a' completed",
    'He said: A background task "a" just completed successfully. Really?',
    'A subagent task "a" just completed successfully.',
    "> [Internal task completion event]\n> source: subagent\n> session_key: {key}",
    "What does [Internal task completion event] mean?\nsource: subagent is in the log",
    "Look:\n\n    [Internal task completion event]\n    source: subagent\n    type: subagent task\n    status: ok",
    "Child completion results:\n\n1. Child task (x):\n<prompt-data>\na\n</prompt-data>\nstatus: ok",
    "A background task completed. Use this result to reply to the user in your normal assistant voice.",
    "From the log:\n[Internal task completion event]\nsource: subagent\nsession_key: {key}\nsession_id: x\n"
    "type: subagent task\ntask: a\nstatus: completed successfully\n",
]


@pytest.mark.parametrize("quote", QUOTES, ids=range(len(QUOTES)))
def test_quotations_change_nothing(kit: Any, quote: str) -> None:
    """Marker words in a person's message, in an answer or in a tool's output close nothing."""
    child = kit.Child(1, label="a")
    text = quote.replace("{key}", child.key)
    transcript = kit.Transcript()
    transcript.spawn(child)
    transcript.user(text)
    transcript.assistant(text, kit.call("e", "exec", {"command": text}))
    transcript.result("e", {"text": text}, text=text)
    found = kit.scan(transcript)
    assert (["accepted"], ()) == ([life.state for life in found.lifecycles], found.completions_without_spawn)


def test_owner_marked_message_is_never_a_marker(kit: Any) -> None:
    """What 2026.9 marks as typed by the owner may quote a whole block, wrapper included."""
    child = kit.Child(1, label="a")
    transcript = kit.Transcript()
    transcript.spawn(child)
    transcript.user(kit.era_e(child), __openclaw={"senderIsOwner": True})
    (life,) = kit.scan(transcript).lifecycles
    assert "accepted" == life.state


def test_what_is_no_completion(kit: Any) -> None:
    """Cron jobs, media tasks, wakes and messages between sessions leave the sub-task open and are no orphans."""
    child = kit.Child(1, label="a")
    transcript = kit.Transcript()
    transcript.spawn(child)
    transcript.user(kit.event(child).replace("source: subagent", "source: cron"), provenance=child.provenance())
    transcript.user(
        kit.event(child).replace("type: subagent task", "type: image generation task"), provenance=child.provenance()
    )
    transcript.user(
        f'[System Message] [sessionId: {child.session}] A cron job "a" just completed successfully.\n\nResult:\nx'
    )
    transcript.user(
        "[Subagent Context] Your prior run ended while waiting for descendant subagent completions.",
        provenance=child.provenance(),
    )
    transcript.user("hello from the child", provenance=child.provenance("sessions_send"))
    transcript.entry(
        {"type": "custom_message", "customType": "openclaw.sessions_yield", "content": "waiting for child"}
    )
    found = kit.scan(transcript)
    assert (["accepted"], ()) == ([life.state for life in found.lifecycles], found.completions_without_spawn)


@pytest.mark.parametrize("role", ["system", "user", "custom_message"])
def test_document_form(kit: Any, role: str) -> None:
    """The document's marker closes exactly one open spawn of that name, from the program's own mouth only."""
    child = kit.Child(1, label="Parser  Task")
    transcript = kit.Transcript()
    transcript.spawn(child)
    text = "subagent 'parser task' completed"
    if role == "custom_message":
        transcript.entry({"type": "custom_message", "customType": "x", "content": text, "display": False})
    else:
        extra = {"provenance": {"kind": "internal_system"}} if role == "user" else {}
        transcript.message({"role": role, "content": text, **extra})
    transcript.assistant("The parser is there.")
    (life,) = kit.scan(transcript).lifecycles
    assert ("document", "label", "completed_ok") == (life.completion.format, life.completion.matched_by, life.state)
    assert ("The parser is there.", True) == (life.answer, life.foldable)


def test_document_form_with_two_of_that_name_is_ambiguous(kit: Any) -> None:
    """Two open spawns of one name: the marker closes neither."""
    transcript = kit.Transcript()
    for number in (1, 2):
        transcript.spawn(kit.Child(number, label="same"))
    transcript.message({"role": "system", "content": "subagent 'same' completed"})
    assert ["accepted", "accepted"] == [life.state for life in kit.scan(transcript).lifecycles]


def test_label_never_beats_a_key(kit: Any) -> None:
    """A marker that names a child which is not here is an orphan, even when its label fits an open spawn."""
    transcript = kit.Transcript()
    transcript.spawn(kit.Child(1, label="same"))
    transcript.user(kit.era_d(kit.Child(2, label="same")))
    found = kit.scan(transcript)
    assert (["accepted"], 1) == ([life.state for life in found.lifecycles], len(found.completions_without_spawn))


def test_overlaps_and_entries(kit: Any) -> None:
    """Ranges are counted in entries, the header left out; overlapping ranges are counted without the own one."""
    one, two, three = kit.Child(1), kit.Child(2), kit.Child(3)
    transcript = kit.Transcript()
    transcript.spawn(one)
    transcript.spawn(two)
    transcript.user(kit.era_d(one))
    transcript.user(kit.era_d(two))
    transcript.spawn(three)
    transcript.user(kit.era_d(three))
    lives = kit.scan(transcript).lifecycles
    assert ([1, 1, 0], [5, 4, 3]) == ([life.overlaps for life in lives], [life.entries for life in lives])


def test_tokens_are_counted_once(kit: Any) -> None:
    """Only closed sub-tasks have a count; a message shared by several is counted for one of them."""
    children = [kit.Child(1, label="a"), kit.Child(2, label="b")]
    transcript = kit.Transcript()
    for child in children:
        transcript.spawn(child)
    transcript.spawn(kit.Child(3, label="open"))
    text, envelope = kit.settle(children)
    transcript.user(text, **envelope)
    transcript.assistant("ok")
    first, second, unfinished = kit.scan(transcript, count_tokens=True).lifecycles
    assert None is unfinished.tokens_removed
    assert first.tokens_removed > 100 > second.tokens_removed > 20
    assert [None] * 3 == [life.tokens_removed for life in kit.scan(transcript).lifecycles]


def test_damage_is_passed_over(kit: Any) -> None:
    """Lines keep their numbers when a damaged one lies between; a torn tail is a warning."""
    child = kit.Child(1)
    transcript = kit.Transcript()
    transcript.spawn(child)
    transcript.lines.append(b'{"type":"message", garbage')
    line = transcript.user(kit.era_d(child))
    transcript.tail = b'{"type":"mess'
    found = kit.scan(transcript)
    (life,) = found.lifecycles
    assert ("completed_ok", line) == (life.state, life.completion.line)
    assert [4] == [damage.line for damage in found.damage if damage.is_error]


def test_other_programs_and_empty_files(kit: Any) -> None:
    """No lifecycles and one warning for another program's lines; nothing at all for an empty file."""
    other = kit.Transcript()
    other.lines = [
        b'{"role":"user","content":"hi"}',
        b'{"role":"assistant","content":"[Internal task completion event]"}',
    ]
    assert ((NOT_OPENCLAW,), 2, ()) == ((found := kit.scan(other)).warnings, found.records, found.lifecycles)
    other.lines = []
    empty = kit.scan(other)
    assert ((), 0) == (empty.warnings, empty.records)


def test_child_transcript_has_no_lifecycles(kit: Any) -> None:
    """The child's own transcript of the real program, aborted by its time limit, spawns nothing."""
    found = kit.scan(kit.fixtures / "aborted-child.jsonl")
    assert ((), ()) == (found.lifecycles, found.warnings)


def test_cheap_look_finds_what_the_full_look_finds(kit: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Skipping texts without a marker word changes no result, on every fixture."""
    quick = [kit.scan(path).as_json() for path in sorted(kit.fixtures.glob("*.jsonl"))]
    monkeypatch.setattr(markers, "may_hold", lambda text: True)
    assert quick == [kit.scan(path).as_json() for path in sorted(kit.fixtures.glob("*.jsonl"))]


def test_very_long_texts_are_cut(kit: Any) -> None:
    """A result of megabytes is kept with its beginning and its end only."""
    child = kit.Child(1, result="begin " + "x" * 3_000_000 + " end")
    transcript = kit.Transcript()
    transcript.spawn(child)
    transcript.user(kit.era_d(child))
    (life,) = kit.scan(transcript).lifecycles
    assert len(life.answer) < 100_000
    assert ("begin", "end") == (life.answer[:5], life.answer[-3:])


def test_time_of_the_message_stands_in_for_that_of_the_entry() -> None:
    """An entry without a timestamp takes its message's, as ISO text."""
    assert ("2026-08-06T07:06:40.000Z", 1786000000000) == facts.timestamp_of({"message": {"timestamp": 1786000000000}})


def test_the_last_status_decides(kit: Any) -> None:
    """A time-out that a late result follows: the status that goes with the outcome is the late one's."""
    child = kit.Child(1, label="a", outcome="timeout")
    transcript = kit.Transcript()
    transcript.spawn(child)
    transcript.user(kit.era_d(child), provenance=child.provenance())
    child.outcome = "error"
    transcript.user(kit.era_d(child), provenance=child.provenance())
    (life,) = kit.scan(transcript).lifecycles
    assert ("completed_error", "failed: exit code 2") == (life.state, life.status)
