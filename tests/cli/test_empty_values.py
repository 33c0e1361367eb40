"""What a shell script hands over when one of its variables is not set, and places that are no state directory."""

from __future__ import annotations

import os
import pwd
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from openclaw_cli.config import paths
from openclaw_cli.errors import RefusedError
from tests.support.legacy_state import digests, jsonl, one_session, sid, turns


@pytest.mark.parametrize("option", ["--state-dir", "--agent", "--store", "--config", "--max-line", "--wait"])
@pytest.mark.parametrize("value", ["", " "])
def test_an_unset_variable_meant_the_default_store(option: str, value: str, run_cli: Callable[..., Any]) -> None:
    """An empty value is a usage error that names the option; the default state directory stays as it is."""
    home = Path(os.environ["HOME"])
    state = one_session(home / ".openclaw", jsonl(turns(sid(1))))
    before = digests(state)
    for argv in (("doctor", "import", option, value), ("doctor", "import", f"{option}={value}")):
        outcome = run_cli(*argv)
        assert 2 == outcome.status
        assert option in outcome.stderr
    assert before == digests(state)


@pytest.mark.parametrize("argv", [("compact", "{}", "-o", ""), ("compact", ""), ("scan-lifecycles", "")])
def test_an_empty_file_name_is_a_usage_error(
    argv: tuple[str, ...], tmp_path: Path, run_cli: Callable[..., Any]
) -> None:
    """`-o ""` and an empty SOURCE: nothing is written."""
    path = tmp_path / "a.jsonl"
    path.write_bytes(jsonl(turns(sid(1))))
    assert 2 == run_cli(*(word.format(path) for word in argv), cwd=tmp_path).status
    assert [path] == list(tmp_path.iterdir())


def test_without_home_the_current_directory_was_the_home(monkeypatch: pytest.MonkeyPatch) -> None:
    """HOME unset, empty or relative: the user database decides, and without an entry the run is refused."""
    for env in ({}, {"HOME": ""}, {"HOME": "."}):
        assert Path(pwd.getpwuid(os.getuid()).pw_dir) == paths.home_dir(env)

    def nobody(_uid: int) -> None:
        raise KeyError

    monkeypatch.setattr(pwd, "getpwuid", nobody)
    with pytest.raises(RefusedError):
        paths.resolve_state_dir(None, {})
    assert Path("/x") == paths.resolve_state_dir("/x", {})
    assert Path("/x/openclaw.json") == paths.openclaw_config_path(Path("/x"), {})


@pytest.mark.parametrize("mode", ["import", "restore", "compact", "dry-run"])
def test_a_directory_of_something_else_was_written_into(mode: str, tmp_path: Path, run_cli: Callable[..., Any]) -> None:
    """No agents, no configuration, no databases: nothing may be created there."""
    (tmp_path / "passwd").write_text("root:x:0:0\n")
    assert 0 == run_cli("doctor", mode, "--state-dir", tmp_path).status
    assert 10 == run_cli("doctor", mode, "--state-dir", tmp_path, "--all-agents").status
    assert ["passwd"] == os.listdir(tmp_path)


def test_a_missing_default_state_directory_is_not_made(run_cli: Callable[..., Any]) -> None:
    """An import for somebody who has no OpenClaw does nothing."""
    assert 0 == run_cli("doctor", "import").status
    assert [] == os.listdir(os.environ["HOME"])
