"""The renderer: escaping, documents with rows, tables in pipes and on terminals."""

from __future__ import annotations

import io
import json
import sys
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from openclaw_cli.cli import output
from openclaw_cli.cli.output import Table

JSON_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)


@given(st.text(st.characters(codec=None)))
def test_escaped_text_cannot_act_on_a_terminal(text: str) -> None:
    """Whatever is stored, one printable line comes out, and plain text stays as it is."""
    shown = output.escape(text)

    assert not any(ord(char) < 32 or 0x7F <= ord(char) < 0xA0 or 0xD800 <= ord(char) < 0xE000 for char in shown)
    assert output.escape(shown) == shown


@pytest.mark.parametrize(("text", "shown"), [
    ("a\nb", "a\\x0ab"), ("\x1b[2J", "\\x1b[2J"), ("\x9b", "\\x9b"), ("\u202e", "\\u202e"), ("\udc80", "\\udc80"),
    ("größe 本", "größe 本"), ("", ""),
])  # fmt: skip
def test_escape(text: str, shown: str) -> None:
    """Control characters of all kinds become their escape, letters stay."""
    assert shown == output.escape(text)


@given(JSON_VALUES)
def test_json_means_the_value_and_holds_no_control_character(value: Any) -> None:
    """Escaping in JSON changes the text and not what it means; line breaks come from the indent alone."""
    data = output.dump(value)

    assert value == json.loads(data)
    assert not any((ord(char) < 32 and char != "\n") or 0x7F <= ord(char) < 0xA0 for char in data.decode("utf-8"))
    assert b"\n" not in output.dump(value, indent=False)


def test_json_takes_what_stored_json_may_hold() -> None:
    """Lone surrogates and integers beyond 64 bits are written, not refused."""
    assert b'["\\ud800",36893488147419103232]' == output.dump(["\ud800", 2**65], indent=False).replace(b", ", b",")


@given(
    st.dictionaries(st.text(min_size=1), JSON_VALUES, max_size=3),
    st.lists(st.dictionaries(st.text(), JSON_VALUES, max_size=3), max_size=4),
)
def test_rows_are_written_like_one_document(head: dict[str, Any], rows: list[dict[str, Any]]) -> None:
    """Row by row means what the whole document would mean."""
    head.pop("rows", None)
    written: list[bytes] = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(output, "_write", written.append)
        output.write_document_with_rows(head, "rows", iter(rows))

    assert {**head, "rows": rows} == json.loads(b"".join(written))


@pytest.mark.parametrize("rows", [[], [{}], [{"a": [1, {"b": 2}]}, {"c": []}]])
def test_rows_are_indented_like_one_document(
    rows: list[dict[str, Any]], capsysbinary: pytest.CaptureFixture[bytes]
) -> None:
    """Ordinary rows give the very bytes that the whole document would give."""
    output.write_document_with_rows({"count": len(rows)}, "rows", iter(rows))

    assert output.dump({"count": len(rows), "rows": rows}) + b"\n" == capsysbinary.readouterr().out


def test_plain_table() -> None:
    """Columns two spaces apart, right-aligned where asked, wide letters counted as two, nothing at line ends."""
    table = Table(("Name", "Size"), [("本本", "7"), ("a\tb", "1000")], right=frozenset({"Size"}))

    assert ["Name    Size", "本本       7", "a\\x09b  1000"] == list(output.plain_lines(table))


@pytest.mark.parametrize(("text", "cells", "middle", "wanted"), [
    ("agent:main:main", 20, True, "agent:main:main"),
    ("abcdefghij", 7, True, "abc…hij"),
    ("abcdefghij", 6, True, "abc…ij"),
    ("abcdefghij", 6, False, "abcde…"),
    ("本本本本", 5, False, "本本…"),
    ("abc", 1, True, "…"),
])  # fmt: skip
def test_cut(text: str, cells: int, middle: bool, wanted: str) -> None:
    """A cut text fits and shows by an ellipsis that something is gone."""
    assert wanted == output.cut(text, cells, middle=middle)


@given(
    st.lists(st.tuples(st.text(max_size=60), st.text(max_size=60), st.text(max_size=60)), max_size=5),
    st.integers(40, 120),
)
def test_a_terminal_table_fits(rows: list[tuple[str, str, str]], total: int) -> None:
    """Columns that may be cut leave the table within the terminal."""
    table = Table(("Key", "Label", "Flags"), rows, middle=frozenset({"Key"}), wide=frozenset({"Label", "Flags"}))
    narrowed, left_out = output._narrowed(table, total)
    widths = output._terminal_widths(narrowed, list(narrowed.rows), total)

    assert sum(widths) + 2 * len(widths) <= total
    assert "Key" == narrowed.columns[0]
    assert sorted(table.columns) == sorted([*narrowed.columns, *left_out])


KEYS = [f"agent:main:telegram:group:-100{number:04}:s{number:04}" for number in range(3)]
LISTED = Table(
    ("Kind", "Key", "Age", "Model", "Flags"),
    [("group", key, "9d ago", "gpt-6-astra", "system id:5f0c2a9e-3b1d-4c58-9a57-0d2f6e8b1c05") for key in KEYS],
    wide=frozenset({"Flags"}),
    middle=frozenset({"Key"}),
    leave_out=("Flags", "Model", "Kind", "Age"),
)


class Terminal(io.StringIO):
    """A stdout that says it is a terminal."""

    def isatty(self) -> bool:
        """Yes."""
        return True


def on_terminal(monkeypatch: pytest.MonkeyPatch, table: Table, **env: str) -> str:
    """What a table looks like on a terminal."""
    for name, value in {"TERM": "xterm-256color", **env}.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(sys, "stdout", stream := Terminal())
    output.write_table(table)
    return stream.getvalue()


@pytest.mark.parametrize("cells", [50, 66, 80])
def test_keys_were_cut_to_what_names_nothing(monkeypatch: pytest.MonkeyPatch, cells: int) -> None:
    """A key that takes no more than 60 % of the terminal stands whole; other columns go first, and are named."""
    shown = on_terminal(monkeypatch, LISTED, COLUMNS=str(cells), NO_COLOR="1")

    assert all(key in shown for key in KEYS if len(key) <= 0.6 * cells)
    assert all(key[-8:] in shown for key in KEYS)
    assert "not shown at this width: " in shown.splitlines()[-1]
    assert "Flags" in shown.splitlines()[-1]
    assert max(map(len, shown.splitlines()[:-1])) <= cells


@pytest.mark.parametrize("columns", ["0", "", "-5", "many", "\u0663"])
def test_a_width_that_is_none_hid_every_row(monkeypatch: pytest.MonkeyPatch, columns: str) -> None:
    """COLUMNS that is no width is not looked at: the table is as wide as an ordinary terminal."""
    shown = on_terminal(monkeypatch, LISTED, COLUMNS=columns, NO_COLOR="1")

    assert on_terminal(monkeypatch, LISTED, COLUMNS="80", NO_COLOR="1") == shown
    assert all(key in shown for key in KEYS)


@pytest.mark.parametrize("columns", ["1", "10", "25"])
def test_a_tiny_terminal_loses_no_row(monkeypatch: pytest.MonkeyPatch, columns: str) -> None:
    """Each row has its line, however narrow it is."""
    shown = on_terminal(monkeypatch, LISTED, COLUMNS=columns, NO_COLOR="1")

    assert 2 + len(KEYS) + 1 == len(shown.splitlines())


def test_no_color_left_bold(monkeypatch: pytest.MonkeyPatch) -> None:
    """NO_COLOR means no attribute of any kind; without it the header stands out."""
    assert "\x1b" not in on_terminal(monkeypatch, LISTED, NO_COLOR="1")
    assert "\x1b[1m" in on_terminal(monkeypatch, LISTED, NO_COLOR="")
