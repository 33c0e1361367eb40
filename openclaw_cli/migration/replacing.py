"""Putting a damaged database aside and a sound one in its place, so that no cut leaves a state without a database.

Order: the damaged file gets its second name, then its log and journal get theirs, then the new file takes the first
name in one step. Until that step the damaged file stands where it stood; a run that was cut before it finds by the
second name which parts of the set were moved already.
"""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from openclaw_cli.durable import adopt_owner, fsync_dir, same_file
from openclaw_cli.faults import Step, reached
from openclaw_cli.storage import connection
from openclaw_cli.storage.repairing import LOG_SUFFIXES

NEW_SUFFIX = ".recovering"


def building_path(path: Path) -> Path:
    """Where the new database is built: beside the old one. What an earlier run left there is removed."""
    new = path.with_name(path.name + NEW_SUFFIX)
    for suffix in ("", *LOG_SUFFIXES):
        for name in (new.name, f"{new.name}.creating"):
            new.with_name(name + suffix).unlink(missing_ok=True)
    return new


def set_aside(path: Path, stamp: int) -> list[Path]:
    """Give every file of a damaged set its second name; gives these names, the database's first. Raises OSError."""
    aside = _begun(path) or path.with_name(f"{path.name}.corrupt-{stamp}")
    if not aside.exists():
        _second_name(path, aside)
        fsync_dir(path.parent)
    reached(Step.RECOVER_LINKED)
    suffix = aside.name[len(path.name) :]
    moved = [aside]
    for kind in LOG_SUFFIXES:
        part = path.with_name(path.name + kind)
        if part.exists():
            kept = path.with_name(part.name + suffix)
            part.rename(kept)
            moved.append(kept)
            reached(Step.RECOVER_LOG_ASIDE)
    fsync_dir(path.parent)
    return moved


def put_in_place(new: Path, path: Path) -> None:
    """Let the new database take the place of the damaged one, with its mode. Raises OSError."""
    for suffix in LOG_SUFFIXES:
        # Whoever only read the new database left these, empty; its rows are all in the file itself.
        new.with_name(new.name + suffix).unlink(missing_ok=True)
    # A name that could not be removed when the new database was built would stay as a second one of it.
    connection.remove_unfinished(new)
    if path.exists():
        shutil.copymode(path, new)
    adopt_owner(new)
    os.replace(new, path)
    fsync_dir(path.parent)
    reached(Step.RECOVER_PUBLISHED)


def set_log_aside(path: Path, word: str, stamp: int) -> Path:
    """Move a log away that does not belong to its database; gives its new name. Raises OSError."""
    log = path.with_name(path.name + "-wal")
    kept = path.with_name(f"{log.name}.{word}-{stamp}")
    log.rename(kept)
    # The index of the log; SQLite makes it anew.
    path.with_name(path.name + "-shm").unlink(missing_ok=True)
    fsync_dir(path.parent)
    reached(Step.RECOVER_LOG_ASIDE)
    return kept


def _begun(path: Path) -> Path | None:
    """The second name that an earlier run gave to the very file at `path`."""
    found = sorted(path.parent.glob(f"{path.name}.corrupt-*"))
    return next((other for other in found if same_file(other, path)), None)


def _second_name(path: Path, aside: Path) -> None:
    try:
        os.link(path, aside)
    except FileExistsError:
        raise
    except OSError:
        # A file system without hard links: a copy, whole before it has the name.
        temporary = aside.with_name(aside.name + ".copying")
        shutil.copy2(path, temporary)
        with temporary.open("rb") as file:
            os.fsync(file.fileno())
        temporary.rename(aside)
