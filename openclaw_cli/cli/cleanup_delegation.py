"""`sessions cleanup` by the gateway that owns the sessions: what can be asked of it, and what it says."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from openclaw_cli.cli.options import Common
from openclaw_cli.config import Config, Target
from openclaw_cli.errors import BusyError, Exit, Issue, OpenClawError, escaped, status_of

if TYPE_CHECKING:
    from openclaw_cli.gateway.client import Gateway
    from openclaw_cli.retention.cleaning import Options


@dataclass(slots=True)
class DelegatedReport:
    """The gateway's document unchanged, ours behind it; where its answer is not known, what a look afterwards shows."""

    document: dict[str, Any]
    issues: list[Issue] = field(default_factory=list)
    error: OpenClawError | None = None
    follow_up: dict[str, Any] | None = None

    def status(self) -> Exit:
        """3 for a partial result and for an outcome that is not known."""
        if self.error is not None:
            return Exit(self.error.exit)
        return status_of(self.issues)

    def as_json(self) -> dict[str, Any]:
        """The document."""
        head = self.document if self.error is None else self.error.as_json()
        more: dict[str, Any] = {"transport": "gateway", "issues": [issue.as_json() for issue in self.issues]}
        return {**head, **more, **({} if self.follow_up is None else {"followUp": self.follow_up})}

    def text(self) -> Iterator[str]:
        """For people: OpenClaw's lines with the counters that it leaves out."""
        from openclaw_cli.migration.reporting import issue_text

        for store in self.document.get("stores", [self.document] if self.error is None else []):
            yield f"Session store: {escaped(str(store.get('storePath')))}"
            yield f"Applied maintenance by the gateway. Current entries: {store.get('afterCount')}"
            names = ("missing", "dmScopeRetired", "modelRunPruned", "archived", "capArchived", "pruned", "capped")
            counts = {name: store.get(name) for name in names if store.get(name)}
            if counts:
                yield ", ".join(f"{name}: {count}" for name, count in counts.items())
        if self.error is not None:
            yield f"error {self.error.code}: {self.error.message}"
        for one in (self.follow_up or {}).get("stores", ()):
            todo = "there is still something to do" if one["wouldMutate"] else "there is nothing left to do"
            yield f"looked at {one['agentId']} afterwards: {one['entries']} entries, {todo}"
        yield from issue_text(self.issues)


def params_of(common: Common, wanted: Options) -> dict[str, Any]:
    """What `sessions.cleanup` takes. Raises `BusyError` for options that it does not have."""
    missing = _only_local(wanted)
    if missing:
        raise BusyError(
            f"a gateway owns the sessions, and its cleanup has no {', '.join(missing)}",
            hint="stop the gateway, or leave that out; --store PATH --force-local works beside it",
        )
    params: dict[str, Any] = {
        "allAgents": common.all_agents,
        "enforce": True,
        "fixMissing": wanted.fix_missing,
        "fixDmScope": wanted.fix_dm_scope,
    }
    if common.agent:
        params["agent"] = common.agent
    if wanted.active_key:
        params["activeKey"] = wanted.active_key
    return params


def _only_local(wanted: Options) -> list[str]:
    """Options of ours that change what is done and that the gateway's method does not have."""
    from openclaw_cli.retention.cleaning import Options

    usual = Options(wanted.rules, wanted.settings, wanted.now_ms)
    found = [name for name, value in (("--archive-dir", wanted.archive_dir), ("--vacuum", wanted.vacuum)) if value]
    if wanted.filters != usual.filters:
        found.append("filters")
    if wanted.force or wanted.stale_running:
        found.append("--force and --include-stale-running")
    if wanted.archive_grace_ms != usual.archive_grace_ms:
        found.append("--archive-grace")
    return found


def run(
    gateway: Gateway, common: Common, config: Config, targets: tuple[Target, ...], wanted: Options
) -> DelegatedReport:
    """Ask the gateway. Raises what asking raises, but for an outcome that is not known."""
    from openclaw_cli.gateway import delegate
    from openclaw_cli.gateway.failures import OutcomeUnknownError
    from openclaw_cli.retention import settings

    if replace(settings.from_config(config), enforce=True) != replace(wanted.settings, enforce=True):
        raise BusyError(
            "a gateway owns the sessions, and its cleanup takes no limits but those of openclaw.json",
            hint="stop the gateway, or leave the limits out; --store PATH --force-local works beside it",
        )
    params = params_of(common, wanted)
    try:
        answer = delegate.cleanup(gateway, params, common.gateway.timeout_s)
    except OutcomeUnknownError as error:
        return DelegatedReport({}, error=error, follow_up=_looked(targets, wanted))
    return DelegatedReport(answer.document, answer.issues)


def _looked(targets: tuple[Target, ...], wanted: Options) -> dict[str, Any] | None:
    """What a preview shows now, of the stores that are on this host; reading disturbs nobody."""
    from openclaw_cli.retention import cleaning
    from openclaw_cli.storage import connection

    stores = []
    for target in targets:
        if not target.sqlite_path.exists():
            continue
        try:
            with connection.open_read(target.sqlite_path, agent_id=target.agent_id) as store:
                found = cleaning.look(store, target, wanted)
        except OpenClawError:
            continue  # It could not be looked at; then nothing is said of it.
        stores.append(
            {"agentId": target.agent_id, "entries": found.rows.total, "wouldMutate": bool(found.plan.taken())}
        )
    return {"stores": stores} if stores else None
