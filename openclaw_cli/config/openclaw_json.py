"""`openclaw.json`: JSON5 with `$include` and `${VARIABLE}` (store format §1.2)."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from openclaw_cli.config.paths import expand
from openclaw_cli.errors import ConfigError

MAX_INCLUDE_DEPTH = 10
MAX_INCLUDE_BYTES = 2 * 2**20
MAX_INCLUDE_PATH_CHARS = 4096

_VARIABLE = re.compile(r"(\$?)\$\{([A-Z_][A-Z0-9_]*)\}")


class Unresolved(str):
    """A text that names a variable which is not set. Reading it as a setting is an error, its presence is not.

    Configurations hold secrets for many programs as `${NAME}`; a cron job that needs none of them must still run.
    """

    __slots__ = ("variable",)
    variable: str


@dataclass(slots=True)
class _Reader:
    """One reading of a configuration with what it includes; `origins` maps dotted leaf names to their files."""

    roots: tuple[Path, ...]
    env: Mapping[str, str]
    origins: dict[str, str] = field(default_factory=dict)

    def read(self, path: Path, chain: tuple[Path, ...]) -> Any:
        document = parse_text(_load(path, included=bool(chain)), path)
        return self._resolve(document, path, (*chain, Path(os.path.realpath(path))), "")

    def _resolve(self, node: Any, path: Path, chain: tuple[Path, ...], prefix: str) -> Any:
        if isinstance(node, list):
            return [self._resolve(item, path, chain, f"{prefix}[]") for item in node]
        if not isinstance(node, dict):
            self.origins[prefix] = str(path)
            return _substituted(node, self.env) if isinstance(node, str) else node
        # Before the keys beside it, so that the origin of an overridden value is the file that overrides it.
        merged = self._included(node["$include"], path, chain, prefix) if "$include" in node else None
        own = {
            key: self._resolve(value, path, chain, f"{prefix}.{key}" if prefix else key)
            for key, value in node.items()
            if key != "$include"
        }
        if "$include" not in node:
            return own
        if not own:
            return merged
        if not isinstance(merged, dict):
            raise ConfigError(f"{path}: $include with keys beside it must include an object", configPath=str(path))
        return deep_merge(merged, own)

    def _included(self, names: Any, path: Path, chain: tuple[Path, ...], prefix: str) -> Any:
        listed = names if isinstance(names, list) else [names]
        if not listed or not all(isinstance(name, str) for name in listed):
            raise ConfigError(f"{path}: $include takes a path or a list of paths", configPath=str(path))
        merged: Any = None
        for position, name in enumerate(listed):
            target = self._allowed(name, path, chain)
            inner = _Reader(self.roots, self.env)
            value = inner.read(target, chain)
            for key, origin in inner.origins.items():
                self.origins[f"{prefix}.{key}" if prefix and key else prefix or key] = origin
            merged = value if position == 0 else deep_merge(merged, value)
        return merged

    def _allowed(self, name: str, path: Path, chain: tuple[Path, ...]) -> Path:
        if len(name) > MAX_INCLUDE_PATH_CHARS or "\0" in name:
            raise ConfigError(f"{path}: the path of an $include is too long or not a path", configPath=str(path))
        if len(chain) > MAX_INCLUDE_DEPTH:
            raise ConfigError(f"{path}: $include goes deeper than {MAX_INCLUDE_DEPTH} files", configPath=str(path))
        target = Path(os.path.normpath(path.parent / name))
        real = Path(os.path.realpath(target))
        for place, what in ((target, "path"), (real, "real path")):
            if not any(place.is_relative_to(root) for root in self._roots_for(what)):
                raise ConfigError(
                    f"{path}: the {what} of $include {name!r} leaves the configuration directory",
                    hint="OPENCLAW_INCLUDE_ROOTS can name further directories",
                    configPath=str(path),
                )
        if real in chain:
            raise ConfigError(f"{path}: $include {name!r} includes itself", configPath=str(path))
        return target

    def _roots_for(self, what: str) -> list[Path]:
        return [Path(os.path.realpath(root)) if what == "real path" else root for root in self.roots]


def read_openclaw(path: Path, env: Mapping[str, str]) -> tuple[dict[str, Any], dict[str, str]]:
    """The configuration with includes and variables resolved, and the file that each dotted leaf came from.

    A missing file is an empty configuration. Raises `ConfigError` (also for limits of `$include`, which are 10 files
    deep, 2 MiB a file, 4096 characters a path, inside the configuration directory or `OPENCLAW_INCLUDE_ROOTS`).
    """
    if not path.exists():
        return {}, {}
    extra = [part for part in env.get("OPENCLAW_INCLUDE_ROOTS", "").split(os.pathsep) if part.strip()]
    reader = _Reader((path.parent, *(expand(part, env) for part in extra)), env)
    document = reader.read(path, ())
    if not isinstance(document, dict):
        raise ConfigError(f"{path} must hold an object", configPath=str(path))
    return document, reader.origins


def deep_merge(base: Any, over: Any) -> Any:
    """Objects merge key by key, arrays concatenate, anything else is replaced by the later value."""
    if isinstance(base, dict) and isinstance(over, dict):
        merged = dict(base)
        for key, value in over.items():
            merged[key] = deep_merge(merged[key], value) if key in merged else value
        return merged
    if isinstance(base, list) and isinstance(over, list):
        return [*base, *over]
    return over


def _substituted(text: str, env: Mapping[str, str]) -> str:
    missing: list[str] = []

    def value_of(found: re.Match[str]) -> str:
        escaped, name = found.groups()
        if escaped:
            return found.group()[1:]
        value = env.get(name, "")
        if not value:
            missing.append(name)
            return found.group()
        return value

    result = _VARIABLE.sub(value_of, text)
    if not missing:
        return result
    unresolved = Unresolved(result)
    unresolved.variable = missing[0]
    return unresolved


def _load(path: Path, *, included: bool) -> bytes:
    try:
        if included and path.stat().st_size > MAX_INCLUDE_BYTES:
            raise ConfigError(f"{path} is larger than {MAX_INCLUDE_BYTES} bytes", configPath=str(path))
        return path.read_bytes()
    except OSError as error:
        raise ConfigError(f"cannot read {path}: {error.strerror}", configPath=str(path)) from error


def parse_text(data: bytes, path: Path) -> Any:
    """The value of a JSON5 text as it stands, without includes and variables. Raises `ConfigError`."""
    import orjson

    text = data.removeprefix(b"\xef\xbb\xbf")
    try:
        return orjson.loads(text)  # plain JSON is the common case and costs no further import
    except orjson.JSONDecodeError:
        pass  # JSON5, or no JSON at all: the next reader decides
    import pyjson5

    try:
        return pyjson5.decode(text.decode("utf-8"))
    except (pyjson5.Json5DecoderException, UnicodeDecodeError, RecursionError):
        # The library's message quotes the text around the place, which may be a secret.
        raise ConfigError(f"{path} is not valid JSON5", configPath=str(path)) from None
