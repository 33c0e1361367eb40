"""Cleaning up a store of the file era: `sessions.json` anew under its lock, removed transcripts as verified archives.

Order: every archive durable, then the index in one step, then the files whose content is archived. A run that is cut
leaves archives, or files that no row refers to any more; both are taken as they are by the next one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from openclaw_cli import archive
from openclaw_cli.durable import fsync_dir, replace_file, sha256_file
from openclaw_cli.errors import Issue, OpenClawError, RefusedError
from openclaw_cli.faults import Step, reached
from openclaw_cli.migration.discovery import Source
from openclaw_cli.retention import ageing, archiving, artifacts, budget, index_store, notes, pruning
from openclaw_cli.retention.ageing import Kept
from openclaw_cli.retention.applying import Applied
from openclaw_cli.retention.archiving import Part, Place
from openclaw_cli.retention.artifacts import Artifact
from openclaw_cli.retention.audit import Audit
from openclaw_cli.retention.budget import BUDGET, Kind, Spent, Taken
from openclaw_cli.retention.cleaning import Look, Measured, Options, measure
from openclaw_cli.retention.index_foreseeing import blocks, is_jsonl, victims
from openclaw_cli.retention.index_store import IndexStore
from openclaw_cli.retention.notes import Note
from openclaw_cli.retention.planning import Action, Decision


@dataclass(slots=True)
class _Leaving:
    """A row that goes, with the files that go with it and their archives."""

    decision: Decision
    sources: list[Source]
    parts: list[Part] = field(default_factory=list)


class IndexRun:
    """One run over one index. The caller holds the lock of the index and owns the state directory."""

    def __init__(self, store: IndexStore, options: Options, audit: Audit) -> None:
        self._store = store
        self._options = options
        self._audit = audit
        self._place = Place(options.archive_dir or store.target.sessions_dir)
        self.applied = Applied()

    def act(self, found: Look) -> Spent:
        """Carry the plan out, then the disk budget. Raises `RefusedError` when the index is no longer the one read."""
        taken = found.plan.taken()
        removed = [each for each in taken if each.action is Action.REMOVE]
        marks = {each.row.key: str(each.reason) for each in taken if each.action is Action.ARCHIVE}
        self._delete_aged(found.aged)
        self._remove(removed, marks)
        self.applied.done = [*(each for each in taken if each.action is Action.ARCHIVE), *removed]
        self._remove_orphans(found.orphans)
        return self._budget(found, marks)

    # --- rows -------------------------------------------------------------------------------------------------------

    def _remove(self, removed: Sequence[Decision], marks: dict[str, str]) -> None:
        if not removed and not marks:
            return
        keys = {each.row.key for each in removed}
        sole = self._store.sole_files(keys)
        leaving = [_Leaving(each, sole[each.row.key]) for each in removed]
        for one in leaving:
            self._archive(one)
        fsync_dir(self._place.directory)
        self._tell(leaving, marks)
        self._replace_index(keys, marks)
        for one in leaving:
            self.applied.parts.extend(one.parts)
            for source in one.sources:
                self._unlink(source)
        fsync_dir(self._store.target.sessions_dir)

    def _archive(self, one: _Leaving) -> None:
        """Archive a row's own files; where it has none, its entry alone."""
        row = one.decision.row
        entry = self._store.raw[row.key].raw.decode("utf-8", "surrogatepass")
        note = Note(row.key, row.session_id, self._store.target.agent_id, entry, {})
        for number, source in enumerate(one.sources):
            if source.path.name.endswith(".jsonl"):
                one.parts.append(self.archive_file(source.path, note if number == 0 else None))
        if not one.parts:
            one.parts.append(self._archive_entry(note))

    def archive_file(self, path: Path, note: Note | None) -> Part:
        """The archive of a file, made now or left by a run that was cut."""
        sha256 = archive.content_sha256(path)
        stem, kind, generation = _stem(path), _kind(path), sha256[:32]
        known = self._place.holding(f"{stem}.{kind}", generation, lambda: sha256, lambda has: note in (None, has))
        found = known or self._place.new(f"{stem}.{kind}", generation, self._options.now_ms)
        if known is None:
            text = None if note is None else notes.encode(note)
            archive.write(found, blocks(path), path.stat().st_size, note=text, sync_dir=False)
        if archive.content_sha256(found) != archive.content_sha256(path):
            raise RefusedError(f"{path} changed while it was archived; nothing was removed", hint="run again")
        reached(Step.ARCHIVE_WRITTEN)
        size = found.stat().st_size
        return Part(stem, kind, generation, found, sha256_file(found), size, reused=known is not None, count=1)

    def _archive_entry(self, note: Note) -> Part:
        generation = archiving.entry_generation(note)
        known = self._place.holding(
            f"{note.session_id}.jsonl", generation, lambda: archiving.EMPTY_SHA256, lambda has: has == note
        )
        path = known or self._place.new(f"{note.session_id}.jsonl", generation, self._options.now_ms)
        if known is None:
            archive.write(path, (), 0, note=notes.encode(note), sync_dir=False)
        size = path.stat().st_size
        return Part(note.session_id, "jsonl", generation, path, sha256_file(path), size, reused=known is not None)

    def _replace_index(self, keys: set[str], marks: dict[str, str]) -> None:
        path = self._store.target.store_path
        if sha256_file(path) != self._store.index.sha256:
            raise RefusedError(f"{path} changed since it was read; nothing was removed", hint="run again")
        replace_file(path, index_store.rewritten(self._store, keys, marks, self._options.now_ms))
        self._store.index.sha256 = sha256_file(path)
        for key in keys:
            del self._store.raw[key], self._store.files[key]
        reached(Step.CLEANUP_COMMITTED)

    def _tell(self, leaving: Sequence[_Leaving], marks: dict[str, str]) -> None:
        for key, reason in marks.items():
            self._audit.add("archived", key, self._store.raw[key].session_id, reason)
        for one in leaving:
            row, reason = one.decision.row, str(one.decision.reason)
            self._audit.add("removed", row.key, row.session_id, reason)
            for part in one.parts:
                self._audit.add("session-archived", row.key, part.session_id, reason, part)
        self._audit.flush()
        reached(Step.CLEANUP_AUDITED)

    def _unlink(self, source: Source) -> None:
        if source.linked is not None:
            message = f"{source.path} is archived and stays: it is a {source.linked}"
            self.applied.issues.append(Issue("artifact_linked", "warning", message))
            return
        try:
            source.path.unlink(missing_ok=True)
        except OSError as error:
            message = f"{source.path} cannot be removed: {error.strerror}; it is archived, and no row refers to it"
            self.applied.issues.append(Issue("artifact_kept", "error", message))
        reached(Step.ARTIFACT_REMOVED)

    # --- files ------------------------------------------------------------------------------------------------------

    def _delete_aged(self, found: Sequence[tuple[Kept, str | None]]) -> None:
        for one, sha256 in found:
            pruning.delete(None, one, sha256, ageing.RETENTION, self._audit)
            self.applied.removed_archives.append((one, sha256))

    def _remove_orphans(self, orphans: Sequence[tuple[Artifact, str]]) -> None:
        ready: list[Artifact] = []
        for file, reason in orphans:
            part = None
            try:
                if file.size_bytes and file.name.kind is not artifacts.Class.TEMPORARY and is_jsonl(file.path):
                    part = self.archive_file(file.path, None)
            except FileNotFoundError:
                continue  # Somebody else took it.
            except (OSError, OpenClawError) as error:
                message = f"{file.path} cannot be removed: {error}"
                self.applied.issues.append(Issue("artifact_kept", "error", message))
                continue
            ready.append(file)
            self._audit.add("artifact-removed", None, file.name.session_id, reason, part, path=file.path)
        fsync_dir(self._place.directory)
        self._audit.flush()
        for file in ready:
            file.path.unlink(missing_ok=True)
            reached(Step.ARTIFACT_REMOVED)
            self.applied.removed_files.append(file)

    # --- disk budget ------------------------------------------------------------------------------------------------

    def _budget(self, found: Look, marks: dict[str, str]) -> Spent:
        """Archives older than the grace, then rows of by-products, then rows that only the cap has archived."""
        before = self._measured()
        spent = Spent(before, before)
        high = self._options.settings.high_water_bytes
        if high is None or not budget.is_over(self._options, before):
            return spent
        files = index_store.listing(self._store.target)
        for one in ageing.spendable(ageing.kept(files, ()), self._options.now_ms - self._options.archive_grace_ms):
            if spent.after.total_bytes <= high:
                return spent
            sha256 = one.sha256()
            pruning.delete(None, one, sha256, BUDGET, self._audit)
            spent.taken.append(Taken(Kind.ARCHIVE, None, one.session_id, one.size_bytes, one.name, sha256))
            spent.after = self._measured()
        for row in victims(found, marks, self._options):
            if spent.after.total_bytes <= high:
                return spent
            size = sum(source.size_bytes for source in self._store.files.get(row.key, ()))
            self._remove([Decision(row, Action.REMOVE, BUDGET)], {})
            spent.taken.append(Taken(Kind.ROW, row.key, row.session_id, size))
            spent.after = self._measured()
        if spent.after.total_bytes > high:
            spent.issues.append(budget.unreached(self._store.target.store_path, spent, high))
        return spent

    def _measured(self) -> Measured:
        return measure(self._store.target, index_store.listing(self._store.target))


def _stem(path: Path) -> str:
    return path.name.removesuffix(".jsonl").removesuffix(".trajectory")


def _kind(path: Path) -> str:
    return "trajectory" if path.name.endswith(".trajectory.jsonl") else "jsonl"
