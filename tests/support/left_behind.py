"""What a state directory holds after a run, whole or cut: files by content, databases checked, what is in the way."""

from __future__ import annotations

import hashlib
from collections import Counter
from pathlib import Path
from typing import Any

from openclaw_cli import archive
from openclaw_cli.storage import connection, events, trajectories, verify

DATABASES = "agents/*/agent/openclaw-agent.sqlite"


def files(state: Path) -> dict[str, int]:
    """Multiset of the SHA-256 of all files in sessions directories and archives, and of damaged databases kept."""
    places = [
        *state.glob("agents/*/sessions/*"),
        *state.glob("agents/*/session-sqlite-import-archive/*"),
        *state.glob("agents/*/agent/*.corrupt-*"),
    ]
    return dict(Counter(hashlib.sha256(path.read_bytes()).hexdigest() for path in places if path.is_file()))


def digests(state: Path) -> list[str]:
    """SHA-256 of every file, each once."""
    return sorted({hashlib.sha256(path.read_bytes()).hexdigest() for path in state.rglob("*") if path.is_file()})


def debris(state: Path) -> list[str]:
    """Files that only a run in progress needs."""
    paths = (str(path.relative_to(state)) for path in state.rglob("*"))
    ends, parts = (".tmp", ".copying"), (".creating", ".recovering")
    return sorted(path for path in paths if path.endswith(ends) or any(part in path for part in parts))


def contents(state: Path) -> dict[str, Any]:
    """What the databases hold, checked: faults of integrity and projections, and the multiset of events."""
    faults: list[str] = []
    held: Counter[str] = Counter()
    for path in sorted(state.glob(DATABASES)):
        with connection.open_read(path, temporary_tables=True) as store:
            faults.extend(verify.integrity(store))
            faults.extend(f"{item}" for item in verify.verify(store))
            for (session_id,) in store.execute("SELECT session_id FROM session_windows ORDER BY 1").fetchall():
                for _, text in events.stream(store, session_id):
                    held[hashlib.sha256(session_id.encode() + b" " + text).hexdigest()] += 1
    names = sorted(str(path.relative_to(state)) for path in state.glob("agents/*/sessions/*"))
    return {"faults": faults, "events": dict(held), "names": names, "debris": debris(state)}


def history(state: Path) -> dict[str, Any]:
    """Every event in stores, plain transcripts and whole archives of removals, and how often each archive is there.

    `events`: digest of session id and event → how often; `archives`: name without its time → how often.
    """
    held: Counter[str] = Counter()
    for path in sorted(state.glob(DATABASES)):
        with connection.open_read(path) as store:
            for (session_id,) in store.execute("SELECT session_id FROM session_windows ORDER BY 1").fetchall():
                held.update(_digest(session_id, text) for _, text in events.stream(store, session_id))
                held.update(_digest(session_id, text) for _, text in trajectories.stream(store, session_id))
    archives: Counter[str] = Counter()
    for path in sorted(state.glob("agents/*/sessions/*.deleted.*.zst")):
        session_id, kind, _, *_stamp, generation, _ = path.name.split(".")
        archives[f"{session_id}.{kind}.{generation}"] += 1
        with archive.open_stream(path) as stream:
            held.update(_digest(session_id, line.rstrip(b"\n")) for line in stream)
    for path in sorted(state.glob("agents/*/sessions/*.jsonl")):
        held.update(_digest(path.name.split(".")[0], line) for line in path.read_bytes().splitlines())
    return {"events": dict(held), "archives": dict(archives)}


def _digest(session_id: str, text: bytes) -> str:
    return hashlib.sha256(session_id.encode() + b" " + text).hexdigest()
