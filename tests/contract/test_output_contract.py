"""stdout is the result and nothing else; one document with `--json`; statuses as the table says."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from legacy_state import BASE_MS, KEY, NOW_MS, jsonl, make_state, one_session, one_task, sid, store, turns

CONTROL = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f]")


@pytest.fixture
def plain(tmp_path: Path) -> Path:
    """A small state directory with one whole session."""
    return one_session(tmp_path / "plain", jsonl(turns(sid(1))))


def failing(kind: str, folder: Path) -> tuple[list[str], int, str | None]:
    """A command line that fails, its status and (where the contract names it) its code."""
    binary = folder / "binary.jsonl"
    binary.write_bytes(bytes(range(128, 256)) * 1024)
    empty = folder / "empty-dir"
    empty.mkdir()
    state = str(folder / "nowhere")
    table: dict[str, tuple[list[str], int, str | None]] = {
        "no such command": (["frobnicate"], 2, None),
        "no such option": (["sessions", "list", "--frobnicate"], 2, None),
        "no such mode": (["doctor", "--session-sqlite", "frobnicate"], 2, None),
        "bad limit": (["sessions", "list", "--limit", "many"], 2, None),
        "negative limit": (["sessions", "list", "--limit", "-1"], 2, None),
        "bad active": (["sessions", "list", "--active", "soon"], 2, None),
        "bad archived": (["sessions", "list", "--archived=maybe"], 2, None),
        "bad now": (["sessions", "list", "--now", "yesterday-ish"], 2, None),
        "bad size": (["doctor", "inspect", "--max-line", "huge"], 2, None),
        "bad wait": (["doctor", "import", "--wait", "a while"], 2, None),
        "bad labels": (["compact", str(binary), "--labels", "fr"], 2, None),
        "bad keep-last": (["scan-lifecycles", str(binary), "--keep-last", "-1"], 2, None),
        "no source": (["scan-lifecycles"], 2, None),
        "two selectors": (["sessions", "list", "--agent", "main", "--all-agents"], 2, None),
        "binary scan": (["scan-lifecycles", str(binary)], 2, "not_a_transcript"),
        "binary compact": (["compact", str(binary)], 2, "not_a_transcript"),
        "directory scan": (["scan-lifecycles", str(empty)], 10, None),
        "missing scan": (["scan-lifecycles", str(folder / "no.jsonl")], 10, "not_found"),
        "missing compact": (["compact", str(folder / "no.jsonl")], 10, "not_found"),
        "missing file": (["doctor", "inspect", "--file", str(folder / "no.jsonl")], 10, "not_found"),
        "missing config": (["config", "show", "--config", str(folder / "no.yaml")], 2, None),
        "state list": (["sessions", "list", "--state-dir", state], 10, "not_found"),
        "state inspect": (["doctor", "inspect", "--state-dir", state], 10, "not_found"),
        "state import": (["doctor", "import", "--state-dir", state], 10, "not_found"),
        "agent list": (["sessions", "list", "--agent", "nobody"], 10, "not_found"),
        "agent import": (["doctor", "import", "--agent", "nobody"], 10, "not_found"),
        "agent validate": (["doctor", "validate", "--agent", "nobody"], 10, "not_found"),
        "store list": (["sessions", "list", "--store", str(folder / "no.sqlite")], 10, "not_found"),
        "store inspect": (["doctor", "inspect", "--store", str(folder / "no" / "sessions.json")], 10, "not_found"),
        "all agents, none there": (["doctor", "import", "--all-agents", "--state-dir", str(empty)], 10, None),
    }
    return table[kind]


FAILURES = [
    "no such command",
    "no such option",
    "no such mode",
    "bad limit",
    "negative limit",
    "bad active",
    "bad archived",
    "bad now",
    "bad size",
    "bad wait",
    "bad labels",
    "bad keep-last",
    "no source",
    "two selectors",
    "binary scan",
    "binary compact",
    "directory scan",
    "missing scan",
    "missing compact",
    "missing file",
    "missing config",
    "state list",
    "state inspect",
    "state import",
    "agent list",
    "agent import",
    "agent validate",
    "store list",
    "store inspect",
    "all agents, none there",
]


@pytest.mark.parametrize("kind", FAILURES)
def test_failure_is_one_document(run_cli: Callable[..., Any], tmp_path: Path, kind: str) -> None:
    """With `--json` a failure is one document of the agreed shape, and the status is that of its kind."""
    (tmp_path / "home").mkdir()
    make_state(tmp_path / "home", None, {})
    argv, status, code = failing(kind, tmp_path)
    done = run_cli(*argv, "--json", env={"OPENCLAW_STATE_DIR": str(tmp_path / "home")})
    assert status == done.status, done.stderr
    document = json.loads(done.stdout)
    assert {"ok", "error"} == set(document)
    assert False is document["ok"]
    assert {"type", "code", "message", "hint"} <= set(document["error"])
    assert "cli_error" == document["error"]["type"]
    assert code in (None, document["error"]["code"])
    assert json.dumps(document, indent=2, ensure_ascii=False) == done.stdout.rstrip("\n")


@pytest.mark.parametrize("kind", ["no such command", "binary scan", "missing compact", "state list", "agent import"])
def test_failure_without_json_leaves_stdout_empty(run_cli: Callable[..., Any], tmp_path: Path, kind: str) -> None:
    """Stdout = the result, stderr = everything else."""
    argv, status, _ = failing(kind, tmp_path)
    done = run_cli(*argv)
    assert (status, "") == (done.status, done.stdout)
    assert "" != done.stderr
    assert "Traceback" not in done.stderr


def successes(state: Path, transcript: Path) -> dict[str, list[str]]:
    """A command line of each command that prints a document."""
    where = ["--state-dir", str(state)]
    return {
        "inspect": ["doctor", "inspect", *where],
        "inspect-top": ["doctor", "inspect", "--top", "3", *where],
        "inspect-file": ["doctor", "inspect", "--file", str(transcript)],
        "dry-run": ["doctor", "dry-run", *where],
        "import-dry-run": ["doctor", "import", "--dry-run", *where],
        "import": ["doctor", "import", *where],
        "validate": ["doctor", "validate", *where],
        "list": ["sessions", "list", *where],
        "bare": ["sessions", *where],
        "scan": ["scan-lifecycles", str(transcript)],
        "compact": ["compact", str(transcript)],
        "compact-dry-run": ["compact", str(transcript), "--dry-run"],
        "config": ["config", "show", *where],
    }


NAMES = list(successes(Path("s"), Path("t")))


@pytest.mark.parametrize("name", NAMES)
def test_success_is_one_indented_document(run_cli: Callable[..., Any], plain: Path, tmp_path: Path, name: str) -> None:
    """`--json`: exactly one document with 2-space indent, and nothing else on stdout."""
    transcript = tmp_path / f"{sid(1)}.jsonl"
    transcript.write_bytes(jsonl(one_task()))
    done = run_cli(*successes(plain, transcript)[name], "--json", "-v")
    assert (3 if name == "validate" else 0) == done.status, done.stderr
    assert json.dumps(json.loads(done.stdout), indent=2, ensure_ascii=False) == done.stdout.rstrip("\n")


@pytest.mark.parametrize("name", ["dry-run", "import-dry-run", "compact-dry-run"])
def test_preview_says_so(run_cli: Callable[..., Any], plain: Path, tmp_path: Path, name: str) -> None:
    """A preview says `"dryRun": true` in its JSON, in text the last line."""
    transcript = tmp_path / "t.jsonl"
    transcript.write_bytes(jsonl(one_task()))
    argv = successes(plain, transcript)[name]
    assert True is json.loads(run_cli(*argv, "--json").stdout)["dryRun"]
    last = run_cli(*argv).stdout.rstrip("\n").rsplit("\n", 1)[-1]
    assert re.search(r"nothing was (changed|written)", last)


def test_dry_run_beats_import(doctor: Callable[..., Any], plain: Path) -> None:
    """`doctor dry-run` is `doctor import --dry-run`."""
    first = doctor("dry-run", plain, "--now", str(NOW_MS))
    second = doctor("import", plain, "--dry-run", "--now", str(NOW_MS))
    assert first["targets"] == second["targets"]
    assert first["totals"] == second["totals"]


def test_ndjson_of_a_list(run_cli: Callable[..., Any], tmp_path: Path) -> None:
    """`--ndjson`: one object per line with `type`, the last line `{"type":"summary",…}`."""
    index = {f"agent:main:s{n}": {"sessionId": sid(n), "updatedAt": BASE_MS + n} for n in range(3)}
    state = make_state(tmp_path / "s", index, {})
    assert 0 == run_cli("doctor", "import", "--state-dir", state).status
    done = run_cli("sessions", "list", "--state-dir", state, "--ndjson")
    objects = [json.loads(text) for text in done.stdout.splitlines()]
    assert ["session"] * 3 + ["summary"] == [one["type"] for one in objects]
    assert 3 == objects[-1]["count"]
    assert done.stdout.endswith("\n")


def test_ndjson_of_a_scan(run_cli: Callable[..., Any], tmp_path: Path) -> None:
    """`--ndjson` holds the same lifecycles as `--json` and ends with the totals as a summary."""
    path = tmp_path / "t.jsonl"
    path.write_bytes(jsonl(one_task()))
    whole = json.loads(run_cli("scan-lifecycles", path, "--json").stdout)
    objects = [json.loads(text) for text in run_cli("scan-lifecycles", path, "--ndjson").stdout.splitlines()]
    assert all("type" in one for one in objects)
    assert {"type": "summary", **whole["totals"]} == objects[-1]
    found = [one for one in objects if "lifecycle" == one["type"]]
    for one in found:
        del one["type"], one["source"]
    assert whole["sources"][0]["lifecycles"] == found


def test_ndjson_failure_is_one_document(run_cli: Callable[..., Any], tmp_path: Path) -> None:
    """A failure under `--ndjson` is readable by a program too."""
    done = run_cli("sessions", "list", "--ndjson", "--state-dir", tmp_path / "nowhere")
    assert 10 == done.status
    assert False is json.loads(done.stdout.splitlines()[-1])["ok"]


NASTY = "a\x1b[31mred\x07\x9b2Jb\x85c\x7fd\ue000\u202e"


def nasty_state(folder: Path) -> Path:
    """A session whose names hold escape sequences, and a transcript with such a task."""
    entry = {"label": NASTY, "displayName": NASTY, "model": NASTY}
    return one_session(folder, jsonl(turns(sid(1))), **entry)


@pytest.mark.parametrize("json_flag", [["--json"], ["--ndjson"], []])
def test_control_characters_of_a_list(run_cli: Callable[..., Any], tmp_path: Path, json_flag: list[str]) -> None:
    """Control characters from stored text are escaped, C1 included, in JSON too."""
    state = nasty_state(tmp_path / "s")
    assert 0 == run_cli("doctor", "import", "--state-dir", state).status
    done = run_cli("sessions", "list", "--state-dir", state, *json_flag)
    assert 0 == done.status
    assert [] == CONTROL.findall(done.stdout)
    if json_flag == ["--json"]:
        assert NASTY == json.loads(done.stdout)["sessions"][0]["label"]


@pytest.mark.parametrize("json_flag", [["--json"], []])
@pytest.mark.parametrize("command", ["scan-lifecycles", "compact"])
def test_control_characters_of_lifecycles(
    run_cli: Callable[..., Any], tmp_path: Path, command: str, json_flag: list[str]
) -> None:
    """Control characters from stored text are escaped, C1 included, in JSON too."""
    path = tmp_path / "t.jsonl"
    path.write_bytes(jsonl(one_task(label=NASTY, task=f"Build {NASTY}", taskName=NASTY)))
    done = run_cli(command, path, *json_flag)
    assert 0 == done.status, done.stderr
    assert [] == CONTROL.findall(done.stdout + done.stderr)


def test_control_characters_of_issues_and_errors(run_cli: Callable[..., Any], tmp_path: Path) -> None:
    """Escaped on stderr and in issues too: session keys come from a file."""
    index = {f"agent:main:{NASTY}": "no object", KEY: {"sessionId": "../evil\x1b[2J\x9b", "updatedAt": BASE_MS}}
    state = make_state(tmp_path / "s", index, {})
    for argv in (["doctor", "dry-run"], ["doctor", "dry-run", "--json"]):
        done = run_cli(*argv, "--state-dir", state)
        assert 3 == done.status
        assert [] == CONTROL.findall(done.stdout + done.stderr)
    done = run_cli("scan-lifecycles", tmp_path / "no\x1b[31m\x9bfile")
    assert [] == CONTROL.findall(done.stderr)


@pytest.mark.parametrize("variable", [{"NO_COLOR": "1"}, {"TERM": "dumb"}])
def test_no_colour_on_a_terminal(plain: Path, variable: dict[str, str]) -> None:
    """`NO_COLOR` and `TERM=dumb` are honoured on a terminal."""
    pexpect = pytest.importorskip("pexpect")
    env = {**os.environ, "TERM": "xterm-256color", **variable}
    argv = ["-m", "openclaw_cli", "sessions", "list", "--state-dir", str(plain)]
    child = pexpect.spawn(sys.executable, argv, env=env, encoding="utf-8", timeout=60)
    child.expect(pexpect.EOF)
    child.close()
    assert 0 == child.exitstatus
    assert [] == re.findall(r"\x1b\[[0-9;]*m", child.before)


def test_no_colour_on_a_pipe(run_cli: Callable[..., Any], plain: Path) -> None:
    """Plain columns where stdout is no terminal; no progress on stderr."""
    done = run_cli("doctor", "import", "--state-dir", plain, env={"TERM": "xterm-256color"})
    assert "\x1b" not in done.stdout + done.stderr
    assert "\r" not in done.stdout + done.stderr


@pytest.mark.parametrize("flag", ["--json", "--ndjson", None])
def test_closed_pipe(tmp_path: Path, flag: str | None) -> None:
    """141 when the reader closes the pipe, without a stack trace."""
    index = {f"agent:main:s{n}": {"sessionId": sid(n), "updatedAt": BASE_MS + n} for n in range(600)}
    state = make_state(tmp_path / "s", index, {})
    base = [sys.executable, "-m", "openclaw_cli"]
    subprocess.run([*base, "doctor", "import", "--state-dir", str(state), "-q"], check=False, capture_output=True)
    argv = [*base, "sessions", "list", "--state-dir", str(state), "--limit", "all", *([flag] if flag else [])]
    reader, writer = os.pipe()
    os.close(reader)
    with os.fdopen(writer, "wb") as stdout:
        done = subprocess.run(argv, stdout=stdout, stderr=subprocess.PIPE, timeout=60)
    assert 141 == done.returncode
    assert b"Traceback" not in done.stderr


def test_interrupt(tmp_path: Path) -> None:
    """130 on SIGINT."""
    with subprocess.Popen(
        [sys.executable, "-m", "openclaw_cli", "scan-lifecycles", "-"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as child:
        assert child.stdin is not None and child.stdout is not None
        # More than a pipe holds: when this returns, the program is reading.
        child.stdin.write(b'{"type":"session","version":3,"id":"s"}\n' * 40_000)
        child.stdin.flush()
        child.send_signal(signal.SIGINT)
        _, stderr = child.communicate(timeout=60)
    assert 130 == child.returncode
    assert b"Traceback" not in stderr


def test_terminated(tmp_path: Path) -> None:
    """143 on SIGTERM."""
    with subprocess.Popen(
        [sys.executable, "-m", "openclaw_cli", "scan-lifecycles", "-"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as child:
        assert child.stdin is not None
        child.stdin.write(b'{"type":"session","version":3,"id":"s"}\n' * 40_000)
        child.stdin.flush()
        child.terminate()
        child.communicate(timeout=60)
    assert child.returncode in (143, -signal.SIGTERM)


def test_empty_state_lists_nothing(sessions: Callable[..., Any], tmp_path: Path) -> None:
    """An empty state lists nothing and exits 0."""
    (tmp_path / "s").mkdir()
    report = sessions(tmp_path / "s")
    assert ([], 0, 0) == (report["sessions"], report["count"], report["totalCount"])


def test_no_state_at_all(run_cli: Callable[..., Any]) -> None:
    """Nothing was named, nothing is there: status 0."""
    done = run_cli("sessions", "--json")
    assert 0 == done.status
    assert [] == json.loads(done.stdout)["sessions"]


def test_corrupt_store(run_cli: Callable[..., Any], plain: Path) -> None:
    """13 when a database fails verification."""
    assert 0 == run_cli("doctor", "import", "--state-dir", plain).status
    path = store(plain)
    for other in path.parent.glob("*-wal"):
        assert 0 == other.stat().st_size
    path.write_bytes(b"SQLite format 3\x00" + b"\xab" * 8192)
    done = run_cli("sessions", "list", "--state-dir", plain, "--json")
    assert 13 == done.status, done.stdout + done.stderr
    assert False is json.loads(done.stdout)["ok"]


def change(path: Path, sql: str) -> None:
    """Run one statement on a store."""
    import apsw

    connection = apsw.Connection(str(path))
    connection.execute(sql)
    connection.close()


def test_newer_schema(run_cli: Callable[..., Any], plain: Path, tmp_path: Path) -> None:
    """A newer schema is refused by every writer (12); read-only commands go on and say the version once."""
    assert 0 == run_cli("doctor", "import", "--state-dir", plain).status
    change(store(plain), "PRAGMA user_version = 24")
    make_state(plain, {KEY: {"sessionId": sid(1), "updatedAt": BASE_MS + 90_000}}, {})
    before = store(plain).read_bytes()
    done = run_cli("doctor", "import", "--state-dir", plain, "--json")
    assert 12 == done.status, done.stdout
    assert before == store(plain).read_bytes()
    listed = run_cli("sessions", "list", "--state-dir", plain)
    assert 0 == listed.status
    assert 1 == listed.stderr.count("schema 24")


def test_store_of_another_agent(run_cli: Callable[..., Any], plain: Path, tmp_path: Path) -> None:
    """Identity mismatch is refused (12)."""
    assert 0 == run_cli("doctor", "import", "--state-dir", plain).status
    other = make_state(tmp_path / "other", {"agent:work:main": {"sessionId": sid(2), "updatedAt": 1}}, {}, "work")
    store(other, "work").parent.mkdir(parents=True)
    store(other, "work").write_bytes(store(plain).read_bytes())
    done = run_cli("doctor", "import", "--state-dir", other, "--agent", "work", "--json")
    assert 12 == done.status, done.stdout + done.stderr


def test_busy(run_cli: Callable[..., Any], plain: Path) -> None:
    """11 while another holds the lifecycle lock, and nothing is touched."""
    import hashlib

    import apsw
    from legacy_state import digests

    shared = Path(os.path.realpath(plain)) / "state" / "openclaw.sqlite"
    name = hashlib.sha256(str(shared).encode()).hexdigest()[:8]
    folder = Path("/tmp") / f"openclaw-state-locks-{os.getuid()}"
    folder.mkdir(mode=0o700, exist_ok=True)
    lock = folder / f"gateway-lifecycle.{name}.lock.sqlite"
    holder = apsw.Connection(str(lock))
    try:
        holder.execute("PRAGMA journal_mode=MEMORY")
        holder.execute("BEGIN EXCLUSIVE")
        before = digests(plain)
        done = run_cli("doctor", "import", "--state-dir", plain, "--wait", "0ms", "--json")
        assert 11 == done.status, done.stdout + done.stderr
        assert before == digests(plain)
        assert 0 == run_cli("doctor", "dry-run", "--state-dir", plain, "--json").status
        assert 0 == run_cli("sessions", "list", "--state-dir", plain, "--json").status
    finally:
        holder.close()
        lock.unlink(missing_ok=True)
    assert 0 == run_cli("doctor", "import", "--state-dir", plain, "--json").status
