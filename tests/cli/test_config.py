"""`config show`: values, origins, errors."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from openclaw_cli.cli.app import run
from openclaw_cli.config import values


def shown(state: Path, capsys: pytest.CaptureFixture[str]) -> Any:
    """The document of `config show`."""
    assert 0 == run(["config", "show", "--json", "--state-dir", str(state)])
    return json.loads(capsys.readouterr().out)


def test_every_setting_has_value_and_origin(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Flag, our file, OpenClaw's file and default are told apart; both files are named."""
    (tmp_path / "openclaw.json").write_text("{session: {scope: 'global'}, agents: {list: [{id: 'work'}]}}")
    (tmp_path / "openclaw-cli.yaml").write_text("compact.labels: de\nimport: {maxLine: 1mb}\n")
    document = shown(tmp_path, capsys)
    limit = document["settings"]["import.maxLine"]

    assert {"value": str(tmp_path), "origin": "flag --state-dir"} == document["settings"]["stateDir"]
    assert {"value": "global", "origin": str(tmp_path / "openclaw.json")} == document["settings"]["session.scope"]
    assert {"value": 2**20, "written": "1mb", "origin": str(tmp_path / "openclaw-cli.yaml")} == limit
    assert {"value": "main", "origin": "default"} == document["settings"]["session.mainKey"]
    assert (["work"], "work") == (document["agents"], document["defaultAgent"])
    assert str(tmp_path / "openclaw-cli.yaml") == document["ownConfig"]


def test_the_environment_is_an_origin(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A variable is named where it decides; without --origin only names and values are printed."""
    monkeypatch.setenv("OPENCLAW_STATE_DIR", str(tmp_path))
    monkeypatch.setenv("OPENCLAW_SESSION_WRITE_LOCK_STALE_MS", "7")

    assert 0 == run(["config", "show", "--origin"])
    lines = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert ["stateDir", str(tmp_path), "environment", "OPENCLAW_STATE_DIR"] in lines
    assert ["locks.stale", "7ms", "environment", "OPENCLAW_SESSION_WRITE_LOCK_STALE_MS"] in lines
    assert 0 == run(["config", "show"])
    assert ["locks.stale", "7ms"] in [line.split() for line in capsys.readouterr().out.splitlines()]


def test_sizes_and_durations_were_bare_numbers(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """People read what a file would say; the document has that beside the number."""
    assert 0 == run(["config", "show", "--state-dir", str(tmp_path)])
    lines = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert ["import.maxLine", "256mb"] in lines
    assert ["locks.acquireTimeout", "1m"] in lines
    assert 0 == run(["config", "show", "--state-dir", str(tmp_path), "--json"])
    setting = json.loads(capsys.readouterr().out)["settings"]["import.maxLine"]
    assert {"value": 2**28, "written": "256mb", "origin": "default"} == setting


@given(st.integers(0, 2**50))
def test_written_values_mean_the_number(number: int) -> None:
    """What `config show` prints can be put into a file and means the same there."""
    assert number == values.parse_duration_ms(values.duration_text(number))
    assert number == values.parse_size_bytes(values.size_text(number))


@pytest.mark.parametrize("argv", [["config", "show"], ["sessions"], ["doctor", "inspect"]])
def test_verbose_said_nothing(tmp_path: Path, argv: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    """-v names the directory and the files that decide."""
    assert 0 == run([*argv, "--state-dir", str(tmp_path), "-v"])
    told = capsys.readouterr().err
    assert f"state directory: {tmp_path}" in told
    assert f"configuration of OpenClaw: {tmp_path / 'openclaw.json'} (there is none)" in told
    assert (argv == ["config", "show"]) == ("store of main: " not in told)


@pytest.mark.parametrize("text", ["{agents: {defaults: {contextTokens: 'many'}}}", "{session: {scope: 'x'}}"])
def test_a_wrong_value_is_told(tmp_path: Path, text: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Key and file are named, exit status 2."""
    (tmp_path / "openclaw.json").write_text(text)

    assert 2 == run(["config", "show", "--state-dir", str(tmp_path)])
    assert str(tmp_path / "openclaw.json") in capsys.readouterr().err
