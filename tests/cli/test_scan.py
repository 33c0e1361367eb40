"""`scan-lifecycles` as a user runs it: documents, statuses, kinds of sources."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import zstandard

GOLDEN = "lifecycles/spawndirect.jsonl"


def document(run: Any) -> dict[str, Any]:
    return json.loads(run.stdout)


def test_document_has_the_contract(run_cli: Callable[..., Any], fixtures: Path) -> None:
    """One JSON document with sources and totals; the tokens of foldable lifecycles add up to the total."""
    run = run_cli("scan-lifecycles", fixtures / GOLDEN, "--json")
    found = document(run)
    (source,) = found["sources"]
    assert (0, {"sources", "totals"}) == (run.status, set(found))
    assert {"source", "records", "lifecycles", "completionsWithoutSpawn", "damage", "warnings"} == set(source)
    assert {"spawn", "result", "completion", "repeats", "state", "overlaps", "entries"} < set(source["lifecycles"][0])
    removable = sum(row["tokens"]["removed"] for row in source["lifecycles"] if row["foldable"])
    assert {
        "sources": 1,
        "records": 53,
        "lifecycles": 9,
        "byState": {"completed_ok": 4, "completed_unknown": 1, "spawn_error": 3, "spawn_forbidden": 1},
        "foldable": 4,
        "tokensRemovable": removable,
        "damage": 0,
    } == found["totals"]
    assert removable > 500


def test_no_tokens(run_cli: Callable[..., Any], fixtures: Path) -> None:
    """Without counts every number of tokens is null, also the sum."""
    found = document(run_cli("scan-lifecycles", fixtures / GOLDEN, "--json", "--no-tokens"))
    assert {None} == {row["tokens"]["removed"] for row in found["sources"][0]["lifecycles"]}
    assert None is found["totals"]["tokensRemovable"]


def test_keep_last(run_cli: Callable[..., Any], fixtures: Path) -> None:
    """`--keep-last` decides what may be folded."""
    path = fixtures / "lifecycles/29-lifecycle-mess.jsonl"
    counts = [
        document(run_cli("scan-lifecycles", path, "--json", "--no-tokens", *extra))["totals"]["foldable"]
        for extra in ((), ("--keep-last", "0"))
    ]
    assert [0, 1] == counts


def test_lines(run_cli: Callable[..., Any], fixtures: Path) -> None:
    """`--ndjson` prints each lifecycle, each source, and a summary as the last line."""
    run = run_cli("scan-lifecycles", fixtures / GOLDEN, "--ndjson", "--no-tokens")
    kinds = [json.loads(line)["type"] for line in run.stdout.splitlines()]
    assert ["lifecycle"] * 9 + ["source", "summary"] == kinds


def test_text(run_cli: Callable[..., Any], fixtures: Path) -> None:
    """The table names each sub-task, its state, and why it is not folded."""
    run = run_cli("scan-lifecycles", fixtures / GOLDEN)
    assert (0, "") == (run.status, run.stderr)
    assert "child-beta SLEEP" in run.stdout
    assert "no: spawn forbidden" in run.stdout
    assert "9 sub-tasks: 4 completed_ok" in run.stdout.splitlines()[-1]


def test_compressed_and_piped_sources_give_the_same(
    run_cli: Callable[..., Any], fixtures: Path, tmp_path: Path
) -> None:
    """A `.zst`, a `.zst` with spawns counted, and the standard input equal the plain file."""
    data = (fixtures / GOLDEN).read_bytes()
    packed = tmp_path / "t.jsonl.zst"
    packed.write_bytes(zstandard.ZstdCompressor(write_checksum=True).compress(data))
    runs = [
        run_cli("scan-lifecycles", "--json", fixtures / GOLDEN),
        run_cli("scan-lifecycles", "--json", packed),
        run_cli("scan-lifecycles", "--json", "-", stdin=data),
    ]
    first, second, third = (document(run)["sources"][0] | {"source": ""} for run in runs)
    assert first == second == third


def test_session_id_is_looked_up_in_the_index_beside_the_file(run_cli: Callable[..., Any], tmp_path: Path) -> None:
    """Era C names the child by its session id; `sessions.json` tells the key."""
    key, session = "agent:main:subagent:1", "1e7609c3-a7cb-48ef-8208-b31d86ad1922"
    call = {"type": "toolCall", "id": "c", "name": "sessions_spawn", "arguments": {"task": "t"}}
    accepted = {"status": "accepted", "childSessionKey": key, "runId": "r"}
    announced = (
        f'[System Message] [sessionId: {session}] A subagent task "x" just completed successfully.\n\nResult:\ny'
        "\n\nStats: runtime 1m46s • tokens n/a"
    )
    messages = [
        {"role": "assistant", "content": [call]},
        {"role": "toolResult", "toolCallId": "c", "content": [], "details": accepted},
        {"role": "user", "content": announced},
    ]
    path = tmp_path / "t.jsonl"
    path.write_text("".join(json.dumps({"type": "message", "message": message}) + "\n" for message in messages))
    (tmp_path / "sessions.json").write_text(json.dumps({key: {"sessionId": session}}))
    (life,) = document(run_cli("scan-lifecycles", path, "--json"))["sources"][0]["lifecycles"]
    assert ("system message", "sessionId") == (life["completion"]["format"], life["completion"]["matchedBy"])


@pytest.mark.parametrize(
    ("content", "status", "warnings", "damage"),
    [
        (b"", 0, 0, 0),
        (b'{"role":"user","content":"hi"}\n{"role":"assistant","content":"ho"}\n', 0, 1, 0),
        (b'{"type":"session","id":"s"}\n{"type":"mess', 0, 0, 1),
        (b'{"type":"session","id":"s"}\n{"type":"mess\n{"type":"custom","id":"x"}\n', 3, 0, 1),
    ],
    ids=["empty", "other-program", "torn-tail", "damaged"],
)
def test_statuses(
    run_cli: Callable[..., Any], tmp_path: Path, content: bytes, status: int, warnings: int, damage: int
) -> None:
    """Empty and foreign files are no errors, a torn tail is a warning, an unreadable line is status 3."""
    path = tmp_path / "t.jsonl"
    path.write_bytes(content)
    run = run_cli("scan-lifecycles", path, "--json")
    found = document(run)
    (source,) = found["sources"]
    assert (status, warnings, damage) == (run.status, len(source["warnings"]), found["totals"]["damage"])
    assert [] == source["lifecycles"]


@pytest.mark.parametrize(
    ("name", "status", "code"),
    [("missing.jsonl", 10, "not_found"), ("binary", 2, "not_a_transcript"), (".", 10, "not_found")],
)
def test_sources_that_are_none(run_cli: Callable[..., Any], tmp_path: Path, name: str, status: int, code: str) -> None:
    """A missing file, a binary and a directory that is no state directory end the run with a failure document."""
    (tmp_path / "binary").write_bytes(bytes(range(256)) * 300)
    run = run_cli("scan-lifecycles", tmp_path / name, "--json")
    assert (status, code) == (run.status, document(run)["error"]["code"])


def test_nothing_is_written(run_cli: Callable[..., Any], fixtures: Path, tmp_path: Path) -> None:
    """The directory of the source is as it was."""
    path = tmp_path / "t.jsonl"
    path.write_bytes((fixtures / GOLDEN).read_bytes())
    before = path.read_bytes()
    run_cli("scan-lifecycles", path)
    assert ({"t.jsonl"}, before) == ({entry.name for entry in tmp_path.iterdir()}, path.read_bytes())


def test_one_missing_source_does_not_end_the_scan_of_the_others(
    run_cli: Callable[..., Any], fixtures: Path, tmp_path: Path
) -> None:
    """The others are listed, the missing one is an issue, the status is its; the same with lines and with text."""
    (tmp_path / "binary").write_bytes(bytes(range(256)) * 300)
    paths = (tmp_path / "gone.jsonl", fixtures / GOLDEN, tmp_path / "binary", fixtures / GOLDEN)
    run = run_cli("scan-lifecycles", *paths, "--json", "--no-tokens")
    found = document(run)
    assert (10, [9, 9]) == (run.status, [len(source["lifecycles"]) for source in found["sources"]])
    assert [("not_found", "error", str(paths[0])), ("not_a_transcript", "error", str(paths[2]))] == [
        (issue["code"], issue["severity"], issue["source"]) for issue in found["issues"]
    ]
    lines = run_cli("scan-lifecycles", *paths, "--ndjson", "--no-tokens")
    kinds = [json.loads(line)["type"] for line in lines.stdout.splitlines()]
    assert (10, 2, ["issue", "issue", "summary"]) == (lines.status, kinds.count("source"), kinds[-3:])
    text = run_cli("scan-lifecycles", *paths, "--no-tokens")
    assert (10, 2) == (text.status, text.stdout.count("error: "))


def test_a_compressed_source_that_is_cut_short_is_scanned_as_far_as_it_goes(
    run_cli: Callable[..., Any], fixtures: Path, tmp_path: Path
) -> None:
    """What can be read is listed with an issue and status 3; nothing readable is status 13, and so is folding it."""
    data = (fixtures / GOLDEN).read_bytes()
    packed = zstandard.ZstdCompressor(write_checksum=True).compress(data + b" \n" * 400_000)
    cut, nothing = tmp_path / "cut.jsonl.zst", tmp_path / "nothing.jsonl.zst"
    cut.write_bytes(packed[:-6])
    nothing.write_bytes(packed[:10])
    run = run_cli("scan-lifecycles", cut, "--json", "--no-tokens")
    found = document(run)
    assert (3, 9, ["archive_truncated"]) == (
        run.status,
        found["totals"]["lifecycles"],
        [issue["code"] for issue in found["issues"]],
    )
    piped = run_cli("scan-lifecycles", "-", "--json", "--no-tokens", stdin=cut.read_bytes())
    assert (3, found["totals"]) == (piped.status, document(piped)["totals"])
    assert 13 == run_cli("scan-lifecycles", nothing, "--json").status
    assert 13 == run_cli("scan-lifecycles", nothing, fixtures / GOLDEN, "--json").status
    refused = run_cli("compact", cut, "--json")
    assert (13, "archive_truncated") == (refused.status, document(refused)["error"]["code"])
    assert "zstd -dc" in document(refused)["error"]["hint"]
    assert {"cut.jsonl.zst", "nothing.jsonl.zst"} == {entry.name for entry in tmp_path.iterdir()}
