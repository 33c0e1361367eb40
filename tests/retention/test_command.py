"""The command line of `sessions cleanup`: filters, overrides, refused settings, output forms, statuses."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import archived_states as states
import legacy_state as legacy
import pytest

from openclaw_cli.storage import connection, events, verify
from openclaw_cli.storage.sessions import write_entry

NOW_MS = 1_796_000_000_000
DAY_MS = 86_400_000
AGES = {
    "agent:main:main": 50,
    "agent:main:hook:a": 40,
    "agent:main:hook:b": 45,
    "agent:main:subagent:c": 50,
    "agent:main:explicit:d": 60,
    "agent:main:cron:j:run:e": 2,
    "agent:main:explicit:new": 0,
}


@pytest.fixture
def state(tmp_path: Path) -> Path:
    """Rows of several ages; the size of each grows with its age."""
    made = tmp_path / "state"
    (made / "agents/main/sessions").mkdir(parents=True)
    (made / "openclaw.json").write_text("{}")
    path = made / "agents/main/agent/openclaw-agent.sqlite"
    with connection.create(path, agent_id="main", now_ms=NOW_MS) as store, store.transaction():
        for number, (key, days) in enumerate(AGES.items(), 1):
            at = NOW_MS - days * DAY_MS - 1
            write_entry(store, key, {"sessionId": legacy.sid(number), "updatedAt": at}, now_ms=at)
            rows = legacy.turns(legacy.sid(number), max(1, days))
            events.append(store, key, legacy.sid(number), [(legacy.line(row), row) for row in rows], now_ms=at)
    return made


@pytest.fixture
def cleanup(state: Path, run_cli: Callable[..., Any]) -> Callable[..., Any]:
    """Run on the state; gives the result."""
    return lambda *more: run_cli("sessions", "cleanup", "--state-dir", state, "--now", str(NOW_MS), *more)


def taken(done: Any) -> set[str]:
    """The last parts of the keys that would change."""
    document = json.loads(done.stdout)
    return {each["key"].split(":")[-1] for each in document["decisions"] if each["action"] != "keep"}


@pytest.mark.parametrize(
    ("words", "wanted"),
    [
        ((), "abcde"),
        (("--older-than", "43d"), "bcd"),
        (("--kind", "hook"), "ab"),
        (("--kind", "hook", "--kind", "subagent"), "abc"),
        (("--key-glob", "agent:main:hook:*"), "ab"),
        (("--min-bytes", "10kb"), "cd"),
        (("--keep-last", "2"), "bcd"),
        (("--limit", "0"), ""),
        (("--kind", "hook", "--older-than", "43d", "--limit", "5"), "b"),
        (("--prune-after", "90d"), "e"),
        (("--prune-after", "90d", "--cron-retention", "off"), ""),
        (("--prune-after", "47d"), "cde"),
        (("--max-entries", "1", "--cron-retention", "off", "--prune-after", "90d"), "abcdenew"),
        (("--active-key", "agent:main:hook:a"), "bcde"),
    ],
)
def test_filters_and_overrides(cleanup: Callable[..., Any], words: tuple[str, ...], wanted: str) -> None:
    """Filters narrow what the plan names; overrides change the plan."""
    done = cleanup("--json", *words)
    assert 0 == done.status, done.stderr
    found = taken(done)
    assert set(wanted.removesuffix("new")) | ({"new"} if wanted.endswith("new") else set()) == found


def test_a_filter_says_what_it_spares(cleanup: Callable[..., Any]) -> None:
    """Each row that the plan names and a filter keeps."""
    document = json.loads(cleanup("--json", "--limit", "2").stdout)
    spared = {each["key"]: each["spared"] for each in document["decisions"] if "spared" in each}
    assert 3 == len(spared) and {"limit"} == set(spared.values())


@pytest.mark.parametrize(
    "words",
    [
        ("--kind", "nonsense"), ("--limit", "-1"), ("--keep-last", "x"), ("--older-than", "2 weeks"),
        ("--min-bytes", "5mib"), ("--max-entries", "0"), ("--prune-after", "0"), ("--max-disk", "many"),
        ("--high-water", "80%"), ("--archive-dir", ""), ("--agent", "main", "--all-agents"),
    ],
)  # fmt: skip
def test_wrong_values(cleanup: Callable[..., Any], words: tuple[str, ...]) -> None:
    """A wrong call, before anything is read."""
    done = cleanup(*words)
    assert 2 == done.status and done.stderr.startswith("openclaw-cli: ")
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(
    ("maintenance", "named"),
    [
        ({"rotateBytes": "1mb"}, "rotateBytes"),
        ({"pruneDays": 30}, "pruneDays"),
        ({"maxEntries": 0}, "maxEntries"),
        ({"mode": "often"}, "mode"),
        ({"highWaterBytes": "80%"}, "highWaterBytes"),
        ({"nonsense": 1}, "nonsense"),
        ([], "session.maintenance"),
    ],
)
def test_settings_that_openclaw_refuses(state: Path, cleanup: Callable[..., Any], maintenance: Any, named: str) -> None:
    """Named, with what mends retired ones; nothing is read or changed."""
    (state / "openclaw.json").write_text(json.dumps({"session": {"maintenance": maintenance}}))
    before = states.everything(state)
    done = cleanup("--enforce")
    assert 2 == done.status and named in done.stderr
    if named in ("rotateBytes", "pruneDays"):
        assert "doctor fix" in done.stderr
    assert before == states.everything(state)


def test_exit_code(cleanup: Callable[..., Any]) -> None:
    """3 for a preview that has work, 0 behind the run; without the option 0."""
    assert 0 == cleanup().status
    assert 3 == cleanup("--exit-code").status
    assert 0 == cleanup("--enforce", "--exit-code").status
    assert 0 == cleanup("--exit-code").status


def test_ndjson(cleanup: Callable[..., Any]) -> None:
    """A line for each decision and each store, a summary last; the same content as --json."""
    lines = [json.loads(line) for line in cleanup("--ndjson").stdout.splitlines()]
    document = json.loads(cleanup("--json").stdout)
    assert ["decision"] * len(AGES) + ["store", "summary"] == [line["type"] for line in lines]
    plain = [{name: value for name, value in line.items() if name not in ("type", "agentId")} for line in lines]
    assert document["decisions"] == plain[: len(AGES)]
    assert document["beforeCount"] == lines[-2]["beforeCount"]
    assert {"dryRun": True, "pruned": 3, "cronRetention": 1, "stores": 1, "status": 0}.items() <= lines[-1].items()


def test_text(cleanup: Callable[..., Any]) -> None:
    """What would go with reasons and bytes; the last line says that nothing was changed; a run says what it did."""
    preview = cleanup().stdout.splitlines()
    assert "Would prune stale: 3" in preview and "Entries: 7 -> 3 (remove 4)" in preview
    assert any(line.startswith("  archive agent:main:explicit:d: age-retention (") for line in preview)
    assert "nothing was changed" in preview[-1]
    done = cleanup("--enforce").stdout.splitlines()
    assert "Did prune stale: 3" in done and not any("nothing was changed" in line for line in done)


def test_vacuum_gives_space_back(state: Path, cleanup: Callable[..., Any]) -> None:
    """The file is smaller than without."""
    path = state / "agents/main/agent/openclaw-agent.sqlite"
    before = path.stat().st_size
    assert 0 == cleanup("--enforce", "--vacuum", "--archive-dir", str(state.parent / "archives")).status
    assert path.stat().st_size < before
    with connection.open_read(path) as store:
        assert 0 == store.value("PRAGMA freelist_count")


def test_a_row_that_changes_meanwhile_stays(state: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Somebody goes on with a session between plan and deletion: it stays, and is told."""
    from openclaw_cli.config import Target
    from openclaw_cli.migration.plan import Rules
    from openclaw_cli.retention import applying, cleaning
    from openclaw_cli.retention.audit import Silent
    from openclaw_cli.retention.settings import Maintenance

    path = state / "agents/main/agent/openclaw-agent.sqlite"
    target = Target("main", state / "agents/main/sessions/sessions.json", path, state / "agents/main/sessions", state)
    options = cleaning.Options(Rules(), Maintenance(), NOW_MS)
    real = applying.archiving.write_parts

    def meanwhile(*arguments: Any) -> Any:
        parts = real(*arguments)
        if arguments[1].session_key == "agent:main:hook:a":
            with connection.open_write(path, agent_id="main") as other, other.transaction():
                row = legacy.message("late0001", None, 1, "user", [legacy.text_block("late")])
                events.append(other, "agent:main:hook:a", legacy.sid(2), [(legacy.line(row), row)], now_ms=NOW_MS)
                entry = {"sessionId": legacy.sid(5), "updatedAt": NOW_MS}
                write_entry(other, "agent:main:explicit:d", entry, now_ms=NOW_MS)
        return parts

    monkeypatch.setattr(applying.archiving, "write_parts", meanwhile)
    with connection.open_write(path, agent_id="main") as store:
        found = cleaning.look(store, target, options)
        run = applying.act(store, target, found, options, Silent(state, NOW_MS))
        keys = {key for (key,) in store.execute("SELECT session_key FROM session_nodes")}
    assert "agent:main:hook:a" in keys and "agent:main:hook:b" not in keys
    assert [("row_changed", "agent:main:hook:a")] == [(one.code, one.session_key) for one in run.applied.issues]


def test_a_run_that_fails_says_what_was_done(state: Path, cleanup: Callable[..., Any]) -> None:
    """Archives cannot be written: rows are marked, none is removed, and the report says just that."""
    place = state.parent / "closed"
    place.write_text("a file where a directory should be")
    done = cleanup("--json", "--enforce", "--archive-dir", str(place))
    document = json.loads(done.stdout)
    assert 12 == done.status
    assert (False, 7, 1, 0) == (
        document["applied"], document["afterCount"], document["archived"], document["pruned"]
    )  # fmt: skip
    found = {(each["action"], each["reason"]) for each in document["decisions"]}
    assert {("archive", "age-retention"), ("keep", "not-done")} <= found
    assert "remove" not in {action for action, _ in found}
    text = cleanup("--enforce", "--archive-dir", str(place)).stdout
    assert "remove agent:" not in text


@pytest.fixture
def watched(state: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Any]:
    """Carry out a cleanup while `meanwhile` happens once, when a function of a module is called; gives the run."""
    from openclaw_cli.config import Target
    from openclaw_cli.migration.plan import Rules
    from openclaw_cli.retention import applying, cleaning
    from openclaw_cli.retention.audit import Silent
    from openclaw_cli.retention.settings import Maintenance

    path = state / "agents/main/agent/openclaw-agent.sqlite"
    target = Target("main", state / "agents/main/sessions/sessions.json", path, state / "agents/main/sessions", state)

    def run(module: Any, name: str, meanwhile: Callable[[connection.Store], None]) -> tuple[Any, set[str]]:
        real, left = getattr(module, name), [meanwhile]

        def wrapped(*arguments: Any) -> Any:
            if left:
                with connection.open_write(path, agent_id="main") as other, other.transaction():
                    left.pop()(other)
            return real(*arguments)

        with connection.open_write(path, agent_id="main") as store:
            found = cleaning.look(store, target, cleaning.Options(Rules(), Maintenance(), NOW_MS))
            monkeypatch.setattr(module, name, wrapped)
            made = applying.act(store, target, found, cleaning.Options(Rules(), Maintenance(), NOW_MS),
                                Silent(state, NOW_MS))  # fmt: skip
            keys = {key for (key,) in store.execute("SELECT session_key FROM session_nodes")}
        assert not left
        return made, keys

    return run


def use(store: connection.Store) -> None:
    """Somebody goes on with an old session."""
    entry = {"sessionId": legacy.sid(2), "updatedAt": NOW_MS}
    write_entry(store, "agent:main:hook:a", entry, now_ms=NOW_MS)


def test_a_row_that_was_used_since_the_plan_stays(watched: Callable[..., Any]) -> None:
    """Before its batch is read, and in the middle of that: between the look at the version and the look at the row."""
    from openclaw_cli.storage import removal

    made, keys = watched(removal, "windows_of", use)
    assert "agent:main:hook:a" in keys and "agent:main:hook:b" not in keys
    assert ["row_changed"] == [one.code for one in made.applied.issues]


def test_a_row_that_was_used_before_its_batch_stays(watched: Callable[..., Any]) -> None:
    """After the plan, before anything is removed."""
    from openclaw_cli.retention import applying

    made, keys = watched(applying.space, "prepare_load", use)
    assert "agent:main:hook:a" in keys and "agent:main:hook:b" not in keys
    assert ["row_changed"] == [one.code for one in made.applied.issues]


def test_a_session_that_began_meanwhile_stays(state: Path, watched: Callable[..., Any]) -> None:
    """Events of a new session under a key that goes: they have no archive, and so they are kept as its history."""
    from openclaw_cli.retention import archiving

    def begin(store: connection.Store) -> None:
        rows = legacy.turns("newone01", 3)
        pairs = [(legacy.line(row), row) for row in rows]
        events.append(store, "agent:main:hook:a", "newone01", pairs, now_ms=NOW_MS)

    _, keys = watched(archiving, "write_parts", begin)
    assert "agent:main:hook:a" in keys
    with connection.open_read(state / "agents/main/agent/openclaw-agent.sqlite", temporary_tables=True) as store:
        assert 4 == len(list(events.stream(store, "newone01")))
        assert [] == [*verify.integrity(store), *verify.verify(store)]


def test_half_a_line_of_the_audit_spoils_no_other(state: Path, cleanup: Callable[..., Any]) -> None:
    """What a run that was cut has left ends there."""
    audit = state / "openclaw-cli/audit.jsonl"
    audit.parent.mkdir()
    audit.write_bytes(b'{"time":1,"event":"remo')
    assert 0 == cleanup("--enforce").status
    lines = audit.read_bytes().splitlines()
    assert b'{"time":1,"event":"remo' == lines[0]
    assert all("event" in json.loads(line) for line in lines[1:])
