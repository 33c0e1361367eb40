"""Whatever stands in a file: the reader never raises, and records, damage and blanks account for every byte of it."""

from __future__ import annotations

import io
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from openclaw_cli import jstext
from openclaw_cli.jsonl import Kind, Policy, Record, Tally, read

ROWS = [
    b'{"type":"session","version":3,"id":"s","timestamp":"2026-08-06T07:06:40.000Z","cwd":"/"}',
    b'{"type":"message","id":"m1","parentId":null,"message":{"role":"user","content":[{"type":"text","text":"x"}]}}',
    '{"type":"message","id":"é\u2028","parentId":"m1","message":{"role":"user","content":"😀"}}'.encode(),
    rb'{"type":"custom","id":"c","parentId":"m1","customType":"n","data":"\ud800 }{ \"{\"type\":\""}',
    b'{"id":"m2","type":"message","parentId":null}',
]
ODD = [
    b"[1,2]",
    b'"str"',
    b"42",
    b"{}",
    b"null",
    b"0",
    b"",
    b" \t",
    b"\r",
    b"undefined",
    b'{"a":"\t"}',
    b'{"a":"\xff"}',
]
WHOLE = st.sampled_from(ROWS)
CUT = WHOLE.flatmap(lambda row: st.integers(0, len(row)).map(lambda at: row[:at]))
TAIL = WHOLE.flatmap(lambda row: st.integers(0, len(row)).map(lambda at: row[at:]))
NULS = st.integers(1, 5).map(lambda count: b"\0" * count)
PIECES = WHOLE | CUT | TAIL | NULS | st.sampled_from(ODD) | st.binary(max_size=6)
ENDS = st.sampled_from([b"\n", b"\n", b"\n", b"\r\n", b"", b"\n\n"])
FILES = st.lists(st.tuples(PIECES, ENDS), max_size=14).map(lambda parts: b"".join(a + b for a, b in parts))
MARKED = st.tuples(st.sampled_from([b"", b"", b"", b"\xef\xbb\xbf"]), FILES).map(b"".join)


class Dripping(io.RawIOBase):
    """A stream that gives a few bytes at a time, as a pipe may."""

    def __init__(self, data: bytes, step: int) -> None:
        self._inner = io.BytesIO(data)
        self._step = step

    def read(self, size: int = -1) -> bytes:
        return self._inner.read(self._step)


def run(data: bytes, policy: Policy, limit: int = 2**20, step: int = 2**20) -> tuple[list[Record], Tally]:
    """The records and the tally of `data`."""
    tally = Tally()
    stream: Any = Dripping(data, step)
    return list(read(stream, file="f", policy=policy, tally=tally, max_line_bytes=limit)), tally


@settings(deadline=None, max_examples=400)
@given(MARKED, st.sampled_from(list(Policy)), st.integers(20, 200), st.integers(1, 64))
def test_chunks_change_nothing(data: bytes, policy: Policy, limit: int, step: int) -> None:
    """The same records and the same damage, however the bytes arrive."""
    assert run(data, policy, limit) == run(data, policy, limit, step)


@settings(deadline=None, max_examples=400)
@given(MARKED, st.integers(20, 200))
def test_the_scan_accounts_for_every_byte(data: bytes, limit: int) -> None:
    """Records, damage and blank lines are the lines of the file, each once, in order, byte for byte."""
    records, tally = run(data, Policy.SCAN, limit)

    pieces = [(record.offset, len(record.raw)) for record in records]
    pieces += [(found.byte_offset, found.bytes) for found in tally.damage]
    at = 0
    for offset, size in sorted(pieces):
        assert _is_between_lines(data[at:offset])
        at = offset + size
    assert _is_between_lines(data[at:])
    assert (len(data), len(records)) == (tally.bytes_read, tally.records)
    assert data.count(b"\n") + tally.last_line_open == tally.lines_total


@settings(deadline=None, max_examples=400)
@given(MARKED, st.sampled_from(list(Policy)))
def test_records_are_slices_of_the_file(data: bytes, policy: Policy) -> None:
    """At their offset, on their line, in ascending order, and each one a JSON text of its own."""
    records, tally = run(data, policy)

    for record in records:
        assert data[record.offset : record.offset + len(record.raw)] == record.raw
        assert data.count(b"\n", 0, record.offset) + 1 == record.line
        assert jstext.dumps(record.value)
    assert sorted(record.offset for record in records) == [record.offset for record in records]
    for found in tally.damage:
        assert found.byte_offset + found.bytes <= len(data)
        assert data.count(b"\n", 0, found.byte_offset) + 1 == found.line


@settings(deadline=None, max_examples=400)
@given(MARKED)
def test_policies_agree(data: bytes) -> None:
    """An import gives a prefix of what a salvage gives; what it counts as salvageable is what salvage adds."""
    imported, import_tally = run(data, Policy.IMPORT)
    salvaged, salvage_tally = run(data, Policy.SALVAGE)
    scanned, _ = run(data, Policy.SCAN)

    offsets = {record.offset: record.raw for record in salvaged}
    assert all(offsets.get(record.offset) == record.raw for record in imported + scanned)
    assert import_tally.lines_lost == salvage_tally.lines_lost
    assert len(salvaged) - len(imported) == import_tally.lines_salvageable
    assert bool(import_tally.lines_salvageable or import_tally.lines_lost) <= import_tally.has_errors


@settings(deadline=None)
@given(st.lists(WHOLE, min_size=1, max_size=6), st.data())
def test_glued_and_cut_records_come_back(rows: list[bytes], source: st.DataObject) -> None:
    """Glue without a line end loses nothing; a cut costs the record that was cut and no other."""
    whole = b"".join(rows)
    at = source.draw(st.integers(10, len(rows[0]) - 2))

    glued, _ = run(whole + b"\n", Policy.SALVAGE)
    behind_cut, _ = run(rows[0][:at] + whole + b"\n", Policy.SALVAGE)

    assert rows == [record.raw for record in glued]
    assert rows == [record.raw for record in behind_cut]


@pytest.mark.parametrize("kind", list(Kind))
def test_every_kind_can_be_met(kind: Kind) -> None:
    """One file that has them all."""
    lines = [ROWS[1], b"x", b"42", ROWS[1] + b"\0\0" + ROWS[1], b" " * 500, b'{"a":"\xff"}', ROWS[1] * 2, b'{"a":"\t"}']
    torn, nuls = ROWS[1] + b"\n" + ROWS[1][:30], ROWS[1] + b"\n\0\0"

    met = [found.kind for data in (b"\n".join(lines), torn, nuls) for found in run(data, Policy.SCAN, 400)[1].damage]

    assert kind in met


def _is_between_lines(data: bytes) -> bool:
    """Line ends, a byte order mark, and lines that hold nothing."""
    lines = [line.strip(b"\r\n\xef\xbb\xbf") for line in data.split(b"\n")]
    return all(_is_nothing(line) for line in lines)


def _is_nothing(line: bytes) -> bool:
    try:
        return not line.strip() or not jstext.parse(line)
    except ValueError:
        return not line.decode("utf-8").strip(jstext.JS_WHITESPACE)
