"""OpenClaw's own way of writing our commands (design D2), turned into ours before anything is parsed."""

from __future__ import annotations

from collections.abc import Collection, Sequence

MODE_OPTION = "--session-sqlite"
ARCHIVED_VALUES = ("hide", "include", "only")

_DOCTOR_OPTIONS = {
    "--session-sqlite-agent": "--agent",
    "--session-sqlite-all-agents": "--all-agents",
    "--session-sqlite-store": "--store",
}


def normalised(argv: Sequence[str], value_options: Collection[str]) -> list[str]:
    """The command first, options that stood before it behind it; OpenClaw's spelling of ours in our own."""
    words = command_first(list(argv), value_options)
    if words[:1] == ["doctor"]:
        return doctor_spelling(words)
    return archived_spelling(words) if words[:1] == ["sessions"] else words


def command_first(words: list[str], value_options: Collection[str]) -> list[str]:
    """`words` with the first word that is no option moved to the front; unchanged when there is none."""
    position = first_word(words, value_options)
    if position is None:
        return words
    return [words[position], *words[:position], *words[position + 1 :]]


def first_word(words: Sequence[str], value_options: Collection[str]) -> int | None:
    """The index of the first word that is neither an option nor the value of one in `value_options`."""
    index = 0
    while index < len(words):
        word = words[index]
        if word == "--":
            return None
        if not word.startswith("-") or word == "-":
            return index
        index += 2 if word in value_options else 1
    return None


def archived_spelling(words: list[str]) -> list[str]:
    """`--archived` without a value as `--archived=include`; the parser knows no option whose value may be missing."""
    end = words.index("--") if "--" in words else len(words)
    following = [*words[1:end], ""]
    return [
        "--archived=include" if word == "--archived" and following[index] not in ARCHIVED_VALUES else word
        for index, word in enumerate(words[:end])
    ] + words[end:]


def doctor_spelling(words: list[str]) -> list[str]:
    """`doctor --session-sqlite inspect --session-sqlite-all-agents` as `doctor inspect --all-agents`.

    `doctor --fix` and `--repair` become `doctor fix`. Whatever else stands there is kept in its order.
    """
    mode: str | None = None
    asked = False
    kept: list[str] = []
    rest = words[1:]
    while rest:
        word = rest.pop(0)
        name, equals, value = word.partition("=")
        if word == "--":
            kept += [word, *rest]
            break
        if name == MODE_OPTION:
            asked = True
            if equals:
                mode = value or None
            elif rest and not rest[0].startswith("-"):
                mode = rest.pop(0)
        elif name in _DOCTOR_OPTIONS:
            kept.append(_DOCTOR_OPTIONS[name] + (equals + value))
        elif word in ("--fix", "--repair"):
            mode = "fix"
        else:
            kept.append(word)
    if mode is None:
        # Without its mode the option stays, to be refused where the modes are known.
        return [words[0], *([MODE_OPTION] if asked else []), *kept]
    return [words[0], mode, *kept]
