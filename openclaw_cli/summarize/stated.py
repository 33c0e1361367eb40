"""What an answer states in so many words: files, failed attempts, what to remember, errors. Pure.

Read are lists and values under a heading or a label (`Files created:`, `Geänderte Dateien: a.py, b.py`, `## Errors`),
the labels of a card, and sentences that hold nothing but a verb and paths (`Created src/a.py.`). A sentence that only
mentions a path states no change, and nothing is read from code blocks except a list under a heading. Every value stands
literally in the answer, apart from the marks of bold and code. An answer that is a card gives the values of that card.

Lines that are told completely by the values leave the prose; a line that says more stays.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from enum import StrEnum
from typing import NamedTuple

from openclaw_cli.summarize.card import TITLES, CardError, Outcome, parse
from openclaw_cli.summarize.paths import is_plainly_a_file, listed


class Kind(StrEnum):
    """What a heading announces; the names are those of a card's values."""

    CREATED = "created"
    CHANGED = "changed"
    ERRORS = "errors"
    TRIED = "tried"
    REMEMBER = "remember"


_FILES = (Kind.CREATED, Kind.CHANGED)


@dataclass(frozen=True, slots=True)
class Stated:
    """The values in the order of their first mention, and the answer without what they tell.

    `task` and `outcome` are known of an answer that is a card.
    """

    prose: str
    created: tuple[str, ...] = ()
    changed: tuple[str, ...] = ()
    errors: tuple[str, ...] = ()
    tried: tuple[str, ...] = ()
    remember: tuple[str, ...] = ()
    task: str = ""
    outcome: Outcome = Outcome.UNKNOWN


_LABELS = {
    Kind.CREATED: "files created|file created|created files|created file|created|new files|new file|files added"
    "|added files|neue dateien|neue datei|angelegt|neu angelegt|angelegte dateien|erstellt|neu erstellt"
    "|erstellte dateien|dateien angelegt|dateien erstellt|files+|dateien+",
    Kind.CHANGED: "files changed|file changed|changed files|changed file|changed|files modified|file modified"
    "|modified files|modified file|modified|files updated|updated files|updated|files edited|edited files|edited"
    "|geänderte dateien|geänderte datei|geändert|dateien geändert|bearbeitete dateien|bearbeitet|angepasste dateien"
    "|angepasst|files~|dateien~",
    Kind.ERRORS: "errors|errors encountered|known errors|fehler|aufgetretene fehler",
    Kind.TRIED: "tried and failed|tried but failed|tried and rejected|tried and discarded|tried and abandoned"
    "|failed attempts|tried_and_failed|versucht und verworfen|versucht und gescheitert|versucht, verworfen"
    "|gescheiterte versuche|fehlgeschlagene versuche|versucht_und_gescheitert",
    Kind.REMEMBER: "remember|to remember|note for later|notes for later|keep in mind|important|merken|zu merken"
    "|für später merken|wichtig",
}
_KINDS = {label: kind for kind, labels in _LABELS.items() for label in labels.split("|")}
_ANY_LABEL = "|".join(re.escape(label) for label in sorted(_KINDS, key=len, reverse=True))
# Marks of headings, lists and bold, an emoji; then a label with an optional count, a colon, a value.
_HEADING = re.compile(
    rf"(?P<marks>[^\w\n]{{0,12}}(?:\d{{1,2}}[.)]\s+)?[^\w\n]{{0,8}})(?P<label>{_ANY_LABEL})(?![\w+~])\s*(?:\(\d+\))?"
    r"(?P<after>[*_`]*\s?:[*_`]*(?=\s|\Z)|[*_]*\s*\Z)(?P<value>.*)\Z",
    re.IGNORECASE,
)
_BULLET = re.compile(r"(?P<indent>\s*)(?P<sign>[-*•+–]|\d{1,3}[.)])\s+(?P<text>\S.*)\Z")
_OTHER_HEADING = re.compile(r"\s*(?:#{1,6}\s|\*\*[^*]+\*\*:?\s*\Z|[-=*_─—]{3,}\s*\Z|\|)|.*:[*_]*\s*\Z")
_FENCE = re.compile(r"\s*(```|~~~)")
# Only around words: a path that holds two stars must not become another path.
_BOLD = re.compile(r"(?<!\S)\*\*|\*\*(?=[\s,;:]|\.?\s*\Z)")
_CUT = "[…]"
_MAX_TEXT_CHARS = 2000
_NOTHING = re.compile(
    r"(?:none|nothing|no|n/a|keine?[rsn]?|nichts|-+|—|–)(?:\s+(?:files?|dateien?|errors?|fehler))?[.!]?",
    re.IGNORECASE,
)
_NO_ERROR = re.compile(
    r"(?:there (?:were|are)\s+|es gab\s+)?(?:none\b|(?:no|zero|0|keine?)(?:\s+\w+){0,2}?\s+"
    r"(?:errors?|failures?|problems?|issues?|fehler|probleme?)\b|0[.!]?\Z)",
    re.IGNORECASE,
)
_ENDED = re.compile(r"[.!?:;…]['\"”“)`*]*\Z")

_VERBS = {
    Kind.CREATED: "created|added|angelegt|erstellt",
    Kind.CHANGED: "modified|changed|updated|edited|geändert|angepasst|bearbeitet",
}
_VERB_KINDS = {verb: kind for kind, verbs in _VERBS.items() for verb in verbs.split("|")}
_ENGLISH_VERBS = "created|added|modified|changed|updated|edited"
_GERMAN_VERBS = "angelegt|erstellt|geändert|angepasst|bearbeitet"
_SENTENCES = re.compile(r"(?<=[.!?])\s+(?=[A-ZÄÖÜ`'\"„])")
_SUBJECT = re.compile(r"(?:I(?:['’]ve| have)?|We(?:['’]ve| have)?)\s+", re.IGNORECASE)
_CLAUSES = re.compile(rf"(?:\s*[,;]\s*(?:(?:and|then)\s+)?|\s+and\s+)(?=(?:{_ENGLISH_VERBS})\s)", re.IGNORECASE)
_ENGLISH = re.compile(
    rf"(?P<verb>{_ENGLISH_VERBS})\s+(?:the\s+)?(?:new\s+)?(?:files?:?\s+)?(?P<rest>\S.*)\Z", re.IGNORECASE
)
_GERMAN = re.compile(
    rf"(?:(?:Ich habe|Habe|Wir haben)\s+)?(?:(?:die\s+)?Datei(?:en)?\s+)?(?P<rest>\S.*?)\s+(?:wurden?\s+)?(?:neu\s+)?"
    rf"(?P<verb>{_GERMAN_VERBS})[.!]?\Z",
    re.IGNORECASE,
)
# What may follow the paths of a statement without taking it back.
_MORE = re.compile(r"\s*(?:[:(—–]|(?:with|that|which|for)\s)", re.IGNORECASE)
_TAKEN_BACK = re.compile(
    r"\b(?:revert|undo|undid|roll(?:ed)?\s?back|delet|remov|discard|later|not\b|n't|again|but\b|back\b)", re.IGNORECASE
)


_Entry = tuple[list[int], str]


class _Heading(NamedTuple):
    kind: Kind
    value: str
    indent: int | None
    files_only: bool


def read(answer: str) -> Stated:
    """What an answer states. Linear in its length."""
    return _card(answer) or _Reader(answer).read()


def _card(answer: str) -> Stated | None:
    """The values of an answer that is nothing but a card, in a code block or not."""
    text = _FENCED.sub(r"\1", answer.strip())
    if not text.startswith(TITLES):
        return None
    try:
        card = parse(text)
    except CardError:
        # It begins like a card and is none: an answer like any other.
        return None
    single = {name: (value,) if (value := getattr(card, name)) else () for name in ("errors", "tried", "remember")}
    return Stated(card.result, card.created, card.changed, **single, task=card.task, outcome=card.outcome)


_FENCED = re.compile(r"\A```\w*\n(.*)\n```\Z", re.DOTALL)


@dataclass(slots=True)
class _Reader:
    answer: str
    lines: list[str] = field(default_factory=list)
    gone: set[int] = field(default_factory=set)
    values: dict[Kind, dict[str, None]] = field(default_factory=lambda: {kind: {} for kind in Kind})

    def read(self) -> Stated:
        self.lines = self.answer.split("\n")
        at = 0
        while at < len(self.lines):
            if fence := _FENCE.match(self.lines[at]):
                at = self._behind_fence(at, fence[1])
            elif (heading := _heading(self.lines[at])) and not self._is_cut(at):
                at = self._section(at, heading)
            else:
                self._statement(at)
                at += 1
        prose = "\n".join(line for number, line in enumerate(self.lines) if number not in self.gone)
        created, changed = self.values[Kind.CREATED], self.values[Kind.CHANGED]
        found = {kind.value: tuple(self.values[kind]) for kind in Kind}
        return Stated(prose=prose, **found | {"changed": tuple(path for path in changed if path not in created)})

    def _behind_fence(self, at: int, mark: str) -> int:
        at += 1
        while at < len(self.lines) and not self.lines[at].strip().startswith(mark):
            at += 1
        return at + 1

    def _is_cut(self, at: int) -> bool:
        """Whether a long answer was cut in the middle beside this line, which may then be half a line."""
        return any(line.strip() == _CUT for line in self.lines[max(0, at - 1) : at + 2])

    def _section(self, at: int, heading: _Heading) -> int:
        """Read what stands under a heading; gives the line behind it."""
        if heading.value:
            return self._one_line(at, heading)
        entries, stop = self._entries(at + 1, heading)
        taken = [self._take(heading, text, numbers) for numbers, text in entries]
        if any(taken):
            self.gone.add(at)
        return max(stop, at + 1)

    def _one_line(self, at: int, heading: _Heading) -> int:
        numbers, text = [at], heading.value
        if heading.kind not in _FILES:
            # A sentence that goes on in the next line is not cut in two.
            while (stop := numbers[-1] + 1) < len(self.lines) and _goes_on(text, self.lines[stop]):
                text = f"{text} {self.lines[stop].strip()}"
                numbers.append(stop)
        self._take(heading, text, numbers)
        return numbers[-1] + 1

    def _take(self, heading: _Heading, text: str, numbers: list[int]) -> bool:
        """Keep one entry; its lines go when it is told completely. Gives whether anything was kept or said "none"."""
        if any(map(self._is_cut, numbers)):
            return False
        plain = _BOLD.sub("", text).strip()
        if _NOTHING.fullmatch(plain):
            self.gone.update(numbers)
            return True
        if heading.kind is Kind.ERRORS and _NO_ERROR.match(plain):
            return False
        if heading.kind not in _FILES:
            self.values[heading.kind].setdefault(" ".join(plain.replace("**", "").replace("`", "").split()))
            self.gone.update(numbers)
            return True
        found = listed(plain, files_only=heading.files_only)
        self.values[heading.kind].update(dict.fromkeys(found.paths))
        if found.whole:
            self.gone.update(numbers)
        return bool(found.paths)

    def _entries(self, at: int, heading: _Heading) -> tuple[list[_Entry], int]:
        """The entries under a heading as (lines, text), and the line behind the last one."""
        while at < len(self.lines) and not self.lines[at].strip():
            at += 1
        fence = _FENCE.match(self.lines[at]) if at < len(self.lines) else None
        if fence:
            stop = self._behind_fence(at, fence[1])
            inside = range(at + 1, min(stop - 1, len(self.lines)))
            return [([number], self.lines[number].strip()) for number in inside if self.lines[number].strip()], stop
        bullet = _BULLET.match(self.lines[at]) if at < len(self.lines) else None
        if bullet is None:
            return self._plain_entries(at, heading.kind not in _FILES)
        if heading.indent is not None and len(bullet["indent"]) <= heading.indent:
            return [], at
        return self._bullets(at, len(bullet["indent"]), heading.kind not in _FILES)

    def _plain_entries(self, at: int, prose: bool) -> tuple[list[_Entry], int]:
        entries: list[_Entry] = []
        while at < len(self.lines) and self.lines[at].strip() and not self._ends_list(at):
            text = self.lines[at].strip()
            if prose and entries and _goes_on(entries[-1][1], text):
                entries[-1] = _longer(entries[-1], at, text)
            else:
                entries.append(([at], text))
            at += 1
        return entries, at

    def _bullets(self, at: int, indent: int, prose: bool) -> tuple[list[_Entry], int]:
        """Entries of one depth; deeper lines belong to them in prose, and describe them in a list of files."""
        entries: list[_Entry] = []
        stop = at
        while at < len(self.lines):
            line = self.lines[at]
            bullet = _BULLET.match(line)
            if not line.strip():
                at += 1
                continue
            depth = len(line) - len(line.lstrip())
            if _heading(line) or depth < indent or (depth == indent and bullet is None):
                break
            if bullet and depth == indent:
                entries.append(([at], bullet["text"]))
            elif prose:
                text = bullet["text"] if bullet else line.strip()
                entries[-1] = _longer(entries[-1], at, text)
            at += 1
            stop = at
        return entries, stop

    def _ends_list(self, at: int) -> bool:
        line = self.lines[at]
        return bool(_heading(line) or _OTHER_HEADING.match(line) or _FENCE.match(line) or _BULLET.match(line))

    def _statement(self, at: int) -> None:
        """Sentences that state a change and nothing else leave the line."""
        line = self.lines[at]
        if not _mentions_change(line) or line.lstrip().startswith(">") or self._is_cut(at):
            return
        bullet = _BULLET.match(line)
        sentences = _SENTENCES.split(bullet["text"] if bullet else line.strip())
        left = [sentence for sentence in sentences if not self._states(_BOLD.sub("", sentence))]
        if not left:
            self.gone.add(at)
        elif len(left) < len(sentences):
            self.lines[at] = " ".join(left)

    def _states(self, sentence: str) -> bool:
        """Take the changes that a sentence states; gives whether it is told completely."""
        found: list[tuple[Kind, tuple[str, ...]]] = []
        whole = True
        german = _GERMAN.match(sentence)
        subject = _SUBJECT.match(sentence)
        for clause in [sentence] if german else _CLAUSES.split(sentence[subject.end() if subject else 0 :]):
            told = german or _ENGLISH.match(clause)
            if told is None or not whole:
                return False
            paths = listed(told["rest"], files_only=False)
            rest = told["rest"][paths.end :]
            if not paths.paths or not all(map(is_plainly_a_file, paths.paths)) or _TAKEN_BACK.search(rest):
                return False
            if not (paths.whole or (not german and _MORE.match(rest))):
                return False
            whole = paths.whole
            found.append((_VERB_KINDS[told["verb"].lower()], paths.paths))
        for kind, names in found:
            self.values[kind].update(dict.fromkeys(names))
        return whole


def _heading(line: str) -> _Heading | None:
    found = _HEADING.match(line)
    if found is None:
        return None
    value = found["value"].strip()
    marked = "#" in found["marks"] or "**" in found["marks"]
    if ":" not in found["after"] and not marked:
        return None
    label = found["label"].lower()
    bullet = _BULLET.match(line)
    indent = len(bullet["indent"]) if bullet and not bullet["sign"][0].isdigit() else None
    return _Heading(_KINDS[label], value, indent, files_only="file" in label or "datei" in label)


def _longer(entry: _Entry, line: int, text: str) -> _Entry:
    entry[0].append(line)
    return entry[0], f"{entry[1]} {text}"


def _goes_on(text: str, line: str) -> bool:
    """Whether a line continues an unfinished sentence: it begins with a small letter and with no mark."""
    return (
        len(text) < _MAX_TEXT_CHARS
        and not _ENDED.search(text[-16:])
        and line.strip()[:1].islower()
        and _heading(line) is None
    )


_CHANGE_WORDS = re.compile(rf"\b(?:{_ENGLISH_VERBS}|{_GERMAN_VERBS})\b", re.IGNORECASE)


def _mentions_change(line: str) -> bool:
    return len(line) <= 4096 and _CHANGE_WORDS.search(line) is not None
