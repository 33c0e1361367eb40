"""`sessions show`, `tail`, `export`, `search`: reading sessions; nothing is written to a store."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated, Any

import typer

from openclaw_cli.cli import options, output, ownership, session_keys
from openclaw_cli.cli.options import Common
from openclaw_cli.config import Config, Target
from openclaw_cli.errors import Exit, NotFoundError, UsageError, escaped

if TYPE_CHECKING:
    from openclaw_cli.sessions.viewing import Found
    from openclaw_cli.storage.connection import Store

Name = Annotated[str, typer.Argument(metavar="KEY|ID", help="Key or id of a session.")]
Everything = Annotated[
    bool, typer.Option("--all", help="Also what is not for display: hidden messages and bookkeeping.")
]
MaxBytes = Annotated[str, typer.Option("--max-bytes", metavar="SIZE", help="Read no more than that of the session.")]
FOLLOW_SECONDS = 1.0


def register(members: typer.Typer) -> None:
    """Add the commands to the group."""
    exits = (Exit.OK, Exit.NOT_FOUND, Exit.CORRUPT)
    options.command(
        members,
        "show",
        example="openclaw-cli sessions show agent:main:main",
        exits=exits,
        without=("ndjson", "all_agents", "dry_run", "wait"),
    )(show)
    options.command(
        members,
        "tail",
        example=(
            "openclaw-cli sessions tail agent:main:main -n 40 --follow",
            "openclaw-cli sessions tail agent:main:main --ndjson | jq -c '.event.type'",
        ),
        exits=exits,
        without=("all_agents", "dry_run", "wait"),
    )(tail)


def show(
    common: Common,
    key: Name,
    lines: Annotated[int, typer.Option("--lines", "-n", metavar="N", help="Last events to show.")] = 10,
    max_bytes: MaxBytes = "1mb",
    everything: Everything = False,
) -> int:
    """Show a session: its row, its generations with their sizes, and the last things that were said.

    Of the events only the last ones are read, however long the session is.
    """
    from openclaw_cli.config.values import parse_size_bytes
    from openclaw_cli.sessions import viewing

    config = common.config()
    ownership.judge_remote(common, config, writes=False)
    with _session(common, config, key) as (store, target, found):
        history = viewing.generations(store, found.session_key)
        last = viewing.last(store, found.session_id, _positive(lines), parse_size_bytes(max_bytes))
        document = _document(store, target, found, common, config)
        document |= {
            "generations": [one.as_json() for one in history],
            "events": [{"seq": seq, "event": event} for seq, event in last if everything or not _is_hidden(event)],
        }
        output.emit(document, lambda: _show_text(document, last, everything), common)
    return int(Exit.OK)


def _document(store: Store, target: Target, found: Found, common: Common, config: Config) -> dict[str, Any]:
    from openclaw_cli.cli.sessions import defaults_of
    from openclaw_cli.sessions import rows, viewing

    entry = viewing.entry_of(store, found.session_key)
    row = rows.row_document(
        found.session_key, entry, target.agent_id, defaults_of(config, target.agent_id), common.now_ms
    )
    return {
        "path": str(target.sqlite_path),
        "agentId": target.agent_id,
        "sessionKey": found.session_key,
        "sessionId": found.session_id,
        "current": found.current,
        "session": row,
    }


def _show_text(document: dict[str, Any], last: list[tuple[int, Any]], everything: bool) -> Iterator[str]:
    from openclaw_cli.sessions import rows

    row = document["session"]
    yield f"{document['sessionKey']}, session {document['sessionId']}" + ("" if document["current"] else " (history)")
    facts = [row["kind"], f"{row['modelProvider']}/{row['model']}", rows.tokens_cell(row), rows.age_cell(row["ageMs"])]
    yield ", ".join(str(fact) for fact in facts)
    marks = [name for name in ("archived", "pinned", "unread") if row[name]]
    if row.get("label") or marks:
        yield ", ".join([*([f"label {row['label']}"] if row.get("label") else []), *marks])
    for one in document["generations"]:
        now = "now" if one["current"] else one["reason"] or "before"
        cold = ", cold" if one["cold"] else ""
        yield f"  {one['sessionId']} ({now}): {one['events']} event(s), {one['bytes']} bytes{cold}"
    yield from _lines(last, everything)


def _lines(found: list[tuple[int, Any]], everything: bool) -> Iterator[str]:
    from openclaw_cli.sessions import rendering

    for _, event in found:
        for one in rendering.shown(event):
            if everything or not one.hidden:
                yield one.line()


def _is_hidden(event: Any) -> bool:
    from openclaw_cli.sessions import rendering

    return all(one.hidden for one in rendering.shown(event))


def tail(
    common: Common,
    key: Name,
    lines: Annotated[int, typer.Option("--lines", "-n", metavar="N", help="Last events to print.")] = 20,
    max_bytes: MaxBytes = "4mb",
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Go on with what is added, until Ctrl-C.")] = False,
    everything: Everything = False,
) -> int:
    """Print the last events of a session, a line each; --json and --ndjson give the events as they are stored.

    Only those events are read. --follow looks once a second, and goes on with the session that the key goes on with.
    """
    from openclaw_cli.config.values import parse_size_bytes
    from openclaw_cli.sessions import viewing

    if follow and common.json:
        raise UsageError("--follow has no end, so that --json would have none", hint="use --ndjson")
    config = common.config()
    ownership.judge_remote(common, config, writes=False)
    with _session(common, config, key) as (store, target, found):
        last = viewing.last(store, found.session_id, _positive(lines), parse_size_bytes(max_bytes))
        kept = [(seq, event) for seq, event in last if everything or not _is_hidden(event)]
        if common.json:
            head = {"agentId": target.agent_id, "sessionKey": found.session_key, "sessionId": found.session_id}
            output.write_document({**head, "events": [{"seq": seq, "event": event} for seq, event in kept]})
            return int(Exit.OK)
        _print(kept, common, everything)
        if follow:
            _follow(store, found, last[-1][0] if last else -1, common, everything)
        elif common.ndjson:
            output.write_line({"type": "summary", "sessionId": found.session_id, "events": len(kept)})
    return int(Exit.OK)


def _print(found: list[tuple[int, Any]], common: Common, everything: bool) -> None:
    if common.ndjson:
        for seq, event in found:
            output.write_line({"type": "event", "seq": seq, "event": event})
    else:
        output.write_text(_lines(found, everything))
    sys.stdout.flush()


def _follow(store: Store, found: Found, seq: int, common: Common, everything: bool) -> None:
    """Until the process is interrupted."""
    from openclaw_cli.sessions import viewing

    session_id = found.session_id
    while True:
        time.sleep(FOLLOW_SECONDS)
        now = viewing.find(store, found.session_key) if found.current else None
        fresh = list(viewing.since(store, session_id, seq))
        if now is not None and now.session_id != session_id and not fresh:
            session_id, seq = now.session_id, -1
            output.note(f"{found.session_key} goes on with session {session_id}", common)
            continue
        if fresh:
            seq = fresh[-1][0]
            _print([(n, event) for n, event in fresh if everything or not _is_hidden(event)], common, everything)


def _positive(number: int) -> int:
    if number < 1:
        raise UsageError("--lines takes a number above 0")
    return number


@contextmanager
def _session(common: Common, config: Config, name: str) -> Iterator[tuple[Store, Target, Found]]:
    """The session that a key or an id means, in its open store. Raises `NotFoundError`."""
    from openclaw_cli.sessions import viewing
    from openclaw_cli.storage import connection

    for target, spelled in session_keys.candidates(common, config, name):
        if not target.sqlite_path.exists():
            continue
        with connection.open_read(target.sqlite_path, agent_id=target.agent_id) as store:
            found = viewing.find(store, spelled)
            if found is not None:
                yield store, target, found
                return
    raise NotFoundError(f"there is no session {escaped(name)}", hint="openclaw-cli sessions list --all-agents")
