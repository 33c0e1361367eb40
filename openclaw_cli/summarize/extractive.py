"""A card without a model: facts of tool calls and of what the answer states, then its sentences, in a budget. Pure.

Nothing is invented: every path, number and identifier of a card stands literally in the material. Texts are cut between
sentences, or between words with `…` when one sentence is too long; inside a word only where that alone is too long.

Facts come before prose: files, errors, failed attempts and what to remember are kept whole. When they need more than
the budget the card grows, up to `CARD_MAX_TOKENS`. Only what does not fit even there is left out, and the card shows
it: a text is shortened with `…`, a list of files keeps its first paths, whole, and ends in a lone `…`.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from openclaw_cli.summarize import stated
from openclaw_cli.summarize.card import Card, Labels, Origin, Outcome, language_of, render
from openclaw_cli.summarize.stated import Stated

DEFAULT_CARD_TOKENS = 160
CARD_MAX_TOKENS = 400
_MAX_ERRORS = 3
_SHORTEST_TASK_TOKENS = 24
_SHORTEST_RESULT_TOKENS = 32
_CUT = "…"

_NO_RESULT = {Labels.GERMAN: "kein Ergebnistext", Labels.ENGLISH: "no result text"}
_LATER = {
    Labels.GERMAN: "Abgeschlossen um {} UTC, später in diesem Gespräch.",
    Labels.ENGLISH: "Completed at {} UTC, later in this conversation.",
}


@dataclass(frozen=True, slots=True)
class Material:
    """What is known of a finished sub-task.

    `answer`: the child's own words. `status`: the wording that told the outcome, as `failed: disk full`. `later`: the
    time of day (HH:MM, UTC) of the completion when the reader of the card would otherwise take it for earlier than it
    was, else None. `created`, `changed`, `errors`: facts of removed tool calls and their results.
    """

    task: str
    label: str | None
    answer: str | None
    status: str | None
    origin: Origin
    outcome: Outcome
    later: str | None = None
    created: tuple[str, ...] = ()
    changed: tuple[str, ...] = ()
    errors: tuple[str, ...] = ()


def summarise(
    material: Material,
    count: Callable[[str], int],
    *,
    budget_tokens: int = DEFAULT_CARD_TOKENS,
    labels: Labels | None = None,
) -> Card:
    """The card of a sub-task within a budget of tokens (`count` counts a text).

    Facts stay whole up to `CARD_MAX_TOKENS` (see the module); the task gets up to a third of the room that they leave,
    the result the rest, and both a few words in any case. `labels` None: the language of the task.
    """
    told = stated.read(material.answer or "")
    labels = labels or language_of(material.task or material.label or material.answer or "")
    later = _LATER[labels].format(material.later) if material.later else ""
    shortest = _SHORTEST_TASK_TOKENS + _SHORTEST_RESULT_TOKENS
    empty = _within(_facts(material, told, later, labels, count), max(budget_tokens, CARD_MAX_TOKENS) - shortest, count)
    room = budget_tokens - count(render(empty))
    task = shorten(_title(material) or told.task, max(room // 3, _SHORTEST_TASK_TOKENS), count)
    with_task = replace(empty, task=task)
    room = budget_tokens - count(render(with_task))
    answer = shorten(_readable(told.prose), max(room, _SHORTEST_RESULT_TOKENS), count)
    answer = answer or material.status or _NO_RESULT[labels]
    return replace(with_task, result=f"{empty.result} {answer}".strip())


def _facts(material: Material, told: Stated, later: str, labels: Labels, count: Callable[[str], int]) -> Card:
    """The card with everything but task and prose. Calls come before the answer, which spoke after them."""
    created = _merged(material.created, told.created)
    new = {_plain(path) for path in created if path != _CUT}
    changed = [path for path in _merged(material.changed, told.changed) if _plain(path) not in new]
    return Card(
        task="",
        result=later,
        origin=material.origin,
        outcome=told.outcome if material.outcome is Outcome.UNKNOWN else material.outcome,
        created=tuple(created),
        changed=tuple(changed),
        errors="; ".join(_errors(material, told, count)),
        tried="; ".join(told.tried),
        remember="; ".join(told.remember),
        labels=labels,
    )


def _merged(*lists: tuple[str, ...]) -> list[str]:
    """All paths in the order of first mention, each once; the mark of a list that was cut stays at the end."""
    known: dict[str, str] = {}
    for path in (path for paths in lists for path in paths if path != _CUT):
        known.setdefault(_plain(path), path)
    return [*known.values(), *([_CUT] if any(_CUT in paths for paths in lists) else [])]


def _plain(path: str) -> str:
    return path.removeprefix("./")


def _within(card: Card, limit_tokens: int, count: Callable[[str], int]) -> Card:
    """The facts within a limit: texts get a sixth each, then files of both lists by turns, whole, as many as fit."""
    if count(render(card)) <= limit_tokens:
        return card
    texts = {name: shorten(getattr(card, name), limit_tokens // 6, count) for name in ("errors", "tried", "remember")}
    lists = {"created": card.created, "changed": card.changed}
    card = replace(card, **texts, **{name: (_CUT,) if paths else () for name, paths in lists.items()})
    room = limit_tokens - count(render(card))
    kept: dict[str, list[str]] = {name: [] for name in lists}
    for place, name in ((place, name) for place in range(max(map(len, lists.values()))) for name in lists):
        path = lists[name][place] if place < len(lists[name]) else None
        if path is None:
            continue
        room -= count(f", {path}")
        if room < 0:
            break
        kept[name].append(path)
    cut = {name: (*kept[name], _CUT) if len(kept[name]) < len(paths) else paths for name, paths in lists.items()}
    return replace(card, **cut)


def _errors(material: Material, told: Stated, count: Callable[[str], int]) -> list[str]:
    """What went wrong: the words of the status first, then the lines that state an error; each once.

    A sub-task that failed or ran out of time has an error in any case: where the status tells no reason, the status.
    """
    lines = [*material.errors, *told.errors]
    failed = material.outcome in (Outcome.FAILED, Outcome.TIMEOUT)
    if failed:
        lines += error_lines(told.prose)
    status = " ".join((material.status or "").split())
    reason = _STATUS_WORD.sub("", status)
    if reason == status and (lines or not failed):
        reason = ""  # it says no more than the outcome does
    elif not failed and material.outcome is not Outcome.CANCELLED:
        reason = ""
    if reason and not any(reason in line for line in lines):
        lines.insert(0, shorten(reason, _STATUS_TOKENS, count))
    return _unique(lines)


_STATUS_WORD = re.compile(r"^[a-z ]{1,20}:\s*(?=\S)", re.IGNORECASE)
_STATUS_TOKENS = 60


def _title(material: Material) -> str:
    """The task in one line: its label, where that says more than the task's own beginning, and the task."""
    task = " ".join(material.task.split())
    label = " ".join((material.label or "").split())
    if not label or label.lower() in task.lower():
        return task
    return f"{label} — {task}" if task else label


def _readable(answer: str) -> str:
    """An answer without the marks that only lay it out: fences, rules, empty lines, signs of headings and lists."""
    lines = (_LAYOUT.sub("", line).strip() for line in answer.splitlines())
    return "\n".join(" ".join(line.split()) for line in lines if line and not _RULE.fullmatch(line))


_LAYOUT = re.compile(r"^\s*(?:#{1,6}\s+|[-*•]\s+|>\s+)")
_RULE = re.compile(r"[-=_*~`]{3,}\w*")
_SENTENCE_END = re.compile(r"(?<=[.!?…])(?=\s)|(?=\n)")


def shorten(text: str, limit_tokens: int, count: Callable[[str], int]) -> str:
    """As many first sentences as fit; when not even one fits, as many first words and `…`.

    When not even one word fits, what fits of it, with the mark right behind it: that it is cut can be seen.
    """
    text = text.strip()
    # A token has about four characters, rarely more than twelve: the rest need not be looked at.
    start = text[: limit_tokens * 12]
    if len(start) == len(text) and count(text) <= limit_tokens:
        return text
    pieces = _SENTENCE_END.split(start)
    kept = _longest(pieces if len(start) == len(text) else pieces[:-1], limit_tokens, count)
    if kept:
        return kept
    words = re.findall(r"\S+\s*", start)
    kept = _longest(words if len(start) == len(text) else words[:-1], limit_tokens - 1, count)
    if kept:
        return f"{kept} {_CUT}"
    part = _part(start.split(maxsplit=1)[0] if start else "", limit_tokens, count)
    return f"{part}{_CUT}" if part else ""


def _part(word: str, limit_tokens: int, count: Callable[[str], int]) -> str:
    """The longest beginning of one word that fits with the mark, by halving.

    It ends at a sign where there is one, so that names and paths inside stay whole.
    """
    fits, over = 0, len(word) + 1
    while over - fits > 1:
        middle = (fits + over) // 2
        fits, over = (middle, over) if count(f" {word[:middle]}{_CUT}") <= limit_tokens else (fits, middle)
    signs = [sign.end() for sign in _SIGN.finditer(word, 0, fits)]
    if signs and signs[-1] > fits // 2:
        return word[: signs[-1]]
    while 0 < fits < len(word) and unicodedata.combining(word[fits]):
        fits -= 1  # a letter keeps its marks
    return word[:fits]


_SIGN = re.compile(r'[,;|&(){}\[\]<>"]')


def _longest(pieces: list[str], limit_tokens: int, count: Callable[[str], int]) -> str:
    """The longest beginning of the joined pieces within the limit; each piece is counted about once."""
    total = taken = 0
    for piece in pieces:
        total += count(piece)
        if total > limit_tokens:
            break
        taken += 1
    # Joined pieces count less than their sum, as a rule; where not, the last ones go.
    while taken and count("".join(pieces[:taken]).strip()) > limit_tokens:
        taken -= 1
    return "".join(pieces[:taken]).strip()


# A line that names an error by its class or begins with the word; nothing that merely speaks of errors.
_ERROR = re.compile(
    r"^\s*(?:[\w.]*(?:Error|Exception|Panic)\b\s*[:(].*|(?:error|fatal|panic|fehler)\b(?:\[\w+\])?\s*:.*)$",
    re.MULTILINE | re.IGNORECASE,
)
_ERROR_CHARS = 160


def error_lines(text: str) -> tuple[str, ...]:
    """The lines of a text that state an error, each on one line and of bounded length; the last few, they decide."""
    lines = (" ".join(found.group().split()) for found in _ERROR.finditer(text))
    return tuple(_unique(line for line in lines if len(line) <= _ERROR_CHARS))[-_MAX_ERRORS:]


def _unique(lines: Any) -> list[str]:
    return list(dict.fromkeys(lines))


_PATH_KEYS = ("path", "file_path", "filePath", "filename", "file")
_PATCH_KEYS = ("input", "patch", "diff")
_PATCH_LINE = re.compile(r"^\*\*\* (Add|Update) File: (.+?)\s*$", re.MULTILINE)


def file_changes(tool: str, arguments: Mapping[str, Any]) -> Iterator[tuple[str, bool]]:
    """The files that a successful tool call wrote, as (path, is new). Only tools that do nothing else are believed.

    `write` counts as a new file, `edit` as a changed one; `apply_patch` says of each file what it does.
    """
    if tool in ("write", "edit"):
        path = next((value for key in _PATH_KEYS if isinstance(value := arguments.get(key), str) and value), None)
        if path is not None:
            yield path, tool == "write"
    elif tool == "apply_patch":
        patch = next((value for key in _PATCH_KEYS if isinstance(value := arguments.get(key), str)), "")
        for action, path in _PATCH_LINE.findall(patch):
            yield path, action == "Add"
