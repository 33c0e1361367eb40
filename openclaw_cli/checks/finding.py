"""What a check gives: one finding with code, severity, evidence and the way to mend it. Never text of a transcript."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from openclaw_cli.errors import Severity

MOST_NAMED = 10
"""Places that one finding names; how many there are in all is in its evidence as `count`."""


@dataclass(frozen=True, slots=True)
class Finding:
    """One kind of trouble at one place.

    `evidence`: numbers, keys, ids, lines, paths. `command` mends it, or shows what is needed to mend it; None where no
    command of this program can, and then `advice` says who can.
    """

    code: str
    severity: Severity
    message: str
    session_key: str | None = None
    evidence: dict[str, Any] = field(default_factory=dict)
    advice: str = ""
    command: str | None = None

    def as_json(self) -> dict[str, Any]:
        """Its object in `findings`."""
        document: dict[str, Any] = {"code": self.code, "severity": self.severity, "message": self.message}
        if self.session_key is not None:
            document["sessionKey"] = self.session_key
        return {**document, "evidence": self.evidence, "advice": self.advice, "command": self.command}


class Places:
    """Counts places of one kind and keeps the first few."""

    __slots__ = ("count", "named")

    def __init__(self) -> None:
        self.count = 0
        self.named: list[Any] = []

    def add(self, place: Any) -> None:
        """One more."""
        self.count += 1
        if len(self.named) < MOST_NAMED:
            self.named.append(place)

    def add_all(self, places: Iterable[Any]) -> None:
        """Several more."""
        for place in places:
            self.add(place)

    def evidence(self, name: str, **more: Any) -> dict[str, Any]:
        """`count` and the first places under `name`."""
        return {"count": self.count, name: self.named, **more}
