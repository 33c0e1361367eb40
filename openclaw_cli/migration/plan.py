"""What an import is going to do with one store, decided before anything is written (design D9).

The plan is made from the index and the directory listing alone, plus the first row of files that no row names. No
transcript is read here; a dry run and an import start from the same value.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass, field, replace
from typing import Any

from openclaw_cli import jsonl, jstext
from openclaw_cli.config.paths import Target
from openclaw_cli.errors import Issue
from openclaw_cli.migration import discovery, recognition
from openclaw_cli.migration import index as index_file
from openclaw_cli.migration.discovery import FileClass, Listing, Source
from openclaw_cli.migration.entries import acp_receipt, normalise
from openclaw_cli.migration.leftovers import StoredSessions
from openclaw_cli.transcript.entries import timestamp_ms


@dataclass(frozen=True, slots=True)
class Rules:
    """What the configuration and the command line say about an import."""

    main_key: str = "main"
    agents: Collection[str] | None = None
    scope: str = "per-sender"
    max_line_bytes: int = 256 * 2**20
    skip_empty: bool = False
    prefer_index: bool = False
    keep_index: bool = False
    rebuild_index: bool = False
    salvage: bool = False

    @property
    def policy(self) -> jsonl.Policy:
        """How transcripts are read."""
        return jsonl.Policy.SALVAGE if self.salvage else jsonl.Policy.IMPORT


@dataclass(frozen=True, slots=True)
class KeyPlan:
    """One session key that will point to a session. `text` is the entry's JSON in the shape that the store keeps.

    Plans hold texts, not values: an index may have 100 MB, and values take several times the room.
    `superseded`: another row of the same key is newer, this one is history. `time_invented`: updatedAt is no time of
    the row's own. `receipt`: what an ACP plugin finds about the old row.
    """

    key: str
    stated_key: str
    session_id: str
    updated_at: int
    text: bytes
    superseded: bool = False
    time_invented: bool = False
    receipt: dict[str, Any] | None = None

    @property
    def entry(self) -> dict[str, Any]:
        """The entry, parsed anew at each use."""
        entry: dict[str, Any] = jstext.parse(self.text)
        return entry


@dataclass(frozen=True, slots=True)
class SessionPlan:
    """One session: its keys, its transcript if there is one, and the sidecars that go with it."""

    session_id: str
    agent_id: str
    keys: tuple[KeyPlan, ...]
    source: Source | None
    sidecars: tuple[Source, ...] = ()
    historical: bool = False
    resolution: discovery.Resolution | None = None


@dataclass(slots=True)
class TargetPlan:
    """Everything that an import of one store will look at. `unreferenced`: history that only goes to the archive."""

    target: Target
    index: index_file.Index
    listing: Listing
    sessions: list[SessionPlan] = field(default_factory=list)
    unreferenced: list[Source] = field(default_factory=list)
    issues: list[Issue] = field(default_factory=list)

    @property
    def usable(self) -> bool:
        """Whether the index could be read, or is to be rebuilt; else nothing of the store is touched."""
        return self.index.usable

    @property
    def has_work(self) -> bool:
        """Whether an import of the store would write anything."""
        return self.usable and bool(self.sessions or self.unreferenced or self.index.exists)

    def may_move(self, rules: Rules) -> bool:
        """Whether an import of the store could move any file into the archive."""
        if not self.usable:
            return False
        index = self.listing.files[FileClass.INDEX].get(self.target.store_path.name)
        sources = [index if not rules.keep_index else None, *self.unreferenced]
        for session in self.sessions:
            sources += [session.source, *session.sidecars]
        return any(source is not None and not source.linked for source in sources)

    @property
    def source_bytes(self) -> int:
        """Bytes of the transcripts that will be read."""
        return sum(session.source.size_bytes for session in self.sessions if session.source is not None)

    @property
    def referenced_files(self) -> int:
        """Number of transcripts that a session of the plan names."""
        return len({session.source.path for session in self.sessions if session.source is not None})


def plan_target(target: Target, rules: Rules, now_ms: int) -> TargetPlan:
    """Read index and directory of one store and decide what becomes of each row and file.

    Raises `RefusedError` when the file at the place of the index is none.
    """
    index = index_file.read_index(target.store_path)
    recognition.require_index(target, index, rebuild=rules.rebuild_index)
    listing = discovery.list_directory(target.sessions_dir)
    plan = TargetPlan(target, index, listing, issues=list(listing.issues))
    if not index.usable and rules.rebuild_index:
        index.usable = True
        plan.issues.append(_rebuilt(index))
    else:
        plan.issues.extend(index.issues)
    if not index.usable:
        plan.unreferenced = [*listing.transcripts.values(), *listing.files[FileClass.CHECKPOINT].values()]
        return plan
    _plan_entries(plan, rules, now_ms)
    with StoredSessions(target) as stored:
        _plan_unreferenced(plan, stored, rules, now_ms)
    return plan


def _plan_entries(plan: TargetPlan, rules: Rules, now_ms: int) -> None:
    """Group the rows by owner and session: one transcript may serve several keys."""
    groups: dict[tuple[str, str], list[KeyPlan]] = {}
    chosen: dict[str, discovery.Resolution] = {}
    rows = plan.index.entries
    for row in rows:
        resolution = discovery.resolve({"sessionFile": row.session_file}, row.session_id, plan.listing)
        if resolution.refused:
            message = "the row names a file outside the sessions directory; the row is kept, the file was not opened"
            plan.issues.append(Issue("transcript_path_refused", "error", message, session_key=row.key))
        best = chosen.get(row.session_id)
        # The first row that leads to a file decides, so that aliases share it.
        if best is None or best.source is None:
            chosen[row.session_id] = resolution
    started = {session_id: _started_ms(resolution) for session_id, resolution in chosen.items()}
    keyed = []
    rows.reverse()
    while rows:
        # The text as it was is given up as soon as there is the text as it will be.
        row = rows.pop()
        keyed.append(_normalised(plan, row, rules, started[row.session_id], now_ms))
    for owner, item in _newest_first([found for found in keyed if found is not None], plan):
        groups.setdefault((owner, item.session_id), []).append(item)
    for (owner, session_id), keys in groups.items():
        resolution = chosen[session_id]
        source = resolution.source
        sidecars = tuple(plan.listing.sidecars(source.name)) if source is not None else ()
        session = SessionPlan(session_id, owner, tuple(keys), source, sidecars, resolution=resolution)
        plan.sessions.append(session)


def _normalised(
    plan: TargetPlan, row: index_file.IndexEntry, rules: Rules, started_ms: int | None, now_ms: int
) -> tuple[str, KeyPlan] | None:
    """One row under its canonical key with the owner of that key, or None (with issues) when it must stay out."""
    entry = row.entry
    found = normalise(
        entry,
        key=row.key,
        agent_id=plan.target.agent_id,
        main_key=rules.main_key,
        now_ms=now_ms,
        started_ms=started_ms,
        scope=rules.scope,
        agents=rules.agents,
    )
    plan.issues.extend(found.problems)
    if found.entry is None:
        return None
    receipt = acp_receipt(entry, source_path=str(plan.index.path), source_key=row.key, session_id=row.session_id)
    item = KeyPlan(
        found.key,
        row.key,
        str(found.entry["sessionId"]),
        found.entry["updatedAt"],
        # A copy of the right size: the writer asks for eight times the room, and not all of it comes back.
        memoryview(jstext.dumps(found.entry)).tobytes(),
        time_invented=found.time_invented,
        receipt=receipt,
    )
    return found.agent_id, item


def _newest_first(found: list[tuple[str, KeyPlan]], plan: TargetPlan) -> Iterator[tuple[str, KeyPlan]]:
    """The rows in the order of the index; of two spellings of one key the older row is marked as superseded."""
    newest: dict[str, KeyPlan] = {}
    for _, item in found:
        best = newest.get(item.key)
        if best is None or item.updated_at > best.updated_at:
            newest[item.key] = item
    for owner, item in found:
        winner = newest[item.key]
        if item is winner:
            yield owner, item
            continue
        message = f"{item.stated_key} and {winner.stated_key} are one key; the newer row is kept, this one is history"
        plan.issues.append(Issue("key_collision", "warning", message, session_key=item.key))
        yield owner, replace(item, superseded=True)


def _started_ms(resolution: discovery.Resolution) -> int | None:
    """The time of the transcript's header, None without one."""
    if resolution.source is None:
        return None
    try:
        header = discovery.read_header(resolution.source.path)
    except OSError:
        return None  # Reading the transcript itself will say why.
    return _header_ms(header)


def _header_ms(header: discovery.Header) -> int | None:
    moment = timestamp_ms(header.timestamp)
    return None if moment is None else int(moment)


def _plan_unreferenced(plan: TargetPlan, stored: StoredSessions, rules: Rules, now_ms: int) -> None:
    """Files that no row names: sessions of their own become rows, the rest is history for the archive."""
    referenced = {session.source.name for session in plan.sessions if session.source is not None}
    known = {session.session_id for session in plan.sessions}
    taken: set[str] = set()
    ours = recognition.in_agent_directory(plan.target)
    for name, source in plan.listing.transcripts.items():
        # Elsewhere than in an agent's directory there may be anybody's JSONL files.
        if name in referenced or not (ours or recognition.is_transcript(source)):
            continue
        session = _historical_session(plan, source, known, stored, rules, now_ms)
        if session is None:
            plan.unreferenced.append(source)
            continue
        known.add(session.session_id)
        taken.update(sidecar.name for sidecar in session.sidecars)
        plan.sessions.append(session)
    for session in plan.sessions:
        taken.update(sidecar.name for sidecar in session.sidecars)
    checkpoints = plan.listing.files[FileClass.CHECKPOINT].values()
    plan.unreferenced.extend(source for source in checkpoints if ours or recognition.is_transcript(source))
    trajectories = plan.listing.files[FileClass.TRAJECTORY].values() if ours else ()
    plan.unreferenced.extend(source for source in trajectories if source.name not in taken)
    plan.unreferenced.sort(key=lambda source: source.name)


def _historical_session(
    plan: TargetPlan, source: Source, known: set[str], stored: StoredSessions, rules: Rules, now_ms: int
) -> SessionPlan | None:
    """A session for an unreferenced transcript, or None (with an issue where content stays out of the store)."""
    try:
        header = discovery.read_header(source.path)
        if rules.salvage and header.kind == "damaged":
            header = discovery.salvaged_header(source.path, rules.max_line_bytes)
    except OSError as error:
        plan.issues.append(Issue("transcript_unreadable", "error", f"{source.path}: {error.strerror}"))
        return None
    leftover = _leftover(plan, source, header, known, stored)
    if leftover is not None:
        return leftover
    if not discovery.is_historical(header, source.name):
        issue = _kept_out(source, header)
        if issue is not None:
            plan.issues.append(issue)
        return None
    session_id = str(header.session_id)
    if session_id in known:
        message = f"{source.path} is a second transcript of session {session_id}; it goes to the archive only"
        plan.issues.append(Issue("historical_transcript_deferred", "error", message))
        return None
    key = f"agent:{plan.target.agent_id}:recovered:{session_id}"
    entry = {"sessionId": session_id, "updatedAt": source.mtime_ms, "archivedAt": source.mtime_ms}
    keyed = _normalised(
        plan, index_file.IndexEntry(key, session_id, jstext.dumps(entry)), rules, _header_ms(header), now_ms
    )
    if keyed is None:
        return None
    owner, item = keyed
    sidecars = tuple(plan.listing.sidecars(source.name))
    return SessionPlan(session_id, owner, (item,), source, sidecars, historical=True)


def _leftover(
    plan: TargetPlan, source: Source, header: discovery.Header, known: set[str], stored: StoredSessions
) -> SessionPlan | None:
    """The plan for the transcript of a session that the store has: under the key that it has there, as it is there."""
    session_id = header.session_id
    if header.kind != "session" or session_id is None or session_id in known:
        return None
    found = stored.key_of(session_id)
    if found is None:
        return None
    text = found.entry_text if found.is_current else jstext.dumps({"sessionId": session_id, "updatedAt": 0})
    updated_at = found.updated_at if found.is_current else 0
    keyed = KeyPlan(found.key, found.key, session_id, updated_at, text, superseded=not found.is_current)
    sidecars = tuple(plan.listing.sidecars(source.name))
    return SessionPlan(session_id, found.agent_id, (keyed,), source, sidecars)


def _kept_out(source: Source, header: discovery.Header) -> Issue | None:
    """Why an unreferenced transcript is no session of its own; None where that needs no word (empty, foreign)."""
    if header.kind in ("empty", "foreign"):
        return None
    facts = {"file": str(source.path), "headerId": header.session_id, "nameId": discovery.id_in_name(source.name)}
    if header.kind == "damaged":
        message = f"{source.path}: the first line is damaged; the file goes to the archive unread"
        return Issue("transcript_malformed", "error", message, facts=facts)
    if header.session_id != facts["nameId"]:
        message = f"{source.path} names session {header.session_id} in its header; it goes to the archive unread"
        return Issue("header_id_mismatch", "error", message, facts=facts)
    message = f"{source.path} has a header of unknown form (version {header.version!r}); it goes to the archive unread"
    return Issue("historical_transcript_deferred", "error", message, facts=facts)


def _rebuilt(index: index_file.Index) -> Issue:
    message = f"{index.path} could not be used; the sessions were taken from the headers of their transcripts"
    return Issue("index_rebuilt", "warning", message)
