"""Command lines: both spellings, statuses, the failure document, nothing that looks like a crash."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from openclaw_cli.cli import boundary
from openclaw_cli.cli.app import command_tree, run, with_subcommand
from openclaw_cli.cli.options import VALUE_OPTIONS
from openclaw_cli.cli.output import write_line
from openclaw_cli.cli.spelling import normalised
from openclaw_cli.errors import BusyError, CorruptError, Exit, RefusedError


@pytest.mark.parametrize(("given", "wanted"), [
    (["doctor", "--session-sqlite", "inspect", "--session-sqlite-all-agents"], ["doctor", "inspect", "--all-agents"]),
    (["doctor", "--session-sqlite=import", "--session-sqlite-agent", "x", "--json", "--yes"],
     ["doctor", "import", "--agent", "x", "--json", "--yes"]),
    (["doctor", "--json", "--session-sqlite", "dry-run", "--session-sqlite-store=/a b"],
     ["doctor", "dry-run", "--json", "--store=/a b"]),
    (["doctor", "--session-sqlite"], ["doctor", "--session-sqlite"]),
    (["doctor", "--session-sqlite", "--json"], ["doctor", "--session-sqlite", "--json"]),
    (["doctor", "--session-sqlite="], ["doctor", "--session-sqlite"]),
    (["doctor", "--fix"], ["doctor", "fix"]),
    (["doctor", "inspect", "--", "--session-sqlite", "x"], ["doctor", "inspect", "--", "--session-sqlite", "x"]),
    (["--state-dir", "/s", "sessions", "--json"], ["sessions", "--state-dir", "/s", "--json"]),
    (["sessions", "--archived"], ["sessions", "--archived=include"]),
    (["sessions", "--archived", "list"], ["sessions", "--archived=include", "list"]),
    (["sessions", "--archived", "only"], ["sessions", "--archived", "only"]),
    (["--help"], ["--help"]),
    ([], []),
])  # fmt: skip
def test_spelling(given: list[str], wanted: list[str]) -> None:
    """OpenClaw's spelling and options before the command become ours, and nothing is lost."""
    assert wanted == normalised(given, VALUE_OPTIONS)


@pytest.mark.parametrize(("given", "wanted"), [
    (["sessions"], ["sessions", "list"]),
    (["sessions", "--json"], ["sessions", "list", "--json"]),
    (["sessions", "--agent", "x", "list", "--json"], ["sessions", "list", "--agent", "x", "--json"]),
    (["sessions", "--limit", "5", "--agent=x"], ["sessions", "list", "--limit", "5", "--agent=x"]),
    (["sessions", "--help"], ["sessions", "--help"]),
    (["sessions", "list", "--help"], ["sessions", "list", "--help"]),
    (["doctor", "--json", "--agent", "x", "inspect"], ["doctor", "inspect", "--json", "--agent", "x"]),
    (["doctor", "--json", "--help"], ["doctor", "--help"]),
    (["config", "--origin", "show"], ["config", "show", "--origin"]),
])  # fmt: skip
def test_subcommand(given: list[str], wanted: list[str]) -> None:
    """A bare group means its default; options that stand before the subcommand belong to it."""
    assert wanted == with_subcommand(given, command_tree(given[:1]))


@pytest.mark.parametrize("argv", [
    ["nonsense"], ["sessions", "nonsense"], ["sessions", "--nonsense"], ["sessions", "--limit"],
    ["sessions", "--limit", "0"], ["sessions", "--limit", "-3"], ["sessions", "--limit", "x"],
    ["sessions", "--active", "0"], ["sessions", "--archived=maybe"], ["sessions", "--now", "yesterday"],
    ["sessions", "-q", "-v"], ["sessions", "--all-agents", "--agent", "x"],
    ["config"], ["--nonsense"], ["completion"], ["sessions", "--config", "/nowhere/x.yaml"],
])  # fmt: skip
def test_a_wrong_call_is_told_without_a_trace(argv: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    """Exit status 2, one line that says what is wrong, nothing on stdout, no stack trace."""
    assert 2 == run(argv)
    shown = capsys.readouterr()
    assert "" == shown.out
    assert shown.err.startswith("openclaw-cli: ")
    assert "Traceback" not in shown.err


@pytest.mark.parametrize(("argv", "message"), [
    (["doctor"], "doctor needs one of its commands: inspect, dry-run, import"),
    (["doctor", "--json"], "doctor needs one of its commands: inspect, dry-run, import"),
    (["doctor", "--session-sqlite"], "--session-sqlite needs a mode"),
    (["doctor", "--session-sqlite", "--json"], "--session-sqlite needs a mode"),
    (["doctor", "--session-sqlite", "nonsense"], "doctor has no command 'nonsense'"),
    (["config"], "config needs one of its commands: show"),
])  # fmt: skip
def test_a_group_without_its_command_said_no_such_option(
    argv: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """What is missing is said and the commands are named; a person gets the help page too, on stderr."""
    assert 2 == run(argv)
    shown = capsys.readouterr()
    assert shown.err.startswith(f"openclaw-cli: {message}")
    assert "inspect, dry-run" in shown.err or argv == ["config"]
    assert (argv in (["doctor"], ["config"])) == ("Usage: openclaw-cli" in shown.err)
    assert ("--json" in argv) == shown.out.startswith('{\n  "ok": false')


def test_a_failure_with_json_is_one_document(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """`--json` gives OpenClaw's failure document on stdout with our code and facts, and the text on stderr."""
    missing = tmp_path / "missing"

    assert 10 == run(["sessions", "--json", "--state-dir", str(missing)])
    shown = capsys.readouterr()
    document = json.loads(shown.out)
    assert {"ok": False, "error": {"type": "cli_error", "code": "not_found", "hint": None, "stateDir": str(missing),
            "message": f"there is no state directory {missing}"}} == document  # fmt: skip
    assert str(missing) in shown.err


@pytest.mark.parametrize(("argv", "status", "code"), [
    (["sessions", "list", "--ndjson", "--state-dir", "/no/where"], 10, "not_found"),
    (["sessions", "--ndjson", "--nonsense"], 2, "usage"),
    (["scan-lifecycles", "/no/where.jsonl", "--ndjson"], 10, "not_found"),
    (["scan-lifecycles", "--ndjson"], 2, "usage"),
])  # fmt: skip
def test_a_failure_with_ndjson_is_the_last_line(
    argv: list[str], status: int, code: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """`--ndjson` ends with one line of type `error` that holds the failure document, and the text is on stderr."""
    assert status == run(argv)
    shown = capsys.readouterr()
    (line,) = shown.out.splitlines()
    document = json.loads(line)
    assert ("error", False, code) == (document["type"], document["ok"], document["error"]["code"])
    assert shown.err.startswith(f"openclaw-cli: {document['error']['message']}")


def test_a_failure_after_items_follows_their_lines(capsys: pytest.CaptureFixture[str]) -> None:
    """What was done before the failure stays readable; a fault of ours ends the lines in the same way."""

    def body() -> Any:
        write_line({"type": "session", "key": "a"})
        raise ValueError("a secret line of a transcript")

    assert Exit.FAILED == boundary.guarded(["--ndjson"], body)
    types = [json.loads(line)["type"] for line in capsys.readouterr().out.splitlines()]
    assert ["session", "error"] == types


def test_a_parser_failure_with_json_is_one_document_too(capsys: pytest.CaptureFixture[str]) -> None:
    """What the parser refuses has the same form."""
    assert 2 == run(["sessions", "--json", "--nonsense"])
    assert "usage" == json.loads(capsys.readouterr().out)["error"]["code"]


@pytest.mark.parametrize(("error", "status"), [
    (BusyError("owned"), 11), (RefusedError("unsafe"), 12), (CorruptError("damaged"), 13),
    (FileNotFoundError(2, "No such file or directory", "/x"), 10), (PermissionError(13, "Permission denied", "/x"), 12),
    (OSError(28, "No space left on device", "/x"), 12), (OSError(27, "File too large", "/x"), 12),
    (OSError(5, "Input/output error", "/x"), 1),
    (ZeroDivisionError(), 1), (KeyboardInterrupt(), 130), (BrokenPipeError(), 141), (boundary.Terminated(), 143),
])  # fmt: skip
def test_statuses(error: BaseException, status: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each way to end a run has its status."""
    monkeypatch.setattr(boundary.streams, "silence_stdout", lambda: None)

    def body() -> Any:
        raise error

    assert status == boundary.guarded([], body)


def test_a_fault_of_ours_shows_frames_and_no_message(capsys: pytest.CaptureFixture[str]) -> None:
    """An unexpected exception names type, frames and versions; its message may quote a transcript and is kept back."""

    def body() -> Any:
        raise ValueError("a secret line of a transcript")

    assert Exit.FAILED == boundary.guarded(["--json"], body)
    shown = capsys.readouterr()
    assert "unexpected ValueError" in shown.err
    assert "test_app.py" in shown.err
    assert "secret" not in shown.err + shown.out
    assert "internal" == json.loads(shown.out)["error"]["code"]


def test_debug_says_where_an_error_arose(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """`--debug` adds the frames of an ordinary error, other runs do not have them."""
    argv = ["sessions", "--state-dir", str(tmp_path / "missing")]

    run(argv)
    assert "options.py" not in capsys.readouterr().err
    run([*argv, "--debug"])
    assert "options.py" in capsys.readouterr().err


def test_control_characters_of_a_name_are_escaped(capsys: pytest.CaptureFixture[str]) -> None:
    """A path with an escape sequence cannot reach the terminal through an error."""
    run(["sessions", "--state-dir", "/no\x1b[31mwhere\u009b"])
    assert "\\x1b[31mwhere\\x9b" in capsys.readouterr().err


def test_a_closed_pipe_is_141(tmp_path: Path) -> None:
    """A reader that goes away ends the run silently with 141."""
    argv = [sys.executable, "-m", "openclaw_cli", "config", "show", "--state-dir", str(tmp_path)]
    reader, writer = os.pipe()
    os.close(reader)
    done = subprocess.run(argv, stdout=writer, stderr=subprocess.PIPE, text=True)
    os.close(writer)

    assert (141, "") == (done.returncode, done.stderr)


def test_sigterm_is_143() -> None:
    """SIGTERM unwinds the run, so that what it holds is given back, and ends with 143."""
    code = (
        "import os, signal, sys\n"
        "from openclaw_cli.cli.boundary import guarded\n"
        "def body():\n"
        "    try:\n"
        "        os.kill(os.getpid(), signal.SIGTERM)\n"
        "        signal.pause()\n"
        "    finally:\n"
        "        print('given back')\n"
        "sys.exit(guarded([], body))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)

    wanted = "openclaw-cli: terminated before the end; nothing was lost: run the same command again\n"
    assert (143, "given back\n", wanted) == (done.returncode, done.stdout, done.stderr)
    assert signal.SIGTERM == 15


def test_an_ascii_terminal_is_no_failure(tmp_path: Path) -> None:
    """Names that the encoding of stdout lacks are written as escapes."""
    home = tmp_path / "größe"
    home.mkdir()
    env = {**os.environ, "PYTHONIOENCODING": "ascii", "OPENCLAW_STATE_DIR": str(home)}
    done = subprocess.run([sys.executable, "-m", "openclaw_cli", "sessions"], capture_output=True, env=env)

    assert 0 == done.returncode, done.stderr
    assert b"gr\\xf6\\xdfe" in done.stdout
