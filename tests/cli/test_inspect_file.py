"""`doctor inspect --file`: names that are not plain transcripts."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.support.legacy_state import jsonl, sid, turns

STAMP = "2026-08-06T07-06-40.123Z"


def test_standard_input_was_a_missing_file(run_cli: Callable[..., Any]) -> None:
    """`-` is read, and having no name it contradicts no header."""
    outcome = run_cli("doctor", "inspect", "--file", "-", "--json", stdin=jsonl(turns(sid(1))))
    report = json.loads(outcome.stdout)
    assert (0, 5, sid(1), None, []) == (
        outcome.status,
        report["records"],
        report["headerId"],
        report["nameId"],
        report["issues"],
    )


@pytest.mark.parametrize(
    "name",
    [
        "{}.jsonl",
        "{}-topic-5.jsonl",
        "{}.jsonl.deleted." + STAMP,
        "{}.jsonl.reset." + STAMP + "." + "a" * 32,
        "agent_main_main.{}.jsonl.imported-1796000000000",
        "agent_main_a.b.c.{}.jsonl.imported-1796000000000.2",
        "archive-tier.{}-topic-5.jsonl.imported-1796000000000",
    ],
)
@pytest.mark.parametrize("session_id", [sid(1), "a.b"])
def test_an_archived_original_was_a_mismatch(
    name: str, session_id: str, tmp_path: Path, run_cli: Callable[..., Any]
) -> None:
    """The id is taken out of the name of an archive; another one is a mismatch still."""
    path = tmp_path / name.format(session_id)
    path.write_bytes(jsonl(turns(session_id)))
    assert 0 == run_cli("doctor", "inspect", "--file", path).status
    path.write_bytes(jsonl(turns(sid(2))))
    assert 3 == run_cli("doctor", "inspect", "--file", path).status
