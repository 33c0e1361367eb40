"""Checks that follow the events of a session: each with a session that has the fault, and one that has not."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import conversations as talk
import pytest

from openclaw_cli.checks.silent import is_silent, leak_of

NOW_MS = 1_790_000_000_000
Check = Callable[..., dict[str, dict[str, Any]]]


def test_a_whole_session_has_no_finding(state: Any, check: Check) -> None:
    """Calls with results, parents, a silent answer, a fresh total that is right: nothing is found, status 0."""
    story = talk.Conversation()
    story.user()
    story.assistant([talk.call("c1"), talk.call("c2")])
    story.result("c2")
    story.result("c1")
    story.says("NO_REPLY")
    story.says("Here is what NO_REPLY means.")
    state.add(story.rows, totalTokens=14, totalTokensFresh=True, totalTokensVersion=1, contextTokens=200_000)

    assert {} == check(state)


def test_calls_and_results_without_partner(state: Any, check: Check) -> None:
    """Both halves are named by seq and id; a call of a failed turn and a result that comes twice are no halves."""
    story = talk.Conversation()
    story.assistant([talk.call("lost"), talk.call("found")])
    story.result("found")
    story.result("found")
    story.assistant([talk.call("aborted")], stop="aborted")
    story.result("never-called")
    state.add(story.rows)
    found = check(state)

    assert {"call_without_result", "result_without_call"} == set(found)
    assert [{"seq": 1, "toolCallId": "lost"}] == found["call_without_result"]["evidence"]["calls"]
    assert [{"seq": 5, "toolCallId": "never-called"}] == found["result_without_call"]["evidence"]["results"]


def test_a_call_that_still_runs_is_none(state: Any, check: Check) -> None:
    """The last turn of a session that runs may wait for results; an earlier one may not."""
    story = talk.Conversation()
    story.assistant([talk.call("now")])
    state.add(story.rows, status="running")
    assert {} == check(state)
    story.says()
    state.add(story.rows[2:], status="running")

    assert {"call_without_result"} == set(check(state))


def test_parents_that_are_gone_or_come_later(state: Any, check: Check) -> None:
    """Events are named with their parent; a chain that is whole has none."""
    story = talk.Conversation()
    story.user()
    story.user(parent="gone")
    story.user(parent="00000004")
    story.user()
    state.add(story.rows)
    found = check(state)

    assert {"parent_missing", "parent_later"} == set(found)
    assert [{"seq": 2, "eventId": "00000002", "parentId": "gone"}] == found["parent_missing"]["evidence"]["events"]
    assert 4 == found["parent_later"]["evidence"]["events"][0]["parentSeq"]


@pytest.mark.parametrize(("version", "code"), [(2, "transcript_version_old"), (3, None), (4, None)])
def test_a_version_that_the_runtime_refuses(state: Any, check: Check, version: int, code: str | None) -> None:
    """Versions before 3 are named."""
    story = talk.Conversation(version=version)
    story.user()
    state.add(story.rows)

    assert ({code} if code else set()) == set(check(state))


def test_a_stored_transcript_without_header(state: Any, check: Check) -> None:
    """A first event that is no header is named."""
    story = talk.Conversation()
    story.user()
    state.add(story.rows[1:])

    assert {"header_missing"} == set(check(state))


def compacted(gaps: list[int], **compaction: Any) -> talk.Conversation:
    """A session with so many messages before each compaction."""
    story = talk.Conversation()
    for gap in gaps:
        for _ in range(gap):
            story.user()
        values = {"summary": "Sum.", "firstKeptEntryId": "none", "tokensBefore": 150_000, **compaction}
        story.entry("compaction", **values)
    story.user()
    return story


@pytest.mark.parametrize(("gaps", "found"), [([30, 3, 4], True), ([30, 3, 30], False), ([30, 40, 50], False)])
def test_too_many_compactions(state: Any, check: Check, gaps: list[int], found: bool) -> None:
    """Several with few messages between are too many, with the numbers that tell why."""
    state.add(compacted(gaps).rows, contextTokens=200_000)
    result = check(state)

    assert ({"compactions_many"} if found else set()) == set(result)
    if found:
        assert [3, 4] == result["compactions_many"]["evidence"]["messagesBetween"]
        assert 3 == result["compactions_many"]["evidence"]["compactions"]


@pytest.mark.parametrize(("window", "found"), [(16_000, True), (26_666, True), (32_768, False), (200_000, False)])
def test_a_window_that_a_compaction_cannot_free(state: Any, check: Check, window: int, found: bool) -> None:
    """Small is a window of which reserve and kept messages leave nothing."""
    state.add([talk.Conversation().rows[0]], contextTokens=window)

    assert ({"context_window_small"} if found else set()) == set(check(state))


def test_a_local_model_whose_window_nobody_knows(state: Any, check: Check) -> None:
    """It is named until the configuration has the window, of the model or for all agents."""
    state.add([talk.Conversation().rows[0]], modelProvider="ollama", model="small")
    assert {"context_window_unknown"} == set(check(state))
    state.configure({"agents": {"defaults": {"contextTokens": 64_000}}})
    assert {} == check(state)
    models = [{"id": "small", "contextWindow": 8_192}]
    state.configure({"models": {"providers": {"ollama": {"baseUrl": "http://127.0.0.1:11434", "models": models}}}})

    assert 8_192 == check(state)["context_window_small"]["evidence"]["windowTokens"]


def test_tool_results_that_fill_the_context(state: Any, check: Check) -> None:
    """Bulky results since the last compaction are named with their share; those before it do not count."""
    story = talk.Conversation()
    story.assistant([talk.call("c")])
    story.result("c", "x" * 250_000)
    state.add(story.rows)
    assert 0.9 < check(state)["tool_results_bulky"]["evidence"]["share"] <= 1.0
    story.entry("compaction", summary="s", firstKeptEntryId="none", tokensBefore=9)
    state.add(story.rows[3:])

    assert {} == check(state)


@pytest.mark.parametrize(
    ("total", "after", "found"), [(180_000, None, True), (180_000, 21_000, True), (21_500, 21_000, False)]
)
def test_a_total_of_before_the_compaction(state: Any, check: Check, total: int, after: int | None, found: bool) -> None:
    """A fresh total that is still the one of before is stale; the one of after is right."""
    story = compacted([30], **({} if after is None else {"tokensAfter": after}))
    state.add(story.rows, totalTokens=total, totalTokensFresh=True, totalTokensVersion=1, contextTokens=200_000)

    assert ({"totals_stale"} if found else set()) == set(check(state))


def test_more_tokens_than_the_window_has(state: Any, check: Check) -> None:
    """A right total beyond the window means that each prompt overflows; one that is not fresh says nothing."""
    story = talk.Conversation()
    usage = {"input": 0, "output": 0, "cacheRead": 0, "cacheWrite": 0, "totalTokens": 70_000}
    story.message("assistant", [{"type": "text", "text": "a"}], stopReason="stop", usage=usage)
    entry = {"totalTokens": 70_000, "totalTokensVersion": 1, "contextTokens": 64_000}
    state.add(story.rows, **entry, totalTokensFresh=False)
    assert {} == check(state)
    state.add([], **entry, totalTokensFresh=True, updatedAt=NOW_MS + 1)

    assert {"context_over_window"} == set(check(state))


def test_silent_turns_that_were_delivered(state: Any, check: Check) -> None:
    """Answers with the token at an end and other text are named by seq, id and kind, never by their text."""
    story = talk.Conversation()
    story.says("NO_REPLY CANARY one")
    story.says("CANARY two\n\nno_reply")
    story.says("**NO_REPLY**")
    story.user("NO_REPLY please")
    state.add(story.rows)
    found = check(state)["silent_turn_leaks"]

    assert ["text_after", "text_before"] == [each["kind"] for each in found["evidence"]["answers"]]
    assert "CANARY" not in json.dumps(found)


def test_silence_is_judged_as_openclaw_does(fixtures: Path) -> None:
    """The recorded verdicts of the real program; what is silent leaks nothing."""
    cases = json.loads((fixtures / "compaction/silent_tokens.json").read_text())["cases"]

    assert [each["isSilentReplyPayloadText"] for each in cases] == [is_silent(each["text"]) for each in cases]
    assert not any(leak_of(each["text"]) for each in cases if each["isSilentReplyPayloadText"])


def test_big_events_and_sessions(state: Any, check: Check) -> None:
    """Beyond the limits they are findings; a session in limits has none."""
    story = talk.Conversation()
    story.user("x" * 100_000)
    state.add(story.rows)
    assert {} == check(state)
    state.configure({"agents": {"defaults": {"compaction": {"maxActiveTranscriptBytes": "100kb"}}}})
    story.user("y" * (4 * 2**20))
    state.add(story.rows[2:])
    found = check(state)

    assert {"session_large", "event_large"} == set(found)
    assert 2 == found["event_large"]["evidence"]["events"][0]["seq"]


def test_internal_sessions_are_not_named(state: Any, check: Check) -> None:
    """What is never listed is not named either, whatever is wrong in it."""
    story = talk.Conversation()
    story.says("NO_REPLY and more")
    state.add(story.rows, incognito=True)
    state.execute("UPDATE session_nodes SET label = 'drifted'", "UPDATE session_nodes SET entry_valid = 1")
    found = check(state)

    assert {"columns_differ"} == set(found)
    assert [] == found["columns_differ"]["evidence"]["rows"]
