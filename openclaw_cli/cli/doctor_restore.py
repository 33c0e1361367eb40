"""`doctor restore`."""

from __future__ import annotations

import typer

from openclaw_cli.cli import doctor_run as run
from openclaw_cli.cli import options, output, ownership
from openclaw_cli.cli.doctor_run import MODES, AllowOwner, AssumeStopped, GithubIssue
from openclaw_cli.cli.options import Common


def register(members: typer.Typer) -> None:
    """Add the command to the group."""
    options.command(
        members,
        "restore",
        example="openclaw-cli doctor restore --all-agents --dry-run",
        exits=MODES,
        without=("ndjson",),
    )(restore)


def restore(
    common: Common,
    assume_stopped: AssumeStopped = False,
    allow_owner: AllowOwner = False,
    github_issue: GithubIssue = False,
) -> int:
    """Move archived originals back to where they were before the import, for a downgrade to an older OpenClaw.

    Every manifest of the state directory is read, those of the real program too. A file moves only where its original
    is missing, and only when its SHA-256 is the recorded one. Different archives of one file are a conflict: none of
    them moves, the other files do. The database stays; the last line names the sessions that only it holds.
    """
    from openclaw_cli.migration import restoring

    config = common.config()
    targets = run.targets_of(common, config, restoring.agents_of_manifests(common.state_dir), writes=not common.dry_run)

    def planned() -> restoring.RestorePlan:
        total = restoring.archived_bytes(targets)
        with output.Progress(total, "restore", common) as bar:
            return restoring.plan(common.state_dir, targets, on_bytes=bar.advance)

    if common.dry_run:
        allowed = {"assume_stopped": assume_stopped, "allow_owner": allow_owner}
        return run.preview(restoring.preview(planned()), common, targets, **allowed)
    report = ownership.owned(
        common,
        config,
        targets,
        lambda: restoring.act(planned(), common.now_ms),
        assume_stopped=assume_stopped,
        allow_owner=allow_owner,
    )
    return run.emit(report, common, dry_run=False, github_issue=github_issue)
