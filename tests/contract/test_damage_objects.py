"""Damage is counted and located: every kind, with offsets that the test works out by itself."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import zstandard
from legacy_state import (
    BASE_MS,
    DAMAGE_KEYS,
    KEY,
    digests,
    events,
    header,
    issues_of,
    jsonl,
    line,
    make_state,
    one_session,
    sid,
    turns,
)

ROWS = turns(sid(1), 4)
GOOD = [line(row) for row in ROWS]


def build(parts: list[bytes], last_newline: bool = True) -> tuple[bytes, list[int]]:
    """Lines joined by newlines, and the byte offset of each."""
    offsets, data = [], b""
    for number, part in enumerate(parts):
        offsets.append(len(data))
        data += part + (b"\n" if last_newline or number < len(parts) - 1 else b"")
    return data, offsets


def bad(kind: str) -> bytes:
    """A damaged third line."""
    whole = GOOD[2]
    if kind == "not-json":
        return b"this is no JSON at all"
    if kind == "not-object":
        return b"[1,2]"
    if kind == "nul-run":
        return b"\x00" * 512 + whole
    if kind == "bad-utf8":
        return whole.replace(b"turn 1", b"turn \xff\xfe 1")
    if kind == "control-char":
        return whole.replace(b"turn 1", b"turn\t1")
    if kind == "spliced":
        return whole + GOOD[3]
    raise AssertionError(kind)


# kind, action, events stored, exit status
MIDDLE = [
    ("not-json", "stopped", 2, 3),
    ("not-object", "stored", 5, 0),
    ("nul-run", "stopped", 2, 3),
    ("bad-utf8", "kept-out", 4, 3),
    ("control-char", "kept-out", 4, 3),
    ("spliced", "stopped", 2, 3),
]


def test_damage_within_a_file(doctor: Callable[..., Any], tmp_path: Path) -> None:
    """Damage is located by file, 1-based line with the header as line 1, byte offset and kind, with its action."""
    index, files, expected = {}, {}, []
    folder = tmp_path / "s/agents/main/sessions"
    for number, (kind, action, _, _) in enumerate(MIDDLE, 1):
        parts = [GOOD[0], GOOD[1], bad(kind), GOOD[3], GOOD[4]]
        if kind == "spliced":
            parts = [GOOD[0], GOOD[1], bad(kind), GOOD[4]]
        parts[0] = line(header(sid(number)))
        data, offsets = build(parts)
        index[f"agent:main:{kind}"] = {"sessionId": sid(number), "updatedAt": BASE_MS}
        files[f"{sid(number)}.jsonl"] = data
        place = {"file": str(folder.resolve() / f"{sid(number)}.jsonl"), "line": 3, "byteOffset": offsets[2]}
        expected.append({**place, "bytes": len(parts[2]), "kind": kind, "action": action})
    state = make_state(tmp_path / "s", index, files)
    total = sum(stored for _, _, stored, _ in MIDDLE)
    for mode, counter in (("dry-run", "validatedTranscriptEvents"), ("import", "importedTranscriptEvents")):
        (target,) = doctor(mode, state, status=3)["targets"]
        found = [{name: item[name] for name in DAMAGE_KEYS} for item in target["damage"]]
        assert expected == sorted(found, key=lambda item: item["file"])
        assert (29, total) == (target["linesTotal"], target[counter])
        wrong = {issue["sessionKey"].rsplit(":", 1)[1] for issue in target["issues"] if issue["severity"] == "error"}
        assert {kind for kind, _, _, status in MIDDLE if status} == wrong
    for number, (kind, _, stored, _) in enumerate(MIDDLE, 1):
        assert stored == len(events(state, sid(number))), kind


def test_nul_run_offset_names_the_line(doctor: Callable[..., Any], tmp_path: Path) -> None:
    """A NUL-ridden line ends the session's import there, the later good lines are salvageable and counted."""
    data, _ = build([GOOD[0], GOOD[1], bad("nul-run"), GOOD[3], GOOD[4]])
    (target,) = doctor("import", one_session(tmp_path / "s", data), status=3)["targets"]
    assert (0, 3) == (target["linesLost"], target["linesSalvageable"])


def test_lost_and_salvageable_after_a_bad_line(doctor: Callable[..., Any], tmp_path: Path) -> None:
    """`linesTotal, linesLost, linesSalvageable` per target: the bad line is lost, what follows is salvageable."""
    data, _ = build([GOOD[0], GOOD[1], b"garbage", GOOD[3], GOOD[4]])
    report = doctor("dry-run", one_session(tmp_path / "s", data), status=3)
    (target,) = report["targets"]
    assert (5, 1, 2) == tuple(target[name] for name in ("linesTotal", "linesLost", "linesSalvageable"))
    assert 1 == report["totals"]["linesLost"]


def test_torn_tail(doctor: Callable[..., Any], tmp_path: Path) -> None:
    """A torn tail without a whole record is a warning, status 0; no fixed-up JSON is invented."""
    whole, _ = build(GOOD)
    torn = line(turns(sid(1), 5)[5])[:97]
    state = one_session(tmp_path / "s", whole + torn)
    (target,) = doctor("import", state)["targets"]
    (found,) = target["damage"]
    assert ("torn-tail", len(GOOD) + 1, len(whole), 97, "ignored") == tuple(
        found[name] for name in ("kind", "line", "byteOffset", "bytes", "action")
    )
    assert ROWS == events(state, sid(1))


def test_nul_tail(doctor: Callable[..., Any], tmp_path: Path) -> None:
    """A NUL tail is a warning, status 0; offset and length are those of the NULs."""
    whole, _ = build(GOOD)
    state = one_session(tmp_path / "s", whole + b"\x00" * 284)
    (target,) = doctor("import", state)["targets"]
    (found,) = target["damage"]
    assert ("nul-tail", len(GOOD) + 1, len(whole), 284, "ignored") == tuple(
        found[name] for name in ("kind", "line", "byteOffset", "bytes", "action")
    )
    assert ["warning"] == [issue["severity"] for issue in target["issues"]]


def test_torn_tail_that_is_a_whole_record(doctor: Callable[..., Any], tmp_path: Path) -> None:
    """A last line without newline that is a whole record is no damage at all."""
    data, _ = build(GOOD, last_newline=False)
    state = one_session(tmp_path / "s", data)
    (target,) = doctor("import", state)["targets"]
    assert [] == target["damage"]
    assert ROWS == events(state, sid(1))


def test_all_nul_file_is_no_tail(doctor: Callable[..., Any], tmp_path: Path) -> None:
    """An all-NUL file is not treated like a NUL tail: it is an error, status 3."""
    state = one_session(tmp_path / "s", b"\x00" * 4096)
    (target,) = doctor("dry-run", state, status=3)["targets"]
    assert "nul-tail" not in {item["kind"] for item in target["damage"]}
    assert 1 == len(target["damage"])


def test_too_long(doctor: Callable[..., Any], tmp_path: Path) -> None:
    """A line above `--max-line` is `too-long`, the import of this session ends there, status 3."""
    big = line({**ROWS[2], "message": {**ROWS[2]["message"], "content": "A" * 5000}})
    parts = [GOOD[0], GOOD[1], big, GOOD[3], GOOD[4]]
    data, offsets = build(parts)
    state = one_session(tmp_path / "s", data)
    (target,) = doctor("import", state, "--max-line", "4kb", status=3)["targets"]
    (found,) = target["damage"]
    assert ("too-long", 3, offsets[2], len(big), "stopped") == tuple(
        found[name] for name in ("kind", "line", "byteOffset", "bytes", "action")
    )
    assert ROWS[:2] == events(state, sid(1))


def test_line_of_exactly_the_limit(doctor: Callable[..., Any], tmp_path: Path) -> None:
    """Only a line *longer* than `--max-line` is damage."""
    longest = max(len(part) for part in GOOD)
    data, _ = build(GOOD)
    (target,) = doctor("dry-run", one_session(tmp_path / "s", data), "--max-line", str(longest))["targets"]
    assert [] == target["damage"]


def test_falsy_lines_are_blank(doctor: Callable[..., Any], tmp_path: Path) -> None:
    """`null`, `false`, `0`, `""` are skipped as blank."""
    data, _ = build([GOOD[0], b"null", b"false", b"0", b'""', b"", b"   ", *GOOD[1:]])
    state = one_session(tmp_path / "s", data)
    (target,) = doctor("import", state)["targets"]
    assert [] == target["damage"]
    assert ROWS == events(state, sid(1))


def test_json_that_is_no_event(doctor: Callable[..., Any], tmp_path: Path) -> None:
    """JSON that is no object and `{}` are stored as the real import stores them and listed as `not-object`."""
    odd = [b"[1,2]", b'"str"', b"42", b"{}"]
    data, offsets = build([*GOOD, *odd])
    state = one_session(tmp_path / "s", data)
    (target,) = doctor("import", state)["targets"]
    expected = [("not-object", number + 6, offsets[number + 5], len(text), "stored") for number, text in enumerate(odd)]
    names = ("kind", "line", "byteOffset", "bytes", "action")
    assert expected == [tuple(found[name] for name in names) for found in target["damage"]]
    assert [*ROWS, [1, 2], "str", 42, {}] == events(state, sid(1))


def test_bom_crlf_and_separators_are_no_damage(doctor: Callable[..., Any], tmp_path: Path) -> None:
    """BOM, CRLF, U+2028 inside strings: same events as the plain file."""
    odd = [dict(row) for row in ROWS]
    odd[2] = {**odd[2], "note": "a\u2028b\u2029c\u0085d"}
    data = b"\xef\xbb\xbf" + b"".join(line(row) + b"\r\n" for row in odd)
    state = one_session(tmp_path / "s", data)
    (target,) = doctor("import", state)["targets"]
    assert [] == target["damage"]
    assert odd == events(state, sid(1))
    (archived,) = target["archivedTranscriptFiles"]
    assert data == Path(archived).read_bytes()


def test_offsets_count_bom_and_crlf(doctor: Callable[..., Any], tmp_path: Path) -> None:
    """The byte offset is that of the file, BOM and carriage returns included."""
    bom = b"\xef\xbb\xbf"
    data = bom + GOOD[0] + b"\r\n" + GOOD[1] + b"\r\n" + b"garbage\r\n" + GOOD[3] + b"\r\n"
    (target,) = doctor("dry-run", one_session(tmp_path / "s", data), status=3)["targets"]
    (found,) = target["damage"]
    assert (3, len(bom) + len(GOOD[0]) + len(GOOD[1]) + 4) == (found["line"], found["byteOffset"])


def test_blank_lines_count_as_lines(doctor: Callable[..., Any], tmp_path: Path) -> None:
    """Lines are 1-based lines of the file; blank ones count."""
    data, offsets = build([GOOD[0], b"", b"", GOOD[1], b"garbage"])
    (target,) = doctor("dry-run", one_session(tmp_path / "s", data), status=3)["targets"]
    (found,) = target["damage"]
    assert (5, offsets[4]) == (found["line"], found["byteOffset"])


def test_lone_surrogates_and_escaped_nul(doctor: Callable[..., Any], tmp_path: Path) -> None:
    """Lone surrogate escapes and an escaped NUL are no damage."""
    odd = GOOD[2].replace(b"turn 1", b"turn \\ud83d \\u0000 1")
    data, _ = build([GOOD[0], GOOD[1], odd, *GOOD[3:]])
    state = one_session(tmp_path / "s", data)
    (target,) = doctor("import", state)["targets"]
    assert [] == target["damage"]
    assert 5 == target["importedTranscriptEvents"]


def test_divergent_id(doctor: Callable[..., Any], tmp_path: Path) -> None:
    """Two different rows under one id: nothing of that session is committed, its source stays, status 3."""
    other = {**ROWS[2], "message": {**ROWS[2]["message"], "content": "something else"}}
    state = one_session(tmp_path / "s", jsonl([*ROWS, other]))
    source = state / "agents/main/sessions" / f"{sid(1)}.jsonl"
    before = digests(state)
    preview = doctor("dry-run", state, status=3)
    assert before == digests(state)
    (issue,) = [one for target in preview["targets"] for one in target["issues"] if one["severity"] == "error"]
    assert all(number in issue["message"] or number in str(issue) for number in ("3", "6"))
    report = doctor("import", state, status=3)
    assert 0 == report["totals"]["importedTranscriptEvents"]
    assert jsonl([*ROWS, other]) == source.read_bytes()


def test_same_row_twice_is_no_divergence(doctor: Callable[..., Any], tmp_path: Path) -> None:
    """Same id, same bytes: deduplicated, fine."""
    state = one_session(tmp_path / "s", jsonl([*ROWS, ROWS[2]]))
    report = doctor("import", state)
    assert ROWS == events(state, sid(1))
    assert "error" not in {issue["severity"] for target in report["targets"] for issue in target["issues"]}


def test_damage_never_quotes_the_transcript(run_cli: Callable[..., Any], tmp_path: Path) -> None:
    """Damage is never quoted; transcript text never appears in issues, logs or reports."""
    secret = "the-password-is-hunter2"
    data, _ = build([GOOD[0], GOOD[1], f"garbage {secret}".encode(), GOOD[3].replace(b"turn 2", secret.encode())])
    state = one_session(tmp_path / "s", data)
    for argv in (["dry-run"], ["dry-run", "--json"], ["inspect", "--top", "3", "--json"], ["import", "--debug", "-v"]):
        done = run_cli("doctor", argv[0], "--all-agents", "--state-dir", state, *argv[1:])
        assert secret not in done.stdout + done.stderr


def test_inspect_file_locates_the_same_damage(cli_json: Callable[..., Any], tmp_path: Path) -> None:
    """`inspect --file F` names header id, id in the name, lines and damage of one file."""
    data, offsets = build([GOOD[0], GOOD[1], b"garbage", bad("bad-utf8"), GOOD[4]])
    path = tmp_path / f"{sid(2)}.jsonl"
    path.write_bytes(data)
    report = cli_json("doctor", "inspect", "--file", path, status=3)
    text = str(report)
    assert sid(1) in text and sid(2) in text
    found = report["damage"] if "damage" in report else report["file"]["damage"]
    assert [("not-json", 3, offsets[2]), ("bad-utf8", 4, offsets[3])] == [
        (item["kind"], item["line"], item["byteOffset"]) for item in found
    ]


def test_damage_in_a_compressed_source(cli_json: Callable[..., Any], tmp_path: Path) -> None:
    """`.zst` is read as a stream; offsets are those of the unpacked text."""
    data, offsets = build([GOOD[0], GOOD[1], b"garbage", GOOD[3]])
    path = tmp_path / "t.jsonl.zst"
    path.write_bytes(zstandard.compress(data))
    (source,) = cli_json("scan-lifecycles", path, status=3)["sources"]
    (found,) = source["damage"]
    assert ("not-json", 3, offsets[2]) == (found["kind"], found["line"], found["byteOffset"])


def test_damage_from_stdin(cli_json: Callable[..., Any]) -> None:
    """`-` reads stdin with the same damage."""
    data, offsets = build([GOOD[0], GOOD[1], b"garbage", GOOD[3]])
    report = cli_json("scan-lifecycles", "-", stdin=data, status=3)
    (found,) = report["sources"][0]["damage"]
    assert (3, offsets[2], len(b"garbage")) == (found["line"], found["byteOffset"], found["bytes"])
    assert 1 == report["totals"]["damage"]


def test_v1_and_v2_headers_and_missing_header(doctor: Callable[..., Any], tmp_path: Path) -> None:
    """No header: events imported with new ids and no header row, warning `header_missing`, status 0."""
    state = one_session(tmp_path / "s", jsonl(ROWS[1:]))
    report = doctor("import", state)
    (issue,) = issues_of(report, "header_missing")
    assert "warning" == issue["severity"]
    stored = events(state, sid(1))
    assert ["message"] * 4 == [row["type"] for row in stored]
    assert set() == {row["id"] for row in stored} & {row["id"] for row in ROWS}


def test_header_only_damage_is_kept_by_key(doctor: Callable[..., Any], tmp_path: Path) -> None:
    """One bad file is an issue naming the key; the others go on."""
    index = {
        KEY: {"sessionId": sid(1), "updatedAt": BASE_MS},
        "agent:main:other": {"sessionId": sid(2), "updatedAt": BASE_MS},
    }
    files = {f"{sid(1)}.jsonl": jsonl([header(sid(1))]) + b"garbage\n", f"{sid(2)}.jsonl": jsonl(turns(sid(2)))}
    state = make_state(tmp_path / "s", index, files)
    report = doctor("import", state, status=3)
    assert [KEY] == [issue["sessionKey"] for issue in issues_of(report, "transcript_malformed")]
    assert turns(sid(2)) == events(state, sid(2))
