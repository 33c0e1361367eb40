"""Standard streams that are closed, full or unwritable; runs that a signal cuts."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from openclaw_cli.cli import boundary
from openclaw_cli.cli.output import write_document, write_document_with_rows

ROOT = Path(__file__).resolve().parent.parent.parent
STATE = ROOT / "openclaw_cli/data/demo/state"
PROGRAM = f"{sys.executable} -m openclaw_cli"


@pytest.fixture
def state(tmp_path: Path) -> Path:
    """A file-era state directory with five sessions."""
    return Path(shutil.copytree(STATE, tmp_path / "state"))


def shell(line: str, state: Path) -> subprocess.CompletedProcess[str]:
    """Run a line of a shell in which `oc` is the program."""
    env = {**os.environ, "OPENCLAW_STATE_DIR": str(state)}
    argv = ["bash", "-c", f'oc() {{ {PROGRAM} "$@"; }}\n{line}']
    return subprocess.run(argv, capture_output=True, text=True, env=env, timeout=60)


@pytest.mark.parametrize("line", [
    "oc --help >&-", "oc --version >&-", "oc sessions >&-", "oc sessions --json >&-", "oc man >&- 2>&-",
    "oc sessions 2>&-", "oc scan-lifecycles - <&-", "oc config show <&- >&- 2>&-",
])  # fmt: skip
def test_a_closed_stream_was_a_trace(state: Path, line: str) -> None:
    """A stream that is closed is the null device: the run does what it does, and nothing looks like a crash."""
    done = shell(line, state)

    assert 0 == done.returncode
    assert "Traceback" not in done.stderr
    assert "Error" not in done.stderr


@pytest.mark.parametrize("closed", [">&-", "2>&-", "<&- >&- 2>&-"])
def test_an_import_with_closed_streams_printed_into_a_file(state: Path, closed: str) -> None:
    """No file of the store gets the number of a closed stream: the import is whole and the next look finds it so."""
    assert 0 == shell(f"oc doctor import --all-agents {closed}", state).returncode
    checked = shell("oc doctor validate --all-agents --json", state)
    assert (0, 5) == (checked.returncode, json.loads(checked.stdout)["totals"]["sqliteEntries"])


@pytest.mark.parametrize("line", [
    "oc --help", "oc --version", "oc man sessions", "oc completion bash", "oc sessions", "oc sessions --json",
    "oc sessions --ndjson", "oc doctor inspect --json", "oc sessions --json --nonsense",
])  # fmt: skip
def test_a_full_device_behind_stdout_had_two_statuses(state: Path, line: str) -> None:
    """No room for the result: one line on stderr says so, and the status is that of no room, whatever the form."""
    done = shell(f"{line} >/dev/full", state)
    told = [text for text in done.stderr.splitlines() if "standard output" in text]

    assert (12, 1) == (done.returncode, len(told)), done.stderr
    assert "standard output cannot be written: No space left on device" in told[0]
    assert "Traceback" not in done.stderr


def test_an_unwritable_stdout_is_told(state: Path) -> None:
    """stdout that is open for reading only: one line, status 1, no trace."""
    done = shell("oc --help 1</dev/null", state)

    assert (1, 1) == (done.returncode, done.stderr.count("\n"))
    assert "Bad file descriptor" in done.stderr


def test_a_full_device_behind_stderr_ends_no_import(state: Path) -> None:
    """Remarks that nobody can read are no reason to stop half-way."""
    done = shell("oc doctor import --all-agents --json 2>/dev/full", state)

    assert (0, 5) == (done.returncode, json.loads(done.stdout)["totals"]["importedEntries"])


@pytest.mark.parametrize(("cut", "status", "code"), [
    (KeyboardInterrupt(), 130, "interrupted"), (boundary.Terminated(), 143, "terminated"),
])  # fmt: skip
def test_a_cut_run_said_nothing(cut: BaseException, status: int, code: str, capsys: pytest.CaptureFixture[str]) -> None:
    """`--json` gives the failure document, stderr one line that says what to do."""

    def body() -> Any:
        raise cut

    assert status == boundary.guarded(["--json"], body)
    shown = capsys.readouterr()
    document = json.loads(shown.out)
    assert (False, code) == (document["ok"], document["error"]["code"])
    assert f"openclaw-cli: {code} before the end; nothing was lost: run the same command again\n" == shown.err


@pytest.mark.parametrize("rows", [0, 20_000])
def test_a_cut_behind_a_document_adds_no_second_one(rows: int, capsysbinary: pytest.CaptureFixture[bytes]) -> None:
    """What stdout holds is one document, or the beginning of one."""

    def body() -> Any:
        def endless() -> Any:
            for number in range(rows):
                yield {"row": number}
            raise KeyboardInterrupt

        if rows:
            write_document_with_rows({}, "rows", endless())
        write_document({"ok": True})
        raise KeyboardInterrupt

    assert 130 == boundary.guarded(["--json"], body)
    assert b"interrupted" not in capsysbinary.readouterr().out


@pytest.mark.parametrize(("number", "status", "code"), [
    (signal.SIGINT, 130, "interrupted"), (signal.SIGTERM, 143, "terminated"),
])  # fmt: skip
def test_a_signal_while_reading_is_told(number: signal.Signals, status: int, code: str) -> None:
    """The program itself, stopped while it reads: document, line, status."""
    argv = [sys.executable, "-m", "openclaw_cli", "scan-lifecycles", "-", "--json"]
    with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as child:
        assert child.stdin is not None
        # More than a pipe holds: when this returns, the program is reading.
        child.stdin.write(b'{"type":"session","version":3,"id":"s"}\n' * 40_000)
        child.stdin.flush()
        child.send_signal(number)
        stdout, stderr = child.communicate(timeout=60)

    assert (status, code) == (child.returncode, json.loads(stdout)["error"]["code"])
    assert (1, True) == (stderr.count(b"\n"), b"run the same command again" in stderr)
