"""Rows of a store in the form that OpenClaw reads: canonical keys and lineage, entries that are marked as valid.

One row in another spelling makes OpenClaw refuse the whole store (store format §2). Such a row is brought into the
form that an import gives it; all others stay as they are. Where two keys become one, the newer entry is the key's, the
sessions of the other are its history, and the rows that had to give way are written to a file beside the store first.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path
from typing import Any

from openclaw_cli import jstext
from openclaw_cli.config import Target
from openclaw_cli.durable import replace_file
from openclaw_cli.errors import Issue
from openclaw_cli.faults import Step, reached
from openclaw_cli.jstext import dumps
from openclaw_cli.migration.entries import Normalised, normalise
from openclaw_cli.migration.plan import Rules
from openclaw_cli.sessions.listing import WITHHELD
from openclaw_cli.storage import connection, renaming, sessions, verify
from openclaw_cli.storage.connection import Store, Timeouts

_COLUMNS = f"session_key, current_session_id, entry_json, entry_valid, updated_at, {WITHHELD}"
# The newest first: where several keys become one, that one keeps its place and the others join it.
_ROWS = f"SELECT {_COLUMNS} FROM session_nodes ORDER BY updated_at DESC, session_key"
_ROW = f"SELECT {_COLUMNS} FROM session_nodes WHERE session_key = ?"


@dataclass(frozen=True, slots=True)
class RowFix:
    """One row that is brought into form. `action`: `renamed`, `merged` (into a key that exists), `rewritten`.

    Without the entry itself: every row of a large store may need it. `hidden`: the key is never named.
    """

    key: str
    canonical: str
    action: str
    reason: str
    hidden: bool = False

    def as_json(self) -> dict[str, Any]:
        """Its object in a report."""
        return {"sessionKey": self.key, "canonicalKey": self.canonical, "action": self.action, "reason": self.reason}


@dataclass(slots=True)
class Canonicalised:
    """What was, or would be, done to the rows of one store. `kept_path`: the rows that gave way."""

    fixes: list[RowFix]
    issues: list[Issue]
    main_key: str | None = None
    kept_path: Path | None = None

    def as_json(self) -> dict[str, Any]:
        """What a report says; keys that are never listed are only counted."""
        return {
            "rows": [fix.as_json() for fix in self.fixes if not fix.hidden],
            "hiddenRows": sum(fix.hidden for fix in self.fixes),
            "mainKey": self.main_key,
            "keptRowsPath": None if self.kept_path is None else str(self.kept_path),
        }


def preview(target: Target, rules: Rules, now_ms: int) -> Canonicalised:
    """What `act` would do; nothing is written. Raises what `connection.open_read` raises."""
    with connection.open_read(target.sqlite_path, agent_id=target.agent_id) as store:
        return decide(store, target, rules, now_ms)


def act(target: Target, rules: Rules, now_ms: int, timeouts: Timeouts) -> Canonicalised:
    """Bring the rows into form, all of them in one transaction. Raises what `connection.open_write` raises."""
    with connection.open_write(target.sqlite_path, agent_id=target.agent_id, timeouts=timeouts) as store:
        done = decide(store, target, rules, now_ms)
        if not done.fixes and done.main_key is None:
            return done
        with store.transaction():
            # Decided again under the write lock: nobody can change a row between the decision and the write.
            done = decide(store, target, rules, now_ms)
            done.kept_path = _apply_all(store, done.fixes, target, rules, now_ms)
            if done.main_key is not None and not sessions.set_main_key(store, done.main_key, now_ms):
                done.main_key = None
        reached(Step.FIX_ROWS_WRITTEN)
        return done


def decide(store: Store, target: Target, rules: Rules, now_ms: int) -> Canonicalised:
    """Every row that is not in form, and what becomes of it."""
    found = Canonicalised([], [])
    differing = _differing(store)
    present = {key for (key,) in store.execute("SELECT session_key FROM session_nodes")}
    for values in store.execute(_ROWS):
        row = _Row(*values)
        normal = row.normal(target, rules, now_ms)
        named = None if row.hidden else row.key
        if normal is None:
            message = (
                f"the entry of session {row.session_id} is no JSON object; it stays, and OpenClaw does not list it"
            )
            found.issues.append(Issue("entry_invalid", "error", message, named))
        elif normal.agent_id != target.agent_id:
            message = f"it is a key of agent {normal.agent_id}, and stays in the store of agent {target.agent_id}"
            found.issues.append(Issue("key_of_other_agent", "warning", message, named))
        elif normal.entry is None:
            errors = (issue for issue in normal.problems if issue.severity == "error")
            found.issues.extend(replace(issue, session_key=named) for issue in errors)
        elif (fix := _fix(row, normal, present, differing)) is not None:
            found.fixes.append(fix)
            present = (present - {row.key}) | {fix.canonical}
    stored_main = store.value("SELECT main_key FROM session_key_contract WHERE id = 1")
    if stored_main is not None and stored_main != rules.main_key:
        found.main_key = rules.main_key
    return found


@dataclass(frozen=True, slots=True)
class _Row:
    key: str
    session_id: str
    text: str
    valid: int
    updated_at: int
    hidden: int

    @property
    def placeholder(self) -> bool:
        return self.text == sessions.PLACEHOLDER

    def normal(self, target: Target, rules: Rules, now_ms: int) -> Normalised | None:
        """The row as an import would store it; None when its entry is no object."""
        # A key without an entry is judged by its name alone.
        entry: object = {"sessionId": self.session_id, "updatedAt": self.updated_at}
        if not self.placeholder:
            try:
                entry = jstext.parse(self.text.encode("utf-8"))
            except ValueError:
                return None
        if not isinstance(entry, dict):
            return None
        return normalise(
            entry,
            key=self.key,
            agent_id=target.agent_id,
            main_key=rules.main_key,
            now_ms=now_ms,
            scope=rules.scope,
            agents=rules.agents,
        )


def _differing(store: Store) -> set[str]:
    """Keys and session ids of rows whose columns are not those that follow from the entry."""
    return {str(item.key[0]) for item in verify.verify_nodes(store) if item.column not in ("entry_valid", "entry_json")}


def _fix(row: _Row, normal: Normalised, present: set[str], differing: set[str]) -> RowFix | None:
    action, reason = "rewritten", ""
    if normal.key != row.key:
        action = "merged" if normal.key in present else "renamed"
        reason = "the key is not in OpenClaw's spelling"
    elif row.placeholder:
        return None
    elif any(issue.code in ("key_canonicalised", "lineage_dropped") for issue in normal.problems):
        reason = "it names another session by a key that is not in OpenClaw's spelling"
    elif row.valid != 1:
        reason = "it is not marked as valid"
    elif row.key in differing or row.session_id in differing:
        reason = "its columns do not mirror its entry"
    return RowFix(row.key, normal.key, action, reason, bool(row.hidden)) if reason else None


def _apply_all(store: Store, fixes: list[RowFix], target: Target, rules: Rules, now_ms: int) -> Path | None:
    """Make the changes while what they replace is written to a file, which is durable before they are."""
    replaced = (row for fix in fixes for row in _apply(store, fix, target, rules, now_ms))
    first = next(replaced, None)
    if first is None:
        return None
    path = _free_name(target.sqlite_path, now_ms)
    replace_file(path, (dumps(_plain(row)) + b"\n" for row in chain((first,), replaced)))
    reached(Step.FIX_ROWS_KEPT)
    return path


def _apply(store: Store, fix: RowFix, target: Target, rules: Rules, now_ms: int) -> Iterator[dict[str, Any]]:
    """Bring one row into form; gives the rows that are not what or where they were, as they were."""
    row = _Row(*(store.execute(_ROW, (fix.key,)).fetchone() or ()))
    normal = row.normal(target, rules, now_ms)
    before = {key: _node(store, key) for key in (fix.key, fix.canonical)}
    merged = fix.canonical != fix.key and before[fix.canonical] is not None
    if fix.canonical != fix.key:
        yield from renaming.rename_key(store, fix.key, fix.canonical)
    if not row.placeholder and normal is not None and normal.entry is not None:
        if fix.canonical == fix.key:
            # A row that is valid and has this text would be taken as written.
            store.execute("UPDATE session_nodes SET entry_valid = 0 WHERE session_key = ?", (fix.key,))
        # A row of the same key is replaced whatever its time; one of another key only by a newer one.
        sessions.write_entry(store, fix.canonical, normal.entry, now_ms=now_ms, prefer_index=not merged)
    kept = before[fix.canonical] if merged else before[fix.key]
    after = _node(store, fix.canonical)
    if kept is not None and after is not None and _says_more(kept["entry_json"], after["entry_json"]):
        yield {"table": "session_nodes", "row": kept}


def _says_more(before: str, after: str) -> bool:
    """Whether the entry that was there says anything that the present one does not; what was added does not count."""
    if before in (after, sessions.PLACEHOLDER):
        return False
    old, new = jstext.parse(before.encode("utf-8")), jstext.parse(after.encode("utf-8"))
    return any(name not in new or new[name] != value for name, value in old.items())


def _node(store: Store, key: str) -> dict[str, Any] | None:
    cursor = store.execute("SELECT * FROM session_nodes WHERE session_key = ?", (key,))
    row = cursor.fetchone()
    if row is None:
        return None
    names = store.execute("SELECT name FROM pragma_table_info('session_nodes') ORDER BY cid").fetchall()
    return dict(zip((name for (name,) in names), row, strict=True))


def _plain(row: dict[str, Any]) -> dict[str, Any]:
    """Bytes as hexadecimal, since JSON has none."""
    values = {name: value.hex() if isinstance(value, bytes) else value for name, value in row["row"].items()}
    return {"table": row["table"], "row": values}


def _free_name(path: Path, stamp: int) -> Path:
    kept, number = path.with_name(f"{path.name}.replaced-{stamp}.jsonl"), 0
    while kept.exists():
        number += 1
        kept = path.with_name(f"{path.name}.replaced-{stamp}.{number}.jsonl")
    return kept


def words_of(found: Canonicalised, *, dry_run: bool) -> Iterator[str]:
    """Lines of the report for people."""
    for fix in found.fixes:
        if not fix.hidden:
            word = f"would be {fix.action}" if dry_run else fix.action
            to = f" to {fix.canonical}" if fix.canonical != fix.key else ""
            yield f"  row {fix.key}: {word}{to}: {fix.reason}"
    hidden = sum(fix.hidden for fix in found.fixes)
    if hidden:
        yield f"  {hidden} row(s) that are never listed: {'would be ' if dry_run else ''}brought into form"
    if found.main_key is not None:
        yield f"  main sessions {'would be' if dry_run else 'are'} called {found.main_key}"
    if found.kept_path is not None:
        yield f"  rows that gave way: {found.kept_path}"
