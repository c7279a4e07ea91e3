"""A link with a caller, on which we play the primary (docs/dialects/pando.md, sections 5 to 7).

Real clients take the next message for their answer, whatever its id: so each request gets exactly one reply, replies
go out in the order of their requests, and nothing else is said. Session and history are shown to the call that asks;
a caller attaches to nothing.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import Any

from msgspec import UNSET, Struct
from msgspec.structs import replace

from dragoman.mappings.canonical import Batch, Event, SessionState, Unmapped
from dragoman.mappings.canonical import commands as ask
from dragoman.mappings.canonical import events as say
from dragoman.mappings.canonical.commands import Command
from dragoman.mappings.dialect import Burst, Clock, Frame, Instance, Loss, NewId, Step
from dragoman.mappings.errors import PeerError
from dragoman.mappings.extras import raw
from dragoman.mappings.pando.directions import FROM_CLIENT
from dragoman.mappings.pando.from_canonical import FROM_EVENT, Context, replies
from dragoman.mappings.pando.from_canonical.context import NOBODY
from dragoman.mappings.pando.translator import refusals
from dragoman.mappings.pando.wire import EVENTS
from dragoman.mappings.pando.wire.replies import Done, Problem, Reply

PENDING_MAX = 1024
"""Calls of one caller without a reply: past it the caller is sent away, since none may be left out."""

HISTORY_MAX = 1 << 30
"""Messages of one answer: pando has no pages, so all of them."""


class Slot(Struct, kw_only=True):
    """One call in the order of calls: the caller's own id, what was asked, and the reply once it is known."""

    said: str
    command: Command | None = None
    reply: bytes | None = None


class ServerTranslator:
    """The link of a caller, with us as the primary."""

    view = ""

    def __init__(self, clock: Clock, new_id: NewId, generation: str = "", instance: Instance = NOBODY) -> None:
        self._clock = clock
        self._new_id = new_id
        self._instance = instance
        self._order: deque[Slot] = deque()
        self._open: dict[str, Slot] = {}  # our id -> the call that waits for its answer

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
            heard: Step[Command] = Step()
            FROM_CLIENT.receive((frame,), heard)
            step.faults += heard.faults
            step.losses += heard.losses
            for fault in heard.faults:
                self._refuse_fault(fault)
            for burst in heard.bursts:
                for item in burst.items:
                    self._hear(item, step)
        if len(self._order) > PENDING_MAX:
            step.add_fault(PeerError("flooding", "more calls than may wait for a reply", can_continue=False))
        return self._flush(step)

    def send(self, items: Sequence[Event]) -> Step[Command]:
        """Answers, each in the form of its call."""
        step: Step[Command] = Step()
        for item in items:
            slot = self._open.pop(getattr(item, "request", ""), None)
            if slot is None:  # nothing is ever said unasked
                step.losses.append(Loss(kind=type(item).__name__, why="answers no call"))
                continue
            self._answer(slot, item, step)
        return self._flush(step)

    def attach(self, state: SessionState, request: str) -> Step[Command]:
        """Describe this session to the call that asked for it, in the form of that call."""
        slot = self._open.pop(request, None)
        if slot is None:
            return Step()
        result: Any
        match slot.command:
            case ask.OpenSession() | ask.RenameSession():
                now = self._clock()
                opened, count = state.opened_at or now, len(state.messages())
                row = replies.row_of(slot.command, opened, state.updated_at or opened, count)
                result = replace(row, id=replies.public_ids(state.id, state.ids)[0])  # of a pod it is the pod's
            case ask.ResumeSession():
                result = Done()
            case _:
                result = replies.described(state)
        slot.reply = EVENTS.encode(Reply(id=slot.said, result=raw(result)))
        return self._flush(Step())

    def on_delivered(self, batch: Batch) -> Step[Command]:
        """An input that this caller sent was accepted: that is its reply."""
        accepted = [event for event in batch.events if type(event) is say.TurnAccepted]
        request = batch.origin.request
        return self.send([say.TurnAccepted(request=request)]) if accepted and request in self._open else Step()

    def can_be_asked(self, question: Event) -> bool:
        """A caller answers nothing."""
        return False

    def closed(self, cause: str) -> Step[Command]:
        """What was asked and not answered is refused: a caller that waits is told."""
        for slot in self._order:
            if slot.reply is None:
                text = f"the gateway closes: {cause}" if cause else "the gateway closes"
                slot.reply = _encoded(slot.said, Problem(code=-32000, message=text))
        self._open.clear()
        return self._flush(Step())

    # -- what is asked -----------------------------------------------------------------------------------

    def _hear(self, command: Command, step: Step[Command]) -> None:
        slot = Slot(said=command.request, command=command)
        self._order.append(slot)
        if isinstance(command, Unmapped):
            step.losses.append(Loss(kind="Unmapped", why="unknown method", sample=command.tag[:80]))
            slot.reply = _encoded(slot.said, refusals.unknown())
            return
        lacking = refusals.missing(command)
        if lacking is not None:
            slot.reply = _encoded(slot.said, lacking)
            return
        own = self._new_id()
        command = replace(command, request=own)
        if isinstance(command, ask.GetHistory):
            command = replace(command, limit=HISTORY_MAX)
        slot.command = command
        self._open[own] = slot
        step.bursts.append(Burst(items=[command], request=own))

    def _refuse_fault(self, fault: PeerError) -> None:
        """A request that cannot be read: by its id if its params are wrong, else nobody knows whose it is."""
        value = fault.value if isinstance(fault.value, dict) else {}
        said, method = value.get("id", ""), value.get("method", "")
        if fault.code == "invalid" and isinstance(said, str) and isinstance(method, str) and method:
            words = fault.text.partition(": ")[2] or fault.text
            reply = _encoded(said, refusals.bad_params(method, value, words))
        else:
            reply = _encoded("", refusals.parse_error())
        self._order.append(Slot(said="", reply=reply))

    # -- what is answered --------------------------------------------------------------------------------

    def _answer(self, slot: Slot, item: Any, step: Step[Command]) -> None:
        command = slot.command
        failure = getattr(item, "failure", None)
        if failure is not None and command is not None and not _is_well(command, failure.cause):
            slot.reply = _encoded(slot.said, refusals.problem(command, failure))
            return
        if isinstance(command, ask.GetHistory) and failure is not None:
            item = say.HistorySnapshot(items=(), request=item.request)  # an unknown session has no messages
        elif failure is not None:
            item = say.Reply(request=item.request)
        elif isinstance(command, ask.OpenSession | ask.RenameSession) and getattr(item, "result", None) is UNSET:
            now = self._clock()
            item = replace(item, result=raw(replies.row_of(command, now, now)))
        context = Context(FROM_EVENT, self._instance, at=self._clock(), request=slot.said, asked=command)
        if type(item) in ANSWERS:
            # `request` is what tells an answer from news, also where the caller gave no id
            messages = FROM_EVENT.functions[type(item)](item, context)
            (reply,) = (message for message in messages if isinstance(message, Reply))
            slot.reply = EVENTS.encode(replace(reply, id=slot.said))
        else:
            step.losses.append(Loss(kind=type(item).__name__, why="no answer that a pando gives"))
            slot.reply = _encoded(slot.said, refusals.unknown())
        step.losses += context.losses.take()

    def _flush(self, step: Step[Command]) -> Step[Command]:
        """Write the replies that are known, up to the first that is not."""
        while self._order and (reply := self._order[0].reply) is not None:
            step.frames.append(reply)
            self._order.popleft()
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


def _encoded(said: str, problem: Problem) -> bytes:
    return EVENTS.encode(Reply(id=said, error=problem))
