"""Which table a damaged page belongs to: by its tree where the schema can be read, else by the shape of its rows."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any

from openclaw_cli.storage import schema
from openclaw_cli.storage.pages import FREE, Cell, Lost, Pages, Value

DERIVED = frozenset(
    (
        "session_canonical_validation_pending",
        "session_transcript_active_events",
        "session_transcript_fts_rows",
        "session_transcript_index_state",
        "transcript_event_identities",
    )
)
"""Tables whose rows follow from others."""

_SAMPLE_ROWS = 32
_KINDS: dict[str, tuple[type, ...]] = {"TEXT": (str,), "INTEGER": (int,), "REAL": (float, int), "BLOB": (bytes,)}


@dataclass(frozen=True, slots=True)
class Table:
    """A table of the schema as its rows are stored. `rowid_column`: the column that is the rowid, stored as NULL."""

    name: str
    columns: tuple[str, ...]
    kinds: tuple[tuple[type, ...], ...]
    required: tuple[bool, ...]
    rowid_column: int | None

    def fits(self, values: Sequence[Value]) -> bool:
        """Whether a row with these stored values can be one of this table."""
        return len(values) == len(self.columns) and all(map(self._fits, range(len(values)), values))

    def _fits(self, position: int, value: Value) -> bool:
        if position == self.rowid_column:
            return value is None
        return not self.required[position] if value is None else isinstance(value, self.kinds[position])

    def row(self, cell: Cell) -> tuple[Value, ...]:
        """The row of a cell as it is inserted: with its rowid, and NULL for columns that the table got later."""
        values = [*cell.values, *[None] * (len(self.columns) - len(cell.values))]
        if self.rowid_column is not None:
            values[self.rowid_column] = cell.rowid
        return tuple(values[: len(self.columns)])


@dataclass(slots=True)
class Layout:
    """The leaf pages of each table, in the order of its tree as far as that is known; and what could not be read.

    `lost`: by table, "" where that is not known.
    """

    leaves: dict[str, list[int]] = field(default_factory=dict)
    lost: dict[str, list[Lost]] = field(default_factory=dict)
    strangers: list[str] = field(default_factory=list)


@cache
def tables() -> Mapping[str, Table]:
    """The tables of the schema by name, in the order in which a store creates them."""
    return {table["name"]: _table(table) for table in schema.description()["tables"]}


def _table(table: Mapping[str, Any]) -> Table:
    columns = table["columns"]
    rowid = [
        position
        for position, column in enumerate(columns)
        if column["type"] == "INTEGER" and any("PRIMARY KEY" in str(each).upper() for each in column["constraints"])
    ]
    return Table(
        table["name"],
        tuple(column["name"] for column in columns),
        tuple(_KINDS.get(column["type"], (int, float, str, bytes)) for column in columns),
        tuple(any("NOT NULL" in str(each).upper() for each in column["constraints"]) for column in columns),
        rowid[0] if rowid else None,
    )


def layout(pages: Pages) -> Layout:
    """Find the leaf pages of every table of the schema. Unused pages are never looked at: their rows were deleted."""
    found = Layout()
    roots = _roots(pages, found.lost.setdefault("sqlite_schema", []))
    seen = bytearray(pages.count + 1)
    for name, root in roots.items():
        if name not in tables():
            found.strangers.append(name)
        for number in pages.leaves(root, found.lost.setdefault(name, []) if name in tables() else []):
            if not seen[number]:
                seen[number] = 1
                found.leaves.setdefault(name, []).append(number)
    _adopt(pages, roots, seen, found)
    return found


def _roots(pages: Pages, lost: list[Lost]) -> dict[str, int]:
    """The root page of every table that the schema names, where the schema can be read."""
    roots: dict[str, int] = {}
    leaves = list(pages.leaves(1, lost))
    # A branch of the schema that cannot be followed may have leaves that can be found all the same.
    leaves += [n for n in range(2, pages.count + 1) if n not in leaves and pages.root_of(n) == 1 and pages.is_leaf(n)]
    for number in leaves:
        for cell in pages.cells(number, lost):
            values = cell.values
            if len(values) == 5 and values[0] == "table" and isinstance(values[1], str) and isinstance(values[3], int):
                sql = values[4]
                # A table without rowids is a tree of another kind; the search index has some.
                if values[3] and isinstance(sql, str) and "WITHOUT ROWID" not in sql.upper():
                    roots.setdefault(values[1], values[3])
    return roots


def _adopt(pages: Pages, roots: Mapping[str, int], seen: bytearray, found: Layout) -> None:
    """Give each leaf that no tree led to a table: that of its root, else the one whose rows look like its own."""
    names = {root: name for name, root in roots.items()}
    groups: dict[int, list[int]] = {}
    unused = bytearray(pages.count + 1)
    pages.mark_free(unused)
    for number in range(2, pages.count + 1):
        if seen[number] or not pages.is_leaf(number):
            continue
        entry = pages.kind_and_parent(number)
        # Where the map is silent the list of unused pages has the word: a deleted row must not come back.
        if unused[number] if entry is None else entry[0] in (FREE, 3, 4):
            continue
        root = pages.root_of(number)
        if root in names:
            found.leaves.setdefault(names[root], []).append(number)
        elif root != 1:
            # Without a word of the pointer map each page is a group of its own.
            groups.setdefault(root if root is not None else -number, []).append(number)
    taken: set[str] = set()
    for root in sorted(groups, key=lambda root: (root < 0, root)):
        name = _by_shape(pages, groups[root], root, roots, taken)
        if name is None:
            found.lost.setdefault("", []).extend(Lost(number, None) for number in groups[root])
            continue
        if root > 0:
            taken.add(name)
        found.leaves.setdefault(name, []).extend(groups[root])


def _by_shape(pages: Pages, numbers: Sequence[int], root: int, roots: Mapping[str, int], taken: set[str]) -> str | None:
    """The table that the rows of these pages can belong to. Trees of unknown tables come in the order of creation."""
    sample = list(_sample(pages, numbers))
    if not sample:
        return None
    fitting = [name for name, table in tables().items() if all(table.fits(cell.values) for cell in sample)]
    if root < 0:
        return fitting[0] if len(fitting) == 1 else None
    free = [name for name in fitting if name not in roots and name not in taken]
    if len(free) > 1:
        order = list(tables())
        before = [order.index(name) for name, known in roots.items() if name in tables() and known < root]
        behind = [order.index(name) for name, known in roots.items() if name in tables() and known > root]
        low, high = max(before, default=-1), min(behind, default=len(order))
        free = [name for name in free if low < order.index(name) < high] or free
    return free[0] if free else None


def _sample(pages: Pages, numbers: Sequence[int]) -> Iterator[Cell]:
    count = 0
    for number in numbers:
        for cell in pages.cells(number, []):
            yield cell
            count += 1
            if count == _SAMPLE_ROWS:
                return
