"""Names of files against the real program's own answers."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from openclaw_cli.retention.artifacts import Class, classify

GOLDEN = Path(__file__).resolve().parents[2] / "fixtures/cleanup"
NAMES = json.loads((GOLDEN / "artifact_names.json").read_text())


@pytest.mark.parametrize("given", NAMES, ids=lambda given: given["name"])
def test_names(given: dict[str, Any]) -> None:
    """What is an archive, a transcript, a trajectory, a leftover; and which session and time the name tells."""
    found = classify(given["name"])
    archive = found.kind is Class.ARCHIVE

    assert given["retainedArchive"] == archive
    assert given["archiveArtifact"] == (archive or found.reason == "bak")
    assert given["migrationArchive"] == (found.kind is Class.MIGRATION)
    assert given["trajectory"] == (found.kind is Class.TRAJECTORY)
    assert given["primary"] == (found.kind is Class.TRANSCRIPT)
    assert given["checkpoint"] == (found.kind is Class.CHECKPOINT)
    assert given["sessionId"] == found.session_id
    assert given["tempSessionsJson"] == (found.kind is Class.TEMPORARY)
    for reason in ("deleted", "reset"):
        assert given[f"ts{reason.capitalize()}"] == (found.at_ms if found.reason == reason else None)


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("s.jsonl.deleted.2026-13-45T00-00-00Z", Class.ARCHIVE),
        ("s.trajectory.deleted.2026-01-01T00-00-00.000Z.0123456789abcdef0123456789abcdef.zst", Class.ARCHIVE),
        ("s.jsonl.44444444-4444-4444-8444-000000000001.jsonl-stage", Class.TEMPORARY),
        ("s.zst.44444444-4444-4444-8444-000000000001.stage", Class.TEMPORARY),
        (".s.jsonl.deleted.x.zst.0123456789ab.tmp", Class.TEMPORARY),
        ("s.jsonl.lock", Class.KEPT),
        ("notes.tmp", Class.KEPT),
        ("s.checkpoint.22222222-2222-4222-8222-000000000001.jsonl", Class.CHECKPOINT),
    ],
)
def test_further_names(name: str, kind: Class) -> None:
    """Leftovers of crashed writers are known by their form; anything else stays."""
    assert kind is classify(name).kind
