"""What the commands of the group `doctor` share: options, targets, one run with a bar, its report."""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING, Annotated, Any

import typer

from openclaw_cli.cli import output, ownership
from openclaw_cli.cli.options import Common
from openclaw_cli.config import Config, Target, environment
from openclaw_cli.config.values import parse_size_bytes
from openclaw_cli.errors import OpenClawError, UsageError

if TYPE_CHECKING:
    from openclaw_cli.migration.job import Job
    from openclaw_cli.migration.reporting import Report
    from openclaw_cli.storage.connection import Timeouts

MaxLine = Annotated[
    str | None,
    typer.Option(
        "--max-line",
        metavar="SIZE",
        help="Longest line to read; a longer one ends its session. Default: import.maxLine, which is 256mb.",
    ),
]
SkipEmpty = Annotated[bool, typer.Option("--skip-empty", help="Leave out rows that have no transcript.")]
PreferIndex = Annotated[
    bool, typer.Option("--prefer-index", help="Let a row of the index replace a newer one of the store.")
]
RebuildIndex = Annotated[
    bool,
    typer.Option(
        "--rebuild-index",
        help="Where sessions.json is empty or torn, take the sessions from the headers of their transcripts, as"
        " agent:<id>:recovered:<session id>; the broken index goes to the archive. A missing index needs no flag.",
    ),
]
Salvage = Annotated[
    bool,
    typer.Option(
        "--salvage",
        help="Read on behind damage: every whole record comes in, also from torn, spliced and NUL-ridden lines; each"
        " lost range is named by line, byte and length, and gives status 3.",
    ),
]
AssumeStopped = Annotated[
    bool, typer.Option("--assume-stopped", help="No gateway runs anywhere, whatever lock files say.")
]
AllowOwner = Annotated[
    bool, typer.Option("--allow-owner", help="Write although the state directory belongs to another user.")
]
GithubIssue = Annotated[
    bool,
    typer.Option(
        "--github-issue",
        help="When there are errors, write a report for strangers beside the manifest: counts, codes, shapes of damaged"
        " lines, pseudonyms; no text, key or path. The command that would file it is printed; nothing is sent.",
    ),
]
SnapshotDir = Annotated[
    str | None,
    typer.Option(
        "--snapshot",
        metavar="DIR",
        help="First copy databases and files to DIR, as doctor snapshot does; if that is not whole, nothing is done.",
    ),
]
MODES = (0, 3, 10, 11, 12, 13)


def rules_of(
    config: Config,
    max_line: str | None,
    skip_empty: bool = False,
    prefer_index: bool = False,
    rebuild_index: bool = False,
    keep_index: bool = False,
    salvage: bool = False,
) -> Any:
    """What the options and settings say about one import."""
    from openclaw_cli.migration.plan import Rules

    return Rules(
        main_key=config.main_key,
        agents=config.agents if config.roster_is_explicit else None,
        scope=str(config.get("session.scope", None).value or "per-sender"),
        max_line_bytes=max_line_bytes(config, max_line),
        skip_empty=skip_empty,
        prefer_index=prefer_index,
        keep_index=keep_index,
        rebuild_index=rebuild_index,
        salvage=salvage,
    )


def max_line_bytes(config: Config, text: str | None) -> int:
    """The flag, else the setting. Raises `UsageError` for nothing."""
    limit = config.get("import.maxLine").value if text is None else parse_size_bytes(text)
    if limit <= 0:
        raise UsageError("--max-line must be more than nothing")
    return int(limit)


def timeouts(config: Config) -> Timeouts:
    """The limits of a writer, which only the environment changes."""
    from openclaw_cli.storage.connection import Timeouts

    names = ("locks.acquireTimeout", "locks.stale", "locks.maxHold")
    return Timeouts(*(int(config.get(name).value) for name in names))


def targets_of(
    common: Common,
    config: Config,
    archived: Collection[str] | None = None,
    *,
    rebuild: bool = False,
    writes: bool = False,
) -> tuple[Target, ...]:
    """The stores of the run. A named file that is no index is refused here, before a lock makes files beside it."""
    from openclaw_cli.migration import recognition

    ownership.judge_remote(common, config, writes=writes)
    targets = common.targets(config, archived=archived)
    if common.store:
        for target in targets:
            recognition.require_index(target, rebuild=rebuild)
    return targets


def job_of(
    common: Common, config: Config, rules: Any, archived: Collection[str] | None = None, *, writes: bool = False
) -> Job:
    """The run as the migration takes it."""
    from openclaw_cli.config.paths import agent_target
    from openclaw_cli.migration.job import Job

    targets = targets_of(common, config, archived, rebuild=rules.rebuild_index, writes=writes)

    def target_of(agent_id: str) -> Target:
        known = next((target for target in targets if target.agent_id == agent_id), None)
        return known or agent_target(config, common.state_dir, agent_id, environment())

    return Job(common.state_dir, targets, rules, common.now_ms, target_of, timeouts=timeouts(config))


def with_progress(common: Common, job: Job, word: str, act: Any, more_bytes: int = 0) -> Report:
    """Plan, then act with a bar by bytes of the transcripts, labelled with the `word` of the command."""
    from dataclasses import replace

    from openclaw_cli.migration.job import plan_all

    plans = plan_all(job)
    total = sum(plan.source_bytes for plan in plans) + more_bytes
    with output.Progress(total, word, common) as bar:
        return act(replace(job, on_bytes=bar.advance), plans)


def snapshot_first(
    common: Common, config: Config, targets: tuple[Target, ...], place: str | None
) -> dict[str, Any] | None:
    """Take the snapshot that `--snapshot` asks for; gives what the report says of it. Call it under the lock.

    Raises `RefusedError` when the snapshot is not whole: what was to be done after it must not begin.
    """
    if place is None:
        return None
    from pathlib import Path

    from openclaw_cli.migration import snapshot

    directory = Path(place).expanduser()
    made = snapshot.prepare(common.state_dir, directory, targets=targets, config_path=config.openclaw_path)
    with output.Progress(made.plan.total_bytes, "snapshot", common) as bar:
        made = snapshot.copy(made, common.now_ms, bar.advance)
    snapshot.require_complete(made)
    return {"directory": str(made.directory), **made.counts()}


def preview(report: Report, common: Common, targets: tuple[Target, ...], **allowed: bool) -> int:
    """Print a preview, with what the run itself would meet of locks."""
    report.issues[:0] = ownership.foreseen(common, targets, **allowed)
    return emit(report, common, dry_run=True)


def emit(
    report: Report,
    common: Common,
    *,
    dry_run: bool,
    github_issue: bool = False,
    snapshot: dict[str, Any] | None = None,
) -> int:
    """Print a report; its status is the command's.

    `github_issue`: write one for strangers first. `snapshot`: what `snapshot_first` gave.
    """
    document, lines = report.as_json(dry_run=dry_run), list(report.text(dry_run=dry_run))
    if snapshot is not None:
        document["snapshot"] = snapshot
        lines.append(f"snapshot: {snapshot['directory']}, {snapshot['bytes']} bytes")
    if github_issue:
        document["supportIssue"], more = _file(report, common)
        lines += more
    output.emit(document, lines, common)
    return int(report.status())


def _file(report: Report, common: Common) -> tuple[dict[str, Any] | None, list[str]]:
    """Write the report for strangers: what `--json` says of it, and what people read.

    Where it cannot be written, what the run did must be told all the same; its errors already give the status.
    """
    from openclaw_cli.migration import filing

    try:
        filed = filing.write(report, common.state_dir, common.now_ms)
    except OpenClawError as error:
        return {"error": error.as_json()["error"]}, [f"report not written: {error}"]
    if filed is None:
        return None, ["No error was found, so no report was written."]
    return filed.as_json(), [f"report: {filed.markdown}", f"to file it: {filed.command}"]
