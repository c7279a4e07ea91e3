"""What a recording holds, for who plays it: scenes, and what was asked besides.

A *scene* is an input and all that followed it until the next one; the first has no input: it is what the session began
with. It goes in *passages*: a command on which what follows depends (the input itself, a cancel, an answer), and the
events up to the next such command. Whatever else the backend was asked is *loose*: answered as it was then, whenever.

What the backend was asked is recorded as such, wherever there was a connection to it. Where there was none (a backend
played in process, imported captures) it is read off what the clients said, and how a question ended off the log.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator

from msgspec import Struct, structs

from dragoman.gateway.recording.lines import UP, EventLine
from dragoman.gateway.recording.reader import Recording
from dragoman.gateway.replay.matching import ANSWERS, compare
from dragoman.mappings.canonical import Command, Event
from dragoman.mappings.canonical.commands import (
    AnswerApproval,
    AnswerInteraction,
    AnswerOtp,
    CancelTurn,
    Compact,
    GetHistory,
    GetSession,
    ListSessions,
    OpenSession,
    PauseTurn,
    Ping,
    ResumeSession,
    ResumeTurn,
    SubmitInput,
)
from dragoman.mappings.canonical.events import (
    ApprovalRequested,
    ApprovalResolved,
    HistorySnapshot,
    InteractionRequired,
    InteractionResolved,
    ModelTurnStarted,
    Reply,
    SessionOpened,
    TextDelta,
    TurnAccepted,
    TurnEnded,
)

__all__ = ["OF_THE_GATEWAY", "Passage", "Play", "Scene", "cut", "read"]

STEERING = (SubmitInput, CancelTurn, PauseTurn, ResumeTurn, Compact, AnswerApproval, AnswerOtp, AnswerInteraction)
"""Commands on which what follows them depends."""

OF_THE_GATEWAY = (OpenSession, ResumeSession, GetSession, ListSessions, GetHistory, Ping)
"""Commands that a replay answers from its own session."""

PENDING_MAX = 256  # commands of clients that may still reach the backend: as many as a session has under way


class Passage(Struct, frozen=True, kw_only=True):
    """A command, None for how a session began, with what answered it; `last` is the seq where what followed it ends.

    `question` is the one that was open when it came.
    """

    seq: int
    t: int
    last: int
    command: Command | None = None
    answer: Event | None = None
    question: str = ""


class Scene(Struct, frozen=True, kw_only=True):
    """An input and all that followed it. `number` counts from 1; 0 is how the session began."""

    number: int
    passages: tuple[Passage, ...]

    @property
    def input(self) -> Command | None:
        """What it begins with."""
        return self.passages[0].command


class Play(Struct, frozen=True, kw_only=True):
    """A recording as scenes. `ends` are the seqs at which its turns ended.

    `tells_model_turns`: there are any in it, as in every log of a gateway.
    """

    recording: Recording
    scenes: tuple[Scene, ...]
    loose: tuple[Passage, ...]
    ends: tuple[int, ...]
    tells_model_turns: bool

    def events(self, passage: Passage) -> Iterator[tuple[EventLine, Event]]:
        """The events of the log in this passage."""
        for line, event in self.recording.events(seq=passage.seq + 1):
            if line.seq > passage.last:
                return
            yield line, event


def cut(play: Play, seq: int) -> Play:
    """The play up to the line `seq`: what was asked or said behind it never was."""
    scenes = []
    for scene in play.scenes:
        kept = [p for p in scene.passages if p.seq <= seq]
        kept[-1:] = [structs.replace(p, last=min(p.last, seq)) for p in kept[-1:]]
        if kept:
            scenes.append(structs.replace(scene, passages=tuple(kept)))
    loose = tuple(passage for passage in play.loose if passage.seq <= seq)
    ends = tuple(end for end in play.ends if end <= seq)
    return structs.replace(play, scenes=tuple(scenes), loose=loose, ends=ends)


class _Asked(Struct, kw_only=True, eq=False):
    """A command as it is found, before its answer is known."""

    line: EventLine
    command: Command
    key: tuple[str, str] = ("", "")  # link and request of the client that asked
    of: _Asked | None = None  # what the client said, where this is what the backend was asked for it
    answer: Event | None = None
    settled: bool = False  # answered, or the input of a turn
    question: str = ""
    begins: bool = True  # an input that began a turn

    @property
    def answered(self) -> Event | None:
        """What the client was answered."""
        return self.of.answer if self.of is not None else self.answer


def read(recording: Recording) -> Play:
    """The scenes of a recording; reads it once."""
    reading = _Reading()
    for line in recording.lines():
        if isinstance(line, EventLine):
            reading.take(line)
        reading.last = line.seq
    return reading.play(recording)


class _Reading:
    def __init__(self) -> None:
        self.last = 0
        self._by_backend: list[_Asked] = []
        self._by_clients: list[_Asked] = []
        self._pending: deque[_Asked] = deque(maxlen=PENDING_MAX)  # of clients, not known to have reached the backend
        self._turns: set[str] = set()
        self._question = ""
        self._ends: list[int] = []
        self._model_turns = False

    def take(self, line: EventLine) -> None:
        """The next line."""
        if line.command is not None and not isinstance(line.command, OF_THE_GATEWAY):
            (self._asked if line.link == UP else self._said)(line, line.command)
        elif line.event is not None and line.link:
            self._answered(line, line.event)
        elif line.event is not None:
            self._happened(line, line.event)

    def _said(self, line: EventLine, command: Command) -> None:
        """By a client."""
        begins = not isinstance(command, SubmitInput)  # of an input it shows later
        key = (line.link, command.request)
        asked = _Asked(line=line, command=command, key=key, question=self._question, begins=begins)
        self._by_clients.append(asked)
        self._pending.append(asked)

    def _asked(self, line: EventLine, command: Command) -> None:
        """Of the backend: on behalf of the client that said it last, if one did."""
        kin = [asked for asked in self._pending if type(asked.command) is type(command)]
        of = next((asked for asked in kin if compare(asked.command, command, ratio=False).rung == "exact"), None)
        of = of or next(iter(kin), None)
        if of is not None:
            self._pending.remove(of)
        self._by_backend.append(_Asked(line=line, command=command, of=of, question=self._question))

    def _answered(self, line: EventLine, event: Event) -> None:
        """A client, by an event for it alone; what was answered does not reach the backend any more.

        A smooth client asks all that belongs to a turn under one request: the last command without an answer is meant.
        """
        request = getattr(event, "request", "")
        if not request or isinstance(event, TurnAccepted | SessionOpened | HistorySnapshot):
            return
        asked = self._last((line.link, request))
        if asked is not None:
            asked.answer, asked.settled = event, True
            if asked in self._pending:
                self._pending.remove(asked)

    def _last(self, key: tuple[str, str]) -> _Asked | None:
        recent = reversed(self._by_clients[-PENDING_MAX:])
        return next((asked for asked in recent if asked.key == key and not asked.settled), None)

    def _happened(self, line: EventLine, event: Event) -> None:
        if type(event) is TextDelta and line.turn in self._turns:
            return  # most lines are this
        if isinstance(event, TurnAccepted) and line.turn not in self._turns:
            key = (line.origin.link, line.origin.request)
            for asked in reversed(self._by_clients):
                if isinstance(asked.command, SubmitInput) and asked.key == key:
                    asked.begins = asked.settled = True
                    break
        elif isinstance(event, ApprovalRequested | InteractionRequired):
            self._question = event.question
        elif isinstance(event, ApprovalResolved | InteractionResolved):
            self._resolved(line, event)
        elif isinstance(event, TurnEnded):
            self._ends.append(line.seq)
            self._question = ""
        elif isinstance(event, ModelTurnStarted):
            self._model_turns = True
        if line.turn:
            self._turns.add(line.turn)

    def _resolved(self, line: EventLine, event: ApprovalResolved | InteractionResolved) -> None:
        """Where clients answered in words, the log alone tells what the answer was."""
        answered = any(
            isinstance(asked.command, ANSWERS) and asked.question == self._question for asked in self._by_clients
        )
        if self._question and not answered:
            command: Command = (
                AnswerApproval(approved=event.approved, question=event.question)
                if isinstance(event, ApprovalResolved)
                else AnswerInteraction(question=event.question, declined=event.declined)
            )
            before = structs.replace(line, seq=line.seq - 1)  # the event itself follows it
            self._by_clients.append(_Asked(line=before, command=command, question=self._question))
        self._question = ""

    # -- all of it ---------------------------------------------------------------------------------------

    def play(self, recording: Recording) -> Play:
        """What it amounts to."""
        asked = self._by_backend or [asked for asked in self._by_clients if asked.begins]
        steering = [one for one in asked if self._steers(one)]
        passages = [self._passage(None, steering[0].line.seq - 1 if steering else self.last)]
        for index, one in enumerate(steering):
            last = steering[index + 1].line.seq - 1 if index + 1 < len(steering) else self.last
            passages.append(self._passage(one, last))
        scenes: list[list[Passage]] = [[]]
        for passage in passages:
            if isinstance(passage.command, SubmitInput):
                scenes.append([])
            scenes[-1].append(passage)
        loose = tuple(self._passage(one, one.line.seq) for one in asked if not self._steers(one))
        return Play(
            recording=recording,
            loose=loose,
            ends=tuple(self._ends),
            tells_model_turns=self._model_turns,
            scenes=tuple(Scene(number=number, passages=tuple(some)) for number, some in enumerate(scenes)),
        )

    def _steers(self, asked: _Asked) -> bool:
        """A command that was refused changed nothing; but an input that was is still one."""
        answer = asked.answered
        refused = isinstance(answer, Reply) and answer.failure is not None
        return isinstance(asked.command, STEERING) and (not refused or isinstance(asked.command, SubmitInput))

    def _passage(self, asked: _Asked | None, last: int) -> Passage:
        if asked is None:
            return Passage(seq=0, t=0, last=last)
        return Passage(
            seq=asked.line.seq,
            t=asked.line.t,
            last=last,
            command=asked.command,
            answer=asked.answered,
            question=asked.question,
        )
