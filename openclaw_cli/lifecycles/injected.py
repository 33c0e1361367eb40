"""Whether a message without an envelope has the form in which the program itself puts an end in (lifecycles §3). Pure.

The eras before provenance tell a message of the program from a person's quotation by nothing but its text. So the text
must be the program's from end to end: a date, a queue's header, the preface of a memory plugin, the wrapper, the block
of the marker with its statistics and its instruction. One word more, before, between or behind, and it is a quotation.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Protocol

_DATE = r"(?:\[[A-Z][a-z]{2} \d{4}-\d\d-\d\d \d\d:\d\d[^\]\n]*\]\s*)?"
_QUEUE = r"(?:\[Queued announce messages while agent was busy\]\s*)?(?:-{3}\s*)?(?:Queued #\d+\s*)?"
_WRAPPER = (
    r"(?:<<<BEGIN_OPENCLAW_INTERNAL_CONTEXT>>>\s*)?"
    r"(?:OpenClaw runtime context \(internal\):?[ \t]*\n\s*)?(?:This context is runtime-generated[^\n]*\n\s*)?"
)
_OPENING = rf"\s*{_DATE}{_QUEUE}{_DATE}{_WRAPPER}"
_EVENT_TAIL = (
    r"\s*(?:Stats: [^\n]*\s*)?(?:(?:Action|Instruction):[ \t]*(?:\n[^\n]+)?\s*)?"
    r"(?:<<<END_OPENCLAW_INTERNAL_CONTEXT>>>\s*)?"
)
# What the versions of eras A to C ask of the agent behind the statistics, a line or three.
_REQUEST = (
    r"(?:Summarize this |Do not mention |You can respond |A completed |Convert |There are still |If they |Keep this "
    r"|Reply |Use this )[^\n]*"
)
_SENTENCE_TAIL = rf"[ \t]*(?:\n\s*{_REQUEST}(?:\n{_REQUEST}){{0,3}})?\s*"
_STATS = re.compile(r"\n[ \t]*Stats: [^\n]*runtime[^\n]*")
_FIRST = re.compile(_OPENING)
_BEHIND_EVENT = re.compile(_EVENT_TAIL)
_BEHIND_SENTENCE = re.compile(_SENTENCE_TAIL)
# A memory plugin's preface: prose or tags. Behind its closing tag only its own closing lines may follow.
_PREFACE = re.compile(rf"\s*{_DATE}Note: Reference memory\b")
_PREFACE_TAG = re.compile(r"</(?:memory|everos-context)>")
_PREFACE_END = re.compile(r"\s*(?:```\s*)?(?:\*\*Note\*\*: [^\n]*\s*)?(?:user\W{1,3}original\W{1,3}query:\W*)?")


_DATED = re.compile(r"(?<=\n)\[[A-Z][a-z]{2} \d{4}-\d\d-\d\d ")
_PARAGRAPH = re.compile(r"\n\n")
# Longer than any date, queue header and wrapper together.
_LEAD_CHARS = 1000


class Place(Protocol):
    """A marker's place in its text: where it begins and where what the child said ends."""

    position: int
    end: int


def has_form(text: str, events: Sequence[Place], sentences: Sequence[Place]) -> bool:
    """Whether the text is the program's from end to end.

    `events`: blocks of field lines, ending behind the result. `sentences`: announcements of eras A to C, ending where
    the next one or its header begins. Line ends must be `\\n`.
    """
    marks = sorted([*((e, True) for e in events), *((s, False) for s in sentences)], key=lambda mark: mark[0].position)
    at = _preface_end(text, marks[0][0].position) if marks else None
    if at is None:
        return False
    for mark, is_event in marks:
        if not _is_filled(_FIRST, text, at, mark.position):
            return False
        at = _behind(text, mark, is_event)
        if at < 0:
            return False
    return not text[at:].strip()


def _behind(text: str, mark: Place, is_event: bool) -> int:
    """Where the program's own text behind a marker ends; -1: it has no statistics, which each sentence has."""
    if is_event:
        tail = _BEHIND_EVENT.match(text, mark.end)
        return tail.end() if tail else mark.end
    stats = None
    for stats in _STATS.finditer(text, mark.position, mark.end):  # noqa: B007  # the last one is wanted
        pass
    if stats is None:
        return -1
    tail = _BEHIND_SENTENCE.match(text, stats.end())
    return tail.end() if tail else stats.end()


def _preface_end(text: str, first: int) -> int | None:
    """Where a memory plugin's preface ends (0: there is none); None when other words stand behind it."""
    if not _PREFACE.match(text):
        return 0
    closing = None
    for closing in _PREFACE_TAG.finditer(text, 0, first):  # noqa: B007  # the last one is wanted
        pass
    if closing is not None:
        end = _PREFACE_END.match(text, closing.end(), first)
        return end.end() if end else closing.end()
    # Prose without tags has no end of its own: the message begins with its date, or the marker opens a paragraph.
    window = max(0, first - _LEAD_CHARS)
    starts = [found.start() for found in _DATED.finditer(text, window, first)]
    starts += [found.start() for found in _PARAGRAPH.finditer(text, window, first)]
    return next((start for start in sorted(starts, reverse=True) if _is_filled(_FIRST, text, start, first)), None)


def _is_filled(form: re.Pattern[str], text: str, start: int, stop: int) -> bool:
    """Whether the form fills a part of a text."""
    return start <= stop and form.fullmatch(text, start, stop) is not None
