"""Reading `sessions.json`: every entry by itself, as JavaScript reads the file, in the room of its text."""

from __future__ import annotations

import hashlib
import io
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from openclaw_cli.migration import members
from openclaw_cli.migration.index import Index, read_index

VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**53), 2**53)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=6),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=12,
)


class Drops(io.BytesIO):
    """A stream that gives a few bytes at a time, so that every place is once the end of what was read."""

    def __init__(self, data: bytes, size: int) -> None:
        super().__init__(data)
        self._size = size

    def read(self, size: int | None = -1) -> bytes:
        """At most the size of a drop."""
        return super().read(min(self._size, size) if size and size > 0 else self._size)


def members_of(data: bytes, drop: int = 2**20) -> list[tuple[str, Any]]:
    """(key, value) of every member; the text of each is parsed again, since that is what is kept."""
    found = []
    for key, raw, value in members.Members(Drops(data, drop)).read():  # type: ignore[arg-type]
        assert value == json.loads(raw)
        found.append((key, value))
    return found


def index_of(tmp_path: Path, data: bytes) -> Index:
    """The index that these bytes are."""
    path = tmp_path / "sessions.json"
    path.write_bytes(data)
    return read_index(path)


def row(number: int) -> bytes:
    """The JSON text of an entry."""
    return json.dumps({"sessionId": f"s{number}", "updatedAt": number}).encode()


@given(st.dictionaries(st.text(max_size=8), VALUES, max_size=5), st.sampled_from([None, 1, 2, 4]), st.integers(1, 40))
def test_members_are_those_of_the_whole_document(document: dict[str, Any], indent: int | None, drop: int) -> None:
    """Whatever the layout and wherever a read ends, the members are those that one parse of the file gives."""
    data = json.dumps(document, indent=indent, ensure_ascii=False).encode("utf-8", "surrogatepass")
    assert list(document.items()) == members_of(data, drop)


@given(st.dictionaries(st.text(max_size=8), VALUES, min_size=1, max_size=3), st.integers(1, 40), st.data())
def test_a_torn_file_is_broken_inside_what_there_is(document: dict[str, Any], drop: int, data: st.DataObject) -> None:
    """A file that ends early is broken, at a place inside what there is."""
    text = json.dumps(document, indent=2).encode()
    cut = text[: data.draw(st.integers(1, len(text) - 1))]
    with pytest.raises(members.Broken) as caught:
        members_of(cut, drop)
    assert 0 < caught.value.offset <= len(cut)


@pytest.mark.parametrize("text", [b"", b" ", b"[]", b"1", b'"a"', b"\xc2\xa0{}", b"{}x", b'{"a":1}\xe2\x80\xa8'])
def test_what_is_no_plain_object_is_left_undecided(text: bytes) -> None:
    """The caller's complete parser judges these."""
    with pytest.raises(members.Undecided):
        members_of(text)


def test_a_brace_at_the_keys_indentation_inside_a_string_ends_nothing(tmp_path: Path) -> None:
    """An object on one line holds no line end, but a compact object may be followed by one that ends so."""
    data = b'{\n  "a": {"sessionId": "s1", "updatedAt": 1},\n  "b": {\n    "sessionId": "s2", "updatedAt": 2\n  }\n}'
    index = index_of(tmp_path, data)
    assert [("a", "s1"), ("b", "s2")] == [(entry.key, entry.session_id) for entry in index.entries]


def test_the_last_of_equal_keys_counts_at_the_place_of_the_first(tmp_path: Path) -> None:
    """As in JavaScript; keys that are array indexes come first, by size."""
    names = [b"a", b"10", b"b", b"a", b"9"]
    data = b"{" + b",".join(b'"%b":%b' % (name, row(number)) for number, name in enumerate(names)) + b"}"
    found = [(entry.key, entry.session_id) for entry in index_of(tmp_path, data).entries]
    assert [("9", "s4"), ("10", "s1"), ("a", "s3"), ("b", "s2")] == found


def test_a_bad_entry_costs_only_itself(tmp_path: Path) -> None:
    """An entry that is no object is an issue with its key; a byte order mark is passed over."""
    data = b'\xef\xbb\xbf{"a":' + row(1) + b',"b":7,"c":' + row(3) + b"}"
    index = index_of(tmp_path, data)
    assert ["a", "c"] == [entry.key for entry in index.entries]
    assert [("entry_invalid", "b")] == [(issue.code, issue.session_key) for issue in index.issues]
    assert (len(data), hashlib.sha256(data).hexdigest()) == (index.size_bytes, index.sha256)


@pytest.mark.parametrize("indent", [None, 2])
def test_a_torn_index_says_where_it_ends(tmp_path: Path, indent: int | None) -> None:
    """`store_unreadable` names the byte from which on the file cannot be read; its digest is that of all of it."""
    whole = json.dumps({"a": {"sessionId": "s1"}, "b": {"sessionId": "s2"}}, indent=indent).encode()
    data = whole[: whole.index(b"s2")]
    index = index_of(tmp_path, data)
    (issue,) = index.issues
    assert (False, "store_unreadable", data.rindex(b'"')) == (index.usable, issue.code, issue.facts["byteOffset"])
    assert (len(data), hashlib.sha256(data).hexdigest()) == (index.size_bytes, index.sha256)


def test_a_deep_entry_is_read_all_the_same(tmp_path: Path) -> None:
    """Nesting beyond what the fast parsers hold goes the complete parser's way."""
    deep = b'{"sessionId":"s1","x":' + b"[" * 5000 + b"]" * 5000 + b"}"
    (entry,) = index_of(tmp_path, b'{"a":' + deep + b"}").entries
    assert ("s1", deep) == (entry.session_id, entry.raw)
