"""Giving the rows of a session key another key (store format §2: one key in another spelling closes a store).

Every table that names a session by its key goes along. What cannot, because the new key has such a row already, is
handed to the caller before it goes.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from openclaw_cli.storage.connection import Store

_LINKS = ("session_key", "run_session_key", "source_session_key", "parent_session_key", "spawned_by")
# Their rows follow from others: the node's columns from its entry, the pending list from triggers.
_DERIVED = ("session_nodes", "session_canonical_validation_pending", "session_key_contract")


def rename_key(store: Store, old: str, new: str) -> list[dict[str, Any]]:
    """Move all rows of `old` to `new` inside the caller's transaction; the caller then writes the node's entry anew.

    Where `new` has a node, that one stays, and the sessions of `old` become history of `new`. Gives the rows that had
    to give way (the node of `old`, and rows whose place is taken), each as `{table, row}`.
    """
    # A child may move before or after its parent; what holds is looked at when the transaction ends.
    store.execute("PRAGMA defer_foreign_keys = ON").fetchall()
    taken = store.value("SELECT 1 FROM session_nodes WHERE session_key = ?", (new,)) is not None
    if not taken:
        store.execute("UPDATE session_nodes SET session_key = ? WHERE session_key = ?", (new, old))
    for table, column in _references(store):
        store.execute(f'UPDATE OR IGNORE "{table}" SET "{column}" = ? WHERE "{column}" = ?', (new, old))
    if not taken:
        return []
    left = list(_left(store, old))
    for table in dict.fromkeys(each["table"] for each in left):
        store.execute(f'DELETE FROM "{table}" WHERE session_key = ?', (old,))
    return left


def _references(store: Store) -> Iterator[tuple[str, str]]:
    sql = (
        "SELECT m.name, c.name FROM sqlite_schema m JOIN pragma_table_info(m.name) c"
        f" WHERE m.type = 'table' AND c.name IN ({','.join('?' * len(_LINKS))}) ORDER BY m.name, c.cid"
    )
    for table, column in store.execute(sql, _LINKS).fetchall():
        if table not in _DERIVED:
            yield table, column


def _left(store: Store, key: str) -> Iterator[dict[str, Any]]:
    """What still has the old key, tables without the node first, so that nothing is deleted behind its back."""
    tables = [table for table, column in _references(store) if column == "session_key"]
    for table in (*tables, "session_nodes"):
        cursor = store.execute(f'SELECT * FROM "{table}" WHERE session_key = ?', (key,))
        for row in cursor.fetchall():
            names = [name for name, _ in _columns(store, table)]
            yield {"table": table, "row": dict(zip(names, row, strict=True))}


def _columns(store: Store, table: str) -> list[tuple[str, int]]:
    return store.execute("SELECT name, cid FROM pragma_table_info(?) ORDER BY cid", (table,)).fetchall()
