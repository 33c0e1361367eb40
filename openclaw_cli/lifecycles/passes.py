"""The passes of the scanner over one streaming read: spawns, their results, signs of their end (lifecycles §1 to §3).

`Passes.read` takes one record after the other and keeps compact facts: arrays with a few bytes per entry for the chain
of parents and the turns, and small objects for what concerns sub-tasks. Texts are kept up to a budget.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Mapping
from typing import Any

from openclaw_cli.lifecycles import blocks, markers
from openclaw_cli.lifecycles.blocks import Request
from openclaw_cli.lifecycles.facts import Call, Carrier, Chain, Marker, Texts, timestamp_of
from openclaw_cli.transcript import entries

_CALL_TYPES = entries.TOOL_CALL_TYPES
_HEADER = "session"
# Session files of 2026.9 and later; all versions of the program that write them mark what they inject.
_MARKING_VERSIONS = (4,)
_MAX_NAMES = 10_000
_WAITING_CHARS = 2**18
_UNANSWERED = ("error", "aborted")


class Passes:
    """Takes the records of one transcript in file order. `names` are the tools that start sub-tasks."""

    def __init__(self, names: frozenset[str] = blocks.SPAWN_NAMES) -> None:
        self._names = names
        self.records = 0
        self.recognised = 0
        self.chain = Chain()
        self.turns = array("Q")
        self.compactions = array("Q")
        self.resets = array("Q")
        self.spawns: list[Call] = []
        self.polls: list[Call] = []
        self.markers: list[Marker] = []
        self._texts = Texts()
        self._open: dict[str, list[Call | None]] = {}
        self._tracked: dict[str, Call] = {}
        self._hidden: set[str] = set()
        self.unplaced: list[tuple[Call, str]] = []
        self._interest: dict[str, bool] = {}
        self._replies: dict[str, Marker] = {}
        self._unanswered: list[Marker] = []
        self._waiting: list[tuple[int, dict[str, Any], dict[str, Any], str]] = []
        self._waiting_chars = 0
        self._turn_open = False
        self._turn_run: object = None
        self._has_envelopes = False

    def read(self, records: Iterable[tuple[int, int, bytes, Any]]) -> None:
        """Take all records: 1-based line, byte offset of the line, its bytes, the parsed JSON.

        This loop runs once per line of the file; it looks up nothing twice that it can keep in a local name.
        """
        add, open_calls, assistant = self.chain.add, self._open, self._assistant
        count = recognised = 0
        for line, offset, _, value in records:
            count += 1
            if type(value) is not dict:
                continue
            kind = value.get("type")
            if kind != "message":
                if kind == _HEADER:
                    recognised += 1
                    self._has_envelopes |= value.get("version") in _MARKING_VERSIONS
                elif type(kind) is str:
                    add(line, offset, value)
                    self._other(line, value, kind)
                continue
            add(line, offset, value)
            message = value.get("message")
            if type(message) is not dict:
                continue
            recognised += 1
            role = message.get("role")
            if role == "toolResult":
                identity = message.get("toolCallId")
                if type(identity) is str and identity in open_calls:
                    self._tool_result(line, value, message, identity)
            elif role == "assistant":
                assistant(line, value, message)
            elif role == "user" or role == "system":
                self._user(line, value, message)
            elif role == "custom":
                self._custom(line, value, message)
        self._read_waiting()
        self.records += count
        self.recognised += recognised

    def _other(self, line: int, value: dict[str, Any], kind: str) -> None:
        """An entry that is no message."""
        if kind in entries.CANONICAL_TYPES:
            self.recognised += 1
            if kind == "compaction":
                self.compactions.append(line)
                self.chain.cut(value)
            elif kind == "reset":
                self.resets.append(line)
                self.chain.cut(value)
            elif kind in ("custom", "custom_message"):
                self._custom(line, value, value)
        else:
            self.chain.pass_through()

    def finish(self) -> None:
        """Drop what a failed assistant message asked for and nobody answered: it was never run (lifecycles §1).

        Call it when `unplaced` (spawns made inside code, with the id of the code call) have got their line and block.
        """
        spawns = [call for call in self.spawns if call.answer or not call.failed_message]
        if self._has_envelopes:
            # Where the program marks its announcements, one without a mark is a person's quotation of one.
            self.markers = [marker for marker in self.markers if marker.marked]
        self.markers.sort(key=lambda marker: marker.line)
        self.spawns = sorted(spawns, key=lambda call: (call.carrier.line, call.block))

    def _assistant(self, line: int, value: dict[str, Any], message: dict[str, Any]) -> None:
        content = message.get("content")
        if type(content) is list:
            interest, tracked, reused = self._interest, self._tracked, None
            for block in content:
                if type(block) is dict and (kind := block.get("type")) != "text" and kind in _CALL_TYPES:
                    name = block.get("name")
                    if type(name) is str and (interest[name] if name in interest else self._judge(name)):
                        self._calls(line, value, message)
                        break
                    identity = block.get("id")
                    if type(identity) is str and identity in tracked:
                        reused = [*(reused or ()), identity]
            else:
                if reused:
                    self._hide(reused)
        mark = message.get("__openclaw")
        if not self._turn_open or mark is not None:
            self._count_turn(line, message, bool(content))
        if type(mark) is dict:
            announced = markers.announced_run(mark.get("runId"))
            if announced is not None:
                self._has_envelopes = True
                self._reply(line, value, message, announced, mark["runId"])
        if self._unanswered:
            self._hear_reply(message)

    def _count_turn(self, line: int, message: dict[str, Any], has_content: bool) -> None:
        """A turn is what the agent does on one prompt: it starts with its first message after a user message or run."""
        mark = message.get("__openclaw")
        run = mark.get("runId") if type(mark) is dict else None
        if self._turn_open and (run is None or self._turn_run is None or run == self._turn_run):
            return
        if not has_content and message.get("stopReason") in _UNANSWERED:
            return
        self._turn_open, self._turn_run = True, run
        self.turns.append(line)

    def _calls(self, line: int, value: dict[str, Any], message: dict[str, Any]) -> None:
        """A message with a call that may start or watch a sub-task: all its calls are tracked when one does."""
        calls = [(index, block, blocks.request_of(block)) for index, block in entries.tool_calls(message)]
        tracked = any(request.name in self._names or blocks.is_poll(request) for _, _, request in calls)
        carrier = Carrier(line, tracked and _has_words(message["content"]))
        for index, block, request in calls:
            identity = block.get("id")
            if tracked:
                carrier.results[index] = None
                identity = identity if type(identity) is str else None
                self._track(self._call(carrier, index, identity, request, value, message))
            else:
                self._hide([identity])

    def _judge(self, name: str) -> bool:
        """Whether calls of that name must be looked into; remembered, because transcripts use few names."""
        plain = blocks.plain_name(name)
        interesting = plain in self._names or plain in blocks.POLL_NAMES or plain == blocks.WRAPPER
        if len(self._interest) < _MAX_NAMES:
            self._interest[name] = interesting
        return interesting

    def _call(
        self,
        carrier: Carrier,
        index: int,
        identity: str | None,
        request: Request,
        value: dict[str, Any],
        message: dict[str, Any],
    ) -> Call:
        stamp, stamp_ms = timestamp_of(value)
        failed = message.get("stopReason") in _UNANSWERED
        call = Call(carrier, index, value.get("id"), identity, request, stamp, stamp_ms, failed)
        if request.name in self._names:
            task = blocks.text_field(request.arguments, "task", "prompt", "instruction", "message", "description")
            call.task = self._texts.keep(task)
            call.request = Request(request.name, _small(request.arguments), request.wrapped)
            self.spawns.append(call)
        elif blocks.is_poll(request):
            call.names = tuple(blocks.names_in(request.arguments))
            call.request = Request(request.name, {}, request.wrapped)
            self.polls.append(call)
        else:
            call.request = Request(request.name, {}, request.wrapped)
        return call

    def _track(self, call: Call) -> None:
        if call.call_id is not None:
            self._open.setdefault(call.call_id, []).append(call)
            self._tracked[call.call_id] = call
            self._hidden.discard(call.call_id)

    def _hide(self, identities: Iterable[object]) -> None:
        """Untracked calls hide older tracked ones of the same id: the next result of that id is theirs."""
        for identity in identities:
            if type(identity) is str and identity in self._tracked:
                # None stays on the stack until its result has come; the companion records are its own too.
                self._hidden.add(identity)
                self._open.setdefault(identity, []).append(None)

    def _tool_result(self, line: int, value: dict[str, Any], message: dict[str, Any], identity: str) -> None:
        waiting = self._open[identity]
        call = waiting.pop()
        if not waiting:
            del self._open[identity]
        if call is None:
            return
        call.carrier.results[call.block] = line
        call.answer_line, call.answer_entry_id = line, value.get("id")
        if call.request.name in self._names:
            nested = call.answer
            call.answer = blocks.answer_of(message)
            if nested is not None and call.answer.child_key is None and nested.child_key is not None:
                call.answer = nested

    def _user(self, line: int, value: dict[str, Any], message: dict[str, Any]) -> None:
        self._turn_open = False
        content = message.get("content")
        if type(content) is str:
            text = content
        elif type(content) is list and len(content) == 1 and type(content[0]) is dict and "text" in content[0]:
            text = content[0]["text"] if content[0].get("type") == "text" else entries.text_of(message)
        else:
            text = entries.text_of(message)
        if type(text) is not str or not markers.may_hold(text) or self._document(line, value, message, text):
            return
        self._waiting.append((line, value, message, text))
        self._waiting_chars += len(text)
        if self._waiting_chars > _WAITING_CHARS:
            self._read_waiting()

    def _document(self, line: int, value: dict[str, Any], message: dict[str, Any], text: str) -> bool:
        """Whether the text is the document's marker; it is noted when the program itself wrote it."""
        name = markers.document_name(text)
        # With an image beside it the text is not the whole message.
        if name and is_single_text(message) and (message.get("role") == "system" or markers.injected_message(message)):
            self._turn_open = False
            notice = markers.Notice(markers.DOCUMENT, "completed", "ok", label=name)
            self._unanswered.append(self._note(line, value, notice, removable=True))
        return name is not None

    def _read_waiting(self) -> None:
        """Read the texts that may hold markers, many at a time: that takes half of what single ones take."""
        for line, value, message, text in self._waiting:
            marked, alone = markers.enveloped(message), is_single_text(message)
            self._has_envelopes |= marked
            # Blocks beside the text are a person's: with them the message stays, and without an envelope it is theirs.
            for notice in markers.notices(text, message) if marked or alone else ():
                self._note(line, value, notice, alone, marked)
        self._waiting.clear()
        self._waiting_chars = 0

    def _note(
        self, line: int, value: dict[str, Any], notice: markers.Notice, removable: bool, marked: bool = True
    ) -> Marker:
        stamp, stamp_ms = timestamp_of(value)
        reply = self._texts.keep(notice.result)
        marker = Marker(line, value.get("id"), stamp, stamp_ms, notice, removable, marked, reply)
        notice.result = None  # the whole text must not stay alive beside the kept one
        self.markers.append(marker)
        return marker

    def _reply(
        self, line: int, value: dict[str, Any], message: dict[str, Any], announced: tuple[str, str], run: str
    ) -> None:
        """Format G: the reply of an announce run is the only trace of the child's end; its first message counts."""
        marker = self._replies.get(run)
        if marker is None:
            notice = markers.Notice(markers.REPLY, None, "unknown", key=announced[0], run_id=announced[1])
            marker = self._replies[run] = self._note(line, value, notice, removable=False)
        text = entries.text_of(message)
        if text.strip():
            marker.reply = self._texts.keep(text)

    def _hear_reply(self, message: dict[str, Any]) -> None:
        text = entries.text_of(message)
        if text.strip():
            kept = self._texts.keep(text)
            for marker in self._unanswered:
                marker.reply = kept
            self._unanswered.clear()

    def _custom(self, line: int, value: dict[str, Any], message: dict[str, Any]) -> None:
        if message.get("customType") == blocks.NESTED_TYPE:
            self._nested(line, value, message)
        elif value.get("type") == "custom_message":
            content = message.get("content")
            text = content if type(content) is str else entries.text_of(message)
            self._document(line, value, {"role": "system", "content": content}, text)

    def _nested(self, line: int, value: dict[str, Any], message: dict[str, Any]) -> None:
        """A companion record: it belongs to its call; for a spawn made inside code it is all there is."""
        details = message.get("details")
        parent = details.get("parentToolCallId") if type(details) is dict else None
        if type(parent) is not str:
            return
        request = Request(blocks.plain_name(details.get("toolName")), blocks.as_object(details.get("input")), False)
        call = self._tracked.get(parent) if parent not in self._hidden else None
        if call is not None and (call.request.name == request.name or request.name not in self._names):
            call.nested.append(line)
        elif request.name in self._names:
            call = self._spawn_in_code(line, value, details, request, call)
        if call is not None and request.name in self._names and (call.answer is None or call.answer.child_key is None):
            result = blocks.as_object(details.get("result"))
            told = blocks.answer_of({**result, "isError": details.get("isError")})
            call.answer = told if call.answer is None or told.child_key is not None else call.answer

    def _spawn_in_code(
        self, line: int, value: dict[str, Any], details: dict[str, Any], request: Request, call: Call | None
    ) -> Call:
        identity = details.get("toolCallId")
        carrier = Carrier(call.carrier.line if call else line)
        spawn = self._call(carrier, 0, identity if type(identity) is str else None, request, value, {})
        spawn.in_code = True
        if call:
            spawn.block, spawn.entry_id = call.block, call.entry_id
        else:
            self.unplaced.append((spawn, details["parentToolCallId"]))
        spawn.nested.append(line)
        spawn.answer_line, spawn.answer_entry_id = line, value.get("id")
        return spawn


def _small(arguments: Mapping[str, Any]) -> dict[str, str]:
    """The short fields of a spawn's arguments; attachments and the task itself would keep whole lines alive."""
    short = {name: value for name, value in arguments.items() if isinstance(value, str) and len(value) <= 4096}
    short.pop("task", None)
    return short


def is_single_text(message: Mapping[str, Any]) -> bool:
    """Whether the content of a message is one text and nothing else."""
    content = message.get("content")
    if type(content) is list:
        return len(content) == 1 and type(content[0]) is dict and content[0].get("type") in entries.TEXT_TYPES
    return type(content) is str


def _has_words(content: list[Any]) -> bool:
    """Whether a message holds a block that stays when its tool calls and its reasoning go."""
    for block in content:
        kind = block.get("type") if isinstance(block, dict) else None
        if kind in _CALL_TYPES or kind in ("thinking", "redacted_thinking", "reasoning", None):
            continue
        if kind not in entries.TEXT_TYPES or str(block.get("text") or "").strip():
            return True
    return False
