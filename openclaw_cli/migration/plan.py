"""What an import is going to do with one store, decided before anything is written (design D9).

The plan is made from the index and the directory listing alone, plus the first row of files that no row names. No
transcript is read here; a dry run and an import start from the same value.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass, field
from typing import Any

from openclaw_cli.config.paths import Target
from openclaw_cli.errors import Issue
from openclaw_cli.migration import discovery
from openclaw_cli.migration import index as index_file
from openclaw_cli.migration.discovery import FileClass, Listing, Source
from openclaw_cli.migration.keys import canonical_key, owner_agent


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


@dataclass(frozen=True, slots=True)
class KeyPlan:
    """One session key that will point to a session. `superseded`: another row of the same key is newer."""

    key: str
    stated_key: str
    entry: dict[str, Any]
    superseded: bool = False


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
    def source_bytes(self) -> int:
        """Bytes of the transcripts that will be read."""
        return sum(session.source.size_bytes for session in self.sessions if session.source is not None)

    @property
    def referenced_files(self) -> int:
        """Number of transcripts that a session of the plan names."""
        return len({session.source.path for session in self.sessions if session.source is not None})


def plan_target(target: Target, rules: Rules) -> TargetPlan:
    """Read index and directory of one store and decide what becomes of each row and file."""
    index = index_file.read_index(target.store_path)
    listing = discovery.list_directory(target.sessions_dir)
    plan = TargetPlan(target, index, listing)
    if not index.usable and rules.rebuild_index:
        index.usable = True
        plan.issues.append(_rebuilt(index))
    else:
        plan.issues.extend(index.issues)
    if not index.usable:
        plan.unreferenced = [*listing.transcripts.values(), *listing.files[FileClass.CHECKPOINT].values()]
        return plan
    _plan_entries(plan, rules)
    _plan_unreferenced(plan)
    return plan


def _plan_entries(plan: TargetPlan, rules: Rules) -> None:
    """Group the rows by owner and session: one transcript may serve several keys."""
    agent_id = plan.target.agent_id
    groups: dict[tuple[str, str], list[KeyPlan]] = {}
    for keyed in _canonical(plan, rules):
        owner = owner_agent(keyed.key) or agent_id
        groups.setdefault((owner, str(keyed.entry["sessionId"])), []).append(keyed)
    for (owner, session_id), keys in groups.items():
        plan.sessions.append(_plan_session(plan, owner, session_id, keys))


def _canonical(plan: TargetPlan, rules: Rules) -> Iterable[KeyPlan]:
    """The rows under canonical keys, in the order of the index; of two spellings of one key the newer row wins."""
    newest: dict[str, KeyPlan] = {}
    found: list[KeyPlan] = []
    for row in plan.index.entries:
        key = canonical_key(
            row.key,
            agent_id=plan.target.agent_id,
            main_key=rules.main_key,
            scope=rules.scope,
            agents=rules.agents,
        )
        if not key:
            message = f"{plan.index.path}: no session key can be made of this one; the row was left out"
            plan.issues.append(Issue("entry_invalid", "error", message, session_key=row.key))
            continue
        keyed = KeyPlan(key, row.key, {**row.entry, "sessionId": row.session_id})
        found.append(keyed)
        best = newest.get(key)
        if best is None or _updated(keyed.entry) > _updated(best.entry):
            newest[key] = keyed
        if key != row.key:
            message = f"the key is stored as {key}"
            plan.issues.append(Issue("key_canonicalised", "warning", message, session_key=row.key))
    for keyed in found:
        winner = newest[keyed.key]
        if keyed is winner:
            yield keyed
            continue
        message = f"{keyed.stated_key} and {winner.stated_key} are one key; the newer row is kept, this one is history"
        plan.issues.append(Issue("key_collision", "warning", message, session_key=keyed.key))
        yield KeyPlan(keyed.key, keyed.stated_key, keyed.entry, superseded=True)


def _plan_session(plan: TargetPlan, owner: str, session_id: str, keys: list[KeyPlan]) -> SessionPlan:
    """Find the transcript: the first row that leads to a file decides, so that aliases share it."""
    resolutions = [discovery.resolve(keyed.entry, session_id, plan.listing) for keyed in keys]
    chosen = next((item for item in resolutions if item.source is not None), resolutions[0])
    for keyed, resolution in zip(keys, resolutions, strict=True):
        if resolution.refused:
            message = "the row names a file outside the sessions directory; the row is kept, the file was not opened"
            plan.issues.append(Issue("transcript_path_refused", "error", message, session_key=keyed.key))
    sidecars = tuple(plan.listing.sidecars(chosen.source.name)) if chosen.source is not None else ()
    return SessionPlan(session_id, owner, tuple(keys), chosen.source, sidecars, resolution=chosen)


def _plan_unreferenced(plan: TargetPlan) -> None:
    """Files that no row names: sessions of their own become rows, the rest is history for the archive."""
    referenced = {session.source.name for session in plan.sessions if session.source is not None}
    known = {session.session_id for session in plan.sessions}
    taken: set[str] = set()
    for name, source in plan.listing.transcripts.items():
        if name in referenced:
            continue
        session = _historical_session(plan, source, known)
        if session is None:
            plan.unreferenced.append(source)
            continue
        known.add(session.session_id)
        taken.update(sidecar.name for sidecar in session.sidecars)
        plan.sessions.append(session)
    for session in plan.sessions:
        taken.update(sidecar.name for sidecar in session.sidecars)
    plan.unreferenced.extend(plan.listing.files[FileClass.CHECKPOINT].values())
    trajectories = plan.listing.files[FileClass.TRAJECTORY].values()
    plan.unreferenced.extend(source for source in trajectories if source.name not in taken)
    plan.unreferenced.sort(key=lambda source: source.name)


def _historical_session(plan: TargetPlan, source: Source, known: set[str]) -> SessionPlan | None:
    """A session for an unreferenced transcript, or None (with an issue where content stays out of the store)."""
    try:
        header = discovery.read_header(source.path)
    except OSError as error:
        plan.issues.append(Issue("transcript_unreadable", "error", f"{source.path}: {error.strerror}"))
        return None
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
    sidecars = tuple(plan.listing.sidecars(source.name))
    return SessionPlan(session_id, plan.target.agent_id, (KeyPlan(key, key, entry),), source, sidecars, historical=True)


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


def _updated(entry: dict[str, Any]) -> float:
    stated = entry.get("updatedAt")
    usable = isinstance(stated, int | float) and not isinstance(stated, bool)
    return float(stated) if usable else 0.0  # type: ignore[arg-type]
