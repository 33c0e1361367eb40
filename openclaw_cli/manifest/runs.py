"""Manifests as files: created, changed durably, read back."""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from itertools import islice
from pathlib import Path
from typing import Any

import orjson

from openclaw_cli.config.values import iso_utc
from openclaw_cli.durable import make_dir, replace_file
from openclaw_cli.errors import Issue
from openclaw_cli.faults import Step, reached
from openclaw_cli.manifest.parsing import Checker, Place, check_lists, parse, parse_move
from openclaw_cli.manifest.records import Manifest, ManifestInvalidError, Move, TargetRecord, Validation
from openclaw_cli.manifest.rendering import as_json, issue_as_json, move_as_json, parted, target_as_json, target_text

RUNS_DIR = "session-sqlite-migration-runs"


@dataclass(slots=True)
class Run:
    """A manifest with its file. Every change is durable before the call returns."""

    path: Path
    manifest: Manifest
    _targets_text: bytes | None = None
    # How many moves of each list have been checked. The lists only grow; with thousands of moves in them, checking all
    # for every record would cost the square of their number.
    _checked: dict[tuple[int, str], int] = field(default_factory=dict)

    def save(self) -> None:
        """Validate what is new and replace the file."""
        self._targets_text = None
        bare = [replace(target, planned=[], completed=[]) for target in self.manifest.targets]
        document = as_json(replace(self.manifest, targets=bare))
        parse(document, self.path)
        self._check_moves()
        replace_file(self.path, self._text(document))

    def _check_moves(self) -> None:
        check = Checker(self.path)
        for number, target in enumerate(self.manifest.targets):
            place = Place.of(target)
            for name, moves in (("planned", target.planned), ("completed", target.completed)):
                for move in islice(moves, self._checked.get((number, name), 0), None):
                    parse_move(move_as_json(move), place, check)
                self._checked[number, name] = len(moves)
            check_lists(target, check)

    def _text(self, document: dict[str, Any]) -> Iterator[bytes]:
        """The file's text in pieces, one for each move: held together they would be as large as the file."""
        targets = document["targets"]
        document["targets"] = []
        head, tail = parted(document, "targets")
        yield head
        for number, target in enumerate(self.manifest.targets):
            yield b",\n    " if number else b"[\n    "
            yield from target_text(target, targets[number])
        yield b"\n  ]" if targets else b"[]"
        yield tail + b"\n"

    def save_beside_targets(self) -> None:
        """Replace the file where no target changed: with thousands of moves, their text is made and checked once."""
        document = as_json(replace(self.manifest, targets=[]))
        parse(document, self.path)
        if self._targets_text is None:
            targets = [target_as_json(target) for target in self.manifest.targets]
            self._targets_text = orjson.dumps(targets, option=orjson.OPT_INDENT_2).replace(b"\n", b"\n  ")
        document["targets"] = orjson.Fragment(self._targets_text)
        replace_file(self.path, orjson.dumps(document, option=orjson.OPT_INDENT_2) + b"\n")

    def plan_moves(self, target: TargetRecord, moves: Iterable[Move]) -> None:
        """Record moves that are about to happen."""
        known = {move.key for move in target.planned}
        target.planned.extend(move for move in moves if move.key not in known)
        self.save()

    def record_moves(self, target: TargetRecord, moves: Iterable[Move]) -> None:
        """Record moves that have happened; they must have been planned."""
        done = {move.key for move in target.completed}
        target.completed.extend(move for move in moves if move.key not in done)
        self.save()

    def record_outcome(self, target: TargetRecord, validation: Validation, issues: Iterable[Issue]) -> None:
        """Record whether the rows were found in the store, and the target's errors so far.

        Warnings stay out: the real program takes a run with a finding that it does not know for a failed one, and
        would move everything back.
        """
        target.validation = validation
        target.issues = [issue_as_json(issue) for issue in issues if issue.severity == "error"]
        self.save()

    def complete(self, now_ms: int, *, failed: bool = False) -> None:
        """Close the run; `failed` makes the real program's `recover` look at it."""
        self.manifest.completed_at = iso_utc(now_ms)
        if failed:
            self.manifest.failed_at = self.manifest.completed_at
        self.save()
        reached(Step.MANIFEST_COMPLETED)


def create(state_dir: Path, targets: Iterable[TargetRecord], *, now_ms: int) -> Run:
    """Begin a run: its manifest is durable before anything else happens."""
    run_id = f"session-sqlite-{now_ms}-{secrets.token_hex(4)}"
    directory = state_dir / RUNS_DIR
    make_dir(directory)
    run = Run(directory / f"{run_id}.json", Manifest(run_id, iso_utc(now_ms), list(targets)))
    run.save()
    reached(Step.MANIFEST_CREATED)
    return run


def read(path: Path) -> Run:
    """Read and check one manifest; raises `ManifestInvalidError` with the first thing that is wrong."""
    try:
        document = orjson.loads(path.read_bytes())
    except (OSError, orjson.JSONDecodeError) as error:
        raise ManifestInvalidError(f"{path}: not readable as JSON", hint="leave it; it is not acted on") from error
    return Run(path, parse(document, path))


def runs(state_dir: Path) -> Iterator[Run | ManifestInvalidError]:
    """Every manifest of a state directory, oldest first; one that is invalid comes as its error."""
    directory = state_dir / RUNS_DIR
    names = sorted(os.listdir(directory)) if directory.is_dir() else []
    for name in names:
        if not name.endswith(".json") or name.endswith(".failure.json") or name.startswith("."):
            continue
        try:
            yield read(directory / name)
        except ManifestInvalidError as error:
            yield error
