"""What the configuration says about sessions, as the checks need it; and keys in it that OpenClaw refuses."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any
from urllib.parse import urlsplit

from openclaw_cli.checks import remedies
from openclaw_cli.checks.finding import Finding
from openclaw_cli.checks.scope import Settings
from openclaw_cli.config import Config
from openclaw_cli.config.retired import changes
from openclaw_cli.config.values import parse_size_bytes
from openclaw_cli.errors import UsageError

LOCAL_PROVIDERS = frozenset(
    {"ollama", "lmstudio", "llamacpp", "llama.cpp", "llama-cpp", "mlx", "vllm", "sglang", "localai"}
)
_LOCAL_HOST = re.compile(r"localhost|.+\.local|host\.docker\.internal|127\..+|10\..+|192\.168\..+|::1")


def settings_of(config: Config) -> Settings:
    """Gather them. Raises `ConfigError` for a value that its key does not allow."""
    providers = _mapping(config.get("models.providers").value)
    return Settings(
        main_key=config.main_key,
        scope=str(config.get("session.scope", None).value or "per-sender"),
        dm_scope=str(config.get("session.dmScope").value or "main"),
        agents=config.agents if config.roster_is_explicit else None,
        default_window=_tokens(config.get("agents.defaults.contextTokens").value),
        keep_recent_tokens=_tokens(config.get("agents.defaults.compaction.keepRecentTokens").value) or 20_000,
        reserve_tokens=_tokens(config.get("agents.defaults.compaction.reserveTokens").value) or 20_000,
        most_active_bytes=_bytes(config.get("agents.defaults.compaction.maxActiveTranscriptBytes").value),
        windows=tuple(_windows(providers)),
        local_providers=LOCAL_PROVIDERS | {name.lower() for name, entry in providers.items() if _is_local(entry)},
        retired=tuple(change.key for change in changes(config.openclaw())),
        remote=config.remote_gateway,
        config_path=config.openclaw_path,
    )


def retired_keys(settings: Settings) -> Iterator[Finding]:
    """Keys that make OpenClaw refuse its configuration."""
    if settings.retired:
        message = f"{settings.config_path} has {len(settings.retired)} key(s) that OpenClaw no longer takes"
        evidence = {"path": str(settings.config_path), "keys": list(settings.retired)}
        advice = (
            "OpenClaw refuses the whole file with one of them in it; they are removed, renamed or moved to our own file"
        )
        yield Finding("config_key_retired", "warning", message, None, evidence, advice, remedies.FIX)


def _windows(providers: Mapping[str, Any]) -> Iterator[tuple[str, str, int]]:
    for provider, entry in providers.items():
        models = _mapping(entry).get("models")
        for model in models if isinstance(models, list) else ():
            size = _tokens(_mapping(model).get("contextTokens")) or _tokens(_mapping(model).get("contextWindow"))
            name = _mapping(model).get("id")
            if isinstance(name, str) and size:
                yield provider, name, size


def _is_local(entry: Any) -> bool:
    address = _mapping(entry).get("baseUrl")
    if not isinstance(address, str):
        return False
    try:
        return _LOCAL_HOST.fullmatch(urlsplit(address).hostname or "") is not None
    except ValueError:
        return False  # No address at all: then nothing is known of where it leads.


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def _tokens(value: Any) -> int | None:
    number = value if isinstance(value, int | float) and not isinstance(value, bool) else None
    return int(number) if number is not None and number > 0 else None


def _bytes(value: Any) -> int:
    """`maxActiveTranscriptBytes`, or 20 MiB where it is off: the size that the documents give as an example."""
    try:
        size = 0 if value is None or isinstance(value, bool) else parse_size_bytes(value)
    except UsageError:
        size = 0  # OpenClaw refuses its own file with such a value, and says so.
    return int(size) or Settings().most_active_bytes
