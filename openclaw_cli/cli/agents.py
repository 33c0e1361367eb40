"""The group `agents`."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated, Any

import typer

from openclaw_cli.cli import delegation, options, output, ownership
from openclaw_cli.cli.doctor_run import AllowOwner, AssumeStopped
from openclaw_cli.cli.options import Common
from openclaw_cli.config import Config, environment
from openclaw_cli.config.paths import agent_target
from openclaw_cli.errors import Exit, Issue, OpenClawError, UsageError, status_of

if TYPE_CHECKING:
    from openclaw_cli.gateway.client import Gateway
    from openclaw_cli.sessions.agents import Agent, Removal


def register(app: typer.Typer) -> None:
    """Add the group `agents`."""
    members = options.group(app, "agents")
    without = ("store", "agent", "all_agents")
    options.command(
        members,
        "list",
        example="openclaw-cli agents list --json | jq -r '.[] | [.id, .sessions] | @tsv'",
        exits=(Exit.OK, Exit.NOT_FOUND),
        without=(*without, "ndjson", "dry_run", "wait"),
    )(list_agents)
    options.command(
        members,
        "delete",
        example=("openclaw-cli agents delete ops --dry-run", "openclaw-cli agents delete ops --yes --json"),
        exits=(Exit.OK, Exit.ISSUES, Exit.NOT_FOUND, Exit.BUSY, Exit.REFUSED),
        without=(*without, "ndjson"),
        gateway=True,
    )(delete)


def list_agents(common: Common) -> int:
    """List the agents of the configuration, and those that only have a directory, with what there is of each."""
    from openclaw_cli.sessions import agents

    config = common.config()
    ownership.judge_remote(common, config, writes=False)
    found = [(agent, _sessions(common, config, agent)) for agent in agents.every(config, common.state_dir)]
    if common.json:
        output.write_list([{**agent.as_json(), "sessions": count} for agent, count in found])
    else:
        output.write_text([_table(found)])
    return int(Exit.OK)


def _table(found: list[tuple[Agent, int | None]]) -> output.Table:
    rows = (
        (
            agent.agent_id + (" (default)" if agent.is_default else ""),
            agent.name or "",
            "-" if count is None else str(count),
            str(agent.bindings),
            "yes" if agent.configured else "no",
            str(agent.workspace),
        )
        for agent, count in found
    )
    columns = ("Agent", "Name", "Sessions", "Bindings", "Configured", "Workspace")
    return output.Table(columns, rows, right=frozenset({"Sessions", "Bindings"}), wide=frozenset({"Workspace"}))


def _sessions(common: Common, config: Config, agent: Agent) -> int | None:
    """Rows in the agent's store; None where it has none, or none that can be read."""
    from openclaw_cli.storage import connection

    target = agent_target(config, common.state_dir, agent.agent_id, environment())
    if not target.sqlite_path.exists():
        return None
    try:
        with connection.open_read(target.sqlite_path) as store:
            count: int = store.value("SELECT count(*) FROM session_nodes WHERE entry_json <> '{}'")
            return count
    except OpenClawError as error:
        output.note(f"agent {agent.agent_id}: {error.message}", common)
        return None


@dataclass(slots=True)
class _Report:
    dry_run: bool
    removal: Removal | None = None
    answer: dict[str, Any] | None = None
    issues: list[Issue] = field(default_factory=list)

    def status(self) -> Exit:
        return status_of(self.issues)

    def as_json(self) -> dict[str, Any]:
        document = {"issues": [issue.as_json() for issue in self.issues]}
        if self.answer is not None:
            return {**self.answer, "transport": "gateway", **document}
        return {**(self.removal.as_json(dry_run=self.dry_run) if self.removal else {}), **document}

    def text(self) -> Iterator[str]:
        from openclaw_cli.migration.reporting import issue_text

        if self.answer is not None:
            yield f"deleted by the gateway: agent {self.answer.get('agentId')}"
        elif self.removal is not None:
            yield from self._removal_text(self.removal)
        yield from issue_text(self.issues)
        if self.dry_run:
            yield "Dry run: nothing was changed."

    def _removal_text(self, removal: Removal) -> Iterator[str]:
        if self.dry_run:
            for path in removal.moves:
                yield f"would move to the trash: {path}"
            for edit in removal.unlisting.edits:
                yield f"would change {'.'.join(edit.keys)} in openclaw.json"
        for one in removal.removed:
            yield f"{one['method']}: {one['path']}" + (f" -> {one['trash']}" if "trash" in one else "")
        if removal.backup is not None:
            yield f"openclaw.json was edited; as it was: {removal.backup}"
        if removal.agent.workspace not in removal.moves:
            why = (
                f"shared with {', '.join(removal.shared_with)}" if removal.shared_with else "not in the state directory"
            )
            yield f"the workspace {removal.agent.workspace} stays: {why}"


def delete(
    common: Common,
    agent: Annotated[str, typer.Argument(metavar="AGENT", help="Id of the agent, as agents list shows it.")],
    yes: Annotated[bool, typer.Option("--yes", "-y", "--force", help="Do not ask.")] = False,
    assume_stopped: AssumeStopped = False,
    allow_owner: AllowOwner = False,
) -> int:
    """Delete an agent: its directory goes to the trash, its entry and bindings go from openclaw.json.

    Nothing is lost: store, files and a workspace inside the state directory move to openclaw-cli/trash there, whole,
    and can be moved back; openclaw.json keeps a backup beside it. A workspace that others use, or that lies elsewhere,
    stays. The default agent, the only one and main cannot be deleted.
    """
    from openclaw_cli.retention.audit import Audit
    from openclaw_cli.sessions import agents

    config = common.config()
    report = _Report(common.dry_run)
    if common.dry_run:
        ownership.judge_remote(common, config, writes=False)
        report.removal = agents.decide(config, common.state_dir, agent)
        output.emit(report.as_json(), report.text(), common)
        return int(report.status())
    if not yes:
        _confirm(common, agent)

    def act() -> _Report:
        report.removal = agents.decide(config, common.state_dir, agent)
        audit = Audit(common.state_dir, common.now_ms)
        audit.add("agent-removed", None, None, f"agents delete {report.removal.agent.agent_id}")
        audit.flush()
        agents.act(report.removal, config, common.state_dir, common.now_ms)
        for one in report.removal.failed:
            message = f"{one['path']} cannot be moved: {one['reason']}; openclaw.json was not changed"
            report.issues.append(Issue("agent_kept", "error", message))
        return report

    allowed = {"assume_stopped": assume_stopped, "allow_owner": allow_owner}
    targets = tuple(
        agent_target(config, common.state_dir, one.agent_id, environment())
        for one in agents.every(config, common.state_dir)
    )
    delegation.run(common, config, targets, act, lambda gateway: _asked(gateway, common, report, agent), allowed)
    output.emit(report.as_json(), report.text(), common)
    return int(report.status())


def _asked(gateway: Gateway, common: Common, report: _Report, agent: str) -> _Report:
    from openclaw_cli.gateway import delegate

    report.answer = delegate.delete_agent(gateway, agent, common.gateway.timeout_s)
    for one in report.answer.get("failed") or ():
        report.issues.append(Issue("agent_kept", "error", f"the gateway could not remove {one.get('path')}"))
    if report.answer.get("purgeFailed"):
        report.issues.append(Issue("agent_kept", "error", "the gateway could not remove the agent's sessions"))
    return report


def _confirm(common: Common, agent: str) -> None:
    if common.json or not sys.stdin.isatty():
        raise UsageError("deleting needs a confirmation", hint="pass --yes, or --dry-run to see what would go")
    if not typer.confirm(f"Delete agent {agent}? It moves to the trash of the state directory.", err=True):
        raise UsageError("nothing was deleted")
