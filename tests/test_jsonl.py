"""The JSONL reader: what it gives, what it calls damage, where it says the damage is."""

from __future__ import annotations

import io
import tracemalloc
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from openclaw_cli.jsonl import DEFAULT_MAX_LINE_BYTES, Policy, Record, Tally, read
from openclaw_cli.jsonl.damage import MAX_LISTED_DAMAGE

GOOD = b'{"type":"message","id":"a","parentId":null}'
OTHER = b'{"type":"message","id":"b","parentId":"a"}'
CUT = b'{"type":"message","id":"c","timestamp":"2026-0'


def run(
    data: bytes, policy: Policy = Policy.IMPORT, max_line_bytes: int = DEFAULT_MAX_LINE_BYTES
) -> tuple[list[Record], Tally]:
    """The records and the tally of `data`."""
    tally = Tally()
    stream = io.BytesIO(data)
    return list(read(stream, file="f", policy=policy, tally=tally, max_line_bytes=max_line_bytes)), tally


def damage(tally: Tally) -> list[tuple[Any, ...]]:
    """(line, offset, bytes, kind, action) of each damaged place."""
    return [tuple(found.as_json().values())[1:] for found in tally.damage]


def case(fixtures: Path, name: str) -> bytes:
    """The transcript of a case."""
    (path,) = fixtures.glob(f"cases/{name}/**/sessions/*.jsonl")
    return path.read_bytes()


def test_good_lines_are_given_with_their_place() -> None:
    """Line numbers count from 1, offsets are those of the file, nothing is damage."""
    records, tally = run(GOOD + b"\n" + OTHER + b"\n")

    assert [(1, 0, GOOD), (2, len(GOOD) + 1, OTHER)] == [record[:3] for record in records]
    assert (2, 2, 0, False, []) == (
        tally.records,
        tally.lines_total,
        tally.lines_lost,
        tally.last_line_open,
        tally.damage,
    )


def test_a_last_line_without_line_end_is_whole() -> None:
    """Only the line end is missing, the record is there."""
    records, tally = run(GOOD + b"\n" + OTHER)

    assert [GOOD, OTHER] == [record.raw for record in records]
    assert (True, []) == (tally.last_line_open, tally.damage)


def test_byte_order_mark_and_crlf_are_no_content(fixtures: Path) -> None:
    """The records are those of the file with plain line ends; a mark moves the first offset by 3."""
    data = case(fixtures, "09-bom-crlf")
    plain = data.removeprefix(b"\xef\xbb\xbf").replace(b"\r\n", b"\n")

    records, tally = run(data)

    assert [record.raw for record in run(plain)[0]] == [record.raw for record in records]
    assert (3, []) == (records[0].offset, tally.damage)


@pytest.mark.parametrize(
    "blank", [b"", b" \t", b"\r", b"null", b"false", b"0", b"-0.0", b'""', "\u00a0\u2028".encode()]
)
@pytest.mark.parametrize("policy", list(Policy))
def test_falsy_lines_are_blank(blank: bytes, policy: Policy) -> None:
    """What JavaScript calls false is passed over by every reader of the real program, and is no damage."""
    records, tally = run(GOOD + b"\n" + blank + b"\n" + OTHER + b"\n", policy)

    assert [1, 3] == [record.line for record in records]
    assert (1, []) == (tally.lines_blank, tally.damage)


def test_line_separators_of_unicode_are_content(fixtures: Path) -> None:
    """U+2028, U+2029 and U+0085 inside a string do not end a line; a raw tab keeps its line out, and that one only."""
    records, tally = run(case(fixtures, "11-raw-u2028-and-controls"))

    assert [1, 2, 3, 4] == [record.line for record in records]
    assert [(5, 992, 192, "control-char", "kept-out")] == damage(tally)
    assert tally.has_errors


def test_nul_tail_is_a_warning(fixtures: Path) -> None:
    """NULs behind a strict prefix of whole lines are the sign of a crash, nothing is lost."""
    records, tally = run(case(fixtures, "01-nul-tail"))

    assert 6 == len(records)
    assert [(7, 1614, 284, "nul-tail", "ignored")] == damage(tally)
    assert not tally.has_errors


@pytest.mark.parametrize("data", [b"\0" * 99, b"\0" * 99 + b"\n"])
def test_a_file_of_nuls_is_no_tail(data: bytes) -> None:
    """Nothing stands before them, so everything is lost."""
    records, tally = run(data)

    assert ([], 1, 1) == (records, tally.stopped_at, tally.lines_lost)
    assert [(1, 0, 99, "nul-run", "stopped")] == damage(tally)


def test_nuls_in_the_middle_end_the_import() -> None:
    """A hole may have swallowed any number of lines."""
    records, tally = run(GOOD + b"\n" + b"\0" * 9 + b"\n\n" + b"\0" * 4 + b"\n" + OTHER + b"\n")

    assert ([1], 2, 1) == ([record.line for record in records], tally.stopped_at, tally.lines_salvageable)
    assert [(2, len(GOOD) + 1, 15, "nul-run", "stopped")] == damage(tally)


def test_nul_lines_at_the_end_are_a_tail() -> None:
    """Also with line ends among them."""
    _, tally = run(GOOD + b"\n" + b"\0" * 9 + b"\n" + b"\0" * 4 + b"\n\n")

    assert [(2, len(GOOD) + 1, 14, "nul-tail", "ignored")] == damage(tally)


@pytest.mark.parametrize("policy, action", [(Policy.IMPORT, "stopped"), (Policy.SCAN, "kept-out")])
def test_a_whole_record_before_nuls_is_an_error(policy: Policy, action: str) -> None:
    """The real import cannot read that line, so its record is left out."""
    records, tally = run(GOOD + b"\n" + OTHER + b"\0" * 9, policy)

    assert ([GOOD], 1) == ([record.raw for record in records], tally.lines_salvageable)
    assert [(2, len(GOOD) + 1, len(OTHER) + 9, "nul-tail", action)] == damage(tally)
    assert tally.has_errors


def test_torn_tail_is_a_warning(fixtures: Path) -> None:
    """The beginning of a record without a line end is the sign of a crash; it is not completed."""
    records, tally = run(case(fixtures, "02-torn-tail"), Policy.SALVAGE)

    assert 6 == len(records)
    assert [(7, 1614, 97, "torn-tail", "ignored")] == damage(tally)
    assert (0, False) == (tally.lines_lost, tally.has_errors)


def test_a_torn_line_with_a_line_end_ends_the_import() -> None:
    """Somebody wrote behind it: this is no tail."""
    _, tally = run(GOOD + b"\n" + CUT + b"\n")

    assert [(2, len(GOOD) + 1, len(CUT), "not-json", "stopped")] == damage(tally)
    assert (2, 1) == (tally.stopped_at, tally.lines_lost)


def test_spliced_lines_stop_and_are_counted(fixtures: Path) -> None:
    """The prefix is given; of the rest 1 record is lost and 6 can be salvaged."""
    records, tally = run(case(fixtures, "05-spliced-lines"))

    assert ([1, 2], 3, 1, 6) == (
        [record.line for record in records],
        tally.stopped_at,
        tally.lines_lost,
        tally.lines_salvageable,
    )
    assert [
        (3, 330, 283, "spliced", "stopped"),
        (4, 614, 640, "spliced", "ignored"),
        (5, 1255, 949, "nul-run", "ignored"),
    ] == damage(tally)
    assert all(found.is_error for found in tally.damage)


def test_spliced_lines_are_salvaged(fixtures: Path) -> None:
    """Every whole record comes back in order; of the lost one its 80 bytes are named."""
    data = case(fixtures, "05-spliced-lines")

    records, tally = run(data, Policy.SALVAGE)

    messages = [0, 2, 3, 4, 5, 6, 7]
    assert [f"m{number:07}" for number in messages] == [record.value["id"] for record in records[1:]]
    assert all(data[record.offset : record.offset + len(record.raw)] == record.raw for record in records)
    assert [
        (3, 330, 80, "spliced", "kept-out"),
        (4, 1051, 0, "spliced", "salvaged"),
        (5, 1255, 512, "nul-run", "salvaged"),
    ] == damage(tally)


def test_bad_utf8_keeps_its_line_out_alone(fixtures: Path) -> None:
    """One bad byte costs one row; lone surrogate escapes and an escaped NUL are fine."""
    data = case(fixtures, "10-bad-utf8-surrogates")

    records, tally = run(data)
    salvaged, _ = run(data, Policy.SALVAGE)

    assert [1, 2, 4, 5] == [record.line for record in records]
    assert [(3, 330, 439, "bad-utf8", "kept-out")] == damage(tally)
    assert (0, 1) == (tally.lines_lost, tally.lines_salvageable)
    assert "tur\ufffd\ufffd 1\ufffd" in salvaged[2].value["message"]["content"][0]["text"]


@pytest.mark.parametrize("value", [b"[1,2]", b'"str"', b"42", b"{}", b"[]", b"true"])
def test_values_that_are_no_objects_are_stored(value: bytes) -> None:
    """As the real import does; a scan passes them over. Neither is an error."""
    data = GOOD + b"\n" + value + b"\n" + OTHER

    stored, tally = run(data)
    scanned, _ = run(data, Policy.SCAN)

    assert [GOOD, value, OTHER] == [record.raw for record in stored]
    assert [GOOD, OTHER] == [record.raw for record in scanned]
    assert [(2, len(GOOD) + 1, len(value), "not-object", "stored")] == damage(tally)
    assert not tally.has_errors


@pytest.mark.parametrize(
    "line",
    [b"undefined", b'{"a":NaN}', b'{"a":1}}', b"\xff\xfe{\0}\0", b'{"a":"\xed\xa0', b"{'a':1}", b'{"a":1'],
)
def test_what_is_not_json_ends_the_import(line: bytes) -> None:
    """And the lines behind it are counted as salvageable."""
    records, tally = run(GOOD + b"\n" + line + b"\n" + OTHER + b"\n")

    assert (1, 2) == (len(records), tally.stopped_at)
    assert tally.lines_salvageable >= 1
    assert tally.has_errors


def test_a_content_block_is_no_record() -> None:
    """A message cut right behind one of its blocks ends like a record; the block is not taken for one."""
    cut = b'{"type":"message","id":"c","message":{"role":"assistant","content":[{"type":"text","text":"x"}'

    records, tally = run(cut + b"\n" + GOOD + b"\n", Policy.SALVAGE)

    assert [GOOD] == [record.raw for record in records]
    assert (1, [(1, 0, len(cut), "not-json", "kept-out")]) == (tally.lines_lost, damage(tally))


@pytest.mark.parametrize(
    "before",
    [CUT, b'{"a":', b'{"type":"message","message":{"content":[', b'{"type":"message","message":{"x":"\xc3', b"}"],
)
def test_a_record_behind_a_cut_is_found(before: bytes) -> None:
    """Wherever the cut fell."""
    records, _ = run(before + GOOD + b"\n", Policy.SALVAGE)

    assert [(len(before), GOOD)] == [(record.offset, record.raw) for record in records]


def test_a_hole_inside_a_string_is_no_control_character() -> None:
    """The hole may have swallowed a line end, so what reads like one record may be the rest of two."""
    _, tally = run(b'{"type":"message","text":"x' + b"\0" * 5 + b'y"}\n')

    assert [(1, 0, 35, "nul-run", "stopped")] == damage(tally)


def test_a_long_line_is_passed_over_without_being_held() -> None:
    """Memory stays at a few chunks however long the line is."""
    line = 40 * 2**20

    class Long(io.RawIOBase):
        """A good line, one of 40 MiB, a good line; made while it is read."""

        parts: Iterator[bytes] = iter([GOOD + b"\n", *[b"x" * 2**18] * (line // 2**18), b"\n" + OTHER + b"\n"])

        def read(self, size: int = -1) -> bytes:
            return next(self.parts, b"")

    tally = Tally()
    tracemalloc.start()
    try:
        stream: Any = Long()
        records = list(read(stream, file="f", policy=Policy.SCAN, tally=tally, max_line_bytes=2**20))
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()

    assert [1, 3] == [record.line for record in records]
    assert [(2, len(GOOD) + 1, line, "too-long", "ignored")] == damage(tally)
    assert peak < 4 * 2**20


@pytest.mark.parametrize("size, too_long", [(-1, True), (0, False), (1, False)])
@pytest.mark.parametrize("end", [b"", b"\n"])
def test_the_limit_is_exact(size: int, too_long: bool, end: bytes) -> None:
    """A line of just the limit is read, one byte more is too long, with and without a line end."""
    _, tally = run(OTHER + b"\n" + GOOD + end, max_line_bytes=len(GOOD) + size)

    assert ([(2, len(OTHER) + 1, len(GOOD), "too-long", "stopped")] if too_long else []) == damage(tally)


def test_a_line_across_many_chunks_is_read() -> None:
    """50 MB in one row."""
    long = b'{"type":"message","text":"' + b"y" * 50_000_000 + b'"}'

    records, tally = run(GOOD + b"\n" + long + b"\n" + OTHER + b"\n")

    assert ([1, 2, 3], []) == ([record.line for record in records], tally.damage)
    assert len(long) == len(records[1].raw)


def test_deep_nesting_is_read() -> None:
    """JSON.parse has no limit; the parsers of Python have one."""
    raw = b'{"a":' + b"[" * 5000 + b"]" * 5000 + b"}"

    records, tally = run(raw + b"\n")

    assert ([raw], []) == ([record.raw for record in records], tally.damage)


def test_damage_is_listed_up_to_a_bound() -> None:
    """A file of nothing but damage does not fill the memory."""
    _, tally = run(b"x\n" * 5000, Policy.SCAN)

    assert (MAX_LISTED_DAMAGE, 4000, 5000) == (len(tally.damage), tally.damage_omitted, tally.lines_lost)


def test_progress_is_told_in_bytes() -> None:
    """The sum of the steps is the size of the stream."""
    steps: list[int] = []
    data = (GOOD + b"\n") * 20000
    for _ in read(io.BytesIO(data), file="f", policy=Policy.SCAN, tally=Tally(), on_bytes=steps.append):
        pass

    assert (len(data), True) == (sum(steps), len(steps) > 1)
