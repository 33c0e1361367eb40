"""The demo, and what a start loads."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

HEAVY = ("typer", "apsw", "rich", "zstandard", "yaml", "tiktoken", "google.genai", "mlx_lm")


def test_demo(run_cli: Callable[..., Any], tmp_path: Path) -> None:
    """Under 20 s, in a temporary directory that it leaves as it was, with every figure from the JSON.

    The user's own state directory is not looked at: a broken configuration there does not matter.
    """
    state = tmp_path / "mine"
    state.mkdir()
    (state / "openclaw.json").write_text("{broken")
    env = {"OPENCLAW_STATE_DIR": str(state), "TMPDIR": str(tmp_path)}
    began = time.monotonic()
    done = run_cli("demo", env=env)
    assert 0 == done.status, done.stderr
    assert time.monotonic() - began < 20
    commands = re.findall(r"^\$ openclaw-cli (.*)$", done.stdout, re.M)
    for name in ("doctor import", "sessions list", "scan-lifecycles", "compact"):
        assert any(command.startswith(name) for command in commands), name
    assert "── KOMPAKTE AUFGABE ──" in done.stdout
    document = json.loads(run_cli("demo", "--json", env=env).stdout)
    assert {"mine"} == {path.name for path in tmp_path.iterdir()}
    reports = {" ".join(step["argv"][:2]): step["report"] for step in document["steps"]}
    (fold,) = [report for name, report in reports.items() if name.startswith("compact")]
    for one in fold["lifecycles"]:
        if one["action"] == "folded":
            assert f"{one['tokensBefore']:,} -> {one['tokensAfter']:,}" in done.stdout
    assert f"{fold['tokensBefore']:,}" in done.stdout
    imported = reports["doctor import"]["totals"]
    assert f"{imported['importedEntries']} sessions and {imported['importedTranscriptEvents']} events" in done.stdout


@pytest.mark.parametrize(
    "argv, libraries", [(["--version"], HEAVY), (["--help"], HEAVY), (["doctor", "import", "--help"], HEAVY[1:])]
)
def test_static_text_loads_nothing_heavy(argv: list[str], libraries: tuple[str, ...]) -> None:
    """`--version` and `--help` load neither typer nor apsw nor another heavy library; other help loads only typer."""
    code = (
        "import sys, runpy\nsys.argv = ['openclaw-cli', *sys.argv[1:]]\n"
        "try:\n    runpy.run_module('openclaw_cli', run_name='__main__', alter_sys=False)\n"
        "except SystemExit as end:\n    assert not end.code, end.code\n"
        f"loaded = [name for name in {libraries!r} if name in sys.modules]\n"
        "sys.stderr.write(repr(loaded))\n"
    )
    done = subprocess.run([sys.executable, "-c", code, *argv], capture_output=True, text=True, timeout=60)
    assert (0, "[]") == (done.returncode, done.stderr)
    assert "" != done.stdout


def test_import_of_the_app_loads_nothing_heavy() -> None:
    """`import openclaw_cli.cli.app` loads no apsw, rich, zstandard, yaml, tiktoken or model SDK."""
    code = f"import sys, openclaw_cli.cli.app\nprint([name for name in {HEAVY[1:]!r} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert "[]\n" == done.stdout


def test_version(run_cli: Callable[..., Any]) -> None:
    """The console script and `python -m` say the version of the package."""
    from importlib.metadata import version

    assert version("openclaw-cli") in run_cli("--version").stdout
    script = Path(sys.executable).with_name("openclaw-cli")
    done = subprocess.run([script, "--version"], capture_output=True, text=True, timeout=60)
    assert run_cli("--version").stdout == done.stdout


def test_help_of_the_three_compacts(run_cli: Callable[..., Any]) -> None:
    """Help says of each command called compact what it does, and names its exit statuses."""
    text = " ".join(run_cli("compact", "--help").stdout.split())
    assert "doctor compact" in text
    for number in ("0", "2", "3", "10"):
        assert re.search(rf"\b{number}\b", text.split("Exit status")[1])


def test_readme_quick_start() -> None:
    """`## Quick start` opens with one fenced block of exactly two lines: demo, then the tests."""
    readme = Path(__file__).resolve().parents[2] / "README.md"
    part = readme.read_text(encoding="utf-8").split("## Quick start\n", 1)[1].lstrip("\n")
    block = re.match(r"```\w*\n(.*?)```", part, re.S)
    assert block is not None
    lines = block[1].splitlines()
    assert 2 == len(lines)
    assert "demo" in lines[0] and "pytest" in lines[1]
