"""JSON text as JavaScript writes it."""

from __future__ import annotations

from typing import Any

import pytest

from openclaw_cli import jstext


@pytest.mark.parametrize(
    "raw, expected",
    [
        (b' { "b" : 1 , "a" : [ ] } ', b'{"b":1,"a":[]}'),
        (b'{"b":1,"1":2,"0":3}', b'{"0":3,"1":2,"b":1}'),
        (b'{"01":1,"4294967295":2,"4294967294":3,"-1":4}', b'{"4294967294":3,"01":1,"4294967295":2,"-1":4}'),
        (b'{"a":1,"b":2,"a":3}', b'{"a":3,"b":2}'),
        (b'{"__proto__":{"x":1}}', b'{"__proto__":{"x":1}}'),
        (rb'"\/ \u00e9 \u2028 \u007f \u0001 \b\f\n\r\t"', '"/ é \u2028 \x7f \\u0001 \\b\\f\\n\\r\\t"'.encode()),
        (rb'"\uD800 \uDC00 \ud83d\ude00"', '"\\ud800 \\udc00 😀"'.encode()),
        (rb'{"\uDFFF":1}', rb'{"\udfff":1}'),
        (b"[1.0,-0,-0.0,0.10,1E5,1e20,1e21]", b"[1,0,0,0.1,100000,100000000000000000000,1e+21]"),
        (b"[1e-6,1e-7,123e-9,0.00001]", b"[0.000001,1e-7,1.23e-7,0.00001]"),
        (b"[9007199254740993,18446744073709551616]", b"[9007199254740992,18446744073709552000]"),
        (b"[1e400,-1e400,5e-324]", b"[null,null,5e-324]"),
        (b"9" * 5000, b"null"),
        ("\ufeff\u00a0[1]\u2029".encode(), b"[1]"),
    ],
)
def test_text_is_that_of_json_stringify(raw: bytes, expected: bytes) -> None:
    """JSON.stringify(JSON.parse(raw)), as Node gives it."""
    assert expected == jstext.stringify(raw, jstext.parse(raw))


@pytest.mark.parametrize(
    "raw",
    [b"NaN", b"[Infinity]", b'"\t"', b'"\x00"', b"\xff", b'"\xed\xa0\x80"', b'{"a":1}}', b"[1,]", b"01", b"-", b""],
)
def test_what_json_parse_refuses_is_refused(raw: bytes) -> None:
    """The lenient way of Python's own parser must not let any of these through."""
    with pytest.raises(ValueError):
        jstext.parse(raw)


@pytest.mark.parametrize("good", [True, False])
def test_deep_texts_need_no_recursion(good: bool) -> None:
    """Both of Python's parsers give up near 1000 levels."""
    raw = b'{"k":[' * 3000 + b"1e0" + b"]}" * (3000 if good else 2999)

    if good:
        assert raw.replace(b"1e0", b"1") == jstext.stringify(raw, jstext.parse(raw))
    else:
        with pytest.raises(ValueError):
            jstext.parse(raw)


def test_an_unchanged_line_is_not_copied() -> None:
    """A long line is not held twice."""
    raw = b'{"type":"message","cost":0.25}'

    assert jstext.stringify(raw, jstext.parse(raw)) is raw


@pytest.mark.parametrize("value", [1.0, 2**60, {"1": 1, "a": 2}, {"": 1.5}, "\ud800", [[{"x": [1e22]}]], float("nan")])
def test_the_fast_way_knows_what_it_cannot_do(value: Any) -> None:
    """Values that orjson writes in another way, or not at all, take the exact one."""
    assert jstext._exact(value) == jstext.dumps(value)
