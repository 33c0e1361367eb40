"""Which tool results belong to which tool calls, as the real reader pairs them (compaction §2.4). Pure.

Works on small facts instead of messages, so that a long transcript need not be kept.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from openclaw_cli.transcript.entries import JS_SPACE, tool_calls

_RESULT_ID_KEYS = ("toolCallId", "toolUseId", "tool_call_id", "tool_use_id", "callId", "call_id")
_SYNTHETIC_TEXT = (
    "[openclaw] missing tool result in session history; inserted synthetic error result for transcript repair."
)


@dataclass(frozen=True, slots=True)
class PairingFacts:
    """What pairing needs of one message. `calls`: (id, name) of each call; `result_id` None: the result has none."""

    role: str
    calls: tuple[tuple[str, str | None], ...] = ()
    result_id: str | None = None
    tool_name: str | None = None
    synthetic: bool = False


def facts_of(message: dict[str, Any]) -> PairingFacts:
    """Reduce a message to what pairing needs."""
    role = message.get("role")
    if role == "assistant":
        return PairingFacts("assistant", calls=tuple(_calls(message)))
    if role != "toolResult":
        return PairingFacts(str(role))
    ids = (value.strip(JS_SPACE) for key in _RESULT_ID_KEYS if isinstance(value := message.get(key), str))
    name = message.get("toolName")
    return PairingFacts(
        "toolResult",
        result_id=next((value for value in ids if value), None),
        tool_name=(name.strip(JS_SPACE) or None) if isinstance(name, str) else None,
        synthetic=is_synthetic(message),
    )


def _calls(message: dict[str, Any]) -> list[tuple[str, str | None]]:
    found = []
    for _, block in tool_calls(message):
        identity, name = block.get("id"), block.get("name")
        if isinstance(identity, str) and identity:
            found.append((identity, name if isinstance(name, str) else None))
    return found


def is_synthetic(message: dict[str, Any]) -> bool:
    """Whether a tool result is the placeholder that the real program puts in for one that never came."""
    if not message.get("isError"):
        return False
    details, content = message.get("details"), message.get("content")
    if isinstance(details, dict) and details.get("openclawSyntheticMissingToolResult") is True:
        return True
    blocks = content if isinstance(content, list) else ()
    return any(isinstance(b, dict) and b.get("type") == "text" and b.get("text") == _SYNTHETIC_TEXT for b in blocks)


@dataclass(slots=True)
class _Occurrence:
    """One tool call and the index of the message that answers it."""

    id: str
    result: int | None = None
    synthetic: bool = False


def paired_results(messages: Sequence[PairingFacts]) -> set[int]:
    """The indexes of the tool results that answer a call of the same slice; all others are orphans or duplicates.

    A result answers the nearest earlier assistant message that has calls; one that finds no call there may answer the
    only call of that id anywhere in the slice that is still open. A placeholder gives way to a real result.
    """
    occurrences: list[_Occurrence] = []
    homeless: list[int] = []
    frame: list[_Occurrence] = []
    calls: tuple[tuple[str, str | None], ...] = ()
    for index, message in enumerate(messages):
        if message.role == "assistant" and message.calls:
            calls = message.calls
            frame = [_Occurrence(identity) for identity, _ in calls]
            occurrences.extend(frame)
        elif message.role == "toolResult" and calls:
            identity = message.result_id or _only_call(message, calls)
            if not _claim(frame, identity, index, message.synthetic):
                homeless.append(index)
    _settle(occurrences, homeless, messages)
    return {occurrence.result for occurrence in occurrences if occurrence.result is not None}


def _only_call(message: PairingFacts, calls: tuple[tuple[str, str | None], ...]) -> str | None:
    """Old results carry no id; with one call before them, of the same name, there is no doubt."""
    if len(calls) != 1:
        return None
    identity, name = calls[0]
    return identity if not message.tool_name or not name or message.tool_name == name.strip(JS_SPACE) else None


def _claim(frame: list[_Occurrence], identity: str | None, index: int, synthetic: bool) -> bool:
    """Answer a call of this frame. True when the id belongs here, even if the result is a dropped duplicate."""
    same = [occurrence for occurrence in frame if occurrence.id == identity]
    free = next((o for o in same if o.result is None), None)
    if free is None and not synthetic:
        free = next((o for o in same if o.synthetic), None)
    if free is not None:
        free.result, free.synthetic = index, synthetic
    return bool(same)


def _settle(occurrences: list[_Occurrence], homeless: list[int], messages: Sequence[PairingFacts]) -> None:
    unresolved: dict[str, list[_Occurrence]] = defaultdict(list)
    for occurrence in occurrences:
        if occurrence.result is None or occurrence.synthetic:
            unresolved[occurrence.id].append(occurrence)
    for index in homeless:
        message = messages[index]
        candidates = [
            occurrence
            for occurrence in unresolved.get(message.result_id or "", ())
            if occurrence.result is None or (occurrence.synthetic and not message.synthetic)
        ]
        if len(candidates) == 1:
            candidates[0].result, candidates[0].synthetic = index, message.synthetic
