"""Which lifecycles a fold leaves alone once their cards are known: the context would not become smaller. Pure."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from openclaw_cli.lifecycles.records import Lifecycle, Removal, SourceScan

if TYPE_CHECKING:
    from openclaw_cli.lifecycles.fold import Plan

LONGER = "card would be longer"
GROWING = "the context would grow"


def refused(scan: SourceScan, indexes: Collection[int], reason: str) -> SourceScan:
    """The scan with some lifecycles that are not folded, for a reason."""
    lifecycles = [
        replace(life, foldable=False, reason=reason, removal=Removal()) if index in indexes else life
        for index, life in enumerate(scan.lifecycles)
    ]
    return replace(scan, lifecycles=tuple(lifecycles))


def longer_cards(plan: Plan) -> set[int]:
    """The folded lifecycles whose card has more tokens than what it stands for.

    One that shares a message with another is not among them: what is removed of that message is counted for one only.
    """
    scan = plan.scan
    spawned = [scan.lifecycles[index].spawn.line for index in plan.folded]
    return {
        index
        for index, folded in plan.folded.items()
        if _is_longer(scan.lifecycles[index], folded.tokens) and spawned.count(scan.lifecycles[index].spawn.line) == 1
    }


def _is_longer(lifecycle: Lifecycle, card_tokens: int) -> bool:
    removed = lifecycle.tokens_removed
    return removed is not None and card_tokens > removed and not lifecycle.removal.shared


def without_growth(plan: Plan, planned: Callable[[SourceScan], Plan]) -> Plan:
    """The plan without the lifecycles that let the context grow by more than their cards.

    Nothing that a compaction dropped may come back by a fold. The causes are found by halving; `planned` makes the plan
    of a scan, which reads the file. When no smaller set is to blame, nothing is folded.
    """
    if not plan.grows:
        return plan
    causes = _causes(plan.scan, sorted(plan.folded), planned)
    smaller = planned(refused(plan.scan, causes, GROWING))
    return planned(refused(plan.scan, plan.folded, GROWING)) if smaller.grows else smaller


def _causes(scan: SourceScan, indexes: Sequence[int], planned: Callable[[SourceScan], Plan]) -> set[int]:
    """Those of some lifecycles that let the context grow when only these are folded."""
    others = set(range(len(scan.lifecycles))).difference(indexes)
    if not indexes or not planned(refused(scan, others, GROWING)).grows:
        return set()
    if len(indexes) == 1:
        return set(indexes)
    middle = len(indexes) // 2
    return _causes(scan, indexes[:middle], planned) | _causes(scan, indexes[middle:], planned)
