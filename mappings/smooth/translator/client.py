"""The client's side of a link with a smooth server.

The sources are docs/dialects/smooth.md, sections 2, 6 and 9, and docs/translation.md, rule 3.11. Every command is sent
under a new request id of ours: servers need one, and a confirm must not have the id of its turn. This id decides what
an event is:

    the id names                  its events
    a turn that runs              are of the turn; a TurnEnded, or an error, ends it
    an input of ours              are of its turn, which the first one begins; an error refuses the input
    another command of ours       answer it, if they are a Reply, an error, a Pong or the verdict on an answer
    a turn of an earlier          are lost, except its end: that answers our own cancel
    connection, now cancelled
    a turn that is over           are lost
    nothing that we know          are of another client's turn, or lost while a turn of ours runs

Bursts with events of a turn have the id of the command that began it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import ClassVar

import msgspec
from msgspec.structs import replace

from dragoman.mappings.alike import TEXT
from dragoman.mappings.bounded import remember
from dragoman.mappings.canonical import Command, Event, SessionState, commands, events
from dragoman.mappings.canonical.unions import Unmapped
from dragoman.mappings.canonical.values import Failure
from dragoman.mappings.codec import MALFORMED
from dragoman.mappings.dialect import (
    Burst,
    Clock,
    DeltaType,
    Frame,
    Loss,
    NewId,
    Step,
    TextReader,
    TextSink,
    Translator,
)
from dragoman.mappings.extras import read_raw
from dragoman.mappings.handlers import Handlers, handler
from dragoman.mappings.smooth.directions import FROM_CLIENT, FROM_SERVER
from dragoman.mappings.smooth.to_canonical.replies import typed_answer
from dragoman.mappings.smooth.translator.opening import Opening
from dragoman.mappings.smooth.vocabulary import given
from dragoman.mappings.smooth.wire.actions import Cancel
from dragoman.mappings.smooth.wire.codecs import ACTIONS, EVENTS
from dragoman.mappings.smooth.wire.events import StreamReasoning, StreamToken
from dragoman.mappings.smooth.wire.values import NS_PER_MS

WAITING_MAX = 1024
"""Commands and turns that a link remembers; past the limit the oldest is removed."""

OVER_MAX = 64
"""Ended turns of this link whose late events are still recognised: 7 KB, in which an id is looked up in 0.7 us."""

VERDICTS: dict[type, type] = {
    events.OtpVerified: commands.AnswerOtp,
    events.OtpInvalid: commands.AnswerOtp,
    events.InteractionInvalid: commands.AnswerInteraction,
}
"""Events that report the result of a user's answer -> the command that sent the answer."""

OUTSIDE_TURNS = frozenset((events.Reply, events.ErrorReported, events.Pong, events.Heartbeat, Unmapped, *VERDICTS))
"""Events that do not prove that a turn runs under their request id."""


NO_TURN = Failure(cause="not_running", text="no turn is in progress")

TERMINALS = frozenset({"eventual_response", "error", "cancelled"})
"""Types of the events after which no further event of a request comes."""


class Head(msgspec.Struct, frozen=True, rename="camel"):
    """The two fields of an event that name its request, whatever else the event has."""

    type: str
    request_id: str = ""


HEAD = msgspec.json.Decoder(Head)


class ClientTranslator(Translator[Event, Command]):
    """The link with a smooth server, with us as its client."""

    def __init__(self, clock: Clock, new_id: NewId, monotonic: Clock) -> None:
        self._new_id = new_id
        self._pending: dict[str, Command] = {}
        self._turns: dict[str, str] = {}  # our id on the wire -> the request that began the turn
        self._over: deque[str] = deque(maxlen=OVER_MAX)  # our ids of turns that have ended
        self._opening = Opening()
        self._abandoned = ""  # our id of a turn that an earlier connection left behind, to be cancelled
        self._cancelled = ""  # our id of that turn after its cancel
        self._ends_unheard = False  # a cancel may have ended a turn that began before this connection

    def receive(self, frames: Sequence[Frame]) -> Step[Event]:
        """Read events and assign each to a pending command, to a turn, or to neither."""
        step: Step[Event] = Step()
        FROM_SERVER.receive(frames, step)
        step.bursts = [placed for burst in step.bursts if (placed := self._place_burst(burst, step)).items]
        if step.faults:
            for frame in frames:
                self._end_unread(frame, step)
        return step

    def send(self, items: Sequence[Command]) -> Step[Event]:
        """Write commands as actions; answer a command without a form in smooth with a failed Reply."""
        step: Step[Event] = Step()
        for command in items:
            now, answers = self._opening.admit_command(command)
            if answers:
                step.bursts.append(Burst(items=answers, request=command.request))
            self._write_commands(now, step)
        return step

    def attach(self, state: SessionState, request: str) -> Step[Event]:
        """Request the session of this link from the server, if it was opened before."""
        step: Step[Event] = Step()
        self._abandoned = state.abandoned or self._abandoned
        self._write_commands(self._opening.resume(state), step)
        return step

    def unfinished_turn(self) -> str:
        """Return our id of an input whose turn has not ended: some servers continue the turn."""
        ours = [own for own, request in self._turns.items() if own != request]
        ours += [own for own, command in self._pending.items() if isinstance(command, commands.SubmitInput)]
        return ours[-1] if ours else self._abandoned

    def text_reader(self, delta: DeltaType) -> TextReader | None:
        """Return a fast reader for further pieces of the open turn; None unless exactly one turn is open."""
        if len(self._turns) != 1:
            return None
        turns = self._turns
        (own,) = turns
        kind: type[StreamToken | StreamReasoning] = StreamToken if delta is events.TextDelta else StreamReasoning

        def read_text(frame: Frame, add_text: TextSink) -> bool:
            try:
                message = EVENTS.decode(frame)  # type: ignore[arg-type]  # other frames raise
            except MALFORMED:
                return False
            if isinstance(message, kind) and message.request_id == own and own in turns and message.timestamp:
                return add_text(message.token, message.timestamp * NS_PER_MS, "")
            return False

        return read_text

    # -- to the server ----------------------------------------------------------------------------------

    def _write_commands(self, items: Sequence[Command], step: Step[Event]) -> None:
        for command in items:
            own = self._new_id()
            written = FROM_CLIENT.write(Burst(items=[replace(command, request=own)]))
            step.losses += written.losses
            step.frames += written.frames
            failure = None if written.frames else FROM_CLIENT.from_canonical.refusal_of(type(command))
            if isinstance(command, commands.CancelTurn) and not self._has_turn:
                self._ends_unheard, failure = True, NO_TURN
            if failure is None:
                remember(self._pending, own, command, WAITING_MAX)
            else:
                refusal = events.Reply(request=command.request, failure=failure)
                step.bursts.append(Burst(items=[refusal], request=command.request))

    @property
    def _has_turn(self) -> bool:
        return bool(self._turns) or any(isinstance(c, commands.SubmitInput) for c in self._pending.values())

    def _cancel_abandoned(self, step: Step[Event]) -> None:
        """Cancel the turn that an earlier connection left behind: until it ends, the server may take no input."""
        if self._abandoned and self._opening.session:
            self._cancelled, self._abandoned = self._abandoned, ""
            self._over.append(self._cancelled)
            cancel = Cancel(request_id=self._cancelled, session_id=self._opening.session)
            step.frames.append(ACTIONS.encode(cancel))

    # -- from the server --------------------------------------------------------------------------------

    def _end_unread(self, frame: Frame, step: Step[Event]) -> None:
        """End the turn, or refuse the command, whose last frame cannot be read, because no other frame will end it."""
        try:
            head = HEAD.decode(frame)  # type: ignore[arg-type]  # other frames raise
        except MALFORMED:
            return
        own = head.request_id
        if head.type not in TERMINALS or not (own in self._turns or own in self._pending):
            return
        again: Step[Event] = Step()
        FROM_SERVER.receive([frame], again)
        for fault in again.faults:
            event = events.ErrorReported(
                cause="internal", text=f"the backend's answer cannot be read: {fault.text}"[:500]
            )
            step.bursts.append(self._place_burst(Burst(items=[event], request=own), step))

    def _place_burst(self, burst: Burst[Event], step: Step[Event]) -> Burst[Event]:
        """Return the burst under the request for which our id stands, with its events handled as the module's table
        says.
        """
        own = burst.request
        request = self._turns.get(own)
        if request is not None and TEXT.issuperset(map(type, burst.items)):  # the hot path
            return Burst(items=burst.items, request=request, at=burst.at)
        items: list[Event] = []
        for event in burst.items:
            admitted = event if own in self._turns else self._admit_first(own, event, items, step)
            if admitted is None:
                continue
            request = self._turns.get(own, request)
            handle = self._HANDLERS.get(type(admitted))
            items += (admitted,) if handle is None else handle(self, admitted, own, step)
        return Burst(items=items, request=request or own, at=burst.at)

    # -- the turn that an id names ----------------------------------------------------------------------

    def _admit_first(self, own: str, event: Event, items: list[Event], step: Step[Event]) -> Event | None:
        """Return an event whose id names no turn yet, None if it is dropped. Begin a turn with its first event."""
        if self._answers_cancel(own, event):
            return None
        command = self._pending.get(own)
        if not own or type(event) in OUTSIDE_TURNS or not isinstance(command, commands.SubmitInput | None):
            return event
        if why := self._stray_reason(own):
            step.losses.append(Loss(kind=type(event).__name__, why=why))
            return None
        request = own if command is None else self._pending.pop(own).request or own
        remember(self._turns, own, request, WAITING_MAX)
        if command is None or type(event) is events.TurnAccepted:
            return event
        items.append(events.TurnAccepted(request=request))
        is_cancelled = isinstance(event, events.TurnEnded) and event.end == "cancelled"
        return replace(event, end="rolled_back") if is_cancelled else event

    def _answers_cancel(self, own: str, event: Event) -> bool:
        """Return True if this event answers our cancel of a turn that an earlier connection began, of us or others."""
        if own and own == self._cancelled:
            return isinstance(event, events.TurnEnded | events.Reply | events.ErrorReported)
        is_end = self._ends_unheard and isinstance(event, events.TurnEnded) and own not in self._pending
        if is_end:
            self._ends_unheard = False
        return is_end

    def _stray_reason(self, own: str) -> str:
        """Return why an event with this id cannot begin a turn, "" if it can.

        No event follows the end of a turn, and a connection has one turn at a time.
        """
        if own in self._over:
            return "after the end of its turn"
        ours = any(request != known for known, request in self._turns.items())
        return "with a foreign id while our turn is open" if ours and own not in self._pending else ""

    def _accept_turn(self, event: events.TurnAccepted, own: str, _step: Step[Event]) -> list[Event]:
        command = self._pending.pop(own, None)  # an answer, if the server begins another turn with it
        if command is not None:
            return [events.Reply(request=command.request)]
        return [replace(event, request=self._turns.get(own, own))]

    def _end_turn(self, event: events.TurnEnded, own: str, _step: Step[Event]) -> list[Event]:
        """Return the end of a turn, and a Reply to each pending cancel: a server answers it only by this end."""
        if self._turns.pop(own, own) != own:
            self._over.append(own)
        items: list[Event] = [event]
        for known, command in [*self._pending.items()]:
            if isinstance(command, commands.CancelTurn):
                del self._pending[known]
                items.append(events.Reply(request=command.request))
        return items

    # -- the command that an id names -------------------------------------------------------------------

    def _take_answer(
        self, event: events.Reply | events.ErrorReported | events.Pong, own: str, step: Step[Event]
    ) -> list[Event]:
        """Return the events for the answer to a command. An error that answers none ends the turn of its id."""
        command = self._pending.pop(own, None)
        if command is not None:
            now, answers = self._opening.take_answer(command, self._answer_to(command, own, event, step.losses))
            self._cancel_abandoned(step)
            self._write_commands(now, step)
            return answers
        if not isinstance(event, events.ErrorReported):
            return [replace(event, request=own)]
        if own in self._turns and given(event.ext, "code", str, "") != "OTP_SEND_FAILED":
            return self._end_turn(events.TurnEnded(end="failed", failure=_failure_of(event)), own, step)
        return [event]

    def _answer_to(
        self, command: Command, own: str, event: events.Reply | events.ErrorReported | events.Pong, losses: list[Loss]
    ) -> Event:
        if isinstance(event, events.ErrorReported):
            return events.Reply(request=command.request, failure=_failure_of(event))
        if isinstance(event, events.Reply) and isinstance(command, commands.SubmitInput):
            remember(self._turns, own, command.request or own, WAITING_MAX)
            return events.TurnAccepted(request=command.request, ext=event.ext)
        typed = typed_answer(command, event, losses) if isinstance(event, events.Reply) else None
        return typed or replace(event, request=command.request)

    def _match_verdict(
        self, event: events.OtpVerified | events.OtpInvalid | events.InteractionInvalid, own: str, _step: Step[Event]
    ) -> list[Event]:
        """Return the event with the `request` of the user's answer that it reports on, "" if there is none.

        That is the answer sent under the event's own id, else the oldest pending answer of that kind.
        """
        kind = VERDICTS[type(event)]
        known = self._pending.get(own)
        key = own if isinstance(known, kind) else next((k for k, c in self._pending.items() if isinstance(c, kind)), "")
        command = self._pending.pop(key, None)
        return [replace(event, request="" if command is None else command.request)]

    def _match_unknown(self, event: Unmapped, _own: str, _step: Step[Event]) -> list[Event]:
        """Return a message of unknown type with the `request` of the command that it names, if any; no answer."""
        head = read_raw(msgspec.Raw(event.raw.encode()), Head)
        command = self._pending.get(head.request_id) if head is not None else None
        return [event if command is None else replace(event, request=command.request)]

    _HANDLERS: ClassVar[Handlers[ClientTranslator, [str, Step[Event]], list[Event]]] = dict(
        [
            handler(events.TurnAccepted, _accept_turn),
            handler(events.TurnEnded, _end_turn),
            handler(events.Reply, _take_answer),
            handler(events.ErrorReported, _take_answer),
            handler(events.Pong, _take_answer),
            handler(events.OtpVerified, _match_verdict),
            handler(events.OtpInvalid, _match_verdict),
            handler(events.InteractionInvalid, _match_verdict),
            handler(Unmapped, _match_unknown),
        ]
    )
    """The methods for events that may begin or end a turn, or answer a command; `own` is their id on the wire."""


def _failure_of(event: events.ErrorReported) -> Failure:
    return Failure(cause=event.cause, text=event.text, ext=event.ext)
