"""Agents: what there is of each, and taking one away so that everything of it can be brought back by hand.

Nothing is deleted: the agent's directory, and its workspace where it is nobody else's, move into `openclaw-cli/trash/`
of the state directory, on the same file system in one step each. `openclaw.json` is edited last, with a backup beside
it: a run that is cut is completed by the next one.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from openclaw_cli.config import Config
from openclaw_cli.config.editing import Edit, Remove, Replace, edited, real_path
from openclaw_cli.config.json5_spans import NotEditableError
from openclaw_cli.config.openclaw_json import parse_text
from openclaw_cli.config.paths import agents_on_disk, normalize_agent_id
from openclaw_cli.durable import fsync_dir, make_dirs, replace_file
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
    """What becomes of one agent; OpenClaw's members in `as_json`. `edits`: of `openclaw.json`, in order."""

    agent: Agent
    shared_with: list[str] = field(default_factory=list)
    moves: list[Path] = field(default_factory=list)
    edits: list[Edit] = field(default_factory=list)
    removed_bindings: int = 0
    removed_allow: int = 0
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
            "removedBindings": self.removed_bindings,
            "removedAllow": self.removed_allow,
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
        len(_bindings(config, agent_id)),
        agent_id == config.default_agent,
        config.roster_is_explicit and agent_id in config.agents,
    )


def _bindings(config: Config, agent_id: str) -> list[Mapping[str, Any]]:
    bindings = config.openclaw().get("bindings")
    return [one for one in bindings if _is_of(one, agent_id)] if isinstance(bindings, list) else []


def _is_of(binding: Any, agent_id: str) -> bool:
    stated = binding.get("agentId") if isinstance(binding, Mapping) else None
    return isinstance(stated, str) and normalize_agent_id(stated) == agent_id


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
    base = state_dir / "agents" / agent.agent_id
    removal.moves = [path for path in (base, agent.agent_dir) if path.exists() and not _inside(path, base)]
    if not removal.shared_with and _inside(agent.workspace, state_dir) and agent.workspace.exists():
        removal.moves.append(agent.workspace)
    removal.edits = [*_edits(config, agent.agent_id, removal)]
    _require_editable(config, removal)
    return removal


def _inside(path: Path, place: Path) -> bool:
    """Whether a path lies below a place; the place itself does not."""
    return os.path.realpath(path).startswith(os.path.realpath(place) + os.sep)


def _overlap(left: Path, right: Path) -> bool:
    """Whether one of two directories is the other, or in it."""
    one, other = os.path.realpath(left) + os.sep, os.path.realpath(right) + os.sep
    return one.startswith(other) or other.startswith(one)


def _edits(config: Config, agent_id: str, removal: Removal) -> Iterator[Edit]:
    document = config.openclaw()
    agents = document.get("agents")
    agents = agents if isinstance(agents, Mapping) else {}
    entries, listed = agents.get("entries"), agents.get("list")
    if isinstance(entries, Mapping):
        for key in entries:
            if normalize_agent_id(str(key)) == agent_id:
                yield Remove(("agents", "entries", key))
    elif isinstance(listed, list):
        kept = [
            one
            for one in listed
            if not (isinstance(one, Mapping) and normalize_agent_id(str(one.get("id") or "")) == agent_id)
        ]
        if len(kept) < len(listed):
            yield Replace(("agents", "list"), kept)
    bindings = document.get("bindings")
    if isinstance(bindings, list) and (left := [one for one in bindings if not _is_of(one, agent_id)]) != bindings:
        removal.removed_bindings = len(bindings) - len(left)
        yield Replace(("bindings",), left)
    allowed = _at(document, "tools", "agentToAgent", "allow")
    if isinstance(allowed, list) and agent_id in allowed:
        left = [one for one in allowed if one != agent_id]
        removal.removed_allow = len(allowed) - len(left)
        yield Replace(("tools", "agentToAgent", "allow"), left)


def _at(document: Mapping[str, Any], *names: str) -> Any:
    value: Any = document
    for name in names:
        value = value.get(name) if isinstance(value, Mapping) else None
    return value


def _require_editable(config: Config, removal: Removal) -> None:
    """Raises `RefusedError` when the edits cannot be made in the file itself."""
    if not removal.edits:
        return
    path = real_path(config.openclaw_path)
    data = path.read_bytes()
    try:
        # An edit of what an included file has, or of a text with a variable in it, would change its meaning.
        written = parse_text(data, path)
        for edit in removal.edits:
            _same(written, config.openclaw(), edit.keys)
        edited(data, removal.edits, path)
    except NotEditableError as error:
        raise RefusedError(
            f"{path} cannot be edited safely: {error}; nothing was changed",
            hint=f"take agent {removal.agent.agent_id} and its bindings out by hand, then run this again",
            code="config_edit_by_hand",
        ) from error


def _same(written: Any, read: Any, keys: tuple[str, ...]) -> None:
    for key in keys[:-1]:
        written = written.get(key) if isinstance(written, Mapping) else None
        read = read.get(key) if isinstance(read, Mapping) else None
    name = keys[-1]
    if not isinstance(written, Mapping) or not isinstance(read, Mapping) or written.get(name) != read.get(name):
        raise NotEditableError(f"{'.'.join(keys)} stands in an included file, or names a variable")


def act(removal: Removal, config: Config, state_dir: Path, now_ms: int) -> None:
    """Move, then edit. What cannot be moved is in `failed`, and the configuration stays as it is then."""
    trash = state_dir.joinpath(*TRASH, f"{removal.agent.agent_id}-{now_ms}")
    for path in removal.moves:
        _move(path, trash, removal)
    for path in (removal.agent.agent_dir, removal.agent.sessions_dir):
        if not any(path == moved or moved in path.parents for moved in removal.moves):
            removal.removed.append({"path": str(path), "method": "missing"})
    if removal.failed or not removal.edits:
        return
    path = real_path(config.openclaw_path)
    data = path.read_bytes()
    mode = path.stat().st_mode & 0o777
    removal.backup = path.with_name(f"{path.name}.bak-{now_ms}")
    replace_file(removal.backup, data, mode=mode)
    replace_file(path, edited(data, removal.edits, path), mode=mode)


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
