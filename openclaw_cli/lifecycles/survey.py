"""What a fold has to know of a file before it changes it: one streaming read beside the scanner's values.

Keeps the tree (one small tuple per entry), the estimate of each message, and of removed entries their ids, a running
hash and the facts for the card; never their text.
"""

from __future__ import annotations

import hashlib
from array import array
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Any, NamedTuple

from openclaw_cli.jsonl import Record
from openclaw_cli.lifecycles import blocks
from openclaw_cli.lifecycles.records import SourceScan
from openclaw_cli.lifecycles.rewrite import is_empty_without, without_blocks
from openclaw_cli.summarize.extractive import error_lines, file_changes
from openclaw_cli.transcript import estimate
from openclaw_cli.transcript.entries import (
    excluded_from_context,
    is_canonical,
    is_readable,
    message_of,
    non_blank,
    text_of,
    tool_calls,
)
from openclaw_cli.transcript.tree import Tree

_REFERENCES = ("firstKeptEntryId", "targetId", "appendParentId", "fromId")
_ORIGIN_FIELDS = ("api", "provider", "model")


@dataclass(slots=True)
class Evidence:
    """Of one folded lifecycle: hash of the removed lines, ids of removed entries and tool calls, facts for the card."""

    digest: Any = field(default_factory=hashlib.sha256)
    entry_ids: list[str] = field(default_factory=list)
    tool_call_ids: list[str] = field(default_factory=list)
    lines: list[int] = field(default_factory=list)
    model: dict[str, Any] = field(default_factory=dict)
    files: dict[str, list[tuple[str, bool]]] = field(default_factory=dict)
    failed_calls: set[str] = field(default_factory=set)
    errors: list[str] = field(default_factory=list)

    def changes(self) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """The files that successful calls created and changed; what was created is not said to be changed too."""
        done = [change for call, found in self.files.items() if call not in self.failed_calls for change in found]
        created = dict.fromkeys(path for path, is_new in done if is_new)
        changed = dict.fromkeys(path for path, is_new in done if not is_new and path not in created)
        return tuple(created), tuple(changed)


@dataclass(frozen=True, slots=True)
class Child:
    """A kept entry below a removed one, or with a parent that the file does not hold."""

    id: str
    raw_parent: str | None
    canonical: bool


class Part(IntEnum):
    """What an entry is to a model context. A reset retains turns and results of what was before it, nothing else."""

    HIDDEN = 0
    SHOWN = 1
    TURN = 2
    COMPACTION = 3
    RESET = 4


_PARTS = {
    "custom_message": Part.SHOWN,
    "branch_summary": Part.SHOWN,
    "compaction": Part.COMPACTION,
    "reset": Part.RESET,
}
_TURN_ROLES = ("user", "assistant", "toolResult")


def part_of(value: dict[str, Any]) -> Part:
    """The part of an entry; what the reader does not accept is hidden."""
    kind = value.get("type")
    if kind == "message":
        if not is_readable(value) or excluded_from_context(value):
            return Part.HIDDEN
        return Part.TURN if value["message"]["role"] in _TURN_ROLES else Part.SHOWN
    part = _PARTS.get(kind, Part.HIDDEN) if isinstance(kind, str) else Part.HIDDEN
    return part if part and is_readable(value) else Part.HIDDEN


class Reference(NamedTuple):
    """A field of a kept entry that names a removed one. `navigates`: it is the target of a leaf control."""

    line: int
    name: str
    target: str
    navigates: bool


class Survey:
    """Takes the records of the file in order; `folded` are the indexes of the lifecycles that go."""

    def __init__(self, scan: SourceScan) -> None:
        self.folded = [
            index
            for index, lifecycle in enumerate(scan.lifecycles)
            if lifecycle.foldable and (lifecycle.removal.lines or lifecycle.removal.blocks)
        ]
        chosen = set(self.folded)
        self.evidence = {index: Evidence() for index in self.folded}
        self.tree = Tree()
        self.record_lines = array("Q")
        self.weights = array("I")
        self.parts = bytearray()
        self.first_kept: dict[int, object] = {}
        self.changed_weights: dict[int, int] = {}
        self.user_turns = array("Q")
        self.gone_ids: dict[str, int] = {}
        self.gone_lines: set[int] = set()
        self.children: dict[int, Child] = {}
        self.dangling: dict[int, Child] = {}
        self.references: list[Reference] = []
        self.index_references: list[tuple[int, int]] = []
        self.other_ids: set[str] = set()
        self.opaque_ids: set[str] = set()
        self.ids_by_line: dict[int, str] = {}
        self.line_owners: dict[int, list[int]] = {}
        self.block_owners: dict[int, dict[int, int]] = {}
        self._interesting: set[int] = set()
        for index in self.folded:
            removal = scan.lifecycles[index].removal
            shared = dict(removal.shared)
            for line in removal.lines:
                if chosen.issuperset(shared.get(line, ())):
                    self.line_owners.setdefault(line, []).append(index)
            for line, block in removal.blocks:
                self.block_owners.setdefault(line, {})[block] = index
            self._interesting.add(scan.lifecycles[index].spawn.line)
            if removal.card_parent_line is not None:
                self._interesting.add(removal.card_parent_line)
            completion = scan.lifecycles[index].completion
            if completion is not None:
                self._interesting.add(completion.line)
        self._interesting.update(self.line_owners, self.block_owners)

    def feed(self, record: Record) -> None:
        """Take the next record."""
        line, value = record.line, record.value
        self.record_lines.append(line)
        if type(value) is not dict:
            self.weights.append(0)
            self.parts.append(Part.HIDDEN)
            return
        raw_parent = value.get("parentId")
        known = raw_parent is None or not isinstance(raw_parent, str) or raw_parent in self.tree.nodes
        node = self.tree.add(line, value)
        identity = value.get("id")
        if node is None:
            if isinstance(identity, str):
                self.other_ids.add(identity)
        elif not is_canonical(value):
            self.opaque_ids.add(value["id"])
        part = part_of(value)
        self.parts.append(part)
        self.weights.append(_weight(value) if part else 0)
        if part is Part.COMPACTION or part is Part.RESET:
            self.first_kept[line] = value.get("firstKeptEntryId")
        if line in self._interesting:
            if non_blank(identity):
                self.ids_by_line[line] = identity
            if line in self.line_owners or line in self.block_owners:
                self._removed(record, non_blank(identity))
                if line in self.gone_lines:
                    return
        self._kept(line, value, node.parent if node else None, known)

    def _removed(self, record: Record, identity: str | None) -> None:
        line, value = record.line, record.value
        owners = set(self.line_owners.get(line, ()))
        gone_blocks = self.block_owners.get(line, {})
        if not owners and is_empty_without(value, gone_blocks):
            owners.update(gone_blocks.values())
            whole = True
        else:
            whole = bool(owners)
        if whole:
            self.gone_lines.add(line)
            if identity is not None:
                self.gone_ids[identity] = min(owners)
        else:
            self.changed_weights[line] = estimate.message_tokens(without_blocks(value, gone_blocks)["message"])
        for index in sorted(owners | set(gone_blocks.values())):
            evidence = self.evidence[index]
            evidence.digest.update(record.raw + b"\n")
            evidence.lines.append(line)
            if whole and identity is not None:
                evidence.entry_ids.append(identity)
            _gather(evidence, value, [block for block, owner in gone_blocks.items() if owner == index])

    def _kept(self, line: int, value: dict[str, Any], parent: str | None, known: bool) -> None:
        named = value.get("parentId")
        raw_parent = named if isinstance(named, str) else None  # an object or a list is no link
        if parent in self.gone_ids or raw_parent in self.gone_ids:
            self.children[line] = Child(value["id"], raw_parent, is_canonical(value))
        elif not known and non_blank(value.get("id")):
            self.dangling[line] = Child(value["id"], raw_parent, is_canonical(value))
        if value.get("type") == "message":
            if _is_user_turn(value):
                self.user_turns.append(line)
            return
        for name in _REFERENCES:
            target = value.get(name)
            if isinstance(target, str) and target in self.gone_ids:
                self.references.append(Reference(line, name, target, value.get("type") == "leaf"))
        position = value.get("firstKeptEntryIndex")
        if type(position) is int:
            self.index_references.append((line, position))


def _gather(evidence: Evidence, value: Mapping[str, Any], own_blocks: Iterable[int]) -> None:
    """Collect the facts of one removed entry."""
    message = message_of(value)
    if message is None:
        return
    if message.get("role") == "toolResult":
        if message.get("isError") is True:
            evidence.failed_calls.add(str(message.get("toolCallId")))
            evidence.errors.extend(error_lines(text_of(message)))
        return
    if message.get("role") != "assistant":
        return
    if not evidence.model:
        evidence.model = {name: message[name] for name in _ORIGIN_FIELDS if name in message}
    own = set(own_blocks)
    for index, block in tool_calls(message):
        if index in own:
            call_id, request = str(block.get("id")), blocks.request_of(block)
            evidence.tool_call_ids.append(call_id)
            evidence.files.setdefault(call_id, []).extend(file_changes(request.name, request.arguments))


def _weight(value: dict[str, Any]) -> int:
    """The estimate of what a readable entry adds to a model context."""
    kind = value["type"]
    if kind == "message":
        return estimate.message_tokens(value["message"])
    if kind == "custom_message":
        return estimate.message_tokens({"role": "custom", "content": value["content"]})
    return estimate.message_tokens({"role": "compactionSummary", "summary": value.get("summary")})


def _is_user_turn(value: dict[str, Any]) -> bool:
    """Whether the entry is a person's word and not a message that the program put in."""
    message = message_of(value)
    if message is None or message.get("role") != "user" or message.get("display") is False:
        return False
    provenance = message.get("provenance")
    return not (isinstance(provenance, dict) and provenance.get("kind") == "inter_session")
