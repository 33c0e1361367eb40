"""The statistics line of a completion: run time and the child's tokens (lifecycles §4). Pure."""

from __future__ import annotations

import re
from typing import Any

_RUNTIME = re.compile(r"\bruntime\s+([^•\n(]+)")
_DURATION = re.compile(r"(\d+(?:\.\d+)?)\s*(ms|s|m|h|d)(?![a-z])")
_UNIT_MS = {"ms": 1, "s": 1000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}
_COUNT = r"(\d+(?:[.,]\d+)?)\s*([kKmM]?)\b"
_TOKENS = re.compile(rf"\btokens\s+{_COUNT}(?:\s*\(\s*in\s+{_COUNT}\s*/\s*out\s+{_COUNT}\s*\))?(\s+prompt/cache)?")
_CACHE = re.compile(rf"\bprompt/cache\s+{_COUNT}")
_COST = re.compile(r"\best\s+\$(\d+(?:\.\d+)?)")
_NAMED = re.compile(r"\b(sessionKey|sessionId|transcript)\s+([^•\n]+)")


def duration_ms(text: str) -> int | None:
    """`1h2m3s`, `850ms`, `1m46s` in milliseconds; None for `n/a` and anything else."""
    parts = _DURATION.findall(text)
    return round(sum(float(number) * _UNIT_MS[unit] for number, unit in parts)) if parts else None


def _amount(number: str, suffix: str) -> int:
    return round(float(number.replace(",", ".")) * {"": 1, "k": 1000, "m": 1_000_000}[suffix.lower()])


def parse_stats(line: str) -> dict[str, Any]:
    """The statistics line of a completion: runtimeMs, totalTokens, inputTokens, outputTokens and what else it names.

    Token numbers are rounded by their writer (`53.8k`); `unknown` and `n/a` leave the key out.
    """
    stats: dict[str, Any] = {}
    runtime = _RUNTIME.search(line)
    if runtime and (elapsed := duration_ms(runtime[1])) is not None:
        stats["runtimeMs"] = elapsed
    if tokens := _TOKENS.search(line):
        stats["promptCacheTokens" if tokens[7] else "totalTokens"] = _amount(tokens[1], tokens[2])
        if tokens[3]:
            stats["inputTokens"] = _amount(tokens[3], tokens[4])
            stats["outputTokens"] = _amount(tokens[5], tokens[6])
    if "prompt/cache " in line and (cache := _CACHE.search(line)):
        stats["promptCacheTokens"] = _amount(cache[1], cache[2])
    if "$" in line and (cost := _COST.search(line)):
        stats["estimatedCostUsd"] = float(cost[1])
    if "session" in line or "transcript" in line:
        stats.update((name, value.strip()) for name, value in _NAMED.findall(line))
    return stats
