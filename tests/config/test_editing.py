"""Edits of `openclaw.json` by spans: comments and order stay, and only what was meant changes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from openclaw_cli.config.editing import Edit, Insert, Remove, Rename, Replace, after, edited
from openclaw_cli.config.json5_spans import NotEditableError
from openclaw_cli.config.openclaw_json import parse_text
from openclaw_cli.errors import ConfigError

HERE = Path("openclaw.json")


@pytest.mark.parametrize(
    ("before", "edit", "expected"),
    [
        ('{"a": 1, "b": 2}', Remove(("a",)), '{"b": 2}'),
        ('{"a": 1, "b": 2}', Remove(("b",)), '{"a": 1}'),
        ('{"a": 1}', Remove(("a",)), "{}"),
        ('{\n  "a": 1,\n  "b": 2\n}\n', Remove(("a",)), '{\n  "b": 2\n}\n'),
        ('{\n  "a": 1,\n  "b": 2\n}\n', Remove(("b",)), '{\n  "a": 1\n}\n'),
        ("{\n  a: 1, // why\n  b: 2,\n}\n", Remove(("a",)), "{\n  // why\n  b: 2,\n}\n"),
        ("{\n  a: 1, // why\n  b: 2\n}\n", Remove(("b",)), "{\n  a: 1 // why\n}\n"),
        ("{a: {b: 1, 'c': [1, {d: 2}]}}", Remove(("a", "c")), "{a: {b: 1}}"),
        ("{a: 1}", Rename(("a",), "b"), '{"b": 1}'),
        ("{\n  a: 1\n}", Insert(("b",), {"c": 2}), '{\n  a: 1,\n  "b": {"c": 2}\n}'),
        ("{\n  a: 1,\n}", Insert(("b",), 2), '{\n  a: 1,\n  "b": 2,\n}'),
        ("{\r\n\ta: 1\r\n}", Insert(("b",), 2), '{\r\n\ta: 1,\r\n\t"b": 2\r\n}'),
        ("{}", Insert(("b",), 2), '{"b": 2}'),
        ("{a: {}}", Insert(("a", "b"), None), '{a: {"b": null}}'),
        ("{a: 0x10 /* sixteen */, b: 1}", Replace(("a",), "x"), '{a: "x" /* sixteen */, b: 1}'),
        ('\ufeff{"a": 1, "b": "}, \\" // no comment"}', Remove(("a",)), '\ufeff{"b": "}, \\" // no comment"}'),
    ],
)
def test_what_an_edit_leaves(before: str, edit: Edit, expected: str) -> None:
    """Byte for byte."""
    assert expected == edited(before.encode(), [edit], HERE).decode()


@pytest.mark.parametrize(
    ("text", "edit"),
    [
        ('{"a": 1, "a": 2}', Remove(("a",))),
        ("{a: 1}", Insert(("a",), 2)),
        (r'{"\u0061": 1, b: 2}', Remove(("a",))),
    ],
)
def test_what_is_not_safe_is_refused(text: str, edit: Edit) -> None:
    """A key twice, a key in disguise, a key that is there."""
    with pytest.raises(NotEditableError):
        edited(text.encode(), [edit], HERE)


def test_an_invalid_file_is_no_matter_of_editing() -> None:
    """It is a faulty configuration, and says so without quoting it."""
    with pytest.raises(ConfigError) as caught:
        edited(b'{"secret-token": ', [Remove(("a",))], HERE)

    assert "secret" not in caught.value.message


NAMES = st.sampled_from(("a", "b", "session", "it's", "ä", "$x", "a b", "//", "{"))
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=3),
    max_leaves=8,
)


def written(value: Any, draw: Any) -> str:
    """`value` as somebody might write it: quotes, commas, comments and white space differ."""
    space = draw(st.sampled_from(("", " ", "\n  ", ' // x, } "\n', " /* : , ' */ ", "\t", "\r\n")))
    if isinstance(value, dict | list):
        named = [f"{json.dumps(key, ensure_ascii=False)}{space}:{space}" for key in value]
        names = named if isinstance(value, dict) else [""] * len(value)
        items = value.values() if isinstance(value, dict) else value
        parts = [f"{space}{name}{written(item, draw)}{space}" for name, item in zip(names, items, strict=True)]
        end = "," if parts and draw(st.booleans()) else ""
        opening, closing = "{}" if isinstance(value, dict) else "[]"
        return f"{opening}{','.join(parts)}{end}{space}{closing}"
    return json.dumps(value)


@given(st.dictionaries(NAMES, VALUES, min_size=1, max_size=4), st.data())
def test_any_member_can_be_edited(document: dict[str, Any], data: st.DataObject) -> None:
    """Whatever stands around it, the result says what was meant, and everything else as before."""
    text = written(document, data.draw)
    key = data.draw(st.sampled_from(sorted(document)))
    edit = data.draw(
        st.sampled_from((Remove((key,)), Rename((key,), "renamed"), Replace((key,), 7), Insert(("new",), {"x": [1]})))
    )

    result = parse_text(edited(text.encode(), [edit], HERE), HERE)

    assert after(document, [edit]) == result
