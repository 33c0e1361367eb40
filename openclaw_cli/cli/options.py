"""The options that mean the same everywhere, and how a command asks for them.

A command is a function whose first parameter is `common: Common`; `command(app, "name", …)` adds the options to its
signature, its example and its exit statuses to its help, and registers it.
"""

from __future__ import annotations

import functools
import inspect
import os
import time
import typing
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any

import typer
import typer.core
from typer.core import TyperGroup

from openclaw_cli.cli import gateway_options, output
from openclaw_cli.cli.gateway_options import Asked
from openclaw_cli.cli.registry import REGISTRY
from openclaw_cli.config import Config, Target, environment, load, resolve_state_dir, targets
from openclaw_cli.config.paths import agent_target, expand, home_of_store
from openclaw_cli.config.values import parse_duration_ms, parse_time_ms
from openclaw_cli.errors import NotFoundError, UsageError

# With this set, typer loads rich for every help page, only to put a backslash before a bracket.
typer.core.HAS_RICH = False

DEFAULT_WAIT_MS = 250
CONTEXT_SETTINGS: dict[str, Any] = {"help_option_names": ["-h", "--help"], "max_content_width": 100}

STATUS_MEANING = {
    0: "done, nothing to do, or preview printed",
    1: "unexpected failure",
    2: "wrong option, value or configuration",
    3: "finished, but the report has at least one error",
    10: "something that was named does not exist",
    11: "owned by a gateway or another writer; try later",
    12: "refused because it would be unsafe",
    13: "a database or an archive fails verification",
    14: "no summarizer is usable and falling back is forbidden",
}


@dataclass(frozen=True, slots=True)
class Common:
    """The shared options of one run; `now_ms` is epoch ms, `wait_ms` how long to wait for a lock.

    With `--store` the state directory is the one that the store lies in; `store_alone`: it lies in none, and its own
    directory takes the part.
    """

    state_dir: Path
    state_dir_given: bool
    config_path: str | None
    store: str | None
    agent: str | None
    all_agents: bool
    local: bool
    json: bool
    ndjson: bool
    dry_run: bool
    now_ms: int
    wait_ms: int
    quiet: bool
    verbose: bool
    debug: bool
    store_alone: bool = False
    gateway: Asked = field(default_factory=Asked)

    def config(self) -> Config:
        """Read the configuration. Raises `NotFoundError` when `--state-dir` names no directory."""
        if self.state_dir_given and not self.state_dir.is_dir():
            raise NotFoundError(f"there is no state directory {self.state_dir}", stateDir=str(self.state_dir))
        config = load(self.state_dir, self.config_path, environment())
        missing = "" if config.openclaw_path.exists() else " (there is none)"
        output.detail(f"state directory: {self.state_dir}", self)
        output.detail(f"configuration of OpenClaw: {config.openclaw_path}{missing}", self)
        output.detail(f"own configuration: {config.own_path or 'none'}", self)
        return config

    def targets(self, config: Config, archived: Collection[str] | None = None) -> tuple[Target, ...]:
        """The stores that the selectors mean; a selector that matches nothing raises `NotFoundError`.

        With `archived` (agents that manifests name), those of which only the import archive is left count too.
        """
        found = targets(
            config,
            self.state_dir,
            agent=self.agent,
            all_agents=self.all_agents,
            store=self.store,
            env=environment(),
            archived=archived,
        )
        for target in found:
            output.detail(f"store of {target.agent_id}: {target.sqlite_path}, files: {target.sessions_dir}", self)
        return found


# Option name -> (annotation, default), in the order of the help page.
SHARED: dict[str, tuple[Any, Any]] = {
    "state_dir": (
        Annotated[str | None, typer.Option("--state-dir", metavar="DIR", help="State directory of OpenClaw.")],
        None,
    ),
    "config_path": (
        Annotated[str | None, typer.Option("--config", metavar="FILE", help="Our configuration file (YAML).")],
        None,
    ),
    "store": (
        Annotated[str | None, typer.Option("--store", metavar="PATH", help="One store: sessions.json or .sqlite.")],
        None,
    ),
    "agent": (Annotated[str | None, typer.Option("--agent", metavar="ID", help="The store of one agent.")], None),
    "all_agents": (Annotated[bool, typer.Option("--all-agents", help="The stores of all agents.")], False),
    "local": (
        Annotated[
            bool, typer.Option("--local", help="Use the stores of this host, although a remote gateway is configured.")
        ],
        False,
    ),
    "dry_run": (Annotated[bool, typer.Option("--dry-run", help="Print the plan and change nothing.")], False),
    "wait": (
        Annotated[str, typer.Option("--wait", metavar="TIME", help="How long to wait for a lock.")],
        f"{DEFAULT_WAIT_MS}ms",
    ),
    "now": (
        Annotated[str | None, typer.Option("--now", metavar="TIME", help="Take this as now: epoch ms or ISO 8601.")],
        None,
    ),
    "json": (Annotated[bool, typer.Option("--json", help="Print one JSON document.")], False),
    "ndjson": (Annotated[bool, typer.Option("--ndjson", help="Print one JSON object per line.")], False),
    "quiet": (Annotated[bool, typer.Option("-q", "--quiet", help="No notes on stderr, errors only.")], False),
    "verbose": (Annotated[bool, typer.Option("-v", "--verbose", help="Say on stderr which files are read.")], False),
    "debug": (Annotated[bool, typer.Option("--debug", help="Say on stderr where an error arose.")], False),
}
SELECTORS = frozenset({"store", "agent", "all_agents"})
VALUE_OPTIONS = frozenset({"--state-dir", "--config", "--store", "--agent", "--wait", "--now"})


class _RegistryOrder(TyperGroup):
    """The top group: its help lists the commands in the order of the registry."""

    def list_commands(self, ctx: Any) -> list[str]:
        return [name for name in REGISTRY if name in self.commands]


def new_app(*, top: bool = False) -> typer.Typer:
    """A typer application without rich, pretty exceptions and completion through the program itself."""
    return typer.Typer(
        cls=_RegistryOrder if top else TyperGroup,
        add_completion=False,
        rich_markup_mode=None,
        pretty_exceptions_enable=False,
        suggest_commands=False,  # the parser below suggests too, and both together say it twice
        context_settings=CONTEXT_SETTINGS,
    )


def group(app: typer.Typer, name: str) -> typer.Typer:
    """Add the group `name` of the registry to `app` and return it for its commands."""
    members = new_app()
    app.add_typer(members, name=name, help=REGISTRY[name].help, short_help=REGISTRY[name].help)
    # Without a callback typer would turn a group of one command into that command.
    members.callback()(lambda: None)
    return members


def command(
    app: typer.Typer,
    name: str,
    *,
    example: str | Sequence[str],
    exits: Sequence[int],
    without: Sequence[str] = (),
    short_help: str | None = None,
    gateway: bool = False,
) -> Callable[[Callable[..., int | None]], Callable[..., int | None]]:
    """Register a command on `app`.

    `example`: real command lines for the help page; `exits`: the statuses it can give (0, 1 and 2 are implied);
    `without`: names in `SHARED` that make no sense for it; `gateway`: it can be left to a gateway. The function gets
    `common` and returns its exit status.
    """
    examples = [example] if isinstance(example, str) else list(example)
    shared = {key: described for key, described in SHARED.items() if key not in without}
    shared |= gateway_options.OPTIONS if gateway else {}
    # `doctor compact` is not the top command `compact`.
    top_level = REGISTRY.get(name) if app.info.cls is _RegistryOrder else None

    def register(function: Callable[..., int | None]) -> Callable[..., int | None]:
        wrapped = _with_shared(function, shared)
        summary = short_help or (top_level.help if top_level is not None else _first_sentence(function))
        app.command(
            name, help=_own_help(function), short_help=summary, epilog=_epilog(examples, exits), no_args_is_help=False
        )(wrapped)
        return wrapped

    return register


def _with_shared(function: Callable[..., int | None], shared: dict[str, tuple[Any, Any]]) -> Callable[..., int | None]:
    hints = typing.get_type_hints(function, include_extras=True)
    own = [
        parameter.replace(annotation=hints[parameter.name], kind=inspect.Parameter.KEYWORD_ONLY)
        for parameter in inspect.signature(function).parameters.values()
        if parameter.name != "common"
    ]
    taken = {parameter.name for parameter in own}
    names = {parameter.name: _shown_name(parameter) for parameter in own}
    added = [
        inspect.Parameter(key, inspect.Parameter.KEYWORD_ONLY, default=described[1], annotation=described[0])
        for key, described in shared.items()
        if key not in taken
    ]

    names |= {parameter.name: _shown_name(parameter) for parameter in added}

    @functools.wraps(function)
    def wrapped(**values: Any) -> int | None:
        _refuse_blank(values, names)
        given = {parameter.name: values.pop(parameter.name) for parameter in added}
        return function(make_common(given), **values)

    del wrapped.__wrapped__  # typer would read the signature behind it
    parameters = [*own, *added]
    wrapped.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    wrapped.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    return wrapped


def _shown_name(parameter: inspect.Parameter) -> str:
    """How a command line spells a parameter: its last option name, or what stands for the argument."""
    described = next(iter(getattr(parameter.annotation, "__metadata__", ())), None)
    spelled = [name for name in getattr(described, "param_decls", None) or () if name.startswith("-")]
    if isinstance(described, typer.models.ArgumentInfo):
        return described.metavar or parameter.name.upper()
    return spelled[-1] if spelled else "--" + parameter.name.replace("_", "-")


def _refuse_blank(values: dict[str, Any], names: dict[str, str]) -> None:
    """Raises `UsageError` for a blank value: an unset variable of a shell script must never mean a default."""
    for name, value in values.items():
        texts = value if isinstance(value, (list, tuple)) else [value]
        if any(isinstance(text, str) and not text.strip() for text in texts):
            raise UsageError(f"{names[name]} has an empty value", hint="is a variable of the script not set?")


def make_common(given: dict[str, Any]) -> Common:
    """Values of the shared options (missing ones take their default) as `Common`. Raises `UsageError`."""
    values = {key: default for key, (_, default) in (SHARED | gateway_options.OPTIONS).items()} | given
    if values["quiet"] and values["verbose"]:
        raise UsageError("-q and -v contradict each other")
    if values["json"] and values["ndjson"]:
        raise UsageError("--json and --ndjson contradict each other")
    moment = values["now"]
    place = _place(values["state_dir"], values["store"], values["config_path"])
    return Common(
        state_dir=place.state_dir,
        state_dir_given=bool(values["state_dir"]),
        config_path=values["config_path"],
        store=place.store,
        store_alone=place.store_alone,
        agent=values["agent"],
        all_agents=values["all_agents"],
        local=values["local"],
        json=values["json"],
        ndjson=values["ndjson"],
        dry_run=values["dry_run"],
        now_ms=parse_time_ms(moment) if moment is not None else time.time_ns() // 1_000_000,
        wait_ms=parse_duration_ms(values["wait"]),
        quiet=values["quiet"],
        verbose=values["verbose"],
        debug=values["debug"],
        gateway=gateway_options.asked(values),
    )


@dataclass(frozen=True, slots=True)
class _Place:
    """The state directory of a run, and the store that was named in it."""

    state_dir: Path
    store: str | None = None
    store_alone: bool = False


def _place(state_dir: str | None, store: str | None, config_path: str | None) -> _Place:
    """Whose lock, manifests and configuration a run uses: with `--store` those of the store, never a default's.

    Raises `UsageError` when `--state-dir` names another state directory than the one that the store lies in.
    """
    env = environment()
    stated = resolve_state_dir(state_dir, env)
    if not store:
        return _Place(stated)
    home = home_of_store(expand(store, env))
    if home.state_dir is not None:
        if os.path.realpath(stated) == str(home.state_dir):
            return _Place(stated, str(home.path))
        if state_dir:
            raise UsageError(
                f"--state-dir {stated} contradicts --store: that store lies in {home.state_dir}",
                hint="leave --state-dir out; it follows from the store",
                stateDir=str(home.state_dir),
            )
        return _Place(home.state_dir, str(home.path))
    if state_dir or _is_configured(home.path, stated, config_path):
        return _Place(stated, str(home.path))
    return _Place(Path(os.path.realpath(home.path.parent)), str(home.path), store_alone=True)


def _is_configured(store: Path, state_dir: Path, config_path: str | None) -> bool:
    """Whether `session.store` or `agentDir` of a state directory put this store where it is."""
    config = load(state_dir, config_path, environment())
    known = (agent_target(config, state_dir, name, environment()) for name in config.agents)
    places = {os.path.realpath(path) for target in known for path in (target.store_path, target.sqlite_path)}
    return os.path.realpath(store) in places


def _own_help(function: Callable[..., Any]) -> str:
    return inspect.cleandoc(function.__doc__ or "")


def _first_sentence(function: Callable[..., Any]) -> str:
    return _own_help(function).split("\n\n", 1)[0].replace("\n", " ")


def _epilog(examples: list[str], exits: Sequence[int]) -> str:
    statuses = sorted({0, 1, 2, *map(int, exits)})
    title = "Example:" if len(examples) == 1 else "Examples:"
    # \b keeps the line breaks of the paragraph that follows.
    shown = "\n".join(f"  {line}" for line in examples)
    meanings = "\n".join(f"  {status:<3} {STATUS_MEANING[status]}" for status in statuses)
    return f"\b\n{title}\n{shown}\n\n\b\nExit status:\n{meanings}"
