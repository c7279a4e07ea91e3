"""A link with a caller, on which we play the primary (docs/dialects/pando.md, sections 5 to 7).

Real clients take the next message for their answer, whatever its id: so each request gets exactly one reply, replies
go out in the order of their requests, and nothing else is said. Session and history are shown to the call that asks;
a caller attaches to nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from msgspec import UNSET
from msgspec.structs import replace

from dragoman.mappings.canonical import Batch, Event, SessionState, Unmapped
from dragoman.mappings.canonical import commands as ask
from dragoman.mappings.canonical import events as say
from dragoman.mappings.canonical.commands import Command
from dragoman.mappings.dialect import Burst, Clock, Frame, Instance, Loss, NewId, Step
from dragoman.mappings.errors import PeerError
from dragoman.mappings.extras import raw
from dragoman.mappings.jsonrpc import PeerCall, Replies, read_frame
from dragoman.mappings.pando.directions import FROM_CLIENT
from dragoman.mappings.pando.from_canonical import FROM_EVENT, Context, replies
from dragoman.mappings.pando.from_canonical.context import NOBODY
from dragoman.mappings.pando.translator import refusals
from dragoman.mappings.pando.vocabulary import FAILED
from dragoman.mappings.pando.wire import EVENTS
from dragoman.mappings.pando.wire.replies import Done, Problem, Reply

HISTORY_MAX = 1 << 30
"""Messages of one answer: pando has no pages, so all of them."""


class ServerTranslator:
    """The link of a caller, with us as the primary."""

    view = ""

    def __init__(self, clock: Clock, new_id: NewId, generation: str = "", instance: Instance = NOBODY) -> None:
        self._clock = clock
        self._new_id = new_id
        self._instance = instance
        self._replies = Replies[PeerCall]()

    @property
    def has_pending_replies(self) -> bool:
        """A peer that says no more is gone."""
        return False

    def opened(self) -> Step[Command]:
        """A primary says nothing unasked."""
        return Step()

    def receive(self, frames: Sequence[Frame]) -> Step[Command]:
        """Requests become commands; what a primary refuses by itself is answered in its place."""
        step: Step[Command] = Step()
        for frame in frames:
            for item in read_frame(FROM_CLIENT, frame, step):
                if isinstance(item, PeerError):
                    self._refuse_fault(item)
                else:
                    self._hear(item, step)
        self._replies.check_flood(step)
        return self._flush(step)

    def send(self, items: Sequence[Event]) -> Step[Command]:
        """Answers, each in the form of its call."""
        step: Step[Command] = Step()
        for item in items:
            call = self._replies.take_waiting(getattr(item, "request", ""))
            if call is None:  # nothing is ever said unasked
                step.losses.append(Loss(kind=type(item).__name__, why="answers no call"))
                continue
            self._answer(call, item, step)
        return self._flush(step)

    def attach(self, state: SessionState, request: str) -> Step[Command]:
        """Describe this session to the call that asked for it, in the form of that call."""
        call = self._replies.take_waiting(request)
        if call is None:
            return Step()
        result: Any
        match call.command:
            case ask.OpenSession() | ask.RenameSession():
                now = self._clock()
                opened, count = state.opened_at or now, len(state.messages())
                row = replies.row_of(call.command, opened, state.updated_at or opened, count)
                result = replace(row, id=replies.public_ids(state.id, state.ids)[0])  # of a pod it is the pod's
            case ask.ResumeSession():
                result = Done()
            case _:
                result = replies.described(state)
        call.reply = (EVENTS.encode(Reply(id=call.peer_id, result=raw(result))),)
        return self._flush(Step())

    def on_delivered(self, batch: Batch) -> Step[Command]:
        """An input that this caller sent was accepted: that is its reply."""
        request = batch.origin.request
        accepted = any(type(event) is say.TurnAccepted for event in batch.events)
        waits = self._replies.find_waiting(request) is not None
        return self.send([say.TurnAccepted(request=request)]) if accepted and waits else Step()

    def can_be_asked(self, question: Event) -> bool:
        """A caller answers nothing."""
        return False

    def closed(self, cause: str) -> Step[Command]:
        """What was asked and not answered is refused: a caller that waits is told."""
        text = f"the gateway closes: {cause}" if cause else "the gateway closes"
        problem = Problem(code=FAILED, message=text)
        return Step(frames=self._replies.close(lambda call: _refusal(call.peer_id, problem)))

    # -- what is asked -----------------------------------------------------------------------------------

    def _hear(self, command: Command, step: Step[Command]) -> None:
        call = PeerCall(peer_id=command.request, command=command)
        self._replies.add(call)
        if isinstance(command, Unmapped):
            step.losses.append(Loss(kind="Unmapped", why="unknown method", sample=command.tag[:80]))
            call.reply = _refusal(call.peer_id, refusals.unknown())
            return
        lacking = refusals.missing(command)
        if lacking is not None:
            call.reply = _refusal(call.peer_id, lacking)
            return
        call.id = self._new_id()
        command = replace(command, request=call.id)
        if isinstance(command, ask.GetHistory):
            command = replace(command, limit=HISTORY_MAX)
        call.command = command
        self._replies.wait(call)
        step.bursts.append(Burst(items=[command], request=call.id))

    def _refuse_fault(self, fault: PeerError) -> None:
        """A request that cannot be read: by its id if its params are wrong, else nobody knows whose it is."""
        value = fault.value if isinstance(fault.value, dict) else {}
        said, method = value.get("id", ""), value.get("method", "")
        if fault.code == "invalid" and isinstance(said, str) and isinstance(method, str) and method:
            words = fault.text.partition(": ")[2] or fault.text
            reply = _refusal(said, refusals.bad_params(method, value, words))
        else:
            reply = _refusal("", refusals.parse_error())
        self._replies.add(PeerCall(peer_id="", reply=reply))

    # -- what is answered --------------------------------------------------------------------------------

    def _answer(self, call: PeerCall, item: Any, step: Step[Command]) -> None:
        command = call.command
        failure = getattr(item, "failure", None)
        if failure is not None and command is not None and not _is_well(command, failure.cause):
            call.reply = _refusal(call.peer_id, refusals.problem(command, failure))
            return
        if isinstance(command, ask.GetHistory) and failure is not None:
            item = say.HistorySnapshot(items=(), request=item.request)  # an unknown session has no messages
        elif failure is not None:
            item = say.Reply(request=item.request)
        elif isinstance(command, ask.OpenSession | ask.RenameSession) and getattr(item, "result", None) is UNSET:
            now = self._clock()
            item = replace(item, result=raw(replies.row_of(command, now, now)))
        context = Context(FROM_EVENT, self._instance, at=self._clock(), request=call.peer_id, asked=command)
        if type(item) in ANSWERS:
            # `request` is what tells an answer from news, also where the caller gave no id
            messages = FROM_EVENT.functions[type(item)](item, context)
            (reply,) = (message for message in messages if isinstance(message, Reply))
            call.reply = (EVENTS.encode(replace(reply, id=call.peer_id)),)
        else:
            step.losses.append(Loss(kind=type(item).__name__, why="no answer that a pando gives"))
            call.reply = _refusal(call.peer_id, refusals.unknown())
        step.losses += context.losses.take()

    def _flush(self, step: Step[Command]) -> Step[Command]:
        """Write the replies that are known, up to the first that is not."""
        step.frames += self._replies.flush()
        return step


ANSWERS = frozenset((say.Reply, say.SessionOpened, say.SessionsListed, say.HistorySnapshot, say.TurnAccepted, say.Pong))


def _is_well(command: Command, cause: str) -> bool:
    """What a primary does not call an error: no messages of no session, a run that is over, a row that is gone."""
    match command:
        case ask.GetHistory() | ask.DeleteSession():
            return cause == "not_found"
        case ask.CancelTurn():
            return cause == "not_running"
    return False


def _refusal(peer_id: str, problem: Problem) -> tuple[bytes, ...]:
    return (EVENTS.encode(Reply(id=peer_id, error=problem)),)
