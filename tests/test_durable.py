"""Replacing and moving files: nothing is overwritten, nothing is lost, what changed is noticed."""

from __future__ import annotations

import errno
import hashlib
import os
from pathlib import Path

import pytest

from openclaw_cli import durable
from openclaw_cli.durable import SourceChangedError, move_no_replace, replace_file

DATA = b"some bytes"
DIGEST = hashlib.sha256(DATA).hexdigest()


@pytest.fixture
def source(tmp_path: Path) -> Path:
    path = tmp_path / "source"
    path.write_bytes(DATA)
    return path


def test_replace_leaves_only_the_file(tmp_path: Path) -> None:
    """New bytes and mode, no temporary file."""
    path = tmp_path / "file"
    replace_file(path, b"one")
    replace_file(path, b"two", mode=0o640)
    assert (b"two", [path]) == (path.read_bytes(), list(tmp_path.iterdir()))


def test_move(source: Path, tmp_path: Path) -> None:
    """The same inode under its new name."""
    inode = source.stat().st_ino
    result = move_no_replace(source, tmp_path / "target", expected_sha256=DIGEST)
    assert ("link", inode, DIGEST) == (result.method, result.identity.inode, result.identity.sha256)
    assert not source.exists()


def test_move_never_replaces(source: Path, tmp_path: Path) -> None:
    """Another file at the destination stays, and so does the source."""
    (tmp_path / "target").write_bytes(b"other")
    with pytest.raises(FileExistsError):
        move_no_replace(source, tmp_path / "target", expected_sha256=DIGEST)
    assert (DATA, b"other") == (source.read_bytes(), (tmp_path / "target").read_bytes())


def test_move_of_other_bytes_is_taken_back(source: Path, tmp_path: Path) -> None:
    """The source is no longer what was imported: it stays under its old name only."""
    with pytest.raises(SourceChangedError):
        move_no_replace(source, tmp_path / "target", expected_sha256="0" * 64)
    assert [source] == list(tmp_path.iterdir())


def test_cut_between_link_and_unlink_is_finished(source: Path, tmp_path: Path) -> None:
    """Both names are there already: the old one goes."""
    os.link(source, tmp_path / "target")
    move_no_replace(source, tmp_path / "target", expected_sha256=DIGEST)
    assert [tmp_path / "target"] == list(tmp_path.iterdir())


@pytest.mark.parametrize("number", [errno.EXDEV, errno.EPERM])
def test_move_without_links(number: int, source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another file system, or one without hard links: copied with mode and time, compared, then removed."""
    source.chmod(0o640)
    before = source.stat()

    def no_links(*_: object, **__: object) -> None:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(durable.os, "link", no_links)
    result = move_no_replace(source, tmp_path / "target", expected_sha256=DIGEST)
    after = (tmp_path / "target").stat()
    assert "copy" == result.method
    assert (before.st_mode, before.st_mtime_ns) == (after.st_mode, after.st_mtime_ns)
    assert [tmp_path / "target"] == list(tmp_path.iterdir())


def test_a_copy_keeps_mode_and_time_and_shares_nothing(source: Path, tmp_path: Path) -> None:
    """Whatever the umask is; the source keeps its name, and a second inode has the other one."""
    source.chmod(0o664)
    os.utime(source, ns=(5, 1_700_000_000_000_000_007))
    mask = os.umask(0o077)
    try:
        target = tmp_path / "target"
        result = durable.publish_no_replace(source, target, expected_sha256=DIGEST, linked=lambda: None, copy=True)
    finally:
        os.umask(mask)
    before, after = source.stat(), target.stat()
    assert ("copy", DATA) == (result.method, target.read_bytes())
    assert before.st_ino != after.st_ino
    assert (before.st_mode, before.st_mtime_ns) == (after.st_mode, after.st_mtime_ns)


def test_a_copy_that_was_cut_before_the_old_name_went_is_finished(
    source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without hard links a cut leaves two files of the same bytes; other bytes there are still never touched."""

    def no_links(_source: Path, target: Path, **_: object) -> None:
        number = errno.EEXIST if os.path.lexists(target) else errno.EPERM
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(durable.os, "link", no_links)
    target = tmp_path / "target"
    target.write_bytes(DATA[::-1])
    with pytest.raises(FileExistsError):
        move_no_replace(source, target, expected_sha256=DIGEST)
    assert (DATA, DATA[::-1]) == (source.read_bytes(), target.read_bytes())
    target.write_bytes(DATA)

    move_no_replace(source, target, expected_sha256=DIGEST)

    assert [target] == list(tmp_path.iterdir())


def test_an_unexpected_failure_leaves_no_temporary_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also one that is no OSError, as Ctrl-C is."""

    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(durable.os, "replace", interrupted)
    with pytest.raises(KeyboardInterrupt):
        replace_file(tmp_path / "file", DATA)
    assert [] == list(tmp_path.iterdir())


def test_temporary_files_of_killed_runs_are_swept(tmp_path: Path) -> None:
    """Names of the form that this module gives, and no others; a directory that is not there is none to sweep."""
    kept = ["a.tmp", ".a.tmp", ".a.0123456789ab.tmp.jsonl", "a.0123456789ab.tmp", ".a.0123456789AB.tmp"]
    for name in (*kept, ".sessions.json.0123456789ab.tmp"):
        (tmp_path / name).write_bytes(DATA)
    durable.sweep([tmp_path, tmp_path / "missing"])
    assert sorted(kept) == sorted(path.name for path in tmp_path.iterdir())
