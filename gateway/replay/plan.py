"""The plan of a replay: the turns of a recording, each cut into parts, and the commands outside of turns.

A *turn* here is an input with everything up to the next input. Turn 0 has no input: it is the beginning of the session.
A turn has *parts*: a command on which the rest depends (the input, a cancel, an answer), and the events up to the next
such command. Every other command stands alone, and gets its recorded answer at any time.

The commands are those of clients. An answer that a client typed as an input, in words, is taken from the log. The
values of its form are those that the backend was sent.

The events are kept compressed in memory, because each session of a replay plays them from the beginning. Reading the
file again would take longer than one step of the event loop may: a line can be long and full of frames, many lines can
be damaged, and the file may be gone.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator
from itertools import takewhile

import msgspec
import zstandard
from msgspec import Struct, structs

from dragoman.gateway.recording.format import UP, CommandLine, EventLine, RecordingError
from dragoman.gateway.recording.reader import Reader, about_no_session
from dragoman.gateway.replay.similarity import ComparedCommand
from dragoman.mappings.canonical import Command, Event, commands, events
from dragoman.mappings.canonical.state import Question, Resolution

STEERING = (commands.SubmitInput, commands.Compact, *commands.OF_A_TURN)
"""Commands on which the events after them depend."""

ANSWERED_LOCALLY = (
    commands.OpenSession,
    commands.ResumeSession,
    commands.GetSession,
    commands.ListSessions,
    commands.GetHistory,
    commands.Ping,
)
"""Commands that a replay answers from its own session."""

RECENT_MAX = 256  # commands of clients among which an answer's command is looked for; a session allows as many


class TurnPart(Struct, frozen=True, kw_only=True):
    """A command with its answer, and the events after it up to the line `last`. The beginning has no command.

    `question` is the id of the question that was open when the command came.
    """

    seq: int
    t: int
    last: int
    compared: ComparedCommand | None = None
    answer: Event | None = None
    question: str = ""

    @property
    def command(self) -> Command | None:
        return self.compared.command if self.compared is not None else None


class RecordedTurn(Struct, frozen=True, kw_only=True):
    """An input and everything up to the next one. `number` counts from 1; 0 is the beginning of the session."""

    number: int
    parts: tuple[TurnPart, ...]

    @property
    def input(self) -> Command | None:
        """The command that begins the turn; None for turn 0."""
        return self.parts[0].command


class ReplayPlan(Struct, frozen=True, kw_only=True):
    """The turns of a recording, its events, and the commands outside of turns. `ends` has the seq of each TurnEnded.

    `has_model_turns` is true for each log of a gateway, and false for most imported captures.
    """

    recording: Reader
    log: EventStore
    turns: tuple[RecordedTurn, ...]
    others: tuple[TurnPart, ...]
    ends: tuple[int, ...]
    has_model_turns: bool

    @property
    def inputs(self) -> list[RecordedTurn]:
        return [turn for turn in self.turns if turn.input is not None]

    def events(self, part: TurnPart) -> Iterator[EventLine]:
        """Return the events of the log in this part."""
        return self.log.read(part.seq + 1, part.last)


def cut_plan(plan: ReplayPlan, seq: int) -> ReplayPlan:
    """Return the plan up to the line `seq`, without later commands and events."""
    turns = []
    for turn in plan.turns:
        kept = [part for part in turn.parts if part.seq <= seq]
        kept[-1:] = [structs.replace(part, last=min(part.last, seq)) for part in kept[-1:]]
        if kept:
            turns.append(structs.replace(turn, parts=tuple(kept)))
    others = tuple(part for part in plan.others if part.seq <= seq)
    ends = tuple(end for end in plan.ends if end <= seq)
    return structs.replace(plan, turns=tuple(turns), others=others, ends=ends)


class _FoundCommand(Struct, kw_only=True, eq=False):
    """A command in the recording; its answer comes later."""

    line: EventLine | CommandLine
    command: Command
    key: tuple[str, str] = ("", "")  # link and request of the client
    answer: Event | None = None
    settled: bool = False  # answered, or the input of a turn
    question: str = ""
    begins: bool = True  # unless it is an input that began no turn

    @property
    def steers(self) -> bool:
        """True if the events after the command depend on it.

        A refused command has no effect, except that a refused input still begins a turn. A resume at an open question
        only shows the question again.
        """
        is_input = isinstance(self.command, commands.SubmitInput)
        shows_again = isinstance(self.command, commands.ResumeTurn) and bool(self.question)
        return isinstance(self.command, STEERING) and (is_input or not (self.is_refused or shows_again))

    @property
    def is_refused(self) -> bool:
        return isinstance(self.answer, events.Reply) and self.answer.failure is not None

    def part(self, last: int) -> TurnPart:
        return TurnPart(
            seq=self.line.seq,
            t=self.line.t,
            last=last,
            compared=ComparedCommand(self.command),
            answer=self.answer,
            question=self.question,
        )


def read_plan(recording: Reader) -> ReplayPlan:
    """Return the plan of a recording, which is read once; raise RecordingError if it has no session."""
    if words := about_no_session(recording):
        raise RecordingError(words)
    reader = _PlanReader()
    for line in recording.lines():
        if isinstance(line, CommandLine):
            reader.take_command(line)
        elif isinstance(line, EventLine) and line.link:
            reader.take_answer(line)
        elif isinstance(line, EventLine):
            reader.log.add(line)
            reader.take_logged(line)
        reader.last = line.seq
    return reader.plan(recording)


class _PlanReader:
    """Finds the commands of a recording, their answers and the turns that they began."""

    def __init__(self) -> None:
        self.last = 0
        self.log = EventStore()
        self._found: list[_FoundCommand] = []
        self._inputs: dict[tuple[str, str], _FoundCommand] = {}  # the last one of each key
        self._waiting: _FoundCommand | None = None  # the last input that may begin a turn
        self._turns: set[str] = set()
        self._turn = ""  # that is open
        self._question = ""
        self._is_typed = False  # an answer to the question, as an input
        self._form = commands.AnswerInteraction(question="")  # the last one that the backend was sent
        self._ends: list[int] = []
        self._has_model_turns = False

    def take_command(self, line: CommandLine) -> None:
        command = line.command
        if line.link == UP and isinstance(command, commands.AnswerInteraction):
            self._form = command
        if line.link == UP or isinstance(command, ANSWERED_LOCALLY):
            return
        key = (line.link, command.request)
        found = _FoundCommand(line=line, command=command, key=key, question=self._question)
        self._found.append(found)
        if isinstance(command, commands.SubmitInput):
            self._inputs[key] = found
            waits = self._waiting is not None and not self._waiting.settled
            found.begins = not (self._turn or waits)  # else it waited, was refused, or answered a question
            self._waiting = found if found.begins else self._waiting
            self._is_typed = bool(self._question)
        elif isinstance(command, commands.Answer):
            self._is_typed = False

    def take_answer(self, line: EventLine) -> None:
        """Take an event for one client.

        A smooth client sends all commands of a turn under one request id, so the answer is for the last unanswered one.
        """
        event, request = line.event, getattr(line.event, "request", "")
        if not request or isinstance(event, events.TurnAccepted | events.SessionOpened | events.HistorySnapshot):
            return
        recent = reversed(self._found[-RECENT_MAX:])
        found = next((one for one in recent if one.key == (line.link, request) and not one.settled), None)
        if found is not None:
            found.answer, found.settled = event, True
            if found.is_refused and isinstance(found.command, commands.SubmitInput):
                self._is_typed = False

    def take_logged(self, line: EventLine) -> None:
        event = line.event
        if type(event) is events.TextDelta and line.turn in self._turns:
            self._turn = line.turn
            return  # most lines are text
        if isinstance(event, events.TurnAccepted) and line.turn not in self._turns:
            found = self._inputs.get((line.origin.link, line.origin.request))
            if found is not None:
                found.begins = found.settled = True
                for early in takewhile(lambda one: one is not found, reversed(self._found)):
                    if isinstance(early.command, commands.OF_A_TURN):
                        early.line = line  # a client that plays the recording may send it only now
        elif isinstance(event, Question):
            self._question, self._is_typed = event.question, False
            self._form = commands.AnswerInteraction(question="")
        elif isinstance(event, Resolution):
            self._take_resolution(line, event)
        elif isinstance(event, events.TurnEnded):
            self._ends.append(line.seq)
        elif isinstance(event, events.ModelTurnStarted):
            self._has_model_turns = True
        if line.turn:
            self._waiting = None
            self._turns.add(line.turn)
            self._turn = "" if isinstance(event, events.TurnEnded) else line.turn
            self._question = self._question if self._turn else ""

    def _take_resolution(self, line: EventLine, event: Resolution) -> None:
        """Make a command for an answer that a client typed in words, which only the log shows."""
        if self._question and self._is_typed:
            command: Command = (
                commands.AnswerApproval(approved=event.approved, question=event.question)
                if isinstance(event, events.ApprovalResolved)
                else structs.replace(self._form, question=event.question, declined=event.declined)
            )
            before = structs.replace(line, seq=line.seq - 1)  # the event itself follows the command
            self._found.append(_FoundCommand(line=before, command=command, question=self._question))
        self._question = ""

    def _is_repeated(self, before: _FoundCommand, found: _FoundCommand) -> bool:
        """Return True if both commands cancel the same turn."""
        is_one_turn = bisect_right(self._ends, before.line.seq) == bisect_right(self._ends, found.line.seq)
        return is_one_turn and all(isinstance(one.command, commands.CancelTurn) for one in (before, found))

    def plan(self, recording: Reader) -> ReplayPlan:
        """Return the plan of the lines that were taken."""
        self.log.close()
        steering, others = list[_FoundCommand](), list[_FoundCommand]()
        for found in self._found:
            if found.begins:
                stands_alone = not found.steers or (steering and self._is_repeated(steering[-1], found))
                (others if stands_alone else steering).append(found)
        lasts = [*(found.line.seq for found in steering), self.last]
        turns = [[TurnPart(seq=0, t=0, last=lasts[0])]]
        for found, last in zip(steering, lasts[1:], strict=True):
            if isinstance(found.command, commands.SubmitInput):
                turns.append([])
            turns[-1].append(found.part(last))
        return ReplayPlan(
            recording=recording,
            log=self.log,
            turns=tuple(RecordedTurn(number=number, parts=tuple(parts)) for number, parts in enumerate(turns)),
            others=tuple(found.part(found.line.seq) for found in others),
            ends=tuple(self._ends),
            has_model_turns=self._has_model_turns,
        )


BLOCK = 1 << 16  # bytes of events that are compressed together, and decoded at once: about 0.5 ms

_ENCODER = msgspec.json.Encoder()
_EVENTS = msgspec.json.Decoder(list[EventLine])


class EventStore:
    """The logged events of a recording, in their order. `add` them, then `close`; from then on they can be read."""

    def __init__(self) -> None:
        self._firsts: list[int] = []  # seq of the first event of each block
        self._blocks: list[bytes] = []
        self._open: list[bytes] = []  # encoded events of the block that is being filled
        self._size = 0

    def add(self, line: EventLine) -> None:
        raw = _ENCODER.encode(line)
        if self._size + len(raw) > BLOCK:
            self.close()
        if not self._open:
            self._firsts.append(line.seq)
        self._open.append(raw)
        self._size += len(raw)

    def close(self) -> None:
        """Compress the events that were added last."""
        if self._open:
            self._blocks.append(zstandard.compress(b"[" + b",".join(self._open) + b"]", 1))
        self._open, self._size = [], 0

    def read(self, first: int, last: int) -> Iterator[EventLine]:
        """Yield the events with these numbers, both included."""
        for block in self._blocks[max(bisect_right(self._firsts, first) - 1, 0) :]:
            for line in _EVENTS.decode(zstandard.decompress(block)):
                if line.seq > last:
                    return
                if line.seq >= first:
                    yield line
