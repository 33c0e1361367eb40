"""Our own configuration file: where it is looked for, how it is read (design: commands)."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from openclaw_cli.config.known import KNOWN
from openclaw_cli.config.paths import expand, known_home
from openclaw_cli.errors import ConfigError

FILE_NAME = "openclaw-cli.yaml"
MAX_FILE_BYTES = 2**20


def own_config_path(state_dir: Path, explicit: str | None, env: Mapping[str, str]) -> Path | None:
    """The first of `--config`, `$OPENCLAW_CLI_CONFIG`, the state directory's, the user's; None when none exists.

    A file that is named must exist: `ConfigError` otherwise.
    """
    for text, what in ((explicit, "--config"), (env.get("OPENCLAW_CLI_CONFIG"), "OPENCLAW_CLI_CONFIG")):
        if text and text.strip():
            path = expand(text, env)
            if not path.is_file():
                raise ConfigError(f"{what} names {path}, which is not a file", configPath=str(path))
            return path
    user = env.get("XDG_CONFIG_HOME", "").strip()
    home = known_home(env)
    user_dir = expand(user, env) if user else (home / ".config" if home is not None else None)
    places = [state_dir / FILE_NAME, *([user_dir / "openclaw-cli" / "config.yaml"] if user_dir is not None else [])]
    return next((path for path in places if path.is_file()), None)


def read_own(path: Path) -> dict[str, Any]:
    """The settings of the file under their dotted names. Raises `ConfigError` for bad YAML and unknown keys."""
    try:
        data = path.read_bytes()
    except OSError as error:
        raise ConfigError(f"cannot read {path}: {error.strerror}", configPath=str(path)) from error
    if len(data) > MAX_FILE_BYTES:
        raise ConfigError(f"{path} is larger than {MAX_FILE_BYTES} bytes", configPath=str(path))
    return _settings_in(data, path)


def with_settings(data: bytes, settings: Mapping[str, Any], path: Path) -> bytes:
    """The bytes of our file with `settings` (dotted names) added at its end, each on a line of its own.

    A name that the file has already keeps its value. Raises `ConfigError` when the file is invalid, or would be.
    """
    import json

    before = _settings_in(data, path)
    missing = {name: value for name, value in settings.items() if name not in before}
    if not missing:
        return data
    lead = data if not data or data.endswith(b"\n") else data + b"\n"
    # JSON is YAML; not so its escapes of characters beyond the first plane.
    lines = [f"{name}: {json.dumps(value, ensure_ascii=False)}\n" for name, value in missing.items()]
    result = lead + "".join(lines).encode("utf-8")
    wanted = before | {name: KNOWN[name].checked(value, str(path)) for name, value in missing.items()}
    if _settings_in(result, path) != wanted:
        raise ConfigError(f"{path} cannot be added to by lines", configPath=str(path))
    return result


def _settings_in(data: bytes, path: Path) -> dict[str, Any]:
    document = _parse(data, path)
    if document is None:
        return {}
    if not isinstance(document, dict):
        raise ConfigError(f"{path} must hold a mapping of settings", configPath=str(path))
    found: dict[str, Any] = {}
    _flatten(document, "", path, found)
    return found


def _flatten(node: dict[Any, Any], prefix: str, path: Path, found: dict[str, Any]) -> None:
    for key, value in node.items():
        name = f"{prefix}{key}"
        known = KNOWN.get(name)
        if known is not None and known.yaml:
            if name in found:
                raise ConfigError(f"{name} is set twice in {path}", configPath=str(path), key=name)
            found[name] = known.checked(value, str(path))
        elif isinstance(value, dict) and any(other.startswith(f"{name}.") for other in KNOWN):
            _flatten(value, f"{name}.", path, found)
        else:
            raise ConfigError(
                f"unknown setting {name!r} in {path}", hint=_closest(name), configPath=str(path), key=name
            )


def _closest(name: str) -> str:
    from difflib import get_close_matches

    writable = [key.name for key in KNOWN.values() if key.yaml]
    near = get_close_matches(name, writable, n=1)
    return f"did you mean {near[0]}?" if near else "`openclaw-cli config show` lists the settings"


def _parse(data: bytes, path: Path) -> Any:
    import yaml

    try:
        return yaml.load(data, Loader=_loader())
    except (yaml.YAMLError, UnicodeDecodeError, RecursionError) as error:
        mark = getattr(error, "problem_mark", None)
        place = f" (line {mark.line + 1})" if mark is not None else ""
        reason = getattr(error, "problem", None) or "it cannot be parsed"
        raise ConfigError(f"{path} is not valid YAML{place}: {reason}", configPath=str(path)) from None


def _loader() -> type:
    """A safe loader without the traps of YAML 1.1: `no`, `010`, `1:30` and dates stay what people wrote.

    Two equal keys in one mapping are an error, because the second would win silently.
    """
    import re

    import yaml

    base = getattr(yaml, "CSafeLoader", yaml.SafeLoader)

    class Loader(base):  # type: ignore[misc, valid-type]  # the base depends on how PyYAML was built
        yaml_implicit_resolvers: dict[str, list[Any]] = {}  # noqa: RUF012  # the library's own class attribute

        def construct_mapping(self, node: Any, deep: bool = False) -> dict[Any, Any]:
            keys = [self.construct_object(key, deep=True) for key, _ in node.value]
            for index, key in enumerate(keys):
                if key in keys[:index]:
                    mark = node.value[index][0].start_mark
                    raise yaml.constructor.ConstructorError(None, None, f"the key {key!r} stands twice", mark)
            return super().construct_mapping(node, deep)

    for tag, pattern, first in (
        ("bool", r"true|false", "tf"),
        ("null", r"~|null|", "~n\0"),
        ("int", r"[-+]?(?:0|[1-9][0-9]*)", "-+0123456789"),
        ("float", r"[-+]?[0-9]+\.[0-9]+(?:[eE][-+]?[0-9]+)?", "-+0123456789"),
    ):
        Loader.add_implicit_resolver(f"tag:yaml.org,2002:{tag}", re.compile(rf"^(?:{pattern})$"), list(first))
    Loader.add_implicit_resolver("tag:yaml.org,2002:null", re.compile(r"^$"), [""])
    return Loader
