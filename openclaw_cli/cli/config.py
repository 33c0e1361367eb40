"""`config show`: every setting, its value, and where the value comes from."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Any

import typer

from openclaw_cli.cli import options, output
from openclaw_cli.cli.options import Common
from openclaw_cli.config import Config
from openclaw_cli.config.known import KNOWN
from openclaw_cli.config.values import duration_text, size_text


def register(app: typer.Typer) -> None:
    """Add the group `config`."""
    members = options.group(app, "config")
    options.command(
        members,
        "show",
        example="openclaw-cli config show --origin",
        exits=(10,),
        without=("store", "agent", "all_agents", "local", "dry_run", "wait", "now", "ndjson"),
    )(show)


def show(
    common: Common,
    origin: Annotated[bool, typer.Option("--origin", help="Say where each value comes from.")] = False,
) -> int:
    """Show the settings in force: environment, openclaw-cli.yaml, openclaw.json, default, in this order."""
    config = common.config()
    settings = list(_settings(common, config))
    document = {
        "stateDir": str(common.state_dir),
        "openclawConfig": str(config.openclaw_path),
        "ownConfig": str(config.own_path) if config.own_path is not None else None,
        "agents": list(config.agents),
        "defaultAgent": config.default_agent,
        "settings": {name: _as_json(name, value, where) for name, value, where in settings},
    }
    columns = ("Setting", "Value", "Origin") if origin else ("Setting", "Value")
    rows = [(name, _shown(name, value), where)[: len(columns)] for name, value, where in settings]
    output.emit(document, [output.Table(columns, rows, middle=frozenset({"Value", "Origin"}))], common)
    return 0


def _settings(common: Common, config: Config) -> Iterator[tuple[str, Any, str]]:
    where = "flag --state-dir" if common.state_dir_given else _state_dir_origin()
    yield "stateDir", str(common.state_dir), where
    for name in KNOWN:
        setting = config.get(name)
        yield name, setting.value, setting.origin


def _state_dir_origin() -> str:
    from openclaw_cli.config import environment

    return "environment OPENCLAW_STATE_DIR" if environment().get("OPENCLAW_STATE_DIR", "").strip() else "default"


def _as_json(name: str, value: Any, origin: str) -> dict[str, Any]:
    """Value and origin of a setting; `written`, for sizes (bytes) and durations (ms), as a file would have it."""
    written = _written(name, value)
    return {"value": value, **({"written": written} if written is not None else {}), "origin": origin}


def _written(name: str, value: Any) -> str | None:
    kind = KNOWN[name].kind if name in KNOWN and value is not None else ""
    return size_text(value) if kind == "size" else duration_text(value) if kind == "duration" else None


def _shown(name: str, value: Any) -> str:
    if value is None:
        return "-"
    if isinstance(value, str):
        return value
    return _written(name, value) or output.dump(value, indent=False).decode("utf-8")
