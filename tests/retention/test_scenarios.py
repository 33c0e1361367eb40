"""`sessions cleanup` beside the real program's recorded runs: same rows, windows, transcripts and archives.

What is different on purpose stands beside its scenario.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import archived_states as states
import pytest

from openclaw_cli import archive

COUNTERS = (
    *("beforeCount", "afterCount", "missing", "dmScopeRetired", "modelRunPruned", "archived", "capArchived", "pruned"),
    "capped",
)
SAME = [
    # The real program leaves cron runs to its gateway; ours takes them, so that is switched off here.
    ("01_age_prune", ("--cron-retention", "off")),
    ("02_cap_max_entries", ("--cron-retention", "off")),
    ("03_protected_keys", ("--cron-retention", "off")),
    ("04_cron", ("--cron-retention", "off")),
    ("05a_model_run_no_pressure", ()),
    # The real program's repairs know no protection; ours do without --force.
    ("06_fix_missing", ("--force",)),
    ("07_dm_scope", ("--force",)),
    ("16_all_agents", ("--cron-retention", "off")),
    ("18_dashboard_disabled", ()),
]

Cleanup = Callable[..., dict[str, Any]]


def stores(document: dict[str, Any]) -> list[dict[str, Any]]:
    """The summaries of a report."""
    return document.get("stores", [document])


@pytest.mark.parametrize(("name", "more"), SAME, ids=[name for name, _ in SAME])
def test_the_same_as_the_real_program(
    scenario: Callable[[str], Any], cleanup: Cleanup, name: str, more: tuple[str, ...]
) -> None:
    """The preview has its counters and changes no byte; the run leaves its rows; all content is still there."""
    made = scenario(name)
    before, everything = made.content(), states.everything(made.state)
    preview = cleanup(made, "dry_json", *more)
    assert everything == states.everything(made.state)
    done = cleanup(made, "apply_json", *more)

    for found, wanted in ((preview, "dry_json"), (done, "apply_json")):
        recorded = stores(made.runs[wanted]["report"])
        assert [[store[key] for key in COUNTERS] for store in recorded] == [
            [store[key] for key in COUNTERS] for store in stores(found)
        ]
    recorded = made.runs["apply_json"]["rows"]
    assert recorded == made.rows()
    assert before == made.content()
    again = cleanup(made, "apply_json", *more)
    assert not any(store["wouldMutate"] for store in stores(again))
    assert recorded == made.rows()


def test_a_preview_names_what_a_run_takes(scenario: Callable[[str], Any], cleanup: Cleanup) -> None:
    """The same decisions in the same order, with reasons and bytes."""
    made = scenario("01_age_prune")
    planned = [each for each in cleanup(made, "dry_json")["decisions"] if each["action"] != "keep"]
    done = [each for each in cleanup(made, "apply_json")["decisions"] if each["action"] != "keep"]

    assert planned == done
    assert all(each["bytes"] > 0 for each in planned)


@pytest.mark.parametrize(("name", "gone"), [("01_age_prune", 11), ("04_cron", 3)])
def test_cron_runs_are_taken_by_their_retention(
    scenario: Callable[[str], Any], cleanup: Cleanup, name: str, gone: int
) -> None:
    """Different on purpose: `cron.sessionRetention` is applied; base rows stay until they are old."""
    made = scenario(name)
    before = made.content()

    document = cleanup(made, "apply_json")

    assert gone == document["beforeCount"] - document["afterCount"]
    assert 0 < document["cronRetention"]
    assert before == made.content()


def test_repairs_respect_what_protects_a_row(scenario: Callable[[str], Any], cleanup: Cleanup) -> None:
    """Different on purpose: pinned, running, main and group rows stay, and what looks like a peer but is none."""
    missing, scope = scenario("06_fix_missing"), scenario("07_dm_scope")

    assert 4 == cleanup(missing, "apply_json")["missing"]
    assert {
        "agent:main:main",
        "agent:main:explicit:pin",
        "agent:main:explicit:run",
        "agent:main:telegram:group:-9",
    } <= (missing.rows()["main"]["nodes"].keys())
    recorded = scope.runs["apply_json"]["rows"]["main"]["nodes"].keys()
    cleanup(scope, "apply_json")
    assert recorded < scope.rows()["main"]["nodes"].keys()


def test_warn_changes_nothing(scenario: Callable[[str], Any], cleanup: Cleanup) -> None:
    """Not even where plain runs carry plans out; with --enforce they do. No archive goes in the run that made it."""
    made = scenario("08_warn_mode")
    (made.state / "openclaw-cli.yaml").write_text("cleanup:\n  apply: true\n")
    everything, before = states.everything(made.state), made.content()

    assert made.runs["dry_json"]["report"]["afterCount"] == cleanup(made, "apply_json", args=[])["afterCount"]
    assert everything == states.everything(made.state)

    document = cleanup(made, "apply2_enforce", "--cron-retention", "off", status=3)
    recorded = made.runs["apply2_enforce"]["report"]
    assert [recorded[key] for key in COUNTERS] == [document[key] for key in COUNTERS]
    assert document["diskBudget"]["overBudget"]
    # A file that nobody refers to has become an archive, too.
    assert before <= made.content()


def test_files_that_nobody_refers_to(scenario: Callable[[str], Any], cleanup: Cleanup) -> None:
    """What the real program removes, but each file with history in it is archived first; blobs of prompts stay."""
    made = scenario("10_orphan_files")
    for path in made.state.glob("agents/main/sessions/*"):
        if path.name == "11111111-1111-4111-8111-000000000001.jsonl":
            assert path.stat().st_size == 100
    before = set(made.files())

    document = cleanup(made, "apply_json")

    after = set(made.files())
    recorded = before - set(made.runs["apply_json"]["files"])
    ours = before - after
    assert {path for path in recorded if "/skills-prompts/" not in path} == ours
    assert document["unreferencedArtifacts"]["removedFiles"] == len(ours)
    archived = {path.rsplit("/", 1)[1].split(".jsonl.deleted.")[0] for path in after - before if ".deleted." in path}
    assert {"11111111-1111-4111-8111-000000000001", "old-topic-1"} <= archived
    assert not cleanup(made, "apply_json")["wouldMutate"]


def test_archives_in_a_directory_of_ones_own(scenario: Callable[[str], Any], cleanup: Cleanup, tmp_path: Path) -> None:
    """Only files there, no row of the store; the content is whole."""
    made = scenario("01_age_prune")
    before, place = made.content(), tmp_path / "archives/deep"

    cleanup(made, "apply_json", "--archive-dir", str(place))

    assert [] == made.rows()["main"]["archives"]
    assert 11 == len(list(place.glob("*.jsonl.deleted.*.zst")))
    assert before == made.content(place)


HISTORY = {f"agent:main:explicit:h{number}" for number in range(4)}
DISK_BUDGETS = {
    "11_disk_budget_highwater": ({"maxDiskBytes": "1300kb", "highWaterBytes": "1200kb"}, HISTORY),
    "11b_disk_budget_percent_default": ({"maxDiskBytes": 1_500_000}, HISTORY),
    "11d_disk_budget_preserve_recent": (
        {"maxDiskBytes": "1300kb", "highWaterBytes": "1200kb", "preserveRecent": "2h"},
        HISTORY - {"agent:main:explicit:h0"},
    ),
    "12_disk_budget_warn": ({"mode": "warn", "maxDiskBytes": "1300kb", "highWaterBytes": "1200kb"}, set()),
}
"""All four began with one state; keys whose history the real program removes, and then the archives of that history."""


@pytest.mark.parametrize("name", DISK_BUDGETS)
def test_a_disk_budget(scenario: Callable[[str], Any], run_cli: Callable[..., Any], name: str) -> None:
    """The same history goes. Different on purpose: it is archived, and no archive goes in the run that made it."""
    settings, gone = DISK_BUDGETS[name]
    made = scenario("11_disk_budget_highwater")
    made.configure(lambda config: config["session"].update(maintenance=settings))
    before, was = made.content(), made.rows()["main"]
    now = str(made.runs["apply_json"]["now"])
    words = ("sessions", "cleanup", "--state-dir", made.state, "--now", now, "--json")

    foreseen = run_cli(*words, *(() if settings.get("mode") == "warn" else ("--enforce", "--dry-run")))
    (made.state / "openclaw-cli.yaml").write_text("cleanup:\n  apply: true\n")
    done = run_cli(*words)

    # With the history of a recent key to keep the high water cannot be reached.
    assert (3 if len(gone) == 3 else 0) == done.status == foreseen.status
    plan, document = json.loads(foreseen.stdout), json.loads(done.stdout)
    assert plan["decisions"] == document["decisions"]
    assert plan["diskBudget"] == document["diskBudget"]
    removed = [each for each in document["decisions"] if each["reason"] == "disk-budget-history"]
    assert gone == {each["key"] for each in removed}
    now_there = made.rows()["main"]
    assert was["nodes"] == now_there["nodes"]
    assert {each["sessionId"] for each in removed} == was["windows"].keys() - now_there["windows"].keys()
    assert {each["sessionId"] for each in removed} == {row[0] for row in now_there["archives"]}
    assert before == made.content()
    if len(gone) == 4:
        # The real program deletes its four archives for good and is over the budget all the same.
        assert document["diskBudget"]["totalBytesAfter"] < document["diskBudget"]["highWaterBytes"] < 1_503_232


def test_a_budget_with_archives_elsewhere(scenario: Callable[[str], Any], cleanup: Cleanup, tmp_path: Path) -> None:
    """The target is reached then, and one session of history is spared that the real program removes."""
    made = scenario("11_disk_budget_highwater")
    before, place = made.content(), tmp_path / "archives"

    document = cleanup(made, "apply_json", "--archive-dir", str(place), args=["--enforce"])

    assert not document["diskBudget"]["overBudget"]
    assert 3 == document["diskBudget"]["removedEntries"] == len(list(place.iterdir()))
    assert [] == made.rows()["main"]["archives"]
    assert before == made.content(place)


def test_a_session_with_a_trajectory_only(scenario: Callable[[str], Any], cleanup: Cleanup) -> None:
    """Different on purpose: space that the search index gives back spares it, and under a smaller budget it is archived
    before it goes; the real program removes it for good."""
    made = scenario("11e_disk_budget_trajectory_only")
    recorded = made.runs["apply_json"]["rows"]["main"]
    before = made.content()
    (gone,) = made.rows()["main"]["windows"].keys() - recorded["windows"].keys()

    assert 0 == cleanup(made, "apply_json")["diskBudget"]["removedEntries"]
    document = cleanup(made, "apply_json", "--max-disk", "1900kb", "--high-water", "1850kb")

    removed = [each["sessionId"] for each in document["decisions"] if each["reason"] == "disk-budget-history"]
    assert gone == removed[0]
    kept = [path for path in made.state.glob("agents/main/sessions/*.trajectory.deleted.*.zst") if gone in path.name]
    with archive.open_stream(kept[0]) as stream:
        assert all("type" in json.loads(line) for line in stream)
    assert before == made.content()


def test_archives_age_by_their_retention(scenario: Callable[[str], Any], cleanup: Cleanup) -> None:
    """Different on purpose: `resetArchiveRetention` is applied, to files and `.bak` copies; the real program waits for
    its cron reaper. Bare backups of the index stay."""
    made = scenario("13_archives_age_only")
    before = set(made.files())

    document = cleanup(made, "apply_json")

    gone = {path.rsplit("/", 1)[1] for path in before - set(made.files())}
    named = {each["archive"] for each in document["decisions"] if each["action"] == "delete-archive"}
    assert gone == named
    stamped = re.compile(r"\.(?:reset|deleted|bak)\.(20\d\d-\d\d)-")
    old = {path.rsplit("/", 1)[1] for path in before if (found := stamped.search(path)) and found[1] < "2026-11"}
    assert old == gone
    assert all(len(each["sha256"]) == 64 for each in document["decisions"] if each["action"] == "delete-archive")
    assert made.runs["apply_json"]["rows"]["main"]["nodes"] == made.rows()["main"]["nodes"]


def test_cap_archived_rows_go_last(scenario: Callable[[str], Any], cleanup: Cleanup) -> None:
    """The same three rows; different on purpose: each is archived before, and so nothing is lost."""
    made = scenario("15_disk_budget_cap_archived")
    before = made.content()

    document = cleanup(made, "apply_json", status=3)

    recorded, rows = made.runs["apply_json"]["rows"]["main"], made.rows()["main"]
    assert recorded["nodes"] == rows["nodes"]
    assert recorded["windows"] == rows["windows"]
    assert 3 == len(rows["archives"]) == document["diskBudget"]["removedEntries"]
    assert before == made.content()
