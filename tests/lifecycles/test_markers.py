"""The wordings themselves: outcomes, durations, statistics, envelopes."""

from __future__ import annotations

from typing import Any

import pytest

from openclaw_cli.lifecycles import markers, stats


@pytest.mark.parametrize(
    ("status", "outcome"),
    [
        ("completed successfully", "ok"),
        ("completed; ready for parent review", "ok"),
        ("ok", "ok"),
        ("timed out", "timeout"),
        ("timed out: 60s", "timeout"),
        ("timeout: e", "timeout"),
        ("failed: completed nothing", "error"),
        ("error", "error"),
        ("cancelled: by user", "killed"),
        ("finished with unknown status", "unknown"),
        ("unknown", "unknown"),
        (None, "unknown"),
    ],
)
def test_outcomes(status: str | None, outcome: str) -> None:
    """Every status wording of every era has one outcome."""
    assert outcome == markers.outcome_of(status)


@pytest.mark.parametrize(
    ("text", "expected"),
    [("1m46s", 106_000), ("850ms", 850), ("1h2m3s", 3_723_000), ("2d", 172_800_000), ("1.5s", 1500), ("n/a", None)],
)
def test_durations(text: str, expected: int | None) -> None:
    """Units are concatenated; `n/a` is no duration."""
    assert expected == stats.duration_ms(text)


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        (
            "runtime 5m16s • tokens 53.8k (in 37.3k / out 16.5k) • prompt/cache 70k",
            {
                "runtimeMs": 316_000,
                "totalTokens": 53_800,
                "inputTokens": 37_300,
                "outputTokens": 16_500,
                "promptCacheTokens": 70_000,
            },
        ),
        ("runtime 1s • tokens 1.2m (in 1.1m / out 100k)", {
            "runtimeMs": 1000, "totalTokens": 1_200_000, "inputTokens": 1_100_000, "outputTokens": 100_000}),
        ("runtime 1s • tokens 812 (in 800 / out 12)", {
            "runtimeMs": 1000, "totalTokens": 812, "inputTokens": 800, "outputTokens": 12}),
        ("runtime n/a • tokens unknown", {}),
        ("runtime 2s • tokens n/a • est $0.05 • sessionKey k:1 • sessionId i • transcript /a b.jsonl", {
            "runtimeMs": 2000, "estimatedCostUsd": 0.05, "sessionKey": "k:1", "sessionId": "i",
            "transcript": "/a b.jsonl"}),
    ],
)  # fmt: skip
def test_statistics(line: str, expected: dict[str, Any]) -> None:
    """Numbers with their suffixes, and the names of the eras that put them there."""
    assert expected == stats.parse_stats(line)


@pytest.mark.parametrize(
    ("run", "expected"),
    [
        ("announce:v1:agent:main:subagent:u:r1", ("agent:main:subagent:u", "r1")),
        ("announce:v1:agent:main:subagent:u:r1:active-wake", ("agent:main:subagent:u", "r1")),
        ("announce:v1:agent:main:subagent:u:r1:active-wake:user", ("agent:main:subagent:u", "r1")),
        ("announce:requester-settle:main:agent:main:main:r1", None),
        ("announce:v1:r1", None),
        (None, None),
        (7, None),
    ],
)
def test_announced_runs(run: object, expected: tuple[str, str] | None) -> None:
    """Key and run id of an announce run, whatever follows them."""
    assert expected == markers.announced_run(run)


def test_settle_runs() -> None:
    """The run list stands at the end, before the turn of a yield and the role."""
    key = "announce:requester-settle:main:agent:main:explicit:x:a,b"
    assert [("a", "b")] * 3 == [markers.settle_runs(key + end) for end in ("", ":user", ":yield-12:user")]
    assert () == markers.settle_runs("61bb17fb:user")


def test_label_may_hold_quotes_and_the_closing_words(kit: Any) -> None:
    """The label reaches to the last closing quote that a status follows."""
    child = kit.Child(1, label='say "x" just once\nand "y"')
    (notice,) = markers.notices(kit.just(child, "subagent"), {})
    assert (child.label, "ok", child.result) == (notice.label, notice.outcome, notice.result)


def test_findings_that_quote_an_announcement_are_one_notice(kit: Any) -> None:
    """A child that reports on another announcement does not end it."""
    inner = kit.Child(2, label="inner")
    (notice,) = markers.notices(
        kit.just(kit.Child(1, label="outer", result=kit.just(inner, "subagent")), "subagent"), {}
    )
    assert "outer" == notice.label


@pytest.mark.timeout(100)
@pytest.mark.parametrize(
    "piece",
    [
        'A background task "',
        'A background task "x" just ',
        'A subagent task "x" just failed ',
        "[Internal task completion event]\nsource: a\ntype: subagent task\ntask: ",
        "[Internal task completion event]\n",
        "Child completion results:\n1. Child task:\n<prompt-data>\n",
    ],
    ids=range(6),
)
def test_hostile_texts_take_linear_time(piece: str) -> None:
    """Half a megabyte of openings that never close is read at all; quadratic time would take minutes."""
    text = piece * (500_000 // len(piece))
    for tool in ("subagent_announce", "subagent_settle", "other"):
        assert [] == markers.notices(text, {"provenance": {"sourceTool": tool}})
