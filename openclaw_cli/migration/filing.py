"""`--github-issue`: a report of a run that can be shown to strangers.

It has counts, versions, codes, and the shapes of damaged lines. Keys, ids and paths are pseudonyms: the same one for
the same thing within a report, made with a key that is thrown away. Messages are left out, since they name files and
keys. Nothing is sent.
"""

from __future__ import annotations

import hashlib
import hmac
import platform
import secrets
import shlex
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import orjson

from openclaw_cli import __version__
from openclaw_cli.config.values import iso_utc
from openclaw_cli.durable import make_dir, replace_file
from openclaw_cli.errors import Issue
from openclaw_cli.jsonl import Damage
from openclaw_cli.manifest import OPENCLAW_VERSION, RUNS_DIR, ManifestInvalidError, read
from openclaw_cli.migration.reporting import Report, TargetReport
from openclaw_cli.migration.shaping import shape
from openclaw_cli.storage.connection import SQLITE_VERSION

REPOSITORY = "openclaw/openclaw"
_MOST_LINES = 50
_LONGEST_LINE_BYTES = 256 * 1024


@dataclass(frozen=True, slots=True)
class Filed:
    """A report that was written: its title, its two files, and the command that would file it."""

    title: str
    markdown: Path
    json: Path

    @property
    def command(self) -> str:
        """What a shell would be given."""
        body = shlex.quote(str(self.markdown))
        return f"gh issue create --repo {REPOSITORY} --title {shlex.quote(self.title)} --body-file {body}"

    def as_json(self) -> dict[str, Any]:
        """OpenClaw's `supportIssue`, with our two keys."""
        skipped = {"status": "skipped", "message": "the report was written; nothing was sent"}
        return {
            "title": self.title,
            "bodyPath": str(self.markdown),
            "jsonPath": str(self.json),
            "command": self.command,
            "github": skipped,
        }


@dataclass(slots=True)
class _Pseudonyms:
    """Names for what must not be shown, stable within one report."""

    key: bytes = field(default_factory=lambda: secrets.token_bytes(32))

    def of(self, kind: str, text: str) -> str:
        digest = hmac.new(self.key, f"{kind}\0{text}".encode("utf-8", "surrogatepass"), hashlib.sha256)
        return f"{kind}-{digest.hexdigest()[:10]}"


def write(report: Report, state_dir: Path, now_ms: int) -> Filed | None:
    """Write the report of a run beside its manifest; None when the run found no error.

    Raises RefusedError when the directory cannot be written to.
    """
    errors = [issue for issue in report.all_issues() if issue.severity == "error"]
    if not errors:
        return None
    document = _document(report, now_ms)
    directory = state_dir / RUNS_DIR
    make_dir(directory)
    stem = _free_stem(directory, report.run_id or f"openclaw-cli-{report.mode}-{now_ms}-{secrets.token_hex(4)}")
    codes = ", ".join(sorted({issue.code for issue in errors}))
    filed = Filed(
        f"doctor {report.mode}: {codes}", directory / f"{stem}.failure.md", directory / f"{stem}.failure.json"
    )
    replace_file(filed.json, orjson.dumps(document, option=orjson.OPT_INDENT_2) + b"\n")
    replace_file(filed.markdown, _markdown(filed.title, document).encode())
    return filed


def _free_stem(directory: Path, stem: str) -> str:
    name, number = stem, 0
    while (directory / f"{name}.failure.md").exists() or (directory / f"{name}.failure.json").exists():
        number += 1
        name = f"{stem}.{number}"
    return name


def _document(report: Report, now_ms: int) -> dict[str, Any]:
    names = _Pseudonyms()
    moved = _moved(report.manifest_path)
    return {
        "reportVersion": 1,
        "writtenAt": iso_utc(now_ms),
        "mode": report.mode,
        "exitStatus": int(report.status()),
        "versions": {
            "openclaw-cli": __version__,
            "storesOf": OPENCLAW_VERSION,
            "sqlite": SQLITE_VERSION,
            "python": platform.python_version(),
            "system": f"{platform.system()} {platform.machine()}",
        },
        "totals": report.totals(),
        "issues": _issues(report.issues, names),
        "targets": [_target(target, names, moved) for target in report.targets],
    }


def _target(target: TargetReport, names: _Pseudonyms, moved: Mapping[str, str]) -> dict[str, Any]:
    counts = {name: value for name, value in target.as_json().items() if type(value) is int}
    return {
        "agent": names.of("agent", target.agent_id),
        "failure": None if target.failure is None else target.failure.code,
        "counts": counts,
        "issues": _issues(target.issues, names),
        "damage": [_damage(damage, names, moved) for damage in target.damage[:_MOST_LINES]],
    }


def _issues(issues: Iterable[Issue], names: _Pseudonyms) -> list[dict[str, Any]]:
    """Codes with their numbers, and about which keys they are."""
    listed = list(issues)
    counted = Counter((issue.code, issue.severity) for issue in listed)
    return [
        {
            "code": code,
            "severity": severity,
            "count": count,
            "keys": sorted(
                {names.of("key", issue.session_key) for issue in listed if issue.code == code and issue.session_key}
            )[:_MOST_LINES],
        }
        for (code, severity), count in sorted(counted.items())
    ]


def _damage(damage: Damage, names: _Pseudonyms, moved: Mapping[str, str]) -> dict[str, Any]:
    document = {**damage.as_json(), "file": names.of("file", damage.file)}
    document["shape"] = _shape(damage, Path(moved.get(damage.file, damage.file)))
    return document


def _shape(damage: Damage, path: Path) -> dict[str, Any] | None:
    """The shape of a damaged line; None when it is too long, or when its file cannot be read any more."""
    if not 0 < damage.bytes <= _LONGEST_LINE_BYTES:
        return None
    try:
        with path.open("rb", buffering=0) as stream:
            stream.seek(damage.byte_offset)
            return shape(stream.read(damage.bytes))
    except OSError:
        return None


def _moved(manifest_path: Path | None) -> dict[str, str]:
    """Where the files of a run are now."""
    if manifest_path is None:
        return {}
    try:
        targets = read(manifest_path).manifest.targets
    except ManifestInvalidError:
        return {}
    return {str(move.source_path): str(move.archive_path) for target in targets for move in target.completed}


def _markdown(title: str, document: Mapping[str, Any]) -> str:
    lines = [f"# {title}", "", f"Exit status {document['exitStatus']}, {document['writtenAt']}.", ""]
    lines += [f"- {name}: {value}" for name, value in document["versions"].items()]
    lines += ["", "| total | number |", "|---|---|"]
    lines += [f"| {name} | {value} |" for name, value in document["totals"].items()]
    for target in [{"agent": "the run", "issues": document["issues"], "damage": []}, *document["targets"]]:
        if not target["issues"] and not target["damage"]:
            continue
        lines += ["", f"## {target['agent']}", ""]
        lines += [f"- {issue['severity']} `{issue['code']}`: {issue['count']}" for issue in target["issues"]]
        for damage in target["damage"]:
            place = f"{damage['file']} line {damage['line']}, byte {damage['byteOffset']}, {damage['bytes']} bytes"
            lines.append(f"- {damage['kind']}, {damage['action']}: {place}")
            if damage["shape"] is not None:
                lines.append(f"  - `{orjson.dumps(damage['shape']).decode()}`")
    lines += [
        "",
        "Keys, ids and paths are pseudonyms, the same within this report. No text of a transcript is in it.",
        "",
    ]
    return "\n".join(lines)
