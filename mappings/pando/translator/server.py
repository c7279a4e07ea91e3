"""The server's side of a link with a caller, where we are the primary (docs/dialects/pando.md, sections 5 to 7).

Real clients read the next message as their reply, whatever its id. So each request gets exactly one reply, in the order
of the requests, and nothing else is sent. Sessions and histories are sent only in replies to calls.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from msgspec import UNSET
from msgspec.structs import replace

from dragoman.mappings.canonical import Batch, Command, Event, SessionState, Unmapped, commands, events
from dragoman.mappings.dialect import Burst, Clock, Frame, Instance, Loss, NewId, Step, Translator
from dragoman.mappings.errors import PeerError
from dragoman.mappings.extras import raw
from dragoman.mappings.jsonrpc import PeerCall, Replies, read_frame
from dragoman.mappings.pando.directions import FROM_CLIENT
from dragoman.mappings.pando.from_canonical import replies
from dragoman.mappings.pando.from_canonical.context import NOBODY, Context
from dragoman.mappings.pando.from_canonical.events import FROM_EVENT
from dragoman.mappings.pando.translator import refusals
from dragoman.mappings.pando.vocabulary import FAILED
from dragoman.mappings.pando.wire.codecs import EVENTS
from dragoman.mappings.pando.wire.replies import Done, Problem, Reply

HISTORY_MAX = 1 << 30
"""Limit of messages in one reply: in practice none, because pando has no pages."""


class ServerTranslator(Translator[Command, Event]):
    """The protocol state of a link with a caller; we are the primary."""

    def __init__(self, clock: Clock, new_id: NewId, generation: str = "", instance: Instance = NOBODY) -> None:
        self._clock = clock
        self._new_id = new_id
        self._instance = instance
        self._replies = Replies[PeerCall]()

    def receive(self, frames: Sequence[Frame]) -> Step[Command]:
        """Read requests as commands; queue an error reply for each request that a primary refuses by itself."""
        step: Step[Command] = Step()
        for frame in frames:
            for item in read_frame(FROM_CLIENT, frame, step):
                if not isinstance(item, PeerError):
                    self._take_command(item, step)
                else:
                    request, problem = refusals.of_fault(item)
                    self._replies.add(PeerCall(peer_id="", reply=_refused(request, problem)))
        self._replies.check_flood(step)
        return self._flush(step)

    def send(self, items: Sequence[Event]) -> Step[Command]:
        """Write answers to pending calls, each in the form that its method requires."""
        step: Step[Command] = Step()
        for item in items:
            call = self._replies.waiting.pop(getattr(item, "request", ""), None)
            if call is None:  # a primary sends only replies on this socket
                step.losses.append(Loss(kind=type(item).__name__, why="answers no call"))
                continue
            self._answer(call, item, step)
        return self._flush(step)

    def attach(self, state: SessionState, request: str) -> Step[Command]:
        """Write the reply to the call that asked for this session, in the form that its method requires."""
        call = self._replies.waiting.pop(request, None)
        if call is None:
            return Step()
        result: Any
        match call.command:
            case commands.OpenSession() | commands.RenameSession():
                now = self._clock()
                opened, count = state.opened_at or now, len(state.messages())
                row = replies.row_of(call.command, opened, state.updated_at or opened, count)
                (own,) = replies.public_ids(state.id, state.ids)  # that of a pod may differ from the row's
                result = replace(row, id=own)
            case commands.ResumeSession():
                result = Done()
            case _:
                result = replies.described(state)
        call.reply = (EVENTS.encode(Reply(id=call.peer_id, result=raw(result))),)
        return self._flush(Step())

    def on_delivered(self, batch: Batch) -> Step[Command]:
        """Write the reply to an input of this caller once its turn is accepted."""
        request = batch.origin.request
        accepted = any(type(event) is events.TurnAccepted for event in batch.events)
        waits = request in self._replies.waiting
        return self.send([events.TurnAccepted(request=request)]) if accepted and waits else Step()

    def closed(self, cause: str) -> Step[Command]:
        """Write an error reply for each call without a reply, because its caller waits."""

        def refuse(call: PeerCall, text: str) -> tuple[bytes, ...]:
            return _refused(call.peer_id, Problem(code=FAILED, message=text))

        return Step(frames=self._replies.close(cause, refuse))

    # -- from the client --------------------------------------------------------------------------------

    def _take_command(self, command: Command, step: Step[Command]) -> None:
        call = PeerCall(peer_id=command.request, command=command)
        self._replies.add(call)
        if isinstance(command, Unmapped):
            step.losses.append(Loss(kind="Unmapped", why="unknown method", sample=command.tag))
            call.reply = _refused(call.peer_id, refusals.unknown_method())
            return
        lacking = refusals.missing(command)
        if lacking is not None:
            call.reply = _refused(call.peer_id, lacking)
            return
        call.id = self._new_id()
        command = replace(command, request=call.id)
        if isinstance(command, commands.GetHistory):
            command = replace(command, limit=HISTORY_MAX)
        call.command = command
        self._replies.waiting[call.id] = call
        step.bursts.append(Burst(items=[command], request=call.id))

    # -- to the client ----------------------------------------------------------------------------------

    def _answer(self, call: PeerCall, item: Any, step: Step[Command]) -> None:
        command = call.command
        failure = getattr(item, "failure", None)
        if failure is not None and command is not None and not _counts_as_success(command, failure.cause):
            call.reply = _refused(call.peer_id, refusals.refusal(command, failure))
            return
        if isinstance(command, commands.GetHistory) and failure is not None:
            item = events.HistorySnapshot(items=(), request=item.request)  # an unknown session has no messages
        elif failure is not None:
            item = events.Reply(request=item.request)
        elif (
            isinstance(command, commands.OpenSession | commands.RenameSession)
            and getattr(item, "result", None) is UNSET
        ):
            now = self._clock()
            item = replace(item, result=raw(replies.row_of(command, now, now)))
        context = Context(self._instance, at=self._clock(), request=call.peer_id, asked=command)
        if type(item) in ANSWERS:
            # a request id of our own distinguishes an answer from a publication, even if the caller gave no id
            messages = FROM_EVENT.functions[type(item)](item, context)
            (reply,) = (message for message in messages if isinstance(message, Reply))
            call.reply = (EVENTS.encode(replace(reply, id=call.peer_id)),)
        else:
            step.losses.append(Loss(kind=type(item).__name__, why="pando has no form for this answer"))
            call.reply = _refused(call.peer_id, refusals.unknown_method())
        step.losses += context.take_losses()

    def _flush(self, step: Step[Command]) -> Step[Command]:
        """Write the known replies, up to the first request without a reply."""
        step.frames += self._replies.flush()
        return step


ANSWERS = frozenset(
    (
        events.Reply,
        events.SessionOpened,
        events.SessionsListed,
        events.HistorySnapshot,
        events.TurnAccepted,
        events.Pong,
    )
)


def _counts_as_success(command: Command, cause: str) -> bool:
    """Return True for a failure that a primary reports as success: unknown history, finished run, deleted row."""
    match command:
        case commands.GetHistory() | commands.DeleteSession():
            return cause == "not_found"
        case commands.CancelTurn():
            return cause == "not_running"
    return False


def _refused(peer_id: str, problem: Problem) -> tuple[bytes, ...]:
    return (EVENTS.encode(Reply(id=peer_id, error=problem)),)
