"""A store of the file era as maintenance sees it: rows of `sessions.json`, transcripts beside it (cleanup §1).

Only an index that is named itself comes here, and only where no database stands for it. The plan is the same; an entry
that cannot be judged is an issue and stays as it is.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from openclaw_cli import jsonl, jstext
from openclaw_cli.config import Target
from openclaw_cli.errors import Issue
from openclaw_cli.migration import discovery, entries, members
from openclaw_cli.migration import index as index_file
from openclaw_cli.migration.discovery import Listing, Source
from openclaw_cli.migration.index import Index, IndexEntry
from openclaw_cli.retention import ageing, artifacts, cleaning, reading, repairs
from openclaw_cli.retention.artifacts import Artifact
from openclaw_cli.retention.classify import Row, row_of
from openclaw_cli.retention.cleaning import Look, Options, measure
from openclaw_cli.retention.planning import Context, plan
from openclaw_cli.retention.reading import Rows


@dataclass(slots=True)
class IndexStore:
    """An index and what belongs to it. `raw`: key → the row as it is; `files`: key → its transcript and sidecars."""

    target: Target
    index: Index
    listing: Listing
    raw: dict[str, IndexEntry] = field(default_factory=dict)
    files: dict[str, list[Source]] = field(default_factory=dict)

    @property
    def names(self) -> set[str]:
        """Names of all files that some row refers to."""
        return {source.name for sources in self.files.values() for source in sources}

    def sole_files(self, keys: set[str]) -> dict[str, list[Source]]:
        """Of rows that go together: key → files that no other row refers to; each file once."""
        kept = {source.name for key, sources in self.files.items() if key not in keys for source in sources}
        found: dict[str, list[Source]] = {}
        for key in (key for key in self.files if key in keys):
            found[key] = [source for source in self.files[key] if source.name not in kept]
            kept |= {source.name for source in found[key]}
        return found


def open_index(target: Target) -> tuple[IndexStore, list[Issue]]:
    """Read an index with the files beside it; what is wrong with either is an issue."""
    index = index_file.read_index(target.store_path)
    listing = discovery.list_directory(target.sessions_dir)
    store = IndexStore(target, index, listing)
    for row in index.entries:
        store.raw[row.key] = row
        source = discovery.resolve({"sessionFile": row.session_file}, row.session_id, listing).source
        store.files[row.key] = [] if source is None else [source, *listing.sidecars(source.name)]
    return store, [*index.issues, *listing.issues]


def read(store: IndexStore, options: Options) -> Rows:
    """The rows of an index, each as the store that it will be migrated to would have it."""
    found = Rows(total=len(store.index.entries) + len(store.index.issues))
    rules, agent_id = options.rules, store.target.agent_id
    for key, row in store.raw.items():
        shaped = entries.normalise(
            row.entry, key=key, agent_id=agent_id, main_key=rules.main_key, now_ms=options.now_ms, scope=rules.scope,
            agents=rules.agents,
        )  # fmt: skip
        if shaped.entry is None:
            found.issues.extend(shaped.problems)
        elif shaped.key != key:
            message = (
                "the key is not in OpenClaw's spelling; the row stays as it is; openclaw-cli doctor import mends it"
            )
            found.issues.append(Issue("key_not_canonical", "warning", message, key))
        elif shaped.agent_id != agent_id:
            message = f"it is a key of another agent in the store of {agent_id}; the row stays as it is"
            found.issues.append(Issue("key_of_other_agent", "warning", message, key))
        elif is_withheld(key, shaped.entry):
            found.withheld += 1
        else:
            found.rows.append(row_of(key, shaped.entry))
            label = shaped.entry.get("label")
            if isinstance(label, str):
                found.labels[key] = label
    found.rows.sort(key=lambda row: row.key.encode("utf-8", "surrogatepass"))
    return found


def is_withheld(key: str, entry: Mapping[str, Any]) -> bool:
    """Rows that are never named or taken (design, invariant 9)."""
    internal = ":internal-session-effects:" in key
    return internal or entry.get("incognito") is True or entry.get("initializationPending") is True


def look(store: IndexStore, issues: list[Issue], options: Options) -> Look:
    """Read and decide; nothing is written."""
    rows = read(store, options)
    # The problems of the index itself are found again by nobody else.
    rows.issues[:0] = issues
    by_key = rows.by_key()
    active = reading.active_chain(by_key, options.active_key)
    context = Context(options.now_ms, active=active, stale_running=options.stale_running)

    def has_no_message(row: Row) -> bool:
        return not any(_has_message(source.path) for source in store.files[row.key][:1])

    first = cleaning.first(rows.rows, store.target.agent_id, active, options, has_no_message)
    made = plan(rows.rows, options.settings, context, list(first))

    def size_of(row: Row) -> int:
        return sum(source.size_bytes for source in store.files[row.key])

    made = options.filters.narrow(made, options.now_ms, size_of)
    sizes = {each.row.key: size_of(each.row) for each in made.taken()}
    files = listing(store.target)
    settings = options.settings
    orphans = artifacts.orphans(
        files, lambda: store.names, now_ms=options.now_ms, prune_after_ms=settings.prune_after_ms
    )
    aged = ageing.aged(
        ageing.kept(files, ()),
        now_ms=options.now_ms,
        retention_ms=settings.reset_archive_retention_ms,
        grace_ms=options.archive_grace_ms,
    )
    measured = measure(store.target, files)
    return Look(rows, made, sizes, files, orphans, measured, aged=[(one, one.sha256()) for one in aged])


def listing(target: Target) -> list[Artifact]:
    """The files beside an index, without the lock that a run holds itself."""
    index = target.store_path.name
    return [file for file in artifacts.listing(target.sessions_dir, index) if file.path.name != f"{index}.lock"]


def _has_message(path: Path) -> bool:
    """Whether a transcript has a message; one with damage in it is not known to have none."""
    tally = jsonl.Tally()
    with path.open("rb") as stream:
        records = jsonl.read(stream, file=path.name, policy=jsonl.Policy.IMPORT, tally=tally)
        return any(repairs.is_message(record.value) for record in records) or bool(tally.damage)


def rewritten(store: IndexStore, removed: Collection[str], marks: Mapping[str, str], now_ms: int) -> Iterator[bytes]:
    """The index without the rows of `removed` and with those of `marks` (key → reason) archived.

    Every other row keeps its text, also one that could not be judged. Raises OSError.
    """
    try:
        rows = list(_rows(store.target.store_path))
    except members.Undecided:
        document = jstext.parse(store.target.store_path.read_bytes().removeprefix(b"\xef\xbb\xbf"))
        rows = [(key, jstext.dumps(document[key])) for key in document]
    separator = b"{"
    for key, raw in rows:
        if key in removed:
            continue
        text = _marked(raw, marks[key], now_ms) if key in marks else raw
        yield b"".join((separator, b"\n  ", jstext.dumps(key), b": ", text))
        separator = b","
    yield b"{}\n" if separator == b"{" else b"\n}\n"


def _rows(path: Path) -> Iterator[tuple[str, bytes]]:
    with path.open("rb", buffering=0) as stream:
        for key, raw, _ in members.Members(stream).read():
            yield key, raw


def _marked(raw: bytes, reason: str, now_ms: int) -> bytes:
    entry = {name: value for name, value in jstext.parse(raw).items() if name not in ("archivedBy", "archiveReason")}
    return jstext.dumps({**entry, "archivedAt": now_ms, "archiveReason": reason})
