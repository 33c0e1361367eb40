"""Text or frame: the choice, the frame, the facts beside it, and reading back."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import orjson
import pytest
import zstandard
from backports import zstd as second_opinion
from hypothesis import given
from hypothesis import strategies as st

from openclaw_cli import jstext
from openclaw_cli.errors import CorruptError
from openclaw_cli.storage import connection
from openclaw_cli.storage.encoding import EncodedEvent, decode, encode
from openclaw_cli.storage.navigation import least_bytes, member_bytes, navigation

REAL_STORES = ("13-s5-after-doctor-fix", "15-z1-zstd", "16-e7-edge-cases")


def event(text: str, **more: Any) -> dict[str, Any]:
    """A message with this text."""
    body = {"role": "user", "content": [{"type": "text", "text": text}], **more}
    return {"type": "message", "id": "1", "parentId": None, "timestamp": "2026-09-21T14:13:21.000Z", "message": body}


def encoded(value: Any) -> EncodedEvent:
    """The columns for a value."""
    return encode(jstext.dumps(value), value)


@pytest.mark.parametrize("name", REAL_STORES)
def test_compressed_rows_of_a_real_store_come_out_the_same(state_copy: Callable[[str], Path], name: str) -> None:
    """Decoding and encoding again gives frame, size and facts byte for byte; the frame reads with another library."""
    columns = "event_json, event_zstd, event_utf8_bytes, navigation_json"
    for database in state_copy(name).rglob("openclaw-agent.sqlite"):
        with connection.open_read(database) as store:
            for row in store.execute(f"SELECT {columns} FROM transcript_events WHERE event_zstd IS NOT NULL"):
                text = decode(*row[:3])
                assert row == tuple(encode(text, orjson.loads(text)))
                assert text == second_opinion.decompress(row[1])


@pytest.mark.parametrize("name", ["13-s5-after-doctor-fix", "16-e7-edge-cases"])
def test_text_rows_of_a_real_store_stay_text(state_copy: Callable[[str], Path], name: str) -> None:
    """What the real program left as text we leave as text."""
    for database in state_copy(name).rglob("openclaw-agent.sqlite"):
        with connection.open_read(database) as store:
            for (text,) in store.execute("SELECT event_json FROM transcript_events WHERE event_zstd IS NULL"):
                raw = text.encode()
                assert EncodedEvent(text, None, len(raw), None) == encode(raw, jstext.parse(raw))


def test_a_long_plain_message_is_compressed() -> None:
    """The frame has level 1's bytes, a checksum and the content size."""
    value = event("some words again and again " * 200)
    found = encoded(value)
    assert found.event_zstd is not None and found.event_json is None
    frame = zstandard.get_frame_parameters(found.event_zstd)
    assert (found.utf8_bytes, True) == (frame.content_size, frame.has_checksum)
    assert jstext.dumps(value) == decode(found.event_json, found.event_zstd, found.utf8_bytes)


@pytest.mark.parametrize(
    "value",
    [
        event("short"),
        event("\\u0041" + "x" * 3000),
        event("lone \ud800" + "x" * 3000),
        {"type": "session", "id": "s", "version": 3, "cwd": "x" * 3000},
        {"type": "message", "id": "1", "message": "x" * 3000},
        {"type": "message", "id": "1", "message": ["x" * 3000]},
        ["x" * 3000],
        "x" * 3000,
        {"type": "session_info", "id": "1", "name": "x" * 20_000},
        event("x" * (4 * 1024 * 1024)),
    ],
    ids=["short", "u", "surrogate", "header", "message", "list", "array", "string", "facts", "huge"],
)
def test_what_stays_text(value: Any) -> None:
    """Everything that the rule excludes is stored as its text."""
    raw = jstext.dumps(value)
    assert EncodedEvent(raw.decode(), None, len(raw), None) == encode(raw, value)


def test_incompressible_text_stays_text() -> None:
    """Below a saving of a tenth nothing is compressed."""
    rng = random.Random(1)
    noise = "".join(rng.choice("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789+/") for _ in range(3000))
    assert encoded(event(noise)).event_zstd is None


def test_nesting_beyond_sqlites_reader_stays_text() -> None:
    """1,000 levels are read by SQLite, one more is not."""

    def nested(levels: int) -> EncodedEvent:
        # The root is one level, the outermost list another.
        data = b"[" * (levels - 1) + b"]" * (levels - 1)
        text = b'{"type":"custom","id":"1","customType":"c","data":%b,"note":"%b"}' % (data, b"word " * 500)
        return encode(text, jstext.parse(text))

    assert nested(1000).event_zstd is not None
    assert nested(1001).event_zstd is None


def test_facts_of_a_tool_result_leave_its_details_out() -> None:
    """`modelBytes` is the size without the details, and `content` is an empty array where there are no calls."""
    value = event("words " * 300, details={"n": 1.5, "text": "x" * 100}, providerReplay={"type": "t"})
    value["message"]["role"] = "toolResult"
    found = encoded(value)
    assert found.navigation_json is not None
    facts = orjson.loads(found.navigation_json)
    without = {key: part for key, part in value["message"].items() if key != "details"}
    bare = {key: part for key, part in without.items() if key != "providerReplay"}
    expected = [len(jstext.dumps({**value, "message": message})) for message in (without, bare)]
    assert expected == [facts["modelBytes"], facts["modelWithoutCheckpointBytes"]]
    assert [] == facts["model"]["message"]["content"]


@given(
    st.dictionaries(
        st.text(max_size=4),
        st.one_of(st.none(), st.booleans(), st.integers(), st.floats(allow_nan=False, allow_infinity=False), st.text()),
        min_size=1,
        max_size=6,
    )
)
def test_member_bytes_is_what_removing_the_member_saves(owner: dict[str, Any]) -> None:
    """The size of a member counts its key, its colon and one comma, except of the only member."""
    key = next(iter(owner))
    rest = {name: value for name, value in owner.items() if name != key}
    assert len(jstext.dumps(owner)) - len(jstext.dumps(rest)) == member_bytes(owner, key)


@given(st.text(max_size=40), st.one_of(st.none(), st.text(max_size=40)), st.text(max_size=30))
def test_the_least_size_of_facts_is_never_too_large(identity: str, parent: str | None, moment: str) -> None:
    """Skipping facts that cannot pay off never skips facts that would."""
    value = event("x")
    value.update(id=identity, parentId=parent, timestamp=moment)
    found = navigation(jstext.dumps(value), value)
    assert found is not None
    assert least_bytes(value) <= len(found)


def test_damaged_frames_are_corrupt() -> None:
    """A flipped byte, a cut, junk behind the frame, another size: each is CORRUPT and quotes nothing."""
    found = encoded(event("some words again and again " * 200))
    frame = found.event_zstd
    assert frame is not None
    flipped = frame[:40] + bytes([frame[40] ^ 1]) + frame[41:]
    sizes = [found.utf8_bytes] * 3 + [found.utf8_bytes - 1, 0]
    for damaged, size in zip((flipped, frame[:-5], frame + b"junk", frame, frame), sizes, strict=True):
        with pytest.raises(CorruptError) as caught:
            decode(None, damaged, size)
        assert "words" not in caught.value.message


def test_a_bomb_is_not_unpacked() -> None:
    """A frame that says it is larger than its row admits is refused before it is unpacked."""
    bomb = zstandard.ZstdCompressor(level=1, write_checksum=True).compress(bytes(50_000_000))
    with pytest.raises(CorruptError):
        decode(None, bomb, 1000)
