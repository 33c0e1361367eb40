"""The README's tour shows real output: every command of it is run again, and what it prints is compared.

`pytest tests/test_readme_tour.py --rewrite` writes the present output into the README.
"""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
README = ROOT / "README.md"
BLOCK = re.compile(r"^```console\n(.*?)^```$", re.MULTILINE | re.DOTALL)
# What differs from run to run, and what stands in the README for it.
VARIABLE = (
    (re.compile(r"session-sqlite-\d{13}-[0-9a-f]{8}"), "session-sqlite-1775037600000-5f3a9c1e"),
    (re.compile(r"\.imported-\d{13}"), ".imported-1775037600000"),
)
WHERE = "/srv/demo"


def tour() -> str:
    """The README's section `Tour`."""
    return README.read_text(encoding="utf-8").split("\n## Tour\n", 1)[1].split("\n## ", 1)[0]


def steps(block: str) -> list[tuple[str, str]]:
    """Command line and expected output of each `$ …` in a block."""
    parts = re.split(r"^\$ (.*)\n", block, flags=re.MULTILINE)[1:]
    return list(zip(parts[::2], parts[1::2], strict=True))


def shown(command: str, folder: Path) -> str:
    """What a command line prints in `folder`, the variable parts replaced. Archive names are looked up by `*`."""
    words = [str(next(folder.glob(word)).relative_to(folder)) if "*" in word else word for word in shlex.split(command)]
    assert words[0] == "openclaw-cli"
    done = subprocess.run(
        [sys.executable, "-m", "openclaw_cli", *words[1:]], cwd=folder, capture_output=True, text=True, timeout=60
    )
    assert done.stderr == ""
    text = done.stdout.replace(str(folder), WHERE)
    for pattern, instead in VARIABLE:
        text = pattern.sub(instead, text)
    return text


def kept_folder(where: Path) -> Path:
    """The directory that the demo names at its end."""
    argv = [sys.executable, "-m", "openclaw_cli", "demo", "--keep"]
    env = {**os.environ, "TMPDIR": str(where.resolve())}
    done = subprocess.run(argv, capture_output=True, text=True, timeout=120, env=env, check=True)
    return Path(re.fullmatch(r"Everything is in (\S+): .*", done.stdout.splitlines()[-1])[1])


def test_tour_prints_what_the_readme_says(tmp_path: Path, pytestconfig: pytest.Config) -> None:
    """All commands of the tour, one after the other, in the directory that `demo --keep` leaves behind."""
    folder = kept_folder(tmp_path)
    section = tour()
    seen, expected = [], []
    for block in BLOCK.findall(section):
        for command, output in steps(block):
            expected.append((command, output))
            seen.append((command, shown(command, folder)))
    if pytestconfig.getoption("--rewrite"):
        rest = iter(seen)
        renewed = BLOCK.sub(lambda found: written(found[1], rest), section)
        README.write_text(README.read_text(encoding="utf-8").replace(section, renewed), encoding="utf-8")
        return

    assert len(expected) >= 5
    assert expected == seen


def written(block: str, rest: object) -> str:
    """A block with the output of the next commands."""
    lines = [f"$ {command}\n{output}" for (command, _), (_, output) in zip(steps(block), rest, strict=False)]  # type: ignore[call-overload]
    return f"```console\n{''.join(lines)}```"
