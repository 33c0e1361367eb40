"""The disk budget: order, what never goes, and a preview that tells to the byte."""

from __future__ import annotations

import json
import os
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import apsw
import archived_states as states
import pytest
from store_states import NOW_MS, State

from openclaw_cli import archive
from openclaw_cli.config.paths import store_target
from openclaw_cli.migration.plan import Rules
from openclaw_cli.retention import budget, cleaning, trial
from openclaw_cli.retention.cleaning import Options
from openclaw_cli.retention.report import TargetReport
from openclaw_cli.retention.settings import Maintenance, with_budget
from openclaw_cli.storage import connection, verify

DAY_MS = 86_400_000
OLD_MS = NOW_MS - 3 * DAY_MS
CAP = {"archivedAt": NOW_MS - DAY_MS, "archiveReason": "active-session-cap"}


def rows(session_id: str, text_bytes: int = 60_000) -> list[Any]:
    """A session with one long message that hardly compresses."""
    text = random.Random(session_id).randbytes(text_bytes // 2).hex()
    at = "2026-09-01T00:00:00.000Z"
    return [
        {"type": "session", "version": 4, "id": session_id, "timestamp": at, "cwd": "/w"},
        {"type": "message", "id": "m", "parentId": None, "timestamp": at, "message": {"role": "user", "content": text}},
    ]


class Full(State):
    """A store with something of every kind that a budget takes, and of everything that it leaves."""

    def fill(self) -> None:
        """Two generations of a key, a by-product, cap-archived and other rows, archives of two ages."""
        for number, session_id in enumerate(("old-1", "old-2", "now")):
            self.add(rows(session_id), key="agent:main:explicit:a", session_id=session_id, updatedAt=OLD_MS + number)
        self.add(rows("recent"), key="agent:main:explicit:live", session_id="recent", updatedAt=NOW_MS - 60_000)
        self.add(rows("sub"), key="agent:main:subagent:s", session_id="sub", updatedAt=OLD_MS)
        self.add(rows("busy"), key="agent:main:subagent:r", session_id="busy", updatedAt=OLD_MS, status="running")
        self.add(rows("cap"), key="agent:main:explicit:cap", session_id="cap", updatedAt=OLD_MS, **CAP)
        self.add(rows("pin"), key="agent:main:explicit:pin", session_id="pin", updatedAt=OLD_MS, pinnedAt=1, **CAP)
        manual = {"archivedAt": 1, "archiveReason": "manual"}
        self.add(rows("manual"), key="agent:main:explicit:man", session_id="manual", updatedAt=OLD_MS, **manual)
        for name, age_days in (("x", 5), ("y", 3), ("z", 0)):
            stamp = {5: "2026-09-16", 3: "2026-09-18", 0: "2026-09-21"}[age_days]
            path = self.sessions / f"{name}.jsonl.deleted.{stamp}T13-00-00.000Z"
            path.write_bytes(os.urandom(40_000))

    def measure(self) -> int:
        """Bytes that count."""
        files = sum(path.stat().st_size for path in self.sessions.iterdir())
        log = self.database.with_name(self.database.name + "-wal")
        return self.database.stat().st_size + (log.stat().st_size if log.exists() else 0) + files


@pytest.fixture
def full(tmp_path: Path) -> Full:
    """The full store."""
    made = Full(tmp_path / "state")
    made.fill()
    return made


@pytest.fixture
def cleanup(run_cli: Callable[..., Any]) -> Callable[..., dict[str, Any]]:
    """Run `sessions cleanup --json`."""

    def run(state: State, *words: str, status: int = 0) -> dict[str, Any]:
        done = run_cli("sessions", "cleanup", "--state-dir", state.root, "--now", str(NOW_MS), "--json", *words)
        assert status == done.status, done.stderr + done.stdout
        return json.loads(done.stdout)

    return run


def taken(document: dict[str, Any]) -> list[str]:
    """What the budget took, in order: the archive's first letter, or the session id."""
    return [
        each.get("archive", "")[:1] or each["sessionId"]
        for each in document["decisions"]
        if each["reason"].startswith("disk-budget")
    ]


def content(state: Full, place: Path | None = None) -> set[tuple[str, bytes]]:
    """(session id, event) of the store and of the archives that removals made."""
    found = set()
    with connection.open_read(state.database, temporary_tables=True) as store:
        assert [] == [*verify.integrity(store), *verify.verify(store)]
        for session_id, text in store.execute("SELECT session_id, seq || ':' FROM transcript_events").fetchall():
            found.add((session_id, text.encode()))
    for path in (place or state.sessions).glob("*.jsonl.deleted.*.zst"):
        with archive.open_stream(path) as stream:
            session_id = path.name.split(".jsonl.deleted.")[0]
            found |= {(session_id, f"{number}:".encode()) for number, _ in enumerate(stream)}
    return found


ORDER = ["x", "y", "old-1", "old-2", "sub", "cap"]


def test_everything_that_may_go_goes_in_order(full: Full, cleanup: Callable[..., Any], tmp_path: Path) -> None:
    """With a budget out of reach; the preview is exact; live, running, pinned, manual rows and young archives stay."""
    before, everything = content(full), states.everything(full.root)
    place = tmp_path / "elsewhere"
    options = ("--max-disk", "100kb", "--archive-dir", str(place), "--enforce")

    planned = cleanup(full, *options, "--dry-run", status=3)
    assert everything == states.everything(full.root)
    done = cleanup(full, *options, status=3)

    assert ORDER == taken(planned) == taken(done)
    assert planned["diskBudget"]["totalBytesAfter"] == done["diskBudget"]["totalBytesAfter"] == full.measure()
    assert (2, 4) == tuple(done["diskBudget"][name] for name in ("removedFiles", "removedEntries"))
    assert not planned["diskBudget"]["estimated"]
    assert before == content(full, place)
    (issue,) = [each for each in done["issues"] if each["code"] == "disk_budget_unreached"]
    assert str(full.database) in issue["message"]
    assert ["z"] == [path.name[0] for path in full.sessions.iterdir()]
    audit = [json.loads(line) for line in (full.root / "openclaw-cli/audit.jsonl").read_text().splitlines()]
    assert {"archive-removed", "history-removed", "removed", "session-archived"} == {line["event"] for line in audit}
    assert all(len(line["sha256"]) == 64 for line in audit if line["event"] == "archive-removed")
    assert 0o600 == (full.root / "openclaw-cli/audit.jsonl").stat().st_mode & 0o777


@pytest.mark.parametrize("count", [1, 2, 3])
def test_it_stops_at_the_high_water(full: Full, cleanup: Callable[..., Any], tmp_path: Path, count: int) -> None:
    """No more than is needed, in the same order."""
    place = str(tmp_path / "elsewhere")
    document = cleanup(full, "--max-disk", "100kb", "--archive-dir", place, "--enforce", "--dry-run", status=3)
    total = document["diskBudget"]["totalBytesBefore"]
    sizes = [each["bytes"] for each in document["decisions"] if each["reason"].startswith("disk-budget")]
    # The deleted text is about as long as the space that goes back, so half of the next one is well in between.
    unused = total - full_after_reclaim(full, cleanup, place)
    high_water = total - unused - sum(sizes[: count - 1]) - sizes[count - 1] // 2

    done = cleanup(
        full, "--max-disk", str(high_water), "--high-water", str(high_water), "--archive-dir", place, "--enforce"
    )

    assert ORDER[:count] == taken(done)
    assert full.measure() <= high_water


def full_after_reclaim(full: Full, cleanup: Callable[..., Any], place: str) -> int:
    """What is left when only unused space was given back."""
    total = cleanup(full, "--enforce", "--dry-run", "--archive-dir", place)["diskBudget"]["totalBytesBefore"]
    most = str(total - 1)
    document = cleanup(full, "--enforce", "--dry-run", "--max-disk", most, "--high-water", most, "--archive-dir", place)
    return document["diskBudget"]["totalBytesAfter"] if not taken(document) else total


def test_an_archive_of_this_run_is_never_taken_by_it(full: Full, cleanup: Callable[..., Any]) -> None:
    """Not even without any grace: what was archived stays, and the run says that it is not enough."""
    before = content(full)

    document = cleanup(full, "--max-disk", "100kb", "--archive-grace", "0", "--enforce", status=3)

    # Without grace the archive of today, which was there before, goes, too.
    assert ["x", "y", "z", "old-1", "old-2", "sub", "cap"] == taken(document)
    assert before == content(full)


def test_recent_history_stays(full: Full, cleanup: Callable[..., Any]) -> None:
    """Where preserveRecent says so."""
    full.configure({"session": {"maintenance": {"preserveRecent": "7d", "maxDiskBytes": "100kb"}}})

    assert ["x", "y", "sub"] == taken(cleanup(full, "--enforce", status=3))


def test_warn_reports_only(full: Full, cleanup: Callable[..., Any]) -> None:
    """Bytes are measured, nothing is taken."""
    full.configure({"session": {"maintenance": {"mode": "warn", "maxDiskBytes": "100kb"}}})
    before = states.everything(full.root)

    document = cleanup(full)

    assert document["diskBudget"]["overBudget"] and [] == taken(document)
    assert before == states.everything(full.root)


def test_no_budget(full: Full, cleanup: Callable[..., Any]) -> None:
    """0, "0" and false switch it off; nothing is deleted then."""
    for off in (0, "0", False):
        full.configure({"session": {"maintenance": {"maxDiskBytes": off}}})
        assert cleanup(full, "--enforce")["diskBudget"] is None
    assert [] == taken(cleanup(full, "--enforce", "--max-disk", "0"))


def test_a_reader_in_the_way_defers_it(full: Full, cleanup: Callable[..., Any]) -> None:
    """The log cannot be emptied: nothing is taken, and that is said with status 3."""
    full.execute("UPDATE session_windows SET updated_at = updated_at")
    reader = apsw.Connection(str(full.database))
    reader.execute("BEGIN").fetchall()
    assert reader.execute("SELECT count(*) FROM session_nodes").fetchall()
    full.execute("UPDATE session_windows SET updated_at = updated_at")
    try:
        document = cleanup(full, "--max-disk", "100kb", "--enforce", status=3)
    finally:
        reader.close()

    assert "checkpoint-incomplete" == document["diskBudget"]["deferredReason"]
    assert [] == taken(document)


def test_no_room_for_a_trial(full: Full, monkeypatch: pytest.MonkeyPatch) -> None:
    """Then the same steps are told by sizes alone, marked as an estimate, and no byte changes."""
    monkeypatch.setattr(trial, "free_bytes", lambda _: 0)
    before = states.everything(full.root)
    target = store_target(full.sessions / "sessions.json", "main")
    options = Options(Rules(), with_budget(Maintenance(), 100 * 1024, None), NOW_MS, archive_dir=full.root / "x")

    report = TargetReport(target, options.settings, NOW_MS, True)
    with connection.open_read(full.database) as store:
        found = cleaning.look(store, target, options)
        report.take(found)
        assert not trial.has_room(found)
        report.foresee(budget.estimate(store, target, options))

    document = report.as_json()
    assert ORDER == taken(document)
    assert document["diskBudget"]["estimated"]
    assert document["diskBudget"]["totalBytesAfter"] < document["diskBudget"]["totalBytesBefore"]
    assert before == states.everything(full.root)
