"""Recover, cut at every point at which it changes a file, in each way in which that can fail (see test_matrix_import).

`damaged`: a page of events destroyed, a turn that only the log has, a failed run, a leftover; a new store takes the
place of the old one. `derived`: projections are wrong and a log of another database lies there; mended in place.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator

import cutting
import matrix
import pytest

SCENARIOS = ("damaged", "derived")
LEAST_POINTS = 200


@pytest.fixture(scope="module")
def bench() -> Iterator[matrix.Bench]:
    made = matrix.Bench()
    yield made
    made.close()


@pytest.fixture(scope="module")
def scenarios(bench: matrix.Bench) -> dict[str, matrix.Scenario]:
    """Each recovery, undisturbed. The damaged file and its log, or the foreign log, are in some file at any time."""
    whole = matrix.imported(bench)
    made = {
        "damaged": bench.scenario("damaged", "recover", matrix.damaged(bench, whole)),
        "derived": bench.scenario("derived", "recover", matrix.derived(bench, whole)),
    }
    for name, parts in (("damaged", ("", "-wal")), ("derived", ("-wal",))):
        for part in parts:
            data = (made[name].pristine / f"{matrix.DATABASE}{part}").read_bytes()
            made[name].lasting.add(hashlib.sha256(data).hexdigest())
    return made


def test_there_are_enough_points(scenarios: dict[str, matrix.Scenario]) -> None:
    """Fewer would mean that the seam no longer sees the writes."""
    assert {} == {name: len(one.points) for name, one in scenarios.items() if len(one.points) < LEAST_POINTS}


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


@pytest.mark.parametrize("mount", [False, True])
@pytest.mark.parametrize("closed", ["agents/main/agent", "agents/main/sessions", "session-sqlite-migration-runs", "."])
@pytest.mark.parametrize("name", SCENARIOS)
def test_read_only(
    name: str, closed: str, mount: bool, bench: matrix.Bench, scenarios: dict[str, matrix.Scenario]
) -> None:
    """Where nothing below a directory can be changed, nothing is lost; once it can, the end is as ever."""
    if mount and not matrix.can_mount():
        pytest.skip("no mount namespace can be made here")
    assert [] == matrix.try_closed(bench, scenarios[name], closed, mount=mount)
