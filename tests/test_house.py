"""The rules of the house (ARCHITECTURE.md), checked on the code's syntax trees."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = ROOT / "openclaw_cli"

# Left may import right; rooms of one layer may import each other.
LAYERS = (
    {"__main__", "cli"},
    {"migration", "checks", "fixing", "lifecycles", "sessions", "demo", "retention", "compaction", "worker", "gateway"},
    {"sources"},
    {"storage", "archive", "manifest", "locks", "summarize", "tokens"},
    {"transcript"},
    {"jsonl", "jstext", "durable", "config"},
    {"errors", "faults"},
)
HOMES = {
    "apsw": ("storage/",),
    "zstandard": ("archive.py", "storage/encoding.py", "tokens.py"),
    "yaml": ("config/",),
    "pyjson5": ("config/",),
    "tiktoken": ("tokens.py",),
    "rich": ("cli/output.py",),
    "websockets": ("gateway/client.py",),
    "typer": ("cli/",),
    "sqlite3": (),
}
CLOCK = {"time", "time_ns", "now", "utcnow", "today"}
HEAVY = {"apsw", "rich", "zstandard", "yaml", "pyjson5", "tiktoken", "websockets"}

MODULES = sorted(PACKAGE.rglob("*.py"))


def name_of(path: Path) -> str:
    """A module's path below the package, as the documents write it."""
    return path.relative_to(PACKAGE).as_posix()


def imports(tree: ast.Module) -> Iterator[str]:
    """Dotted names that a module imports, wherever the statement stands."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def parsed(path: Path) -> ast.Module:
    """The module's syntax tree."""
    return ast.parse(path.read_text(encoding="utf-8"))


def layer(room: str) -> int | None:
    """The number of a room's layer, None for what is no room (`__version__`)."""
    return next((number for number, rooms in enumerate(LAYERS) if room in rooms), None)


@pytest.mark.parametrize("path", MODULES, ids=name_of)
def test_imports_go_to_the_right(path: Path) -> None:
    """A room imports rooms of its own layer or of one to the right."""
    own = layer(path.relative_to(PACKAGE).parts[0].removesuffix(".py"))
    reached = {name.split(".")[1] for name in imports(parsed(path)) if name.startswith("openclaw_cli.")}
    wrong = {room for room in reached if own is not None and (other := layer(room)) is not None and other < own}

    assert set() == wrong


def test_every_room_has_a_layer() -> None:
    """A new module or folder is placed in the order before it is used."""
    rooms = {path.relative_to(PACKAGE).parts[0].removesuffix(".py") for path in MODULES} - {"__init__"}

    assert set() == {room for room in rooms if layer(room) is None}


@pytest.mark.parametrize("library", HOMES)
def test_a_library_has_one_home(library: str) -> None:
    """Only its home imports a third-party library; the standard library's SQLite is used nowhere."""
    homes = HOMES[library]
    strangers = [
        name_of(path)
        for path in MODULES
        if any(name.split(".")[0] == library for name in imports(parsed(path)))
        and not name_of(path).startswith(tuple(homes))
    ]

    assert [] == strangers


def test_only_config_reads_the_environment() -> None:
    """`os.environ` and `os.getenv` are named in `config/` alone."""
    strangers = [
        f"{name_of(path)}:{node.lineno}"
        for path in MODULES
        if not name_of(path).startswith("config/")
        for node in ast.walk(parsed(path))
        if isinstance(node, ast.Attribute) and node.attr in ("environ", "environb", "getenv")
    ]

    assert [] == strangers


def test_only_the_command_line_reads_the_clock() -> None:
    """What time it is comes in as `now_ms`; measuring a duration (`time.monotonic`) is no reading of the clock."""
    strangers = [
        f"{name_of(path)}:{node.lineno}"
        for path in MODULES
        if not name_of(path).startswith("cli/")
        for node in ast.walk(parsed(path))
        if isinstance(node, ast.Attribute)
        and node.attr in CLOCK
        and isinstance(node.value, ast.Name)
        and node.value.id in ("time", "datetime", "date")
    ]

    assert [] == strangers


def test_start_loads_no_heavy_library() -> None:
    """Importing the command line costs nothing that only some commands need."""
    code = f"import sys, openclaw_cli.cli.app; print(sorted({HEAVY!r} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert "[]\n" == done.stdout


def test_functions_stay_readable() -> None:
    """No function has more than 60 lines, no module more than 450."""
    long = [
        f"{name_of(path)}: {node.name}"
        for path in MODULES
        for node in ast.walk(parsed(path))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.end_lineno - node.lineno + 1 > 60
    ]
    long += [name_of(path) for path in MODULES if path.read_text(encoding="utf-8").count("\n") > 450]

    assert [] == long


def swallows(tree: ast.Module) -> bool:
    """Whether a module has a handler that raises nothing, or suppresses an exception."""
    for node in ast.walk(tree):
        if isinstance(node, ast.ExceptHandler):
            if not any(isinstance(inner, ast.Raise) for statement in node.body for inner in ast.walk(statement)):
                return True
        elif isinstance(node, ast.Call) and ast.unparse(node.func) in ("suppress", "contextlib.suppress"):
            return True
    return False


def test_swallowed_errors_are_listed() -> None:
    """ARCHITECTURE.md names every module that goes on after an exception, and no other."""
    text = (ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8")
    section = text.split("## Errors that are swallowed", 1)[1].split("\n## ", 1)[0]
    rows = re.findall(r"^\| (?:`([\w/]+/)`|\(top\)) \| (.+) \|$", section, re.MULTILINE)
    listed = {room + name for room, cell in rows for name in re.findall(r"`(\w+\.py)`", cell)}

    assert {name_of(path) for path in MODULES if swallows(parsed(path))} == listed
