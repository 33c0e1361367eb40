"""Rows of a transcript file as the store keeps them: versions 1 and 2 become 3, 3 and 4 stay (store format §5, §10).

Everything here is what the real importer does, row by row and in its order, so that a row of ours equals a row of its.
Values are changed in place; new keys go to the end, as in JavaScript.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from typing import Any, NamedTuple, Protocol

from openclaw_cli import jstext
from openclaw_cli.transcript.media import MEDIA_CARRIERS, canonical_media

CURRENT_VERSION = 3

_ENTRY_TYPES = frozenset(
    (
        "message",
        "thinking_level_change",
        "model_change",
        "compaction",
        "reset",
        "branch_summary",
        "custom",
        "custom_message",
        "label",
        "session_info",
    )
)
_CHECKPOINTS = frozenset(
    ("anthropic-compaction", "openai-responses-compaction", "openai-responses-retained-compaction")
)
_RETIRED_PROVIDERS = frozenset(("codex", "openai-codex"))
_FIXED_ROLES = ("user", "toolResult")
"""Roles of messages that version 3 has no other name or form for."""
_RETIRED_API, _CURRENT_API = "openai-codex-responses", "openai-chatgpt-responses"
_BASE36 = "0123456789abcdefghijklmnopqrstuvwxyz"


class Row(Protocol):
    """What is needed of a `jsonl.Record`."""

    @property
    def value(self) -> Any:
        """The parsed line."""


class Plan(NamedTuple):
    """Where the header stands among the rows that are not blank (-1: nowhere), and the version that it names."""

    header_index: int
    version: int | float


def plan(rows: Iterable[Row]) -> Plan:
    """Find the header; it may stand anywhere, and without one a transcript counts as version 1."""
    for index, row in enumerate(rows):
        if _is_header(row.value):
            return Plan(index, _version(row.value))
    return Plan(-1, 1)


def id_prefix(original_path: str, session_id: str) -> str:
    """What the ids begin with that the rows of a version 1 file get: 16 hexadecimal digits (store format §5)."""
    digest = hashlib.sha256(f"{original_path}\0{session_id}".encode("utf-8", "surrogateescape"))
    return digest.hexdigest()[:16]


class Upgrader:
    """Upgrades the rows of one file, one at a time, in file order.

    `original_path`: where the transcript was when it was live; with `session_id` (that of the index) it makes the ids
    of rows in a version 1 file. `found`: the result of `plan`; without it the header is expected in the first row.
    `prefix`: that of the ids when the rows got theirs at another path; see `id_prefix`.
    """

    def __init__(
        self, original_path: str, session_id: str, found: Plan | None = None, *, prefix: str | None = None
    ) -> None:
        self._session_id = session_id
        self._plan = found
        self._prefix = prefix or id_prefix(original_path, session_id)
        self._index = -1
        self._previous: str | None = None
        # Rows of a version 1 file that got no id; a compaction that points at one of them points nowhere.
        self._without_id: set[int] = set()

    @property
    def header_found(self) -> bool:
        """Whether the file has a header, as far as it was read or planned."""
        return self._plan is not None and self._plan.header_index >= 0

    def feed(self, record: Row) -> tuple[Any, bool]:
        """(the row as the store keeps it, whether it differs from the line).

        Exact repetitions are given too: the store knows the rows it has.
        """
        self._index += 1
        value = record.value
        if self._plan is None:
            self._plan = Plan(0, _version(value)) if _is_header(value) else Plan(-1, 1)
        if not isinstance(value, dict) or (self._version >= CURRENT_VERSION and _is_current(value)):
            return value, False
        changed = _load(value)
        if self._index == self._plan.header_index:
            changed = self._upgrade_header(value) or changed
        else:
            changed = self._upgrade_entry(value) or changed
        changed = _rename_provider(value) or changed
        changed = _move_media(value) or changed
        return value, changed

    def _upgrade_header(self, header: dict[str, Any]) -> bool:
        before = list(header.items())
        header["id"] = self._session_id
        for key in ("timestamp", "cwd"):
            header[key] = header[key] if isinstance(header.get(key), str) else ""
        header.pop("sessionId", None)
        if self._version < CURRENT_VERSION:
            header["version"] = CURRENT_VERSION
        return before != list(header.items())

    def _upgrade_entry(self, entry: dict[str, Any]) -> bool:
        if self._version >= CURRENT_VERSION:
            return _name_custom_message(entry) if _has_entry_shape(entry) else False
        changed = _name_custom_message(entry)
        if not _is_readable(entry):
            if changed:
                del entry["message"]["customType"]
            self._without_id.add(self._index)
            return False
        if self._version < 2:
            self._link(entry)
            changed = True
        return _rename_hook(entry) or changed

    def _link(self, entry: dict[str, Any]) -> None:
        """An id of the row's own, and the chain from row to row that version 1 left unsaid."""
        entry["id"] = self._id_of(self._index)
        entry["parentId"] = self._previous
        self._previous = entry["id"]
        index = entry.get("firstKeptEntryIndex")
        if entry["type"] == "compaction" and _is_number(index):
            if self._has_id(index):
                entry["firstKeptEntryId"] = self._id_of(int(index))
            del entry["firstKeptEntryIndex"]

    def _has_id(self, index: int | float) -> bool:
        """Whether `index` names an earlier row that has an id of this kind."""
        if not 0 <= index < self._index or index != int(index):
            return False
        return index != self._plan_header and int(index) not in self._without_id

    def _id_of(self, index: int) -> str:
        return f"{self._prefix}-{_base36(index)}"

    @property
    def _version(self) -> int | float:
        return self._plan.version if self._plan is not None else 1

    @property
    def _plan_header(self) -> int:
        return self._plan.header_index if self._plan is not None else -1


def _is_header(value: Any) -> bool:
    return isinstance(value, dict) and value.get("type") == "session"


def _version(header: dict[str, Any]) -> int | float:
    version = header.get("version")
    return version if _is_number(version) else 1


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _base36(number: int) -> str:
    digits = _BASE36[number % 36]
    while number := number // 36:
        digits = _BASE36[number % 36] + digits
    return digits


def _message(entry: dict[str, Any]) -> dict[str, Any] | None:
    message = entry.get("message")
    return message if isinstance(message, dict) else None


def _is_current(entry: dict[str, Any]) -> bool:
    """Whether an entry of version 3 is a message that surely has its present form: nearly every one has."""
    message = entry.get("message")
    if entry.get("type") != "message" or type(message) is not dict or type(message.get("content")) is not list:
        return False
    if not MEDIA_CARRIERS.isdisjoint(message):
        return False
    if message.get("role") == "assistant":
        provider, api = message.get("provider"), message.get("api")
        # Every retired name has the word in it; a blank around it or another case changes nothing in that.
        return not (type(provider) is str and "codex" in provider.lower()) and api != _RETIRED_API
    return message.get("role") in _FIXED_ROLES and "provider" not in message and "api" not in message


def _load(entry: dict[str, Any]) -> bool:
    """Content of assistant messages and tool results as a list of blocks."""
    message = _message(entry)
    if message is None or entry.get("type") != "message":
        return False
    role, content = message.get("role"), message.get("content")
    if role not in ("assistant", "toolResult"):
        return False
    if isinstance(content, str):
        message["content"] = [{"type": "text", "text": content}]
        replay = message.get("providerReplay")
        if isinstance(replay, dict) and _is_one_of(replay.get("type"), _CHECKPOINTS):
            del message["providerReplay"]
        return True
    if role == "toolResult" and isinstance(content, dict):
        message["content"] = [content]
        return True
    return False


def _name_custom_message(entry: dict[str, Any]) -> bool:
    """A custom message without a type of its own came from a hook."""
    message = _message(entry)
    if message is None or entry.get("type") != "message" or message.get("role") != "custom":
        return False
    if "customType" in message or not _is_readable_content(message.get("content")):
        return False
    message["customType"] = "hook"
    return True


def _rename_hook(entry: dict[str, Any]) -> bool:
    message = _message(entry)
    if message is None or entry.get("type") != "message" or message.get("role") != "hookMessage":
        return False
    message["role"] = "custom"
    message["customType"] = message.get("customType") or "hook"
    return True


def _has_entry_shape(entry: dict[str, Any]) -> bool:
    """Whether the fields that every entry has are those of version 3."""
    parent, timestamp = entry.get("parentId"), entry.get("timestamp", "")
    return _nonempty(entry.get("id")) and (parent is None or isinstance(parent, str)) and _is_text(timestamp)


def _is_readable(entry: dict[str, Any]) -> bool:
    """Whether the real program knows the row as an entry; all others are kept as they are, without an id of ours."""
    kind = entry.get("type")
    if not _is_one_of(kind, _ENTRY_TYPES):
        return False
    return kind != "message" or _is_readable_message(entry.get("message"))


def _is_readable_message(message: Any) -> bool:
    if not isinstance(message, dict):
        return False
    role, content = message.get("role"), message.get("content")
    if role in ("user", "assistant", "hookMessage"):
        return _is_readable_content(content)
    if role == "custom":
        return _is_text(message.get("customType")) and _is_readable_content(content)
    if role == "toolResult":
        names = _is_text(message.get("toolCallId")) and _is_text(message.get("toolName"))
        return names and isinstance(message.get("isError"), bool) and isinstance(content, list)
    return role == "bashExecution" and _is_text(message.get("command")) and _is_text(message.get("output"))


def _is_readable_content(content: Any) -> bool:
    if isinstance(content, list):
        return all(isinstance(block, dict) and _is_text(block.get("type")) for block in content)
    return _is_text(content)


def _rename_provider(entry: dict[str, Any]) -> bool:
    message = _message(entry)
    if message is None:
        return False
    provider = message.get("provider")
    changed = isinstance(provider, str) and provider.strip(jstext.JS_WHITESPACE).lower() in _RETIRED_PROVIDERS
    if changed:
        message["provider"] = "openai"
    if message.get("api") == _RETIRED_API:
        message["api"] = _CURRENT_API
        changed = True
    return changed


def _move_media(entry: dict[str, Any]) -> bool:
    message = _message(entry)
    moved = canonical_media(message) if message is not None and entry.get("type") == "message" else None
    if moved is None:
        return False
    entry["message"] = moved
    return True


def _is_text(value: Any) -> bool:
    return isinstance(value, str)


def _nonempty(value: Any) -> bool:
    return isinstance(value, str) and value != ""


def _is_one_of(value: Any, names: frozenset[str]) -> bool:
    """Membership for a value that may be of any JSON type, unhashable ones too."""
    return isinstance(value, str) and value in names
