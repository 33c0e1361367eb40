"""A card without a model: sentences of the source, cut to a budget, and facts of its tool calls. Pure.

Nothing is invented: every path, number and identifier of a card stands literally in the material. Texts are cut between
sentences, or between words with `…` when one sentence is too long; never inside a word.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from openclaw_cli.summarize.card import Card, Labels, Origin, Outcome, language_of, render

DEFAULT_CARD_TOKENS = 160
_MAX_ERRORS = 3
_SHORTEST_RESULT_TOKENS = 12

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

    Files and errors are facts and stay whole; the task gets up to a third of the room, the result the rest. `labels`
    None: the language of the task. A budget that is too small for the facts gives the smallest card that holds them.
    """
    labels = labels or language_of(material.task or material.label or material.answer or "")
    empty = Card(
        task="",
        result=_LATER[labels].format(material.later) if material.later else "",
        origin=material.origin,
        outcome=material.outcome,
        created=material.created,
        changed=material.changed,
        errors="; ".join(_errors(material, count)),
        labels=labels,
    )
    room = budget_tokens - count(render(empty))
    with_task = replace(empty, task=shorten(_title(material), max(room // 3, _SHORTEST_RESULT_TOKENS), count))
    room = budget_tokens - count(render(with_task))
    answer = shorten(_readable(material.answer or ""), max(room, _SHORTEST_RESULT_TOKENS), count)
    answer = answer or material.status or _NO_RESULT[labels]
    return replace(with_task, result=f"{empty.result} {answer}".strip())


def _errors(material: Material, count: Callable[[str], int]) -> list[str]:
    """What went wrong: the words of the status first, then the lines that state an error; each once.

    A sub-task that failed or ran out of time has an error in any case: where the status tells no reason, the status.
    """
    lines = list(material.errors)
    failed = material.outcome in (Outcome.FAILED, Outcome.TIMEOUT)
    if failed:
        lines += error_lines(material.answer or "")
    status = " ".join((material.status or "").split())
    told = _STATUS_WORD.sub("", status)
    if not (failed or (material.outcome is Outcome.CANCELLED and told != status)):
        told = ""
    if told and not any(told in line for line in lines):
        lines.insert(0, shorten(told, _STATUS_TOKENS, count))
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
    """As many first sentences as fit; when not even one fits, as many first words and `…`."""
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
    return f"{kept} …" if kept else ""


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
