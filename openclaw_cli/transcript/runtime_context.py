"""Text that the real program once put into a user's message for the model, and how it takes it out again.

Blocks between two marker lines, an older form with a header and completion events, and one-paragraph prefaces. Only
needed to recognise the branches that `rewrites` looks for; what is stored is never stripped.
"""

from __future__ import annotations

import re

from openclaw_cli.jstext import JS_WHITESPACE

_BEGIN, _END = "<<<BEGIN_OPENCLAW_INTERNAL_CONTEXT>>>", "<<<END_OPENCLAW_INTERNAL_CONTEXT>>>"
_NOTICE = "This context is runtime-generated, not user-authored. Keep internal details private."
_LEGACY_HEADER = f"OpenClaw runtime context (internal):\n{_NOTICE}\n\n"
_EVENT = "[Internal task completion event]"
_SEPARATOR = "\n\n---\n\n"
_RESULT_BEGIN, _RESULT_END = "<<<BEGIN_UNTRUSTED_CHILD_RESULT>>>", "<<<END_UNTRUSTED_CHILD_RESULT>>>"
_ACTION = "\n\nAction:\n"
_PREFACES = (
    "OpenClaw runtime context for the active user request in this turn. Do not reply to or describe this context."
    " Use it to continue answering the active user request now. Do not wait for another message.",
    "OpenClaw runtime context for the immediately preceding user message.",
    "OpenClaw runtime event.",
)
# What every such text contains, as bytes of a transcript file: a file without any of these holds none.
MARKERS = (b"OPENCLAW_INTERNAL_CONTEXT>>>", b"This context is runtime-generated")


def _loose(sentence: str) -> str:
    return r"\s+".join(map(re.escape, sentence.split()))


def _on_a_line(token: str) -> re.Pattern[str]:
    return re.compile(rf"(?:\A|\r?\n)[ \t]*({re.escape(token)})[ \t]*(?=\r?\n|\Z)")


def _preface_pattern() -> re.Pattern[str]:
    """A preface, or the last sentences of one, with the notice behind it."""
    starts = []
    for sentences in (preface.split(". ") for preface in _PREFACES):
        starts += [_loose(". ".join(sentences[first:])) for first in range(len(sentences))]
    return re.compile(rf"^[ \t]*(?:{'|'.join(starts)})\s+{_loose(_NOTICE)}[ \t]*(?:\r?\n|$)", re.MULTILINE)


_BEGIN_LINE, _END_LINE = _on_a_line(_BEGIN), _on_a_line(_END)
_NOTICE_PATTERN = re.compile(_loose(_NOTICE))
_PREFACE_PATTERN = _preface_pattern()


def has_context(text: str) -> bool:
    """Whether `text` holds a block, a header or a preface."""
    if _BEGIN_LINE.search(text) or _LEGACY_HEADER in text:
        return True
    return any(f"{preface}\n{_NOTICE}" in text for preface in _PREFACES)


def without_context(text: str) -> str:
    """`text` as the user wrote it."""
    if _BEGIN not in text and _END not in text and not _NOTICE_PATTERN.search(text):
        return text
    stripped = _END_LINE.sub("", _without_blocks(text))
    stripped = _without_legacy(stripped)
    result = _PREFACE_PATTERN.sub("", stripped)
    if result == stripped:
        return stripped
    return re.sub(r"\n{3,}", "\n\n", result).strip(JS_WHITESPACE)


def _without_blocks(text: str) -> str:
    """Blocks may be nested; one that is not closed reaches to the end of the text."""
    while found := _BEGIN_LINE.search(text):
        before = text[: found.start(1)].rstrip(JS_WHITESPACE)
        end = _block_end(text, found.end(1))
        if end is None:
            return before
        text = _joined(before, text[end:].lstrip(JS_WHITESPACE))
    return text


def _block_end(text: str, at: int) -> int | None:
    depth = 1
    while depth:
        closing = _END_LINE.search(text, at)
        if closing is None:
            return None
        opening = _BEGIN_LINE.search(text, at, closing.start(1))
        inner = opening is not None
        depth += 1 if inner else -1
        at = opening.end(1) if inner and opening is not None else closing.end(1)
    return at


def _without_legacy(text: str) -> str:
    search = 0
    while (header := text.find(_LEGACY_HEADER, search)) >= 0:
        at = header + len(_LEGACY_HEADER)
        if not text.startswith(_EVENT, at):
            search = at
            continue
        before = text[:header].rstrip(JS_WHITESPACE)
        text = _joined(before, text[_events_end(text, at) :].lstrip(JS_WHITESPACE))
        search = max(0, len(before) - 1)
    return text


def _events_end(text: str, at: int) -> int:
    end = _event_end(text, at)
    if end is None:
        paragraph = text.find("\n\n", at + len(_EVENT))
        return len(text) if paragraph < 0 else paragraph
    while text.startswith(_SEPARATOR + _EVENT, end):
        following = _event_end(text, end + len(_SEPARATOR))
        if following is None:
            break
        end = following
    return end


def _event_end(text: str, at: int) -> int | None:
    """Where a completion event ends; None when it has not the parts of one."""
    for part in (_RESULT_BEGIN, _RESULT_END, _ACTION):
        found = text.find(part, at)
        if found < 0:
            return None
        at = found + len(part)
    following = text.find(_SEPARATOR + _EVENT, at)
    if following >= 0:
        return following
    paragraph = text.find("\n\n", at)
    return len(text) if paragraph < 0 else paragraph


def _joined(before: str, after: str) -> str:
    return f"{before}\n\n{after}" if before and after else before + after
