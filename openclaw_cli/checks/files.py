"""Files beside a store: an index that stayed, transcripts that are not in the store, leftovers; and open runs."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from openclaw_cli import manifest
from openclaw_cli.checks import remedies
from openclaw_cli.checks.finding import Finding, Places
from openclaw_cli.checks.scope import Scope
from openclaw_cli.errors import OpenClawError, escaped
from openclaw_cli.migration import discovery
from openclaw_cli.migration.discovery import FileClass, Listing, Source
from openclaw_cli.migration.index import read_index
from openclaw_cli.storage.columns import integer
from openclaw_cli.storage.connection import Store

LEFT_BEHIND_MS = 300_000
"""A temporary file of this age belongs to nobody any more (cleanup §7.3)."""

_TEMPORARY = re.compile(r".+\.(tmp|stage|jsonl-stage|creating|part)")
_HAS_EVENTS = "SELECT 1 FROM transcript_events WHERE session_id = ? LIMIT 1"
_HAS_WINDOW = "SELECT 1 FROM session_windows WHERE session_id = ? LIMIT 1"


def stale_index(store: Store | None, scope: Scope) -> Iterator[Finding]:
    """`sessions.json` beside a database: OpenClaw imports it at each start, over newer rows (design §2.1)."""
    path = scope.target.store_path
    command = remedies.of(scope.agent_id, "import")
    if path.suffix != ".json" or not path.is_file():
        return
    if store is None:
        message = f"{path} is the index of a store that has no database yet"
        evidence = {"path": str(path), "bytes": path.stat().st_size}
        yield Finding("store_not_imported", "warning", message, None, evidence, "The import makes it", command)
        return
    index = read_index(path)
    counts = dict.fromkeys(("rows", "older", "newer", "unknown"), 0)
    sql = "SELECT updated_at FROM session_nodes WHERE current_session_id = ? AND entry_valid = 1"
    for row in index.entries:
        counts["rows"] += 1
        stored = store.value(sql, (row.session_id,))
        stated = integer(row.entry.get("updatedAt"))
        counts["unknown"] += stored is None
        counts["older"] += stored is not None and (stated or 0) < stored
        counts["newer"] += stored is not None and (stated or 0) > stored
    message = (
        f"{path} lies beside the database: OpenClaw imports it again at each start; {counts['older']} of its"
        f" {counts['rows']} row(s) are older than the stored ones"
    )
    evidence = {"path": str(path), "usable": index.usable, **counts}
    advice = "The import keeps whichever row is newer and archives the index"
    yield Finding("stale_index", "warning", message, None, evidence, advice, command)


def transcripts(store: Store | None, scope: Scope) -> Iterator[Finding]:
    """Transcripts beside the store, and artifacts that belong to no session."""
    listing = discovery.list_directory(scope.target.sessions_dir)
    beside, missing = Places(), Places()
    for source in listing.transcripts.values():
        known = store is not None and _is_stored(store, source)
        (beside if known else missing).add({"path": str(source.path), "bytes": source.size_bytes})
    if beside.count:
        message = (
            f"{scope.target.sessions_dir}: {beside.count} transcript(s) lie beside the store, which has their sessions"
        )
        advice = "recover compares them with the store: the same is archived, new turns are imported, others are named"
        command = remedies.of(scope.agent_id, "recover")
        evidence = beside.evidence("files")
        yield Finding("transcript_beside_store", "warning", message, None, evidence, advice, command)
    if missing.count and store is not None:
        message = f"{scope.target.sessions_dir}: {missing.count} transcript(s) whose session is not in the store"
        advice = "The import takes them in, as history where no row names them"
        command = remedies.of(scope.agent_id, "import")
        evidence = missing.evidence("files")
        yield Finding("transcript_not_imported", "warning", message, None, evidence, advice, command)
    yield from _orphans(store, scope, listing)


def runs(state_dir: Path) -> Iterator[Finding]:
    """Migration runs that did not end, and manifests that cannot be read."""
    for run in manifest.runs(state_dir):
        if isinstance(run, OpenClawError):
            message = f"{run.message}"
            yield Finding("manifest_invalid", "error", message, None, {}, "The runs beside it are still used")
        elif run.manifest.completed_at is None:
            failed = run.manifest.failed_at is not None
            message = f"{run.path}: the run {'failed' if failed else 'did not end'}"
            evidence = {"path": str(run.path), "runId": run.manifest.run_id, "failed": failed}
            advice = "recover finishes what it began and closes it"
            yield Finding("run_open", "warning", message, None, evidence, advice, remedies.recover_all())


def _is_stored(store: Store, source: Source) -> bool:
    ids = {discovery.id_in_name(source.name)}
    try:
        header = discovery.read_header(source.path)
    except OSError:
        header = discovery.Header("damaged")  # Its name is all that is known; the import says what is wrong with it.
    if header.session_id is not None:
        ids.add(header.session_id)
    return any(store.value(_HAS_EVENTS, (name,)) is not None for name in ids if escaped(name) == name)


def _orphans(store: Store | None, scope: Scope, listing: Listing) -> Iterator[Finding]:
    """Sidecars without their session, and temporary files that nobody writes any more; one finding for each class."""
    classes: dict[str, Places] = {}
    totals: dict[str, int] = {}

    def add(kind: str, source: Source) -> None:
        age_ms = max(0, scope.now_ms - source.mtime_ms)
        place: dict[str, Any] = {"path": str(source.path), "bytes": source.size_bytes, "ageMs": age_ms}
        classes.setdefault(kind, Places()).add(place)
        totals[kind] = totals.get(kind, 0) + source.size_bytes

    endings = {
        FileClass.TRAJECTORY: ".trajectory.jsonl",
        FileClass.POINTER: ".trajectory-path.json",
        FileClass.CHECKPOINT: ".checkpoint.",
    }
    for kind, ending in endings.items():
        for source in listing.files[kind].values():
            stem = source.name.split(ending, 1)[0]
            session_id = discovery.id_in_name(f"{stem}.jsonl")
            stored = store is not None and store.value(_HAS_WINDOW, (session_id,)) is not None
            if not stored and f"{stem}.jsonl" not in listing.transcripts:
                add(str(kind), source)
    for source in listing.files[FileClass.OTHER].values():
        if _TEMPORARY.fullmatch(source.name) and scope.now_ms - source.mtime_ms > LEFT_BEHIND_MS:
            add("temporary", source)
    for name, places in classes.items():
        message = f"{scope.target.sessions_dir}: {places.count} {name} file(s) of no session, {totals[name]} bytes"
        evidence = places.evidence("files", kind=name, bytes=totals[name])
        temporary = name == "temporary"
        advice = (
            "Nobody writes them any more; look at them, then remove them" if temporary else "They go to the archive"
        )
        command = None if temporary else remedies.of(scope.agent_id, "import")
        yield Finding("artifact_orphan", "warning", message, None, evidence, advice, command)
