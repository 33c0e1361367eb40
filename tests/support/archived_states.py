"""State directories whose originals lie in import archives: what they hold, and other manifests for them."""

from __future__ import annotations

import hashlib
import json
import os
import stat
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

RUNS = "session-sqlite-migration-runs"
ARCHIVE = "session-sqlite-import-archive"
MODES = (0o600, 0o644, 0o640)
FIRST_NS = 1_700_000_000_123_456_789


def sessions(state: Path) -> dict[str, tuple[str, int, int]]:
    """Every file of every sessions directory: path → SHA-256, mode, mtime in nanoseconds."""
    found = {}
    for path in sorted([*state.glob("agents/*/sessions/*"), *state.glob("sessions/*")]):
        status = path.lstat()
        found[str(path.relative_to(state))] = (digest(path), stat.S_IMODE(status.st_mode), status.st_mtime_ns)
    return found


def everything(state: Path) -> dict[str, str]:
    """SHA-256 of every file of a state directory, SQLite's own passing files left out."""
    paths = [path for path in sorted(state.rglob("*")) if path.is_file()]
    return {str(path.relative_to(state)): digest(path) for path in paths if not path.name.endswith(("-shm", "-wal"))}


def contents(state: Path) -> Counter[str]:
    """Multiset of the digests in sessions directories and import archives."""
    places = [*state.glob("agents/*/sessions/*"), *state.glob(f"agents/*/{ARCHIVE}/*")]
    return Counter(digest(path) for path in places)


def archived(state: Path) -> list[str]:
    """Names in all import archives."""
    return sorted(path.name for path in state.glob(f"agents/*/{ARCHIVE}/*"))


def digest(path: Path) -> str:
    """SHA-256 of a file."""
    return hashlib.sha256(path.read_bytes()).hexdigest()


def vary(state: Path) -> None:
    """Give the files of the sessions directories different modes and times, so that keeping them can be seen."""
    for number, path in enumerate(sorted(state.glob("agents/*/sessions/*"))):
        if path.is_file() and not path.is_symlink():
            path.chmod(MODES[number % len(MODES)])
            moment = FIRST_NS + number * 1_000_003
            os.utime(path, ns=(moment, moment))


def manifests(state: Path) -> list[Path]:
    """The manifests of a state directory, oldest first."""
    return sorted(path for path in (state / RUNS).glob("*.json") if not path.name.endswith(".failure.json"))


def edit(path: Path, change: Callable[[dict[str, Any]], None]) -> None:
    """Change a manifest in place."""
    document = json.loads(path.read_text())
    change(document)
    path.write_text(json.dumps(document, indent=2) + "\n")


def true_digests(state: Path) -> None:
    """Let manifests name the archived bytes as they are.

    In the recorded state directories paths were shortened inside some archived files after the real import had hashed
    them.
    """

    def mend(document: dict[str, Any]) -> None:
        for target in document["targets"]:
            for move in (*target["plannedMoves"], *target["completedMoves"]):
                name = Path(move["archivePath"]).name
                found = list(state.glob(f"agents/{target['agentId']}/{ARCHIVE}/{name}"))
                if found and "artifact" in move:
                    move["artifact"]["identity"] |= {"sha256": digest(found[0]), "size": found[0].stat().st_size}

    for path in manifests(state):
        edit(path, mend)


def moves(document: dict[str, Any]) -> list[dict[str, Any]]:
    """Every move of a manifest, planned and completed."""
    return [move for target in document["targets"] for move in (*target["plannedMoves"], *target["completedMoves"])]
