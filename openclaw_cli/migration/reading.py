"""One transcript on its way into the store: hashed, parsed and upgraded in a single pass of constant memory.

A dry run and an import read through the same class; only what they do with the events differs (design D4, D9).
"""

from __future__ import annotations

import hashlib
import itertools
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from openclaw_cli import jsonl
from openclaw_cli.durable import FileIdentity, SourceChangedError, fingerprint
from openclaw_cli.errors import Issue
from openclaw_cli.jstext import dumps, stringify
from openclaw_cli.migration import legacy_ids
from openclaw_cli.migration.discovery import Source
from openclaw_cli.migration.headers import is_header, new_header, with_header
from openclaw_cli.migration.parents import Parents
from openclaw_cli.storage.connection import Store
from openclaw_cli.transcript.rewrites import Repair, Rewrites, may_hold_rewrites, repaired
from openclaw_cli.transcript.upgrade import CURRENT_VERSION, Plan, Upgrader, id_prefix, plan

OnBytes = Callable[[int], None]


class Reading:
    """One pass over a transcript for one session.

    `events` is iterated once; then `tally`, `identity` and `header_missing` say what was met. `identity` is that of
    exactly the bytes that were parsed. Under the policy SALVAGE `parents` looks for breaks, and a header that was lost
    with the beginning of the file is made anew (`header_rebuilt`). `store` is asked for the ids that rows of version 1
    already have (`legacy_ids`). `original_dir`: where the file lay when it was imported first, if not where it is.
    """

    def __init__(
        self,
        source: Source,
        session_id: str,
        *,
        max_line_bytes: int,
        policy: jsonl.Policy = jsonl.Policy.IMPORT,
        on_bytes: OnBytes | None = None,
        store: Store | None = None,
        original_dir: Path | None = None,
    ) -> None:
        self.source = source
        self.session_id = session_id
        self.tally = jsonl.Tally(file=str(source.path))
        self.identity: FileIdentity | None = None
        self.header_missing = False
        self.header_rebuilt = False
        self.header_id: str | None = None
        self.offered = 0
        self.parents = Parents() if policy is jsonl.Policy.SALVAGE else None
        self._max_line_bytes = max_line_bytes
        self._policy = policy
        self._on_bytes = on_bytes
        self._store = store
        # Ids are made from the path without links, so that a directory that is reached in two ways gives them once.
        directory = os.path.realpath(source.path.parent) if original_dir is None else str(original_dir)
        self._original_path = os.path.join(directory, source.name)

    def events(self) -> Iterator[tuple[bytes, Any]]:
        """(JSON text as stored, parsed form) of every event; raises `SourceChangedError` when the file changes."""
        for _, text, value in self.located():
            yield text, value

    def located(self) -> Iterator[tuple[int, bytes, Any]]:
        """As `events`, with the line that each event came from."""
        with open(self.source.path, "rb", buffering=0) as stream:
            before = os.fstat(stream.fileno())
            hashed = _Hashed(stream)
            yield from self._upgraded(hashed)
            after = os.fstat(stream.fileno())
        if fingerprint(before) != fingerprint(after) or hashed.bytes != after.st_size:
            message = f"{self.source.path} changed while it was imported"
            raise SourceChangedError(message, hint="stop the program that writes it, then run again")
        digest = hashed.digest.hexdigest()
        self.identity = FileIdentity(after.st_dev, after.st_ino, after.st_mtime_ns, after.st_size, digest)

    def _upgraded(self, stream: _Hashed) -> Iterator[tuple[int, bytes, Any]]:
        records = self._records(stream, self.tally, self._on_bytes)
        first = next(records, None)
        if first is None:
            return
        found = self._plan(first)
        if self._lost_header(first, found):
            found = Plan(-1, CURRENT_VERSION) if _is_linked(first.value) else found
            header = new_header(self.session_id, first.value)
            self.header_rebuilt = True
            self.offered += 1
            yield self.tally.damage[0].line, dumps(header), header
        prefix = self._stored_prefix(found)
        upgrader = self._upgrader(found, prefix)
        self.header_missing = not upgrader.header_found and not self.header_rebuilt
        stated = first.value.get("id") if is_header(first.value) else None
        self.header_id = stated if isinstance(stated, str) else None
        rows = ((record, *upgrader.feed(record)) for record in itertools.chain((first,), records))
        for record, value, changed in repaired(rows, self._repair(found, prefix)):
            self.offered += 1
            if self.parents is not None:
                self.parents.add(record.line, value)
            yield record.line, dumps(value) if changed else stringify(record.raw, value), value

    def _lost_header(self, first: jsonl.Record, found: Plan) -> bool:
        """Whether a salvage has to make the header: the file has none, and its beginning is lost."""
        if self._policy is not jsonl.Policy.SALVAGE or found.header_index >= 0 or not self.tally.damage:
            return False
        damage = self.tally.damage[0]
        return damage.is_error and damage.byte_offset < first.offset

    def _plan(self, first: jsonl.Record) -> Plan:
        """Where the header is; only a file that does not begin with it has to be searched for it."""
        if is_header(first.value):
            return plan((first,))
        with open(self.source.path, "rb", buffering=0) as stream:
            return plan(self._records(stream, jsonl.Tally(), None))

    def _upgrader(self, found: Plan, prefix: str | None) -> Upgrader:
        return Upgrader(self._original_path, self.session_id, found, prefix=prefix)

    def _stored_prefix(self, found: Plan) -> str | None:
        """What the ids of the rows begin with in the store, when they came in from another path; else None."""
        if self._store is None or found.version >= 2:
            return None
        known = legacy_ids.stored_prefixes(self._store, self.session_id)
        if id_prefix(self._original_path, self.session_id) in known:
            return None
        for prefix in known:
            upgrader = self._upgrader(found, prefix)
            with open(self.source.path, "rb", buffering=0) as stream:
                rows = ((record.raw, *upgrader.feed(record)) for record in self._records(stream, jsonl.Tally(), None))
                texts = ((dumps(value) if changed else stringify(raw, value), value) for raw, value, changed in rows)
                if legacy_ids.holds(self._store, self.session_id, prefix, texts):
                    return prefix
        return None

    def _repair(self, found: Plan, prefix: str | None) -> Repair | None:
        """Rows of rewritten prompts, which the real import leaves out; a pass of its own for the rare file with one."""
        if not may_hold_rewrites(self.source.path):
            return None
        upgrader = self._upgrader(found, prefix)
        search = Rewrites()
        with open(self.source.path, "rb", buffering=0) as stream:
            for position, record in enumerate(self._records(stream, jsonl.Tally(), None)):
                search.feed(position, upgrader.feed(record)[0])
        return search.repair()

    def _records(self, stream: Any, tally: jsonl.Tally, on_bytes: OnBytes | None) -> Iterator[jsonl.Record]:
        records = jsonl.read(
            stream,
            file=str(self.source.path),
            policy=self._policy,
            tally=tally,
            max_line_bytes=self._max_line_bytes,
            on_bytes=on_bytes,
        )
        return with_header(records, tally, self.source.path)

    def issues(self, session_key: str | None) -> list[Issue]:
        """What the pass found, for the report."""
        found = []
        tally = self.tally
        if tally.damage or tally.damage_omitted:
            found.append(_damage_issue(tally, session_key, self._policy))
        if self.header_rebuilt:
            message = f"{self.source.path}: its header is lost; one was made from the session id and the first time"
            found.append(Issue("header_rebuilt", "warning", message, session_key))
        if self.parents is not None:
            found.extend(self.parents.issues(str(self.source.path), session_key))
        if self.header_missing:
            message = (
                f"{self.source.path} has no session header; its entries got new ids, as the real import gives them."
                " The real runtime does not open such a transcript; a session header put before its first line, before"
                " it is imported, helps"
            )
            found.append(Issue("header_missing", "warning", message, session_key))
        if self.header_id is not None and self.header_id != self.session_id:
            message = (
                f"{self.source.path}: its header names session {self.header_id}, the index {self.session_id}; the"
                " index decides"
            )
            found.append(Issue("header_id_rewritten", "warning", message, session_key))
        return found


class SidecarReading:
    """One pass over a trajectory sidecar: damaged lines are passed over, since the file stays whole in the archive."""

    def __init__(self, source: Source, max_line_bytes: int) -> None:
        self.tally = jsonl.Tally(file=str(source.path))
        self._source = source
        self._max_line_bytes = max_line_bytes

    def rows(self) -> Iterator[tuple[bytes, Any]]:
        """(JSON text, parsed form) of every usable line."""
        with open(self._source.path, "rb", buffering=0) as stream:
            records = jsonl.read(
                stream,
                file=str(self._source.path),
                policy=jsonl.Policy.SCAN,
                tally=self.tally,
                max_line_bytes=self._max_line_bytes,
            )
            for record in records:
                yield stringify(record.raw, record.value), record.value

    def issues(self, session_key: str | None) -> list[Issue]:
        """The damage, as a warning: no part of a conversation is in these files."""
        if not self.tally.damage:
            return []
        message = f"{self._source.path}: {len(self.tally.damage)} damaged line(s) were left out of the trajectory"
        facts = {"damage": [damage.as_json() for damage in self.tally.damage[:10]]}
        return [Issue("trajectory_malformed", "warning", message, session_key, facts)]


class _Hashed:
    """A reader that hashes what goes through it, so that the file is read once."""

    __slots__ = ("_read", "bytes", "digest")

    def __init__(self, stream: Any) -> None:
        self._read = stream.read
        self.digest = hashlib.sha256()
        self.bytes = 0

    def read(self, size: int) -> bytes:
        """As a raw stream's read."""
        block: bytes = self._read(size)
        self.bytes += len(block)
        self.digest.update(block)
        return block


def lines_of(
    source: Source, session_id: str, positions: set[int], ids: set[str], max_line_bytes: int, policy: jsonl.Policy
) -> dict[Any, int]:
    """Lines of the events at `positions` and of the first event of each of `ids`; a second pass, for messages only."""
    reading = Reading(source, session_id, max_line_bytes=max_line_bytes, policy=policy)
    lines: dict[Any, int] = {}
    for position, (line, _, value) in enumerate(reading.located()):
        if position in positions:
            lines[position] = line
        event_id = value.get("id") if isinstance(value, dict) else None
        if isinstance(event_id, str) and event_id.strip() in ids:
            lines.setdefault(event_id.strip(), line)
    return lines


def _is_linked(value: object) -> bool:
    """Whether a row has the links of versions 2 to 4, so that a missing header does not make it one of version 1."""
    return isinstance(value, dict) and isinstance(value.get("id"), str) and "parentId" in value


def _damage_issue(tally: jsonl.Tally, session_key: str | None, policy: jsonl.Policy) -> Issue:
    kinds = ", ".join(sorted({str(damage.kind) for damage in tally.damage}))
    stopped = f"; the import of this session ends at line {tally.stopped_at}" if tally.stopped_at else ""
    salvaged = policy is jsonl.Policy.SALVAGE
    lost = f"; {tally.lines_lost} lost, {tally.lines_salvageable} {'salvaged' if salvaged else 'salvageable'}"
    if not tally.has_errors and not (salvaged and tally.lines_salvageable):
        lost = ""
    if salvaged and any(damage.kind is jsonl.Kind.BAD_UTF8 for damage in tally.damage):
        lost += "; bytes that are no UTF-8 became U+FFFD"
    message = f"{tally.file}: damage ({kinds}){stopped}{lost}; the original stays whole in the archive"
    severity = "error" if tally.has_errors else "warning"
    facts = {"linesLost": tally.lines_lost, "linesSalvageable": tally.lines_salvageable}
    return Issue("transcript_malformed", severity, message, session_key, facts)
