"""`sessions fork`."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated, Any

import typer

from openclaw_cli.cli import doctor_run as run
from openclaw_cli.cli import options, output, ownership, session_keys
from openclaw_cli.cli.doctor_run import AllowOwner, AssumeStopped
from openclaw_cli.cli.options import Common
from openclaw_cli.config import Config, Target
from openclaw_cli.errors import Exit, Issue, UsageError, status_of

if TYPE_CHECKING:
    from openclaw_cli.sessions.forking import RepairPlan, Successor


def register(members: typer.Typer) -> None:
    """Add the command to the group."""
    options.command(
        members,
        "fork",
        example=(
            "openclaw-cli sessions fork agent:main:main --repair --dry-run",
            "openclaw-cli sessions fork agent:main:main --repair",
        ),
        exits=(Exit.OK, Exit.NOT_FOUND, Exit.BUSY, Exit.REFUSED, Exit.CORRUPT),
        without=("ndjson", "all_agents"),
    )(fork)


def fork(
    common: Common,
    key: Annotated[str, typer.Argument(metavar="KEY", help="Key of the session, as sessions list shows it.")],
    repair: Annotated[
        bool, typer.Option("--repair", help="Write a corrected successor of a transcript that OpenClaw refuses.")
    ] = False,
    assume_stopped: AssumeStopped = False,
    allow_owner: AllowOwner = False,
) -> int:
    """Give a key a corrected successor of its stored transcript: new session id, header 4, a parent for every entry.

    A stored event is never changed: the old session stays as history of the key, and the key goes on with the
    successor. Headers that are missing or of version 1 or 2 are written anew, entries are brought into the present
    form, and entries whose parent is not there get the one that readers go on from. Ids of entries stay. A session
    with which nothing is wrong is left alone. Where texts have marks of hidden context the header is of version 3,
    since under version 4 the model would see them.
    """
    if not repair:
        raise UsageError(
            "say what for: --repair writes a corrected successor", hint="openclaw-cli sessions fork --help"
        )
    config = common.config()
    ownership.judge_remote(common, config, writes=not common.dry_run)
    target, named = session_keys.named(common, config, key)
    report = _Report(target, named, common.dry_run)
    allowed = {"assume_stopped": assume_stopped, "allow_owner": allow_owner}
    if common.dry_run:
        _preview(report, common)
        report.issues[:0] = ownership.foreseen(common, (target,), **allowed)
    else:
        ownership.owned(common, config, (target,), lambda: _act(report, common, config), **allowed)
    output.emit(report.as_json(), report.text(), common)
    return int(report.status())


@dataclass(slots=True)
class _Report:
    target: Target
    key: str
    dry_run: bool
    plan: RepairPlan | None = None
    successor: Successor | None = None
    issues: list[Issue] = field(default_factory=list)

    def status(self) -> Exit:
        return status_of(self.issues)

    def as_json(self) -> dict[str, Any]:
        plan, made = self.plan, self.successor
        return {
            "agentId": self.target.agent_id,
            "sessionKey": self.key,
            "sessionId": None if plan is None else plan.session_id,
            "dryRun": self.dry_run,
            "repaired": made is not None,
            "reason": "sound" if plan is not None and not plan.needs else None,
            "needs": [] if plan is None else [{"code": need.code, "count": need.count} for need in plan.needs],
            "successorSessionId": None if made is None else made.session_id,
            "headerVersion": None if plan is None or not plan.needs else plan.header["version"],
            "events": None if made is None else made.events,
            "parentsMended": None if made is None else made.mended,
            "issues": [issue.as_json() for issue in self.issues],
        }

    def text(self) -> Iterator[str]:
        plan, made = self.plan, self.successor
        for issue in self.issues:
            yield f"{issue.severity} {issue.code}: {issue.message}"
        if plan is None:
            return
        for need in plan.needs:
            yield f"session {plan.session_id}: {need.text}"
        if not plan.needs:
            yield f"Nothing to do: nothing is wrong with session {plan.session_id} of {self.key}."
        elif made is not None:
            yield (
                f"{self.key} goes on with session {made.session_id}: {made.events} event(s), header"
                f" {plan.header['version']}, {made.mended} parent(s) mended"
            )
            yield f"session {plan.session_id} is kept as it was, as history of the key"
        else:
            yield (
                f"would write a successor: {plan.events} event(s), header {plan.header['version']}, {plan.mended}"
                " parent(s) to mend"
            )
        if self.dry_run:
            yield "Dry run: nothing was changed."


def _preview(report: _Report, common: Common) -> None:
    from openclaw_cli.sessions import forking
    from openclaw_cli.storage import connection

    with connection.open_read(report.target.sqlite_path, agent_id=report.target.agent_id) as store:
        report.plan = forking.decide(store, report.key, common.now_ms)


def _act(report: _Report, common: Common, config: Config) -> _Report:
    from openclaw_cli.sessions import forking
    from openclaw_cli.storage import connection

    path, agent_id = report.target.sqlite_path, report.target.agent_id
    with connection.open_write(path, agent_id=agent_id, timeouts=run.timeouts(config)) as store:
        report.plan = forking.decide(store, report.key, common.now_ms)
        if report.plan.needs:
            report.successor = forking.act(store, report.plan, common.now_ms)
    return report
