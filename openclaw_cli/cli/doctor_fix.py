"""`doctor fix`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import typer

from openclaw_cli.cli import doctor_run as run
from openclaw_cli.cli import options, output, ownership
from openclaw_cli.cli.doctor_run import MODES, AllowOwner, AssumeStopped, GithubIssue, MaxLine, Salvage, SnapshotDir
from openclaw_cli.cli.options import Common

if TYPE_CHECKING:
    from openclaw_cli.migration.reporting import Report


def register(members: typer.Typer) -> None:
    """Add the command to the group."""
    options.command(
        members,
        "fix",
        example=(
            "openclaw-cli doctor fix --all-agents --dry-run",
            "openclaw-cli doctor fix --all-agents --snapshot ./before-fix",
        ),
        exits=MODES,
        without=("ndjson",),
    )(fix)


def fix(
    common: Common,
    max_line: MaxLine = None,
    salvage: Salvage = False,
    assume_stopped: AssumeStopped = False,
    allow_owner: AllowOwner = False,
    github_issue: GithubIssue = False,
    snapshot: SnapshotDir = None,
) -> int:
    """Put a state directory in order: recover, import, rows in OpenClaw's form, retired settings.

    The plan is printed first (on stderr; with --dry-run it is all that happens). Then damaged stores and open runs are
    settled as doctor recover does, old files are imported, and rows whose key or lineage OpenClaw would refuse the
    store for are renamed; where two keys become one, the newer entry stays and the other sessions are its history.

    Keys of openclaw.json that OpenClaw retired are removed or renamed, or moved to openclaw-cli.yaml where this program
    still reads them. Comments and order stay, the file as it was is kept as .bak-<time>; an edit that is not safe is
    printed instead (status 3). A stored event is never changed: transcripts that OpenClaw does not go on with are named
    with the command that writes a successor. Run twice, it changes nothing.
    """
    from openclaw_cli.fixing import configuring, running
    from openclaw_cli.migration import restoring

    config = common.config()
    rules = run.rules_of(config, max_line, salvage=salvage)
    archived = restoring.agents_of_manifests(common.state_dir)
    job = run.job_of(common, config, rules, archived, writes=not common.dry_run)
    settings = configuring.decide(config, common.state_dir)
    allowed = {"assume_stopped": assume_stopped, "allow_owner": allow_owner}
    if common.dry_run:
        plan = running.decide(job, settings)
        return run.preview(running.preview(job, plan), common, job.targets, **allowed)
    taken: dict[str, Any] | None = None

    def act() -> Report:
        nonlocal taken
        plan = running.decide(job, settings)
        for step in plan.steps():
            output.note(f"plan: {step}", common)
        taken = run.snapshot_first(common, config, job.targets, snapshot)
        return running.act(job, plan)

    report = ownership.owned(common, config, job.targets, act, **allowed)
    return run.emit(report, common, dry_run=False, github_issue=github_issue, snapshot=taken)
