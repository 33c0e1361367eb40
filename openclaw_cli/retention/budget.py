"""The disk budget: what goes, in which order, until a store and its files take no more than the high water.

Physical bytes count: database, log, files (cleanup §7.2). Order: space that nothing uses; archives that are older than
the grace; history of keys; by-products of runs; sessions that only the cap has archived. Everything but the archives
is archived first, and no run deletes an archive that is younger than the grace, so none that it has made itself.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Any

from openclaw_cli.config import Target
from openclaw_cli.errors import Issue, escaped
from openclaw_cli.retention import ageing, artifacts, classify, reading
from openclaw_cli.retention.ageing import Kept
from openclaw_cli.retention.applying import Run
from openclaw_cli.retention.classify import Row
from openclaw_cli.retention.cleaning import Measured, Options, measure
from openclaw_cli.retention.planning import Action, Decision
from openclaw_cli.storage import archives, removal, space
from openclaw_cli.storage.connection import Store

BUDGET = "disk-budget"

_HISTORY = (
    "SELECT w.session_id, w.session_key FROM session_windows w"
    " WHERE NOT EXISTS (SELECT 1 FROM session_nodes n WHERE n.current_session_id = w.session_id)"
    " ORDER BY w.updated_at, w.session_id"
)


class Kind(StrEnum):
    """What a step of the budget takes."""

    ARCHIVE = "delete-archive"
    HISTORY = "remove-history"
    ROW = "remove"


@dataclass(frozen=True, slots=True)
class Taken:
    """One thing that went. `key` is None for an archive; `sha256` of its file, where it was there."""

    kind: Kind
    key: str | None
    session_id: str | None
    size_bytes: int
    name: str | None = None
    sha256: str | None = None

    def as_json(self) -> dict[str, Any]:
        """Its object in `decisions`."""
        document: dict[str, Any] = {
            "key": self.key,
            "sessionId": self.session_id,
            "action": "delete-archive" if self.kind is Kind.ARCHIVE else "remove",
            "reason": BUDGET if self.kind is not Kind.HISTORY else "disk-budget-history",
            "bytes": self.size_bytes,
        }
        if self.name is not None:
            document |= {"archive": escaped(self.name), "sha256": self.sha256}
        return document


@dataclass(slots=True)
class Spent:
    """What the budget did. `deferred`: what kept it from beginning; `estimated`: told without a trial."""

    before: Measured
    after: Measured
    taken: list[Taken] = field(default_factory=list)
    deferred: str | None = None
    estimated: bool = False
    issues: list[Issue] = field(default_factory=list)

    @property
    def removed_files(self) -> int:
        """Archives that went."""
        return sum(each.kind is Kind.ARCHIVE for each in self.taken)

    @property
    def removed_entries(self) -> int:
        """Sessions of history, and rows."""
        return len(self.taken) - self.removed_files


def is_over(options: Options, measured: Measured) -> bool:
    """Whether there is a budget and it is exceeded."""
    most = options.settings.max_disk_bytes
    return most is not None and measured.total_bytes > most


def enforce(store: Store, target: Target, run: Run, options: Options) -> Spent:
    """Take what has to go until the high water is reached, measured after each step. Call it behind `applying.act`."""
    before = _measured(target)
    spent = Spent(before, before)
    high = options.settings.high_water_bytes
    if not is_over(options, before) or high is None:
        return spent
    pass_ = _Pass(store, target, run, options, spent)
    if not pass_.reclaim():
        spent.deferred = "checkpoint-incomplete"
        message = (
            f"{target.sqlite_path}: somebody reads or writes, so that its log cannot be emptied; nothing was taken"
        )
        spent.issues.append(Issue("disk_budget_deferred", "error", message))
        return spent
    for step in (pass_.archives, pass_.history, pass_.synthetic, pass_.cap_archived):
        if spent.after.total_bytes > high:
            step()
    if spent.after.total_bytes > high:
        spent.issues.append(unreached(target.sqlite_path, spent, high))
    return spent


def estimate(store: Store, target: Target, options: Options) -> Spent:
    """The same by sizes alone, where there is no room for a trial: nothing is written, the bytes are a guess."""
    before = _measured(target)
    spent = Spent(before, before, estimated=True)
    high = options.settings.high_water_bytes
    if high is None or not is_over(options, before):
        return spent
    pass_ = _Guess(store, target, options, spent)
    for step in (pass_.archives, pass_.history, pass_.synthetic, pass_.cap_archived):
        if spent.after.total_bytes > high:
            step()
    return spent


def unreached(path: Path, spent: Spent, high: int) -> Issue:
    """The issue for a target that was missed: what blocks it."""
    after = spent.after
    message = (
        f"{path}: {after.total_bytes} bytes are left, the disk budget wants {high}; what is left is"
        f" protected or in use: database {after.database_bytes}, log {after.wal_bytes}, files {after.artifact_bytes},"
        f" of them archives {after.archive_bytes} (--archive-dir puts archives elsewhere)"
    )
    facts = {"totalBytes": after.total_bytes, "highWaterBytes": high}
    return Issue("disk_budget_unreached", "error", message, facts=facts)


def _measured(target: Target) -> Measured:
    return measure(target, artifacts.listing(target.sessions_dir, target.store_path.name))


class _Pass:
    def __init__(self, store: Store, target: Target, run: Run | None, options: Options, spent: Spent) -> None:
        self._store = store
        self._target = target
        self._run = run
        self._options = options
        self._spent = spent
        self._rows = reading.read(store, target.agent_id, options.rules).by_key()
        self._active = reading.active_chain(self._rows, options.active_key)
        recent = options.settings.preserve_recent_ms
        self._recent_since_ms = None if recent is None else options.now_ms - recent

    def reclaim(self) -> bool:
        """Give unused space back and measure; False when the log could not be emptied."""
        done = space.checkpoint(self._store, "TRUNCATE")
        if done.blocked:
            return False
        # Deleted text stays in the search index until its segments are merged (cleanup §13).
        space.merge_search(self._store)
        space.incremental_vacuum(self._store)
        space.checkpoint(self._store, "TRUNCATE")
        self._spent.after = _measured(self._target)
        return True

    def _enough(self) -> bool:
        high = self._options.settings.high_water_bytes
        return high is None or self._spent.after.total_bytes <= high

    def _until_enough(self, victims: Iterator[Callable[[], Taken | None]]) -> None:
        for take in victims:
            if self._enough():
                return
            taken = take()
            if taken is not None:
                self._spent.taken.append(taken)
                self.reclaim()

    def archives(self) -> None:
        """Archives that are older than the grace, the oldest first."""
        files = artifacts.listing(self._target.sessions_dir, self._target.store_path.name)
        found = ageing.kept(files, archives.stored(self._store))
        limit = self._options.now_ms - self._options.archive_grace_ms
        self._until_enough((lambda one=one: self._delete_archive(one)) for one in ageing.spendable(found, limit))

    def _delete_archive(self, one: Kept) -> Taken:
        sha256 = one.sha256()
        self._drop_archive(one, sha256)
        return Taken(Kind.ARCHIVE, None, one.session_id, one.size_bytes, one.name, sha256)

    def _drop_archive(self, one: Kept, sha256: str | None) -> None:
        self._writer.delete_archive(one, sha256, BUDGET)

    @property
    def _writer(self) -> Run:
        if self._run is None:
            raise ValueError("a guess writes nothing")
        return self._run

    def history(self) -> None:
        """Sessions that no key goes on with, the oldest first; those of recent and of held keys stay."""
        released = {row.key for row in self._rows.values() if self._is_last_resort(row)}
        found = self._store.execute(_HISTORY).fetchall()
        self._until_enough(
            (lambda session_id=session_id, key=key: self._remove_history(session_id, key, released))
            for session_id, key in found
            if not self._keeps_history(key)
        )

    def _keeps_history(self, key: str) -> bool:
        row = self._rows.get(key)
        if row is None:
            # A row that could not be judged, or is never named, keeps what it has; a placeholder keeps nothing.
            sql = "SELECT 1 FROM session_nodes WHERE session_key = ? AND entry_json <> '{}'"
            return self._store.value(sql, (key,)) is not None
        since = self._recent_since_ms
        return key in self._active or (since is not None and not row.kind.is_synthetic and row.activity_ms >= since)

    def _remove_history(self, session_id: str, key: str, released: set[str]) -> Taken | None:
        size = self._writer.remove_history(session_id, BUDGET, released)
        return None if size is None else Taken(Kind.HISTORY, key, session_id, size)

    def synthetic(self) -> None:
        """By-products of runs that nothing holds, the least active first."""
        found = [
            row for row in self._rows.values() if row.kind.is_synthetic and not row.archived and self._held(row) is None
        ]
        self._rows_of(sorted(found, key=lambda row: (row.activity_ms, row.key)))

    def cap_archived(self) -> None:
        """Sessions that only the cap has archived, the longest archived first."""
        sql = "SELECT session_key FROM session_nodes WHERE archived_at IS NOT NULL ORDER BY archived_at, session_key"
        keys = [key for (key,) in self._store.execute(sql).fetchall()]
        # Read again: this run may have archived some of them by the cap itself.
        self._rows = reading.read(self._store, self._target.agent_id, self._options.rules).by_key()
        self._rows_of([row for key in keys if (row := self._rows.get(key)) is not None and self._is_last_resort(row)])

    def _rows_of(self, rows: list[Row]) -> None:
        self._until_enough((lambda row=row: self._remove_row(row)) for row in rows)

    def _remove_row(self, row: Row) -> Taken | None:
        size = self._writer.remove_one(Decision(row, Action.REMOVE, BUDGET))
        return None if size is None else Taken(Kind.ROW, row.key, row.session_id, size)

    def _held(self, row: Row) -> str | None:
        return classify.held(row, keys=self._active, recent_since_ms=self._recent_since_ms)

    def _is_last_resort(self, row: Row) -> bool:
        return classify.is_cap_archived(row) and self._held(row) is None


class _Guess(_Pass):
    """Takes nothing: counts down by the sizes of what would go, less what archives beside the store take of it."""

    def __init__(self, store: Store, target: Target, options: Options, spent: Spent) -> None:
        super().__init__(store, target, None, options, spent)
        self._references = removal.References(store)
        self._references.refresh()

    def reclaim(self) -> bool:
        """Count down by what was taken last."""
        if self._spent.taken:
            last = self._spent.taken[-1]
            stays = 0 if last.kind is Kind.ARCHIVE or self._options.archive_dir is not None else last.size_bytes // 2
            after = self._spent.after
            size = max(0, after.database_bytes + after.wal_bytes - last.size_bytes + stays)
            self._spent.after = dataclasses.replace(after, database_bytes=size, wal_bytes=0)
        return True

    def _drop_archive(self, one: Kept, sha256: str | None) -> None:
        pass

    def _remove_history(self, session_id: str, key: str, released: set[str]) -> Taken | None:
        if self._references.is_referenced(session_id, (), released):
            return None
        return Taken(Kind.HISTORY, key, session_id, removal.size_bytes(self._store, [session_id]))

    def _remove_row(self, row: Row) -> Taken | None:
        size = removal.key_bytes(self._store, row.key)
        return Taken(Kind.ROW, row.key, row.session_id, size)
