"""Media of a message in the form that the store keeps: one list of facts under `__openclaw.media`.

Older programs wrote parallel flat fields (`MediaPaths`, `MediaTypes`, …) into the message. The real importer joins
them position by position and drops the flat fields (store format §10 "Media").
"""

from __future__ import annotations

from typing import Any

from openclaw_cli import jstext

FLAT_FIELDS = (
    "MediaPath",
    "MediaPaths",
    "MediaUrl",
    "MediaUrls",
    "MediaType",
    "MediaTypes",
    "MediaTranscribedIndexes",
    "MediaStaged",
    "MediaWorkspaceDir",
)
MEDIA_CARRIERS = frozenset((*FLAT_FIELDS, "media", "__openclaw"))
_BARE_KINDS = frozenset(("image", "audio", "video", "document", "sticker", "unknown"))
_SAFE_INTEGER = 2**53 - 1

_Fact = dict[str, Any]


def canonical_media(message: dict[str, Any]) -> dict[str, Any] | None:
    """`message` with its media in the stored form, or None when it has that form already.

    Also None when fewer types than attachments are given, so that nobody can tell which type belongs to which: the
    real import gives up on such a message, here it stays as it is.
    """
    if MEDIA_CARRIERS.isdisjoint(message):
        return None
    marks = message.get("__openclaw")
    stored = _list(marks.get("media")) if isinstance(marks, dict) else None
    flat = any(key in message for key in FLAT_FIELDS)
    if not flat and "media" not in message and stored is None:
        return None
    given = stored if stored is not None else _list(message.get("media"))
    facts = _facts(message, given or [], flat)
    if facts is None:
        return None
    result = {key: value for key, value in message.items() if key != "media" and key not in FLAT_FIELDS}
    kept_marks = dict(marks) if isinstance(marks, dict) else {}
    if facts or given is not None:
        kept_marks["media"] = facts
    result["__openclaw"] = kept_marks
    if not kept_marks:
        del result["__openclaw"]
    # The order of keys counts: the real program compares the texts.
    return result if jstext.dumps(result) != jstext.dumps(message) else None


def _facts(message: dict[str, Any], given: list[Any], flat: bool) -> list[_Fact] | None:
    """One fact per attachment, or None when the flat fields cannot be joined without guessing."""
    inputs = [fact if isinstance(fact, dict) else {} for fact in given]
    paths, urls = _list(message.get("MediaPaths")) or [], _list(message.get("MediaUrls")) or []
    types = _list(message.get("MediaTypes")) or []
    first_type = message.get("MediaType")
    slots = max(len(paths), len(urls))
    if 0 < len(types) < slots:
        if any(_unclear(index, paths, urls, inputs) for index in range(slots)):
            if flat:
                return None
        else:
            types, first_type = [], None
    single = any(message.get(key) for key in ("MediaPath", "MediaUrl")) or bool(first_type)
    count = max(len(inputs), len(paths), len(urls), len(types), int(single))
    return [
        _joined(index, message, inputs[index] if index < len(inputs) else {}, paths, urls, types, first_type)
        for index in range(count)
    ]


def _unclear(index: int, paths: list[Any], urls: list[Any], inputs: list[_Fact]) -> bool:
    """Whether the attachment at `index` is named by flat fields only, so that its type is in doubt."""
    if not (_text(_at(paths, index)) or _text(_at(urls, index))):
        return False
    fact = inputs[index] if index < len(inputs) else {}
    identity = _text(fact.get("path")) or _text(fact.get("url"))
    return not identity or not (_text(fact.get("contentType")) or fact.get("kind"))


def _joined(
    index: int, message: dict[str, Any], fact: _Fact, paths: list[Any], urls: list[Any], types: list[Any], first: Any
) -> _Fact:
    """The fact at `index`: what the stored form says wins over the flat fields."""
    path = _first(_at(paths, index), message.get("MediaPath") if index == 0 else None)
    url = _first(_at(urls, index), message.get("MediaUrl") if paths or index == 0 else None)
    flat_type = _first(_text(_at(types, index)), first if index == 0 else None)
    content_type = _text(fact.get("contentType")) or _text(flat_type)
    raw_type = _text(_first(_at(types, index), first if index == 0 else None))
    kind = fact.get("kind")
    bare_kind = raw_type in _BARE_KINDS and not _text(fact.get("contentType")) and kind is None
    transcribed = message.get("MediaTranscribedIndexes")
    fields = {
        "path": _text(fact.get("path")) or _text(path),
        "url": _text(fact.get("url")) or _text(url),
        "contentType": None if bare_kind else content_type,
        "kind": raw_type if bare_kind else kind,
        "fileName": _text(fact.get("fileName")),
        "origin": fact.get("origin") if fact.get("origin") in ("paste", "file") else None,
    }
    result = {key: value for key, value in fields.items() if value}
    size = fact.get("sizeBytes")
    if _is_number(size) and 0 <= size < float("inf"):
        result["sizeBytes"] = size
    for key in ("durationMs", "width", "height"):
        value = fact.get(key)
        if _is_number(value) and value == value and 0 < value <= _SAFE_INTEGER and value == int(value):
            result[key] = value
    if fact.get("transcribed") is True or (isinstance(transcribed, list) and _holds(transcribed, index)):
        result["transcribed"] = True
    if message_id := _text(fact.get("messageId")):
        result["messageId"] = message_id
    if workspace := _text(fact.get("workspaceDir")) or _text(message.get("MediaWorkspaceDir")):
        result["workspaceDir"] = workspace
    if fact.get("staged") is True or _is_staged(message, paths, path):
        result["staged"] = True
    if fact.get("hydrationSuppressed") is True:
        result["hydrationSuppressed"] = True
    return result


def _is_staged(message: dict[str, Any], paths: list[Any], path: Any) -> bool:
    if message.get("MediaStaged") is not True:
        return False
    has_path = bool(_text(message.get("MediaPath"))) or any(_text(item) for item in paths)
    return not has_path or bool(_text(path))


def _list(value: Any) -> list[Any] | None:
    return value if isinstance(value, list) else None


def _at(items: list[Any], index: int) -> Any:
    return items[index] if index < len(items) else None


def _first(*values: Any) -> Any:
    """The first value that is not null."""
    return next((value for value in values if value is not None), None)


def _text(value: Any) -> str | None:
    """A string without surrounding white space, None when nothing is left."""
    return (value.strip(jstext.JS_WHITESPACE) or None) if isinstance(value, str) else None


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _holds(indexes: list[Any], index: int) -> bool:
    return any(_is_number(item) and item == index for item in indexes)
