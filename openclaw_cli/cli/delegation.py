"""Either this host works on the store, or the gateway that owns it does (design, D7): the one place that decides.

Free: we own it and work locally, no secret is needed. Held by a gateway: it is asked over its protocol. Held by anybody
else, or with `--gateway never`: busy. A gateway elsewhere that the configuration names owns the sessions anyway.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, TypeVar

from openclaw_cli.cli import output, ownership
from openclaw_cli.cli.options import Common
from openclaw_cli.config import Config, Target, environment
from openclaw_cli.errors import BusyError, Issue, UsageError

if TYPE_CHECKING:
    from openclaw_cli.gateway.client import Gateway
    from openclaw_cli.locks import LockFile

Done = TypeVar("Done")


def run(
    common: Common,
    config: Config,
    targets: tuple[Target, ...],
    act: Callable[[], Done],
    delegate: Callable[[Gateway], Done],
    allowed: dict[str, bool],
) -> Done:
    """Work locally under the lock, or let the gateway do it. Raises what either raises."""
    how = common.gateway
    if how.force_local and common.store is None:
        raise UsageError("--force-local needs --store: it is about one store that was named")
    if common.store is not None:
        if how.mode == "require" or how.url:
            raise UsageError("--store works on that store itself and never connects", hint="leave --gateway out")
        return _on_named_store(common, config, targets, act, allowed)
    if how.url or how.mode == "require" or (config.remote_gateway is not None and not common.local):
        if how.mode == "never":
            ownership.judge_remote(common, config, writes=True)
        return _delegated(common, config, delegate, None)
    try:
        return ownership.owned(common, config, targets, act, **allowed)  # type: ignore[type-var]
    except BusyError as error:
        if how.mode == "never" or error.facts.get("role") != "gateway":
            raise
    from openclaw_cli import locks

    return _delegated(common, config, delegate, locks.current_owner(common.state_dir))


def _on_named_store(
    common: Common, config: Config, targets: tuple[Target, ...], act: Callable[[], Done], allowed: dict[str, bool]
) -> Done:
    """Under the lock of its state directory; with `--force-local` beside whoever has it, which is said."""
    try:
        return ownership.owned(common, config, targets, act, **allowed)  # type: ignore[type-var]
    except BusyError as error:
        if not common.gateway.force_local:
            raise
        output.note(f"{error.message}: working beside it all the same, under SQLite's locks (--force-local)", common)
    report = act()
    facts = {"forcedLocal": True}
    message = "worked beside the owner of the state directory, under SQLite's locks alone"
    report.issues.append(Issue("forced_local", "warning", message, facts=facts))  # type: ignore[attr-defined]
    return report


def _delegated(common: Common, config: Config, delegate: Callable[[Gateway], Done], owner: LockFile | None) -> Done:
    with connected(common, config, owner) as gateway:
        output.note("a gateway owns the sessions; it is asked to do it", common)
        return delegate(gateway)


@contextmanager
def connected(common: Common, config: Config, owner: LockFile | None = None) -> Iterator[Gateway]:
    """A connection to the gateway of this state directory, checked to be that. Raises what connecting raises."""
    from openclaw_cli.config.gateway import Given, access
    from openclaw_cli.gateway import delegate
    from openclaw_cli.gateway.client import Gateway

    how = common.gateway
    given = Given(how.url, how.token_file, how.password_file, None if owner is None else owner.port)
    found = access(config, environment(), given)
    output.detail(f"gateway: {found.origin}", common)
    with Gateway(found) as gateway:
        delegate.require_ours(gateway, found, common.state_dir, owner)
        yield gateway
