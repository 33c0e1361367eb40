"""Names and keys that UTF-8 cannot hold, and files that cannot be looked at: one issue each, the rest goes on."""

from __future__ import annotations

import json
import os
from typing import Any

import pytest

from openclaw_cli import manifest

A, B = (f"aaaaaaaa-0000-4000-8000-00000000000{number}" for number in range(2))
NOW = 1_790_000_000_000
HALF = "\ud800"


def issues(document: dict[str, Any]) -> list[tuple[str, str]]:
    found = [*document["issues"], *(issue for target in document["targets"] for issue in target["issues"])]
    return sorted((issue["severity"], issue["code"]) for issue in found)


def runs_twice(legacy: Any, doctor: Any, expected: list[tuple[str, str]], entries: dict[str, Any]) -> Any:
    """Dry run and import say the same and the import can be repeated; gives the document of the first import."""
    status, document = doctor("dry-run", legacy)
    assert (3, expected) == (status, issues(document))
    status, document = doctor("import", legacy)
    assert (3, expected) == (status, issues(document))
    assert entries == legacy.entries()
    for mode in ("inspect", "import", "validate"):
        assert doctor(mode, legacy)[0] in (0, 3)
    assert entries == legacy.entries()
    assert all(isinstance(run, manifest.Run) for run in manifest.runs(legacy.root))
    return document


def test_index_key_with_half_a_character(legacy: Any, doctor: Any) -> None:
    """The row stays out and is named; its transcript is history, the other rows come in."""
    legacy.session(A)
    legacy.session(B)
    legacy.index({f"agent:main:sur{HALF}key": {"sessionId": A}, "agent:main:ok": {"sessionId": B, "updatedAt": NOW}})
    entries = {f"agent:main:recovered:{A}": (A, 3), "agent:main:ok": (B, 3)}
    document = runs_twice(legacy, doctor, [("error", "entry_invalid")], entries)
    (issue,) = document["targets"][0]["issues"]
    assert "agent:main:sur\\ud800key" == issue["sessionKey"]


def test_half_a_character_in_the_values_of_a_row(legacy: Any, doctor: Any) -> None:
    """What a row says is kept; a key that it names is no session's, the real program would refuse the whole store."""
    row = {
        "sessionId": A, "updatedAt": NOW, "label": HALF, "displayName": HALF, "model": HALF, "lastChannel": "telegram",
        "lastTo": HALF, "spawnedBy": f"agent:main:{HALF}", "parentSessionKey": HALF, "origin": {"provider": HALF},
        "forkSource": {"sessionKey": HALF}, "acp": {"backend": HALF}, "sessionFile": f"/old/{HALF}.jsonl",
    }  # fmt: skip
    legacy.session(A)
    legacy.index({"agent:main:ok": row})
    status, document = doctor("import", legacy)
    assert (0, [("warning", "lineage_dropped")] * 3) == (status, issues(document))
    assert {"agent:main:ok": (A, 3)} == legacy.entries()
    assert 0 == doctor("import", legacy)[0]


def test_half_a_character_in_a_transcript(legacy: Any, doctor: Any) -> None:
    """Ids, keys and types with half a character are found again by a second import."""
    path = legacy.session(A, messages=1)
    rows = [
        {"type": HALF, "id": HALF, "parentId": HALF, "timestamp": HALF, "message": {"idempotencyKey": HALF}},
        {"type": "message", "id": f"x{HALF}", "parentId": "m0", "message": {"role": "user", "content": HALF}},
    ]
    with open(path, "a") as stream:
        stream.writelines(json.dumps(row) + "\n" for row in rows)
    data = path.read_bytes()
    trajectory = path.with_name(f"{A}.trajectory.jsonl")
    trajectory.write_text(json.dumps({"runId": HALF, "type": HALF}) + "\n")
    legacy.index({"agent:main:ok": {"sessionId": A, "updatedAt": NOW}})
    assert 0 == doctor("import", legacy)[0]
    assert {"agent:main:ok": (A, 4)} == legacy.entries()
    path.write_bytes(data)
    legacy.index({"agent:main:ok": {"sessionId": A, "updatedAt": NOW}})
    status, document = doctor("import", legacy)
    assert (0, []) == (status, issues(document))
    assert {"agent:main:ok": (A, 4)} == legacy.entries()
    assert 0 == doctor("validate", legacy)[0]


def test_header_that_names_half_a_character(legacy: Any, doctor: Any) -> None:
    """The manifest that records the finding can be read, and the archived file can be validated."""
    path = legacy.session(f"{A}{HALF}", name=f"{B}.jsonl")
    legacy.index({"agent:main:ok": {"sessionId": B, "updatedAt": NOW}})
    path.with_name("unknown.jsonl").write_bytes(path.read_bytes())
    expected = [("error", "header_id_mismatch"), ("warning", "header_id_rewritten")]
    runs_twice(legacy, doctor, expected, {"agent:main:ok": (B, 3)})


@pytest.mark.parametrize("name", [b"kop\xefe.jsonl", b"kop\xefe.trajectory.jsonl"])
def test_transcript_name_that_is_not_utf8(name: bytes, legacy: Any, doctor: Any) -> None:
    """The file stays, named with its bytes escaped; the others are imported and archived."""
    legacy.session(A)
    (legacy.sessions / os.fsdecode(name)).write_bytes(legacy.session(B).read_bytes())
    (legacy.sessions / f"{B}.jsonl").unlink()
    legacy.index({"agent:main:ok": {"sessionId": A, "updatedAt": NOW}})
    document = runs_twice(legacy, doctor, [("error", "transcript_path_refused")], {"agent:main:ok": (A, 3)})
    assert "kop\\xefe." in document["targets"][0]["issues"][0]["message"]
    assert [os.fsdecode(name)] == legacy.names()


def test_link_that_leads_to_itself(legacy: Any, doctor: Any) -> None:
    """A loop of symbolic links is an issue of that file; every command goes on."""
    legacy.session(A)
    (legacy.sessions / "loop.jsonl").symlink_to("loop.jsonl")
    legacy.index({"agent:main:ok": {"sessionId": A, "updatedAt": NOW}})
    runs_twice(legacy, doctor, [("error", "transcript_unreadable")], {"agent:main:ok": (A, 3)})
    assert ["loop.jsonl"] == legacy.names()
