"""Play the product's own commands on the bundled state directory, one process each.

Every figure that a step tells comes out of the JSON document of the command that it ran (or, for the card shown last,
out of the file that the command wrote). Nothing of the user's own state, configuration or gateway is looked at: the
processes get a home of their own and none of the OPENCLAW_* variables.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import Any

import orjson

from openclaw_cli.errors import Exit, NoSpaceError, OpenClawError

DATA = "data/demo/state"
MAIN_KEY = "agent:main:main"
# Far above what the commands need on this data; a hung command must not hang the demo.
TIMEOUT_S = 120
_NO_SPACE_CODES = ("no_space", "not_writable")
_ROOM = "free some space there, or name a directory with more room in TMPDIR"

Report = Mapping[str, Any]
Tell = Callable[[Report], Iterator[str]]


@dataclass(frozen=True, slots=True)
class Played:
    """One step that was played: its heading, the command line, its status and report, what the report says in words."""

    title: str
    argv: tuple[str, ...]
    status: int
    report: Report
    lines: tuple[str, ...]

    def as_json(self) -> dict[str, Any]:
        """The step as an item of the demo's own JSON document."""
        return {"title": self.title, "argv": list(self.argv), "status": self.status, "report": self.report}


class DemoError(OpenClawError):
    """A command of the story did not do what the story needs; this is a fault of the program, not of its user."""

    code = "demo_failed"


@dataclass(frozen=True, slots=True)
class Stage:
    """Where the story plays: a folder of its own with a copy of the bundled state directory."""

    folder: Path
    environment: Mapping[str, str]

    @property
    def state_dir(self) -> Path:
        """The state directory that the commands work on."""
        return self.folder / "state"

    @property
    def folded(self) -> Path:
        """The transcript that the last command writes."""
        return self.folder / "main.folded.jsonl"

    def run(self, title: str, argv: tuple[str, ...], tell: Tell) -> Played:
        """Run `openclaw-cli ARGV… --json`; a status other than 0 and 3 raises `DemoError`."""
        full = (*argv, "--json")
        done = subprocess.run(
            [sys.executable, "-m", "openclaw_cli", *full],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            env=dict(self.environment),
            timeout=TIMEOUT_S,
        )
        if done.returncode == Exit.REFUSED and (error := _no_space(done.stdout)):
            raise NoSpaceError(error, hint=_ROOM, path=str(self.folder))
        if done.returncode not in (0, 3):
            raise DemoError(
                f"openclaw-cli {' '.join(full)} ended with status {done.returncode}",
                hint="run the same command on the folder that --keep leaves behind, with --debug",
                stderr=done.stderr.decode("utf-8", "replace")[-2000:],
            )
        report = orjson.loads(done.stdout)
        return Played(title, full, done.returncode, report, tuple(tell(report)))


def prepare(folder: Path, environment: Mapping[str, str], *, keep: bool = False) -> Stage:
    """Copy the bundled state directory into `folder` and close the user's own settings out of the environment.

    With `keep` there is a second copy, `before`, that the story does not touch. Raises `NoSpaceError`.
    """

    def copy(source: str, destination: str) -> str:
        try:
            return shutil.copy2(source, destination)
        except OSError as error:  # copytree would gather it, and forget its number
            raise NoSpaceError(f"{folder} cannot be written: {error.strerror}", hint=_ROOM, path=str(folder)) from error

    with resources.as_file(resources.files("openclaw_cli").joinpath(DATA)) as bundled:
        shutil.copytree(bundled, folder / "state", copy_function=copy)
        if keep:
            shutil.copytree(bundled, folder / "before", copy_function=copy)
    home = folder / "home"
    home.mkdir()
    kept = {name: value for name, value in environment.items() if not name.startswith(("OPENCLAW_", "XDG_"))}
    return Stage(folder, {**kept, "HOME": str(home)})


def _no_space(document: bytes) -> str | None:
    """What a command said that stopped because it could not write; None when that was not its reason."""
    try:
        report = orjson.loads(document)
    except orjson.JSONDecodeError:
        return None  # it did not get as far as its document
    if not report.get("ok", True):
        error = report["error"]
        return error["message"] if error["code"] in _NO_SPACE_CODES else None
    issues = (issue for target in report.get("targets", ()) for issue in target["issues"])
    return next(
        (issue["message"] for issue in issues if issue["code"].removeprefix("sqlite_") in _NO_SPACE_CODES), None
    )


def play(stage: Stage) -> Iterator[Played]:
    """Play the story step by step: look, try, import, list, validate, scan, fold."""
    where = ("--all-agents", "--state-dir", str(stage.state_dir))
    yield stage.run("Look at a file-era store; nothing is written", ("doctor", "inspect", *where), tell_inspect)
    yield stage.run(
        "Read all that an import would read; nothing is written", ("doctor", "dry-run", *where), tell_dry_run
    )
    imported = stage.run("Import it into SQLite; the old files are archived", ("doctor", "import", *where), tell_import)
    yield imported
    listed = stage.run("List the sessions", ("sessions", "list", *where), tell_sessions)
    yield listed
    yield stage.run("See that nothing is left outside the store", ("doctor", "validate", *where), tell_validate)
    source = str(transcript_of(MAIN_KEY, listed.report, imported.report))
    yield stage.run("Find the sub-tasks of the long conversation", ("scan-lifecycles", source), tell_scan)
    argv = ("compact", "--lifecycles", source, "-o", str(stage.folded))
    yield stage.run("Fold the finished ones into cards", argv, tell_fold)


def transcript_of(key: str, listed: Report, imported: Report) -> Path:
    """The archived transcript of the session `key`, found by its session id among the files that the import moved."""
    session_id = next((row["sessionId"] for row in listed["sessions"] if row["key"] == key), None)
    for target in imported["targets"]:
        for name in target["archivedTranscriptFiles"]:
            if session_id is not None and f"{session_id}.jsonl" in Path(name).name:
                return Path(name)
    raise DemoError(f"the import did not archive the transcript of {key}")


def first_card(folded: Path) -> str:
    """The text of the first card in a folded transcript, empty when there is none."""
    with folded.open("rb") as lines:
        for line in lines:
            message = orjson.loads(line).get("message") or {}
            blocks = message.get("content") if message.get("role") == "assistant" else None
            for block in blocks if isinstance(blocks, list) else ():
                text = block.get("text") or ""
                if text.startswith("── "):
                    return text
    return ""


def tell_inspect(report: Report) -> Iterator[str]:
    """How much there is."""
    totals = report["totals"]
    files = sum(target["referencedTranscriptFiles"] for target in report["targets"])
    yield f"{totals['legacyEntries']} sessions with {files} transcripts in files, {totals['sqliteEntries']} in SQLite"


def tell_dry_run(report: Report) -> Iterator[str]:
    """How many lines there are, and which are damaged."""
    totals = report["totals"]
    yield f"{totals['linesTotal']} lines, {totals['damage']} damaged, {totals['linesLost']} records lost"
    for target in report["targets"]:
        for damage in target["damage"]:
            place = f"{Path(damage['file']).name}, line {damage['line']}, byte {damage['byteOffset']}"
            yield f"{damage['kind']}: {damage['bytes']} bytes in {place}"


def tell_import(report: Report) -> Iterator[str]:
    """What the store holds now, and what was found on the way."""
    totals = report["totals"]
    yield f"{totals['importedEntries']} sessions and {totals['importedTranscriptEvents']} events imported"
    yield (
        f"{totals['validatedEntries']} sessions and {totals['validatedTranscriptEvents']} events compared with their "
        f"sources, then {totals['archivedTranscriptFiles']} transcripts archived"
    )
    for target in report["targets"]:
        for issue in target["issues"]:
            yield f"{issue['severity']}: {issue['code']} at {issue.get('sessionKey') or 'the whole store'}"


def tell_sessions(report: Report) -> Iterator[str]:
    """The keys, newest first."""
    width = max((len(row["key"]) for row in report["sessions"]), default=0)
    for row in report["sessions"]:
        tokens = row.get("totalTokens")
        yield f"{row['key']:<{width}}  {'tokens unknown' if tokens is None else f'{tokens:,} tokens'}"


def tell_validate(report: Report) -> Iterator[str]:
    """What is in the store, and what is still in files only."""
    totals = report["totals"]
    errors = sum(issue["severity"] == "error" for target in report["targets"] for issue in target["issues"])
    yield f"{totals['sqliteEntries']} sessions in SQLite, {totals['legacyEntries']} left in an index, {errors} errors"


def tell_scan(report: Report) -> Iterator[str]:
    """How many sub-tasks there are, in which state."""
    totals = report["totals"]
    states = ", ".join(f"{count} {state}" for state, count in totals["byState"].items() if count)
    yield f"{totals['lifecycles']} sub-tasks in {totals['records']} records: {states}"
    yield f"{totals['foldable']} can be folded; {totals['tokensRemovable']:,} tokens would go"


def tell_fold(report: Report) -> Iterator[str]:
    """What was folded and what it saves, in exact tokens and in OpenClaw's own estimate of the context."""
    for item in report["lifecycles"]:
        name = item["label"] or item["childSessionKey"] or "unnamed"
        if item["action"] == "folded":
            yield f"{name}: {item['tokensBefore']:,} -> {item['tokensAfter']:,} tokens"
        else:
            yield f"{name}: kept, {item['reason']}"
    less = percent(report["reduction"])
    yield f"together {report['tokensBefore']:,} -> {report['tokensAfter']:,} tokens, {less} less"
    yield (
        f"context of the model, as OpenClaw estimates it: {report['contextTokensBefore']:,} -> "
        f"{report['contextTokensAfter']:,} tokens"
    )


def percent(share: float) -> str:
    """A share from 0 to 1 as a percentage with one digit behind the point."""
    return f"{100 * share:.1f} %"
