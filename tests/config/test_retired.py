"""What becomes of each retired key of `openclaw.json`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from openclaw_cli.config.editing import after, edited
from openclaw_cli.config.own import read_own, with_settings
from openclaw_cli.config.retired import changes
from openclaw_cli.errors import ConfigError

COMPACTION = "agents.defaults.compaction"


def compaction(**values: Any) -> dict[str, Any]:
    """A configuration with these settings of compaction."""
    return {"agents": {"defaults": {"compaction": values}}}


@pytest.mark.parametrize(
    ("before", "expected", "kept"),
    [
        ({"session": {"maintenance": {"rotateBytes": "10mb", "maxEntries": 5}}},
         {"session": {"maintenance": {"maxEntries": 5}}}, {}),
        ({"session": {"parentForkMaxTokens": 1000}}, {"session": {}}, {}),
        ({"session": {"maintenance": {"pruneDays": 30}}}, {"session": {"maintenance": {"pruneAfter": 30}}}, {}),
        ({"session": {"maintenance": {"pruneDays": 30, "pruneAfter": "9d"}}},
         {"session": {"maintenance": {"pruneAfter": "9d"}}}, {}),
        ({"session": {"maintenance": {"pruneDays": 0}}}, {"session": {"maintenance": {}}}, {}),
        ({"session": {"maintenance": {"pruneAfter": "0d", "resetArchiveRetention": 0}}},
         {"session": {"maintenance": {}}}, {}),
        ({"session": {"maintenance": {"resetArchiveRetention": False, "pruneAfter": "soon"}}},
         {"session": {"maintenance": {"resetArchiveRetention": False, "pruneAfter": "soon"}}}, {}),
        ({"session": {"idleMinutes": 60}}, {"session": {"reset": {"mode": "idle", "idleMinutes": 60}}}, {}),
        ({"session": {"idleMinutes": 60, "reset": {"mode": "daily"}}},
         {"session": {"reset": {"mode": "daily", "idleMinutes": 60}}}, {}),
        ({"session": {"idleMinutes": 60, "reset": {"idleMinutes": 5}}}, {"session": {"reset": {"idleMinutes": 5}}}, {}),
        ({"session": {"resetByType": {"dm": {"mode": "daily"}}}},
         {"session": {"resetByType": {"direct": {"mode": "daily"}}}}, {}),
        (compaction(truncateAfterCompaction=True, maxActiveTranscriptBytes="5mb"),
         compaction(maxActiveTranscriptBytes="5mb"), {f"{COMPACTION}.truncateAfterCompaction": True}),
        (compaction(truncateAfterCompaction=False, maxActiveTranscriptBytes="5mb"), compaction(),
         {f"{COMPACTION}.truncateAfterCompaction": False, f"{COMPACTION}.maxActiveTranscriptBytes": "5mb"}),
        (compaction(identifierPolicy="custom", identifierInstructions="keep"), compaction(identifierPolicy="strict"),
         {f"{COMPACTION}.identifierInstructions": "keep", f"{COMPACTION}.identifierPolicy": "custom"}),
        (compaction(identifierPolicy="off"), compaction(identifierPolicy="off"), {}),
        (compaction(memoryFlush={"prompt": "p", "enabled": True}), compaction(memoryFlush={"enabled": True}),
         {f"{COMPACTION}.memoryFlush.prompt": "p"}),
        ({"session": "no object", "agents": []}, {"session": "no object", "agents": []}, {}),
    ],
)  # fmt: skip
def test_what_becomes_of_a_key(before: dict[str, Any], expected: dict[str, Any], kept: dict[str, Any]) -> None:
    """The same in the document and in its text; a second look finds nothing."""
    found = changes(before)
    edits = [edit for change in found for edit in change.edits]

    assert expected == after(before, edits)
    assert expected == json.loads(edited(json.dumps(before, indent=2).encode(), edits, Path("x")))
    assert kept == {name: value for change in found for name, value in change.kept.items()}
    assert [] == changes(expected)


def test_settings_are_added_to_our_own_file(tmp_path: Path) -> None:
    """Whatever is in it stays; a name that is set keeps its value; texts of any kind come back as they were."""
    path = tmp_path / "openclaw-cli.yaml"
    before = f"# mine\ncompact:\n  labels: de\n{COMPACTION}.reserveTokens: 5"
    text = 'say "no"\n\tand: {x} 😀 # not a comment\u2028end'
    added = {f"{COMPACTION}.memoryFlush.prompt": text, f"{COMPACTION}.reserveTokens": 9}
    path.write_bytes(with_settings(before.encode(), added, path))

    assert path.read_text().startswith(before)
    assert {"compact.labels": "de", f"{COMPACTION}.reserveTokens": 5, f"{COMPACTION}.memoryFlush.prompt": text} == (
        read_own(path)
    )
    assert path.read_bytes() == with_settings(path.read_bytes(), added, path)


@pytest.mark.parametrize("before", ["{compact.labels: de}\n", "compact: {labels: de}\n...\n", "unknown: 1\n"])
def test_a_file_that_cannot_be_added_to_is_refused(before: str, tmp_path: Path) -> None:
    """A flow mapping, a document with an end, a file that is invalid: nothing is guessed."""
    with pytest.raises(ConfigError):
        with_settings(before.encode(), {f"{COMPACTION}.reserveTokens": 9}, tmp_path / "x.yaml")


def test_a_value_that_our_file_does_not_allow_is_refused(tmp_path: Path) -> None:
    """It would make our own commands fail."""
    with pytest.raises(ConfigError):
        with_settings(b"", {f"{COMPACTION}.reserveTokens": "many"}, tmp_path / "x.yaml")
