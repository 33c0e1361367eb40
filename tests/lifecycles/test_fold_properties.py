"""Whatever a conversation looks like, a folded one is whole: links, pairs, words of people, the model's view."""

from __future__ import annotations

import io
import json
from collections import Counter
from dataclasses import dataclass
from typing import Any, BinaryIO

from conversations import Conversation, random_conversation
from hypothesis import given, settings
from hypothesis import strategies as st

from openclaw_cli.lifecycles import fold, scan
from openclaw_cli.lifecycles.fold import DATA_TYPE
from openclaw_cli.summarize.card import parse
from openclaw_cli.transcript import estimate
from openclaw_cli.transcript.context import Branch, Selected, message_for_model
from openclaw_cli.transcript.entries import text_of
from openclaw_cli.transcript.tree import Tree


@dataclass
class Source:
    """A transcript in memory."""

    name: str
    stream: BinaryIO


CONVERSATIONS = st.randoms(use_true_random=False).map(random_conversation)


def fold_of(data: bytes) -> tuple[bytes, fold.Plan]:
    source = Source("made-up", io.BytesIO(data))
    plan = fold.plan(scan.scan(source), source.stream)
    return b"".join(fold.rewritten(plan, source.stream)), plan


def rows_of(data: bytes) -> list[dict[str, Any]]:
    return [json.loads(line) for line in data.splitlines()]


def is_user(row: dict[str, Any]) -> bool:
    message = row.get("message", {})
    return message.get("role") == "user" and "provenance" not in message


def path_ids(rows: list[dict[str, Any]]) -> list[str]:
    tree = Tree()
    for seq, row in enumerate(rows):
        tree.add(seq, row)
    return [rows[node.seq]["id"] for node in tree.path()]


def pairs(rows: list[dict[str, Any]]) -> tuple[Counter[str], Counter[str]]:
    """Tool calls and tool results of the whole file, by id."""
    calls: Counter[str] = Counter()
    results: Counter[str] = Counter()
    for row in rows:
        message = row.get("message", {})
        if message.get("role") == "toolResult":
            results[message["toolCallId"]] += 1
        if message.get("role") == "assistant":
            calls.update(block["id"] for block in message["content"] if block["type"] == "toolCall")
    return calls, results


@settings(max_examples=150, deadline=None)
@given(CONVERSATIONS)
def test_ids_are_unique_and_links_resolve(talk: Conversation) -> None:
    """No id occurs twice; what resolved before resolves afterwards, and parents stand before their children."""
    out, plan = fold_of(talk.data())
    rows = rows_of(out)
    ids = [row["id"] for row in rows]
    assert len(ids) == len(set(ids))
    known: set[Any] = {None}
    for row in rows[1:]:
        if plan.folded or row.get("parentId") != "gone":
            assert row.get("parentId") in known
        for name in ("targetId", "fromId", "firstKeptEntryId"):
            assert row.get(name) in {*known, "own"}
        known.add(row["id"])


@settings(max_examples=150, deadline=None)
@given(CONVERSATIONS)
def test_no_call_without_result_and_no_result_without_call(talk: Conversation) -> None:
    """Of each call that goes its result goes, and the other way round."""
    out, _ = fold_of(talk.data())
    calls, results = pairs(rows_of(out))
    assert calls == results


@settings(max_examples=150, deadline=None)
@given(CONVERSATIONS)
def test_words_of_people_stay(talk: Conversation) -> None:
    """Every user message is there, in order, with the same content."""
    out, _ = fold_of(talk.data())
    kept = [row["message"] for row in rows_of(out) if is_user(row)]
    assert [row["message"] for row in talk.rows if is_user(row)] == kept


@settings(max_examples=150, deadline=None)
@given(CONVERSATIONS)
def test_active_path_is_the_old_one_minus_removals_plus_cards(talk: Conversation) -> None:
    """Kept entries of the path keep their order; each card is on it when something that it stands for was."""
    out, plan = fold_of(talk.data())
    rows = rows_of(out)
    by_id = {row["id"]: row for row in rows}
    new = path_ids(rows)
    inserted = {f.card_id for f in plan.folded.values()} | {f.data_id for f in plan.folded.values()}
    old = path_ids(talk.rows)
    assert [identity for identity in old if identity in by_id] == [i for i in new if i not in inserted]
    for folded in plan.folded.values():
        removed = by_id[folded.data_id]["data"]["removedEntryIds"]
        if set(removed) & set(old):
            assert folded.card_id in new


@settings(max_examples=150, deadline=None)
@given(CONVERSATIONS)
def test_folding_twice_and_again_gives_the_same_bytes(talk: Conversation) -> None:
    """Deterministic and idempotent; cards can be read back."""
    data = talk.data()
    out, plan = fold_of(data)
    assert out == fold_of(data)[0]
    assert out == fold_of(out)[0]
    cards = [f.text for f in plan.folded.values()]
    assert len(cards) == sum(text_of(row.get("message")) in cards for row in rows_of(out))
    assert len(cards) == sum(row.get("customType") == DATA_TYPE for row in rows_of(out))
    for text in cards:
        parse(text)


@settings(max_examples=150, deadline=None)
@given(CONVERSATIONS)
def test_context_estimates_are_those_of_the_files(talk: Conversation) -> None:
    """What the report says of the context equals the estimate over the rebuilt contexts of both files."""
    data = talk.data()
    out, plan = fold_of(data)
    assert context_tokens(rows_of(data)) == plan.context_tokens_before
    assert context_tokens(rows_of(out)) == plan.context_tokens_after


def context_tokens(rows: list[dict[str, Any]]) -> int:
    """The estimate of the rebuilt context."""
    chosen = context_of(rows)
    return sum(estimate.message_tokens(message_for_model(rows[one.index], one)) for one in chosen)


def context_of(rows: list[dict[str, Any]]) -> list[Selected]:
    """The rebuilt context; an unknown parent is read as every importer reads it."""
    tree, branch = Tree(), Branch()
    for index, row in enumerate(rows):
        unknown = row.get("parentId") is not None and row["parentId"] not in tree.nodes
        node = tree.add(index, row)
        branch.feed(index, {**row, "parentId": node.parent} if unknown and node else row)
    return branch.model_context()


@settings(max_examples=400, deadline=None)
@given(CONVERSATIONS)
def test_context_never_grows_by_more_than_the_cards(talk: Conversation) -> None:
    """What a compaction or reset had dropped does not come back: the kept part of the context is the old one's."""
    data = talk.data()
    out, plan = fold_of(data)
    cards = {folded.card_id: estimate.message_tokens(folded.card["message"]) for folded in plan.folded.values()}
    assert plan.context_tokens_after <= plan.context_tokens_before + sum(cards.values())
    old, new = context_ids(rows_of(data)), context_ids(rows_of(out))
    still = {row["id"] for row in rows_of(out)}
    assert [identity for identity in old if identity in still] == [
        identity for identity in new if identity not in cards
    ]


def context_ids(rows: list[dict[str, Any]]) -> list[str]:
    """The ids of the entries of the rebuilt context."""
    return [rows[one.index]["id"] for one in context_of(rows)]
