"""Closing earlier runs that failed or were cut, ours and the real program's, once what they left has been mended."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path

from openclaw_cli import manifest
from openclaw_cli.config.values import iso_utc
from openclaw_cli.faults import Step, reached
from openclaw_cli.manifest import Manifest, ManifestInvalidError, Run

# Issues with which the real program leaves a run alone (store format §6).
_HARMLESS = frozenset(
    (
        "active_sqlite_transcript_jsonl",
        "entry_invalid",
        "historical_transcript_deferred",
        "historical_duplicate_settled",
        "legacy_index_informational",
        "plugin_migration_source_retained",
        "retained_plugin_source_index_rebuilt",
        "transcript_archive_failed",
        "transcript_malformed",
        "transcript_missing",
        "unreferenced_jsonl_archive_failed",
    )
)


def is_open(document: Manifest) -> bool:
    """Whether the real program would take a run for a failed one (store format §6, "recover")."""
    blocking = any(issue["code"] not in _HARMLESS for target in document.targets for issue in target.issues)
    unfinished = document.completed_at is None or document.failed_at is not None
    return unfinished or document.failure_reports is not None or blocking


def open_runs(state_dir: Path) -> list[Run]:
    """The runs of a state directory that are open, oldest first."""
    found = (run for run in manifest.runs(state_dir) if not isinstance(run, ManifestInvalidError))
    return [run for run in found if is_open(run.manifest)]


def settle(state_dir: Path, sound_agents: Collection[str], now_ms: int) -> list[Run]:
    """Close the open runs whose agents are all sound now; gives them.

    What a manifest said of the failure is kept in it, under `settled`: the moves are what matters for a restore, and
    they stay as they are.
    """
    closed = []
    for run in open_runs(state_dir):
        if all(target.agent_id in sound_agents for target in run.manifest.targets):
            _close(run, now_ms)
            closed.append(run)
            reached(Step.RECOVER_SETTLED)
    return closed


def _close(run: Run, now_ms: int) -> None:
    document = run.manifest
    said = {
        "settledAt": iso_utc(now_ms),
        "failedAt": document.failed_at,
        "failureReports": document.failure_reports,
        "issues": [issue for target in document.targets for issue in target.issues],
    }
    document.extra["settled"] = {name: value for name, value in said.items() if value}
    document.failed_at = document.failure_reports = None
    document.completed_at = document.completed_at or said["settledAt"]
    for target in document.targets:
        target.issues = [issue for issue in target.issues if issue["code"] in _HARMLESS]
    run.save()
