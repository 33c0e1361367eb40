"""Completion scripts from the command tree. Static: completing a word never starts the program."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Iterator

from openclaw_cli.cli.boundary import PROGRAM
from openclaw_cli.cli.tree import Command, Option, walk

FILES = {"bash": f"{PROGRAM}.bash", "zsh": f"_{PROGRAM}", "fish": f"{PROGRAM}.fish"}
HELP = Option(("-h", "--help"), None, "Show the help page.", False)


def script(shell: str, commands: tuple[Command, ...]) -> str:
    """The script for `bash`, `zsh` or `fish`."""
    made = {"bash": _bash, "zsh": _zsh, "fish": _fish}[shell](commands)
    return "\n".join(made) + "\n"


def _bash(commands: tuple[Command, ...]) -> Iterator[str]:
    """One function: it finds the command among the words, then offers its options, its members or file names."""
    values = sorted({spelling for item in walk(commands) for option in item.options if option.value is not None
                     for spelling in option.spellings})  # fmt: skip
    yield f"# bash completion for {PROGRAM}"
    yield "_openclaw_cli() {"
    yield '    local current="${COMP_WORDS[COMP_CWORD]}" previous="${COMP_WORDS[COMP_CWORD-1]}" path="" word skip=""'
    yield '    local -a before=("${COMP_WORDS[@]:1:COMP_CWORD-1}")'
    yield '    for word in "${before[@]}"; do'
    yield '        if [[ -n $skip ]]; then skip=""; continue; fi'
    yield '        case "$word" in'
    yield f"            {'|'.join(values)}) skip=1 ;;"
    yield "            -*) ;;"
    yield '            *) case "$path $word" in'
    for item in walk(commands):
        yield f'                {shlex.quote(" ".join(("", *item.path)))}) path="$path $word" ;;'
    yield "            esac ;;"
    yield "        esac"
    yield "    done"
    yield "    COMPREPLY=()"
    yield '    case "$previous" in'
    for spelling, option in _with_value(commands):
        yield f"        {spelling}) COMPREPLY=({_bash_values(option)}); return ;;"
    yield "    esac"
    yield '    case "$path" in'
    yield f'        "") COMPREPLY=($(compgen -W "{_words(commands, ())}" -- "$current")) ;;'
    for item in walk(commands):
        pattern = shlex.quote(" ".join(("", *item.path)))
        files = ' $(compgen -f -- "$current")' if any(argument.takes_path for argument in item.arguments) else ""
        words = " ".join([*_choices(item), _words(item.members, item.offered)])
        yield f'        {pattern}) COMPREPLY=($(compgen -W "{words}" -- "$current"){files}) ;;'
    yield "    esac"
    yield "}"
    yield f"complete -o filenames -F _openclaw_cli {PROGRAM}"


def _bash_values(option: Option) -> str:
    if option.choices:
        return f'$(compgen -W "{" ".join(option.choices)}" -- "$current")'
    return '$(compgen -f -- "$current")' if option.takes_path else ""


def _words(members: Iterable[Command], options: Iterable[Option]) -> str:
    names = [item.path[-1] for item in members]
    return " ".join([*names, *(spelling for option in (*options, HELP) for spelling in option.spellings)])


def _choices(item: Command) -> list[str]:
    return [choice for argument in item.arguments for choice in argument.choices]


def _with_value(commands: tuple[Command, ...]) -> list[tuple[str, Option]]:
    """Spelling → option with a value, each spelling once: it means the same in every command."""
    found = {
        spelling: option
        for item in walk(commands)
        for option in item.options
        if option.value is not None
        for spelling in option.spellings
    }
    return sorted(found.items())


def _zsh(commands: tuple[Command, ...]) -> Iterator[str]:
    yield f"#compdef {PROGRAM}"
    for item in walk(commands):
        yield f"_openclaw_cli_{_identifier(item)}() {{"
        prefix = f"_openclaw_cli_{_identifier(item)}"
        yield from _zsh_group(item.members, prefix, item.offered) if item.members else _zsh_leaf(item)
        yield "}"
    yield "_openclaw_cli() {"
    yield from _zsh_group(commands, "_openclaw_cli")
    yield "}"
    yield '_openclaw_cli "$@"'


def _zsh_group(members: tuple[Command, ...], prefix: str, options: tuple[Option, ...] = ()) -> Iterator[str]:
    yield "    local -a members=("
    for item in members:
        yield f"        {shlex.quote(f'{item.path[-1]}:{item.summary}')}"
    yield "    )"
    yield "    local context state line"
    yield "    _arguments -C '(- *)'{-h,--help}'[Show the help page.]' \\"
    yield from _zsh_options(options)
    yield "        '1: :->member' '*:: :->rest'"
    yield '    case "$state" in'
    yield "        member) _describe command members ;;"
    yield '        rest) case "$line[1]" in'
    for item in members:
        yield f"            {item.path[-1]}) {prefix}_{item.path[-1].replace('-', '_')} ;;"
    yield "        esac ;;"
    yield "    esac"


def _zsh_leaf(item: Command) -> Iterator[str]:
    yield "    _arguments \\"
    yield from _zsh_options((*item.options, HELP))
    choices = _choices(item)
    if choices:
        yield f"        '1:value:({' '.join(choices)})'"
    else:
        yield "        '*:file:_files'" if any(argument.takes_path for argument in item.arguments) else "        ''"


def _zsh_options(options: Iterable[Option]) -> Iterator[str]:
    for option in options:
        for spelling in option.spellings:
            yield f"        {shlex.quote(spelling + '[' + _zsh_text(option.help) + ']' + _zsh_value(option))} \\"


def _zsh_value(option: Option) -> str:
    if option.value is None:
        return ""
    action = f"({' '.join(option.choices)})" if option.choices else "_files" if option.takes_path else " "
    return f":{_zsh_text(option.value)}:{action}"


def _zsh_text(text: str) -> str:
    return text.replace("[", "(").replace("]", ")").replace(":", r"\:")


def _identifier(item: Command) -> str:
    return "_".join(item.path).replace("-", "_")


def _fish(commands: tuple[Command, ...]) -> Iterator[str]:
    names = " ".join(item.path[0] for item in commands)
    yield f"# fish completion for {PROGRAM}"
    yield f"complete -c {PROGRAM} -f"
    yield f"complete -c {PROGRAM} -s h -l help -d 'Show the help page.'"
    for item in commands:
        condition = f"not __fish_seen_subcommand_from {names}"
        yield f"complete -c {PROGRAM} -n {shlex.quote(condition)} -a {item.path[0]} -d {_fish_text(item.summary)}"
    for item in walk(commands):
        seen = "; and ".join(f"__fish_seen_subcommand_from {name}" for name in item.path)
        for member in item.members:
            others = " ".join(other.path[-1] for other in item.members)
            condition = f"{seen}; and not __fish_seen_subcommand_from {others}"
            when = shlex.quote(condition)
            yield f"complete -c {PROGRAM} -n {when} -a {member.path[-1]} -d {_fish_text(member.summary)}"
        for argument in item.arguments:
            if argument.choices:
                yield f"complete -c {PROGRAM} -n {shlex.quote(seen)} -a {shlex.quote(' '.join(argument.choices))}"
            elif argument.takes_path:
                yield f"complete -c {PROGRAM} -n {shlex.quote(seen)} -F"
        names = " ".join(member.path[-1] for member in item.members)
        bare = f"{seen}; and not __fish_seen_subcommand_from {names}" if names else seen
        for option in item.offered:
            yield f"complete -c {PROGRAM} -n {shlex.quote(bare)} {_fish_option(option)}"


def _fish_option(option: Option) -> str:
    words = [f"-l {name[2:]}" if name.startswith("--") else f"-s {name[1:]}" for name in option.spellings]
    if option.choices:
        words.append(f"-x -a {shlex.quote(' '.join(option.choices))}")
    elif option.value is not None:
        words.append("-r -F" if option.takes_path else "-x")
    return " ".join([*words, f"-d {_fish_text(option.help)}"])


def _fish_text(text: str) -> str:
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"
