"""What becomes of the files of a store once their rows are committed: which move, which stay, and why."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

from openclaw_cli import manifest
from openclaw_cli.durable import SourceChangedError
from openclaw_cli.errors import Issue
from openclaw_cli.faults import Step, reached
from openclaw_cli.migration import archiving
from openclaw_cli.migration.archiving import Request
from openclaw_cli.migration.committing import Outcome
from openclaw_cli.migration.discovery import FileClass, Source
from openclaw_cli.migration.job import Job
from openclaw_cli.migration.plan import Rules, TargetPlan
from openclaw_cli.migration.reporting import TargetReport


def archive(
    plan: TargetPlan,
    outcomes: list[Outcome],
    record: manifest.TargetRecord,
    started: manifest.Run | None,
    job: Job,
    report: TargetReport,
) -> None:
    """Move the originals of a store into its archive: planned durably, then one by one, the index last."""
    requests = list(_requests(plan, outcomes, report))
    index = _index_request(plan, outcomes, requests, record, job, report)
    if index is not None:
        requests.append(index)
    moves = archiving.plan_moves(requests, record, job.now_ms)
    if not moves or started is None:
        return
    started.plan_moves(record, moves)
    reached(Step.MOVES_PLANNED)
    moved, issues = archiving.perform(started, record, moves)
    report.issues.extend(issues)
    count_moves(report, moved)


def _requests(plan: TargetPlan, outcomes: list[Outcome], report: TargetReport) -> Iterator[Request]:
    """Every file that may move: imported transcripts with their sidecars, then history that nothing names."""
    blocked = {outcome.session.source.path for outcome in outcomes if outcome.stays and outcome.session.source}
    seen: set[Path] = set()
    for outcome in outcomes:
        source, key = outcome.session.source, outcome.session.keys[0].key
        if source is None or outcome.identity is None or source.path in blocked or source.path in seen:
            continue
        seen.add(source.path)
        if source.linked:
            report.issues.append(archiving.linked_issue(source, key))
            continue
        yield Request(source, "transcript", outcome.identity, outcome.classification, outcome.reason, key)
        yield from _unread(outcome.session.sidecars, "trajectory", "unimported-or-unknown-history", key, report)
    yield from _unread(plan.unreferenced, "unreferenced-jsonl", "unreferenced-history", None, report)


def _unread(
    sources: Iterable[Source], kind: manifest.Kind, reason: str, key: str | None, report: TargetReport
) -> Iterator[Request]:
    """Files that go to the archive as they are."""
    for source in sources:
        if source.linked:
            report.issues.append(archiving.linked_issue(source, key))
            continue
        try:
            identity = archiving.whole_identity(source)
        except (OSError, SourceChangedError) as error:
            code = "transcript_archive_failed" if key else "unreferenced_jsonl_archive_failed"
            reason_text = error.message if isinstance(error, SourceChangedError) else error.strerror
            report.issues.append(Issue(code, "error", f"{source.path} stays where it is: {reason_text}", key))
            continue
        yield Request(source, kind, identity, "protected", reason, key)


def why_index_stays(plan: TargetPlan, rules: Rules, waiting: int) -> str | None:
    """Why the index of a store must not move, None when it may; `waiting`: sessions that were not imported."""
    if waiting:
        return f"{waiting} session(s) of it were not imported"
    if rules.keep_index:
        return "--keep-index was given"
    source = plan.listing.files[FileClass.INDEX].get(plan.target.store_path.name)
    if source is None or source.linked:
        return "it is a link, or no regular file of the sessions directory"
    return None


def _index_request(
    plan: TargetPlan,
    outcomes: list[Outcome],
    requests: list[Request],
    record: manifest.TargetRecord,
    job: Job,
    report: TargetReport,
) -> Request | None:
    """The index goes last, and only when no session of it still waits for another import."""
    if not plan.index.exists:
        return None
    path = plan.target.store_path
    why = why_index_stays(plan, job.rules, sum(not outcome.committed for outcome in outcomes))
    source = plan.listing.files[FileClass.INDEX].get(path.name)
    if why is not None or source is None:
        report.issues.append(archiving.index_kept(path, str(why)))
        return None
    whole = not plan.index.issues and all(request.classification == "imported" for request in requests)
    reason = "verified-index-import" if whole else "incomplete-index-import"
    transcripts = tuple(
        str(record.sessions_dir / request.source.name) for request in requests if request.kind == "transcript"
    )
    identity = archiving.whole_identity(source)
    if identity.sha256 != plan.index.sha256:
        message = f"{path} changed while it was imported; it stays, run the import again"
        report.issues.append(Issue("legacy_store_archive_failed", "error", message))
        return None
    classification: manifest.Classification = "imported" if whole else "protected"
    return Request(source, "legacy-store", identity, classification, reason, None, transcripts)


def count_moves(report: TargetReport, moved: Iterable[manifest.Move]) -> None:
    """Put finished moves into the report's lists."""
    lists = {"legacy-store": report.archived_indexes, "unreferenced-jsonl": report.archived_unreferenced}
    for move in moved:
        lists.get(move.kind, report.archived_transcripts).append(move.archive_path)
        if move.source_path in report.unreferenced:
            report.unreferenced.remove(move.source_path)
