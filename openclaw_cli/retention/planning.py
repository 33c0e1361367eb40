"""Which rows maintenance archives and removes, decided before anything is written (cleanup §5). Pure.

The order is fixed: cron runs, model probes under pressure, dashboards, age, cap. Each step sees what the steps before
it left. Cron runs come first because they change the pressure and the cap (cleanup §13).
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from openclaw_cli.retention.classify import CAP_REASON, Row, preserved
from openclaw_cli.retention.settings import Maintenance


class Action(StrEnum):
    """What becomes of a row."""

    KEEP = "keep"
    ARCHIVE = "archive"
    REMOVE = "remove"


class Reason(StrEnum):
    """Why a row goes; the words of archiveReason where it is archived."""

    MISSING = "missing-transcript"
    DM_SCOPE = "dm-scope"
    CRON = "cron-retention"
    MODEL_RUN = "model-run-pruned"
    DASHBOARD = "stale-dashboard"
    AGE = "age-retention"
    PRUNED = "pruned"
    CAP = CAP_REASON
    CAPPED = "capped"


@dataclass(frozen=True, slots=True)
class Decision:
    """What becomes of one row and why. `spared`: why a filter keeps a row that the plan names."""

    row: Row
    action: Action
    reason: str
    spared: str | None = None

    def as_json(self, size_bytes: int | None = None) -> dict[str, Any]:
        """Its object in `decisions`."""
        document = {
            "key": self.row.key,
            "sessionId": self.row.session_id,
            "action": str(self.action),
            "reason": str(self.reason),
            "bytes": size_bytes,
        }
        return document if self.spared is None else {**document, "spared": self.spared}


@dataclass(slots=True)
class Plan:
    """Every decision about unarchived rows, in the order in which they were made; the kept ones last."""

    decisions: list[Decision] = field(default_factory=list)

    def taken(self, *reasons: str) -> list[Decision]:
        """The decisions that change something, of these reasons (of all without any)."""
        return [
            each
            for each in self.decisions
            if each.action is not Action.KEEP and (not reasons or each.reason in reasons)
        ]

    def counts(self) -> dict[str, int]:
        """OpenClaw's counters, in its order (cleanup §5)."""
        found = Counter(each.reason for each in self.taken())
        return {
            "missing": found[Reason.MISSING],
            "dmScopeRetired": found[Reason.DM_SCOPE],
            "modelRunPruned": found[Reason.MODEL_RUN],
            "archived": found[Reason.DASHBOARD] + found[Reason.AGE],
            "capArchived": found[Reason.CAP],
            "pruned": found[Reason.PRUNED],
            # As OpenClaw counts: what the cap archives is in it, too.
            "capped": found[Reason.CAPPED] + found[Reason.CAP],
            # Ours: what the cap really removes, and what cron.sessionRetention does.
            "cappedRemoved": found[Reason.CAPPED],
            "cronRetention": found[Reason.CRON],
        }


@dataclass(frozen=True, slots=True)
class Context:
    """What a plan depends on besides rows and settings.

    `force`: down to the cap at once, as a command does; the write path waits for the high water. `active`: keys that
    are kept whatever they are. `stale_running`: rows that claim to run but were not written to for so long are taken.
    """

    now_ms: int
    force: bool = True
    active: frozenset[str] = frozenset()
    stale_running: bool = False


def high_water(most: int) -> int:
    """The number of rows at which the write path begins to take some away (cleanup §5)."""
    if most < 1:
        return 1
    return most + 1 if most <= 49 else most + max(25, math.ceil(most * 0.1))


def plan(rows: Iterable[Row], settings: Maintenance, context: Context, first: Sequence[Decision] = ()) -> Plan:
    """Decide about every unarchived row. `first`: decisions of explicit repairs, whose rows are gone already."""
    gone = {each.row.key for each in first if each.action is Action.REMOVE}
    left = {row.key: row for row in rows if not row.archived and row.key not in gone}
    made = Plan([each for each in first if each.action is Action.REMOVE])
    judge = _Judge(settings, context)
    for step in (_cron, _model_runs, _dashboards, _age, _cap):
        for decision in step(left, judge):
            made.decisions.append(decision)
            # Archived rows are no longer among those that the later steps count and take.
            del left[decision.row.key]
    made.decisions.extend(Decision(row, Action.KEEP, judge.why_kept(row)) for row in left.values())
    return made


class _Judge:
    """Settings and context as limits in time, and what they preserve."""

    def __init__(self, settings: Maintenance, context: Context) -> None:
        self.settings = settings
        self.context = context
        recent = settings.preserve_recent_ms
        self._recent_since_ms = None if recent is None else context.now_ms - recent

    def before(self, age_ms: int) -> int:
        """The time `age_ms` ago."""
        return self.context.now_ms - age_ms

    def preserved(self, row: Row) -> str | None:
        """Why a row is not for any step to take."""
        why = preserved(row, keys=self.context.active, recent_since_ms=self._recent_since_ms)
        if why == "running" and self.context.stale_running and self.is_stale(row):
            return row.protected
        return why

    def is_stale(self, row: Row) -> bool:
        """Whether a row that claims to run was not written to for as long as others are kept."""
        return row.running and row.updated_at is not None and row.updated_at < self.before(self.settings.prune_after_ms)

    def why_kept(self, row: Row) -> str:
        """The reason of a decision to keep."""
        why = self.preserved(row)
        if why == "running" and self.is_stale(row):
            return "stale-running"
        return why or "current"


def _cron(left: dict[str, Row], judge: _Judge) -> list[Decision]:
    """Runs of cron jobs, and what they have spawned, by `cron.sessionRetention`; base rows are not among them."""
    retention = judge.settings.cron_retention_ms
    if retention is None:
        return []
    limit = judge.before(retention)
    runs = {key for key, row in left.items() if row.kind.is_cron_run}
    below = _descendants(left, runs)
    return [
        Decision(row, Action.REMOVE, Reason.CRON)
        for row in left.values()
        if row.key in below and row.kind.is_synthetic and _is_older(row, limit) and judge.preserved(row) is None
    ]


def _descendants(left: dict[str, Row], runs: Collection[str]) -> set[str]:
    """`runs`, and the rows whose chain of parents or spawners ends in one of them."""
    known: dict[str, bool] = dict.fromkeys(runs, True)
    for key in left:
        chain: list[str] = []
        at: str | None = key
        while at is not None and at not in known:
            known[at] = False  # Also what ends a chain that leads back into itself.
            chain.append(at)
            row = left.get(at)
            at = None if row is None else row.spawned_by or row.parent_key
        if at is not None and known[at]:
            known.update(dict.fromkeys(chain, True))
    return {key for key, found in known.items() if found}


def _model_runs(left: dict[str, Row], judge: _Judge) -> list[Decision]:
    """Probes of models, only while there are more rows than wanted."""
    most = judge.settings.max_entries
    pressure = len(left) > most if judge.context.force else len(left) >= high_water(most)
    if not pressure:
        return []
    limit = judge.before(judge.settings.model_run_prune_after_ms)
    return [
        Decision(row, Action.REMOVE, Reason.MODEL_RUN)
        for row in left.values()
        if row.kind.is_model_run and _is_older(row, limit) and judge.preserved(row) is None
    ]


def _dashboards(left: dict[str, Row], judge: _Judge) -> list[Decision]:
    """Chats of the dashboard that nobody uses."""
    age = judge.settings.archive_dashboard_after_ms
    if age is None:
        return []
    limit = judge.before(age)
    return [
        Decision(row, Action.ARCHIVE, Reason.DASHBOARD)
        for row in left.values()
        if row.kind.is_dashboard and 0 < row.activity_ms < limit and judge.preserved(row) is None
    ]


def _age(left: dict[str, Row], judge: _Judge) -> list[Decision]:
    """Rows that were not written to for a long time: synthetic ones go, others are archived."""
    limit = judge.before(judge.settings.prune_after_ms)
    return [
        _end(row, Reason.PRUNED, Reason.AGE)
        for row in left.values()
        if _is_older(row, limit) and judge.preserved(row) is None
    ]


def _cap(left: dict[str, Row], judge: _Judge) -> list[Decision]:
    """The least active rows above the wanted number; of two that are equal the one with the larger key."""
    most = judge.settings.max_entries
    if not judge.context.force and len(left) < high_water(most):
        return []
    overflow = len(left) - most
    if overflow <= 0:
        return []
    candidates = sorted((row for row in left.values() if judge.preserved(row) is None), key=_by_key, reverse=True)
    candidates.sort(key=lambda row: row.activity_ms)
    return [_end(row, Reason.CAPPED, Reason.CAP) for row in candidates[:overflow]]


def _end(row: Row, removed: Reason, archived: Reason) -> Decision:
    if row.kind.is_synthetic:
        return Decision(row, Action.REMOVE, removed)
    return Decision(row, Action.ARCHIVE, archived)


def _is_older(row: Row, limit_ms: int) -> bool:
    """Whether a row was last written to before a time; one without time never was."""
    return row.updated_at is not None and row.updated_at < limit_ms


def _by_key(row: Row) -> bytes:
    # SQLite compares keys by their bytes.
    return row.key.encode("utf-8", "surrogatepass")
