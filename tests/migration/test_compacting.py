"""`doctor compact`: what it gives back, what it leaves alone, and when it does nothing."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import archived_states as states
import pytest
import roomy_stores as stores

from openclaw_cli import locks
from openclaw_cli.config.paths import Target, store_target
from openclaw_cli.migration import compacting
from openclaw_cli.migration.compacting import Limits
from openclaw_cli.storage import connection, space
from openclaw_cli.storage.connection import Timeouts
from openclaw_cli.storage.lockfile import Exclusive

LIMITS = Limits(Timeouts(), 0, {})
OPENCLAW_KEYS = {
    "dbSizeAfterBytes", "dbSizeBeforeBytes", "freelistAfterPages", "freelistBeforePages", "pageSizeBytes",
    "reclaimedBytes", "skipped", "walSizeAfterBytes", "walSizeBeforeBytes",
}  # fmt: skip


@pytest.fixture
def state(tmp_path: Path) -> Path:
    """A state directory."""
    path = tmp_path / "state"
    path.mkdir()
    return path


@pytest.fixture
def store(state: Path) -> Path:
    """The default agent's store, with many unused pages."""
    return stores.make(database(state), kept=600, deleted=600)


def database(state: Path, agent_id: str = "main") -> Path:
    """Where the store of an agent is."""
    return state / f"agents/{agent_id}/agent/openclaw-agent.sqlite"


def target(path: Path) -> Target:
    """The store as a target."""
    return store_target(path.parents[1] / "sessions/sessions.json", "main")


def compacted(run_cli: Callable[..., Any], state: Path, *argv: str, status: int = 0) -> dict[str, Any]:
    """The document of `doctor compact --json`."""
    done = run_cli("doctor", "compact", "--state-dir", state, *argv, "--json")
    assert status == done.status, done.stderr + done.stdout
    return json.loads(done.stdout)


@pytest.mark.parametrize("incremental", [True, False])
def test_gives_unused_pages_back(incremental: bool, state: Path, run_cli: Callable[..., Any]) -> None:
    """The files shrink by what is reported, rows and search stay, and incremental vacuum is on afterwards."""
    path = stores.make(database(state), kept=600, deleted=600, incremental=incremental)
    before, words, size = stores.rows(path), stores.found(path, "word5"), space.sizes(path).database_bytes
    document = compacted(run_cli, state)
    (found,) = document["targets"]
    compact = found["compact"]
    assert OPENCLAW_KEYS <= set(compact)
    after = space.sizes(path)
    assert (size, after.database_bytes) == (compact["dbSizeBeforeBytes"], compact["dbSizeAfterBytes"])
    assert size - after.database_bytes == compact["reclaimedBytes"] == document["totals"]["reclaimedBytes"]
    assert compact["reclaimedBytes"] >= compact["reclaimableBytes"] - 10 * 4096 > 0
    assert (0, 4096, False) == (compact["freelistAfterPages"], compact["pageSizeBytes"], compact["skipped"])
    kind = "incremental" if incremental else "none"
    assert (kind, "incremental") == (compact["autoVacuumBefore"], compact["autoVacuumAfter"])
    assert ("ok", 1) == (found["dbStats"]["integrityCheck"], found["sqliteEntries"])
    assert before == stores.rows(path)
    assert words == stores.found(path, "word5") != []
    with connection.open_write(path, agent_id="main") as opened:
        assert {} == connection.persistent_differences(opened)
    again = compacted(run_cli, state)["targets"][0]["compact"]
    assert (0, 0) == (again["reclaimedBytes"], again["searchMergeSteps"])


def test_a_log_is_written_back(store: Path, state: Path, run_cli: Callable[..., Any]) -> None:
    """What only the log holds (its writer was killed) is in the database afterwards; the log counts as reclaimed."""
    kept = {}
    with connection.open_write(store, agent_id="main") as writer:
        writer.execute("UPDATE memory_index_state SET revision = 7")
        for suffix in ("", "-wal"):
            name = store.with_name(store.name + suffix)
            kept[name] = name.read_bytes()
    for name, data in kept.items():
        name.write_bytes(data)
    compact = compacted(run_cli, state)["targets"][0]["compact"]
    assert compact["walSizeBeforeBytes"] > 0 == compact["walSizeAfterBytes"]
    with connection.open_read(store) as reader:
        assert 7 == reader.value("SELECT revision FROM memory_index_state")


def test_openclaw_spelling_and_text(store: Path, state: Path, run_cli: Callable[..., Any]) -> None:
    """OpenClaw's command line does the same; the text has both sizes."""
    done = run_cli("doctor", "--session-sqlite", "compact", "--session-sqlite-all-agents", "--state-dir", state)
    assert 0 == done.status, done.stderr
    assert "session-sqlite compact: 1 target(s), 1 SQLite entries" in done.stdout
    assert f"->{space.sizes(store).database_bytes} bytes, wal=0->0 bytes" in done.stdout
    assert "" == done.stderr


def test_dry_run_writes_nothing(store: Path, state: Path, run_cli: Callable[..., Any]) -> None:
    """The plan has the numbers that are known beforehand; no byte of any file changes and no lock is taken."""
    before = states.everything(state)
    document = compacted(run_cli, state, "--dry-run")
    compact = document["targets"][0]["compact"]
    assert (True, "planned", None, 0) == (
        document["dryRun"], compact["outcome"], compact["dbSizeAfterBytes"], compact["reclaimedBytes"],
    )  # fmt: skip
    assert compact["freelistBeforePages"] * 4096 == compact["reclaimableBytes"] > 0
    assert compact["dbSizeBeforeBytes"] * 2 == compact["room"][0]["neededBytes"]
    assert before == states.everything(state)
    text = run_cli("doctor", "compact", "--state-dir", state, "--dry-run").stdout
    assert "Dry run: nothing was changed." == text.splitlines()[-1]


def test_a_missing_store(state: Path, run_cli: Callable[..., Any]) -> None:
    """Listed as skipped when nobody named it, status 10 when somebody did; nothing is created."""
    compact = compacted(run_cli, state)["targets"][0]["compact"]
    assert (True, 0, 0) == (compact["skipped"], compact["dbSizeAfterBytes"], compact["reclaimedBytes"])
    (state / "agents/main/sessions").mkdir(parents=True)
    assert compacted(run_cli, state, "--all-agents")["targets"][0]["compact"]["skipped"]
    assert "not_found" == compacted(run_cli, state, "--agent", "main", status=10)["error"]["code"]
    assert {} == states.everything(state)


def test_what_stops_one_store_leaves_the_others(store: Path, state: Path, run_cli: Callable[..., Any]) -> None:
    """A store of another schema is refused (12), a damaged one fails (13), each as it was; the third is compacted."""
    newer = stores.make(database(state, "newer"), kept=5, deleted=5, agent_id="newer")
    with connection.open_write(newer, agent_id="newer") as opened:
        opened.execute("PRAGMA user_version=24")
    damaged = stores.make(database(state, "damaged"), kept=300, deleted=300, agent_id="damaged")
    data = bytearray(damaged.read_bytes())
    for page in range(40, 60):
        data[page * 4096 : page * 4096 + 100] = b"\xff" * 100
    damaged.write_bytes(data)
    kept = [states.digest(newer), states.digest(damaged)]
    document = compacted(run_cli, state, "--all-agents", status=13)
    reasons = {found["agentId"]: [issue["reason"] for issue in found["issues"]] for found in document["targets"]}
    assert {"main": [], "newer": ["schema_version"], "damaged": ["corrupt"]} == reasons
    assert (1, 3) == (document["totals"]["compacted"], document["totals"]["targets"])
    assert kept == [states.digest(newer), states.digest(damaged)]


def test_a_reader_prevents_it(store: Path, state: Path, run_cli: Callable[..., Any]) -> None:
    """Somebody with an old view of the log: busy (11) with the numbers, and the file is not rewritten."""
    size = space.sizes(store).database_bytes
    with connection.open_read(store) as reader, connection.open_write(store, agent_id="main") as writer:
        reader.execute("BEGIN")
        reader.value("SELECT count(*) FROM session_nodes")
        writer.execute("UPDATE memory_index_state SET revision = 5")
        (found,) = compacted(run_cli, state, "--wait", "10ms", status=11)["targets"]
        assert size == space.sizes(store).database_bytes
    (issue,) = found["issues"]
    assert ("sqlite_compact_failed", "error", "busy") == (issue["code"], issue["severity"], issue["reason"])
    assert 0 <= issue["checkpointedFrames"] < issue["logFrames"] and issue["walSizeBytes"] > 0
    assert ("failed", 0) == (found["compact"]["outcome"], found["compact"]["reclaimedBytes"])


def test_a_writer_prevents_it(store: Path, state: Path, run_cli: Callable[..., Any]) -> None:
    """An open transaction elsewhere: busy, after the wait that was asked for."""
    with connection.open_write(store, agent_id="main") as writer, writer.transaction():
        writer.execute("UPDATE memory_index_state SET revision = 5")
        (issue,) = compacted(run_cli, state, "--wait", "10ms", status=11)["targets"][0]["issues"]
    assert "busy" == issue["reason"]


def test_a_reader_that_comes_later_is_a_warning(store: Path) -> None:
    """The work is done, the file shrinks with the next checkpoint: numbers and status 0."""
    before = stores.rows(store)
    plans = compacting.plan([target(store)], {}, named=True)
    with connection.open_read(store) as reader:

        def read(step: str) -> None:
            if "rewriting" in step:
                reader.execute("BEGIN")
                reader.value("SELECT count(*) FROM session_nodes")

        report = compacting.run(plans, LIMITS, read)
    (issue,) = report.all_issues()
    assert ("checkpoint_blocked", "warning", 0) == (issue.code, issue.severity, report.status())
    assert 0 <= issue.facts["checkpointedFrames"] < issue.facts["logFrames"]
    with connection.open_write(store, agent_id="main") as writer:
        assert not space.checkpoint(writer, "TRUNCATE").blocked
    assert before == stores.rows(store)
    assert 0 == compacting.plan([target(store)], {}, named=True)[0].before.freelist_pages


def test_an_owner_prevents_it(store: Path, state: Path, run_cli: Callable[..., Any]) -> None:
    """A gateway that holds the state directory: busy, and no byte changes."""
    before = states.everything(state)
    locks.lock_dir().mkdir(mode=0o700, exist_ok=True)
    with Exclusive(locks.lifecycle_path(state)):
        assert "busy" == compacted(run_cli, state, status=11)["error"]["code"]
    assert before == states.everything(state)


def test_without_room_it_is_refused(store: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Less than twice the database's size free: refused by plan and by run, and no byte changes."""
    needed = 2 * space.sizes(store).database_bytes
    before = states.everything(store.parent)
    monkeypatch.setattr(compacting, "free_bytes", lambda path: needed - 1)
    plans = compacting.plan([target(store)], {}, named=True)
    for report in (compacting.preview(plans), compacting.run(plans, LIMITS, lambda step: None)):
        (issue,) = report.all_issues()
        assert (12, "no_space", needed, needed - 1) == (
            report.status(), issue.facts["reason"], issue.facts["neededBytes"], issue.facts["freeBytes"],
        )  # fmt: skip
    assert before == states.everything(store.parent)
    monkeypatch.setattr(compacting, "free_bytes", lambda path: needed)
    assert 0 == compacting.run(plans, LIMITS, lambda step: None).status()


def test_the_temporary_directory_counts(store: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where SQLite's temporary files are on another file system, that one needs the database's size once."""
    other = Path("/dev/shm")
    if not other.is_dir() or other.stat().st_dev == store.stat().st_dev:
        pytest.skip("there is no second file system here")
    size = space.sizes(store).database_bytes
    monkeypatch.setattr(compacting, "free_bytes", lambda path: size - 1 if path == other else 3 * size)
    (planned,) = compacting.plan([target(store)], {"SQLITE_TMPDIR": str(other)}, named=True)
    assert [2 * size, size] == [place.needed_bytes for place in planned.places]
    assert planned.failure is not None and "no_space" == planned.failure.code


def test_temporary_directories_in_order(tmp_path: Path) -> None:
    """SQLite's own order: its variable, then the system's, then fixed places; what is no directory is passed over."""
    named = {"SQLITE_TMPDIR": str(tmp_path / "none"), "TMPDIR": str(tmp_path)}
    assert tmp_path == space.temporary_dir(named)
    assert space.temporary_dir({}) in (Path("/var/tmp"), Path("/usr/tmp"), Path("/tmp"))
