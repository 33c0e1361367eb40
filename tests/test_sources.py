"""What can be named as SOURCE, and what is said to everything else."""

from __future__ import annotations

import io
import os
import threading
from pathlib import Path

import pytest
import zstandard

from openclaw_cli.errors import Exit, NotATranscriptError, NotFoundError, OpenClawError, RefusedError, UsageError
from openclaw_cli.sources import open_source

ROW = b'{"type":"session","version":3,"id":"s"}\n'


@pytest.fixture
def transcript(tmp_path: Path) -> Path:
    """A transcript of one row."""
    path = tmp_path / "s.jsonl"
    path.write_bytes(ROW)
    return path


def refusal(spec: str) -> OpenClawError:
    """The error that naming `spec` raises."""
    with pytest.raises(OpenClawError) as caught:
        open_source(spec)
    assert caught.value.hint
    return caught.value


def test_a_file_is_read_from_the_start(transcript: Path) -> None:
    """The look at its beginning leaves no trace, and it can be read again."""
    with open_source(str(transcript)) as source:
        assert ROW == source.stream.read()
        source.stream.seek(0)
        assert ROW == source.stream.read()
        assert (str(transcript), transcript, len(ROW), ()) == (
            source.name,
            source.path,
            source.size_bytes,
            source.issues,
        )


def test_an_archive_is_unpacked(tmp_path: Path) -> None:
    """Plain text behind `.zst` is read too, with a warning."""
    packed, plain = tmp_path / "a.jsonl.zst", tmp_path / "b.jsonl.zst"
    packed.write_bytes(zstandard.compress(ROW))
    plain.write_bytes(ROW)

    with open_source(str(packed)) as source:
        assert (ROW, ()) == (source.stream.read(), source.issues)
    with open_source(str(plain)) as source:
        assert ROW == source.stream.read()
        assert [("archive_not_compressed", "warning")] == [(issue.code, issue.severity) for issue in source.issues]


@pytest.mark.parametrize("content", [ROW, zstandard.compress(ROW)], ids=["plain", "packed"])
def test_the_standard_input_is_spooled(content: bytes) -> None:
    """It can be read twice, compressed or not, and leaves no file behind."""
    steps: list[int] = []
    with open_source("-", io.BytesIO(content), on_spooled=steps.append) as source:
        assert ROW == source.stream.read()
        source.stream.seek(0)
        assert ROW == source.stream.read()
        assert (None, len(content), len(content)) == (source.path, source.size_bytes, sum(steps))


def test_a_pipe_with_a_name_is_spooled(tmp_path: Path) -> None:
    """Process substitution of a shell gives one."""
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    writer = threading.Thread(target=pipe.write_bytes, args=(ROW,))
    writer.start()
    with open_source(str(pipe)) as source:
        assert ROW == source.stream.read()
    writer.join()


@pytest.mark.parametrize(
    "content",
    [b"", b"\n \n", b"\xef\xbb\xbf" + ROW, b"# a comment\n" + ROW, ROW[:20], b'{"a":"' + b"x" * 100_000],
    ids=["empty", "blank", "mark", "comment", "torn", "long"],
)
def test_these_are_transcripts(tmp_path: Path, content: bytes) -> None:
    """Empty, with a mark, with another line first, torn, with a first row of more than 64 KiB."""
    path = tmp_path / "t"
    path.write_bytes(content)

    with open_source(str(path)) as source:
        assert content == source.stream.read()


@pytest.mark.parametrize(
    "content",
    [bytes(range(256)) * 300, b"\0" * 99, b"words\n", b"{\n 'a': 1\n}\n", b"{\n", b"x" * 70_000 + b"\n" + ROW],
    ids=["binary", "nuls", "words", "literal", "brace", "late"],
)
def test_what_holds_no_json_line_is_no_transcript(tmp_path: Path, content: bytes) -> None:
    """Exit 2, and the file is named."""
    path = tmp_path / "t"
    path.write_bytes(content)

    error = refusal(str(path))

    assert (NotATranscriptError, "not_a_transcript", Exit.USAGE) == (type(error), error.code, error.exit)
    assert str(path) in error.message


def test_directories(tmp_path: Path) -> None:
    """A foreign directory does not count as a source at all; ours are not supported yet, which is another answer."""
    foreign, state, agent = tmp_path / "foreign", tmp_path / "state", tmp_path / "state/agents/main"
    foreign.mkdir()
    (foreign / "x.jsonl").write_bytes(ROW)
    (agent / "sessions").mkdir(parents=True)
    (agent / "sessions/x.jsonl").write_bytes(ROW)

    assert (NotFoundError, Exit.NOT_FOUND) == (type(refusal(str(foreign))), refusal(str(foreign)).exit)
    for path, kind in (
        (state, "a state directory"),
        (agent, "an agent's directory"),
        (agent / "sessions", "a directory of transcripts"),
    ):
        error = refusal(str(path))
        assert (UsageError, Exit.USAGE) == (type(error), error.exit)
        assert kind in error.message


@pytest.mark.parametrize(
    "spec, kind",
    [
        ("/nowhere/x.jsonl", NotFoundError),
        ("", NotFoundError),
        ("x\0y", NotFoundError),
        pytest.param("y" * 5000, NotFoundError, id="long"),
        ("agent:main:main", UsageError),
        ("00000abc-0000-4000-8000-000000000001", UsageError),
        ("-", UsageError),
    ],
)
def test_names_of_no_file(spec: str, kind: type[OpenClawError]) -> None:
    """A session is told from a file that is missing."""
    assert kind is type(refusal(spec))


def test_a_database_is_named_as_one(tmp_path: Path) -> None:
    """It is no transcript, but no rubbish either."""
    path = tmp_path / "openclaw-agent.sqlite"
    path.write_bytes(b"SQLite format 3\0" + bytes(4080))

    error = refusal(str(path))

    assert (UsageError, True) == (type(error), "database" in error.message)


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_a_file_that_may_not_be_read_is_refused(transcript: Path) -> None:
    """It exists, so it is not missing."""
    transcript.chmod(0)

    assert RefusedError is type(refusal(str(transcript)))
