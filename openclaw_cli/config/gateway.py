"""Where the gateway of a state directory listens, and with what it lets us in (gateway page §4).

Secrets come from files and variables, never from a command line, and stand in no representation of a value.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from openclaw_cli.config.openclaw_json import Unresolved
from openclaw_cli.config.settings import Config
from openclaw_cli.errors import NotFoundError, RefusedError, UsageError

DEFAULT_PORT = 18789
_PROFILE_BASE, _PROFILE_SPAN = 20_000, 40_000


@dataclass(frozen=True, slots=True)
class GatewayAccess:
    """`origin`: what named the address. `is_elsewhere`: not known to be the gateway of this state directory."""

    url: str
    origin: str
    is_elsewhere: bool
    token: str | None = field(default=None, repr=False)
    password: str | None = field(default=None, repr=False)

    def auth(self) -> dict[str, str]:
        """The member `auth` of the connect frame."""
        found = {"token": self.token, "password": self.password}
        return {name: value for name, value in found.items() if value}


@dataclass(frozen=True, slots=True)
class Given:
    """What the command line says. `port`: that of the lock which a living gateway holds."""

    url: str | None = None
    token_file: str | None = None
    password_file: str | None = None
    port: int | None = None


def access(config: Config, env: Mapping[str, str], given: Given) -> GatewayAccess:
    """Address and secrets. Raises `UsageError` for an address that is none or a file that cannot be read,
    `RefusedError` where there are no secrets at all or the address would send them in the clear."""
    url, origin, elsewhere = _address(config, env, given)
    _refuse_clear_text(url, env)
    token, password = _secrets(config, env, given, is_explicit=bool(given.url or env.get("OPENCLAW_GATEWAY_URL")))
    mode = str(_at(config, "gateway.auth.mode") or "token")
    if not token and not password and mode not in ("none", "trusted-proxy"):
        raise RefusedError(
            f"the gateway at {shown(url)} wants a secret, and there is none for it",
            hint="OPENCLAW_GATEWAY_TOKEN, gateway.auth.token in openclaw.json, or --token-file FILE",
            code="gateway_credentials_missing",
        )
    return GatewayAccess(url, origin, elsewhere, token, password)


def shown(url: str) -> str:
    """An address for a message: without user, path and query, which may hold secrets."""
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.hostname or '?'}" + (f":{parts.port}" if parts.port else "")


def _address(config: Config, env: Mapping[str, str], given: Given) -> tuple[str, str, bool]:
    for url, origin in ((given.url, "--url"), (env.get("OPENCLAW_GATEWAY_URL"), "OPENCLAW_GATEWAY_URL")):
        if url and url.strip():
            return _checked(url.strip(), origin), origin, True
    if str(_at(config, "gateway.mode") or "").strip().lower() == "remote":
        remote = _at(config, "gateway.remote.url")
        if not isinstance(remote, str) or not remote.strip():
            raise UsageError("gateway.mode is remote, and gateway.remote.url is missing", code="config_invalid")
        return _checked(remote.strip(), "gateway.remote.url"), "gateway.remote.url", True
    scheme = "wss" if _at(config, "gateway.tls.enabled") is True else "ws"
    port, origin = _port(config, env, given)
    return f"{scheme}://127.0.0.1:{port}", origin, False


def _port(config: Config, env: Mapping[str, str], given: Given) -> tuple[int, str]:
    if given.port is not None:
        return given.port, "the lock of the state directory"
    stated = env.get("OPENCLAW_GATEWAY_PORT", "").strip()
    if stated.isdecimal():
        return int(stated), "OPENCLAW_GATEWAY_PORT"
    configured = _at(config, "gateway.port")
    if isinstance(configured, int) and not isinstance(configured, bool):
        return configured, "gateway.port"
    profile = env.get("OPENCLAW_PROFILE", "").strip()
    if profile and profile != "default":
        return _PROFILE_BASE + _fnv1a(profile) % _PROFILE_SPAN, "OPENCLAW_PROFILE"
    return DEFAULT_PORT, "the usual port"


def _fnv1a(text: str) -> int:
    value = 0x811C9DC5
    for byte in text.encode("utf-8"):
        value = (value ^ byte) * 0x01000193 & 0xFFFFFFFF
    return value


def _checked(url: str, origin: str) -> str:
    parts = urlsplit(url)
    if parts.scheme not in ("ws", "wss") or not parts.hostname:
        raise UsageError(f"{origin} is no address of a gateway", hint="ws://127.0.0.1:18789 or wss://host")
    return url


def _refuse_clear_text(url: str, env: Mapping[str, str]) -> None:
    parts = urlsplit(url)
    if parts.scheme == "wss" or _is_loopback(parts.hostname or ""):
        return
    if env.get("OPENCLAW_ALLOW_INSECURE_PRIVATE_WS") == "1":
        return
    raise RefusedError(
        f"{shown(url)} would send the secret in the clear",
        hint="use wss://, or a tunnel to 127.0.0.1; OPENCLAW_ALLOW_INSECURE_PRIVATE_WS=1 allows it",
        code="gateway_insecure",
    )


def _is_loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _secrets(
    config: Config, env: Mapping[str, str], given: Given, *, is_explicit: bool
) -> tuple[str | None, str | None]:
    if given.token_file or given.password_file:
        return _from_file(given.token_file), _from_file(given.password_file)
    token, password = env.get("OPENCLAW_GATEWAY_TOKEN", "").strip(), env.get("OPENCLAW_GATEWAY_PASSWORD", "").strip()
    if token or password or is_explicit:
        # As OpenClaw: secrets of the configuration do not go to an address that it does not name.
        return token or None, password or None
    sections = ["gateway.auth"]
    if str(_at(config, "gateway.mode") or "").strip().lower() == "remote":
        sections.insert(0, "gateway.remote")
    for section in sections:
        token, password = _text(config, f"{section}.token"), _text(config, f"{section}.password")
        if token or password:
            return token, password
    return None, None


def _from_file(name: str | None) -> str | None:
    if name is None:
        return None
    try:
        text = Path(name).expanduser().read_text("utf-8").strip()
    except FileNotFoundError as error:
        raise NotFoundError(f"there is no file {name}") from error
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"{name} cannot be read") from error
    if not text:
        raise UsageError(f"{name} is empty")
    return text.splitlines()[0].strip()


def _text(config: Config, name: str) -> str | None:
    value = _at(config, name)
    # A reference to a secret that only OpenClaw resolves is no text; one whose variable is not set has no value.
    return value.strip() or None if isinstance(value, str) and not isinstance(value, Unresolved) else None


def _at(config: Config, name: str) -> Any:
    value: Any = config.openclaw()
    for part in name.split("."):
        value = value.get(part) if isinstance(value, Mapping) else None
    return value
