"""`session.maintenance.*` and `cron.sessionRetention`, with OpenClaw's grammar and defaults (cleanup §3)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from openclaw_cli.config import Config
from openclaw_cli.config.retired import changes
from openclaw_cli.config.values import parse_duration_ms, parse_size_bytes
from openclaw_cli.errors import ConfigError, UsageError

DAY_MS = 86_400_000
SECTION = "session.maintenance"
CRON = "cron.sessionRetention"


@dataclass(frozen=True, slots=True)
class Maintenance:
    """What maintenance aims at. Times in ms, sizes in bytes; None switches a part off.

    `enforce` is False in mode `warn`: then everything is only reported.
    """

    enforce: bool = True
    prune_after_ms: int = 30 * DAY_MS
    archive_dashboard_after_ms: int | None = 7 * DAY_MS
    max_entries: int = 5_000
    preserve_recent_ms: int | None = None
    reset_archive_retention_ms: int | None = None
    max_disk_bytes: int | None = 10 * 2**30
    high_water_bytes: int | None = 8 * 2**30
    model_run_prune_after_ms: int = DAY_MS
    cron_retention_ms: int | None = DAY_MS

    @property
    def mode(self) -> str:
        """OpenClaw's word for it."""
        return "enforce" if self.enforce else "warn"


def from_config(config: Config) -> Maintenance:
    """The settings of a configuration. Raises `ConfigError` for what OpenClaw would refuse, with the way out."""
    section = config.get(SECTION).value
    if section is None:
        section = {}
    if not isinstance(section, Mapping):
        raise _wrong(config, SECTION, "an object is expected")
    _refuse_retired(config)
    known = {name for name, _ in _READERS} | {"mode", "maxDiskBytes", "highWaterBytes", "coldStorage"}
    for name in section:
        if name not in known:
            raise _wrong(config, f"{SECTION}.{name}", "there is no such setting")
    read = Maintenance(enforce=_mode(config, section))
    for name, (field, reader) in _READERS:
        if name in section:
            read = replace(read, **{field: _checked(config, f"{SECTION}.{name}", section[name], reader)})
    retention = config.get(CRON).value
    if retention is not None:
        read = replace(read, cron_retention_ms=_checked(config, CRON, retention, cron_retention_ms))
    most = _checked(config, f"{SECTION}.maxDiskBytes", section.get("maxDiskBytes"), budget_bytes)
    high = _checked(config, f"{SECTION}.highWaterBytes", section.get("highWaterBytes"), _high_water)
    return with_budget(read, most if "maxDiskBytes" in section else read.max_disk_bytes, high)


def with_budget(read: Maintenance, max_disk_bytes: int | None, high_water_bytes: int | None) -> Maintenance:
    """With another budget; the high water is four fifths of it where none is named, and never above it."""
    if max_disk_bytes is None:
        return replace(read, max_disk_bytes=None, high_water_bytes=None)
    wanted = high_water_bytes or max_disk_bytes * 4 // 5
    return replace(read, max_disk_bytes=max_disk_bytes, high_water_bytes=max(1, min(wanted, max_disk_bytes)))


def age_ms(value: Any) -> int:
    """A duration of more than nothing; a bare number counts days. Raises `UsageError`."""
    found = parse_duration_ms(value, default_unit="d")
    if found <= 0:
        raise UsageError("more than no time is expected")
    return found


def optional_age_ms(value: Any) -> int | None:
    """As `age_ms`; false is off."""
    return None if value is False else age_ms(value)


def cron_retention_ms(value: Any) -> int | None:
    """A duration, a bare number in hours; false and no time at all are off."""
    if value is False:
        return None
    if not isinstance(value, str):
        raise UsageError("a duration as text, or false, is expected")
    return parse_duration_ms(value, default_unit="h") or None


def budget_bytes(value: Any) -> int | None:
    """A size; false and 0 are no budget."""
    return None if value is None or value is False else parse_size_bytes(value) or None


def most_entries(value: Any) -> int:
    """A whole number from 1 on."""
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise UsageError("a whole number from 1 on is expected")
    return value


def _dashboard_ms(value: Any) -> int | None:
    # Here 0 is off, elsewhere it is refused.
    off = value is False or (isinstance(value, int | float) and value == 0)
    return None if off else age_ms(value)


_READERS: tuple[tuple[str, tuple[str, Callable[[Any], Any]]], ...] = (
    ("pruneAfter", ("prune_after_ms", age_ms)),
    ("archiveDashboardAfter", ("archive_dashboard_after_ms", _dashboard_ms)),
    ("maxEntries", ("max_entries", most_entries)),
    ("preserveRecent", ("preserve_recent_ms", optional_age_ms)),
    ("resetArchiveRetention", ("reset_archive_retention_ms", optional_age_ms)),
)


def _mode(config: Config, section: Mapping[str, Any]) -> bool:
    mode = section.get("mode", "enforce")
    if mode not in ("enforce", "warn"):
        raise _wrong(config, f"{SECTION}.mode", "it is neither enforce nor warn")
    return mode == "enforce"


def _high_water(value: Any) -> int | None:
    if value is False:
        raise UsageError("a size is expected")
    return None if value is None else parse_size_bytes(value)


def _checked(config: Config, name: str, value: Any, reader: Callable[[Any], Any]) -> Any:
    try:
        return reader(value)
    except UsageError as error:
        raise _wrong(config, name, error.message) from None


def _refuse_retired(config: Config) -> None:
    for change in changes(config.openclaw()):
        if change.key.startswith(f"{SECTION}."):
            raise _wrong(
                config, change.key, "OpenClaw no longer takes it", hint="`openclaw-cli doctor fix` mends the file"
            )


def _wrong(config: Config, name: str, why: str, hint: str | None = None) -> ConfigError:
    origin = config.openclaw_origin(name)
    return ConfigError(f"{name} in {origin}: {why}", hint=hint, key=name, origin=origin)
