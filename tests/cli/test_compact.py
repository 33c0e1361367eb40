"""`compact` on the command line: where it writes, what it refuses, what it prints."""

from __future__ import annotations

import hashlib
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from conversations import Conversation

from openclaw_cli.summarize.card import parse


@pytest.fixture
def transcript(tmp_path: Path) -> Path:
    """A file with one finished sub-task."""
    talk = Conversation()
    talk.user("Go.")
    talk.sub_task()
    talk.says("Done.")
    path = tmp_path / "session.jsonl"
    path.write_bytes(talk.data())
    return path


def run(*argv: str | Path, stdin: bytes | None = None, arm: str | None = None) -> subprocess.CompletedProcess[bytes]:
    """Run the program; `arm` names a step at which it dies."""
    code = "import sys\nfrom openclaw_cli.__main__ import main\n"
    if arm:
        code += f"from openclaw_cli.faults import Step, arm\narm(Step({arm!r}))\n"
    code += "sys.exit(main())\n"
    command = [sys.executable, "-c", code, "compact", *map(str, argv)]
    return subprocess.run(command, input=stdin, capture_output=True, timeout=60, env={**os.environ})


def digest(path: Path) -> str:
    """SHA-256 of a file."""
    return hashlib.sha256(path.read_bytes()).hexdigest()


def test_a_new_file_beside_the_source(transcript: Path) -> None:
    """The default name ends in .folded.jsonl, the source keeps its bytes, the report names both."""
    before = digest(transcript)
    done = run(transcript, "--json")
    assert 0 == done.returncode, done.stderr
    report = json.loads(done.stdout)
    output = transcript.with_name("session.folded.jsonl")
    assert (str(transcript), str(output), False) == (report["source"], report["output"], report["dryRun"])
    assert ["folded"] == [row["action"] for row in report["lifecycles"]]
    assert before == digest(transcript)
    assert 0o600 == output.stat().st_mode & 0o777
    assert {transcript, output} == set(transcript.parent.iterdir())


def test_nothing_is_overwritten_unasked(transcript: Path) -> None:
    """An existing output is refused; --force replaces it; the source itself is refused always."""
    other = transcript.with_name("other.jsonl")
    other.write_text("mine")
    refused = run(transcript, "-o", other)
    assert (2, "mine") == (refused.returncode, other.read_text())
    assert b"--force" in refused.stderr
    assert 0 == run(transcript, "-o", other, "--force").returncode
    assert "mine" != other.read_text()
    assert 2 == run(transcript, "-o", transcript, "--force").returncode


def test_streams(transcript: Path) -> None:
    """From stdin to stdout; the report goes to stderr then."""
    run(transcript)
    expected = transcript.with_name("session.folded.jsonl").read_bytes()
    piped = run("-", "--json", stdin=transcript.read_bytes())
    assert (0, expected) == (piped.returncode, piped.stdout)
    assert "-" == json.loads(piped.stderr)["output"]
    assert expected == run(transcript, "-o", "-").stdout


def test_dry_run_writes_nothing_and_shows_the_card(transcript: Path) -> None:
    """The plan is the one that a run carries out."""
    shown = run(transcript, "--dry-run")
    assert b"COMPACTED TASK" in shown.stdout
    assert shown.stdout.rstrip().endswith(b"(--dry-run)")
    assert [transcript] == list(transcript.parent.iterdir())
    plan = json.loads(run(transcript, "--dry-run", "--json").stdout)
    done = json.loads(run(transcript, "--json").stdout)
    assert (plan["tokensBefore"], plan["tokensAfter"]) == (done["tokensBefore"], done["tokensAfter"])
    assert [None, True] == [plan["output"], plan["dryRun"]]


@pytest.mark.parametrize(
    ("argv", "status"),
    [
        (["missing.jsonl"], 10),
        (["{}", "--labels", "fr"], 2),
        (["{}", "-o", "x.jsonl.zst"], 2),
        (["{}", "-o", "no/such/dir/x.jsonl"], 10),
        (["agent:main:main"], 2),
    ],
)
def test_refusals(transcript: Path, argv: list[str], status: int) -> None:
    """Each wrong call has its status and a hint, and writes nothing."""
    done = run(*(word.replace("{}", str(transcript)) for word in argv))
    assert status == done.returncode
    assert b"hint:" in done.stderr
    assert [transcript] == list(transcript.parent.iterdir())


@pytest.mark.parametrize("step", ["output-written", "output-renamed"])
def test_a_killed_run_is_completed_by_the_next(transcript: Path, step: str) -> None:
    """Cut behind each effect, the next run gives the same file; no half file ever has the final name."""
    output = transcript.with_name("session.folded.jsonl")
    whole = run(transcript, "-o", "-").stdout
    assert run(transcript, arm=step).returncode < 0
    assert output.exists() == (step == "output-renamed")
    if output.exists():
        assert whole == output.read_bytes()
    assert 0 == run(transcript, "-o", output, "--force").returncode
    assert whole == output.read_bytes()


def test_damage_is_reported_and_copied(transcript: Path) -> None:
    """A damaged line makes status 3; it stands in the new file as it was."""
    transcript.write_bytes(transcript.read_bytes() + b'{"broken\n{"type":"custom","id":"z","customType":"x"}\n')
    done = run(transcript, "--json")
    assert 3 == done.returncode
    assert 1 == len(json.loads(done.stdout)["damage"])
    assert b'{"broken\n' in transcript.with_name("session.folded.jsonl").read_bytes()


def test_cards_of_the_demo_have_the_documents_lines() -> None:
    """What the demo's sub-tasks say of files, failed attempts and later work stands in its own lines of the cards."""
    sessions = Path(__file__).resolve().parents[2] / "openclaw_cli/data/demo/state/agents/main/sessions"
    done = run(sessions / "5f0c2a9e-3b1d-4c58-9a57-0d2f6e8b1c01.jsonl", "--dry-run", "--json")
    cards = {row["label"]: parse(row["card"]) for row in json.loads(done.stdout)["lifecycles"] if "card" in row}
    first = cards["kalender-import"]
    assert ("src/kranich/kalender_import.py", "tests/test_kalender_import.py") == first.created
    assert ("src/kranich/belegung.py", "config/portale.json") == first.changed
    assert "Zeitzonen aus dem Kopf der Datei zu lesen — zwei Portale lassen ihn weg." == first.tried
    assert first.remember.startswith("Ganztägige Termine enden in iCal am Folgetag")
    assert "KeyError: 'woche' in src/kranich/preise.py, Zeile 118" == cards["preisliste"].errors
    assert [True] * 5 == ["Dateien:" not in card.result for card in cards.values()]


def test_messages_name_only_commands_that_exist() -> None:
    """What a hint or a help text sends a user to can be called."""
    import openclaw_cli
    from openclaw_cli.cli.reference import generated_files

    pages = {Path(path).stem for path in generated_files() if path.startswith("tests/golden/help/")}
    text = "".join(page for path, page in generated_files().items() if path.startswith("tests/golden/help/"))
    named = set(re.findall(r"`doctor ([a-z][a-z-]*)", text))
    for path in Path(openclaw_cli.__file__).parent.rglob("*.py"):
        named |= set(re.findall(r"openclaw-cli doctor ([a-z][a-z-]*)", path.read_text(encoding="utf-8")))
    assert {"restore", "compact"} <= named
    assert set() == {name for name in named if f"doctor-{name}" not in pages}
    assert b"--conversation" not in run("--help").stdout
