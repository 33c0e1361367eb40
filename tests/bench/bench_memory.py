"""Peak memory of import, validate and restore over a store with one very long record.

usage: bench_memory.py [--mb 300] [--sessions 40] [--record-mib 64] [--json]

The store is that of `make_legacy_store.py`; its first transcript gets one message of the given size at its end. Each
command is a process of its own, started by a small one; its peak is what the kernel says of it at its end (VmHWM).
The bound of the design is 64 MB and four times the longest line. Linux only: the peak is read from /proc.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
OWN_BYTES = 64 * 2**20
MODES = ("import", "validate", "restore", "validate", "import", "recover")
RUN = """
import sys
from openclaw_cli.__main__ import main
try:
    main()
finally:
    with open("/proc/self/status") as status:
        print(next(line.split()[1] for line in status if line.startswith("VmHWM:")), file=sys.stderr)
"""


def make(state: Path, given: argparse.Namespace) -> int:
    """Write the store; gives the bytes of its longest line."""
    size_mb = given.mb - given.record_mib * 2**20 / 1e6
    size = ["--mb", f"{size_mb:.1f}", "--sessions", str(given.sessions)]
    script = [sys.executable, str(HERE / "make_legacy_store.py"), str(state), *size]
    subprocess.run(script, check=True, stdout=subprocess.DEVNULL)
    transcript = min((state / "agents/main/sessions").glob("*.jsonl"))
    last = json.loads(transcript.read_bytes().splitlines()[-1])
    text = "the quick brown fox " * (given.record_mib * 2**20 // 20)
    message = {"role": "user", "content": [{"type": "text", "text": text}], "timestamp": 1_790_000_000_000}
    stamp = "2026-09-21T14:13:20.000Z"
    row = {"type": "message", "id": "longest0", "parentId": last["id"], "timestamp": stamp, "message": message}
    line = json.dumps(row, separators=(",", ":")).encode()
    with transcript.open("ab") as file:
        file.write(line + b"\n")
    return len(line)


def peak_bytes(mode: str, state: Path) -> int:
    """Run one mode of `doctor` on the store; gives the peak of its memory."""
    argv = [sys.executable, "-c", RUN, "doctor", mode, "--state-dir", str(state), "--all-agents", "--json"]
    done = subprocess.run(argv, stdin=subprocess.DEVNULL, capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"doctor {mode} ended with status {done.returncode}: {done.stdout[:2000]}")
    return int(done.stderr.split()[-1]) * 1024


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--mb", type=float, default=300)
    parser.add_argument("--sessions", type=int, default=40)
    parser.add_argument("--record-mib", type=int, default=64)
    parser.add_argument("--json", action="store_true", help="one document instead of a table")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="openclaw-bench-") as folder:
        state = Path(folder) / "state"
        longest = make(state, given)
        bytes_in_all = sum(path.stat().st_size for path in (state / "agents/main/sessions").iterdir())
        found = [(mode, peak_bytes(mode, state)) for mode in MODES]
    bound = OWN_BYTES + 4 * longest
    if given.json:
        print(json.dumps({"boundBytes": bound, "sourceBytes": bytes_in_all, "peaks": found}))
        return
    sizes = [f"{count / 1e6:.0f} MB" for count in (bytes_in_all, longest, bound)]
    print(f"{sizes[0]}, longest line {sizes[1]}, bound {sizes[2]}\n")
    print("| command | peak RSS MB | of the bound |\n|---|---|---|")
    for mode, peak in found:
        print(f"| doctor {mode} | {peak / 1e6:.0f} | {peak / bound:.2f} |")


if __name__ == "__main__":
    main()
