"""Snapshots: everything is in them, byte for byte; what must stay out stays out; unfinished ones are told apart."""

from __future__ import annotations

import itertools
import json
import os
import shutil
import socket
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Any

import archived_states as states
import pytest

from openclaw_cli.errors import Exit
from openclaw_cli.migration import snapshot, snapshot_plan, snapshot_record
from openclaw_cli.storage import connection, verify

NOW_MS = 1_790_000_000_000
DATABASE = "agents/main/agent/openclaw-agent.sqlite"


@pytest.fixture
def state(state_copy: Callable[[str], Path], run_cli: Callable[..., Any]) -> Path:
    """A state directory that was imported, with an index of an older time, secrets, links and things of a process."""
    made = state_copy("01-legacy")
    assert 3 == run_cli("doctor", "import", "--all-agents", "--state-dir", made).status
    (made / "openclaw.json").write_text('{ /* mine */ "agents": {} }\n')
    (made / "credentials").mkdir()
    (made / "credentials/oauth.json").write_text("CANARY")
    (made / "agents/main/agent/auth-profiles.json").write_text("CANARY")
    (made / "workspace").mkdir()
    (made / "workspace/notes.md").write_text("work")
    (made / "agents/main/sessions/later.jsonl").symlink_to("elsewhere.jsonl")
    (made / "agents/main/sessions/empty").mkdir(mode=0o750)
    (made / "agents/main/sessions/x.jsonl.lock").write_text("{}")
    states.vary(made)
    return made


@pytest.fixture
def take(run_cli: Callable[..., Any], tmp_path: Path) -> Callable[..., dict[str, Any]]:
    """Take a snapshot into `tmp_path/snap`, or do what more options say; gives the document."""

    def run(state: Path, *options: str | Path, status: int = 0, place: str = "snap") -> dict[str, Any]:
        done = run_cli("doctor", "snapshot", tmp_path / place, "--state-dir", state, "--json", *options)
        assert status == done.status, done.stdout + done.stderr
        return json.loads(done.stdout)

    return run


def listed(root: Path) -> dict[str, tuple[Any, ...]]:
    """Every path below `root`: kind, mode, mtime, digest or target; databases by their rows."""
    found: dict[str, tuple[Any, ...]] = {}
    for path in sorted(root.rglob("*")):
        status = path.lstat()
        name = str(path.relative_to(root))
        if path.is_symlink():
            found[name] = ("link", os.readlink(path))
        elif path.is_dir():
            found[name] = ("directory", stat.S_IMODE(status.st_mode))
        elif path.name == "openclaw-agent.sqlite":
            with connection.open_read(path) as store:
                found[name] = ("database", *store.execute("SELECT session_id, seq FROM transcript_events").fetchall())
        else:
            found[name] = ("file", stat.S_IMODE(status.st_mode), status.st_mtime_ns, states.digest(path))
    return found


def test_everything_is_in_it_but_what_must_stay_out(state: Path, take: Callable[..., Any], tmp_path: Path) -> None:
    """Files with mode and time, links as links, empty directories; no secret, lock or workspace; all named."""
    before = states.everything(state)
    report = take(state)
    out = {item["path"].removeprefix("state/"): item["reason"] for item in report["leftOut"]}

    assert {
        "credentials": "secret",
        "agents/main/agent/auth-profiles.json": "secret",
        "workspace": "no-history",
        "agents/main/sessions/x.jsonl.lock": "passing",
    } == {path: reason for path, reason in out.items() if not path.endswith("-shm") and path != "tmp"}
    kept = {
        path: what
        for path, what in listed(state).items()
        if not path.endswith(("-wal", "-shm")) and not any(path == name or path.startswith(f"{name}/") for name in out)
    }
    assert kept == {
        path: what for path, what in listed(tmp_path / "snap/state").items() if path[-4:] not in ("-wal", "-shm")
    }
    assert before == states.everything(state)
    assert not any(b"CANARY" in path.read_bytes() for path in (tmp_path / "snap").rglob("*") if path.is_file())


def test_a_finished_snapshot_verifies_until_a_byte_changes(
    state: Path, take: Callable[..., Any], tmp_path: Path
) -> None:
    """`--verify` reads only; a changed byte, mode or link and a missing file give 13, an extra file is named."""
    take(state)
    snap = tmp_path / "snap"
    before = states.everything(snap)
    assert (True, []) == tuple(take(state, "--verify")[name] for name in ("ok", "issues"))
    assert before == states.everything(snap)
    transcript = next((snap / "state").rglob("*.imported-*"))
    transcript.write_bytes(transcript.read_bytes()[:-1] + b"x")
    (snap / "state/openclaw.json").chmod(0o640)
    (snap / "state/agents/main/sessions/later.jsonl").unlink()
    (snap / "state/extra").write_text("")
    found = take(state, "--verify", status=13)["issues"]

    assert 3 == sum(issue["code"] == "snapshot_differs" for issue in found)
    assert ["state/extra"] == [issue["path"] for issue in found if issue["code"] == "snapshot_extra"]


def test_going_back_gives_the_state_of_then(state: Path, take: Callable[..., Any], tmp_path: Path) -> None:
    """What was deleted after the snapshot is there again when the copy takes the state's place, log or no log."""
    with connection.open_write(state / DATABASE, agent_id="main") as writer:
        writer.execute("UPDATE schema_meta SET app_version = 'then'")
        take(state)
        with writer.transaction():
            writer.execute("DELETE FROM session_windows")
    state.rename(tmp_path / "old")
    shutil.copytree(tmp_path / "snap/state", state, symlinks=True)

    with connection.open_read(state / DATABASE, temporary_tables=True) as store:
        assert "then" == store.value("SELECT app_version FROM schema_meta")
        assert 0 < store.value("SELECT count(*) FROM transcript_events")
        assert [] == verify.integrity(store)
        assert [] == list(verify.verify(store))


def test_only_a_new_place_outside_will_do(state: Path, take: Callable[..., Any], tmp_path: Path) -> None:
    """Inside the state, not empty, finished, unfinished of another state: 12, and nothing is written."""
    (tmp_path / "full").mkdir()
    (tmp_path / "full/mine.txt").write_text("mine")
    (tmp_path / "other").mkdir()
    snapshot_record.mark(tmp_path / "other", tmp_path / "another-state", NOW_MS)
    take(state)
    before = states.everything(tmp_path)

    inside = take(state, status=12, place=str(state / "agents/snap"))["error"]
    assert "snapshot_inside" == inside["code"]
    for place in ("full", "other", "snap"):
        assert "snapshot_place" == take(state, status=12, place=place)["error"]["code"]
    assert before == states.everything(tmp_path)


def test_too_little_room_is_known_before_anything_is_written(
    state: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The room that is needed and the room that is there are named."""
    monkeypatch.setattr(snapshot_plan, "free_bytes", lambda _: 1000)

    with pytest.raises(snapshot_plan.NoSpaceError) as caught:
        snapshot.take(state, tmp_path / "snap", NOW_MS)
    assert 1000 == caught.value.facts["freeBytes"] < caught.value.facts["neededBytes"]
    assert not (tmp_path / "snap").exists()


def test_a_dry_run_writes_nothing(state: Path, take: Callable[..., Any], tmp_path: Path) -> None:
    """The plan has the same counts as the snapshot."""
    planned = take(state, "--dry-run")
    assert not (tmp_path / "snap").exists()
    taken = take(state)

    names = ("files", "databases", "links", "directories")
    assert [planned["totals"][name] for name in names] == [taken["totals"][name] for name in names]
    assert (True, False) == (planned["dryRun"], taken["dryRun"])


def test_a_damaged_database_is_copied_with_its_log_as_it_is(
    state: Path, take: Callable[..., Any], tmp_path: Path
) -> None:
    """What SQLite cannot read whole comes as files, log included, for a recovery later; the report names it."""
    path = state / DATABASE
    for suffix in ("-wal", "-shm"):
        path.with_name(path.name + suffix).unlink(missing_ok=True)
    data = bytearray(path.read_bytes())
    data[4096 * 3 : 4096 * 4] = b"\xff" * 4096
    path.write_bytes(data)
    path.with_name(path.name + "-journal").write_bytes(b"a journal that means nothing")
    report = take(state)

    assert ["database_damaged"] == [issue["code"] for issue in report["issues"] if issue["code"] != "link_outside"]
    copy = tmp_path / "snap/state" / DATABASE
    assert bytes(data) == copy.read_bytes()
    assert b"a journal that means nothing" == copy.with_name(copy.name + "-journal").read_bytes()
    assert take(state, "--verify")["ok"]


def test_names_that_are_no_utf8_and_sockets(state: Path, take: Callable[..., Any], tmp_path: Path) -> None:
    """A name of any bytes is copied under that name and verified; a socket is left out and named."""
    odd = os.fsencode(state / "agents/main/sessions") + b"/\xff\xfe.jsonl"
    with open(odd, "wb") as stream:
        stream.write(b"{}\n")
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(state / "agents/s"))
    report = take(state)

    assert os.path.exists(os.fsencode(tmp_path / "snap/state/agents/main/sessions") + b"/\xff\xfe.jsonl")
    assert {"path": "state/agents/s", "reason": "special"} in report["leftOut"]
    assert take(state, "--verify")["ok"]


def test_a_store_elsewhere_and_a_link_out_of_the_state(state: Path, take: Callable[..., Any], tmp_path: Path) -> None:
    """A store that the configuration puts elsewhere is copied too, and an agent directory behind a link."""
    moved = tmp_path / "disk/main"
    moved.parent.mkdir()
    (state / "agents/main").rename(moved)
    (state / "agents/main").symlink_to(moved)
    report = take(state)
    snap = tmp_path / "snap"

    assert os.readlink(snap / "state/agents/main") == str(moved)
    roots = {Path(root["path"]): snap / root["name"] for root in report["roots"]}
    assert (roots[moved / "agent"] / "openclaw-agent.sqlite").is_file()
    assert any(roots[moved / "session-sqlite-import-archive"].iterdir())
    assert take(state, "--verify")["ok"]


def test_what_moves_meanwhile_is_found_where_it_is(state: Path, tmp_path: Path) -> None:
    """A file that another program moves or changes while the copy runs is copied from its new place, as it is then."""
    sessions = state / "agents/main/sessions"
    (sessions / "a.jsonl").write_text("first")
    (sessions / "z.jsonl").write_text("one")
    made = snapshot.prepare(state, tmp_path / "snap")
    moves = [1]

    def meddle(_: int) -> None:
        if moves:
            moves.clear()
            (sessions / "z.jsonl").rename(sessions / "z.jsonl.reset.2026-01-02T03-04-05.678Z")
            (sessions / "0.jsonl").write_text("second")

    made = snapshot.copy(made, NOW_MS, meddle)
    copied = tmp_path / "snap/state/agents/main/sessions"

    assert Exit.OK is made.status()
    assert "one" == (copied / "z.jsonl.reset.2026-01-02T03-04-05.678Z").read_text()
    assert "second" == (copied / "0.jsonl").read_text()


def test_a_file_that_never_rests_makes_it_incomplete(state: Path, tmp_path: Path) -> None:
    """What changes in each round is an error, and whoever wanted the snapshot first does not begin."""
    path = state / "agents/main/sessions/busy.jsonl"
    path.write_text("x")
    sizes = itertools.count(2)

    def write(_: int) -> None:
        path.write_text("x" * next(sizes))

    made = snapshot.copy(snapshot.prepare(state, tmp_path / "snap"), NOW_MS, write)

    assert ["changed_while_copied"] == [issue.code for issue in made.issues if issue.severity == "error"]
    with pytest.raises(snapshot.RefusedError):
        snapshot.require_complete(made)


def test_compact_takes_one_first(state: Path, run_cli: Callable[..., Any], tmp_path: Path) -> None:
    """`doctor compact --snapshot DIR` copies before anything is rewritten; a place that will not do ends it."""
    options = ("--all-agents", "--state-dir", state, "--json", "--snapshot", tmp_path / "snap")
    done = run_cli("doctor", "compact", *options)

    assert 0 == done.status, done.stdout + done.stderr
    assert str(tmp_path / "snap") == json.loads(done.stdout)["snapshot"]["directory"]
    assert [] == snapshot_record.verify(tmp_path / "snap").issues
    before = states.everything(state)
    assert 12 == run_cli("doctor", "compact", *options).status
    assert before == states.everything(state)


def test_recover_takes_one_of_what_is_damaged(state: Path, run_cli: Callable[..., Any], tmp_path: Path) -> None:
    """`doctor recover --snapshot DIR` has the damaged bytes in DIR, whatever the recovery makes of them."""
    path = state / DATABASE
    data = bytearray(path.read_bytes())
    data[4096 * 3 : 4096 * 4] = b"\xff" * 4096
    path.write_bytes(data)
    options = ("--all-agents", "--state-dir", state, "--json", "--snapshot", tmp_path / "snap")
    done = run_cli("doctor", "recover", *options)

    assert str(tmp_path / "snap") == json.loads(done.stdout)["snapshot"]["directory"], done.stderr
    assert bytes(data) == (tmp_path / "snap/state" / DATABASE).read_bytes()
    assert bytes(data) != path.read_bytes()
