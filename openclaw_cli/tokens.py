"""Exact token counts with the o200k vocabulary that the package carries. The only importer of tiktoken.

Nothing is downloaded and no cache directory is read: the vocabulary is package data, checked against its hash. When the
check fails, counts are an estimate and say so (design D10). The vocabulary (about 0.3 s, 80 MB) is loaded at the first
count, so that a run with nothing to count does not pay for it.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Iterator
from functools import lru_cache
from pathlib import Path

VOCABULARY = Path(__file__).parent / "data" / "o200k.bin.zst"
VOCABULARY_SHA256 = "0d52b3e54ddfff13f13210419422a501181c88cfcc05f3b7760432f5fb5c72c1"
TOKEN_COUNT = 199_998

# The splitting rule of o200k_base: words with their case, numbers of up to three digits, punctuation, white space.
_UPPER = r"[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]"
_LOWER = r"[\p{Ll}\p{Lm}\p{Lo}\p{M}]"
_CONTRACTION = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)?"
PATTERN = "|".join(
    (
        rf"[^\r\n\p{{L}}\p{{N}}]?{_UPPER}*{_LOWER}+{_CONTRACTION}",
        rf"[^\r\n\p{{L}}\p{{N}}]?{_UPPER}+{_LOWER}*{_CONTRACTION}",
        r"\p{N}{1,3}",
        r" ?[^\s\p{L}\p{N}]+[\r\n/]*",
        r"\s*[\r\n]+",
        r"\s+(?!\S)",
        r"\s+",
    )
)
SPECIAL_TOKENS = {"<|endoftext|>": 199_999, "<|endofprompt|>": 200_018}


class VocabularyError(Exception):
    """The vocabulary file is missing or is not the one that belongs to this version."""


def vocabulary(path: Path = VOCABULARY) -> Iterator[bytes]:
    """The tokens in rank order. Raises VocabularyError when the file is not ours byte for byte."""
    from openclaw_cli import archive

    try:
        digest = hashlib.sha256(path.read_bytes()).hexdigest()
    except OSError as error:
        raise VocabularyError("the token vocabulary cannot be read") from error
    if digest != VOCABULARY_SHA256:
        raise VocabularyError("the token vocabulary is damaged")
    with archive.open_stream(path) as stream:
        data = stream.read()
    start = TOKEN_COUNT
    for length in data[:TOKEN_COUNT]:
        yield data[start : start + length]
        start += length


class Counter:
    """Counts the o200k tokens of texts; `estimated` tells whether the counts are only an estimate.

    `path` is the vocabulary file (package data by default). Loading happens at the first count.
    """

    def __init__(self, path: Path = VOCABULARY) -> None:
        self._path = path
        self._encode: Callable[[str], int] | None = None
        self._estimated: bool | None = None

    @property
    def loaded(self) -> bool:
        """Whether anything was counted yet."""
        return self._encode is not None

    @property
    def estimated(self) -> bool:
        """True when the vocabulary failed its check and counts are a quarter of the UTF-8 length."""
        self._load()
        return bool(self._estimated)

    def count(self, text: str) -> int:
        """The number of tokens of a text; text that looks like a special token counts as ordinary text."""
        return self._load()(text) if text else 0

    def _load(self) -> Callable[[str], int]:
        if self._encode is None:
            try:
                self._encode = _exact(self._path)
                self._estimated = False
            except VocabularyError:
                # Counting must work with a damaged installation too; the report carries `estimated`.
                self._encode = _estimate
                self._estimated = True
        return self._encode


def _exact(path: Path) -> Callable[[str], int]:
    import tiktoken

    encoding = tiktoken.Encoding(
        "openclaw-o200k",
        pat_str=PATTERN,
        mergeable_ranks={token: rank for rank, token in enumerate(vocabulary(path))},
        special_tokens=SPECIAL_TOKENS,
    )
    return lambda text: len(encoding.encode_ordinary(text))


def _estimate(text: str) -> int:
    return math.ceil(len(text.encode("utf-8", "surrogatepass")) / 4)


@lru_cache(maxsize=1)
def shared() -> Counter:
    """The counter of this process: the vocabulary is loaded once."""
    return Counter()


def count(text: str) -> int:
    """The number of o200k tokens of a text."""
    return shared().count(text)


def count_json(value: object) -> int:
    """The number of o200k tokens of the compact JSON form of a parsed value."""
    from openclaw_cli import jstext

    return count(jstext.dumps(value).decode("utf-8", "surrogatepass"))
