"""File names in what a person or a model writes: told apart from words, taken letter by letter. Pure."""

from __future__ import annotations

import re
from dataclasses import dataclass

_MAX_PATH_CHARS = 512
# Endings that make a file name of a word without a slash where nothing says that files are listed.
_ENDINGS = (
    "bash bat c cc cfg conf cpp cs css csv dart db dockerfile env ex exs fish go gradle h hpp htm html ini ipynb java"
    " jpg js json json5 jsonl jsx kt kts lock log lua m markdown md mdx mjs mk mm mts pdf php pl png ps1 py pyi r rb rs"
    " rst sass scala scss sh sql sqlite svelte svg swift tf toml ts tsv tsx txt vue xml yaml yml zig zsh zst"
)
_KNOWN_ENDINGS = frozenset(_ENDINGS.split())
_FORBIDDEN = re.compile(r"[\x00-\x1f*?<>|{}\"`:]")
_DRIVE = re.compile(r"[A-Za-z]:[\\/]")
_ENDING = re.compile(r"\.([A-Za-z][A-Za-z0-9_+-]{0,11})\Z")
_WORDS = (
    "n/a w/o w/ and/or und/oder e.g i.e z.b d.h u.a"
    " node.js next.js nuxt.js vue.js react.js express.js nest.js three.js d3.js"
)
_NO_PATHS = frozenset(_WORDS.split())
_OPTION = re.compile(r"\s-")

_ENTRY = re.compile(
    r"`(?P<tick>[^`\n]{1,512})`|\"(?P<double>[^\"\n]{1,512})\"|'(?P<single>[^'\n]{1,512})'"
    r"|„(?P<low>[^“”\n]{1,512})[“”]|“(?P<high>[^”\n]{1,512})”"
    r"|\[(?P<link>[^\]\n]{1,512})\]\([^)\s]{0,512}\)|(?P<bare>[^\s,;]+)"
)
_LINE_NUMBER = re.compile(r":\d+(?::\d+)?\Z")
_NEXT = re.compile(r"\s*(?:[,;]\s*(?:(?:and|und)\s+)?|\s(?:and|und|&)\s+)")
_NOTE = re.compile(r"\s*\((?:new|neu|created|changed|modified|updated|geändert|angelegt)\)", re.IGNORECASE)
_END = re.compile(r"\s*[.;,]?\s*\Z")


def is_path(name: str, *, quoted: bool, files_only: bool) -> bool:
    """Whether a name is that of a file: it has a slash or an ending, and white space only when it was quoted.

    `files_only`: the text around says that these are files; else a name without a slash needs a well-known ending, so
    that `self.timeout` or `threading.Timer` is none.
    """
    path = name[2:] if _DRIVE.match(name) else name
    if not 0 < len(path) <= _MAX_PATH_CHARS or _FORBIDDEN.search(path) or path.lower() in _NO_PATHS:
        return False
    if not any(map(str.isalpha, path)) or path.startswith(("-", "//")) or path.endswith(("()", "…", "...")):
        return False
    if any(map(str.isspace, path)) and (not quoted or path != path.strip() or _OPTION.search(path)):
        return False
    ending = _ENDING.search(path)
    if " " in path:
        # A quoted command may hold a slash; a file with blanks in its name has an ending.
        return ending is not None and ending[1].lower() in _KNOWN_ENDINGS
    if "/" in path or "\\" in path:
        return True
    if ending is None or "@" in path:
        return False
    return files_only or ending[1].lower() in _KNOWN_ENDINGS or ending.start() == 0


def is_plainly_a_file(path: str) -> bool:
    """Whether a path is no pair of words as `CI/CD`: its last part has an ending, or it begins or ends as paths do."""
    return path.startswith(("/", "./", "../", "~/")) or path.endswith("/") or "." in re.split(r"[/\\]", path)[-1]


@dataclass(frozen=True, slots=True)
class Listed:
    """The paths at the beginning of a text. `end`: where they end; `whole`: nothing but paths stands in the text."""

    paths: tuple[str, ...]
    end: int
    whole: bool


def listed(text: str, *, files_only: bool) -> Listed:
    """Read `a.py`, `a.py, b/c.py and "d e.txt" (new)`, … from the beginning of a text.

    Reading stops at the first thing that is no path: what follows a path describes it.
    """
    paths: list[str] = []
    position = end = 0
    while position < len(text):
        entry = _ENTRY.match(text, position)
        if entry is None:
            break
        quoted = entry["bare"] is None
        name = _bare_name(entry["bare"]) if not quoted else entry[entry.lastgroup or 0]
        if not is_path(name, quoted=quoted, files_only=files_only):
            break
        paths.append(name)
        end = entry.end() if quoted else position + len(name)
        note = _NOTE.match(text, end)
        end = note.end() if note else end
        following = _NEXT.match(text, end)
        if following is None:
            break
        position = following.end()
    return Listed(tuple(paths), end, bool(paths) and _END.match(text, end) is not None)


def _bare_name(word: str) -> str:
    """A word without the punctuation behind it and without a line number."""
    name = word.rstrip(".:!?…")
    if name.endswith(")") and "(" not in name:
        name = name.rstrip(").:!")
    return _LINE_NUMBER.sub("", name)
