"""Log entries of a pod and canonical transcript items, in both directions (docs/dialects/pod.md, section 9).

Entries are opaque JSON on the wire. An entry that cannot be read is skipped, as every known reader does. Written
entries are plain dicts, and the encoder sorts their keys. `segment_start` replaces the conversation by its `history`.
`user_input`, `assistant_item`, `tool_result` and `system_item` append to it. All other entries have no content.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Annotated, Any, get_args

import msgspec
from msgspec import Meta, Raw, Struct, json, structs

from dragoman.mappings.canonical.events import ToolCallFinished
from dragoman.mappings.canonical.values import (
    End,
    Failure,
    Item,
    Message,
    PastRun,
    Reasoning,
    Role,
    Text,
    ToolCall,
    ToolResult,
    flatten,
    snake_case,
)
from dragoman.mappings.pod.vocabulary import CANCELLED, END_OF_RESULT, carried, from_segments, keep, to_segments
from dragoman.mappings.pod.wire.codecs import EVENTS
from dragoman.mappings.pod.wire.events import RunResult
from dragoman.mappings.pod.wire.values import U64_MAX, Segment, Unknown

MS = 1_000_000  # ns


# -- reading entries -------------------------------------------------------------------------------


class Kinded(Struct, frozen=True, kw_only=True, gc=False, tag_field="kind", tag=snake_case):
    """Base class of entries and logged items. Undocumented keys are ignored here: `ext` carries the original."""


class EntryBase(Kinded, frozen=True, kw_only=True):
    """Base class of the entries; `ts` is in ms since the epoch."""

    ts: Annotated[int, Meta(ge=0, le=(1 << 63) - 1)] = 0


class SegmentStart(EntryBase, frozen=True, kw_only=True):
    """Entry that replaces the conversation by `history`."""

    history: list[Raw]
    session_id: object = ""
    compacted_from: object = None


class Invoke(EntryBase, frozen=True, kw_only=True):
    """Entry that begins a run."""


class RunCompleted(EntryBase, frozen=True, kw_only=True):
    """Entry that ends a run with a result."""

    result: object = ""


class RunErrored(EntryBase, frozen=True, kw_only=True):
    """Entry that ends a run with an error."""

    message: object = ""


class UserInput(EntryBase, frozen=True, kw_only=True):
    """Entry for the user's input."""

    segments: list[Raw]


class LoggedPart(Struct, frozen=True, kw_only=True, gc=False):
    """Part of a logged message: text or a refusal."""

    text: str = ""
    refusal: str = ""


class LoggedMessage(Kinded, frozen=True, kw_only=True, tag="message"):
    """Logged message of user, assistant or system."""

    role: Role
    content: list[LoggedPart]


class LoggedCall(Kinded, frozen=True, kw_only=True, tag="tool_call"):
    """Logged tool call; `arguments` is JSON text."""

    call_id: str
    name: str
    arguments: str


class LoggedResult(Kinded, frozen=True, kw_only=True, tag="tool_result"):
    """Logged result of a tool call."""

    call_id: str
    summary: str
    content: str | None = None
    is_error: bool = False


class LoggedReasoning(Kinded, frozen=True, kw_only=True, tag="reasoning"):
    """Logged reasoning of the model."""

    text: str


LoggedItem = LoggedMessage | LoggedCall | LoggedResult | LoggedReasoning


class AssistantItem(EntryBase, frozen=True, kw_only=True):
    """Entry for an item of the model: a message, a call or reasoning."""

    item: LoggedItem


class ToolResultEntry(EntryBase, frozen=True, kw_only=True, tag="tool_result"):
    """Entry for the result of a tool call."""

    item: LoggedItem


class SystemItemEntry(EntryBase, frozen=True, kw_only=True, tag="system_item"):
    """Entry for a message of the system to the model."""

    item: object


Entry = (
    SegmentStart | UserInput | AssistantItem | ToolResultEntry | SystemItemEntry | Invoke | RunCompleted | RunErrored
)


class Kind(Struct, frozen=True, gc=False):
    """The kind of an entry, an item or a segment."""

    kind: str


Readers = Mapping[str, Callable[[Raw], Any]]
"""The decoders of structs, by kind."""


def _readers(union: object) -> Readers:
    return {struct.__struct_config__.tag: json.Decoder(struct).decode for struct in get_args(union)}


KIND = json.Decoder(Kind)
ENTRIES = _readers(Entry)
ITEMS = _readers(LoggedItem)
SEGMENTS = _readers(Segment)


def _read(value: Raw, readers: Readers) -> Any:
    """Return an opaque value as the struct of its kind, None if the kind is unknown; raise DecodeError if it is wrong.

    A union of the structs would be refused for its unknown kind, and an exception takes five times as long.
    """
    read = readers.get(KIND.decode(value).kind)
    return None if read is None else read(value)


def opaque(value: object) -> Raw:
    """Return an opaque value as JSON with sorted keys, the form that a pod writes and that `ext` carries."""
    return Raw(EVENTS.encode(value))


class LoggedConversation:
    """The conversation in the entries of a log, read one by one: its items and runs, oldest first.

    `id` is the pod's id of it. `start` is the newest entry that begins a segment. `compacted` is True if a summary
    replaces the oldest items. `run_open` is True if the last run that an entry began has no end.
    """

    def __init__(self, entries: Iterable[Raw] = ()) -> None:
        self.id = ""
        self.start: Raw | None = None
        self.compacted = False
        self.items: list[Item] = []
        self.runs: list[PastRun] = []
        self.run_open = False
        self._names: dict[str, str] = {}
        for entry in entries:
            self.add_entry(entry)

    def add_entry(self, value: Raw) -> None:
        """Add an entry; one that cannot be read is skipped."""
        try:
            entry = _read(value, ENTRIES)
            if isinstance(entry, SegmentStart):
                self._begin(value, entry)
            elif isinstance(entry, Invoke):
                self.run_open = True
                self.runs.append(PastRun(first=len(self.items), last=len(self.items)))
            elif isinstance(entry, RunCompleted):
                self._end(next((end for said, end in END_OF_RESULT.items() if said == entry.result), "completed"), None)
            elif isinstance(entry, RunErrored):
                cancelled = entry.message == CANCELLED
                failure = None if cancelled else Failure(cause="internal", text=_text(entry.message))
                self._end("cancelled" if cancelled else "failed", failure)
            elif entry is not None:
                self._append(self._item(entry, entry.ts * MS))
        except msgspec.DecodeError:
            return

    def _begin(self, value: Raw, entry: SegmentStart) -> None:
        self.start = value
        self.id = _text(entry.session_id)
        self.compacted = entry.compacted_from is not None
        self.items = []
        self.runs = []
        for logged in entry.history:
            with suppress(msgspec.DecodeError):
                item = _read(logged, ITEMS)
                if item is not None:
                    self.items.append(self._logged(item, entry.ts * MS))

    def _item(self, entry: UserInput | AssistantItem | ToolResultEntry | SystemItemEntry, at: int) -> Item:
        if isinstance(entry, UserInput):
            segments = to_segments([_read(segment, SEGMENTS) or Unknown() for segment in entry.segments])
            return Message(role="user", text=flatten(segments), segments=segments, at=at)
        if isinstance(entry, SystemItemEntry):
            return Message(role="system", text=system_text(entry.item), at=at, ext=keep(item=opaque(entry.item)))
        return self._logged(entry.item, at)

    def _logged(self, item: LoggedItem, at: int) -> Item:
        if isinstance(item, LoggedMessage):
            text = "".join([part.text or part.refusal for part in item.content])
            segments = (Text(text=text),) if item.role == "user" else ()
            return Message(role=item.role, text=text, segments=segments, at=at)
        if isinstance(item, LoggedReasoning):
            return Reasoning(text=item.text, at=at)
        if isinstance(item, LoggedCall):
            self._names[item.call_id] = item.name
            return ToolCall(call=item.call_id, name=item.name, arguments=item.arguments, at=at)
        return ToolResult(
            call=item.call_id,
            name=self._names.get(item.call_id, ""),
            summary=item.summary,
            output=item.content,
            is_error=item.is_error,
            at=at,
        )

    def _append(self, item: Item) -> None:
        if not self.runs or self.runs[-1].end is not None:  # a resumed run has no `invoke`
            self.runs.append(PastRun(first=len(self.items), last=len(self.items)))
        self.items.append(item)
        self.runs[-1] = structs.replace(self.runs[-1], last=len(self.items))

    def _end(self, end: End, failure: Failure | None) -> None:
        self.run_open = False
        if self.runs and self.runs[-1].end is None:
            self.runs[-1] = structs.replace(self.runs[-1], end=end, failure=failure)


def system_text(item: object) -> str:
    """Return the text of a SystemItem that the model saw; "" if an item of unknown kind has no body."""
    body = item.get("body") if isinstance(item, dict) else None
    return body if isinstance(body, str) else ""


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""


# -- writing entries -------------------------------------------------------------------------------

NO_CONFIG: dict[str, object] = {
    "max_tokens": None,
    "reasoning": None,
    "stop_sequences": [],
    "temperature": None,
    "top_k": None,
    "top_p": None,
}


def user_segments(message: Message) -> list[Segment]:
    """Return a user's input as pod segments: if it has no segments, its text as one segment; [] if it is empty."""
    if message.segments:
        return from_segments(message.segments)
    return from_segments([Text(text=message.text)] if message.text else [])


def system_item(message: Message) -> object:
    """Return a system message as SystemItem: the pod's original if `ext` has it, else a notification."""
    own = carried(message.ext, "item")
    return {"kind": "notification", "message": message.text, "body": message.text} if own is None else own


def logged_item(item: Item) -> dict[str, object]:
    """Return a transcript item as the JSON of a LoggedItem."""
    if isinstance(item, Message):
        return {"kind": "message", "role": item.role, "content": [{"kind": "text", "text": item.text}]}
    if isinstance(item, Reasoning):
        return {"kind": "reasoning", "text": item.text}
    if isinstance(item, ToolCall):
        return {"kind": "tool_call", "call_id": item.call, "name": item.name, "arguments": item.arguments}
    result: dict[str, object] = {"kind": "tool_result", "call_id": item.call, "summary": result_summary(item)}
    if item.output is not None:
        result["content"] = item.output
    if item.is_error:
        result["is_error"] = True
    return result


def ts_of(at: int) -> int:
    """Return a time in ns as the `ts` of an entry, which is unsigned: readers skip an entry with any other number."""
    return min(max(at // MS, 0), U64_MAX)


SUMMARY = 200  # characters of the first line of an output that replace a missing summary


def result_summary(result: ToolResult | ToolCallFinished) -> str:
    """Return a tool's summary, or the beginning of its output if the backend sent none."""
    if result.summary is not None:
        return result.summary
    return (result.output or "").partition("\n")[0][:SUMMARY]


def segment_start(session: str, items: Sequence[Item], at: int) -> dict[str, object]:
    """Return a `segment_start` with these items as its history."""
    return {
        "kind": "segment_start",
        "ts": ts_of(at),
        "session_id": session,
        "system_prompt": None,
        "config": NO_CONFIG,
        "history": [logged_item(item) for item in items],
    }


def made_entries(items: Iterable[Item]) -> list[object]:
    """Return a log that is made of these items alone, after which no turn runs."""
    log = MadeLog()
    entries = [entry for item in items for entry in log.add_item(item)]
    return entries + log.end(running=False, paused=False)


class MadeLog:
    """Makes log entries for items that did not come from a pod's log.

    Each user message begins a run, which ends before the next one, unless nothing answered it: it may have failed, or
    its answer may not be stored yet. `run_open` is True if the entries before the made ones left a run open.
    """

    def __init__(self, *, run_open: bool = False) -> None:
        self._run_open = self._is_answered = run_open
        self._ts: int | None = None  # of the last item; None before any

    def add_item(self, item: Item) -> list[object]:
        """Return the entries of the next item."""
        ts = self._ts = ts_of(item.at)
        if isinstance(item, Message) and item.role == "user":
            before = [_completed(ts)] if self._is_answered else []
            self._run_open, self._is_answered = True, False
            segments = msgspec.to_builtins(user_segments(item))
            return [
                *before,
                {"kind": "invoke", "trigger": "user_send", "ts": ts},
                {"kind": "user_input", "segments": segments, "ts": ts},
            ]
        if isinstance(item, Message) and item.role == "system":
            return [{"kind": "system_item", "item": system_item(item), "ts": ts}]
        self._is_answered = self._run_open
        kind = "tool_result" if isinstance(item, ToolResult) else "assistant_item"
        return [{"kind": kind, "item": logged_item(item), "ts": ts}]

    def end(self, *, running: bool, paused: bool) -> list[object]:
        """Return the last entries: the last run stays open during a turn, and ends as `paused` if the session is."""
        if self._ts is not None and not running and (self._is_answered or (paused and self._run_open)):
            return [_completed(self._ts, "paused" if paused else "finished")]
        if running and not self._run_open:
            return [{"kind": "invoke", "trigger": "wakeup", "ts": self._ts or 0}]
        return []


def _completed(ts: int, result: RunResult = "finished") -> dict[str, object]:
    return {"kind": "run_completed", "interrupted": False, "result": result, "ts": ts}
