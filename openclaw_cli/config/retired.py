"""Keys of `openclaw.json` that OpenClaw retired, and what becomes of each (design 2.1, compaction §0).

One of them makes OpenClaw 2026.9.6 refuse the whole file. Some are renamed, some mean nothing any more; those that the
users' documents still describe move into our own configuration, where the commands of this program read them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from openclaw_cli.config.editing import Edit, Insert, Remove, Rename, Replace
from openclaw_cli.config.values import parse_duration_ms
from openclaw_cli.errors import UsageError

_COMPACTION = ("agents", "defaults", "compaction")

_MEANINGLESS = (
    (("session", "maintenance", "rotateBytes"), "index files are not rotated any more"),
    (("session", "parentForkMaxTokens"), "the size of forks is decided by a fixed limit"),
)
_RENAMED = (
    (("session", "maintenance", "pruneDays"), "pruneAfter"),
    (("session", "resetByType", "dm"), "direct"),
)
_OURS = (
    (*_COMPACTION, "truncateAfterCompaction"),
    (*_COMPACTION, "reserveTokens"),
    (*_COMPACTION, "reserveTokensFloor"),
    (*_COMPACTION, "maxHistoryShare"),
    (*_COMPACTION, "customInstructions"),
    (*_COMPACTION, "identifierInstructions"),
    (*_COMPACTION, "memoryFlush", "prompt"),
    (*_COMPACTION, "memoryFlush", "systemPrompt"),
)
_ZERO = (("session", "maintenance", "pruneAfter"), ("session", "maintenance", "resetArchiveRetention"))
_IDLE = ("session", "idleMinutes")
_RESET = ("session", "reset")
_POLICY = (*_COMPACTION, "identifierPolicy")
_MOST_ACTIVE = (*_COMPACTION, "maxActiveTranscriptBytes")


@dataclass(frozen=True, slots=True)
class Change:
    """What becomes of one retired key. `kept`: settings for our own file, under their dotted names."""

    key: str
    action: str
    reason: str
    edits: tuple[Edit, ...]
    to: str | None = None
    kept: Mapping[str, Any] = field(default_factory=dict)

    def as_json(self) -> dict[str, Any]:
        """Its object in a report; without values, which may be prompts."""
        document = {"key": self.key, "action": self.action, "to": self.to, "reason": self.reason}
        return {name: value for name, value in document.items() if value is not None}


def changes(document: Any) -> list[Change]:
    """What is to be done with the retired keys of one file, as it stands there (without what it includes)."""
    found = [*_meaningless(document), *_renamed(document), *_zero(document), *_idle(document), *_ours(document)]
    return found


def _meaningless(document: Any) -> Iterator[Change]:
    for keys, reason in _MEANINGLESS:
        if _has(document, keys):
            yield Change(".".join(keys), "removed", reason, (Remove(keys),))


def _renamed(document: Any) -> Iterator[Change]:
    for keys, new in _RENAMED:
        if not _has(document, keys):
            continue
        to = ".".join((*keys[:-1], new))
        if _has(document, (*keys[:-1], new)):
            yield Change(".".join(keys), "removed", f"{to} is set and wins", (Remove(keys),))
        elif new == "pruneAfter" and _is_zero(_at(document, keys)):
            yield Change(".".join(keys), "removed", "no time at all would remove every session", (Remove(keys),))
        else:
            yield Change(".".join(keys), "renamed", "the key has another name", (Rename(keys, new),), to)


def _zero(document: Any) -> Iterator[Change]:
    for keys in _ZERO:
        if _has(document, keys) and _is_zero(_at(document, keys)):
            reason = "no time at all would remove everything; the default applies"
            yield Change(".".join(keys), "removed", reason, (Remove(keys),))


def _idle(document: Any) -> Iterator[Change]:
    if not _has(document, _IDLE):
        return
    name, to = ".".join(_IDLE), "session.reset.idleMinutes"
    reset, minutes = _at(document, _RESET), _at(document, _IDLE)
    if not isinstance(reset, Mapping):
        # In this order: an object that is no object any more is replaced, one that is missing is made.
        value = {"mode": "idle", "idleMinutes": minutes}
        put = Replace(_RESET, value) if _has(document, _RESET) else Insert(_RESET, value)
        yield Change(name, "renamed", "the reset policy is one object", (put, Remove(_IDLE)), to)
    elif "idleMinutes" in reset:
        yield Change(name, "removed", f"{to} is set and wins", (Remove(_IDLE),))
    else:
        edits = (Insert((*_RESET, "idleMinutes"), minutes), Remove(_IDLE))
        yield Change(name, "renamed", "the reset policy is one object", edits, to)


def _ours(document: Any) -> Iterator[Change]:
    reason = "OpenClaw has no such setting any more, openclaw-cli has"
    for keys in _OURS:
        if not _has(document, keys):
            continue
        edits: list[Edit] = [Remove(keys)]
        kept = {".".join(keys): _at(document, keys)}
        if keys[-1] == "truncateAfterCompaction" and kept[".".join(keys)] is False and _has(document, _MOST_ACTIVE):
            # The size alone would switch compaction by size on, which this setting had switched off.
            edits.append(Remove(_MOST_ACTIVE))
            kept[".".join(_MOST_ACTIVE)] = _at(document, _MOST_ACTIVE)
        yield Change(".".join(keys), "moved", reason, tuple(edits), "openclaw-cli.yaml", kept)
    if _at(document, _POLICY) == "custom":
        name = ".".join(_POLICY)
        edits = [Replace(_POLICY, "strict")]
        yield Change(name, "moved", reason, tuple(edits), "openclaw-cli.yaml", {name: "custom"})


def _is_zero(value: Any) -> bool:
    if value is False or value is None:
        return False
    try:
        return parse_duration_ms(value, default_unit="d") <= 0
    except UsageError:
        return False  # No duration: OpenClaw says so itself, and nobody knows what was meant.


def _has(document: Any, keys: tuple[str, ...]) -> bool:
    owner = _at(document, keys[:-1])
    return isinstance(owner, Mapping) and keys[-1] in owner


def _at(document: Any, keys: tuple[str, ...]) -> Any:
    for key in keys:
        if not isinstance(document, Mapping) or key not in document:
            return None
        document = document[key]
    return document
