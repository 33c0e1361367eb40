"""Compressed files give all of their bytes or an error that says how many are good; nothing is accepted silently."""

from __future__ import annotations

import io
import random
import tracemalloc
from pathlib import Path

import pytest
import zstandard

from openclaw_cli import archive
from openclaw_cli.errors import CorruptError

SOURCE = random.Random(7)
DATA = b"".join(
    b'{"type":"custom","id":"%d","data":"%s"}\n' % (n, SOURCE.randbytes(20).hex().encode()) for n in range(12000)
)


def packed(data: bytes = DATA, *, size: bool = True, checksum: bool = True) -> bytes:
    """One frame."""
    compressor = zstandard.ZstdCompressor(write_checksum=checksum, write_content_size=size)
    if size:
        return compressor.compress(data)
    stream = compressor.compressobj()
    return stream.compress(data) + stream.flush()


SKIPPABLE = b"\x50\x2a\x4d\x18\x04\0\0\0abcd"


def write(folder: Path, content: bytes) -> Path:
    """A file named like an archive."""
    path = folder / "s.jsonl.deleted.2026-08-06T07-06-40.000Z.zst"
    path.write_bytes(content)
    return path


def read_all(path: Path) -> bytes:
    """The whole content, in steps that fit no frame."""
    with archive.open_stream(path) as stream:
        return b"".join(iter(lambda: stream.read(70001), b""))


@pytest.mark.parametrize(
    "content, expected",
    [
        (packed(), DATA),
        (packed(size=False), DATA),
        (packed(checksum=False), DATA),
        (packed() + packed(b"more"), DATA + b"more"),
        (packed(size=False) + packed(b"") + SKIPPABLE + packed(b"x"), DATA + b"x"),
        (SKIPPABLE + packed(b"x" * 3_000_000), b"x" * 3_000_000),
        (packed(b""), b""),
    ],
    ids=["plain", "no size", "no checksum", "two", "mixed", "skippable", "empty"],
)
def test_all_frames_are_read(tmp_path: Path, content: bytes, expected: bytes) -> None:
    """Several frames, with and without a content size, and frames of other programs to be skipped."""
    assert expected == read_all(write(tmp_path, content))


@pytest.mark.parametrize("cut", [1, 3, 4, 5, 100, 5000])
@pytest.mark.parametrize("size", [True, False])
def test_a_frame_that_is_cut_short_is_noticed(tmp_path: Path, cut: int, size: bool) -> None:
    """Wherever the cut falls, also when it takes the checksum only."""
    with pytest.raises(CorruptError) as caught:
        read_all(write(tmp_path, packed(size=size)[:-cut]))

    assert caught.value.code == "archive_truncated"
    assert 0 < caught.value.facts["goodBytes"] <= len(DATA)


@pytest.mark.parametrize("content", [b"", b"\x28\xb5", packed()[:5], packed() + packed()[:7]], ids=range(4))
def test_a_file_that_ends_in_a_frame_header_is_cut_short(tmp_path: Path, content: bytes) -> None:
    """An empty file is no archive either."""
    with pytest.raises(CorruptError) as caught:
        read_all(write(tmp_path, content))

    assert caught.value.code == "archive_truncated"


def test_every_cut_is_noticed(tmp_path: Path) -> None:
    """At each byte of a small archive."""
    content = packed(b"some words, some words", size=False) + packed(b"more")
    whole = {len(content), len(packed(b"some words, some words", size=False))}
    for end in range(len(content)):
        if end not in whole:
            with pytest.raises(CorruptError):
                read_all(write(tmp_path, content[:end]))


@pytest.mark.parametrize(
    "content",
    [
        packed() + b"junk behind it",
        packed()[:-1] + bytes([packed()[-1] ^ 1]),
        packed()[:4000] + bytes([packed()[4000] ^ 64]) + packed()[4001:],
        b"\x28\xb5\x2f\xfd" + b"\xff" * 64,
        b"PK\x03\x04 no zstd at all",
    ],
    ids=["junk", "checksum", "bit", "header", "format"],
)
def test_other_damage_is_noticed(tmp_path: Path, content: bytes) -> None:
    """Junk, a wrong checksum, a flipped bit, a broken header, another format."""
    with pytest.raises(CorruptError) as caught:
        read_all(write(tmp_path, content))

    assert str(tmp_path) in caught.value.message


def test_plain_text_behind_zst_is_read_as_text(tmp_path: Path) -> None:
    """And can be told from an archive."""
    path = write(tmp_path, DATA)

    assert archive.Encoding.PLAIN_BEHIND_ZST is archive.encoding_of(path)
    assert DATA == read_all(path)


def test_a_compressed_file_of_another_name_is_unpacked(tmp_path: Path) -> None:
    """JSON never begins like a frame."""
    path = tmp_path / "s.jsonl"
    path.write_bytes(packed())

    assert DATA == read_all(path)


def test_it_can_be_read_from_the_start_again(tmp_path: Path) -> None:
    """And from any other place, by unpacking again."""
    with archive.open_stream(write(tmp_path, packed())) as stream:
        assert DATA == stream.read()
        for offset in (0, 500_000, 3, 777_777):
            assert offset == stream.seek(offset)
            assert DATA[offset : offset + 99] == stream.read(99)
        stream.seek(0)
        assert DATA.split(b"\n")[0] + b"\n" == stream.readline()


def test_a_stream_without_a_name_is_unpacked() -> None:
    """The standard input may be an archive too."""
    assert DATA == archive.unpack(io.BytesIO(packed()), "-").read()
    assert DATA == archive.unpack(io.BytesIO(DATA), "-").read()


def test_a_bomb_is_unpacked_in_small_steps(tmp_path: Path) -> None:
    """200 MB out of 20 KB need no more memory than any other archive."""
    path = write(tmp_path, packed(b"\0" * 200_000_000))
    read = 0
    tracemalloc.start()
    try:
        with archive.open_stream(path) as stream:
            while block := stream.read(2**18):
                read += len(block)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()

    assert read == 200_000_000
    assert peak < 8 * 2**20


def test_a_second_opinion_agrees(tmp_path: Path) -> None:
    """A stricter library takes the same files and refuses the same."""
    strict = pytest.importorskip("backports.zstd")
    good, bad = packed() + packed(b"x"), packed() + packed(b"x")[:-1]

    assert strict.decompress(good) == read_all(write(tmp_path, good))
    with pytest.raises(strict.ZstdError):
        strict.decompress(bad)
    with pytest.raises(CorruptError):
        read_all(write(tmp_path, bad))
