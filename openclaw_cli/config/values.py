"""Values that people write: durations, sizes, points in time, switches."""

from __future__ import annotations

import re
from datetime import UTC, datetime

from openclaw_cli.errors import UsageError

_DURATION_UNITS_MS = {"ms": 1, "s": 1_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000, "w": 604_800_000}
_SIZE_UNITS_BYTES = {"b": 1, "k": 2**10, "m": 2**20, "g": 2**30, "t": 2**40}
_DURATION_PART = re.compile(r"(\d+(?:\.\d+)?)\s*(ms|s|m|h|d|w)", re.IGNORECASE)
_SIZE = re.compile(r"(\d+(?:\.\d+)?)\s*(b|[kmgt](?:i?b)?)?", re.IGNORECASE)
_EPOCH_MS = re.compile(r"-?\d{1,16}")


def parse_duration_ms(text: str | int | float, *, default_unit: str = "ms") -> int:
    """Milliseconds of `30d`, `1h30m`, `250ms`; a bare number counts in `default_unit`. Raises `UsageError`."""
    if isinstance(text, bool) or not isinstance(text, (str, int, float)):
        raise UsageError(f"not a duration: {text!r}", hint="write for example 30d, 24h or 250ms")
    trimmed = str(text).strip()
    if re.fullmatch(r"\d+(?:\.\d+)?", trimmed):
        return round(float(trimmed) * _DURATION_UNITS_MS[default_unit])
    parts = _DURATION_PART.findall(trimmed)
    if not parts or _DURATION_PART.sub("", trimmed).strip():
        raise UsageError(f"not a duration: {trimmed!r}", hint="write for example 30d, 24h or 250ms")
    return round(sum(float(number) * _DURATION_UNITS_MS[unit.lower()] for number, unit in parts))


def parse_size_bytes(text: str | int | float) -> int:
    """Bytes of `20mb`, `512k`, `1.5GiB` (powers of 1024, as OpenClaw counts) or of a bare number."""
    if isinstance(text, bool) or not isinstance(text, (str, int, float)):
        raise UsageError(f"not a size: {text!r}", hint="write for example 20mb or 512k")
    found = _SIZE.fullmatch(str(text).strip())
    if found is None:
        raise UsageError(f"not a size: {str(text).strip()!r}", hint="write for example 20mb or 512k")
    number, unit = found.groups()
    return round(float(number) * _SIZE_UNITS_BYTES[(unit or "b")[0].lower()])


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
