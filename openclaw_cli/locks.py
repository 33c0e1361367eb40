"""Who owns a state directory: take it, name its owner, give it back (store format §3.5, gateway §5, design D7).

The SQLite lock file in the user's lock directory decides; the JSON files in the state directory only name an owner.
A JSON file that is there although the SQLite lock is free was left by a killed process of this host, or belongs to an
owner that this host cannot see (a container, another machine): the first is ignored, the second refused.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import socket
import sys
import uuid
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Protocol

import orjson

from openclaw_cli.config.values import iso_utc
from openclaw_cli.durable import make_dir, replace_file
from openclaw_cli.errors import BusyError, Issue, OpenClawError, RefusedError

ROLE = "sqlite-maintenance"
DEFAULT_WAIT_MS = 250
_PROBE_SECONDS = 1.0
_REMOTE_TYPES = re.compile(r"nfs4?|cifs|smb\w*|9p|virtiofs|fuse(\..+)?|fakeowner|afpfs|osxfs|ceph|glusterfs|lustre")
_LOCAL_FUSE = {"fuse.fuse-overlayfs"}


class Exclusive(Protocol):
    """A lock on a file that only one process of this host can hold."""

    def release(self) -> None:
        """Give it back; the file stays."""


TakeLock = Callable[[Path, int], Exclusive]
"""Takes the SQLite lock at a path, waiting that many milliseconds; raises `BusyError`."""


@dataclass(frozen=True, slots=True)
class LockFile:
    """The owner that a JSON lock file names. Fields are None where the file does not say them."""

    path: Path
    pid: int | None = None
    start_time: int | None = None
    role: str | None = None
    created_ms: int | None = None
    state_dir: str | None = None
    port: int | None = None

    def named(self, now_ms: int) -> str:
        """The owner for a message: role, pid, age."""
        role = "another maintenance run" if self.role == ROLE else self.role
        parts = [role or "unknown owner", f"pid {self.pid}" if self.pid else "no pid"]
        if self.created_ms is not None:
            parts.append(f"since {max(0, now_ms - self.created_ms) // 1000} s")
        return ", ".join(parts)

    def facts(self, now_ms: int) -> dict[str, Any]:
        """The owner for JSON."""
        age_ms = None if self.created_ms is None else max(0, now_ms - self.created_ms)
        return {"lockPath": str(self.path), "pid": self.pid, "role": self.role, "ageMs": age_ms}


@dataclass(slots=True)
class Ownership:
    """A state directory that is ours until `release`. `issues` names stale locks that were found."""

    state_dir: Path
    issues: list[Issue]
    _stack: ExitStack = field(default_factory=ExitStack)

    def release(self) -> None:
        """Remove our JSON file, then let go of the SQLite locks, in the reverse order of taking."""
        self._stack.close()

    def __enter__(self) -> Ownership:
        return self

    def __exit__(self, *_: object) -> None:
        self.release()


def lock_dir() -> Path:
    """The user's directory of SQLite lock files; not in the state directory, so it is of this host."""
    return Path("/tmp") / f"openclaw-state-locks-{os.getuid()}"


def lifecycle_path(state_dir: Path) -> Path:
    """The SQLite lock file that decides who owns a state directory."""
    database = Path(os.path.realpath(state_dir)) / "state" / "openclaw.sqlite"
    return lock_dir() / f"gateway-lifecycle.{_short_hash(str(database))}.lock.sqlite"


def names_dir(state_dir: Path) -> Path:
    """Where the JSON lock files of a state directory are."""
    return state_dir / "tmp" / f"openclaw-{os.getuid()}"


def take(
    state_dir: Path,
    *,
    config_path: Path,
    take_lock: TakeLock,
    now_ms: int,
    wait_ms: int = DEFAULT_WAIT_MS,
    assume_stopped: bool = False,
    allow_owner: bool = False,
) -> Ownership:
    """Own `state_dir` for maintenance.

    Raises `BusyError` (a living owner, named) or `RefusedError` (another user's directory, a network mount, signs of
    an owner that this host cannot see). `assume_stopped` is the user's word that no such owner runs.
    """
    refuse_other_user(state_dir, allow_owner=allow_owner)
    if not assume_stopped:
        _refuse_remote_mount(state_dir)
    lifecycle = lifecycle_path(state_dir)
    known_here = lifecycle.exists()
    if not known_here:
        # Judged before our own lock file comes into being: it would make the next run take a foreign lock for ours.
        _judge_all(state_dir, known_here, assume_stopped, now_ms)
    lock_dir().mkdir(mode=0o700, exist_ok=True)
    stack = ExitStack()
    try:
        _take_named(stack, lifecycle, take_lock, wait_ms, state_dir, now_ms)
        issues = _judge_all(state_dir, known_here, assume_stopped, now_ms)
        _publish_names(stack, state_dir, config_path, take_lock, now_ms)
    except BaseException:
        stack.close()
        raise
    return Ownership(state_dir, issues, stack)


def foresee(
    state_dir: Path, *, is_held: Callable[[Path], bool], now_ms: int, assume_stopped: bool, allow_owner: bool
) -> list[Issue]:
    """What `take` would say now, as warnings for a preview (design D4); nothing is taken and nothing is written."""
    found = []
    try:
        refuse_other_user(state_dir, allow_owner=allow_owner)
        if not assume_stopped:
            _refuse_remote_mount(state_dir)
    except RefusedError as error:
        found.append(foreseen(error))
    lifecycle = lifecycle_path(state_dir)
    if is_held(lifecycle):
        return [*found, foreseen(_in_use(lifecycle, state_dir, now_ms))]
    for path in _json_locks(state_dir):
        try:
            found.append(_judge(read_lock(path), state_dir, lifecycle.exists(), assume_stopped, now_ms))
        except (BusyError, RefusedError) as error:
            found.append(foreseen(error))
    return found


def foreseen(error: OpenClawError) -> Issue:
    """The warning of a preview about what would end the run itself."""
    message = f"{error.message}; the run itself would end with status {int(error.exit)} now"
    return Issue(error.code, "warning", message, facts=error.facts)


def refuse_other_user(state_dir: Path, *, allow_owner: bool) -> None:
    """Refuse to write into another user's directory: its owner could no longer read what is created."""
    owner = state_dir.stat().st_uid
    if owner != os.geteuid() and not allow_owner:
        raise RefusedError(
            f"{state_dir} belongs to uid {owner}, this is uid {os.geteuid()}",
            hint="run as that user, or pass --allow-owner",
            code="other_owner",
            ownerUid=owner,
        )


def current_owner(state_dir: Path) -> LockFile | None:
    """The owner that the JSON files name, for messages; None when they name nobody.

    A living process goes before one that is not seen here: the name of a killed owner may lie beside the present one.
    """
    locks = [lock for lock in map(read_lock, _json_locks(state_dir)) if lock.pid is not None]
    return next(filter(is_alive, locks), locks[0] if locks else None)


def read_lock(path: Path) -> LockFile:
    """Read a lock file of the state directory or of a transcript; what is unreadable names nobody.

    The payload is the first JSON value; OpenClaw pads it with spaces and tabs.
    """
    try:
        text = path.read_text("utf-8", errors="replace").lstrip()
        payload, _ = json.JSONDecoder().raw_decode(text)
    except (OSError, ValueError):
        return LockFile(path)
    if not isinstance(payload, dict):
        return LockFile(path)
    start = payload.get("startTime", payload.get("starttime"))
    role = payload.get("role")
    directory = payload.get("stateDir")
    return LockFile(
        path=path,
        pid=_number(payload.get("pid")),
        start_time=_number(start),
        role=role if isinstance(role, str) else ("gateway" if "configPath" in payload else None),
        created_ms=_epoch_ms(payload.get("createdAt")),
        state_dir=directory if isinstance(directory, str) else None,
        port=_number(payload.get("port")),
    )


def is_alive(lock: LockFile) -> bool:
    """Whether the process that a lock names still runs here (its start time decides where pids are reused)."""
    if lock.pid is None or lock.pid <= 0:
        return False
    try:
        os.kill(lock.pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        pass  # The process exists and is another user's.
    started = start_time(lock.pid)
    return lock.start_time is None or started is None or started == lock.start_time


def start_time(pid: int) -> int | None:
    """Clock ticks between boot and start of a process (/proc/<pid>/stat field 22), None where there is no /proc."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text("ascii", errors="replace")
    except OSError:
        return None
    return int(text.rsplit(")", 1)[1].split()[19])


def check_transcript_locks(sessions_dir: Path, names: list[str], now_ms: int) -> list[Issue]:
    """Judge the old writers' `*.jsonl.lock` and `sessions.json.lock` among `names`.

    A dead owner, another start time or an unreadable file: stale, a warning, left in place. A living owner: BusyError.
    """
    issues = []
    for name in names:
        lock = read_lock(sessions_dir / name)
        if is_alive(lock):
            raise BusyError(
                f"{lock.path} is held by a running process ({lock.named(now_ms)})",
                hint="stop that process, or wait for it (--wait)",
                **lock.facts(now_ms),
            )
        issues.append(_stale(lock, now_ms))
    return issues


@contextmanager
def index_lock(index: Path, now_ms: int) -> Iterator[None]:
    """Hold the lock file of a file-era index, `sessions.json.lock`, as its old writers do.

    A lock whose process is gone is replaced. Raises `BusyError` where a living one has it.
    """
    path = index.with_name(f"{index.name}.lock")
    check_transcript_locks(path.parent, [path.name] if path.exists() else [], now_ms)
    path.unlink(missing_ok=True)
    created = datetime.fromtimestamp(now_ms / 1000, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    payload = {"pid": os.getpid(), "createdAt": created, "starttime": start_time(os.getpid())}
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except FileExistsError as error:
        raise BusyError(f"{path} was taken at this moment", hint="run again") from error
    try:
        with os.fdopen(descriptor, "w", encoding="utf-8") as stream:
            json.dump(payload, stream)
        yield
    finally:
        path.unlink(missing_ok=True)


def _take_named(stack: ExitStack, path: Path, take_lock: TakeLock, wait_ms: int, state_dir: Path, now_ms: int) -> None:
    try:
        lock = take_lock(path, wait_ms)
    except BusyError as error:
        raise _in_use(path, state_dir, now_ms) from error
    stack.callback(lock.release)


def _in_use(path: Path, state_dir: Path, now_ms: int) -> BusyError:
    owner = current_owner(state_dir)
    named = owner.named(now_ms) if owner else "its owner left no name"
    facts = owner.facts(now_ms) if owner else {"lockPath": str(path), "pid": None, "role": None, "ageMs": None}
    return BusyError(f"{state_dir} is in use ({named})", hint=_way_out(owner), **facts)


def _way_out(owner: LockFile | None) -> str:
    """What to do about an owner: a gateway runs until it is stopped, everything else ends by itself."""
    if owner is not None and owner.role == "gateway":
        return "stop the gateway, or wait for it (--wait)"
    return "wait for it to end (--wait)"


def _judge_all(state_dir: Path, known_here: bool, assume_stopped: bool, now_ms: int) -> list[Issue]:
    left = [read_lock(path) for path in _json_locks(state_dir)]
    return [_judge(lock, state_dir, known_here, assume_stopped, now_ms) for lock in left]


def _judge(lock: LockFile, state_dir: Path, known_here: bool, assume_stopped: bool, now_ms: int) -> Issue:
    """A JSON lock beside a free SQLite lock: stale and ours (a warning), or a sign of a foreign owner (raises)."""
    answered = lock.port is not None and _port_answers(lock.port)
    ours = lock.state_dir is not None and os.path.realpath(lock.state_dir) == os.path.realpath(state_dir)
    if answered:
        raise BusyError(
            f"{state_dir} is in use ({lock.named(now_ms)}); its port {lock.port} answers",
            hint=_way_out(lock),
            port=lock.port,
            **lock.facts(now_ms),
        )
    if (ours and known_here and not is_alive(lock)) or assume_stopped:
        return _stale(lock, now_ms)
    raise RefusedError(
        f"{lock.path} names an owner that this host cannot see ({lock.named(now_ms)})",
        hint="a container or another host may use this directory; stop it and pass --assume-stopped",
        code="foreign_owner",
        **lock.facts(now_ms),
    )


def _publish_names(stack: ExitStack, state_dir: Path, config_path: Path, take_lock: TakeLock, now_ms: int) -> None:
    """Say who we are, so that the real program can name us; the coordinators first, as it takes them."""
    directory = names_dir(state_dir)
    make_dir(directory.parent)
    make_dir(directory)
    payload = {
        "pid": os.getpid(),
        "ownerId": str(uuid.uuid4()),
        "createdAt": iso_utc(now_ms),
        "configPath": str(config_path),
        "stateDir": os.path.realpath(state_dir),
        "startTime": start_time(os.getpid()),
        "role": ROLE,
    }
    for name in ("gateway.state.lock", f"gateway.{_short_hash(str(config_path))}.lock"):
        coordinator = directory / f"{name}.sqlite"
        _take_named(stack, coordinator, take_lock, DEFAULT_WAIT_MS, state_dir, now_ms)
        path = directory / name
        replace_file(path, orjson.dumps(payload))
        stack.callback(path.unlink, missing_ok=True)


def _json_locks(state_dir: Path) -> list[Path]:
    """Lock files of every uid that left one: inside a container the uid is often another."""
    return sorted((state_dir / "tmp").glob("openclaw*/gateway.*.lock"))


def _stale(lock: LockFile, now_ms: int) -> Issue:
    message = f"{lock.path} is stale ({lock.named(now_ms)}) and was ignored"
    return Issue("stale_lock", "warning", message, facts=lock.facts(now_ms))


def _port_answers(port: int) -> bool:
    try:
        with socket.create_connection(("127.0.0.1", port), timeout=_PROBE_SECONDS):
            return True
    except OSError:
        return False


def _refuse_remote_mount(state_dir: Path) -> None:
    kind = mount_type(Path(os.path.realpath(state_dir)))
    if kind is None or kind in _LOCAL_FUSE or not _REMOTE_TYPES.fullmatch(kind):
        return
    raise RefusedError(
        f"{state_dir} is on a {kind} mount: an owner on another host would not be seen",
        hint="run where the gateway runs, or stop it and pass --assume-stopped",
        code="foreign_owner",
        mountType=kind,
    )


def mount_type(path: Path) -> str | None:
    """File system type of the mount that holds `path` (from /proc/self/mountinfo), None where that is unknown."""
    if not sys.platform.startswith("linux"):
        return None
    try:
        lines = Path("/proc/self/mountinfo").read_text("utf-8", errors="replace").splitlines()
    except OSError:
        return None
    best, kind = "", None
    for line in lines:
        left, _, right = line.partition(" - ")
        place = left.split()[4].replace("\\040", " ")
        inside = str(path) == place or str(path).startswith(place.rstrip("/") + "/")
        if inside and len(place) >= len(best):
            best, kind = place, right.split()[0]
    return kind


def _short_hash(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:8]


def _number(value: object) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def _epoch_ms(value: object) -> int | None:
    if isinstance(value, int):
        return value
    try:
        return round(datetime.fromisoformat(str(value)).timestamp() * 1000)
    except ValueError:
        return None
