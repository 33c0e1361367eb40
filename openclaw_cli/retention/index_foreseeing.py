"""What a cleanup of a file-era store would leave on the disk, to the byte, for a preview of the disk budget."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from openclaw_cli import archive
from openclaw_cli.migration.discovery import Source
from openclaw_cli.retention import ageing, budget, classify, index_store, notes, reading
from openclaw_cli.retention.budget import Kind, Spent, Taken
from openclaw_cli.retention.classify import Row
from openclaw_cli.retention.cleaning import Look, Options
from openclaw_cli.retention.index_store import IndexStore
from openclaw_cli.retention.notes import Note
from openclaw_cli.retention.planning import Action


def foresee(store: IndexStore, found: Look, options: Options) -> Spent:
    """What the budget would take: every archive is compressed to know its size, nothing is written."""
    spent = Spent(found.measured, found.measured)
    high = options.settings.high_water_bytes
    if high is None:
        return spent
    taken = found.plan.taken()
    removed = {each.row.key for each in taken if each.action is Action.REMOVE}
    marks = {each.row.key: str(each.reason) for each in taken if each.action is Action.ARCHIVE}
    guess = _Guess(store, options, spent)
    for key, sources in store.sole_files(removed).items():
        guess.leave(key, sources)
    guess.free(sum(one.size_bytes for one, _ in found.aged))
    for file, _ in found.orphans:
        guess.leave(None, [Source(file.path, file.size_bytes, file.modified_ms)])
    guess.index(removed, marks)
    if not budget.is_over(options, spent.after):
        return spent
    limit, aged = options.now_ms - options.archive_grace_ms, {one.name for one, _ in found.aged}
    for one in ageing.spendable(ageing.kept(found.files, ()), limit):
        if spent.after.total_bytes > high and one.name not in aged:
            guess.free(one.size_bytes)
            spent.taken.append(Taken(Kind.ARCHIVE, None, one.session_id, one.size_bytes, one.name, one.sha256()))
    for row in victims(found, marks, options):
        if spent.after.total_bytes > high:
            sources = store.sole_files(removed | {row.key})[row.key]
            removed.add(row.key)
            guess.leave(row.key, sources)
            guess.index(removed, marks)
            size = sum(source.size_bytes for source in store.files.get(row.key, ()))
            spent.taken.append(Taken(Kind.ROW, row.key, row.session_id, size))
    if spent.after.total_bytes > high:
        spent.issues.append(budget.unreached(store.target.store_path, spent, high))
    return spent


class _Guess:
    """Counts what a run would leave on the disk."""

    def __init__(self, store: IndexStore, options: Options, spent: Spent) -> None:
        self._store = store
        self._options = options
        self._spent = spent
        self._index_bytes = store.index.size_bytes

    def leave(self, key: str | None, sources: Sequence[Source]) -> None:
        """Files go, their archives come."""
        packed = 0
        if self._options.archive_dir is None:
            for source in sources:
                if is_jsonl(source.path):
                    packed += sum(map(len, archive.compress(blocks(source.path), source.size_bytes)))
            packed += self._note_bytes(key)
        gone = sum(source.size_bytes for source in sources if source.linked is None)
        self.free(gone - packed)

    def _note_bytes(self, key: str | None) -> int:
        if key is None:
            return 0
        row = self._store.raw[key]
        text = row.raw.decode("utf-8", "surrogatepass")
        note = Note(key, row.session_id, self._store.target.agent_id, text, {})
        return len(archive.skippable_frame(notes.encode(note)))

    def index(self, removed: set[str], marks: dict[str, str]) -> None:
        """The index is written anew."""
        if removed or marks:
            size = sum(map(len, index_store.rewritten(self._store, removed, marks, self._options.now_ms)))
            self.free(self._index_bytes - size)
            self._index_bytes = size

    def free(self, size_bytes: int) -> None:
        """So much less is on the disk."""
        after = self._spent.after
        self._spent.after = replace(after, artifact_bytes=after.artifact_bytes - size_bytes)


def victims(found: Look, marks: dict[str, str], options: Options) -> Iterator[Row]:
    """Rows that the budget may take, in its order: by-products by activity, then what the cap has archived."""
    recent = options.settings.preserve_recent_ms
    since_ms = None if recent is None else options.now_ms - recent
    gone = {each.row.key for each in found.plan.taken() if each.action is Action.REMOVE}
    active = reading.active_chain(found.rows.by_key(), options.active_key)
    rows = (row for row in found.rows.rows if row.key not in gone)
    left = [row for row in rows if classify.held(row, keys=active, recent_since_ms=since_ms) is None]
    yield from sorted(
        (row for row in left if row.kind.is_synthetic and not row.archived), key=lambda row: (row.activity_ms, row.key)
    )
    yield from (row for row in left if classify.is_cap_archived(row) or marks.get(row.key) == classify.CAP_REASON)


def is_jsonl(path: Path) -> bool:
    """Whether a file has lines worth an archive."""
    return path.name.endswith(".jsonl")


def blocks(path: Path) -> Iterator[bytes]:
    """The bytes of a file."""
    with path.open("rb", buffering=0) as stream:
        while block := stream.read(1 << 20):
            yield block
