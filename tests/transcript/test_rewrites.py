"""Branches of rewritten prompts. Beside the real program: tests/peer/test_transcript_rows.py."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import orjson
import pytest

from openclaw_cli.transcript import rewrites
from openclaw_cli.transcript.rewrites import Rewrites, may_hold_rewrites, repaired
from openclaw_cli.transcript.runtime_context import has_context, without_context

BEGIN, END = "<<<BEGIN_OPENCLAW_INTERNAL_CONTEXT>>>", "<<<END_OPENCLAW_INTERNAL_CONTEXT>>>"
NOTICE = "This context is runtime-generated, not user-authored. Keep internal details private."


def user(entry_id: str, parent: str | None, text: str) -> dict[str, Any]:
    """A message of the user."""
    return {"type": "message", "id": entry_id, "parentId": parent, "message": {"role": "user", "content": text}}


ROWS: list[Any] = [
    {"type": "session", "version": 3, "id": "s"},
    user("a", None, f"{BEGIN}\nprivate\n{END}\nhello"),
    user("b", "a", "follows"),
    user("c", None, "hello"),
]


def kept(rows: list[Any]) -> list[Any]:
    """The rows that the importer keeps."""
    search = Rewrites()
    for position, row in enumerate(rows):
        search.feed(position, row)
    lines = ((position + 1, copy.deepcopy(row), False) for position, row in enumerate(rows))
    return [value for _, value, _ in repaired(lines, search.repair())]


def test_the_abandoned_branch_is_left_out() -> None:
    """Header and active path stay."""
    assert [ROWS[0], ROWS[3]] == kept(ROWS)


@pytest.mark.parametrize(
    "rows",
    [
        ROWS[1:],
        [*ROWS[:3], user("c", None, "another")],
        [*ROWS[:3], user("c", "b", "hello")],
        [ROWS[0], user("a", None, "hello"), ROWS[3]],
        [*ROWS[:3], user("c", "d", "hello"), user("d", "c", "circle")],
    ],
    ids=["no header", "another text", "another place", "no context", "circle"],
)
def test_all_other_branches_stay(rows: list[Any]) -> None:
    """A branch is dropped only where the active path has the same text at the same place."""
    assert rows == kept(rows)


def test_the_control_comes_last() -> None:
    """With the references that the new order asks for."""
    leaf = {"type": "leaf", "id": "l", "parentId": "b", "targetId": "c"}

    assert [ROWS[0], ROWS[3], {**leaf, "parentId": "c", "appendParentId": "c"}] == kept([*ROWS, leaf])


@pytest.mark.parametrize(
    "text, expected",
    [
        (f"{BEGIN}\nx\n{END}\n\nhello", "hello"),
        (f"before\n{BEGIN}\n{BEGIN}\nx\n{END}\n{END}\nafter", "before\n\nafter"),
        (f"before\n {BEGIN}\nnever closed", "before"),
        (f"OpenClaw runtime event.\n{NOTICE}\nhello", "hello"),
        (f"OpenClaw runtime context (internal):\n{NOTICE}\n\n[Internal task completion event]\nx\n\nhello", "hello"),
    ],
)
def test_context_is_taken_out(text: str, expected: str) -> None:
    """Every form in which it was ever written."""
    assert (True, expected) == (has_context(text), without_context(text))


def test_quoted_markers_are_no_context() -> None:
    """They have to stand on a line of their own."""
    text = f"what does {BEGIN} mean?"

    assert (False, text) == (has_context(text), without_context(text))


def test_only_files_with_such_a_prompt_are_searched(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Context alone, or in the text of somebody else, is the usual case and no reason for a second look."""
    monkeypatch.setattr(rewrites, "_LONGEST_LINE_BYTES", 2**18)
    path = tmp_path / "t.jsonl"
    answer = {"type": "message", "message": {"role": "assistant", "content": ROWS[1]["message"]["content"]}}
    alone = user("x", None, f"{BEGIN}\nreport\n{END}")
    filler = [user("f", None, "y" * 3000)] * 400
    for rows, expected in (
        ([], False),
        ([*filler, answer, alone, *filler], False),
        (ROWS, True),
        ([*filler, alone, *ROWS[1:2], *filler], True),
        ([*filler, *filler, ROWS[1]], True),
        ([user("long", None, "z" * 600_000)], False),
        ([*filler, user("long", None, "z" * 600_000 + BEGIN), *filler], True),
        ([user("long", None, BEGIN + "z" * 600_000), *filler], True),
        ([user("long", None, "z" * 600_000 + BEGIN)], True),
    ):
        path.write_bytes(b"\n".join(orjson.dumps(row) for row in rows))
        assert expected is may_hold_rewrites(path)
