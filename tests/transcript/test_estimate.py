"""The character estimate equals the real program's on every recorded pair."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from openclaw_cli.transcript import estimate


def cases(fixtures: Path, name: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads((fixtures / "compaction" / f"{name}.json").read_text("utf-8"))["cases"]
    return found


def spelled(value: Any) -> str:
    return value["repeat"] * value["times"] if isinstance(value, dict) else value


def test_string_weights(fixtures: Path) -> None:
    """Weighted length, the length with every unit at least twice, and tokens of each recorded text."""
    for case in cases(fixtures, "estimate_string_chars"):
        text = spelled(case["input"])
        actual = (
            estimate.string_chars(text),
            estimate.string_chars(text, minimum=2),
            estimate.string_tokens(text),
        )
        assert (case["chars"], case["charsMinRaw2"], case["tokens"]) == actual, case["input"]


def test_message_tokens(fixtures: Path) -> None:
    """Every role and block kind that was recorded."""
    for case in cases(fixtures, "estimate_message_tokens"):
        assert case["tokens"] == estimate.message_tokens(case["message"]), case["message"]


def test_context_tokens(fixtures: Path) -> None:
    """Provider figures, barriers and the trailing part."""
    for case in cases(fixtures, "estimate_context_tokens"):
        found = estimate.context_tokens(case["messages"])
        actual = {
            "tokens": found.tokens,
            "usageTokens": found.usage_tokens,
            "trailingTokens": found.trailing_tokens,
            "lastUsageIndex": found.last_usage_index,
        }
        assert case["result"] == actual


def test_lone_surrogate_counts_one_unit() -> None:
    """A lone surrogate is one UTF-16 unit and no error."""
    assert 3 == estimate.string_chars("a\ud800b")


def test_sender_is_counted_only_with_an_id() -> None:
    """The sender's prefix is part of what a model sees once the sender is known by id."""
    message = {"role": "user", "content": "hi", "__openclaw": {"senderId": " 7 ", "senderName": "Ann"}}
    assert -(-(2 + len(' sender={"id":"7","name":"Ann"}')) // 4) == estimate.message_tokens(message)
