"""The fast and the slow way to JSON text agree on everything."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import example, given, settings
from hypothesis import strategies as st

from openclaw_cli import jstext

KEYS = ["0", "1", "10", "01", "", "__proto__", "4294967294", "4294967295"]
# A high and a low surrogate side by side are one character in JavaScript; no parser gives them apart.
LONE = st.text("\ud800\u2028x", max_size=3) | st.text("\udfffé\n", max_size=3)
TEXT = st.text(max_size=12) | LONE | st.sampled_from(KEYS)
NUMBERS = st.integers() | st.floats() | st.integers(-(2**70), 2**70)
VALUES = st.recursive(
    st.none() | st.booleans() | NUMBERS | TEXT,
    lambda inner: st.lists(inner, max_size=5) | st.dictionaries(TEXT, inner, max_size=5),
    max_leaves=20,
)


@settings(deadline=None)
@given(VALUES)
@example({"a": 1e16, "b": [1e-6, 123456789.125]})
def test_fast_equals_exact(value: Any) -> None:
    """`dumps` takes orjson only where the exact serializer would write the same."""
    assert jstext._exact(value) == jstext.dumps(value)


@settings(deadline=None)
@given(VALUES)
def test_text_is_stable(value: Any) -> None:
    """What was written once is read and written again as it is."""
    text = jstext.dumps(value)
    assert text == jstext.stringify(text, jstext.parse(text))


@settings(deadline=None)
@given(VALUES)
def test_the_parser_without_recursion_reads_the_same(value: Any) -> None:
    """On any JSON text, also with white space and escapes."""
    text = json.dumps(value, allow_nan=False, indent=1) if _finite(value) else "[]"

    assert jstext.dumps(jstext.parse_text(text)) == jstext.dumps(jstext._decode_deep(text, strict=True))


@settings(deadline=None)
@given(st.text(alphabet='{}[]",:0123456789.eE+-tfn\\u \t', max_size=20))
def test_the_parsers_refuse_the_same(text: str) -> None:
    """On any text that may be JSON or not."""
    trimmed = text.strip(jstext.JS_WHITESPACE)

    assert _outcome(jstext.parse_text, text) == _outcome(lambda t: jstext._decode_deep(t, strict=True), trimmed)


def _finite(value: Any) -> bool:
    try:
        json.dumps(value, allow_nan=False)
    except ValueError:
        return False
    return True


def _outcome(parse: Any, text: str) -> Any:
    try:
        return jstext.dumps(parse(text))
    except ValueError:
        return "refused"
