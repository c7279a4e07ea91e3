"""A recording as entries that people read, each with its time, instead of deltas.

A block of text or reasoning is one entry, with the time of its first words. A tool call is one entry with all of its
arguments, and its result is another. An input is one entry: its command is shown only if it was not accepted. Entries
are in the order of their first lines. The recording is read once, and only what is open is kept in memory.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from heapq import heappop, heappush
from itertools import chain
from math import inf
from types import MappingProxyType
from typing import Any, Literal

from msgspec import Struct, structs

from dragoman.gateway.recording.format import UP, CommandLine, EventLine, FrameLine, Line, tag_of
from dragoman.gateway.recording.printable import counted
from dragoman.gateway.recording.reader import Missing
from dragoman.gateway.recording.show.projected import Losses
from dragoman.gateway.recording.show.turns import TurnNumbers
from dragoman.mappings.canonical import events
from dragoman.mappings.canonical.commands import SubmitInput
from dragoman.mappings.canonical.unions import Unmapped
from dragoman.mappings.canonical.values import Failure, Usage, flatten

Kind = Literal[
    "input",
    "text",
    "reasoning",
    "tool",
    "output",
    "result",
    "question",
    "answer",
    "end",
    "error",
    "alert",
    "loss",
    "history",
    "session",
    "command",
    "reply",
    "words",
    "asked",
    "detail",
]

WAITING_MAX = 10_000  # entries held back for the order, for example after an input without an answer

KINDS: tuple[Kind, ...] = Kind.__args__  # type: ignore[attr-defined]  # the members of a Literal
HIDDEN = frozenset({"detail", "asked"})  # entries that are shown on request: the wire shows them better


class TranscriptEntry(Struct, frozen=True, kw_only=True):
    """One entry. `turn` counts from 1, and is 0 outside of turns; `name` is a tool, a command or a kind of event.

    `t` is in µs since the recording began. `link` is the link of the client, if the entry belongs to one. `lost`
    describes the fields that recorded clients did not get.
    """

    seq: int
    t: int
    kind: Kind
    turn: int = 0
    link: str = ""
    name: str = ""
    text: str = ""
    redacted: bool = False
    lost: tuple[str, ...] = ()


class _OpenBlock(Struct):
    """A block of text that is not complete."""

    first: EventLine
    parts: list[str]
    redacted: bool = False


def transcript(
    lines: Iterable[Line], missing: Iterable[Missing] = (), losses: Losses = MappingProxyType({})
) -> Iterator[TranscriptEntry]:
    """Yield the entries of these lines, in the order of their first lines.

    Each gap of `missing` after the first line is an entry of kind loss. Entries have their `losses`.
    """
    reader = _Reader(losses)
    waiting: list[tuple[int, int, TranscriptEntry]] = []  # a heap of entries, by seq
    for number, entry in enumerate(chain.from_iterable(map(reader.read, _with_gaps(lines, missing)))):
        heappush(waiting, (entry.seq, number, entry))
        while waiting and (waiting[0][0] < reader.open_since or len(waiting) > WAITING_MAX):
            yield heappop(waiting)[2]
    rest = [*(entry for _, _, entry in sorted(waiting)), *reader.rest()]
    yield from sorted(rest, key=lambda entry: entry.seq)


def _with_gaps(lines: Iterable[Line], missing: Iterable[Missing]) -> Iterator[Line | TranscriptEntry]:
    """Yield the lines, and before a line the gaps in front of it."""
    gaps = deque(missing)
    first: Line | None = None
    for line in lines:
        first = first or line
        while gaps and gaps[0].seq <= line.seq:
            gap = gaps.popleft()
            if gap.seq >= first.seq:
                yield TranscriptEntry(seq=line.seq, t=line.t, kind="loss", text=gap.text)
        yield line


class _Reader:
    """Makes entries of lines. A block is one entry when it is complete, and so is an input when it is accepted."""

    def __init__(self, losses: Losses) -> None:
        self._losses = losses
        self._lost: dict[str, None] = {}  # of lines whose entry is not complete
        self._last: Line | None = None
        self._turns = TurnNumbers()
        self._blocks: dict[tuple[Kind, str], _OpenBlock] = {}  # by kind and tool call
        self._names: dict[str, str] = {}
        self._inputs: dict[tuple[str, str], list[TranscriptEntry]] = {}  # by link and request: not accepted yet

    @property
    def open_since(self) -> float:
        """The seq of the first line whose entry is not complete; infinite if there is none."""
        seqs = [block.first.seq for block in self._blocks.values()]
        return min([*seqs, *(entries[0].seq for entries in self._inputs.values())], default=inf)

    def read(self, line: Line | TranscriptEntry) -> Iterable[TranscriptEntry]:
        """Return the entries that this line completes.

        The losses of a piece are in the next entry that is not a detail, mostly that of its block.
        """
        if isinstance(line, TranscriptEntry):
            return (line,)
        self._last = line
        entries = list(self._entries(line))
        lost = self._losses.get(line.seq, ())
        if entries and self._lost and isinstance(line, EventLine) and line.logged and entries[0].kind != "detail":
            entries[0] = structs.replace(entries[0], lost=tuple(self._lost))
            self._lost = {}
        if entries and lost:
            entries[-1] = structs.replace(entries[-1], lost=tuple(dict.fromkeys((*entries[-1].lost, *lost))))
        elif lost:
            self._lost |= dict.fromkeys(lost)
        return entries

    def _entries(self, line: Line) -> Iterator[TranscriptEntry]:
        if isinstance(line, FrameLine):
            if line.missing:
                yield _entry(line, 0, "loss", "frame", line.missing)
        elif isinstance(line, CommandLine):
            if isinstance(line.command, SubmitInput) and line.link != UP:
                self._inputs.setdefault((line.link, line.command.request), []).append(_command(line))
            else:
                yield _command(line)
        elif line.link:
            if getattr(line.event, "failure", None) is not None:
                yield from self._settled(line.link, getattr(line.event, "request", ""))
            yield _entry(line, 0, "reply", tag_of(line.event), _answer(line.event))
        else:
            yield from self._event(line, line.event)

    def _settled(self, link: str, request: str) -> list[TranscriptEntry]:
        """Forget the oldest input of this request, and return its entry."""
        entries = self._inputs.pop((link, request), [])
        if entries[1:]:
            self._inputs[link, request] = entries[1:]
        return entries[:1]

    def rest(self) -> Iterator[TranscriptEntry]:
        """Yield the entries that are not complete at the end."""
        entries = [*self._unfinished(), *chain.from_iterable(self._inputs.values())]
        if self._lost and self._last is not None:
            entries = entries or [_entry(self._last, 0, "loss", "", "")]
            entries[0] = structs.replace(entries[0], lost=tuple(self._lost))
        yield from entries

    def _unfinished(self) -> Iterator[TranscriptEntry]:
        """Yield the open blocks as they are."""
        for kind, call in list(self._blocks):
            yield from self._close(kind, call)

    def _event(self, line: EventLine, event: Any) -> Iterator[TranscriptEntry]:
        self._turns.number_of(line)  # turns are counted in the order of their first events
        kind, call = _PIECES.get(type(event), "detail"), getattr(event, "call", "")
        match event:
            case events.TextDelta() | events.ReasoningDelta() | events.ToolOutputDelta():
                self._add(kind, line, event.text, call)
            case events.TextDone() | events.ReasoningDone():
                yield from self._complete(kind, line, event.text)
            case events.ToolCallStarted():
                self._names[call] = event.name
            case events.ToolCallArguments(done=False):
                self._add(kind, line, event.json, call)
            case events.ToolCallArguments():
                self._names[call] = event.name or self._names.get(call, "")
                yield from self._complete(kind, line, event.json, call)
            case events.ToolCallFinished():
                yield from self._close("output", call)
                name = event.name or self._names.get(call, "")
                text = event.output if event.output is not None else event.summary or ""
                yield _entry(line, self._turns.number_of(line), "error" if event.is_error else "result", name, text)
                self._names.pop(call, None)
            case _:
                yield from self._plain(line, event)

    def _plain(self, line: EventLine, event: Any) -> Iterator[TranscriptEntry]:
        if isinstance(event, events.MessageAppended) and event.message.role == "user":
            self._settled(line.origin.link, line.origin.request)  # the log has the input itself
        if isinstance(event, events.TurnEnded):
            yield from self._unfinished()
        describe = _DESCRIPTIONS.get(type(event))
        kind, text = describe(event) if describe is not None else ("detail", "")
        yield _entry(line, self._turns.number_of(line), kind, tag_of(event), text)

    # -- blocks ----------------------------------------------------------------------------------------

    def _add(self, kind: Kind, line: EventLine, text: str, call: str = "") -> _OpenBlock:
        """Add a piece to a block, which the first piece opens."""
        block = self._blocks.setdefault((kind, call), _OpenBlock(first=line, parts=[]))
        block.parts.append(text)
        block.redacted = block.redacted or line.redacted
        return block

    def _complete(self, kind: Kind, line: EventLine, text: str, call: str = "") -> Iterator[TranscriptEntry]:
        """Yield the entry of a block whose whole `text` is known now; without it the pieces count."""
        if text or kind == "tool":
            self._add(kind, line, text, call).parts = [text]
        return self._close(kind, call)

    def _close(self, kind: Kind, call: str) -> Iterator[TranscriptEntry]:
        block = self._blocks.pop((kind, call), None)
        if block is not None:
            number, name = self._turns.number_of(block.first), self._names.get(call, "")
            entry = _entry(block.first, number, kind, name, "".join(block.parts))
            yield structs.replace(entry, redacted=block.redacted)


def _entry(line: Line, turn: int, kind: Kind, name: str, text: str) -> TranscriptEntry:
    return TranscriptEntry(
        seq=line.seq, t=line.t, kind=kind, turn=turn, link=line.link, name=name, text=text, redacted=line.redacted
    )


def _command(line: CommandLine) -> TranscriptEntry:
    command = line.command
    text = flatten(command.segments) if isinstance(command, SubmitInput) else ""
    return _entry(line, 0, "asked" if line.link == UP else "command", tag_of(command), text)


def _answer(event: Any) -> str:
    failure = getattr(event, "failure", None)
    return _failure(failure) if failure is not None else ""


def _failure(failure: Failure) -> str:
    return f"{failure.cause}: {failure.text}"


def _usage(usage: Usage | None) -> str:
    if usage is None:
        return ""
    facts = [
        f"{count} tokens {way}"
        for way, count in (("in", usage.input_tokens), ("out", usage.output_tokens))
        if count is not None
    ]
    return ", ".join(facts)


def _ended(event: events.TurnEnded) -> tuple[Kind, str]:
    failure = _failure(event.failure) if event.failure is not None else ""
    return "end", " · ".join(filter(None, (event.end.replace("_", " "), failure, _usage(event.usage))))


def _message(event: events.MessageAppended) -> tuple[Kind, str]:
    return ("input" if event.message.role == "user" else "detail"), event.message.text


def _history(event: events.HistorySnapshot) -> tuple[Kind, str]:
    return "history", counted(len(event.items), "item") + (" (it changed)" if event.rotated else "")


def _gap(event: events.Gap) -> tuple[Kind, str]:
    return "loss", f"{event.text} ({event.count})" if event.count else event.text


_DESCRIPTIONS: dict[type, Callable[[Any], tuple[Kind, str]]] = {
    events.MessageAppended: _message,
    events.HistorySnapshot: _history,
    events.TurnEnded: _ended,
    events.Gap: _gap,
    Unmapped: lambda x: ("loss", f"unknown {x.dialect} message {x.tag!r}"),
    events.ErrorReported: lambda x: ("error", f"{x.cause}: {x.text}"),
    events.ModelRetry: lambda x: ("error", f"attempt {x.failed_attempt} of {x.max_attempts} failed: {x.text}"),
    events.Alert: lambda x: ("alert", f"{x.source}: {x.text}"),
    events.CompactionFailed: lambda x: ("alert", x.text),
    events.Preamble: lambda x: ("words", x.text),
    events.QuestionAsked: lambda x: ("words", x.text),
    events.QuestionAnswered: lambda x: ("words" if x.segments else "detail", flatten(x.segments)),
    events.ApprovalRequested: lambda x: ("question", f"{x.tool}: {x.description}"),
    events.ApprovalResolved: lambda x: ("answer", "approved" if x.approved else "denied"),
    events.InteractionRequired: lambda x: ("question", f"{x.kind} {bytes(x.spec).decode()}: {x.reason}"),
    events.InteractionResolved: lambda x: ("answer", "declined" if x.declined else "submitted"),
    events.OtpRequired: lambda x: ("question", f"{x.tool}: {x.description} (a code by {' or '.join(x.channels)})"),
    events.OtpSent: lambda x: ("question", f"a code went by {x.channel} to {x.destination}"),
    events.SessionUpdated: lambda x: ("session", x.session.title),
    events.SessionClosed: lambda _: ("session", "no longer listed under the id that it had"),  # it may have got another
    events.BackendShutdown: lambda x: ("session", f"the backend goes away: {x.reason}"),
    events.StatusChanged: lambda x: ("detail", x.status),
    events.UsageReported: lambda x: ("detail", _usage(x.usage)),
    events.GoalUpdated: lambda x: ("session", bytes(x.goal).decode()),
}
"""Event -> its kind and text. An event that is not here is a detail without text."""

_PIECES: dict[type, Kind] = {
    events.TextDelta: "text",
    events.TextDone: "text",
    events.ReasoningStarted: "reasoning",
    events.ReasoningDelta: "reasoning",
    events.ReasoningDone: "reasoning",
    events.ToolCallStarted: "tool",
    events.ToolCallArguments: "tool",
    events.ToolOutputDelta: "output",
}
"""Event -> the kind of the entry to which it adds a piece."""


def kind_of(line: EventLine | CommandLine) -> Kind:
    """Return the kind of the entry to which an event or a command belongs."""
    if isinstance(line, CommandLine):
        return "asked" if line.link == UP else "command"
    if line.link:
        return "reply"
    if isinstance(line.event, events.ToolCallFinished):
        return "error" if line.event.is_error else "result"
    describe = _DESCRIPTIONS.get(type(line.event))
    return _PIECES.get(type(line.event)) or (describe(line.event)[0] if describe is not None else "detail")
