"""What a reader of JSONL gives: records, and the damage it met, as values.

Damage is located and counted, never quoted (design D8): file, 1-based line with the header as line 1, byte offset,
number of bytes, kind, and what was done about it.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, NamedTuple

# A file of nothing but damage must not fill the memory with descriptions of it.
MAX_LISTED_DAMAGE = 1000


class Policy(StrEnum):
    """What to do at damage.

    IMPORT: as design D8 has it; a line that is not whole ends the session there, what follows is only counted.
    SCAN: damaged lines are passed over, reading goes on.
    SALVAGE: every whole record is given, also those inside damaged lines and those with bad content.
    """

    IMPORT = "import"
    SCAN = "scan"
    SALVAGE = "salvage"


class Kind(StrEnum):
    """What is wrong with a line."""

    NOT_JSON = "not-json"
    NOT_OBJECT = "not-object"
    TORN_TAIL = "torn-tail"
    NUL_TAIL = "nul-tail"
    NUL_RUN = "nul-run"
    TOO_LONG = "too-long"
    BAD_UTF8 = "bad-utf8"
    SPLICED = "spliced"
    CONTROL_CHAR = "control-char"


class Action(StrEnum):
    """What became of a damaged line."""

    STOPPED = "stopped"
    KEPT_OUT = "kept-out"
    IGNORED = "ignored"
    STORED = "stored"
    SALVAGED = "salvaged"


@dataclass(frozen=True, slots=True)
class Damage:
    """One damaged place. `bytes` counts the line without its line end; `byte_offset` is where it begins."""

    file: str
    line: int
    byte_offset: int
    bytes: int
    kind: Kind
    action: Action

    @property
    def is_error(self) -> bool:
        """Whether content is lost or kept out; a tail that holds no whole record is the normal sign of a crash.

        A salvaged line with bad UTF-8 has lost the bytes that became U+FFFD.
        """
        if self.kind is Kind.NOT_OBJECT or (self.action is Action.SALVAGED and self.kind is not Kind.BAD_UTF8):
            return False
        return not (self.kind in (Kind.TORN_TAIL, Kind.NUL_TAIL) and self.action is Action.IGNORED)

    def as_json(self) -> dict[str, Any]:
        """The form in every report."""
        return {
            "file": self.file,
            "line": self.line,
            "byteOffset": self.byte_offset,
            "bytes": self.bytes,
            "kind": str(self.kind),
            "action": str(self.action),
        }


class Record(NamedTuple):
    """One parsed line.

    `raw` is a byte-true slice of the file, without line end and byte order mark; `offset` is where it begins;
    `line` is 1-based. `value` is what the parser gave: a non-empty dict, unless the policy stores odd values too.
    """

    line: int
    offset: int
    raw: bytes
    value: Any


@dataclass(slots=True)
class Tally:
    """What one reading of one file met. Complete when the iteration has ended; `damage` is current at any time.

    `records`: records given to the caller. `lines_blank`: empty lines, and `null`, `false`, `0`, `""`, which every
    reader of the real program passes over. `lines_lost`: records that are there in part only and that nothing can
    bring back. `lines_salvageable`: whole records that the reading leaves out, or has got back under SALVAGE.
    `stopped_at`: the line at which an import ends, or None. `last_line_open`: the last line has no line end.
    """

    file: str = ""
    bytes_read: int = 0
    lines_total: int = 0
    lines_blank: int = 0
    lines_lost: int = 0
    lines_salvageable: int = 0
    records: int = 0
    stopped_at: int | None = None
    last_line_open: bool = False
    damage: list[Damage] = field(default_factory=list)
    damage_omitted: int = 0
    has_errors: bool = False

    def add(self, damage: Damage) -> None:
        """Note one place; beyond the first 1000 only their number is kept."""
        self.has_errors = self.has_errors or damage.is_error
        if len(self.damage) < MAX_LISTED_DAMAGE:
            self.damage.append(damage)
        else:
            self.damage_omitted += 1
