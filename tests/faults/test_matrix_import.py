"""Import and restore, cut at every point at which they change a file, in each way in which that can fail.

Every write, sync and truncation of SQLite, every rename, link, unlink, fsync and opening for writing of Python code is
a point. Behind each cut no content is missing, and a recovery (every second time after the same command again) ends in
`clean` with the events and files of an undisturbed run. Without `--full` a part of the points is tried.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import cutting
import matrix
import pytest

SCENARIOS = ("import", "import-copy", "restore", "restore-copy")
LEAST_POINTS = 200


@pytest.fixture(scope="module")
def bench() -> Iterator[matrix.Bench]:
    made = matrix.Bench()
    yield made
    made.close()


@pytest.fixture(scope="module")
def scenarios(bench: matrix.Bench) -> dict[str, matrix.Scenario]:
    """Each run, undisturbed; `-copy`: on a file system without hard links."""
    whole = matrix.imported(bench)
    begin = {"import": bench.root / "file-era", "restore": whole}
    return {
        name: bench.scenario(name, mode, begin[mode], links=name == mode)
        for name, mode in ((name, name.removesuffix("-copy")) for name in SCENARIOS)
    }


def test_there_are_enough_points(scenarios: dict[str, matrix.Scenario]) -> None:
    """Fewer would mean that the seam no longer sees the writes; each kind of effect is among them."""
    for name, least in (("import", LEAST_POINTS), ("restore", 50)):
        assert least <= len(scenarios[name].points)
    seen = {point.split()[0] for scenario in scenarios.values() for point in scenario.points}
    wanted = {"vfs-write", "vfs-sync", "vfs-truncate", "rename", "link", "unlink", "fsync", "create", "open", "write"}
    assert set() == wanted - seen


@pytest.mark.timeout(3600)
@pytest.mark.parametrize("kind", cutting.KINDS)
@pytest.mark.parametrize("name", SCENARIOS)
def test_cut(
    name: str,
    kind: str,
    bench: matrix.Bench,
    scenarios: dict[str, matrix.Scenario],
    full_counts: bool,
    record_property: Callable[[str, object], None],
) -> None:
    """Nothing is lost, no state is without the database that it had, the end is that of an undisturbed run."""
    tried, found = matrix.try_points(bench, scenarios[name], kind, full=full_counts)
    record_property(matrix.TRIED, tried)
    assert [] == found


CLOSED = [
    ("import", "agents/main/sessions"),
    ("import", "agents/main"),
    ("import", "session-sqlite-migration-runs"),
    ("import", "."),
    ("restore", "agents/main/sessions"),
    ("restore", "agents/main/session-sqlite-import-archive"),
    ("restore", "session-sqlite-migration-runs"),
    ("restore", "."),
]


@pytest.mark.parametrize(("name", "closed"), CLOSED)
def test_read_only(name: str, closed: str, bench: matrix.Bench, scenarios: dict[str, matrix.Scenario]) -> None:
    """Where nothing below a directory can be changed, nothing is lost; once it can, the end is as ever."""
    assert [] == matrix.try_closed(bench, scenarios[name], closed)


@pytest.mark.parametrize(("name", "closed"), CLOSED)
def test_read_only_mount(name: str, closed: str, bench: matrix.Bench, scenarios: dict[str, matrix.Scenario]) -> None:
    """The same with a real mount that is read-only, which holds for root, too."""
    if not matrix.can_mount():
        pytest.skip("no mount namespace can be made here")
    assert [] == matrix.try_closed(bench, scenarios[name], closed, mount=True)
