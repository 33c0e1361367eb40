"""Which archived file comes back to which original path: the claims of all manifests, looked at, then decided.

A *claim* is one archived file that manifests name for one original path. Deciding is pure and comes before anything
moves: SHA-256 and size decide, device, inode and mtime are hints (store format §6, design invariant 3).
"""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from openclaw_cli.durable import SourceChangedError, identity_of, same_file, sha256_file
from openclaw_cli.manifest import Kind, Move, Run, TargetRecord

_LARGEST_EMPTY_BYTES = 4096
_EMPTY_INDEX = (b"", b"{}")


class State(StrEnum):
    """What stands at an archive path."""

    FOUND = "found"
    MISSING = "missing"
    UNUSABLE = "unusable"
    DISPOSED = "disposed"


class Action(StrEnum):
    """What becomes of a claim. FINISH: an interrupted move left both names; only the archive's name goes."""

    RESTORE = "restore"
    FINISH = "finish"
    SKIP = "skip"
    CONFLICT = "conflict"


@dataclass(frozen=True, slots=True, eq=False)
class Statement:
    """One manifest's word about a move, in that manifest's own paths."""

    run: Run
    move: Move
    completed: bool
    consumed: bool


@dataclass(frozen=True, slots=True, eq=False)
class Claim:
    """One archived file for one original path. `age` counts runs: a higher number is a later import."""

    source_path: Path
    archive_path: Path
    statements: tuple[Statement, ...]
    age: int

    @property
    def kind(self) -> Kind:
        """What the file is, as its import said."""
        return self.statements[-1].move.kind

    @property
    def session_key(self) -> str | None:
        """The session that the file belongs to, where the import named one."""
        return self.statements[-1].move.session_key

    @property
    def consumed(self) -> bool:
        """Whether an earlier restore took this archive, or an equal one in its place."""
        return any(statement.consumed for statement in self.statements)

    @property
    def completed(self) -> bool:
        """Whether the import recorded the move as done."""
        return any(statement.completed for statement in self.statements)

    @property
    def recorded_sha256(self) -> str | None:
        """The digest that the import recorded; None in old manifests."""
        artifact = self.statements[-1].move.artifact
        return artifact.identity.sha256 if artifact is not None else None

    @property
    def recorded_mtime_ns(self) -> int | None:
        """When the original had been written last; None in old manifests."""
        artifact = self.statements[-1].move.artifact
        return artifact.identity.mtime_ns if artifact is not None else None

    @property
    def disposal(self) -> str:
        """`retained`, or how far the real program's clean-up is with the archive."""
        artifact = self.statements[-1].move.artifact
        return artifact.disposal["state"] if artifact is not None else "retained"


@dataclass(frozen=True, slots=True)
class Look:
    """What was found at an archive path. `linked`: the file has further names; `empty`: an index without a row."""

    state: State
    size_bytes: int = 0
    sha256: str | None = None
    linked: bool = False
    empty: bool = False
    same_as_original: bool = False
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Original:
    """What stands at an original path. `sha256` is known only where an archive could be the same file."""

    exists: bool
    sha256: str | None = None


@dataclass(frozen=True, slots=True, eq=False)
class Decision:
    """What becomes of one claim, and why. `superseded`: an equal or better archive comes back in its place."""

    claim: Claim
    look: Look
    action: Action
    reason: str
    superseded: bool = False


def collect(matched: Iterable[tuple[int, Run, TargetRecord]], place: TargetRecord) -> dict[Path, list[Claim]]:
    """Original path → claims, oldest first, with every path put under `place` by its file's name.

    `matched`: the manifests' targets that are about this place, each with the number of its run.
    """
    found: dict[Path, dict[Path, tuple[int, list[Statement]]]] = {}
    for age, run, record in matched:
        consumed = consumed_archives(run)
        done = {move.key for move in record.completed}
        moves = {move.key: move for move in (*record.planned, *record.completed)}
        for move in moves.values():
            source = place.store_path if move.kind == "legacy-store" else place.sessions_dir / move.source_path.name
            archive = place.archive_dir / move.archive_path.name
            statement = Statement(run, move, move.key in done, str(move.archive_path) in consumed)
            _, statements = found.setdefault(source, {}).get(archive, (age, []))
            found[source][archive] = (age, [*statements, statement])
    return {
        source: [Claim(source, archive, tuple(statements), age) for archive, (age, statements) in archives.items()]
        for source, archives in found.items()
    }


def consumed_archives(run: Run) -> set[str]:
    """Archive paths that earlier restores of this run took, as the real program reads its own record."""
    restore = run.manifest.restore or {}
    consumed = set(map(str, restore.get("consumedArchives") or ()))
    restored = set(map(str, restore.get("restoredFiles") or ()))
    archives: dict[str, set[str]] = {}
    for target in run.manifest.targets:
        for move in (*target.planned, *target.completed):
            archives.setdefault(str(move.source_path), set()).add(str(move.archive_path))
    for source in restored:
        # The record names sources; only where a source has one archive in this run is that archive known.
        if len(archives.get(source, ())) == 1:
            consumed |= archives[source]
    return consumed


def inspect(claim: Claim, on_bytes: Callable[[int], None] | None = None) -> Look:
    """Look at the archive of a claim: hashed, its size and digest compared with what the import recorded."""
    if claim.disposal == "disposed":
        return Look(State.DISPOSED, reason="the archive was disposed of by the update clean-up")
    if claim.disposal != "retained":
        return Look(State.DISPOSED, reason="the update clean-up is disposing of the archive; let it end first")
    try:
        status = os.lstat(claim.archive_path)
        if not stat.S_ISREG(status.st_mode):
            return Look(State.UNUSABLE, reason="the archive is no regular file")
        identity = identity_of(claim.archive_path)
    except FileNotFoundError:
        return Look(State.MISSING, reason="the archive is missing")
    except SourceChangedError as error:
        return Look(State.UNUSABLE, reason=error.message)
    except OSError as error:
        return Look(State.UNUSABLE, reason=f"the archive cannot be read: {error.strerror}")
    if on_bytes is not None:
        on_bytes(identity.size_bytes)
    wrong = claim.recorded_sha256 not in (None, identity.sha256)
    same = same_file(claim.archive_path, claim.source_path)
    return Look(
        State.UNUSABLE if wrong else State.FOUND,
        identity.size_bytes,
        identity.sha256,
        linked=status.st_nlink > 1,
        empty=claim.kind == "legacy-store" and _is_empty_index(claim.archive_path, identity.size_bytes),
        same_as_original=same,
        reason="the archive is not the file that was imported (another SHA-256)" if wrong else "",
    )


def look_at_original(path: Path, looks: Sequence[Look]) -> Original:
    """What stands at an original path, hashed only when it has the size of one of the archives."""
    try:
        status = os.lstat(path)
    except FileNotFoundError:
        return Original(False)
    candidates = {look.size_bytes for look in looks if look.state is State.FOUND}
    if not stat.S_ISREG(status.st_mode) or status.st_size not in candidates:
        return Original(True)
    return Original(True, sha256_file(path))


def decide(original: Original, seen: Sequence[tuple[Claim, Look]]) -> list[Decision]:
    """What becomes of each claim of one original path. Pure: the same answer in a dry run and in a restore."""
    if original.exists:
        return [_beside_original(original, claim, look) for claim, look in seen]
    found = [(claim, look) for claim, look in seen if look.state is State.FOUND]
    # What an earlier restore took, or passed over for an equal file, speaks only when nothing later does.
    fresh = [pair for pair in found if not pair[0].consumed] or found
    filled = [pair for pair in fresh if not pair[1].empty] or fresh
    digests = {look.sha256 for _, look in filled}
    blocker = _blocker(seen, digests)
    if len(digests) > 1 and not all(look.empty for _, look in filled):
        what = "session indexes" if filled[0][0].kind == "legacy-store" else "files"
        blocker = f"{len(digests)} different archived {what} claim this path; move all but one out of the archive"
    winner = max(filled, key=lambda pair: pair[0].age)[0] if filled and blocker is None else None
    return [_without_original(claim, look, winner, blocker, digests) for claim, look in seen]


def _beside_original(original: Original, claim: Claim, look: Look) -> Decision:
    """The original path is taken: nothing is ever overwritten."""
    if look.state is State.MISSING:
        why = "restored before" if claim.consumed else "the original is in place and the archive is gone"
        return Decision(claim, look, Action.SKIP, why)
    if look.state is not State.FOUND:
        # Nothing was asked of this archive: its original is there.
        return Decision(claim, look, Action.SKIP, f"the original is in place; {look.reason}")
    if look.same_as_original:
        return Decision(claim, look, Action.FINISH, "an interrupted move is finished")
    if original.sha256 == look.sha256:
        return Decision(claim, look, Action.SKIP, "the same bytes are at the original path")
    if look.empty:
        return Decision(claim, look, Action.SKIP, "an index without rows; the one in place stays")
    if claim.consumed:
        return Decision(claim, look, Action.SKIP, "passed over by an earlier restore for an equal or fuller file")
    return Decision(claim, look, Action.CONFLICT, "another file stands at the original path; it is not overwritten")


def _without_original(
    claim: Claim, look: Look, winner: Claim | None, blocker: str | None, digests: Collection[str | None]
) -> Decision:
    """The original path is free: one claim comes back, or none of them when they contradict each other."""
    if claim is winner:
        return Decision(claim, look, Action.RESTORE, "the original is missing")
    if look.state is State.MISSING and claim.consumed:
        return Decision(claim, look, Action.SKIP, "restored before; the file has gone since")
    if look.state is not State.FOUND:
        if winner is not None:
            return Decision(claim, look, Action.SKIP, f"{look.reason}; {winner.archive_path.name} is restored")
        return Decision(claim, look, Action.CONFLICT, f"the original is missing and {look.reason}")
    if winner is None:
        return Decision(claim, look, Action.CONFLICT, blocker or "no archive could be chosen")
    if look.sha256 in digests and not look.empty:
        return Decision(claim, look, Action.SKIP, f"the same bytes as {winner.archive_path.name}", superseded=True)
    why = "an index without rows; another one is restored" if look.empty else "an older restore passed it over"
    return Decision(claim, look, Action.SKIP, why, superseded=True)


def _blocker(seen: Sequence[tuple[Claim, Look]], digests: Collection[str | None]) -> str | None:
    """Why no archive may be chosen although one is there: another one of unknown bytes is not."""
    for claim, look in seen:
        if look.state is State.FOUND or (look.state is State.MISSING and claim.consumed):
            continue
        known = claim.recorded_sha256 in digests or _recorded_empty(claim)
        if not known and look.state is not State.DISPOSED:
            return f"another archive for this path cannot be used ({claim.archive_path.name}: {look.reason})"
    return None


def _recorded_empty(claim: Claim) -> bool:
    artifact = claim.statements[-1].move.artifact
    return claim.kind == "legacy-store" and artifact is not None and artifact.identity.size_bytes <= len(b"{}\n")


def _is_empty_index(path: Path, size_bytes: int) -> bool:
    if size_bytes > _LARGEST_EMPTY_BYTES:
        return False
    return b"".join(path.read_bytes().removeprefix(b"\xef\xbb\xbf").split()) in _EMPTY_INDEX
