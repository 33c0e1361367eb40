"""Branches that an old program left behind when it rewrote a prompt, and what the real importer makes of them.

Old programs stored the user's message with context for the model in it, then stored it again without, on a branch
beside the first one. Where the importer finds such a pair, it keeps the header, the active path and the control that
selects it, and drops all other rows from the store; they stay in the archived original (store format §5).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path
from typing import Any, TypeVar

from openclaw_cli import jstext
from openclaw_cli.transcript.entries import is_canonical, is_side
from openclaw_cli.transcript.runtime_context import MARKERS, has_context, without_context
from openclaw_cli.transcript.tree import Tree, parse_link

_STEP_BYTES = 2**16
# A line beyond this is not gathered for the first look; the file gets the second one when it holds a marker.
_LONGEST_LINE_BYTES = 2**20
_LONGEST_MARKER_BYTES = max(map(len, MARKERS))


def may_hold_rewrites(path: Path) -> bool:
    """Whether a file holds a user's message with context beside words of the user's own.

    Hardly any file does, and only those are worth the pass that `Rewrites` needs. Most markers stand in reports of
    finished sub-tasks, which hold nothing else; only lines with a marker are parsed. Raises OSError.
    """
    rest, is_cut = b"", False
    with path.open("rb", buffering=0) as stream:
        while block := stream.read(_STEP_BYTES):
            end = block.rfind(b"\n") + 1
            if not end:
                rest += block
                if len(rest) > _LONGEST_LINE_BYTES:
                    # Too long to be gathered: a marker alone decides, and the end of it may still come.
                    if _is_marked(rest):
                        return True
                    rest, is_cut = rest[-_LONGEST_MARKER_BYTES:], True
                continue
            # Lines are put together only where there is a marker: copying all of them would cost more than the search.
            seam = rest + block[: block.find(b"\n")]
            if is_cut and _is_marked(seam):
                return True
            marked = _is_marked(block) or _is_marked(seam)
            if marked and any(map(_is_prompt_with_context, _marked_lines(rest + block[:end]))):
                return True
            rest, is_cut = block[end:], False
    return (is_cut and _is_marked(rest)) or any(map(_is_prompt_with_context, _marked_lines(rest)))


def _is_marked(data: bytes) -> bool:
    one, other = MARKERS
    return one in data or other in data


def _marked_lines(window: bytes) -> Iterator[bytes]:
    """Each line that holds a marker, once."""
    at = 0
    following = {marker: window.find(marker) for marker in MARKERS}
    while True:
        for marker, found in following.items():
            if 0 <= found < at:
                following[marker] = window.find(marker, at)
        hits = [found for found in following.values() if found >= 0]
        if not hits:
            return
        first = min(hits)
        end = window.find(b"\n", first)
        at = len(window) if end < 0 else end
        yield window[window.rfind(b"\n", 0, first) + 1 : at]


def _is_prompt_with_context(line: bytes) -> bool:
    try:
        event = jstext.parse(line)
    except ValueError:
        return False
    text = _user_text(event) if isinstance(event, dict) else None
    return text is not None and has_context(text) and bool(without_context(text).strip(jstext.JS_WHITESPACE))


@dataclass(frozen=True, slots=True)
class Repair:
    """What to do with the rows, by their position among those fed: keep these, with these parents, the control last."""

    header: int
    parents: dict[int, str | None]
    set_parents: bool
    control: int | None
    control_parent: str | None
    control_append: str | None

    def apply(self, position: int, value: Any) -> tuple[Any, bool] | None:
        """(the row, whether it was changed), or None for one that is left out or comes last."""
        if position == self.header:
            return value, False
        if position not in self.parents:
            return None
        if not self.set_parents:
            return value, False
        parent = self.parents[position]
        changed = "parentId" not in value or value["parentId"] != parent
        value["parentId"] = parent
        return value, changed

    def last(self, value: Any) -> Any:
        """The control row in its new form, to be stored behind all others."""
        value["parentId"] = self.control_parent
        value["appendParentId"] = self.control_append
        return value


@dataclass(slots=True)
class _Facts:
    """What the walk needs of a row: its position, its own parent field, whether it is a control or canonical."""

    position: int
    parent: str | None
    is_control: bool
    is_canonical: bool


@dataclass(slots=True)
class Rewrites:
    """Looks for such a pair. Feed every upgraded row in order, then ask for the `repair`."""

    _tree: Tree = field(default_factory=Tree)
    _facts: dict[str, _Facts] = field(default_factory=dict)
    _texts: dict[str, bytes] = field(default_factory=dict)
    _visible: dict[str, str] = field(default_factory=dict)
    _stripped: dict[str, str] = field(default_factory=dict)
    _header: int | None = None
    _last_id: str | None = None
    _explicit: bool = False
    _control: int | None = None

    def feed(self, position: int, event: Any) -> None:
        """Take the next row."""
        if not isinstance(event, dict):
            return
        if event.get("type") == "session":
            self._header = position if self._header is None else self._header
            return
        identity = event.get("id")
        if isinstance(identity, str) and identity.strip(jstext.JS_WHITESPACE):
            digest = sha256(jstext.dumps(event)).digest()
            if self._texts.setdefault(identity, digest) == digest and identity in self._facts:
                return
            self._texts[identity] = digest
            self._note_user(identity, event)
        self._last_id = identity if isinstance(identity, str) else None
        self._place(position, event)

    def repair(self) -> Repair | None:
        """What the importer would do, or None when it would leave the rows alone."""
        if self._header is None or not self._stripped:
            return None
        start = self._tree.leaf_id if self._explicit else self._last_id
        path = self._walk(start)
        if path is None or not self._is_broken(path):
            return None
        parents = {self._facts[identity].position: parent for identity, parent in path}
        selected = {identity: self._facts[identity].position for identity, _ in path}
        if not self._explicit:
            return Repair(self._header, parents, False, None, None, None)
        for identity, parent in self._suffix(set(selected)):
            parents[self._facts[identity].position] = parent
            selected[identity] = self._facts[identity].position
        last = max(selected, key=selected.__getitem__, default=None)
        append = self._tree.append_parent_id
        append = append if append is None or append in selected else last
        return Repair(self._header, parents, True, self._control, last, append)

    def _note_user(self, identity: str, event: dict[str, Any]) -> None:
        self._visible.pop(identity, None)
        self._stripped.pop(identity, None)
        text = _user_text(event)
        if text is None:
            return
        if visible := text.strip(jstext.JS_WHITESPACE):
            self._visible[identity] = _short(visible)
        if has_context(text) and (own := without_context(text).strip(jstext.JS_WHITESPACE)):
            self._stripped[identity] = f"{_parent(event) or ''}\0{_short(own)}"

    def _place(self, position: int, event: dict[str, Any]) -> None:
        node = self._tree.add(position, event)
        if node is None:
            return
        identity: str = event["id"]
        link = parse_link(event)
        is_control = link is not None and link.is_control
        self._facts[identity] = _Facts(position, _parent(event), is_control, is_canonical(event))
        if identity in self._tree.invalid or not (is_control or (is_canonical(event) and not is_side(event))):
            return
        self._explicit = self._explicit or link is not None
        self._control = position if is_control else None

    def _walk(self, start: str | None) -> list[tuple[str, str | None]] | None:
        """(id, parent on the path) from the leaf to the root; None when it runs in a circle."""
        line: list[str] = []
        seen: set[str] = set()
        identity = start
        while identity is not None and identity in self._facts:
            if identity in seen:
                return None
            seen.add(identity)
            if not self._facts[identity].is_control:
                line.append(identity)
            identity = self._tree.nodes[identity].parent if self._explicit else self._facts[identity].parent
        return list(zip(line, [*line[1:], None], strict=True)) if line else []

    def _suffix(self, selected: set[str]) -> Iterator[tuple[str, str | None]]:
        """Rows of unknown types between the path and the place where the next row would be appended."""
        line: list[str] = []
        identity = self._tree.append_parent_id
        while identity is not None and identity in self._facts and identity not in selected and identity not in line:
            if self._facts[identity].is_canonical:
                break
            if not self._facts[identity].is_control:
                line.append(identity)
            identity = self._tree.nodes[identity].parent
        if line:
            yield from zip(line, [*line[1:], self._tree.leaf_id], strict=True)

    def _is_broken(self, path: list[tuple[str, str | None]]) -> bool:
        active = {
            f"{parent or ''}\0{self._visible[identity]}" for identity, parent in path if identity in self._visible
        }
        on_path = {identity for identity, _ in path}
        return any(key in active for identity, key in self._stripped.items() if identity not in on_path)


def _parent(event: dict[str, Any]) -> str | None:
    parent = event.get("parentId")
    return parent if isinstance(parent, str) and parent.strip(jstext.JS_WHITESPACE) else None


def _user_text(event: dict[str, Any]) -> str | None:
    message = event.get("message")
    if not isinstance(message, dict) or message.get("role") != "user":
        return None
    content = message.get("content")
    if isinstance(content, str):
        return content
    if not isinstance(content, list):
        return None
    parts = [part["text"] for part in content if isinstance(part, dict) and isinstance(part.get("text"), str)]
    return "".join(parts) or None


def _short(text: str) -> str:
    """A text by its hash: user messages may be long, and there may be many."""
    return sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


_Origin = TypeVar("_Origin")


def repaired(rows: Iterable[tuple[_Origin, Any, bool]], repair: Repair | None) -> Iterator[tuple[_Origin, Any, bool]]:
    """Upgraded rows without those that `repair` drops and with its control at the end.

    A row is (where it comes from, of any type; value; whether it was changed).
    """
    if repair is None:
        yield from rows
        return
    control: tuple[_Origin, Any] | None = None
    for position, (origin, value, changed) in enumerate(rows):
        if position == repair.control:
            control = origin, value
        elif (kept := repair.apply(position, value)) is not None:
            yield origin, kept[0], changed or kept[1]
    if control is not None:
        yield control[0], repair.last(control[1]), True
