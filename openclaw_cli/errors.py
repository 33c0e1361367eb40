"""Every failure a user can meet, with its exit status. Imports nothing of ours.

Two kinds are kept apart (design: errors and exit status). An exception means *this run cannot go on*; what concerns
one item only is an `Issue` in the report, and the run goes on with the others.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Any, ClassVar, Literal


class Exit(IntEnum):
    """Exit statuses; the help page of each command repeats those that it can give."""

    OK = 0
    FAILED = 1
    USAGE = 2
    ISSUES = 3
    NOT_FOUND = 10
    BUSY = 11
    REFUSED = 12
    CORRUPT = 13
    PROVIDER = 14
    INTERRUPTED = 130
    PIPE_CLOSED = 141
    TERMINATED = 143


class OpenClawError(Exception):
    """A run that cannot go on.

    `message` says what is wrong and where, never with text of a transcript; `hint` says what to do next; `facts` are
    named values (paths, numbers) that the JSON form of the error carries beside the message.
    """

    exit: ClassVar[Exit] = Exit.FAILED
    code: ClassVar[str] = "failed"

    def __init__(self, message: str, *, hint: str | None = None, code: str | None = None, **facts: Any) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint
        self.facts = facts
        if code is not None:
            self.code = code  # type: ignore[misc]  # narrows the class's code for one occasion

    def as_json(self) -> dict[str, Any]:
        """The failure document of `--json` (design: output)."""
        error: dict[str, Any] = {"type": "cli_error", "code": self.code, "message": self.message, "hint": self.hint}
        error.update(self.facts)
        return {"ok": False, "error": error}


class UsageError(OpenClawError):
    """A wrong option or value on the command line."""

    exit = Exit.USAGE
    code = "usage"


class ConfigError(UsageError):
    """A configuration file that cannot be read or holds a wrong key or value."""

    code = "config_invalid"


class NotATranscriptError(UsageError):
    """The named file holds no JSON line near its beginning."""

    code = "not_a_transcript"


class NotFoundError(OpenClawError):
    """Something that was named explicitly does not exist."""

    exit = Exit.NOT_FOUND
    code = "not_found"


class BusyError(OpenClawError):
    """Somebody else owns the store or the state directory now; the only failure worth a retry."""

    exit = Exit.BUSY
    code = "busy"


class RefusedError(OpenClawError):
    """Going on would be unsafe; the hint names the way out."""

    exit = Exit.REFUSED
    code = "refused"


class NoSpaceError(RefusedError):
    """A file system has not enough room, found out before or while writing."""

    code = "no_space"


class CorruptError(OpenClawError):
    """A database or an archive fails its verification."""

    exit = Exit.CORRUPT
    code = "corrupt"


class ProviderError(OpenClawError):
    """No summarizer or model is usable and falling back is forbidden."""

    exit = Exit.PROVIDER
    code = "provider"


Severity = Literal["error", "warning"]


def escaped(text: str) -> str:
    """`text` as UTF-8 can hold it: bytes of a file name as `\\xef`, lone surrogates of a JSON text as `\\ud800`.

    Text that UTF-8 holds comes back as it is.
    """
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        parts = (f"\\x{ord(each) - 0xDC00:02x}" if "\udc80" <= each <= "\udcff" else each for each in text)
        return "".join(parts).encode("utf-8", "backslashreplace").decode("utf-8")
    return text


@dataclass(frozen=True, slots=True)
class Issue:
    """A finding about one item of a run.

    `error`: content kept out, lost, conflicting or unreadable, or a target that was asked for and missed.
    `warning`: nothing lost. Only errors change the exit status.
    """

    code: str
    severity: Severity
    message: str
    session_key: str | None = None
    facts: Mapping[str, Any] = field(default_factory=dict)

    def as_json(self) -> dict[str, Any]:
        """OpenClaw's keys (`code`, `message`, `sessionKey?`) and ours (`severity`, the facts)."""
        document: dict[str, Any] = {"code": self.code, "message": self.message, "severity": self.severity}
        if self.session_key is not None:
            document["sessionKey"] = self.session_key
        return {**document, **self.facts}


def status_of(issues: Iterable[Issue], failures: Iterable[OpenClawError] = ()) -> Exit:
    """The exit status of a run over several items: the highest of 13, 12, 11, 3 that occurred, else 0."""
    found = [failure.exit for failure in failures]
    found.extend(Exit.ISSUES for issue in issues if issue.severity == "error")
    return max(found, default=Exit.OK)
