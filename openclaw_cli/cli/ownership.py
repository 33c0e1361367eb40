"""Who may write: the rule about remote gateways, and owning a state directory for the time of a run (design D7)."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol, TypeVar

from openclaw_cli.cli import output
from openclaw_cli.cli.options import Common
from openclaw_cli.config import Config, Target
from openclaw_cli.errors import BusyError, Issue, RefusedError

if TYPE_CHECKING:
    from openclaw_cli.locks import Ownership


class HasIssues(Protocol):
    """A report that can be told what an owner of the state directory met."""

    issues: list[Issue]


Owned = TypeVar("Owned", bound=HasIssues)

_POLL_SECONDS = 0.05


def judge_remote(common: Common, config: Config, *, writes: bool) -> None:
    """Where the sessions belong to a gateway elsewhere, refuse to write and tell a reader so.

    `--local` overrides, and `--store`, which names the very file. Raises `RefusedError`.
    """
    reason = config.remote_gateway
    if reason is None or common.local or common.store:
        return
    if writes:
        raise RefusedError(
            f"{reason}: that gateway owns the sessions, and this version changes local stores only",
            hint="run on the gateway's host, or pass --local for the store of this host",
            code="remote_gateway",
        )
    output.note(f"{reason}: this host may not hold the sessions (--local says that it does)", common)


def owned(
    common: Common,
    config: Config,
    targets: tuple[Target, ...],
    act: Callable[[], Owned],
    *,
    assume_stopped: bool,
    allow_owner: bool,
) -> Owned:
    """Own the state directory, then act; the lock is given back whatever happens."""
    if not holds_anything(common, targets):
        output.note(f"{common.state_dir} holds no agents of OpenClaw; nothing was read or written", common)
        return act()
    if common.store_alone:
        where = f"{common.store} lies in no state directory; lock and manifests of this run are in {common.state_dir}"
        output.note(where, common)
    ownership, stale = _taken(common, config, targets, assume_stopped=assume_stopped, allow_owner=allow_owner)
    with ownership:
        _sweep(common, targets)
        report = act()
    report.issues[:0] = [*ownership.issues, *stale]
    return report


def _sweep(common: Common, targets: tuple[Target, ...]) -> None:
    """Take away what killed runs left of files that they were writing."""
    from openclaw_cli import locks, manifest
    from openclaw_cli.durable import sweep
    from openclaw_cli.storage.connection import remove_unfinished

    beside = [
        place for target in targets for place in (target.sessions_dir, target.archive_dir, target.sqlite_path.parent)
    ]
    for target in targets:
        # What makes it stay is what stops whoever has to write there, and only them.
        with contextlib.suppress(OSError):
            remove_unfinished(target.sqlite_path)
    sweep([common.state_dir, locks.names_dir(common.state_dir), common.state_dir / manifest.RUNS_DIR, *beside])


def _taken(
    common: Common, config: Config, targets: tuple[Target, ...], *, assume_stopped: bool, allow_owner: bool
) -> tuple[Ownership, list[Issue]]:
    """Own the state directory and find no living old writer, within `--wait`; gives what is stale, too.

    All of it is tried again: a lock file of a transcript, or a port that answers, goes away as a lock does.
    """
    from openclaw_cli import locks
    from openclaw_cli.storage.lockfile import Exclusive

    ends = time.monotonic() + common.wait_ms / 1000
    while True:
        left = max(0.0, ends - time.monotonic())
        try:
            # The old writers' locks first: when one is held, nothing at all has been touched.
            stale = _transcript_locks(targets, common.now_ms)
            ownership = locks.take(
                common.state_dir,
                config_path=config.openclaw_path,
                take_lock=Exclusive,
                now_ms=common.now_ms,
                wait_ms=int(left * 1000),
                assume_stopped=assume_stopped,
                allow_owner=allow_owner,
            )
        except BusyError:
            if time.monotonic() >= ends:
                raise
            time.sleep(min(_POLL_SECONDS, left))
        else:
            return ownership, stale


def _transcript_locks(targets: tuple[Target, ...], now_ms: int) -> list[Issue]:
    from openclaw_cli import locks

    stale = []
    for target in targets:
        stale.extend(locks.check_transcript_locks(target.sessions_dir, _lock_names(target), now_ms))
    return stale


def _lock_names(target: Target) -> list[str]:
    from openclaw_cli.migration import discovery

    return list(discovery.list_directory(target.sessions_dir).files[discovery.FileClass.LOCK])


def foreseen(
    common: Common, targets: tuple[Target, ...], *, assume_stopped: bool = False, allow_owner: bool = False
) -> list[Issue]:
    """What a preview says of locks: the same warnings about stale ones, and what would stop the run itself now."""
    from openclaw_cli import locks
    from openclaw_cli.storage.lockfile import is_held

    if not holds_anything(common, targets) or not common.state_dir.is_dir():
        return []
    found = locks.foresee(
        common.state_dir,
        is_held=is_held,
        now_ms=common.now_ms,
        assume_stopped=assume_stopped,
        allow_owner=allow_owner,
    )
    for target in targets:
        for name in _lock_names(target):
            try:
                found.extend(locks.check_transcript_locks(target.sessions_dir, [name], common.now_ms))
            except BusyError as error:
                found.append(locks.foreseen(error))
    return found


def holds_anything(common: Common, targets: tuple[Target, ...]) -> bool:
    """Whether there is something to own. Elsewhere even a lock would make directories in somebody else's."""
    from openclaw_cli.config.paths import is_state_dir

    return is_state_dir(common.state_dir) or any(target.exists() or target.archive_dir.is_dir() for target in targets)
