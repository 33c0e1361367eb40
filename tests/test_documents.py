"""What the documents promise: the quick start's shape, working links, nothing that belongs to one machine or person."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
DOCUMENTS = ("README.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "CHANGELOG.md", "tests/peer/README.md")

# What only the machine of an author would know: absolute paths of a checkout or a scratch folder, a login, a key.
PRIVATE = (
    re.compile(rb"(?<![\w.}\"'])/work/(?:main|shared)\b"),
    re.compile(rb"(?<![\w.}])/tmp/(?:peer|venv|gs|plan)\b"),
    re.compile(rb"/(?:root|Users)/\w"),
    re.compile(rb"\b(?:AKIA[0-9A-Z]{16}|ghp_[0-9A-Za-z]{20,}|sk-[0-9A-Za-z]{20,}|AIza[0-9A-Za-z_-]{30,})"),
    re.compile(rb"-----BEGIN [A-Z ]*PRIVATE KEY-----"),
    re.compile(rb"(?:index-url|registry *=|registry=)\s*https?://"),
)
MAIL = re.compile(rb"[\w.+-]+@([\w-]+\.[\w.-]+)")
# Domains that are reserved for examples, or can be nobody's.
MADE_UP = re.compile(
    rb"(?:^|\.)(?:example(?:\.(?:com|org|net))?|test|invalid|localhost|local)$|^g\.us$|^s\.whatsapp\.net$"
)


def tracked() -> list[Path]:
    """Every file that git knows and that is still there; the test of a package without git has nothing to look at."""
    try:
        listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, check=True).stdout
    except (OSError, subprocess.CalledProcessError):
        pytest.skip("this is no git checkout")
    return [path for name in listed.decode().split("\0") if name and (path := ROOT / name).is_file()]


def quick_start() -> list[str]:
    """The lines of the fenced block that opens the README's quick start."""
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    opening = re.search(r"^## Quick start\n+```\w*\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    assert opening is not None
    return opening[1].splitlines()


def test_quick_start_is_two_commands() -> None:
    """Two lines: the first installs and plays the demo, the second runs the tests; each makes its environment."""
    first, second = quick_start()

    assert first.endswith("openclaw-cli demo")
    assert second.endswith("pytest")
    assert all("python3 -m venv .venv" in line and "pip install" in line for line in (first, second))


def test_ci_runs_the_second_line_as_it_stands() -> None:
    """`.ci/run` takes the test command out of the README instead of having one of its own."""
    script = (ROOT / ".ci/run").read_text(encoding="utf-8")

    assert "quick_start_line 2" in script
    assert quick_start()[1] not in script


@pytest.mark.parametrize("name", DOCUMENTS)
def test_links_between_documents_lead_somewhere(name: str) -> None:
    """A relative link in a document names a file of the project."""
    document = ROOT / name
    targets = re.findall(r"\]\((?!https?:|#)([^)#]+)", document.read_text(encoding="utf-8"))

    assert [] == [target for target in targets if not (document.parent / target).exists()]


def test_architecture_stays_short() -> None:
    """The house map is read whole by a newcomer: at most 200 lines."""
    lines = (ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8").splitlines()

    assert len(lines) <= 200


def test_nothing_private_is_tracked() -> None:
    """No tracked file holds a path of an author's machine, a key, a package index or a private host."""
    this = Path(__file__)
    found = [
        f"{path.relative_to(ROOT)}: {match[0].decode(errors='replace')}"
        for path in tracked()
        if path != this
        for pattern in PRIVATE
        for match in pattern.finditer(path.read_bytes())
    ]

    assert [] == found


def test_mail_addresses_are_made_up() -> None:
    """Every mail address in a text file has a domain that is reserved for examples."""
    found = [
        f"{path.relative_to(ROOT)}: {match[0].decode(errors='replace')}"
        for path in tracked()
        if b"\0" not in (data := path.read_bytes())
        for match in MAIL.finditer(data)
        if not MADE_UP.search(match[1].rstrip(b"."))
    ]

    assert [] == found
