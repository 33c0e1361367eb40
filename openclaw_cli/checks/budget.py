"""Context windows, compactions and totals: does a session compact too often, and does its row know how full it is?

Rules of compaction §4: the reserve is min(max(configured, 20000), a quarter of the window); what is kept after a
compaction is `keepRecentTokens`. Sizes that no provider reported are estimated as a quarter of the bytes.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from openclaw_cli.checks import remedies
from openclaw_cli.checks.finding import Finding
from openclaw_cli.checks.scope import Scope, Session
from openclaw_cli.transcript.entries import message_of
from openclaw_cli.transcript.estimate import usage_total

FEW_MESSAGES = 10
"""Fewer messages than these between two compactions are few."""

OFTEN = 2
"""So many such pairs of compactions in one stretch are too many."""

BULKY_SHARE = 0.6
BULKY_BYTES = 200_000
"""Tool results of this share and size in the present context are the first thing to prune."""

STALE_FACTOR, STALE_TOKENS = 2, 10_000
"""A total is stale when it is off by this factor and this many tokens more."""

BYTES_PER_TOKEN = 4


def effective_reserve(window: int, configured: int) -> int:
    """Tokens that are kept free for prompt and answer."""
    return min(max(configured, 20_000), window // 4)


class Budget:
    """Follows a session from boundary to boundary. Only the session that its key leads to now is judged."""

    def __init__(self, scope: Scope, session: Session) -> None:
        self._scope = scope
        self._session = session
        self._messages = 0
        self._gaps: list[int] = []
        self._few_gaps = 0
        self._compactions = 0
        self._begin(None)

    def _begin(self, boundary: dict[str, Any] | None) -> None:
        """A stretch begins at a compaction or reset, or with the session."""
        self._boundary = boundary
        self._since = 0
        self._bytes = self._tool_bytes = self._trailing = 0
        self._usage: int | None = None

    def feed(self, seq: int, size_bytes: int, event: Any) -> None:
        """The next event."""
        kind = event.get("type") if isinstance(event, dict) else None
        if kind == "compaction":
            if self._compactions and self._since < FEW_MESSAGES:
                self._few_gaps += 1
                self._gaps = [*self._gaps, self._since][-5:]
            self._compactions += 1
            self._begin(
                {"seq": seq, "tokensBefore": event.get("tokensBefore"), "tokensAfter": event.get("tokensAfter")}
            )
        elif kind == "reset":
            self._compactions = self._few_gaps = 0
            self._gaps = []
            self._begin(None)
        message = message_of(event)
        if message is None or message.get("excludeFromContext") is True:
            return
        self._messages += 1
        self._since += 1
        self._bytes += size_bytes
        self._trailing += size_bytes
        if message.get("role") == "toolResult":
            self._tool_bytes += size_bytes
        usage = message.get("usage")
        answered = message.get("role") == "assistant" and message.get("stopReason") not in ("aborted", "error")
        if answered and isinstance(usage, dict) and usage_total(usage) > 0:
            self._usage, self._trailing = usage_total(usage), 0

    def findings(self) -> Iterator[Finding]:
        """What is wrong with the session's room."""
        if self._session.entry is None:
            return
        window = self._window()
        yield from self._windows(window)
        yield from self._often(window)
        yield from self._bulk()
        yield from self._totals(window)

    def _window(self) -> int | None:
        stated = self._session.number("contextTokens")
        if stated is not None and stated > 0:
            return int(stated)
        provider, model = self._session.text("modelProvider"), self._session.text("model")
        return self._scope.settings.window_of(provider, model)

    def _windows(self, window: int | None) -> Iterator[Finding]:
        settings, session = self._scope.settings, self._session
        provider = session.text("providerOverride") or session.text("modelProvider")
        model = session.text("modelOverride") or session.text("model")
        evidence: dict[str, Any] = {"sessionId": session.session_id, "modelProvider": provider, "model": model}
        advice = "Set the model's real window: contextWindow in models.providers, or contextTokens of the agents"
        if window is None:
            if provider is not None and provider.lower() in settings.local_providers:
                message = (
                    f"{session.key}: the context window of a local model is not known, so no reserve can be kept for it"
                )
                yield Finding(
                    "context_window_unknown", "warning", message, session.key, evidence, advice, remedies.SHOW_CONFIG
                )
            return
        reserve = effective_reserve(window, settings.reserve_tokens)
        if window - reserve <= settings.keep_recent_tokens:
            message = (
                f"{session.key}: a window of {window} tokens has {window - reserve} for the conversation, and a"
                f" compaction keeps {settings.keep_recent_tokens}: it frees next to nothing"
            )
            evidence |= {
                "windowTokens": window,
                "reserveTokens": reserve,
                "keepRecentTokens": settings.keep_recent_tokens,
            }
            advice += "; if it is that small, lower agents.defaults.compaction.keepRecentTokens"
            yield Finding(
                "context_window_small", "warning", message, session.key, evidence, advice, remedies.SHOW_CONFIG
            )

    def _often(self, window: int | None) -> Iterator[Finding]:
        if self._few_gaps < OFTEN:
            return
        session = self._session
        message = (
            f"{session.key}: {self._compactions} compactions, {self._few_gaps} of them fewer than {FEW_MESSAGES}"
            " messages after the one before"
        )
        evidence = {
            "sessionId": session.session_id,
            "compactions": self._compactions,
            "compactionCount": session.number("compactionCount"),
            "messages": self._messages,
            "messagesBetween": self._gaps,
            "windowTokens": window,
            "toolResultBytes": self._tool_bytes,
        }
        advice = "Look at the context window of the model (too small forces compactions) and at large tool results"
        yield Finding("compactions_many", "warning", message, session.key, evidence, advice, remedies.SHOW_CONFIG)

    def _bulk(self) -> Iterator[Finding]:
        if self._tool_bytes < BULKY_BYTES or self._tool_bytes < BULKY_SHARE * self._bytes:
            return
        session = self._session
        share = round(self._tool_bytes / self._bytes, 2)
        message = (
            f"{session.key}: tool results are {int(share * 100)} % of {self._bytes} bytes since the last compaction"
        )
        evidence = {
            "sessionId": session.session_id,
            "toolResultBytes": self._tool_bytes,
            "contextBytes": self._bytes,
            "share": share,
        }
        advice = "Prune them (agents.defaults.contextPruning), or fold finished sub-tasks of an exported transcript"
        command = remedies.of(self._scope.agent_id, "inspect --top 10")
        yield Finding("tool_results_bulky", "warning", message, session.key, evidence, advice, command)

    def _totals(self, window: int | None) -> Iterator[Finding]:
        session = self._session
        total = session.number("totalTokens")
        entry = session.entry or {}
        if total is None or entry.get("totalTokensFresh") is not True or entry.get("totalTokensVersion") != 1:
            return
        low, high = self._estimate()
        evidence = {
            "sessionId": session.session_id,
            "totalTokens": total,
            "estimatedTokens": low,
            "reported": self._usage is not None,
            "lastCompaction": self._boundary,
            "windowTokens": window,
        }
        command = remedies.listing(self._scope.agent_id)
        advice = "OpenClaw counts anew after the next answer; until then it may compact too early, or too late"
        if total > STALE_FACTOR * high + STALE_TOKENS or low > STALE_FACTOR * total + STALE_TOKENS:
            message = f"{session.key}: the row says {int(total)} tokens, fresh; the transcript has about {low}"
            yield Finding("totals_stale", "warning", message, session.key, evidence, advice, command)
        elif window is not None and total > window:
            message = f"{session.key}: {int(total)} tokens in a window of {window}"
            yield Finding("context_over_window", "warning", message, session.key, evidence, advice, command)

    def _estimate(self) -> tuple[int, int]:
        """(least, most) tokens of the present context; after a compaction some older messages are in it too."""
        if self._usage is not None:
            tokens = self._usage + self._trailing // BYTES_PER_TOKEN
            return tokens, tokens
        after = self._boundary.get("tokensAfter") if self._boundary is not None else 0
        if isinstance(after, int | float):
            tokens = int(after) + self._bytes // BYTES_PER_TOKEN
            return tokens, tokens
        low = self._bytes // BYTES_PER_TOKEN
        return low, low + self._scope.settings.keep_recent_tokens
