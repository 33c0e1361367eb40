"""What checks look at: one store with its files and settings, and each session of it with its entry."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from openclaw_cli import jstext
from openclaw_cli.checks.finding import Finding
from openclaw_cli.config import Target
from openclaw_cli.sessions.listing import WITHHELD
from openclaw_cli.storage.connection import Store

_HEADS = (
    "SELECT w.session_id, w.session_key, n.current_session_id IS w.session_id, CASE WHEN n.current_session_id IS"
    " w.session_id AND json_valid(n.entry_json) THEN json_remove(n.entry_json, '$.skillsSnapshot',"
    " '$.systemPromptReport') END FROM session_windows w LEFT JOIN session_nodes n ON n.session_key = w.session_key"
    f" WHERE w.session_key NOT IN (SELECT session_key FROM session_nodes WHERE {WITHHELD})"
    " ORDER BY w.session_id"
)


@dataclass(frozen=True, slots=True)
class Settings:
    """What configuration says about sessions. Windows and budgets are in tokens.

    `windows`: (provider, model) → context window; `local_providers`: those whose models run on this host or network.
    `retired`: keys of `openclaw.json` that OpenClaw 2026.9.6 refuses. `remote`: why the sessions may be elsewhere.
    """

    main_key: str = "main"
    scope: str = "per-sender"
    dm_scope: str = "main"
    agents: tuple[str, ...] | None = None
    default_window: int | None = None
    keep_recent_tokens: int = 20_000
    reserve_tokens: int = 20_000
    most_active_bytes: int = 20 * 2**20
    windows: tuple[tuple[str, str, int], ...] = ()
    local_providers: frozenset[str] = frozenset()
    retired: tuple[str, ...] = ()
    remote: str | None = None
    config_path: Path | None = None

    def window_of(self, provider: str | None, model: str | None) -> int | None:
        """The context window that configuration gives a model."""
        found = (size for named, name, size in self.windows if (named, name) == (provider, model))
        return next(found, self.default_window)


@dataclass(frozen=True, slots=True)
class Scope:
    """One store under the checks. `now_ms`: epoch milliseconds."""

    target: Target
    settings: Settings
    now_ms: int

    @property
    def agent_id(self) -> str:
        """The agent of the store."""
        return self.target.agent_id


@dataclass(frozen=True, slots=True)
class Session:
    """One session of a store. `entry` is None for a session that its key has left behind."""

    session_id: str
    key: str
    entry: dict[str, Any] | None

    @property
    def running(self) -> bool:
        """Whether a run of it goes on, as far as its row knows."""
        return self.entry is not None and self.entry.get("status") == "running"

    def number(self, name: str) -> int | float | None:
        """A number of the entry."""
        value = None if self.entry is None else self.entry.get(name)
        return value if isinstance(value, int | float) and not isinstance(value, bool) else None

    def text(self, name: str) -> str | None:
        """A text of the entry that is not blank."""
        value = None if self.entry is None else self.entry.get(name)
        return value if isinstance(value, str) and value.strip() else None


class Watcher(Protocol):
    """Follows the events of one session and then says what is wrong."""

    def feed(self, seq: int, size_bytes: int, event: Any) -> None:
        """The next event, in order."""

    def findings(self) -> Iterator[Finding]:
        """What was found, after the last event."""


def sessions_of(store: Store) -> Iterator[Session]:
    """Every session of the store that may be named, in the order of ids."""
    for session_id, key, is_current, text in store.execute(_HEADS):
        entry = jstext.parse(text.encode()) if is_current and text is not None else None
        yield Session(session_id, key, entry if isinstance(entry, dict) else None)
