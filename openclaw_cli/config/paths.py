"""Directories, agent ids and store paths, by OpenClaw's own rules (store format §1, §1.1)."""

from __future__ import annotations

import os
import pwd
import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from openclaw_cli.errors import NotFoundError, RefusedError, UsageError

if TYPE_CHECKING:
    from openclaw_cli.config.settings import Config

DATABASE_NAME = "openclaw-agent.sqlite"
INDEX_NAME = "sessions.json"
ARCHIVE_DIR_NAME = "session-sqlite-import-archive"
DEFAULT_AGENT = "main"

_PLAIN_AGENT_ID = re.compile(r"[a-z0-9][a-z0-9_-]{0,63}", re.IGNORECASE)
_FOREIGN_TO_AGENT_ID = re.compile(r"[^a-z0-9_-]+")


@dataclass(frozen=True, slots=True)
class Target:
    """One agent's store: `store_path` is the file-era index, `sqlite_path` the database that stands for it."""

    agent_id: str
    store_path: Path
    sqlite_path: Path
    sessions_dir: Path
    archive_dir: Path

    def exists(self) -> bool:
        """Whether anything of this store is on disk: the database, the old index, or the sessions directory."""
        return self.sqlite_path.exists() or self.store_path.exists() or self.sessions_dir.is_dir()


def normalize_agent_id(text: str) -> str:
    """The canonical form of an agent id; what has no usable character becomes `main` (store format §1.1)."""
    trimmed = text.strip()
    if _PLAIN_AGENT_ID.fullmatch(trimmed):
        return trimmed.lower()
    cleaned = _FOREIGN_TO_AGENT_ID.sub("-", trimmed.lower()).strip("-")[:64]
    return cleaned or DEFAULT_AGENT


def home_dir(env: Mapping[str, str]) -> Path:
    """`OPENCLAW_HOME` (which may itself start with `~`), else the home of the operating system.

    Raises `RefusedError` when neither the environment nor the user database knows one: the current directory is none.
    """
    home = known_home(env)
    if home is None:
        raise RefusedError(
            "HOME is not set, and the user database names no home", hint="set HOME, or name --state-dir", code="no_home"
        )
    return home


def known_home(env: Mapping[str, str]) -> Path | None:
    """The same, None where there is no home."""
    own = env.get("OPENCLAW_HOME", "").strip()
    if own and own != "~" and not own.startswith("~/"):
        return Path(os.path.abspath(own))
    stated = (env.get("HOME") or env.get("USERPROFILE") or "").strip()
    system = stated if os.path.isabs(stated) else _home_in_user_database()
    return Path(os.path.abspath(os.path.join(system, own[2:]))) if system else None


def _home_in_user_database() -> str:
    try:
        found = pwd.getpwuid(os.getuid()).pw_dir
    except KeyError:
        return ""  # A container may run under a uid that nobody entered.
    return found if os.path.isabs(found) else ""


def expand(text: str, env: Mapping[str, str]) -> Path:
    """An absolute path of `text`, `~` standing for `home_dir`; symbolic links stay as they are."""
    trimmed = text.strip()
    if trimmed == "~" or trimmed.startswith("~/"):
        return Path(os.path.abspath(home_dir(env) / trimmed[2:]))
    return Path(os.path.abspath(trimmed))


def resolve_state_dir(explicit: str | None, env: Mapping[str, str]) -> Path:
    """The state directory: flag, `OPENCLAW_STATE_DIR`, `~/.openclaw`, an older `~/.clawdbot`, else `~/.openclaw`."""
    for text in (explicit, env.get("OPENCLAW_STATE_DIR")):
        if text and text.strip():
            return expand(text, env)
    home = home_dir(env)
    current, older = home / ".openclaw", home / ".clawdbot"
    return older if not current.exists() and older.exists() else current


def openclaw_config_path(state_dir: Path, env: Mapping[str, str]) -> Path:
    """The `openclaw.json` that belongs to a state directory, existing or not (store format §1)."""
    named = env.get("OPENCLAW_CONFIG_PATH", "").strip()
    if named:
        return expand(named, env)
    places = [state_dir]
    home = known_home(env)
    if home is not None and state_dir in (home / ".openclaw", home / ".clawdbot"):
        places += [home / ".openclaw", home / ".clawdbot"]
    candidates = [place / name for place in places for name in ("openclaw.json", "clawdbot.json")]
    return next((path for path in candidates if path.exists()), candidates[0])


def targets(
    config: Config,
    state_dir: Path,
    *,
    agent: str | None = None,
    all_agents: bool = False,
    store: str | None = None,
    env: Mapping[str, str],
    archived: Collection[str] | None = None,
) -> tuple[Target, ...]:
    """The stores that a command line means.

    With `archived`, a store of which only the import archive is left counts too; it names further agents to look for.
    Without a selector: the default agent's, existing or not. Raises `NotFoundError` when a selector matches nothing,
    `UsageError` when selectors contradict each other or when no default agent can be told.
    """
    if all_agents and (agent or store):
        raise UsageError("--all-agents cannot be combined with --agent or --store")
    if store:
        return (_named_store(config, expand(store, env), agent, archived is not None),)
    if all_agents:
        return _every_agent(config, state_dir, env, archived)
    if agent:
        return (_named_agent(config, state_dir, normalize_agent_id(agent), env, archived is not None),)
    default = config.default_agent
    if default is None:
        raise UsageError(
            "several agents are configured and none of them is the default",
            hint="name one with --agent ID, or use --all-agents",
            agents=list(config.agents),
        )
    return (agent_target(config, state_dir, default, env),)


def agent_target(config: Config, state_dir: Path, agent_id: str, env: Mapping[str, str]) -> Target:
    """The store of one agent, by layout and by `session.store` and `agents.entries.<id>.agentDir`."""
    pattern = config.get("session.store", None).value
    if isinstance(pattern, str) and pattern.strip():
        named = expand(pattern.replace("{agentId}", agent_id), env)
        shared = "{agentId}" not in pattern and agent_id != (config.default_agent or DEFAULT_AGENT)
        return store_target(named, agent_id, suffix=f".{agent_id}" if shared else "")
    agent_dir = config.agent_setting(agent_id, "agentDir")
    base = state_dir / "agents" / agent_id
    database_dir = expand(agent_dir, env) if isinstance(agent_dir, str) and agent_dir.strip() else base / "agent"
    return Target(
        agent_id,
        base / "sessions" / INDEX_NAME,
        database_dir / DATABASE_NAME,
        base / "sessions",
        base / ARCHIVE_DIR_NAME,
    )


def store_target(path: Path, agent_id: str, *, suffix: str = "") -> Target:
    """The store behind an explicitly named index or database; `suffix` tells agents apart that share one path."""
    if path.suffix == ".sqlite":
        index, database = _index_of(path), path
    else:
        index, database = path, _database_of(path, suffix)
    sessions = index.parent
    archive_home = sessions.parent if sessions.name == "sessions" else sessions
    return Target(agent_id, index, database, sessions, archive_home / ARCHIVE_DIR_NAME)


def agent_of_path(path: Path) -> str | None:
    """The agent that the standard layout `agents/<id>/(sessions|agent)/<file>` names, or None."""
    folder = path.parent
    if folder.name in ("sessions", "agent") and folder.parent.parent.name == "agents":
        return normalize_agent_id(folder.parent.name)
    return None


@dataclass(frozen=True, slots=True)
class StoreHome:
    """Where a store that was named by its path lives: the file that is really meant, and its state directory.

    `state_dir` is None when the store lies in no state directory.
    """

    path: Path
    state_dir: Path | None


def home_of_store(path: Path) -> StoreHome:
    """The state directory that owns a store, from the store's own place and never from a default (design D7).

    Symbolic links are resolved: what is written lands there. The index keeps its own name, because the database is
    found from it, unless only what it links to lies in a state directory.
    """
    whole = Path(os.path.realpath(path))
    near = Path(os.path.realpath(path.parent)) / path.name
    for candidate in (whole, near) if path.suffix == ".sqlite" else (near, whole):
        state_dir = _state_dir_above(candidate)
        if state_dir is not None:
            return StoreHome(path if candidate == near else candidate, state_dir)
    return StoreHome(path, None)


def _state_dir_above(path: Path) -> Path | None:
    if agent_of_path(path) is not None:
        return path.parents[3]
    # The one store of all agents that very old versions had (store format §1.1).
    above = path.parent.parent
    return above if path.parent.name == "sessions" and is_state_dir(above) else None


def is_state_dir(directory: Path) -> bool:
    """Whether a directory holds anything by which a state directory of OpenClaw is known."""
    files = ("openclaw.json", "clawdbot.json", "state/openclaw.sqlite")
    return (directory / "agents").is_dir() or any((directory / name).is_file() for name in files)


def agents_on_disk(state_dir: Path) -> tuple[str, ...]:
    """Ids of the directories under `agents/` that hold a store and whose name is an agent id, in order of name."""
    try:
        names = sorted(os.listdir(state_dir / "agents"))
    except (FileNotFoundError, NotADirectoryError):
        return ()
    found = []
    for name in names:
        base = state_dir / "agents" / name
        stores = (base / "agent" / DATABASE_NAME, base / "sessions")
        if _PLAIN_AGENT_ID.fullmatch(name) and any(path.exists() and not path.is_symlink() for path in stores):
            found.append(name)
    return tuple(found)


def _every_agent(
    config: Config, state_dir: Path, env: Mapping[str, str], archived: Collection[str] | None
) -> tuple[Target, ...]:
    ids = dict.fromkeys([*config.agents, *map(str, agents_on_disk(state_dir)), *(archived or ())])
    known = [agent_target(config, state_dir, name, env) for name in ids]
    found = tuple(target for target in known if _is_there(target, archived is not None))
    if not found:
        raise NotFoundError(
            f"no agent has a store under {state_dir}",
            hint="check --state-dir or OPENCLAW_STATE_DIR",
            stateDir=str(state_dir),
        )
    return found


def _named_agent(config: Config, state_dir: Path, agent_id: str, env: Mapping[str, str], archived: bool) -> Target:
    target = agent_target(config, state_dir, agent_id, env)
    if _is_there(target, archived) or (config.roster_is_explicit and agent_id in config.agents):
        return target
    known = sorted({*(config.agents if config.roster_is_explicit else ()), *agents_on_disk(state_dir)})
    raise NotFoundError(
        f"no agent {agent_id!r} under {state_dir}",
        hint=f"agents here: {_listed(known)}",
        agentId=agent_id,
        stateDir=str(state_dir),
    )


def _is_there(target: Target, archived: bool) -> bool:
    return target.exists() or (archived and target.archive_dir.is_dir())


def _named_store(config: Config, path: Path, agent: str | None, archived: bool) -> Target:
    owner = normalize_agent_id(agent) if agent else agent_of_path(path) or config.default_agent or DEFAULT_AGENT
    if path.is_dir():
        raise NotFoundError(
            f"{path} is a directory, not a store", hint="name sessions.json or the .sqlite file", storePath=str(path)
        )
    target = store_target(path, owner)
    if not (path.exists() or target.sqlite_path.exists() or (archived and target.archive_dir.is_dir())):
        raise NotFoundError(f"there is no store at {path}", storePath=str(path))
    return target


def _index_of(database: Path) -> Path:
    if database.name == DATABASE_NAME:
        folder = database.parent
        return folder.parent / "sessions" / INDEX_NAME if folder.name == "agent" else folder / INDEX_NAME
    return database.with_suffix(".json")


def _database_of(index: Path, suffix: str) -> Path:
    if index.name != INDEX_NAME:
        return index.with_name(f"{index.stem}{suffix}.sqlite")
    name = f"{DATABASE_NAME.removesuffix('.sqlite')}{suffix}.sqlite"
    if agent_of_path(index) is not None:
        return index.parent.parent / "agent" / name
    return index.parent / name


def _listed(names: Iterable[str]) -> str:
    return ", ".join(names) or "none"
