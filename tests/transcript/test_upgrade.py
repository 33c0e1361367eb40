"""Old transcript rows in the form of the store. Beside the real program: tests/peer/test_transcript_rows.py."""

from __future__ import annotations

import copy
import hashlib
import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from openclaw_cli.transcript.media import canonical_media
from openclaw_cli.transcript.upgrade import Plan, Upgrader, plan

PATH, SESSION = "/state/agents/main/sessions/s.jsonl", "s"
PREFIX = hashlib.sha256(f"{PATH}\0{SESSION}".encode()).hexdigest()[:16]


class Row(NamedTuple):
    """A record as far as the upgrade looks at it."""

    value: Any


def upgraded(rows: Iterable[Any], found: Plan | None = None) -> list[Any]:
    """The rows as the store would keep them."""
    upgrader = Upgrader(PATH, SESSION, found)
    return [upgrader.feed(Row(copy.deepcopy(row)))[0] for row in rows]


def text(value: Any) -> str:
    """The JSON text, because the order of keys counts."""
    return json.dumps(value)


def test_the_real_programs_own_examples(fixtures: Path) -> None:
    """Its in-memory migration, which makes ids of another form at random; here they are those of the import."""
    cases = json.loads((fixtures / "compaction/transcript_version_migration.json").read_text())["cases"]
    for case in cases:
        expected = text(case["after"]).replace('"gen0"', f'"{PREFIX}-1"').replace('"gen1"', f'"{PREFIX}-2"')

        assert expected == text(upgraded(case["before"]))


def test_ids_and_chain_of_version_1() -> None:
    """The id is made of path, session and the row's place in base 36; each row follows the one before."""
    rows = [{"type": "session", "id": "x"}, *[{"type": "custom", "customType": "n", "id": "old"}] * 40]

    result = upgraded(rows)

    assert (f"{PREFIX}-1", None) == (result[1]["id"], result[1]["parentId"])
    assert (f"{PREFIX}-14", f"{PREFIX}-13") == (result[40]["id"], result[40]["parentId"])


def test_the_header_gets_the_id_of_the_index() -> None:
    """Whatever it says itself; its working directory is at least empty."""
    header = {"type": "session", "sessionId": "gone", "version": 4, "id": "other", "timestamp": 5}

    assert text({"type": "session", "version": 4, "id": SESSION, "timestamp": "", "cwd": ""}) == text(
        upgraded([header])[0]
    )


@pytest.mark.parametrize(
    "version, kept", [(1, 3), (2, 3), (2.5, 3), (3, 3), (4, 4), (9, 9), ("4", 3), (None, 3), (True, 3)]
)
def test_versions(version: Any, kept: Any) -> None:
    """1 and 2 become 3, what is newer or unknown stays, what is no number counts as 1."""
    assert kept == upgraded([{"type": "session", "version": version}])[0]["version"]


def test_without_a_header_all_ids_are_replaced() -> None:
    """The real import takes such a file for version 1 and stores no header row."""
    result = upgraded([{"type": "message", "id": "m", "parentId": "p", "message": {"role": "user", "content": "x"}}])

    assert [(f"{PREFIX}-0", None)] == [(row["id"], row["parentId"]) for row in result]


def test_a_late_header_decides_about_the_rows_before_it() -> None:
    """`plan` finds it; rows of version 3 keep their ids."""
    rows = [
        {"type": "label", "id": "m", "parentId": None, "targetId": "t"},
        {"type": "session", "version": 3, "id": "h"},
    ]
    found = plan(Row(row) for row in rows)

    result = upgraded(rows, found)

    assert Plan(1, 3) == found
    assert ["m", SESSION] == [row["id"] for row in result]


def test_rows_that_are_not_known_stay_as_they_are() -> None:
    """Values that are no objects, unknown types, messages of an unknown shape; no id is made for them."""
    rows = [[1], "x", 4, {}, {"type": "future"}, {"type": "message", "message": {"role": "custom", "content": 5}}]

    assert rows == upgraded([{"type": "session"}, *rows])[1:]


def test_a_row_that_fits_is_reported_as_unchanged() -> None:
    """So that its line goes into the store without being written anew."""
    upgrader = Upgrader(PATH, SESSION)
    header = {"type": "session", "version": 3, "id": SESSION, "timestamp": "t", "cwd": "/"}
    entry = {"type": "message", "id": "m", "parentId": None, "message": {"role": "user", "content": "x"}}

    assert [False, False] == [upgrader.feed(Row(row))[1] for row in (header, entry)]


def test_flat_media_fields_become_one_list() -> None:
    """Position by position; the list goes to the end."""
    message = {"role": "user", "MediaPaths": ["/a", "/b"], "MediaTypes": ["image/png", "audio"], "content": "x"}

    assert text(
        {
            "role": "user",
            "content": "x",
            "__openclaw": {"media": [{"path": "/a", "contentType": "image/png"}, {"path": "/b", "kind": "audio"}]},
        }
    ) == text(canonical_media(message))


def test_media_that_nobody_can_assign_stay_as_they_are() -> None:
    """Two paths and one type: the real import gives up on the whole store."""
    assert canonical_media({"role": "user", "MediaPaths": ["/a", "/b"], "MediaTypes": ["image/png"]}) is None


def test_media_in_the_stored_form_stay_as_they_are() -> None:
    """And messages without any."""
    assert canonical_media({"role": "user", "content": "x"}) is None
    assert canonical_media({"role": "user", "__openclaw": {"media": [{"path": "/a", "kind": "image"}]}}) is None
