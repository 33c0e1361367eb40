"""The record of a snapshot: its own format, written last, so that a snapshot without it is known to be incomplete.

`snapshot.json`: `snapshotVersion`, `createdAt`, `program`, `roots` (name in the snapshot, directory that it came from),
`entries` (path, kind, size, SHA-256, mode, mtime; target of a link), `leftOut`. A name that is no UTF-8 is shown
escaped and given exactly as `pathHex`.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import orjson

from openclaw_cli import __version__
from openclaw_cli.config.values import iso_utc
from openclaw_cli.durable import replace_file, sha256_file
from openclaw_cli.errors import CorruptError, Issue, NotFoundError, escaped
from openclaw_cli.migration.snapshot_plan import Item, Kind, LeftOut, OnBytes, Root

RECORD_NAME = "snapshot.json"
MARKER_NAME = "snapshot.unfinished.json"
"""Written first: names the state directory of a snapshot that is being taken, or was cut."""

VERSION = 1


@dataclass(frozen=True, slots=True)
class Entry:
    """One item as it lies in the snapshot. `sha256` is None for what has no bytes of its own."""

    path: str
    kind: Kind
    size_bytes: int
    mode: int
    mtime_ns: int
    sha256: str | None = None
    target: str | None = None

    @classmethod
    def of(cls, item: Item, size_bytes: int = 0, sha256: str | None = None) -> Entry:
        """The entry of an item whose copy has these bytes."""
        return cls(item.path, item.kind, size_bytes, item.mode, item.mtime_ns, sha256, item.target)

    def as_json(self) -> dict[str, Any]:
        """Its object in `entries`."""
        document: dict[str, Any] = {
            **_named("path", self.path),
            "kind": str(self.kind),
            "size": self.size_bytes,
            "mode": f"{self.mode:04o}",
            "mtimeNs": self.mtime_ns,
        }
        if self.sha256 is not None:
            document["sha256"] = self.sha256
        if self.target is not None:
            document |= _named("target", self.target)
        return document


@dataclass(frozen=True, slots=True)
class Record:
    """What a snapshot says of itself."""

    created_at: str
    program: str
    roots: tuple[tuple[str, str], ...]
    entries: tuple[Entry, ...]
    left_out: tuple[LeftOut, ...] = ()


@dataclass(slots=True)
class Verified:
    """What a look at a finished snapshot found; `issues` are empty when every byte is as it was recorded."""

    directory: Path
    record: Record
    issues: list[Issue] = field(default_factory=list)


def mark(directory: Path, state_dir: Path, now_ms: int) -> None:
    """Say durably whose snapshot is begun in `directory`."""
    document = {"snapshotVersion": VERSION, "stateDir": _hex(state_dir), "startedAt": iso_utc(now_ms)}
    replace_file(directory / MARKER_NAME, orjson.dumps(document, option=orjson.OPT_INDENT_2) + b"\n")


def marked_for(directory: Path) -> Path | None:
    """The state directory of the unfinished snapshot in `directory`, None when there is no such thing."""
    try:
        document = orjson.loads((directory / MARKER_NAME).read_bytes())
        return Path(os.fsdecode(bytes.fromhex(document["stateDir"])))
    except (OSError, ValueError, KeyError, TypeError):
        return None  # Nothing there that this program wrote: whoever asks must not touch the directory.


def write(
    directory: Path, roots: Iterable[Root], entries: Iterable[Entry], left_out: Iterable[LeftOut], now_ms: int
) -> None:
    """Write the record durably; with it the snapshot is complete."""
    replace_file(directory / RECORD_NAME, _text(roots, entries, left_out, now_ms))


def read(directory: Path) -> Record:
    """The record of a snapshot. Raises NotFoundError without one, CorruptError for one that is cut or damaged."""
    path = directory / RECORD_NAME
    if not path.is_file():
        if marked_for(directory) is not None:
            raise CorruptError(
                f"the snapshot in {directory} is incomplete: the run that took it did not end",
                hint="run openclaw-cli doctor snapshot with the same directory again",
                code="snapshot_incomplete",
            )
        raise NotFoundError(f"there is no snapshot in {directory}", hint=f"it has no {RECORD_NAME}")
    try:
        return _parsed(orjson.loads(path.read_bytes()))
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise CorruptError(f"{path} is no record of a snapshot", code="snapshot_record_invalid") from error


def verify(directory: Path, on_bytes: OnBytes | None = None) -> Verified:
    """Compare every entry with what lies in the snapshot: kind, size, SHA-256, mode, target; and name what is extra."""
    found = Verified(directory, read(directory))
    known = set()
    for entry in found.record.entries:
        known.add(entry.path)
        wrong = _difference(directory / entry.path, entry)
        if wrong is not None:
            message = f"{escaped(entry.path)} {wrong}"
            found.issues.append(Issue("snapshot_differs", "error", message, facts={"path": escaped(entry.path)}))
        if on_bytes is not None:
            on_bytes(entry.size_bytes)
    for path in _all_paths(directory, [name for name, _ in found.record.roots]):
        if path not in known:
            shown = escaped(path)
            found.issues.append(
                Issue("snapshot_extra", "warning", f"{shown} is not in the record", facts={"path": shown})
            )
    return found


def _difference(path: Path, entry: Entry) -> str | None:
    try:
        status = os.lstat(path)
        if entry.kind is Kind.LINK:
            return None if os.readlink(path) == entry.target else "leads elsewhere"
        wanted = stat.S_ISDIR if entry.kind is Kind.DIRECTORY else stat.S_ISREG
        if not wanted(status.st_mode):
            return f"is no {entry.kind}"
        if stat.S_IMODE(status.st_mode) != entry.mode:
            return f"has mode {stat.S_IMODE(status.st_mode):04o}, not {entry.mode:04o}"
        if entry.sha256 is None:
            return None
        if status.st_size != entry.size_bytes:
            return f"has {status.st_size} bytes, not {entry.size_bytes}"
        return None if sha256_file(path) == entry.sha256 else "has another SHA-256"
    except OSError as error:
        return f"cannot be read: {error.strerror}"


def _all_paths(directory: Path, roots: Iterable[str]) -> Iterator[str]:
    for root in roots:
        for place, directories, files in os.walk(directory / root):
            for name in (*directories, *files):
                yield os.path.relpath(os.path.join(place, name), directory)


def _text(roots: Iterable[Root], entries: Iterable[Entry], left_out: Iterable[LeftOut], now_ms: int) -> Iterator[bytes]:
    head = {"snapshotVersion": VERSION, "createdAt": iso_utc(now_ms), "program": f"openclaw-cli {__version__}"}
    head |= {"roots": [{"name": root.name, **_named("path", str(root.path))} for root in roots]}
    head |= {"leftOut": [{**_named("path", item.path), "reason": item.reason} for item in left_out]}
    yield orjson.dumps(head, option=orjson.OPT_INDENT_2).removesuffix(b"\n}") + b',\n  "entries": ['
    comma = b"\n    "
    for entry in entries:
        yield comma + orjson.dumps(entry.as_json())
        comma = b",\n    "
    yield b"\n  ]\n}\n"


def _parsed(document: Any) -> Record:
    if document["snapshotVersion"] != VERSION:
        raise ValueError("another version")
    return Record(
        str(document["createdAt"]),
        str(document["program"]),
        tuple((str(root["name"]), _exact(root, "path")) for root in document["roots"]),
        tuple(map(_entry, document["entries"])),
        tuple(LeftOut(_exact(item, "path"), str(item["reason"])) for item in document["leftOut"]),
    )


def _entry(document: Any) -> Entry:
    path = _exact(document, "path")
    if os.path.isabs(path) or ".." in path.split("/"):
        raise ValueError("a path that leads out of the snapshot")
    return Entry(
        path,
        Kind(document["kind"]),
        int(document["size"]),
        int(document["mode"], 8),
        int(document["mtimeNs"]),
        document.get("sha256"),
        _exact(document, "target") if "target" in document else None,
    )


def _named(name: str, text: str) -> dict[str, str]:
    """A path as JSON can hold it."""
    shown = escaped(text)
    return {name: shown} if shown == text else {name: shown, f"{name}Hex": os.fsencode(text).hex()}


def _exact(document: Any, name: str) -> str:
    exact = document.get(f"{name}Hex")
    return str(document[name]) if exact is None else os.fsdecode(bytes.fromhex(exact))


def _hex(path: Path) -> str:
    return os.fsencode(path).hex()
