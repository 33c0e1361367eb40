"""What a model would see of a transcript: the branch that the real reader walks and the part of it that is sent. Pure.

Rules: compaction §2 and §19. The reader's branch and the store's active path (tree.py) agree on sane transcripts; they
differ for rows that the reader does not accept as entries, which it walks through.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

from openclaw_cli.transcript.entries import (
    Event,
    excluded_from_context,
    is_readable,
    is_side,
    message_of,
    role,
    timestamp_ms,
)
from openclaw_cli.transcript.pairing import PairingFacts, facts_of, paired_results

_BOUNDARIES = ("compaction", "reset")
_IN_CONTEXT = ("message", "custom_message", "branch_summary")
# Provider state that is bound to what stood before it and is void once that is summarised.
_CHECKPOINTS = ("anthropic-compaction", "openai-responses-compaction", "openai-responses-retained-compaction")


@dataclass(frozen=True, slots=True)
class Fact:
    """One readable entry, reduced to what navigation and selection need. `index` is the caller's number for the row."""

    index: int
    id: str
    parent: str | None
    kind: str
    first_kept: str | None
    excluded: bool
    has_summary: bool
    pairing: PairingFacts | None


@dataclass(frozen=True, slots=True)
class Selected:
    """One entry of the model context. `boundary`: it is the compaction whose summary stands for what went before."""

    index: int
    boundary: bool
    retained: bool


class Window(NamedTuple):
    """The active path; `cut` is the place of the boundary on it (-1: none), `first_kept` of what it retains first."""

    path: list[Fact]
    cut: int
    first_kept: int


def _fact(index: int, event: Event) -> Fact:
    message = message_of(event)
    first_kept = event.get("firstKeptEntryId")
    return Fact(
        index=index,
        id=event["id"],
        parent=event.get("parentId"),
        kind=event["type"],
        first_kept=first_kept if isinstance(first_kept, str) else None,
        excluded=excluded_from_context(event),
        has_summary=bool(event.get("summary")),
        pairing=facts_of(message) if message else None,
    )


class Branch:
    """Follows the reader's navigation over a transcript in stored order; keeps one small record per entry."""

    def __init__(self) -> None:
        self.leaf_id: str | None = None
        self.entries: dict[str, Fact] = {}
        self._append_parent: str | None = None
        self._opaque: dict[str, str | None] = {}
        self._logical: dict[str, str | None] = {}
        self._invalid: set[str] = set()
        self._reset_id: str | None = None
        self._reset_line: set[str] = set()

    def feed(self, index: int, event: object) -> None:
        """Take the next row; `index` is what `path` and `model_context` will call it."""
        if not isinstance(event, dict) or event.get("type") == "session":
            return
        if is_readable(event):
            self._entry(index, event)
        elif isinstance(event.get("id"), str) and event["id"] and self._is_reference(event, "parentId"):
            if event.get("type") == "leaf":
                self._control(event)
            else:
                self._link(event["id"], event["parentId"])

    @staticmethod
    def _is_reference(event: Event, key: str) -> bool:
        return key in event and (event[key] is None or isinstance(event[key], str))

    def _entry(self, index: int, event: Event) -> None:
        identity, parent = event["id"], event.get("parentId")
        if event["type"] == "label" and event["targetId"] not in self.entries:
            self._opaque[identity] = self._canonical(parent)
            return
        side = is_side(event)
        outside_reset = self._reset_id is not None and not side and parent not in self._reset_line
        beside = not side and parent == self._append_parent and self.leaf_id != self._append_parent
        if outside_reset or "parentId" not in event or beside:
            self._logical[identity] = self.leaf_id
        self.entries[identity] = _fact(index, event)
        if event["type"] == "reset":
            self._reset_id, self._reset_line = identity, {identity}
        elif self._reset_id is not None and self._logical.get(identity, parent) in self._reset_line:
            self._reset_line.add(identity)
        self._append_parent = identity
        if not side:
            self.leaf_id = identity

    def _link(self, identity: str, parent: str | None) -> None:
        self._opaque[identity] = parent
        if self._reset_id is not None and parent in self._reset_line:
            self._reset_line.add(identity)
        self._append_parent = identity

    def _control(self, event: Event) -> None:
        present = ("targetId", *(("appendParentId",) if "appendParentId" in event else ()))
        if not all(self._is_reference(event, key) for key in present) or event.get("appendMode", "side") != "side":
            # The reader takes a malformed control for no link at all.
            return
        identity = event["id"]
        if not all(self._known(event[key]) for key in present):
            self._invalid.add(identity)
            self._opaque[identity] = self._append_target(event["parentId"])
            return
        leaf = self._canonical(event["targetId"])
        append = self._append_target(event["appendParentId"]) if "appendParentId" in event else leaf
        if self._reset_id is not None and (leaf is None or leaf not in self._reset_line):
            leaf = append = self.leaf_id
        self._opaque[identity] = leaf
        if self._reset_id is not None and leaf in self._reset_line:
            self._reset_line.add(identity)
        self.leaf_id, self._append_parent = leaf, append

    def _known(self, identity: object) -> bool:
        if identity is None or identity in self.entries:
            return True
        return identity in self._opaque and identity not in self._invalid

    def _append_target(self, identity: str | None) -> str | None:
        return identity if identity in self._opaque else self._canonical(identity)

    def _canonical(self, identity: str | None) -> str | None:
        """The nearest readable entry at or above an id, walking through opaque links; None at the root or a cycle."""
        seen: set[str] = set()
        while identity and identity not in self.entries:
            if identity in seen:
                return None
            seen.add(identity)
            identity = self._opaque.get(identity)
        return identity

    def parent_of(self, fact: Fact) -> str | None:
        """The entry above, after all rules; None: the root."""
        parent = self._logical[fact.id] if fact.id in self._logical else self._canonical(fact.parent)
        return None if parent == fact.id else parent

    def path(self) -> list[Fact]:
        """The entries from the root to the leaf; a cycle ends the walk."""
        found: list[Fact] = []
        seen: set[str] = set()
        identity = self.leaf_id
        while identity and identity not in seen:
            seen.add(identity)
            fact = self.entries.get(identity)
            if fact is None:
                identity = self._opaque.get(identity)
                continue
            found.append(fact)
            identity = self.parent_of(fact)
        found.reverse()
        return found

    def window(self) -> Window:
        """The path with the last compaction or reset on it and the beginning of what that one retains."""
        path = self.path()
        cut = boundary_of(path)
        return Window(path, cut, self._first_kept(path, cut) if cut >= 0 else 0)

    def model_context(self) -> list[Selected]:
        """The entries that the model sees, in order: the boundary's summary, what it retained, what follows it."""
        return select(self.window())

    def _first_kept(self, path: list[Fact], cut: int) -> int:
        """Where the retained part begins; at the boundary itself (nothing retained) when the id is not before it."""
        wanted = path[cut].first_kept
        if wanted is not None and wanted not in self.entries and wanted in self._opaque:
            wanted = self._canonical(wanted) or self._below(path, cut, wanted)
        return next((index for index, fact in enumerate(path[:cut]) if fact.id == wanted), cut)

    def _below(self, path: list[Fact], cut: int, wanted: str) -> str | None:
        """The first entry of the path that hangs, through opaque links, under a link that has no entry above it."""
        for fact in path[:cut]:
            link, seen = fact.parent, set[str]()
            while link and link in self._opaque and link not in seen:
                if link == wanted:
                    return fact.id
                seen.add(link)
                link = self._opaque[link]
        return None


def boundary_of(path: list[Fact]) -> int:
    """The place of the last compaction or reset on a path; -1: there is none."""
    return max((place for place, fact in enumerate(path) if fact.kind in _BOUNDARIES), default=-1)


def select(window: Window) -> list[Selected]:
    """The part of a path that the model sees."""
    path, cut, first_kept = window
    if cut < 0:
        return [Selected(fact.index, False, False) for fact in path if _visible(fact)]
    boundary = path[cut]
    kept = path[first_kept:cut]
    if boundary.kind == "reset":
        kept = _paired(kept)
        chosen = []
    else:
        kept = [fact for fact in kept if _visible(fact)]
        chosen = [Selected(boundary.index, True, False)]
    chosen.extend(Selected(fact.index, False, True) for fact in kept)
    chosen.extend(Selected(fact.index, False, False) for fact in path[cut + 1 :] if _visible(fact))
    return chosen


def _visible(fact: Fact) -> bool:
    if fact.kind == "branch_summary":
        return fact.has_summary
    return fact.kind in _IN_CONTEXT and not (fact.kind == "message" and fact.excluded)


def _paired(kept: list[Fact]) -> list[Fact]:
    """What a reset retains: user and assistant turns, and the tool results that answer a retained call."""
    messages = [fact for fact in kept if fact.kind == "message" and fact.pairing is not None]
    answers = paired_results([fact.pairing for fact in messages if fact.pairing is not None])
    return [
        fact
        for index, fact in enumerate(messages)
        if fact.pairing is not None and (fact.pairing.role in ("user", "assistant") or index in answers)
    ]


def message_for_model(event: Event, selected: Selected) -> dict[str, Any]:
    """The message that an entry of the context contributes, before it is put into a provider's form."""
    if selected.boundary:
        return {
            "role": "compactionSummary",
            "summary": event.get("summary"),
            "tokensBefore": event.get("tokensBefore"),
            "timestamp": timestamp_ms(event.get("timestamp")),
        }
    if event["type"] == "custom_message":
        keys = ("customType", "content", "display", "details")
        message = {"role": "custom", **{key: event[key] for key in keys if key in event}}
        return {**message, "timestamp": timestamp_ms(event.get("timestamp"))}
    if event["type"] == "branch_summary":
        summary = {"role": "branchSummary", "summary": event.get("summary"), "fromId": event.get("fromId")}
        return {**summary, "timestamp": timestamp_ms(event.get("timestamp"))}
    message = event["message"]
    replay = message.get("providerReplay")
    checkpoint = isinstance(replay, dict) and replay.get("type") in _CHECKPOINTS
    if checkpoint and selected.retained and role(event) == "assistant":
        message = {key: value for key, value in message.items() if key != "providerReplay"}
    return message


def model_context(events: Iterable[Event]) -> Iterator[dict[str, Any]]:
    """The messages that the model sees of a transcript held in memory."""
    rows = list(events)
    branch = Branch()
    for index, event in enumerate(rows):
        branch.feed(index, event)
    for selected in branch.model_context():
        yield message_for_model(rows[selected.index], selected)
