"""What an older, file-based runtime will not see after a restore: sessions and turns that only the database holds."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from openclaw_cli.errors import Issue, OpenClawError
from openclaw_cli.migration import discovery, index
from openclaw_cli.migration.discovery import FileClass, Listing, Source
from openclaw_cli.sessions.listing import WITHHELD
from openclaw_cli.storage import connection

# Sequence numbers have no gaps: the highest one tells how many events there are without counting them.
_WINDOWS = (
    "SELECT session_key, session_id, coalesce(transcript_updated_at, 0),"
    " (SELECT coalesce(max(seq) + 1, 0) FROM transcript_events e WHERE e.session_id = w.session_id)"
    " FROM session_windows w"
    f" WHERE session_key NOT IN (SELECT session_key FROM session_nodes WHERE {WITHHELD})"
    " ORDER BY session_key, session_id"
)


@dataclass(slots=True)
class Remaining:
    """`only`: sessions without index row and transcript. `newer`: sessions whose stored turns go on after the file."""

    only: list[dict[str, Any]] = field(default_factory=list)
    newer: list[dict[str, Any]] = field(default_factory=list)
    sqlite_entries: int = 0
    issues: list[Issue] = field(default_factory=list)


def remaining(sqlite_path: Path, index_path: Path, files: Mapping[str, Source]) -> Remaining:
    """Compare a database with the index and the files that will be there; a database that is missing has nothing.

    `files`: what the sessions directory holds after the restore, by name; times are those that the imports recorded.
    Internal, incognito and unfinished sessions are left out.
    """
    result = Remaining()
    if not sqlite_path.exists():
        return result
    listing = Listing(sqlite_path.parent)
    for name, source in files.items():
        listing.files[discovery.classify(name)][name] = source
    indexed, transcripts = _visible(index_path, listing)
    try:
        with connection.open_read(sqlite_path) as store:
            result.issues.extend(store.issues)
            result.sqlite_entries = int(store.value("SELECT count(*) FROM session_nodes WHERE entry_valid = 1"))
            for key, session_id, updated_ms, events in store.execute(_WINDOWS):
                _judge(
                    result, (key, session_id, updated_ms, events), session_id in indexed, transcripts.get(session_id)
                )
    except OpenClawError as error:
        # The restore itself does not need the database; who downgrades because it is damaged must be able to.
        result.issues.append(Issue("sqlite_read_failed", "error", error.message))
    return result


def _visible(index_path: Path, listing: Listing) -> tuple[set[str], dict[str, Source]]:
    """Session ids of the index, and session id → transcript by row or by name."""
    rows = index.read_index(index_path).entries
    transcripts = {discovery.id_in_name(name): source for name, source in listing.transcripts.items()}
    for row in rows:
        source = discovery.resolve(row.entry, row.session_id, listing).source
        if source is not None:
            transcripts[row.session_id] = source
    return {row.session_id for row in rows}, transcripts


def _judge(result: Remaining, row: tuple[Any, ...], indexed: bool, transcript: Source | None) -> None:
    key, session_id, updated_ms, events = row
    found = {"sessionKey": key, "sessionId": session_id, "events": events}
    if transcript is None and (not indexed or events):
        result.only.append(found)
    elif transcript is not None and events and updated_ms > transcript.mtime_ms:
        result.newer.append(found)


def directory_files(directory: Path) -> dict[str, Source]:
    """The regular files of a sessions directory by name."""
    listing = discovery.list_directory(directory)
    return {name: source for kind in FileClass for name, source in listing.files[kind].items()}
