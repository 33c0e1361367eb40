"""`doctor restore`: archived originals go back to where they came from, so that an older runtime can be started.

Order for each file: its second name at the original path is durable and checked, then every manifest that knows the
move records it, then the archive's name goes. A run that is cut leaves one name or both; the next one finishes it.
The database is left in place.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path

from openclaw_cli.config.paths import INDEX_NAME, Target
from openclaw_cli.durable import SourceChangedError, fsync_dir, make_dir, publish_no_replace
from openclaw_cli.errors import Issue, NoSpaceError, OpenClawError
from openclaw_cli.faults import Step, reached
from openclaw_cli.manifest import ManifestInvalidError, Run, TargetRecord, runs
from openclaw_cli.migration import claims
from openclaw_cli.migration.archiving import real_paths
from openclaw_cli.migration.claims import Action, Decision
from openclaw_cli.migration.discovery import Source
from openclaw_cli.migration.remaining import Remaining, directory_files, remaining
from openclaw_cli.migration.restore_record import RestoreRecord
from openclaw_cli.migration.restore_report import Outcome, Outcomes, RestoreReport, restored_target

# A manifest is rewritten whole: with many moves, one rewrite for each would cost the square of their number.
_RECORDS_PER_MANIFEST = 64

OnBytes = Callable[[int], None]


@dataclass(slots=True)
class TargetRestore:
    """What a restore will do for one store. `decisions` are in the order of acting: the index first."""

    record: TargetRecord
    runs: list[Run] = field(default_factory=list)
    decisions: list[Decision] = field(default_factory=list)

    def moves(self) -> list[Decision]:
        """The decisions that change a file."""
        return [decision for decision in self.decisions if decision.action in (Action.RESTORE, Action.FINISH)]


@dataclass(slots=True)
class RestorePlan:
    """All stores of one restore, and what is wrong with manifests."""

    targets: list[TargetRestore]
    issues: list[Issue] = field(default_factory=list)


def plan(state_dir: Path, targets: tuple[Target, ...], *, on_bytes: OnBytes | None = None) -> RestorePlan:
    """Read every manifest, look at each archive that the targets have, decide. Nothing is written.

    A manifest that is invalid is named, the others are used. Paths of another machine, or of the place where the state
    directory was before, are put under `state_dir`.
    """
    known, issues = known_runs(state_dir)
    result = RestorePlan([], issues)
    for place, matched, found in stores(state_dir, targets, known):
        target = TargetRestore(place, matched)
        target.decisions = _decide_all(found, on_bytes)
        result.targets.append(target)
    return result


def known_runs(state_dir: Path) -> tuple[list[Run], list[Issue]]:
    """The valid manifests of a state directory, oldest first, and an issue for each other one."""
    known: list[Run] = []
    issues: list[Issue] = []
    for run in runs(state_dir):
        if isinstance(run, ManifestInvalidError):
            issues.append(Issue("manifest_invalid", "error", f"{run.message}; it was not used"))
        else:
            known.append(run)
    return known, issues


def stores(
    state_dir: Path, targets: tuple[Target, ...], known: list[Run]
) -> Iterator[tuple[TargetRecord, list[Run], dict[Path, list[claims.Claim]]]]:
    """Each store of `targets` with the runs that are about it and their claims: original path → archived files."""
    for place in _places(state_dir, targets, known):
        matched = [
            (age, run, record)
            for age, run in enumerate(known)
            for record in run.manifest.targets
            if _is_about(record, place, state_dir)
        ]
        yield place, [run for _, run, _ in matched], claims.collect(matched, place)


def agents_of_manifests(state_dir: Path) -> list[str]:
    """Ids of the agents that the valid manifests of a state directory name, in order of their first run."""
    found = [run for run in runs(state_dir) if isinstance(run, Run)]
    return list(dict.fromkeys(target.agent_id for run in found for target in run.manifest.targets))


def archived_bytes(targets: tuple[Target, ...]) -> int:
    """Bytes in the archives of the targets, for a progress bar."""
    places = [real_paths(target).archive_dir for target in targets]
    files = [path for place in places if place.is_dir() for path in place.iterdir()]
    return sum(path.lstat().st_size for path in files)


def preview(planned: RestorePlan) -> RestoreReport:
    """The report of a restore that would do what `planned` says."""
    report = RestoreReport("restore", issues=list(planned.issues))
    for target in planned.targets:
        outcomes = {decision: _outcome(decision) for decision in target.decisions}
        report.targets.append(restored_target(target.record, target.runs, outcomes, _remaining(target, outcomes)))
    return report


def act(planned: RestorePlan, now_ms: int) -> RestoreReport:
    """Carry out a plan. The caller owns the state directory; one file that cannot be moved does not stop the others.

    Raises `NoSpaceError` when the file system is full, `RefusedError` when a manifest cannot be written.
    """
    report = RestoreReport("restore", issues=list(planned.issues))
    record = RestoreRecord(now_ms)
    for target in planned.targets:
        outcomes = {decision: _outcome(decision) for decision in target.decisions}
        _move_all(target, outcomes, record)
        record.note(outcomes)
        report.targets.append(restored_target(target.record, target.runs, outcomes, _remaining(target, outcomes)))
    record.close()
    return report


# --- which manifests, which paths ---------------------------------------------------------------------------------


def _places(state_dir: Path, targets: tuple[Target, ...], known: list[Run]) -> Iterator[TargetRecord]:
    """The stores to restore: those selected, and the one old store of a whole state where a manifest has it."""
    for target in targets:
        place = real_paths(target)
        yield place
        shared = TargetRecord(target.agent_id, state_dir.resolve() / "sessions" / INDEX_NAME, place.sqlite_path)
        if any(_is_about(record, shared, state_dir) for run in known for record in run.manifest.targets):
            yield shared


def _is_about(record: TargetRecord, place: TargetRecord, state_dir: Path) -> bool:
    """Whether a manifest's target is the store at `place`, here or where the state directory was before."""
    if record.agent_id != place.agent_id:
        return False
    stated = record.store_path.parent.resolve() / record.store_path.name
    if stated == place.store_path:
        return True
    root = state_dir.resolve()
    if not place.store_path.is_relative_to(root) or stated.is_relative_to(root):
        return False
    inside = place.store_path.relative_to(root).parts
    return record.store_path.parts[-len(inside) :] == inside and not _is_other_layout(record, inside)


def _is_other_layout(record: TargetRecord, inside: tuple[str, ...]) -> bool:
    """Whether `sessions/sessions.json` is only the end of an agent's `agents/<id>/sessions/sessions.json`."""
    return len(inside) == 2 and record.store_path.parts[-4:-3] == ("agents",)


def _decide_all(found: dict[Path, list[claims.Claim]], on_bytes: OnBytes | None) -> list[Decision]:
    """Look at every archive and decide, path by path; the index comes first."""
    decisions = []
    for source, candidates in found.items():
        looks = [claims.inspect(claim, on_bytes) for claim in candidates]
        original = claims.look_at_original(source, looks)
        decisions.extend(claims.decide(original, list(zip(candidates, looks, strict=True))))
    # Cut after the index, an import still knows every session by its key. Cut before it, restored transcripts would
    # be taken for history that no index names.
    decisions.sort(key=lambda decision: decision.claim.kind != "legacy-store")
    return decisions


# --- acting -------------------------------------------------------------------------------------------------------


def _outcome(decision: Decision) -> Outcome:
    words = {Action.SKIP: "skipped", Action.CONFLICT: "conflict"}
    return Outcome(words.get(decision.action, "restored"), decision.reason)


def _move_all(target: TargetRestore, outcomes: Outcomes, record: RestoreRecord) -> None:
    moves = target.moves()
    if not moves:
        return
    make_dir(target.record.sessions_dir)
    size = max(1, len(moves) // _RECORDS_PER_MANIFEST)
    source = iter(moves)
    while group := list(islice(source, size)):
        published = [decision for decision in group if _published(decision, outcomes)]
        record.restored(published)
        reached(Step.RESTORE_RECORDED)
        for decision in published:
            os.unlink(decision.claim.archive_path)
            reached(Step.RESTORE_UNLINKED)
        fsync_dir(target.record.archive_dir)


def _published(decision: Decision, outcomes: Outcomes) -> bool:
    """Give a file its old name back; False, with the outcome, when that was not possible."""
    claim, look = decision.claim, decision.look
    try:
        if look.sha256 is None:
            raise ValueError("only an archive that was read can be restored")
        publish_no_replace(
            claim.archive_path,
            claim.source_path,
            expected_sha256=look.sha256,
            linked=lambda: reached(Step.RESTORE_LINKED),
            # With other names on the inode, a runtime that appends to the file would change them too.
            copy=look.linked and decision.action is Action.RESTORE,
        )
        _date_back(decision)
    except NoSpaceError:
        raise
    except FileExistsError:
        outcomes[decision] = Outcome("conflict", "a file has appeared at the original path; it is not overwritten")
        return False
    except SourceChangedError:
        outcomes[decision] = Outcome("failed", "the archive changed after it was looked at")
        return False
    except (OSError, OpenClawError) as error:
        reason = error.message if isinstance(error, OpenClawError) else str(error.strerror)
        outcomes[decision] = Outcome("failed", reason)
        return False
    return True


def _date_back(decision: Decision) -> None:
    """Set the time that the import recorded, where copying the state directory has changed it."""
    recorded, path = decision.claim.recorded_mtime_ns, decision.claim.source_path
    status = os.stat(path)
    if recorded is not None and recorded != status.st_mtime_ns:
        os.utime(path, ns=(status.st_atime_ns, recorded))


def _remaining(target: TargetRestore, outcomes: Outcomes) -> Remaining:
    """What only the database will hold once the outcomes are true."""
    files = directory_files(target.record.sessions_dir)
    index = target.record.store_path
    for decision, outcome in outcomes.items():
        claim = decision.claim
        present = files.get(claim.source_path.name)
        if outcome.word == "restored" and present is None:
            if claim.kind == "legacy-store":
                index = claim.archive_path
            present = Source(claim.source_path, decision.look.size_bytes, 0)
        if present is None or claim.recorded_mtime_ns is None or claim.recorded_sha256 != decision.look.sha256:
            continue
        recorded_ms = claim.recorded_mtime_ns // 1_000_000
        files[claim.source_path.name] = Source(present.path, present.size_bytes, recorded_ms)
    return remaining(target.record.sqlite_path, index, files)
