"""What a start costs, told by the modules that it loads and not by the clock."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
import typer

from openclaw_cli import __version__
from openclaw_cli.__main__ import static_answer
from openclaw_cli.cli.app import build, command_tree, run
from openclaw_cli.cli.registry import REGISTRY, Entry
from openclaw_cli.cli.tree import help_text

ROOT = Path(__file__).resolve().parent.parent
HEAVY = ("apsw", "orjson", "pyjson5", "rich", "tiktoken", "typer", "yaml", "zstandard")


def loaded(*argv: str) -> tuple[str, set[str]]:
    """Standard output of a command line, and which of `HEAVY` it has loaded when it ends."""
    code = (
        "import sys\n"
        "from openclaw_cli.__main__ import main\n"
        "main()\n"
        f"print('loaded', *sorted(set({HEAVY!r}) & set(sys.modules)), file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", code, *argv], capture_output=True, text=True, check=True)
    return done.stdout, set(done.stderr.splitlines()[-1].split()[1:])


@pytest.mark.parametrize("argv", [["--version"], ["-V"], ["--help"], ["-h"], []])
def test_static_answers_load_no_parser(argv: list[str]) -> None:
    """Version and top help come without a single library."""
    text, modules = loaded(*argv)

    assert set() == modules
    assert text == static_answer(argv)


def test_static_help_is_the_live_one() -> None:
    """The kept text is what the parser says on a terminal of 80 columns."""
    assert help_text((), 80) == static_answer(["--help"])


def test_version_is_the_package_s(capsys: pytest.CaptureFixture[str]) -> None:
    """`--version` names program and version, with the parser and without."""
    assert f"openclaw-cli {__version__}\n" == static_answer(["--version"])
    assert 0 == run(["--version"])
    assert f"openclaw-cli {__version__}\n" == capsys.readouterr().out


def test_a_listing_loads_only_what_it_needs(tmp_path: Path) -> None:
    """Listing an empty state needs the parser, nothing of compression, tokens, colours or YAML."""
    _, modules = loaded("sessions", "list", "--json", "--state-dir", str(tmp_path))

    assert modules <= {"apsw", "orjson", "typer"}


def test_a_help_page_loads_no_rich() -> None:
    """The help page of a command with a required argument is plain text, made without rich."""
    _, modules = loaded("completion", "--help")

    assert modules <= {"typer"}


def test_a_missing_module_leaves_the_other_commands(monkeypatch: pytest.MonkeyPatch) -> None:
    """A command whose module is not there is not offered; the others are."""
    monkeypatch.setitem(REGISTRY, "nothing", Entry("openclaw_cli.cli.nothing", "Not there."))

    assert "nothing" not in command_tree().commands
    assert "config" in command_tree().commands


def test_one_command_loads_one_module() -> None:
    """Building one command registers no other."""
    assert ["config"] == list(typer.main.get_command(build(["config"])).commands)
