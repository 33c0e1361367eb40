"""Token counts are exact, offline, and survive every text."""

from __future__ import annotations

import base64
import hashlib
import time
from pathlib import Path

import pytest

from openclaw_cli import tokens

# The SHA-256 of the vocabulary file that the tokenizer's makers publish for o200k_base.
OFFICIAL_SHA256 = "446a9538cb6c348e3516120d7c08b09f57c36495e2acfffe59a5bf8b0cfb1a2d"


def test_the_official_file_comes_out_of_ours() -> None:
    """Our packed vocabulary holds exactly the published one: same tokens, same ranks."""
    digest = hashlib.sha256()
    for rank, token in enumerate(tokens.vocabulary()):
        digest.update(base64.b64encode(token) + b" %d\n" % rank)
    assert OFFICIAL_SHA256 == digest.hexdigest()


def test_known_counts() -> None:
    """Counts that the published encoding gives."""
    texts = {"": 0, "hello world": 2, "Leerlauf-Timeout für MLX-Server implementieren": 12, "你好世界": 2}
    assert texts == {text: tokens.count(text) for text in texts}


@pytest.mark.parametrize("text", ["<|endoftext|>", "a\0b", "\ud800", "<|im_start|>user", "\U0001f600" * 3])
def test_hazards_are_counted(text: str) -> None:
    """Special-token text, NUL and lone surrogates are ordinary text."""
    assert tokens.count(text) > 0


def test_a_million_carets_are_quick() -> None:
    """A long run of one character does not take quadratic time."""
    started = time.process_time()
    assert tokens.count("^" * 1_000_000) > 0
    assert time.process_time() - started < 2


def test_nothing_is_loaded_for_nothing() -> None:
    """An empty text needs no vocabulary."""
    counter = tokens.Counter()
    assert 0 == counter.count("")
    assert not counter.loaded


def test_damaged_vocabulary_gives_an_estimate(tmp_path: Path) -> None:
    """Counting goes on with an estimate that says so; a missing file is the same."""
    damaged = tmp_path / "o200k.bin.zst"
    data = bytearray(tokens.VOCABULARY.read_bytes())
    data[1000] ^= 1
    damaged.write_bytes(data)
    for path in (damaged, tmp_path / "missing"):
        counter = tokens.Counter(path)
        assert counter.estimated
        assert 3 == counter.count("hello world")


def test_cache_directories_are_left_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No environment variable of the tokenizer changes a count, and nothing is written."""
    for name in ("TIKTOKEN_CACHE_DIR", "DATA_GYM_CACHE_DIR"):
        monkeypatch.setenv(name, str(tmp_path))
    counter = tokens.Counter()
    assert 2 == counter.count("hello world")
    assert not counter.estimated
    assert [] == list(tmp_path.iterdir())


def test_json_is_counted_in_its_compact_form() -> None:
    """The count of a value is the count of its JSON text without spaces."""
    assert tokens.count('{"a":[1,true]}') == tokens.count_json({"a": [1, True]})
