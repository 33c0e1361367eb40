"""The wordings in which a sub-task's end is written, per era (lifecycles §3). Pure: texts in, `Notice` values out.

A notice is what one text says of one child. Nothing is anchored at the start of a text: memory plugins and queues put
thousands of characters before a marker. What keeps quotations out is the shape behind the wording: the block of field
lines, the result heading with its statistics line, or the provenance that OpenClaw puts on injected messages.
"""

from __future__ import annotations

import heapq
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from openclaw_cli.lifecycles.injected import has_form
from openclaw_cli.lifecycles.stats import parse_stats

EVENT = "event"
BACKGROUND = "background task"
SUBAGENT = "subagent task"
SYSTEM = "system message"
PLAIN = "plain"
REPLY = "announce-run-reply"
SETTLE = "settle-batch"
DOCUMENT = "document"

ANNOUNCE_RUN = "announce:v1:"
SETTLE_RUN = "announce:requester-settle:"

_SETTLE_HEAD = "Child completion results:"
_EVENT_OPENING = "[Internal task completion event]"
_PLAIN_OPENING = "A background task completed."
_TAIL_CHARS = 20_000
_HINTS = (_EVENT_OPENING, ' task "', _PLAIN_OPENING, _SETTLE_HEAD)
_EVENT_HEAD = re.compile(r"\[Internal task completion event\][ \t]*\n")
_PLAIN_HEAD = re.compile(r"A background task completed\. Use this result to reply[^\n]*\n\n?")
_FIELDS = re.compile(
    r"source: (?P<source>[^\n]*)\n"
    r"(?:session_key: (?P<key>[^\n]*)\n)?"
    r"(?:session_id: (?P<session>[^\n]*)\n)?"
    r"type: (?P<type>[^\n]*)\n"
    r"(?:task: (?P<task>(?s:.*?))\n)?"
    r"status: (?P<status>[^\n]*)"
)
_HEADING = re.compile(r"\s*(?:Child )?[Rr]esult\b(?:[^\n]*:[ \t]*(?=\n|\Z)|: (?P<inline>[^\n]+))\n?")
_UNTRUSTED = ("<<<BEGIN_UNTRUSTED_CHILD_RESULT>>>", "<<<END_UNTRUSTED_CHILD_RESULT>>>")
_PROMPT_DATA = ("<prompt-data>", "</prompt-data>")
_OPEN_END = re.compile(
    r"\n+(?:Stats: [^\n]*runtime|Action:[ \t]*(?:\n|\Z)|Instruction:[ \t]*(?:\n|\Z)|<<<END_OPENCLAW_INTERNAL_CONTEXT>>>"
    r"|---\n+(?:\[Internal task|A background task|Queued #\d))"
)
_STATS_LINE = re.compile(r"\nStats: ([^\n]*)")
_EVENT_END = re.compile(r"\n(?:Action|Instruction):|\n---\n|<<<END_OPENCLAW_INTERNAL_CONTEXT>>>")
_DATE_PREFIX = r"(?:\[[A-Z][a-z]{2} \d{4}-\d\d-\d\d \d\d:\d\d[^\]\n]*\] ?)?"
_WRAPPER = re.compile(r"OpenClaw runtime context \(internal\)|<<<BEGIN_OPENCLAW_INTERNAL_CONTEXT>>>")
_QUEUE_PREFIX = r"(?:\[Queued announce messages while agent was busy\]\s*)?(?:-{3}\s*Queued #\d+\s*)?"
_LEAD = re.compile(rf"\s*{_DATE_PREFIX}{_QUEUE_PREFIX}{_DATE_PREFIX}")
_MEMORY_PREFACE = re.compile(rf"\s*{_DATE_PREFIX}Note: Reference memory\b")
# What a message of the program begins with: a queue's header, or any era's opening.
_PROGRAM_OPENING = re.compile(
    rf"\s*{_DATE_PREFIX}(?:\[Queued announce messages while agent was busy\]|-{{3}}\s*Queued #\d|\[System Message\] "
    r"|\[Internal task completion event\]|<<<BEGIN_OPENCLAW_INTERNAL_CONTEXT>>>"
    r"|A (?:background|subagent) task |A background task completed\.|OpenClaw runtime context \(internal\))"
)

_OPENING = re.compile(r'A (?P<kind>background task|subagent task|cron job) "')
_CLOSING = '" just '
_SYSTEM_LEAD = re.compile(r"\[System Message\] (?:\[sessionId: (?P<session>[^\]\n]*)\] )?\Z")
_SYSTEM_LEAD_CHARS = 200
_LABEL_CHARS = 60_000
_STATUS = re.compile(
    r"(?P<status>completed[^.\n]{0,200}|timed out(?s:.{0,2000}?)|failed(?s:.{0,2000}?)"
    r"|finished[^.\n]{0,200}|was [^.\n]{0,200})"
    r"\.[ \t]*(?:\n\s*(?P<heading>Findings|Result):[ \t]*(?:\n|(?=\S))|(?=\n|\Z))"
)
_SEPARATED = re.compile(r"-{3}\s*(?:Queued #\d+\s*)?\Z")
_QUEUED = re.compile(r"\n+-{3}\n+Queued #\d+\n")
_LAST_STATS = re.compile(r"\n\s*Stats: ([^\n]*runtime[^\n]*)")

_SETTLE_ITEM = re.compile(r"^\d+\. Child task[^\n]*:[ \t]*\n<prompt-data>\n", re.MULTILINE)
_SETTLE_STATUS = "\n</prompt-data>\nstatus: "
_DOCUMENT = re.compile(r"\s*subagent (['\"‘“`])(?P<name>.+?)(['\"’”`]) completed\.?\s*", re.IGNORECASE)

_NO_RESULT = re.compile(r"\s*(?:\(no output\)|NO_REPLY|ANNOUNCE_SKIP|\[truncated-by-retention\b.*)?\s*", re.DOTALL)


@dataclass(slots=True)
class Notice:
    """What one text says of the end of one child; every name may be missing.

    `trusted`: provenance or an injected wrapper stands behind it; without that only a child key can match it.
    `runs`: run ids of the whole batch (settle messages), in the order in which they are written there.
    """

    format: str
    status: str | None
    outcome: str
    key: str | None = None
    run_id: str | None = None
    session_id: str | None = None
    label: str | None = None
    stats: Mapping[str, Any] = field(default_factory=dict)
    result: str | None = None
    trusted: bool = True
    runs: tuple[str, ...] = ()
    position: int = 0
    end: int = 0


def may_hold(text: str) -> bool:
    """A cheap look: whether `notices` or `document_name` can find anything in the text."""
    return any(hint in text for hint in _HINTS) or (len(text) < 1000 and "completed" in text and "ubagent" in text)


def outcome_of(status: str | None) -> str:
    """ok, timeout, error, killed or unknown for a status wording of any era."""
    word = (status or "").strip().lower()
    if word.startswith(("ok", "completed", "success", "done")):
        return "ok"
    if word.startswith(("timed out", "timeout", "timed_out")):
        return "timeout"
    if word.startswith(("failed", "error")):
        return "error"
    if word.startswith(("cancel", "killed", "was killed", "was cancel", "aborted", "stopped")):
        return "killed"
    return "unknown"


def usable(result: str | None) -> bool:
    """Whether a result text tells anything: not blank, no placeholder, not cut off by retention."""
    return result is not None and _NO_RESULT.fullmatch(result) is None


def _fenced(text: str, start: int, fence: tuple[str, str]) -> tuple[str, int]:
    end = text.find(fence[1], start + len(fence[0]))
    body = text[start + len(fence[0]) : end if end >= 0 else len(text)]
    return body.strip("\n"), end + len(fence[1]) if end >= 0 else len(text)


def _read_result(text: str, start: int) -> tuple[str | None, int]:
    """The child's answer behind the status line, and where it ends."""
    heading = _HEADING.match(text, start)
    if heading is None:
        return None, start
    if heading["inline"]:
        return heading["inline"].strip(), heading.end()
    body = heading.end()
    if text.startswith(_UNTRUSTED[0], body):
        return _fenced(text, body, _UNTRUSTED)
    if text.startswith(_PROMPT_DATA[0], body):
        escaped, end = _fenced(text, body, _PROMPT_DATA)
        return escaped.replace("&lt;", "<").replace("&gt;", ">"), end
    end = _OPEN_END.search(text, body)
    stop = end.start() if end else len(text)
    return text[body:stop].strip("\n"), stop


def _known(value: str | None) -> str | None:
    value = value.strip() if value else ""
    return value if value and value != "unknown" else None


def _events(text: str, injected: bool) -> Iterator[Notice]:
    """Eras D, E, F and H: the block of field lines."""
    position = 0
    for head in _heads(text):
        # A block needs a status line; where none follows, no later block has one either.
        if head.start() < position:
            continue
        if text.find("\nstatus: ", head.end()) < 0:
            return
        fields = _FIELDS.match(text, head.end())
        if fields is None:
            continue
        result, position = _read_result(text, fields.end())
        stop = _EVENT_END.search(text, position, position + _TAIL_CHARS)
        stats = _STATS_LINE.search(text, position, stop.start() if stop else position + _TAIL_CHARS)
        trusted = injected or _stands_alone(text, head.start())
        if not trusted or fields["source"].strip() == "cron" or fields["type"].strip() != "subagent task":
            continue
        yield Notice(
            format=EVENT if text[head.start()] == "[" else PLAIN,
            status=fields["status"].strip(),
            outcome=outcome_of(fields["status"]),
            key=_known(fields["key"]),
            session_id=_known(fields["session"]),
            label=_known(fields["task"]),
            stats=parse_stats(stats[1]) if stats else {},
            result=result,
            position=head.start(),
            end=position,
        )


def _heads(text: str) -> Iterable[re.Match[str]]:
    """The openings of field blocks in the order of the text; plain searches first, because most texts hold one kind."""
    event = _EVENT_HEAD.finditer(text) if _EVENT_OPENING in text else ()
    plain = _PLAIN_HEAD.finditer(text) if _PLAIN_OPENING in text else ()
    return heapq.merge(event, plain, key=lambda head: head.start()) if event and plain else event or plain


def _stands_alone(text: str, start: int) -> bool:
    """Whether a marker at `start` opens the text, follows a queue header, or stands in a runtime-context wrapper."""
    lead = _LEAD.match(text)
    if lead is not None and lead.end() >= start:
        return True
    before = text[:start]
    return bool(_WRAPPER.search(before)) or bool(_SEPARATED.search(before[-200:]))


@dataclass(slots=True)
class _Announced:
    """The opening sentence of eras A to C: `[System Message] [sessionId: I] A subagent task "L" just S.`"""

    start: int
    end: int
    kind: str
    label: str
    status: str
    has_heading: bool
    is_system: bool
    session_id: str | None


def _announcements(text: str) -> Iterator[_Announced]:
    """All such sentences. The next closing quote is looked for once only, so that no text takes quadratic time."""
    closing = 0
    for opening in _OPENING.finditer(text):
        start = opening.end()
        if closing < start:
            closing = text.find(_CLOSING, start)
        if closing < 0:
            return
        # A label may hold the closing words itself; a few tries tell.
        place = closing
        for _ in range(4):
            if not 0 <= place - start <= _LABEL_CHARS:
                break
            if told := _STATUS.match(text, place + len(_CLOSING)):
                yield _announced(text, opening, text[start:place], told)
                break
            place = text.find(_CLOSING, place + 1, start + _LABEL_CHARS)


def _announced(text: str, opening: re.Match[str], label: str, told: re.Match[str]) -> _Announced:
    system = _SYSTEM_LEAD.search(text[max(0, opening.start() - _SYSTEM_LEAD_CHARS) : opening.start()])
    return _Announced(
        start=opening.start() - (len(system[0]) if system else 0),
        end=told.end(),
        kind=opening["kind"],
        label=label,
        status=told["status"].strip(),
        has_heading=told["heading"] is not None,
        is_system=system is not None,
        session_id=_known(system["session"]) if system else None,
    )


def _just(text: str, injected: bool) -> Iterator[Notice]:
    """Eras A, B and C: `A subagent task "L" just S.` with findings and a statistics line."""
    found = list(_announcements(text))
    # One that stands inside another's findings is a quotation, unless the queue's line parts them.
    heads = [head for n, head in enumerate(found) if n == 0 or _SEPARATED.search(text[: head.start][-200:])]
    for number, head in enumerate(heads):
        trusted = injected or _is_announced(text, head.start, alone=len(found) == 1)
        queued = _QUEUED.search(text, head.end)
        stop = min(
            queued.start() if queued else len(text), heads[number + 1].start if number + 1 < len(heads) else len(text)
        )
        body = "\n" + text[head.end : stop]
        stats_lines = list(_LAST_STATS.finditer(body))
        stats = parse_stats(stats_lines[-1][1]) if stats_lines else {}
        if head.kind == "cron job" or not (head.has_heading or injected) or (head.is_system and not trusted):
            continue
        result = body[: stats_lines[-1].start()] if stats_lines else body
        yield Notice(
            format=SYSTEM if head.is_system else BACKGROUND if head.kind == "background task" else SUBAGENT,
            status=head.status,
            outcome=outcome_of(head.status),
            key=_known(stats.get("sessionKey")),
            session_id=head.session_id or _known(stats.get("sessionId")),
            label=_known(head.label),
            stats=stats,
            result=result.strip() if head.has_heading else None,
            trusted=trusted,
            position=head.start,
            end=stop,
        )


def _is_announced(text: str, start: int, *, alone: bool) -> bool:
    """Whether a sentence of eras A to C stands where the program puts it, and not in what a person quotes.

    That is at the start of the message, after a date or a queue's header; behind a separator of a message that the
    program began; or, when it is the only one, in a paragraph behind the preface of a memory plugin.
    """
    lead = _LEAD.match(text)
    if lead is not None and lead.end() >= start:
        return True
    before = text[max(0, start - _SYSTEM_LEAD_CHARS) : start]
    if _SEPARATED.search(before):
        return _PROGRAM_OPENING.match(text) is not None
    return alone and before.endswith("\n\n") and _MEMORY_PREFACE.match(text) is not None


def _settled(text: str, idempotency_key: str | None, source_key: str | None) -> Iterator[Notice]:
    """Format I: one message for all children of a batch; its key lists the run ids, its sections the children."""
    runs = settle_runs(idempotency_key)
    items = list(_sections(text))
    only_key = source_key if len(items) == 1 and not runs else None
    for title, status, end in items:
        result, _ = _read_result(text, end)
        yield Notice(SETTLE, status, outcome_of(status), key=only_key, label=title, result=result, runs=runs)


def _sections(text: str) -> Iterator[tuple[str, str, int]]:
    """Title and status of each numbered section, and where its status line ends."""
    start = text.find(_SETTLE_HEAD)
    position = start
    for item in _SETTLE_ITEM.finditer(text, start) if start >= 0 else ():
        if item.start() < position:
            continue
        place = text.find(_SETTLE_STATUS, item.end() - 1)
        if place < 0:
            return
        title = text[item.end() : place].replace("&lt;", "<").replace("&gt;", ">").strip()
        begin = place + len(_SETTLE_STATUS)
        position = text.find("\n", begin)
        position = len(text) if position < 0 else position
        yield title, text[begin:position].strip(), position


def settle_runs(idempotency_key: str | None) -> tuple[str, ...]:
    """The run ids in `announce:requester-settle:<agent>:<sessionKey>:<run>,<run>…[:yield-n][:user]`."""
    if not idempotency_key or not idempotency_key.startswith(SETTLE_RUN):
        return ()
    parts = idempotency_key.split(":")
    while len(parts) > 1 and (parts[-1] == "user" or parts[-1].startswith("yield-")):
        parts.pop()
    return tuple(run for run in parts[-1].split(",") if run)


def announced_run(run: object) -> tuple[str, str] | None:
    """(child session key, child run id) of `announce:v1:<key>:<run>[:active-wake|:user]`; None for any other value."""
    if not isinstance(run, str) or not run.startswith(ANNOUNCE_RUN):
        return None
    body = run[len(ANNOUNCE_RUN) :]
    for suffix in (":user", ":active-wake"):
        body = body.removesuffix(suffix)
    key, separator, run_id = body.rpartition(":")
    return (key, run_id) if separator and key else None


def document_name(text: str) -> str | None:
    """NAME when the whole text is `subagent 'NAME' completed`, else None."""
    found = _DOCUMENT.fullmatch(text)
    return found["name"] if found else None


def notices(text: str, message: Mapping[str, Any]) -> list[Notice]:
    """Everything that the text of one user or system message says of ended children, in the order of the text.

    `message` is looked at for `provenance`, `idempotencyKey` and the owner mark only. Without an envelope the text
    must be the program's own from end to end; else it is a quotation, which says nothing.
    """
    text = text.replace("\r\n", "\n")
    provenance = message.get("provenance")
    provenance = provenance if isinstance(provenance, dict) else {}
    idempotency = message.get("idempotencyKey")
    idempotency = idempotency if isinstance(idempotency, str) else None
    tool = provenance.get("sourceTool")
    if tool == "subagent_settle" or (idempotency or "").startswith(SETTLE_RUN):
        return list(_settled(text, idempotency, _known(provenance.get("sourceSessionKey"))))
    announced = announced_run(idempotency)
    injected = tool == "subagent_announce" or announced is not None
    if not injected and typed_by_owner(message):
        return []
    found = _outside_results(sorted([*_events(text, injected), *_just(text, injected)], key=lambda n: n.position))
    if found and not injected:
        events = [notice for notice in found if notice.format in (EVENT, PLAIN)]
        if not has_form(text, events, [notice for notice in found if notice not in events]):
            return []
    if len(found) == 1:
        _complete_from_envelope(found[0], announced, provenance)
    return found


def _outside_results(found: list[Notice]) -> list[Notice]:
    """Without the markers that stand inside the result text of another one: a child may quote them."""
    kept: list[Notice] = []
    for notice in found:
        if not kept or notice.position >= kept[-1].end:
            kept.append(notice)
    return kept


def _complete_from_envelope(notice: Notice, announced: tuple[str, str] | None, provenance: Mapping[str, Any]) -> None:
    """A message about one child names it in its envelope too; that fills what the text leaves out."""
    key, run_id = announced or (None, None)
    source = provenance.get("sourceSessionKey")
    notice.key = notice.key or key or (source if isinstance(source, str) else None)
    notice.run_id = run_id


def typed_by_owner(message: Mapping[str, Any]) -> bool:
    """Whether 2026.9 marked the message as written by the owner: what it quotes is never a marker."""
    mark = message.get("__openclaw")
    return isinstance(mark, dict) and mark.get("senderIsOwner") is True


def injected_message(message: Mapping[str, Any]) -> bool:
    """Whether the program put the message in: it has a provenance, is not displayed, or has an announce key."""
    provenance = message.get("provenance")
    if isinstance(provenance, dict) and provenance.get("kind") not in (None, "external_user", "user"):
        return True
    key = message.get("idempotencyKey")
    return message.get("display") is False or (isinstance(key, str) and key.startswith("announce:"))


def enveloped(message: Mapping[str, Any]) -> bool:
    """Whether the program marked the message as the announcement of an end: by its provenance or by its key."""
    provenance = message.get("provenance")
    tool = provenance.get("sourceTool") if isinstance(provenance, dict) else None
    key = message.get("idempotencyKey")
    return tool in ("subagent_announce", "subagent_settle") or (isinstance(key, str) and key.startswith("announce:"))
