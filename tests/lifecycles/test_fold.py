"""Folding by hand-made conversations: where the card stands, what goes, what stays, what moves."""

from __future__ import annotations

import hashlib
import io
import json
from dataclasses import dataclass
from typing import Any, BinaryIO

import pytest
from conversations import ANSWER, Conversation, call, child_key, spawn

from openclaw_cli import tokens
from openclaw_cli.lifecycles import fold, scan
from openclaw_cli.lifecycles.fold import DATA_TYPE, Options
from openclaw_cli.summarize.card import Labels, Origin, Outcome, parse
from openclaw_cli.transcript.entries import text_of


@dataclass
class Source:
    """A transcript in memory."""

    name: str
    stream: BinaryIO


def folded(data: bytes, options: Options | None = None, keep_last: int = 1) -> tuple[list[dict[str, Any]], fold.Plan]:
    """The rows of the folded file and the plan."""
    out, plan = folded_bytes(data, options, keep_last)
    return [json.loads(line) for line in out.splitlines()], plan


def folded_bytes(data: bytes, options: Options | None = None, keep_last: int = 1) -> tuple[bytes, fold.Plan]:
    """The bytes of the folded file and the plan."""
    source = Source("made-up", io.BytesIO(data))
    plan = fold.plan(scan.scan(source, keep_last=keep_last), source.stream, options)
    return b"".join(fold.rewritten(plan, source.stream)), plan


def outline(rows: list[dict[str, Any]]) -> list[str]:
    """The entries in order: roles, `card`, `data`, other types; each must hang under a known one."""
    known: set[str | None] = {None}
    found = []
    for row in rows[1:]:
        assert row.get("parentId") in known
        known.add(row["id"])
        message = row.get("message", {})
        kind = message.get("role", row["type"])
        if row["type"] == "custom" and row["customType"] == DATA_TYPE:
            kind = "data"
        elif kind == "assistant" and text_of(message).startswith("── COMPACTED TASK"):
            kind = "card"
        found.append(kind)
    return found


def chain(rows: list[dict[str, Any]]) -> bool:
    """Whether every entry hangs under the one before it."""
    ids = [row["id"] for row in rows[1:]]
    return [None, *ids[:-1]] == [row["parentId"] for row in rows[1:]]


def card_of(rows: list[dict[str, Any]], number: int = 0) -> Any:
    """The n-th card, read back."""
    texts = [text_of(row.get("message")) for row in rows]
    return parse([text for text in texts if text.startswith("──")][number])


@pytest.fixture
def talk() -> Conversation:
    """A conversation that has begun."""
    conversation = Conversation()
    conversation.user("Please prepare the report.")
    return conversation


def test_a_sub_task_becomes_a_card(talk: Conversation) -> None:
    """Spawn, result and completion go; card and machine data stand in their place, the rest is untouched."""
    talk.sub_task()
    talk.says("It is ready.")
    before = talk.data()
    rows, plan = folded(before)
    assert ["user", "card", "data", "assistant"] == outline(rows)
    assert chain(rows)
    card = card_of(rows)
    assert ("task 1 — Measure the report", Outcome.SUCCESS, Origin.AGENT) == (card.task, card.outcome, card.origin)
    assert ANSWER == card.result
    # The header and the user's turn are the same bytes.
    assert before.splitlines()[:2] == folded_bytes(before)[0].splitlines()[:2]
    assert plan.context_tokens_after < plan.context_tokens_before


def test_the_card_is_a_message_of_the_same_model(talk: Conversation) -> None:
    """Model fields are those of the spawning message, usage is zero, the time is that of the completion."""
    talk.sub_task()
    completed = talk.rows[-1]
    talk.says()
    rows, _ = folded(talk.data())
    message = rows[2]["message"]
    assert ("test-api", "test", "m1", "stop") == tuple(message[k] for k in ("api", "provider", "model", "stopReason"))
    assert 0 == message["usage"]["totalTokens"] == message["usage"]["cost"]["total"]
    assert completed["timestamp"] == rows[2]["timestamp"]


def test_machine_data_follows_the_card(talk: Conversation) -> None:
    """Keys, ids and the hash of the removed lines are kept where no model sees them."""
    talk.sub_task()
    removed = [json.dumps(row, ensure_ascii=False).encode() + b"\n" for row in talk.rows[2:5]]
    talk.says()
    rows, _ = folded(talk.data())
    data = rows[3]["data"]
    assert rows[2]["id"] == data["cardEntryId"]
    assert hashlib.sha256(b"".join(removed)).hexdigest() == data["removedSha256"]
    assert ["00000002", "00000003", "00000004"] == data["removedEntryIds"]
    assert ("run-1", ["call-1"]) == (data["runId"], data["removedToolCallIds"])


def test_folding_twice_is_folding_once(talk: Conversation) -> None:
    """A folded file has nothing left to fold, and the same input gives the same bytes."""
    talk.sub_task()
    talk.says()
    once, _ = folded_bytes(talk.data())
    assert once == folded_bytes(talk.data())[0]
    again, plan = folded_bytes(once)
    assert once == again
    assert not plan.folded


def test_growing_and_folding_again_keeps_the_first_card(talk: Conversation) -> None:
    """The second fold touches only the second sub-task."""
    talk.sub_task(1)
    talk.says()
    first, _ = folded(talk.data())
    grown = Conversation(count=100)
    grown.rows, grown.last = list(first), first[-1]["id"]
    grown.sub_task(2)
    grown.says()
    again, _ = folded(grown.data())
    assert ["user", "card", "data", "assistant", "card", "data", "assistant"] == outline(again)
    assert first == again[: len(first)]


def test_nothing_to_fold_changes_no_byte(talk: Conversation) -> None:
    """Odd spacing, CRLF, a missing final line break and damage pass as they are."""
    talk.says()
    data = talk.data().replace(b"\n", b"\r\n") + b'not json\n{"type":"message", "x": 1.0}'
    assert data == folded_bytes(data)[0]


def test_the_last_turns_stay(talk: Conversation) -> None:
    """A completion that nobody answered is still to be dealt with; --keep-last asks for more."""
    talk.sub_task()
    assert ["user", "assistant", "toolResult", "user"] == outline(folded(talk.data())[0])
    talk.says()
    assert "card" in outline(folded(talk.data())[0])
    assert "card" not in outline(folded(talk.data(), keep_last=2)[0])


def test_text_of_the_spawning_message_stays(talk: Conversation) -> None:
    """The message loses its call and ends its turn; the card follows it."""
    talk.assistant([{"type": "text", "text": "I delegate this."}, spawn(1)])
    talk.accepted(1)
    talk.completed(1)
    talk.says()
    rows, _ = folded(talk.data())
    assert ["user", "assistant", "card", "data", "assistant"] == outline(rows)
    assert ("stop", "I delegate this.") == (rows[2]["message"]["stopReason"], text_of(rows[2]["message"]))
    assert chain(rows)


def test_card_follows_the_last_result_of_a_message_with_other_calls(talk: Conversation) -> None:
    """Between a call and its result no card may stand; a signature of the changed message is void."""
    signed = {"type": "thinking", "thinking": "hm", "thinkingSignature": "c2ln"}
    talk.assistant([signed, spawn(1), call("r1"), call("r2")])
    talk.accepted(1)
    talk.result("r1")
    talk.result("r2")
    talk.user("One more thing.")
    talk.completed(1)
    talk.says()
    rows, _ = folded(talk.data())
    assert ["user", "assistant", "toolResult", "toolResult", "card", "data", "user", "assistant"] == outline(rows)
    assert ["r1", "r2"] == [block["id"] for block in rows[2]["message"]["content"]]
    assert "toolUse" == rows[2]["message"]["stopReason"]
    assert chain(rows)


def test_a_kept_user_turn_in_between_is_said(talk: Conversation) -> None:
    """The card stands before words that were spoken before the completion; its first sentence tells."""
    talk.assistant([spawn(1, "Bitte den Bericht für die Leitung prüfen und ablegen")])
    talk.accepted(1)
    talk.user("Wie weit bist du?")
    talk.says("Noch nicht fertig.")
    talk.completed(1)
    at = talk.rows[-1]["timestamp"][11:16]
    talk.says()
    rows, _ = folded(talk.data(), Options(labels=Labels.ENGLISH))
    assert card_of(rows).result.startswith(f"Completed at {at} UTC, later in this conversation. ")
    german, _ = folded(talk.data())
    result = next(parse(text_of(r["message"])).result for r in german if "KOMPAKTE" in text_of(r.get("message")))
    assert result.startswith(f"Abgeschlossen um {at} UTC, später in diesem Gespräch. ")
    assert 1 == sum(text_of(row.get("message")) == "Wie weit bist du?" for row in german)


def test_parallel_sub_tasks_get_one_card_each(talk: Conversation) -> None:
    """Three spawns of one message, finished in another order: three cards in the order of the spawns."""
    talk.assistant([spawn(1), spawn(2), spawn(3)])
    for number in (1, 2, 3):
        talk.accepted(number)
    for number in (2, 3, 1):
        talk.completed(number)
        talk.says(f"{number} is done")
    rows, _ = folded(talk.data())
    assert ["user", *["card", "data"] * 3, *["assistant"] * 3] == outline(rows)
    assert ["task 1", "task 2", "task 3"] == [card_of(rows, n).task.partition(" —")[0] for n in range(3)]
    assert chain(rows)


def test_an_open_sibling_keeps_the_message(talk: Conversation) -> None:
    """Only the finished spawn's block goes; the open one keeps call and result."""
    talk.assistant([spawn(1), spawn(2)])
    talk.accepted(1)
    talk.accepted(2)
    talk.completed(1)
    talk.says()
    rows, plan = folded(talk.data())
    assert ["user", "assistant", "toolResult", "card", "data", "assistant"] == outline(rows)
    assert ["call-2"] == [block["id"] for block in rows[2]["message"]["content"]]
    assert ["folded", "kept"] == [row["action"] for row in plan.as_json(output=None, dry_run=True)["lifecycles"]]


def test_references_to_removed_entries_move_to_the_card(talk: Conversation) -> None:
    """A compaction's first kept entry, a label's target and a branch summary's origin resolve afterwards."""
    talk.sub_task()
    spawned, completed = "00000002", "00000004"
    talk.says()
    talk.entry("label", targetId=completed, label="here")
    talk.entry("branch_summary", fromId=spawned, summary="S")
    talk.entry("compaction", summary="C", firstKeptEntryId=spawned, tokensBefore=9)
    talk.user("next")
    rows, plan = folded(talk.data())
    card = rows[2]["id"]
    by_type = {row["type"]: row for row in rows}
    assert (card, card, card) == (
        by_type["label"]["targetId"],
        by_type["branch_summary"]["fromId"],
        by_type["compaction"]["firstKeptEntryId"],
    )
    assert 1 == len(plan.folded)


def test_a_control_that_targets_a_removed_entry_keeps_the_rest(talk: Conversation) -> None:
    """A leaf control at the completion comes out below everything that stays, the words in between included."""
    talk.assistant([spawn(1)])
    talk.accepted(1)
    kept = talk.user("A word in between.")
    completed = talk.completed(1)
    talk.says()
    talk.entry("leaf", targetId=completed)
    talk.user("From here again.", parent=completed)
    rows, plan = folded(talk.data())
    assert 1 == len(plan.folded)
    assert kept == next(row for row in rows if row["type"] == "leaf")["targetId"]


def test_missing_and_unknown_parents_follow_the_previous_entry(talk: Conversation) -> None:
    """They are re-linked where their real parent goes, and an unknown one is spelled out."""
    talk.sub_task()
    talk.says(parent="absent")
    talk.user("And then?", parent="nowhere")
    rows, _ = folded(talk.data())
    assert ["user", "card", "data", "assistant", "user"] == outline(rows)
    assert chain(rows)


def test_damage_is_copied(talk: Conversation) -> None:
    """Damaged lines inside and outside the range stay byte for byte and are reported."""
    talk.sub_task()
    talk.says()
    lines = talk.data().splitlines(keepends=True)
    broken = b'{"type":"message","id":"torn\n'
    data = b"".join([*lines[:4], broken, *lines[4:]])
    out, plan = folded_bytes(data)
    assert broken in out.splitlines(keepends=True)
    assert [5] == [damage.line for damage in plan.scan.damage]
    assert 1 == len(plan.folded)


def test_line_ends_and_byte_order_mark_stay(talk: Conversation) -> None:
    """A CRLF file stays one; the final line break is there."""
    talk.sub_task()
    talk.says()
    data = b"\xef\xbb\xbf" + talk.data().replace(b"\n", b"\r\n").removesuffix(b"\r\n")
    out, _ = folded_bytes(data)
    assert out.startswith(b"\xef\xbb\xbf{")
    assert out.endswith(b"\n")
    assert 1 == len(out.splitlines()[-1:]) and out.splitlines()[1] == data.splitlines()[1]


def test_only_the_parent_changes_in_a_relinked_line(talk: Conversation) -> None:
    """Floats, escapes, spacing and the order of keys of a re-linked line are kept byte for byte."""
    talk.sub_task()
    removed = talk.last
    head, line = talk.data(), b'{"type":"message",  "id":"zz","n":1.0,"u":"\\ud800\\/","parentId": "%s","timestamp":'
    line %= removed.encode()  # type: ignore[union-attr]
    line += (
        b'"2026-02-25T07:00:00.000Z","message":{"role":"assistant","content":[{"type":"text","text":"parentId"}]}}\n'
    )
    out, plan = folded_bytes(head + line)
    (done,) = plan.folded.values()
    assert line.replace(removed.encode(), done.data_id.encode()) == out.splitlines(keepends=True)[-1]  # type: ignore[union-attr]


def test_first_version_files_have_no_links(talk: Conversation) -> None:
    """Without ids the card goes where the sub-task stood, and a compaction's index counts the new lines."""
    talk.sub_task()
    talk.says()
    talk.entry("compaction", summary="C", firstKeptEntryIndex=5, tokensBefore=9)
    for row in talk.rows:
        row.pop("parentId", None)
        if row["type"] != "session":
            del row["id"]
    talk.rows[0]["version"] = 1
    rows, _ = folded(talk.data())
    kinds = [row.get("message", {}).get("role", row["type"]) for row in rows]
    assert ["session", "user", "assistant", "custom", "assistant", "compaction"] == kinds
    assert 4 == rows[-1]["firstKeptEntryIndex"]


def test_report_counts_what_goes_and_what_comes(talk: Conversation) -> None:
    """Tokens are exact: of the removed parts and of the cards; sums and reduction follow from the rows."""
    talk.sub_task(1)
    talk.says()
    talk.sub_task(2)
    rows, plan = folded(talk.data())
    report = plan.as_json(output="x", dry_run=False)
    first, second = report["lifecycles"]
    assert ("folded", None) == (first["action"], first["reason"])
    assert ("kept", 0, 0) == (second["action"], second["tokensBefore"], second["tokensAfter"])
    assert tokens.count(text_of(rows[2]["message"])) == first["tokensAfter"] == report["tokensAfter"]
    assert plan.scan.lifecycles[0].tokens_removed == first["tokensBefore"] == report["tokensBefore"]
    assert round(1 - report["tokensAfter"] / report["tokensBefore"], 4) == report["reduction"]
    assert 53_800 == first["childTokens"]


@pytest.mark.parametrize(
    ("status", "outcome"),
    [
        ("timed out", Outcome.TIMEOUT),
        ("failed: disk full", Outcome.FAILED),
        ("finished with unknown status", Outcome.UNKNOWN),
        ("completed; ready for parent review", Outcome.SUCCESS),
    ],
)
def test_outcomes(talk: Conversation, status: str, outcome: Outcome) -> None:
    """The card's outcome is that of the completion."""
    talk.assistant([spawn(1)])
    talk.accepted(1)
    talk.completed(1, status=status)
    talk.says()
    assert outcome == card_of(folded(talk.data())[0]).outcome


def test_labels_option(talk: Conversation) -> None:
    """--labels de overrides the language of the task."""
    talk.sub_task()
    talk.says()
    rows, _ = folded(talk.data(), Options(labels=Labels.GERMAN))
    assert text_of(rows[2]["message"]).startswith("── KOMPAKTE AUFGABE ──\nursprung: agent\n")


@pytest.mark.parametrize("boundary", ["compaction", "reset"])
def test_a_compaction_that_keeps_the_completion_brings_nothing_back(talk: Conversation, boundary: str) -> None:
    """The card would stand in what was dropped: the sub-task stays, and so does the context."""
    talk.assistant([{"type": "text", "text": "Started."}, spawn(1)])
    talk.accepted(1)
    talk.says("Long. " * 20_000)
    completed = talk.completed(1)
    talk.says()
    rest = {"summary": "C", "tokensBefore": 9} if boundary == "compaction" else {"reason": "new"}
    talk.entry(boundary, firstKeptEntryId=completed, **rest)
    talk.user("next")
    talk.says()
    before = talk.data()
    out, plan = folded_bytes(before)
    assert before == out
    assert "a compaction keeps only a part of it" == plan.scan.lifecycles[0].reason
    assert 500 > plan.context_tokens_after == plan.context_tokens_before


def test_a_compaction_that_keeps_a_link_below_the_completion_keeps_the_completion(talk: Conversation) -> None:
    """What the reader walks through names the entry above it."""
    talk.sub_task()
    link = talk.entry("unknown_kind", x=1)
    talk.says()
    talk.entry("compaction", summary="C", firstKeptEntryId=link, tokensBefore=9)
    talk.user("next")
    assert {} == folded(talk.data())[1].folded


def test_a_card_below_a_leaf_control_stands_where_its_own_task_stood(talk: Conversation) -> None:
    """Not in place of another folded task above it."""
    talk.sub_task(1)
    kept = talk.says("Here.")
    talk.says("Another way.")
    talk.entry("leaf", targetId=kept)
    talk.assistant([spawn(2)], parent=talk.last)
    talk.accepted(2)
    talk.completed(2)
    talk.says("End.")
    rows, plan = folded(talk.data())
    parents = {row["id"]: row["parentId"] for row in rows[1:]}
    assert [0, 1] == sorted(plan.folded)
    assert kept == parents[plan.folded[1].card_id]


def test_a_card_longer_than_its_sub_task_is_not_written(talk: Conversation) -> None:
    """A tiny sub-task stays, says why, and counts in no sum; the one beside it is folded."""
    talk.assistant([spawn(1, "Hi", label="x")])
    talk.result("call-1", "{}", details={"status": "accepted", "childSessionKey": child_key(1), "runId": "r"})
    talk.message("system", "subagent 'x' completed")
    talk.says()
    talk.sub_task(2)
    talk.says()
    report = folded(talk.data())[1].as_json(output="x", dry_run=False)
    tiny, plain = report["lifecycles"]
    assert ("kept", "card would be longer", 0, 0) == tuple(
        tiny[key] for key in ("action", "reason", "tokensBefore", "tokensAfter")
    )
    assert ("folded", report["tokensBefore"]) == (plain["action"], plain["tokensBefore"])


@pytest.mark.parametrize("odd", [{}, ["x"], 7, True], ids=str)
def test_links_of_odd_types_end_no_fold(talk: Conversation, odd: Any) -> None:
    """An id or a parent that is no text is no link: the entry is copied as it is, the sub-task is folded."""
    talk.sub_task()
    talk.says()
    row = {"type": "message", "id": odd, "parentId": odd, "message": {"role": "user", "content": "x"}}
    label = {"type": "label", "id": "l", "parentId": odd, "targetId": odd, "firstKeptEntryId": odd}
    talk.rows += [row, label]
    rows, plan = folded(talk.data())
    assert (1, [row, label]) == (len(plan.folded), rows[-2:])
