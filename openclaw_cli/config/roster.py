"""Where `openclaw.json` names an agent, and the edits that take one out of all of it. Pure.

A reference that stays behind makes OpenClaw refuse the whole file (agents.entries is the list of known ids).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from openclaw_cli.config.editing import Edit, Insert, Remove, Replace
from openclaw_cli.config.paths import normalize_agent_id

Path = tuple[str, ...]

_LISTS: tuple[Path, ...] = (
    ("agents", "defaults", "subagents", "allowAgents"),
    ("hooks", "allowedAgentIds"),
    ("tools", "agentToAgent", "allow"),
)
"""Lists of agent ids."""
_OWNERS: tuple[Path, ...] = (("agents", "defaults", "systemAgent"), ("talk",))
"""Objects whose `agentId` names who does that."""
_HEARTBEAT: Path = ("agents", "defaults", "heartbeat")
_OF_AGENTS: tuple[Path, ...] = (("bindings",), ("hooks", "mappings"))
"""Lists of objects that belong to the agent in their `agentId`."""


@dataclass(slots=True)
class Unlisting:
    """The edits, and what they take away: counts and places as OpenClaw reports them."""

    edits: list[Edit] = field(default_factory=list)
    removed_bindings: int = 0
    removed_allow: int = 0
    cleared: list[str] = field(default_factory=list)


def unlisted(document: Mapping[str, Any], agent_id: str, survivor_workspace: str | None = None) -> Unlisting:
    """How to take an agent out of a configuration.

    `survivor_workspace`: of the only agent that is left, where it has another one by default as soon as it is alone.
    """
    made = Unlisting()
    others = _roster(document, agent_id, survivor_workspace, made)
    for path in _OF_AGENTS:
        gone = _filter(document, path, lambda one: not _is_of(one, agent_id), made)
        made.removed_bindings += gone if path == ("bindings",) else 0
    for path in _LISTS:
        gone = _filter(document, path, lambda one: not _is(one, agent_id), made)
        made.removed_allow += gone if path[0] == "tools" else 0
    _broadcasts(document, agent_id, made)
    for path in _OWNERS:
        if _is_of(_at(document, path), agent_id):
            made.edits.append(Remove((*path, "agentId")))
            made.cleared.append(".".join((*path, "agentId")))
    if _is_of(_at(document, _HEARTBEAT), agent_id):
        # With several agents left a heartbeat without an owner would be that of nobody.
        path = _HEARTBEAT if others > 1 else (*_HEARTBEAT, "agentId")
        made.edits.append(Remove(path))
        made.cleared.append(".".join(path))
    return made


def bindings_of(document: Mapping[str, Any], agent_id: str) -> int:
    """Number of routes to an agent."""
    bindings = document.get("bindings")
    return sum(_is_of(one, agent_id) for one in bindings) if isinstance(bindings, list) else 0


def _roster(document: Mapping[str, Any], agent_id: str, survivor_workspace: str | None, made: Unlisting) -> int:
    """Take the entry out, and the agent out of what other entries allow; gives the number of agents that are left."""
    entries, listed = _at(document, ("agents", "entries")), _at(document, ("agents", "list"))
    if isinstance(entries, Mapping):
        kept = [key for key in entries if not _is(key, agent_id)]
        made.edits.extend(Remove(("agents", "entries", key)) for key in entries if _is(key, agent_id))
        for key in kept:
            path = ("agents", "entries", key, "subagents", "allowAgents")
            _filter(document, path, lambda one: not _is(one, agent_id), made)
        if survivor_workspace is not None and len(kept) == 1:
            made.edits.append(Insert(("agents", "entries", kept[0], "workspace"), survivor_workspace))
        return len(kept)
    if not isinstance(listed, list):
        return 0
    kept_list = [_without_allowed(one, agent_id) for one in listed if not _is(_id(one), agent_id)]
    if survivor_workspace is not None and len(kept_list) == 1:
        kept_list = [{**kept_list[0], "workspace": survivor_workspace}]
    if kept_list != listed:
        made.edits.append(Replace(("agents", "list"), kept_list))
    return len(kept_list)


def _without_allowed(entry: Any, agent_id: str) -> Any:
    allowed = _at(entry, ("subagents", "allowAgents"))
    if not isinstance(allowed, list) or not any(_is(one, agent_id) for one in allowed):
        return entry
    left = [one for one in allowed if not _is(one, agent_id)]
    return {**entry, "subagents": {**entry["subagents"], "allowAgents": left}}


def _broadcasts(document: Mapping[str, Any], agent_id: str, made: Unlisting) -> None:
    broadcast = document.get("broadcast")
    for peer in broadcast if isinstance(broadcast, Mapping) else ():
        for path in (("broadcast", peer), ("broadcast", peer, "agents")):
            _filter(document, path, lambda one: not _is(one, agent_id), made)


def _filter(document: Mapping[str, Any], path: Path, keeps: Callable[[Any], bool], made: Unlisting) -> int:
    """Take members out of the list at a place; gives how many."""
    found = _at(document, path)
    if not isinstance(found, list):
        return 0
    left = [one for one in found if keeps(one)]
    if len(left) < len(found):
        made.edits.append(Replace(path, left))
    return len(found) - len(left)


def _is_of(value: Any, agent_id: str) -> bool:
    return isinstance(value, Mapping) and _is(value.get("agentId"), agent_id)


def _id(entry: Any) -> Any:
    return entry.get("id") if isinstance(entry, Mapping) else None


def _is(value: Any, agent_id: str) -> bool:
    return isinstance(value, str) and bool(value.strip()) and normalize_agent_id(value) == agent_id


def _at(document: Any, path: Path) -> Any:
    for name in path:
        document = document.get(name) if isinstance(document, Mapping) else None
    return document


def same_here(written: Any, read: Any, edits: list[Edit]) -> Iterator[str]:
    """Names of edited places that are in the file itself another thing than in what was read: an included file has
    them, or a variable stands in them, and an edit would change their meaning."""
    for edit in edits:
        path = edit.keys[:-1] if isinstance(edit, Insert) else edit.keys
        if _at(written, path) != _at(read, path):
            yield ".".join(path)
