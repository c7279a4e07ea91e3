"""Compare two conversations turn by turn: inputs, visible text, tool calls, questions, answers, and how turns end.

Not compared are ids, times, the boundaries of tokens and blocks, and the place of a tool call in the text. Neither are
events that only some dialects have: reasoning, usage, model calls, and questions in words.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, Literal

import msgspec
from msgspec import Struct

from dragoman.gateway.recording.format import EventLine
from dragoman.gateway.recording.show.equal_ranges import equal_ranges
from dragoman.mappings.canonical import events
from dragoman.mappings.canonical.values import End
from dragoman.mappings.codec import MALFORMED

What = Literal["input", "text", "tool", "question", "answer"]
ORDER: dict[What, int] = {"input": 0, "text": 1, "tool": 2, "question": 3, "answer": 3}
"""The order of a turn's blocks. A codewhale sends its tools after the text, others within it; both compare equal."""

COMPARED = frozenset(
    {
        events.TextDelta,
        events.ToolCallStarted,
        events.ToolCallArguments,
        events.ToolCallFinished,
        events.ApprovalRequested,
        events.InteractionRequired,
        events.OtpRequired,
        events.ApprovalResolved,
        events.InteractionResolved,
    }
)
"""Events that are compared, besides the input and the end of a turn, which every dialect has."""

SHOWN = 160  # characters of a long text on each side of where it begins to differ


class TurnBlock(Struct, kw_only=True, omit_defaults=True):
    """One block of a turn. For a tool, `text` has its arguments and `result` its result."""

    what: What
    text: str = ""
    name: str = ""
    result: str | None = None
    is_error: bool = False


class ComparedTurn(Struct, kw_only=True, omit_defaults=True):
    """One turn; `end` is None if it did not end in the recording."""

    blocks: list[TurnBlock] = []
    end: End | None = None

    @property
    def input(self) -> str:
        """The text of the input, without differences of white space; "" if the turn has none."""
        texts = [block.text for block in self.blocks if block.what == "input"]
        return " ".join(" ".join(texts).split())


class Difference(Struct, frozen=True, kw_only=True):
    """One difference: the turn, what differs, and the text of both sides; None means nothing.

    `turn` counts from 1 in `a`, or in `b` for a turn that only `b` has.
    """

    turn: int
    what: str
    a: str | None = None
    b: str | None = None

    def __str__(self) -> str:
        a, b = _around(self.a, self.b)
        lines = [f"turn {self.turn}: {self.what}"]
        lines += [f"- {line}" for line in a.split("\n")] if self.a is not None else ["- (nothing)"]
        lines += [f"+ {line}" for line in b.split("\n")] if self.b is not None else ["+ (nothing)"]
        return "\n".join(lines)


def compare(a: Iterable[ComparedTurn], b: Iterable[ComparedTurn]) -> list[Difference]:
    """Return all differences of two conversations, in order; none if they are the same.

    Turns with the same input are compared, so that one missing turn does not make all later ones differ.
    """
    return [difference for one, other, number in _aligned(list(a), list(b)) for difference in _turn(number, one, other)]


def _aligned(
    a: list[ComparedTurn], b: list[ComparedTurn]
) -> Iterator[tuple[ComparedTurn | None, ComparedTurn | None, int]]:
    """Yield pairs of turns with the same input or the same place between such, and their number in `a`.

    A turn that only `b` has keeps its number there.
    """
    for _, a_from, a_to, b_from, b_to in equal_ranges([turn.input for turn in a], [turn.input for turn in b]):
        for offset in range(max(a_to - a_from, b_to - b_from)):
            one = a[a_from + offset] if a_from + offset < a_to else None
            other = b[b_from + offset] if b_from + offset < b_to else None
            yield one, other, (a_from if one is not None else b_from) + offset + 1


def _turn(number: int, a: ComparedTurn | None, b: ComparedTurn | None) -> Iterator[Difference]:
    if a is None or b is None:
        yield Difference(turn=number, what="turn", a=_summary(a), b=_summary(b))
        return
    yield from _blocks(number, a.blocks, b.blocks)
    if a.end != b.end:
        yield Difference(turn=number, what="end", a=_end(a), b=_end(b))


def turns(lines: Iterable[EventLine]) -> Iterator[ComparedTurn]:
    """Yield the turns of a recording's events (`Reader.events`)."""
    return turns_of((line.turn, line.event) for line in lines)


def turns_of(turn_events: Iterable[tuple[str, Any]]) -> Iterator[ComparedTurn]:
    """Yield the turns of events, each paired with the id of its turn.

    Events without a turn are left out, except an input from elsewhere: a backend tells it before the turn begins.
    """
    reader: _TurnReader | None = None
    before: events.MessageAppended | None = None
    for turn, event in turn_events:
        if not turn:
            if isinstance(event, events.MessageAppended) and event.message.role == "user":
                before = event
            continue
        if reader is None or reader.id != turn:
            if reader is not None:
                yield reader.finished()
            reader = _TurnReader(turn)
            if before is not None:
                reader.read(before)
                before = None
        reader.read(event)
    if reader is not None:
        yield reader.finished()


class _TurnReader:
    """Collects the blocks of one turn."""

    def __init__(self, id: str) -> None:
        self.id = id
        self._turn = ComparedTurn(blocks=[])
        self._parts: list[str] = []
        self._calls: dict[str, TurnBlock] = {}

    def finished(self) -> ComparedTurn:
        text = "".join(self._parts)
        if text.strip():
            self._turn.blocks.append(TurnBlock(what="text", text=text))
        self._turn.blocks.sort(key=lambda block: ORDER[block.what])
        return self._turn

    def read(self, event: Any) -> None:
        match event:
            case events.TextDelta():
                self._parts.append(event.text)
            case events.MessageAppended() if event.message.role == "user":
                self._add(TurnBlock(what="input", text=event.message.text))
            case events.ToolCallStarted():
                self._call(event.call, event.name)
            case events.ToolCallArguments() if event.done:
                self._call(event.call, event.name).text = _json(event.json)
            case events.ToolCallFinished():
                call = self._call(event.call, event.name)
                call.result = event.output if event.output is not None else event.summary or ""
                call.is_error = event.is_error
            case events.ApprovalRequested() | events.OtpRequired():
                self._add(TurnBlock(what="question", name=event.tool, text=event.description))
            case events.InteractionRequired():
                self._add(TurnBlock(what="question", name=event.kind, text=_json(bytes(event.spec).decode())))
            case events.ApprovalResolved():
                self._add(TurnBlock(what="answer", text="approved" if event.approved else "denied"))
            case events.InteractionResolved():
                self._add(TurnBlock(what="answer", text="declined" if event.declined else "submitted"))
            case events.TurnEnded():
                self._turn.end = event.end

    def _call(self, id: str, name: str) -> TurnBlock:
        call = self._calls.get(id)
        if call is None:
            call = self._calls[id] = TurnBlock(what="tool", name=name)
            self._add(call)
        return call

    def _add(self, block: TurnBlock) -> None:
        self._turn.blocks.append(block)


def _blocks(turn: int, a: list[TurnBlock], b: list[TurnBlock]) -> Iterator[Difference]:
    """Match blocks by kind and name, so that one missing block does not make all later ones differ."""
    for is_equal, a_from, a_to, b_from, b_to in equal_ranges(
        [_kind(block) for block in a], [_kind(block) for block in b]
    ):
        some, others = a[a_from:a_to], b[b_from:b_to]
        if is_equal:
            for one, other in zip(some, others, strict=True):
                yield from _of_one(turn, one, other)
            continue
        for one in some:
            yield Difference(turn=turn, what=_title(one), a=_described(one))
        for other in others:
            yield Difference(turn=turn, what=_title(other), b=_described(other))


def _of_one(turn: int, a: TurnBlock, b: TurnBlock) -> Iterator[Difference]:
    if a.text != b.text:
        what = f"{_title(a)}, arguments" if a.what == "tool" else _title(a)
        yield Difference(turn=turn, what=what, a=a.text, b=b.text)
    if (a.result, a.is_error) != (b.result, b.is_error):
        yield Difference(turn=turn, what=f"{_title(a)}, result", a=_result(a), b=_result(b))


def _kind(block: TurnBlock) -> tuple[str, str]:
    return block.what, block.name


def _title(block: TurnBlock) -> str:
    return f"{block.what} {block.name}".rstrip()


def _described(block: TurnBlock) -> str:
    result = _result(block)
    return block.text if result is None else f"{block.text} -> {result}"


def _result(block: TurnBlock) -> str | None:
    if block.result is None:
        return None
    return f"error: {block.result}" if block.is_error else block.result


def _end(turn: ComparedTurn) -> str:
    return turn.end or "(not ended)"


def _summary(turn: ComparedTurn | None) -> str | None:
    if turn is None:
        return None
    text = f"{turn.input!r}, " if turn.input else ""
    return f"{text}{len(turn.blocks)} blocks, {_end(turn)}"


def _json(text: str) -> str:
    """Return JSON with sorted keys and without spaces, so that two texts of one value are equal."""
    try:
        return msgspec.json.encode(msgspec.json.decode(text), order="sorted").decode()
    except MALFORMED:
        return text


def _around(a: str | None, b: str | None) -> tuple[str, str]:
    """Return both texts from shortly before the first difference."""
    one, other = a or "", b or ""
    if max(len(one), len(other)) <= 2 * SHOWN or a is None or b is None:
        return _cut(one, 0), _cut(other, 0)
    same = next((i for i, (x, y) in enumerate(zip(one, other, strict=False)) if x != y), min(len(one), len(other)))
    start = max(0, same - SHOWN)
    return _cut(one, start), _cut(other, start)


def _cut(text: str, start: int) -> str:
    end = start + 2 * SHOWN
    return f"{'…' if start else ''}{text[start:end]}{'…' if end < len(text) else ''}"
