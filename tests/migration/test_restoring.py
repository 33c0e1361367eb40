"""`doctor restore`: what an import archived is where it was before, byte for byte, and nothing else has moved."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import archived_states as states
import pytest

from openclaw_cli import locks
from openclaw_cli.storage import connection, events, sessions
from openclaw_cli.storage.lockfile import Exclusive

NOW = 1_796_000_000_000
ROOT = Path(__file__).resolve().parent.parent.parent
CASES = sorted(path.name for path in (ROOT / "fixtures/cases").iterdir() if (path / "state/agents").is_dir())
ARCHIVED_ONLY = "23-restore-prefers-nonempty-index"
Restore = Callable[..., tuple[int, dict[str, Any]]]


@pytest.fixture
def run(run_cli: Callable[..., Any]) -> Restore:
    """Run `doctor MODE --json` on a state directory; gives status and document."""

    def doctor(mode: str, state: Path, *options: str, select: tuple[str, ...] = ("--all-agents",)) -> Any:
        outcome = run_cli("doctor", mode, "--state-dir", state, *select, "--json", *options)
        assert outcome.stdout, outcome.stderr
        return outcome.status, json.loads(outcome.stdout)

    return doctor


@pytest.fixture
def imported(legacy: Any, run: Restore) -> Path:
    """A state directory whose two sessions and index were imported and archived."""
    for name, count in (("s1", 3), ("s2", 2)):
        legacy.session(name, count)
    legacy.index({"agent:main:main": {"sessionId": "s1", "updatedAt": 1}, "agent:main:x": {"sessionId": "s2"}})
    states.vary(legacy.root)
    assert 0 == run("import", legacy.root, "--now", str(NOW))[0]
    assert 3 == len(states.archived(legacy.root))
    return legacy.root


def outcomes(document: dict[str, Any]) -> dict[str, set[str]]:
    """Original file name → outcomes of its archives, over all targets."""
    found: dict[str, set[str]] = {}
    for target in document["targets"]:
        for file in target["files"]:
            found.setdefault(Path(file["sourcePath"]).name, set()).add(file["outcome"])
    return found


def brief(found: tuple[int, dict[str, Any]]) -> tuple[int, int]:
    """Status and number of restored files."""
    return found[0], found[1]["totals"]["restoredFiles"]


def codes(document: dict[str, Any]) -> list[str]:
    """Codes of all issues."""
    return sorted(issue["code"] for part in (document, *document["targets"]) for issue in part["issues"])


# --- the way there and back ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", [*(case for case in CASES if case != ARCHIVED_ONLY), "01-legacy", "10-s2-legacy"])
def test_import_and_restore_are_the_identity(
    name: str, run: Restore, tmp_path: Path, fixtures: Path, state_copy: Callable[[str], Path]
) -> None:
    """Names, bytes, modes and times of `sessions/` are those of before; twice is once; and all of it again."""
    case = fixtures / "cases" / name / "state"
    state = Path(shutil.copytree(case, tmp_path / "state")) if case.exists() else state_copy(name)
    states.vary(state)
    before = states.sessions(state)
    imported, _ = run("import", state)

    status, document = run("restore", state)

    assert 0 == status, document
    assert before == states.sessions(state)
    assert [] == states.archived(state)
    whole = states.everything(state)
    again, second = run("restore", state)
    assert (0, 0) == (again, second["totals"]["restoredFiles"])
    assert whole == states.everything(state)
    repeated, report = run("import", state)
    assert (imported, 0) == (repeated, report["totals"]["importedTranscriptEvents"])
    assert 0 == run("restore", state)[0]
    assert before == states.sessions(state)


def test_every_file_is_reported(imported: Path, run: Restore) -> None:
    """OpenClaw's keys hold the paths; ours hold outcome, reason, size and digest of each file; the database stays."""
    database = states.digest(imported / "agents/main/agent/openclaw-agent.sqlite")

    status, document = run("restore", imported)

    (target,) = document["targets"]
    base = imported / "agents/main/sessions"
    assert (0, "restore", False) == (status, document["mode"], document["dryRun"])
    wanted = [str(base / name) for name in ("sessions.json", "s1.jsonl", "s2.jsonl")]
    assert wanted == target["restore"]["restoredFiles"]
    assert ([], []) == (target["restore"]["skippedFiles"], target["restore"]["conflicts"])
    assert list(map(str, states.manifests(imported))) == target["restore"]["manifestPaths"]
    assert set(wanted) == {file["sourcePath"] for file in target["files"]}
    for file in target["files"]:
        assert ("restored", "the original is missing") == (file["outcome"], file["reason"])
        path = Path(file["sourcePath"])
        assert (states.digest(path), path.stat().st_size) == (file["sha256"], file["bytes"])
    assert (3, 2, 0) == tuple(document["totals"][name] for name in ("restoredFiles", "sqliteEntries", "sqliteOnly"))
    assert database == states.digest(imported / "agents/main/agent/openclaw-agent.sqlite")


def test_the_manifest_records_the_restore(imported: Path, run: Restore) -> None:
    """`restore` has the real program's keys; a second restore leaves the file as it is."""
    run("restore", imported, "--now", str(NOW + 1))

    (path,) = states.manifests(imported)
    record = json.loads(path.read_text())["restore"]
    keys = {"attemptedAt", "consumedArchives", "conflicts", "restoredFiles", "skippedFiles", "status"}
    assert keys == set(record)
    assert ("restored", [], []) == (record["status"], record["conflicts"], record["skippedFiles"])
    assert sorted(record["consumedArchives"]) == record["consumedArchives"]
    assert 3 == len(record["consumedArchives"]) == len(record["restoredFiles"])
    text = path.read_bytes()
    run("restore", imported, "--now", str(NOW + 2))
    assert text == path.read_bytes()


def test_nothing_to_restore_is_said(legacy: Any, run_cli: Callable[..., Any]) -> None:
    """A state directory without archives: status 0 and a clear line."""
    legacy.session("s1")

    outcome = run_cli("doctor", "restore", "--state-dir", legacy.root)

    assert 0 == outcome.status
    assert "Nothing to restore: no manifest has an archived file whose original is missing." in outcome.stdout


def test_a_dry_run_says_the_same_and_changes_nothing(imported: Path, run: Restore) -> None:
    """The same outcomes for the same files; no byte, no lock, no directory."""
    before, names = states.everything(imported), sorted(map(str, imported.rglob("*")))

    status, preview = run("restore", imported, "--dry-run")

    assert before == states.everything(imported)
    assert names == [name for name in sorted(map(str, imported.rglob("*"))) if not name.endswith(("-shm", "-wal"))]
    assert (0, True) == (status, preview["dryRun"])
    _, document = run("restore", imported)
    assert [target["files"] for target in preview["targets"]] == [target["files"] for target in document["targets"]]
    assert preview["totals"] == document["totals"]


def test_a_dry_run_needs_no_lock(imported: Path, run: Restore) -> None:
    """While another process owns the state directory, only the restore itself has to wait."""
    locks.lock_dir().mkdir(mode=0o700, exist_ok=True)
    held = Exclusive(locks.lifecycle_path(imported), 0)
    try:
        assert 0 == run("restore", imported, "--dry-run")[0]
        status, failure = run("restore", imported)
    finally:
        held.release()

    assert (11, "busy") == (status, failure["error"]["code"])
    assert 3 == len(states.archived(imported))


def test_a_foreign_owner_is_refused(imported: Path, run: Restore) -> None:
    """A lock file that this host did not leave: refused, unless the user says that nothing runs."""
    path = imported / "tmp/openclaw-0/gateway.state.lock"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps({"pid": 1, "stateDir": "/elsewhere", "createdAt": "2026-01-01T00:00:00.000Z"}))

    status, _ = run("restore", imported)
    assert 12 == status
    assert 3 == len(states.archived(imported))
    assert 0 == run("restore", imported, "--assume-stopped")[0]
    assert [] == states.archived(imported)


def test_openclaws_spelling(imported: Path, run_cli: Callable[..., Any]) -> None:
    """The users' documents' command line works with only the program's name changed."""
    outcome = run_cli(
        "doctor",
        "--session-sqlite",
        "restore",
        "--session-sqlite-all-agents",
        env={"OPENCLAW_STATE_DIR": str(imported)},
    )

    assert 0 == outcome.status
    assert [] == states.archived(imported)
    assert "session-sqlite restore: 1 target(s), 3 file(s) restored" in outcome.stdout


# --- real manifests ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("name", "files"), [("13-s5", 31), ("15-z1", 1)])
def test_real_migrations_come_back(name: str, files: int, run: Restore, state_copy: Callable[[str], Path]) -> None:
    """Manifests of the real program, whose paths are of another place: each archive is back, as it was hashed."""
    state = state_copy(name)
    states.true_digests(state)
    before = states.contents(state)

    status, document = run("restore", state)

    assert (0, files) == (status, document["totals"]["restoredFiles"])
    assert [] == states.archived(state)
    assert before == states.contents(state)
    for target in document["targets"]:
        for file in target["files"]:
            if file["outcome"] == "restored":
                assert states.digest(Path(file["sourcePath"])) == file["sha256"]
                assert Path(file["sourcePath"]).is_relative_to(state)


def test_times_of_a_real_migration_come_back(run: Restore, state_copy: Callable[[str], Path]) -> None:
    """The time that the import recorded is set again, although unpacking gave the archives other ones."""
    state = state_copy("13-s5")
    states.true_digests(state)
    recorded = {}
    for path in states.manifests(state):
        for target in json.loads(path.read_text())["targets"]:
            for move in target["completedMoves"]:
                name = f"{target['agentId']}/{Path(move['sourcePath']).name}"
                recorded[name] = int(move["artifact"]["identity"]["mtimeNs"])

    run("restore", state)

    found = {f"{path.parts[-3]}/{path.name}": path.stat().st_mtime_ns for path in state.glob("agents/*/sessions/*")}
    assert recorded == {name: found[name] for name in recorded}


def test_archives_that_are_not_what_was_imported_stay(run: Restore, state_copy: Callable[[str], Path]) -> None:
    """Six archives of the recorded state were edited after they were hashed: named, not moved; the others come back."""
    status, document = run("restore", state_copy("13-s5"))

    assert (3, 25, 6) == (status, document["totals"]["restoredFiles"], document["totals"]["conflicts"])
    assert ["restore_conflict"] * 6 == codes(document)


def test_a_finished_real_restore_is_left_as_it_is(run: Restore, state_copy: Callable[[str], Path]) -> None:
    """Everything was restored by the real program: nothing to do, no byte changed."""
    state = state_copy("03-after-restore")
    (state / "openclaw.json").write_text("{}\n")
    before = states.everything(state)

    status, document = run("restore", state)

    assert (0, 0, 0) == (status, document["totals"]["restoredFiles"], document["totals"]["conflicts"])
    assert {"skipped"} == {word for words in outcomes(document).values() for word in words}
    after = {name: value for name, value in states.everything(state).items() if not name.startswith("tmp/")}
    assert before == after


# --- choosing ------------------------------------------------------------------------------------------------------


@pytest.fixture
def case_23(tmp_path: Path, fixtures: Path) -> Path:
    """Three manifests of version 1 for one index: one good archive, two of `{}`. Only the archives are there."""
    state = Path(shutil.copytree(fixtures / "cases" / ARCHIVED_ONLY / "state", tmp_path / "state"))
    for path in states.manifests(state):
        path.write_text(path.read_text().replace("@STATE@", str(state)))
    return state


def test_a_filled_index_beats_empty_ones(case_23: Path, run: Restore) -> None:
    """Index and transcript are back, both empty copies stay in the archive; twice is once."""
    status, document = run("restore", case_23)

    assert (0, 2, 2, 0) == (
        status,
        *(document["totals"][name] for name in ("restoredFiles", "skippedFiles", "conflicts")),
    )
    base = case_23 / "agents/main/sessions"
    assert 1 == len(json.loads((base / "sessions.json").read_text()))
    assert (base / "fe14d32c-1f8a-473e-8f3c-80363e764c2b.jsonl").exists()
    assert 2 == len(states.archived(case_23))
    before = states.everything(case_23)
    assert 0 == run("restore", case_23)[0]
    assert before == states.everything(case_23)


@pytest.mark.parametrize("select", [("--agent", "main"), ("--store", "agents/main/sessions/sessions.json"), ()])
def test_a_store_of_which_only_the_archive_is_left_is_found(
    select: tuple[str, ...], case_23: Path, run: Restore
) -> None:
    """No index, no transcript, no database: every selector still finds what can be restored."""
    chosen = tuple(str(case_23 / word) if "/" in word else word for word in select)

    assert (0, 2) == brief(run("restore", case_23, select=chosen))


def test_only_empty_indexes(case_23: Path, run: Restore) -> None:
    """Where every archived index is empty, the latest comes back."""
    (path,) = (path for path in case_23.glob("agents/main/*/legacy-store*00000000") if path.stat().st_size > 100)
    path.write_text("{ }\n")

    assert 0 == run("restore", case_23)[0]
    assert "{}" == (case_23 / "agents/main/sessions/sessions.json").read_text().strip()


def test_two_filled_indexes_are_a_conflict(case_23: Path, run: Restore) -> None:
    """Nothing of that path moves, the transcript does; the manifests say so; the status is 3."""
    second = next(path for path in case_23.glob("agents/main/*/legacy-store*1784100000000"))
    second.write_text('{"agent:main:main": {"sessionId": "other"}}')

    status, document = run("restore", case_23)

    assert 3 == status
    transcript = "fe14d32c-1f8a-473e-8f3c-80363e764c2b.jsonl"
    assert {"sessions.json": {"conflict"}, transcript: {"restored"}} == outcomes(document)
    assert not (case_23 / "agents/main/sessions/sessions.json").exists()
    found = document["targets"][0]["restore"]["conflicts"]
    assert {"sourcePath", "archivePath", "reason"} == set(found[0])
    records = [json.loads(path.read_text()).get("restore") for path in states.manifests(case_23)]
    assert ["partial", "conflicts", "conflicts"] == [record["status"] for record in records]
    # With one of the two out of the way, the next run can decide.
    second.unlink()
    second.write_text("{}")
    assert 0 == run("restore", case_23)[0]
    record = json.loads(states.manifests(case_23)[0].read_text())["restore"]
    assert ("restored", []) == (record["status"], record["conflicts"])


def test_a_file_at_the_original_path_is_never_overwritten(imported: Path, run: Restore) -> None:
    """One new transcript stands in the way: named, kept, its archive kept; the other files come back."""
    path = imported / "agents/main/sessions/s1.jsonl"
    path.write_text("new\n")

    status, document = run("restore", imported)

    assert (3, "new\n") == (status, path.read_text())
    assert {"sessions.json": {"restored"}, "s1.jsonl": {"conflict"}, "s2.jsonl": {"restored"}} == outcomes(document)
    assert ["restore_conflict"] == codes(document)
    assert 1 == len(states.archived(imported))
    (manifest,) = states.manifests(imported)
    assert "partial" == json.loads(manifest.read_text())["restore"]["status"]


def test_a_link_at_the_original_path_counts_as_a_file(imported: Path, run: Restore) -> None:
    """A symbolic link, even one to nothing, is not replaced."""
    path = imported / "agents/main/sessions/s1.jsonl"
    path.symlink_to(imported / "nowhere")

    assert 3 == run("restore", imported)[0]
    assert path.is_symlink()


def test_the_same_bytes_at_the_original_path_are_no_conflict(imported: Path, run: Restore) -> None:
    """Somebody copied the archive back by hand: nothing to do for that file, its archive stays."""
    (archive,) = imported.glob("agents/main/*/*.s1.jsonl.imported-*")
    shutil.copyfile(archive, imported / "agents/main/sessions/s1.jsonl")

    status, document = run("restore", imported)

    assert (0, {"skipped"}) == (status, outcomes(document)["s1.jsonl"])
    assert archive.exists()


def test_equal_archives_are_one_claim(imported: Path, run: Restore) -> None:
    """A copy that was put back by hand and imported again leaves two equal archives: one comes back, once."""
    (archive,) = imported.glob("agents/main/*/*.s1.jsonl.imported-*")
    shutil.copy2(archive, imported / "agents/main/sessions/s1.jsonl")
    run("import", imported, "--now", str(NOW + 1000))
    assert 2 == len(list(imported.glob("agents/main/*/*.s1.jsonl.imported-*")))

    status, document = run("restore", imported)

    assert (0, {"restored", "skipped"}) == (status, outcomes(document)["s1.jsonl"])
    # The copy that was passed over does not speak against what the older runtime writes now.
    with open(imported / "agents/main/sessions/s1.jsonl", "a") as stream:
        stream.write(json.dumps({"type": "message", "id": "n1", "parentId": "m2", "message": {"role": "user"}}) + "\n")
    run("import", imported, "--now", str(NOW + 2000))
    status, document = run("restore", imported)
    assert (0, {"restored", "skipped"}) == (status, outcomes(document)["s1.jsonl"])
    assert '"n1"' in (imported / "agents/main/sessions/s1.jsonl").read_text()


def test_different_transcripts_are_a_conflict(imported: Path, run: Restore) -> None:
    """Two imports archived different files of one name, and no restore was between them: neither moves."""
    path = imported / "agents/main/sessions/s1.jsonl"
    (archive,) = imported.glob("agents/main/*/*.s1.jsonl.imported-*")
    first = archive.read_text()
    tail = json.dumps({"type": "message", "id": "n1", "parentId": "m2", "message": {"role": "user", "content": "x"}})
    path.write_text(first + tail + "\n")
    run("import", imported, "--now", str(NOW + 1000))

    status, document = run("restore", imported)

    assert (3, {"conflict"}) == (status, outcomes(document)["s1.jsonl"])
    assert not path.exists()
    assert 2 == len(states.archived(imported))


def test_a_missing_archive_is_named(imported: Path, run: Restore) -> None:
    """Neither original nor archive: an error for that file, the others come back."""
    next(imported.glob("agents/main/*/*.s1.jsonl.imported-*")).unlink()

    status, document = run("restore", imported)

    assert (3, {"conflict"}) == (status, outcomes(document)["s1.jsonl"])
    assert 2 == document["totals"]["restoredFiles"]


def test_a_file_that_went_after_its_restore_is_not_missed(imported: Path, run: Restore) -> None:
    """The older runtime renamed a restored transcript: no error, nothing to do."""
    run("restore", imported)
    (imported / "agents/main/sessions/s1.jsonl").rename(imported / "agents/main/sessions/s1.jsonl.reset.2026")

    assert 0 == run("restore", imported)[0]


def test_an_archive_that_was_disposed_of_is_named(imported: Path, run: Restore) -> None:
    """The update clean-up removed a verified original on purpose: that is what the report says."""

    def dispose(document: dict[str, Any]) -> None:
        for move in states.moves(document):
            if move["sourcePath"].endswith("s1.jsonl"):
                move["artifact"]["disposal"] = {"state": "disposed", "disposedAt": "2026-11-30T00:00:00.000Z"}

    (path,) = states.manifests(imported)
    states.edit(path, dispose)
    next(imported.glob("agents/main/*/*.s1.jsonl.imported-*")).unlink()

    status, document = run("restore", imported)

    assert 3 == status
    (conflict,) = document["targets"][0]["restore"]["conflicts"]
    assert "disposed of" in conflict["reason"]


# --- manifests of every kind ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("version", [1, 2, 3, 4])
def test_manifests_of_every_version(version: int, imported: Path, run: Restore) -> None:
    """1 knows no digests; 4 has a receipt of a report."""

    def change(document: dict[str, Any]) -> None:
        document["manifestVersion"] = version
        if version == 1:
            for move in states.moves(document):
                del move["artifact"]
        if version == 4:
            issue = {"marker": "openclaw-report:" + "a" * 64, "status": "attempted", "title": "t"}
            document["failureReports"] = {"jsonPath": "/a.json", "markdownPath": "/a.md", "githubIssue": issue}

    (path,) = states.manifests(imported)
    states.edit(path, change)

    assert (0, 3) == brief(run("restore", imported))
    assert version == json.loads(path.read_text())["manifestVersion"]


def test_an_invalid_manifest_is_named_and_the_others_are_used(imported: Path, run: Restore) -> None:
    """Two files that are no manifests: an error each, status 3, every file restored all the same."""
    (good,) = states.manifests(imported)
    (good.parent / "session-sqlite-1-00000001.json").write_text("{")
    bad = good.parent / "session-sqlite-1-00000002.json"
    bad.write_text(good.read_text())
    states.edit(bad, lambda document: document["targets"][0].pop("validationBeforeArchive"))

    status, document = run("restore", imported)

    assert (3, 3) == (status, document["totals"]["restoredFiles"])
    found = [issue for issue in document["issues"] if issue["code"] == "manifest_invalid"]
    assert [("error", True), ("error", True)] == [
        (issue["severity"], "session-sqlite-1-0000000" in issue["message"]) for issue in found
    ]


def test_a_cut_import_can_be_undone(imported: Path, run: Restore) -> None:
    """A manifest that was never completed: what it had moved comes back, what it had only planned is in place."""
    base = imported / "agents/main"
    (archive,) = base.glob("*/*.s2.jsonl.imported-*")
    archive.rename(base / "sessions/s2.jsonl")

    def cut(document: dict[str, Any]) -> None:
        del document["completedAt"]
        for target in document["targets"]:
            target["completedMoves"] = [move for move in target["completedMoves"] if "s1" in move["sourcePath"]]

    states.edit(states.manifests(imported)[0], cut)

    status, document = run("restore", imported)

    assert 0 == status
    assert {"sessions.json": {"restored"}, "s1.jsonl": {"restored"}, "s2.jsonl": {"skipped"}} == outcomes(document)


def test_a_move_that_was_cut_between_its_two_names_is_finished(imported: Path, run: Restore) -> None:
    """One inode at both paths: the archive's name goes, the file stays where it belongs."""
    (archive,) = imported.glob("agents/main/*/*.s1.jsonl.imported-*")
    os.link(archive, imported / "agents/main/sessions/s1.jsonl")

    status, document = run("restore", imported)

    assert (0, {"restored"}) == (status, outcomes(document)["s1.jsonl"])
    assert [] == states.archived(imported)
    assert 1 == (imported / "agents/main/sessions/s1.jsonl").stat().st_nlink


# --- other places, other times -------------------------------------------------------------------------------------


def test_a_copied_state_directory_restores_its_own_files(imported: Path, run: Restore, tmp_path: Path) -> None:
    """Copied without times: the copy's archives come back with the recorded ones, the original is left alone."""
    copy = tmp_path / "copy"
    shutil.copytree(imported, copy, copy_function=shutil.copyfile)
    before = states.everything(imported)
    expected = {}
    for move in states.moves(json.loads(states.manifests(imported)[0].read_text())):
        expected[Path(move["sourcePath"]).name] = int(move["artifact"]["identity"]["mtimeNs"])

    status, document = run("restore", copy)

    assert (0, 3) == (status, document["totals"]["restoredFiles"])
    found = {path.name: path.stat().st_mtime_ns for path in (copy / "agents/main/sessions").iterdir()}
    assert expected == found
    assert before == states.everything(imported)


def test_a_state_directory_that_was_moved(imported: Path, run: Restore, tmp_path: Path) -> None:
    """Its manifests name paths that are gone; the files come back at the new place, and may be imported again."""
    moved = Path(shutil.move(imported, tmp_path / "elsewhere"))

    assert (0, 3) == brief(run("restore", moved))
    assert not imported.exists()
    status, document = run("import", moved)
    assert (0, 0) == (status, document["totals"]["importedTranscriptEvents"])


def test_a_state_directory_behind_a_link(imported: Path, run: Restore, tmp_path: Path) -> None:
    """The manifest has real paths, the command line a symbolic link to them."""
    link = tmp_path / "link"
    link.symlink_to(imported)

    assert (0, 3) == brief(run("restore", link))


def test_manifests_of_another_agent_or_store_are_not_touched(run: Restore, state_copy: Callable[[str], Path]) -> None:
    """`--agent work` leaves what is main's, in a manifest that has both."""
    state = state_copy("13-s5")
    states.true_digests(state)

    status, document = run("restore", state, select=("--agent", "work"))

    assert (0, ["work"]) == (status, [target["agentId"] for target in document["targets"]])
    assert [] == list(state.glob("agents/work/session-sqlite-import-archive/*"))
    assert 17 == len(list(state.glob("agents/main/session-sqlite-import-archive/*")))
    assert 0 == run("restore", state)[0]
    assert [] == states.archived(state)


def test_the_old_store_of_a_whole_state_directory(imported: Path, run: Restore) -> None:
    """`<state>/sessions/`, of which very old installations had one for all agents, comes back too."""
    shutil.move(imported / "agents/main/session-sqlite-import-archive", imported / "session-sqlite-import-archive")

    def change(document: dict[str, Any]) -> None:
        text = json.dumps(document).replace("agents/main/ses", "ses")
        document.clear()
        document.update(json.loads(text))

    states.edit(states.manifests(imported)[0], change)

    status, document = run("restore", imported)

    assert (0, 3) == (status, document["totals"]["restoredFiles"])
    assert {"sessions.json", "s1.jsonl", "s2.jsonl"} == {path.name for path in (imported / "sessions").iterdir()}


def test_an_unknown_agent(imported: Path, run: Restore) -> None:
    """A selector that names nothing is status 10."""
    assert 10 == run("restore", imported, select=("--agent", "nobody"))[0]


def test_an_archive_with_further_names_is_copied(imported: Path, run: Restore, tmp_path: Path) -> None:
    """A backup shares the inode: what a runtime appends to the restored file must not reach the backup."""
    (archive,) = imported.glob("agents/main/*/*.s1.jsonl.imported-*")
    backup = tmp_path / "backup"
    os.link(archive, backup)
    before = (states.digest(backup), backup.stat().st_mode, backup.stat().st_mtime_ns)

    assert 0 == run("restore", imported)[0]

    path = imported / "agents/main/sessions/s1.jsonl"
    assert not archive.exists()
    assert (1, 1) == (path.stat().st_nlink, backup.stat().st_nlink)
    assert before == (states.digest(path), path.stat().st_mode, path.stat().st_mtime_ns)


# --- what the database alone holds ---------------------------------------------------------------------------------


def add(state: Path, key: str, session_id: str, entry: dict[str, Any]) -> None:
    """A session of the present runtime: a row and one event more."""
    value = {
        "type": "message",
        "id": f"new-{session_id}",
        "parentId": None,
        "message": {"role": "user", "content": "t"},
    }
    database = state / "agents/main/agent/openclaw-agent.sqlite"
    with connection.open_write(database, agent_id="main") as store, store.transaction():
        sessions.write_entry(store, key, {"sessionId": session_id, "updatedAt": NOW, **entry}, now_ms=NOW)
        text = json.dumps(value, separators=(",", ":")).encode()
        events.append(store, key, session_id, [(text, value)], now_ms=NOW)


def test_sessions_of_the_database_alone_are_named(imported: Path, run: Restore, run_cli: Callable[..., Any]) -> None:
    """A new session and a new generation are named in the last line; internal ones are not; newer turns apart."""
    add(imported, "agent:main:new", "n1", {})
    add(imported, "agent:main:x", "n2", {})
    add(imported, "agent:main:main", "s1", {})
    add(imported, "agent:main:dashboard:incognito-1", "n3", {"incognito": True})

    _, preview = run("restore", imported, "--dry-run")
    outcome = run_cli("doctor", "restore", "--state-dir", imported)

    (target,) = preview["targets"]
    assert [("agent:main:new", "n1", 1), ("agent:main:x", "n2", 1)] == [
        (item["sessionKey"], item["sessionId"], item["events"]) for item in target["sqliteOnly"]
    ]
    assert ["s1"] == [item["sessionId"] for item in target["sqliteNewer"]]
    assert 0 == outcome.status
    assert (
        "Only in SQLite, an older runtime will not see them: 2 session(s): agent:main:new (n1), agent:main:x (n2)"
        == outcome.stdout.splitlines()[-1]
    )
    # And the same when everything is back already.
    _, second = run("restore", imported)
    assert target["sqliteOnly"] == second["targets"][0]["sqliteOnly"]
    assert target["sqliteNewer"] == second["targets"][0]["sqliteNewer"]


def test_a_damaged_database_does_not_stop_a_restore(imported: Path, run: Restore) -> None:
    """Who downgrades because the database is damaged gets the files, and is told what could not be looked up."""
    for path in (imported / "agents/main/agent").iterdir():
        path.write_bytes(b"no database" * 100)

    status, document = run("restore", imported)

    assert (3, 3, ["sqlite_read_failed"]) == (status, document["totals"]["restoredFiles"], codes(document))


def test_a_missing_database_does_not_stop_a_restore(imported: Path, run: Restore) -> None:
    """The files are enough."""
    shutil.rmtree(imported / "agents/main/agent")

    assert (0, 3) == brief(run("restore", imported))


def test_an_older_runtime_writes_and_the_import_takes_it(imported: Path, run: Restore, legacy: Any) -> None:
    """Restore, a turn and a session of the older runtime, import again: both are in, nothing twice; and back again."""
    run("restore", imported)
    index = imported / "agents/main/sessions/sessions.json"
    with open(imported / "agents/main/sessions/s1.jsonl", "a") as stream:
        message = {"role": "user", "content": "later"}
        stream.write(json.dumps({"type": "message", "id": "m3", "parentId": "m2", "message": message}) + "\n")
    legacy.session("s3", 1)
    rows = json.loads(index.read_text())
    rows["agent:main:main"]["updatedAt"] = NOW
    index.write_text(json.dumps({**rows, "agent:main:y": {"sessionId": "s3", "updatedAt": NOW}}))
    before = states.sessions(imported)

    status, document = run("import", imported)

    assert (0, 3) == (status, document["totals"]["importedTranscriptEvents"])
    assert {"agent:main:main": ("s1", 5), "agent:main:x": ("s2", 3), "agent:main:y": ("s3", 2)} == legacy.entries()
    assert 0 == run("restore", imported)[0]
    assert before == states.sessions(imported)
