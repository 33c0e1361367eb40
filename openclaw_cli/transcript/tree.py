"""The active path of a transcript as the store's projections keep it. Pure, streaming.

Rules: store format §5 "Tree" and §10 "Tree", compaction §2 and §19 A. Two ways lead to the projection, and they differ
for rows without a usable id, so both are kept:

* `Cursor` follows a chain that only grows at its end and needs no memory. The store appends this way.
* `Tree` resolves the whole transcript. The store rebuilds this way once a row does not simply continue the chain.

`ActivePath` runs both and answers with the one that the store would have used.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator
from typing import NamedTuple

from openclaw_cli.transcript.entries import (
    CANONICAL_TYPES,
    JS_SPACE,
    entry_id,
    excluded_from_context,
    has_message,
    is_canonical,
    is_side,
    non_blank,
)

_MESSAGE = 1
_EXCLUDED = 2
_LEAF = 4
_MISSING = object()
_PLAIN_TYPES = CANONICAL_TYPES - {"reset"}


class Position(NamedTuple):
    """One row of the active path: its seq, whether it counts as a message, whether the model may see it."""

    seq: int
    is_message: bool
    context_eligible: bool


class Node(NamedTuple):
    """One parent-linked row after normalisation. `flags`: see the module's constants."""

    parent: str | None
    seq: int
    flags: int


class Link(NamedTuple):
    """How one raw event takes part in the tree.

    `leaf` is `_MISSING` when the event does not move the leaf; for a leaf control `parent` is its target.
    """

    id: str
    parent: str | None
    leaf: object
    append: str | None
    is_control: bool


def _reference(event: dict[str, object], key: str) -> object:
    """A reference field: None for null, the id, or `_MISSING` when it is absent, blank or no string."""
    value = event.get(key, _MISSING)
    if value is None:
        return None
    return non_blank(value) or _MISSING


def parse_link(event: object) -> Link | None:
    """The explicit link of an event: it has a usable id and a `parentId` that is null or a usable string."""
    if not isinstance(event, dict) or event.get("type") == "session":
        return None
    identity = entry_id(event)
    parent = _reference(event, "parentId")
    if identity is None or parent is _MISSING:
        return None
    if event.get("type") == "leaf":
        return _parse_control(event, identity)
    moves = is_canonical(event) and event.get("appendMode") != "side"
    return Link(identity, parent, identity if moves else _MISSING, identity, False)  # type: ignore[arg-type]


def _parse_control(event: dict[str, object], identity: str) -> Link | None:
    target = _reference(event, "targetId")
    append = target if "appendParentId" not in event else _reference(event, "appendParentId")
    if target is _MISSING or append is _MISSING or event.get("appendMode", "side") != "side":
        return None
    return Link(identity, target, target, append, True)  # type: ignore[arg-type]


def is_projected(event: object) -> bool:
    """Whether a row on the active path gets an active row at all."""
    if not isinstance(event, dict) or event.get("type") == "session":
        return False
    return is_canonical(event) or has_message(event) or parse_link(event) is not None


def flags_of(event: object) -> int:
    """The facts of a row that the active-path table keeps."""
    if not has_message(event):
        return 0
    return _MESSAGE | (_EXCLUDED if excluded_from_context(event) else 0)


def _position(seq: int, flags: int) -> Position:
    return Position(seq, bool(flags & _MESSAGE), not flags & _EXCLUDED)


class Cursor:
    """The append rule of the projection: a chain that grows at its end (store format §3.4 step 7).

    State is five values, so it can be resumed from the stored index state. `advance` returns the new active row or
    None; when `broken` is set the rows so far are void and the transcript must be resolved with `Tree`.
    """

    __slots__ = ("active_count", "broken", "indexed_seq", "leaf_id", "message_count")

    def __init__(
        self, indexed_seq: int = -1, leaf_id: str | None = None, active_count: int = 0, message_count: int = 0
    ) -> None:
        self.indexed_seq = indexed_seq
        self.leaf_id = leaf_id
        self.active_count = active_count
        self.message_count = message_count
        self.broken = False

    def advance(self, seq: int, event: object) -> Position | None:
        """Take the next row. None: the row is not active, or the chain is `broken` by it."""
        if self.broken or seq != self.indexed_seq + 1 or (self.indexed_seq != -1 and self._breaks(event)):
            self.broken = True
            return None
        self.indexed_seq = seq
        if is_canonical(event):
            identity = entry_id(event)
            self.leaf_id = self.leaf_id if identity is None else identity.strip()
        if not is_projected(event):
            return None
        position = _position(seq, flags_of(event))
        self.active_count += 1
        self.message_count += position.is_message
        return position

    def _breaks(self, event: object) -> bool:
        canonical = is_canonical(event)
        if canonical and self.leaf_id is None and self.active_count > 0:
            return True
        link = parse_link(event)
        if link is not None and (link.is_control or link.parent != self.leaf_id):
            return True
        return is_side(event) or (not canonical and self.leaf_id is not None and is_projected(event))


class Tree:
    """The whole transcript resolved: every rule about missing and unknown parents, side entries, controls, resets.

    Keeps one small tuple per parent-linked row. `add` returns the normalised node of the row, or None when the row
    takes no part in the tree.
    """

    def __init__(self) -> None:
        self.nodes: dict[str, Node] = {}
        self.leaf_id: str | None = None
        self.append_parent_id: str | None = None
        self.has_leaf_control = False
        self.has_invalid_leaf_control = False
        # Leaf controls that name unknown rows; they move nothing.
        self.invalid: set[str] = set()
        self._reset_id: str | None = None
        self._reset_line: set[str] = set()

    def add(self, seq: int, event: object) -> Node | None:
        """Take the next row of the transcript, in stored order."""
        if type(event) is dict and event.get("parentId", _MISSING) == self.leaf_id == self.append_parent_id:
            node = self._continued(seq, event)
            if node is not None:
                return node
        link = explicit = parse_link(event)
        if link is not None and link.is_control:
            link = self._control(link)
            if not self._known(link.leaf) or not self._known(link.append):
                return self._add_invalid(seq, link, event)
        if link is None and is_canonical(event) and "parentId" not in event:  # type: ignore[operator]
            identity = entry_id(event)
            if identity is None:
                return None
            link = Link(identity, self.leaf_id, _MISSING if is_side(event) else identity, identity, False)
        if link is None:
            return None
        parent = link.parent
        if is_canonical(event):
            parent = self._canonical_parent(link, explicit is not None, is_side(event))
        return self._place(link, Node(parent, seq, flags_of(event) | (_LEAF if link.is_control else 0)), event)

    def _continued(self, seq: int, event: dict[str, object]) -> Node | None:
        """The node of a plain row below the leaf, by the short way; None when any other rule could apply."""
        identity, leaf = event.get("id"), self.leaf_id
        if type(identity) is not str or leaf is None or "appendMode" in event or event.get("type") not in _PLAIN_TYPES:
            return None
        parent = self.nodes.get(leaf)
        if parent is None or parent.flags & _LEAF or not identity.strip(JS_SPACE):
            return None
        if self._reset_id is not None:
            if leaf not in self._reset_line:
                return None
            self._reset_line.add(identity)
        node = Node(leaf, seq, flags_of(event))
        self.nodes[identity] = node
        self.leaf_id = self.append_parent_id = identity
        return node

    def _place(self, link: Link, node: Node, event: object) -> Node:
        self.nodes[link.id] = node
        if event.get("type") == "reset":  # type: ignore[union-attr]
            self._reset_id = link.id
            self._reset_line = {link.id}
        elif self._reset_id is not None and node.parent in self._reset_line:
            self._reset_line.add(link.id)
        self.append_parent_id = link.append
        if link.leaf is not _MISSING:
            self.leaf_id = link.leaf  # type: ignore[assignment]
        self.has_leaf_control |= link.is_control
        return node

    def _control(self, link: Link) -> Link:
        """A control may not lead out of the rows that descend from the last reset; then it stays at the leaf."""
        if self._reset_id is None or self.leaf_id is None or link.leaf in self._reset_line:
            return link
        return Link(link.id, self.leaf_id, self.leaf_id, self.leaf_id, True)

    def _known(self, identity: object) -> bool:
        return identity is None or (identity in self.nodes and identity not in self.invalid)

    def _add_invalid(self, seq: int, link: Link, event: object) -> Node:
        self.has_invalid_leaf_control = True
        self.invalid.add(link.id)
        node = Node(event["parentId"], seq, flags_of(event) | _LEAF)  # type: ignore[index]
        self.nodes[link.id] = node
        return node

    def _canonical_parent(self, link: Link, explicit: bool, side: bool) -> str | None:
        parent = link.parent
        if not side:
            outside_reset = self._reset_id is not None and (parent is None or parent not in self._reset_line)
            unknown = explicit and parent is not None and parent not in self.nodes and self.leaf_id is not None
            beside = explicit and parent == self.append_parent_id and self.leaf_id != self.append_parent_id
            if outside_reset or unknown or beside:
                parent = self.leaf_id
        return self.through_controls(parent)

    def through_controls(self, identity: str | None) -> str | None:
        """The entry itself, or the one that a chain of leaf controls leads to; None: the root."""
        seen: set[str] = set()
        while identity is not None and identity not in seen:
            node = self.nodes.get(identity)
            if node is None or not node.flags & _LEAF:
                return identity
            seen.add(identity)
            identity = node.parent
        return identity

    def path(self) -> list[Node]:
        """The rows from the root to the leaf. A cycle gives an empty path; a missing ancestor ends it."""
        return [self.nodes[identity] for identity in self.path_ids()]

    def path_ids(self) -> list[str]:
        """The ids of the rows of `path`."""
        found: list[str] = []
        seen: set[str] = set()
        identity = self.leaf_id
        while identity is not None:
            if identity in seen:
                return []
            seen.add(identity)
            node = self.nodes.get(identity)
            if node is None:
                break
            if not node.flags & _LEAF:
                found.append(identity)
            identity = node.parent
        found.reverse()
        return found


class ActivePath:
    """The active rows of one transcript, read in stored order (one `feed` per row, seq from 0 without gaps).

    While the chain is linear the answer comes from `Cursor`, else from `Tree`. Costs one small tuple per row; who must
    have flat memory uses `Cursor` alone and feeds a `Tree` from the store only when it is `broken`.
    """

    def __init__(self) -> None:
        self.cursor = Cursor()
        self.tree = Tree()
        self._linear = array("q")
        self._projected = array("q")

    def feed(self, seq: int, event: object) -> None:
        """Take the next row."""
        self.tree.add(seq, event)
        if is_projected(event):
            self._projected.append(seq << 2 | flags_of(event))
        position = self.cursor.advance(seq, event)
        if position is not None:
            self._linear.append(self._projected[-1])

    @property
    def linear(self) -> bool:
        """Whether every row continued the chain, so that the projection was never rebuilt."""
        return not self.cursor.broken

    @property
    def leaf_id(self) -> str | None:
        """The id that the index state keeps as leaf: where the next entry is appended."""
        return self.cursor.leaf_id if self.linear else self.tree.append_parent_id

    def positions(self) -> Iterator[Position]:
        """The active rows in order; the n-th one with `is_message` has message position n."""
        if self.linear:
            packed: Iterator[int] = iter(self._linear)
        else:
            path = self.tree.path()
            if path:
                yield from (_position(node.seq, node.flags) for node in path)
                return
            # Nothing can be linked: the store falls back to every row, unless a control chose the empty path.
            packed = iter(()) if self.tree.has_leaf_control else iter(self._projected)
        yield from (_position(value >> 2, value & 3) for value in packed)
