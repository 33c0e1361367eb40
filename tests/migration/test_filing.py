"""`--github-issue`: what is written for strangers holds no secret, whatever field it stood in; nothing is sent."""

from __future__ import annotations

import json
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from openclaw_cli.migration.shaping import outline, shape

CANARY = "kanarienvogel"
SESSION = f"11111111-2222-4333-8444-{CANARY}0001"


def planted(state: Path) -> None:
    """A state directory with a canary in every field that a report could be made of, and damage of every kind."""
    agent = state / f"agents/{CANARY}agent"
    sessions = agent / "sessions"
    sessions.mkdir(parents=True)
    (state / "openclaw.json").write_text(json.dumps({"meta": {"note": CANARY}, "env": {CANARY: f"sk-{CANARY}"}}))
    (state / ".env").write_text(f"TOKEN={CANARY}\n")
    header = {"type": "session", "version": 3, "id": SESSION, "timestamp": CANARY, "cwd": f"/home/{CANARY}"}
    call = {"type": "toolCall", "id": CANARY, "name": CANARY, "arguments": {CANARY: f"{CANARY}@example.org"}}
    message = {"role": "assistant", "content": [{"type": "text", "text": CANARY}, call], CANARY: CANARY}
    entry = {"type": "message", "id": CANARY, "parentId": None, "timestamp": CANARY, "message": message}
    good = json.dumps(entry).encode()
    lines = [
        json.dumps(header).encode(),
        good,
        good.replace(b"assistant", b"assist\xffant").replace(b'"id": "', b'"id": "x'),
        good.replace(b"text", b"te\x01xt", 1).replace(b'"id": "', b'"id": "y'),
        good[: len(good) // 2],
        b"\0" * 40 + good,
        good + good,
        f'["{CANARY}", {{"{CANARY}": "{CANARY}"}}]'.encode(),
        f"not json at all: {CANARY}".encode(),
    ]
    (sessions / f"{SESSION}.jsonl").write_bytes(b"\n".join(lines) + b"\n" + good[:30])
    (sessions / f"{CANARY}.jsonl").write_bytes(json.dumps({**header, "id": "other"}).encode() + b"\n")
    row = {"sessionId": SESSION, "updatedAt": 1786000000000, "label": CANARY, "lastTo": f"+49 {CANARY}", "icon": CANARY}
    index = {
        f"agent:{CANARY}agent:explicit:{CANARY}": row,
        f"{CANARY}:bad": {"sessionId": f"../{CANARY}"},
        f"agent:{CANARY}agent:{CANARY}": {"sessionId": "", CANARY: CANARY},
    }
    (sessions / "sessions.json").write_text(json.dumps(index))


@pytest.mark.parametrize("options", [(), ("--salvage",)], ids=["plain", "salvage"])
@pytest.mark.parametrize("mode", ["import", "recover"])
def test_no_secret_of_any_field_is_in_a_report(
    mode: str, options: tuple[str, ...], tmp_path: Path, run_cli: Callable[..., Any]
) -> None:
    """Both files, and the title in the command; paths and keys are pseudonyms."""
    state = tmp_path / "state"
    planted(state)
    argv = ("doctor", mode, "--state-dir", state, "--all-agents", "--github-issue", "--json", *options)
    outcome = run_cli(*argv)
    assert 3 == outcome.status, outcome.stderr
    support = json.loads(outcome.stdout)["supportIssue"]
    written = Path(support["bodyPath"]).read_text() + Path(support["jsonPath"]).read_text() + support["title"]
    for secret in (CANARY, str(tmp_path), str(Path.home()), "example.org", "/home/", "TOKEN", "sk-"):
        assert secret not in written, secret
    document = json.loads(Path(support["jsonPath"]).read_bytes())
    assert document["totals"]["damage"] == len(document["targets"][0]["damage"]) >= 2
    assert all(
        place["shape"]["bytes"] == place["bytes"] for place in document["targets"][0]["damage"] if place["bytes"]
    )
    for path in (support["bodyPath"], support["jsonPath"]):
        assert 0o600 == stat.S_IMODE(Path(path).stat().st_mode)


def test_pseudonyms_are_stable_within_a_report_and_not_between_two(tmp_path: Path, run_cli: Callable[..., Any]) -> None:
    """One file has one name in a report, and another in the next."""
    names = []
    for number in range(2):
        state = tmp_path / f"state{number}"
        planted(state)
        run_cli("doctor", "import", "--state-dir", state, "--all-agents", "--github-issue", "--salvage")
        (path,) = state.rglob("*.failure.json")
        places = json.loads(path.read_bytes())["targets"][0]["damage"]
        (name,) = {place["file"] for place in places}
        assert len(places) > 2
        names.append(name)
    assert names[0] != names[1]


def test_a_run_without_errors_writes_no_report(state_copy: Callable[[str], Path], run_cli: Callable[..., Any]) -> None:
    """A report that is none would be filed as a failure."""
    state = state_copy("01-legacy")
    run_cli("doctor", "import", "--state-dir", state, "--all-agents")
    outcome = run_cli("doctor", "recover", "--state-dir", state, "--all-agents", "--github-issue")
    assert "No error was found, so no report was written." == outcome.stdout.splitlines()[-1]
    assert [] == list(state.rglob("*.failure.*"))


def test_a_second_report_takes_another_name(tmp_path: Path, run_cli: Callable[..., Any]) -> None:
    """Nothing is overwritten, and a report is no manifest to anybody."""
    state = tmp_path / "state"
    planted(state)
    for _ in range(2):
        argv = ("doctor", "restore", "--state-dir", state, "--all-agents", "--github-issue", "--now", "1796000000000")
        run_cli("doctor", "import", "--state-dir", state, "--all-agents", "--github-issue", "--now", "1796000000000")
        run_cli(*argv)
    first = sorted(path.name for path in state.rglob("*.failure.md"))
    assert len(first) == len(set(first)) >= 2
    outcome = run_cli("doctor", "recover", "--state-dir", state, "--all-agents", "--json")
    assert "manifest_invalid" not in outcome.stdout


def test_a_report_that_cannot_be_written_hides_no_run(tmp_path: Path, run_cli: Callable[..., Any]) -> None:
    """A file stands where the directory of the runs would be: the findings and their status come all the same."""
    sessions = tmp_path / "agents/main/sessions"
    sessions.mkdir(parents=True)
    (sessions / "sessions.json").write_text("{")
    (tmp_path / "session-sqlite-migration-runs").write_text("in the way")
    argv = ("doctor", "import", "--state-dir", tmp_path, "--all-agents", "--github-issue")
    outcome = run_cli(*argv, "--json")
    document = json.loads(outcome.stdout)
    assert 3 == outcome.status
    assert ["store_unreadable"] == [issue["code"] for issue in document["targets"][0]["issues"]]
    assert "error" in document["supportIssue"]
    assert run_cli(*argv).stdout.splitlines()[-1].startswith("report not written: ")


def test_the_shape_of_a_line_says_nothing_of_its_words() -> None:
    """Kinds and lengths; names only of the format."""
    found = shape(b'{"type":"message","geheim":{"role":"user"},"content":["a","b"],"n":1.5,"x":null,"ok":true}')
    assert (
        "{type:str(7), ?(6):{role:str(4)}, content:[2 of str(1)], ?(1):num, ?(1):null, ?(2):bool}" == found["outline"]
    )
    assert {"bytes": 3, "nulBytes": 2, "utf8": True, "outline": None}.items() <= shape(b"\0x\0").items()
    assert (False, 1) == (shape(b"a\xff")["utf8"], shape(b"a\xff")["firstBadByte"])
    assert "{data:{data:{data:{data:{data:{data:{1}}}}}}}" == outline(json.loads('{"data":' * 7 + "1" + "}" * 7))
