"""Durations, sizes, points in time."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from openclaw_cli.config.values import iso_utc, parse_duration_ms, parse_size_bytes, parse_time_ms
from openclaw_cli.errors import UsageError

GOLDEN = Path(__file__).resolve().parents[2] / "fixtures/cleanup"


@pytest.mark.parametrize(("text", "wanted"), [
    ("30d", 30 * 86_400_000), ("24h", 86_400_000), ("1h30m", 5_400_000), ("250ms", 250), ("250", 250), (1.5, 2),
    (" 2H ", 7_200_000), ("0.5s", 500),
])  # fmt: skip
def test_durations(text: str | float, wanted: int) -> None:
    """Units add up; a bare number is milliseconds."""
    assert wanted == parse_duration_ms(text)


@pytest.mark.parametrize("text", ["", "d", "5x", "2w", "1 h", "1e400", "-5s", "5 s later", True, None])
def test_no_durations(text: object) -> None:
    """Anything else is a usage error."""
    with pytest.raises(UsageError):
        parse_duration_ms(text)  # type: ignore[arg-type]


@pytest.mark.parametrize(("text", "wanted"), [
    ("20mb", 20 * 2**20), ("512K", 512 * 1024), ("1.5GB", 3 * 2**29), ("0", 0), (7, 7), ("3b", 3),
])  # fmt: skip
def test_sizes(text: str | int, wanted: int) -> None:
    """Powers of 1024, with and without the b."""
    assert wanted == parse_size_bytes(text)


@pytest.mark.parametrize("given", json.loads((GOLDEN / "durations.json").read_text()), ids=lambda given: given["in"])
@pytest.mark.parametrize("unit", ["d", "h"])
def test_durations_as_openclaw_reads_them(given: dict[str, Any], unit: str) -> None:
    """The real program's own answers, for days and for hours as default."""
    if isinstance(given[unit], int):
        assert given[unit] == parse_duration_ms(given["in"], default_unit=unit)
    else:
        with pytest.raises(UsageError):
            parse_duration_ms(given["in"], default_unit=unit)


@pytest.mark.parametrize("given", json.loads((GOLDEN / "bytes.json").read_text()), ids=lambda given: given["in"])
def test_sizes_as_openclaw_reads_them(given: dict[str, Any]) -> None:
    """The real program's own answers."""
    if isinstance(given["b"], int):
        assert given["b"] == parse_size_bytes(given["in"])
    else:
        with pytest.raises(UsageError):
            parse_size_bytes(given["in"])


@pytest.mark.parametrize("text", ["", "mb", "-1", "5 mb", "5mib", "5 parsecs", False])
def test_no_sizes(text: object) -> None:
    """Anything else is a usage error."""
    with pytest.raises(UsageError):
        parse_size_bytes(text)  # type: ignore[arg-type]


@pytest.mark.parametrize(("text", "wanted"), [
    ("1790000000000", 1790000000000), ("1970-01-01T00:00:01Z", 1000), ("1970-01-01T01:00:00.5+01:00", 500),
    ("1970-01-02", 86_400_000),
])  # fmt: skip
def test_times(text: str, wanted: int) -> None:
    """Epoch milliseconds or ISO 8601, UTC when no zone is named."""
    assert wanted == parse_time_ms(text)


def test_iso() -> None:
    """Milliseconds and Z, as OpenClaw writes; impossible dates stay numbers."""
    assert "2026-09-21T14:13:20.007Z" == iso_utc(1_790_000_000_007)
    assert "1e+300" == iso_utc(1e300)
