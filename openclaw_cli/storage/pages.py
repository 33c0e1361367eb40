"""A SQLite database read page by page, for files that SQLite itself refuses (format: sqlite.org/fileformat2.html).

Only what a salvage needs: table b-trees with their overflow chains, and the pointer map, which says of every page what
it is and whose child, also when that parent cannot be read. Every number in the file may be a lie: pages are looked up
within bounds, chains and trees end at the first page that is met twice, and a page of the map with one impossible
entry is not believed at all: a destroyed one would name any page as unused. Nothing here opens a database.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, NamedTuple

HEADER_BYTES = 100
DEFAULT_PAGE_BYTES = 4096
LEAF_TABLE, INTERIOR_TABLE = 0x0D, 0x05
ROOT, FREE, CHILD = 1, 2, 5
"""Kinds of pages in the pointer map: root of a tree, unused, page of a tree below its root (3 and 4: overflow)."""

_MAGIC = b"SQLite format 3\0"
_FIXED_BYTES = {0: 0, 1: 1, 2: 2, 3: 3, 4: 4, 5: 6, 6: 8, 7: 8, 8: 0, 9: 0}
_LARGEST_VALUE_BYTES = 2**30
_LOCK_BYTE = 2**30
"""The page with this byte is never used (file format §1.5), so the pointer map has nothing to say of it."""
_HAS_PARENT = {1: False, 2: False, 3: True, 4: True, 5: True}

Value = int | float | str | bytes | None


class PageError(Exception):
    """What stands on a page is not what the file format allows there."""


class Cell(NamedTuple):
    """One row of a table: its rowid, its values, and the page that its cell stands on."""

    rowid: int
    values: tuple[Value, ...]
    page: int


@dataclass(frozen=True, slots=True)
class Lost:
    """A place that gave no row. `cells`: rows that are known to be missing, None where nobody can tell."""

    page: int
    cells: int | None


class Pages:
    """The pages of one database file. Used as a context manager; not for use by two threads.

    The page size is the header's, or 4,096 (that of every store) where the header cannot be believed. Memory: five
    bytes per page of the file, for its pointer map.
    """

    def __init__(self, path: Path) -> None:
        self._file: BinaryIO = path.open("rb")
        header = self._file.read(HEADER_BYTES)
        self.has_header = len(header) == HEADER_BYTES and header.startswith(_MAGIC) and _page_bytes(header) is not None
        self.page_bytes = (_page_bytes(header) if self.has_header else None) or DEFAULT_PAGE_BYTES
        self.usable_bytes = self.page_bytes - (header[20] if self.has_header and header[20] <= 64 else 0)
        size = path.stat().st_size
        self.count = -(-size // self.page_bytes)
        self._maps: dict[int, bytes] = {}

    def __enter__(self) -> Pages:
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()

    def page(self, number: int) -> bytes:
        """The bytes of page `number` (from 1). Raises PageError outside of the file or where it is cut short."""
        if not 1 <= number <= self.count:
            raise PageError(f"page {number} lies outside of the file")
        self._file.seek((number - 1) * self.page_bytes)
        data = self._file.read(self.page_bytes)
        if len(data) < self.page_bytes:
            raise PageError(f"page {number} is cut short")
        return data

    def kind_and_parent(self, number: int) -> tuple[int, int] | None:
        """What the pointer map says of a page; None for a page of the map itself or where the map cannot be read."""
        per_map = self.usable_bytes // 5
        holder = (number - 2) // (per_map + 1) * (per_map + 1) + 2
        if number < 3 or holder == number:
            return None
        if holder not in self._maps:
            self._maps[holder] = self._map(holder, per_map)
        entry = self._maps[holder][(number - holder - 1) * 5 :][:5]
        return (entry[0], int.from_bytes(entry[1:], "big")) if entry and entry[0] else None

    def _map(self, holder: int, per_map: int) -> bytes:
        """The entries of one page of the map; none when it cannot be read or says what no map says."""
        described = min(per_map, self.count - holder)
        try:
            data = self.page(holder)[: described * 5]
        except PageError:
            return b""
        for at in range(0, len(data), 5):
            has_parent = any(data[at + 1 : at + 5])
            unused_for_locks = holder + 1 + at // 5 == _LOCK_BYTE // self.page_bytes + 1
            if not unused_for_locks and (data[at] not in _HAS_PARENT or _HAS_PARENT[data[at]] is not has_parent):
                return b""
        return data

    def mark_free(self, marks: bytearray) -> None:
        """Set the mark of every page that the header's list of unused pages names, as far as it can be followed."""
        if not self.has_header:
            return
        most = self.usable_bytes // 4 - 2
        try:
            trunk = int.from_bytes(self.page(1)[32:36], "big")
            while trunk:
                data = self.page(trunk)
                if marks[trunk]:
                    return
                marks[trunk] = 1
                following, leaves = struct.unpack_from(">2I", data)
                if leaves > most:
                    return
                for number in struct.unpack_from(f">{leaves}I", data, 8):
                    if 1 < number <= self.count:
                        marks[number] = 1
                trunk = following
        except PageError:
            # The list ends where the file was cut; what it named before stays named.
            return

    def root_of(self, number: int) -> int | None:
        """The root of the tree that a page belongs to, as the pointer map has it; None when it does not say."""
        seen: set[int] = set()
        while number not in seen:
            seen.add(number)
            entry = self.kind_and_parent(number)
            if entry is None:
                # The root of the schema is page 1, which no map describes.
                return 1 if number == 1 else None
            kind, parent = entry
            if kind == ROOT:
                return number
            if kind != CHILD:
                return None
            number = parent
        return None

    def is_leaf(self, number: int) -> bool:
        """Whether a page looks like a leaf of a table."""
        try:
            data = self.page(number)
        except PageError:
            return False
        return data[_start(number)] == LEAF_TABLE

    def leaves(self, root: int, lost: list[Lost]) -> Iterator[int]:
        """The leaf pages of a table's tree in order; what cannot be followed goes to `lost`."""
        stack, seen = [root], set()
        while stack:
            number = stack.pop()
            if number in seen:
                lost.append(Lost(number, None))
                continue
            seen.add(number)
            try:
                data = self.page(number)
                kind = data[_start(number)]
                if (self.kind_and_parent(number) or (CHILD, 0))[0] == FREE:
                    raise PageError(f"page {number} is unused")
                if kind == LEAF_TABLE:
                    yield number
                elif kind == INTERIOR_TABLE:
                    stack.extend(reversed(self._children(number, data)))
                else:
                    raise PageError(f"page {number} is no page of a table")
            except PageError:
                lost.append(Lost(number, None))

    def _children(self, number: int, data: bytes) -> list[int]:
        start = _start(number)
        children = [int.from_bytes(data[at : at + 4], "big") for at in self._cell_offsets(number, data, start + 12)]
        return [*children, int.from_bytes(data[start + 8 : start + 12], "big")]

    def _cell_offsets(self, number: int, data: bytes, pointers: int) -> list[int]:
        start = _start(number)
        cells = int.from_bytes(data[start + 3 : start + 5], "big")
        if pointers + 2 * cells > self.usable_bytes:
            raise PageError(f"page {number} names more cells than it can hold")
        found = struct.unpack_from(f">{cells}H", data, pointers)
        if any(not pointers + 2 * cells <= at < self.usable_bytes for at in found):
            raise PageError(f"page {number} has a cell outside of it")
        return list(found)

    def cells(self, number: int, lost: list[Lost]) -> Iterator[Cell]:
        """The rows of one leaf page; those that cannot be read are counted in `lost`."""
        try:
            data = self.page(number)
            offsets = self._cell_offsets(number, data, _start(number) + 8)
        except PageError:
            lost.append(Lost(number, None))
            return
        missing = 0
        for at in offsets:
            try:
                size, at = varint(data, at)
                rowid, at = varint(data, at)
                yield Cell(_signed(rowid), record(self._payload(data, at, size)), number)
            except (PageError, IndexError, UnicodeDecodeError, struct.error):
                missing += 1
        if missing:
            lost.append(Lost(number, missing))

    def _payload(self, data: bytes, at: int, size: int) -> bytes:
        usable = self.usable_bytes
        if size > _LARGEST_VALUE_BYTES or size > self.count * usable:
            raise PageError("a row is longer than the file")
        if size <= usable - 35:
            local = size
        else:
            least = (usable - 12) * 32 // 255 - 23
            local = least + (size - least) % (usable - 4)
            local = local if local <= usable - 35 else least
        if at + local + (4 if local < size else 0) > usable:
            raise PageError("a cell reaches beyond its page")
        if local == size:
            return data[at : at + size]
        pieces, left = [data[at : at + local]], size - local
        following = int.from_bytes(data[at + local : at + local + 4], "big")
        while left > 0:
            # A chain is as long as its row says, so one that runs in a circle ends all the same.
            content = self.page(following)
            if not self._may_overflow(following):
                raise PageError(f"page {following} is no overflow page")
            if not content.strip(b"\0"):
                # A wiped last page would pass: its chain ends, and zeros are text.
                raise PageError(f"page {following} is empty")
            pieces.append(content[4 : 4 + min(left, usable - 4)])
            left -= len(pieces[-1])
            following = int.from_bytes(content[:4], "big")
        if following:
            raise PageError("an overflow chain is longer than its row")
        return b"".join(pieces)

    def _may_overflow(self, number: int) -> bool:
        entry = self.kind_and_parent(number)
        return entry is None or entry[0] in (3, 4)


def varint(data: bytes, at: int) -> tuple[int, int]:
    """The integer that begins at `at` (1 to 9 bytes, big end first), and the position behind it. Raises IndexError."""
    value = 0
    for _ in range(8):
        byte = data[at]
        at += 1
        value = value << 7 | byte & 0x7F
        if byte < 0x80:
            return value, at
    return value << 8 | data[at], at + 1


def record(payload: bytes) -> tuple[Value, ...]:
    """The values of one row in SQLite's record format. Raises PageError, IndexError or UnicodeDecodeError."""
    head, at = varint(payload, 0)
    if not at <= head <= len(payload):
        raise PageError("the header of a row reaches beyond it")
    kinds = []
    while at < head:
        kind, at = varint(payload, at)
        kinds.append(kind)
    if at != head:
        raise PageError("the header of a row does not end where it says")
    values = []
    for kind in kinds:
        size = _FIXED_BYTES[kind] if kind in _FIXED_BYTES else (kind - 12) // 2
        if kind in (10, 11) or at + size > len(payload):
            raise PageError("a value reaches beyond its row")
        values.append(_value(kind, payload[at : at + size]))
        at += size
    if at != len(payload):
        raise PageError("a row is longer than its values")
    return tuple(values)


def _value(kind: int, data: bytes) -> Value:
    if kind == 0:
        return None
    if kind < 7:
        return int.from_bytes(data, "big", signed=True)
    if kind == 7:
        return float(struct.unpack(">d", data)[0])
    if kind in (8, 9):
        return kind - 8
    return data.decode("utf-8") if kind % 2 else data


def _signed(value: int) -> int:
    return value - 2**64 if value >= 2**63 else value


def _start(number: int) -> int:
    """Where the page's own header begins: on page 1 behind that of the file."""
    return HEADER_BYTES if number == 1 else 0


def _page_bytes(header: bytes) -> int | None:
    stated = int.from_bytes(header[16:18], "big")
    size = 65536 if stated == 1 else stated
    return size if 512 <= size <= 65536 and size & (size - 1) == 0 else None
