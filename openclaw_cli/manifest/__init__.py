"""Migration runs on disk: `<state>/session-sqlite-migration-runs/<runId>.json` (store format §6.2).

A manifest says which file is moved where *before* it is moved, so that a cut run can be settled and a finished one be
undone. It is validated strictly in both directions: the real program ignores a manifest with one wrong field.
"""

from __future__ import annotations

from openclaw_cli.manifest.parsing import READABLE_VERSIONS, parse
from openclaw_cli.manifest.records import (
    OPENCLAW_VERSION,
    WRITTEN_VERSION,
    Artifact,
    Classification,
    Kind,
    Manifest,
    ManifestInvalidError,
    Move,
    TargetRecord,
    Validation,
    archive_dir_of,
    with_identity,
)
from openclaw_cli.manifest.rendering import as_json
from openclaw_cli.manifest.runs import RUNS_DIR, Run, create, read, runs

__all__ = [
    "OPENCLAW_VERSION",
    "READABLE_VERSIONS",
    "RUNS_DIR",
    "WRITTEN_VERSION",
    "Artifact",
    "Classification",
    "Kind",
    "Manifest",
    "ManifestInvalidError",
    "Move",
    "Run",
    "TargetRecord",
    "Validation",
    "archive_dir_of",
    "as_json",
    "create",
    "parse",
    "read",
    "runs",
    "with_identity",
]
