"""The group `sessions`. Bare `sessions` lists."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any, cast

import typer

from openclaw_cli.cli import (
    options,
    output,
    ownership,
    sessions_change,
    sessions_cleanup,
    sessions_export,
    sessions_fork,
    sessions_read,
)
from openclaw_cli.cli.options import Common
from openclaw_cli.config import Config, Target
from openclaw_cli.config.paths import agents_on_disk
from openclaw_cli.errors import Exit, Issue, UsageError, status_of

if TYPE_CHECKING:
    from openclaw_cli.sessions.listing import Archived, Counts, Listing, Query
    from openclaw_cli.sessions.rows import Defaults

DEFAULT_LIMIT = 100
DEFAULT_MODEL = "openai/gpt-6-astra"
DEFAULT_CONTEXT_TOKENS = 200_000


def register(app: typer.Typer) -> None:
    """Add the group `sessions`."""
    members = options.group(app, "sessions")
    options.command(
        members,
        "list",
        example=(
            "openclaw-cli sessions list --all-agents --limit 20",
            "openclaw-cli sessions --json | jq '.sessions[] | select(.unread) | .key'",
        ),
        exits=(3, 10, 11, 12, 13),
        without=("dry_run", "wait"),
    )(list_sessions)
    sessions_cleanup.register(members)
    sessions_read.register(members)
    sessions_export.register(members)
    sessions_change.register(members)
    sessions_fork.register(members)


def list_sessions(
    common: Common,
    limit: Annotated[str, typer.Option(metavar="N", help="How many to list at most, or `all`.")] = str(DEFAULT_LIMIT),
    active: Annotated[
        str | None, typer.Option(metavar="MINUTES", help="Only sessions used in the last so many minutes.")
    ] = None,
    archived: Annotated[
        str, typer.Option(metavar="hide|include|only", help="What to do with archived sessions.")
    ] = "hide",
    generations: Annotated[
        bool, typer.Option("--generations", help="Also list older windows of each key with their events.")
    ] = False,
) -> int:
    """List the sessions of a store: pinned ones first, then the newest.

    Archived sessions are left out and counted. `--archived` alone shows them too, `--archived=only` shows only them.
    """
    from openclaw_cli.sessions.listing import Query, merged_rows

    minutes = _active_minutes(active)
    query = Query(
        archived=_archived(archived),
        active_since_ms=None if minutes is None else common.now_ms - minutes * 60_000,
        limit=_limit(limit),
        generations=generations,
    )
    config = common.config()
    ownership.judge_remote(common, config, writes=False)
    targets = common.targets(config)
    with contextlib.ExitStack() as stack:
        listings = [
            listing for target in targets if (listing := _open(stack, target, config, common, query)) is not None
        ]
        if not listings and not (common.store or common.agent or common.all_agents):
            _name_other_agents(targets[0], common)
        counts = [listing.counts() for listing in listings]
        head = _head(targets, counts, query, minutes, common)
        _tell(listings, common)
        rows = merged_rows(listings, query.limit)
        if common.json:
            output.write_document_with_rows(head, "sessions", rows)
        elif common.ndjson:
            _write_lines(head, rows)
        else:
            output.write_text(_text(targets, head, rows, common))
        return _status(listings, common)


def _open(stack: contextlib.ExitStack, target: Target, config: Config, common: Common, query: Query) -> Listing | None:
    """The listing of one target; None when it has no database yet, which is said."""
    from openclaw_cli.sessions.listing import Listing
    from openclaw_cli.storage.connection import open_read

    if not target.sqlite_path.exists():
        if target.store_path.exists():
            _require_index(target)
            output.note(
                f"{target.store_path} is a file-era store that has not been imported: openclaw-cli doctor import"
                f" --agent {target.agent_id}",
                common,
            )
        return None
    store = stack.enter_context(open_read(target.sqlite_path))
    owner = store.agent_id or target.agent_id
    return Listing(store, owner, defaults_of(config, owner), query, common.now_ms)


def _require_index(target: Target) -> None:
    """Raises `UsageError` for a file that is neither a database nor an index: an empty list would tell a lie."""
    from openclaw_cli.migration import index, recognition

    why = recognition.why_foreign(target, index.read_index(target.store_path))
    if why is not None:
        raise UsageError(
            f"{target.store_path} is neither a SQLite store (*.sqlite) nor a session index: {why}",
            code="not_a_store",
            storePath=str(target.store_path),
        )


def _name_other_agents(target: Target, common: Common) -> None:
    """Say where sessions are when the default agent has none: an empty list alone would look like a loss."""
    others = [name for name in agents_on_disk(common.state_dir) if name != target.agent_id]
    if others:
        output.note(f"agent {target.agent_id} has no store; others have: {', '.join(others)} (--all-agents)", common)


def defaults_of(config: Config, agent_id: str) -> Defaults:
    """Model and window that rows of an agent have which do not say."""
    from openclaw_cli.sessions.rows import Defaults, split_model

    named = config.agent_setting(agent_id, "model") or config.get("agents.defaults.model").value
    primary = named.get("primary") if isinstance(named, Mapping) else named
    provider, model = split_model(primary if isinstance(primary, str) and primary.strip() else DEFAULT_MODEL, "openai")
    window = config.get("agents.defaults.contextTokens").value or DEFAULT_CONTEXT_TOKENS
    return Defaults(provider, model, window, config.main_key)


def _head(
    targets: Sequence[Target], counts: Sequence[Counts], query: Query, minutes: int | None, common: Common
) -> dict[str, Any]:
    """Everything of the document but the rows: OpenClaw's keys, then ours."""
    total = sum(count.total for count in counts)
    listed = total if query.limit is None else min(total, query.limit)
    aggregate = common.all_agents or len(targets) > 1
    head: dict[str, Any] = {"path": None if aggregate else str(targets[0].sqlite_path)}
    if aggregate:
        head["stores"] = [{"agentId": target.agent_id, "path": str(target.sqlite_path)} for target in targets]
    if common.all_agents:
        head["allAgents"] = True
    return head | {
        "count": listed,
        "totalCount": total,
        "limitApplied": query.limit,
        "hasMore": listed < total,
        "activeMinutes": minutes,
        "archivedNotShown": sum(count.archived for count in counts),
        "withheld": sum(count.withheld for count in counts),
    }


def _tell(listings: Sequence[Listing], common: Common) -> None:
    for listing in listings:
        for issue in listing.issues:
            output.note(issue.message, common)


def _status(listings: Sequence[Listing], common: Common) -> Exit:
    """The exit status; findings that arose while rows were read are said now."""
    issues: list[Issue] = [issue for listing in listings for issue in listing.issues]
    for issue in issues:
        if issue.session_key is not None:
            output.note(f"{issue.session_key}: {issue.message}", common)
    return status_of(issues)


def _write_lines(head: Mapping[str, Any], rows: Iterator[dict[str, Any]]) -> None:
    for row in rows:
        output.write_line({"type": "session", **row})
    output.write_line({"type": "summary", **head})


def _text(
    targets: Sequence[Target], head: Mapping[str, Any], rows: Iterator[dict[str, Any]], common: Common
) -> Iterator[str | output.Table]:
    if "stores" in head:
        yield f"Session stores: {len(targets)} ({', '.join(target.agent_id for target in targets)})"
    else:
        yield f"Session store: {head['path']}"
    more = f" of {head['totalCount']} (limit {head['limitApplied']})" if head["hasMore"] else ""
    yield f"Sessions listed: {head['count']}{more}"
    if head["activeMinutes"] is not None:
        yield f"Only those used in the last {head['activeMinutes']} minutes"
    if head["archivedNotShown"]:
        yield f"{head['archivedNotShown']} archived not shown (--archived)"
    if head["withheld"]:
        yield f"{head['withheld']} internal, incognito or unfinished not shown"
    if not head["count"]:
        yield "No sessions found."
        return
    yield _table(rows, with_agent="stores" in head)


def _table(rows: Iterator[dict[str, Any]], *, with_agent: bool) -> output.Table:
    from openclaw_cli.sessions.rows import age_cell, flags_cell, tokens_cell

    columns = ("Kind", "Key", "Age", "Model", "Runtime", "Tokens (ctx %)", "Label", "Flags")

    def cells(row: dict[str, Any]) -> Iterator[tuple[str, ...]]:
        agent = (row["agentId"],) if with_agent else ()
        yield (
            *agent,
            row["kind"],
            row["key"],
            age_cell(row["ageMs"]),
            row["model"],
            row["agentRuntime"]["id"],
            tokens_cell(row),
            str(row.get("label") or ""),
            flags_cell(row),
        )
        for window in row.get("generations", ()):
            old = f"  {window['sessionId']} ({window['reason'] or 'unknown'}, {window['events']} events)"
            yield (*("",) * len(agent), "", old, *("",) * (len(columns) - 2))

    return output.Table(
        (("Agent",) if with_agent else ()) + columns,
        (line for row in rows for line in cells(row)),
        wide=frozenset({"Label", "Flags"}),
        middle=frozenset({"Key"}),
        leave_out=("Flags", "Label", "Runtime", "Model", "Kind", "Tokens (ctx %)", "Age"),
    )


def _limit(text: str) -> int | None:
    if text.strip().lower() == "all":
        return None
    if text.strip().isdecimal() and int(text) > 0:
        return int(text)
    raise UsageError(f"--limit takes a number above 0 or `all`, not {text!r}")


def _active_minutes(text: str | None) -> int | None:
    if text is None:
        return None
    if text.strip().isdecimal() and int(text) > 0:
        return int(text)
    raise UsageError(f"--active takes minutes, a number above 0, not {text!r}")


def _archived(text: str) -> Archived:
    if text in ("hide", "include", "only"):
        return cast("Archived", text)
    raise UsageError(f"--archived takes `include` or `only`, not {text!r}")
