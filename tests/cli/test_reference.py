"""Manual pages, completions and help texts are those of the command tree."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from openclaw_cli.cli.app import run
from openclaw_cli.cli.reference import command_table, generated_files
from openclaw_cli.cli.tree import commands, walk

ROOT = Path(__file__).resolve().parent.parent.parent
FILES = generated_files()


@pytest.mark.parametrize("name", FILES)
def test_kept_files_are_current(name: str) -> None:
    """Each kept file equals what is made now; `python tests/golden/rewrite.py` writes them anew."""
    assert FILES[name] == (ROOT / name).read_text(encoding="utf-8")


def test_no_file_is_left_over() -> None:
    """Nothing is kept that no command makes any more."""
    kept = {path.relative_to(ROOT).as_posix() for folder in ("man", "completions", "tests/golden/help")
            for path in (ROOT / folder).iterdir()}  # fmt: skip

    assert kept | {"openclaw_cli/data/help.txt"} == set(FILES)


def test_every_command_has_an_example_and_its_statuses() -> None:
    """The help page of each command shows a command line of it and says what it can exit with."""
    leaves = [item for item in walk(commands()) if not item.members]

    assert [] == [item.path for item in leaves if not item.examples or not item.statuses]
    assert [] == [item.path for item in leaves if not any(" ".join(item.path[:1]) in line for line in item.examples)]


def test_every_option_and_argument_is_explained() -> None:
    """No option and no argument is without help."""
    silent = [
        (item.path, word)
        for item in walk(commands())
        for word, text in [
            (option.spellings[0], option.help) for option in item.options if "--help" not in option.spellings
        ]
        + [(argument.value, argument.help) for argument in item.arguments]
        if not text
    ]

    assert [] == silent


def test_an_option_means_the_same_everywhere() -> None:
    """Two commands never use one spelling for a switch and for an option with a value."""
    kinds: dict[str, set[bool]] = {}
    for item in walk(commands()):
        for option in item.options:
            for spelling in option.spellings:
                kinds.setdefault(spelling, set()).add(option.value is None)

    assert {} == {spelling: found for spelling, found in kinds.items() if len(found) > 1}


@pytest.mark.parametrize(("words", "wanted"), [
    (["ses"], {"sessions"}),
    (["sessions", ""], {"list"}),
    (["sessions", "list", "--arch"], {"--archived"}),
    (["sessions", "--agent", "x", "li"], {"list"}),
    (["sessions", "list", "--archived", ""], {"hide", "include", "only"}),
    (["completion", "f"], {"fish"}),
    (["man", "s"], {"sessions", "scan-lifecycles"}),
    (["man", "d"], {"doctor", "demo"}),
    (["sessions", "--gen"], {"--generations"}),
    (["sessions", "--all-agents", "--li"], {"--limit"}),
    (["doctor", "--all"], set()),
])  # fmt: skip
def test_bash_completes(words: list[str], wanted: set[str]) -> None:
    """The bash function offers commands, members, options and values, and skips the value of an option."""
    if shutil.which("bash") is None:
        pytest.skip("there is no bash")
    quoted = " ".join(f"'{word}'" for word in ["openclaw-cli", *words])
    code = f"""
        source {ROOT}/completions/openclaw-cli.bash
        COMP_WORDS=({quoted}); COMP_CWORD={len(words)}
        _openclaw_cli; printf '%s\\n' "${{COMPREPLY[@]}}"
    """
    done = subprocess.run(["bash", "--norc", "-c", code], capture_output=True, text=True, check=True)

    assert wanted <= set(done.stdout.split())
    assert all(word.startswith(words[-1]) for word in done.stdout.split())


@pytest.mark.parametrize(("shell", "file"), [("zsh", "_openclaw-cli"), ("fish", "openclaw-cli.fish")])
def test_other_shells_accept_their_script(shell: str, file: str) -> None:
    """The script parses in the shell that it is for."""
    if shutil.which(shell) is None:
        pytest.skip(f"there is no {shell}")
    subprocess.run([shell, "-n", str(ROOT / "completions" / file)], check=True)


def test_manual_pages_format_cleanly() -> None:
    """groff has nothing to say about any page."""
    if shutil.which("groff") is None:
        pytest.skip("there is no groff")
    pages = [str(path) for path in sorted((ROOT / "man").iterdir())]
    done = subprocess.run(["groff", "-man", "-Tutf8", "-ww", *pages], capture_output=True, text=True, check=True)

    assert "" == done.stderr


def test_man_prints_the_kept_page(capsys: pytest.CaptureFixture[str]) -> None:
    """`man sessions` and `man openclaw-cli-sessions.1` are the page, an unknown one is a usage error."""
    assert 0 == run(["man", "sessions"])
    assert FILES["man/openclaw-cli-sessions.1"] == capsys.readouterr().out
    assert 0 == run(["man", "openclaw-cli-sessions.1"])
    assert FILES["man/openclaw-cli-sessions.1"] == capsys.readouterr().out
    assert 2 == run(["man", "nonsense"])


def test_completion_prints_the_kept_script(capsys: pytest.CaptureFixture[str]) -> None:
    """`completion zsh` is the script; an unknown shell is a usage error."""
    assert 0 == run(["completion", "zsh"])
    assert FILES["completions/_openclaw-cli"] == capsys.readouterr().out
    assert 2 == run(["completion", "tcsh"])


def test_table_names_every_command() -> None:
    """The README's table has one line for each command."""
    table = command_table()

    assert [] == [item.path for item in walk(commands()) if not item.members and f"`{' '.join(item.path)}" not in table]
