"""CPU seconds and peak memory of `scan-lifecycles` beside a bare orjson loop over the same file.

    python tests/bench/bench_scan.py [FILE] [--megabytes N] [--rounds N]

Without FILE it writes one session of N MB (default 100) with make_legacy_store.py. The rounds alternate and the best of
each side counts, because the machine may be busy; every run is a process of its own. Goals (design: figures to reach):
scan without counts at least half of the bare loop's speed, at most 48 MB + 4 × the longest line; counts add 0.3 CPU
seconds and 80 MB for the vocabulary and 1 CPU second per 12 MB of counted text.
"""

from __future__ import annotations

import argparse
import json
import os
import runpy
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
BARE = """
import orjson, sys
with open(sys.argv[1], "rb", buffering=1 << 18) as stream:
    for line in stream:
        orjson.loads(line)
"""
EMPTY = "import orjson, sys"


def run(argv: list[str]) -> tuple[float, float, bytes]:
    """CPU seconds, peak MB and standard output of one process."""
    process = subprocess.Popen([sys.executable, *argv], stdout=subprocess.PIPE, cwd=ROOT)
    output = process.stdout.read() if process.stdout else b""
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode not in (0, 3):
        raise SystemExit(f"{argv[0]} ended with {process.returncode}")
    # Kilobytes on Linux, bytes on macOS.
    peak = usage.ru_maxrss / (2**20 if sys.platform == "darwin" else 2**10)
    return usage.ru_utime + usage.ru_stime, peak, output


def make(folder: Path, megabytes: int) -> Path:
    """One transcript of that size."""
    before = sys.argv
    sys.argv = ["make_legacy_store.py", str(folder), str(megabytes), "1"]
    try:
        runpy.run_path(str(Path(__file__).with_name("make_legacy_store.py")), run_name="__main__")
    finally:
        sys.argv = before
    return next((folder / "agents/main/sessions").glob("*.jsonl"))


def compare(path: Path, rounds: int) -> None:
    """Print both sides."""
    scan = ["-m", "openclaw_cli", "scan-lifecycles", str(path), "--json"]
    sides = {
        "python, orjson": ["-c", EMPTY],
        "bare orjson": ["-c", BARE, str(path)],
        "scan --no-tokens": [*scan, "--no-tokens"],
        "scan with counts": scan,
    }
    best: dict[str, tuple[float, float, bytes]] = {}
    for _ in range(rounds):
        for name, argv in sides.items():
            best[name] = min(best.get(name, (1e9, 0.0, b"")), run(argv), key=lambda side: side[0])
    longest = max(map(len, path.open("rb")))
    megabytes = path.stat().st_size / 1e6
    print(f"{megabytes:.1f} MB, longest line {longest} bytes")
    for name, (seconds, peak, _) in best.items():
        print(f"{name:18} {seconds:6.2f} CPU s {megabytes / seconds:6.0f} MB/s {peak:6.1f} MB")
    bare = best["bare orjson"][0]
    allowed = 48 + 4 * longest / 2**20
    print(f"speed of the scan beside the bare loop: {bare / best['scan --no-tokens'][0]:.2f} (goal 0.50)")
    print(f"memory of the scan: {best['scan --no-tokens'][1]:.1f} MB (goal {allowed:.1f} MB)")
    print(json.dumps(json.loads(best["scan with counts"][2])["totals"]))


def main() -> None:
    """Measure the file that was named, or one made for it."""
    parser = argparse.ArgumentParser(description="scan-lifecycles beside bare orjson")
    parser.add_argument("file", nargs="?", type=Path)
    parser.add_argument("--megabytes", type=int, default=100)
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    if options.file is not None:
        compare(options.file, options.rounds)
        return
    with tempfile.TemporaryDirectory() as folder:
        compare(make(Path(folder), options.megabytes), options.rounds)


if __name__ == "__main__":
    main()
