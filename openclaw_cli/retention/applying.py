"""Carrying out a plan: rows are archived or removed, files that nobody refers to go (cleanup §7).

Invariant: content goes only after its archive is durable and was read back. Everything is asked again in the
transaction that writes: a row, a session or a reference that changed since the plan keeps the row. A run that is cut
leaves archives without a removal, which the next one takes as they are.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from openclaw_cli import archive, jstext
from openclaw_cli.config import Target
from openclaw_cli.durable import fsync_dir, sha256_file
from openclaw_cli.errors import Issue, OpenClawError, escaped
from openclaw_cli.faults import Step, reached
from openclaw_cli.retention import ageing, archiving, pruning
from openclaw_cli.retention.ageing import Kept
from openclaw_cli.retention.archiving import Part, Place
from openclaw_cli.retention.artifacts import Artifact, Class
from openclaw_cli.retention.audit import Audit
from openclaw_cli.retention.cleaning import Look, Options
from openclaw_cli.retention.notes import Note
from openclaw_cli.retention.planning import Action, Decision, Plan
from openclaw_cli.storage import removal, space
from openclaw_cli.storage.connection import Store
from openclaw_cli.storage.removal import References, Snapshot

BATCH_ROWS = 256
BATCH_BYTES = 8 * 2**20
BATCH_MARKS = 2_000
"""Most of what one transaction removes or marks: no lock is held for long, and a cut run archives little in vain."""

ANALYZE_FROM = 64
"""Deletions after which the planner's statistics are brought up to date."""


@dataclass(slots=True)
class Applied:
    """What was really done. `done`: decisions that were carried out; `parts`: archives that were written or found."""

    done: list[Decision] = field(default_factory=list)
    parts: list[Part] = field(default_factory=list)
    removed_files: list[Artifact] = field(default_factory=list)
    removed_archives: list[tuple[Kept, str | None]] = field(default_factory=list)
    issues: list[Issue] = field(default_factory=list)

    def counts(self) -> dict[str, int]:
        """OpenClaw's counters of what was done."""
        return Plan(self.done).counts()


def act(
    store: Store, target: Target, found: Look, options: Options, audit: Audit, applied: Applied | None = None
) -> Run:
    """Carry out what `look` decided. The caller owns the state directory, or works under SQLite's locks alone.

    Raises what stops the store as a whole; what was done before stays done, is in the audit and in `applied`.
    """
    space.prepare_load(store)
    run = Run(store, target, options, audit)
    run.applied = applied or run.applied
    run.judged_at = found.version
    marked = [each for each in found.plan.taken() if each.action is Action.ARCHIVE]
    for start in range(0, len(marked), BATCH_MARKS):
        run.archive_rows(marked[start : start + BATCH_MARKS], found.version)
    for batch in _batches([each for each in found.plan.taken() if each.action is Action.REMOVE], found.sizes):
        run.remove(batch)
    if sum(each.action is Action.REMOVE for each in run.applied.done) >= ANALYZE_FROM:
        removal.analyze(store)
    run.delete_aged(found.aged)
    run.remove_orphans(found.orphans)
    if options.vacuum:
        space.merge_search(store)
        space.checkpoint(store, "PASSIVE")
        space.incremental_vacuum(store)
    # What this run has written would count for the budget twice, in the log and in the file.
    space.checkpoint(store, "TRUNCATE")
    return run


def _batches(decisions: Sequence[Decision], sizes: dict[str, int]) -> Iterator[list[Decision]]:
    batch: list[Decision] = []
    size_bytes = 0
    for each in decisions:
        size = sizes.get(each.row.key, 0)
        if batch and (len(batch) >= BATCH_ROWS or size_bytes + size > BATCH_BYTES):
            yield batch
            batch, size_bytes = [], 0
        batch.append(each)
        size_bytes += size
    if batch:
        yield batch


@dataclass(slots=True)
class _Victim:
    """A row with its entry as it stands, and the sessions that go with it; `is_whole`: everything that it has."""

    decision: Decision
    text: str
    sessions: list[Snapshot]
    is_whole: bool = False
    parts: list[Part] = field(default_factory=list)


class Run:
    """The writing half of one store: every change is asked again, archived, committed and told to the audit."""

    def __init__(self, store: Store, target: Target, options: Options, audit: Audit) -> None:
        self._store = store
        self._target = target
        self._options = options
        self._audit = audit
        self._references = References(store)
        self.applied = Applied()
        # The version of the store's content when the rows were judged; with another one each is judged again.
        self.judged_at = -1

    @cached_property
    def _place(self) -> Place:
        return Place(self._options.archive_dir or self._target.sessions_dir)

    def _archive(self, found: Snapshot, entry: str | None = None) -> list[Part]:
        """Archive a session; `entry`: the row's, which goes with its current session."""
        generation = found.generation or _generation(found)
        window = removal.window_values(self._store, found.session_id)
        note = Note(found.session_key, found.session_id, self._target.agent_id, entry, window)
        return archiving.write_parts(self._store, found, self._place, generation, self._options.now_ms, note)

    def archive_rows(self, decisions: Sequence[Decision], version: int) -> None:
        """Mark rows as archived, in one transaction; their sessions stay where they are.

        `version`: of the store when it was judged; where it is the same still, no row needs to be judged again.
        """
        if not decisions:
            return
        done: list[Decision] = []
        with self._store.transaction():
            same = self._store.value("PRAGMA data_version") == version
            found = removal.entries_of(self._store, [each.row.key for each in decisions])
            marked: list[tuple[str, dict[str, Any], str]] = []
            for each in decisions:
                entry = found.get(each.row.key)
                if entry is None or "archivedAt" in entry or not (same or self._as_planned(each, entry)):
                    self._changed(each)
                    continue
                marked.append((each.row.key, entry, each.reason))
                done.append(each)
                self._audit.add("archived", each.row.key, each.row.session_id, each.reason)
            removal.archive_entries(self._store, marked, self._options.now_ms)
            self._audit.flush()
            reached(Step.CLEANUP_AUDITED)
        reached(Step.CLEANUP_COMMITTED)
        self.applied.done.extend(done)

    def remove(self, batch: Sequence[Decision]) -> None:
        """Archive the sessions of a batch of rows, then delete them in one transaction."""
        version = self._version()
        self._references.refresh()
        keys = {each.row.key for each in batch}
        as_judged = version == self.judged_at
        victims = [victim for each in batch if (victim := self._victim(each, keys, as_judged)) is not None]
        for victim in victims:
            ids = [found.session_id for found in victim.sessions]
            noted = victim.decision.row.session_id if victim.decision.row.session_id in ids else next(iter(ids), None)
            for found in victim.sessions:
                victim.parts += self._archive(found, victim.text if found.session_id == noted else None)
            if noted is None:
                # Its session stays with another row: the entry alone goes, under a name that is no session's.
                key = victim.decision.row.key
                name = f"key-{hashlib.sha256(key.encode('utf-8', 'surrogatepass')).hexdigest()[:32]}"
                victim.parts += self._archive(Snapshot(name, key, None, None, None, None, None, 0), victim.text)
        fsync_dir(self._place.directory)
        gone: list[_Victim] = []
        with self._store.transaction():
            self._references.refresh()
            unchanged = self._version() == version
            for victim in victims:
                if unchanged or self._is_as_it_was(victim, keys):
                    # A session that somebody has begun since has no archive: the whole may go only where nobody has.
                    self._delete(victim, keys, whole=victim.is_whole and unchanged)
                    gone.append(victim)
                else:
                    self._changed(victim.decision)
            self._tell(gone)
        reached(Step.CLEANUP_COMMITTED)
        self._references.forget_all([victim.decision.row.key for victim in gone])
        for victim in gone:
            self.applied.done.append(victim.decision)
            self.applied.parts.extend(victim.parts)

    def remove_one(self, decision: Decision) -> int | None:
        """Remove a single row; gives the bytes of its sessions, None where it has to stay."""
        size_bytes = removal.key_bytes(self._store, decision.row.key)
        before = len(self.applied.done)
        self.remove([decision])
        if len(self.applied.done) == before:
            return None
        # The disk budget counts its own; OpenClaw's counters are those of the plan.
        self.applied.done.pop()
        return size_bytes

    def remove_history(self, session_id: str, reason: str, released: Collection[str]) -> int | None:
        """Archive one session that no key goes on with, and delete it; gives its bytes, None where it has to stay.

        `released`: archived keys whose history may go.
        """
        found = removal.snapshot(self._store, session_id)
        self._references.refresh()
        if found is None or self._references.is_referenced(session_id, (), released):
            return None
        size_bytes = removal.size_bytes(self._store, [session_id])
        parts = self._archive(found)
        fsync_dir(self._place.directory)
        with self._store.transaction():
            self._references.refresh()
            changed = removal.snapshot(self._store, session_id) != found
            if changed or self._references.is_referenced(session_id, (), released):
                return None
            for part in parts:
                if self._options.archive_dir is None:
                    archiving.record(self._store, part, found.session_key, self._options.now_ms)
            removal.delete_session(self._store, session_id)
            for part in parts:
                self._audit.add("session-archived", found.session_key, session_id, reason, part)
            self._audit.add("history-removed", found.session_key, session_id, reason)
            self._audit.flush()
            reached(Step.CLEANUP_AUDITED)
        reached(Step.CLEANUP_COMMITTED)
        self.applied.parts.extend(parts)
        return size_bytes

    def delete_archive(self, one: Kept, sha256: str | None, reason: str) -> None:
        """Delete an archive, row and file; in the audit before."""
        pruning.delete(self._store, one, sha256, reason, self._audit)

    def delete_aged(self, found: Sequence[tuple[Kept, str | None]]) -> None:
        """Delete archives that are past their retention; each with its SHA-256."""
        for one, sha256 in found:
            try:
                self.delete_archive(one, sha256, ageing.RETENTION)
            except OSError as error:
                message = f"the archive {escaped(one.name)} cannot be removed: {error.strerror}"
                self.applied.issues.append(Issue("archive_kept", "error", message, facts={"name": escaped(one.name)}))
                continue
            self.applied.removed_archives.append((one, sha256))

    def _tell(self, gone: Sequence[_Victim]) -> None:
        """Write the audit before the commit: a removal that nothing tells of would be worse than a line too many."""
        for victim in gone:
            row, reason = victim.decision.row, victim.decision.reason
            self._audit.add("removed", row.key, row.session_id, reason)
            for part in victim.parts:
                self._audit.add("session-archived", row.key, part.session_id, reason, part)
        self._audit.flush()
        reached(Step.CLEANUP_AUDITED)

    def _victim(self, decision: Decision, keys: set[str], as_judged: bool) -> _Victim | None:
        key = decision.row.key
        sql = "SELECT entry_json FROM session_nodes WHERE session_key = ?"
        text = self._store.value(sql, (key,))
        if text is None or not (as_judged or self._is_as_planned(decision, text)):
            self._changed(decision)
            return None
        found = []
        ids = removal.windows_of(self._store, key)
        for session_id in ids:
            if not self._references.is_referenced(session_id, keys):
                snapshot = removal.snapshot(self._store, session_id)
                if snapshot is not None:
                    found.append(snapshot)
        return _Victim(decision, text, found, decision.row.session_id in ids and len(found) == len(ids))

    def _version(self) -> int:
        """Of the store's content: while it is the same no other connection has committed anything."""
        version: int = self._store.value("PRAGMA data_version")
        return version

    def _is_as_it_was(self, victim: _Victim, keys: set[str]) -> bool:
        """Whether a row is the one that was judged, and its sessions those that were archived; in the transaction.

        The row may have changed before it was read for its archive, so that the text alone tells nothing.
        """
        sql = "SELECT entry_json FROM session_nodes WHERE session_key = ?"
        if self._store.value(sql, (victim.decision.row.key,)) != victim.text:
            return False
        return self._is_as_planned(victim.decision, victim.text) and all(
            removal.snapshot(self._store, each.session_id) == each
            and not self._references.is_referenced(each.session_id, keys)
            for each in victim.sessions
        )

    def _delete(self, victim: _Victim, keys: set[str], *, whole: bool) -> None:
        """Delete a row and its sessions; inside the transaction."""
        key, store = victim.decision.row.key, self._store
        for part in victim.parts:
            if self._options.archive_dir is None:
                archiving.record(store, part, key, self._options.now_ms)
        if whole:
            removal.delete_whole(store, key, [each.session_id for each in victim.sessions])
            return
        for each in victim.sessions:
            removal.delete_session(store, each.session_id)
        removal.delete_key(store, key, self._references, keys)

    def _is_as_planned(self, decision: Decision, text: str) -> bool:
        entry = jstext.parse(text.encode("utf-8"))
        return isinstance(entry, dict) and self._as_planned(decision, entry)

    def _as_planned(self, decision: Decision, entry: dict[str, Any]) -> bool:
        """Whether the row is still the one that was judged: nobody used it and no run of it goes on."""
        from openclaw_cli.retention.classify import row_of

        return row_of(decision.row.key, entry) == decision.row

    def _changed(self, decision: Decision) -> None:
        message = "the row changed while the plan was carried out; it stays, the next run judges it anew"
        self.applied.issues.append(Issue("row_changed", "warning", message, decision.row.key))

    def remove_orphans(self, orphans: Sequence[tuple[Artifact, str]]) -> None:
        """Remove files that nobody refers to; those with history in them are archived first (design 2.1)."""
        ready: list[Artifact] = []
        for file, reason in orphans:
            try:
                kept = self._archived_orphan(file)
            except FileNotFoundError:
                continue  # Somebody else took it.
            except (OSError, OpenClawError) as error:
                self._stays(file, error)
                continue
            ready.append(file)
            self._audit.add("artifact-removed", None, file.name.session_id, reason, kept, path=file.path)
        self._audit.flush()
        for file in ready:
            try:
                file.path.unlink(missing_ok=True)
            except OSError as error:
                self._stays(file, error)
                continue
            reached(Step.ARTIFACT_REMOVED)
            self.applied.removed_files.append(file)

    def _stays(self, file: Artifact, error: Exception) -> None:
        message = f"{file.path} cannot be removed: {error}"
        self.applied.issues.append(Issue("artifact_kept", "error", message, facts={"path": str(file.path)}))

    def _archived_orphan(self, file: Artifact) -> Part | None:
        if file.size_bytes == 0 or file.name.kind is Class.TEMPORARY or not file.path.name.endswith(".jsonl"):
            return None
        sha256 = archive.content_sha256(file.path)
        stem, generation = file.path.name.removesuffix(".jsonl"), sha256[:32]
        known = self._place.holding(f"{stem}.jsonl", generation, lambda: sha256)
        path = known or self._place.new(f"{stem}.jsonl", generation, self._options.now_ms)
        if known is None:
            archive.write(path, _blocks(file.path), file.size_bytes)
        return Part(stem, "jsonl", generation, path, sha256_file(path), path.stat().st_size, reused=known is not None)


def _blocks(path: Path) -> Iterator[bytes]:
    with path.open("rb", buffering=0) as stream:
        while block := stream.read(1 << 20):
            yield block


def _generation(found: Snapshot) -> str:
    """A name for a past that has none, the same at each run, so that an archive of a cut run is found again."""
    return hashlib.sha256(f"{found.session_key}\0{found.session_id}".encode("utf-8", "surrogatepass")).hexdigest()[:32]
