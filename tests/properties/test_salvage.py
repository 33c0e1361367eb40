"""Damaged transcripts of real shape: no crash, and every whole record is imported, a duplicate, or named as lost."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import orjson
import pytest
from damaged_transcripts import MUTATIONS, Damaged
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from openclaw_cli.config.paths import Target
from openclaw_cli.jsonl.damage import Action
from openclaw_cli.migration import importing, previewing, validating
from openclaw_cli.migration.job import Job, plan_all
from openclaw_cli.migration.plan import Rules
from openclaw_cli.migration.reporting import TargetReport
from openclaw_cli.storage import connection, events, verify

NOW_MS = 1_790_000_000_000
PER_STATE = 25


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


def _imported(root: Path, *, salvage: bool = True) -> TargetReport:
    """Dry run and import, which must say the same; the import's report."""
    job = _job(root, salvage=salvage)
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


def _form(one: Damaged, stored: list[bytes]) -> Callable[[bytes], bytes]:
    """How to compare rows: as they are where the header came in, else without the links that were made anew."""
    headed = stored and stored[0] in one.lines and b'"type":"session"' in stored[0]
    return bytes if headed else _unlinked


def _check_accounts(one: Damaged, stored: list[bytes], report: TargetReport) -> None:
    """Every line that was whole once, and still stands in the file, is stored, under a taken id, or inside damage."""
    form = _form(one, stored)
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


def _check_plain_accounts(one: Damaged, stored: list[bytes], report: TargetReport) -> None:
    """Without salvage: a whole line is stored, or its session was not committed, or its damage, or its end, is named.

    The import ends at the first line that is not whole; it counts what stands behind it.
    """
    if _conflicting_lines(report, one):
        assert [] == stored
        return
    form = _form(one, stored)
    kept = {form(text) for text in stored}
    damage = [found for found in report.damage if one.session_id in found.file]
    ends = min((found.line for found in damage if found.action is Action.STOPPED), default=None)
    for number, line in enumerate(one.data.split(b"\n"), start=1):
        if line not in one.lines or b'"type":"session"' in line or form(line) in kept:
            continue
        known = any(found.line == number for found in damage)
        assert known or (ends is not None and number >= ends), (number, damage)


def _check_state(root: Path, found: list[Damaged], *, salvage: bool) -> None:
    """Import what was damaged: it ends, the store is sound, every whole record is accounted for, validation agrees."""
    _write(root, found)
    report = _imported(root, salvage=salvage)
    assert report.failure is None
    with connection.open_read(root / "agents/main/agent/openclaw-agent.sqlite", temporary_tables=True) as store:
        assert [] == verify.integrity(store, quick=True)
        assert [] == list(verify.verify(store))
        check = _check_accounts if salvage else _check_plain_accounts
        for one in found:
            check(one, [text for _, text in events.stream(store, one.session_id)], report)
    if salvage:
        _check_validation(root, report)
    else:
        job = _job(root, salvage=False)
        assert None is validating.validate(job, plan_all(job)).targets[0].failure


@pytest.mark.timeout(3600)
@pytest.mark.parametrize("salvage", [True, False])
def test_mutated_transcripts(salvage: bool, tmp_path: Path, full_counts: bool) -> None:
    """Cut, glued, spliced, overwritten: whole records come in, in order; the rest is named; the store is sound.

    5,000 transcripts with full counts, 50 without.
    """
    for number in range(200 if full_counts else 2):
        rng = random.Random(number)
        _check_state(tmp_path / str(number), [Damaged(rng) for _ in range(PER_STATE)], salvage=salvage)


_DAMAGED = st.builds(
    lambda seed, mutations: Damaged(random.Random(seed), mutations),
    st.integers(0, 2**32),
    st.lists(st.sampled_from(MUTATIONS), min_size=1, max_size=6),
)


@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture])
@given(found=st.lists(_DAMAGED, min_size=1, max_size=3), salvage=st.booleans())
def test_drawn_mutations(found: list[Damaged], salvage: bool, states: Callable[[], Path]) -> None:
    """The same with mutations that Hypothesis draws, and makes fewer when something is wrong."""
    once = {one.session_id: one for one in found}
    _check_state(states(), list(once.values()), salvage=salvage)


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
