"""Rows of a file-era index in the current form."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from index_rows import RandomRows, rows_of, write_rows

from openclaw_cli import jstext
from openclaw_cli.migration.entries import Normalised, acp_receipt, normalise, session_id_problem
from openclaw_cli.migration.retired import current_shape
from openclaw_cli.storage import connection

NOW_MS = 1_790_000_000_000


def row(entry: object, key: str = "agent:main:x", **rules: Any) -> Normalised:
    """The settled form of one row."""
    return normalise(entry, key=key, agent_id="main", now_ms=NOW_MS, **rules)


def codes(found: Normalised) -> list[tuple[str, str]]:
    """Code and severity of each problem."""
    return [(problem.code, problem.severity) for problem in found.problems]


def test_rows_are_those_of_the_real_import(tmp_path: Path, fixtures: Path) -> None:
    """For every row of the fixture each column of all four tables is what the real program wrote."""
    index = jstext.parse((fixtures / "entries/index.json").read_bytes())
    expected = json.loads((fixtures / "entries/rows.json").read_text(encoding="utf-8"))
    found = write_rows(tmp_path / "openclaw-agent.sqlite", index)
    assert [] == [problem for item in found for problem in item.problems]
    with connection.open_read(tmp_path / "openclaw-agent.sqlite") as store:
        written = rows_of(store)
    for table, rows in expected.items():
        assert rows == written[table], table


@pytest.mark.parametrize(
    "entry",
    [
        None,
        "text",
        [],
        {},
        {"sessionId": ""},
        {"sessionId": " \u00a0"},
        {"sessionId": 5},
        {"sessionId": "../evil"},
        {"sessionId": "a/b"},
        {"sessionId": ".hidden"},
        {"sessionId": "a:b"},
        {"sessionId": "e\u0301"},
        {"sessionId": "a" * 129},
        {"sessionId": "漢" * 90},
        {"sessionId": "a.checkpoint.01234567-89ab-1cde-8fab-0123456789ab"},
        {"sessionId": "a\ud800"},
    ],
)
def test_a_bad_row_is_kept_out_alone(entry: object) -> None:
    """What cannot name a session is an issue that names the key, nothing else."""
    found = row(entry, key="agent:main:bad")
    assert found.entry is None
    assert [("entry_invalid", "error", "agent:main:bad")] == [
        (problem.code, problem.severity, problem.session_key) for problem in found.problems
    ]


def test_a_row_without_key_is_kept_out() -> None:
    """A blank key names nothing."""
    found = row({"sessionId": "s", "updatedAt": 1}, key=" ")
    assert (None, [("entry_invalid", "error")]) == (found.entry, codes(found))


def test_ids_that_can_name_a_session() -> None:
    """Letters and digits of every script, then dots, dashes and underscores too."""
    names = ("a", "9", "Ü-1_2.3", "漢字", "é", "a" * 128, "01234567-89ab-7cde-8fab-0123456789ab", "a.checkpoint.x")
    assert [None] * len(names) == [session_id_problem(name) for name in names]


def test_sessionid_loses_its_padding() -> None:
    """The id is the name of a file, which has no padding."""
    found = row({"sessionId": " s\n", "updatedAt": 1})
    assert found.entry is not None
    assert ("s", ("sessionId trimmed",)) == (found.entry["sessionId"], found.notes)


def test_other_key_is_reported() -> None:
    """A key in another spelling is a warning that names both."""
    found = row({"sessionId": "s", "updatedAt": 1}, key="Discord:Channel:5")
    assert ("agent:main:discord:channel:5", "main") == (found.key, found.agent_id)
    assert [("key_canonicalised", "warning")] == codes(found)
    assert "Discord:Channel:5" == found.problems[0].session_key


def test_owner_of_a_foreign_key() -> None:
    """A key of another agent says whose store it belongs into; a sentinel stays where it is."""
    entry = {"sessionId": "s", "updatedAt": 1}
    owners = [row(entry, key=key).agent_id for key in ("agent:ops:x", "global", "x", "agent:main:y")]
    assert ["ops", "main", "main", "main"] == owners


def test_lineage_is_settled_like_the_key() -> None:
    """Links to other sessions get the canonical spelling; what names no session is left out, in one warning each."""
    entry = {
        "sessionId": "s",
        "updatedAt": 1,
        "parentSessionKey": "main",
        "spawnedBy": "",
        "forkSource": {"sessionKey": "Discord:Channel:5", "sessionId": "q"},
    }
    found = row(entry)
    assert found.entry is not None
    assert "agent:main:main" == found.entry["parentSessionKey"]
    assert "spawnedBy" not in found.entry
    assert {"sessionKey": "agent:main:discord:channel:5", "sessionId": "q"} == found.entry["forkSource"]
    expected = [("key_canonicalised", "warning"), ("lineage_dropped", "warning"), ("key_canonicalised", "warning")]
    assert expected == codes(found)
    assert "main" == entry["parentSessionKey"], "the caller's row stays as it was"


@pytest.mark.parametrize("lineage", [None, "agent:main:main", "global", "agent:ops:x"])
def test_canonical_lineage_stays(lineage: str | None) -> None:
    """Nothing to settle, nothing to report."""
    found = row({"sessionId": "s", "updatedAt": 1, "parentSessionKey": lineage})
    assert ([], lineage) == (codes(found), (found.entry or {})["parentSessionKey"])


def test_fractional_times_are_rounded_and_reported() -> None:
    """The real import gives up on one; ours rounds, halves upwards."""
    found = row({"sessionId": "s", "updatedAt": 1_700_000_000_000.5, "startedAt": -1.5, "endedAt": 3.0})
    entry = found.entry or {}
    assert (1_700_000_000_001, -1) == (entry["updatedAt"], entry["startedAt"])
    assert [("entry_time_rounded", "warning")] * 2 == codes(found)


def test_impossible_times_are_left_out() -> None:
    """A number that JavaScript cannot hold exactly would make the store unreadable."""
    found = row({"sessionId": "s", "updatedAt": 1e300, "pinnedAt": 2**62})
    entry = found.entry or {}
    assert (NOW_MS, False, True) == (entry["updatedAt"], "pinnedAt" in entry, found.time_invented)
    assert [("entry_time_dropped", "warning")] * 2 == codes(found)


@pytest.mark.parametrize(
    ("entry", "started_ms", "expected"),
    [
        ({"updatedAt": 5}, 3, (5, 3, False)),
        ({"updatedAt": 5, "sessionStartedAt": 4}, 3, (5, 4, False)),
        ({}, 3, (3, 3, True)),
        ({"updatedAt": "soon", "sessionStartedAt": 4}, None, (4, 4, True)),
        ({"updatedAt": None}, None, (NOW_MS, None, True)),
        ({"updatedAt": True, "sessionStartedAt": "x"}, 7, (7, 7, True)),
        ({"updatedAt": 0}, None, (0, None, False)),
    ],
)
def test_missing_times(entry: dict[str, Any], started_ms: int | None, expected: tuple[Any, ...]) -> None:
    """The transcript's header gives the start of a row without one; the start or the clock a missing updatedAt."""
    found = row({"sessionId": "s", **entry}, started_ms=started_ms)
    shaped = found.entry or {}
    assert expected == (shaped["updatedAt"], shaped.get("sessionStartedAt"), found.time_invented)


def test_unknown_fields_and_order_stay() -> None:
    """What we do not know is somebody's content; replaced fields are appended, kept ones stay in their place."""
    entry = {"z": {"b": 1, "a": [None]}, "sessionId": "s", "lastTo": "telegram:1", "a": 1, "updatedAt": 1}
    entry |= {"channel": "telegram", "y": 2}
    assert ["z", "sessionId", "a", "updatedAt", "y", "delivery"] == list(row(entry).entry or {})


def test_notes_name_what_was_retired() -> None:
    """A report can say which fields went."""
    found = row({"sessionId": "s", "updatedAt": 1, "sessionFile": "/x", "memoryFlushAt": 3})
    assert ("retired: sessionFile, memoryFlushAt",) == found.notes


def test_delivery_of_wrong_types_is_repaired() -> None:
    """The real program copies such a delivery and then fails at every look at the store."""
    broken = {
        "kind": "external",
        "route": {"channel": 5, "target": {"to": "x"}},
        "context": {"channel": "telegram", "to": ["x"], "accountId": 3, "threadId": {}},
        "origin": {"provider": True, "label": "kept"},
    }
    found = row({"sessionId": "s", "updatedAt": 1, "delivery": broken})
    assert [("delivery_repaired", "warning")] == codes(found)
    assert {
        "kind": "external",
        "route": {"target": {"to": "x"}},
        "context": {"channel": "telegram"},
        "origin": {"label": "kept"},
    } == (found.entry or {})["delivery"]


def test_acp_receipt() -> None:
    """The receipt binds metadata to session or revision with a digest over sorted keys; none without metadata."""
    entry = {"sessionId": "s", "acp": {"z": 1, "a": {"ü": [1, None], "b": 2.0}}}
    made = acp_receipt(entry, source_path="/p/sessions.json", source_key=" k ", session_id="s")
    text = '{"meta":{"a":{"b":2,"ü":[1,null]},"z":1},"sessionBinding":"s","sessionKey":"k"}'.encode()
    expected = {"sourcePath": "/p/sessions.json", "sourceSessionKey": "k", "sessionId": "s"}
    expected |= {"sourceSha256": hashlib.sha256(text).hexdigest(), "sourceSizeBytes": len(text)}
    assert expected == made
    revised = acp_receipt({**entry, "lifecycleRevision": "r"}, source_path="/p", source_key="k", session_id="s")
    assert revised is not None
    assert "r" == revised["lifecycleRevision"]
    for nothing in (None, 0, "", False):
        assert acp_receipt({"acp": nothing}, source_path="/p", source_key="k", session_id="s") is None


def test_settling_twice_changes_nothing() -> None:
    """A settled row is in the current form already: no import after the first changes it."""
    for entry in RandomRows(20).index(400).values():
        once = row(entry)
        again = row(once.entry)
        assert (once.entry, ()) == (again.entry, again.problems)


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)
FIELDS = (
    *(
        "delivery",
        "deliveryContext",
        "origin",
        "route",
        "channel",
        "lastChannel",
        "lastTo",
        "lastThreadId",
        "createdBy",
    ),
    *("createdActor", "createdVia", "chatType", "icon", "color", "pendingFinalDelivery", "memoryFlush", "forkSource"),
    *("skillsSnapshot", "fallbackNotice", "pendingTranscriptRepair", "pendingDeliveryNotice", "parentSessionKey"),
    *("updatedAt", "sessionStartedAt", "archivedAt", "acp", "lifecycleRevision", "status", "label", "displayName"),
)


@given(st.dictionaries(st.sampled_from(FIELDS) | st.text(max_size=8), json_values, max_size=8), st.text(max_size=20))
def test_no_value_raises(entry: dict[str, Any], key: str) -> None:
    """Whatever stands in a row, it comes out as an entry or as an issue."""
    found = row({"sessionId": "s", **entry}, key=key)
    assert (found.entry is None) == any(problem.severity == "error" for problem in found.problems)


def test_current_shape_leaves_the_given_entry_alone() -> None:
    """The projection makes a new entry."""
    entry = {"sessionId": "s", "icon": "x", "skillsSnapshot": {"resolvedSkills": [1]}, "owner": 1}
    before = json.dumps(entry)
    current_shape(entry)
    assert before == json.dumps(entry)
