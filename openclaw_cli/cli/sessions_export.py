"""`sessions export` and `sessions search`."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from openclaw_cli.cli import options, output, ownership, session_keys, streams
from openclaw_cli.cli.options import Common
from openclaw_cli.config import Config, Target
from openclaw_cli.errors import Exit, NotFoundError, RefusedError, UsageError, escaped

if TYPE_CHECKING:
    from openclaw_cli.sessions.searching import Hit

FORMATS = ("jsonl", "markdown")


def register(members: typer.Typer) -> None:
    """Add the commands to the group."""
    options.command(
        members,
        "export",
        example=(
            "openclaw-cli sessions export agent:main:main --format markdown --redact > main.md",
            "openclaw-cli sessions export agent:main:main --generations --output exported/",
        ),
        exits=(Exit.OK, Exit.NOT_FOUND, Exit.REFUSED, Exit.CORRUPT),
        without=("ndjson", "all_agents", "dry_run", "wait"),
    )(export)
    options.command(
        members,
        "search",
        example=(
            "openclaw-cli sessions search 'port 8443' --all-agents",
            "openclaw-cli sessions search migration --archives --json | jq '.hits[].sessionKey'",
        ),
        exits=(Exit.OK, Exit.ISSUES, Exit.NOT_FOUND, Exit.CORRUPT),
        without=("dry_run", "wait"),
    )(search)


@dataclass(frozen=True, slots=True)
class _Text:
    """One session to write: its lines, and how its file is called."""

    title: str
    stem: str
    lines: Iterator[bytes]


def export(
    common: Common,
    name: Annotated[
        list[str], typer.Argument(metavar="KEY|ID|ARCHIVE...", help="Key, session id, or path of an archive.")
    ],
    format: Annotated[str, typer.Option("--format", metavar="jsonl|markdown", help="What to write.")] = "jsonl",
    out: Annotated[
        str | None,
        typer.Option("--output", "-o", metavar="PATH", help="A new file, or a directory; without it stdout."),
    ] = None,
    generations: Annotated[
        bool, typer.Option("--generations", help="Every session of a key, not only the present one.")
    ] = False,
    redact: Annotated[
        bool, typer.Option("--redact", help="Take out what looks like keys, passwords, addresses.")
    ] = False,
    everything: Annotated[bool, typer.Option("--all", help="Markdown with what is not for display, too.")] = False,
) -> int:
    """Write sessions as JSONL, event by event as they are stored, or as Markdown for people.

    Sessions in archives and cold files are read like the others. A file that is there is never written over. --redact
    replaces what looks like a secret by its kind, in every text; it helps, and promises nothing.
    """
    if format not in FORMATS:
        raise UsageError(f"--format takes jsonl or markdown, not {format!r}")
    config = common.config()
    ownership.judge_remote(common, config, writes=False)
    place = None if out is None else Path(out).expanduser()
    as_directory = place is not None and (place.is_dir() or str(out).endswith("/"))
    if not as_directory and (len(name) > 1 or generations):
        raise UsageError("several sessions need a directory", hint="--output DIR/")
    written: list[dict[str, Any]] = []
    for each in name:
        for text in _texts(common, config, each, generations):
            pieces = _pieces(text, format, redact, everything)
            written.append(_write(text, pieces, place, as_directory, format))
    if common.json and place is not None:
        output.write_document({"format": format, "redacted": redact, "files": written})
    elif place is not None:
        output.write_text(f"{one['path']}: {one['bytes']} bytes" for one in written)
    return int(Exit.OK)


def _pieces(text: _Text, format: str, redact: bool, everything: bool) -> Iterator[bytes]:
    from openclaw_cli.jstext import dumps
    from openclaw_cli.sessions import redacting, rendering, viewing

    if format == "jsonl":
        for line in text.lines:
            if redact:
                event = viewing.parsed(line)
                # What is no JSON cannot be read for its texts; as a whole it can.
                line = (
                    redacting.redacted(line.decode("utf-8", "replace")).encode()
                    if event is None
                    else dumps(redacting.redacted_value(event))
                )
            yield line + b"\n"
        return
    events = (viewing.parsed(line) for line in text.lines)
    if redact:
        events = (redacting.redacted_value(event) for event in events)
    title = redacting.redacted(text.title) if redact else text.title
    for piece in rendering.markdown(events, title, everything=everything):
        yield piece.encode("utf-8", "replace")


def _write(text: _Text, pieces: Iterator[bytes], place: Path | None, as_directory: bool, format: str) -> dict[str, Any]:
    from openclaw_cli.durable import make_dirs, new_file

    if place is None:
        streams.begin_document()
        size = 0
        for piece in pieces:
            sys.stdout.buffer.write(piece)
            size += len(piece)
        return {"path": None, "bytes": size}
    path = place
    if as_directory:
        path = place / f"{text.stem}.{'md' if format == 'markdown' else 'jsonl'}"
    try:
        make_dirs(path.absolute().parent)
        with new_file(path.absolute()) as building:
            building.write(pieces)
            building.publish()
    except FileExistsError as error:
        raise RefusedError(f"{path} is there already", hint="name another file, or move that one away") from error
    except OSError as error:
        raise RefusedError(f"{path} cannot be written: {error.strerror}", hint="name another file") from error
    return {"path": str(path), "bytes": path.stat().st_size}


def _texts(common: Common, config: Config, name: str, generations: bool) -> Iterator[_Text]:
    """The sessions that a name means. Raises `NotFoundError`."""
    from openclaw_cli.sessions import viewing
    from openclaw_cli.storage import connection

    path = Path(name).expanduser()
    if path.is_file():
        with _archived(path) as lines:
            yield _Text(path.name, path.name.split(".jsonl")[0], lines)
        return
    for target, spelled in session_keys.candidates(common, config, name):
        if not target.sqlite_path.exists():
            continue
        with connection.open_read(target.sqlite_path, agent_id=target.agent_id) as store:
            found = viewing.find(store, spelled)
            if found is None:
                continue
            every = viewing.generations(store, found.session_key) if generations else []
            for session_id in [one.session_id for one in every] or [found.session_id]:
                lines = viewing.lines(store, session_id, target.sessions_dir)
                yield _Text(f"{found.session_key} ({session_id})", session_id, lines)
            return
    archived = _in_archives(common, config, name)
    if archived is None:
        raise NotFoundError(f"there is no session {escaped(name)}", hint="openclaw-cli sessions list --all-agents")
    with _archived(archived) as lines:
        yield _Text(f"{name} ({archived.name})", archived.name.split(".jsonl")[0], lines)


@contextmanager
def _archived(path: Path) -> Iterator[Iterator[bytes]]:
    from openclaw_cli import archive

    with archive.open_stream(path) as stream:
        yield (line.removesuffix(b"\n") for line in stream)


def _in_archives(common: Common, config: Config, name: str) -> Path | None:
    """The newest archived transcript of a key or an id that no store has."""
    from openclaw_cli.retention import catalogue

    told = catalogue.told_by_audit(common.state_dir)
    found = catalogue.find(session_keys.every(common, config), catalogue.directories_of(told), told)
    usable = [one for one in found if one.kind == "jsonl" and one.path and name in (one.session_key, one.session_id)]
    return max(usable, key=lambda one: one.kept.made_ms).path if usable else None


def search(
    common: Common,
    query: Annotated[str, typer.Argument(metavar="WORDS", help="Words that a message must have, all of them.")],
    key: Annotated[
        list[str] | None, typer.Option("--key", metavar="KEY", help="Only this key and its history; repeatable.")
    ] = None,
    archives: Annotated[
        bool, typer.Option("--archives", help="Also in archives of removed sessions, by reading them.")
    ] = False,
    limit: Annotated[int, typer.Option("--limit", metavar="N", help="Hits of each store at most.")] = 20,
) -> int:
    """Search what users and agents said, in every session of a key, the history included.

    All words must be there, in any order; case and accents do not matter. A store is searched by its index, the best
    hits first; archives are read from their beginning, the newest first.
    """
    from openclaw_cli.sessions import searching

    words = searching.words_of(query)
    if not words:
        raise UsageError("there is no word to search for")
    if limit < 1:
        raise UsageError("--limit takes a number above 0")
    config = common.config()
    ownership.judge_remote(common, config, writes=False)
    targets = session_keys.every(common, config) if key and not common.all_agents else common.targets(config)
    keys = [session_keys.named(common, config, each)[1] for each in key or ()]
    hits = [*_stored(targets, words, keys, limit)]
    if archives:
        hits.extend(_archived_hits(common, targets, words, keys, limit))
    if common.ndjson:
        for hit in hits:
            output.write_line({"type": "hit", **hit.as_json()})
        output.write_line({"type": "summary", "hits": len(hits)})
    else:
        output.emit({"query": query, "hits": [hit.as_json() for hit in hits]}, lambda: _hit_text(hits), common)
    return int(Exit.OK)


def _stored(targets: Sequence[Target], words: Sequence[str], keys: Sequence[str], limit: int) -> Iterator[Hit]:
    from openclaw_cli.sessions import searching
    from openclaw_cli.storage import connection

    for target in targets:
        if target.sqlite_path.exists():
            with connection.open_read(target.sqlite_path, agent_id=target.agent_id) as store:
                yield from searching.in_store(store, target.agent_id, words, keys, limit)


def _archived_hits(
    common: Common, targets: Sequence[Target], words: Sequence[str], keys: Sequence[str], limit: int
) -> Iterator[Hit]:
    from itertools import islice

    from openclaw_cli import archive
    from openclaw_cli.retention import catalogue
    from openclaw_cli.sessions import searching

    told = catalogue.told_by_audit(common.state_dir)
    found = [one for one in catalogue.find(targets, catalogue.directories_of(told), told) if one.kind == "jsonl"]
    left = limit
    for one in sorted(found, key=lambda one: one.kept.made_ms, reverse=True):
        if left and one.path is not None and (not keys or one.session_key in keys):
            with archive.open_stream(one.path) as stream:
                hits = searching.in_archive(stream, words, one.agent_id, one.session_key, one.session_id, str(one.path))
                for hit in islice(hits, left):
                    left -= 1
                    yield hit


def _hit_text(hits: Sequence[Hit]) -> Iterator[str]:
    from openclaw_cli.sessions.rendering import Shown

    for hit in hits:
        where = hit.session_key or hit.session_id
        kind = "archive" if hit.archive else "now" if hit.current else "history"
        clock = Shown("", "", hit.time_ms).clock()
        yield f"{where} ({kind}, session {hit.session_id})"
        yield f"  {clock} {hit.role:9} {hit.snippet}"
    yield f"{len(hits)} hit(s)"
