"""`config show`: values, origins, errors."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from openclaw_cli.cli.app import run


def shown(state: Path, capsys: pytest.CaptureFixture[str]) -> Any:
    """The document of `config show`."""
    assert 0 == run(["config", "show", "--json", "--state-dir", str(state)])
    return json.loads(capsys.readouterr().out)


def test_every_setting_has_value_and_origin(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Flag, our file, OpenClaw's file and default are told apart; both files are named."""
    (tmp_path / "openclaw.json").write_text("{session: {scope: 'global'}, agents: {list: [{id: 'work'}]}}")
    (tmp_path / "openclaw-cli.yaml").write_text("compact.labels: de\nimport: {maxLine: 1mb}\n")
    document = shown(tmp_path, capsys)

    assert {"value": str(tmp_path), "origin": "flag --state-dir"} == document["settings"]["stateDir"]
    assert {"value": "global", "origin": str(tmp_path / "openclaw.json")} == document["settings"]["session.scope"]
    assert {"value": 2**20, "origin": str(tmp_path / "openclaw-cli.yaml")} == document["settings"]["import.maxLine"]
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
    assert ["locks.stale", "7", "environment", "OPENCLAW_SESSION_WRITE_LOCK_STALE_MS"] in lines
    assert 0 == run(["config", "show"])
    assert ["locks.stale", "7"] in [line.split() for line in capsys.readouterr().out.splitlines()]


@pytest.mark.parametrize("text", ["{agents: {defaults: {contextTokens: 'many'}}}", "{session: {scope: 'x'}}"])
def test_a_wrong_value_is_told(tmp_path: Path, text: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Key and file are named, exit status 2."""
    (tmp_path / "openclaw.json").write_text(text)

    assert 2 == run(["config", "show", "--state-dir", str(tmp_path)])
    assert str(tmp_path / "openclaw.json") in capsys.readouterr().err
