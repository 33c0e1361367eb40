"""Session keys of a command line: which store each belongs to, and how OpenClaw spells it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace

from openclaw_cli.cli import doctor_run as run
from openclaw_cli.cli.options import Common
from openclaw_cli.config import Config, Target, environment
from openclaw_cli.errors import NotFoundError


def named(common: Common, config: Config, key: str) -> tuple[Target, str]:
    """The store that a key belongs to, and the key in OpenClaw's spelling. Raises `NotFoundError`."""
    from openclaw_cli.config.paths import agent_target
    from openclaw_cli.migration.keys import canonical_key, owner_agent

    owner = owner_agent(key)
    if common.agent or common.store or owner is None:
        (target,) = common.targets(config)
    else:
        target = agent_target(config, common.state_dir, owner, environment())
    rules = run.rules_of(config, None)
    spelled = canonical_key(
        key, agent_id=target.agent_id, main_key=rules.main_key, scope=rules.scope, agents=rules.agents
    )
    return target, spelled or key


def candidates(common: Common, config: Config, name: str) -> Iterator[tuple[Target, str]]:
    """Stores in which a key or a session id may be, with what to look for there: a key's own store, else all."""
    from openclaw_cli.migration.keys import owner_agent

    if owner_agent(name) is not None or common.store or common.agent:
        target, spelled = named(common, config, name)
        yield target, spelled
        yield target, name
        return
    for target in every(common, config):
        yield target, name
    yield named(common, config, name)


def every(common: Common, config: Config) -> tuple[Target, ...]:
    """The stores that were named, else those of all agents."""
    if common.store or common.agent:
        return common.targets(config)
    try:
        return replace(common, all_agents=True).targets(config)
    except NotFoundError:
        return common.targets(config)


def grouped(common: Common, config: Config, keys: Iterable[str]) -> list[tuple[Target, list[tuple[int, str]]]]:
    """The keys of each store, with the place at which each was named; a key that is named twice counts once."""
    found: dict[str, tuple[Target, list[tuple[int, str]]]] = {}
    seen: set[tuple[str, str]] = set()
    for number, key in enumerate(keys):
        target, spelled = named(common, config, key)
        place = str(target.sqlite_path)
        if (place, spelled) not in seen:
            seen.add((place, spelled))
            found.setdefault(place, (target, []))[1].append((number, spelled))
    return list(found.values())
