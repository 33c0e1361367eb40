"""How one transcript event is stored: as text, or compressed with the facts that queries need beside it.

Rule of the real program (store format §3.3 and §10). An event stays text when it is shorter than 1 KiB or longer than
4 MiB, contains the two characters `\\u` or a NUL, is a session header, is no JSON object or nests deeper than SQLite's
JSON allows, has a `message` that is neither object nor null, has facts of more than 16 KiB, or when compressed bytes
plus facts save less than the greater of 64 bytes and a tenth. Everything else is one zstd frame of level 1 with
checksum and content size.
"""

from __future__ import annotations

from functools import cache
from typing import Any, NamedTuple

import zstandard

from openclaw_cli.errors import CorruptError
from openclaw_cli.storage.navigation import least_bytes, navigation

MAX_COMPRESSED_BYTES = 4 * 1024 * 1024
MIN_COMPRESSED_BYTES = 1024
MAX_NAVIGATION_BYTES = 16_384


class EncodedEvent(NamedTuple):
    """The four columns of `transcript_events` that hold an event; exactly one of the first two is set."""

    event_json: str | None
    event_zstd: bytes | None
    utf8_bytes: int
    navigation_json: str | None


@cache
def _compressor() -> zstandard.ZstdCompressor:
    return zstandard.ZstdCompressor(level=1, write_checksum=True, write_content_size=True)


@cache
def _decompressor() -> zstandard.ZstdDecompressor:
    return zstandard.ZstdDecompressor()


def encode(text: bytes, value: Any) -> EncodedEvent:
    """The columns for the event whose UTF-8 JSON text is `text` and whose parsed form is `value`."""
    packed = compressed(text, value)
    if packed is None:
        return EncodedEvent(text.decode(), None, len(text), None)
    return EncodedEvent(None, packed[0], len(text), packed[1].decode())


def has_escape(text: bytes) -> bool:
    """Whether the two characters `\\u` stand in an event's text; such an event stays text and may hold anything."""
    return b"\\u" in text


def compressed(text: bytes, value: Any, escaped: bool | None = None) -> tuple[bytes, bytes] | None:
    """Frame and facts (UTF-8) of an event that is stored compressed; None when it is stored as text.

    `escaped` is what `has_escape` says of the text, for a caller that has asked already.
    """
    size = len(text)
    if size < MIN_COMPRESSED_BYTES or size > MAX_COMPRESSED_BYTES or type(value) is not dict:
        return None
    if has_escape(text) if escaped is None else escaped:
        return None
    if value.get("type") == "session" and type(value.get("id")) is str:
        return None
    allowed = size - max(64, -(-size // 10))
    frame = _compressor().compress(text)
    if len(frame) + least_bytes(value) > allowed:
        return None
    facts = navigation(text, value)
    if facts is None or len(facts) > MAX_NAVIGATION_BYTES or len(frame) + len(facts) > allowed:
        return None
    return frame, facts


def decode(event_json: str | None, event_zstd: bytes | None, utf8_bytes: int | None) -> bytes:
    """The JSON text of a stored event. Raises CorruptError when a frame is damaged or has not the recorded size."""
    if event_json is not None:
        return event_json.encode()
    if event_zstd is None or utf8_bytes is None or not 0 < utf8_bytes <= MAX_COMPRESSED_BYTES:
        raise CorruptError("a stored event has neither text nor a frame of legal size")
    try:
        # The size in the frame is checked first: a frame is not unpacked beyond what its row admits.
        declared = zstandard.get_frame_parameters(event_zstd).content_size
        if declared in (utf8_bytes, zstandard.CONTENTSIZE_UNKNOWN):
            text = _decompressor().decompress(event_zstd, max_output_size=utf8_bytes, allow_extra_data=False)
            if len(text) == utf8_bytes:
                return text
    except zstandard.ZstdError as error:
        raise CorruptError("a compressed event cannot be unpacked") from error
    raise CorruptError("a compressed event has not the size that its row records")
