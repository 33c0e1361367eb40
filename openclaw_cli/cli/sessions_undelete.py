"""The work of `sessions undelete`: which archives a name means, and which store they go to."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from openclaw_cli.cli import doctor_run as run
from openclaw_cli.cli import output, ownership, session_keys
from openclaw_cli.cli.options import Common
from openclaw_cli.config import Config, Target
from openclaw_cli.errors import Exit, NotFoundError, OpenClawError, escaped

if TYPE_CHECKING:
    from openclaw_cli.retention.catalogue import Archive
    from openclaw_cli.sessions.results import Result, Results


def undelete(
    common: Common, names: Sequence[str], directories: Sequence[str], *, assume_stopped: bool, allow_owner: bool
) -> int:
    """Bring back what each name means; results in the order of the names."""
    from openclaw_cli.sessions.results import Results

    config = common.config()
    ownership.judge_remote(common, config, writes=not common.dry_run)
    targets = session_keys.every(common, config)
    found = _found(common, targets, directories, [Path(name) for name in names if "/" in name])
    report = Results("undelete", common.dry_run)
    allowed = {"assume_stopped": assume_stopped, "allow_owner": allow_owner}

    def work() -> Results:
        report.results = [_one(common, config, targets, found, name) for name in names]
        return report

    if common.dry_run:
        work()
        report.issues[:0] = ownership.foreseen(common, targets, **allowed)
    else:
        ownership.owned(common, config, targets, work, **allowed)
    output.emit(report.as_json(), report.text(), common)
    return int(report.status())


def _found(
    common: Common, targets: tuple[Target, ...], directories: Sequence[str], files: Sequence[Path]
) -> list[Archive]:
    from openclaw_cli.retention import catalogue

    told = catalogue.told_by_audit(common.state_dir)
    places = [Path(each).expanduser().absolute() for each in directories]
    for place in places:
        if not place.is_dir():
            raise NotFoundError(f"there is no directory {place}")
    places += [path.expanduser().absolute().parent for path in files if path.expanduser().is_file()]
    return list(catalogue.find(targets, [*places, *catalogue.directories_of(told)], told))


def _one(common: Common, config: Config, targets: tuple[Target, ...], found: Sequence[Archive], name: str) -> Result:
    from openclaw_cli.retention.audit import Audit
    from openclaw_cli.sessions import undeleting
    from openclaw_cli.sessions.results import Result
    from openclaw_cli.storage import connection

    wanted = str(Path(name).expanduser().absolute()) if "/" in name else name
    chosen = undeleting.choose(found, wanted, targets[0].agent_id)
    if chosen is None:
        message = f"there is no archive of {escaped(name)}; openclaw-cli archives list shows them"
        return Result(name, "not_found", message, Exit.NOT_FOUND)
    target = _target_of(chosen.sessions[0].session_key, targets)
    audit = Audit(common.state_dir, common.now_ms)
    opened = (
        connection.open_read(target.sqlite_path, agent_id=target.agent_id)
        if common.dry_run
        else connection.open_write(target.sqlite_path, agent_id=target.agent_id, timeouts=run.timeouts(config))
    )
    try:
        with opened as store:
            return undeleting.act(store, target, name, chosen, audit, common.now_ms, dry_run=common.dry_run)
    except OpenClawError as error:
        return Result(name, "failed", error.message, Exit(error.exit))


def _target_of(key: str, targets: tuple[Target, ...]) -> Target:
    """The store that a key belongs to. Raises `NotFoundError` when it is none of those that were named."""
    from openclaw_cli.migration.keys import owner_agent

    owner = owner_agent(key)
    for target in targets:
        if target.agent_id == owner or owner is None:
            return target
    raise NotFoundError(f"{escaped(key)} belongs to agent {owner}, whose store is not among those that were named")
