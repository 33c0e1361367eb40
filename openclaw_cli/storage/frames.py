"""The write-ahead log of a database, frame by frame, for files that SQLite does not open (file format §4).

A log is a header with two salts, then pages, each behind a frame header that repeats the salts and carries a running
checksum. What counts are the frames up to the last one that ends a transaction.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO, NamedTuple

HEADER_BYTES, FRAME_BYTES = 32, 24
_MAGIC = {0x377F0682: "<", 0x377F0683: ">"}


class Frame(NamedTuple):
    """One page of the log: its number, where its bytes begin in the log, the database's pages if it ends a commit."""

    page: int
    offset: int
    commit_pages: int


def page_bytes_of(log: Path) -> int | None:
    """The page size that a log states; None when it has no valid header."""
    with log.open("rb") as file:
        header = file.read(HEADER_BYTES)
    return _parsed(header)[1] if _parsed(header) is not None else None  # type: ignore[index]


def committed(log: Path) -> list[Frame]:
    """The frames of a log that belong to finished transactions, in order; empty when its header is not valid."""
    with log.open("rb") as file:
        parsed = _parsed(file.read(HEADER_BYTES))
        if parsed is None:
            return []
        order, size, salts, sums = parsed
        found: list[Frame] = []
        last = 0
        for frame in _valid(file, order, size, salts, sums):
            found.append(frame)
            if frame.commit_pages:
                last = len(found)
    return found[:last]


def write_back(log: Path, database: Path) -> int:
    """Put the pages of finished transactions into `database`, a private copy; gives their number."""
    size = page_bytes_of(log)
    if size is None:
        return 0
    frames = committed(log)
    with log.open("rb") as source, database.open("r+b") as target:
        for frame in frames:
            source.seek(frame.offset)
            target.seek((frame.page - 1) * size)
            target.write(source.read(size))
        if frames:
            target.truncate(frames[-1].commit_pages * size)
    return len(frames)


def _parsed(header: bytes) -> tuple[str, int, bytes, tuple[int, int]] | None:
    """(byte order of the checksums, page size, salts, checksum so far) of a valid log header."""
    if len(header) < HEADER_BYTES:
        return None
    magic, _, size = struct.unpack(">3I", header[:12])
    order = _MAGIC.get(magic)
    if order is None or not 512 <= size <= 65536:
        return None
    sums = _checksum(header[:24], order, (0, 0))
    if sums != struct.unpack(">2I", header[24:32]):
        return None
    return order, size, header[16:24], sums


def _valid(file: BinaryIO, order: str, size: int, salts: bytes, sums: tuple[int, int]) -> Iterator[Frame]:
    while True:
        offset = file.tell() + FRAME_BYTES
        head, data = file.read(FRAME_BYTES), file.read(size)
        if len(data) < size or head[8:16] != salts:
            return
        sums = _checksum(data, order, _checksum(head[:8], order, sums))
        if sums != struct.unpack(">2I", head[16:24]):
            return
        page, commit_pages = struct.unpack(">2I", head[:8])
        yield Frame(page, offset, commit_pages)


def _checksum(data: bytes, order: str, start: tuple[int, int]) -> tuple[int, int]:
    first, second = start
    words = struct.unpack(f"{order}{len(data) // 4}I", data)
    for one, two in zip(words[::2], words[1::2], strict=True):
        first = (first + one + second) & 0xFFFFFFFF
        second = (second + two + first) & 0xFFFFFFFF
    return first, second
