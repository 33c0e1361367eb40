"""`doctor check`: run every check over the stores of a state directory; nothing is written, memory stays flat."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from openclaw_cli.checks import configured, entries, files, history, registry, remedies
from openclaw_cli.checks.finding import Finding
from openclaw_cli.checks.report import CheckReport, TargetFindings
from openclaw_cli.checks.scope import Scope, Session, Settings, Watcher, sessions_of
from openclaw_cli.checks.sizes import Sizes
from openclaw_cli.config import Target
from openclaw_cli.errors import CorruptError, OpenClawError
from openclaw_cli.storage import connection
from openclaw_cli.storage.connection import Store
from openclaw_cli.storage.encoding import decode
from openclaw_cli.storage.projections import parse

OnBytes = Callable[[int], None]

_EVENTS = (
    "SELECT seq, event_json, event_zstd, event_utf8_bytes FROM transcript_events WHERE session_id = ? ORDER BY seq"
)


def check(
    state_dir: Path, targets: Sequence[Target], settings: Settings, now_ms: int, on_bytes: OnBytes | None = None
) -> CheckReport:
    """Look at every target; what cannot be read is a finding of it, and the others are looked at all the same."""
    report = CheckReport(state_dir)
    report.findings.extend(configured.retired_keys(settings))
    report.findings.extend(files.runs(state_dir))
    report.cron, of_history = history.of(state_dir)
    report.findings.extend(of_history)
    for target in targets:
        found = TargetFindings(target)
        report.targets.append(found)
        scope = Scope(target, settings, now_ms)
        found.findings.extend(entries.elsewhere(scope, state_dir))
        _check_target(found, scope, on_bytes or (lambda _: None))
    return report


def _check_target(found: TargetFindings, scope: Scope, on_bytes: OnBytes) -> None:
    path = scope.target.sqlite_path
    if not path.exists():
        for look in registry.FILES:
            found.findings.extend(look(None, scope))
        return
    try:
        with connection.open_read(path, agent_id=scope.agent_id, temporary_tables=True) as store:
            store.execute("PRAGMA temp_store=FILE").fetchall()
            # One view for all of it: rows that a gateway writes meanwhile would look like rows without partner.
            store.execute("BEGIN DEFERRED")
            _check_store(found, store, scope, on_bytes)
    except OpenClawError as error:
        found.failure = error
        found.findings.append(_unreadable(error, scope))


def _check_store(found: TargetFindings, store: Store, scope: Scope, on_bytes: OnBytes) -> None:
    for look in registry.WHOLE:
        found.findings.extend(look(store, scope))
    if any(finding.code == "store_damaged" for finding in found.findings):
        found.failure = CorruptError(f"{store.path} fails its check", hint=remedies.of(scope.agent_id, "recover"))
    for session in sessions_of(store):
        found.sessions += 1
        found.findings.extend(_session(found, store, scope, session, on_bytes))
    for look in registry.STORE:
        found.findings.extend(look(store, scope))
    for beside in registry.FILES:
        found.findings.extend(beside(store, scope))


def _session(
    found: TargetFindings, store: Store, scope: Scope, session: Session, on_bytes: OnBytes
) -> Iterator[Finding]:
    watchers: list[Watcher] = [make(scope, session) for make in registry.WATCHERS]
    watchers.append(Sizes(scope, session, found.biggest))
    for seq, text, packed, size in store.execute(_EVENTS, (session.session_id,)):
        try:
            event = parse(decode(text, packed, size))
        except (CorruptError, ValueError):
            message = f"event {seq} of session {session.session_id} cannot be read"
            evidence = {"sessionId": session.session_id, "seq": seq, "bytes": size}
            command = remedies.of(scope.agent_id, "recover")
            advice = "recover takes what the archived originals have in its place"
            yield Finding("event_unreadable", "error", message, session.key, evidence, advice, command)
            continue
        found.events += 1
        on_bytes(size or 0)
        for watcher in watchers:
            watcher.feed(seq, size or 0, event)
    for watcher in watchers:
        yield from watcher.findings()
    for look in registry.SESSION:
        yield from look(store, scope, session)


def _unreadable(error: OpenClawError, scope: Scope) -> Finding:
    evidence = {"sqlitePath": str(scope.target.sqlite_path), "code": error.code}
    if isinstance(error, CorruptError):
        command = remedies.of(scope.agent_id, "recover")
        return Finding("store_damaged", "error", error.message, None, evidence, error.hint or "", command)
    return Finding("store_unreadable", "error", error.message, None, evidence, error.hint or "")
