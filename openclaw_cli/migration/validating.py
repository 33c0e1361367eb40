"""`doctor validate`: whether every session of the sources is in the store, event for event; reads only.

Sources are the transcripts that the old index names and, after an import, the archived originals that the manifests
name. Both are read as a salvage reads them, so that a whole record behind damage is asked for like any other.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

from openclaw_cli.durable import SourceChangedError
from openclaw_cli.errors import Issue
from openclaw_cli.jsonl import Action, Damage
from openclaw_cli.migration import archived, comparing
from openclaw_cli.migration.archived import Original, Originals
from openclaw_cli.migration.containing import Containment, Place
from openclaw_cli.migration.job import Job, new_report, open_reading
from openclaw_cli.migration.plan import KeyPlan, SessionPlan, TargetPlan
from openclaw_cli.migration.reading import Reading
from openclaw_cli.migration.reporting import Report, TargetReport
from openclaw_cli.storage.connection import Store

_NODE = "SELECT current_session_id, entry_valid FROM session_nodes WHERE session_key = ?"
_SHOWN_LINES = 10


@dataclass(frozen=True, slots=True)
class Archives:
    """The archived originals of a run by agent, and what is wrong with its manifests."""

    of: dict[str, Originals]
    issues: list[Issue]

    @property
    def source_bytes(self) -> int:
        """Bytes that will be read of them."""
        return sum(originals.source_bytes for originals in self.of.values())


def find_archives(job: Job) -> Archives:
    """The archives of the job's stores; nothing is read but manifests and names."""
    return Archives(*archived.originals_of(job.state_dir, job.targets))


def validate(job: Job, plans: Iterable[TargetPlan], archives: Archives | None = None, *, every: bool = False) -> Report:
    """Compare each session of the plans, and each archived original, with the stores.

    A key must lead to the same session id, and the store must hold every event of the transcript, with the text that an
    import would store and in the same order. Further events there are no fault: the session went on. `every` lists all
    sessions in the report, not only those with a problem.
    """
    found = find_archives(job) if archives is None else archives
    report = Report("validate", issues=list(found.issues))
    asking = replace(job, rules=replace(job.rules, salvage=True))
    for plan in plans:
        target = new_report(plan, job.rules)
        report.targets.append(target)
        comparison = _Comparison(asking, target, every)
        with comparing.Existing(job.target_of, target) as existing:
            for session in plan.sessions:
                comparison.session(session, existing.of(session.agent_id, plan.target))
            originals = found.of.get(plan.target.agent_id, Originals())
            target.issues.extend(originals.issues)
            for original in originals.found:
                comparison.original(original, existing.of(original.agent_id, plan.target))
            target.sqlite_entries = existing.entries(plan.target)
        target.extra["sessions"] = comparison.rows
        target.extra["archives"] = comparison.archives
    return report


class _Comparison:
    """The comparison of one store's sources; `rows` are the sessions for the report."""

    def __init__(self, job: Job, report: TargetReport, every: bool) -> None:
        self.rows: list[dict[str, Any]] = []
        self.archives = {"files": 0, "records": 0, "contained": 0}
        self._job = job
        self._report = report
        self._every = every

    def session(self, session: SessionPlan, store: Store | None) -> None:
        """A session of the plan: its keys and its transcript."""
        for keyed in session.keys:
            if keyed.superseded:
                continue
            issue = _key_issue(keyed, session.session_id, store)
            if issue is None:
                self._report.validated_entries += 1
            else:
                self._report.issues.append(issue)
        key = session.keys[0].key
        compared = self._compared(session, store, key)
        if compared is None:
            return
        reading, contained = compared
        self._report.validated_events += contained.contained
        self._note(reading, contained, key, lost_is="error")

    def original(self, original: Original, store: Store | None) -> None:
        """An archived original: compared with the session of the store that holds the most of it."""
        key = original.session_key
        try:
            candidates = archived.session_ids(original, store)
        except OSError as error:
            self._report.issues.append(_unreadable(original.source.path, error, key))
            return
        best: tuple[Reading, Containment] | None = None
        for session_id in candidates:
            session = SessionPlan(session_id, original.agent_id, (), original.source)
            compared = self._compared(session, store, key)
            if compared is None:
                return
            if best is None or compared[1].contained > best[1].contained:
                best = compared
            if best[1].is_whole:
                break
        if best is None:
            return
        reading, contained = best
        if original.sha256 is not None and reading.identity is not None and reading.identity.sha256 != original.sha256:
            message = f"{original.source.path} is not the file that was imported: its SHA-256 is not the recorded one"
            self._report.issues.append(Issue("archive_changed", "error", message, key))
            return
        self.archives["files"] += 1
        self.archives["records"] += contained.records
        self.archives["contained"] += contained.contained
        self._note(reading, contained, key, lost_is="warning")

    def _compared(self, session: SessionPlan, store: Store | None, key: str) -> tuple[Reading, Containment] | None:
        """One pass over a source beside the store; None (with an issue) when it cannot be read."""
        reading = open_reading(session, self._job, store)
        if reading is None:
            return None
        contained = Containment(store, session.session_id)
        try:
            for line, text, value in reading.located():
                contained.add(line, text, value)
        except SourceChangedError as error:
            self._report.issues.append(Issue("source_changed", "error", error.message, key))
            return None
        except OSError as error:
            self._report.issues.append(_unreadable(reading.source.path, error, key))
            return None
        return reading, contained

    def _note(self, reading: Reading, contained: Containment, key: str, *, lost_is: str) -> None:
        tally = reading.tally
        tally.damage = [_seen(damage) for damage in tally.damage]
        self._report.count_lines(tally)
        self._report.issues.extend(_damage_issues(reading, key, lost_is))
        self._report.issues.extend(_contained_issues(reading, contained, key))
        if self._every or not contained.is_whole:
            self.rows.append(_row(reading, contained, key))


def _key_issue(keyed: KeyPlan, session_id: str, store: Store | None) -> Issue | None:
    row = None if store is None else store.execute(_NODE, (keyed.key,)).fetchone()
    if row is None or row[1] != 1:
        wrong = "has no row in the store" if row is None else "has a row in the store that is not valid"
        return Issue("sqlite_entry_missing", "error", f"the key {wrong}", keyed.key)
    if row[0] != session_id:
        message = f"the key leads to session {row[0]} in the store, to {session_id} in the index"
        return Issue("sqlite_entry_mismatch", "error", message, keyed.key)
    return None


def _unreadable(path: Any, error: OSError, key: str) -> Issue:
    return Issue("transcript_unreadable", "error", f"{path} cannot be read: {error.strerror}", key)


def _seen(damage: Damage) -> Damage:
    """Damage as a comparison meets it: nothing is brought back here."""
    return replace(damage, action=Action.IGNORED) if damage.action is Action.SALVAGED else damage


def _damage_issues(reading: Reading, key: str, lost_is: Any) -> list[Issue]:
    """Damage of a source. What an archive has lost, its import has reported: that is no error any more."""
    tally = reading.tally
    if not tally.damage:
        return []
    severity = lost_is if tally.has_errors else "warning"
    kinds = ", ".join(sorted({str(damage.kind) for damage in tally.damage}))
    message = f"{tally.file}: damage ({kinds}), {tally.lines_lost} record(s) lost; the whole ones were compared"
    return [Issue("transcript_malformed", severity, message, key, {"linesLost": tally.lines_lost})]


def _contained_issues(reading: Reading, contained: Containment, key: str) -> list[Issue]:
    """What of a source is not in the store, and what stands there in another order."""
    issues = []
    path = reading.source.path
    absent = contained.missing.total + contained.different.total
    if absent:
        parts = [
            f"{places.total} {word} (line {_lines(places.listed, places.total)})"
            for word, places in (("missing", contained.missing), ("different", contained.different))
            if places.total
        ]
        message = (
            f"{path}: {absent} of {contained.records} events are not in the store as they stand in the file:"
            f" {', '.join(parts)}"
        )
        if reading.tally.damage and contained.missing.total and contained.contained:
            message += "; doctor import --salvage brings in what stands behind damage"
        issues.append(Issue("sqlite_transcript_count_mismatch", "error", message, key))
    if contained.disordered.total:
        lines = _lines(contained.disordered.listed, contained.disordered.total)
        message = f"{path}: {contained.disordered.total} event(s) stand in another order in the store (line {lines})"
        issues.append(Issue("sqlite_transcript_order_mismatch", "error", message, key))
    return issues


def _lines(places: list[Place], total: int) -> str:
    shown = ", ".join(str(place.line) for place in places[:_SHOWN_LINES])
    return f"{shown}, …" if total > _SHOWN_LINES else shown


def _row(reading: Reading, contained: Containment, key: str) -> dict[str, Any]:
    """One session in the report; lists are bounded, the totals are not."""
    kinds = {"missing": contained.missing, "different": contained.different, "disordered": contained.disordered}
    return {
        "sessionKey": key,
        "sessionId": reading.session_id,
        "source": str(reading.source.path),
        "records": contained.records,
        "contained": contained.contained,
        **{name: [place.as_json() for place in places.listed] for name, places in kinds.items()},
        **{f"{name}Total": places.total for name, places in kinds.items()},
        "extra": contained.extra,
    }
