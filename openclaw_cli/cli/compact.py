"""`compact`: fold the finished sub-tasks of a transcript into cards, in a new file."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from openclaw_cli.cli import options, output
from openclaw_cli.cli.options import Common
from openclaw_cli.errors import Exit, UsageError

if TYPE_CHECKING:
    from openclaw_cli.lifecycles.fold import Plan
    from openclaw_cli.sources import SourceFile

_SUFFIX = ".folded.jsonl"
_LABELS = ("auto", "de", "en")


def register(app: typer.Typer) -> None:
    """Add the command `compact`."""
    options.command(
        app,
        "compact",
        example=(
            "openclaw-cli compact ~/.openclaw/agents/main/sessions/4f1c….jsonl",
            "openclaw-cli compact --dry-run --json session.jsonl | jq '.lifecycles[] | .card'",
            "zstd -dc session.jsonl.zst | openclaw-cli compact - -o - > folded.jsonl",
        ),
        exits=(Exit.ISSUES, Exit.NOT_FOUND, Exit.REFUSED),
        without=("store", "agent", "all_agents", "local", "wait", "now", "ndjson"),
    )(compact)


def compact(
    common: Common,
    source: Annotated[str, typer.Argument(metavar="SOURCE", help="A transcript: .jsonl, .jsonl.zst, or -.")],
    out: Annotated[
        str | None,
        typer.Option(
            "-o",
            "--output",
            metavar="FILE",
            help=f"New file. Default: NAME{_SUFFIX}. With - the transcript goes to stdout and the report to stderr.",
        ),
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Replace the file named by -o.")] = False,
    lifecycles: Annotated[bool, typer.Option("--lifecycles", help="Fold finished sub-tasks (the default).")] = False,
    keep_last: Annotated[
        int,
        typer.Option("--keep-last", metavar="N", min=0, help="Turns that must follow a sub-task before it is folded."),
    ] = 1,
    card_tokens: Annotated[
        int, typer.Option("--card-tokens", metavar="N", min=1, help="Size of a card; facts may need more.")
    ] = 160,
    labels: Annotated[
        str | None,
        typer.Option(
            "--labels",
            metavar="auto|de|en",
            help="Language of the labels, auto: that of the task. Default: compact.labels, which is auto.",
        ),
    ] = None,
) -> int:
    """Fold the finished sub-tasks of a transcript into short cards.

    A finished sub-task's raw history is dead weight in the context of the agent that asked for it. Its spawn, the
    answers to it and the message of its end are replaced by one card: task, outcome, result, files, errors. Everything
    else is copied byte for byte, every word of a person stays, and the new file loads in OpenClaw. The source is never
    changed. Nothing is summarised by a model; to reclaim disk space use `doctor compact`.
    """
    if labels is None:
        labels = str(common.config().get("compact.labels").value)
    _check_labels(labels)
    from openclaw_cli.sources import open_source

    output.detail(f"transcript: {source}", common)
    with open_source(source, sys.stdin.buffer) as opened:
        target = _target(opened, out)
        if target is not None and not common.dry_run:
            _check(opened, target, force)
        before = os.stat(opened.path) if opened.path is not None else None
        with output.Progress(_total_bytes(opened), "folding", common) as bar:
            plan = _plan(opened, keep_last, card_tokens, labels, bar)
            if not common.dry_run:
                _write(plan, opened, target, force, before)
    shown = None if common.dry_run else ("-" if target is None else str(target))
    _report(plan.as_json(output=shown, dry_run=common.dry_run), plan, common, on_stderr=shown == "-")
    return Exit.ISSUES if any(damage.is_error for damage in plan.scan.damage) else Exit.OK


def _check_labels(labels: str) -> None:
    if labels not in _LABELS:
        raise UsageError(f"--labels must be one of {', '.join(_LABELS)}", hint="openclaw-cli compact --help")


def _total_bytes(opened: SourceFile) -> int | None:
    """Bytes of the two reads; unknown for what is packed."""
    packed = opened.path is not None and opened.path.suffix == ".zst"
    return None if packed else 2 * opened.size_bytes


def _target(opened: SourceFile, out: str | None) -> Path | None:
    """The file to write; None is stdout. Standard input goes to standard output unless `-o` says otherwise."""
    if out == "-" or (out is None and opened.name == "-"):
        return None
    if out is None:
        name = Path(opened.name).name.removesuffix(".zst").removesuffix(".jsonl")
        return Path(opened.name).with_name(name + _SUFFIX)
    if out.endswith(".zst"):
        raise UsageError("compressed output is not supported", hint="name a .jsonl file with -o", path=out)
    return Path(out)


def _check(opened: SourceFile, target: Path, force: bool) -> None:
    from openclaw_cli.errors import NotFoundError
    from openclaw_cli.lifecycles import writing

    if not target.parent.is_dir():
        raise NotFoundError(f"there is no directory {target.parent}", hint="make it first", path=str(target))
    writing.check_target(target, force=force, source=opened.path, source_bytes=opened.size_bytes)


def _plan(opened: SourceFile, keep_last: int, card_tokens: int, labels: str, bar: output.Progress) -> Plan:
    from openclaw_cli.lifecycles import fold, index, scan
    from openclaw_cli.summarize.card import Labels

    path = opened.path
    found = scan.scan(
        opened,
        keep_last=keep_last,
        child_sessions=(lambda: index.child_sessions(path)) if path is not None else None,
        on_bytes=bar.advance,
    )
    chosen = fold.Options(card_tokens, None if labels == "auto" else Labels(labels))
    return fold.plan(found, opened.stream, chosen, on_bytes=bar.advance)


def _write(plan: Plan, opened: SourceFile, target: Path | None, force: bool, before: os.stat_result | None) -> None:
    from openclaw_cli.durable import SourceChangedError, fingerprint
    from openclaw_cli.lifecycles import fold, writing

    def lines() -> Iterator[bytes]:
        yield from fold.rewritten(plan, opened.stream)
        # What was planned and what is copied must be the same file; a gateway may still append to it.
        if opened.path is not None and before is not None and fingerprint(os.stat(opened.path)) != fingerprint(before):
            message = f"{opened.name} changed while it was read"
            raise SourceChangedError(message, hint="stop the writer or copy the file first")

    if target is not None:
        writing.write_file(target, lines(), force=force)
        return
    for line in lines():
        sys.stdout.buffer.write(line)
    sys.stdout.buffer.flush()


def _report(document: dict[str, Any], plan: Plan, common: Common, *, on_stderr: bool) -> None:
    """The report on stdout, or on stderr when stdout carries the transcript."""
    for issue in plan.scan.warnings:
        output.note(f"{plan.scan.source}: {issue}", common)
    if not on_stderr:
        output.emit(document, lambda: _text(document), common)
    elif common.json:
        sys.stderr.write(output.dump(document).decode("utf-8") + "\n")
    else:
        output.note(_summary(document), common)


def _summary(document: dict[str, Any]) -> str:
    rows = document["lifecycles"]
    folded = sum(row["action"] == "folded" for row in rows)
    line = f"{folded} of {len(rows)} sub-tasks {'would be ' if document['dryRun'] else ''}folded"
    if not folded:
        return line
    shares = f"{document['tokensBefore']} -> {document['tokensAfter']} tokens (-{document['reduction'] * 100:.1f} %)"
    context = f"context about {document['contextTokensBefore']} -> {document['contextTokensAfter']} tokens"
    return f"{line}: {shares}; {context}"


def _text(document: dict[str, Any]) -> Iterator[str | output.Table]:
    rows = document["lifecycles"]
    if rows:
        yield output.Table(
            columns=("line", "state", "action", "before", "after", "child", "sub-task", "reason"),
            rows=[_row(row) for row in rows],
            right=frozenset({"line", "before", "after", "child"}),
            wide=frozenset({"sub-task", "reason"}),
        )
    for damage in document["damage"]:
        place = f"line {damage['line']}, byte {damage['byteOffset']}"
        yield f"damage: {place}: {damage['kind']}, copied as it is"
    for row in rows:
        yield from row["card"].split("\n") if "card" in row else ()
    yield _summary(document)
    yield "nothing was written (--dry-run)" if document["dryRun"] else f"written: {document['output']}"


def _row(row: dict[str, Any]) -> tuple[str, ...]:
    folded = row["action"] == "folded"
    numbers = (str(row["tokensBefore"]), str(row["tokensAfter"])) if folded else ("-", "-")
    child = "-" if row["childTokens"] is None else str(row["childTokens"])
    name = row["label"] or row["childSessionKey"] or "-"
    return (str(row["line"]), row["state"], row["action"], *numbers, child, name, row["reason"] or "")
