"""The card of a folded sub-task: a framed list of labelled values, as the user's document shows it. Pure.

    ── KOMPAKTE AUFGABE ──
    ursprung: agent
    aufgabe: …
    ─────────────────

`parse(render(card)) == card` for every card, whatever its values hold. Values are written as they are, except that a
backslash starts an escape:

* `\\n \\r \\t \\xNN \\uNNNN`: control characters, separators that some readers take for line ends, direction marks,
  lone surrogates. Only `result` keeps its line breaks: they become continuation lines;
* `\\ ` (and a blank) is nothing; it stands before a continuation line that a reader could take for a line of the card
  or for the beginning of another message, and before a value that is the word for "none";
* `\\─ \\| \\<` inside `──`, `<|` and `<<<`, so that neither a frame nor a model's own markers occur in a card;
* `\\,` a comma inside a file name, because commas separate file names; `\\\\` a backslash that would start an escape.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import StrEnum


class Labels(StrEnum):
    """The language of a card's labels and fixed words."""

    GERMAN = "de"
    ENGLISH = "en"


class Origin(StrEnum):
    """Who did the work: a sub-agent, a worker that was delegated to, an agent behind ACP; equal in both languages."""

    AGENT = "agent"
    WORKER = "worker"
    ACP = "acp"


class Outcome(StrEnum):
    """How the sub-task ended."""

    SUCCESS = "success"
    FAILED = "failed"
    TIMEOUT = "timeout"
    CANCELLED = "cancelled"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class Card:
    """The values of a card. Empty files, `tried` and `remember` leave their lines out; empty `errors` says "none"."""

    task: str
    result: str
    origin: Origin = Origin.AGENT
    outcome: Outcome = Outcome.UNKNOWN
    created: tuple[str, ...] = ()
    changed: tuple[str, ...] = ()
    errors: str = ""
    tried: str = ""
    remember: str = ""
    labels: Labels = Labels.GERMAN


class CardError(ValueError):
    """A text that is not a card. The message names the rule and the line, never the text."""


RULE = "─" * 17
_FIELDS = ("origin", "task", "outcome", "result", "created", "changed", "errors", "tried", "remember")
_FILES = ("created", "changed")
_OPTIONAL = ("created", "changed", "tried", "remember")


@dataclass(frozen=True, slots=True)
class _Words:
    title: str
    labels: tuple[str, ...]
    outcomes: tuple[str, ...]
    none: str


_WORDS = {
    Labels.GERMAN: _Words(
        "── KOMPAKTE AUFGABE ──",
        (
            "ursprung",
            "aufgabe",
            "ergebnis",
            "resultat",
            "dateien+",
            "dateien~",
            "fehler",
            "versucht_und_gescheitert",
            "merken",
        ),
        ("erfolgreich", "fehlgeschlagen", "Zeitüberschreitung", "abgebrochen", "unbekannt"),
        "keine",
    ),
    Labels.ENGLISH: _Words(
        "── COMPACTED TASK ──",
        ("origin", "task", "outcome", "result", "files+", "files~", "errors", "tried_and_failed", "remember"),
        ("success", "failed", "timeout", "cancelled", "unknown"),
        "none",
    ),
}
TITLES = tuple(words.title for words in _WORDS.values())

_ALL_LABELS = "|".join(re.escape(label) for words in _WORDS.values() for label in words.labels)
# What may not open a continuation line: a line of the card, white space, the role and tool markers of common formats.
_STRUCTURE = re.compile(
    rf"(?:{_ALL_LABELS})\s*:|[─—_=-]{{2}}|\s|#{{1,6}}\s|```|<|\[|\{{"
    r"|(?:system|user|assistant|human|ai|tool|developer|function|tool_call|tool_result|toolresult)\s*:",
    re.IGNORECASE,
)
_ESCAPED = re.compile(
    r"\\(?![A-Za-moqsvwyz0-9_.$%(){}/:;=+*?!@#&^~\"'\[\]-])"
    r"|[\x00-\x1f\x7f-\x9f\u2028\u2029\u200b-\u200f\u202a-\u202e\u2060-\u206f\ufeff\ud800-\udfff]"
    r"|(?<=─)─|(?<=<)\||(?<=<<)<"
)
_ESCAPE = re.compile(r"\\(?:x([0-9a-f]{2})|u([0-9a-f]{4})|([nrt\\ ─|<,]))")
_NAMED = {"\n": "\\n", "\r": "\\r", "\t": "\\t"}
_NAMES = {"n": "\n", "r": "\r", "t": "\t", " ": ""}
_NOTHING = "\\ "
_FILE_NAME = re.compile(r"(?:[^\\,]|\\.)*")


def render(card: Card) -> str:
    """The card as text, without a line break at its end."""
    words = _WORDS[card.labels]
    lines = [words.title]
    for label, name in zip(words.labels, _FIELDS, strict=True):
        value = getattr(card, name)
        if value or name not in _OPTIONAL:
            text = _render_value(name, value, words)
            lines.append(f"{label}: {text}" if text else f"{label}:")
    return "\n".join([*lines, RULE])


def _render_value(name: str, value: object, words: _Words) -> str:
    if name == "outcome":
        return words.outcomes[list(Outcome).index(Outcome(value))]
    if name == "result":
        first, *others = str(value).split("\n")
        return "\n".join([_escape(first), *map(_continuation, others)])
    if isinstance(value, tuple):
        return ", ".join(_escape(path).replace(",", "\\,") or _NOTHING for path in value)
    if name == "errors" and value in ("", words.none):
        return words.none if value == "" else _NOTHING + words.none
    return _escape(str(value))


def _continuation(line: str) -> str:
    escaped = _escape(line)
    return _NOTHING + escaped if _STRUCTURE.match(escaped) else escaped


def _escape(text: str) -> str:
    return _ESCAPED.sub(_escape_one, text)


def _escape_one(found: re.Match[str]) -> str:
    character = found.group()
    if character in "\\─|<":
        return "\\" + character
    code = ord(character)
    return _NAMED.get(character) or (f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}")


def _unescape(text: str) -> str:
    return _ESCAPE.sub(_unescape_one, text)


def _unescape_one(found: re.Match[str]) -> str:
    code = found[1] or found[2]
    return chr(int(code, 16)) if code else _NAMES.get(found[3], found[3])


def parse(text: str) -> Card:
    """Read a card back. Raises CardError when the frame, a label, its order or one of the fixed words is wrong."""
    lines = text.strip("\n").split("\n")
    labels = next((labels for labels, words in _WORDS.items() if lines[0] == words.title), None)
    if labels is None:
        raise CardError("line 1 is not the title of a card")
    words = _WORDS[labels]
    if len(lines) < 2 or lines[-1] != RULE:
        raise CardError("the last line is not the closing rule of a card")
    values = {name: _parse_value(name, value, words) for name, value in _fields(lines[1:-1], words).items()}
    return Card(labels=labels, **values)  # type: ignore[arg-type]


def _fields(lines: list[str], words: _Words) -> dict[str, str]:
    """The raw values by field; checks the order of the labels and that none is missing."""
    values: dict[str, str] = {}
    names = dict(zip(words.labels, _FIELDS, strict=True))
    current, order = "", -1
    for number, line in enumerate(lines, start=2):
        label, colon, rest = line.partition(":")
        name = names.get(label) if colon and (not rest or rest[0] == " ") else None
        if name is None and current == "result":
            values[current] += "\n" + line
            continue
        if name is None or _FIELDS.index(name) <= order:
            raise CardError(f"line {number} is not the next labelled value of a card")
        current, order = name, _FIELDS.index(name)
        values[current] = rest[1:]
    for name in _FIELDS:
        if name not in values and name not in _OPTIONAL:
            raise CardError(f"the card has no line {words.labels[_FIELDS.index(name)]!r}")
    return values


def _parse_value(name: str, value: str, words: _Words) -> object:
    if name == "origin":
        if value not in list(Origin):
            raise CardError("the origin is not one of the known words")
        return Origin(value)
    if name == "outcome":
        if value not in words.outcomes:
            raise CardError("the outcome is not one of the known words")
        return list(Outcome)[words.outcomes.index(value)]
    if name in _FILES:
        return tuple(_parse_files(value))
    if name == "errors" and value == words.none:
        return ""
    return _unescape(value)


def _parse_files(value: str) -> list[str]:
    paths: list[str] = []
    start = 0
    while value:
        found = _FILE_NAME.match(value, start)
        end = found.end() if found else start
        paths.append(_unescape(value[start:end]))
        if end >= len(value):
            break
        # A comma without the blank is what a person writes; both separate.
        start = end + (2 if value[end : end + 2] == ", " else 1)
    return paths


_GERMAN = re.compile(
    r"\b(?:der|die|das|den|dem|des|eine?[mnr]?|und|oder|nicht|ist|sind|mit|für|von|auf|im|zu[mr]?|bei|aus|nach|über|unter"
    r"|alle|dass|wenn|bitte|soll(?:en)?|wird|werden|kann|wie|ich|du|wir|sie|auch|noch|nur)\b",
    re.IGNORECASE,
)
_ENGLISH = re.compile(
    r"\b(?:the|a|an|and|or|not|is|are|were|with|for|from|to|of|at|by|that|this|these|those|when|please|should|must|will"
    r"|can|how|what|i|you|we|they|it|also|only|all|every|each|into|after|before|use|make)\b",
    re.IGNORECASE,
)


def language_of(text: str) -> Labels:
    """German or English by the common little words of each; umlauts count as German, a tie is English."""
    start = text[:1000]
    german = len(_GERMAN.findall(start)) + sum(map(start.lower().count, "äöüß"))
    return Labels.GERMAN if german > len(_ENGLISH.findall(start)) else Labels.ENGLISH
