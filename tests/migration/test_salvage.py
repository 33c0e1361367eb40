"""`--salvage`: every whole record comes in, in order, and whatever is lost is named by line, byte and length."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from openclaw_cli.storage import connection, events, verify

SESSION = "0f5e0c0e-7d3c-4b6e-9d7e-2a35b7a1c001"
COUNTED = ("linesTotal", "linesLost", "linesSalvaged", "parentBreaks", "damage", "validatedTranscriptEvents")


class Case:
    """A copy of one case of `fixtures/cases`."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.sessions = root / "agents/main/sessions"
        (self.source, *_) = sorted(self.sessions.glob("*.jsonl"))


@pytest.fixture
def case(tmp_path: Path, fixtures: Path) -> Callable[[str], Case]:
    def copy(name: str) -> Case:
        (found,) = (fixtures / "cases").glob(f"{name}-*/state")
        return Case(Path(shutil.copytree(found, tmp_path / "state")))

    return copy


def both(doctor: Any, state: Any, *options: str) -> tuple[int, dict[str, Any]]:
    """Dry run, then import, both salvaging: same status, same counts, same codes; the store is sound. The target."""
    expected, said = doctor("dry-run", state, "--salvage", *options)
    status, done = doctor("import", state, "--salvage", *options)
    (preview,), (target,) = said["targets"], done["targets"]
    assert expected == status
    assert {name: preview[name] for name in COUNTED} == {name: target[name] for name in COUNTED}
    assert sorted(issue["code"] for issue in preview["issues"]) == sorted(issue["code"] for issue in target["issues"])
    check(state)
    return status, target


def check(state: Any) -> None:
    with connection.open_read(store_of(state), temporary_tables=True) as store:
        assert [] == verify.integrity(store)
        assert [] == list(verify.verify(store))


def store_of(state: Any) -> Path:
    return Path(state.root) / "agents/main/agent/openclaw-agent.sqlite"


def texts(state: Any, session_id: str) -> list[bytes]:
    with connection.open_read(store_of(state)) as store:
        return [text for _, text in events.stream(store, session_id)]


def ids(state: Any, session_id: str) -> list[str]:
    return [json.loads(text).get("id") for text in texts(state, session_id)]


def active_ids(state: Any, session_id: str) -> list[str]:
    sql = (
        "SELECT event_id FROM session_transcript_active_events AS active JOIN transcript_event_identities AS known"
        " ON known.session_id = active.session_id AND known.seq = active.event_seq"
        " WHERE active.session_id = ? ORDER BY active_position"
    )
    with connection.open_read(store_of(state)) as store:
        return [event_id for (event_id,) in store.execute(sql, (session_id,))]


def damage(target: dict[str, Any]) -> list[tuple[str, int, int, str]]:
    return [(item["kind"], item["line"], item["bytes"], item["action"]) for item in target["damage"]]


def codes(target: dict[str, Any]) -> list[str]:
    return sorted(f"{issue['severity']} {issue['code']}" for issue in target["issues"])


def lines(legacy: Any, messages: int) -> tuple[Path, list[bytes]]:
    """A session under the main key, and its lines without line ends."""
    path = legacy.session(SESSION, messages)
    legacy.index({"agent:main:main": {"sessionId": SESSION, "updatedAt": 1_786_000_000_000}})
    return path, path.read_bytes().splitlines()


def test_spliced_lines_give_their_whole_records(case: Callable[[str], Case], doctor: Any) -> None:
    """Seven of eight messages come in, in order; the lost one is named with its 80 bytes, its child is a break."""
    state = case("05")
    raw = state.source.read_bytes()
    status, target = both(doctor, state)
    assert 3 == status
    assert [("spliced", 3, 80, "kept-out"), ("spliced", 4, 0, "salvaged"), ("nul-run", 5, 512, "salvaged")] == damage(
        target
    )
    lost = target["damage"][0]
    assert raw[lost["byteOffset"] :].startswith(b'{"type":"message"')
    assert (1, 4, 1) == (target["linesLost"], target["linesSalvaged"], target["parentBreaks"])
    assert ["error transcript_malformed", "warning parent_break"] == codes(target)
    found = texts(state, state.source.stem)
    assert 8 == len(found)
    offsets = [raw.index(text) for text in found]
    assert sorted(offsets) == offsets


def test_first_of_two_divergent_rows_wins(case: Callable[[str], Case], doctor: Any) -> None:
    """The first row of an id is stored; the other is named with its line and stays in the archived original."""
    state = case("07")
    raw = state.source.read_bytes()
    status, target = both(doctor, state)
    assert 3 == status
    assert ["error event_id_conflict"] == codes(target)
    assert [{"eventId": "m0000001", "lines": [3, 6]}] == target["issues"][0]["divergent"]
    rows = raw.splitlines()
    assert [*rows[:5], *rows[6:]] == texts(state, state.source.stem)
    (archived,) = target["archivedTranscriptFiles"]
    assert raw == Path(archived).read_bytes()
    (run,) = (state.root / "session-sqlite-migration-runs").glob("*.json")
    moves = json.loads(run.read_text())["targets"][0]["completedMoves"]
    assert ["protected", "protected"] == [move["artifact"]["classification"] for move in moves]


def test_bad_utf8_is_stored_with_replacements(case: Callable[[str], Case], doctor: Any) -> None:
    """A row with three bad bytes comes in with U+FFFD; those bytes are lost, so the status is 3."""
    state = case("10")
    raw = state.source.read_bytes().splitlines()[2]
    status, target = both(doctor, state)
    assert 3 == status
    assert [("bad-utf8", 3, len(raw), "salvaged")] == damage(target)
    assert ["error transcript_malformed"] == codes(target)
    assert 5 == target["importedTranscriptEvents"]
    assert json.loads(raw.decode("utf-8", "replace")) == json.loads(texts(state, state.source.stem)[2])


def test_control_characters_are_parsed_and_flagged(case: Callable[[str], Case], doctor: Any) -> None:
    """A raw tab in a string becomes an escape: nothing is lost, the line is named."""
    state = case("11")
    status, target = both(doctor, state)
    assert 0 == status
    assert [("control-char", 5, 192, "salvaged")] == damage(target)
    assert ["warning transcript_malformed"] == codes(target)
    assert b"\\t" in texts(state, state.source.stem)[4]


def test_rebuild_index(case: Callable[[str], Case], doctor: Any) -> None:
    """A torn index: nothing happens without the flag; with it the sessions come back, and its bytes are archived."""
    state = case("16")
    index = state.sessions / "sessions.json"
    index.write_bytes(b'{"agent:main:main":{"sessionId":"')
    status, target = doctor("import", state)
    assert (3, ["error store_unreadable"]) == (status, codes(target["targets"][0]))
    status, target = both(doctor, state, "--rebuild-index")
    assert (0, ["warning index_rebuilt"]) == (status, codes(target))
    (archived,) = target["archivedLegacyStoreFiles"]
    assert b'{"agent:main:main":{"sessionId":"' == Path(archived).read_bytes()
    assert not index.exists()


def test_missing_index_needs_no_flag(case: Callable[[str], Case], doctor: Any) -> None:
    """Without a `sessions.json` a plain import takes the sessions from the headers."""
    state = case("16")
    (state.sessions / "sessions.json").unlink()
    status, document = doctor("import", state)
    assert (0, 3, 15) == (
        status,
        document["totals"]["importedEntries"],
        document["totals"]["importedTranscriptEvents"],
    )


def test_without_the_flag_nothing_changes(case: Callable[[str], Case], doctor: Any) -> None:
    """The report of a plain run has none of the keys of a salvage."""
    _, document = doctor("dry-run", case("05"))
    assert set() == {"linesSalvaged", "parentBreaks"} & set(document["targets"][0])


def test_torn_header_is_made_anew(legacy: Any, doctor: Any) -> None:
    """With the header torn, all messages come in under their own ids, behind a header that the real program opens."""
    path, rows = lines(legacy, 3)
    path.write_bytes(b"\n".join([rows[0][:40], *rows[1:], b""]))
    status, target = both(doctor, legacy)
    assert 3 == status
    assert ["error transcript_malformed", "warning header_rebuilt"] == codes(target)
    header, *stored = texts(legacy, SESSION)
    assert {
        "type": "session",
        "version": 3,
        "id": SESSION,
        "timestamp": json.loads(rows[1])["timestamp"],
        "cwd": "",
    } == (json.loads(header))
    assert [json.loads(row) for row in rows[1:]] == [json.loads(text) for text in stored]
    assert ["m0", "m1", "m2"] == active_ids(legacy, SESSION)


def test_torn_header_without_an_index(legacy: Any, doctor: Any) -> None:
    """Neither index nor header: the file's name says which session it is."""
    path, rows = lines(legacy, 3)
    (legacy.sessions / "sessions.json").unlink()
    path.write_bytes(b"\n".join([rows[0][:40], *rows[1:], b""]))
    assert 3 == doctor("import", legacy)[0]
    assert {} == legacy.entries()
    assert 0 == doctor("restore", legacy)[0]
    status, _ = both(doctor, legacy)
    assert 3 == status
    assert {f"agent:main:recovered:{SESSION}": (SESSION, 4)} == legacy.entries()


def test_salvage_after_a_plain_import(legacy: Any, doctor: Any) -> None:
    """What a salvage adds to a session that is stored already goes where the file has it; the newest row stays so."""
    path, rows = lines(legacy, 5)
    damaged = [*rows[:2], rows[2].replace(b"text", b"te\xffxt"), *rows[3:]]
    path.write_bytes(b"\n".join([*damaged, b""]))
    assert 3 == doctor("import", legacy)[0]
    assert [SESSION, "m0", "m2", "m3", "m4"] == ids(legacy, SESSION)
    assert 0 == doctor("restore", legacy)[0]
    assert 3 == doctor("import", legacy, "--salvage")[0]
    check(legacy)
    assert [SESSION, "m0", "m1", "m2", "m3", "m4"] == ids(legacy, SESSION)
    assert ["m0", "m1", "m2", "m3", "m4"] == active_ids(legacy, SESSION)


def test_salvage_twice(case: Callable[[str], Case], doctor: Any) -> None:
    """After a restore a second salvage adds nothing and says the same."""
    state = case("05")
    status, first = both(doctor, state)
    stored = texts(state, state.source.stem)
    assert 0 == doctor("restore", state)[0]
    again, second = both(doctor, state)
    assert (status, 0) == (again, second["importedTranscriptEvents"])
    assert stored == texts(state, state.source.stem)
    assert [damage(first), codes(first)] == [damage(second), codes(second)]


@pytest.mark.parametrize("byte", [b"\xff", b"\x01"], ids=["bad-utf8", "control-char"])
def test_a_header_with_bad_content_is_still_the_header(byte: bytes, tmp_path: Path, doctor: Any) -> None:
    """Without it the entries would count as version 1 and get new ids; and a salvage would then store them again."""
    sessions = tmp_path / "agents/main/sessions"
    sessions.mkdir(parents=True)
    session = "11111111-2222-4333-8444-555555555555"
    header = b'{"type":"session","version":3,"id":"%s","timestamp":"2026-09-01T00:00:00Z","cwd":"/a%s"}\n'
    rows = [
        {"type": "message", "id": f"m{n}", "parentId": f"m{n - 1}" if n else None, "message": {"role": "user"}}
        for n in range(3)
    ]
    lines = b"".join(json.dumps(row).encode() + b"\n" for row in rows)
    (sessions / f"{session}.jsonl").write_bytes(header % (session.encode(), byte) + lines)
    (sessions / "sessions.json").write_text(json.dumps({"agent:main:explicit:x": {"sessionId": session}}))

    state = Case(tmp_path)
    expected, preview = doctor("dry-run", state)
    status, done = doctor("import", state)
    assert expected == status
    assert preview["targets"][0]["damage"] == done["targets"][0]["damage"]
    assert ["salvaged"] == [place["action"] for place in done["targets"][0]["damage"]]
    assert 4 == done["totals"]["importedTranscriptEvents"]
    assert [session, "m0", "m1", "m2"] == [json.loads(text)["id"] for text in texts(state, session)]

    doctor("restore", state)
    _, again = doctor("import", state, "--salvage")
    check(state)
    assert 0 == again["totals"]["importedTranscriptEvents"]
    assert 4 == again["totals"]["validatedTranscriptEvents"]
