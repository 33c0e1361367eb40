"""What `doctor import` does with rows and files, beyond the reported kinds of bad input."""

from __future__ import annotations

import json
import os
import resource
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from openclaw_cli import manifest
from openclaw_cli.config.paths import store_target
from openclaw_cli.durable import SourceChangedError
from openclaw_cli.errors import NoSpaceError
from openclaw_cli.migration import importing
from openclaw_cli.migration.discovery import list_directory
from openclaw_cli.migration.plan import Rules, plan_target
from openclaw_cli.migration.reading import Reading
from openclaw_cli.storage import connection, trajectories

A, B = (f"aaaaaaaa-0000-4000-8000-00000000000{number}" for number in range(2))
NOW = 1_790_000_000_000


def found(document: dict[str, Any]) -> list[str]:
    issues = [*document["issues"], *(issue for target in document["targets"] for issue in target["issues"])]
    return sorted(f"{issue['severity']} {issue['code']}" for issue in issues)


def test_import_twice_is_import_once(legacy: Any, doctor: Any) -> None:
    """The second run finds nothing, writes no manifest and changes no row."""
    legacy.session(A)
    legacy.index({"agent:main:main": {"sessionId": A, "updatedAt": NOW}})
    assert 0 == doctor("import", legacy)[0]
    before = legacy.entries()
    assert {"agent:main:main": (A, 3)} == before
    status, document = doctor("import", legacy)
    assert (0, []) == (status, found(document))
    assert 0 == document["totals"]["importedEntries"] + document["totals"]["importedTranscriptEvents"]
    assert "migrationRun" not in document
    assert before == legacy.entries()
    assert 1 == len(list(manifest.runs(legacy.root)))


def test_archived_file_keeps_mode_and_time(legacy: Any, doctor: Any) -> None:
    """The original in the archive is the same file: bytes, mode, modification time."""
    path = legacy.session(A)
    path.chmod(0o640)
    before = path.stat()
    legacy.index({"agent:main:main": {"sessionId": A, "updatedAt": NOW}})
    doctor("import", legacy, "--now", str(NOW))
    after = (legacy.archive / f"agent_main_main.{A}.jsonl.imported-{NOW}").stat()
    assert (before.st_mode, before.st_mtime_ns, before.st_ino) == (after.st_mode, after.st_mtime_ns, after.st_ino)


def test_linked_sources_stay(legacy: Any, doctor: Any, tmp_path: Path) -> None:
    """A hard-linked and a symlinked transcript are imported and left in place, each with a warning."""
    os.link(legacy.session(A), tmp_path / "other-name.jsonl")
    moved = legacy.session(B).rename(tmp_path / "elsewhere.jsonl")
    (legacy.sessions / f"{B}.jsonl").symlink_to(moved)
    legacy.index(
        {"agent:main:main": {"sessionId": A, "updatedAt": NOW}, "agent:main:b": {"sessionId": B, "updatedAt": 1}}
    )
    status, document = doctor("import", legacy)
    assert (0, ["warning transcript_archive_failed"] * 2) == (status, found(document))
    assert {"agent:main:main": (A, 3), "agent:main:b": (B, 3)} == legacy.entries()
    assert [f"{A}.jsonl", f"{B}.jsonl"] == legacy.names()


def test_older_index_does_not_overwrite(legacy: Any, doctor: Any) -> None:
    """A restored index that is older than the store's row changes nothing; its session stays as history."""
    legacy.session(B)
    legacy.index({"agent:main:main": {"sessionId": B, "updatedAt": NOW + 5}})
    doctor("import", legacy)
    legacy.session(A, mark="old ")
    legacy.index({"agent:main:main": {"sessionId": A, "updatedAt": NOW}})
    status, document = doctor("import", legacy)
    assert (0, ["warning stale_index"]) == (status, found(document))
    assert {"agent:main:main": (B, 3)} == legacy.entries()
    with connection.open_read(legacy.root / "agents/main/agent/openclaw-agent.sqlite") as store:
        assert 3 == store.value("SELECT count(*) FROM transcript_events WHERE session_id = ?", (A,))


def test_prefer_index_overwrites(legacy: Any, doctor: Any) -> None:
    """`--prefer-index` lets the older row win."""
    legacy.session(B)
    legacy.index({"agent:main:main": {"sessionId": B, "updatedAt": NOW + 5}})
    doctor("import", legacy)
    legacy.session(A, mark="old ")
    legacy.index({"agent:main:main": {"sessionId": A, "updatedAt": NOW}})
    assert 0 == doctor("import", legacy, "--prefer-index")[0]
    assert {"agent:main:main": (A, 3)} == legacy.entries()


@pytest.mark.parametrize("turned", [False, True])
def test_two_spellings_of_one_key(turned: bool, legacy: Any, doctor: Any) -> None:
    """The newer row has the key, whichever comes first; the other's transcript is in the store as well."""
    legacy.session(A)
    legacy.session(B)
    rows = [("Main", {"sessionId": A, "updatedAt": NOW}), ("agent:main:main", {"sessionId": B, "updatedAt": NOW + 1})]
    legacy.index(dict(reversed(rows) if turned else rows))
    status, document = doctor("import", legacy)
    assert (0, ["warning key_canonicalised", "warning key_collision"]) == (status, found(document))
    assert {"agent:main:main": (B, 3)} == legacy.entries()
    with connection.open_read(legacy.root / "agents/main/agent/openclaw-agent.sqlite") as store:
        assert "agent:main:main" == store.value("SELECT session_key FROM session_windows WHERE session_id = ?", (A,))


def test_key_of_another_agent(legacy: Any, doctor: Any) -> None:
    """A row that belongs to another agent goes into that agent's store."""
    legacy.session(A)
    legacy.index({"agent:work:main": {"sessionId": A, "updatedAt": NOW}})
    assert 0 == doctor("import", legacy)[0]
    assert {} == legacy.entries()
    assert {"agent:work:main": (A, 3)} == legacy.entries("work")


def test_bad_rows_do_not_turn_off_history(legacy: Any, doctor: Any) -> None:
    """An invalid id in one row is named; transcripts that no row names are imported all the same."""
    legacy.session(A)
    legacy.session(B)
    legacy.index({"agent:main:main": {"sessionId": A, "updatedAt": NOW}, "agent:main:evil": {"sessionId": "../evil"}})
    status, document = doctor("import", legacy)
    (issue,) = document["targets"][0]["issues"]
    assert (3, "entry_invalid", "agent:main:evil") == (status, issue["code"], issue["sessionKey"])
    assert {"agent:main:main": (A, 3), f"agent:main:recovered:{B}": (B, 3)} == legacy.entries()
    assert [] == legacy.names()


def test_trajectory_is_loaded_and_archived(legacy: Any, doctor: Any) -> None:
    """Lines of the sidecar become rows; a damaged one costs itself only; the file is archived."""
    legacy.session(A)
    sidecar = legacy.sessions / f"{A}.trajectory.jsonl"
    sidecar.write_text('{"type":"trajectory.start","runId":"r","ts":"2026-08-06T07:06:40.000Z"}\n{broken\n{"n":1}\n')
    legacy.index({"agent:main:main": {"sessionId": A, "updatedAt": NOW}})
    status, document = doctor("import", legacy)
    assert (0, ["warning trajectory_malformed"]) == (status, found(document))
    with connection.open_read(legacy.root / "agents/main/agent/openclaw-agent.sqlite") as store:
        wanted = [b'{"type":"trajectory.start","runId":"r","ts":"2026-08-06T07:06:40.000Z"}', b'{"n":1}']
        assert wanted == [text for _, text in trajectories.stream(store, A)]
    assert [] == legacy.names()


def test_keep_index(legacy: Any, doctor: Any) -> None:
    """`--keep-index` leaves the index and says what that means."""
    legacy.session(A)
    legacy.index({"agent:main:main": {"sessionId": A, "updatedAt": NOW}})
    status, document = doctor("import", legacy, "--keep-index")
    assert (0, ["warning index_kept"]) == (status, found(document))
    assert ["sessions.json"] == legacy.names()
    assert 0 == doctor("import", legacy, "--keep-index")[0]
    assert {"agent:main:main": (A, 3)} == legacy.entries()


def test_growing_transcript_continues(legacy: Any, doctor: Any) -> None:
    """A transcript that came back with more rows adds these rows only."""
    legacy.session(A)
    legacy.index({"agent:main:main": {"sessionId": A, "updatedAt": NOW}})
    doctor("import", legacy)
    legacy.session(A, 4)
    legacy.index({"agent:main:main": {"sessionId": A, "updatedAt": NOW}})
    _, document = doctor("import", legacy)
    assert 2 == document["totals"]["importedTranscriptEvents"]
    assert {"agent:main:main": (A, 5)} == legacy.entries()


def test_event_that_differs_from_the_store(legacy: Any, doctor: Any) -> None:
    """Other bytes under a stored id: nothing of the session changes, the file stays, the dry run says so too."""
    legacy.session(A)
    legacy.index({"agent:main:main": {"sessionId": A, "updatedAt": NOW}})
    doctor("import", legacy)
    legacy.session(A, mark="other ")
    legacy.index({"agent:main:main": {"sessionId": A, "updatedAt": NOW + 9}})
    for mode in ("dry-run", "import"):
        status, document = doctor(mode, legacy)
        assert 3 == status
        assert "error event_id_conflict" in found(document)
    assert [f"{A}.jsonl", "sessions.json"] == legacy.names()


def test_validate_before_and_after(legacy: Any, doctor: Any) -> None:
    """Validation names every key that is missing, and is content once the index's sessions are in the store."""
    legacy.session(A)
    legacy.index({"agent:main:main": {"sessionId": A, "updatedAt": NOW}})
    status, document = doctor("validate", legacy)
    assert (3, ["error sqlite_entry_missing", "error sqlite_transcript_count_mismatch"]) == (status, found(document))
    doctor("import", legacy, "--keep-index")
    legacy.session(A)
    status, document = doctor("validate", legacy)
    assert (0, []) == (status, found(document))
    totals = document["totals"]
    assert (1, 3) == (totals["validatedEntries"], totals["validatedTranscriptEvents"])


def test_validate_finds_other_session(legacy: Any, doctor: Any) -> None:
    """A key that leads to another session than the index says is an error."""
    legacy.session(B)
    legacy.index({"agent:main:main": {"sessionId": B, "updatedAt": NOW}})
    doctor("import", legacy)
    legacy.index({"agent:main:main": {"sessionId": A, "updatedAt": NOW}})
    assert "error sqlite_entry_mismatch" in found(doctor("validate", legacy)[1])


def test_openclaws_spelling(legacy: Any, run_cli: Any) -> None:
    """OpenClaw's own command line gives the same document."""
    legacy.session(A)
    legacy.index({"agent:main:main": {"sessionId": A, "updatedAt": NOW}})
    argv = ("doctor", "--session-sqlite", "dry-run", "--session-sqlite-all-agents", "--json")
    outcome = run_cli(*argv, env={"OPENCLAW_STATE_DIR": str(legacy.root)})
    assert (0, "dry-run", 1) == (
        outcome.status,
        json.loads(outcome.stdout)["mode"],
        json.loads(outcome.stdout)["totals"]["targets"],
    )


def test_no_space_is_refused_before_anything(legacy: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Less room than 2.2 times the source: refused, and nothing was written."""
    legacy.session(A, 50)
    target = store_target(legacy.index({"agent:main:main": {"sessionId": A, "updatedAt": NOW}}), "main")
    plan = plan_target(target, Rules(), NOW)
    monkeypatch.setattr(importing, "free_bytes", lambda _: int(plan.source_bytes * 2.1))
    with pytest.raises(NoSpaceError):
        importing.check_space([plan])
    monkeypatch.setattr(importing, "free_bytes", lambda _: int(plan.source_bytes * 2.3))
    importing.check_space([plan])


def test_source_that_changes_is_noticed(legacy: Any) -> None:
    """Bytes that are added while a transcript is read end the reading with an error."""
    path = legacy.session(A)
    source = list_directory(legacy.sessions).transcripts[path.name]
    reading = Reading(source, A, max_line_bytes=2**20)
    rows = reading.events()
    next(rows)
    with path.open("a") as stream:
        stream.write("{}\n")
    with pytest.raises(SourceChangedError):
        list(rows)


CTRL_C = """
import sys
from openclaw_cli.migration import committing
from openclaw_cli.faults import Step
def reached(step):
    if step is Step.SESSION_ROWS_WRITTEN:
        raise KeyboardInterrupt
committing.reached = reached
from openclaw_cli.cli.app import run
sys.exit(run(sys.argv[1:]))
"""


def test_ctrl_c_leaves_nothing_half_written(legacy: Any, doctor: Any) -> None:
    """Interrupted inside a session: that session is not in the store, no file moved, the next run completes it."""
    legacy.session(A)
    legacy.index({"agent:main:main": {"sessionId": A, "updatedAt": NOW}})
    argv = ["doctor", "import", "--state-dir", str(legacy.root), "--all-agents"]
    stopped = subprocess.run([sys.executable, "-c", CTRL_C, *argv], capture_output=True)
    assert 130 == stopped.returncode
    assert {} == legacy.entries()
    assert [f"{A}.jsonl", "sessions.json"] == legacy.names()
    assert [] == list((legacy.root / "tmp").glob("*/gateway.*.lock"))
    status, document = doctor("import", legacy)
    assert (0, ["warning interrupted_run_settled"]) == (status, found(document))
    assert {"agent:main:main": (A, 3)} == legacy.entries()


def test_full_disk(legacy: Any, doctor: Any) -> None:
    """A write that fails in the middle: an error that says so, no file moved, whole sessions only."""
    for session_id in (A, B):
        legacy.session(session_id, 3000, mark=session_id * 8)
    legacy.index({f"agent:main:{name}": {"sessionId": name, "updatedAt": NOW} for name in (A, B)})
    argv = ["doctor", "import", "--state-dir", str(legacy.root), "--all-agents", "--json"]
    limit = 3 * 2**20

    def small_disk() -> None:
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))

    words = [sys.executable, "-B", "-m", "openclaw_cli", *argv]
    stopped = subprocess.run(words, capture_output=True, preexec_fn=small_disk)
    assert stopped.returncode in (3, 12)
    assert b"Traceback" not in stopped.stderr
    assert [f"{A}.jsonl", f"{B}.jsonl", "sessions.json"] == legacy.names()
    assert set(legacy.entries().values()) <= {(A, 3001), (B, 3001)}
    assert 0 == doctor("import", legacy)[0]
    assert {(A, 3001), (B, 3001)} == set(legacy.entries().values())


def test_archive_name_in_the_way(legacy: Any, doctor: Any) -> None:
    """A file where the archive directory should be: refused, rows stay, the next run moves the files."""
    legacy.session(A)
    legacy.index({"agent:main:main": {"sessionId": A, "updatedAt": NOW}})
    legacy.archive.write_text("")
    status, document = doctor("import", legacy)
    assert (12, "refused") == (status, document["error"]["code"])
    assert [f"{A}.jsonl", "sessions.json"] == legacy.names()
    legacy.archive.unlink()
    assert 0 == doctor("import", legacy)[0]
    assert [] == legacy.names()


def test_newer_store_is_refused(legacy: Any, doctor: Any) -> None:
    """A store of another schema is not written; the other modes still read the sources."""
    legacy.session(A)
    legacy.index({"agent:main:main": {"sessionId": A, "updatedAt": NOW}})
    path = legacy.root / "agents/main/agent/openclaw-agent.sqlite"
    with connection.create(path, agent_id="main", now_ms=NOW) as store:
        store.execute("PRAGMA user_version = 24")
    status, document = doctor("import", legacy)
    assert 12 == status
    assert ["error sqlite_schema_version"] == found(document)
    assert [f"{A}.jsonl", "sessions.json"] == legacy.names()
    (run,) = manifest.runs(legacy.root)
    assert isinstance(run, manifest.Run)
    assert ("failed", True) == (run.manifest.targets[0].validation, run.manifest.failed_at is not None)
