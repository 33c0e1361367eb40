"""Isolation of every test: no real home, no network but loopback."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import hypothesis
import pytest
import unpacking

ROOT = Path(__file__).resolve().parent.parent

hypothesis.settings.register_profile("reduced", max_examples=50, deadline=None)
hypothesis.settings.register_profile("full", max_examples=1000, deadline=None)


def pytest_addoption(parser: pytest.Parser) -> None:
    """`--full`: the counts that a release is judged by, and the tests marked `slow`. `--rewrite`: see the help."""
    parser.addoption("--full", action="store_true", help="full counts, tests marked slow included")
    parser.addoption("--rewrite", action="store_true", help="write the present output into expected files")


def pytest_configure(config: pytest.Config) -> None:
    """Choose how many examples the property tests draw."""
    hypothesis.settings.load_profile("full" if config.getoption("--full") else "reduced")
    # A background job of a shell ignores SIGINT and its children would inherit that.
    signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out the tests marked `slow`, unless `--full` or `-m` asks for them."""
    if config.getoption("--full") or "slow" in config.getoption("-m"):
        return
    slow = [item for item in items if item.get_closest_marker("slow")]
    config.hook.pytest_deselected(items=slow)
    items[:] = [item for item in items if item not in slow]


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """Say how many points of the fault matrix were tried, in all processes together."""
    passed_or_not = [*terminalreporter.stats.get("passed", ()), *terminalreporter.stats.get("failed", ())]
    tried = [
        value for report in passed_or_not for name, value in report.user_properties if name == "fault points tried"
    ]
    if tried:
        terminalreporter.write_line(f"fault matrix: {sum(tried)} points tried")
    for text in (value for one in passed_or_not for name, value in one.user_properties if name == "summary"):
        terminalreporter.write_line(text)


@pytest.fixture(autouse=True)
def isolated(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Point every directory that the program would look for into a temporary one."""
    home = tmp_path_factory.mktemp("home")
    names = ("STATE_DIR", "GATEWAY_URL", "HOME", "CONFIG_PATH", "CLI_CONFIG")
    for name in (f"OPENCLAW_{each}" for each in names):
        monkeypatch.delenv(name, raising=False)
    for name in ("XDG_CONFIG_HOME", "XDG_CACHE_HOME", "XDG_DATA_HOME", "XDG_STATE_HOME"):
        monkeypatch.setenv(name, str(home / name.lower()))
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setenv("COLUMNS", "120")
    connect = socket.socket.connect

    def guarded(self: socket.socket, address: object) -> None:
        host = address[0] if isinstance(address, tuple) else ""
        if host and host not in ("127.0.0.1", "::1", "localhost"):
            raise AssertionError("a test tried to reach the network")
        connect(self, address)  # type: ignore[arg-type]

    monkeypatch.setattr(socket.socket, "connect", guarded)
    yield


@pytest.fixture(scope="session")
def full_counts(pytestconfig: pytest.Config) -> bool:
    """Whether `--full` was given: a test with a loop of its own then runs the full number of rounds."""
    return bool(pytestconfig.getoption("--full"))


@pytest.fixture(scope="session")
def fixtures() -> Path:
    """The folder of small inputs that belong to the project."""
    return ROOT / "fixtures"


class CliRun(NamedTuple):
    """How a run of our own program ended."""

    status: int
    stdout: str
    stderr: str


@pytest.fixture
def run_cli(isolated: None) -> Callable[..., CliRun]:
    """Run `python -m openclaw_cli ARGV…` in a process of its own.

    `stdin` is text or bytes (default: nothing to read), `env` adds to the isolated environment.
    """

    def run(
        *argv: str | Path,
        stdin: str | bytes = b"",
        env: Mapping[str, str] | None = None,
        cwd: Path | None = None,
        timeout_s: float = 120,
    ) -> CliRun:
        given = stdin.encode("utf-8") if isinstance(stdin, str) else stdin
        done = subprocess.run(
            [sys.executable, "-m", "openclaw_cli", *map(str, argv)],
            input=given,
            capture_output=True,
            env={**os.environ, **(env or {})},
            cwd=cwd,
            timeout=timeout_s,
        )
        # A lossless decoding: a test may look at bytes that are no UTF-8.
        stdout, stderr = (stream.decode("utf-8", "surrogateescape") for stream in (done.stdout, done.stderr))
        return CliRun(done.returncode, stdout, stderr)

    return run


@pytest.fixture
def state_copy(tmp_path: Path, fixtures: Path) -> Callable[[str], Path]:
    """Unpack a state directory of `fixtures/states/`, named by the archive's name or its beginning.

    Gives the path of a fresh copy that belongs to the test.
    """

    def unpack(name: str) -> Path:
        found = sorted((fixtures / "states").glob(f"{name}*.tgz"))
        assert len(found) == 1, f"{name} names {len(found)} archives"
        target = Path(tempfile.mkdtemp(prefix="state-", dir=tmp_path))
        unpacking.unpack(found[0], target)
        (state_dir,) = target.iterdir()
        return state_dir

    return unpack
