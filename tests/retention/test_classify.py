"""Classification against what the real program's own functions answer."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from openclaw_cli.retention import classify
from openclaw_cli.retention.classify import CAP_REASON, held, may_be_pinned, parse_key, preserved, row_of

GOLDEN = Path(__file__).resolve().parents[2] / "fixtures/cleanup"
KEYS = json.loads((GOLDEN / "keys.json").read_text())
ENTRIES = json.loads((GOLDEN / "entries.json").read_text())
NOW_MS = 1_790_000_000_000
DAY_MS = 86_400_000


@pytest.mark.parametrize("given", KEYS, ids=lambda given: given["key"] or "empty")
def test_keys(given: dict[str, Any]) -> None:
    """What a bare row of each key is: preserved, what age does to it, whether it may be pinned, evicted, is recent."""
    key, old = given["key"], {"sessionId": "s", "updatedAt": NOW_MS - 90 * DAY_MS}
    row = row_of(key, old)
    fate = "kept" if preserved(row) else "removed" if row.kind.is_synthetic else "archived"
    cap = row_of(key, {**old, "archivedAt": 1, "archiveReason": CAP_REASON})
    recent = preserved(row_of(key, {"sessionId": "s", "updatedAt": NOW_MS}), recent_since_ms=NOW_MS - DAY_MS)

    assert given == {
        "key": key,
        "preservedBare": preserved(row) is not None,
        "agePrune": fate,
        "pinnable": may_be_pinned(parse_key(key), {}),
        "pinnableParentMain": may_be_pinned(parse_key(key), {"parentSessionKey": "agent:main:main"}),
        "evictable": classify.is_cap_archived(cap) and held(cap) is None,
        "recent": recent is not None,
    }


@pytest.mark.parametrize("given", ENTRIES, ids=lambda given: f"{given['key']} {json.dumps(given['entry'])[27:90]}")
def test_entries(given: dict[str, Any]) -> None:
    """What the fields of an entry protect it from."""
    row = row_of(given["key"], given["entry"])

    assert given == {
        "key": given["key"],
        "entry": given["entry"],
        "preserved": preserved(row) is not None,
        "preservedRecent1d": preserved(row, recent_since_ms=NOW_MS - DAY_MS) is not None,
        "preservedByKey": preserved(row, keys={given["key"]}) is not None,
        "evictable": classify.is_cap_archived(row) and held(row) is None,
        "activityAt": row.activity_ms,
    }
