"""The database file: damage, its log, unused pages, incremental vacuum (field reports 51–58)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any

from openclaw_cli.checks import remedies
from openclaw_cli.checks.finding import MOST_NAMED, Finding
from openclaw_cli.checks.scope import Scope
from openclaw_cli.sessions.listing import WITHHELD
from openclaw_cli.storage import schema, verify
from openclaw_cli.storage import space as disk
from openclaw_cli.storage.connection import Store

LOG_LIMIT_BYTES = 64 * 2**20
"""OpenClaw cuts the log back to this size at each complete checkpoint (store format §3.1)."""

CHECKPOINT_PAGES = 1000
"""OpenClaw tries a checkpoint at so many pages of log."""

FREE_SHARE, FREE_PAGES = 0.2, 256
"""Unused pages of this share and number are worth a compaction."""


def pages(store: Store, scope: Scope) -> Iterator[Finding]:
    """The log that does not shrink, unused pages, incremental vacuum."""
    found = disk.measure(store)
    command = remedies.of(scope.agent_id, "compact")
    evidence: dict[str, Any] = {
        "sqlitePath": str(store.path),
        "databaseBytes": found.database_bytes,
        "walBytes": found.wal_bytes,
        "pages": found.pages,
        "freePages": found.freelist_pages,
        "pageSizeBytes": found.page_size_bytes,
        "autoVacuum": disk.AUTO_VACUUM[found.auto_vacuum],
    }
    twice = 2 * max(CHECKPOINT_PAGES * found.page_size_bytes, found.database_bytes)
    if found.wal_bytes > min(LOG_LIMIT_BYTES, twice):
        message = (
            f"{store.path}: its log has {found.wal_bytes} bytes; a reader that stays keeps it from being written back"
        )
        advice = "Find the program that holds the database open (lsof), end it, then compact with the gateway stopped"
        yield Finding("wal_large", "warning", message, None, evidence, advice, command)
    if found.auto_vacuum != 2:
        message = f"{store.path}: incremental vacuum is off, the file never shrinks"
        advice = "It takes effect with a full VACUUM only, which needs twice the size of the database free"
        yield Finding("auto_vacuum_off", "warning", message, None, evidence, advice, command)
    if found.freelist_pages >= max(FREE_PAGES, FREE_SHARE * found.pages):
        message = f"{store.path}: {found.freelist_pages} of {found.pages} pages hold nothing"
        advice = "What was deleted still takes room on the disk"
        yield Finding("free_pages", "warning", message, None, evidence, advice, command)


def damage(store: Store, scope: Scope) -> Iterator[Finding]:
    """What SQLite's full check finds, and logs that are not applied."""
    command = remedies.of(scope.agent_id, "recover")
    for issue in store.issues:
        yield Finding(issue.code, issue.severity, issue.message, None, dict(issue.facts), "It is put aside", command)
    # One text may have many lines, the first of which names the database.
    found = [line for text in verify.integrity(store) for line in text.splitlines() if not line.startswith("***")]
    if found:
        message = f"{store.path}: SQLite's full check has {len(found)} line(s), the first: {found[0]}"
        evidence = {"sqlitePath": str(store.path), "count": len(found), "lines": found[:MOST_NAMED]}
        advice = "Stop the gateway; what is readable can be written out first with --export-readable DIR"
        yield Finding("store_damaged", "error", message, None, evidence, advice, command)


def derived(store: Store, scope: Scope) -> Iterator[Finding]:
    """What does not follow from the events: search, active path, identities, mirrored columns, by table."""
    if store.schema_version != schema.VERSION:
        message = f"{store.path} has schema {store.schema_version}; {schema.VERSION} is known, it was checked in part"
        evidence = {"sqlitePath": str(store.path), "schemaVersion": store.schema_version}
        yield Finding("schema_version", "warning", message, None, evidence, "Use the release that wrote it")
        return
    counts: Counter[str] = Counter()
    named: dict[str, list[Any]] = {}
    for item in verify.verify(store):
        counts[item.table] += 1
        rows = named.setdefault(item.table, [])
        if len(rows) < MOST_NAMED and not _is_withheld(store, item.key[0]):
            rows.append({"key": list(item.key), "column": item.column})
    for table, count in counts.items():
        mirrors = table in ("session_nodes", "session_windows")
        message = f"{store.path}: {count} value(s) of {table} do not follow from what they are made of"
        evidence = {"sqlitePath": str(store.path), "table": table, "count": count, "rows": named[table]}
        if mirrors:
            advice = "Columns differ from the entry that they mirror; the row is written anew from it"
            command = remedies.of(scope.agent_id, "fix")
            yield Finding("columns_differ", "error", message, None, evidence, advice, command)
        else:
            advice = "They are made anew from the events; no event changes"
            command = remedies.of(scope.agent_id, "recover")
            yield Finding("projection_differs", "error", message, None, evidence, advice, command)


def _is_withheld(store: Store, name: Any) -> bool:
    """Whether a session key or id is one that is never named."""
    sql = (
        f"SELECT 1 FROM session_nodes WHERE {WITHHELD} AND (session_key = ?1 OR session_key IN"
        " (SELECT session_key FROM session_windows WHERE session_id = ?1)) LIMIT 1"
    )
    return store.value(sql, (name,)) is not None
