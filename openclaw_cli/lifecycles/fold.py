"""Folding: the finished sub-tasks of a transcript become cards (lifecycles §5, recommendation A and its rules).

Two reads of the file beside the scanner's: `survey` learns the tree and the facts, `rewrite.apply` copies all lines and
changes those of the plan. What is folded, where its card stands and which references move is decided here, in between,
as a value (design D9). The same input gives the same bytes; a folded file has nothing left to fold.
"""

from __future__ import annotations

import hashlib
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, BinaryIO

from openclaw_cli import jsonl, jstext, tokens
from openclaw_cli.lifecycles.places import Place, boundary_of, context_tokens
from openclaw_cli.lifecycles.records import Lifecycle, SourceScan, State
from openclaw_cli.lifecycles.refusing import LONGER, longer_cards, refused, without_growth
from openclaw_cli.lifecycles.rewrite import Edits, apply
from openclaw_cli.lifecycles.survey import Child, Part, Survey
from openclaw_cli.summarize.card import Card, Labels, Origin, Outcome, render
from openclaw_cli.summarize.extractive import DEFAULT_CARD_TOKENS, Material, summarise
from openclaw_cli.transcript import estimate
from openclaw_cli.transcript.entries import timestamp_ms

DATA_TYPE = "openclaw-cli.folded-task.v1"

_OUTCOMES = {
    State.COMPLETED_OK: Outcome.SUCCESS,
    State.COMPLETED_ERROR: Outcome.FAILED,
    State.COMPLETED_TIMEOUT: Outcome.TIMEOUT,
    State.COMPLETED_KILLED: Outcome.CANCELLED,
}
_NO_USAGE = {
    **dict.fromkeys(("input", "output", "cacheRead", "cacheWrite", "totalTokens"), 0),
    "cost": dict.fromkeys(("input", "output", "cacheRead", "cacheWrite", "total"), 0),
}


@dataclass(frozen=True, slots=True)
class Options:
    """`card_tokens`: budget of one card. `labels`: language of the labels, None: that of each task."""

    card_tokens: int = DEFAULT_CARD_TOKENS
    labels: Labels | None = None


@dataclass(slots=True)
class Folded:
    """One lifecycle that goes: its card and the two entries that take its place."""

    index: int
    text: str
    tokens: int
    card_id: str
    data_id: str
    card: dict[str, Any]
    data: dict[str, Any]


@dataclass(slots=True)
class Plan:
    """What a fold of one file will do. `context_*`: OpenClaw's estimate of the model context, in tokens."""

    scan: SourceScan
    folded: dict[int, Folded] = field(default_factory=dict)
    edits: Edits = field(default_factory=Edits)
    context_tokens_before: int = 0
    context_tokens_after: int = 0

    @property
    def grows(self) -> bool:
        """Whether the model context would grow by more than the cards."""
        cards = sum(estimate.message_tokens(folded.card["message"]) for folded in self.folded.values())
        return self.context_tokens_after > self.context_tokens_before + cards

    @property
    def estimated(self) -> bool:
        """Whether token counts are estimates, because the vocabulary failed its check."""
        return tokens.shared().loaded and tokens.shared().estimated

    def as_json(self, *, output: str | None, dry_run: bool) -> dict[str, Any]:
        """The report. `tokensBefore`, `tokensAfter`: sums over `lifecycles`, which are 0 for those that are kept."""
        rows = [self._row(index, dry_run) for index in range(len(self.scan.lifecycles))]
        before, after = (sum(row[key] for row in rows) for key in ("tokensBefore", "tokensAfter"))
        document: dict[str, Any] = {
            "source": self.scan.source,
            "output": output,
            "dryRun": dry_run,
            "tokensBefore": before,
            "tokensAfter": after,
            "reduction": round(1 - after / before, 4) if before else 0.0,
            "lifecycles": rows,
            "contextTokensBefore": self.context_tokens_before,
            "contextTokensAfter": self.context_tokens_after,
            "damage": [damage.as_json() for damage in self.scan.damage],
            "warnings": list(self.scan.warnings),
        }
        return {**document, "estimated": True} if self.estimated else document

    def _row(self, index: int, with_card: bool) -> dict[str, Any]:
        lifecycle, folded = self.scan.lifecycles[index], self.folded.get(index)
        row: dict[str, Any] = {
            "childSessionKey": lifecycle.result.child_session_key if lifecycle.result else None,
            "label": lifecycle.spawn.label,
            "state": lifecycle.state.value,
            "action": "folded" if folded else "kept",
            "reason": None if folded else lifecycle.reason or "nothing to remove",
            "tokensBefore": (lifecycle.tokens_removed or 0) if folded else 0,
            "tokensAfter": folded.tokens if folded else 0,
            "childTokens": lifecycle.child_tokens,
            "line": lifecycle.spawn.line,
        }
        if folded:
            row["cardEntryId"] = folded.card_id
            if with_card:
                row["card"] = folded.text
        return row


def plan(
    scan: SourceScan,
    stream: BinaryIO,
    options: Options | None = None,
    *,
    max_line_bytes: int = jsonl.DEFAULT_MAX_LINE_BYTES,
    on_bytes: Callable[[int], None] | None = None,
) -> Plan:
    """Read the file once more (from the beginning of `stream`) and decide everything about its fold.

    It is read again when a card turns out longer than what it replaces, or the context would grow:
    these are not folded.
    """

    def planned(scan: SourceScan) -> Plan:
        return _planned(scan, stream, options or Options(), max_line_bytes, on_bytes)

    decided = planned(scan)
    if longer := longer_cards(decided):
        decided = planned(refused(scan, longer, LONGER))
    return without_growth(decided, planned)


def _planned(
    scan: SourceScan,
    stream: BinaryIO,
    options: Options,
    max_line_bytes: int,
    on_bytes: Callable[[int], None] | None,
) -> Plan:
    """The plan that folds all that is foldable in the scan."""
    survey = Survey(scan)
    stream.seek(0)
    tally = jsonl.Tally()
    for record in jsonl.read(
        stream,
        file=scan.source,
        policy=jsonl.Policy.SCAN,
        tally=tally,
        max_line_bytes=max_line_bytes,
        on_bytes=on_bytes,
    ):
        survey.feed(record)
    return _Planner(scan, survey, options, sound=not tally.damage).plan()


def rewritten(decided: Plan, stream: BinaryIO) -> Iterator[bytes]:
    """The bytes of the new file, line by line, from the same stream that was planned."""
    stream.seek(0)
    return apply(iter(stream.readline, b""), decided.edits)


class _Planner:
    """Turns a survey into edits. An *edge* is an entry above which cards are put, in the tree and in the file."""

    def __init__(self, scan: SourceScan, survey: Survey, options: Options, *, sound: bool) -> None:
        self._scan = scan
        self._survey = survey
        self._options = options
        self._sound = sound
        self._plan = Plan(scan)
        self._edges: dict[str, list[int]] = {}
        self._edge_lines: dict[int, list[int]] = {}
        self._given: set[str] = set()

    def plan(self) -> Plan:
        """All decisions of one fold."""
        for index in self._survey.folded:
            edge = self._edge_of(self._scan.lifecycles[index], index)
            if edge is not None:
                self._edges.setdefault(edge, []).append(index)
            line = self._survey.tree.nodes[edge].seq if edge is not None else self._plain_line(index)
            self._edge_lines.setdefault(line, []).append(index)
            self._plan.folded[index] = self._fold(index)
        self._place_cards()
        self._edit_lines()
        self._estimate_contexts()
        return self._plan

    def _edge_of(self, lifecycle: Lifecycle, index: int) -> str | None:
        """The entry that will hang below the card. None: the file has no usable links."""
        survey, nodes = self._survey, self._survey.tree.nodes
        spawn_line, above = lifecycle.spawn.line, lifecycle.removal.card_parent_line
        if spawn_line not in survey.gone_lines and (above is None or above < spawn_line):
            # The spawning message keeps its text: first it speaks, then the card tells what came of it.
            above = spawn_line
        # An entry below a leaf control hangs, in the tree, below what the control leads to.
        parent = survey.tree.through_controls(survey.ids_by_line.get(above)) if above is not None else None
        last = max([*survey.evidence[index].lines, lifecycle.completion.line if lifecycle.completion else 0])
        current = survey.ids_by_line.get(last)
        own = set(survey.evidence[index].lines)
        first_removed = None
        seen: set[str] = set()
        while current is not None and current in nodes and current not in seen:
            seen.add(current)
            if current in survey.gone_ids and nodes[current].seq in own:
                first_removed = current
            if nodes[current].parent == parent:
                return current
            current = nodes[current].parent
        return first_removed

    def _plain_line(self, index: int) -> int:
        """Where the card goes in a file without links: in place of the first line that goes."""
        removed = [line for line in self._survey.evidence[index].lines if line in self._survey.gone_lines]
        return removed[0] if removed else self._survey.evidence[index].lines[0] + 1

    def _fold(self, index: int) -> Folded:
        lifecycle, evidence = self._scan.lifecycles[index], self._survey.evidence[index]
        text = render(self._card(index))
        moment = (lifecycle.completion.timestamp if lifecycle.completion else None) or lifecycle.spawn.timestamp
        moment_ms = timestamp_ms(moment) or 0
        stamp = datetime.fromtimestamp(moment_ms / 1000, UTC).strftime("%Y-%m-%dT%H:%M:%S.") + f"{moment_ms % 1000:03}Z"
        removed = evidence.digest.hexdigest()
        card_id, data_id = self._fresh_id(removed, index, "card"), self._fresh_id(removed, index, "data")
        message = {"role": "assistant", "content": [{"type": "text", "text": text}], **evidence.model}
        message |= {"usage": _NO_USAGE, "stopReason": "stop", "timestamp": moment_ms}
        data = {
            "childSessionKey": lifecycle.result.child_session_key if lifecycle.result else None,
            "runId": lifecycle.result.run_id if lifecycle.result else None,
            "cardEntryId": card_id,
            "removedEntryIds": evidence.entry_ids,
            "removedToolCallIds": evidence.tool_call_ids,
            "removedSha256": removed,
            "state": lifecycle.state.value,
            "summarizer": "extractive",
        }
        return Folded(
            index=index,
            text=text,
            tokens=tokens.count(text),
            card_id=card_id,
            data_id=data_id,
            card={"type": "message", "id": card_id, "timestamp": stamp, "message": message},
            data={"type": "custom", "id": data_id, "timestamp": stamp, "customType": DATA_TYPE, "data": data},
        )

    def _card(self, index: int) -> Card:
        lifecycle, evidence = self._scan.lifecycles[index], self._survey.evidence[index]
        spawn = lifecycle.spawn
        created, changed = evidence.changes()
        material = Material(
            task=spawn.task or "",
            label=spawn.label or spawn.task_name,
            answer=lifecycle.answer,
            status=lifecycle.status,
            origin=_origin(lifecycle),
            outcome=_OUTCOMES.get(lifecycle.state, Outcome.UNKNOWN),
            later=self._later(lifecycle),
            created=created,
            changed=changed,
            errors=tuple(evidence.errors),
        )
        return summarise(material, tokens.count, budget_tokens=self._options.card_tokens, labels=self._options.labels)

    def _later(self, lifecycle: Lifecycle) -> str | None:
        """The time of completion when a person spoke between the spawn, where the card stands, and the completion."""
        completion = lifecycle.completion
        moment = timestamp_ms(completion.timestamp) if completion else None
        if completion is None or moment is None:
            return None
        turns = self._survey.user_turns
        if bisect_left(turns, completion.line) <= bisect_right(turns, lifecycle.spawn.line):
            return None
        return datetime.fromtimestamp(moment / 1000, UTC).strftime("%H:%M")

    def _fresh_id(self, removed: str, index: int, role: str) -> str:
        """An id of 8 hex digits that the file does not have; the same for the same removed lines."""
        number = 0
        while True:
            seed = f"{DATA_TYPE}\0{removed}\0{self._scan.lifecycles[index].spawn.block}\0{role}\0{number}"
            identity = hashlib.sha256(seed.encode()).hexdigest()[:8]
            taken = identity in self._survey.tree.nodes or identity in self._survey.other_ids
            if not taken and identity not in self._given:
                self._given.add(identity)
                return identity
            number += 1

    def _resolve(self, identity: str | None) -> str | None:
        """What stands for an entry as a parent in the new file: itself, or the nearest kept entry or card above it."""
        nodes, gone = self._survey.tree.nodes, self._survey.gone_ids
        while identity is not None and identity in gone:
            if identity in self._edges:
                return self._plan.folded[self._edges[identity][-1]].data_id
            identity = nodes[identity].parent if identity in nodes else None
        return identity

    def _parent_in_new_file(self, identity: str) -> str | None:
        if identity in self._edges:
            return self._plan.folded[self._edges[identity][-1]].data_id
        return self._resolve(self._survey.tree.nodes[identity].parent)

    def _place_cards(self) -> None:
        for edge, indexes in self._edges.items():
            parent = self._resolve(self._survey.tree.nodes[edge].parent)
            for index in indexes:
                folded = self._plan.folded[index]
                folded.card = _linked(folded.card, parent)
                folded.data = _linked(folded.data, folded.card_id)
                parent = folded.data_id
        for line, indexes in self._edge_lines.items():
            entries = [entry for i in indexes for entry in (self._plan.folded[i].card, self._plan.folded[i].data)]
            self._plan.edits.inserted[line] = [jstext.dumps(entry) for entry in entries]

    def _edit_lines(self) -> None:
        survey, edits = self._survey, self._plan.edits
        for line in survey.gone_lines:
            edits.at(line).drop = True
        for line, gone in survey.block_owners.items():
            if line not in survey.gone_lines:
                edits.at(line).blocks = frozenset(gone)
        children = {**survey.dangling, **survey.children} if self._sound and survey.folded else survey.children
        for line, child in children.items():
            edits.at(line).fields["parentId"] = self._new_parent(child)
        for edge in self._edges:
            if edge not in survey.gone_ids:
                edits.at(survey.tree.nodes[edge].seq).fields["parentId"] = self._parent_in_new_file(edge)
        for line, name, target, navigates in survey.references:
            card_id = self._plan.folded[survey.gone_ids[target]].card_id
            # A control must come out where it did: below everything that stays, which may be more than the card.
            edits.at(line).fields[name] = self._resolve(target) if navigates else card_id
        for line, position in survey.index_references if survey.folded else ():
            edits.at(line).fields["firstKeptEntryIndex"] = self._new_index(position)

    def _new_parent(self, child: Child) -> str | None:
        if child.canonical and child.id in self._survey.tree.nodes:
            return self._parent_in_new_file(child.id)
        return self._resolve(child.raw_parent)

    def _new_index(self, position: int) -> int:
        """A version 1 file counts its records; the same record's number in the new file, its card's if it goes."""
        lines = self._survey.record_lines
        line = lines[min(max(position, 0), len(lines) - 1)]
        gone = sum(1 for removed in self._survey.gone_lines if removed < line)
        put = sum(2 * len(indexes) for at, indexes in self._edge_lines.items() if at <= line)
        if line in self._survey.gone_lines and line in self._edge_lines:
            put -= 2 * len(self._edge_lines[line])
        return position - gone + put

    def _estimate_contexts(self) -> None:
        """The context before, and after it: the path without what goes and with the cards, cut at the same boundary."""
        survey = self._survey
        old = list(self._old_path())
        self._plan.context_tokens_before = context_tokens(old, self._first_kept(old))
        new: list[Place] = []
        for place in old:
            for index in self._edges.get(place.id, ()):
                card = self._plan.folded[index]
                new.append(Place(card.card_id, 0, Part.TURN, estimate.message_tokens(card.card["message"])))
                new.append(Place(card.data_id, 0, Part.HIDDEN, 0))
            if place.line in survey.changed_weights:
                new.append(place._replace(tokens=survey.changed_weights[place.line]))
            elif place.id not in survey.gone_ids:
                new.append(place)
        first_kept = self._first_kept(new)
        named = self._survey.first_kept.get(new[boundary_of(new)].line) if new else None
        if first_kept in survey.gone_ids and named in survey.gone_ids:
            first_kept = self._plan.folded[survey.gone_ids[first_kept]].card_id
        elif first_kept in survey.gone_ids:
            first_kept = self._resolve(first_kept)
        self._plan.context_tokens_after = context_tokens(new, first_kept)

    def _old_path(self) -> Iterator[Place]:
        survey = self._survey
        nodes, lines, parts, weights = survey.tree.nodes, survey.record_lines, survey.parts, survey.weights
        ordinal = -1
        for identity in survey.tree.path_ids():
            line = nodes[identity].seq
            ordinal += 1
            # On a linear path the next entry is the next record, nearly always.
            if ordinal >= len(lines) or lines[ordinal] != line:
                ordinal = bisect_left(lines, line)
            yield Place(identity, line, parts[ordinal], weights[ordinal])

    def _first_kept(self, path: list[Place]) -> Any:
        """What the last boundary on the path names as the first entry that it retains; links are walked through."""
        cut = boundary_of(path)
        wanted = self._survey.first_kept.get(path[cut].line) if cut >= 0 else None
        while wanted in self._survey.opaque_ids:
            wanted = self._survey.tree.nodes[wanted].parent
        return wanted


def _linked(entry: dict[str, Any], parent: str | None) -> dict[str, Any]:
    """The entry with its parent, in the real program's order of keys."""
    head = {"type": entry["type"], "id": entry["id"], "parentId": parent}
    return {**head, **entry, "parentId": parent}


def _origin(lifecycle: Lifecycle) -> Origin:
    if lifecycle.spawn.runtime == "acp":
        return Origin.ACP
    return Origin.WORKER if lifecycle.spawn.tool_name.endswith("delegate_task") else Origin.AGENT
