"""What a command that takes several session keys says of each, in OpenClaw's form (cleanup §8)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from openclaw_cli.errors import Exit, Issue, escaped, status_of
from openclaw_cli.migration.reporting import issue_text


@dataclass(frozen=True, slots=True)
class Result:
    """One key: what became of it. `exit`: the status that it asks for; `facts`: further members of its object."""

    key: str
    status: str
    error: str | None = None
    exit: Exit = Exit.OK
    facts: dict[str, Any] = field(default_factory=dict)

    @property
    def ok(self) -> bool:
        """Whether it is as it was asked for."""
        return self.error is None

    def as_json(self) -> dict[str, Any]:
        """Its object in `results`."""
        document: dict[str, Any] = {"key": escaped(self.key), "ok": self.ok, "status": self.status, **self.facts}
        return document if self.error is None else {**document, "error": self.error}


def not_found(key: str) -> Result:
    """There is no such session."""
    message = "there is no such session; openclaw-cli sessions list shows the keys"
    return Result(key, "not_found", message, Exit.NOT_FOUND)


def refused(key: str, message: str) -> Result:
    """It would be wrong to do."""
    return Result(key, "failed", message, Exit.REFUSED)


@dataclass(slots=True)
class Results:
    """All of a run, in the order in which the keys were named."""

    operation: str
    dry_run: bool
    results: list[Result] = field(default_factory=list)
    issues: list[Issue] = field(default_factory=list)

    @property
    def ok(self) -> bool:
        """Whether everything is as it was asked for."""
        return all(one.ok for one in self.results)

    def status(self) -> Exit:
        """The highest that a key asks for; a key that is not there gives 10 where nothing else is wrong."""
        asked = {one.exit for one in self.results} | {status_of(self.issues)}
        order = (Exit.CORRUPT, Exit.REFUSED, Exit.BUSY, Exit.ISSUES, Exit.NOT_FOUND)
        return next((status for status in order if status in asked), Exit.OK)

    def as_json(self) -> dict[str, Any]:
        """OpenClaw's document; of a run that failed in part with its error in front."""
        document: dict[str, Any] = {"ok": self.ok}
        if not self.ok:
            message = f"{self.operation} did not end well for every key"
            document["error"] = {"type": "cli_error", "code": "partial", "message": message, "hint": "see results"}
        return {
            **document,
            "operation": self.operation,
            "dryRun": self.dry_run,
            "results": [one.as_json() for one in self.results],
            "issues": [issue.as_json() for issue in self.issues],
        }

    def text(self) -> Iterator[str]:
        """A line a key."""
        for one in self.results:
            yield f"{one.status.replace('_', ' ')}: {one.key}" + (f": {one.error}" if one.error else "")
            yield from _facts(one.facts)
        yield from issue_text(self.issues)
        if self.dry_run:
            yield "Dry run: nothing was changed."


def _facts(facts: dict[str, Any]) -> Iterator[str]:
    archived: Sequence[str] = facts.get("archived") or ()
    for path in archived:
        yield f"  archive: {path}"
    if "events" in facts:
        yield f"  {facts['events']} event(s), session {facts.get('sessionId')}"
