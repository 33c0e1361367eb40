"""Plans against those of the real program, and what ours has besides."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from openclaw_cli.retention.classify import row_of
from openclaw_cli.retention.planning import Action, Context, Plan, high_water, plan
from openclaw_cli.retention.settings import DAY_MS, Maintenance

GOLDEN = Path(__file__).resolve().parents[2] / "fixtures/cleanup"
PLANS = json.loads((GOLDEN / "plans.json").read_text())
NOW_MS = 1_790_000_000_000
SECTIONS = {"stale-dashboard": "dashboard", "age-retention": "age", "active-session-cap": "cap"}


def settings_of(given: dict[str, Any]) -> Maintenance:
    """The recorded settings; the real program's plan knows nothing of cron retention."""
    return Maintenance(
        prune_after_ms=given["pruneAfterMs"],
        archive_dashboard_after_ms=given["archiveDashboardAfterMs"],
        max_entries=given["maxEntries"],
        preserve_recent_ms=given["preserveRecentMs"],
        model_run_prune_after_ms=given["modelRunPruneAfterMs"],
        cron_retention_ms=None,
    )


@pytest.mark.parametrize("given", PLANS, ids=range(len(PLANS)))
def test_the_real_programs_plans(given: dict[str, Any]) -> None:
    """The same rows with the same reasons, and the same counters."""
    rows = [row_of(key, entry) for key, entry in given["store"].items()]
    made = plan(
        rows,
        settings_of(given["maintenance"]),
        Context(given["now"], force=given["force"], active=frozenset(given["preserveKeys"] or ())),
    )

    taken = made.taken()
    removed = {each.row.key: each.reason for each in taken if each.action is Action.REMOVE}
    archived = {each.row.key: [SECTIONS[each.reason], each.reason] for each in taken if each.action is Action.ARCHIVE}
    assert (given["removed"], given["archived"]) == (removed, archived)
    counts = made.counts()
    counts["archivedTotal"] = counts["archived"] + counts["capArchived"]
    assert given["counts"] == {name: counts[name] for name in given["counts"]}
    assert sorted(key for key, entry in given["store"].items() if "archivedAt" not in entry) == sorted(
        each.row.key for each in made.decisions
    )


@pytest.mark.parametrize(
    ("most", "wanted"),
    [(0, 1), (1, 2), (10, 11), (49, 50), (50, 75), (100, 125), (250, 275), (251, 277), (1000, 1100), (5000, 5500)],
)
def test_high_water(most: int, wanted: int) -> None:
    """The counts at which the real program's write path begins."""
    assert wanted == high_water(most)


def of(rows: dict[str, dict[str, Any]], *, stale_running: bool = False, **settings: Any) -> Plan:
    """The plan of a store; times of entries are ages in days."""
    entries = {
        key: {name: NOW_MS - value * DAY_MS if name.endswith("At") else value for name, value in entry.items()}
        for key, entry in rows.items()
    }
    found = [row_of(key, {"sessionId": key, **entry}) for key, entry in entries.items()]
    return plan(found, Maintenance(**settings), Context(NOW_MS, stale_running=stale_running))


def reasons(made: Plan) -> dict[str, str]:
    """Key → reason."""
    return {each.row.key: str(each.reason) for each in made.decisions}


RUN = "agent:main:cron:job:run:1"


def test_cron_runs_and_what_they_spawned() -> None:
    """They go after a day; their base row, a running one, a conversation and a young descendant stay."""
    made = of(
        {
            "agent:main:cron:job": {"updatedAt": 20},
            RUN: {"updatedAt": 2},
            f"{RUN}:x": {"updatedAt": 2},
            "agent:main:cron:job:run:2": {"updatedAt": 2, "status": "running"},
            "agent:main:cron:job:run:3": {"updatedAt": 0.5},
            "agent:main:subagent:a": {"updatedAt": 2, "spawnedBy": RUN},
            "agent:main:subagent:b": {"updatedAt": 2, "spawnedBy": "agent:main:subagent:a"},
            "agent:main:subagent:c": {"updatedAt": 0.5, "spawnedBy": RUN},
            "agent:main:subagent:d": {"updatedAt": 2, "spawnedBy": "agent:main:subagent:e"},
            "agent:main:subagent:e": {"updatedAt": 2, "spawnedBy": "agent:main:subagent:d"},
            "agent:main:telegram:direct:1": {"updatedAt": 2, "parentSessionKey": RUN},
        }
    )

    assert {
        "agent:main:cron:job": "current",
        RUN: "cron-retention",
        f"{RUN}:x": "cron-retention",
        "agent:main:cron:job:run:2": "running",
        "agent:main:cron:job:run:3": "current",
        "agent:main:subagent:a": "cron-retention",
        "agent:main:subagent:b": "cron-retention",
        "agent:main:subagent:c": "current",
        "agent:main:subagent:d": "current",
        "agent:main:subagent:e": "current",
        "agent:main:telegram:direct:1": "conversation",
    } == reasons(made)
    assert not any(of({RUN: {"updatedAt": 2}}, cron_retention_ms=None).taken())


def test_rows_that_claim_to_run() -> None:
    """They are named as stale; only on request they are taken, and a conversation not even then."""
    rows = {
        "agent:main:subagent:a": {"updatedAt": 40, "status": "running"},
        "agent:main:subagent:b": {"updatedAt": 1, "status": "running"},
        "agent:main:telegram:direct:1": {"updatedAt": 40, "status": "running"},
    }

    assert ["stale-running", "running", "stale-running"] == list(reasons(of(rows)).values())
    assert {"agent:main:subagent:a": "pruned", "agent:main:subagent:b": "running"}.items() <= reasons(
        of(rows, stale_running=True)
    ).items()
    assert ["agent:main:subagent:a"] == [each.row.key for each in of(rows, stale_running=True).taken()]
