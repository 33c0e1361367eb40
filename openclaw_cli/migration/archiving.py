"""Moving imported originals into the archive, so that a cut at any line loses nothing (design: invariant 2).

Order: the moves are in a durable manifest before the first one happens; each is link, hash, unlink; the index goes
last, because it is what tells a later run which file belongs to which session.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path

from openclaw_cli.config.paths import Target
from openclaw_cli.durable import (
    FileIdentity,
    fsync_dir,
    identity_of,
    make_dir,
    move_no_replace,
    same_file,
    sha256_file,
)
from openclaw_cli.errors import Issue, OpenClawError
from openclaw_cli.faults import Step, reached
from openclaw_cli.manifest import (
    Artifact,
    Classification,
    Kind,
    ManifestInvalidError,
    Move,
    Run,
    TargetRecord,
    runs,
    with_identity,
)
from openclaw_cli.migration.claims import consumed_archives
from openclaw_cli.migration.discovery import Source

_UNSAFE = re.compile(r"[^A-Za-z0-9_.-]+")
# The manifest is rewritten whole for each record. Records of equal numbers of moves would cost the square of their
# number, so each takes in twice as many as the one before; whoever settles a cut run finds the others by their hashes.
_MOVES_IN_FIRST_RECORD = 64


@dataclass(frozen=True, slots=True)
class Request:
    """A file that may go to the archive: why, as what, and which bytes it must have."""

    source: Source
    kind: Kind
    identity: FileIdentity
    classification: Classification
    reason: str
    session_key: str | None = None
    dependencies: tuple[str, ...] = ()

    @property
    def prefix(self) -> str:
        """The first part of the archive name (store format §6.1)."""
        fixed = {"legacy-store": "legacy-store", "unreferenced-jsonl": "archive-tier"}
        return fixed.get(self.kind) or self.session_key or "archive-tier"


def slug(text: str, limit: int) -> str:
    """`text` as a part of an archive name."""
    return _UNSAFE.sub("_", text)[:limit]


def real_paths(target: Target) -> TargetRecord:
    """The target as a manifest spells it: directories resolved, the file's own name as it is."""
    return TargetRecord(target.agent_id, _resolved(target.store_path), _resolved(target.sqlite_path))


def plan_moves(requests: Iterable[Request], record: TargetRecord, now_ms: int) -> list[Move]:
    """Moves with archive names that are free now and differ from each other."""
    taken: set[str] = set()
    moves = []
    for request in requests:
        name = _free_name(request, record.archive_dir, taken, now_ms)
        taken.add(name)
        artifact = Artifact(request.identity, request.classification, request.reason, request.dependencies)
        source = record.sessions_dir / request.source.name
        moves.append(Move(source, record.archive_dir / name, request.kind, artifact, request.session_key))
    return moves


def perform(run: Run, record: TargetRecord, moves: list[Move]) -> tuple[list[Move], list[Issue]]:
    """Carry out planned moves, transcripts first and the index last; gives what was moved and what could not be.

    A file that cannot be moved stays and is an issue; the index then stays too, since a later run needs it.
    """
    make_dir(record.archive_dir)
    files = [move for move in moves if move.kind != "legacy-store"]
    indexes = [move for move in moves if move.kind == "legacy-store"]
    done: list[Move] = []
    issues: list[Issue] = []
    for group in _groups(files, _MOVES_IN_FIRST_RECORD):
        moved = [result for move in group if (result := _attempt(move, issues)) is not None]
        run.record_moves(record, moved)
        reached(Step.MOVE_RECORDED)
        done.extend(moved)
    if issues:
        if indexes:
            issues.append(index_kept(indexes[0].source_path, "some of its transcripts could not be moved"))
        return done, issues
    for move in indexes:
        moved_index = _attempt(move, issues)
        reached(Step.INDEX_MOVED)
        if moved_index is not None:
            run.record_moves(record, [moved_index])
            done.append(moved_index)
    return done, issues


@dataclass(slots=True)
class Settled:
    """What became of earlier runs: moves finished here, moves taken back (their number), findings."""

    moves: list[Move] = field(default_factory=list)
    taken_back: int = 0
    issues: list[Issue] = field(default_factory=list)

    def __bool__(self) -> bool:
        """Whether the files lie otherwise than before."""
        return bool(self.moves or self.taken_back)


def settle_cut_runs(state_dir: Path, targets: Iterable[Target], now_ms: int) -> Settled:
    """Finish what earlier runs had planned when they were cut.

    Planned moves are of rows that were committed and validated, so they can be carried out now, if the file is still
    the one that was imported. Runs that were restored are left alone. Of runs that are closed, or that are of other
    targets or of the same ones at another path, only the links that they left half-way are taken back. A restore that
    was cut leaves links, too.
    """
    known = {_identity(record): record for record in map(real_paths, targets)}
    settled = Settled()
    for run in runs(state_dir):
        if isinstance(run, ManifestInvalidError):
            settled.issues.append(Issue("manifest_invalid", "error", run.message))
            continue
        manifest = run.manifest
        _take_back_restored(run, known.values(), settled)
        if manifest.restore is not None:
            continue
        ours = bool(manifest.targets) and all(_identity(target) in known for target in manifest.targets)
        if manifest.completed_at is not None or not ours:
            _take_back(manifest.targets, known.values(), settled)
            continue
        for target in manifest.targets:
            settled.moves.extend(_finish(run, target, settled.issues))
        run.complete(now_ms)
        message = f"run {manifest.run_id} had been cut; it was settled"
        facts = {"manifestPath": str(run.path)}
        settled.issues.append(Issue("interrupted_run_settled", "warning", message, facts=facts))
    return settled


def _take_back(recorded: Iterable[TargetRecord], records: Iterable[TargetRecord], settled: Settled) -> None:
    """Remove archive names that a move left beside the original: the file would count as linked for ever.

    Original and archive are found by their names in the directories of today, since the state directory may have been
    moved. Only a name of the very same file goes, and only one that this program had planned.
    """
    by_agent = {record.agent_id: record for record in records}
    for target in recorded:
        here = by_agent.get(target.agent_id)
        for move in target.open_moves() if here is not None else ():
            source, archive = here.sessions_dir / move.source_path.name, here.archive_dir / move.archive_path.name
            if same_file(source, archive):
                _remove_name(archive, move, settled)


def _take_back_restored(run: Run, records: Iterable[TargetRecord], settled: Settled) -> None:
    """Remove one name of each file that a restore was giving back when it was cut.

    Once the restore is recorded the archive's name goes, as the restore would have done; before that the original's, as
    if it had not begun: the archive is then what the manifest says.
    """
    by_agent = {record.agent_id: record for record in records}
    consumed = consumed_archives(run)
    for target in run.manifest.targets:
        here = by_agent.get(target.agent_id)
        for move in target.completed if here is not None else ():
            source, archive = here.sessions_dir / move.source_path.name, here.archive_dir / move.archive_path.name
            if same_file(source, archive):
                _remove_name(archive if str(move.archive_path) in consumed else source, move, settled)


def _remove_name(name: Path, move: Move, settled: Settled) -> None:
    try:
        name.unlink()
        fsync_dir(name.parent)
    except OSError as error:
        message = f"{name} was left behind by an unfinished move and cannot be removed: {error.strerror}"
        settled.issues.append(Issue("transcript_archive_failed", "warning", message, move.session_key))
    else:
        settled.taken_back += 1


def _finish(run: Run, target: TargetRecord, issues: list[Issue]) -> list[Move]:
    moved = []
    if target.validation == "passed" and target.sqlite_path.exists() and target.open_moves():
        make_dir(target.archive_dir)
        for move in sorted(target.open_moves(), key=lambda move: move.kind == "legacy-store"):
            result = _finish_move(move, issues)
            if result is not None:
                moved.append(result)
    run.record_moves(target, moved)
    return moved


def _finish_move(move: Move, issues: list[Issue]) -> Move | None:
    """One planned move of a cut run; None when the file is not what was imported (a new import decides then)."""
    if move.artifact is None:
        return None
    expected = move.artifact.identity.sha256
    if move.source_path.exists():
        if sha256_file(move.source_path) != expected:
            return None
        return _attempt(move, issues)
    if move.archive_path.exists() and sha256_file(move.archive_path) == expected:
        return move
    message = f"{move.source_path} was planned to move to {move.archive_path}; neither holds the imported bytes"
    issues.append(Issue("archived_file_missing", "error", message, session_key=move.session_key))
    return None


def _attempt(move: Move, issues: list[Issue]) -> Move | None:
    if move.artifact is None:
        return None
    try:
        result = move_no_replace(move.source_path, move.archive_path, expected_sha256=move.artifact.identity.sha256)
    except (OSError, OpenClawError) as error:
        reason = error.message if isinstance(error, OpenClawError) else str(error.strerror)
        code = "legacy_store_archive_failed" if move.kind == "legacy-store" else "transcript_archive_failed"
        message = f"{move.source_path} stays where it is: {reason}"
        issues.append(Issue(code, "error", message, session_key=move.session_key))
        return None
    return with_identity(move, result.identity)


def whole_identity(source: Source) -> FileIdentity:
    """The identity of a file that goes to the archive unread."""
    return identity_of(source.path)


def linked_issue(source: Source, session_key: str | None) -> Issue:
    """Why an imported original stays: another name may still be in use."""
    message = f"{source.path} was imported but not moved: it is a {source.linked}"
    return Issue("transcript_archive_failed", "warning", message, session_key, {"linked": source.linked})


def index_kept(path: Path, why: str) -> Issue:
    """The index was left in place, and what that means."""
    message = f"{path} stays because {why}; the real program imports an index again as long as it is there"
    return Issue("index_kept", "warning", message)


def _free_name(request: Request, directory: Path, taken: set[str], now_ms: int) -> str:
    stem = f"{slug(request.prefix, 120)}.{slug(request.source.name, 160)}.imported-{now_ms}"
    name, number = stem, 0
    while name in taken or (directory / name).exists():
        number += 1
        name = f"{stem}.{number}"
    return name


def _groups(moves: list[Move], size: int) -> Iterator[list[Move]]:
    """`moves` in groups of `size`, twice `size` and so on."""
    source = iter(moves)
    while group := list(islice(source, size)):
        yield group
        size *= 2


def _resolved(path: Path) -> Path:
    return path.parent.resolve() / path.name


def _identity(record: TargetRecord) -> tuple[str, str, str]:
    return record.agent_id, str(record.store_path), str(record.sqlite_path)
