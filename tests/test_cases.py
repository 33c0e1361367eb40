"""Bad input that people have reported, one small state directory each in `fixtures/cases`.

Each test says what must hold; the inputs are described by their names. The dry run must always count what the import
then does.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from openclaw_cli.locks import start_time
from openclaw_cli.storage import connection, events, verify

ABSENT_PID = 2**22 + 1


@pytest.fixture
def case(tmp_path: Path, fixtures: Path) -> Callable[[str], Path]:
    """A fresh copy of the state directory of a case."""

    def copy(name: str) -> Path:
        (found,) = (fixtures / "cases").glob(f"{name}-*/state")
        return Path(shutil.copytree(found, tmp_path / name))

    return copy


class Doctor:
    """Runs `doctor MODE` on a state directory and gives status and document."""

    def __init__(self, run_cli: Callable[..., Any]) -> None:
        self._run = run_cli

    def __call__(self, mode: str, state: Path, *options: str) -> tuple[int, dict[str, Any]]:
        outcome = self._run("doctor", mode, "--state-dir", state, "--all-agents", "--json", *options)
        assert outcome.stdout, outcome.stderr
        return outcome.status, json.loads(outcome.stdout)


@pytest.fixture
def doctor(run_cli: Callable[..., Any]) -> Doctor:
    return Doctor(run_cli)


COUNTED = ("linesTotal", "linesLost", "linesSalvageable", "damage", "legacyEntries", "referencedTranscriptFiles")
MOVES = {"transcript_archive_failed", "stale_lock"}


def both(doctor: Doctor, state: Path, *options: str) -> tuple[int, dict[str, Any]]:
    """Dry run, then import; the first must count what the second does, and change nothing."""
    before = digests(state)
    previewed, preview = doctor("dry-run", state, *options)
    assert before == digests(state)
    status, document = doctor("import", state, *options)
    assert status == previewed
    assert document["totals"]["targets"] == preview["totals"]["targets"] >= 1
    for said, done in zip(preview["targets"], document["targets"], strict=True):
        assert done["validatedEntries"] == said["validatedEntries"]
        assert done["validatedTranscriptEvents"] == said["validatedTranscriptEvents"]
        assert {name: done[name] for name in COUNTED} == {name: said[name] for name in COUNTED}
        done_codes = Counter(issue["code"] for issue in done["issues"] if issue["code"] not in MOVES)
        assert done_codes == Counter(issue["code"] for issue in said["issues"])
    check_stores(state)
    assert files_of(before) == files_of(digests(state))
    return status, document


def digests(state: Path) -> dict[str, str]:
    """SHA-256 of every file of a state directory."""
    paths = sorted(path for path in state.rglob("*") if path.is_file())
    return {str(path.relative_to(state)): hashlib.sha256(path.read_bytes()).hexdigest() for path in paths}


def files_of(found: dict[str, str]) -> Counter[str]:
    """Multiset of the digests of what lies in sessions directories and archives, whatever it is called."""
    places = ("/sessions/", "/session-sqlite-import-archive/")
    return Counter(digest for name, digest in found.items() if any(place in f"/{name}" for place in places))


def check_stores(state: Path) -> None:
    """SQLite is content, and every projection agrees with the events."""
    for path in state.glob("agents/*/agent/openclaw-agent.sqlite"):
        with connection.open_read(path, temporary_tables=True) as store:
            assert [] == verify.integrity(store)
            assert [] == list(verify.verify(store))


def rows(state: Path) -> dict[str, int]:
    """Number of events behind each session key."""
    path = state / "agents/main/agent/openclaw-agent.sqlite"
    with connection.open_read(path) as store:
        found = store.execute("SELECT session_key, current_session_id FROM session_nodes WHERE entry_valid = 1")
        return {key: events.count(store, session_id) for key, session_id in found.fetchall()}


def codes(document: dict[str, Any]) -> list[str]:
    """Issue codes of the only target and of the run, with their severity."""
    found = [*document["issues"], *document["targets"][0]["issues"]]
    return sorted(f"{issue['severity']} {issue['code']}" for issue in found)


def damage(document: dict[str, Any]) -> list[tuple[str, int, str]]:
    return [(item["kind"], item["line"], item["action"]) for item in document["targets"][0]["damage"]]


def test_nul_tail_is_a_warning(case: Callable[[str], Path], doctor: Doctor) -> None:
    """284 NULs behind whole rows lose nothing: all rows imported, the tail located, the original kept."""
    status, document = both(doctor, case("01"))
    assert 0 == status
    (found,) = document["targets"][0]["damage"]
    assert ("nul-tail", 284, "ignored") == (found["kind"], found["bytes"], found["action"])
    assert ["warning transcript_malformed"] == codes(document)
    assert 6 == document["targets"][0]["importedTranscriptEvents"]


def test_torn_tail_is_a_warning(case: Callable[[str], Path], doctor: Doctor) -> None:
    """The usual sign of a crash: the begun row is located, nothing is made up for it."""
    state = case("02")
    status, document = both(doctor, state)
    assert 0 == status
    (found,) = document["targets"][0]["damage"]
    assert ("torn-tail", 97) == (found["kind"], found["bytes"])
    assert {"agent:main:main": 6} == rows(state)


def test_missing_header(case: Callable[[str], Path], doctor: Doctor) -> None:
    """Rows are stored as the real import stores them; the warning says what that means."""
    state = case("04")
    status, document = both(doctor, state)
    assert 0 == status
    assert ["warning header_missing"] == codes(document)
    assert {"agent:main:main": 5} == rows(state)


def test_spliced_lines_stop_the_session(case: Callable[[str], Path], doctor: Doctor) -> None:
    """The prefix is imported, what is lost and what could be salvaged is counted, the status says so."""
    state = case("05")
    status, document = both(doctor, state)
    target = document["targets"][0]
    assert 3 == status
    assert {"agent:main:main": 2} == rows(state)
    assert (1, 6) == (target["linesLost"], target["linesSalvageable"])
    assert ("spliced", 3, "stopped") == damage(document)[0]


def test_divergent_ids_keep_the_session_out(case: Callable[[str], Path], doctor: Doctor) -> None:
    """Two events under one id: the session stays out whole, both lines are named, the others are imported."""
    state = case("07")
    sessions = state / "agents/main/sessions"
    (source,) = sessions.glob("*.jsonl")
    other = "11111111-2222-4333-8444-555555555555"
    good = source.read_text().replace(source.stem, other).splitlines(keepends=True)[:-1]
    (sessions / f"{other}.jsonl").write_text("".join(good))
    index = json.loads((sessions / "sessions.json").read_text())
    index["agent:main:explicit:other"] = {"sessionId": other, "updatedAt": 1786000060000}
    (sessions / "sessions.json").write_text(json.dumps(index))

    status, document = both(doctor, state)
    assert 3 == status
    assert {"agent:main:explicit:other": 5} == rows(state)
    (conflict,) = [issue for issue in document["targets"][0]["issues"] if issue["code"] == "event_id_conflict"]
    assert [{"eventId": "m0000001", "lines": [3, 6]}] == conflict["divergent"]
    assert "agent:main:main" == conflict["sessionKey"]
    assert source.exists()
    assert (sessions / "sessions.json").exists()


def test_bom_and_crlf(case: Callable[[str], Path], doctor: Doctor) -> None:
    """A copy through Windows gives the same texts as the file with plain line ends."""
    state = case("09")
    (source,) = (state / "agents/main/sessions").glob("*.jsonl")
    raw = source.read_bytes()
    wanted = [line for line in raw.removeprefix(b"\xef\xbb\xbf").replace(b"\r\n", b"\n").split(b"\n") if line]
    status, _ = both(doctor, state)
    assert 0 == status
    with connection.open_read(state / "agents/main/agent/openclaw-agent.sqlite") as store:
        assert wanted == [text for _, text in events.stream(store, source.stem)]
    (archived,) = (state / "agents/main/session-sqlite-import-archive").glob("agent_main_main.*")
    assert raw == archived.read_bytes()


def test_one_bad_byte_costs_one_row(case: Callable[[str], Path], doctor: Doctor) -> None:
    """Invalid UTF-8 in line 3 keeps that line out alone; lone surrogate escapes are content."""
    state = case("10")
    status, document = both(doctor, state)
    assert 3 == status
    assert [("bad-utf8", 3, "kept-out")] == damage(document)
    assert {"agent:main:main": 4} == rows(state)


def test_separators_and_raw_controls(case: Callable[[str], Path], doctor: Doctor) -> None:
    """U+2028 and its kind do not end lines; a raw control character keeps its row out alone."""
    state = case("11")
    status, document = both(doctor, state)
    assert 3 == status
    assert [("control-char", 5, "kept-out")] == damage(document)
    assert {"agent:main:main": 4} == rows(state)


def huge_state(tmp_path: Path, size_bytes: int) -> tuple[Path, str]:
    """A session with one image result of `size_bytes` in line 3."""
    session = "31073d0c-6d65-4558-b088-f812cc7f34fb"
    at = "2026-08-06T07:06:41.000Z"
    call = {"type": "toolCall", "id": "c-img", "name": "view_image", "arguments": {}}
    result = {"type": "image", "mimeType": "image/png", "data": "A" * size_bytes}
    lines: list[dict[str, Any]] = [
        {"type": "session", "version": 3, "id": session, "timestamp": at, "cwd": "/srv/demo"},
        {"type": "message", "id": "m1", "parentId": None, "message": {"role": "assistant", "content": [call]}},
        {"type": "message", "id": "m2", "parentId": "m1", "message": {"role": "toolResult", "toolCallId": "c-img"}},
        {"type": "message", "id": "m3", "parentId": "m2", "message": {"role": "user", "content": "well"}},
    ]
    lines[2]["message"].update(toolName="view_image", isError=False, content=[result])
    sessions = tmp_path / "huge/agents/main/sessions"
    sessions.mkdir(parents=True)
    text = "".join(json.dumps({"timestamp": at, **line}) + "\n" for line in lines)
    (sessions / f"{session}.jsonl").write_text(text)
    entry = {"sessionId": session, "updatedAt": 1786000060000}
    (sessions / "sessions.json").write_text(json.dumps({"agent:main:main": entry}))
    return tmp_path / "huge", session


def test_huge_line_is_imported_and_named(tmp_path: Path, doctor: Doctor) -> None:
    """A row of 3 MiB is imported, and `inspect --top` names its session, tool and bytes."""
    state, session = huge_state(tmp_path, 3 * 2**20)
    status, document = doctor("inspect", state, "--top", "2")
    (biggest, _) = document["targets"][0]["top"]
    assert (0, session, 3, "view_image") == (status, biggest["sessionId"], biggest["line"], biggest["tool"])
    assert 0 == both(doctor, state)[0]
    assert {"agent:main:main": 4} == rows(state)
    _, document = doctor("inspect", state, "--top", "1")
    (biggest,) = document["targets"][0]["top"]
    assert (2, "message/toolResult", "view_image") == (biggest["seq"], biggest["type"], biggest["tool"])
    assert biggest["bytes"] > 3 * 2**20


def test_line_beyond_the_limit_ends_the_session(tmp_path: Path, doctor: Doctor) -> None:
    """A line above `--max-line` is not held; the session's import ends there and the status says so."""
    state, _ = huge_state(tmp_path, 2**20)
    status, document = both(doctor, state, "--max-line", "512kb")
    assert 3 == status
    assert [("too-long", 3, "stopped")] == damage(document)
    assert {"agent:main:main": 2} == rows(state)


def test_header_and_name_disagree(case: Callable[[str], Path], doctor: Doctor) -> None:
    """Topic and timestamp names are imported; a foreign header id goes to the archive, both ids named."""
    state = case("15")
    status, document = both(doctor, state)
    assert 3 == status
    found = [issue for issue in document["targets"][0]["issues"] if issue["code"] == "header_id_mismatch"]
    assert ["7064a69c-3370-4dbd-8fbc-bef32c62a7b7", "boot-2026-06-12_01-38-43-539-a2a5aeed"] == [
        issue["nameId"] for issue in found
    ]
    assert all(issue["headerId"] for issue in found)
    recovered = "agent:main:recovered:1d0297e0-d298-4f1b-8ee5-455f32e37966"
    assert {"agent:main:main": 5, recovered: 5, "agent:main:telegram:group:-100:topic:2": 5} == rows(state)
    archived = document["targets"][0]["archivedUnreferencedJsonlFiles"]
    status, looked = doctor("inspect", state, "--file", archived[0])
    assert (3, found[0]["headerId"]) == (status, looked["headerId"])


def test_empty_index(case: Callable[[str], Path], doctor: Doctor) -> None:
    """Nothing is done and the way out is named; that way brings all three sessions back."""
    state = case("16")
    before = digests(state)
    status, document = both(doctor, state)
    assert 3 == status
    assert ["error store_unreadable"] == codes(document)
    assert "--rebuild-index" == document["targets"][0]["issues"][0]["hint"]
    assert files_of(before) == files_of(digests(state))
    status, document = both(doctor, state, "--rebuild-index")
    assert 0 == status
    assert {f"agent:main:recovered:{path.stem}": 5 for path in _case_transcripts("16")} == rows(state)
    assert 1 == len(document["targets"][0]["archivedLegacyStoreFiles"])


def test_incomplete_entries(case: Callable[[str], Path], doctor: Doctor) -> None:
    """Each bad row is an issue with its key; every other row is imported, also one without a transcript."""
    state = case("18")
    status, document = both(doctor, state)
    assert 3 == status
    found = Counter(issue["code"] for issue in document["targets"][0]["issues"])
    assert {"entry_invalid": 3, "transcript_missing": 1, "transcript_path_refused": 1} == dict(found)
    names = ("alias-a", "alias-b", "main", "no-updated-at", "old-machine", "windows-path")
    with_events = {f"agent:main:{name}": 5 for name in names}
    assert with_events | {"agent:main:missing-file": 0, "agent:main:traversal": 0} == rows(state)


def test_skip_empty(case: Callable[[str], Path], doctor: Doctor) -> None:
    """`--skip-empty` leaves rows without a transcript out."""
    state = case("18")
    status, _ = both(doctor, state, "--skip-empty")
    assert 3 == status
    assert {"agent:main:missing-file", "agent:main:traversal"} & set(rows(state)) == set()


def test_generations_and_leftovers(case: Callable[[str], Path], doctor: Doctor) -> None:
    """An earlier generation becomes a session of its own; tombstones, backups and temporary files stay."""
    state = case("19")
    status, document = both(doctor, state)
    assert 0 == status
    target = document["targets"][0]
    assert (3, 2, 1) == tuple(
        len(target[name])
        for name in ("archivedTranscriptFiles", "archivedUnreferencedJsonlFiles", "archivedLegacyStoreFiles")
    )
    recovered = "agent:main:recovered:ff841007-2d79-4c37-bbdc-0b00b6c5ade7"
    assert {"agent:main:main": 5, recovered: 7} == rows(state)
    left = {path.name.split(".", 1)[1] for path in (state / "agents/main/sessions").iterdir()}
    assert {
        "jsonl.reset.2026-03-16T10-00-00.000Z",
        "jsonl.bak.1770000000000",
        "trajectory-path.json",
        "jsonl.tmp",
        "jsonl.deleted.2026-03-16T10-00-00.000Z",
        "json.bak.1770000000000",
    } == left


def test_stale_transcript_locks(case: Callable[[str], Path], doctor: Doctor) -> None:
    """A dead pid, a wrong start time and an empty file are stale: named, left in place, the import goes on."""
    state = case("21")
    sessions = state / "agents/main/sessions"
    locks = sorted(path.name for path in sessions.glob("*.lock"))
    (held,) = sessions.glob("d2f7*.lock")
    held.write_text(json.dumps({**json.loads(held.read_text()), "pid": ABSENT_PID}))
    status, document = both(doctor, state)
    assert 0 == status
    assert ["warning stale_lock"] * 3 == codes(document)
    assert locks == sorted(path.name for path in sessions.glob("*.lock"))
    assert {"agent:main:main": 5} == rows(state)


def test_held_transcript_lock(case: Callable[[str], Path], doctor: Doctor) -> None:
    """A lock of a running process with its right start time: busy, the owner named, nothing touched."""
    state = case("21")
    lock = state / "agents/main/sessions/sessions.json.lock"
    lock.write_text(
        json.dumps({**json.loads(lock.read_text()), "pid": os.getpid(), "starttime": start_time(os.getpid())})
    )
    before = digests(state)
    status, document = doctor("import", state)
    assert 11 == status
    assert (str(os.getpid()), "busy") == (str(document["error"]["pid"]), document["error"]["code"])
    assert before == digests(state)


def _case_transcripts(name: str) -> list[Path]:
    root = Path(__file__).resolve().parent.parent / "fixtures/cases"
    return sorted(root.glob(f"{name}-*/state/agents/main/sessions/*.jsonl"))
