"""The archived originals of finished imports as sources that can be compared with a store again."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from openclaw_cli.config.paths import Target
from openclaw_cli.durable import same_file
from openclaw_cli.errors import Issue, escaped
from openclaw_cli.migration import discovery, restoring
from openclaw_cli.migration.claims import Claim
from openclaw_cli.migration.discovery import Source
from openclaw_cli.migration.keys import owner_agent
from openclaw_cli.storage import events
from openclaw_cli.storage.connection import Store


@dataclass(frozen=True, slots=True)
class Original:
    """One archived transcript: where it is, what it was called, and which bytes the import recorded."""

    source: Source
    name: str
    session_key: str
    sha256: str | None
    agent_id: str


@dataclass(slots=True)
class Originals:
    """The archived transcripts of one store, and what is wrong with archives that should be there."""

    found: list[Original] = field(default_factory=list)
    issues: list[Issue] = field(default_factory=list)

    @property
    def source_bytes(self) -> int:
        """Bytes that will be read."""
        return sum(original.source.size_bytes for original in self.found)


def originals_of(state_dir: Path, targets: tuple[Target, ...]) -> tuple[dict[str, Originals], list[Issue]]:
    """Agent id → archived transcripts, as the manifests of a state directory name them, and unusable manifests.

    Left out: files that were restored (they are sources again), archives that a clean-up disposed of, history that was
    never imported, and a second archive of the same bytes.
    """
    known, issues = restoring.known_runs(state_dir)
    result: dict[str, Originals] = {}
    for place, _, claims in restoring.stores(state_dir, targets, known):
        originals = result.setdefault(place.agent_id, Originals())
        for candidates in claims.values():
            for claim in _distinct(candidates):
                _look(claim, place.agent_id, originals)
    return result, issues


def session_ids(original: Original, store: Store | None) -> list[str]:
    """Sessions of the store that may be the original's, the likeliest first; never empty.

    No manifest names the session: an import takes the id from the index. Usually that is the one in the file's name;
    else the header has it, or the key leads to it.
    """
    header = discovery.read_header(original.source.path)
    named = discovery.id_in_name(original.name)
    stated = [named, header.session_id, original.name.removesuffix(".jsonl")]
    if store is None:
        return [named]
    sql = "SELECT session_id FROM session_windows WHERE session_key = ? ORDER BY updated_at DESC"
    of_key = [session_id for (session_id,) in store.execute(sql, (original.session_key,))]
    candidates = dict.fromkeys(one for one in (*stated, *of_key) if one is not None and escaped(one) == one)
    return [one for one in candidates if events.count(store, one)] or [named]


def _distinct(candidates: list[Claim]) -> Iterator[Claim]:
    seen: set[str] = set()
    for claim in candidates:
        if claim.kind != "transcript" or claim.disposal != "retained" or claim.recorded_sha256 in seen:
            continue
        if claim.recorded_sha256 is not None and claim.archive_path.is_file():
            seen.add(claim.recorded_sha256)
        yield claim


def _look(claim: Claim, agent_id: str, originals: Originals) -> None:
    key = claim.session_key or ""
    try:
        status = claim.archive_path.stat()
    except FileNotFoundError:
        if not claim.consumed and claim.completed and not claim.source_path.exists():
            message = f"{claim.archive_path} is missing, and {claim.source_path} too; there is nothing to compare"
            originals.issues.append(Issue("archived_file_missing", "error", message, claim.session_key))
        return
    except OSError as error:
        message = f"{claim.archive_path} cannot be read: {error.strerror}"
        originals.issues.append(Issue("archive_unreadable", "error", message, claim.session_key))
        return
    if same_file(claim.archive_path, claim.source_path):
        return  # An interrupted move: the file is still a source of its own.
    source = Source(claim.archive_path, status.st_size, status.st_mtime_ns // 1_000_000)
    owner = owner_agent(key) or agent_id
    originals.found.append(Original(source, claim.source_path.name, key, claim.recorded_sha256, owner))
