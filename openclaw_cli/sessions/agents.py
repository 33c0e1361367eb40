"""Agents: what there is of each, and taking one away so that everything of it can be brought back by hand.

Nothing is deleted: the agent's directory, and its workspace where it is nobody else's, move into `openclaw-cli/trash/`
of the state directory, on the same file system in one step each. `openclaw.json` is edited last, with a backup beside
it: a run that is cut is completed by the next one.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from openclaw_cli.config import Config, roster
from openclaw_cli.config.editing import edited, real_path, with_backup
from openclaw_cli.config.json5_spans import NotEditableError
from openclaw_cli.config.openclaw_json import parse_text
from openclaw_cli.config.paths import agents_on_disk, normalize_agent_id
from openclaw_cli.config.roster import Unlisting
from openclaw_cli.durable import fsync_dir, make_dirs
from openclaw_cli.errors import NotFoundError, RefusedError, escaped

TRASH = ("openclaw-cli", "trash")


@dataclass(frozen=True, slots=True)
class Agent:
    """One agent. `configured`: it stands in the roster; `sessions`: number of rows, None without a database."""

    agent_id: str
    name: str | None
    workspace: Path
    agent_dir: Path
    sessions_dir: Path
    bindings: int
    is_default: bool
    configured: bool

    def as_json(self) -> dict[str, Any]:
        """OpenClaw's object, ours behind it."""
        named = {} if self.name is None else {"name": escaped(self.name)}
        return {
            "id": self.agent_id,
            **named,
            "workspace": str(self.workspace),
            "agentDir": str(self.agent_dir),
            "bindings": self.bindings,
            "isDefault": self.is_default,
            "configured": self.configured,
        }


@dataclass(slots=True)
class Removal:
    """What becomes of one agent; OpenClaw's members in `as_json`. `unlisting`: edits of `openclaw.json`, in order."""

    agent: Agent
    shared_with: list[str] = field(default_factory=list)
    moves: list[Path] = field(default_factory=list)
    unlisting: Unlisting = field(default_factory=Unlisting)
    removed: list[dict[str, str]] = field(default_factory=list)
    failed: list[dict[str, str]] = field(default_factory=list)
    backup: Path | None = None

    def as_json(self, *, dry_run: bool) -> dict[str, Any]:
        """The document of `agents delete`."""
        shared = (
            {
                "workspaceRetained": True,
                "workspaceRetainedReason": "shared" if self.shared_with else "outside",
                "workspaceSharedWith": self.shared_with,
            }
            if self.agent.workspace not in self.moves
            else {}
        )
        return {
            "agentId": self.agent.agent_id,
            "workspace": str(self.agent.workspace),
            **shared,
            "agentDir": str(self.agent.agent_dir),
            "sessionsDir": str(self.agent.sessions_dir),
            "removedBindings": self.unlisting.removed_bindings,
            "removedAllow": self.unlisting.removed_allow,
            **({"clearedOwnerRefs": self.unlisting.cleared} if self.unlisting.cleared else {}),
            "moves": [str(path) for path in self.moves],
            "removed": self.removed,
            "failed": self.failed,
            "dryRun": dry_run,
            "configBackup": None if self.backup is None else str(self.backup),
        }


def every(config: Config, state_dir: Path) -> list[Agent]:
    """The agents of the roster in its order, then those that only have a directory."""
    names = list(config.agents)
    names += [name for name in agents_on_disk(state_dir) if name not in names]
    return [_agent(config, state_dir, name) for name in names]


def _agent(config: Config, state_dir: Path, agent_id: str) -> Agent:
    base = state_dir / "agents" / agent_id
    stated = config.agent_setting(agent_id, "workspace")
    default = state_dir / ("workspace" if agent_id == config.default_agent else f"workspace-{agent_id}")
    agent_dir = config.agent_setting(agent_id, "agentDir")
    name = config.agent_setting(agent_id, "name")
    return Agent(
        agent_id,
        name if isinstance(name, str) else None,
        Path(os.path.expanduser(stated)) if isinstance(stated, str) and stated.strip() else default,
        Path(os.path.expanduser(agent_dir)) if isinstance(agent_dir, str) and agent_dir.strip() else base / "agent",
        base / "sessions",
        roster.bindings_of(config.openclaw(), agent_id),
        agent_id == config.default_agent,
        config.roster_is_explicit and agent_id in config.agents,
    )


def decide(config: Config, state_dir: Path, agent_id: str) -> Removal:
    """What a removal would do; nothing is written.

    Raises `NotFoundError` for an agent that is not there, `RefusedError` for one that must stay, or where
    `openclaw.json` cannot be edited.
    """
    agents = every(config, state_dir)
    agent = next((one for one in agents if one.agent_id == normalize_agent_id(agent_id)), None)
    if agent is None:
        raise NotFoundError(f"there is no agent {escaped(agent_id)}", hint="openclaw-cli agents list")
    if agent.agent_id == "main" or agent.is_default or len(agents) == 1:
        why = "owns what the agents share" if agent.agent_id == "main" else "is the default agent or the only one"
        raise RefusedError(f"agent {agent.agent_id} {why} and cannot be deleted", code="agent_needed")
    removal = Removal(agent)
    removal.shared_with = [
        one.agent_id for one in agents if one is not agent and _overlap(one.workspace, agent.workspace)
    ]
    removal.moves = [*_moves(agent, agents, removal.shared_with, state_dir)]
    removal.unlisting = roster.unlisted(config.openclaw(), agent.agent_id, _survivor_workspace(config, agents, agent))
    _require_editable(config, removal)
    return removal


def _moves(agent: Agent, agents: list[Agent], shared_with: list[str], state_dir: Path) -> Iterator[Path]:
    """What goes to the trash: only directories of this state, and none that another agent uses."""
    base = state_dir / "agents" / agent.agent_id
    if base.exists():
        yield base
    others = [place for one in agents if one is not agent for place in (one.agent_dir, one.sessions_dir)]
    apart = not _overlap(base, agent.agent_dir) and not any(_overlap(agent.agent_dir, place) for place in others)
    if apart and agent.agent_dir.exists() and _overlap(agent.agent_dir, state_dir / "agents"):
        yield agent.agent_dir
    is_own = agent.workspace.parent == state_dir and agent.workspace.name.startswith("workspace")
    if is_own and not shared_with and agent.workspace.exists():
        yield agent.workspace


def _overlap(left: Path, right: Path) -> bool:
    """Whether one of two directories is the other, or in it."""
    one, other = os.path.realpath(left) + os.sep, os.path.realpath(right) + os.sep
    return one.startswith(other) or other.startswith(one)


def _survivor_workspace(config: Config, agents: list[Agent], agent: Agent) -> str | None:
    """The workspace of the only agent left: alone it would have another one, unless it is named."""
    left = [one for one in agents if one is not agent and one.configured]
    if len(left) != 1 or left[0].is_default or config.agent_setting(left[0].agent_id, "workspace"):
        return None
    return str(left[0].workspace)


def _require_editable(config: Config, removal: Removal) -> None:
    """Raises `RefusedError` when the edits cannot be made in the file itself."""
    edits = removal.unlisting.edits
    if not edits:
        return
    path = real_path(config.openclaw_path)
    data = path.read_bytes()
    try:
        for name in roster.same_here(parse_text(data, path), config.openclaw(), edits):
            raise NotEditableError(f"{name} stands in an included file, or names a variable")
        edited(data, edits, path)
    except NotEditableError as error:
        raise RefusedError(
            f"{path} cannot be edited safely: {error}; nothing was changed",
            hint=f"take agent {removal.agent.agent_id} out by hand, wherever it is named, then run this again",
            code="config_edit_by_hand",
        ) from error


def act(removal: Removal, config: Config, state_dir: Path, now_ms: int) -> None:
    """Move, then edit. What cannot be moved is in `failed`, and the configuration stays as it is then."""
    trash = state_dir.joinpath(*TRASH, f"{removal.agent.agent_id}-{now_ms}")
    for path in removal.moves:
        _move(path, trash, removal)
    for path in (removal.agent.agent_dir, removal.agent.sessions_dir):
        if not any(path == moved or moved in path.parents for moved in removal.moves):
            removal.removed.append({"path": str(path), "method": "missing"})
    if removal.failed or not removal.unlisting.edits:
        return
    path = real_path(config.openclaw_path)
    data = path.read_bytes()
    removal.backup = with_backup(path, data, edited(data, removal.unlisting.edits, path), now_ms)


def _move(path: Path, trash: Path, removal: Removal) -> None:
    place = trash / path.name
    try:
        make_dirs(trash)
        os.rename(path, place)
        fsync_dir(trash)
        fsync_dir(path.parent)
    except OSError as error:
        removal.failed.append({"path": str(path), "reason": error.strerror or str(error)})
        return
    removal.removed.append({"path": str(path), "method": "trash", "trash": str(place)})
