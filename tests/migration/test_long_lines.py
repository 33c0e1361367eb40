"""A long line is imported in four times its size of memory, beside what the program itself needs."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from openclaw_cli.storage.connection import open_read
from openclaw_cli.storage.events import stream
from openclaw_cli.storage.verify import verify

ROOT = Path(__file__).resolve().parents[2]
SESSION = "00000000-0000-4000-8000-000000000001"
LINE_BYTES = 24 * 2**20
OWN_BYTES = 64 * 2**20
# Of the running process alone: what `getrusage` gives begins with the size of the process that started it.
RUN = """
import sys
from openclaw_cli.__main__ import main
try:
    main()
finally:
    with open("/proc/self/status") as status:
        print(next(line.split()[1] for line in status if line.startswith("VmHWM:")), file=sys.stderr)
"""


def state_with(state_dir: Path, content: object) -> bytes:
    """A state directory with one session of one message; gives the message's line."""
    folder = state_dir / "agents/main/sessions"
    folder.mkdir(parents=True)
    (state_dir / "openclaw.json").write_text("{}\n", encoding="utf-8")
    index = {"agent:main:main": {"sessionId": SESSION, "updatedAt": 1}}
    (folder / "sessions.json").write_text(json.dumps(index), encoding="utf-8")
    stamp = {"timestamp": "2026-09-01T00:00:00.000Z"}
    header = {"type": "session", "version": 3, "id": SESSION, **stamp, "cwd": "/"}
    event = {"type": "message", "id": "a", "parentId": None, **stamp, "message": {"role": "user", "content": content}}
    lines = [json.dumps(row, ensure_ascii=False, separators=(",", ":")).encode() for row in (header, event)]
    (folder / f"{SESSION}.jsonl").write_bytes(b"\n".join(lines) + b"\n")
    return lines[1]


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="the peak is read from /proc")
@pytest.mark.parametrize("words", ["plain words ", "größe und maß ", "– “quoted” words "])
def test_a_long_line_takes_four_times_its_size(tmp_path: Path, words: str) -> None:
    """Whatever width Python gives its characters; its search text is trimmed, its row is what the line was."""
    text = " " + words * (LINE_BYTES // len(words.encode()))
    line = state_with(tmp_path, text)
    argv = [sys.executable, "-c", RUN, "doctor", "import", "--state-dir", str(tmp_path), "--json"]
    done = subprocess.run(argv, cwd=ROOT, capture_output=True, text=True, check=True)

    assert int(done.stderr.split()[-1]) * 1024 <= OWN_BYTES + 4 * len(line)
    with open_read(tmp_path / "agents/main/agent/openclaw-agent.sqlite", temporary_tables=True) as store:
        assert [line] == [event for seq, event in stream(store, SESSION) if seq]
        assert text.strip() == store.value("SELECT text FROM session_transcript_fts")
        assert [] == list(verify(store))


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="the peak is read from /proc")
def test_a_large_store_with_a_very_long_line() -> None:
    """300 MB with a record of 64 MiB: import, validate, restore and recover stay within the memory of the design."""
    script = ROOT / "tests/bench/bench_memory.py"
    done = subprocess.run([sys.executable, str(script), "--json"], cwd=ROOT, capture_output=True, text=True)
    assert 0 == done.returncode, done.stderr
    found = json.loads(done.stdout)
    assert [] == [(mode, peak) for mode, peak in found["peaks"] if peak > found["boundBytes"]]
