"""Archiving, pinning and marking as read: changes of one row, with its sessions left alone (document on sessions).

The rules are those of OpenClaw's `sessions.patch`: archiving unpins, an archived or a child session cannot be pinned, a
read clears the unread mark.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from openclaw_cli import jstext
from openclaw_cli.retention.classify import may_be_pinned, parse_key
from openclaw_cli.sessions.listing import WITHHELD
from openclaw_cli.sessions.results import Result, not_found, refused
from openclaw_cli.storage.columns import number
from openclaw_cli.storage.connection import Store
from openclaw_cli.storage.sessions import write_entry

_ROW = f"SELECT entry_json, {WITHHELD} FROM session_nodes WHERE session_key = ? AND entry_json <> '{{}}'"


class Verb(NamedTuple):
    """`done`, `already`, `would`: statuses of a result."""

    done: str
    already: str
    would: str


VERBS = {
    "archive": Verb("archived", "already_archived", "would_archive"),
    "unarchive": Verb("unarchived", "not_archived", "would_unarchive"),
    "pin": Verb("pinned", "already_pinned", "would_pin"),
    "unpin": Verb("unpinned", "not_pinned", "would_unpin"),
    "read": Verb("read", "already_read", "would_mark_read"),
    "unread": Verb("unread", "already_unread", "would_mark_unread"),
}


def entry_of(store: Store, key: str) -> dict[str, Any] | Result:
    """The entry of a key, or why there is none to change."""
    row = store.execute(_ROW, (key,)).fetchone()
    if row is None:
        return not_found(key)
    text, withheld = row
    if withheld:
        return refused(key, "it is internal, incognito or unfinished; such sessions are not changed by hand")
    entry = jstext.parse(text.encode("utf-8"))
    if not isinstance(entry, dict) or not isinstance(entry.get("sessionId"), str):
        return refused(key, "its row is damaged; openclaw-cli doctor check names what mends it")
    return entry


def is_main(key: str, main_key: str) -> bool:
    """Whether a key is the main session of an agent, which can neither be archived nor deleted."""
    kind = parse_key(key)
    return kind.text == "global" or (kind.agent_id is not None and kind.rest in ("main", main_key))


def decide(verb: str, key: str, entry: Mapping[str, Any], main_key: str, now_ms: int) -> dict[str, Any] | Result:
    """The entry as it will be, or the result where there is nothing to write. Pure."""
    words = VERBS[verb]
    after = dict(entry)
    if verb == "archive":
        if "archivedAt" in entry:
            return Result(key, words.already)
        if is_main(key, main_key):
            return refused(key, "the main session of an agent cannot be archived")
        after.pop("archivedBy", None)
        after.pop("pinnedAt", None)
        after |= {"archivedAt": now_ms, "archiveReason": "manual"}
    elif verb == "unarchive":
        if "archivedAt" not in entry:
            return Result(key, words.already)
        for name in ("archivedAt", "archivedBy", "archiveReason"):
            after.pop(name, None)
    elif verb == "pin":
        return _pinned(key, entry, now_ms)
    elif verb == "unpin":
        if after.pop("pinnedAt", None) is None and "pinnedAt" not in entry:
            return Result(key, words.already)
    elif verb == "read":
        after |= {"lastReadAt": now_ms}
        for name in ("markedUnreadAt", "agentStatus"):
            after.pop(name, None)
    else:
        after["markedUnreadAt"] = max(now_ms, round(number(entry.get("markedUnreadAt")) or 0) + 1)
    return _touched(after, now_ms)


def _pinned(key: str, entry: Mapping[str, Any], now_ms: int) -> dict[str, Any] | Result:
    if "archivedAt" in entry:
        return refused(key, "an archived session cannot be pinned; first: openclaw-cli sessions unarchive")
    if not may_be_pinned(parse_key(key), entry):
        return refused(key, "a child session cannot be pinned; pin the one that it belongs to")
    if number(entry.get("pinnedAt")) is not None:
        return Result(key, VERBS["pin"].already)
    return _touched({**entry, "pinnedAt": now_ms}, now_ms)


def _touched(entry: dict[str, Any], now_ms: int) -> dict[str, Any]:
    return {**entry, "updatedAt": max(round(number(entry.get("updatedAt")) or 0), now_ms)}


def act(store: Store, verb: str, key: str, main_key: str, now_ms: int, *, dry_run: bool) -> Result:
    """Change one row, read again inside the transaction; with `dry_run` only say what would be."""
    if dry_run:
        return _judged(store, verb, key, main_key, now_ms)[0]
    with store.transaction():
        result, after = _judged(store, verb, key, main_key, now_ms)
        if after is None:
            return result
        write_entry(store, key, after, now_ms=now_ms, prefer_index=True)
    return Result(key, VERBS[verb].done)


def _judged(store: Store, verb: str, key: str, main_key: str, now_ms: int) -> tuple[Result, dict[str, Any] | None]:
    entry = entry_of(store, key)
    after = entry if isinstance(entry, Result) else decide(verb, key, entry, main_key, now_ms)
    if isinstance(after, Result):
        return after, None
    return Result(key, VERBS[verb].would), after
