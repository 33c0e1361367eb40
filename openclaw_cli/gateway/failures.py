"""How a call to a gateway can fail; each says whether the request was already sent."""

from __future__ import annotations

from typing import Any

from openclaw_cli.errors import BusyError, Exit, OpenClawError, RefusedError


class UnreachableError(BusyError):
    """Nobody answers at the address, or not in time; nothing was asked for."""

    code = "gateway_unreachable"


class GatewayRefusedError(RefusedError):
    """The gateway does not let us in, is of another version or owns another state directory."""

    code = "gateway_refused"


class CallFailedError(OpenClawError):
    """The gateway answered that it did not do what it was asked for. `details`: what it said, as it came."""

    exit = Exit.ISSUES
    code = "gateway_call_failed"

    def __init__(self, message: str, details: Any = None, **more: Any) -> None:
        super().__init__(message, **more)
        self.details = details


class OutcomeUnknownError(OpenClawError):
    """The connection was lost, or time ran out, after the request was sent: it may have been carried out."""

    exit = Exit.ISSUES
    code = "outcome_unknown"
