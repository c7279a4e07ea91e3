"""Drive a live backend with a recording's inputs and answers, and compare the result with the recording.

Each recorded input is sent after the turn before it has ended. Questions get the recorded answers in order, as text if
they come in words (driven_events.py). A question that is not in the recording is denied. A cancel or pause is sent
after as much visible text as in the recording. Every wait has a deadline.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from itertools import count, pairwise

from msgspec import Struct, structs

from dragoman.gateway.recording.compare import Difference, compare, turns, turns_of
from dragoman.gateway.replay.driven_events import DrivenEvents, Question, resolved, typed
from dragoman.gateway.replay.in_process import InProcessEvent, InProcessTransport
from dragoman.gateway.replay.matching import ANSWERS
from dragoman.gateway.replay.scenes import Passage, Play, Scene
from dragoman.mappings.canonical import Command, Event
from dragoman.mappings.canonical.commands import (
    AnswerApproval,
    AnswerInteraction,
    CancelTurn,
    OpenSession,
    ResumeTurn,
    SubmitInput,
)
from dragoman.mappings.canonical.events import (
    ApprovalRequested,
    ApprovalResolved,
    InteractionInvalid,
    InteractionRequired,
    InteractionResolved,
    Reply,
    TextDelta,
    TurnAccepted,
    TurnEnded,
)
from dragoman.mappings.canonical.values import Text
from dragoman.mappings.errors import DragomanError

__all__ = ["DEADLINE", "Driven", "Driver", "DrivingError"]

DEADLINE = 60.0  # seconds for one turn: a model may think for long


class DrivingError(DragomanError):
    """Raised with the reason if the backend cannot be driven at all."""


class Driven(Struct, frozen=True, kw_only=True):
    """The result: the number of recorded turns, the differences of the live ones, and the refusals."""

    turns: int
    differences: tuple[Difference, ...]
    refusals: tuple[str, ...] = ()

    @property
    def same(self) -> bool:
        """True if the live turns equal the recorded ones."""
        return not self.differences

    def __str__(self) -> str:
        return "\n".join((*self.refusals, *map(str, self.differences)))


class Driver:
    """Sends the inputs of a recording to a backend. `progress` is called with the number of inputs sent."""

    def __init__(
        self, play: Play, *, deadline: float = DEADLINE, progress: Callable[[int], None] = lambda _scenes: None
    ) -> None:
        self.transport = InProcessTransport(self._hear)
        self._play = play
        self._deadline = deadline
        self._progress = progress
        self._requests = count(1)
        self._heard = DrivenEvents()
        self._answers: dict[str, Event] = {}
        self._news = asyncio.Event()
        self._attached = False
        self._question: Question | None = None
        self._asked: Question | None = None
        self._accepted = False
        self._ended = False
        self._text = 0  # characters of the open turn
        self._refusals: list[str] = []

    async def run(self) -> Driven:
        """Drive the backend behind this driver's transport; raise DrivingError if no session can be opened."""
        await self._open()
        said = [scene for scene in self._play.scenes if scene.input is not None]
        for number, scene in enumerate(said):
            self._progress(number)
            if not await self._scene(scene):
                break
        self._progress(len(said))
        self.transport.leave()
        recorded = list(turns(self._play.recording.events()))
        differences = compare(recorded, turns_of(self._heard.events))
        return Driven(turns=len(recorded), differences=tuple(differences), refusals=tuple(self._refusals))

    # -- what is said --------------------------------------------------------------------------------------

    async def _open(self) -> None:
        request = self._say(OpenSession())
        if not await self._until(lambda: self._attached or request in self._answers):
            raise DrivingError("the backend opened no session in time")
        answer = self._answers.get(request)
        if not self._attached and isinstance(answer, Reply) and answer.failure is not None:
            raise DrivingError(f"the backend opened no session: {answer.failure.text}")

    async def _scene(self, scene: Scene) -> bool:
        """Send an input and what followed; return False if its turn did not end, which allows no further input."""
        first, *rest = scene.passages
        if not isinstance(first.command, SubmitInput):
            return True
        self._heard.begin()
        self._question, self._text = None, 0
        accepted = await self._input(first.command)
        if accepted is None:
            return self._given_up("did not accept an input")
        if not accepted:
            return True
        streamed = self._streamed(first)
        asked: Question | None = None
        for before, passage in pairwise((first, *rest)):
            refused = before.answer if isinstance(before.answer, InteractionInvalid) else None
            asked = self._question_in(before) if refused is None else asked  # it stays open
            await self._passage(passage, streamed, asked, refused)
            streamed += self._streamed(passage)
        return await self._end()

    async def _input(self, command: SubmitInput) -> bool | None:
        """Send an input; return whether it was accepted, or None after the deadline."""
        self._accepted = self._ended = False
        request = self._say(command)
        if not await self._until(lambda: self._accepted or request in self._answers):
            return None
        if not self._accepted:
            self._refused(self._answers[request])
        return self._accepted

    async def _passage(
        self, passage: Passage, streamed: int, asked: Question | None, refused: InteractionInvalid | None
    ) -> None:
        """Send a recorded command of a turn at its time: an answer to a question, or any other command."""
        command = passage.command
        if command is None:
            return
        if isinstance(command, ANSWERS):
            if await self._until(lambda: self._question is not None or self._ended) and self._question is not None:
                self._answer(command)
            elif self._ended and asked is not None:
                await self._type(passage, command, asked, refused)
            return
        await self._until(lambda: self._ended or self._text >= streamed)
        if self._ended and isinstance(command, CancelTurn):
            return  # what is over cannot be cancelled
        over = self._ended
        if isinstance(command, ResumeTurn) and any(line.turn for line, _ in self._play.events(passage)):
            self._ended = over = False  # else there was nothing to resume
        request = self._say(command)
        await self._until(lambda: request in self._answers or (self._ended and not over))
        answer = self._answers.get(request)
        if isinstance(answer, Reply) and answer.failure is not None:
            self._ended = True
            self._refused(answer)

    def _answer(self, command: Command) -> None:
        """Give the recorded answer if the question is of its kind, else deny."""
        asked, self._question = self._question, None
        if isinstance(asked, ApprovalRequested):
            approved = isinstance(command, AnswerApproval) and command.approved
            self._say(AnswerApproval(approved=approved, question=asked.question))
        elif isinstance(asked, InteractionRequired):
            given = command if isinstance(command, AnswerInteraction) else AnswerInteraction(question="", declined=True)
            self._say(structs.replace(given, question=asked.question, kind=asked.kind))

    async def _type(
        self, passage: Passage, answer: Command, asked: Question, refused: InteractionInvalid | None
    ) -> None:
        """Type the answer to the recorded question, if the run ended in exactly the question's words."""
        for number, (words, text) in enumerate(typed(asked, answer, refused)):
            if not await self._until(lambda: self._ended) or not (taken := self._heard.take_back(words)):
                return
            self._text -= taken
            if number == 0 and refused is None:
                self._heard.take_more(asked)
            if number == 0 and not isinstance(passage.answer, InteractionInvalid):
                self._heard.take_more(resolved(asked, answer))
            if not await self._input(SubmitInput(segments=(Text(text=text),))):
                self._ended = True
                return

    def _question_in(self, passage: Passage) -> Question | None:
        """Return the last question of a recorded passage."""
        asked = [event for _, event in self._play.events(passage) if isinstance(event, Question)]
        return asked[-1] if asked else None

    async def _end(self) -> bool:
        """Wait for the end of the turn, and deny further questions."""
        while await self._until(lambda: self._ended or self._question is not None):
            if self._ended:
                return True
            self._answer(AnswerApproval(approved=False))
        return self._given_up("did not end a turn")

    def _given_up(self, what: str) -> bool:
        self._refusals.append(f"the backend {what} within {self._deadline:g} s")
        self._say(CancelTurn())
        return False

    def _refused(self, answer: Event) -> None:
        if isinstance(answer, Reply) and answer.failure is not None:
            self._refusals.append(f"the backend refused: {answer.failure.text}")

    def _streamed(self, passage: Passage) -> int:
        return sum(len(event.text) for _, event in self._play.events(passage) if isinstance(event, TextDelta))

    def _say(self, command: Command) -> str:
        request = f"drive-{next(self._requests)}"
        self.transport.say(structs.replace(command, request=request, session=""))
        return request

    # -- what is heard -----------------------------------------------------------------------------------------

    def _hear(self, told: InProcessEvent) -> None:
        event = told.event
        if told.attached:
            self._attached = True
        elif told.turn:
            self._heard.take(told.turn, event)
        elif event is not None and (request := getattr(event, "request", "")):
            self._answers[request] = event
        match event:
            case TurnAccepted():
                self._accepted = True
            case TextDelta():
                self._text += len(event.text)
            case ApprovalRequested() | InteractionRequired():
                self._question = self._asked = event
            case InteractionInvalid():
                self._question = self._asked  # it stays open
            case ApprovalResolved() | InteractionResolved():
                self._question = None
            case TurnEnded():
                self._ended = True
        self._news.set()

    async def _until(self, holds: Callable[[], bool]) -> bool:
        """Wait until a condition holds; return False after the deadline."""
        try:
            async with asyncio.timeout(self._deadline):
                while not holds():
                    self._news.clear()
                    await self._news.wait()
        except TimeoutError:
            return False
        return True
