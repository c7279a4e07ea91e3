"""Whether two conversations are the same, canonically: what was asked, said, done and decided, turn by turn.

Ids, times and the boundaries of tokens and text blocks do not count, nor where among the text a tool was called, and
neither does what one dialect tells and another does not: reasoning, usage, accounts of model calls, questions put in
words. What counts: the user's input, visible text, tool calls with their arguments and results, questions and their
answers, and how a turn ends.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from difflib import SequenceMatcher
from itertools import zip_longest
from typing import Any, Literal

import msgspec
from msgspec import Struct

from dragoman.gateway.recording.lines import EventLine
from dragoman.mappings.canonical import events as e
from dragoman.mappings.canonical.values import End

__all__ = ["Block", "Difference", "Turn", "compare", "compared", "turns", "turns_of"]

What = Literal["input", "text", "tool", "question", "answer"]
ORDER: dict[What, int] = {"input": 0, "text": 1, "tool": 2, "question": 3, "answer": 3}
"""Of a turn's blocks. A codewhale tells its tools behind the text, others among it: that is no difference."""

SHOWN = 160  # characters of a long text on each side of where it begins to differ


class Block(Struct, kw_only=True, omit_defaults=True):
    """One thing that happened in a turn. For a tool `text` is its arguments, and `result` what came of it."""

    what: What
    text: str = ""
    name: str = ""
    result: str | None = None
    is_error: bool = False


class Turn(Struct, kw_only=True, omit_defaults=True):
    """One turn; `end` None is one that did not end in the recording."""

    blocks: list[Block] = []
    end: End | None = None


class Difference(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Where two conversations differ: in which turn (from 1), in what, and what each says; None is nothing."""

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


def compared(a: Iterable[Turn], b: Iterable[Turn]) -> Iterator[Difference]:
    """How two conversations differ, the first difference first. Both are read as far as they are compared."""
    for number, (one, other) in enumerate(zip_longest(a, b), start=1):
        if one is None or other is None:
            yield Difference(turn=number, what="turn", a=_summary(one), b=_summary(other))
            continue
        yield from _blocks(number, one.blocks, other.blocks)
        if one.end != other.end:
            yield Difference(turn=number, what="end", a=_end(one), b=_end(other))


def compare(a: Iterable[Turn], b: Iterable[Turn]) -> list[Difference]:
    """All differences of two conversations; none if they are the same."""
    return list(compared(a, b))


def turns(lines: Iterable[tuple[EventLine, Any]]) -> Iterator[Turn]:
    """The turns of a recording's events (`Recording.events()`)."""
    return turns_of((line.turn, event) for line, event in lines)


def turns_of(said: Iterable[tuple[str, Any]]) -> Iterator[Turn]:
    """The turns of events, each with the id of its turn; what belongs to none is no part of any."""
    reader: _Turn | None = None
    for turn, event in said:
        if not turn:
            continue
        if reader is None or reader.id != turn:
            if reader is not None:
                yield reader.finished()
            reader = _Turn(turn)
        reader.read(event)
    if reader is not None:
        yield reader.finished()


class _Turn:
    """A turn that is being read."""

    def __init__(self, id: str) -> None:
        self.id = id
        self._turn = Turn(blocks=[])
        self._parts: list[str] = []
        self._calls: dict[str, Block] = {}

    def finished(self) -> Turn:
        text = "".join(self._parts)
        if text.strip():
            self._turn.blocks.append(Block(what="text", text=text))
        self._turn.blocks.sort(key=lambda block: ORDER[block.what])
        return self._turn

    def read(self, event: Any) -> None:
        match event:
            case e.TextDelta():
                self._parts.append(event.text)
            case e.MessageAppended() if event.message.role == "user":
                self._add(Block(what="input", text=event.message.text))
            case e.ToolCallStarted():
                self._call(event.call, event.name)
            case e.ToolCallArguments() if event.done:
                self._call(event.call, event.name).text = _json(event.json)
            case e.ToolCallFinished():
                call = self._call(event.call, event.name)
                call.result = event.output if event.output is not None else event.summary or ""
                call.is_error = event.is_error
            case e.ApprovalRequested():
                self._add(Block(what="question", name=event.tool, text=event.description))
            case e.InteractionRequired():
                self._add(Block(what="question", name=event.kind, text=_json(bytes(event.spec).decode())))
            case e.OtpRequired():
                self._add(Block(what="question", name=event.tool, text=event.description))
            case e.ApprovalResolved():
                self._add(Block(what="answer", text="approved" if event.approved else "denied"))
            case e.InteractionResolved():
                self._add(Block(what="answer", text="declined" if event.declined else "submitted"))
            case e.TurnEnded():
                self._turn.end = event.end

    def _call(self, id: str, name: str) -> Block:
        call = self._calls.get(id)
        if call is None:
            call = self._calls[id] = Block(what="tool", name=name)
            self._add(call)
        return call

    def _add(self, block: Block) -> None:
        self._turn.blocks.append(block)


def _blocks(turn: int, a: list[Block], b: list[Block]) -> Iterator[Difference]:
    """Blocks are matched by what they are, so that one which is missing does not make all behind it differ."""
    matcher = SequenceMatcher(None, [_kind(block) for block in a], [_kind(block) for block in b], autojunk=False)
    for tag, a_from, a_to, b_from, b_to in matcher.get_opcodes():
        some, others = a[a_from:a_to], b[b_from:b_to]
        if tag == "equal":
            for one, other in zip(some, others, strict=True):
                yield from _of_one(turn, one, other)
            continue
        for one in some:
            yield Difference(turn=turn, what=_title(one), a=_told(one))
        for other in others:
            yield Difference(turn=turn, what=_title(other), b=_told(other))


def _of_one(turn: int, a: Block, b: Block) -> Iterator[Difference]:
    if a.text != b.text:
        what = f"{_title(a)}, arguments" if a.what == "tool" else _title(a)
        yield Difference(turn=turn, what=what, a=a.text, b=b.text)
    if (a.result, a.is_error) != (b.result, b.is_error):
        yield Difference(turn=turn, what=f"{_title(a)}, result", a=_result(a), b=_result(b))


def _kind(block: Block) -> tuple[str, str]:
    return block.what, block.name


def _title(block: Block) -> str:
    return f"{block.what} {block.name}".rstrip()


def _told(block: Block) -> str:
    result = _result(block)
    return block.text if result is None else f"{block.text} -> {result}"


def _result(block: Block) -> str | None:
    if block.result is None:
        return None
    return f"error: {block.result}" if block.is_error else block.result


def _end(turn: Turn) -> str:
    return turn.end or "(not ended)"


def _summary(turn: Turn | None) -> str | None:
    if turn is None:
        return None
    said = next((block.text for block in turn.blocks if block.what == "input"), "")
    return f"{said!r}, {len(turn.blocks)} blocks, {_end(turn)}" if said else f"{len(turn.blocks)} blocks, {_end(turn)}"


def _json(text: str) -> str:
    """JSON with its keys in order and its spaces out: two texts of one value are equal."""
    try:
        return msgspec.json.encode(msgspec.json.decode(text), order="sorted").decode()
    except msgspec.DecodeError:
        return text


def _around(a: str | None, b: str | None) -> tuple[str, str]:
    """Two texts from shortly before where they differ."""
    one, other = a or "", b or ""
    if max(len(one), len(other)) <= 2 * SHOWN or a is None or b is None:
        return _cut(one, 0), _cut(other, 0)
    same = next((i for i, (x, y) in enumerate(zip(one, other, strict=False)) if x != y), min(len(one), len(other)))
    start = max(0, same - SHOWN)
    return _cut(one, start), _cut(other, start)


def _cut(text: str, start: int) -> str:
    end = start + 2 * SHOWN
    return f"{'…' if start else ''}{text[start:end]}{'…' if end < len(text) else ''}"
