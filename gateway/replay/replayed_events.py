"""Select the events of the log that a replay sends: all except those that the session adds itself.

The log is in normal form (docs/design.md, section 3), and the session of the replay makes the normal form again. So
these events are left out:

    the message of the input               the session adds it after TurnAccepted
    how a question ended                   the session adds it, if its own client answered
    questions and answers in words         the session writes them again
    the status at the end of a turn        the session sets it
    model turns                            unless the session relies on its backend for them

A replay that plays by itself has no input that opens a turn. If a turn has no content, its end only sets the status.

An imported capture may have no model turns. If the session relies on its backend for them, each run is one model turn.
"""

from __future__ import annotations

from typing import get_args

from msgspec import structs

from dragoman.gateway.recording.format import EventLine
from dragoman.mappings.canonical import Command, Event, SessionState, commands, events
from dragoman.mappings.canonical.facts import SessionNews

ADDED_BY_SESSION = frozenset({events.ModelTurnStarted, events.ModelTurnEnded, events.TurnResult})
"""Events that a session adds, unless it relies on its backend for model turns.

TurnResult is one of them, because a model turn is over before the output of the turn is.
"""

IN_WORDS = frozenset({events.QuestionAsked, events.QuestionAnswered})
_CONTENT = tuple(
    kind for kind in get_args(Event) if kind.of_a_turn and kind not in (events.TurnResult, events.ErrorReported)
)
Counted = events.ModelTurnStarted | events.ModelTurnEnded | events.ModelCallStarted | events.ModelCallEnded


class ReplayedEvents:
    """The events of one replay. `turn` is the id of the open recorded turn, "" between turns."""

    def __init__(
        self,
        state: SessionState,
        *,
        sends_model_turns: bool,
        adds_model_turns: bool = False,
        keeps_counts: bool = True,
        auto: bool = False,
    ) -> None:
        self._state = state
        self._left_out = IN_WORDS if sends_model_turns else IN_WORDS | ADDED_BY_SESSION
        self._adds_model_turns = adds_model_turns
        self._run_begins = False
        self._keeps_counts = keeps_counts  # False if turns of a live backend may come in between, which are counted too
        self._counted: dict[type, int] = {}
        self.auto = auto
        self._has_content = False  # the open recorded turn, so the session has opened a turn, too
        self._request: str | None = None  # the input that the log has not accepted yet
        self._echo = False  # the message of the input comes next
        self._answered = False  # the session's own client answered the open question
        self.turn = ""

    @property
    def input_pending(self) -> bool:
        """True if an input was not accepted yet."""
        return self._request is not None

    def begin_part(self, command: Command | None) -> None:
        """Begin a part with this command of the session's client, or without one."""
        self._answered = self._run_begins = isinstance(command, commands.Answer)
        if isinstance(command, commands.SubmitInput):
            self._request = command.request

    def begin_forced_end(self) -> list[Event]:
        """Close the recorded turn that does not end in the recording; return the events before its TurnEnded."""
        self.turn = ""
        request, self._request = self._request, None
        return [events.TurnAccepted(request=request)] if request is not None else []

    def select(self, line: EventLine) -> list[Event]:
        """Return the events to send for this line."""
        event = line.event
        if type(event) is events.TextDelta and not self._run_begins:
            self.turn, self._has_content = line.turn or self.turn, True
            return [event]  # the shortest way, because most lines are text
        selected = self._select(line, event)
        self._has_content = bool(self.turn) and (
            self._has_content or any(isinstance(each, _CONTENT) for each in selected)
        )
        return self._with_model_turns(selected) if self._adds_model_turns and selected else selected

    def _with_model_turns(self, selected: list[Event]) -> list[Event]:
        accepted = type(selected[0]) is events.TurnAccepted
        if not accepted and not self._run_begins:
            return selected
        if accepted:
            return [*selected, events.ModelTurnStarted()]
        self._run_begins = False
        return [events.ModelTurnStarted(), *selected]

    def _select(self, line: EventLine, event: Event) -> list[Event]:
        self.turn = "" if isinstance(event, events.TurnEnded) else line.turn or self.turn
        if type(event) in self._left_out:
            return []
        if isinstance(event, Counted):
            return [self._counting(event)]
        match event:
            case events.TurnAccepted():
                return self._accepted()
            case events.MessageAppended(message=message) if message.role == "user":
                echo, self._echo = self._echo, False
                return [] if echo else [events.MessageAppended(message=structs.replace(message, id="", turn=""))]
            case events.ApprovalResolved() | events.InteractionResolved() if self._answered:
                self._answered = False
                return []
            case events.StatusChanged(status=status) if line.turn and status != "running":
                return []
            case events.TurnEnded(end=end) if self.auto and not self._has_content:
                return [events.StatusChanged(status="paused" if end == "paused" else "idle")]
            case events.TurnEnded():
                return [structs.replace(event, message="")]
            case events.SessionUpdated() | events.SessionActivated() | events.SessionClosed():
                return self._titled(event)
        return [event]

    def _counting(self, event: Counted) -> Event:
        """Keep the recorded count while counts grow; they do not if turns come in another order."""
        index, last = event.index, self._counted.get(type(event), -1)
        if index is None or not self._keeps_counts or index <= last:
            self._keeps_counts = self._keeps_counts and index is None
            return uncounted(event)
        self._counted[type(event)] = index
        return event

    def _accepted(self) -> list[Event]:
        """Accept the input once; a second TurnAccepted came from an answer in words, which the session accepts."""
        request, self._request = self._request, None
        if request is None:
            return []
        self._echo = True
        return [events.TurnAccepted(request=request)]

    def _titled(self, event: SessionNews) -> list[Event]:
        """Return only the change of the title, because the other fields describe the recorded session."""
        title, state = event.session.title, self._state
        if not title or title == state.title:
            return []
        return [events.SessionUpdated(session=structs.replace(event.session, session=state.id, ext=None))]


def uncounted(event: Counted) -> Event:
    """Return the event without its count; the session assigns the next number."""
    return structs.replace(event, index=None)
