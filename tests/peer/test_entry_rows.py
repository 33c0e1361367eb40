"""Rows of an index: ours are, column by column, those that the real import writes; it reads what we settled."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from index_rows import RandomRows, rows_of, write_rows

from openclaw_cli import jstext
from openclaw_cli.storage import connection

from .conftest import Peer

ODD_KEYS = (
    "main",
    "MAIN",
    "Agent:Main:Main",
    "global",
    "discord:channel:555",
    "Discord:Channel:AbC",
    "group:123@g.us",
    "channel:abc",
    "Subagent:ABC",
    "cron:Job1:run:R",
    "agent::x",
    "agent:main",
    "agent:Bad Name:x",
    "signal:group:QwE=",
    "agent:main:matrix:channel:!ro2:s.org",
    "agent:main:matrix:channel:!ro3:s.org:thread:$ev",
    " padded:key ",
    "a\u2028b",
    "agent:main:İx",
)
ODD_ROUTES = {
    "agent:main:matrix:channel:!ro2:s.org": {"lastChannel": "matrix", "lastTo": "!Ro2:S.org"},
    "agent:main:matrix:channel:!ro3:s.org:thread:$ev": {
        "lastChannel": "matrix",
        "lastTo": "room:!Ro3:S.org",
        "lastThreadId": "$Ev",
    },
}
ODD_LINEAGE = ("main", "discord:channel:555", "", 5, None, "global", " agent:main:X ")
ODD_DELIVERY = {"kind": "external", "route": {}, "context": {"channel": 5, "to": ["x"], "accountId": 4}, "origin": {}}


def file_store(state_dir: Path, index: bytes) -> Path:
    """Put an index into the state directory, as file-era versions left it; gives its path."""
    path = state_dir / "agents/main/sessions/sessions.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(index)
    return path


def real_rows(state_dir: Path, index: Path) -> dict[str, Any]:
    """What the real program's store holds."""
    with connection.open_read(state_dir / "agents/main/agent/openclaw-agent.sqlite") as store:
        return rows_of(store, source_path=str(index))


def test_fixture_is_what_the_real_import_writes(
    peer_import: Callable[[Path], Any], tmp_path: Path, fixtures: Path
) -> None:
    """The pairs that the tests without the real program use are still true."""
    folder = fixtures / "entries"
    index = file_store(tmp_path, (folder / "index.json").read_bytes())
    report = peer_import(tmp_path)
    rows = real_rows(tmp_path, index)
    assert report["totals"]["importedEntries"] == len(rows["session_nodes"])
    if os.environ.get("OPENCLAW_REWRITE_GOLDEN"):
        (folder / "rows.json").write_text(one_row_a_line(rows), encoding="utf-8")
    assert json.loads((folder / "rows.json").read_text(encoding="utf-8")) == rows


def one_row_a_line(tables: dict[str, Any]) -> str:
    """JSON that a diff can show."""
    parts = []
    for table, rows in tables.items():
        lines = ",\n".join(json.dumps(row, ensure_ascii=False) for row in rows)
        parts.append(f"{json.dumps(table)}: [\n{lines}\n]")
    return "{" + ",\n".join(parts) + "}\n"


@pytest.mark.parametrize("seed", [2, pytest.param(3, marks=pytest.mark.slow), pytest.param(4, marks=pytest.mark.slow)])
def test_random_rows_equal_those_of_the_real_import(
    peer_import: Callable[[Path], Any], tmp_path: Path, seed: int
) -> None:
    """Whatever fields a row has, every column of its rows is the same."""
    entries = RandomRows(seed).importable(700)
    text = jstext.dumps(entries)
    index = file_store(tmp_path / "state", text)
    assert len(entries) == peer_import(tmp_path / "state")["totals"]["importedEntries"]
    ours = tmp_path / "ours/openclaw-agent.sqlite"
    write_rows(ours, jstext.parse(text), source_path=str(index))
    with connection.open_read(ours) as store:
        written = rows_of(store, source_path=str(index))
    expected = real_rows(tmp_path / "state", index)
    for table, rows in expected.items():
        assert rows == written[table], table


def test_the_real_program_reads_every_settled_row(peer: Peer, tmp_path: Path) -> None:
    """Keys, lineage, times and deliveries that would cost the real program the store are settled before writing."""
    index: dict[str, Any] = {
        key: {"sessionId": f"k{n}", "updatedAt": 1_700_000_000_000 + n, **ODD_ROUTES.get(key, {})}
        for n, key in enumerate(ODD_KEYS)
    }
    for n, lineage in enumerate(ODD_LINEAGE):
        row = {"parentSessionKey": lineage, "spawnedBy": ODD_LINEAGE[n - 1], "forkSource": {"sessionKey": lineage}}
        index[f"child-{n}"] = {"sessionId": f"c{n}", "updatedAt": 1, **row}
    for n, number in enumerate((1.5, -1.5, 1e300, 2**53, 2**62)):
        times = dict.fromkeys(("updatedAt", "startedAt", "createdAt", "pinnedAt", "lastActivityAt"), number)
        index[f"time-{n}"] = {"sessionId": f"t{n}", **times}
    index["delivery"] = {"sessionId": "d", "updatedAt": 1, "delivery": ODD_DELIVERY}
    index |= {f"x{n}": row for n, row in enumerate(RandomRows(9).index(100).values())}
    found = write_rows(tmp_path / "agents/main/agent/openclaw-agent.sqlite", index)
    listed = peer.json(tmp_path, "sessions", "--limit", "10000")
    assert {row.key for row in found} == {session["key"] for session in listed["sessions"]}
    inspected = peer.json(tmp_path, "doctor", "--session-sqlite", "inspect", "--session-sqlite-all-agents")
    assert (1, 0) == (inspected["totals"]["targets"], inspected["totals"]["issues"])


def test_a_second_import_overwrites_like_the_real_one(peer_import: Callable[[Path], Any], tmp_path: Path) -> None:
    """With `prefer_index` an entry replaces the stored one: what belongs to a key or a session stays or goes alike."""
    rounds = [{k: v for k, v in RandomRows(seed).importable(300).items() if "acp" not in v} for seed in (5, 6)]
    for row in [row for number, entries in enumerate(rounds) for row in list(entries.values())[:: 2 + number]]:
        row["sessionId"] = f"same-{row['sessionId'].partition('-')[2]}"
    expected = {}
    for entries in rounds:
        index = file_store(tmp_path / "state", jstext.dumps(entries))
        peer_import(tmp_path / "state")
        expected = real_rows(tmp_path / "state", index)
    ours = tmp_path / "ours/openclaw-agent.sqlite"
    write_rows(ours, rounds[0])
    write_rows(ours, rounds[1], prefer_index=True)
    with connection.open_read(ours) as store:
        written = rows_of(store)
    for tables in (expected, written):
        for row in tables["session_nodes"]:
            row["entry_json"] = json.loads(row["entry_json"])
    for table, rows in expected.items():
        assert rows == written[table], table
