"""Lifecycles that a fold leaves alone because the context would grow."""

from __future__ import annotations

import io
from dataclasses import dataclass, field
from typing import Any

import pytest
from conversations import Conversation

from openclaw_cli.lifecycles import scan
from openclaw_cli.lifecycles.records import SourceScan
from openclaw_cli.lifecycles.refusing import GROWING, without_growth


@dataclass
class Source:
    """A transcript in memory."""

    name: str
    stream: io.BytesIO


@dataclass
class Made:
    """What the search needs of a plan."""

    scan: SourceScan
    grows: bool
    folded: dict[int, Any] = field(default_factory=dict)


@pytest.mark.parametrize("guilty", [set(), {2}, {0, 3}, {0, 1, 2, 3, 4}], ids=str)
def test_only_lifecycles_that_let_the_context_grow_are_left_alone(guilty: set[int]) -> None:
    """Those that cause it are kept with the reason; the others are folded as before."""
    talk = Conversation()
    for number in range(1, 6):
        talk.sub_task(number)
        talk.says()
    found = scan.scan(Source("made-up", io.BytesIO(talk.data())))

    def planned(chosen: SourceScan) -> Any:
        foldable = [index for index, life in enumerate(chosen.lifecycles) if life.foldable]
        return Made(chosen, bool(guilty.intersection(foldable)), dict.fromkeys(foldable))

    plan = without_growth(planned(found), planned)
    assert set(range(5)) - guilty == set(plan.folded)
    assert [GROWING if index in guilty else None for index in range(5)] == [
        life.reason for life in plan.scan.lifecycles
    ]
