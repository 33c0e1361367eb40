"""A connection to a gateway: protocol 4 over a WebSocket (gateway page §2, §3).

One request at a time. Events that come in between are passed over; pings are answered by the library. No secret stands
in a message: what a gateway says of a failure is shortened to its codes and its own first line.
"""

from __future__ import annotations

import json
import platform
import time
import uuid
from collections.abc import Mapping
from contextlib import ExitStack
from types import TracebackType
from typing import Any

from openclaw_cli import __version__
from openclaw_cli.config.gateway import GatewayAccess, shown
from openclaw_cli.errors import UsageError, escaped
from openclaw_cli.gateway.failures import CallFailedError, GatewayRefusedError, OutcomeUnknownError, UnreachableError

PROTOCOL = 4
CONNECT_SECONDS = 15.0
MOST_FRAME_BYTES = 25 * 2**20
ADMIN = "operator.admin"
_MOST_MESSAGE = 300
_AUTH_CODES = ("AUTH_", "NOT_PAIRED", "DEVICE_IDENTITY")


class Gateway:
    """An open connection. `hello`: what the gateway said of itself, the payload of its `hello-ok`."""

    def __init__(self, access: GatewayAccess, scopes: tuple[str, ...] = (ADMIN,)) -> None:
        self._access = access
        self._name = shown(access.url)
        self._stack = ExitStack()
        self._socket = self._opened()
        try:
            self.hello = self._greeted(scopes)
        except BaseException:
            self._stack.close()
            raise

    def __enter__(self) -> Gateway:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stack.close()

    @property
    def state_dir(self) -> str | None:
        """The state directory that the gateway works on, as it sees it itself."""
        snapshot = self.hello.get("snapshot")
        found = snapshot.get("stateDir") if isinstance(snapshot, Mapping) else None
        return found if isinstance(found, str) else None

    def offers(self, method: str) -> bool:
        """Whether the gateway has a method."""
        features = self.hello.get("features")
        methods = features.get("methods") if isinstance(features, Mapping) else None
        return isinstance(methods, list) and method in methods

    def call(self, method: str, params: Mapping[str, Any], timeout_s: float | None) -> Any:
        """The payload of the answer. `timeout_s` None: wait for as long as it takes.

        Raises GatewayRefusedError, CallFailedError, OutcomeUnknownError, and UnreachableError as long as nothing was
        sent.
        """
        if not self.offers(method):
            raise GatewayRefusedError(
                f"the gateway at {self._name} does not know {method}", hint="update OpenClaw, or stop the gateway"
            )
        try:
            request_id = self._send(method, params)
        except _Lost as error:
            raise UnreachableError(f"the gateway at {self._name} is gone ({error})", hint="try again") from error
        try:
            return self._answer(request_id, timeout_s)
        except (_Lost, TimeoutError) as error:
            why = "did not answer in time" if isinstance(error, TimeoutError) else f"is gone ({error})"
            raise OutcomeUnknownError(
                f"the gateway at {self._name} {why} after {method} was sent; whether it was done is not known",
                hint="look before you repeat it: openclaw-cli sessions cleanup --dry-run, or sessions list",
            ) from error

    # --- connecting -------------------------------------------------------------------------------------------------

    def _opened(self) -> Any:
        try:
            from websockets.exceptions import InvalidHandshake, InvalidURI
            from websockets.sync.client import connect
        except ImportError as error:
            raise UsageError(
                "talking to a gateway needs the package websockets", hint="pip install 'openclaw-cli[gateway]'"
            ) from error
        try:
            opening = connect(
                self._access.url,
                open_timeout=CONNECT_SECONDS,
                close_timeout=1,
                max_size=MOST_FRAME_BYTES,
                compression=None,
                user_agent_header=f"openclaw-cli/{__version__}",
                proxy=None,
            )
            return self._stack.enter_context(opening)
        except InvalidURI as error:
            raise UsageError(f"{self._name} is no address of a gateway") from error
        except (OSError, TimeoutError, InvalidHandshake, EOFError) as error:
            reason = type(error).__name__ if isinstance(error, InvalidHandshake) else str(error) or "no answer"
            raise UnreachableError(
                f"no gateway answers at {self._name} ({self._access.origin}): {reason}",
                hint="is it running, and is the port right? then: --wait",
            ) from error

    def _greeted(self, scopes: tuple[str, ...]) -> dict[str, Any]:
        """Shake hands: their challenge, our request, their hello."""
        try:
            challenge = self._receive(time.monotonic() + CONNECT_SECONDS)
            if challenge.get("event") != "connect.challenge":
                raise GatewayRefusedError(f"what listens at {self._name} is no gateway of OpenClaw")
            payload = self._answer(self._send("connect", self._introduction(scopes)), CONNECT_SECONDS)
        except (_Lost, TimeoutError) as error:
            raise UnreachableError(f"the gateway at {self._name} broke off the greeting", hint="try again") from error
        except CallFailedError as error:
            raise self._not_let_in(error) from error
        if not isinstance(payload, dict) or payload.get("type") != "hello-ok":
            raise GatewayRefusedError(f"what listens at {self._name} is no gateway of OpenClaw")
        return payload

    def _introduction(self, scopes: tuple[str, ...]) -> dict[str, Any]:
        # Only this client id and mode keep their scopes without an identity of the device (gateway page §2).
        client = {
            "id": "cli",
            "displayName": "openclaw-cli",
            "version": __version__,
            "platform": platform.system().lower(),
            "mode": "cli",
            "instanceId": str(uuid.uuid4()),
        }
        return {
            "minProtocol": PROTOCOL,
            "maxProtocol": PROTOCOL,
            "client": client,
            "caps": [],
            "auth": self._access.auth(),
            "role": "operator",
            "scopes": list(scopes),
        }

    def _not_let_in(self, error: CallFailedError) -> Exception:
        details = error.details if isinstance(error.details, Mapping) else {}
        code = str(details.get("code") or "")
        if code == "PROTOCOL_MISMATCH":
            expected = details.get("expectedProtocol")
            return GatewayRefusedError(
                f"the gateway at {self._name} speaks protocol {expected}, this program {PROTOCOL}",
                hint="update the older of the two",
                code="gateway_protocol",
            )
        if code.startswith(_AUTH_CODES):
            return GatewayRefusedError(
                f"the gateway at {self._name} does not accept the secret ({code})",
                hint="OPENCLAW_GATEWAY_TOKEN, gateway.auth.token in openclaw.json, or --token-file FILE",
                code="gateway_unauthorized",
            )
        if error.facts.get("retryable"):
            return UnreachableError(f"the gateway at {self._name} is starting", hint="try again in a moment")
        return GatewayRefusedError(f"the gateway at {self._name} refuses: {error.message}")

    # --- frames -----------------------------------------------------------------------------------------------------

    def _send(self, method: str, params: Mapping[str, Any]) -> str:
        from websockets.exceptions import ConnectionClosed

        request_id = str(uuid.uuid4())
        frame = {"type": "req", "id": request_id, "method": method, "params": params}
        try:
            self._socket.send(json.dumps(frame))
        except (ConnectionClosed, OSError) as error:
            raise _Lost(_reason(error)) from error
        return request_id

    def _answer(self, request_id: str, timeout_s: float | None) -> Any:
        ends = None if timeout_s is None else time.monotonic() + timeout_s
        while True:
            frame = self._receive(ends)
            if frame.get("type") != "res" or frame.get("id") != request_id:
                continue
            if frame.get("ok") is True:
                return frame.get("payload")
            error = frame.get("error")
            error = error if isinstance(error, Mapping) else {}
            message = escaped(str(error.get("message") or "no reason was given").splitlines()[0][:_MOST_MESSAGE])
            raise CallFailedError(
                f"the gateway at {self._name} says: {message}",
                error.get("details"),
                gatewayCode=str(error.get("code") or ""),
                retryable=error.get("retryable") is True,
            )

    def _receive(self, ends: float | None) -> dict[str, Any]:
        """The next frame that is an object. Raises TimeoutError, _Lost."""
        from websockets.exceptions import ConnectionClosed

        while True:
            left = None if ends is None else ends - time.monotonic()
            if left is not None and left <= 0:
                raise TimeoutError
            try:
                text = self._socket.recv(timeout=left)
            except (ConnectionClosed, OSError) as error:
                if isinstance(error, TimeoutError):
                    raise
                raise _Lost(_reason(error)) from error
            try:
                frame = json.loads(text)
            except ValueError:
                continue  # As the gateway itself does with what is no frame.
            if isinstance(frame, dict):
                return frame


class _Lost(Exception):
    """The connection ended."""


def _reason(error: Exception) -> str:
    received = getattr(error, "rcvd", None)
    return f"close code {received.code}" if received is not None else "connection lost"
