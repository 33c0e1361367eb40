"""The one renderer: JSON documents, text, tables, notes, the progress bar (design: output).

stdout carries the result, stderr everything else. Control characters of stored text are escaped in both forms, so that
a session key cannot move the cursor of the terminal that lists it.
"""

from __future__ import annotations

import os
import re
import sys
import unicodedata
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from openclaw_cli.cli import streams
from openclaw_cli.config.environment import environment

if TYPE_CHECKING:
    from openclaw_cli.cli.options import Common

# C0, DEL, C1, line and paragraph separators, bidirectional controls, lone surrogates.
_UNSAFE = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029\u200e\u200f\u202a-\u202e\u2066-\u2069\ud800-\udfff]")
# The same in UTF-8, without C0 (the encoder escapes it) and without surrogates (UTF-8 has none).
_UNSAFE_UTF8 = re.compile(rb"\x7f|\xc2[\x80-\x9f]|\xe2\x80[\x8e\x8f\xa8-\xae]|\xe2\x81[\xa6-\xa9]")


_FLUSH_BYTES = 2**18
_LEAST_CELLS = 12
_GAP_CELLS = 2
_USUAL_CELLS = 80
_NAMES_SHARE = 0.6


@dataclass(frozen=True, slots=True)
class Table:
    """Rows of text under `columns`.

    `right`: columns that are right-aligned. A terminal that is too narrow cuts the columns in `wide` at their end and
    those in `middle`, the names of the rows, in the middle, if they take more than their share of it. Columns in
    `leave_out` may go, the first one first, and those in `wide` after them; a last line names them. A pipe gets
    everything.
    """

    columns: Sequence[str]
    rows: Iterable[Sequence[str]]
    right: frozenset[str] = field(default_factory=frozenset)
    wide: frozenset[str] = field(default_factory=frozenset)
    middle: frozenset[str] = field(default_factory=frozenset)
    leave_out: Sequence[str] = ()


def escape(text: str) -> str:
    r"""`text` on one line with every control character written as `\xHH` or `\uHHHH`."""
    return _UNSAFE.sub(_escaped, text) if _UNSAFE.search(text) else text


def dump(value: Any, *, indent: bool = True) -> bytes:
    """JSON of `value`: 2-space indent or one line, UTF-8, no final newline, control characters escaped."""
    import orjson

    try:
        text = orjson.dumps(value, option=orjson.OPT_INDENT_2 if indent else 0)
    except (TypeError, orjson.JSONEncodeError):
        # Integers beyond 64 bits and lone surrogates, which stored JSON may hold.
        import json

        text = json.dumps(value, indent=2 if indent else None, ensure_ascii=True).encode("ascii")
    if text.isascii() and b"\x7f" not in text:
        return text  # the usual case, and much cheaper to tell than to search
    return _UNSAFE_UTF8.sub(_escaped_utf8, text)


def write_document(document: Mapping[str, Any]) -> None:
    """Print one JSON document."""
    streams.begin_document()
    _write(dump(document) + b"\n")


def write_document_with_rows(head: Mapping[str, Any], key: str, rows: Iterable[Mapping[str, Any]]) -> None:
    """Print `head` with `key: [rows…]` as its last member, row by row, so that memory does not grow with the rows."""
    opening = dump({**head, key: []}).removesuffix(b"[]\n}")
    parts, size_bytes = [opening, b"["], len(opening)
    separator = b"\n    "
    for row in rows:
        parts += (separator, dump(row).replace(b"\n", b"\n    "))
        separator = b",\n    "
        size_bytes += len(parts[-1])
        if size_bytes > _FLUSH_BYTES:
            streams.begin_document()
            _write(b"".join(parts))
            parts, size_bytes = [], 0
    streams.begin_document()
    _write(b"".join([*parts, b"]\n}\n" if separator == b"\n    " else b"\n  ]\n}\n"]))


def write_list(values: Sequence[Mapping[str, Any]]) -> None:
    """Print a list as the one JSON document, where OpenClaw does."""
    streams.begin_document()
    _write(dump(values) + b"\n")


def write_line(value: Mapping[str, Any]) -> None:
    """Print one object of `--ndjson`, flushed, because its item is done."""
    _write(dump(value, indent=False) + b"\n")
    sys.stdout.flush()


def emit(
    document: Mapping[str, Any],
    text: Iterable[str | Table] | Callable[[], Iterable[str | Table]],
    common: Common,
) -> None:
    """Print a result: the document with `--json`, else the lines and tables of `text` (escaped here)."""
    if common.json:
        write_document(document)
    else:
        write_text(text() if callable(text) else text)


def write_text(items: Iterable[str | Table]) -> None:
    """Print lines and tables. A line is escaped; what must stay as it is goes through `sys.stdout` itself."""
    for item in items:
        if isinstance(item, Table):
            write_table(item)
        else:
            sys.stdout.write(escape(item) + "\n")


def write_table(table: Table) -> None:
    """A rich table on a terminal, aligned plain columns anywhere else."""
    if is_terminal(sys.stdout):
        _write_rich(table)
        return
    for line in plain_lines(table):
        sys.stdout.write(line + "\n")


def plain_lines(table: Table) -> Iterator[str]:
    """The table as lines for pipes and files: columns two spaces apart, nothing cut."""
    rows = [[escape(cell) for cell in row] for row in table.rows]
    widths = [max(map(_width, column)) for column in zip(table.columns, *rows, strict=True)]
    for row in [list(table.columns), *rows]:
        cells = [
            " " * (width - _width(cell)) + cell if name in table.right else cell + " " * (width - _width(cell))
            for name, cell, width in zip(table.columns, row, widths, strict=True)
        ]
        yield "  ".join(cells).rstrip()


def note(text: str, common: Common) -> None:
    """A remark on stderr, left out with `-q`."""
    if not common.quiet:
        print(f"openclaw-cli: {escape(text)}", file=sys.stderr)  # noqa: T201


def detail(text: str, common: Common) -> None:
    """A remark on stderr that only `-v` shows."""
    if common.verbose:
        note(text, common)


def is_terminal(stream: Any) -> bool:
    """Whether `stream` is a terminal that understands more than plain lines."""
    return bool(stream.isatty()) and environment().get("TERM", "") not in ("", "dumb")


class Progress:
    """One bar by bytes on a stderr terminal; nothing in cron, in a pipe, with `-q`.

    Use as a context manager; `advance` is cheap enough for every block read. Work without a total moves to and fro and
    shows the time that it has taken, and without bytes if they cannot be `counted`; `describe` says what it is at.
    """

    def __init__(self, total_bytes: int | None, label: str, common: Common, *, counted: bool = True) -> None:
        self._bar: Any = None
        self._task: Any = None
        self._total_bytes = total_bytes
        self._counted = counted
        self._label = escape(label)
        self._shown = not common.quiet and is_terminal(sys.stderr)

    def __enter__(self) -> Progress:
        if self._shown:
            from rich.progress import BarColumn, DownloadColumn, TextColumn, TimeElapsedColumn, TimeRemainingColumn
            from rich.progress import Progress as Bar

            time = TimeElapsedColumn() if self._total_bytes is None else TimeRemainingColumn()
            counts = (DownloadColumn(binary_units=True),) if self._counted else ()
            self._bar = Bar(
                TextColumn("{task.description}", markup=False),
                BarColumn(),
                *counts,
                time,
                console=_console(sys.stderr, terminal_cells(sys.stderr)),
                transient=True,
            )
            self._bar.start()
            self._task = self._bar.add_task(self._label, total=self._total_bytes)
        return self

    def advance(self, count_bytes: int) -> None:
        """So many more bytes are done."""
        if self._bar is not None:
            self._bar.advance(self._task, count_bytes)

    def describe(self, label: str) -> None:
        """What is being done now, in place of the first label."""
        if self._bar is not None:
            self._bar.update(self._task, description=escape(label))

    def __exit__(self, *_: object) -> None:
        if self._bar is not None:
            self._bar.stop()


def _write(data: bytes) -> None:
    sys.stdout.flush()
    buffer = getattr(sys.stdout, "buffer", None)
    if buffer is None:
        sys.stdout.write(data.decode("utf-8"))
    else:
        buffer.write(data)


def _write_rich(table: Table) -> None:
    from rich import box
    from rich.table import Table as RichTable
    from rich.text import Text

    cells = terminal_cells(sys.stdout)
    table, left_out = _narrowed(table, cells)
    rows = list(table.rows)
    widths = _terminal_widths(table, rows, cells)
    shown = RichTable(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, padding=(0, 1, 0, 0))
    for name, width in zip(table.columns, widths, strict=True):
        shown.add_column(name, justify="right" if name in table.right else "left", no_wrap=True, width=width)
    for row in rows:
        parts = zip(row, table.columns, widths, strict=True)
        shown.add_row(*(Text(cut(cell, width, middle=name in table.middle)) for cell, name, width in parts))
    # A table that is wider than the terminal all the same is to run over its edge, not to lose what is in it.
    console = _console(sys.stdout, max(cells, sum(widths) + _GAP_CELLS * len(widths)))
    console.print(shown)
    if left_out:
        sys.stdout.write(f"not shown at this width: {', '.join(left_out)}; use --json or a wider terminal\n")


def _console(stream: Any, cells: int) -> Any:
    """A rich console on `stream`, `cells` wide; with NO_COLOR it writes no attribute at all."""
    from rich.console import Console

    plain = {"color_system": None} if environment().get("NO_COLOR") else {}
    return Console(file=stream, width=cells, highlight=False, markup=False, emoji=False, soft_wrap=True, **plain)


def terminal_cells(stream: Any) -> int:
    """The width of a terminal: `COLUMNS` where it is a width at all, else what the system knows, else 80."""
    stated = environment().get("COLUMNS", "")
    if stated.isascii() and stated.isdecimal() and int(stated) > 0:
        return int(stated)
    try:
        return os.get_terminal_size(stream.fileno()).columns or _USUAL_CELLS
    except (OSError, ValueError):
        return _USUAL_CELLS


def _narrowed(table: Table, total: int) -> tuple[Table, list[str]]:
    """The escaped table without the columns that a terminal of `total` cells has no room for, and their names.

    They go in the order of `leave_out`, then the `wide` ones from the last. What tells the rows apart stays.
    """
    rows = [[escape(cell) for cell in row] for row in table.rows]
    natural = [max(map(_width, column)) for column in zip(table.columns, *rows, strict=True)]
    names_least = _names_cells(table, natural, total)
    least = {
        name: min(width, _LEAST_CELLS) if name in table.wide else min(width, names_least.get(name, width))
        for name, width in zip(table.columns, natural, strict=True)
    }
    first = [name for name in table.leave_out if name in least]
    left_out = []
    for name in [*first, *(name for name in table.columns[::-1] if name in table.wide and name not in first)]:
        if sum(least.values()) + _GAP_CELLS * len(least) <= total:
            break
        del least[name]
        left_out.append(name)
    kept = [at for at, name in enumerate(table.columns) if name in least]
    narrow = replace(table, columns=list(least), rows=[[row[at] for at in kept] for row in rows])
    return narrow, [name for name in table.columns if name in left_out]


def _names_cells(table: Table, natural: Sequence[int], total: int) -> dict[str, int]:
    """Cells that each `middle` column keeps: all that it needs up to its part of `_NAMES_SHARE` of the terminal."""
    needed = {name: natural[at] for at, name in enumerate(table.columns) if name in table.middle}
    share = max(int(total * _NAMES_SHARE) // max(len(needed), 1), _LEAST_CELLS)
    return {name: min(width, share) for name, width in needed.items()}


def _terminal_widths(table: Table, rows: Sequence[Sequence[str]], total: int) -> list[int]:
    """Column widths that fill at most `total` cells: what the fixed columns leave goes to those that may be cut.

    Names (`middle`) come first, each of the others keeps a few cells.
    """
    natural = [max(map(_width, column)) for column in zip(table.columns, *rows, strict=True)]
    names_least = _names_cells(table, natural, total)
    names = [at for at, name in enumerate(table.columns) if name in table.middle]
    others = [at for at, name in enumerate(table.columns) if name in table.wide]
    fixed = sum(width for at, width in enumerate(natural) if at not in (*names, *others))
    left = total - _GAP_CELLS * len(natural) - fixed
    kept = sum(min(natural[at], _LEAST_CELLS) for at in others)
    for group, kept_back in ((names, kept), (others, 0)):
        # The smallest first, so that what they do not need goes to the others.
        for done, at in enumerate(sorted(group, key=natural.__getitem__)):
            least = names_least.get(table.columns[at], _LEAST_CELLS)
            natural[at] = min(natural[at], max((left - kept_back) // (len(group) - done), least))
            left -= natural[at]
    return natural


def cut(text: str, cells: int, *, middle: bool) -> str:
    """`text` in at most `cells` terminal cells, an ellipsis standing for what is gone."""
    if _width(text) <= cells:
        return text
    tail = (cells - 1) // 2 if middle else 0
    end = _last_cells(text, tail)
    return f"{_last_cells(text[::-1], cells - 1 - _width(end))[::-1]}…{end}"


def _last_cells(text: str, cells: int) -> str:
    start = len(text)
    while start and _width(text[start - 1 :]) <= cells:
        start -= 1
    return text[start:]


def _width(text: str) -> int:
    if text.isascii():
        return len(text)
    return sum(
        0 if unicodedata.combining(char) else 2 if unicodedata.east_asian_width(char) in "WF" else 1 for char in text
    )


def _escaped(found: re.Match[str]) -> str:
    code = ord(found.group())
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}"


def _escaped_utf8(found: re.Match[bytes]) -> bytes:
    return b"\\u%04x" % ord(found.group().decode("utf-8"))
