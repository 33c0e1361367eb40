"""The commands: name, module, one line of help. Data only, so that a start loads the module of one command."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Entry:
    """`module` has `register(app)`. `default` is the subcommand that the bare group means."""

    module: str
    help: str
    default: str | None = None


REGISTRY: dict[str, Entry] = {
    "doctor": Entry(
        "openclaw_cli.cli.doctor", "Migrate file-era session stores into SQLite, verify the result, undo it."
    ),
    "sessions": Entry("openclaw_cli.cli.sessions", "List the sessions of a store.", default="list"),
    "archives": Entry("openclaw_cli.cli.archives", "List, verify and prune archives of removed sessions."),
    "agents": Entry("openclaw_cli.cli.agents", "List agents; delete one so that it can be brought back."),
    "scan-lifecycles": Entry("openclaw_cli.cli.scan", "Find the sub-tasks of a transcript and what became of them."),
    "compact": Entry("openclaw_cli.cli.compact", "Fold the finished sub-tasks of a transcript into short cards."),
    "demo": Entry("openclaw_cli.cli.demo", "Show the whole story on bundled data in a temporary directory."),
    "config": Entry("openclaw_cli.cli.config", "Show the settings in force and where each comes from."),
    "completion": Entry("openclaw_cli.cli.reference", "Print the completion script for a shell."),
    "man": Entry("openclaw_cli.cli.reference", "Print a manual page."),
}
