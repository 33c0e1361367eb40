"""All checks, in the order in which they run. A new one is written in the module of its family and named here."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from openclaw_cli.checks import budget, entries, files, keys, pairs, silent, space, tree
from openclaw_cli.checks.finding import Finding
from openclaw_cli.checks.scope import Scope, Session, Watcher
from openclaw_cli.storage.connection import Store

StoreCheck = Callable[[Store, Scope], Iterator[Finding]]
SessionCheck = Callable[[Store, Scope, Session], Iterator[Finding]]
FileCheck = Callable[[Store | None, Scope], Iterator[Finding]]

WHOLE: tuple[StoreCheck, ...] = (space.damage, space.pages)
"""Checks of the database file; the first may find that nothing else can be believed."""

STORE: tuple[StoreCheck, ...] = (keys.keys, entries.transcripts, space.derived)
SESSION: tuple[SessionCheck, ...] = (tree.parents,)
"""Checks of one session by queries."""

WATCHERS: tuple[Callable[[Scope, Session], Watcher], ...] = (tree.Beginning, pairs.Pairs, budget.Budget, silent.Silent)
"""Checks that follow the events of one session; all of them share one reading."""

FILES: tuple[FileCheck, ...] = (files.stale_index, files.transcripts)
"""Checks of what lies beside a store, with or without a database."""
