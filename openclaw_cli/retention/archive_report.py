"""What `archives list`, `verify` and `prune` say."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from openclaw_cli.errors import Exit, Issue, escaped, status_of
from openclaw_cli.migration.reporting import issue_text
from openclaw_cli.retention import ageing
from openclaw_cli.retention.catalogue import Archive, Verified


@dataclass(slots=True)
class ArchiveReport:
    """`verified`: by `verify`, in the order of `found`. `pruned`: by `prune`, with SHA-256; what is left is in `kept`.

    `dry_run` is None for commands that never write.
    """

    now_ms: int
    found: list[Archive] = field(default_factory=list)
    verified: list[Verified] | None = None
    pruned: list[tuple[Archive, str | None]] | None = None
    dry_run: bool | None = None
    issues: list[Issue] = field(default_factory=list)

    def status(self) -> Exit:
        """13 where an archive does not hold what it should."""
        failed = any(one.issues for one in self.verified or () if any(i.severity == "error" for i in one.issues))
        return Exit.CORRUPT if failed else status_of(self.issues)

    def as_json(self) -> dict[str, Any]:
        """The document."""
        total = {"archives": len(self.found), "bytes": sum(one.kept.size_bytes for one in self.found)}
        document: dict[str, Any] = {"archives": [*self.rows()], "totals": total}
        if self.verified is not None:
            total["failed"] = sum(bool(one.issues) for one in self.verified)
        if self.pruned is not None:
            total["pruned"] = len(self.pruned)
            document["dryRun"] = self.dry_run
        return {**document, "issues": [issue.as_json() for issue in self.every_issue()]}

    def every_issue(self) -> Iterator[Issue]:
        """Those of the run and those of single archives."""
        yield from self.issues
        for one in self.verified or ():
            yield from one.issues

    def rows(self) -> Iterator[dict[str, Any]]:
        """One object an archive."""
        if self.verified is not None:
            for each in self.verified:
                wrong = [issue.code for issue in each.issues]
                more = {"contentBytes": each.content_bytes, "lines": each.lines, "ok": not wrong, "wrong": wrong}
                yield {**each.one.as_json(self.now_ms), **more}
        elif self.pruned is not None:
            for one, sha256 in self.pruned:
                action = {"action": "delete-archive", "reason": ageing.RETENTION}
                yield {**one.as_json(self.now_ms), **action, "sha256": sha256}
        else:
            for one in self.found:
                yield one.as_json(self.now_ms)

    def text(self) -> Iterator[str]:
        """For people."""
        size = sum(one.kept.size_bytes for one in self.found)
        yield f"archives: {len(self.found)}, {size} bytes"
        if self.verified is not None:
            bad = [each for each in self.verified if each.issues]
            yield f"verified: {len(self.verified)}, not as they should be: {len(bad)}"
        elif self.pruned is not None:
            yield from self._pruned_text()
        else:
            for one in self.found:
                yield "  " + line_of(one)
        yield from issue_text([*self.every_issue()])

    def _pruned_text(self) -> Iterator[str]:
        pruned = self.pruned or []
        size = sum(one.kept.size_bytes for one, _ in pruned)
        yield f"{'would delete' if self.dry_run else 'deleted'}: {len(pruned)}, {size} bytes"
        for one, sha256 in pruned:
            yield f"  {line_of(one)} sha256 {sha256}"
        if self.dry_run:
            yield "Dry run: nothing was changed. --enforce carries it out."


def line_of(one: Archive) -> str:
    """An archive on one line: when, what, of which key."""
    made = datetime.fromtimestamp(one.kept.made_ms / 1000, UTC)
    where = "store and file" if one.kept.row and one.kept.file else "store only" if one.kept.row else "file"
    key = one.session_key or "unknown key"
    return f"{made:%Y-%m-%d %H:%M} {one.kept.size_bytes:>10} {escaped(one.name)} ({escaped(key)}; {where})"
