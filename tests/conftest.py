"""Isolation of every test: no real home, no network but loopback."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent


@pytest.fixture(autouse=True)
def isolated(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Point every directory that the program would look for into a temporary one."""
    home = tmp_path_factory.mktemp("home")
    for name in ("OPENCLAW_STATE_DIR", "OPENCLAW_HOME", "OPENCLAW_CONFIG_PATH", "OPENCLAW_CLI_CONFIG"):
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
def fixtures() -> Path:
    """The folder of small inputs that belong to the project."""
    return ROOT / "fixtures"
