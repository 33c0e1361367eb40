"""Manual pages, completion scripts and tables, all made from the command tree.

The files under `man/`, `completions/` and `openclaw_cli/data/help.txt` are what this module makes; a test compares
them, and `tests/golden/rewrite.py` writes them anew.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from typing import Annotated

import typer

from openclaw_cli.cli import completion, options
from openclaw_cli.cli.boundary import PROGRAM
from openclaw_cli.cli.options import STATUS_MEANING, Common
from openclaw_cli.cli.tree import PAGE, Command, Option, commands, help_text, walk
from openclaw_cli.errors import UsageError

_NO_SHARED = tuple(key for key in options.SHARED if key not in ("debug", "json"))
_TOP_WIDTH = 80

_FILES = (
    ("<state>/agents/<id>/agent/openclaw-agent.sqlite", "The store of one agent."),
    ("<state>/agents/<id>/sessions/", "Where transcripts and sessions.json of a file-era store are."),
    ("<state>/agents/<id>/session-sqlite-import-archive/", "Where imported files are moved."),
    ("<state>/session-sqlite-migration-runs/", "One manifest for each run that moved files."),
    ("<state>/openclaw.json", "OpenClaw's own configuration; read, never written."),
    ("<state>/openclaw-cli.yaml, $XDG_CONFIG_HOME/openclaw-cli/config.yaml", "Our configuration, the first found."),
)
_ENVIRONMENT = (
    ("OPENCLAW_STATE_DIR", "State directory; --state-dir wins. Default: ~/.openclaw."),
    ("OPENCLAW_HOME", "Home directory to use instead of HOME."),
    ("OPENCLAW_CONFIG_PATH", "Path of openclaw.json."),
    ("OPENCLAW_INCLUDE_ROOTS", "Further directories from which openclaw.json may include files."),
    ("OPENCLAW_CLI_CONFIG", "Our configuration file; --config wins."),
    ("OPENCLAW_SESSION_WRITE_LOCK_ACQUIRE_TIMEOUT_MS", "How long a writer waits for a database, in ms."),
    ("OPENCLAW_SESSION_WRITE_LOCK_STALE_MS", "Age at which the lock file of a dead owner is stale, in ms."),
    ("OPENCLAW_SESSION_WRITE_LOCK_MAX_HOLD_MS", "Longest write transaction, in ms."),
    ("NO_COLOR, COLUMNS, TERM", "Honoured as usual; TERM=dumb gives plain columns."),
)


def register(app: typer.Typer) -> None:
    """Add the commands `completion` and `man`."""
    options.command(
        app,
        "completion",
        example=f"{PROGRAM} completion bash > ~/.local/share/bash-completion/completions/{PROGRAM}",
        exits=(),
        without=(*_NO_SHARED, "json"),
    )(print_completion)
    options.command(app, "man", example=f"{PROGRAM} man sessions | man -l -", exits=(), without=(*_NO_SHARED, "json"))(
        print_page
    )


def print_completion(
    common: Common,
    shell: Annotated[str, typer.Argument(metavar="bash|zsh|fish", help="The shell.")],
) -> int:
    """Print the completion script for a shell."""
    if shell not in completion.FILES:
        raise UsageError(f"there is no completion for {shell!r}", hint="bash, zsh or fish")
    sys.stdout.write(completion.script(shell, commands()))
    return 0


def print_page(
    common: Common,
    page: Annotated[
        str | None, typer.Argument(metavar=f"[{PAGE}]", help="A command, or nothing for the overview.")
    ] = None,
) -> int:
    """Print a manual page in the format of man(7)."""
    pages = manual_pages()
    name = (page or "").removeprefix(f"{PROGRAM}-").removesuffix(".1")
    wanted = f"{PROGRAM}.1" if name in ("", PROGRAM) else f"{PROGRAM}-{name}.1"
    if wanted not in pages:
        known = ", ".join(file.removeprefix(f"{PROGRAM}-").removesuffix(".1") for file in pages)
        raise UsageError(f"there is no manual page {page!r}", hint=f"pages: {known}")
    sys.stdout.write(pages[wanted])
    return 0


def generated_files() -> dict[str, str]:
    """Path below the root of the project → text, for everything that is made from the command tree and kept."""
    found = commands()
    files = {f"man/{name}": text for name, text in manual_pages().items()}
    files |= {f"completions/{name}": completion.script(shell, found) for shell, name in completion.FILES.items()}
    files["openclaw_cli/data/help.txt"] = help_text((), _TOP_WIDTH)
    for command in walk(found):
        files[f"tests/golden/help/{'-'.join(command.path)}.txt"] = help_text(command.path)
    return files


def command_table() -> str:
    """A Markdown table of all commands: how they are called and what they do."""
    lines = ["| Command | What it does |", "|---|---|"]
    for command in walk(commands()):
        if not command.members:
            words = (*command.path, *(argument.value for argument in command.arguments))
            lines.append(f"| `{' '.join(words)}` | {command.summary} |")
    return "\n".join(lines) + "\n"


def status_table() -> str:
    """A Markdown table of the exit statuses."""
    return "\n".join(
        ["| Status | When |", "|---|---|", *(f"| {n} | {text} |" for n, text in STATUS_MEANING.items()), ""]
    )


def manual_pages() -> dict[str, str]:
    """File name → page: the overview and one page for each top command."""
    found = commands()
    pages = {f"{PROGRAM}.1": _page(_overview(found))}
    for command in found:
        pages[f"{PROGRAM}-{command.path[0]}.1"] = _page(_of_command(command))
    return pages


def _page(lines: Iterator[str]) -> str:
    return "\n".join(lines) + "\n"


def _overview(found: tuple[Command, ...]) -> Iterator[str]:
    yield from _title(PROGRAM, "migrate, inspect and shrink OpenClaw session stores")
    yield ".SH SYNOPSIS"
    yield f".B {_roff(PROGRAM)}"
    yield r"\fICOMMAND\fR [\fIOPTIONS\fR]"
    yield ".SH DESCRIPTION"
    yield from _paragraphs(
        "A toolkit for the session stores of OpenClaw 2026.9.6. It needs neither network nor model, and works with the"
        " gateway of OpenClaw running or not.\n\nCommand lines of OpenClaw for sessions and migration work with the"
        " name of the program changed: doctor --session-sqlite inspect --session-sqlite-all-agents is doctor inspect"
        " --all-agents, and bare sessions is sessions list. Options may stand before a command."
    )
    yield ".SH COMMANDS"
    for command in found:
        yield from _item(f"{PROGRAM}-{command.path[0]}(1)", command.summary)
    yield ".SH OPTIONS"
    yield "Each command says which of these it takes."
    seen: dict[tuple[str, ...], Option] = {}
    for command in walk(found):
        seen |= {option.spellings: option for option in command.options if option.shared}
    for option in seen.values():
        yield from _option_item(option)
    yield ".SH EXIT STATUS"
    for status, meaning in STATUS_MEANING.items():
        yield from _item(str(status), f"{meaning}.")
    yield from _item("130, 141, 143", "SIGINT, a closed pipe, SIGTERM.")
    yield from _places()


def _of_command(command: Command) -> Iterator[str]:
    yield from _title(f"{PROGRAM}-{command.path[0]}", command.summary.rstrip("."))
    leaves = [item for item in walk((command,)) if not item.members]
    yield ".SH SYNOPSIS"
    for leaf in leaves:
        yield _roff(leaf.usage)
        yield ".br"
    yield ".SH DESCRIPTION"
    if command.members:
        yield from _paragraphs(command.description)
        for leaf in leaves:
            yield f".SS {_roff(' '.join(leaf.path))}"
            yield from _body(leaf)
    else:
        yield from _body(command)
    yield ".SH EXIT STATUS"
    merged = dict(sorted({status: meaning for leaf in leaves for status, meaning in leaf.statuses}.items()))
    for status, meaning in merged.items():
        yield from _item(str(status), f"{meaning}.")
    yield ".SH SEE ALSO"
    yield rf"\fB{_roff(PROGRAM)}\fR(1)"


def _body(leaf: Command) -> Iterator[str]:
    yield from _paragraphs(leaf.description)
    for argument in leaf.arguments:
        yield from _item(argument.value, argument.help)
    for option in leaf.options:
        yield from _option_item(option)
    for example in leaf.examples:
        yield from (".PP", ".RS 4", ".nf", _roff(example), ".fi", ".RE")


def _places() -> Iterator[str]:
    yield ".SH FILES"
    for name, text in _FILES:
        yield from _item(name, text)
    yield ".SH ENVIRONMENT"
    for name, text in _ENVIRONMENT:
        yield from _item(name, text)


def _title(name: str, summary: str) -> Iterator[str]:
    yield f'.TH {_roff(name.upper())} 1 "" "{PROGRAM}" "User Commands"'
    yield ".SH NAME"
    yield rf"{_roff(name)} \- {_roff(summary)}"


def _option_item(option: Option) -> Iterator[str]:
    spelled = ", ".join(rf"\fB{_roff(spelling)}\fR" for spelling in option.spellings)
    value = rf" \fI{_roff(option.value)}\fR" if option.value is not None else ""
    yield from (".TP", spelled + value, _roff(option.help))


def _item(name: str, text: str) -> Iterator[str]:
    yield from (".TP", rf"\fB{_roff(name)}\fR", _roff(text))


def _paragraphs(text: str) -> Iterator[str]:
    for paragraph in text.split("\n\n"):
        yield ".PP"
        yield _roff(" ".join(paragraph.split()))


def _roff(text: str) -> str:
    """`text` without anything that man(7) would take as its own."""
    escaped = text.replace("\\", r"\e").replace("-", r"\-")
    escaped = re.sub(r"[^\x00-\x7f]", lambda found: f"\\[u{ord(found.group()):04X}]", escaped)
    return re.sub(r"^([.'])", r"\\&\1", escaped)
