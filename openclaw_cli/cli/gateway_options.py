"""The options of commands that a gateway can be asked for (design, D7)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any

import typer

from openclaw_cli.config.values import parse_duration_ms
from openclaw_cli.errors import UsageError

MODES = ("auto", "never", "require")

# Option name -> (annotation, default), in the order of the help page.
OPTIONS: dict[str, tuple[Any, Any]] = {
    "gateway": (
        Annotated[
            str,
            typer.Option("--gateway", metavar="auto|never|require", help="Ask the gateway that owns the sessions?"),
        ],
        "auto",
    ),
    "url": (
        Annotated[str | None, typer.Option("--url", metavar="URL", help="Ask that gateway, wherever it is.")],
        None,
    ),
    "token_file": (
        Annotated[str | None, typer.Option("--token-file", metavar="FILE", help="Its token is FILE's first line.")],
        None,
    ),
    "password_file": (
        Annotated[
            str | None, typer.Option("--password-file", metavar="FILE", help="Its password is FILE's first line.")
        ],
        None,
    ),
    "timeout": (
        Annotated[str, typer.Option("--timeout", metavar="TIME", help="How long to wait for its answer; 0: for ever.")],
        "120s",
    ),
    "force_local": (
        Annotated[
            bool,
            typer.Option("--force-local", help="With --store: work beside a gateway, under SQLite's locks alone."),
        ],
        False,
    ),
}


@dataclass(frozen=True, slots=True)
class Asked:
    """What the command line says of gateways. `timeout_s` None: wait for ever."""

    mode: str = "auto"
    url: str | None = None
    token_file: str | None = None
    password_file: str | None = None
    timeout_s: float | None = 120.0
    force_local: bool = False


def asked(given: dict[str, Any]) -> Asked:
    """The values of `OPTIONS`, checked. Raises `UsageError`."""
    if given["gateway"] not in MODES:
        raise UsageError(f"--gateway takes auto, never or require, not {given['gateway']!r}")
    if given["url"] and given["gateway"] == "never":
        raise UsageError("--url and --gateway never contradict each other")
    timeout_ms = parse_duration_ms(given["timeout"], default_unit="s")
    return Asked(
        given["gateway"],
        given["url"],
        given["token_file"],
        given["password_file"],
        timeout_ms / 1000 if timeout_ms else None,
        given["force_local"],
    )
