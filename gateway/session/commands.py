"""The life of one command: each gets exactly one answer, which goes to the link that asked and not into the log
(docs/translation.md, rule 3.18).

    asked      a client or the gateway itself wants it
    written    it waits in `InFlight`, under a request id of our own, until its deadline
    answered   the backend took it, or said why not
    late       the deadline is over, and its client was told; an input may still be taken
    refused    it never reached the backend: too many wait, or another turn runs
    cancelled  the turn is ended by the backend, or here when it cannot or does not (rule 3.4)
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, get_args
from urllib.parse import unquote, urlsplit

from msgspec import UNSET, Struct, structs

from dragoman.gateway.services import Services
from dragoman.gateway.session.context import Effects, SessionContext
from dragoman.gateway.session.ports import Client
from dragoman.gateway.session.questions import Questions
from dragoman.gateway.session.turn_states import CancelState, ConnectionState, Trigger, TurnState
from dragoman.gateway.timers import Timer
from dragoman.mappings.canonical import Command, Event
from dragoman.mappings.canonical.commands import (
    ArchiveSession,
    CancelTurn,
    GetSession,
    OpenSession,
    RenameSession,
    ResumeSession,
    SubmitInput,
    UnarchiveSession,
)
from dragoman.mappings.canonical.events import (
    InteractionInvalid,
    OtpInvalid,
    OtpVerified,
    Reply,
    SessionOpened,
    TurnAccepted,
)
from dragoman.mappings.canonical.values import (
    Cause,
    Failure,
    FileAttachment,
    FileRef,
    ImageAttachment,
    Message,
    Origin,
    Segment,
    flatten,
)
from dragoman.mappings.dialect import Loss

__all__ = ["ADDRESSED", "BUSY", "PENDING_MAX", "Commands", "InFlight", "answers_one", "as_references"]

PENDING_MAX = 256  # commands of all links that wait for the backend's answer

OPENING = (OpenSession, ResumeSession, GetSession)
"""Commands that ask a backend which opens conversations for one."""

BUSY = "the connection to the backend was lost and is being made again; try again"

ADDRESSED = frozenset(kind for kind in get_args(Event) if kind.answers != "never")
"""Types that may answer a command."""


def answers_one(event: Any) -> bool:
    """Return True if this event answers one command."""
    return event.answers == "always" or (event.answers == "by_request" and bool(event.request))


class PendingCommand(Struct, frozen=True, kw_only=True):
    """One command. `link` asked for it, None is the gateway itself; `segments` is what it typed to say it in words.

    `then` is what it asked of a session that `command` has to open first.
    """

    command: Command
    timer: Timer
    link: Client | None = None
    segments: tuple[Segment, ...] = ()
    then: Command | None = None


class InFlight:
    """The commands of one session that were written and wait; `unanswered` is called for each that waits too long."""

    def __init__(self, services: Services, unanswered: Callable[[str], None]) -> None:
        self._services = services
        self._unanswered = unanswered
        self._pending: dict[str, PendingCommand] = {}

    def __len__(self) -> int:
        return len(self._pending)

    def __iter__(self) -> Iterator[str]:
        """Iterate over the requests, oldest first; they may be settled meanwhile."""
        return iter(list(self._pending))

    @property
    def full(self) -> bool:
        """Return True if one more would be too many."""
        return len(self._pending) >= PENDING_MAX

    def add(
        self,
        request: str,
        command: Command,
        link: Client | None,
        segments: tuple[Segment, ...],
        then: Command | None = None,
    ) -> None:
        """Wait for the answer to `command`, which is about to be written under `request`."""
        limits = self._services.limits
        deadline = limits.open_deadline if isinstance(command, OPENING) else limits.accept_deadline
        timer = self._services.schedule(deadline, lambda: self._unanswered(request))
        self._pending[request] = PendingCommand(command=command, timer=timer, link=link, segments=segments, then=then)

    def get(self, request: str) -> PendingCommand | None:
        """Return the command that waits under `request`."""
        return self._pending.get(request)

    def of(self, kind: type) -> list[str]:
        """Return the requests of all commands of this kind."""
        return [request for request, pending in self._pending.items() if isinstance(pending.command, kind)]

    def settle(self, request: str) -> PendingCommand | None:
        """Wait for this command no more."""
        pending = self._pending.pop(request, None)
        if pending is not None:
            pending.timer.cancel()
        return pending

    def close(self) -> None:
        """Wait for nothing any more."""
        for request in self:
            self.settle(request)


class Commands:
    """The commands of one session. `waiting` is the request of the input that is not accepted yet, "" if none."""

    def __init__(self, context: SessionContext, questions: Questions, effects: Effects) -> None:
        self._context = context
        self._questions = questions
        self._effects = effects
        self.in_flight = InFlight(context.services, self._miss)
        self.waiting = ""
        self._late: tuple[str, SubmitInput] | None = None  # the last input that was not accepted in time
        self._deadline: Timer | None = None  # of the cancel
        self._held: list[tuple[Client | None, CancelTurn]] = []  # cancels that wait for the connection

    # -- asked and written -------------------------------------------------------------------------------

    def forward(
        self, link: Client | None, command: Command, segments: tuple[Segment, ...] = (), then: Command | None = None
    ) -> str:
        """Write a command to the backend under a request id of our own; return that id, or "" if it was refused.

        `link` asked for it, None is the gateway itself; `segments` is what it typed to say it in words. `then` waits
        for the session that `command` opens.
        """
        upstream, services = self._context.upstream, self._context.services
        if self.in_flight.full and link is not None:
            link.refuse(command.request, "busy", "too many commands wait for the backend")
            return ""
        fields = upstream.commands.from_canonical.lossy.get(type(command))
        if fields is not None and link is not None and link.dialect.name != upstream.name:
            services.ledger.in_part(link.dialect.name, upstream.name, type(command), fields)
        request = services.new_id()
        self.in_flight.add(request, command, link, segments, then)
        self._effects.write(structs.replace(command, request=request))
        return request if self.in_flight.get(request) is not None else ""

    def submit(self, link: Client, command: SubmitInput) -> None:
        """Act on a client's words: the answer to a question, or what a new turn begins with."""
        states = self._context.states
        segments = as_references(command.segments, self._context.route.file_roots)
        command = structs.replace(command, segments=segments)
        if not flatten(segments).strip() and not any(isinstance(s, ImageAttachment | FileAttachment) for s in segments):
            link.refuse(command.request, "invalid", "the input is empty")
        elif states.connection is ConnectionState.SEVERED:
            link.refuse(command.request, "busy", BUSY)
        elif self._questions.hear(link, command):
            return
        elif states.turn is TurnState.DISCARDED:
            text = "the cancelled turn has not ended in the backend yet; try again"
            link.refuse(command.request, "busy", text)
        elif states.busy:
            link.refuse(command.request, "busy", "a turn is already in progress in this session")
        else:
            self.waiting = self.forward(link, command)
            if self.waiting:
                states.on(Trigger.SUBMITTED)

    def cancel(self, link: Client | None, command: CancelTurn) -> None:
        """Ask the backend to end the open turn; it has until the deadline."""
        states, services = self._context.states, self._context.services
        if not states.busy and self._context.state.status != "running":  # a resumed run may have said nothing yet
            if link is not None:
                link.refuse(command.request, "not_running", "no turn is in progress")
            return
        if states.connection is ConnectionState.SEVERED:
            self._held.append((link, command))
            return
        if states.busy and states.cancel is CancelState.NONE:
            states.on(Trigger.CANCELLED)
            self._deadline = services.schedule(services.limits.cancel_deadline, self._expire)
        self.forward(link, command)

    def release(self) -> None:
        """Act on the cancels that waited for the connection: the turn goes on, or there is nothing left to cancel."""
        held, self._held = self._held, []
        for link, command in held:
            if self._context.states.busy:
                self.cancel(link, command)
            elif link is not None:
                link.send([Reply(request=command.request)])

    # -- cancelled ---------------------------------------------------------------------------------------

    def _expire(self) -> None:
        self._context.log.warning("backend did not end the cancelled turn in time, ending it for its clients")
        self._force()

    def _force(self) -> None:
        """End the turn for its clients: the backend has no cancel, or did not end it in time."""
        self.cancel_over()
        now = self._context.services.clock()
        unaccepted = self.accept_waiting(now)
        if self._context.state.turn is not None:
            self.answer_all(CancelTurn)  # an error later would end the turn a second time
            self._effects.deliver(self._context.form.cut("cancelled", None, now, discard=not unaccepted), now)

    def cancel_over(self) -> None:
        """Call off the deadline of a cancel: it must not end the next turn."""
        self._context.states.on(Trigger.CANCEL_OVER)
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None

    # -- inputs that are taken ---------------------------------------------------------------------------

    def accept_waiting(self, at: int) -> bool:
        """Begin the turn of the waiting input, of which nobody knows if it was taken; return whether there was one."""
        pending = self.settle(self.waiting)
        if pending is not None:
            self._accepted(pending, at)
        return pending is not None

    def _said_again(self, event: TurnAccepted) -> TurnAccepted:
        """Return the acceptance of the same words sent once more, after they were late, as that of the second time."""
        pending = self.in_flight.get(self.waiting)
        if pending is None or self._late is None or not isinstance(pending.command, SubmitInput):
            return event
        request, command = self._late
        same = event.request == request and pending.command.segments == command.segments
        return structs.replace(event, request=self.waiting) if same else event

    def _taken_late(self, event: Event, at: int) -> bool:
        """Begin the turn of an input that was late: nobody waits for it, but it was said; return whether it is that."""
        if not isinstance(event, TurnAccepted) or self._late is None or event.request != self._late[0]:
            return False
        (_, command), self._late = self._late, None
        message = Message(role="user", text=flatten(command.segments), segments=command.segments)
        self._effects.deliver(self._context.form.accept(Origin(), message, at), at)
        return True

    def _accepted(self, pending: PendingCommand, at: int) -> None:
        """Begin the turn of an input that the backend took."""
        command = pending.command
        if not isinstance(command, SubmitInput) or pending.link is None:
            return
        message = Message(role="user", text=flatten(command.segments), segments=command.segments)
        origin = Origin(link=pending.link.id, request=command.request)
        self._effects.deliver(self._context.form.accept(origin, message, at), at)
        if not pending.link.attaches:
            pending.link.send([TurnAccepted(request=command.request)])

    # -- answered, late ----------------------------------------------------------------------------------

    def settle(self, request: str) -> PendingCommand | None:
        """Wait for this command no more; return what it was."""
        pending = self.in_flight.settle(request)
        if request == self.waiting:
            self.waiting = ""
            self._context.states.on(Trigger.SETTLED)
        self._effects.note_quiet()
        return pending

    def take(self, event: Any, at: int) -> None:
        """Act on the backend's answer to one command, or to somebody else's."""
        shown = self._effects
        if isinstance(event, SessionOpened):
            shown = shown.opened(event)
            if not event.request:
                return  # opened for what waited, or resumed: nobody asked
        if isinstance(event, TurnAccepted):
            event = self._said_again(event)
        pending = self.in_flight.get(event.request)
        if pending is None:
            if not self._taken_late(event, at):
                loss = Loss(kind=type(event).__name__, why="answers no command of ours")
                self._context.services.ledger.record([loss], session=self._context.state.id)
        elif isinstance(event, TurnAccepted):
            self.settle(event.request)
            self._accepted(pending, at)
        elif isinstance(event, SessionOpened):
            self.settle(event.request)
            if pending.link is not None:
                shown.show(pending.link, pending.command.request, event, pending.then)
        elif isinstance(event, Reply):
            self.give(event.request, event.failure, event)
        elif isinstance(event, OtpVerified | OtpInvalid | InteractionInvalid):
            self.settle(event.request)
            self._questions.judged(pending.link, pending.command, pending.segments, event)
        elif pending.link is not None:
            self.settle(event.request)
            pending.link.send([structs.replace(event, request=pending.command.request)])
            self._context.delivery.count([event], pending.link.dialect)

    def give(self, request: str, failure: Failure | None, event: Reply | None = None) -> None:
        """Tell who asked that it is done, or why not."""
        pending = self.settle(request)
        if pending is None:
            return
        command = pending.command
        if failure is not None and isinstance(command, CancelTurn | SubmitInput):
            self.cancel_over()
        if isinstance(command, OPENING) and self._context.state.backend_ids is None:
            self._effects.refused()
        if isinstance(command, CancelTurn) and failure is not None and failure.cause == "unsupported":
            # It has no cancel: the turn ends for its clients (docs/translation.md, rule 3.4). Other refusals end
            # nothing.
            self._force()
            failure = None
        if isinstance(command, RenameSession) and self._row(pending, failure):
            return
        if failure is None:
            self._done(command)
        if self._questions.replied(pending.link, command, pending.segments, failure) or pending.link is None:
            return
        result = event.result if event is not None else UNSET
        pending.link.send([Reply(request=command.request, failure=failure, result=result)])

    def answer_all(self, kind: type) -> None:
        """Tell everybody who waits for a command of this kind that it is done."""
        self.give_all(kind, None)

    def give_all(self, kind: type, failure: Failure | None) -> None:
        """Answer every command of this kind."""
        for request in self.in_flight.of(kind):
            self.give(request, failure)

    def fail(self, failure: Failure) -> None:
        """Answer every command that waits for the backend with this error."""
        for request in self.in_flight:
            self.give(request, failure)

    def close(self) -> None:
        """Wait for nothing any more: the gateway ends."""
        self.in_flight.close()
        self.cancel_over()

    def _row(self, pending: PendingCommand, failure: Failure | None) -> bool:
        """Answer a rename with the row of the session; return whether its caller waits for one.

        Where the backend keeps no titles the gateway does. A backend of the caller's dialect answers with its own row.
        """
        link = pending.link
        if link is None or link.attaches or (failure is not None and failure.cause != "unsupported"):
            return False
        if failure is None and self._context.upstream.name == link.dialect.name:
            return False
        self._done(pending.command)
        link.attach(self._context.state, pending.command.request)
        return True

    def _done(self, command: Command) -> None:
        """Take note of what a backend did, and tells nobody of but who asked."""
        state = self._context.state
        if isinstance(command, RenameSession) and state.title != command.title:
            self._effects.entitle(command.title)
        elif isinstance(command, ArchiveSession | UnarchiveSession):
            state.archived = isinstance(command, ArchiveSession)

    def _miss(self, request: str) -> None:
        """Tell who asked that the backend did not answer in time."""
        pending = self.in_flight.get(request)
        cause: Cause = "timeout"
        if pending is not None and isinstance(pending.command, SubmitInput):
            self._late = request, pending.command  # it may still be taken
        elif pending is not None and isinstance(pending.command, OPENING):
            cause = "busy"
        self.give(request, Failure(cause=cause, text="the backend did not answer in time"))


def as_references(segments: Sequence[Segment], roots: Sequence[str]) -> tuple[Segment, ...]:
    """Return the segments, with each attachment inside `roots` as a reference to its file (rule 3.10).

    No request can name a file outside of the route's `file_roots` (docs/design.md, section 6): a path counts as it
    resolves, with all links followed.
    """
    resolved = [Path(root).resolve() for root in roots]
    return tuple(_reference(segment, resolved) for segment in segments)


def _reference(segment: Segment, roots: Sequence[Path]) -> Segment:
    if not isinstance(segment, ImageAttachment | FileAttachment):
        return segment
    path = _path(segment.url)
    if path is None or not any(path.is_relative_to(root) for root in roots):
        return segment
    return FileRef(path=str(path))


def _path(url: str) -> Path | None:
    """Return the existing file that a `file://` URL or an absolute path names."""
    try:
        parts = urlsplit(url)
        named = unquote(parts.path) if parts.scheme == "file" and parts.netloc in ("", "localhost") else url
        path = Path(named)
        return path.resolve(strict=True) if path.is_absolute() else None
    except (OSError, ValueError):
        return None
