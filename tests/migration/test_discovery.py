"""Names and paths of the file era: which file belongs to which session, and what is never opened."""

from __future__ import annotations

from typing import Any

import pytest

from openclaw_cli.migration.discovery import FileClass, classify, id_in_name, list_directory, resolve
from openclaw_cli.migration.index import read_index, session_id_of

UUID = "1d0297e0-d298-4f1b-8ee5-455f32e37966"


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("sessions.json", FileClass.INDEX),
        (f"{UUID}.jsonl", FileClass.TRANSCRIPT),
        (f"{UUID}.trajectory.jsonl", FileClass.TRAJECTORY),
        (f"{UUID}.trajectory-path.json", FileClass.POINTER),
        (f"{UUID}.checkpoint.{UUID}.jsonl", FileClass.CHECKPOINT),
        (f"{UUID}.jsonl.lock", FileClass.LOCK),
        ("sessions.json.lock", FileClass.LOCK),
        (f"{UUID}.jsonl.deleted.2026-03-16T10-00-00.000Z", FileClass.OTHER),
        ("sessions.json.bak.1", FileClass.OTHER),
        (".jsonl", FileClass.OTHER),
    ],
)
def test_classes(name: str, kind: FileClass) -> None:
    """The class that a file's name gives it."""
    assert kind is classify(name)


@pytest.mark.parametrize(
    "name", [f"{UUID}.jsonl", f"{UUID}-topic-2%2F3.jsonl", f"2026-06-01T10-00-00-000Z_{UUID}.jsonl"]
)
def test_id_in_name(name: str) -> None:
    """Topic suffix and timestamp prefix are no part of the id."""
    assert UUID == id_in_name(name)


@pytest.mark.parametrize(
    "stated",
    [
        f"{UUID}.jsonl",
        f"/home/demo/.openclaw/agents/main/sessions/{UUID}.jsonl",
        f"C:\\Users\\demo\\sessions\\{UUID}.jsonl",
        f"\\\\host\\share\\{UUID}.jsonl",
        f"/a/../b/{UUID}.jsonl",
        "gone.jsonl",
        "",
    ],
)
def test_paths_of_other_machines_keep_their_name(stated: str, legacy: Any) -> None:
    """Whatever machine a path is of, only its last part counts; else the id itself names the file."""
    path = legacy.session(UUID)
    found = resolve({"sessionFile": stated}, UUID, list_directory(legacy.sessions))
    assert found.source is not None
    assert (path, False) == (found.source.path, found.refused)


@pytest.mark.parametrize(
    "stated", [f"../{UUID}.jsonl", f"x\\..\\..\\{UUID}.jsonl", "sub/../../a.jsonl", "sessions.json"]
)
def test_paths_that_climb_are_refused(stated: str, legacy: Any) -> None:
    """Nothing is tried in the place of such a path."""
    legacy.session(UUID)
    found = resolve({"sessionFile": stated}, UUID, list_directory(legacy.sessions))
    assert (None, True) == (found.source, found.refused)


@pytest.mark.parametrize("text", ["../evil", "", " ", "a/b", ".hidden", "x" * 129, f"a.checkpoint.{UUID}", 5, None])
def test_no_session_ids(text: object) -> None:
    """What cannot name a session file."""
    assert session_id_of(text) is None


def test_ids_are_normalised() -> None:
    """White space around an id is dropped, composed characters are one."""
    assert ("abc", "caf\u00e9") == (session_id_of(" abc "), session_id_of("cafe\u0301"))


@pytest.mark.parametrize(
    ("text", "code"), [("", "store_unreadable"), ('{"a":', "store_unreadable"), ("[]", "store_not_object")]
)
def test_unusable_index(text: str, code: str, legacy: Any) -> None:
    """An index that is no object is said to be unusable, and nothing is made of it."""
    path = legacy.sessions / "sessions.json"
    path.write_text(text)
    index = read_index(path)
    assert (False, [code]) == (index.usable, [issue.code for issue in index.issues])


def test_index_with_lone_surrogates_and_byte_order_mark(legacy: Any) -> None:
    """What JavaScript reads is read."""
    path = legacy.sessions / "sessions.json"
    path.write_bytes(b'\xef\xbb\xbf{"agent:main:main":{"sessionId":"a","label":"\\ud800","n":18446744073709551616}}')
    (entry,) = read_index(path).entries
    assert "\ud800" == entry.entry["label"]
