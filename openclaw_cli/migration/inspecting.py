"""`doctor inspect`: counts, sizes and checks of stores and of single transcripts; reads only."""

from __future__ import annotations

import heapq
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

from openclaw_cli import jsonl, jstext
from openclaw_cli.errors import CorruptError, Exit, Issue, OpenClawError, status_of
from openclaw_cli.migration import discovery
from openclaw_cli.migration.discovery import Listing
from openclaw_cli.migration.job import Job, new_report, plan_all
from openclaw_cli.migration.plan import TargetPlan
from openclaw_cli.migration.reporting import Report, TargetReport
from openclaw_cli.sources import STDIN, open_source
from openclaw_cli.storage import connection, sessions, space, verify
from openclaw_cli.storage.connection import Store
from openclaw_cli.storage.encoding import decode

LARGEST_SESSIONS = 5
_IMPORTED = re.compile(r"\.jsonl\.imported-\d+(\.\d+)?$")
_ARCHIVED = re.compile(r"\.jsonl\.(imported-\d+(\.\d+)?|(deleted|reset)\.\d{4}-\d\d-\d\dT[\d.-]+Z(\.[0-9a-f]{32})?)$")
_SESSION_BYTES = (
    "SELECT session_id, count(*) AS events, coalesce(sum(event_utf8_bytes), 0) AS row_bytes FROM transcript_events"
    " GROUP BY session_id ORDER BY row_bytes DESC, events DESC, session_id"
)
_BIGGEST_ROWS = (
    "SELECT session_id, seq, event_utf8_bytes, event_json, event_zstd FROM transcript_events"
    " ORDER BY event_utf8_bytes DESC, session_id, seq LIMIT ?"
)


@dataclass(frozen=True, slots=True)
class Big:
    """One of the biggest events: in a store (`seq`) or in a transcript file (`file`, `line`)."""

    session_id: str
    size_bytes: int
    kind: str | None
    tool: str | None
    seq: int | None = None
    file: str | None = None
    line: int | None = None

    def as_json(self) -> dict[str, Any]:
        """Its object in `top`."""
        place = {"seq": self.seq} if self.file is None else {"file": self.file, "line": self.line}
        return {"sessionId": self.session_id, **place, "type": self.kind, "tool": self.tool, "bytes": self.size_bytes}


@dataclass(frozen=True, slots=True)
class FileFindings:
    """What one transcript file holds."""

    path: str
    header: discovery.Header
    name_id: str | None
    tally: jsonl.Tally
    top: tuple[Big, ...] = ()

    def issues(self) -> list[Issue]:
        """What is wrong with the file."""
        found = []
        if self.name_id is not None and self.header.kind == "session" and self.header.session_id != self.name_id:
            message = f"the header names session {self.header.session_id}, the file name {self.name_id}"
            found.append(Issue("header_id_mismatch", "error", message))
        if self.header.kind in ("foreign", "damaged"):
            found.append(Issue("header_missing", "warning", "the first line is no session header"))
        if self.tally.has_errors:
            message = f"{len(self.tally.damage)} damaged place(s), {self.tally.lines_lost} record(s) lost"
            found.append(Issue("transcript_malformed", "error", message))
        return found

    def status(self) -> Exit:
        """The exit status of the look."""
        return status_of(self.issues())

    def as_json(self) -> dict[str, Any]:
        """The document of `--json`."""
        tally = self.tally
        return {
            "mode": "inspect",
            "file": self.path,
            "headerId": self.header.session_id,
            "headerVersion": self.header.version,
            "nameId": self.name_id,
            "bytes": tally.bytes_read,
            "linesTotal": tally.lines_total,
            "linesBlank": tally.lines_blank,
            "linesLost": tally.lines_lost,
            "linesSalvageable": tally.lines_salvageable,
            "records": tally.records,
            "damage": [damage.as_json() for damage in tally.damage],
            "issues": [issue.as_json() for issue in self.issues()],
            "top": [big.as_json() for big in self.top],
        }

    def text(self) -> Iterator[str]:
        """The findings for people."""
        tally = self.tally
        yield f"{self.path}: {tally.bytes_read} bytes, {tally.lines_total} line(s), {tally.records} record(s)"
        yield f"  header id {self.header.session_id or '-'}, id in the name {self.name_id or '-'}"
        if tally.damage:
            yield f"  {tally.lines_lost} record(s) lost, {tally.lines_salvageable} salvageable"
        for damage in tally.damage:
            place = f"line {damage.line}, byte {damage.byte_offset}"
            yield f"  {place}: {damage.kind}, {damage.bytes} bytes, {damage.action}"
        for issue in self.issues():
            yield f"  {issue.severity} {issue.code}: {issue.message}"
        for big in self.top:
            yield f"  {big.size_bytes} bytes: line {big.line}, {big.kind or 'unknown'} {big.tool or ''}".rstrip()


def inspect(job: Job, *, top: int = 0) -> Report:
    """Counts of index and store, SQLite's quick check, sizes; with `top` also the biggest events of both."""
    report = Report("inspect")
    for plan in plan_all(job):
        target = new_report(plan, job.rules)
        target.unreferenced = [*_historical(plan), *target.unreferenced]
        report.targets.append(target)
        _inspect_store(plan, target, top)
        if top:
            files = biggest_lines(plan.listing, top, job.rules.max_line_bytes)
            stored = target.extra.get("top", [])
            merged = heapq.nlargest(top, [*stored, *files], key=lambda big: big.size_bytes)
            target.extra["top"] = [big.as_json() for big in merged]
    return report


def inspect_file(spec: str, stdin: BinaryIO | None = None, *, max_line_bytes: int, top: int = 0) -> FileFindings:
    """Read one transcript, plain or compressed, as an import would; `-` is `stdin`.

    Raises `NotFoundError`, `NotATranscriptError`.
    """
    tally = jsonl.Tally()
    with open_source(spec, stdin) as source:
        records = jsonl.read(
            source.stream, file=spec, policy=jsonl.Policy.IMPORT, tally=tally, max_line_bytes=max_line_bytes
        )
        first = next(records, None)
        header = discovery.header_of(None if first is None else first.value)
        name_id = None if spec == STDIN else _id_in_name(Path(spec).name, header.session_id)
        biggest = _Biggest(top, header.session_id or name_id or spec, spec)
        for record in (first, *records) if top else records:
            if top and record is not None:
                biggest.add(record)
    if first is None and tally.damage:
        header = discovery.Header("damaged")
    return FileFindings(spec, header, name_id, tally, tuple(biggest.found()))


def _id_in_name(name: str, header_id: str | None) -> str:
    """The session id in the name of a transcript, also of one that was deleted, reset or imported (store format §6.1).

    An archived original is called `<key>.<transcript>.imported-<time>`; key and id may have dots, so the header's id is
    taken where the name ends with it.
    """
    plain = _ARCHIVED.sub(".jsonl", name.removesuffix(".zst"))
    found = discovery.id_in_name(plain)
    if _IMPORTED.search(name) is None:
        return found
    if header_id is not None and found.endswith(f".{header_id}"):
        return header_id
    return discovery.id_in_name(plain.removesuffix(".jsonl").rsplit(".", 1)[-1])


def biggest_lines(listing: Listing, top: int, max_line_bytes: int) -> list[Big]:
    """The biggest lines of the transcripts of a directory."""
    found: list[Big] = []
    for source in listing.transcripts.values():
        biggest = _Biggest(top, discovery.id_in_name(source.name), str(source.path))
        tally = jsonl.Tally()
        with open(source.path, "rb", buffering=0) as stream:
            records = jsonl.read(
                stream, file=str(source.path), policy=jsonl.Policy.SCAN, tally=tally, max_line_bytes=max_line_bytes
            )
            for record in records:
                biggest.add(record)
        found = heapq.nlargest(top, [*found, *biggest.found()], key=lambda big: big.size_bytes)
    return found


class _Biggest:
    """Keeps the N biggest records of one file, described and without their text."""

    def __init__(self, top: int, session_id: str, file: str) -> None:
        self._top = top
        self._session_id = session_id
        self._file = file
        self._heap: list[tuple[int, int, Big]] = []

    def add(self, record: jsonl.Record) -> None:
        size = len(record.raw)
        if len(self._heap) >= self._top and (not self._heap or size <= self._heap[0][0]):
            return
        kind, tool = described(record.value)
        big = Big(self._session_id, size, kind, tool, file=self._file, line=record.line)
        push = heapq.heappush if len(self._heap) < self._top else heapq.heapreplace
        push(self._heap, (size, -record.line, big))

    def found(self) -> list[Big]:
        return [big for _, _, big in sorted(self._heap, reverse=True)]


def described(value: object) -> tuple[str | None, str | None]:
    """Type of an event and the tool (or the custom type) that it belongs to."""
    if not isinstance(value, dict):
        return None, None
    kind = value.get("type")
    message = value.get("message")
    if isinstance(message, dict):
        role = message.get("role")
        named = message.get("toolName")
        kind = f"{kind}/{role}" if isinstance(role, str) else kind
    else:
        named = value.get("customType")
    return (kind if isinstance(kind, str) else None), (named if isinstance(named, str) else None)


def _historical(plan: TargetPlan) -> list[Path]:
    return [session.source.path for session in plan.sessions if session.historical and session.source is not None]


def _inspect_store(plan: TargetPlan, report: TargetReport, top: int) -> None:
    path = plan.target.sqlite_path
    sizes = space.sizes(path)
    stats: dict[str, Any] = {
        "dbSizeBytes": sizes.database_bytes,
        "walSizeBytes": sizes.wal_bytes,
        "totalTranscriptRowBytes": 0,
        "largestSessions": [],
    }
    report.extra["dbStats"] = stats
    if not path.exists():
        return
    try:
        with connection.open_read(path) as store:
            _read_stats(store, plan, report, stats, top)
    except CorruptError as error:
        report.failure = error
        report.issues.append(Issue("sqlite_corrupt", "error", error.message))
    except OpenClawError as error:
        report.issues.append(Issue(f"sqlite_{error.code}", "error", error.message))


def _read_stats(store: Store, plan: TargetPlan, report: TargetReport, stats: dict[str, Any], top: int) -> None:
    report.issues.extend(store.issues)
    report.extra["schemaVersion"] = store.schema_version
    if store.agent_id != plan.target.agent_id:
        message = f"{store.path} belongs to agent {store.agent_id}, not to {plan.target.agent_id}"
        report.issues.append(Issue("sqlite_wrong_agent", "error", message))
    found = verify.integrity(store, quick=True)
    stats["integrityCheck"] = "ok" if not found else found[0]
    if found:
        message = f"{store.path}: SQLite's quick check found {len(found)} fault(s), the first: {found[0]}"
        report.issues.append(Issue("sqlite_integrity_check_failed", "error", message))
    report.sqlite_entries = sum(1 for _ in sessions.read_nodes(store, columns=["session_key"]))
    report.issues.extend(_leftovers(plan, add_session_bytes(store, stats)))
    if top:
        report.extra["top"] = list(_biggest_rows(store, top))


def add_session_bytes(store: Store, stats: dict[str, Any]) -> set[str]:
    """Fill `totalTranscriptRowBytes` and `largestSessions` of a `dbStats`; gives the ids of sessions with events."""
    with_events = set()
    for session_id, count, row_bytes in store.execute(_SESSION_BYTES):
        with_events.add(session_id)
        stats["totalTranscriptRowBytes"] += row_bytes
        if len(stats["largestSessions"]) < LARGEST_SESSIONS:
            row = {"sessionId": session_id, "events": count, "rowBytes": row_bytes}
            stats["largestSessions"].append(row)
    return with_events


def _biggest_rows(store: Store, top: int) -> Iterator[Big]:
    for session_id, seq, size, text, packed in store.execute(_BIGGEST_ROWS, (top,)):
        kind, tool = described(jstext.parse(decode(text, packed, size)))
        yield Big(session_id, size, kind, tool, seq=seq)


def _leftovers(plan: TargetPlan, with_events: set[str]) -> Iterator[Issue]:
    """Transcripts that lie beside the store although their session is in it; the next import settles them."""
    for session in plan.sessions:
        if session.source is not None and session.session_id in with_events:
            message = f"{session.source.path} lies beside the store, which has events of its session"
            yield Issue("active_sqlite_transcript_jsonl", "warning", message, session.keys[0].key)
