"""What the passes keep of a transcript while they read it: a few bytes per entry, small objects per sub-task."""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from openclaw_cli.lifecycles import markers
from openclaw_cli.lifecycles.blocks import Answer, Request
from openclaw_cli.transcript import entries

_TEXT_BUDGET_CHARS = 6 * 2**20
_TEXT_CHARS = 48 * 2**10
_TEXT_CHARS_OVER_BUDGET = 2 * 2**10


@dataclass(slots=True)
class Carrier:
    """An assistant message that holds tracked calls: the result line of each tool-call block, by block index.

    `has_words`: it holds text or anything else that stays when its calls go.
    """

    line: int
    has_words: bool = False
    results: dict[int, int | None] = field(default_factory=dict)


@dataclass(slots=True)
class Call:
    """A tracked tool call: a spawn, a look at children, or any other call of a message that holds one of these."""

    carrier: Carrier
    block: int
    entry_id: str | None
    call_id: str | None
    request: Request
    timestamp: str | None
    timestamp_ms: int | None
    failed_message: bool
    in_code: bool = False
    names: tuple[str, ...] = ()
    task: str | None = None
    answer: Answer | None = None
    answer_line: int | None = None
    answer_entry_id: str | None = None
    nested: list[int] = field(default_factory=list)


@dataclass(slots=True)
class Marker:
    """One notice with the entry it stands in.

    `removable`: the entry holds nothing but what the program put in. `marked`: an envelope or a role says that the
    program wrote it; for the others their text alone does.
    """

    line: int
    entry_id: str | None
    timestamp: str | None
    timestamp_ms: int | None
    notice: markers.Notice
    removable: bool = False
    marked: bool = True
    reply: str | None = None


class Chain:
    """The parent links of all entries: hashes of the ids, and apart the few links that do not go to the previous entry.

    An entry without `parentId`, or with one that is unknown, follows the previous entry (lifecycles §5).
    """

    def __init__(self) -> None:
        self.lines = array("Q")
        self.offsets = array("Q")
        self._ids = array("q")
        self._jumps: list[tuple[int, int | None]] = []
        self._last_id: str | None = None
        self._appended_id: str | None = None
        self._resets = array("Q")
        self._kept: list[int | str] = []
        self._opaque: set[int] = set()

    def add(self, line: int, offset: int, value: Mapping[str, Any]) -> None:
        """Note an entry; the header is none."""
        self.lines.append(line)
        self.offsets.append(offset)
        parent = value.get("parentId", self._last_id)
        if "targetId" in value and value.get("type") == "leaf":
            # What hangs below a control continues at its target: that is where the branch point is.
            parent = value["targetId"]
        elif "reason" in value and value.get("type") == "reset":
            self._resets.append(len(self.lines) - 1)
        # Who names the entry appended last, a side entry, hangs at the leaf all the same (compaction §19 A).
        if parent != self._last_id and (parent is None or parent != self._appended_id):
            self._jumps.append((len(self.lines) - 1, hash(parent) if isinstance(parent, str) else None))
        identity = value.get("id")
        if type(identity) is str:
            self._ids.append(hash(identity))
            self._appended_id = identity
            if "appendMode" not in value or value["appendMode"] != "side":
                self._last_id = identity
        else:
            self._ids.append(0)

    def cut(self, value: Mapping[str, Any]) -> None:
        """Note what a compaction or reset keeps first: an entry by its id, or a record by its number (version 1)."""
        for kept in (value.get("firstKeptEntryId"), value.get("firstKeptEntryIndex")):
            if type(kept) is str or type(kept) is int:
                self._kept.append(kept)

    def pass_through(self) -> None:
        """Note that the entry added last is a mere link, which the reader of the program walks through."""
        self._opaque.add(len(self.lines) - 1)

    def kept_lines(self) -> list[int]:
        """The lines at which that begins which compactions and resets keep, in ascending order."""
        known = self._places({hash(kept) for kept in self._kept if type(kept) is str})
        parents = self.links() if known and self._opaque else {}
        found = set()
        for kept in self._kept:
            # Records are counted from the header, which is no entry here.
            place = known.get(hash(kept), -1) if type(kept) is str else kept - 1  # type: ignore[operator]
            seen: set[int] = set()
            while place in self._opaque and place not in seen:
                seen.add(place)
                line = parents.get(self.lines[place], self.lines[place - 1] if place else None)
                place = bisect_left(self.lines, line) if line is not None else -1
            if 0 <= place < len(self.lines):
                found.add(self.lines[place])
        return sorted(found)

    def _places(self, wanted: set[int]) -> dict[int, int]:
        """Where the entries with these hashed ids stand."""
        return {identity: index for index, identity in enumerate(self._ids) if identity in wanted} if wanted else {}

    def links(self) -> dict[int, int | None]:
        """Line of an entry → line of its parent (None: a root), for the entries that do not follow the previous one."""
        known = self._places({parent for _, parent in self._jumps if parent is not None})
        found: dict[int, int | None] = {}
        for index, parent in self._jumps:
            place = bisect_right(self._resets, index)
            if place and (parent is None or known.get(parent, -1) < self._resets[place - 1]):
                # After a reset nothing hangs above it: what names an earlier entry follows the previous one.
                continue
            if parent is None:
                found[self.lines[index]] = None
            elif parent in known:
                found[self.lines[index]] = self.lines[known[parent]]
        return found


class Texts:
    """Keeps texts for the cards, cut in the middle when they are long; less of each once the budget is used up."""

    def __init__(self) -> None:
        self._left = _TEXT_BUDGET_CHARS

    def keep(self, text: str | None) -> str | None:
        """The text, or its beginning and end with a mark in between."""
        if text is None:
            return None
        limit = _TEXT_CHARS if self._left > _TEXT_CHARS else _TEXT_CHARS_OVER_BUDGET
        if len(text) > limit:
            text = text[: limit * 3 // 4] + "\n[…]\n" + text[-limit // 4 :]
        self._left -= len(text)
        return text


def timestamp_of(value: Mapping[str, Any]) -> tuple[str | None, int | None]:
    """An entry's time as ISO text and epoch milliseconds; without one of its own that of its message."""
    stamp = value.get("timestamp")
    if stamp is None:
        message = value.get("message")
        stamp = message.get("timestamp") if isinstance(message, dict) else None
    moment = entries.timestamp_ms(stamp)
    if isinstance(stamp, str):
        return stamp, moment
    return (iso(moment) if moment is not None else None), moment


def iso(moment_ms: int) -> str | None:
    """Epoch milliseconds as ISO 8601 UTC with milliseconds and Z; None when no calendar holds them."""
    try:
        moment = datetime.fromtimestamp(moment_ms / 1000, UTC)
    except (OverflowError, ValueError, OSError):
        return None
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")
