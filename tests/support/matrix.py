"""The fault matrix: a run, every point at which it changes a file, each kind of failure there, and what must hold then.

A `Bench` has one working directory (in memory where there is one) with the state directory always at the same path,
since ids of old transcripts are made from it.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import cutting
import legacy_state as legacy
from left_behind import files

from openclaw_cli import manifest
from openclaw_cli.storage import connection, events, shapes
from openclaw_cli.storage.pages import Pages

NOW_MS = 1_796_000_000_000
HERE = Path(__file__).resolve().parent
DATABASE = "agents/main/agent/openclaw-agent.sqlite"
TRIED = "fault points tried"
# The sample of a run that is not a full one, for each scenario and kind.
SAMPLE = 16


@dataclass(slots=True)
class Scenario:
    """A run and what is known of its undisturbed end. `lasting`: contents that are in some file at every moment."""

    name: str
    mode: str
    pristine: Path
    points: list[str]
    events: dict[str, int]
    files: dict[str, int]
    names: list[str]
    lasting: set[str] = field(default_factory=set)
    links: bool = True


class Bench:
    """A working directory, the server in it, and the states that runs begin from."""

    def __init__(self) -> None:
        memory = Path("/dev/shm")
        place = memory if os.access(memory, os.W_OK) else None
        self.root = Path(tempfile.mkdtemp(prefix="openclaw-matrix-", dir=place))
        self.state = self.root / "work/state"
        temporary = self.root / "work/tmp"
        temporary.mkdir(parents=True)
        paths = [str(HERE), str(HERE.parent.parent), os.environ.get("PYTHONPATH", "")]
        here = {"PYTHONPATH": os.pathsep.join(filter(None, paths))}
        env = {**os.environ, **here, "TMPDIR": str(temporary), "SQLITE_TMPDIR": str(temporary)}
        self._server = subprocess.Popen(
            [sys.executable, str(HERE / "fault_server.py")], stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=env
        )

    def close(self) -> None:
        """End the server, remove everything."""
        self._server.communicate()
        shutil.rmtree(self.root)

    def argv(self, mode: str, now_ms: int = NOW_MS) -> list[str]:
        """The command line of a mode of `doctor`, or of a command of several words, on the state directory."""
        words = mode.split() if " " in mode else ["doctor", mode]
        return [*words, "--state-dir", str(self.state), "--all-agents", "--json", "--now", str(now_ms)]

    def ask(self, pristine: Path, mode: str, then: list[str], **how: Any) -> dict[str, Any]:
        """One run from `pristine`, cut as `how` says, and undisturbed ones behind it."""
        request = {
            "state": str(self.state),
            "pristine": str(pristine),
            "output": str(self.root / "out"),
            "argv": self.argv(mode),
            # Later by a little each time: what a cut run has named by the time must be found again all the same.
            "then": [self.argv(one, NOW_MS + 1000 * number) for number, one in enumerate(then, 1)],
            **how,
        }
        stdin, stdout = self._server.stdin, self._server.stdout
        assert stdin is not None and stdout is not None
        stdin.write(json.dumps(request).encode() + b"\n")
        stdin.flush()
        return json.loads(stdout.readline())

    def scenario(self, name: str, mode: str, pristine: Path, *, links: bool = True) -> Scenario:
        """Let the run happen undisturbed and note its points and its end."""
        found = self.ask(pristine, mode, ["recover", "recover"], links=links)
        assert 0 == found["cut"]["status"], found["after"]["said"]
        assert "clean" == words(found)[-1]
        ended = found["ended"]
        assert [] == ended["faults"] + ended["debris"]
        return Scenario(
            name,
            mode,
            pristine,
            found["cut"]["points"],
            ended["events"],
            ended["files"],
            ended["names"],
            lasting=set(files(pristine)),
            links=links,
        )


def words(answer: dict[str, Any]) -> list[str]:
    """What each later run said: the status of a recovery, the exit status of another one."""
    said = []
    for run in answer["ended"].get("runs", ()):
        try:
            said.append(json.loads(run["said"])["status"])
        except (ValueError, KeyError):
            said.append(f"exit {run['status']}")
    return said


# --- the states -----------------------------------------------------------------------------------------------------


def file_era(root: Path) -> Path:
    """Two sessions, one of them in an old version with a sidecar, and a transcript that no index names."""
    index = {
        legacy.KEY: {"sessionId": legacy.sid(1), "updatedAt": legacy.BASE_MS + 60_000},
        "agent:main:other": {"sessionId": legacy.sid(2), "updatedAt": legacy.BASE_MS + 60_000},
    }
    trajectory = [{"type": "tool", "ts": legacy.iso(legacy.BASE_MS), "seq": n, "runId": "r"} for n in (1, 2)]
    files = {
        f"{legacy.sid(1)}.jsonl": legacy.jsonl(legacy.turns(legacy.sid(1))),
        f"{legacy.sid(2)}.jsonl": legacy.jsonl([*legacy.turns(legacy.sid(2), 3, version=2), *_long_turns()]),
        f"{legacy.sid(2)}.trajectory.jsonl": legacy.jsonl(trajectory),
        f"{legacy.sid(3)}.jsonl": legacy.jsonl(legacy.turns(legacy.sid(3), 2)),
    }
    state = legacy.make_state(root, index, files)
    for number, path in enumerate(sorted(state.rglob("*.json*"))):
        os.utime(path, ns=(1_790_000_000_123_456_789 + number, 1_790_000_000_123_456_789 + number))
    return state


def _long_turns() -> Iterator[dict[str, Any]]:
    """Turns that fill several pages of a store; digests, so that they cannot be compressed much."""
    parent = "m0000002"
    for number in range(4):
        text = "".join(hashlib.sha256(f"{number} {part}".encode()).hexdigest() for part in range(30))
        yield legacy.message(f"n{number:07d}", parent, 10 + number, "user", [legacy.text_block(text)])
        parent = f"n{number:07d}"


def imported(bench: Bench) -> Path:
    """The state after an import."""
    before = file_era(bench.root / "file-era")
    done = bench.ask(before, "import", [])
    assert 0 == done["cut"]["status"], done["after"]["said"]
    return Path(shutil.copytree(bench.state, bench.root / "imported"))


def damaged(bench: Bench, whole: Path) -> Path:
    """A page of events destroyed, a turn that only the log has, a failed run, a leftover in the sessions directory."""
    shutil.rmtree(bench.state)
    state = Path(shutil.copytree(whole, bench.state))
    (run,) = (run for run in manifest.runs(state) if isinstance(run, manifest.Run))
    run.manifest.failed_at = run.manifest.completed_at
    run.save()
    (leftover,) = (state / "agents/main/session-sqlite-import-archive").glob(f"*.{legacy.sid(2)}.jsonl.imported-*")
    shutil.copyfile(leftover, state / f"agents/main/sessions/{legacy.sid(2)}.jsonl")
    database = state / DATABASE
    with Pages(database) as pages:
        leaves = shapes.layout(pages).leaves["transcript_events"]
    # One that the new turn does not touch: the log would hold it whole.
    assert len(leaves) > 2
    number = leaves[1]
    held = bench.root / "held"
    held.mkdir()
    with connection.open_write(database, agent_id="main") as store:
        store.execute("PRAGMA wal_autocheckpoint=0").fetchall()
        with store.transaction():
            row = b'{"type":"message","id":"late","parentId":null,"message":{"role":"user","content":"late"}}'
            events.append(store, legacy.KEY, legacy.sid(1), [(row, json.loads(row))], now_ms=NOW_MS)
        for suffix in ("", "-wal"):
            shutil.copyfile(f"{database}{suffix}", held / f"db{suffix}")
    for suffix in ("", "-wal"):
        shutil.copyfile(held / f"db{suffix}", f"{database}{suffix}")
    with database.open("r+b") as file:
        file.seek((number - 1) * 4096)
        file.write(bytes(4096))
    return Path(shutil.copytree(state, bench.root / "damaged"))


def derived(bench: Bench, whole: Path) -> Path:
    """What follows from the rows is wrong, and beside the store lies the log of another database."""
    shutil.rmtree(bench.state)
    state = Path(shutil.copytree(whole, bench.state))
    with connection.open_write(state / DATABASE, agent_id="main") as store, store.transaction():
        store.execute("DELETE FROM session_transcript_active_events")
    other = bench.root / "other.sqlite"
    with connection.create(other, agent_id="elsewhere", now_ms=1) as store:
        store.execute("UPDATE schema_meta SET updated_at = 2")
        shutil.copyfile(f"{other}-wal", state / f"{DATABASE}-wal")
    (state / f"{DATABASE}-shm").unlink(missing_ok=True)
    return Path(shutil.copytree(state, bench.root / "derived"))


# --- trying ---------------------------------------------------------------------------------------------------------


def try_points(bench: Bench, scenario: Scenario, kind: str, *, full: bool) -> tuple[int, list[str]]:
    """Cut every point of the sample; gives their number and what did not hold."""
    tried, found = 0, []
    for number in sample(len(scenario.points), cutting.KINDS.index(kind), full=full):
        how = {"at": number, "kind": kind, "links": scenario.links}
        answer = bench.ask(scenario.pristine, scenario.mode, later(scenario, number), **how)
        tried += 1
        if answer["cut"] is not None and len(answer["cut"]["points"]) <= number:
            found.append(f"{number}: the run did not come to this point")
        found.extend(f"{number} {scenario.points[number]}: {text}" for text in complaints(scenario, answer, kind))
    return tried, found


def try_closed(bench: Bench, scenario: Scenario, closed: str, *, mount: bool = False) -> list[str]:
    """Run while nothing below a directory can be changed, then undisturbed; gives what did not hold.

    A mount is a file system of its own: there are no links into it.
    """
    scenario = replace(scenario, links=not mount)
    answer = bench.ask(scenario.pristine, scenario.mode, ["recover", "recover"], closed=closed, mount=mount)
    return complaints(scenario, answer, "erofs")


def can_mount() -> bool:
    """Whether a process may make mounts that only it sees (as root, or where user namespaces allow it)."""
    return subprocess.run(["unshare", "--mount", "true"], capture_output=True).returncode == 0


# --- what must hold -------------------------------------------------------------------------------------------------


def sample(points: int, kind: int, *, full: bool) -> Iterator[int]:
    """The points to cut: all, or every n-th, beginning elsewhere for each kind."""
    stride = 1 if full else max(1, points // SAMPLE)
    return iter(range(kind * stride // 4, points, stride))


def later(scenario: Scenario, number: int) -> list[str]:
    """The runs behind a cut: a recovery, or every second time the same command again; then nothing is left to do."""
    return ["recover", "recover"] if number % 2 else [scenario.mode, "recover", "recover"]


def complaints(scenario: Scenario, answer: dict[str, Any], kind: str) -> list[str]:
    """What does not hold after a cut."""
    found = []
    after, ended = answer["after"], answer["ended"]
    lost = scenario.lasting - set(after["digests"])
    if lost:
        found.append(f"{len(lost)} content(s) in no file after the cut")
    if after["databases_gone"]:
        found.append(f"no database after the cut: {after['databases_gone']}")
    killed = answer["exit"] == -9
    if killed != (kind == "sigkill"):
        found.append(f"the cut run ended with {answer['exit']}")
    if kind in ("enospc", "eio", "erofs") and "this is a fault of" in after["said"]:
        found.append("a failure of the system was taken for a fault of ours")
    if "died" in ended:
        return [*found, f"what follows died: {ended['died']}"]
    said = words(answer)
    statuses = [run["status"] for run in ended["runs"]]
    if any(statuses) or said[-1] != "clean":
        found.append(f"then: {said} {statuses}")
    if ended["faults"]:
        found.append(f"not sound: {ended['faults'][:3]}")
    if ended["events"] != scenario.events:
        found.append(f"events differ: {difference(scenario.events, ended['events'])}")
    found.extend(_file_complaints(scenario, ended))
    if ended["debris"]:
        found.append(f"left behind: {ended['debris']}")
    return found


def _file_complaints(scenario: Scenario, ended: dict[str, Any]) -> list[str]:
    """Without hard links a cut leaves a copy, and both are archived; else each content is there as often as ever."""
    wanted, files = scenario.files, ended["files"]
    same = set(wanted) == set(files) and all(files[one] >= wanted[one] for one in wanted)
    if scenario.links:
        same = wanted == files
    if same and ended["names"] == scenario.names:
        return []
    return [f"files differ: {difference(wanted, files)}, {ended['names']}"]


def difference(wanted: dict[str, int], found: dict[str, int]) -> dict[str, int]:
    """How often too much (positive) or too little (negative) each thing is there."""
    keys = wanted.keys() | found.keys()
    return {key[:8]: found.get(key, 0) - wanted.get(key, 0) for key in keys if found.get(key, 0) != wanted.get(key, 0)}
