"""Filters of the command line: they only narrow a plan. A row goes when the plan names it and every filter lets it."""

from __future__ import annotations

import fnmatch
from collections.abc import Callable
from dataclasses import dataclass, replace

from openclaw_cli.retention.classify import Row
from openclaw_cli.retention.planning import Action, Decision, Plan

KINDS = (
    *("main", "direct", "group", "channel", "thread", "cron", "cron-run", "hook", "node", "acp", "subagent"),
    *("explicit", "model-run", "dashboard", "heartbeat", "recovered", "other"),
)
"""Rows of the table of keys (store format §2), by the names that `--kind` takes."""


@dataclass(frozen=True, slots=True)
class Filters:
    """What is asked of a row besides that the plan names it; None or 0 asks nothing.

    `keep_last`: so many of the rows that the plan names, the most recently active ones, stay.
    """

    older_than_ms: int | None = None
    kinds: frozenset[str] = frozenset()
    key_glob: str | None = None
    min_bytes: int | None = None
    keep_last: int | None = None
    limit: int | None = None

    def narrow(self, plan: Plan, now_ms: int, size_of: Callable[[Row], int]) -> Plan:
        """The plan with the rows spared that a filter does not let go; `size_of` gives the bytes of a row's session."""
        kept_last = self._kept_last(plan)
        made: list[Decision] = []
        taken = 0
        for each in plan.decisions:
            why = None
            if each.action is not Action.KEEP:
                why = self._spared(each.row, now_ms, size_of, kept_last)
                if why is None and self.limit is not None and taken >= self.limit:
                    why = "limit"
                taken += why is None
            made.append(each if why is None else replace(each, action=Action.KEEP, spared=why))
        return Plan(made)

    def _kept_last(self, plan: Plan) -> set[str]:
        if not self.keep_last:
            return set()
        newest = sorted(plan.taken(), key=lambda each: each.row.activity_ms, reverse=True)
        return {each.row.key for each in newest[: self.keep_last]}

    def _spared(self, row: Row, now_ms: int, size_of: Callable[[Row], int], kept_last: set[str]) -> str | None:
        if self.older_than_ms is not None and (row.updated_at is None or row.updated_at >= now_ms - self.older_than_ms):
            return "older-than"
        if self.kinds and kind_of(row) not in self.kinds:
            return "kind"
        if self.key_glob is not None and not fnmatch.fnmatchcase(row.key, self.key_glob):
            return "key-glob"
        if row.key in kept_last:
            return "keep-last"
        if self.min_bytes is not None and size_of(row) < self.min_bytes:
            return "min-bytes"
        return None


_PREFIXES = (
    *(("dashboard:", "dashboard"), ("recovered:", "recovered"), ("hook:", "hook"), ("node:", "node")),
    *(("node-", "node"), ("acp:", "acp"), ("acp-bridge:", "acp"), ("subagent:", "subagent")),
)


def kind_of(row: Row) -> str:
    """Which row of the table of keys a key is of; the first that fits."""
    key, rest = row.kind, row.kind.rest
    if key.is_model_run:
        return "model-run"
    if rest == "heartbeat" or rest.endswith(":heartbeat") or ":heartbeat:" in rest:
        return "heartbeat"
    if rest.startswith("cron:"):
        return "cron-run" if key.is_cron_run else "cron"
    for prefix, kind in _PREFIXES:
        if rest.startswith(prefix):
            return kind
    if key.text == "global" or rest == "main":
        return "main"
    if ":thread:" in rest or ":topic:" in rest:
        return "thread"
    if rest.startswith("explicit:"):
        return "explicit"
    parts = rest.split(":")
    if parts[0] == "direct" or any(part in ("direct", "dm") for part in parts[1:3]):
        return "direct"
    return next((part for part in parts[1:2] if part in ("group", "channel")), "other")
