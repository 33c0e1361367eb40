"""One run of a `doctor` mode: what it is about, and what its modes say in the same words."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from openclaw_cli.config.paths import Target
from openclaw_cli.errors import Issue
from openclaw_cli.migration.plan import Rules, SessionPlan, TargetPlan, plan_target
from openclaw_cli.migration.reading import OnBytes, Reading, lines_of
from openclaw_cli.migration.reporting import TargetReport
from openclaw_cli.storage.connection import Store, Timeouts

_LISTED = 10
# A salvage names every row that it leaves out, but a hostile file must not fill the report.
_LISTED_SALVAGED = 1000


@dataclass(frozen=True, slots=True)
class Job:
    """One run over one or more stores. `target_of` gives the store of any agent (a row may belong to another).

    `original_dir`: where the transcripts lay at their first import, when they are read from somewhere else.
    """

    state_dir: Path
    targets: tuple[Target, ...]
    rules: Rules
    now_ms: int
    target_of: Callable[[str], Target]
    timeouts: Timeouts = field(default_factory=Timeouts)
    on_bytes: OnBytes | None = None
    original_dir: Path | None = None


def plan_all(job: Job) -> list[TargetPlan]:
    """The plans of all stores of a run; nothing is written."""
    return [plan_target(target, job.rules, job.now_ms) for target in job.targets]


def new_report(plan: TargetPlan, rules: Rules) -> TargetReport:
    """A target's report with what the plan alone says."""
    return TargetReport(
        plan.target.agent_id,
        plan.target.store_path,
        plan.target.sqlite_path,
        unreferenced=[source.path for source in plan.unreferenced],
        legacy_entries=sum(len(session.keys) for session in plan.sessions),
        referenced_files=plan.referenced_files,
        issues=list(plan.issues),
        salvaging=rules.salvage,
    )


def open_reading(session: SessionPlan, job: Job, store: Store | None = None) -> Reading | None:
    """The reading of a session's transcript, None when it has none. `store`: where it is or is going to be."""
    if session.source is None:
        return None
    rules = job.rules
    return Reading(
        session.source,
        session.session_id,
        max_line_bytes=rules.max_line_bytes,
        policy=rules.policy,
        on_bytes=job.on_bytes,
        store=store,
        original_dir=job.original_dir,
    )


def is_skipped(session: SessionPlan, rules: Rules, report: TargetReport) -> bool:
    """Whether `--skip-empty` leaves the rows of a session out: it has no transcript, or an empty one."""
    if not rules.skip_empty or (session.source is not None and session.source.size_bytes > 0):
        return False
    for keyed in session.keys:
        report.issues.append(Issue("empty_session_skipped", "warning", "the row has no transcript", keyed.key))
    return True


def missing_issues(session: SessionPlan, *, stored_events: int) -> list[Issue]:
    """`transcript_missing` where a row names a file that is not there and the store has no events of the session."""
    resolution = session.resolution
    if resolution is None or resolution.refused or not resolution.stated or stored_events:
        return []
    message = "the row names a transcript that is not in the sessions directory; the row itself is kept"
    return [Issue("transcript_missing", "warning", message, keyed.key) for keyed in session.keys]


def both_sides_issue(session: SessionPlan, *, new: int, stored: int, repeated: int) -> Issue | None:
    """`both_sides_kept` where transcript and store each have events that the other lacks: both were written to.

    `new`, `repeated`: events of the transcript that the store lacks, and has; `stored`: events that it has in all.
    """
    if not new or stored <= repeated:
        return None
    message = (
        f"store and transcript were both written to: {stored - repeated} event(s) only in the store, {new} only in the"
        " transcript; all are kept, those of the transcript come last and are the active branch where the two part"
    )
    facts = {"onlyStored": stored - repeated, "onlyInTranscript": new}
    return Issue("both_sides_kept", "warning", message, session.keys[0].key, facts)


def divergent_issue(session: SessionPlan, positions: list[tuple[int, str]], rules: Rules) -> Issue:
    """Two different events under one id: names both lines, or the line and the store."""
    source = session.source
    if source is None:
        raise ValueError("only a transcript can diverge")
    listed = positions[: _LISTED_SALVAGED if rules.salvage else _LISTED]
    wanted = {position for position, _ in listed}
    ids = {event_id for _, event_id in listed}
    lines = lines_of(source, session.session_id, wanted, ids, rules.max_line_bytes, rules.policy)
    pairs = [{"eventId": event_id, "lines": _pair(lines, position, event_id)} for position, event_id in listed]
    shown = "; ".join(
        f"line {pair['lines'][1]} differs from line {pair['lines'][0]}"
        if pair["lines"][0] != pair["lines"][1]
        else f"line {pair['lines'][1]} differs from the stored event"
        for pair in pairs[:_LISTED]
    )
    outcome = "nothing of this session was committed and its file stays"
    if rules.salvage:
        outcome = "the first one is in the store, the other only in the original, which stays whole in the archive"
    message = f"{source.path}: different events under one id ({shown}); {outcome}"
    facts = {"file": str(source.path), "divergent": pairs, "divergentTotal": len(positions)}
    return Issue("event_id_conflict", "error", message, session.keys[0].key, facts)


def _pair(lines: dict[Any, int], position: int, event_id: str) -> list[int | None]:
    second = lines.get(position)
    return [lines.get(event_id, second), second]


def unreadable(session: SessionPlan, error: OSError) -> Issue:
    """The transcript of a session could not be read."""
    path = session.source.path if session.source is not None else None
    message = f"{path} cannot be read: {error.strerror}; nothing of this session was committed"
    return Issue("transcript_unreadable", "error", message, session.keys[0].key)
