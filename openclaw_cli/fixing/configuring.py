"""Retired keys of `openclaw.json`: what is to become of them, and the edit, with a backup beside the file.

Order of the writing: our own file first, then the backup, then `openclaw.json`. A run that is cut leaves a setting in
both files, and the next one finds it in ours and only removes it.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from openclaw_cli.config import Config
from openclaw_cli.config.editing import Edit, Insert, Remove, Rename, Replace, edited, real_path, with_backup
from openclaw_cli.config.json5_spans import NotEditableError
from openclaw_cli.config.openclaw_json import parse_text
from openclaw_cli.config.own import FILE_NAME, with_settings
from openclaw_cli.config.retired import Change, changes
from openclaw_cli.durable import replace_file
from openclaw_cli.errors import ConfigError, Issue, RefusedError
from openclaw_cli.faults import Step, reached


@dataclass(frozen=True, slots=True)
class ConfigPlan:
    """What becomes of the retired keys. `before`, `after`: bytes of `openclaw.json`; `own_*`: of our own file.

    `by_hand`: (change, why it cannot be made here, the file that it is for).
    """

    path: Path
    own_path: Path
    changes: tuple[Change, ...] = ()
    by_hand: tuple[tuple[Change, str, str], ...] = ()
    before: bytes = b""
    after: bytes = b""
    own_before: bytes | None = None
    own_after: bytes = b""

    def issues(self) -> list[Issue]:
        """One error for each change that somebody has to make by hand, with the change in words."""
        return [
            Issue(
                "config_edit_by_hand",
                "error",
                f"{place}: {why}; edit it: {'; '.join(_in_words(edit) for edit in change.edits)}{_kept_words(change)}",
                facts={"path": place, "key": change.key},
            )
            for change, why, place in self.by_hand
        ]


def decide(config: Config, state_dir: Path) -> ConfigPlan:
    """Read `openclaw.json` and decide; nothing is written. Raises `ConfigError` for a file that cannot be read."""
    path = real_path(config.openclaw_path)
    own_path = real_path(config.own_path or state_dir / FILE_NAME)
    if not path.exists():
        return ConfigPlan(path, own_path)
    before = _bytes_of(path)
    document = parse_text(before, path)
    own_before = _bytes_of(own_path) if own_path.exists() else None
    made, by_hand = [], list(_elsewhere(config, document))
    after, own_after = before, own_before or b""
    for change in changes(document):
        try:
            if any(isinstance(value, str) and "${" in value for value in change.kept.values()):
                raise NotEditableError("its value names a variable, which openclaw-cli.yaml would not resolve")
            new_after = edited(after, change.edits, path)
            new_own = with_settings(own_after, change.kept, own_path) if change.kept else own_after
        except NotEditableError as error:
            by_hand.append((change, str(error), str(path)))
        except ConfigError as error:
            by_hand.append((change, error.message, str(path)))
        else:
            made.append(change)
            after, own_after = new_after, new_own
    return ConfigPlan(path, own_path, tuple(made), tuple(by_hand), before, after, own_before, own_after)


def act(plan: ConfigPlan, stamp: int) -> Path | None:
    """Write what was decided; gives the backup of `openclaw.json`, None where nothing had to be written.

    Raises RefusedError when a file is no longer the one that the plan is about; nothing is written then.
    """
    if not plan.changes:
        return None
    if _bytes_of(plan.path) != plan.before:
        raise RefusedError(f"{plan.path} changed meanwhile", hint="run this again", code="source_changed")
    if plan.own_after != (plan.own_before or b""):
        present = _bytes_of(plan.own_path) if plan.own_path.exists() else None
        if present != plan.own_before:
            raise RefusedError(f"{plan.own_path} changed meanwhile", hint="run this again", code="source_changed")
        replace_file(plan.own_path, plan.own_after, mode=_mode_of(plan.own_path, plan.path))
        reached(Step.FIX_OWN_CONFIG_WRITTEN)
    return with_backup(plan.path, plan.before, plan.after, stamp)


def _elsewhere(config: Config, document: Any) -> list[tuple[Change, str, str]]:
    """Retired keys that stand in an included file: what includes it cannot be foreseen, so that is by hand."""
    here = {change.key for change in changes(document)}
    return [
        (change, "an included file has it", config.openclaw_origin(change.key))
        for change in changes(config.openclaw())
        if change.key not in here
    ]


def _in_words(edit: Edit) -> str:
    name = ".".join(edit.keys)
    match edit:
        case Remove():
            return f"remove {name}"
        case Rename(key=key):
            return f"rename {name} to {key}"
        case Insert(value=value) | Replace(value=value):
            return f"set {name} to {json.dumps(value)}"


def _kept_words(change: Change) -> str:
    return f"; put {', '.join(change.kept)} into {FILE_NAME}" if change.kept else ""


def _bytes_of(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise ConfigError(f"cannot read {path}: {error.strerror}", configPath=str(path)) from error


def _mode_of(path: Path, fallback: Path) -> int:
    return os.stat(path if path.exists() else fallback).st_mode & 0o777


def as_json(plan: ConfigPlan, backup: Path | None) -> Mapping[str, Any]:
    """What the report says of the configuration; keys and reasons, no values."""
    return {
        "path": str(plan.path),
        "changes": [change.as_json() for change in plan.changes],
        "byHand": [{"key": change.key, "path": place, "reason": why} for change, why, place in plan.by_hand],
        "ownPath": str(plan.own_path) if plan.own_after != (plan.own_before or b"") else None,
        "backupPath": None if backup is None else str(backup),
    }
