"""Three hundred random stores: preview and run agree, nothing is lost, nothing protected goes (design, D4 and D6).

The generator must reach every class and every action; the histogram is printed, and an empty cell fails.
"""

from __future__ import annotations

import dataclasses
import os
import random
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import legacy_state as legacy
import orjson
import pytest

from openclaw_cli import archive
from openclaw_cli.config import Target
from openclaw_cli.migration.plan import Rules
from openclaw_cli.retention import applying, archiving, budget, classify, cleaning, reading, trial
from openclaw_cli.retention.audit import Silent
from openclaw_cli.retention.cleaning import DAY_MS, Look, Options
from openclaw_cli.retention.filters import kind_of
from openclaw_cli.retention.settings import Maintenance, with_budget
from openclaw_cli.storage import archives, connection, events, trajectories, verify
from openclaw_cli.storage.sessions import write_entry

STORES = 300
NOW_MS = 1_796_000_000_000
KEYS = {
    "main": "main",
    "direct": "telegram:direct:{0}",
    "group": "telegram:group:{0}",
    "channel": "slack:channel:{0}",
    "thread": "slack:channel:c:thread:{0}",
    "cron": "cron:j{0}",
    "cron-run": "cron:j:run:{0}",
    "hook": "hook:{0}",
    "node": "node:{0}",
    "acp": "acp:{0}",
    "subagent": "subagent:{0}",
    "heartbeat": "x{0}:heartbeat",
    "explicit": "explicit:{0}",
    "model-run": "explicit:model-run-00000000-0000-4000-8000-{0:012d}",
    "dashboard": "dashboard:{0}",
    "recovered": "recovered:{0}",
    "other": "thing{0}",
}
CONVERSATIONS = {"main", "direct", "group", "channel", "thread"}
SYNTHETIC = {"cron", "cron-run", "hook", "node", "acp", "subagent", "heartbeat", "model-run"}
FILES = {
    "transcript": "lost{0:04d}.jsonl",
    "trajectory": "lost{0:04d}.trajectory.jsonl",
    "checkpoint": "lost{0:04d}.checkpoint.00000000-0000-4000-8000-{0:012d}.jsonl",
    "temporary": "sessions.json.00000000-0000-4000-8000-{0:012d}.tmp",
}
CELLS = {
    *((kind, action) for kind in SYNTHETIC for action in ("keep", "remove")),
    *((kind, "keep") for kind in CONVERSATIONS),
    *((kind, action) for kind in ("explicit", "dashboard", "recovered", "other")
      for action in ("keep", "archive", "remove")),
    *((kind, action) for kind in FILES for action in ("keep", "delete-artifact")),
    *(("archive", action) for action in ("keep", "delete-archive by budget", "delete-archive by age")),
    ("archive with row", "delete-archive by budget"),
    ("archive with row", "delete-archive by age"),
    ("history", "keep"),
    ("history", "remove"),
}  # fmt: skip


@dataclass(slots=True)
class Made:
    """A random store with the options for its cleanup."""

    target: Target
    options: Options
    store: connection.Store
    look: Look


def _rows(chance: random.Random, session_id: str) -> list[tuple[bytes, Any]]:
    """A transcript with one text of random length that cannot be compressed much."""
    rows = legacy.turns(session_id, chance.randrange(1, 4))
    text = chance.randbytes(chance.randrange(10, 6000)).hex()
    rows.append(legacy.message("z0000001", rows[-1]["id"], 9, "user", [legacy.text_block(text)]))
    return [(orjson.dumps(row), row) for row in rows]


def _entry(chance: random.Random, kind: str, session_id: str) -> dict[str, Any]:
    at = NOW_MS - round(chance.choice((0.01, 0.5, 2, 10, 40, 80)) * DAY_MS * (0.5 + chance.random()))
    entry: dict[str, Any] = {"sessionId": session_id, "updatedAt": at, "sessionStartedAt": at}
    more: list[dict[str, Any]] = [
        {"pinnedAt": at}, {"modelSelectionLocked": True}, {"status": "running"}, {"chatType": "group"},
        {"lastActivityAt": NOW_MS - 1000}, {"label": "x"}, {"delivery": {"kind": "external"}},
        {"archivedAt": at, "archiveReason": "manual"}, {"spawnedBy": "agent:main:cron:j:run:1"},
    ]  # fmt: skip
    if kind not in SYNTHETIC | CONVERSATIONS:
        more += [{"archivedAt": at, "archiveReason": "active-session-cap"}] * 3
    if chance.random() < 0.35:
        entry |= chance.choice(more)
    return entry


def _settings(chance: random.Random, size_bytes: int) -> Maintenance:
    found = Maintenance(
        prune_after_ms=chance.choice((5, 30, 60)) * DAY_MS,
        archive_dashboard_after_ms=chance.choice((None, 7 * DAY_MS)),
        max_entries=chance.choice((1, 3, 6, 5000)),
        preserve_recent_ms=chance.choice((None, DAY_MS)),
        reset_archive_retention_ms=chance.choice((None, None, 20 * DAY_MS)),
        cron_retention_ms=chance.choice((None, DAY_MS)),
    )
    most = chance.choice((None, 1, 0.7, 0.9))
    return with_budget(found, None if most is None else round(size_bytes * most), None)


def _archive(store: connection.Store, directory: Path, chance: random.Random, number: int) -> None:
    """An old archive, in every second store with its row."""
    at = NOW_MS - round(chance.choice((0.2, 5, 50)) * DAY_MS)
    text = legacy.jsonl(legacy.turns(f"gone{number:04d}", 2))
    reason = chance.choice(("deleted", "reset"))
    generation = f"{number:032x}"
    name = f"gone{number:04d}.jsonl.{reason}.{archiving.stamp_of(at)}.{generation}.zst"
    written = archive.write(directory / name, [text], len(text))
    if chance.random() < 0.5:
        row = archives.Row(f"gone{number:04d}", generation, "k", written.sha256, name, written.size_bytes)
        with written.path.open("rb") as stream:
            archives.insert(store, row, stream, at, reason=reason)


def _fill(store: connection.Store, chance: random.Random) -> None:
    ids: list[str] = []
    for kind in chance.sample(sorted(KEYS), chance.randrange(4, 12)):
        for number in range(chance.randrange(1, 3)):
            key = f"agent:main:{KEYS[kind].format(number)}"
            session_id = legacy.sid(len(ids) + 1)
            # Now and then a session that two keys go on with.
            shared = chance.choice(ids) if ids and chance.random() < 0.05 else None
            entry = _entry(chance, kind, shared or session_id)
            write_entry(store, key, entry, now_ms=NOW_MS)
            if shared is not None:
                continue
            ids.append(session_id)
            events.append(store, key, session_id, _rows(chance, session_id), now_ms=int(entry["updatedAt"]))
            if chance.random() < 0.2:
                lines = [{"type": "tool", "seq": n, "runId": "r", "data": chance.randbytes(200).hex()} for n in (1, 2)]
                pairs = [(orjson.dumps(line), line) for line in lines]
                trajectories.insert(store, session_id, pairs, file_ms=NOW_MS)
            if chance.random() < 0.3:
                old = legacy.sid(1000 + len(ids))
                events.append(store, key, old, _rows(chance, old), now_ms=NOW_MS - 50 * DAY_MS)


def make(place: Path, seed: int) -> tuple[Target, Options]:
    """A random store with files beside it, and random settings."""
    chance = random.Random(seed)
    directory = place / "agents/main/sessions"
    directory.mkdir(parents=True)
    database = place / "agents/main/agent/openclaw-agent.sqlite"
    with connection.create(database, agent_id="main", now_ms=NOW_MS) as store:
        with store.transaction():
            _fill(store, chance)
            for number in range(chance.randrange(3)):
                _archive(store, directory, chance, number)
        store.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
    for kind in chance.sample(sorted(FILES), chance.randrange(3)):
        number = chance.randrange(100)
        path = directory / FILES[kind].format(number)
        path.write_bytes(legacy.jsonl(legacy.turns(f"lost{number:04d}", 2)))
        at = NOW_MS - round(chance.choice((0.001, 0.1, 100)) * DAY_MS)
        os.utime(path, ns=(at * 1_000_000, at * 1_000_000))
    size = database.stat().st_size + sum(path.stat().st_size for path in directory.iterdir())
    target = Target("main", directory / "sessions.json", database, directory, place / "unused")
    options = Options(Rules(), _settings(chance, size), NOW_MS, vacuum=chance.random() < 0.3)
    if chance.random() < 0.2:
        options = dataclasses.replace(options, archive_dir=place / "elsewhere")
    return target, options


def everything(target: Target, options: Options) -> Counter[tuple[str, bytes]]:
    """Multiset of (session id, event): the store, plain files, archives."""
    found: Counter[tuple[str, bytes]] = Counter()
    with connection.open_read(target.sqlite_path) as store:
        for (session_id,) in store.execute("SELECT session_id FROM session_windows").fetchall():
            found.update((session_id, text) for _, text in events.stream(store, session_id))
            found.update((session_id, text) for _, text in trajectories.stream(store, session_id))
    places = [place for place in (target.sessions_dir, options.archive_dir) if place is not None and place.is_dir()]
    for path in (path for place in places for path in place.iterdir()):
        # Of an artifact that was archived the name goes on behind the id; the temporary ones hold nothing of value.
        if path.suffix != ".tmp":
            with archive.open_stream(path) as stream:
                found.update((path.name.split(".")[0], line.rstrip(b"\n")) for line in stream)
    return found


def taken(look: Look, spent: budget.Spent) -> list[tuple[str, str]]:
    """What goes, in order."""
    return [
        *((each.row.key, str(each.action)) for each in look.plan.taken()),
        *((one.name, "delete-archive") for one, _ in look.aged),
        *((file.path.name, "delete-artifact") for file, _ in look.orphans),
        *((each.key or each.name or "", str(each.kind)) for each in spent.taken),
    ]


def histogram(
    before: dict[str, classify.Row], look: Look, spent: budget.Spent, target: Target
) -> Iterator[tuple[str, str]]:
    """(class, action) of everything that was judged."""
    gone = {each.row.key for each in look.plan.taken()} | {each.key for each in spent.taken if each.key is not None}
    for row in before.values():
        if row.key not in gone:
            yield kind_of(row), "keep"
    for each in look.plan.taken():
        yield kind_of(each.row), str(each.action)
    with_row = {each.name for each in spent.taken if each.kind is budget.Kind.ARCHIVE}
    for each in spent.taken:
        if each.kind is budget.Kind.ROW:
            yield kind_of(before[each.key or ""]), "remove"
        elif each.kind is budget.Kind.HISTORY:
            yield "history", "remove"
    orphans = {file.path.name for file, _ in look.orphans}
    aged = {one.name for one, _ in look.aged}
    rows = {one.name for one, _ in look.aged if one.row is not None}
    for file in look.files:
        kind = str(file.name.kind)
        if file.path.name in orphans:
            yield kind, "delete-artifact"
        elif file.path.name in aged:
            yield ("archive with row" if file.path.name in rows else kind), "delete-archive by age"
        elif file.path.name in with_row:
            yield kind, "delete-archive by budget"
        else:
            yield kind, "keep"
    with connection.open_read(target.sqlite_path) as store:
        sql = (
            "SELECT count(*) FROM session_windows w WHERE NOT EXISTS"
            " (SELECT 1 FROM session_nodes n WHERE n.current_session_id = w.session_id)"
        )
        yield from [("history", "keep")] * store.value(sql)


def judge(place: Path, seed: int) -> Counter[tuple[str, str]]:
    """Make a store, preview, run, compare; gives the histogram."""
    target, options = make(place, seed)
    before = everything(target, options)
    with connection.open_read(target.sqlite_path, agent_id="main") as store:
        planned = cleaning.look(store, target, options)
        rows = reading.read(store, "main", options.rules).by_key()
        stored = {one.name for one in archives.stored(store)}
        active = {row.key for row in rows.values() if classify.held(row) is not None and not row.archived}
    foreseen = trial.run(target, planned, options)[1] if trial.is_needed(planned, options) else None
    deleted = Counter(_content(target, planned, foreseen))

    with connection.open_write(target.sqlite_path, agent_id="main") as store:
        found = cleaning.look(store, target, options)
        run = applying.act(store, target, found, options, Silent(place, NOW_MS))
        spent = budget.enforce(store, target, run, options)
    after = cleaning.measure(target, list(cleaning.artifacts.listing(target.sessions_dir)))
    wanted = taken(planned, foreseen) if foreseen is not None else taken(planned, budget.Spent(after, after))
    assert wanted == taken(found, spent), seed
    if foreseen is not None:
        assert abs(foreseen.after.total_bytes - after.total_bytes) <= 0.05 * after.total_bytes, seed
    assert [] == run.applied.issues, seed
    with connection.open_read(target.sqlite_path, temporary_tables=True) as store:
        assert [] == [*verify.integrity(store), *verify.verify(store)], seed
        assert [] == store.execute("PRAGMA foreign_key_check").fetchall(), seed
        left = {key for (key,) in store.execute("SELECT session_key FROM session_nodes WHERE entry_json <> '{}'")}
    assert active <= left, seed
    assert before == everything(target, options) + deleted, seed
    cells = Counter(histogram(rows, found, spent, target))
    cells.update(("archive with row", "delete-archive by budget") for each in spent.taken if each.name in stored)
    return cells


def _content(target: Target, planned: Look, foreseen: budget.Spent | None) -> Iterator[tuple[str, bytes]]:
    """What is in the archives that the plan lists as going."""
    names = [one.name for one, _ in planned.aged]
    names += [each.name for each in (foreseen.taken if foreseen else ()) if each.name is not None]
    for name in names:
        with archive.open_stream(target.sessions_dir / name) as stream:
            for line in stream:
                yield name.split(".")[0], line.rstrip(b"\n")


@pytest.mark.timeout(900)
def test_random_stores(tmp_path: Path, record_property: Callable[[str, object], None]) -> None:
    """All of them; see above."""
    cells: Counter[tuple[str, str]] = Counter()
    for seed in range(STORES):
        cells.update(judge(tmp_path / str(seed), seed))
    lines = [f"{kind:18} {action:26} {number:6}" for (kind, action), number in sorted(cells.items())]
    record_property("summary", f"{STORES} random stores, class and action:\n" + "\n".join(lines))
    assert set() == CELLS - set(cells)
