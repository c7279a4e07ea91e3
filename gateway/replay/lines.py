"""What of the log a replay says: all but what the session says by itself (docs/design.md, section 3).

The log is in normal form, and the session that replays makes that form anew. What it would say twice is left out: the
user's message behind TurnAccepted, how a question ended that its client answered, questions in words, the status that
goes with a terminal; and model turns, where the session says them. Where it relies on a backend for them, and the
recording has none (it was not made by a gateway), each run is said to be one.
"""

from __future__ import annotations

from collections.abc import Callable

from msgspec import structs

from dragoman.gateway.recording.lines import EventLine
from dragoman.gateway.replay.matching import ANSWERS
from dragoman.mappings.canonical import Command, Event, SessionState
from dragoman.mappings.canonical.commands import SubmitInput
from dragoman.mappings.canonical.events import (
    ApprovalResolved,
    InteractionResolved,
    MessageAppended,
    ModelCallEnded,
    ModelCallStarted,
    ModelTurnEnded,
    ModelTurnStarted,
    QuestionAnswered,
    QuestionAsked,
    SessionActivated,
    SessionClosed,
    SessionUpdated,
    StatusChanged,
    TextDelta,
    TurnAccepted,
    TurnEnded,
    TurnResult,
)

__all__ = ["SAID_FOR_IT", "Counted", "Lines", "uncounted"]

MODEL_TURNS = frozenset({ModelTurnStarted, ModelTurnEnded})
SAID_FOR_IT = MODEL_TURNS | {TurnResult}  # a model turn is over before the output of the turn is
IN_WORDS = frozenset({QuestionAsked, QuestionAnswered})
Counted = ModelTurnStarted | ModelTurnEnded | ModelCallStarted | ModelCallEnded
DESCRIBED = SessionUpdated | SessionActivated | SessionClosed


class Lines:
    """The log of one replay, line by line. `turn` is the recorded turn that is open, "" between turns."""

    def __init__(
        self,
        state: Callable[[], SessionState],
        *,
        tells_model_turns: bool,
        adds_model_turns: bool = False,
        keeps_counts: bool = True,
    ) -> None:
        self._state = state
        self._drops = IN_WORDS if tells_model_turns else IN_WORDS | SAID_FOR_IT
        self._adds = adds_model_turns
        self._begun = 0  # model turns that were added
        self._run_begins = False
        self._keeps_counts = keeps_counts  # else others count too: a live backend's turns come between
        self._counted: dict[type, int] = {}
        self._auto = False
        self._request: str | None = None  # the input that the log has not accepted yet
        self._echo = False  # its message comes next
        self._answered = False  # the open question, by the session's own client
        self.turn = ""

    @property
    def waits(self) -> bool:
        """Whether an input was not accepted yet."""
        return self._request is not None

    def begin(self, command: Command | None, *, auto: bool = False) -> None:
        """A passage begins, by this command of the session; with `auto` by none of its own."""
        self._auto = auto
        self._answered = self._run_begins = isinstance(command, ANSWERS)
        if isinstance(command, SubmitInput):
            self._request = command.request

    def ended(self) -> list[Event]:
        """What must be said before a turn can be ended that the recording does not end."""
        self.turn = ""
        request, self._request = self._request, None
        return [TurnAccepted(request=request)] if request is not None else []

    def say(self, line: EventLine, event: Event) -> list[Event]:
        """What is said for this line."""
        if type(event) is TextDelta and not self._run_begins:
            self.turn = line.turn or self.turn
            return [event]  # most lines are this, and nothing is to be done for them
        events = self._say(line, event)
        return self._with_model_turns(events) if self._adds and events else events

    def _with_model_turns(self, events: list[Event]) -> list[Event]:
        if type(events[0]) is TurnAccepted:
            self._begun += 1
            return [*events, ModelTurnStarted(index=self._begun - 1)]
        if self._run_begins:
            self._run_begins = False
            self._begun += 1
            return [ModelTurnStarted(index=self._begun - 1), *events]
        return events

    def _say(self, line: EventLine, event: Event) -> list[Event]:
        self.turn = "" if isinstance(event, TurnEnded) else line.turn or self.turn
        if type(event) in self._drops:
            return []
        match event:
            case ModelTurnStarted() | ModelTurnEnded() | ModelCallStarted() | ModelCallEnded():
                return [self._numbered(event)]
            case TurnAccepted():
                return self._accepted()
            case MessageAppended(message=message) if message.role == "user":
                echo, self._echo = self._echo, False
                return [] if echo else [MessageAppended(message=structs.replace(message, id="", turn=""))]
            case ApprovalResolved() | InteractionResolved() if self._answered:
                self._answered = False
                return []
            case StatusChanged(status=status) if line.turn and status != "running":
                return []
            case TurnEnded():
                return [structs.replace(event, message="")]
            case SessionUpdated() | SessionActivated() | SessionClosed():
                return self._described(event)
        return [event]

    def _numbered(self, event: Counted) -> Event:
        """With its number while numbers grow; where scenes come in another order they go on by themselves."""
        index, last = event.index, self._counted.get(type(event), -1)
        if index is None or not self._keeps_counts or index <= last:
            self._keeps_counts = self._keeps_counts and index is None
            return uncounted(event)
        self._counted[type(event)] = index
        return event

    def _accepted(self) -> list[Event]:
        """The first is that of the input; a further one came of an answer in words, as the session says by itself."""
        request, self._request = self._request, None
        if self._auto or request is None:
            return []
        self._echo = True
        return [TurnAccepted(request=request)]

    def _described(self, event: DESCRIBED) -> list[Event]:
        """A title that the backend gave, or a client; how the session stood then is no matter of this one."""
        title, state = event.session.title, self._state()
        if not title or title == state.title:
            return []
        return [SessionUpdated(session=structs.replace(event.session, session=state.id, ext=None))]


def uncounted(event: Counted) -> Event:
    """Without its number: it goes on after the one that was said last."""
    return structs.replace(event, index=None)
