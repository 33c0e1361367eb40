"""The entries of an active path as a fold weighs them: what each adds to a model context. Pure."""

from __future__ import annotations

from typing import Any, NamedTuple

from openclaw_cli.lifecycles.survey import Part


class Place(NamedTuple):
    """One entry of an active path: `part` and `tokens` say what it adds to a model context; line 0: it is new."""

    id: str
    line: int
    part: int
    tokens: int


def boundary_of(path: list[Place]) -> int:
    """The place of the last compaction or reset on a path; -1: there is none."""
    return max((i for i, place in enumerate(path) if place.part in (Part.COMPACTION, Part.RESET)), default=-1)


def context_tokens(path: list[Place], first_kept: Any) -> int:
    """The sum over the model's part of a path. Results before a reset count as answers to their calls."""
    cut = boundary_of(path)
    if cut < 0:
        return sum(place.tokens for place in path)
    first = next((i for i, place in enumerate(path[:cut]) if place.id == first_kept), cut)
    retained = path[first:cut]
    if path[cut].part == Part.RESET:
        retained = [place for place in retained if place.part == Part.TURN]
    # A compaction's own summary counts; an older one inside the retained part does not, and a reset weighs nothing.
    kept = sum(place.tokens for place in retained if place.part != Part.COMPACTION)
    return kept + sum(place.tokens for place in path[cut:])
