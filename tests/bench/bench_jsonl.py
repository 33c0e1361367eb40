"""CPU cost of `jsonl.read` beside a bare orjson loop over the same file.

    python tests/bench/bench_jsonl.py [FILE] [--rounds N]

Without FILE it writes three files of 48 MB with short, middling and long lines. The rounds alternate, the best of each
side counts: the machine may be busy. Goal (design: figures to reach): at least 0.6 of the bare loop.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import orjson

from openclaw_cli import jsonl

_SIZE_BYTES = 48_000_000
_LINE = (
    '{"type":"message","id":"m%07d","parentId":"m%07d","timestamp":"2026-08-06T07:06:47.000Z",'
    '"message":{"role":"user","content":[{"type":"text","text":"%s"}],"timestamp":1786000007000}}\n'
)


def _write(path: Path, text_length: int) -> None:
    text = ("turn after turn, of some words; " * (text_length // 32 + 1))[:text_length]
    count = _SIZE_BYTES // (len(_LINE) + text_length)
    with path.open("w") as stream:
        for number in range(count):
            stream.write(_LINE % (number, number, text))


def _bare(path: Path) -> None:
    loads = orjson.loads
    with path.open("rb", buffering=1 << 20) as stream:
        for line in stream:
            loads(line)


def _ours(policy: jsonl.Policy) -> Callable[[Path], None]:
    def run(path: Path) -> None:
        with path.open("rb", buffering=0) as stream:
            for _ in jsonl.read(stream, file=path.name, policy=policy, tally=jsonl.Tally()):
                pass

    return run


def _best(path: Path, rounds: int) -> list[float]:
    sides = [_bare, _ours(jsonl.Policy.SCAN), _ours(jsonl.Policy.IMPORT)]
    best = [float("inf")] * len(sides)
    for _ in range(rounds):
        for index, side in enumerate(sides):
            begun = time.process_time()
            side(path)
            best[index] = min(best[index], time.process_time() - begun)
    return best


def _report(name: str, path: Path, rounds: int) -> None:
    megabytes = path.stat().st_size / 1e6
    bare, scan, imported = (megabytes / seconds for seconds in _best(path, rounds))
    print(
        f"{name:>14}: bare orjson {bare:6.0f} MB/s  scan {scan:6.0f} MB/s ({scan / bare:.2f})"
        f"  import {imported:6.0f} MB/s ({imported / bare:.2f})"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("file", nargs="?", type=Path)
    parser.add_argument("--rounds", type=int, default=7)
    arguments = parser.parse_args()
    if arguments.file:
        _report(arguments.file.name, arguments.file, arguments.rounds)
        return
    with tempfile.TemporaryDirectory() as folder:
        for length in (50, 300, 2800):
            path = Path(folder) / f"{length}.jsonl"
            _write(path, length)
            _report(f"text of {length} B", path, arguments.rounds)


if __name__ == "__main__":
    main()
