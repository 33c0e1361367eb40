"""`sessions archive`, `unarchive`, `pin`, `unpin`, `read`, `unread`, `delete`, `undelete`."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from openclaw_cli.cli import change_delegation, delegation, options, output, ownership, session_keys
from openclaw_cli.cli import doctor_run as run
from openclaw_cli.cli.doctor_run import AllowOwner, AssumeStopped
from openclaw_cli.cli.options import Common
from openclaw_cli.config import Config, Target
from openclaw_cli.errors import Exit, OpenClawError, UsageError

if TYPE_CHECKING:
    from openclaw_cli.sessions.results import Result, Results
    from openclaw_cli.storage.connection import Store

Keys = Annotated[list[str], typer.Argument(metavar="KEY...", help="Keys of sessions, as sessions list shows them.")]
ArchiveDir = Annotated[
    str | None, typer.Option("--archive-dir", metavar="DIR", help="Put archives there, outside of the store.")
]
EXITS = (Exit.OK, Exit.ISSUES, Exit.NOT_FOUND, Exit.BUSY, Exit.REFUSED, Exit.CORRUPT)
_HELP = {
    "archive": (
        "Mark sessions as archived: lists leave them out, their transcripts stay, cleanup lets them be.",
        "Archiving unpins. The main session of an agent cannot be archived.",
    ),
    "unarchive": ("Take archived sessions back into the lists.", "What made them old is unchanged; see pin."),
    "pin": (
        "Pin sessions: lists show them first, and cleanup never takes them.",
        "An archived session or the child of another one cannot be pinned.",
    ),
    "unpin": ("Unpin sessions.", "Cleanup may take them again when they are old."),
    "read": ("Mark sessions as read.", "The time is kept; later activity makes them unread again."),
    "unread": ("Mark sessions as unread, until they are read the next time.", "Nothing else of them changes."),
}


def register(members: typer.Typer) -> None:
    """Add the commands to the group."""
    for verb, (first, second) in _HELP.items():
        options.command(
            members,
            verb,
            example=f"openclaw-cli sessions {verb} agent:main:explicit:report --json",
            exits=EXITS,
            without=("ndjson", "all_agents"),
            gateway=True,
        )(_marking(verb, f"{first}\n\n{second}"))
    options.command(
        members,
        "delete",
        example=(
            "openclaw-cli sessions delete agent:main:explicit:old agent:main:hook:mail --dry-run",
            "openclaw-cli sessions delete agent:main:explicit:old --yes --json",
        ),
        exits=EXITS,
        without=("ndjson", "all_agents"),
        gateway=True,
    )(delete)
    options.command(
        members,
        "undelete",
        example=(
            "openclaw-cli sessions undelete agent:main:explicit:old",
            "openclaw-cli sessions undelete 3f2504e0-4f89-41d3-9a0c-0305e82c3301 --json",
        ),
        exits=EXITS,
        without=("ndjson", "all_agents"),
    )(undelete)


def _marking(verb: str, text: str) -> Callable[..., int]:
    def mark(common: Common, key: Keys, assume_stopped: AssumeStopped = False, allow_owner: AllowOwner = False) -> int:
        from openclaw_cli.sessions import marking

        def act(store: Store, target: Target, named: str, config: Config) -> Result:
            return marking.act(store, verb, named, config.main_key, common.now_ms, dry_run=common.dry_run)

        return _run(common, verb, key, act, assume_stopped=assume_stopped, allow_owner=allow_owner)

    mark.__doc__ = text
    return mark


def delete(
    common: Common,
    key: Keys,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
    force: Annotated[bool, typer.Option("--force", help="Also sessions that claim to run, or are locked.")] = False,
    archive_dir: ArchiveDir = None,
    assume_stopped: AssumeStopped = False,
    allow_owner: AllowOwner = False,
) -> int:
    """Delete sessions with everything that is history of their keys, each archived and verified before.

    The archive holds the transcript and the row: sessions undelete brings both back. Other keys' sessions stay, and so
    does the main session of an agent. Off a terminal, or with --json, --yes is needed.
    """
    from openclaw_cli.retention.audit import Audit
    from openclaw_cli.sessions import deleting

    if not common.dry_run and not yes:
        _confirm(common, key)
    place = None if archive_dir is None else Path(archive_dir).expanduser().absolute()
    audit = Audit(common.state_dir, common.now_ms)

    def act(store: Store, target: Target, named: str, config: Config) -> Result:
        asked = deleting.Asked(
            run.rules_of(config, None), config.main_key, common.now_ms, place, force=force, dry_run=common.dry_run
        )
        return deleting.act(store, target, named, asked, audit)

    return _run(common, "delete", key, act, assume_stopped=assume_stopped, allow_owner=allow_owner)


def undelete(
    common: Common,
    name: Annotated[
        list[str], typer.Argument(metavar="KEY|ID|ARCHIVE...", help="Key, session id, or path of an archive.")
    ],
    archive_dir: Annotated[
        list[str] | None,
        typer.Option("--archive-dir", metavar="DIR", help="Also look there; directories of the audit are known."),
    ] = None,
    assume_stopped: AssumeStopped = False,
    allow_owner: AllowOwner = False,
) -> int:
    """Bring deleted sessions back from their archives: events as they were, trajectory, row, place in the history.

    The archive is verified before anything is written, and stays where it is. A session id that is in the store is
    never touched. Where the key is in use again, what comes back is history of it.
    """
    from openclaw_cli.cli import sessions_undelete

    return sessions_undelete.undelete(
        common, name, archive_dir or [], assume_stopped=assume_stopped, allow_owner=allow_owner
    )


def _confirm(common: Common, keys: list[str]) -> None:
    """Ask on a terminal; elsewhere raise `UsageError`."""
    if common.json or not sys.stdin.isatty():
        raise UsageError("deleting needs a confirmation", hint="pass --yes, or --dry-run to see what would go")
    if not typer.confirm(f"Delete {len(keys)} session(s)? They are archived before.", err=True):
        raise UsageError("nothing was deleted")


def _run(
    common: Common,
    operation: str,
    keys: list[str],
    act: Callable[[Store, Target, str, Config], Result],
    *,
    assume_stopped: bool,
    allow_owner: bool,
) -> int:
    """Act on each key in its store; results in the order of the keys."""
    from openclaw_cli.sessions.results import Results

    config = common.config()
    if common.dry_run:
        ownership.judge_remote(common, config, writes=False)
    report = Results(operation, common.dry_run)
    groups = session_keys.grouped(common, config, keys)
    targets = tuple(target for target, _ in groups)
    allowed = {"assume_stopped": assume_stopped, "allow_owner": allow_owner}

    def work() -> Results:
        found: dict[int, Result] = {}
        for target, named in groups:
            found |= _in_store(common, config, target, named, act)
        report.results = [found[number] for number in sorted(found)]
        return report

    if common.dry_run:
        work()
        report.issues[:0] = ownership.foreseen(common, targets, **allowed)
    else:
        delegation.run(
            common,
            config,
            targets,
            work,
            lambda gateway: change_delegation.run(gateway, common, report, groups, config.main_key),
            allowed,
        )
    output.emit(report.as_json(), report.text(), common)
    return int(report.status())


def _in_store(
    common: Common,
    config: Config,
    target: Target,
    named: list[tuple[int, str]],
    act: Callable[[Store, Target, str, Config], Result],
) -> dict[int, Result]:
    from openclaw_cli.sessions.results import Result, not_found
    from openclaw_cli.storage import connection

    if not target.sqlite_path.exists():
        return {number: not_found(key) for number, key in named}
    found: dict[int, Result] = {}
    opened = (
        connection.open_read(target.sqlite_path, agent_id=target.agent_id)
        if common.dry_run
        else connection.open_write(target.sqlite_path, agent_id=target.agent_id, timeouts=run.timeouts(config))
    )
    with opened as store:
        for number, key in named:
            try:
                found[number] = act(store, target, key, config)
            except OpenClawError as error:
                found[number] = Result(key, "failed", error.message, Exit(error.exit))
    return found
