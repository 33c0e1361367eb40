"""The settings of one run, each with where it came from: environment > our YAML > `openclaw.json` > default."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from openclaw_cli.config.known import KNOWN
from openclaw_cli.config.openclaw_json import Unresolved, read_openclaw
from openclaw_cli.config.own import own_config_path, read_own
from openclaw_cli.config.paths import DEFAULT_AGENT, normalize_agent_id, openclaw_config_path
from openclaw_cli.errors import ConfigError

_ABSENT: Any = object()


@dataclass(frozen=True, slots=True)
class Setting:
    """A value and its origin: `environment NAME`, the path of a file, or `default`."""

    value: Any
    origin: str


@dataclass(frozen=True, slots=True)
class Config:
    """Everything that files and environment say; made by `load`.

    `agents`: the ids of the roster (`main` when there is none). `default_agent`: None when it cannot be told.
    """

    openclaw_path: Path
    own_path: Path | None
    agents: tuple[str, ...]
    default_agent: str | None
    roster_is_explicit: bool
    _openclaw: Mapping[str, Any] = field(repr=False)
    _openclaw_origins: Mapping[str, str] = field(repr=False)
    _own: Mapping[str, Any] = field(repr=False)
    _env: Mapping[str, str] = field(repr=False)

    def get(self, name: str, default: Any = None) -> Setting:
        """The setting with this dotted name; raises `ConfigError` for a value that its key does not allow."""
        known = KNOWN.get(name)
        if known is not None and known.variable is not None and self._env.get(known.variable, "").strip():
            origin = f"environment {known.variable}"
            return Setting(known.checked(self._env[known.variable], origin), origin)
        if name in self._own:
            return Setting(self._own[name], str(self.own_path))
        value = _ABSENT if known is not None and not known.openclaw else _at(self._openclaw, name)
        if value is not _ABSENT and value is not None:
            origin = self._openclaw_origins.get(name, str(self.openclaw_path))
            if isinstance(value, Unresolved):
                raise ConfigError(f"{name} in {origin} needs the variable {value.variable}, which is not set", key=name)
            return Setting(known.checked(value, origin) if known is not None else value, origin)
        return Setting(known.default if default is None and known is not None else default, "default")

    def openclaw(self) -> Mapping[str, Any]:
        """`openclaw.json` with what it includes, as it was read."""
        return self._openclaw

    def openclaw_origin(self, name: str) -> str:
        """The file that a dotted name of `openclaw.json` came from."""
        return self._openclaw_origins.get(name, str(self.openclaw_path))

    @property
    def main_key(self) -> str:
        """The last part of the key of an agent's main session, lower-cased as keys are."""
        return str(self.get("session.mainKey").value or "main").strip().lower() or "main"

    @property
    def remote_gateway(self) -> str | None:
        """What says that the sessions belong to a gateway elsewhere, None when nothing does (design D7)."""
        if self.get("gateway.url").value:
            return "OPENCLAW_GATEWAY_URL is set"  # Without its value: it may hold a token.
        mode = self.get("gateway.mode")
        if isinstance(mode.value, str) and mode.value.strip().lower() == "remote":
            return f"gateway.mode is remote in {mode.origin}"
        return None

    def agent_setting(self, agent_id: str, name: str) -> Any:
        """What the roster says about one agent under `name`, or None."""
        for key, entry in _roster(self._openclaw):
            if key == agent_id and name in entry:
                return entry[name]
        return None


def load(state_dir: Path, explicit_config: str | None, env: Mapping[str, str]) -> Config:
    """Read both files that belong to `state_dir`. Raises `ConfigError` for what cannot be read or is not allowed."""
    openclaw_path = openclaw_config_path(state_dir, env)
    openclaw, origins = read_openclaw(openclaw_path, env)
    own_path = own_config_path(state_dir, explicit_config, env)
    own = read_own(own_path) if own_path is not None else {}
    ids = tuple(dict.fromkeys(key for key, _ in _roster(openclaw)))
    explicit = _has_roster(openclaw)
    agents = ids if explicit else (DEFAULT_AGENT,)
    return Config(
        openclaw_path, own_path, agents, _default_agent(openclaw, agents), explicit, openclaw, origins, own, env
    )


def _at(node: Any, name: str) -> Any:
    for part in name.split("."):
        if not isinstance(node, Mapping) or part not in node:
            return _ABSENT
        node = node[part]
    return node


def _has_roster(openclaw: Mapping[str, Any]) -> bool:
    agents = openclaw.get("agents")
    return isinstance(agents, Mapping) and (
        isinstance(agents.get("entries"), Mapping) or isinstance(agents.get("list"), list)
    )


def _roster(openclaw: Mapping[str, Any]) -> list[tuple[str, Mapping[str, Any]]]:
    """(agent id, entry) of `agents.entries`, which wins over `agents.list` (store format §1.1)."""
    agents = openclaw.get("agents")
    if not isinstance(agents, Mapping):
        return []
    entries, listed = agents.get("entries"), agents.get("list")
    if isinstance(entries, Mapping):
        return [(normalize_agent_id(str(key)), value) for key, value in entries.items() if isinstance(value, Mapping)]
    if isinstance(listed, list):
        return [
            (normalize_agent_id(item["id"]), item)
            for item in listed
            if isinstance(item, Mapping) and isinstance(item.get("id"), str)
        ]
    return []


def _default_agent(openclaw: Mapping[str, Any], agents: tuple[str, ...]) -> str | None:
    """The single entry marked as default (unless ownership is explicit), else the sole agent, else None."""
    section = openclaw.get("agents")
    if isinstance(section, Mapping) and section.get("ownership") != "explicit":
        marked = [key for key, entry in _roster(openclaw) if entry.get("default") is True]
        if len(marked) == 1:
            return marked[0]
    return agents[0] if len(agents) == 1 else None
