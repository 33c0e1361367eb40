"""`demo`: play the product's own commands on bundled data and say what their reports say."""

from __future__ import annotations

import contextlib
import shlex
import sys
import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from openclaw_cli.cli import options, output
from openclaw_cli.cli.options import Common
from openclaw_cli.config import environment
from openclaw_cli.errors import Exit, NoSpaceError

if TYPE_CHECKING:
    from openclaw_cli.demo.story import Played


def register(app: typer.Typer) -> None:
    """Add the command `demo`."""
    options.command(
        app,
        "demo",
        example="openclaw-cli demo --keep",
        exits=(Exit.REFUSED,),
        without=(
            "state_dir",
            "config_path",
            "store",
            "agent",
            "all_agents",
            "local",
            "dry_run",
            "wait",
            "now",
            "verbose",
            "ndjson",
        ),
    )(demo)


def demo(
    common: Common,
    keep: Annotated[
        bool,
        typer.Option("--keep", help="Leave the directory behind and name it; before/ in it is the data as it was."),
    ] = False,
) -> int:
    """Show the whole story on bundled data in a temporary directory.

    It looks at a small file-era store, imports it, lists and validates the result, finds the sub-tasks of a long
    conversation and folds the finished ones. Each command is printed as it is run; every figure comes from its report.
    Your own state, configuration and gateway are not looked at.
    """
    from openclaw_cli.demo import story

    with _folder(keep) as folder:
        stage = story.prepare(folder, environment(), keep=keep)
        played = []
        for number, step in enumerate(story.play(stage), 1):
            played.append(step)
            if not common.json:
                _show(_told(number, step))
        card = story.first_card(stage.folded)
        if common.json:
            steps = [step.as_json() for step in played]
            output.write_document({"steps": steps, "card": card, "folder": str(folder) if keep else None})
        else:
            _show(_ending(card, folder if keep else None))
    return 0


@contextlib.contextmanager
def _folder(keep: bool) -> Iterator[Path]:
    """A new directory for the run; without `keep` it goes at the end, also when a step failed."""
    try:
        tempfile.gettempdir()
    except FileNotFoundError as error:
        message = "no temporary directory can be written"
        raise NoSpaceError(message, hint="free some space, or name a directory with room in TMPDIR") from error
    if keep:
        yield Path(tempfile.mkdtemp(prefix="openclaw-demo-"))
        return
    with tempfile.TemporaryDirectory(prefix="openclaw-demo-") as name:
        yield Path(name)


def _told(number: int, step: Played) -> Iterator[str]:
    """A step in words: heading, command line, what its report says, a status other than 0."""
    yield f"{number}. {step.title}"
    yield f"$ openclaw-cli {shlex.join(step.argv)}"
    yield from (f"   {line}" for line in step.lines)
    if step.status:
        yield f"   exit status {step.status}: {options.STATUS_MEANING[step.status]}"
    yield ""


def _ending(card: str, folder: Path | None) -> Iterator[str]:
    """One card as it stands in the folded transcript, and where everything is."""
    if card:
        yield "The first card in the folded transcript:"
        yield from (f"   {line}" for line in card.split("\n"))
        yield ""
    if folder is None:
        yield "The directory is gone again; --keep leaves it."
    else:
        yield f"Everything is in {folder}: state/ after the story, before/ as it was, main.folded.jsonl"


def _show(lines: Iterable[str]) -> None:
    output.write_text(lines)
    sys.stdout.flush()  # each step appears when it is done
