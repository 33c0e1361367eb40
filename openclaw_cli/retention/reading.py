"""Rows of a store as maintenance sees them: the few fields of each entry that a plan asks for, never whole entries."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from openclaw_cli import jstext
from openclaw_cli.errors import Issue
from openclaw_cli.migration.keys import canonical_key, owner_agent
from openclaw_cli.migration.plan import Rules
from openclaw_cli.retention.classify import Row, row_of
from openclaw_cli.sessions.listing import WITHHELD
from openclaw_cli.storage.connection import Store

_FIELDS = (
    *("sessionId", "updatedAt", "lastInteractionAt", "lastActivityAt", "sessionStartedAt", "status", "chatType"),
    *("delivery", "modelSelectionLocked", "archiveReason", "spawnedBy", "parentSessionKey", "label"),
)
_PRESENT = ("archivedAt", "pinnedAt")
"""Fields of which a null counts, too."""

_PATHS = ", ".join(f"'$.{name}'" for name in _FIELDS)
_TYPES = ", ".join(f"CASE WHEN json_valid(entry_json) THEN json_type(entry_json, '$.{name}') END" for name in _PRESENT)
_ROWS = (
    "SELECT session_key, entry_valid, json_valid(entry_json) AND json_type(entry_json) = 'object',"
    f" CASE WHEN json_valid(entry_json) THEN json_extract(entry_json, {_PATHS}) END, {_TYPES}, {WITHHELD}"
    " FROM session_nodes WHERE entry_json <> '{}' ORDER BY session_key"
)
_NAMING = ("sessionId", "sessionFile", "transcriptPath", "compactionCheckpoints")
_NAMES = ", ".join(f"entry_json -> '$.{name}'" for name in _NAMING)


@dataclass(slots=True)
class Rows:
    """The rows of a store. `labels`: key → label; `withheld`: rows that are never named or taken, only counted.

    `total`: every row with an entry, archived ones, withheld ones and those that cannot be judged included.
    """

    rows: list[Row] = field(default_factory=list)
    labels: dict[str, str] = field(default_factory=dict)
    issues: list[Issue] = field(default_factory=list)
    withheld: int = 0
    total: int = 0

    def by_key(self) -> dict[str, Row]:
        """Key → row."""
        return {row.key: row for row in self.rows}


def read(store: Store, agent_id: str, rules: Rules) -> Rows:
    """Every row that may be judged. One that cannot is an issue and stays; the others are judged all the same."""
    found = Rows()
    for key, valid, is_object, values, archived, pinned, withheld in store.execute(_ROWS):
        found.total += 1
        if withheld:
            found.withheld += 1
            continue
        if not is_object:
            message = "its entry is no JSON object; the row stays as it is"
            found.issues.append(Issue("entry_invalid", "error", message, key))
            continue
        problem = _problem(key, valid, agent_id, rules)
        if problem is not None:
            found.issues.append(problem)
            continue
        entry = dict(zip(_FIELDS, jstext.parse(values.encode("utf-8")), strict=True))
        for name, kind in zip(_PRESENT, (archived, pinned), strict=True):
            if kind is not None:
                entry[name] = None
        found.rows.append(row_of(key, {name: value for name, value in entry.items() if _counts(name, value)}))
        if isinstance(entry["label"], str):
            found.labels[key] = entry["label"]
    return found


def _counts(name: str, value: Any) -> bool:
    return value is not None or name in _PRESENT


def _problem(key: str, valid: int, agent_id: str, rules: Rules) -> Issue | None:
    """Why a row is left out of the plan: OpenClaw itself would refuse the store for its key, or not show it."""
    hint = "openclaw-cli doctor fix mends it"
    if valid == 1 and _is_plain(key, agent_id, rules):
        return None
    named = canonical_key(key, agent_id=agent_id, main_key=rules.main_key, scope=rules.scope, agents=rules.agents)
    if named != key:
        message = f"the key is not in OpenClaw's spelling; the row stays as it is; {hint}"
        return Issue("key_not_canonical", "warning", message, key)
    if (owner_agent(key) or agent_id) != agent_id:
        message = f"it is a key of another agent in the store of {agent_id}; the row stays as it is"
        return Issue("key_of_other_agent", "warning", message, key)
    if valid != 1:
        return Issue("entry_not_valid", "warning", f"the row is not marked as valid and stays as it is; {hint}", key)
    return None


def _is_plain(key: str, agent_id: str, rules: Rules) -> bool:
    """Whether a key is in OpenClaw's spelling beyond doubt: of this agent, folded, with no part of its own rules.

    Nearly all are, and taking each apart costs more than all the rest of reading it.
    """
    start = f"agent:{agent_id}:"
    rest = key[len(start) :]
    return (
        key.startswith(start)
        and rest not in ("", "main", rules.main_key)
        and not rest.startswith(":")
        and key == key.lower()
        and key.isprintable()
        and " " not in key
        and "signal:" not in key
        and "matrix:" not in key
        and (rules.agents is None or agent_id in rules.agents)
    )


def active_chain(rows: dict[str, Row], key: str | None) -> frozenset[str]:
    """A key and the keys of its parents, up to the first that is not there (cleanup §5)."""
    found: set[str] = set()
    while key is not None and key not in found:
        found.add(key)
        row = rows.get(key)
        key = None if row is None else row.parent_key
    return frozenset(found)


def entries(store: Store) -> Iterator[dict[str, Any]]:
    """The members of entries that name files and sessions; one at a time."""
    for values in store.execute(f"SELECT {_NAMES} FROM session_nodes WHERE json_valid(entry_json)"):
        yield {
            name: jstext.parse(value.encode("utf-8"))
            for name, value in zip(_NAMING, values, strict=True)
            if value is not None
        }
