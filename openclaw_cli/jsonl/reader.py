"""Read a JSONL stream line by line in constant memory.

The hot path is one `find`, one slice and one orjson call per line (a split of the whole chunk is slower: its pieces
fall out of the cache); whatever is unusual leaves it at once.
Lines end at 0x0A only: U+2028, U+2029, U+0085 and a lone carriage return are content.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from io import BytesIO
from typing import Any, BinaryIO, NamedTuple

import orjson

from openclaw_cli.jsonl.classify import BLANK, Finding, examine
from openclaw_cli.jsonl.damage import Action, Damage, Kind, Policy, Record, Tally

DEFAULT_MAX_LINE_BYTES = 256 * 2**20

_CHUNK_BYTES = 2**18
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"
# The constructor of a NamedTuple costs twice as much, and there is one per line.
_record: Callable[[tuple[int, int, bytes, Any]], Record] = partial(tuple.__new__, Record)


def read(
    stream: BinaryIO,
    *,
    file: str,
    policy: Policy,
    tally: Tally,
    max_line_bytes: int = DEFAULT_MAX_LINE_BYTES,
    on_bytes: Callable[[int], None] | None = None,
) -> Iterator[Record]:
    """The records of `stream` under `policy`; damage and counts go into `tally`.

    `file` names the stream in damage. `max_line_bytes`: a longer line is passed over without being held.
    `on_bytes` is called with the size of each chunk that was read. Raises nothing for the content of the stream.
    """
    tally.file = file
    return _Reading(file, policy, tally, max_line_bytes).records(_blocks(stream, tally, max_line_bytes, on_bytes))


class _TooLong(NamedTuple):
    """A line beyond the limit: only its size without line end is known, and whether it was all NULs."""

    bytes: int
    nul_only: bool


class _Block(NamedTuple):
    """Bytes of the file from `offset` on, of which those before `begin` are read already.

    `is_line`: exactly one line, without its line end; else whole lines and perhaps the beginning of another one.
    """

    data: bytes | _TooLong
    offset: int
    begin: int
    is_line: bool


def _blocks(
    stream: BinaryIO, tally: Tally, max_line_bytes: int, on_bytes: Callable[[int], None] | None
) -> Iterator[_Block]:
    """The stream as chunks, with each line that crosses a chunk's end as a block of its own."""
    rest = _Rest(max_line_bytes)
    base = 0
    while chunk := stream.read(_CHUNK_BYTES):
        if on_bytes is not None:
            on_bytes(len(chunk))
        begin = 0
        if rest.bytes:
            end = chunk.find(b"\n")
            line_offset = base - rest.bytes
            rest.add(chunk if end < 0 else chunk[:end])
            begin = end + 1
            if begin:
                yield _Block(rest.take(), line_offset, 0, True)
        if begin or not rest.bytes:
            end = chunk.rfind(b"\n") + 1
            if end > begin:
                yield _Block(chunk, base, begin, False)
            rest.add(chunk[max(end, begin) :])
        base += len(chunk)
        tally.bytes_read = base
    if rest.bytes:
        tally.last_line_open = True
        line_offset = base - rest.bytes
        yield _Block(rest.take(), line_offset, 0, True)


class _Rest:
    """The beginning of a line whose end has not been read yet, held only up to the limit."""

    __slots__ = ("_held", "_limit", "_nul_only", "bytes")

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._begin()

    def _begin(self) -> None:
        # One buffer that grows, since hundreds of pieces leave holes in the heap; it becomes the line without a copy.
        self._held = BytesIO()
        self._nul_only = True
        self.bytes = 0

    def add(self, piece: bytes) -> None:
        """Take in the next piece of the line; an empty one changes nothing."""
        self.bytes += len(piece)
        self._nul_only = self._nul_only and not piece.strip(b"\0")
        if self.bytes <= self._limit:
            self._held.write(piece)
        elif self._held.tell():
            self._held = BytesIO()

    def take(self) -> bytes | _TooLong:
        """The whole line without its end, and begin anew."""
        line = self._held.getvalue() if self.bytes <= self._limit else _TooLong(self.bytes, self._nul_only)
        self._begin()
        return line


class _Hole(NamedTuple):
    """Lines of nothing but NULs, not judged yet: at the end of the file they are a tail, else a hole."""

    line: int
    offset: int
    end: int
    lines: int


class _Reading:
    """The state of one reading: position, whether the import has stopped, and a hole that is not judged yet."""

    def __init__(self, file: str, policy: Policy, tally: Tally, max_line_bytes: int) -> None:
        self._file = file
        self._policy = policy
        self._tally = tally
        self._limit = max_line_bytes
        self._hole: _Hole | None = None
        self._seen_record = False
        # Whether an object may go straight out: not before a byte order mark is ruled out, not after a stop, and not
        # while a hole waits for its judgement.
        self._usual = False

    def records(self, blocks: Iterator[_Block]) -> Iterator[Record]:
        """The hot loop: whole lines with a non-empty object go straight out, all others through `_unusual`."""
        loads, make, limit, tally = orjson.loads, _record, self._limit, self._tally
        line = 0
        for data, base, at, is_line in blocks:
            if isinstance(data, _TooLong):
                line += 1
                yield from self._unusual(data, line, base)
                continue
            find, usual, given, carriage_return = data.find, self._usual, 0, b"\r" in data
            while True:
                end = find(b"\n", at)
                if end < 0:
                    if not is_line:
                        break
                    end = len(data)
                raw = data[at:end]
                line += 1
                value = None
                if usual and end - at <= limit:
                    try:
                        value = loads(raw)
                    except (ValueError, RecursionError):
                        value = None
                if value.__class__ is dict and value:
                    given += 1
                    if carriage_return and raw[-1] == 13:
                        raw = raw[:-1]
                    yield make((line, base + at, raw, value))
                else:
                    tally.records += given
                    given = 0
                    yield from self._unusual(raw, line, base + at)
                    usual = self._usual
                at = end + 1
                if at > len(data):
                    break
            tally.records += given
            tally.lines_total = line
        tally.lines_total = line
        self._judge_hole(at_end=True)

    # --- one unusual line ---------------------------------------------------------------------------------------------

    def _unusual(self, raw: bytes | _TooLong, line: int, offset: int) -> list[Record]:
        if isinstance(raw, bytes) and len(raw) > self._limit:
            raw = _TooLong(len(raw), not raw.strip(b"\0"))
        given = self._too_long(raw, line, offset) if isinstance(raw, _TooLong) else self._odd(raw, line, offset)
        self._usual = self._tally.stopped_at is None and self._hole is None
        self._tally.records += len(given)
        return given

    def _odd(self, raw: bytes, line: int, offset: int) -> list[Record]:
        if line == 1 and raw.startswith(_BYTE_ORDER_MARK):
            raw, offset = raw[len(_BYTE_ORDER_MARK) :], offset + len(_BYTE_ORDER_MARK)
        body = raw[:-1] if raw.endswith(b"\r") else raw
        found = examine(body, is_open=self._tally.last_line_open)
        if found is BLANK:
            self._tally.lines_blank += 1
            return []
        if isinstance(found, Finding):
            if found.kind is Kind.NUL_RUN and not found.pieces and not found.gaps:
                self._extend_hole(line, offset, len(body))
                return []
            self._judge_hole(at_end=False)
            return self._damaged(found, Record(line, offset, body, found.value))
        self._judge_hole(at_end=False)
        return self._whole(Record(line, offset, body, found))

    def _whole(self, record: Record) -> list[Record]:
        self._seen_record = True
        if self._tally.stopped_at is not None:
            self._tally.lines_salvageable += 1
            return []
        if record.value.__class__ is dict and record.value:
            return [record]
        action = Action.IGNORED if self._policy is Policy.SCAN else Action.STORED
        self._note(record.line, record.offset, len(record.raw), Kind.NOT_OBJECT, action)
        return [] if action is Action.IGNORED else [record]

    def _too_long(self, skipped: _TooLong, line: int, offset: int) -> list[Record]:
        if skipped.nul_only:
            self._extend_hole(line, offset, skipped.bytes)
            return []
        self._judge_hole(at_end=False)
        self._tally.lines_lost += 1
        self._note(line, offset, skipped.bytes, Kind.TOO_LONG, self._stop(line))
        return []

    def _damaged(self, found: Finding, record: Record) -> list[Record]:
        tally = self._tally
        line, offset, body, _ = record
        tally.lines_lost += found.lost
        if found.kind in (Kind.BAD_UTF8, Kind.CONTROL_CHAR):
            return self._bad_content(found.kind, record)
        if found.kind is Kind.TORN_TAIL:
            self._note(line, offset, len(body), found.kind, Action.IGNORED)
            return []
        tally.lines_salvageable += len(found.pieces)
        self._seen_record = self._seen_record or bool(found.pieces)
        if self._policy is Policy.SALVAGE:
            return self._salvage(found, line, offset, body)
        action = self._stop(line)
        if found.kind is Kind.NUL_TAIL and action is Action.IGNORED:
            # A whole record stands before these NULs; "ignored" would call the loss of it harmless.
            action = Action.KEPT_OUT
        self._note(line, offset, len(body), found.kind, action)
        return []

    def _bad_content(self, kind: Kind, record: Record) -> list[Record]:
        self._seen_record = True
        self._tally.lines_salvageable += 1
        action = {Policy.IMPORT: Action.KEPT_OUT, Policy.SCAN: Action.IGNORED, Policy.SALVAGE: Action.SALVAGED}
        self._note(record.line, record.offset, len(record.raw), kind, action[self._policy])
        return [record] if self._policy is Policy.SALVAGE else []

    def _salvage(self, found: Finding, line: int, offset: int, body: bytes) -> list[Record]:
        """The whole records of the line; each rest is named by itself, a mere missing line end with 0 bytes."""
        for gap in found.gaps:
            action = Action.KEPT_OUT if gap.lost else Action.SALVAGED
            self._note(line, offset + gap.start, gap.end - gap.start, found.kind, action)
        if not found.gaps:
            self._note(line, offset + found.pieces[0].end, 0, found.kind, Action.SALVAGED)
        return [Record(line, offset + start, body[start:end], value) for start, end, value in found.pieces]

    # --- holes, stops, notes ------------------------------------------------------------------------------------------

    def _extend_hole(self, line: int, offset: int, size: int) -> None:
        hole = self._hole or _Hole(line, offset, offset, 0)
        self._hole = hole._replace(end=offset + size, lines=hole.lines + 1)

    def _judge_hole(self, *, at_end: bool) -> None:
        hole, self._hole = self._hole, None
        if hole is None:
            return
        kind = Kind.NUL_TAIL if at_end and (self._seen_record or self._tally.records) else Kind.NUL_RUN
        if kind is Kind.NUL_TAIL:
            action = Action.IGNORED
        else:
            action = self._stop(hole.line)
            self._tally.lines_lost += hole.lines
        self._note(hole.line, hole.offset, hole.end - hole.offset, kind, action)

    def _stop(self, line: int) -> Action:
        """End the import at `line`, unless it has ended before; other policies pass the line over."""
        if self._policy is Policy.IMPORT and self._tally.stopped_at is None:
            self._tally.stopped_at = line
            return Action.STOPPED
        return Action.KEPT_OUT if self._policy is Policy.SALVAGE else Action.IGNORED

    def _note(self, line: int, offset: int, size: int, kind: Kind, action: Action) -> None:
        self._tally.add(Damage(self._file, line, offset, size, kind, action))
