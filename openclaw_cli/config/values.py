"""Values that people write: durations, sizes, points in time, switches."""

from __future__ import annotations

import math
import re
from datetime import UTC, datetime

from openclaw_cli.errors import UsageError

_DURATION_UNITS_MS = {"ms": 1, "s": 1_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}
_SIZE_UNITS_BYTES = {"b": 1, "k": 2**10, "m": 2**20, "g": 2**30, "t": 2**40}
_NUMBER = re.compile(r"\d+(?:\.\d+)?", re.ASCII)
_DURATION_PART = re.compile(r"(\d+(?:\.\d+)?)(ms|s|m|h|d)", re.ASCII)
_SIZE = re.compile(r"(\d+(?:\.\d+)?)(b|[kmgt]b?)?", re.ASCII)
_MOST = 2**53 - 1
"""JavaScript holds no larger whole number; OpenClaw refuses one here, and so does this program."""
_EPOCH_MS = re.compile(r"-?\d{1,16}")


def parse_duration_ms(text: str | int | float, *, default_unit: str = "ms") -> int:
    """Milliseconds of `30d`, `1h30m`, `250ms`, as OpenClaw reads them (cleanup §3); a bare number counts in
    `default_unit`. Raises `UsageError`.
    """
    trimmed = _written(text, "a duration", "30d, 24h or 250ms").lower()
    if _NUMBER.fullmatch(trimmed):
        return _whole(float(trimmed) * _DURATION_UNITS_MS[default_unit], trimmed, "a duration")
    parts = _DURATION_PART.findall(trimmed)
    if not parts or _DURATION_PART.sub("", trimmed):
        raise UsageError(f"not a duration: {trimmed!r}", hint="write for example 30d, 24h or 250ms")
    total = sum(float(number) * _DURATION_UNITS_MS[unit] for number, unit in parts)
    return _whole(total, trimmed, "a duration")


def parse_size_bytes(text: str | int | float) -> int:
    """Bytes of `20mb`, `512k`, `1.5g` (powers of 1024, cleanup §3) or of a bare number. Raises `UsageError`."""
    trimmed = _written(text, "a size", "20mb or 512k").lower()
    found = _SIZE.fullmatch(trimmed)
    if found is None:
        raise UsageError(f"not a size: {trimmed!r}", hint="write for example 20mb or 512k")
    number, unit = found.groups()
    return _whole(float(number) * _SIZE_UNITS_BYTES[(unit or "b")[0]], trimmed, "a size")


def _written(value: str | int | float, what: str, example: str) -> str:
    if isinstance(value, bool) or not isinstance(value, (str, int, float)):
        raise UsageError(f"not {what}: {value!r}", hint=f"write for example {example}")
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    return str(value).strip()


def _whole(amount: float, text: str, what: str) -> int:
    """Rounded as JavaScript rounds: a half goes up."""
    if amount > _MOST:
        raise UsageError(f"too large for {what}: {text[:40]!r}")
    return math.floor(amount + 0.5)


def duration_text(duration_ms: int) -> str:
    """Milliseconds as `parse_duration_ms` takes them, in the largest unit that divides them: `5m`, `250ms`."""
    unit = max((name for name in _DURATION_UNITS_MS if _divides(_DURATION_UNITS_MS[name], duration_ms)),
               key=_DURATION_UNITS_MS.__getitem__)  # fmt: skip
    return f"{duration_ms // _DURATION_UNITS_MS[unit]}{unit}"


def size_text(size_bytes: int) -> str:
    """Bytes as `parse_size_bytes` takes them, in the largest unit that divides them: `256mb`, `1000b`."""
    unit = max((name for name in _SIZE_UNITS_BYTES if _divides(_SIZE_UNITS_BYTES[name], size_bytes)),
               key=_SIZE_UNITS_BYTES.__getitem__)  # fmt: skip
    return f"{size_bytes // _SIZE_UNITS_BYTES[unit]}{unit if unit == 'b' else unit + 'b'}"


def _divides(unit: int, amount: int) -> bool:
    return unit == 1 or (amount != 0 and amount % unit == 0)


def parse_time_ms(text: str) -> int:
    """Epoch milliseconds of a whole number of them or of an ISO 8601 time (UTC where it names no zone)."""
    trimmed = text.strip()
    if _EPOCH_MS.fullmatch(trimmed):
        return int(trimmed)
    try:
        moment = datetime.fromisoformat(trimmed)
    except ValueError:
        raise UsageError(
            f"not a point in time: {trimmed!r}", hint="write epoch milliseconds or ISO 8601, 2026-03-01T12:00:00Z"
        ) from None
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    return round(moment.timestamp() * 1000)


def iso_utc(epoch_ms: int | float) -> str:
    """ISO 8601 in UTC with milliseconds, as OpenClaw writes it; what no calendar holds stays a number."""
    try:
        moment = datetime.fromtimestamp(epoch_ms / 1000, UTC)
    except (OverflowError, ValueError, OSError):
        return str(epoch_ms)
    return moment.strftime("%Y-%m-%dT%H:%M:%S.") + f"{int(epoch_ms) % 1000:03d}Z"
