"""JSON text against the JavaScript engine that the real program runs on: thousands of random and hostile lines."""

from __future__ import annotations

import random
import struct
import subprocess
from pathlib import Path
from typing import Any

import pytest

from openclaw_cli import jstext

SCRIPT = """
const fs = require("node:fs");
const [source, target] = process.argv.slice(1);
const decoder = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true });
const out = [];
for (const line of fs.readFileSync(source).toString("latin1").split("\\n")) {
  try { out.push(JSON.stringify(JSON.parse(decoder.decode(Buffer.from(line, "latin1")).trim()))); }
  catch { out.push("refused"); }
}
fs.writeFileSync(target, out.join("\\n"));
"""
HOSTILE = [
    b"",
    b"NaN",
    b"-",
    b"01",
    b"1.",
    b".5",
    b"1e",
    b"-0e-0",
    b"0e999999999999",
    b"1e400",
    b"-1e400",
    b"9" * 400,
    b"0." + b"0" * 400 + b"1",
    b"9007199254740993",
    b"-9223372036854775808",
    b"18446744073709551615",
    b"18446744073709551616",
    b'"\\u0000\\u001f\\u007f\\u0080\\u2028\\ufffe"',
    '"\u2028\u2029\u0085\u007f\ufeff"'.encode(),
    b'"\\ud800\\udc00\\ud800x\\udc00\\udc00"',
    b'"\\uD83D\\uDE00\\uDE00"',
    b'"\\x41"',
    b'"\\u12G4"',
    b'"\\u+123"',
    b'"a\tb"',
    b'"\x7f"',
    b'"\xed\xa0\x80"',
    b'"\xc0\xaf"',
    b'"\xf4\x90\x80\x80"',
    b"\xef\xbb\xbf[1]",
    "\u00a0[1]\u3000".encode(),
    "\u0085[1]".encode(),
    "\u180e[1]".encode(),
    "\u200b[1]".encode(),
    b"\x1c[1]",
    b"[1\x0b]",
    b"\x0b[1]\x0c",
    b"[1,]",
    b"[,1]",
    b"{,}",
    b'{"a":1,}',
    b'{"a":1}}',
    b"{'a':1}",
    b'{"a":1}{"b":2}',
    b'{"__proto__":1,"constructor":{},"toString":null}',
    b'{"2":1,"1":2,"-1":3,"01":4,"1.5":5,"4294967294":6,"4294967295":7,"4294967296":8,"9007199254740991":9}',
    b'{"a":1,"1":1,"a":2,"1":2}',
    b"[" * 2000 + b"]" * 2000,
    b'{"a":' * 1500 + b"1.0" + b"}" * 1500,
    b"true",
    b"True",
    b"nul",
    b"nulll",
    "１".encode(),
    "[\u0661]".encode(),
]


def numbers(source: random.Random) -> bytes:
    """A number written in one of many ways."""
    kind = source.randrange(5)
    if kind == 0:
        value = struct.unpack("<d", source.randbytes(8))[0]
        return repr(value).encode() if value == value and abs(value) != float("inf") else b"1e308"
    if kind == 1:
        return str(source.randrange(-(10 ** source.randrange(1, 25)), 10**22)).encode()
    if kind == 2:
        return f"{source.randrange(1, 10 ** source.randrange(1, 18))}e{source.randrange(-340, 320)}".encode()
    if kind == 3:
        return f"{source.uniform(-10, 10):.{source.randrange(0, 20)}f}".encode()
    return f"{source.randrange(1, 1000)}.{'0' * source.randrange(0, 9)}E+{source.randrange(0, 30)}".encode()


def value(source: random.Random, depth: int) -> bytes:
    """A random JSON text, odd keys, escapes and white space included."""
    kind = source.randrange(8 if depth else 5)
    gap = source.choice([b"", b"", b" ", b"\t", b"\r"])
    if kind == 0:
        return source.choice([b"null", b"true", b"false"]) + gap
    if kind in (1, 2):
        return numbers(source) + gap
    if kind in (3, 4):
        return string(source)
    items = [value(source, depth - 1) for _ in range(source.randrange(5))]
    if kind == 5:
        return b"[" + gap + b",".join(items) + b"]"
    return b"{" + gap + b",".join(key(source) + b":" + item for item in items) + b"}"


def key(source: random.Random) -> bytes:
    """A key, often one that is or looks like an array index."""
    return b'"%d"' % source.randrange(12) if source.randrange(3) == 0 else string(source)


def string(source: random.Random) -> bytes:
    """A string with raw characters and escapes of all kinds."""
    raw = ["a", "é", "😀", "\u2028", "\x7f"]
    escaped = ["\\n", "\\/", "\\u00e9", "\\ud83d", "\\uDE00", "\\u0001", "\\b", '\\"', "\\\\"]
    pieces = raw + escaped
    return b'"' + "".join(source.choice(pieces) for _ in range(source.randrange(6))).encode() + b'"'


def ours(line: bytes) -> bytes:
    """What this package makes of a line."""
    try:
        return jstext.stringify(line, jstext.parse(line))
    except ValueError:
        return b"refused"


def node(peer: Any, folder: Path, lines: list[bytes]) -> list[bytes]:
    """What the engine makes of the lines."""
    (folder / "in").write_bytes(b"\n".join(lines))
    subprocess.run([str(peer.node), "-e", SCRIPT, str(folder / "in"), str(folder / "out")], check=True)
    return (folder / "out").read_bytes().split(b"\n")


def assert_same(lines: list[bytes], expected: list[bytes]) -> None:
    """Line by line, naming the first that differs."""
    for line, theirs in zip(lines, expected, strict=True):
        assert (line, theirs) == (line, ours(line))


def test_hostile_lines(peer: Any, tmp_path: Path) -> None:
    """Every known difference between orjson, Python's parser and JavaScript."""
    assert_same(HOSTILE, node(peer, tmp_path, HOSTILE))


@pytest.mark.parametrize("seed", range(4))
def test_random_lines(peer: Any, tmp_path: Path, seed: int) -> None:
    """5000 random texts, and each once more with a byte of it changed or cut off."""
    source = random.Random(seed)
    whole = [value(source, 3) for _ in range(5000)]
    broken = [_broken(source, line) for line in whole]
    lines = [line for line in whole + broken if b"\n" not in line]

    assert_same(lines, node(peer, tmp_path, lines))


def test_transcripts_of_the_real_program(peer: Any, tmp_path: Path, fixtures: Path) -> None:
    """All lines of all transcripts that are at hand."""
    lines = [line for path in fixtures.rglob("*.jsonl") for line in path.read_bytes().split(b"\n")]

    assert len(lines) > 100
    assert_same(lines, node(peer, tmp_path, lines))


def _broken(source: random.Random, line: bytes) -> bytes:
    if not line:
        return line
    at = source.randrange(len(line))
    return source.choice([line[:at], line[:at] + source.randbytes(1) + line[at + 1 :], line[:at] + line[at + 1 :]])


def test_the_lines_are_really_read(peer: Any, tmp_path: Path) -> None:
    """The comparison would not pass on nothing."""
    assert [b'{"1":2,"a":1}', b"refused"] == node(peer, tmp_path, [b'{"a":1,"1":2.0}', b"{"])
