"""Parsing a command line and running its command."""

from __future__ import annotations

import gc
import importlib
import importlib.util
import sys
from collections.abc import Iterable, Sequence
from typing import Any

import typer

from openclaw_cli.cli.boundary import PROGRAM, IncompleteError, guarded
from openclaw_cli.cli.options import VALUE_OPTIONS, new_app
from openclaw_cli.cli.registry import REGISTRY
from openclaw_cli.cli.spelling import MODE_OPTION, first_word, normalised
from openclaw_cli.errors import UsageError

SUMMARY = """Migrate, inspect and shrink OpenClaw session stores.

It works on the stores of OpenClaw 2026.9.6, with its gateway running or not, and needs neither network nor model."""


def run(argv: Sequence[str]) -> int:
    """Run one command line (without the program name) and return its exit status."""
    # Records have no cycles: looking for garbage after every 700 objects costs a twentieth of a long run.
    gc.set_threshold(50_000, 20, 100)
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")  # an ASCII locale must not fail on a name
    return guarded(argv, lambda: _run(argv))


def build(names: Iterable[str]) -> typer.Typer:
    """The application with the commands `names` of the registry; a module that is not there is left out."""
    app = new_app(top=True)
    app.callback(help=SUMMARY, invoke_without_command=True)(_top)
    done = set()
    for name in names:
        module = REGISTRY[name].module
        if module not in done and importlib.util.find_spec(module) is not None:
            done.add(module)
            importlib.import_module(module).register(app)
    return app


def command_tree(names: Iterable[str] | None = None) -> Any:
    """The parser's tree (`.commands`, `.params`) of the commands `names`, or of all."""
    return typer.main.get_command(build(REGISTRY if names is None else names))


def _run(argv: Sequence[str]) -> Any:
    words = normalised(argv, VALUE_OPTIONS)
    name = words[0] if words else ""
    tree = command_tree([name] if name in REGISTRY else None)
    words = with_subcommand(words, tree)
    with tree.make_context(PROGRAM, words or ["--help"]) as context:
        return tree.invoke(context)


def with_subcommand(words: list[str], tree: Any) -> list[str]:
    """`words` with the subcommand of a group behind the group's name, and its default when none is named.

    `sessions --agent x list` becomes `sessions list --agent x`; bare `sessions --json` becomes `sessions list --json`.
    Raises `UsageError` for a subcommand that is unknown, or missing where there is no default.
    """
    members = getattr(tree.commands.get(words[0]), "commands", None) if words else None
    if not members:
        return words
    rest = words[1:]
    position = first_word(rest, _value_options(members.values()))
    if position is not None:
        if rest[position] not in members:
            raise UsageError(f"{words[0]} has no command {rest[position]!r}", hint=f"one of {', '.join(members)}")
        return [words[0], rest[position], *rest[:position], *rest[position + 1 :]]
    if {"--help", "-h"} & set(rest):
        return [words[0], "--help"]
    default = REGISTRY[words[0]].default
    if default is not None:
        return [words[0], default, *rest]
    if MODE_OPTION in rest:
        raise UsageError(f"{MODE_OPTION} needs a mode", hint=f"one of {', '.join(members)}")
    raise IncompleteError(words[0], members, _page(tree, words[0]))


def _page(tree: Any, name: str) -> str:
    """The help page of a group."""
    with tree.make_context(PROGRAM, [name], resilient_parsing=True) as top:
        group = tree.commands[name]
        return str(group.get_help(type(top)(group, info_name=name, parent=top)))


def _value_options(commands: Iterable[Any]) -> set[str]:
    """The spellings of all options of `commands` that take a value."""
    return {
        spelling
        for command in commands
        for parameter in command.params
        if parameter.param_type_name == "option" and not parameter.is_flag and not parameter.count
        for spelling in parameter.opts
    }


def _top(
    context: typer.Context,
    version: bool = typer.Option(False, "--version", "-V", help="Print the version.", is_eager=True),
) -> None:
    if version:
        from openclaw_cli import __version__

        sys.stdout.write(f"{PROGRAM} {__version__}\n")
        raise typer.Exit
    if context.invoked_subcommand is None:
        sys.stdout.write(context.get_help() + "\n")
