"""File names and words are told apart; lists of paths are read letter by letter."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from openclaw_cli.summarize.paths import is_path, listed


@pytest.mark.parametrize(
    "name",
    [
        "src/a.py",
        "config.json",
        ".env",
        "./x",
        "docs/",
        "C:\\Data\\a.txt",
        "pages/[id].tsx",
        "größe/maß.md",
        "a-b_c.rs",
    ],
)
def test_paths(name: str) -> None:
    """A slash or a well-known ending makes a path."""
    assert is_path(name, quoted=False, files_only=False)


@pytest.mark.parametrize(
    "name",
    [
        "",
        "timer",
        "3.14",
        "v1.2.3",
        "1/2",
        "n/a",
        "and/or",
        "https://example.org/a.py",
        "self.timeout",
        "Node.js",
        "*.py",
        "src/{a,b}.py",
        "a b.py",
        "me@example.org",
        "run()",
        "src/run()",
        "-o/x",
        "//",
        "src/se…",
        "x" * 600 + ".py",
    ],
)
def test_no_paths(name: str) -> None:
    """Numbers, addresses, patterns, calls, attributes and cut names are none."""
    assert not is_path(name, quoted=False, files_only=False)


def test_what_only_a_list_of_files_makes_a_path() -> None:
    """Any ending is enough where files are listed; blanks need quotes and an ending, so that a command is no path."""
    assert is_path("model.gguf", quoted=False, files_only=True)
    assert is_path("my notes.md", quoted=True, files_only=True)
    assert not is_path("npm run build/all", quoted=True, files_only=True)
    assert not is_path("pytest -q a.py", quoted=True, files_only=True)


@pytest.mark.parametrize(
    ("text", "paths", "whole"),
    [
        ("src/a.py", ["src/a.py"], True),
        ("src/a.py, b.json and `c d.md`.", ["src/a.py", "b.json", "c d.md"], True),
        ("„a.py“; 'b.py' & \"c.py\"", ["a.py", "b.py", "c.py"], True),
        ("src/a.py und b.py", ["src/a.py", "b.py"], True),
        ("[a.py](file:///w/a.py) (new)", ["a.py"], True),
        ("src/a.py:12", ["src/a.py"], False),
        ("src/a.py: the timer", ["src/a.py"], False),
        ("src/a.py — replaces old.py, b.py", ["src/a.py"], False),
        ("src/a.py, the config", ["src/a.py"], False),
        ("src/a.py (42 lines)", ["src/a.py"], False),
        ("the config, src/a.py", [], False),
        ("", [], False),
    ],
)
def test_lists(text: str, paths: list[str], whole: bool) -> None:
    """Reading stops at the first thing that is no path; `whole` tells that nothing else stood there."""
    found = listed(text, files_only=True)
    assert (tuple(paths), whole) == (found.paths, found.whole)


@given(st.text(alphabet=st.sampled_from("ab./\\ ,;`'\"„“()[]:*…-\n"), max_size=80))
def test_every_path_stands_in_the_text(text: str) -> None:
    """Whatever is read was written there, letter by letter."""
    for path in listed(text, files_only=True).paths:
        assert path in text
