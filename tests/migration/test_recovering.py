"""`doctor recover`: every store and run ends in a named state, nothing is lost, the second run changes nothing."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from openclaw_cli import manifest
from openclaw_cli.cli import app
from openclaw_cli.storage import connection, events, verify

NOW = 1_796_000_000_000
DATABASE = "agents/main/agent/openclaw-agent.sqlite"


@pytest.fixture
def imported(state_copy: Callable[[str], Path], run_cli: Callable[..., Any]) -> Path:
    """A state directory after its import."""
    state = state_copy("10-s2-legacy")
    run_cli("doctor", "import", "--state-dir", state, "--all-agents", "--json", "--now", NOW)
    return state


@pytest.fixture
def recover(run_cli: Callable[..., Any]) -> Callable[..., tuple[int, dict[str, Any]]]:
    def run(state: Path, *options: str) -> tuple[int, dict[str, Any]]:
        outcome = run_cli("doctor", "recover", "--state-dir", state, "--all-agents", "--json", *options)
        return outcome.status, json.loads(outcome.stdout)

    return run


def digests(state: Path) -> dict[str, str]:
    """SHA-256 of every file but SQLite's own helpers."""
    files = (path for path in state.rglob("*") if path.is_file() and not path.name.endswith(("-shm", "-wal")))
    return {str(path.relative_to(state)): hashlib.sha256(path.read_bytes()).hexdigest() for path in files}


def content(state: Path, name: str = DATABASE) -> dict[str, list[bytes]]:
    """Session → texts of its events; the store passes its checks."""
    with connection.open_read(state / name, temporary_tables=True) as store:
        assert [] == verify.integrity(store)
        assert [] == list(verify.verify(store))
        found = store.execute("SELECT session_id FROM session_windows ORDER BY 1").fetchall()
        return {session_id: [text for _, text in events.stream(store, session_id)] for (session_id,) in found}


def entries(state: Path) -> list[Any]:
    with connection.open_read(state / DATABASE) as store:
        return store.execute("SELECT session_key, entry_json, entry_valid FROM session_nodes ORDER BY 1").fetchall()


def destroy(path: Path, number: int) -> None:
    with path.open("r+b") as file:
        file.seek((number - 1) * 4096)
        file.write(bytes(4096))


def pages_of(path: Path, table: str) -> list[int]:
    """Leaf pages of a table."""
    from openclaw_cli.storage import shapes
    from openclaw_cli.storage.pages import Pages

    with Pages(path) as pages:
        return shapes.layout(pages).leaves[table]


def archived(state: Path, ending: str) -> Path:
    (found,) = (state / "agents/main/session-sqlite-import-archive").glob(f"*{ending}.jsonl.imported-*")
    return found


def test_a_clean_state_is_left_alone(imported: Path, recover: Any) -> None:
    """Once open runs are closed nothing is left to do, and then not a byte changes."""
    recover(imported)
    before = digests(imported)
    status, report = recover(imported)
    assert (0, "clean") == (status, report["status"])
    assert before == digests(imported)
    assert not list(imported.rglob("*.failure.*"))


def test_leftovers_are_settled_file_by_file(imported: Path, recover: Any) -> None:
    """The same bytes, a beginning, a longer file: archived, its tail imported. A different one stays and is named."""
    sessions = imported / "agents/main/sessions"
    stem = "00000abc-0000-4000-8000-0000000000"
    shutil.copyfile(archived(imported, "02"), sessions / f"{stem}02.jsonl")
    (sessions / f"{stem}04.jsonl").write_bytes(b"".join(archived(imported, "04").read_bytes().splitlines(True)[:2]))
    more = [{"type": "message", "id": f"late{n}", "parentId": None, "message": {"role": "user"}} for n in range(2)]
    longer = archived(imported, "05").read_bytes() + b"".join(json.dumps(row).encode() + b"\n" for row in more)
    (sessions / f"{stem}05.jsonl").write_bytes(longer)
    lines = archived(imported, "06").read_bytes().splitlines(True)
    changed = json.loads(lines[2])
    changed["message"]["content"] = "other"
    (sessions / f"{stem}06.jsonl").write_bytes(b"".join([*lines[:2], json.dumps(changed).encode() + b"\n"]))
    before = content(imported)

    status, report = recover(imported)
    main = report["targets"][0]
    assert (3, "blocked", "blocked", "clean") == (
        status,
        report["status"],
        *(target["status"] for target in report["targets"]),
    )
    assert 2 == main["importedTranscriptEvents"]
    assert 3 == len(main["archivedTranscriptFiles"])
    (conflict,) = [issue for issue in main["issues"] if issue["severity"] == "error"]
    assert ("event_id_conflict", 3) == (conflict["code"], conflict["divergent"][0]["lines"][1])
    assert [f"{stem}06.jsonl"] == [path.name for path in sessions.glob("*.jsonl")]
    after = content(imported)
    assert before[f"{stem}05"] == after.pop(f"{stem}05")[:-2]
    before.pop(f"{stem}05")
    assert before == after

    files = digests(imported)
    (sessions / f"{stem}06.jsonl").unlink()
    assert (0, "repaired") == (recover(imported)[0], "repaired")
    assert "clean" == recover(imported)[1]["status"]
    assert files.keys() - digests(imported).keys() == {f"agents/main/sessions/{stem}06.jsonl"}


@pytest.mark.parametrize("table", ["transcript_events", "session_nodes", "session_windows", "schema"])
def test_a_damaged_store_is_replaced_and_its_set_kept(table: str, imported: Path, recover: Any) -> None:
    """What the pages lack comes from the archives: afterwards every event and every row is there again."""
    recover(imported)
    before, rows = content(imported), entries(imported)
    database = imported / DATABASE
    destroy(database, 1 if table == "schema" else pages_of(database, table)[0])
    damaged = database.read_bytes()

    status, report = recover(imported)
    main = report["targets"][0]
    assert (0, "repaired", "damaged") == (status, main["status"], main["condition"])
    kept, *logs = map(Path, main["corruptRecovery"]["movedFiles"])
    assert all(path.name.endswith(kept.name.removeprefix("openclaw-agent.sqlite")) for path in logs)
    assert damaged == kept.read_bytes()
    after = content(imported)
    assert before == {session_id: after[session_id][: len(texts)] for session_id, texts in before.items()}
    assert rows == entries(imported)
    assert [] == list(imported.rglob("*.recovering*"))
    assert "clean" == recover(imported)[1]["status"]


def test_what_nobody_archived_is_salvaged_too(imported: Path, recover: Any) -> None:
    """A turn that came in after the import is in the database alone."""
    session_id = "00000abc-0000-4000-8000-000000000002"
    row = b'{"type":"message","id":"only-here","parentId":null,"message":{"role":"user","content":"x"}}'
    with connection.open_write(imported / DATABASE, agent_id="main") as store, store.transaction():
        key = store.value("SELECT session_key FROM session_windows WHERE session_id = ?", (session_id,))
        events.append(store, key, session_id, [(row, json.loads(row))], now_ms=NOW)
    destroy(imported / DATABASE, 1)
    recover(imported)
    assert row in content(imported)[session_id]


def test_what_nobody_can_bring_back_is_an_error(imported: Path, recover: Any) -> None:
    """A turn that only the database had, on a page that is destroyed: repaired, but not with status 0."""
    recover(imported)
    session_id = "00000abc-0000-4000-8000-000000000002"
    row = b'{"type":"message","id":"only-here","parentId":null,"message":{"role":"user","content":"x"}}'
    with connection.open_write(imported / DATABASE, agent_id="main") as store, store.transaction():
        key = store.value("SELECT session_key FROM session_windows WHERE session_id = ?", (session_id,))
        events.append(store, key, session_id, [(row, json.loads(row))], now_ms=NOW)
    database = imported / DATABASE
    (number,) = [
        number
        for number in pages_of(database, "transcript_events")
        if b"only-here" in database.read_bytes()[(number - 1) * 4096 : number * 4096]
    ]
    destroy(database, number)
    status, report = recover(imported)
    main = report["targets"][0]
    assert (3, "repaired", "repaired") == (status, report["status"], main["status"])
    (lost,) = [issue for issue in main["issues"] if issue["severity"] == "error"]
    assert ("sqlite_rows_lost", 1, 0) == (lost["code"], lost["events"], lost["keys"])
    assert row not in content(imported)[session_id]
    assert "clean" == recover(imported)[1]["status"]


def test_a_log_beside_a_destroyed_header_is_used_when_it_fits(imported: Path, recover: Any) -> None:
    """SQLite opens neither; the turns of the log are committed all the same."""
    recover(imported)
    database = imported / DATABASE
    session_id = "00000abc-0000-4000-8000-000000000002"
    row = b'{"type":"message","id":"in-the-log","parentId":null,"message":{"role":"user","content":"x"}}'
    with connection.open_write(database, agent_id="main") as store:
        store.execute("PRAGMA wal_autocheckpoint=0").fetchall()
        with store.transaction():
            key = store.value("SELECT session_key FROM session_windows WHERE session_id = ?", (session_id,))
            events.append(store, key, session_id, [(row, json.loads(row))], now_ms=NOW)
        file, log = database.read_bytes(), Path(f"{database}-wal").read_bytes()
    database.write_bytes(bytes(4096) + file[4096:])
    Path(f"{database}-wal").write_bytes(log)
    Path(f"{database}-shm").unlink(missing_ok=True)
    status, report = recover(imported)
    assert (0, "repaired", "own") == (status, report["targets"][0]["status"], report["targets"][0]["log"])
    assert row in content(imported)[session_id]


def test_a_store_that_is_gone_comes_back_from_the_archives(imported: Path, recover: Any) -> None:
    """As after the real program's own recovery, which moves a damaged store away and leaves none."""
    before, rows = content(imported), entries(imported)
    for path in (imported / DATABASE).parent.glob("openclaw-agent.sqlite*"):
        path.rename(path.with_name(path.name + ".corrupt-1"))
    status, report = recover(imported)
    assert (0, "repaired") == (status, report["targets"][0]["status"])
    after = content(imported)
    assert before == {session_id: after[session_id][: len(texts)] for session_id, texts in before.items()}
    assert [row[0] for row in rows] == [row[0] for row in entries(imported)]


def test_a_missing_index_is_made_again_in_place(imported: Path, recover: Any) -> None:
    """Only what follows from the rows is wrong: nothing is moved away."""
    recover(imported)
    before = content(imported)
    with connection.open_write(imported / DATABASE, agent_id="main") as store:
        store.execute("DROP INDEX idx_agent_transcript_message_idempotency")
        store.execute("DELETE FROM session_transcript_active_events WHERE active_position = 1")
    status, report = recover(imported)
    main = report["targets"][0]
    assert (0, "repaired", "derived-damage", []) == (
        status,
        main["status"],
        main["condition"],
        main["corruptRecovery"]["movedFiles"],
    )
    assert before == content(imported)
    assert "clean" == recover(imported)[1]["status"]


def test_the_log_of_another_database_is_put_aside(imported: Path, recover: Any, tmp_path: Path) -> None:
    """It is kept under a name of its own and never applied."""
    recover(imported)
    before = content(imported)
    other = tmp_path / "other.sqlite"
    with connection.create(other, agent_id="else", now_ms=NOW + 5) as store:
        store.execute("PRAGMA wal_autocheckpoint=0").fetchall()
        with store.transaction():
            store.execute("UPDATE schema_meta SET updated_at = 1")
        log = Path(f"{other}-wal").read_bytes()
    (imported / f"{DATABASE}-wal").write_bytes(log)
    (imported / f"{DATABASE}-shm").unlink(missing_ok=True)
    status, report = recover(imported)
    main = report["targets"][0]
    assert (0, "repaired", "foreign") == (status, main["status"], main["log"])
    (kept,) = map(Path, main["corruptRecovery"]["movedFiles"])
    assert log == kept.read_bytes()
    assert before == content(imported)


def test_a_newer_schema_is_refused(imported: Path, recover: Any) -> None:
    """Another release wrote the store: it is not damaged, and not for us to change."""
    with connection.open_write(imported / DATABASE, agent_id="main") as store:
        store.execute("UPDATE schema_meta SET schema_version = 24")
        store.execute("PRAGMA user_version=24").fetchall()
    before = digests(imported)
    status, report = recover(imported)
    assert (12, "blocked") == (status, report["targets"][0]["status"])
    (issue,) = [issue for issue in report["targets"][0]["issues"] if issue["severity"] == "error"]
    assert str(imported / DATABASE) in issue["message"]
    assert before[DATABASE] == digests(imported)[DATABASE]


def test_readable_sessions_are_written_before_anything_is_renamed(imported: Path, recover: Any, tmp_path: Path) -> None:
    """One file for each session, with exactly the texts of the store; a file that is there is not touched."""
    before = content(imported)
    place = tmp_path / "readable"
    (place / "main").mkdir(parents=True)
    taken = place / "main/00000abc-0000-4000-8000-000000000002.jsonl"
    taken.write_text("mine\n")
    recover(imported, "--export-readable", str(place))
    assert "mine\n" == taken.read_text()
    written = {path.name: path.read_bytes().splitlines() for path in (place / "main").iterdir() if path != taken}
    assert before.pop(taken.stem) == written.pop(f"{taken.stem}.1.jsonl")
    assert {f"{session_id}.jsonl": texts for session_id, texts in before.items()} == written


def test_a_dry_run_changes_nothing(imported: Path, recover: Any) -> None:
    """It says what would be done."""
    destroy(imported / DATABASE, pages_of(imported / DATABASE, "transcript_events")[0])
    before = digests(imported)
    status, report = recover(imported, "--dry-run")
    assert (0, True, "damaged") == (status, report["dryRun"], report["targets"][0]["condition"])
    assert report["targets"][0]["action"].startswith("a new store")
    assert "It can be repaired: run this again without --dry-run." == report["advice"]
    assert before == digests(imported)


def test_a_failed_run_is_closed_and_still_restores(imported: Path, recover: Any, run_cli: Callable[..., Any]) -> None:
    """What the manifest said of the failure is kept in it; its moves can be undone as before."""
    (run,) = (run for run in manifest.runs(imported) if isinstance(run, manifest.Run))
    run.manifest.failed_at = run.manifest.completed_at
    run.manifest.targets[0].issues = [{"code": "sqlite_corrupt", "message": "x"}]
    run.save()
    status, report = recover(imported)
    assert (0, [str(run.path)]) == (status, report["settledRuns"])
    document = json.loads(run.path.read_bytes())
    assert "failedAt" not in document
    assert ["sqlite_corrupt"] == [issue["code"] for issue in document["settled"]["issues"]]
    outcome = run_cli("doctor", "restore", "--state-dir", imported, "--all-agents", "--json")
    assert 31 == json.loads(outcome.stdout)["totals"]["restoredFiles"]


def test_a_copied_and_touched_state_directory_is_recovered(imported: Path, recover: Any, tmp_path: Path) -> None:
    """Inode and time of an archive are hints; its SHA-256 decides."""
    copy = Path(shutil.copytree(imported, tmp_path / "copy"))
    for path in copy.rglob("*.imported-*"):
        os.utime(path, (1, 1))
    before = content(copy)
    (copy / DATABASE).unlink()
    assert 0 == recover(copy)[0]
    after = content(copy)
    assert before == {session_id: after[session_id][: len(texts)] for session_id, texts in before.items()}


def test_an_archive_that_was_changed_gives_nothing(imported: Path, recover: Any) -> None:
    """Its bytes are not those that were imported."""
    (imported / DATABASE).unlink()
    archived(imported, "02").write_bytes(b"{}\n")
    status, report = recover(imported)
    assert 3 == status
    assert ["archive_changed"] == [
        issue["code"] for issue in report["targets"][0]["issues"] if issue["severity"] == "error"
    ]


def test_the_file_behind_a_link_is_mended_and_the_link_stays(imported: Path, recover: Any, tmp_path: Path) -> None:
    """The damaged set is kept where the database really is."""
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    real = (imported / DATABASE).rename(elsewhere / "openclaw-agent.sqlite")
    (imported / DATABASE).symlink_to(real)
    before = content(imported)
    destroy(real, pages_of(real, "transcript_events")[0])
    damaged = real.read_bytes()
    status, report = recover(imported)
    assert (0, "repaired") == (status, report["targets"][0]["status"])
    assert (imported / DATABASE).is_symlink()
    kept = Path(report["targets"][0]["corruptRecovery"]["movedFiles"][0])
    assert (elsewhere, damaged) == (kept.parent, kept.read_bytes())
    assert before.keys() == content(imported).keys()


def test_too_little_room_leaves_everything_as_it_was(
    imported: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The need is known before anything is built; the store is named, its bytes are the same."""
    from openclaw_cli.migration import recovering

    destroy(imported / DATABASE, pages_of(imported / DATABASE, "transcript_events")[0])
    before = digests(imported)
    real = recovering.free_bytes
    inside = str(imported)
    monkeypatch.setattr(recovering, "free_bytes", lambda path: 10 if str(path).startswith(inside) else real(path))
    status = app.run(["doctor", "recover", "--state-dir", str(imported), "--agent", "main", "--json"])
    (target,) = json.loads(capsys.readouterr().out)["targets"]
    assert (12, "blocked") == (status, target["status"])
    assert ["sqlite_no_space"] == [issue["code"] for issue in target["issues"]]
    assert before == digests(imported)


@pytest.mark.parametrize("place", ["/proc/none/here", "/etc/passwd"])
def test_a_place_that_cannot_be_written_ends_it_before_anything(place: str, imported: Path, run_cli: Any) -> None:
    """What is to be written first must be writable; the damaged store is as it was."""
    destroy(imported / DATABASE, pages_of(imported / DATABASE, "transcript_events")[0])
    before = digests(imported)
    argv = ("doctor", "recover", "--state-dir", imported, "--all-agents", "--export-readable", place)
    outcome = run_cli(*argv)
    assert (12, True) == (outcome.status, place in outcome.stderr), outcome.stderr
    assert before == digests(imported)


def test_an_invalid_manifest_is_named_and_left(imported: Path, recover: Any) -> None:
    """Nobody can tell what it was to undo, so it is not acted on, and the advice is about it."""
    path = imported / "session-sqlite-migration-runs/session-sqlite-1-00000000.json"
    path.write_text("{}")
    status, report = recover(imported)
    assert (3, "blocked") == (status, report["status"])
    assert ["manifest_invalid"] == [issue["code"] for issue in report["issues"]]
    assert "a manifest is invalid" in report["advice"]
    assert "{}" == path.read_text()
