"""JSON text exactly as JavaScript reads and writes it.

The real importer stores `JSON.stringify(JSON.parse(line))`, so a row of ours equals a row of its only when numbers,
key order and escapes follow ECMAScript. orjson does nearly all of it in C; this module knows where the two differ
(dependencies §0.3) and takes a slow exact way for those values only:

* numbers: every number is a double (`18446744073709551616` → `18446744073709552000`), `1.0` → `1`, `-0` → `0`,
  decimal notation from 1e-6 up to below 1e21, an infinite one (`1e400`) → `null`;
* keys that are array indexes (`"0"` … `"4294967294"`) come first, ascending; of duplicate keys the last value stands
  at the first position (a Python dict does that by itself);
* a lone surrogate is an escape `\\udXXX` in lower case; U+2028 and the like stand raw.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from json.decoder import scanstring
from typing import Any, NoReturn

import orjson

# The white space of String.prototype.trim: the real importer trims each decoded line before it parses it.
JS_WHITESPACE = (
    "\t\n\v\f\r \u00a0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a"
    "\u2028\u2029\u202f\u205f\u3000\ufeff"
)

_LAST_SAFE_INTEGER = 2**53 - 1
_MAX_ARRAY_INDEX = 2**32 - 2
_LONGEST_EXACT_INT = 19
_LONG_BYTES = 8 * 2**20
"""Size from which on a text is worth some care with memory, if it is one of few and long strings."""
_LONG_BYTES_PER_QUOTE = 1000
_STRING_STEP = 2**16
_LONE_SURROGATE = re.compile("([\ud800-\udfff])")
_INDEX_KEY = re.compile(r"(?:0|[1-9][0-9]{0,9})\Z")
_SPACE = re.compile(r"[ \t\n\r]*")
_NUMBER = re.compile(r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][-+]?[0-9]+)?")
_WORDS: tuple[tuple[str, Any], ...] = (("true", True), ("false", False), ("null", None))


def parse(raw: bytes) -> Any:
    """The value of one JSON text, accepting exactly what `JSON.parse` accepts of the decoded and trimmed text.

    Raises ValueError for anything else: invalid UTF-8 (UTF-8 coded surrogates too), NaN literals, raw control
    characters inside strings, trailing text.
    """
    try:
        return orjson.loads(raw)
    except (ValueError, RecursionError):
        return parse_text(raw.decode("utf-8"))


def parse_text(text: str, *, control_characters: bool = False) -> Any:
    """The value of a decoded JSON text: the way for what orjson refuses and JavaScript accepts.

    `control_characters=True` lets raw control characters stand inside strings. No reader of the real program does
    so; it tells a damaged line that is whole otherwise from one that is not. Raises ValueError.
    """
    trimmed = text.strip(JS_WHITESPACE)
    try:
        return (_LENIENT if control_characters else _STRICT).decode(trimmed)
    except RecursionError:
        return _decode_deep(trimmed, strict=not control_characters)


def raw_decode(text: str, start: int) -> tuple[Any, int]:
    """The value that begins at `start` and the index behind it; control characters may stand inside strings.

    Raises json.JSONDecodeError, or RecursionError for nesting beyond the interpreter's limit.
    """
    return _LENIENT.raw_decode(text, start)


def first_value(text: str) -> tuple[Any, int]:
    """The value at the beginning of `text` and the index behind it, by the same rules as `parse`.

    Raises json.JSONDecodeError, or RecursionError for nesting beyond the interpreter's limit.
    """
    return _STRICT.raw_decode(text)


def dumps(value: Any) -> bytes:
    """UTF-8 of `JSON.stringify(value)` for a value that `parse` gave (or one built of the same types)."""
    try:
        text = orjson.dumps(value, option=orjson.OPT_STRICT_INTEGER)
    except (TypeError, RecursionError):
        return _exact(value)
    return _exact(value) if _differs(value) else text


def stringify(raw: bytes, value: Any) -> bytes:
    """UTF-8 of `JSON.stringify(JSON.parse(raw))`, where `value` is what `parse(raw)` gave.

    The very object `raw` comes back when nothing changes, so that a long line is not held twice.
    """
    if len(raw) >= _LONG_BYTES and raw.count(b'"') < len(raw) // _LONG_BYTES_PER_QUOTE and _is_written_as(raw, value):
        return raw
    text = dumps(value)
    return raw if text == raw else text


def _is_written_as(raw: bytes, value: Any) -> bool:
    """Whether `raw` is the text of `value`, compared piece by piece.

    Writing a long string at once costs its length twice: for the text, and for the form that Python keeps in the
    string. A long line has no room for that (memory: four times the line).
    """
    at = 0
    for piece in _pieces(value):
        if not raw.startswith(piece, at):
            return False
        at += len(piece)
    return at == len(raw)


# --- where orjson and JavaScript may differ ---------------------------------------------------------------------------


_PLAIN = frozenset((str, int, bool, type(None)))


def _differs(value: Any) -> bool:
    """Whether a number or a key in `value` may be written differently by orjson and by JavaScript.

    Integers are no concern here: OPT_STRICT_INTEGER has refused those beyond 2^53. Cheap, because the inner loops
    run in C: `min` finds a key that begins with a digit, a set of types tells whether the members need a look.
    """
    if type(value) is float:
        return _float_differs(value)
    containers = [value] if type(value) in (dict, list) else []
    for node in containers:
        members = node
        if type(node) is dict:
            if node and min(node) < ":":
                return True
            members = node.values()
        if _PLAIN.issuperset(map(type, members)):
            continue
        for member in members:
            kind = type(member)
            if kind is dict or kind is list:
                containers.append(member)
            elif kind is float and _float_differs(member):
                return True
    return False


def _float_differs(number: float) -> bool:
    return number.is_integer() or not 1e-5 <= abs(number) < 1e15


# --- the exact serializer ---------------------------------------------------------------------------------------------


def _exact(value: Any) -> bytes:
    """`JSON.stringify(value)` for every value."""
    return b"".join(_pieces(value))


def _pieces(value: Any) -> Iterator[bytes]:
    """`JSON.stringify(value)` without recursion, so that depth costs memory only."""
    # Bytes on the stack are text that is ready to go out; everything else is a value still to be written.
    stack: list[Any] = [value]
    while stack:
        item = stack.pop()
        kind = type(item)
        if kind is bytes:
            yield item
        elif kind is dict:
            _push_object(item, stack)
        elif kind is list:
            _push_array(item, stack)
        elif kind is str and len(item) > _STRING_STEP:
            yield b'"'
            for start in range(0, len(item), _STRING_STEP):
                yield _string(item[start : start + _STRING_STEP])[1:-1]
            yield b'"'
        else:
            yield _scalar(item)


def _push_object(members: Mapping[str, Any], stack: list[Any]) -> None:
    keys = property_order(members)
    stack.append(b"}")
    for position in range(len(keys) - 1, -1, -1):
        key = keys[position]
        stack.append(members[key])
        stack.append((b"," if position else b"") + _string(key) + b":")
    stack.append(b"{")


def _push_array(members: list[Any], stack: list[Any]) -> None:
    stack.append(b"]")
    for position in range(len(members) - 1, -1, -1):
        stack.append(members[position])
        if position:
            stack.append(b",")
    stack.append(b"[")


def property_order(members: Mapping[str, Any]) -> list[str]:
    """Array indexes first, ascending, then the other keys as they came (ECMAScript OrdinaryOwnPropertyKeys)."""
    indexes = [key for key in members if _INDEX_KEY.match(key) and int(key) <= _MAX_ARRAY_INDEX]
    if not indexes:
        return list(members)
    found = set(indexes)
    return sorted(indexes, key=int) + [key for key in members if key not in found]


def _scalar(value: Any) -> bytes:
    if type(value) is str:
        return _string(value)
    if value is None or value is True or value is False:
        return orjson.dumps(value)
    return _number(value).encode("ascii")


def _string(text: str) -> bytes:
    try:
        return orjson.dumps(text)
    except TypeError:
        parts = _LONE_SURROGATE.split(text)
        written = [
            b"\\u%04x" % ord(part) if index % 2 else orjson.dumps(part)[1:-1] for index, part in enumerate(parts)
        ]
        return b'"' + b"".join(written) + b'"'


def _number(value: int | float) -> str:
    """Number::toString of ECMAScript, with `null` for what JSON cannot hold."""
    if type(value) is int:
        if -_LAST_SAFE_INTEGER <= value <= _LAST_SAFE_INTEGER:
            return str(value)
        try:
            value = float(value)
        except OverflowError:
            return "null"
    if value != value or value in (float("inf"), float("-inf")):
        return "null"
    if value == 0:
        return "0"
    sign = "-" if value < 0 else ""
    return sign + _layout(*_shortest(abs(value)))


def _shortest(value: float) -> tuple[str, int]:
    """The shortest digits that give `value` back, and n so that the value is 0.DIGITS × 10^n.

    Python's repr finds the same digits as ECMAScript asks for; only the way to lay them out differs.
    """
    mantissa, _, exponent = repr(value).partition("e")
    whole, _, fraction = mantissa.partition(".")
    point = len(whole) + int(exponent or 0)
    digits = whole + fraction
    stripped = digits.lstrip("0")
    return stripped.rstrip("0"), point - (len(digits) - len(stripped))


def _layout(digits: str, point: int) -> str:
    count = len(digits)
    if count <= point <= 21:
        return digits + "0" * (point - count)
    if 0 < point <= 21:
        return f"{digits[:point]}.{digits[point:]}"
    if -6 < point <= 0:
        return "0." + "0" * -point + digits
    exponent = point - 1
    fraction = f".{digits[1:]}" if count > 1 else ""
    return f"{digits[0]}{fraction}e{'+' if exponent > 0 else '-'}{abs(exponent)}"


# --- the slow parser --------------------------------------------------------------------------------------------------


def _integer(text: str) -> int | float:
    # Python refuses integers of more than 4300 digits; JavaScript reads a double anyway.
    return int(text) if len(text) <= _LONGEST_EXACT_INT else float(text)


def _refuse_constant(name: str) -> NoReturn:
    raise json.JSONDecodeError("not a JSON value", name, 0)


_STRICT = json.JSONDecoder(parse_int=_integer, parse_constant=_refuse_constant)
_LENIENT = json.JSONDecoder(parse_int=_integer, parse_constant=_refuse_constant, strict=False)


def _decode_deep(text: str, *, strict: bool) -> Any:
    """A parser without recursion: JSON.parse of V8 has no depth limit, both of Python's parsers have one."""
    root: list[Any] = []
    # Innermost last: the open containers, and for each object the key whose value is read next.
    open_containers: list[Any] = [root]
    keys: list[str | None] = [None]
    at = 0
    while True:
        at = _skip(text, at)
        opener = text[at : at + 1]
        value: Any
        if opener in ("{", "["):
            value = {} if opener == "{" else []
            at += 1
        else:
            value, at = _decode_scalar(text, at, strict)
        _attach(open_containers[-1], keys[-1], value)
        if opener in ("{", "["):
            open_containers.append(value)
            keys.append(None)
            following = _skip(text, at)
            if text[following : following + 1] != ("}" if opener == "{" else "]"):
                if opener == "{":
                    keys[-1], at = _decode_key(text, at, strict)
                continue
        at = _close_and_advance(text, at, open_containers, keys, strict)
        if len(open_containers) == 1:
            break
    if _skip(text, at) != len(text):
        raise json.JSONDecodeError("extra text", "", 0)
    return root[0]


def _close_and_advance(text: str, at: int, open_containers: list[Any], keys: list[str | None], strict: bool) -> int:
    """Behind a value: close what closes there, or step over the comma (and the next key) to the next value."""
    while len(open_containers) > 1:
        at = _skip(text, at)
        mark = text[at : at + 1]
        is_object = type(open_containers[-1]) is dict
        if mark == ",":
            at += 1
            if is_object:
                keys[-1], at = _decode_key(text, at, strict)
            return at
        if mark != ("}" if is_object else "]"):
            raise json.JSONDecodeError("a bracket does not fit", "", at)
        open_containers.pop()
        keys.pop()
        at += 1
    return at


def _attach(container: Any, key: str | None, value: Any) -> None:
    if type(container) is dict:
        container[key] = value
    else:
        container.append(value)


def _decode_key(text: str, at: int, strict: bool) -> tuple[str, int]:
    at = _skip(text, at)
    if text[at : at + 1] != '"':
        raise json.JSONDecodeError("a key is missing", "", at)
    key, at = scanstring(text, at + 1, strict)
    at = _skip(text, at)
    if text[at : at + 1] != ":":
        raise json.JSONDecodeError("a colon is missing", "", at)
    return key, at + 1


def _decode_scalar(text: str, at: int, strict: bool) -> tuple[Any, int]:
    if text[at : at + 1] == '"':
        return scanstring(text, at + 1, strict)
    for word, value in _WORDS:
        if text.startswith(word, at):
            return value, at + len(word)
    number = _NUMBER.match(text, at)
    if number is None:
        raise json.JSONDecodeError("not a JSON value", "", at)
    written = number.group()
    is_integer = written.lstrip("-").isdigit()
    return (_integer(written) if is_integer else float(written)), number.end()


def _skip(text: str, at: int) -> int:
    found = _SPACE.match(text, at)
    return found.end() if found else at
