"""Transcripts of real shape that were cut, glued, spliced, overwritten; what they were before is known."""

from __future__ import annotations

import json
import random
import uuid
from collections.abc import Callable, Sequence

from conversations import random_conversation

Mutation = Callable[[random.Random, bytes], bytes]


def _cut(rng: random.Random, data: bytes) -> bytes:
    """A range is missing."""
    at = rng.randrange(len(data) + 1)
    return data[:at] + data[at + rng.choice([1, 7, 60, 400]) :]


def _torn(rng: random.Random, data: bytes) -> bytes:
    """The end is missing."""
    return data[: rng.randrange(len(data) + 1)]


def _torn_head(rng: random.Random, data: bytes) -> bytes:
    """The beginning is missing."""
    return data[rng.randrange(min(len(data), 300) + 1) :]


def _glued(rng: random.Random, data: bytes) -> bytes:
    """One line end is missing."""
    ends = [at for at, byte in enumerate(data) if byte == 10]
    if not ends:
        return data
    at = rng.choice(ends)
    return data[:at] + data[at + 1 :]


def _nuls(rng: random.Random, data: bytes) -> bytes:
    """NULs were put in, or stand where data was."""
    at, size = rng.randrange(len(data) + 1), rng.choice([1, 2, 64, 512])
    return data[:at] + b"\0" * size + data[at + (size if rng.random() < 0.5 else 0) :]


def _spliced(rng: random.Random, data: bytes) -> bytes:
    """The beginning of one place of the file stands in another one."""
    at, other = rng.randrange(len(data) + 1), rng.randrange(len(data) + 1)
    return data[:at] + data[other : other + rng.choice([3, 50, 300])] + data[at:]


def _flipped(rng: random.Random, data: bytes) -> bytes:
    """One byte is another one."""
    if not data:
        return data
    at = rng.randrange(len(data))
    return data[:at] + bytes([rng.choice([0, 9, 10, 34, 44, 123, 125, 255, rng.randrange(256)])]) + data[at + 1 :]


def _repeated(rng: random.Random, data: bytes) -> bytes:
    """One line stands twice, perhaps with another text the second time."""
    lines = data.splitlines(keepends=True)
    if not lines:
        return data
    again = rng.choice(lines)
    if rng.random() < 0.5:
        again = again.replace(b"a", b"e")
    lines.insert(rng.randrange(len(lines) + 1), again)
    return b"".join(lines)


def _swapped(rng: random.Random, data: bytes) -> bytes:
    """Two lines changed places."""
    lines = data.splitlines(keepends=True)
    if len(lines) > 2:
        one, other = rng.randrange(1, len(lines)), rng.randrange(1, len(lines))
        lines[one], lines[other] = lines[other], lines[one]
    return b"".join(lines)


MUTATIONS: tuple[Mutation, ...] = (_cut, _torn, _torn_head, _glued, _nuls, _spliced, _flipped, _repeated, _swapped)


class Damaged:
    """One transcript: its lines while it was whole, and the bytes that are left."""

    def __init__(self, rng: random.Random, mutations: Sequence[Mutation] = ()) -> None:
        """`mutations`: what is done to it, one after the other; without, some at random."""
        self.session_id = str(uuid.UUID(int=rng.getrandbits(128), version=4))
        talk = random_conversation(rng)
        talk.rows[0]["id"] = self.session_id
        rows = [json.dumps(row, ensure_ascii=False, separators=(",", ":")).encode() for row in talk.rows]
        self.lines = set(rows)
        data = b"".join(row + b"\n" for row in rows)
        for mutation in mutations or [rng.choice(MUTATIONS) for _ in range(rng.randint(1, 4))]:
            data = mutation(rng, data)
        self.data = data
