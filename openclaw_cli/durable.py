"""Writing so that it survives a crash: atomic replacement, directory sync, moves that never lose or replace a file.

*Durable* means written, synced (file and directory), read back and compared (design: invariants).
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import hashlib
import os
import re
import secrets
import stat
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from openclaw_cli.errors import NoSpaceError, RefusedError
from openclaw_cli.faults import Step, reached

_BLOCK_BYTES = 1 << 20
_TEMPORARY = re.compile(r"\..+\.[0-9a-f]{12}\.tmp")
_NO_LINKS = {errno.EXDEV, errno.EPERM, errno.EMLINK, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS}


class SourceChangedError(RefusedError):
    """The file at a path is no longer the one that was read before; nothing was removed."""

    code = "source_changed"


@dataclass(frozen=True, slots=True)
class FileIdentity:
    """What a file was when it was hashed. SHA-256 and size decide; device, inode and mtime are hints."""

    device: int
    inode: int
    mtime_ns: int
    size_bytes: int
    sha256: str


@dataclass(frozen=True, slots=True)
class MoveResult:
    """How a file got to its new name: by `link` (same inode) or by `copy` (other file system, or no hard links)."""

    method: str
    identity: FileIdentity


def sync_file(descriptor: int) -> None:
    """Push a file's bytes to the medium; on macOS fsync alone stops at the drive's cache, F_FULLFSYNC does not."""
    full_sync = getattr(fcntl, "F_FULLFSYNC", None)
    if full_sync is not None:
        try:
            fcntl.fcntl(descriptor, full_sync)
            return
        except OSError as error:
            # Some file systems refuse the stronger call; the plain one is then the best there is.
            if error.errno not in _NO_LINKS | {errno.EINVAL, errno.ENOTTY}:
                raise
    os.fsync(descriptor)


def fsync_dir(path: Path | str) -> None:
    """Make the names in a directory durable."""
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        sync_file(descriptor)
    finally:
        os.close(descriptor)


def make_dir(path: Path, *, mode: int = 0o700) -> None:
    """Create a directory durably, with the owner of the one that it is in; one that exists stays as it is."""
    if path.is_dir():
        return
    try:
        path.mkdir(mode=mode)
    except FileExistsError as error:
        raise RefusedError(f"{path} is in the way: it is no directory", hint="move it away") from error
    except OSError as error:
        raise as_refusal(error, path) from error
    adopt_owner(path)
    fsync_dir(path.parent)


def make_dirs(path: Path) -> None:
    """Create a directory with those above it, each durably."""
    if not path.is_dir():
        make_dirs(path.parent)
        make_dir(path)


def adopt_owner(path: Path) -> None:
    """Give a new file to the owner of its directory, where this process is root and works for somebody else."""
    parent = os.stat(path.parent)
    if os.geteuid() == 0 and parent.st_uid != 0:
        os.chown(path, parent.st_uid, parent.st_gid)


def replace_file(path: Path, data: bytes | Iterable[bytes], *, mode: int = 0o600) -> None:
    """Put `data` at `path` in one step: a reader sees the old bytes or the new ones, also after a power cut.

    Data in pieces is written as the pieces come.
    """
    temporary = _temporary(path)
    try:
        descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
        try:
            for block in _blocks((data,) if isinstance(data, bytes) else data):
                _write_all(descriptor, block)
            sync_file(descriptor)
        finally:
            os.close(descriptor)
        adopt_owner(temporary)
        os.replace(temporary, path)
    except BaseException as error:
        temporary.unlink(missing_ok=True)
        if isinstance(error, OSError):
            raise as_refusal(error, path) from error
        raise
    fsync_dir(path.parent)


class Building:
    """A new file while it is being written, under a temporary name beside its own."""

    def __init__(self, path: Path, final: Path) -> None:
        self.path = path
        self._final = final

    def write(self, blocks: Iterable[bytes]) -> None:
        """Write the whole file, as the blocks come, and sync it."""
        descriptor = os.open(self.path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        try:
            for block in blocks:
                _write_all(descriptor, block)
            sync_file(descriptor)
        finally:
            os.close(descriptor)
        adopt_owner(self.path)

    def publish(self) -> None:
        """Give the file its name, where nobody has it. Raises FileExistsError."""
        try:
            os.link(self.path, self._final)
        except OSError as error:
            if error.errno not in _NO_LINKS:
                raise
            # Without hard links nothing gives a name only where it is free; the name has a time and a token in it.
            if self._final.exists():
                raise FileExistsError(errno.EEXIST, "a file stands there", str(self._final)) from error
            os.rename(self.path, self._final)


@contextlib.contextmanager
def new_file(path: Path, *, sync_dir: bool = True) -> Iterator[Building]:
    """Build a file that gets its name only by `publish`; the directory is synced at the end, or by the caller.

    Raises FileExistsError when the name is taken, NoSpaceError or RefusedError for a file system that is full or
    read-only; whatever ends it, no temporary name is left.
    """
    building = Building(_temporary(path), path)
    try:
        yield building
    except OSError as error:
        raise as_refusal(error, path) from error
    finally:
        building.path.unlink(missing_ok=True)
    if sync_dir:
        fsync_dir(path.parent)


def sweep(directories: Iterable[Path]) -> None:
    """Remove the temporary files that killed runs left in `directories` (those of `replace_file` and of copies).

    The caller owns the state directory: nobody is writing one. The bytes of such a file are those of another one, or
    were never anybody's; its name is of a form that only this module gives.
    """
    for directory in directories:
        names = os.listdir(directory) if directory.is_dir() else ()
        for name in filter(_TEMPORARY.fullmatch, names):
            # One that stays is only in the way; what makes it stay (a read-only file system) stops the run itself.
            with contextlib.suppress(OSError):
                os.unlink(directory / name)


def sha256_file(path: Path) -> str:
    """SHA-256 of a file's bytes in hex, read in blocks."""
    digest = hashlib.sha256()
    with open(path, "rb", buffering=0) as stream:
        while block := stream.read(_BLOCK_BYTES):
            digest.update(block)
    return digest.hexdigest()


def identity_of(path: Path) -> FileIdentity:
    """Hash a file and name it; raises `SourceChangedError` when it changes meanwhile."""
    before = os.stat(path)
    sha256 = sha256_file(path)
    after = os.stat(path)
    if fingerprint(before) != fingerprint(after):
        raise SourceChangedError(f"{path} changed while it was read", hint="stop the writer and run again")
    return FileIdentity(before.st_dev, before.st_ino, before.st_mtime_ns, before.st_size, sha256)


def fingerprint(status: os.stat_result) -> tuple[int, int, int, int]:
    """Device, inode, mtime and size: cheap signs that a file is still the one that was read."""
    return status.st_dev, status.st_ino, status.st_mtime_ns, status.st_size


def move_no_replace(
    source: Path,
    destination: Path,
    *,
    expected_sha256: str,
    linked: Callable[[], None] = lambda: reached(Step.MOVE_LINKED),
) -> MoveResult:
    """Give a file a new name without ever replacing one and without a moment in which it has no durable name.

    `publish_no_replace`, then the old name goes. Raises what that raises, and OSError when the old name cannot go: the
    new one is taken back then, since a file with two names would look like one that somebody else has linked.
    """
    result = publish_no_replace(source, destination, expected_sha256=expected_sha256, linked=linked)
    try:
        os.unlink(source)
    except FileNotFoundError:
        pass  # Another name is all that was asked for: the file is where it should be.
    except OSError:
        os.unlink(destination)
        fsync_dir(destination.parent)
        raise
    reached(Step.MOVE_UNLINKED)
    fsync_dir(source.parent)
    return result


def publish_no_replace(
    source: Path,
    destination: Path,
    *,
    expected_sha256: str,
    linked: Callable[[], None],
    copy: bool = False,
) -> MoveResult:
    """Give a file a second name, durable and checked; the first half of a move.

    Link, sync, hash again. Where hard links are missing, or with `copy` (the file then shares no inode with other
    names that it has): copy with mode and mtime, sync, compare, rename. A destination that already is the same inode,
    or that has the expected bytes (a run was cut behind link or copy), is finished. Raises `FileExistsError` when
    another file stands at the destination, `SourceChangedError` when the bytes are not the expected ones (the new name
    is taken back then).
    """
    method = _publish(source, destination, expected_sha256, copy=copy)
    try:
        fsync_dir(destination.parent)
        linked()
        identity = identity_of(destination)
        if identity.sha256 != expected_sha256:
            raise SourceChangedError(f"{source} is not the file that was imported", hint="run the import again")
    except SourceChangedError:
        destination.unlink()
        fsync_dir(destination.parent)
        raise
    return MoveResult(method, identity)


def free_bytes(path: Path) -> int:
    """Bytes that this user may still write on the file system of `path` (or of its nearest existing parent)."""
    place = path
    while not place.exists():
        place = place.parent
    status = os.statvfs(place)
    return status.f_bavail * status.f_frsize


def as_refusal(error: OSError, path: Path) -> Exception:
    """The project's error for a file system that is full or read-only; any other error stays what it is.

    `path` is the file that the caller wanted to write; the name in `error` may be that of a temporary one.
    """
    if error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
        return NoSpaceError(
            f"no room to write {path}", hint="free space on that file system, then run the same command again"
        )
    if error.errno in (errno.EROFS, errno.EACCES, errno.EPERM):
        return RefusedError(f"{path.parent} cannot be written: {error.strerror}", hint="check its owner and mode")
    return error


def same_file(left: Path, right: Path) -> bool:
    """Whether two names are one inode; False when one of them is missing."""
    try:
        return os.path.samestat(os.lstat(left), os.lstat(right))
    except FileNotFoundError:
        return False


def _publish(source: Path, destination: Path, expected_sha256: str, *, copy: bool) -> str:
    if copy and not same_file(source, destination):
        _copy_no_replace(source, destination)
        return "copy"
    try:
        os.link(source, destination, follow_symlinks=False)
        return "link"
    except FileExistsError:
        if same_file(source, destination):
            return "link"
        if not _is_copy(source, destination, expected_sha256):
            raise
        return "copy"
    except OSError as error:
        if error.errno not in _NO_LINKS:
            raise as_refusal(error, destination) from error
    _copy_no_replace(source, destination)
    return "copy"


def _is_copy(source: Path, destination: Path, expected_sha256: str) -> bool:
    """Whether a file that has nothing to do with `source` but its bytes stands there: a copy, durable now."""
    found = os.lstat(destination)
    if not stat.S_ISREG(found.st_mode) or found.st_size != os.stat(source).st_size:
        return False
    if sha256_file(destination) != expected_sha256:
        return False
    descriptor = os.open(destination, os.O_RDONLY)
    try:
        sync_file(descriptor)
    finally:
        os.close(descriptor)
    return True


def _copy_no_replace(source: Path, destination: Path) -> None:
    temporary = _temporary(destination)
    status = os.stat(source)
    try:
        with open(source, "rb", buffering=0) as reader:
            writer = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
            try:
                # Not by the mode of open(), from which the umask would take bits away.
                os.fchmod(writer, stat.S_IMODE(status.st_mode))
                while block := reader.read(_BLOCK_BYTES):
                    _write_all(writer, block)
                sync_file(writer)
            finally:
                os.close(writer)
        os.utime(temporary, ns=(status.st_atime_ns, status.st_mtime_ns))
        if sha256_file(temporary) != sha256_file(source):
            raise SourceChangedError(f"{source} changed while it was copied", hint="stop the writer and run again")
        if destination.exists():
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), str(destination))
        os.rename(temporary, destination)
    except BaseException as error:
        temporary.unlink(missing_ok=True)
        if isinstance(error, OSError):
            raise as_refusal(error, destination) from error
        raise


def _temporary(path: Path) -> Path:
    """A new name beside `path`, of the form that `sweep` knows."""
    return path.with_name(f".{path.name}.{secrets.token_hex(6)}.tmp")


def _blocks(pieces: Iterable[bytes]) -> Iterator[bytes]:
    """`pieces` joined to blocks that are worth a call to the system."""
    pending = bytearray()
    for piece in pieces:
        pending += piece
        if len(pending) >= _BLOCK_BYTES:
            yield bytes(pending)
            pending.clear()
    yield bytes(pending)


def _write_all(descriptor: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(descriptor, view) :]
