"""The users' inputs of one session: one at a time, from the client's words to the turn that they begin."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import structs

from dragoman.gateway.link import Link
from dragoman.gateway.session.attachments import as_references
from dragoman.gateway.session.inflight import Pending
from dragoman.gateway.session.reconnect import BUSY
from dragoman.gateway.session.turn_states import Trigger, TurnState
from dragoman.mappings.canonical import Event
from dragoman.mappings.canonical.commands import SubmitInput
from dragoman.mappings.canonical.events import TurnAccepted
from dragoman.mappings.canonical.values import FileAttachment, ImageAttachment, Message, Origin, flatten

if TYPE_CHECKING:
    from dragoman.gateway.session.session import Session

__all__ = ["Inputs"]


class Inputs:
    """`waiting` is the request of the input that the backend has not accepted yet, "" if there is none."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._given_up: tuple[str, SubmitInput] | None = None  # the last input that was not accepted in time
        self.waiting = ""

    def submit(self, link: Link, command: SubmitInput) -> None:
        """A client says something: the answer to a question in words, or what a new turn begins with."""
        session = self._session
        segments = as_references(command.segments, session.route.file_roots)
        command = structs.replace(command, segments=segments)
        if not flatten(segments).strip() and not any(isinstance(s, ImageAttachment | FileAttachment) for s in segments):
            session.refuse(link, command.request, "invalid", "the input is empty")
        elif session.reconnect.severed:
            session.refuse(link, command.request, "busy", BUSY)
        elif session.questions.hear(link, command):
            return
        elif session.states.turn is TurnState.DISCARDED:
            text = "the cancelled turn has not ended in the backend yet; try again"
            session.refuse(link, command.request, "busy", text)
        elif session.busy:
            session.refuse(link, command.request, "busy", "a turn is already in progress in this session")
        else:
            self._submit(link, command)

    def _submit(self, link: Link, command: SubmitInput) -> None:
        """Write the input to the backend."""
        session = self._session
        self.waiting = session.forward(link, command)
        if self.waiting:
            session.states.on(Trigger.SUBMITTED)

    def settled(self, request: str) -> None:
        """This command waits no more."""
        if request == self.waiting:
            self.waiting = ""
            self._session.states.on(Trigger.SETTLED)

    def give_up(self, pending: Pending, request: str) -> None:
        """The backend did not accept it in time; it may still do so."""
        if isinstance(pending.command, SubmitInput):
            self._given_up = request, pending.command

    def said_again(self, event: TurnAccepted) -> TurnAccepted:
        """The same words sent once more after they were given up: what the backend accepts is the second sending."""
        pending = self._session.in_flight.get(self.waiting)
        if pending is None or self._given_up is None or not isinstance(pending.command, SubmitInput):
            return event
        request, command = self._given_up
        same = event.request == request and pending.command.segments == command.segments
        return structs.replace(event, request=self.waiting) if same else event

    def taken_late(self, event: Event, at: int) -> bool:
        """The backend took an input that was given up: nobody waits for it, but it was said."""
        if not isinstance(event, TurnAccepted) or self._given_up is None or event.request != self._given_up[0]:
            return False
        (_, command), self._given_up = self._given_up, None
        message = Message(role="user", text=flatten(command.segments), segments=command.segments)
        self._session.deliver(self._session.form.accept(Origin(), message, at), at)
        return True

    def accepted(self, pending: Pending, at: int) -> None:
        """The backend took it: its turn begins."""
        command = pending.command
        if not isinstance(command, SubmitInput) or pending.link is None:
            return
        message = Message(role="user", text=flatten(command.segments), segments=command.segments)
        origin = Origin(link=pending.link.id, request=command.request)
        self._session.deliver(self._session.form.accept(origin, message, at), at)
        if not pending.link.attaches:
            pending.link.send([TurnAccepted(request=command.request)])

    def accept_waiting(self, at: int) -> bool:
        """Nobody knows if the waiting input was taken: for its client it is a turn. Whether there was one."""
        pending = self._session.settle(self.waiting)
        if pending is not None:
            self.accepted(pending, at)
        return pending is not None
