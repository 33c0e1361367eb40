"""Opening a store, for reading or writing, and creating one; SQLite's failures become ours here and nowhere else.

Rules (design §8): readers open with the READONLY flag and `query_only`, trust no schema, and look at role, owner and
required tables before any row is believed; writers accept schema 23 with every canonical object or refuse. Persistent
pragmas are set only on a store that is created here.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

import apsw

from openclaw_cli import faults
from openclaw_cli.durable import adopt_owner, fsync_dir, make_dir, sync_file
from openclaw_cli.errors import Issue, NotFoundError, OpenClawError, RefusedError
from openclaw_cli.storage import schema
from openclaw_cli.storage.failures import fail

REQUIRED_TABLES = ("schema_meta", "session_nodes", "session_windows", "transcript_events")
"""Without these a database is no agent store, whatever its version."""

SQLITE_VERSION: str = apsw.sqlite_lib_version()
PROGRESS_STEPS = 200_000
"""Virtual machine steps between two looks at pending signals (about every 10 ms)."""


@dataclass(frozen=True, slots=True)
class Timeouts:
    """Limits of a writer, in milliseconds; only `OPENCLAW_SESSION_WRITE_LOCK_*` changes them (read in config)."""

    acquire_ms: int = 60_000
    stale_ms: int = 1_800_000
    max_hold_ms: int = 300_000


class _Cursor(apsw.Cursor):
    """A cursor that raises our errors, while executing and while rows are fetched."""

    def execute(self, *args: Any, **kwargs: Any) -> _Cursor:
        try:
            return super().execute(*args, **kwargs)
        except apsw.Error as error:
            self._fail(error)

    def executemany(self, *args: Any, **kwargs: Any) -> _Cursor:
        try:
            return super().executemany(*args, **kwargs)
        except apsw.Error as error:
            self._fail(error)

    def __next__(self) -> tuple[Any, ...]:
        try:
            return super().__next__()
        except apsw.Error as error:
            self._fail(error)

    def fetchone(self) -> tuple[Any, ...] | None:
        try:
            return super().fetchone()
        except apsw.Error as error:
            self._fail(error)

    def fetchall(self) -> list[tuple[Any, ...]]:
        try:
            return super().fetchall()
        except apsw.Error as error:
            self._fail(error)

    def _fail(self, error: apsw.Error) -> NoReturn:
        fail(error, Path(self.connection.filename or ":memory:"))


class Store:
    """One open agent database.

    `agent_id` and `schema_version` are what the database says of itself. `issues` are findings about the store as a
    whole (`foreign_wal`) that a reader puts into its report.
    """

    __slots__ = ("agent_id", "connection", "issues", "path", "schema_version", "timeouts", "writable")

    def __init__(self, connection: apsw.Connection, path: Path, *, writable: bool, timeouts: Timeouts) -> None:
        self.connection = connection
        self.path = path
        self.writable = writable
        self.timeouts = timeouts
        self.agent_id: str | None = None
        self.schema_version = 0
        self.issues: tuple[Issue, ...] = ()

    def execute(self, sql: str, bindings: Sequence[Any] = ()) -> _Cursor:
        """Run `sql`; rows come from the cursor as plain tuples while it is iterated."""
        return self.connection.cursor().execute(sql, bindings)

    def execute_once(self, sql: str, bindings: Sequence[Any]) -> None:
        """Run a statement whose long values must not live on: one that is kept for the next use keeps its values."""
        self.connection.cursor().execute(sql, bindings, can_cache=False)

    def executemany(self, sql: str, rows: Any, *, keep: bool = True) -> None:
        """Run `sql` once for each tuple of `rows`; `keep=False` as in `execute_once`."""
        self.connection.cursor().executemany(sql, rows, can_cache=keep)

    def value(self, sql: str, bindings: Sequence[Any] = ()) -> Any:
        """First column of the first row, or None."""
        row = self.connection.cursor().execute(sql, bindings).fetchone()
        return None if row is None else row[0]

    def changes(self) -> int:
        """Rows that the last statement changed, without those of triggers."""
        return self.connection.changes()

    @contextmanager
    def transaction(self) -> Iterator[Store]:
        """BEGIN IMMEDIATE … COMMIT; any exception rolls everything back. Inside another one it is a savepoint."""
        try:
            with self.connection:
                yield self
        except apsw.Error as error:
            # A full disk ends the transaction inside SQLite; the savepoint is gone then, and its rollback fails on top
            # of the failure that matters.
            first = error.__context__
            if isinstance(first, OpenClawError) and not self.connection.in_transaction:
                raise first from first.__cause__
            fail(error, self.path)

    def in_transaction(self) -> bool:
        """Whether a transaction is open on this connection."""
        return self.connection.in_transaction

    def close(self) -> None:
        """Close the file; a writer that is the last one lets SQLite write the log back."""
        try:
            self.connection.close()
        except apsw.Error as error:
            fail(error, self.path)

    def __enter__(self) -> Store:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def require_safe_sqlite(version: str | None = None) -> None:
    """Refuse a SQLite that can lose a reset log or cannot evaluate the schema's checks (store format §3.1).

    Raises RefusedError unless `version` (default: the linked one) is ≥ 3.51.3, or 3.50.7+ / 3.44.6+ in their lines.
    """
    text = version or SQLITE_VERSION
    major, minor, patch, *_ = (int(part) for part in [*text.split("."), "0", "0"])
    fixed = {50: 7, 44: 6}
    if (major, minor, patch) >= (3, 51, 3) or (major == 3 and minor in fixed and patch >= fixed[minor]):
        return
    raise RefusedError(
        f"SQLite {text} can damage a store in WAL mode", hint="install apsw 3.51.3 or later", version=text
    )


def open_read(path: Path, *, agent_id: str | None = None, temporary_tables: bool = False) -> Store:
    """Open the store at `path` for reading; nothing in the file changes.

    `temporary_tables` leaves `query_only` off, as `verify` needs. A log that belongs to another database is not
    applied: the store then shows the main file alone and `issues` has a `foreign_wal`. Raises NotFoundError,
    CorruptError, or RefusedError when the database is no agent store or belongs to another agent than `agent_id`.
    """
    _require_file(path)
    foreign = foreign_wal(path)
    try:
        store = _identified(path, agent_id, immutable=foreign is not None, query_only=not temporary_tables)
    except RefusedError as error:
        if error.code != "not_openable" or _has_log(path):
            raise
        # Where SQLite may not create its shared memory (a directory that is read-only), a file without log is whole.
        store = _identified(path, agent_id, immutable=True, query_only=not temporary_tables)
    if foreign is not None:
        store.issues = (foreign,)
    return store


def open_write(path: Path, *, agent_id: str | None, timeouts: Timeouts | None = None) -> Store:
    """Open the store at `path` for writing.

    Raises NotFoundError, CorruptError, BusyError, or RefusedError: another schema than 23, a canonical object missing
    or different, another role or agent, a log that belongs to another database, an unsafe SQLite.
    """
    require_safe_sqlite()
    _require_file(path)
    foreign = foreign_wal(path)
    if foreign is not None:
        raise RefusedError(foreign.message, hint="openclaw-cli doctor recover puts it aside", code="foreign_wal")
    limits = timeouts or Timeouts()
    store = _connect(path, apsw.SQLITE_OPEN_READWRITE, writable=True, timeouts=limits)
    return _checked(store, lambda: _prepare_writer(store, agent_id))


def open_repair(path: Path, *, agent_id: str, timeouts: Timeouts | None = None) -> Store:
    """As `open_write`, for a store whose schema lacks objects: whoever repairs it puts them back."""
    require_safe_sqlite()
    _require_file(path)
    store = _connect(path, apsw.SQLITE_OPEN_READWRITE, writable=True, timeouts=timeouts or Timeouts())
    return _checked(store, lambda: _identify(store, agent_id))


def check_writable(path: Path, *, agent_id: str | None) -> None:
    """Raise what `open_write` would raise for this store, except that it is busy; the file is only read."""
    require_safe_sqlite()
    with open_read(path, agent_id=agent_id) as store:
        for issue in store.issues:
            raise RefusedError(issue.message, hint="openclaw-cli doctor recover puts it aside", code=issue.code)
        require_current_schema(store)


def create(path: Path, *, agent_id: str, now_ms: int, timeouts: Timeouts | None = None) -> Store:
    """Create an empty store of schema 23 for `agent_id` and open it for writing.

    It is built beside its final name and appears there whole: a run that is killed leaves nothing or a usable store.
    Directories get mode 0700, the file 0600. Raises RefusedError when `path` exists.
    """
    require_safe_sqlite()
    if path.exists():
        raise RefusedError(f"{path} exists already", code="exists", path=str(path))
    _make_directories(path.parent)
    building = remove_unfinished(path)
    os.close(os.open(building, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600))
    _build(building, agent_id, now_ms)
    _publish(building, path)
    faults.reached(faults.Step.DATABASE_CREATED)
    return open_write(path, agent_id=agent_id, timeouts=timeouts)


def remove_unfinished(path: Path) -> Path:
    """Remove what a killed run left of creating the store at `path`; gives the name under which it is built."""
    building = path.with_name(path.name + ".creating")
    for suffix in ("", "-wal", "-shm", "-journal"):
        left = building.with_name(building.name + suffix)
        if left.exists():  # A read-only file system refuses also to remove what is not there.
            left.unlink()
    return building


def foreign_wal(path: Path) -> Issue | None:
    """Whether the `-wal` beside `path` belongs to another database; None when there is none or it fits.

    A log carries no name of its database. It is foreign when its page size differs from the file's, or when the file
    alone is an agent store and read through the log is none or says another identity (role, agent, creation).
    """
    log = path.with_name(path.name + "-wal")
    try:
        with log.open("rb") as handle:
            header = handle.read(32)
        with path.open("rb") as handle:
            main_header = handle.read(100)
    except FileNotFoundError:
        return None
    if min(len(header) - 32, len(main_header) - 100) < 0:
        return None
    if int.from_bytes(header[8:12], "big") != _page_size(main_header):
        return _foreign_issue(path, "its page size is another")
    alone = _identity(path, immutable=True)
    if alone is not None and _identity(path, immutable=False) != alone:
        return _foreign_issue(path, "read through it the file is no longer this store")
    return None


def persistent_differences(store: Store) -> dict[str, tuple[Any, Any]]:
    """Persistent pragmas that are not as in a store of the real program: name → (wanted, found)."""
    wanted = schema.description()["pragmas"]
    found = {name: store.connection.pragma(name) for name in wanted}
    return {name: (value, found[name]) for name, value in wanted.items() if value != found[name]}


def _require_file(path: Path) -> None:
    if not path.is_file():
        raise NotFoundError(f"there is no store at {path}", path=str(path))


def _connect(path: Path, flags: int, *, writable: bool, timeouts: Timeouts, name: str | None = None) -> Store:
    """A connection with the pragmas that every use has; nothing is read yet."""
    try:
        connection = apsw.Connection(name or str(path), flags=flags)
    except apsw.Error as error:
        fail(error, path)
    connection.cursor_factory = _Cursor
    connection.transaction_mode = "IMMEDIATE" if writable else "DEFERRED"
    connection.set_busy_timeout(timeouts.acquire_ms)
    # A pending SIGINT is seen only while Python runs: this call back lets Ctrl-C end a long statement.
    connection.set_progress_handler(lambda: False, PROGRESS_STEPS)
    store = Store(connection, path, writable=writable, timeouts=timeouts)
    store.execute("PRAGMA trusted_schema=OFF").fetchall()
    return store


def reader(path: Path, *, immutable: bool, query_only: bool) -> Store:
    """Any SQLite database, for reading; what it is was not looked at. Raises what opening raises."""
    flags = apsw.SQLITE_OPEN_READONLY | apsw.SQLITE_OPEN_URI
    uri = path.absolute().as_uri() + ("?immutable=1" if immutable else "")
    store = _connect(path, flags, writable=False, timeouts=Timeouts(), name=uri)
    if query_only:
        store.execute("PRAGMA query_only=ON").fetchall()
    return store


def _identified(path: Path, agent_id: str | None, *, immutable: bool, query_only: bool) -> Store:
    store = reader(path, immutable=immutable, query_only=query_only)
    return _checked(store, lambda: _identify(store, agent_id))


def _has_log(path: Path) -> bool:
    """Whether there is a log with content, or one that cannot be looked at."""
    log = path.with_name(path.name + "-wal")
    return log.exists() and (not log.is_file() or log.stat().st_size > 0)


def _checked(store: Store, check: Callable[[], None]) -> Store:
    """`store` once `check` has passed; closed when it raises."""
    try:
        check()
    except BaseException:
        store.close()
        raise
    return store


def _identify(store: Store, agent_id: str | None) -> None:
    """Fill in what the database says of itself; refuse what is no agent store or another agent's."""
    names = {name for (name,) in store.execute("SELECT name FROM sqlite_schema WHERE type = 'table'")}
    lacking = [name for name in REQUIRED_TABLES if name not in names]
    if lacking:
        raise RefusedError(
            f"{store.path} is no agent store: it has no table {', '.join(lacking)}", code="not_a_store", tables=lacking
        )
    row = store.execute("SELECT role, agent_id FROM schema_meta WHERE meta_key = 'primary'").fetchone()
    if row is None or row[0] != "agent":
        raise RefusedError(f"{store.path} is no agent store: its role is {row[0] if row else None}", code="not_a_store")
    store.agent_id = row[1]
    store.schema_version = store.value("PRAGMA user_version")
    if agent_id is not None and row[1] != agent_id:
        raise RefusedError(
            f"{store.path} belongs to agent {row[1]}, not to {agent_id}", code="wrong_agent", owner=row[1]
        )


def require_current_schema(store: Store) -> None:
    """Refuse a store that is not schema 23 with every canonical object as it was created. Raises RefusedError."""
    written = store.execute("SELECT schema_version, app_version FROM schema_meta WHERE meta_key = 'primary'").fetchone()
    if store.schema_version != schema.VERSION or written is None or written[0] != schema.VERSION:
        raise RefusedError(
            f"{store.path} has schema {store.schema_version}, written by {written[1] if written else 'an unknown'} "
            f"release; only schema {schema.VERSION} is written",
            code="schema_version",
            schemaVersion=store.schema_version,
        )
    drift = schema.missing(store.execute("SELECT type, name, sql FROM sqlite_schema"))
    if drift:
        named = ", ".join(f"{item.kind} {item.name} is {item.problem}" for item in drift[:5])
        raise RefusedError(f"the schema of {store.path} has drifted: {named}", code="schema_drift", objects=len(drift))
    if store.value("PRAGMA encoding") != "UTF-8":
        raise RefusedError(f"{store.path} is not stored as UTF-8", code="schema_drift")


def _prepare_writer(store: Store, agent_id: str | None) -> None:
    _identify(store, agent_id)
    require_current_schema(store)
    store.execute("PRAGMA foreign_keys=ON").fetchall()
    store.execute("PRAGMA synchronous=NORMAL").fetchall()
    store.execute("PRAGMA journal_size_limit=67108864").fetchall()


def _build(path: Path, agent_id: str, now_ms: int) -> None:
    """Write schema and identity rows into the empty file `path` (store format §3.1 and §3.2)."""
    store = _connect(path, apsw.SQLITE_OPEN_READWRITE, writable=True, timeouts=Timeouts())
    try:
        # Before the first table and before WAL, else they have no effect.
        for pragma in ("page_size=4096", "auto_vacuum=2", "journal_mode=WAL"):
            store.execute(f"PRAGMA {pragma}").fetchall()
        with store.transaction():
            for statement in schema.statements():
                store.execute(statement)
            store.execute(
                "INSERT INTO schema_meta VALUES ('primary', 'agent', ?, ?, ?, ?, ?)",
                (schema.VERSION, agent_id, schema.APP_VERSION, now_ms, now_ms),
            )
            store.execute("INSERT INTO session_key_contract VALUES (1, 'main', NULL, 0)")
            store.execute("INSERT INTO memory_index_state VALUES (1, 0)")
            store.execute(f"PRAGMA user_version={schema.VERSION}")
    finally:
        store.close()


def _make_directories(path: Path) -> None:
    """Create `path` and what is missing above it, each with mode 0700 and its parent's owner."""
    if not path.is_dir():
        _make_directories(path.parent)
        make_dir(path)


def _publish(building: Path, path: Path) -> None:
    """Give the finished file its name, durably and never over an existing one."""
    adopt_owner(building)
    descriptor = os.open(building, os.O_RDONLY)
    try:
        sync_file(descriptor)
    finally:
        os.close(descriptor)
    try:
        os.link(building, path)
        building.unlink()
    except FileExistsError as error:
        building.unlink()
        raise RefusedError(f"{path} exists already", code="exists", path=str(path)) from error
    except OSError:
        # A file system without hard links; the caller owns the state directory, so nobody else creates this name.
        building.rename(path)
    fsync_dir(path.parent)


def _page_size(header: bytes) -> int:
    size = int.from_bytes(header[16:18], "big")
    return 65536 if size == 1 else size


def _identity(path: Path, *, immutable: bool) -> tuple[Any, ...] | None:
    """Role, agent and time of creation of the store, or None when it is no readable store."""
    try:
        store = reader(path, immutable=immutable, query_only=True)
    except OpenClawError:
        return None
    try:
        return store.execute("SELECT role, agent_id, created_at FROM schema_meta WHERE meta_key = 'primary'").fetchone()
    except (OpenClawError, apsw.Error):
        # No such table, or damage: either way this view is not a store; the caller compares two views.
        return None
    finally:
        store.close()


def _foreign_issue(path: Path, why: str) -> Issue:
    log = path.with_name(path.name + "-wal")
    return Issue(
        "foreign_wal",
        "error",
        f"{log} does not belong to {path.name} ({why}); it is not applied",
        facts={"path": str(path), "walPath": str(log)},
    )
