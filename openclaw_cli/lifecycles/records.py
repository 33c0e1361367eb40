"""What the scanner finds: sub-task lifecycles of one source, as values.

Lines are 1-based lines of the file. The JSON form of every class is the public contract of `scan-lifecycles --json`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any


class State(StrEnum):
    """Where a lifecycle stands at the end of the source (lifecycles §2)."""

    PENDING = "pending"
    SPAWN_ERROR = "spawn_error"
    SPAWN_FORBIDDEN = "spawn_forbidden"
    ACCEPTED = "accepted"
    COMPLETED_OK = "completed_ok"
    COMPLETED_TIMEOUT = "completed_timeout"
    COMPLETED_ERROR = "completed_error"
    COMPLETED_KILLED = "completed_killed"
    COMPLETED_UNKNOWN = "completed_unknown"

    @property
    def closed(self) -> bool:
        """Whether the sub-task has ended, with whatever outcome."""
        return self.value.startswith("completed_")


@dataclass(frozen=True, slots=True)
class Spawn:
    """The tool call that starts a sub-task: entry at `line`, content block `block` (0-based)."""

    line: int
    block: int
    entry_id: str | None
    tool_call_id: str | None
    wrapped_in_tool_call: bool
    tool_name: str
    label: str | None
    task_name: str | None
    task: str | None
    agent_id: str | None
    runtime: str | None
    mode: str | None
    timestamp: str | None

    def as_json(self) -> dict[str, Any]:
        """The contract's keys; the task text itself is left out, it belongs to the card."""
        return {
            "line": self.line,
            "block": self.block,
            "entryId": self.entry_id,
            "toolCallId": self.tool_call_id,
            "wrappedInToolCall": self.wrapped_in_tool_call,
            "label": self.label,
            "taskName": self.task_name,
            "agentId": self.agent_id,
            "runtime": self.runtime,
            "mode": self.mode,
            "timestamp": self.timestamp,
        }


@dataclass(frozen=True, slots=True)
class SpawnResult:
    """The tool result that accepts or refuses a spawn."""

    line: int
    entry_id: str | None
    child_session_key: str | None
    run_id: str | None
    error: str | None

    def as_json(self) -> dict[str, Any]:
        return {
            "line": self.line,
            "entryId": self.entry_id,
            "childSessionKey": self.child_session_key,
            "runId": self.run_id,
            "error": self.error,
        }


@dataclass(frozen=True, slots=True)
class Completion:
    """A marker that ends a sub-task.

    `result` is the child's answer (None: the marker carries none). The formats `announce-run-reply` and `document`
    carry no answer; there it is what the agent itself said on hearing of the end. Very long texts are cut in the
    middle.
    """

    line: int
    entry_id: str | None
    format: str
    matched_by: str | None
    status: str | None
    outcome: str
    stats: Mapping[str, Any]
    timestamp: str | None
    wall_ms: int | None
    result: str | None = None

    def as_json(self) -> dict[str, Any]:
        return {
            "line": self.line,
            "entryId": self.entry_id,
            "format": self.format,
            "matchedBy": self.matched_by,
            "status": self.status,
            "outcome": self.outcome,
            "stats": dict(self.stats),
            "timestamp": self.timestamp,
            "wallMs": self.wall_ms,
        }


@dataclass(frozen=True, slots=True)
class Removal:
    """What folding takes out of the file for one lifecycle.

    `lines`: entries that go whole. `blocks`: (line, block index) of tool-call blocks that go; their entry goes too when
    no other tool call, text or image is left in it. `card_parent_line`: the entry under which the card is placed (None:
    the root). `shared`: (line, indexes of the lifecycles that it speaks of) for those of `lines` that speak of several;
    such a line goes only when all of them are folded.
    """

    lines: tuple[int, ...] = ()
    blocks: tuple[tuple[int, int], ...] = ()
    card_parent_line: int | None = None
    shared: tuple[tuple[int, tuple[int, ...]], ...] = ()


@dataclass(frozen=True, slots=True)
class Lifecycle:
    """One sub-task from its spawn to the last thing that the source says of it.

    `entries` and `overlaps` (other closed lifecycles whose ranges touch this one) are None while it is not closed.
    `foldable` is decided for `keep_last` of the scan; `reason` says what forbids it, several reasons joined by `; `.
    """

    spawn: Spawn
    result: SpawnResult | None
    completion: Completion | None
    repeats: tuple[Completion, ...]
    state: State
    overlaps: int | None
    entries: int | None
    tokens_removed: int | None
    child_tokens: int | None
    foldable: bool
    reason: str | None
    removal: Removal = field(default_factory=Removal)

    @property
    def answer(self) -> str | None:
        """The best known result text: the child's own words from the last marker that has them, else the agent's."""
        markers = [marker for marker in (self.completion, *self.repeats) if marker and marker.result]
        own = [marker for marker in markers if marker.format not in ("announce-run-reply", "document")]
        chosen = own or markers
        return chosen[-1].result if chosen else None

    @property
    def status(self) -> str | None:
        """The wording that decides the outcome: that of the last marker that has one."""
        told = [marker.status for marker in (self.completion, *self.repeats) if marker and marker.status is not None]
        return told[-1] if told else None

    def as_json(self) -> dict[str, Any]:
        return {
            "spawn": self.spawn.as_json(),
            "result": self.result.as_json() if self.result else None,
            "completion": self.completion.as_json() if self.completion else None,
            "repeats": [{"line": r.line, "format": r.format, "outcome": r.outcome} for r in self.repeats],
            "state": self.state.value,
            "overlaps": self.overlaps,
            "entries": self.entries,
            "tokens": {"removed": self.tokens_removed, "childTokens": self.child_tokens},
            "foldable": self.foldable,
            "reason": self.reason,
        }


@dataclass(frozen=True, slots=True)
class SourceScan:
    """All lifecycles of one source, in the order of their spawns.

    `damage` holds `jsonl.Damage` values, at most 1000; `damage_omitted` more were met.
    """

    source: str
    records: int
    lifecycles: tuple[Lifecycle, ...]
    completions_without_spawn: tuple[Completion, ...]
    damage: tuple[Any, ...] = ()
    damage_omitted: int = 0
    warnings: tuple[str, ...] = ()

    def as_json(self) -> dict[str, Any]:
        return {
            "source": self.source,
            "records": self.records,
            "lifecycles": [lifecycle.as_json() for lifecycle in self.lifecycles],
            "completionsWithoutSpawn": [completion.as_json() for completion in self.completions_without_spawn],
            "damage": [damage.as_json() for damage in self.damage],
            "warnings": list(self.warnings),
        }
