"""The report of a whole run of `sessions cleanup`: OpenClaw's flat form for one store, `stores` for several."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from openclaw_cli.config import Target
from openclaw_cli.errors import Exit, Issue, status_of
from openclaw_cli.migration.reporting import issue_text
from openclaw_cli.retention.cleaning import Options
from openclaw_cli.retention.report import TargetReport
from openclaw_cli.retention.settings import Maintenance


@dataclass(slots=True)
class Report:
    """`several`: more than one store was asked for. `is_index_named`: `--store` names an index of the file era.

    `on_line` gets one object for each decision and each store as soon as the store is done.
    """

    settings: Maintenance
    dry_run: bool
    several: bool
    is_index_named: bool = False
    on_line: Callable[[Mapping[str, Any]], None] | None = None
    targets: list[TargetReport] = field(default_factory=list)
    issues: list[Issue] = field(default_factory=list)

    def begin(self, target: Target, options: Options) -> TargetReport:
        """The report of the next store; one of the file era that was not named itself is an issue."""
        part = TargetReport(target, options.settings, options.now_ms, self.dry_run)
        self.targets.append(part)
        if not target.sqlite_path.exists() and target.store_path.exists() and not self.is_index_named:
            path = target.store_path
            message = (
                f"{path} is not migrated, so nothing was looked at; first: openclaw-cli doctor import,"
                f" or work on the files: --store {path}"
            )
            part.issues.append(Issue("store_not_migrated", "error", message, facts={"storePath": str(path)}))
        return part

    def end(self, part: TargetReport) -> None:
        """A store is done."""
        if self.on_line is None:
            return
        document = part.as_json()
        agent_id = part.target.agent_id
        for each in document.pop("decisions"):
            self.on_line({"type": "decision", "agentId": agent_id, **each})
        self.on_line({"type": "store", **document})

    @property
    def would_mutate(self) -> bool:
        """Whether any store has something to do."""
        return any(target.would_mutate for target in self.targets)

    def status(self) -> Exit:
        """By issues and failures, the highest of all stores."""
        issues = [*self.issues, *(issue for target in self.targets for issue in target.issues)]
        return status_of(issues, [target.failure for target in self.targets if target.failure is not None])

    def as_json(self) -> dict[str, Any]:
        """OpenClaw's flat form for one store, `stores` for several."""
        documents = [target.as_json() for target in self.targets]
        if not self.several:
            documents[0]["issues"] = [*(issue.as_json() for issue in self.issues), *documents[0]["issues"]]
            return documents[0]
        document = {"allAgents": True, "mode": self.settings.mode, "dryRun": self.dry_run, "stores": documents}
        return {**document, "issues": [issue.as_json() for issue in self.issues]}

    def summary(self) -> dict[str, Any]:
        """The last line of `--ndjson`."""
        totals: dict[str, int] = {}
        for target in self.targets:
            for name, count in target.counts().items():
                totals[name] = totals.get(name, 0) + count
        head = {"type": "summary", "mode": self.settings.mode, "dryRun": self.dry_run, "stores": len(self.targets)}
        return {
            **head,
            **totals,
            "wouldMutate": self.would_mutate,
            "status": int(self.status()),
            "issues": [issue.as_json() for issue in self.issues],
        }

    def text(self) -> Iterator[str]:
        """For people, store by store."""
        for number, target in enumerate(self.targets):
            if number:
                yield ""
            if self.several:
                yield f"Agent: {target.target.agent_id}"
            yield from target.text()
        yield from issue_text(self.issues)
        if self.dry_run:
            yield "Dry run: nothing was changed. --enforce carries it out."
