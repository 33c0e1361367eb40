"""Command lines of the documents run with only the program name changed, and reading leaves every byte."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from legacy_state import BASE_MS, KEY, NOW_MS, digests, jsonl, make_state, one_task, sid, turns

NOW = ["--now", str(NOW_MS)]


@pytest.fixture
def two_agents(tmp_path: Path) -> Path:
    """A state directory with the agents `main` and `work`."""
    state = tmp_path / "s"
    for agent, number in (("main", 1), ("work", 2)):
        index = {f"agent:{agent}:main": {"sessionId": sid(number), "updatedAt": BASE_MS + 60_000}}
        make_state(state, index, {f"{sid(number)}.jsonl": jsonl(turns(sid(number)))}, agent)
    return state


@pytest.mark.parametrize("mode", ["inspect", "dry-run", "validate"])
@pytest.mark.parametrize(
    "theirs, ours, agents",
    [
        (["--session-sqlite-all-agents"], ["--all-agents"], ["main", "work"]),
        (["--session-sqlite-agent", "work"], ["--agent", "work"], ["work"]),
    ],
)
def test_doctor_spelling(
    run_cli: Callable[..., Any], two_agents: Path, mode: str, theirs: list[str], ours: list[str], agents: list[str]
) -> None:
    """`doctor --session-sqlite MODE --session-sqlite-…` is `doctor MODE --…`."""
    env = {"OPENCLAW_STATE_DIR": str(two_agents)}
    first = run_cli("doctor", "--session-sqlite", mode, *theirs, "--json", env=env)
    second = run_cli("doctor", mode, *ours, "--json", env=env)
    assert (second.status, second.stdout) == (first.status, first.stdout)
    assert agents == sorted(target["agentId"] for target in json.loads(first.stdout)["targets"])


def test_doctor_store_spelling(run_cli: Callable[..., Any], two_agents: Path) -> None:
    """`--session-sqlite-store` names one store."""
    index = two_agents / "agents/work/sessions/sessions.json"
    first = run_cli("doctor", "--session-sqlite", "dry-run", "--session-sqlite-store", index, "--json")
    second = run_cli("doctor", "dry-run", "--store", index, "--json")
    assert 0 == first.status, first.stderr
    assert second.stdout == first.stdout
    assert ["work"] == [target["agentId"] for target in json.loads(first.stdout)["targets"]]


def test_doctor_import_spelling(run_cli: Callable[..., Any], two_agents: Path) -> None:
    """`doctor --session-sqlite import --session-sqlite-all-agents` imports every agent."""
    env = {"OPENCLAW_STATE_DIR": str(two_agents)}
    done = run_cli("doctor", "--session-sqlite", "import", "--session-sqlite-all-agents", "--json", env=env)
    assert 0 == done.status, done.stderr
    report = json.loads(done.stdout)
    assert ("import", 2, 2, 10) == (
        report["mode"],
        *(report["totals"][name] for name in ("targets", "importedEntries", "importedTranscriptEvents")),
    )
    assert {"runId", "manifestPath"} <= set(report["migrationRun"])


def test_json_before_the_mode(run_cli: Callable[..., Any], two_agents: Path) -> None:
    """The order of options does not matter in OpenClaw's spelling."""
    env = {"OPENCLAW_STATE_DIR": str(two_agents)}
    one = run_cli("doctor", "--json", "--session-sqlite-all-agents", "--session-sqlite", "inspect", env=env)
    other = run_cli("doctor", "--session-sqlite=inspect", "--session-sqlite-all-agents", "--json", env=env)
    assert (0, other.stdout) == (one.status, one.stdout), one.stderr


def test_bare_sessions(run_cli: Callable[..., Any], two_agents: Path) -> None:
    """Bare `sessions` is `sessions list`; options before the subcommand are inherited."""
    env = {"OPENCLAW_STATE_DIR": str(two_agents)}
    assert 0 == run_cli("doctor", "import", "--all-agents", env=env).status
    listed = run_cli("sessions", "list", "--agent", "work", "--json", *NOW, env=env).stdout
    assert ["agent:work:main"] == [row["key"] for row in json.loads(listed)["sessions"]]
    assert listed == run_cli("sessions", "--agent", "work", "--json", *NOW, env=env).stdout
    assert listed == run_cli("sessions", "--agent", "work", *NOW, "list", "--json", env=env).stdout
    assert listed == run_cli("sessions", "--json", *NOW, "list", "--agent", "work", env=env).stdout


def test_all_agents_without_openclaw_json(doctor: Callable[..., Any], two_agents: Path) -> None:
    """`--all-agents` on a state directory without `openclaw.json` finds its agents from the directories."""
    (two_agents / "openclaw.json").unlink()
    report = doctor("inspect", two_agents)
    assert ["main", "work"] == sorted(target["agentId"] for target in report["targets"])


def test_openclaw_keys_of_a_report(doctor: Callable[..., Any], two_agents: Path) -> None:
    """OpenClaw's keys unchanged, plus `linesTotal, linesLost, linesSalvageable, damage[]` per target."""
    theirs = {
        "agentId",
        "storePath",
        "sqlitePath",
        "archivedTranscriptFiles",
        "archivedUnreferencedJsonlFiles",
        "archivedLegacyStoreFiles",
        "unreferencedJsonlFiles",
        "importedEntries",
        "importedTranscriptEvents",
        "validatedEntries",
        "validatedTranscriptEvents",
        "legacyEntries",
        "referencedTranscriptFiles",
        "sqliteEntries",
        "issues",
    }
    ours = {"linesTotal", "linesLost", "linesSalvageable", "damage"}
    for mode in ("inspect", "dry-run", "import", "validate"):
        report = doctor(mode, two_agents)
        assert mode == report["mode"]
        for target in report["targets"]:
            assert theirs | ours <= set(target)
    stats = doctor("inspect", two_agents)["targets"][0]["dbStats"]
    keys = {"dbSizeBytes", "walSizeBytes", "integrityCheck", "totalTranscriptRowBytes", "largestSessions"}
    assert keys <= set(stats)
    assert {"sessionId", "events", "rowBytes"} <= set(stats["largestSessions"][0])


def test_reading_changes_nothing(run_cli: Callable[..., Any], two_agents: Path, tmp_path: Path) -> None:
    """Inspect, validate, every dry run, scan-lifecycles and list leave every file as it was."""
    transcript = two_agents / "notes.jsonl"
    transcript.write_bytes(jsonl(one_task()))
    where = ["--all-agents", "--state-dir", two_agents]

    def read_all() -> None:
        """Every command that only reads."""
        for argv in (
            ["doctor", "inspect", "--top", "5", *where],
            ["doctor", "inspect", "--file", transcript],
            ["doctor", "dry-run", *where],
            ["doctor", "import", "--dry-run", *where],
            ["doctor", "validate", *where],
            ["sessions", "list", "--generations", "--archived", *where],
            ["scan-lifecycles", transcript],
            ["compact", transcript, "--dry-run"],
            ["compact", transcript, "-o", "-"],
        ):
            assert run_cli(*argv).status in (0, 3), argv

    before = digests(two_agents)
    times = {path: path.stat().st_mtime_ns for path in two_agents.rglob("*") if path.is_file()}
    read_all()
    assert before == digests(two_agents)
    assert times == {path: path.stat().st_mtime_ns for path in two_agents.rglob("*") if path.is_file()}
    copy = transcript.read_bytes()
    assert 0 == run_cli("doctor", "import", *where).status
    transcript.write_bytes(copy)
    before = digests(two_agents)
    read_all()
    assert before == digests(two_agents)


def test_reading_a_store_of_the_real_program(run_cli: Callable[..., Any], state_copy: Callable[..., Path]) -> None:
    """Reading leaves the files of a store that OpenClaw itself wrote, compressed rows included."""
    state = state_copy("15-z1-zstd")
    before = digests(state)
    for argv in (["sessions", "list", "--json"], ["doctor", "inspect", "--all-agents", "--top", "3", "--json"]):
        done = run_cli(*argv, "--state-dir", state)
        assert 0 == done.status, done.stdout + done.stderr
    assert before == digests(state)


def test_store_needs_no_state_dir(cli_json: Callable[..., Any], doctor: Callable[..., Any], two_agents: Path) -> None:
    """`--store` names one store, as `sessions.json` or `.sqlite`."""
    doctor("import", two_agents)
    store = two_agents / "agents/main/agent/openclaw-agent.sqlite"
    assert [KEY] == [row["key"] for row in cli_json("sessions", "list", "--store", store)["sessions"]]
    index = two_agents / "agents/main/sessions/sessions.json"
    assert [KEY] == [row["key"] for row in cli_json("sessions", "list", "--store", index)["sessions"]]
