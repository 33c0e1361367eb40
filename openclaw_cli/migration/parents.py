"""Whether each event of a transcript finds its parent: what a lost line leaves behind is a break in the chain."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from openclaw_cli.errors import Issue

_LISTED = 10


@dataclass(slots=True)
class Parents:
    """Looks at the events of one transcript in order; `breaks` counts those whose parent is nowhere.

    Holds one hash per event, and the ids that are waited for: those are few, since a parent stands before its child.
    """

    breaks: int = 0
    lines: list[int] = field(default_factory=list)
    _seen: set[int] = field(default_factory=set)
    _awaited: dict[str, list[int]] = field(default_factory=dict)

    def add(self, line: int, event: Any) -> None:
        """Look at the next event, which came from `line`."""
        if not isinstance(event, dict):
            return
        own, parent = event.get("id"), event.get("parentId")
        if isinstance(own, str):
            self._seen.add(hash(own))
            self._awaited.pop(own, None)
        if isinstance(parent, str) and parent and hash(parent) not in self._seen:
            self._awaited.setdefault(parent, []).append(line)

    def settle(self, is_stored: Callable[[str], bool]) -> None:
        """Count what is still waited for after the last event, unless the store has it."""
        found = [line for parent, lines in self._awaited.items() if not is_stored(parent) for line in lines]
        self._awaited.clear()
        self.breaks = len(found)
        self.lines = sorted(found)[:_LISTED]

    def issues(self, file: str, session_key: str | None) -> list[Issue]:
        """`parent_break` when there is one; the events themselves are imported."""
        if not self.breaks:
            return []
        first = ", ".join(map(str, self.lines))
        message = (
            f"{file}: {self.breaks} event(s) have a parent that is not there (line {first}"
            f"{', …' if self.breaks > len(self.lines) else ''}); they were imported, their branch begins with them"
        )
        facts = {"parentBreaks": self.breaks, "lines": list(self.lines)}
        return [Issue("parent_break", "warning", message, session_key, facts)]
