"""What a recovered store still lacks of the damaged one, told by rows that say of others that they were there.

Identity rows lie on pages of their own and name every event that has an id. A key whose row is lost is there as a
placeholder as long as nobody brought its row back.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from openclaw_cli.storage import connection, shapes
from openclaw_cli.storage.pages import Pages
from openclaw_cli.storage.salvaging import Salvaged

_PROVABLE = frozenset(("transcript_events", "session_nodes", "session_windows"))
_HARMLESS = frozenset((*shapes.DERIVED, "sqlite_schema", "transcript_rewrite_watermarks"))


@dataclass(frozen=True, slots=True)
class Losses:
    """Events and keys that are gone. `tables`: where rows may be gone that nothing tells of; "" is an unknown one."""

    events: int
    keys: int
    tables: tuple[str, ...]

    def __bool__(self) -> bool:
        return bool(self.events or self.keys or self.tables)


def still_lost(copy: Path, new: Path, salvaged: Salvaged) -> Losses:
    """Compare the damaged file with the store that was made of it, once everything else has been brought back."""
    damaged = salvaged.lost_in | set(salvaged.refused)
    tables = damaged - _PROVABLE - _HARMLESS
    if "transcript_events" in damaged and "transcript_event_identities" in damaged:
        tables.add("transcript_events")
    with Pages(copy) as pages, connection.open_read(new) as store:
        leaves = shapes.layout(pages).leaves
        known = "SELECT 1 FROM transcript_event_identities WHERE session_id = ? AND event_id = ?"
        events = sum(
            store.value(known, cell.values[:2]) is None
            for number in leaves.get("transcript_event_identities", ())
            for cell in pages.cells(number, [])
        )
        column = shapes.tables()["session_nodes"].columns.index("entry_valid")
        before = {
            cell.values[0]
            for number in leaves.get("session_nodes", ())
            for cell in pages.cells(number, [])
            if cell.values[column] == -1
        }
        bare = store.execute("SELECT session_key FROM session_nodes WHERE entry_valid = -1")
        keys = sum(key not in before for (key,) in bare)
    return Losses(events, keys, tuple(sorted(tables)))
