"""The demo: it runs from bundled data alone, shows real commands, and takes its figures from their reports."""

from __future__ import annotations

import json
import runpy
import shlex
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]
BUNDLED = ROOT / "openclaw_cli/data/demo/state"


@pytest.fixture(scope="module")
def generated(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A state directory written by the generator just now."""
    folder = tmp_path_factory.mktemp("demo-state")
    runpy.run_path(str(ROOT / "tests/demo/make_demo_state.py"))["write"](folder)
    return folder


def contents(folder: Path) -> dict[str, bytes]:
    """Every file below `folder` by its relative path."""
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_bundled_data_is_what_the_generator_writes(generated: Path) -> None:
    """The data of the package and the script that claims to have written it agree byte by byte."""
    assert contents(generated) == contents(BUNDLED)


def test_bundled_transcripts_are_whole_but_one() -> None:
    """Every line parses, except the last line of the one transcript that was cut; ids are unique in each file."""
    broken = []
    for path in sorted(BUNDLED.rglob("*.jsonl")):
        ids = []
        for number, line in enumerate(path.read_bytes().splitlines(), 1):
            try:
                ids.append(json.loads(line)["id"])
            except ValueError:
                broken.append((path.name, number))
        assert len(ids) == len(set(ids))

    assert [("5f0c2a9e-3b1d-4c58-9a57-0d2f6e8b1c05.jsonl", 7)] == broken


@pytest.fixture(scope="module")
def document(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """The demo's JSON document, from a run whose directory was kept."""
    import os
    import subprocess
    import sys

    folder = tmp_path_factory.mktemp("demo")
    environment = {"PATH": os.environ["PATH"], "HOME": str(folder), "TMPDIR": str(folder)}
    argv = [sys.executable, "-m", "openclaw_cli", "demo", "--keep", "--json"]
    done = subprocess.run(argv, env=environment, capture_output=True, timeout=120)
    assert done.returncode == 0, done.stderr.decode()
    return json.loads(done.stdout)


def test_story_tells_import_list_scan_and_fold(document: Any) -> None:
    """Seven steps in order; the import is complete; the finished sub-tasks are folded and the others kept."""
    inspect, tried, imported, listed, validated, scan, fold = (step["report"] for step in document["steps"])

    assert ["torn-tail"] == [damage["kind"] for target in tried["targets"] for damage in target["damage"]]
    assert (5, 5) == (inspect["totals"]["legacyEntries"], imported["totals"]["importedEntries"])
    assert imported["totals"]["importedTranscriptEvents"] == imported["totals"]["validatedTranscriptEvents"]
    assert (5, 0) == (validated["totals"]["sqliteEntries"], validated["totals"]["legacyEntries"])
    assert "agent:main:discord:channel:4242" in {row["key"] for row in listed["sessions"]}
    assert 7 == scan["totals"]["lifecycles"]
    assert {
        "kalender-import": "folded",
        "backup-timeout": "folded",
        "preisliste": "folded",
        "csv-export": "folded",
        "bestaetigungsmail": "folded",
        "bilder": "kept",
    } == {item["label"]: item["action"] for item in fold["lifecycles"] if item["label"]}
    assert fold["tokensAfter"] < fold["tokensBefore"] / 10
    assert fold["contextTokensAfter"] < fold["contextTokensBefore"] / 2


def test_printed_commands_are_the_ones_that_ran(run_cli: Callable[..., Any], tmp_path: Path, document: Any) -> None:
    """Every step prints its command line; apart from the directory it is the one in the JSON document."""
    status, stdout, _ = run_cli("demo", env={"TMPDIR": str(tmp_path)})

    printed = [shlex.split(line.removeprefix("$ openclaw-cli ")) for line in stdout.splitlines() if line[:2] == "$ "]
    assert status == 0
    assert [[*step["argv"][:2], step["argv"][-1]] for step in document["steps"][:5]] == [
        [*argv[:2], argv[-1]] for argv in printed[:5]
    ]
    assert len(document["steps"]) == len(printed)
    assert [] == list(tmp_path.glob("openclaw-demo-*"))


def test_users_own_state_is_not_looked_at(run_cli: Callable[..., Any], tmp_path: Path) -> None:
    """Settings that would make every command fail do not reach the commands of the demo."""
    poison = tmp_path / "broken.yaml"
    poison.write_text("no: [such", encoding="utf-8")
    status, stdout, stderr = run_cli(
        "demo",
        "-q",
        env={
            "TMPDIR": str(tmp_path),
            "OPENCLAW_CLI_CONFIG": str(poison),
            "OPENCLAW_GATEWAY_URL": "ws://127.0.0.1:9",
            "OPENCLAW_STATE_DIR": str(tmp_path / "nowhere"),
        },
    )

    assert (0, "") == (status, stderr)
    assert "5 sessions" in stdout
