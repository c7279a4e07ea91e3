"""Drive a live backend with a recording's inputs and answers, and compare the result with the recording.

Each recorded input is sent after the turn before it has ended. Questions get the recorded answers in order, as text if
they come in words. A question that is not in the recording is denied. A cancel or pause is sent
after as much visible text as in the recording. Every wait has a deadline.

A backend's question may reach the driver in words, if the connection between them cannot express it (a pod). The words
end the run, and the next input is the answer (docs/translation.md, rule 3.3). Such words are recognised exactly, and
replaced by the question itself: the turn continues and its text does not contain them.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from itertools import pairwise
from typing import Any

from msgspec import UNSET, Raw, Struct, structs

from dragoman.gateway.backend_client.client import BackendClient
from dragoman.gateway.backend_client.in_process import InProcessEvent
from dragoman.gateway.recording.show.compare import COMPARED, Difference, compare, turns_of
from dragoman.gateway.replay.plan import RecordedTurn, ReplayPlan, TurnPart
from dragoman.gateway.session.wording import in_words
from dragoman.mappings.canonical import Command, Event, commands, events
from dragoman.mappings.canonical.state import Question, Resolution
from dragoman.mappings.canonical.values import Text, snake_case
from dragoman.mappings.errors import ConfigError
from dragoman.mappings.forms import SKIP, Form

DEADLINE = 60.0  # seconds for one turn: a model may think for long


class DrivingError(ConfigError):
    """Raised, with the reason, if no input can be sent to the backend."""


class Driven(Struct, frozen=True, kw_only=True):
    """The result: the number of recorded turns, the differences of the live ones, and the refusals.

    `ignored` names the recorded and live kinds of events that were not compared.
    """

    turns: int
    differences: tuple[Difference, ...]
    refusals: tuple[str, ...] = ()
    ignored: tuple[str, ...] = ()

    @property
    def same(self) -> bool:
        """True if the live turns equal the recorded ones."""
        return not self.differences

    def __str__(self) -> str:
        return "\n".join((*self.refusals, *map(str, self.differences)))


class Driver:
    """Sends the inputs of a recording to a backend. `progress` is called with the number of inputs sent.

    Events for which `expressible` is false are not compared.
    """

    def __init__(
        self,
        client: BackendClient,
        plan: ReplayPlan,
        *,
        deadline: float = DEADLINE,
        progress: Callable[[int], None] = lambda _turns: None,
        expressible: Callable[[type], bool] = lambda _kind: True,
    ) -> None:
        self._client = client
        self._plan = plan
        self._deadline = deadline
        self._progress = progress
        self._expressible = expressible
        self._heard = DrivenEvents()
        self._answers: dict[str, Event] = {}
        self._question: Question | None = None
        self._asked: Question | None = None
        self._accepted = False
        self._ended = False
        self._reached = False  # an input was accepted
        self._text = 0  # characters of the open turn
        self._refusals: list[str] = []
        self._ignored: set[str] = set()

    def run(self) -> Driven:
        """Drive the backend. Raise DrivingError if the recording has no turn, or no session can be opened."""
        recorded = [(line.turn, line.event) for line in self._plan.recording.events()]
        if not self._plan.inputs or not any(turn for turn, _ in recorded):
            raise DrivingError(f"{self._plan.recording.path} has no turn that a client began: nothing can be driven")
        try:
            self._client.open()
        except ConfigError as error:
            raise DrivingError(f"the backend opened no session: {error}") from error
        for number, turn in enumerate(self._plan.inputs):
            self._progress(number)
            if not self._drive_turn(turn):
                break
        self._progress(len(self._plan.inputs))
        one, other = list(turns_of(self._comparable(recorded))), turns_of(self._comparable(self._heard.events))
        return Driven(
            turns=len(one),
            differences=tuple(compare(one, other)),
            refusals=tuple(self._refusals),
            ignored=tuple(sorted(self._ignored)),
        )

    def _comparable(self, events: list[tuple[str, Any]]) -> Iterator[tuple[str, Any]]:
        """Yield the events to compare, and note the kinds of the other compared ones."""
        for turn, event in events:
            if self._expressible(type(event)) or type(event) not in COMPARED:
                yield turn, event
            else:
                self._ignored.add(snake_case(type(event).__name__))

    # -- to the backend ------------------------------------------------------------------------------------

    def _drive_turn(self, turn: RecordedTurn) -> bool:
        """Send an input and what followed; return False if its turn did not end, which allows no further input."""
        first, *rest = turn.parts
        if not isinstance(first.command, commands.SubmitInput):
            return True
        self._heard.begin()
        self._question, self._text = None, 0
        accepted = self._send_input(first.command)
        if accepted is None:
            return self._give_up("did not accept an input")
        if not accepted:
            return True
        streamed = self._streamed(first)
        asked: Question | None = None
        for before, part in pairwise((first, *rest)):
            refused = before.answer if isinstance(before.answer, events.InteractionInvalid) else None
            asked = self._question_in(before) if refused is None else asked  # it stays open
            self._send_recorded(part, streamed, asked, refused)
            streamed += self._streamed(part)
        return self._wait_for_end()

    def _send_input(self, command: commands.SubmitInput) -> bool | None:
        """Send an input; return whether it was accepted, or None after the deadline."""
        self._accepted = self._ended = False
        request = self._send(command)
        if not self._wait_until(lambda: self._accepted or request in self._answers):
            return None
        if not self._accepted:
            self._note_refusal(self._answers[request])
        self._reached = self._reached or self._accepted
        return self._accepted

    def _send_recorded(
        self, part: TurnPart, streamed: int, asked: Question | None, refused: events.InteractionInvalid | None
    ) -> None:
        """Send a recorded command of a turn at its time: an answer to a question, or any other command."""
        command = part.command
        if command is None:
            return
        if isinstance(command, commands.Answer):
            if self._wait_until(lambda: self._question is not None or self._ended) and self._question is not None:
                self._answer(command)
            elif self._ended and asked is not None:
                self._type(part, command, asked, refused)
            return
        self._wait_until(lambda: self._ended or self._text >= streamed)
        if self._ended and isinstance(command, commands.CancelTurn):
            return  # a turn that has ended cannot be cancelled
        was_over = over = self._ended
        if isinstance(command, commands.ResumeTurn) and any(line.turn for line in self._plan.events(part)):
            self._ended = over = False  # the recorded turn went on; without events in it there was nothing to resume
        request = self._send(command)
        self._wait_until(lambda: request in self._answers or (self._ended and not over))
        answer = self._answers.get(request)
        if isinstance(answer, events.Reply) and answer.failure is not None:
            self._ended = self._ended or was_over  # what was not resumed is over
            self._note_refusal(answer)

    def _answer(self, command: Command) -> None:
        """Send the recorded answer if the open question has the same kind, else deny the question."""
        asked, self._question = self._question, None
        if isinstance(asked, events.ApprovalRequested):
            approved = isinstance(command, commands.AnswerApproval) and command.approved
            self._send(commands.AnswerApproval(approved=approved, question=asked.question))
        elif isinstance(asked, events.InteractionRequired):
            given = (
                command
                if isinstance(command, commands.AnswerInteraction) and command.is_filled
                else commands.AnswerInteraction(question="", declined=True)
            )
            self._send(structs.replace(given, question=asked.question, kind=asked.kind))

    def _type(
        self, part: TurnPart, answer: Command, asked: Question, refused: events.InteractionInvalid | None
    ) -> None:
        """Type the answer to the recorded question, if the run ended in exactly the question's words."""
        for number, (words, text) in enumerate(typed(asked, answer, refused)):
            if not self._wait_until(lambda: self._ended) or not (taken := self._heard.take_back(words)):
                return
            self._text -= taken
            if number == 0 and refused is None:
                self._heard.take_more(asked)
            if number == 0 and not isinstance(part.answer, events.InteractionInvalid):
                self._heard.take_more(resolved(asked, answer))
            if not self._send_input(commands.SubmitInput(segments=(Text(text=text),))):
                self._ended = True
                return

    def _question_in(self, part: TurnPart) -> Question | None:
        """Return the last question of a recorded part."""
        asked = [line.event for line in self._plan.events(part) if isinstance(line.event, Question)]
        return asked[-1] if asked else None

    def _wait_for_end(self) -> bool:
        """Wait for the end of the turn, and deny further questions."""
        while self._wait_until(lambda: self._ended or self._question is not None):
            if self._ended:
                return True
            self._answer(commands.AnswerApproval(approved=False))
        return self._give_up("did not end a turn")

    def _give_up(self, what: str) -> bool:
        self._refusals.append(f"the backend {what} within {self._deadline:g} s")
        self._send(commands.CancelTurn())
        return False

    def _note_refusal(self, answer: Event) -> None:
        """Note a refusal; raise DrivingError if the backend was never reached."""
        if isinstance(answer, events.Reply) and answer.failure is not None:
            if answer.failure.cause == "upstream_lost" and not self._reached:
                raise DrivingError(self._client.explain(answer.failure))
            self._refusals.append(f"the backend refused: {answer.failure.text}")

    def _streamed(self, part: TurnPart) -> int:
        received = (line.event for line in self._plan.events(part))
        return sum(len(event.text) for event in received if isinstance(event, events.TextDelta))

    def _send(self, command: Command) -> str:
        return self._client.send_command(structs.replace(command, session=""))

    # -- from the backend ---------------------------------------------------------------------------------------

    def _take_event(self, received: InProcessEvent) -> None:
        event = received.event
        if received.turn:
            self._heard.take(received.turn, event)
        elif event is not None and (request := getattr(event, "request", "")):
            self._answers[request] = event
        match event:
            case events.TurnAccepted():
                self._accepted = True
            case events.TextDelta():
                self._text += len(event.text)
            case events.ApprovalRequested() | events.InteractionRequired():
                self._question = self._asked = event
            case events.InteractionInvalid():
                self._question = self._asked  # it stays open
            case events.ApprovalResolved() | events.InteractionResolved():
                self._question = None
            case events.TurnEnded():
                self._ended = True

    def _wait_until(self, holds: Callable[[], bool]) -> bool:
        """Wait until a condition holds; return False after the deadline."""
        until = time.monotonic() + self._deadline
        while not holds():
            received = self._client.next_event(until - time.monotonic())
            if received is None:
                return False
            self._take_event(received)
        return True


PARAGRAPH = "\n\n"
"""The separator before a question in words that follows other text."""


class DrivenEvents:
    """The log of a driver. `events` contains pairs of turn id and event."""

    def __init__(self) -> None:
        self.events: list[tuple[str, Any]] = []
        self._into = ""  # the id of the turn that continues, although its backend reports a new turn

    def take(self, turn: str, event: Any) -> None:
        """Add a delivered event."""
        if self._into and turn != self._into:
            if isinstance(event, events.MessageAppended) and event.message.role == "user":
                return  # the typed answer
            turn = self._into
        self.events.append((turn, event))

    def take_more(self, event: Any) -> None:
        """Add an event to the last turn that was not delivered."""
        self.events.append((self.events[-1][0], event))

    def begin(self) -> None:
        """Begin a new input, whose events belong to turns of its own."""
        self._into = ""

    def take_back(self, words: str) -> int:
        """Remove a question in words and the end of the turn after it; return the number of removed characters.

        Return 0 if the last turn does not end in these words. The next events belong to that turn.
        """
        turn = self.events[-1][0] if self.events else ""
        text = "".join(event.text for of, event in self.events if of == turn and isinstance(event, events.TextDelta))
        if not text.endswith(words):
            return 0
        words = PARAGRAPH + words if text.endswith(PARAGRAPH + words) else words
        replaced = (events.TextDelta, events.TurnEnded)
        others = [(of, event) for of, event in self.events if of != turn or not isinstance(event, replaced)]
        self.events = [*others, (turn, events.TextDelta(text=text.removesuffix(words)))]
        self._into = turn
        return len(words)


def typed(
    asked: Question, answer: Command, refused: events.InteractionInvalid | None = None
) -> Iterator[tuple[str, str]]:
    """Yield the words of a question and the input that gives this answer, once for each field of a form.

    A form without a recorded answer is declined. A form that was `refused` is filled in again from the first wrong
    field.
    """
    if isinstance(asked, events.ApprovalRequested):
        yield in_words(asked), "approve" if isinstance(answer, commands.AnswerApproval) and answer.approved else "deny"
        return
    form = Form(asked)
    fault = form.again(refused) if refused is not None else ""
    values = _values(answer)
    for text in form.typed(values) if values is not None else [SKIP]:
        yield form.prompt(fault), text
        fault = form.take(text)


def resolved(asked: Question, answer: Command) -> Resolution:
    """Return the event that resolves a question with this answer."""
    if isinstance(asked, events.ApprovalRequested):
        return events.ApprovalResolved(approved=isinstance(answer, commands.AnswerApproval) and answer.approved)
    return events.InteractionResolved(question=asked.question, declined=_values(answer) is None)


def _values(answer: Command) -> Raw | None:
    """Return the recorded values of a form, or None."""
    if not isinstance(answer, commands.AnswerInteraction) or answer.declined or answer.values is UNSET:
        return None
    return answer.values
