"""Rows of a file-era index: a random one of any shape, and what a store holds afterwards. Synthetic data only."""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from openclaw_cli.migration.entries import Normalised, acp_receipt, normalise
from openclaw_cli.storage import connection, sessions
from openclaw_cli.storage.connection import Store

NOW_MS = 1_790_000_000_000
TABLES = {
    "session_nodes": "session_key",
    "session_windows": "session_id",
    "conversations": "conversation_id",
    "session_conversations": "session_id, conversation_id, role",
}
"""What writing an entry touches, with the order of rows."""

CHANNELS = ("telegram", "Telegram ", "discord", "matrix", "webchat", "WEBCHAT", "heartbeat", "cron", "lark", "wechat")
CHANNELS += ("elsewhere", "", " ", None, 5, True, [], {})
TARGETS = ("telegram:123", "telegram:group:-100", "user:U1", " channel:C9 ", "+4912", "!Room:server", "#alias:server")
TARGETS += ("group:abc", "dm:x", "", None, 7, ["a"], "ünïcode😀", "discord:user:55")
ACCOUNTS = ("default", "Work", "my acct!", "--", "__proto__", "constructor", "", None, "ÄÖ", "a" * 70)
THREADS = ("77", 77, 77.9, "", " 9 ", None, 0, -3, 1e21, True, "thread:é")
CHAT_TYPES = ("direct", "dm", "group", "channel", "GROUP", " Direct ", "x", None, 4)
NUMBERS = (0, 1, 1_700_000_000_000, -5, None, "5", True, 1e15, 8e15)
TEXTS = ("x", " padded ", "", "\u00a0nb\u00a0", "\ufeffbom", "\u0085nel", None, 5, True, [], {}, "ключ", "a\u0000b")
TEXTS += ("line\u2028sep", 'q"\\', "\udc00x")
ICONS = ("🦊", " 🦊 ", "bot", "xx", "👩🏽‍💻", "<svg/>", "<svg><script>", "data:image/svg+xml,%3Csvg%2F%3E", "", 5, None)
ICONS += ("1️⃣", "🇩🇪", "a🦊", "❤", "❤️")
STATUSES = ("running", "done", "failed", "killed", "timeout", "interrupted", "weird", "", None, 3)
ORIGINS = ("operator", "spawn", "channel", "cron", "talk", "run", "plugin", "internal", "bad", None)
PENDING = {
    "kind": "replayable",
    "text": " t ",
    "createdAt": 5,
    "context": {"a": 1},
    "intentId": "i",
    "deliveries": [{"id": "d", "state": "queued"}, {"id": "", "state": "queued"}, {"id": "z", "state": "bad"}, 3],
}
CHOICES: Mapping[str, Sequence[Any]] = {
    "icon": ICONS,
    "color": ("red", " RED ", "mauve", 5, None),
    "status": STATUSES,
    "createdVia": ORIGINS,
    "chatType": CHAT_TYPES,
    "lifecycleRevision": ("r1", "r2"),
    "sandbox": ("required", "x"),
    "agentHarnessId": ("h1", " h2 ", ""),
    "pendingFinalDelivery": (True, False, None, PENDING, {"kind": "transport-only", "createdAt": 4}, {"kind": "x"}),
    "pendingFinalDeliveryContext": ({"x": 1}, "s", None),
    "pendingDeliveryNotice": ({"createdAt": -1, "context": {}, "intentId": " i ", "state": "owed", "x": 1}, None, "s"),
    "pendingTranscriptRepair": ([{"id": "a", "text": " t ", "createdAt": 1, "model": "", "z": 1}, {"id": "a"}], [], {}),
    "fallbackNotice": ({"kind": "active", "selectedModel": " a ", "activeModel": "b", "z": 1}, {"kind": "none"}, "s"),
    "memoryFlush": ({"kind": "succeeded", "compactionCount": 2.9, "x": 1}, {"kind": "failed", "failureCount": 0}, 4),
    "archivedBy": ({"type": "human"}, None, "x"),
    "archiveReason": ("manual", "age-retention", "bad", None, 4),
    "skillsSnapshot": ({"prompt": "p", "resolvedSkills": [1], "v": 1}, {"resolvedSkills": None}, {"p": 1}, "s", []),
    "hookExternalContentSource": ("gmail", "webhook", "email", "bad", None),
    "acp": ({"b": 1, "a": {"d": [1, 2.0, None], "c": "ü"}}, {}, None, "s", [1], 0, ""),
    "incognito": (True, False, None),
    "profileInvolvement": ({"key": "other", "profiles": ["a"]}, {"profiles": []}, None),
    "custom": ({"deep": {"2": 1, "b": 1.0, "1": 1e-7}}, 1e21, -0.0, "\ud800lone"),
    "provider": CHANNELS,
    "7": TEXTS,
}
NUMBER_FIELDS = "createdAt pinnedAt archivedAt lastReadAt lastInteractionAt lastActivityAt startedAt endedAt"
NUMBER_FIELDS += " sessionStartedAt pendingFinalDeliveryCreatedAt pendingFinalDeliveryAttemptCount memoryFlushAt"
NUMBER_FIELDS += " memoryFlushCompactionCount memoryFlushFailureCount memoryFlushLastFailedAt participantCount"
TEXT_FIELDS = "projectId label displayName category subject groupId modelProvider model previousSessionId pluginOwnerId"
TEXT_FIELDS += " visibility autoLabel lastRunId pendingFinalDeliveryText pendingFinalDeliveryIntentId owner room"
TEXT_FIELDS += " fallbackNoticeSelectedModel fallbackNoticeActiveModel fallbackNoticeReason participants transcriptPath"
KEYS = (
    "telegram:group:-100{}",
    "telegram:group:-100{}:topic:4",
    "discord:channel:{}",
    "slack:channel:c{}:thread:17.{}",
    "direct:p{}",
    "telegram:work:direct:{}",
    "cron:job{}",
    "cron:job{}:run:r{}",
    "hook:h{}",
    "node-n{}",
    "acp:a{}",
    "subagent:s{}",
    "explicit:e{}",
    "x{}:heartbeat",
    "signal:group:AbC{}==",
    "matrix:channel:!Ro{}:Server.org",
    "matrix:channel:!Ro{}:Server.org:thread:$Ev{}",
    "tui-{}",
    "team{}:main",
)


class RandomRows:
    """Index rows of every shape that the real program imports; the same seed gives the same rows."""

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        self.seed = seed

    def index(self, count: int) -> dict[str, dict[str, Any]]:
        """An index of `count` rows under canonical keys; about every tenth shares its session with a neighbour."""
        return {f"agent:main:{KEYS[n % len(KEYS)].format(n, n)}": self._row(n) for n in range(count)}

    def importable(self, count: int) -> dict[str, dict[str, Any]]:
        """The same without the rows that we change because the real program would not read them back."""
        rows = self.index(count).items()
        return {key: row for key, row in rows if not normalise(row, key=key, agent_id="main", now_ms=NOW_MS).problems}

    def _row(self, number: int) -> dict[str, Any]:
        other = max(0, number - self.rng.randrange(5)) if self.rng.random() < 0.1 else number
        entry: dict[str, Any] = {"sessionId": f"s{self.seed}-{other}"}
        # Without a time of its own a row gets the clock's, which no two runs share.
        entry["updatedAt"] = self.rng.choice((1_700_000_000_000 + number, 1_700_000_000_000 + number, 0, 5, -7))
        self._routing(entry)
        if self.rng.random() < 0.7:
            self._fields(entry)
        members = list(entry.items())
        self.rng.shuffle(members)
        return dict(members)

    def _maybe(self, entry: dict[str, Any], name: str, pool: Sequence[Any] | Callable[[], Any], chance: float) -> None:
        if self.rng.random() < chance:
            entry[name] = pool() if callable(pool) else self.rng.choice(pool)

    def _fields(self, entry: dict[str, Any]) -> None:
        for name in NUMBER_FIELDS.split():
            self._maybe(entry, name, NUMBERS, 0.12)
        for name in TEXT_FIELDS.split():
            self._maybe(entry, name, TEXTS, 0.12)
        for name, pool in CHOICES.items():
            self._maybe(entry, name, pool, 0.12)
        for name in ("createdActor", "createdBy"):
            self._maybe(entry, name, self._actor, 0.25)
        for name in ("providerReview", "publicShare"):
            own = {"id": "f" * 48, "sessionId": entry["sessionId"], "createdAt": 1}
            self._maybe(entry, name, (own, {"sessionId": "other"}, None, "s"), 0.08)

    def _actor(self) -> Any:
        actor: dict[str, Any] = {}
        self._maybe(actor, "type", ("human", "agent", "system", "bad", None), 0.9)
        self._maybe(actor, "id", TEXTS, 0.8)
        self._maybe(actor, "source", ("profile", "channel", "unknown", "bad", None), 0.5)
        return self.rng.choice((actor, actor, actor, "bob", None, []))

    def _routing(self, entry: dict[str, Any]) -> None:
        for name, pool, chance in (
            ("lastChannel", CHANNELS, 0.35),
            ("lastTo", TARGETS, 0.35),
            ("lastAccountId", ACCOUNTS, 0.2),
            ("lastThreadId", THREADS, 0.2),
            ("channel", CHANNELS, 0.3),
            ("deliveryContext", self._context, 0.35),
            ("origin", self._origin, 0.35),
            ("route", self._route, 0.25),
            ("delivery", self._delivery, 0.25),
        ):
            self._maybe(entry, name, pool, chance)

    def _address(self, channel: str = "channel") -> dict[str, Any]:
        address: dict[str, Any] = {}
        self._maybe(address, channel, CHANNELS, 0.8)
        self._maybe(address, "to", TARGETS, 0.8)
        self._maybe(address, "accountId", ACCOUNTS, 0.3)
        self._maybe(address, "threadId", THREADS, 0.3)
        return address

    def _context(self) -> Any:
        return self.rng.choice((*[self._address()] * 6, None, "text", [], 5))

    def _origin(self) -> Any:
        origin = self._address("provider")
        self._maybe(origin, "from", TARGETS, 0.4)
        self._maybe(origin, "chatType", CHAT_TYPES, 0.4)
        for name in ("nativeChannelId", "nativeDirectUserId", "label"):
            self._maybe(origin, name, TEXTS, 0.2)
        return self.rng.choice((*[origin] * 6, None, "text", [], 5))

    def _route(self) -> Any:
        route: dict[str, Any] = {}
        self._maybe(route, "channel", CHANNELS, 0.8)
        self._maybe(route, "accountId", ACCOUNTS, 0.3)
        target: dict[str, Any] = {}
        self._maybe(target, "to", TARGETS, 0.8)
        self._maybe(target, "rawTo", TARGETS, 0.3)
        self._maybe(target, "chatType", CHAT_TYPES, 0.3)
        self._maybe(route, "target", (target, target, target, "s", None, []), 0.8)
        thread: dict[str, Any] = {}
        self._maybe(thread, "id", THREADS, 0.8)
        self._maybe(thread, "kind", TEXTS, 0.3)
        self._maybe(thread, "source", TEXTS, 0.3)
        self._maybe(route, "thread", (thread, thread, thread, "s", None, []), 0.4)
        return self.rng.choice((*[route] * 5, None, "r", []))

    def _delivery(self) -> Any:
        delivery: dict[str, Any] = {"kind": self.rng.choice(("none", "internal", *["external"] * 3, "odd", None))}
        self._maybe(delivery, "route", self._route, 0.8)
        self._maybe(delivery, "context", self._context, 0.9)
        self._maybe(delivery, "origin", self._origin, 0.8)
        return self.rng.choice((*[delivery] * 5, None, "x"))


def write_rows(
    database: Path, index: Mapping[str, Any], *, source_path: str = "/index", prefer_index: bool = False, **rules: Any
) -> list[Normalised]:
    """Write an index into a store as the importer does, without transcripts; gives what `normalise` found."""
    found = []
    if database.exists():
        opened = connection.open_write(database, agent_id="main")
    else:
        opened = connection.create(database, agent_id="main", now_ms=1)
    with opened as store, store.transaction():
        for key, entry in index.items():
            row = normalise(entry, key=key, agent_id="main", now_ms=NOW_MS, **rules)
            found.append(row)
            if row.entry is not None:
                receipt = acp_receipt(entry, source_path=source_path, source_key=key, session_id=row.entry["sessionId"])
                how = {"time_invented": row.time_invented, "prefer_index": prefer_index}
                sessions.write_entry(store, row.key, row.entry, now_ms=NOW_MS, acp_receipt=receipt, **how)
    return found


def rows_of(store: Store, *, source_path: str = "/index") -> dict[str, list[dict[str, Any]]]:
    """Every row of TABLES without its NULL columns, the path of the index replaced by `/index`."""
    tables = {}
    for table, order in TABLES.items():
        cursor = store.execute(f"SELECT * FROM {table} ORDER BY {order}")
        names = [name for name, _ in cursor.getdescription()] if store.value(f"SELECT 1 FROM {table}") else []
        rows = [{name: v for name, v in zip(names, row, strict=True) if v is not None} for row in cursor]
        tables[table] = rows
    receipts = re.escape(f'"sourcePath":"{source_path}"')
    for row in tables["session_nodes"]:
        if "legacy_acp_migration_json" in row:
            text = row["legacy_acp_migration_json"]
            row["legacy_acp_migration_json"] = re.sub(receipts, '"sourcePath":"/index"', text)
    return tables
