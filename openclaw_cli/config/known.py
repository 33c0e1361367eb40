"""Every setting that the program reads: where it may stand, its kind, its default.

A key of `openclaw-cli.yaml` that is not listed here with `yaml=True` is refused, so that a misspelt key is noticed.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from openclaw_cli.config.values import parse_duration_ms, parse_size_bytes
from openclaw_cli.errors import ConfigError, UsageError

Kind = Literal["text", "switch", "count", "duration", "size", "any"]


@dataclass(frozen=True, slots=True)
class KnownKey:
    """`variable` overrides both files; `choices` limits a text; values of kind duration are ms, of kind size bytes."""

    name: str
    kind: Kind
    default: Any
    meaning: str
    yaml: bool = True
    openclaw: bool = True
    variable: str | None = None
    choices: tuple[str, ...] = ()

    def checked(self, value: Any, origin: str) -> Any:
        """`value` in its unit. Raises `ConfigError` naming the key and where the value came from."""
        try:
            return self._converted(value)
        except (UsageError, ValueError) as error:
            reason = error.message if isinstance(error, UsageError) else str(error)
            raise ConfigError(f"{self.name} in {origin}: {reason}", key=self.name, origin=origin) from None

    def _converted(self, value: Any) -> Any:
        if value is None or self.kind == "any":
            return value
        if self.kind == "duration":
            return parse_duration_ms(value)
        if self.kind == "size":
            return parse_size_bytes(value)
        if self.kind == "switch":
            return _switch(value)
        if self.kind == "count":
            return _count(value)
        return self._text(value)

    def _text(self, value: Any) -> str:
        if not isinstance(value, str):
            raise ValueError(f"a text is expected, not {type(value).__name__}; put it into quotes")
        if self.choices and value not in self.choices:
            raise ValueError(f"{value!r} is none of {', '.join(self.choices)}")
        return value


def _switch(value: Any) -> bool:
    if isinstance(value, bool):
        return value
    if isinstance(value, str) and value.strip().lower() in ("true", "1", "false", "0"):
        return value.strip().lower() in ("true", "1")
    raise ValueError("true or false is expected")


def _count(value: Any) -> int:
    if isinstance(value, int) and not isinstance(value, bool) and value >= 0:
        return value
    if isinstance(value, str) and value.strip().isdecimal():
        return int(value)
    raise ValueError("a whole number is expected")


def _environment_only(name: str, default: int, variable: str, meaning: str) -> KnownKey:
    return KnownKey(name, "duration", default, meaning, yaml=False, openclaw=False, variable=variable)


def _compaction_keys() -> tuple[KnownKey, ...]:
    """Settings of the users' documents that OpenClaw retired or changed; `doctor fix` moves them into our file."""
    owner = "agents.defaults.compaction"
    return (
        KnownKey(f"{owner}.truncateAfterCompaction", "switch", None, "whether a compaction makes a successor"),
        KnownKey(f"{owner}.maxActiveTranscriptBytes", "any", None, "size at which a transcript is compacted"),
        KnownKey(f"{owner}.reserveTokens", "count", None, "tokens kept free for the answer"),
        KnownKey(f"{owner}.reserveTokensFloor", "count", None, "least of the tokens kept free"),
        KnownKey(f"{owner}.maxHistoryShare", "any", None, "share of the window that history may take"),
        KnownKey(f"{owner}.customInstructions", "text", None, "what a summary is to mind besides"),
        KnownKey(
            f"{owner}.identifierPolicy",
            "text",
            None,
            "how identifiers are kept in a summary",
            choices=("strict", "off", "custom"),
        ),
        KnownKey(f"{owner}.identifierInstructions", "text", None, "how they are kept under the policy custom"),
        KnownKey(f"{owner}.memoryFlush.prompt", "text", None, "request of a memory flush"),
        KnownKey(f"{owner}.memoryFlush.systemPrompt", "text", None, "system prompt of a memory flush"),
    )


KNOWN: dict[str, KnownKey] = {
    key.name: key
    for key in (
        KnownKey("session.store", "text", None, "path of the session index; {agentId} stands for the agent"),
        KnownKey("session.mainKey", "text", "main", "last part of the key of an agent's main session"),
        KnownKey("session.scope", "text", "per-sender", "who shares a session", choices=("per-sender", "global")),
        KnownKey("gateway.mode", "any", None, "remote: the sessions are those of a gateway elsewhere", yaml=False),
        KnownKey(
            "gateway.url",
            "text",
            None,
            "a gateway elsewhere, which owns the sessions",
            yaml=False,
            openclaw=False,
            variable="OPENCLAW_GATEWAY_URL",
        ),
        KnownKey("agents.defaults.model", "any", None, "model of agents that name none, as provider/model", yaml=False),
        KnownKey("agents.defaults.contextTokens", "count", None, "context window where the row records none"),
        *_compaction_keys(),
        KnownKey(
            "cleanup.apply", "switch", False, "sessions cleanup carries its plan out without --enforce", openclaw=False
        ),
        KnownKey(
            "compact.labels",
            "text",
            "auto",
            "language of the labels of a card",
            openclaw=False,
            choices=("auto", "de", "en"),
        ),
        KnownKey("import.maxLine", "size", 256 * 2**20, "longest line of a transcript that is read", openclaw=False),
        _environment_only(
            "locks.acquireTimeout",
            60_000,
            "OPENCLAW_SESSION_WRITE_LOCK_ACQUIRE_TIMEOUT_MS",
            "how long a writer waits for the write lock of a database",
        ),
        _environment_only(
            "locks.stale",
            1_800_000,
            "OPENCLAW_SESSION_WRITE_LOCK_STALE_MS",
            "age at which the lock file of a dead or unknown owner is stale",
        ),
        _environment_only(
            "locks.maxHold",
            300_000,
            "OPENCLAW_SESSION_WRITE_LOCK_MAX_HOLD_MS",
            "longest write transaction; longer work is split",
        ),
    )
}
