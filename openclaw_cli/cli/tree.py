"""The command tree as plain values: what help, manual pages, completions and README tables are made of."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from openclaw_cli.cli.app import PROGRAM, command_tree
from openclaw_cli.cli.options import SHARED
from openclaw_cli.cli.registry import REGISTRY

_SHARED_SPELLINGS = frozenset(
    spelling
    for annotation, _ in SHARED.values()
    for info in annotation.__metadata__
    for spelling in info.param_decls or ()
)


PAGE = "PAGE"
_PATH_WORDS = ("DIR", "FILE", "PATH", "OUT", "SOURCE")


@dataclass(frozen=True, slots=True)
class Argument:
    """A word after the options; `value` is its name on the help page, in brackets when it may be left out."""

    value: str
    help: str

    @property
    def choices(self) -> tuple[str, ...]:
        """The values that can be told beforehand: those of a name like `bash|zsh|fish`, and the manual's pages."""
        if self.value.strip("[]") == PAGE:
            return tuple(REGISTRY)
        return tuple(self.value.strip("[]").split("|")) if "|" in self.value else ()

    @property
    def takes_path(self) -> bool:
        """Whether completing file names makes sense."""
        return self.value.strip("[].") in _PATH_WORDS


@dataclass(frozen=True, slots=True)
class Option:
    """`spellings` with their dashes; `value` is the word of the help page for its value, None for a switch."""

    spellings: tuple[str, ...]
    value: str | None
    help: str
    shared: bool

    @property
    def choices(self) -> tuple[str, ...]:
        """The values that can be told beforehand: those of a word like `hide|include|only`."""
        return tuple(self.value.split("|")) if self.value is not None and "|" in self.value else ()

    @property
    def takes_path(self) -> bool:
        """Whether completing file names makes sense."""
        return self.value in _PATH_WORDS


@dataclass(frozen=True, slots=True)
class Command:
    """One command with everything that its help page says; a group has `members` and no options of its own."""

    path: tuple[str, ...]
    summary: str
    description: str
    arguments: tuple[Argument, ...]
    options: tuple[Option, ...]
    examples: tuple[str, ...]
    statuses: tuple[tuple[int, str], ...]
    members: tuple[Command, ...] = ()

    @property
    def offered(self) -> tuple[Option, ...]:
        """The options that may stand right behind it: its own, or those of the member that the bare group means."""
        entry = REGISTRY.get(self.path[0])
        default = entry.default if entry is not None and len(self.path) == 1 else None
        return next((member.options for member in self.members if member.path[-1] == default), self.options)

    @property
    def usage(self) -> str:
        """The command line in short."""
        words = [PROGRAM, *self.path, *(argument.value for argument in self.arguments)]
        return " ".join([*words, "[OPTIONS]"] if self.options else words)


def commands() -> tuple[Command, ...]:
    """All top commands, in the order of the registry."""
    found = command_tree().commands
    return tuple(_command((name,), found[name]) for name in REGISTRY if name in found)


def help_text(path: tuple[str, ...], width: int = 100) -> str:
    """What `openclaw-cli PATH --help` prints on a terminal of `width` columns."""
    node = command_tree(path[:1] or None)
    context = node.make_context(PROGRAM, ["--"], resilient_parsing=True, terminal_width=width)
    for name in path:
        node = node.commands[name]
        context = type(context)(node, info_name=name, parent=context, terminal_width=width, max_content_width=width)
    return str(node.get_help(context)) + "\n"


def walk(roots: tuple[Command, ...]) -> Iterator[Command]:
    """Each command and each member, depth first."""
    for root in roots:
        yield root
        yield from walk(root.members)


def _command(path: tuple[str, ...], node: Any) -> Command:
    members = tuple(_command((*path, name), child) for name, child in getattr(node, "commands", {}).items())
    examples, statuses = _epilog(node.epilog or "")
    return Command(
        path,
        node.short_help or "",
        inspect.cleandoc(node.help or ""),
        tuple(_argument(item) for item in node.params if item.param_type_name == "argument"),
        () if members else tuple(_option(item) for item in node.params if item.param_type_name == "option"),
        examples,
        statuses,
        members,
    )


def _argument(item: Any) -> Argument:
    name = item.metavar or item.human_readable_name.upper()
    return Argument(name if item.required or name.startswith("[") else f"[{name}]", item.help or "")


def _option(item: Any) -> Option:
    spellings = (*item.opts, *item.secondary_opts)
    switch = item.is_flag or item.count
    value = None if switch else item.metavar or "TEXT"
    return Option(spellings, value, item.help or "", bool(_SHARED_SPELLINGS & set(spellings)))


def _epilog(text: str) -> tuple[tuple[str, ...], tuple[tuple[int, str], ...]]:
    """Examples and exit statuses out of the epilog that `options.command` wrote."""
    examples: list[str] = []
    statuses: list[tuple[int, str]] = []
    section = ""
    for line in text.splitlines():
        if line.startswith("  ") and section.startswith("Example"):
            examples.append(line.strip())
        elif line.startswith("  ") and section == "Exit status:":
            number, meaning = line.split(maxsplit=1)
            statuses.append((int(number), meaning))
        elif line.strip() and line != "\b":
            section = line.strip()
    return tuple(examples), tuple(statuses)
