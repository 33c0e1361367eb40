"""Transcripts and archives on disk, plain or compressed, as byte streams that can be trusted.

The streaming readers of the zstandard library accept a frame that is cut short and pass over what follows the first
frame without a word (dependencies §3). Here every byte of the file is accounted for: the frames are walked by their
headers before anything is unpacked, each content size is compared, each checksum is verified by the library, and a
file that fails says how many bytes were good.
"""

from __future__ import annotations

import hashlib
import io
import itertools
import os
from collections.abc import Iterable, Iterator
from enum import StrEnum
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

from openclaw_cli.durable import new_file, sha256_file
from openclaw_cli.errors import CorruptError

_MAGIC = b"\x28\xb5\x2f\xfd"
_BUFFER_BYTES = 2**18
_SNIFF_BYTES = 2**12
_SMALL_BYTES = 2**20
_TRUNCATED = "archive_truncated"
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"


class Encoding(StrEnum):
    """How a file is stored. PLAIN_BEHIND_ZST: named `.zst`, but it holds plain text (worth a warning)."""

    PLAIN = "plain"
    ZSTD = "zstd"
    PLAIN_BEHIND_ZST = "plain-behind-zst"


def encoding_of(path: Path) -> Encoding:
    """What `path` holds, by its first bytes: JSON never begins like a compressed frame. Raises OSError."""
    with path.open("rb") as stream:
        return _encoding(stream, path.suffix == ".zst")


def open_stream(path: Path, *, lenient: bool = False) -> BinaryIO:
    """The unpacked bytes of a plain or compressed file, seekable (backwards by unpacking again).

    Reading raises CorruptError when it comes to the place where a compressed file is cut short, has junk behind its
    last frame, or fails its checksum or size; the error says how many bytes before that place are good. `lenient`:
    where the file is cut short the stream ends, and `shortage` tells. Raises OSError when the file cannot be opened.
    """
    stream = path.open("rb", buffering=0)
    return _unpacked(stream, str(path), _encoding(stream, path.suffix == ".zst"), lenient)


def unpack(stream: BinaryIO, name: str, *, lenient: bool = False) -> BinaryIO:
    """As `open_stream` for an open, seekable stream that has no name of its own, a spooled standard input."""
    return _unpacked(stream, name, _encoding(stream, False), lenient)


def shortage(stream: BinaryIO) -> CorruptError | None:
    """What a lenient stream came upon: the error that the end of a file that is cut short would have raised."""
    raw = getattr(stream, "raw", None)
    return raw.shortage if isinstance(raw, _Unpacking) else None


def _encoding(stream: BinaryIO, named_zst: bool) -> Encoding:
    stream.seek(0)
    head = stream.read(_SNIFF_BYTES)
    stream.seek(0)
    if head.startswith(_MAGIC) or _is_skippable(head):
        return Encoding.ZSTD
    if not named_zst:
        return Encoding.PLAIN
    # Named like an archive without being one: text can be read, anything else is a damaged archive.
    is_text = head.removeprefix(_BYTE_ORDER_MARK).lstrip().startswith(b"{")
    return Encoding.PLAIN_BEHIND_ZST if is_text else Encoding.ZSTD


def _unpacked(stream: BinaryIO, name: str, encoding: Encoding, lenient: bool) -> BinaryIO:
    raw: Any = _Unpacking(stream, name, lenient) if encoding is Encoding.ZSTD else stream
    return io.BufferedReader(raw, _BUFFER_BYTES)


# --- the frames of a compressed file ----------------------------------------------------------------------------------


class Layout(NamedTuple):
    """The frames of a file: where the last complete one ends, where unpacking has to stop, what is wrong behind it.

    `content_bytes`: the sum of the content sizes of the complete frames, None when one of them does not say.
    """

    complete_end: int
    readable_end: int
    content_bytes: int | None
    fault: str | None


def _is_skippable(head: bytes) -> bool:
    return len(head) >= 4 and 0x50 <= head[0] <= 0x5F and head[1:4] == b"\x2a\x4d\x18"


def layout(stream: BinaryIO) -> Layout:
    """Walk the frames of `stream` by their headers (RFC 8878 §3.1), without unpacking; a seek per block of 128 KiB."""
    size = stream.seek(0, os.SEEK_END)
    at = 0
    content: int | None = 0
    while at < size or at == 0:
        stream.seek(at)
        head = stream.read(18)
        if not head.startswith(_MAGIC) and not _is_skippable(head):
            fault = (
                "is cut short" if len(head) < 4 else "has junk behind its last frame" if at else "is no zstd archive"
            )
            return Layout(at, at, content, fault)
        try:
            end, frame_content = _frame(stream, at, head)
        except EOFError:
            return Layout(at, size, content, "is cut short")
        if end > size:
            return Layout(at, size, content, "is cut short")
        content = None if content is None or frame_content is None else content + frame_content
        at = end
    return Layout(at, at, content, None)


def _fault_at(at: int, head: bytes) -> str:
    if len(head) < len(_MAGIC):
        return "is cut short"
    return "has junk behind its last frame" if at else "is no zstd archive"


def _frame(stream: BinaryIO, at: int, head: bytes) -> tuple[int, int | None]:
    """Where the frame at `at` ends, and its content size if it says so. Raises EOFError when it is cut short."""
    if _is_skippable(head):
        if len(head) < 8:
            raise EOFError
        return at + 8 + int.from_bytes(head[4:8], "little"), 0
    if len(head) < 6:
        raise EOFError
    header_bytes, content, has_checksum = _frame_header(head)
    position = at + header_bytes
    while True:
        stream.seek(position)
        block = stream.read(3)
        if len(block) < 3:
            raise EOFError
        word = int.from_bytes(block, "little")
        # An RLE block (type 1) stores one byte whatever its size is.
        position += 3 + (1 if word >> 1 & 3 == 1 else word >> 3)
        if word & 1:
            return position + (4 if has_checksum else 0), content


def _frame_header(head: bytes) -> tuple[int, int | None, bool]:
    """(header size, content size, has a checksum) of a frame header; the magic number included in the size."""
    descriptor = head[4]
    single_segment = bool(descriptor & 0x20)
    at = 5 + (not single_segment) + (0, 1, 2, 4)[descriptor & 3]
    field = (1 if single_segment else 0, 2, 4, 8)[descriptor >> 6]
    raw = head[at : at + field]
    if len(raw) < field:
        raise EOFError
    content = int.from_bytes(raw, "little") + (256 if field == 2 else 0) if field else None
    return at + field, content, bool(descriptor & 4)


# --- unpacking --------------------------------------------------------------------------------------------------------


class _Unpacking(io.RawIOBase):
    """The content of a compressed file in bounded steps; the end is reported only after everything was verified."""

    def __init__(self, stream: BinaryIO, name: str, lenient: bool) -> None:
        super().__init__()
        self._lenient = lenient
        self.shortage: CorruptError | None = None
        self._stream = stream
        self._name = name
        self._layout = layout(stream)
        self._begin()

    def _begin(self) -> None:
        # Imported here: start-up must not pay for it.
        import zstandard

        self._failure = zstandard.ZstdError
        bounded = _Bounded(self._stream, self._layout.readable_end)
        self._reader = zstandard.ZstdDecompressor().stream_reader(bounded, read_across_frames=True, closefd=False)  # type: ignore[arg-type]  # only read(size) is used
        self._given = 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        try:
            data = self._reader.read(len(buffer))
        except self._failure as error:
            raise self._corrupt("fails its checksum or holds bytes that cannot be unpacked") from error
        if not data and len(buffer):
            self._check_end()
        buffer[: len(data)] = data
        self._given += len(data)
        return len(data)

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        if whence == os.SEEK_CUR:
            offset += self._given
        elif whence != os.SEEK_SET:
            raise io.UnsupportedOperation("the end of a compressed stream is not known before it is read")
        if offset < self._given:
            self._begin()
        while self._given < offset and self.read(min(_BUFFER_BYTES, offset - self._given)):
            pass
        return self._given

    def tell(self) -> int:
        return self._given

    def close(self) -> None:
        if not self.closed:
            self._stream.close()
        super().close()

    def _check_end(self) -> None:
        if self._layout.fault is not None:
            error = self._corrupt(self._layout.fault)
            if not self._lenient or error.code != _TRUNCATED:
                raise error
            self.shortage = error
            return
        expected = self._layout.content_bytes
        if expected is not None and expected != self._given:
            raise self._corrupt(f"says that it holds {expected} bytes")

    def _corrupt(self, fault: str) -> CorruptError:
        return CorruptError(
            f"{self._name} {fault}; {self._given} bytes before that place are good",
            hint="restore the file from a backup, or unpack what is good: zstd -dc FILE > OUT, and name OUT",
            code=_TRUNCATED if fault == "is cut short" else "archive_corrupt",
            path=self._name,
            goodBytes=self._given,
        )


class _Bounded:
    """The first `end` bytes of a stream, whatever else reads from it in between."""

    def __init__(self, stream: BinaryIO, end: int) -> None:
        self._stream = stream
        self._end = end
        self._at = 0

    def read(self, size: int = -1) -> bytes:
        """As a raw stream's read."""
        left = self._end - self._at
        self._stream.seek(self._at)
        data: bytes = self._stream.read(left if size < 0 else min(size, left))
        self._at += len(data)
        return data


# --- writing ----------------------------------------------------------------------------------------------------------


class Written(NamedTuple):
    """A finished archive: SHA-256 of its file in hex and the file's size."""

    path: Path
    sha256: str
    size_bytes: int


def compress(pieces: Iterable[bytes], content_bytes: int) -> Iterator[bytes]:
    """One frame with its content size and a checksum, in pieces. `content_bytes` is the size of all `pieces`."""
    import zstandard

    packer = zstandard.ZstdCompressor(level=3, write_checksum=True, write_content_size=True).compressobj(
        size=content_bytes
    )
    for piece in pieces:
        if packed := packer.compress(piece):
            yield packed
    yield packer.flush()


def skippable_frame(data: bytes) -> bytes:
    """A frame that readers pass over, with `data` in it (RFC 8878 §3.1.2)."""
    return b"\x5e\x2a\x4d\x18" + len(data).to_bytes(4, "little") + data


def skippable_frames(path: Path) -> Iterator[bytes]:
    """The content of the frames of a file that readers pass over; none of a file that is no archive or cut short."""
    with path.open("rb", buffering=0) as stream:
        size = stream.seek(0, os.SEEK_END)
        at = 0
        while at < size:
            stream.seek(at)
            head = stream.read(18)
            if not head.startswith(_MAGIC) and not _is_skippable(head):
                return
            try:
                end, _ = _frame(stream, at, head)
            except EOFError:
                return
            if end <= size and _is_skippable(head):
                stream.seek(at + 8)
                yield stream.read(end - at - 8)
            at = end


def write(
    path: Path, pieces: Iterable[bytes], content_bytes: int, *, note: bytes | None = None, sync_dir: bool = True
) -> Written:
    """Write an archive that nobody has yet at `path`, durably, and read it back before it counts.

    `note`: what a frame behind the content says, which readers pass over.

    The content of the file must be what was compressed, by SHA-256. Raises FileExistsError when something stands at
    `path`, CorruptError when what is read back differs, NoSpaceError, RefusedError. Without `sync_dir` its name is
    durable when the caller has synced the directory.
    """
    digest = hashlib.sha256()

    def counted() -> Iterator[bytes]:
        for piece in pieces:
            digest.update(piece)
            yield piece

    with new_file(path, sync_dir=sync_dir) as building:
        tail = () if note is None else (skippable_frame(note),)
        building.write(itertools.chain(compress(counted(), content_bytes), tail))
        sha256, content, size_bytes = _read_back(building.path)
        if content != digest.hexdigest():
            raise CorruptError(f"{path} does not hold what was written to it", hint="look at that disk")
        building.publish()
    return Written(path, sha256, size_bytes)


def _read_back(path: Path) -> tuple[str, str, int]:
    """(SHA-256 of the file, of its content, size in bytes); a file that is small is read once for all three."""
    with path.open("rb", buffering=0) as stream:
        data = stream.read(_SMALL_BYTES)
        if len(data) == _SMALL_BYTES:
            return sha256_file(path), content_sha256(path), path.stat().st_size
    return hashlib.sha256(data).hexdigest(), _sha256_of(unpack(io.BytesIO(data), str(path))), len(data)


def content_sha256(path: Path) -> str:
    """SHA-256 of what a plain or compressed file holds. Raises CorruptError when it is damaged, OSError."""
    with open_stream(path) as stream:
        return _sha256_of(stream)


def _sha256_of(stream: BinaryIO) -> str:
    digest = hashlib.sha256()
    while block := stream.read(_BUFFER_BYTES):
        digest.update(block)
    return digest.hexdigest()
