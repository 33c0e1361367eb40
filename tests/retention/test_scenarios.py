"""`sessions cleanup` beside the real program's recorded runs: same rows, windows, transcripts and archives.

What is different on purpose stands beside its scenario.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import archived_states as states
import pytest

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
