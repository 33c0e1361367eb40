"""`scan-lifecycles`: find the sub-tasks of transcripts and say what became of each."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Any

import typer

from openclaw_cli.cli import options, output
from openclaw_cli.cli.options import Common
from openclaw_cli.errors import Exit, Issue, OpenClawError, UsageError, status_of

if TYPE_CHECKING:
    from openclaw_cli.lifecycles.records import Lifecycle, SourceScan
    from openclaw_cli.sources import SourceFile

_NAME_CHARS = 48


def register(app: typer.Typer) -> None:
    """Add the command `scan-lifecycles`."""
    options.command(
        app,
        "scan-lifecycles",
        example=(
            "openclaw-cli scan-lifecycles ~/.openclaw/agents/main/sessions/*.jsonl",
            "openclaw-cli scan-lifecycles --json --no-tokens session.jsonl | jq '.totals.byState'",
        ),
        exits=(Exit.ISSUES, Exit.NOT_FOUND, Exit.CORRUPT),
        without=("store", "agent", "all_agents", "local", "dry_run", "wait", "now"),
    )(scan_lifecycles)


def scan_lifecycles(
    common: Common,
    sources: Annotated[list[str], typer.Argument(metavar="SOURCE...", help="Transcripts: .jsonl, .jsonl.zst, or -.")],
    no_tokens: Annotated[bool, typer.Option("--no-tokens", help="Count no tokens (faster, less memory).")] = False,
    keep_last: Annotated[
        int,
        typer.Option("--keep-last", metavar="N", min=0, help="Turns that must follow before a sub-task may be folded."),
    ] = 1,
) -> int:
    """Find the sub-tasks of transcripts: spawn, result, end, and what folding would remove.

    It reads each source once and changes nothing; one that is missing or cannot be read does not stop the others. A
    sub-task starts with a call of sessions_spawn or delegate_task and ends with the message in which OpenClaw announces
    it. Token counts are exact and tell what folding would take out of this transcript; the tokens that the child itself
    used are told apart.
    """
    if sources.count("-") > 1:
        raise UsageError("standard input can be read once only")
    run = _Run(common, keep_last, count=not no_tokens)
    scans = run.scans(sources)
    if common.ndjson:
        return _print_lines(run, scans)
    done = list(scans)
    sums = totals(done, counted=not no_tokens)
    document: dict[str, Any] = {"sources": [found.as_json() for found in done], "totals": sums}
    if run.issues:
        document["issues"] = [issue.as_json() for issue in run.issues]
    output.emit(document, lambda: _text(done, sums, run.issues), common)
    if common.json:
        for found in done:
            _warn(found, common)
        for issue in run.issues:
            output.note(issue.message, common)
    return run.status(done)


class _Run:
    """The scans of one call, one source after the other. What concerns one source is an issue, the others go on."""

    def __init__(self, common: Common, keep_last: int, *, count: bool) -> None:
        self.common = common
        self.keep_last = keep_last
        self.count = count
        self.issues: list[Issue] = []
        self.failures: list[OpenClawError] = []

    def scans(self, sources: Sequence[str]) -> Iterator[SourceScan]:
        """The scan of each source that can be read. The failure of an only source is that of the run."""
        for spec in sources:
            try:
                yield _scan(spec, self)
            except OpenClawError as error:
                if len(sources) == 1:
                    raise
                self.failures.append(error)
                self.issues.append(_issue(error, spec))

    def status(self, scans: Sequence[SourceScan]) -> int:
        """The highest status that a source has caused."""
        damaged = any(damage.is_error for found in scans for damage in found.damage)
        return max(status_of(self.issues, self.failures), Exit.ISSUES if damaged else Exit.OK)


def _issue(error: OpenClawError, spec: str) -> Issue:
    return Issue(error.code, "error", error.message, facts={**error.facts, "source": spec, "hint": error.hint})


def _scan(spec: str, run: _Run) -> SourceScan:
    """One source. Of a compressed one that is cut short what can be read is scanned; raises when that is nothing."""
    from openclaw_cli.lifecycles import index, scan
    from openclaw_cli.sources import open_source

    common, keep_last, count = run.common, run.keep_last, run.count
    output.detail(f"transcript: {spec}", common)
    with open_source(spec, sys.stdin.buffer, lenient=True) as source, _progress(source, common) as bar:
        path = source.path
        found = scan.scan(
            source,
            keep_last=keep_last,
            count_tokens=count,
            child_sessions=(lambda: index.child_sessions(path)) if path is not None else None,
            on_bytes=bar.advance,
        )
        if (missing := source.shortage) is not None:
            if not found.records:
                raise missing
            run.issues.append(_issue(missing, spec))
        return replace(found, warnings=(*(issue.message for issue in source.issues), *found.warnings))


def _progress(source: SourceFile, common: Common) -> output.Progress:
    """A bar by bytes; a compressed file has no total, because what is read are its unpacked bytes."""
    packed = source.path is None or source.path.suffix == ".zst"
    return output.Progress(None if packed else source.size_bytes, "scanning", common)


def totals(scans: Sequence[SourceScan], *, counted: bool) -> dict[str, Any]:
    """The sums over all sources; `tokensRemovable` is None when no tokens were counted."""
    lifecycles = [lifecycle for found in scans for lifecycle in found.lifecycles]
    foldable = [lifecycle for lifecycle in lifecycles if lifecycle.foldable]
    return {
        "sources": len(scans),
        "records": sum(found.records for found in scans),
        "lifecycles": len(lifecycles),
        "byState": dict(sorted(Counter(lifecycle.state.value for lifecycle in lifecycles).items())),
        "foldable": len(foldable),
        "tokensRemovable": sum(lifecycle.tokens_removed or 0 for lifecycle in foldable) if counted else None,
        "damage": sum(len(found.damage) + found.damage_omitted for found in scans),
    }


def _print_lines(run: _Run, scans: Iterator[SourceScan]) -> int:
    """One object per lifecycle and per source, each as soon as its source is done; then the issues, the totals last."""
    done = []
    for found in scans:
        for lifecycle in found.lifecycles:
            output.write_line({"type": "lifecycle", "source": found.source, **lifecycle.as_json()})
        rest = found.as_json()
        del rest["lifecycles"]
        output.write_line({"type": "source", **rest})
        done.append(found)
    for issue in run.issues:
        output.write_line({"type": "issue", **issue.as_json()})
        output.note(issue.message, run.common)
    output.write_line({"type": "summary", **totals(done, counted=run.count)})
    return run.status(done)


def _warn(found: SourceScan, common: Common) -> None:
    for warning in found.warnings:
        output.note(f"{found.source}: {warning}", common)


def _text(scans: Sequence[SourceScan], sums: dict[str, Any], issues: Sequence[Issue]) -> Iterator[str | output.Table]:
    for found in scans:
        yield f"{found.source}: {found.records} records, {len(found.lifecycles)} sub-tasks"
        for warning in found.warnings:
            yield f"  warning: {warning}"
        for damage in found.damage:
            yield f"  damage: line {damage.line}, byte {damage.byte_offset}: {damage.kind}, {damage.action}"
        if found.damage_omitted:
            yield f"  damage: {found.damage_omitted} more places"
        if found.lifecycles:
            yield _table(found.lifecycles)
        for completion in found.completions_without_spawn:
            yield f"  line {completion.line}: {completion.format} of a child that was not spawned here"
    for issue in issues:
        yield f"{issue.severity}: {issue.message}"
    yield _summary(sums)


def _summary(sums: dict[str, Any]) -> str:
    states = ", ".join(f"{count} {state}" for state, count in sums["byState"].items())
    line = f"{sums['lifecycles']} sub-tasks" + (f": {states}" if states else "") + f"; {sums['foldable']} foldable"
    removable = sums["tokensRemovable"]
    return line + (f", {removable} tokens removable" if removable is not None and sums["foldable"] else "")


def _table(lifecycles: Sequence[Lifecycle]) -> output.Table:
    numbers = ("line", "end", "time", "tokens", "child")
    return output.Table(
        columns=("line", "end", "state", "time", "tokens", "child", "sub-task", "fold"),
        rows=[_row(lifecycle) for lifecycle in lifecycles],
        right=frozenset(numbers),
        wide=frozenset({"sub-task", "fold"}),
    )


def _row(lifecycle: Lifecycle) -> tuple[str, ...]:
    spawn, completion = lifecycle.spawn, lifecycle.completion
    name = " ".join((spawn.label or spawn.task_name or spawn.task or "").split())
    return (
        str(spawn.line),
        str(completion.line) if completion else "-",
        lifecycle.state.value,
        _duration(completion.stats.get("runtimeMs", completion.wall_ms)) if completion else "-",
        _number(lifecycle.tokens_removed),
        _number(lifecycle.child_tokens),
        name if len(name) <= _NAME_CHARS else name[: _NAME_CHARS - 1] + "…",
        "yes" if lifecycle.foldable else f"no: {lifecycle.reason}",
    )


def _number(value: int | None) -> str:
    return "-" if value is None else str(value)


def _duration(milliseconds: int | None) -> str:
    if milliseconds is None:
        return "-"
    seconds = max(0, round(milliseconds / 1000))
    hours, minutes = divmod(seconds // 60, 60)
    if hours:
        return f"{hours}h{minutes:02d}m"
    return f"{minutes}m{seconds % 60:02d}s" if minutes else f"{seconds}s"
