"""Damaged transcripts of real shape: no crash, and every whole record is imported, a duplicate, or named as lost."""

from __future__ import annotations

import json
import random
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any

import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from openclaw_cli.config.paths import Target
from openclaw_cli.migration import importing, previewing, validating
from openclaw_cli.migration.job import Job, plan_all
from openclaw_cli.migration.plan import Rules
from openclaw_cli.migration.reporting import TargetReport
from openclaw_cli.storage import connection, events, verify
from tests.support.conversations import random_conversation

NOW_MS = 1_790_000_000_000
PER_STATE = 25
Mutation = Callable[[random.Random, bytes], bytes]


def _cut(rng: random.Random, data: bytes) -> bytes:
    """A range is missing."""
    at = rng.randrange(len(data) + 1)
    return data[:at] + data[at + rng.choice([1, 7, 60, 400]) :]


def _torn(rng: random.Random, data: bytes) -> bytes:
    """The end is missing."""
    return data[: rng.randrange(len(data) + 1)]


def _torn_head(rng: random.Random, data: bytes) -> bytes:
    """The beginning is missing."""
    return data[rng.randrange(min(len(data), 300) + 1) :]


def _glued(rng: random.Random, data: bytes) -> bytes:
    """One line end is missing."""
    ends = [at for at, byte in enumerate(data) if byte == 10]
    if not ends:
        return data
    at = rng.choice(ends)
    return data[:at] + data[at + 1 :]


def _nuls(rng: random.Random, data: bytes) -> bytes:
    """NULs were put in, or stand where data was."""
    at, size = rng.randrange(len(data) + 1), rng.choice([1, 2, 64, 512])
    return data[:at] + b"\0" * size + data[at + (size if rng.random() < 0.5 else 0) :]


def _spliced(rng: random.Random, data: bytes) -> bytes:
    """The beginning of one place of the file stands in another one."""
    at, other = rng.randrange(len(data) + 1), rng.randrange(len(data) + 1)
    return data[:at] + data[other : other + rng.choice([3, 50, 300])] + data[at:]


def _flipped(rng: random.Random, data: bytes) -> bytes:
    """One byte is another one."""
    if not data:
        return data
    at = rng.randrange(len(data))
    return data[:at] + bytes([rng.choice([0, 9, 10, 34, 44, 123, 125, 255, rng.randrange(256)])]) + data[at + 1 :]


def _repeated(rng: random.Random, data: bytes) -> bytes:
    """One line stands twice, perhaps with another text the second time."""
    lines = data.splitlines(keepends=True)
    if not lines:
        return data
    again = rng.choice(lines)
    if rng.random() < 0.5:
        again = again.replace(b"a", b"e")
    lines.insert(rng.randrange(len(lines) + 1), again)
    return b"".join(lines)


def _swapped(rng: random.Random, data: bytes) -> bytes:
    """Two lines changed places."""
    lines = data.splitlines(keepends=True)
    if len(lines) > 2:
        one, other = rng.randrange(1, len(lines)), rng.randrange(1, len(lines))
        lines[one], lines[other] = lines[other], lines[one]
    return b"".join(lines)


MUTATIONS: tuple[Mutation, ...] = (_cut, _torn, _torn_head, _glued, _nuls, _spliced, _flipped, _repeated, _swapped)


class Damaged:
    """One transcript: its lines while it was whole, and the bytes that are left."""

    def __init__(self, rng: random.Random) -> None:
        self.session_id = str(uuid.UUID(int=rng.getrandbits(128), version=4))
        talk = random_conversation(rng)
        talk.rows[0]["id"] = self.session_id
        rows = [json.dumps(row, ensure_ascii=False, separators=(",", ":")).encode() for row in talk.rows]
        self.lines = set(rows)
        data = b"".join(row + b"\n" for row in rows)
        for _ in range(rng.randint(1, 4)):
            data = rng.choice(MUTATIONS)(rng, data)
        self.data = data


def _job(root: Path, *, salvage: bool = True) -> Job:
    base = root / "agents/main"
    target = Target(
        "main",
        base / "sessions/sessions.json",
        base / "agent/openclaw-agent.sqlite",
        base / "sessions",
        base / "session-sqlite-import-archive",
    )
    return Job(root, (target,), Rules(salvage=salvage), NOW_MS, lambda _: target)


def _write(root: Path, found: list[Damaged]) -> None:
    sessions = root / "agents/main/sessions"
    sessions.mkdir(parents=True, exist_ok=True)
    for one in found:
        (sessions / f"{one.session_id}.jsonl").write_bytes(one.data)
    rows = {
        f"agent:main:explicit:{number}": {"sessionId": one.session_id, "updatedAt": NOW_MS}
        for number, one in enumerate(found)
    }
    (sessions / "sessions.json").write_bytes(orjson.dumps(rows))


def _imported(root: Path) -> TargetReport:
    """Dry run and import, which must say the same; the import's report."""
    job = _job(root)
    (said,) = previewing.dry_run(job, plan_all(job)).targets
    (done,) = importing.run(job, plan_all(job)).targets
    assert said.validated_events == done.validated_events
    assert said.damage == done.damage
    assert [said.lines_lost, said.lines_salvageable, said.parent_breaks] == [
        done.lines_lost,
        done.lines_salvageable,
        done.parent_breaks,
    ]
    assert sorted(issue.code for issue in said.issues) == sorted(issue.code for issue in done.issues)
    return done


def _conflicting_lines(report: TargetReport, one: Damaged) -> set[int]:
    """Lines that were left out because their id was taken."""
    return {
        pair["lines"][1]
        for issue in report.issues
        if issue.code == "event_id_conflict" and one.session_id in issue.facts["file"]
        for pair in issue.facts["divergent"]
    }


def _check_validation(root: Path, done: TargetReport) -> None:
    """The archived originals are in the store, in order, but for the rows whose id was taken."""
    job = _job(root, salvage=False)
    (target,) = validating.validate(job, plan_all(job)).targets
    conflicts = [issue.facts["divergentTotal"] for issue in done.issues if issue.code == "event_id_conflict"]
    kinds = ("missingTotal", "disorderedTotal", "differentTotal")
    assert [0, 0, sum(conflicts)] == [sum(row[kind] for row in target.extra["sessions"]) for kind in kinds]
    assert done.validated_events == target.extra["archives"]["contained"]


def _unlinked(text: bytes) -> bytes:
    """A row without its links: without a header that names version 3 or 4 the import makes them anew."""
    row = orjson.loads(text)
    return orjson.dumps({name: value for name, value in row.items() if name not in ("id", "parentId")})


def _check_accounts(one: Damaged, stored: list[bytes], report: TargetReport) -> None:
    """Every line that was whole once, and still stands in the file, is stored, under a taken id, or inside damage."""
    form = bytes if stored and stored[0] in one.lines else _unlinked
    kept = [form(text) for text in stored]
    rows = {line: form(line) for line in one.lines if b'"type":"session"' not in line}
    conflicts = _conflicting_lines(report, one)
    damage = [found for found in report.damage if one.session_id in found.file]
    alone = one.data.split(b"\n")
    for line in rows:
        at = -1 if rows[line] in kept else one.data.find(line)
        while at >= 0:
            number = one.data.count(b"\n", 0, at) + 1
            within = [found for found in damage if found.line == number and found.is_error]
            assert number in conflicts or (within and line not in alone), (number, conflicts, damage)
            at = one.data.find(line, at + 1)
    if form is bytes:
        places = {text: place for place, text in enumerate(kept)}
        # A repeated line may stand inside damage the first time.
        order = [places[line] for line in alone if line in places and one.data.count(line) == 1]
        assert sorted(order) == order


def test_mutated_transcripts(tmp_path: Path, full_counts: bool) -> None:
    """Cut, glued, spliced, overwritten: whole records come in, in order; the rest is named; the store is sound."""
    for number in range(200 if full_counts else 2):
        rng = random.Random(number)
        found = [Damaged(rng) for _ in range(PER_STATE)]
        root = tmp_path / str(number)
        _write(root, found)
        report = _imported(root)
        assert report.failure is None
        with connection.open_read(root / "agents/main/agent/openclaw-agent.sqlite", temporary_tables=True) as store:
            assert [] == verify.integrity(store, quick=True)
            assert [] == list(verify.verify(store))
            _check_validation(root, report)
            for one in found:
                _check_accounts(one, [text for _, text in events.stream(store, one.session_id)], report)


TEXTS = [f"text {number}" for number in range(8)]


@pytest.fixture(scope="module")
def states(tmp_path_factory: pytest.TempPathFactory) -> Callable[[], Path]:
    """Makes a fresh directory for each example."""
    return lambda: tmp_path_factory.mktemp("state")


@settings(deadline=None)
@given(st.lists(st.booleans(), min_size=8, max_size=8), st.integers(0, 3))
def test_salvage_restores_the_order(states: Callable[[], Path], good: list[bool], turns: int) -> None:
    """Rows that a plain import kept out go where the file has them; turns since then stay behind them, the newest."""
    root = states()
    session = "0f5e0c0e-7d3c-4b6e-9d7e-2a35b7a1c001"
    rows: list[dict[str, Any]] = [
        {"type": "session", "version": 3, "id": session, "timestamp": "2026-08-06T07:06:40.000Z", "cwd": "/w"}
    ]
    for number, text in enumerate(TEXTS):
        rows.append(_message(f"m{number}", f"m{number - 1}" if number else None, text))
    lines = [orjson.dumps(row) for row in rows]
    bad = [line if kept else line.replace(b"text", b"te\xffxt") for line, kept in zip(lines[1:], good, strict=True)]
    sessions = root / "agents/main/sessions"
    sessions.mkdir(parents=True)
    (sessions / f"{session}.jsonl").write_bytes(b"\n".join([lines[0], *bad, b""]))
    plain = _job(root, salvage=False)
    importing.run(plain, plan_all(plain))
    store_path = plain.targets[0].sqlite_path
    newer = [_message(f"n{number}", f"n{number - 1}" if number else "m7", "new") for number in range(turns)]
    with connection.open_write(store_path, agent_id="main") as store, store.transaction():
        key = store.value("SELECT session_key FROM session_nodes")
        events.append(store, key, session, [(orjson.dumps(row), row) for row in newer], now_ms=NOW_MS)
    (archived,) = (root / "agents/main/session-sqlite-import-archive").glob("*.jsonl.*")
    archived.rename(sessions / f"{session}.jsonl")

    job = _job(root)
    importing.run(job, plan_all(job))

    with connection.open_read(store_path, temporary_tables=True) as store:
        stored = [orjson.loads(text)["id"] for _, text in events.stream(store, session)]
        assert [] == list(verify.verify(store))
        leaf = store.value("SELECT leaf_event_id FROM session_transcript_index_state")
    wanted = [session, *(f"m{number}" for number in range(8))]
    late = [row["id"] for row in newer]
    if turns:
        # What follows the last row that was stored is newer than the plain import as well; it stays at the end.
        last = max((number for number, kept in enumerate(good) if kept), default=-1)
        wanted = [*wanted[: last + 2], *late, *wanted[last + 2 :]]
    assert wanted == stored
    assert wanted[-1] == leaf


def _message(identity: str, parent: str | None, text: str) -> dict[str, Any]:
    moment = "2026-08-06T07:06:40.000Z"
    message = {"role": "user", "content": text}
    return {"type": "message", "id": identity, "parentId": parent, "timestamp": moment, "message": message}
