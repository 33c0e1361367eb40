"""Cleanup, cut at every point at which it changes a file, in each way in which that can fail (see test_matrix_import).

At every moment, right after the cut and at the end, every event is in the store or in a whole archive; in the end the
store is that of an undisturbed run, and no archive is there twice.

`plain`: rows go by age, with a trajectory and history, and so do files that nobody refers to. `budget`: a disk budget
that cannot be reached, so that every tier of it is gone through; an archive that is older than the grace goes for good.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import cutting
import legacy_state as legacy
import matrix
import pytest

from openclaw_cli import archive
from openclaw_cli.storage import connection, events, trajectories
from openclaw_cli.storage.sessions import write_entry

DAY_MS = 86_400_000
OLD_MS = matrix.NOW_MS - 40 * DAY_MS
WORDS = {
    "plain": "sessions cleanup --enforce --vacuum",
    "budget": "sessions cleanup --enforce --max-disk 150kb --high-water 1kb --max-entries 3",
}
LEAST_POINTS = 100
GONE = "gone0001"


@pytest.fixture(scope="module")
def bench() -> Iterator[matrix.Bench]:
    made = matrix.Bench()
    yield made
    made.close()


def _session(store: connection.Store, key: str, session_id: str, at_ms: int, **more: Any) -> None:
    entry = {"sessionId": session_id, "updatedAt": at_ms, "sessionStartedAt": at_ms, **more}
    write_entry(store, key, entry, now_ms=at_ms)
    _events(store, key, session_id, at_ms)


def _events(store: connection.Store, key: str, session_id: str, at_ms: int) -> None:
    rows = legacy.turns(session_id, 6)
    text = legacy.message("z0000001", rows[-1]["id"], 9, "user", [legacy.text_block(f"{session_id} " * 300)])
    pairs = [(legacy.jsonl([row]).rstrip(b"\n"), row) for row in (*rows, text)]
    events.append(store, key, session_id, pairs, now_ms=at_ms)


def _state(bench: matrix.Bench) -> Path:
    """A store with one row of each kind that a cleanup treats differently, and files beside it."""
    state = bench.root / "cleanup"
    directory = state / "agents/main/sessions"
    directory.mkdir(parents=True)
    (state / "openclaw.json").write_text("{}\n")
    with connection.create(state / matrix.DATABASE, agent_id="main", now_ms=OLD_MS) as store, store.transaction():
        _session(store, "agent:main:main", legacy.sid(1), matrix.NOW_MS - 1000)
        _events(store, "agent:main:main", legacy.sid(2), OLD_MS)
        _session(store, "agent:main:subagent:a", legacy.sid(3), OLD_MS)
        _session(store, "agent:main:cron:j:run:r", legacy.sid(4), matrix.NOW_MS - 3 * DAY_MS)
        _session(store, "agent:main:subagent:young", legacy.sid(5), matrix.NOW_MS - DAY_MS)
        _session(store, "agent:main:explicit:old", legacy.sid(6), OLD_MS)
        for number in range(3):
            _session(store, f"agent:main:explicit:y{number}", legacy.sid(7 + number), matrix.NOW_MS - number * DAY_MS)
        lines = [{"type": "tool", "ts": legacy.iso(OLD_MS), "seq": n, "runId": "r"} for n in (1, 2)]
        pairs = [(json.dumps(line).encode(), line) for line in lines]
        trajectories.insert(store, legacy.sid(3), pairs, file_ms=OLD_MS)
    (directory / "orphan01.jsonl").write_bytes(legacy.jsonl(legacy.turns("orphan01", 3)))
    (directory / ".x.jsonl.0123456789ab.tmp").write_bytes(b"left")
    name = f"{GONE}.jsonl.deleted.2026-01-01T00-00-00.000Z.{'0' * 32}.zst"
    text = legacy.jsonl(legacy.turns(GONE, 3))
    archive.write(directory / name, [text], len(text))
    for path in directory.iterdir():
        os.utime(path, ns=(OLD_MS * 1_000_000, OLD_MS * 1_000_000))
    return state


@pytest.fixture(scope="module")
def pristine(bench: matrix.Bench) -> Path:
    return _state(bench)


@pytest.fixture(scope="module")
def undisturbed(bench: matrix.Bench, pristine: Path) -> dict[str, dict[str, Any]]:
    """What each run ends with when nothing happens, the same command twice more behind it."""
    found = {}
    for name, words in WORDS.items():
        answer = bench.ask(pristine, words, [words, words], history=True)
        assert (0 if name == "plain" else 3) == answer["cut"]["status"], answer["after"]["said"]
        assert [] == answer["ended"]["faults"] + answer["ended"]["debris"]
        found[name] = answer
    return found


def test_every_kind_of_victim_is_there(undisturbed: dict[str, dict[str, Any]]) -> None:
    """Fewer points would mean that the seam no longer sees the writes; fewer archives, that a tier is not reached."""
    assert {} == {name: len(one["cut"]["points"]) for name, one in undisturbed.items()
                  if len(one["cut"]["points"]) < LEAST_POINTS}  # fmt: skip
    archives = {name: sorted(one["ended"]["history"]["archives"]) for name, one in undisturbed.items()}
    short = {name: {text.split("-")[0].split(".")[0] for text in found} for name, found in archives.items()}
    assert GONE in short["plain"] and GONE not in short["budget"]
    assert {legacy.sid(number).split("-")[0] for number in (3, 4)} <= short["plain"]
    assert any(".trajectory." in text for text in archives["plain"])
    assert {legacy.sid(number).split("-")[0] for number in (2, 3, 4, 5, 9)} <= short["budget"]


@pytest.mark.timeout(3600)
@pytest.mark.parametrize("kind", cutting.KINDS)
@pytest.mark.parametrize("name", WORDS)
def test_cut(
    name: str,
    kind: str,
    bench: matrix.Bench,
    pristine: Path,
    undisturbed: dict[str, dict[str, Any]],
    full_counts: bool,
    record_property: Callable[[str, object], None],
) -> None:
    """Nothing is lost, nothing is archived twice, the end is that of an undisturbed run."""
    points = undisturbed[name]["cut"]["points"]
    tried, found = 0, []
    for number in matrix.sample(len(points), cutting.KINDS.index(kind), full=full_counts):
        answer = bench.ask(pristine, WORDS[name], [WORDS[name]] * 2, at=number, kind=kind, history=True)
        tried += 1
        found.extend(f"{number} {points[number]}: {text}" for text in complaints(undisturbed[name], answer, kind))
    record_property(matrix.TRIED, tried)
    assert [] == found


@pytest.mark.parametrize("closed", ["agents/main/agent", "agents/main/sessions", "openclaw-cli", "."])
@pytest.mark.parametrize("name", WORDS)
def test_read_only(
    name: str, closed: str, bench: matrix.Bench, pristine: Path, undisturbed: dict[str, dict[str, Any]]
) -> None:
    """Where nothing below a directory can be changed, nothing is lost; once it can, the end is as ever."""
    answer = bench.ask(pristine, WORDS[name], [WORDS[name]] * 2, closed=closed, history=True)
    assert [] == complaints(undisturbed[name], answer, "erofs")


def complaints(whole: dict[str, Any], answer: dict[str, Any], kind: str) -> list[str]:
    """What does not hold after a cut."""
    found = []
    ended = answer["ended"]
    if (answer["exit"] == -9) != (kind == "sigkill"):
        found.append(f"the cut run ended with {answer['exit']}")
    if kind in ("enospc", "eio", "erofs") and "this is a fault of" in answer["after"]["said"]:
        found.append("a failure of the system was taken for a fault of ours")
    if "died" in ended or answer["after"]["history"] is None:
        return [*found, f"what follows died: {ended.get('died')}"]
    wanted = whole["ended"]["history"]
    lost = [one for one in wanted["events"] if one not in answer["after"]["history"]["events"]]
    if lost:
        found.append(f"{len(lost)} event(s) nowhere after the cut")
    statuses = [run["status"] for run in ended["runs"]]
    if statuses[-1] != whole["ended"]["runs"][-1]["status"] or any(one not in (0, 3) for one in statuses):
        found.append(f"then: {statuses} {ended['runs'][0]['said'][-300:]}")
    if ended["faults"] or ended["debris"]:
        found.append(f"not sound: {ended['faults'][:3]} {ended['debris']}")
    for part in ("events", "archives"):
        if ended["history"][part] != wanted[part]:
            found.append(f"{part} differ: {matrix.difference(wanted[part], ended['history'][part])}")
    if ended["events"] != whole["ended"]["events"]:
        found.append("other events are left in the store")
    return found
