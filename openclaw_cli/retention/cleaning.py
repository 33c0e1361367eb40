"""`sessions cleanup` of one store: looking at it and deciding; nothing is written (cleanup §5–§7).

A preview ends here and prints the plan that the run makes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from openclaw_cli.config import Target
from openclaw_cli.migration.plan import Rules
from openclaw_cli.retention import ageing, artifacts, classify, reading, repairs
from openclaw_cli.retention.ageing import Kept
from openclaw_cli.retention.artifacts import Artifact
from openclaw_cli.retention.classify import Row
from openclaw_cli.retention.filters import Filters
from openclaw_cli.retention.planning import Context, Decision, Plan, plan
from openclaw_cli.retention.reading import Rows
from openclaw_cli.retention.settings import DAY_MS, Maintenance
from openclaw_cli.storage import archives, removal, space
from openclaw_cli.storage.connection import Store, Timeouts


@dataclass(frozen=True, slots=True)
class Options:
    """What the command line asks for. `dm_scope`: `session.dmScope`; `archive_dir`: where archives go instead."""

    rules: Rules
    settings: Maintenance
    now_ms: int
    active_key: str | None = None
    fix_missing: bool = False
    fix_dm_scope: bool = False
    dm_scope: str = "main"
    force: bool = False
    stale_running: bool = False
    filters: Filters = field(default_factory=Filters)
    archive_dir: Path | None = None
    archive_grace_ms: int = DAY_MS
    vacuum: bool = False
    timeouts: Timeouts = field(default_factory=Timeouts)


@dataclass(frozen=True, slots=True)
class Measured:
    """Physical bytes of a store and its files: what a disk budget is about (cleanup §7.2)."""

    database_bytes: int
    wal_bytes: int
    artifact_bytes: int
    archive_bytes: int

    @property
    def total_bytes(self) -> int:
        """Everything together."""
        return self.database_bytes + self.wal_bytes + self.artifact_bytes


@dataclass(slots=True)
class Look:
    """What was found in one store and decided about it, before anything is written.

    `sizes`: key → bytes of the sessions that leave with it. `measured`: bytes that count for the disk budget.
    `protected_bytes`: of sessions whose rows no step takes, None unless the disk is fuller than the budget's high
    water. `reclaimable_bytes`: what files have beyond the pages in use. `aged`: archives past their retention, with
    their SHA-256. `version`: of the store's content; while it is the same nobody else has written.
    """

    rows: Rows
    plan: Plan
    sizes: dict[str, int]
    files: list[Artifact]
    orphans: list[tuple[Artifact, str]]
    measured: Measured
    protected_bytes: int | None = None
    reclaimable_bytes: int = 0
    aged: list[tuple[Kept, str | None]] = field(default_factory=list)
    version: int = -1

    @property
    def would_mutate(self) -> bool:
        """Whether carrying it out would change anything."""
        return bool(self.plan.taken() or self.orphans or self.aged)


def look(store: Store, target: Target, options: Options) -> Look:
    """Read a store and decide; nothing is written."""
    version = store.value("PRAGMA data_version")
    rows = reading.read(store, target.agent_id, options.rules)
    by_key = rows.by_key()
    active = reading.active_chain(by_key, options.active_key)
    context = Context(options.now_ms, active=active, stale_running=options.stale_running)

    def has_no_message(row: Row) -> bool:
        return repairs.has_no_message(store, row.session_id)

    made = plan(
        rows.rows, options.settings, context, list(first(rows.rows, target.agent_id, active, options, has_no_message))
    )
    sizes: dict[str, int] = {}

    def size_of(row: Row) -> int:
        if row.key not in sizes:
            sizes[row.key] = removal.key_bytes(store, row.key)
        return sizes[row.key]

    made = options.filters.narrow(made, options.now_ms, size_of)
    for each in made.taken():
        size_of(each.row)
    files = list(artifacts.listing(target.sessions_dir, target.store_path.name))
    orphans = artifacts.orphans(
        files,
        lambda: artifacts.referenced_names(reading.entries(store)),
        now_ms=options.now_ms,
        prune_after_ms=options.settings.prune_after_ms,
    )
    measured = measure(target, files)
    high = options.settings.high_water_bytes
    is_full = high is not None and measured.total_bytes > high
    return Look(
        rows,
        made,
        sizes,
        files,
        orphans,
        measured,
        _protected_bytes(store, rows.rows, active, options) if is_full else None,
        space.measure(store).unused_bytes,
        _aged(store, files, options),
        version,
    )


def _protected_bytes(store: Store, rows: Iterable[Row], active: frozenset[str], options: Options) -> int:
    recent = options.settings.preserve_recent_ms
    since_ms = None if recent is None else options.now_ms - recent
    held = (row for row in rows if classify.held(row, keys=active, recent_since_ms=since_ms) is not None)
    return sum(removal.key_bytes(store, row.key) for row in held)


def _aged(store: Store, files: list[Artifact], options: Options) -> list[tuple[Kept, str | None]]:
    retention_ms = options.settings.reset_archive_retention_ms
    if retention_ms is None:
        return []
    found = ageing.kept(files, archives.stored(store))
    aged = ageing.aged(found, now_ms=options.now_ms, retention_ms=retention_ms, grace_ms=options.archive_grace_ms)
    return [(one, one.sha256()) for one in aged]


def first(
    rows: list[Row], agent_id: str, active: frozenset[str], options: Options, has_no_message: Callable[[Row], bool]
) -> Iterator[Decision]:
    """The decisions of the explicit repairs, which come before the plan."""
    taken: set[str] = set()
    if options.fix_missing:
        for decision in repairs.missing(rows, active, has_no_message, force=options.force):
            taken.add(decision.row.key)
            yield decision
    if options.fix_dm_scope and options.dm_scope == "main":
        for decision in repairs.stale_direct(rows, agent_id, options.active_key, active, force=options.force):
            if decision.row.key not in taken:
                yield decision


def measure(target: Target, files: Iterable[Artifact]) -> Measured:
    """What store and files take on the disk. Files below `cold/` and `skills-prompts/` count, too."""
    listed = list(files)
    below = sum(path.lstat().st_size for name in ("cold", "skills-prompts") for path in _files(target, name))
    found = space.sizes(target.sqlite_path)
    archives = sum(file.size_bytes for file in listed if file.name.kind is artifacts.Class.ARCHIVE)
    return Measured(found.database_bytes, found.wal_bytes, artifacts.counted_bytes(listed) + below, archives)


def _files(target: Target, name: str) -> Iterator[Path]:
    place = target.sessions_dir / name
    if place.is_dir():
        yield from (path for path in place.rglob("*") if path.is_file() and not path.is_symlink())
