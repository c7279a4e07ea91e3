"""A link with a codewhale client, on which we play `app-server --stdio`
(docs/dialects/codewhale.md, sections 1.4, 2, 3 and 11).

One request at a time, answers in the order of requests, exactly one for each line that is not blank. Only while a
`thread/message` runs are the next lines looked at: an interrupt acts at once and is answered in its turn, a shutdown
interrupts and waits; everything else waits unexecuted. The answer of a turn is its projection's, which writes it behind
the turn's text; `on_delivered` then goes on with what waits.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import Any

from msgspec import UNSET, Raw, Struct
from msgspec.structs import replace

from dragoman.mappings.canonical import Batch, Event, SessionState, Unmapped
from dragoman.mappings.canonical import commands as ask
from dragoman.mappings.canonical import events as say
from dragoman.mappings.canonical.commands import Command
from dragoman.mappings.canonical.values import Failure
from dragoman.mappings.codewhale.directions import FROM_CLIENT
from dragoman.mappings.codewhale.from_canonical import FROM_EVENT, Context, replies
from dragoman.mappings.codewhale.from_canonical.context import bundled
from dragoman.mappings.codewhale.from_canonical.events import accepted
from dragoman.mappings.codewhale.from_canonical.generations import masked, result_in
from dragoman.mappings.codewhale.ids import marked, said, thread_id
from dragoman.mappings.codewhale.translator import refusals
from dragoman.mappings.codewhale.vocabulary import (
    FAILED,
    HEAD,
    PROMPT_METHODS,
    SEED,
    UNKNOWN_THREAD,
    app_facts,
    given,
    methods,
    thread_methods,
)
from dragoman.mappings.codewhale.wire import EVENTS, results
from dragoman.mappings.codewhale.wire.answers import typed
from dragoman.mappings.codewhale.wire.calls import GROUPS
from dragoman.mappings.codewhale.wire.results import Problem
from dragoman.mappings.dialect import Burst, Clock, Frame, Loss, NewId, Step
from dragoman.mappings.errors import PeerError
from dragoman.mappings.extras import raw

PENDING_MAX = 1024
"""Requests of one client without an answer: past it the client is sent away, since none may be left out."""

SHOWN_MAX = 10_000
"""Sessions of one client that are remembered; of one forgotten `thread/read` tells no history."""


class Slot(Struct, kw_only=True):
    """One request in the order of requests: its id, what was asked, and the answer once it is known.

    `own` is the text of its id that no other has; `answer` is () for a turn whose projection has answered.
    """

    said: str
    own: str = ""
    command: Command | None = None
    thread: str = ""
    acting: bool = False
    answer: tuple[bytes, ...] | None = None


class ServerTranslator:
    """The link of a codewhale client, with us as its server of `generation`, "" the default."""

    def __init__(self, clock: Clock, new_id: NewId, generation: str = "") -> None:
        self._clock = clock
        self._new_id = new_id
        self._generation = generation or HEAD
        self._order: deque[Slot] = deque()
        self._open: dict[str, Slot] = {}
        self._sessions: dict[str, SessionState] = {}
        self._shut = False

    @property
    def view(self) -> str:
        """The generation: the seed's clients have their text in the result."""
        return self._generation

    @property
    def has_pending_replies(self) -> bool:
        """A real server answers what it has read, and ends then (docs/dialects/codewhale.md, section 1)."""
        return bool(self._order)

    def opened(self) -> Step[Command]:
        """There is no handshake."""
        return Step()

    def receive(self, frames: Sequence[Frame]) -> Step[Command]:
        """Requests become commands, one after the other; what a server refuses by itself is answered in its turn."""
        step: Step[Command] = Step()
        for frame in frames:
            if self._shut or _blank(frame):
                continue
            heard: Step[Command] = Step()
            FROM_CLIENT.receive((frame,), heard)
            step.faults += heard.faults
            step.losses += heard.losses
            for fault in heard.faults:
                if (
                    not fault.can_continue
                ):  # no line, so no answer: a real server ends here (docs/dialects/codewhale.md, section 1)
                    continue
                own, problem = refusals.of_fault(fault)
                self._order.append(Slot(said="", answer=_encoded(results.Answer(id=own, error=problem))))
            for burst in heard.bursts:
                for item in burst.items:
                    self._hear(item, step)
            self._advance(step)  # before the next line is looked at: it may be about the turn that begins here
        if len(self._order) > PENDING_MAX:
            step.add_fault(PeerError("flooding", "more requests than may wait for an answer", can_continue=False))
        return step

    def send(self, items: Sequence[Event]) -> Step[Command]:
        """Answers, each in the form of its request; a question in words is all of a run of its own."""
        step: Step[Command] = Step()
        for item in items:
            if isinstance(item, say.BackendShutdown):
                continue  # the answer to `shutdown` told it
            if isinstance(item, say.QuestionAsked):
                self._tell(item, step)
                continue
            slot = self._open.get(getattr(item, "request", ""))
            if slot is None or isinstance(item, say.TurnAccepted):
                if slot is None:  # nothing is ever said unasked
                    step.losses.append(Loss(kind=type(item).__name__, why="answers no request"))
                continue
            del self._open[slot.own]
            self._answer(slot, item, step)
        return self._advance(step)

    def attach(self, state: SessionState, request: str) -> Step[Command]:
        """Show this session to the request that asked for it; whoever only named it gets no answer by that."""
        if len(self._sessions) >= SHOWN_MAX:
            del self._sessions[next(iter(self._sessions))]
        self._sessions[state.id] = state
        slot = self._open.pop(request, None)
        if slot is None:
            return Step()
        self._show(slot, state)
        return self._advance(Step())

    def on_delivered(self, batch: Batch) -> Step[Command]:
        """The turn that this client began has ended for it: its projection has answered, the next request may act."""
        last = batch.events[-1]
        over = isinstance(last, say.TurnEnded) or (isinstance(last, say.QuestionAsked) and last.parked)
        slot = self._open.get(batch.origin.request) if over else None
        if slot is None:
            return Step()
        del self._open[slot.own]
        slot.answer = ()
        return self._advance(Step())

    def can_be_asked(self, question: Event) -> bool:
        """No message of this dialect brings an answer back (docs/dialects/codewhale.md, section 4)."""
        return False

    def closed(self, cause: str) -> Step[Command]:
        """Every line has its answer, also those that nobody will act on."""
        step: Step[Command] = Step()
        text = f"the gateway closes: {cause}" if cause else "the gateway closes"
        for slot in self._order:
            answer = slot.answer
            step.frames += self._refused(slot, Problem(code=FAILED, message=text)) if answer is None else answer
        self._order.clear()
        self._open.clear()
        self._shut = True
        return step

    # -- what is asked -----------------------------------------------------------------------------------

    def _hear(self, command: Command, step: Step[Command]) -> None:
        slot = Slot(said=command.request)
        self._order.append(slot)
        if isinstance(command, Unmapped):
            step.losses.append(Loss(kind="Unmapped", why="unsupported method", sample=command.tag[:80]))
            slot.answer = self._refused(slot, refusals.unknown_method(command.tag))
            return
        later = refusals.of_seed(command) if self._generation == SEED else None
        if later is not None:
            slot.answer = self._refused(slot, later)
            return
        slot.thread = given(command.ext, "thread_id", str, thread_id(command.session))
        slot.own = marked(command.request, self._new_id(), slot.thread)
        slot.command = replace(command, request=slot.own)
        self._shut = self._shut or isinstance(command, ask.ShutdownBackend)
        running = self._running()
        if running is None:
            return
        if isinstance(command, ask.CancelTurn):
            self._act(slot, step)
        elif isinstance(command, ask.ShutdownBackend) and running.command is not None:
            stop = ask.CancelTurn(session=running.command.session)
            step.bursts.append(Burst(items=[stop]))

    def _running(self) -> Slot | None:
        """The turn during which the next lines are looked at: of `thread/message`, and since 0.9.2."""
        head = self._order[0]
        command = head.command
        if self._generation == SEED or not head.acting or not isinstance(command, ask.SubmitInput):
            return None
        return None if given(command.ext, "method", str, "") in GROUPS else head

    def _advance(self, step: Step[Command]) -> Step[Command]:
        """Write the answers that are known and act on the next request, up to the first that waits for its answer."""
        while self._order:
            head = self._order[0]
            if head.answer is None and not head.acting:
                self._act(head, step)
            if head.answer is None:
                break
            step.frames += head.answer
            self._order.popleft()
        return step

    def _act(self, slot: Slot, step: Step[Command]) -> None:
        slot.acting = True
        if isinstance(slot.command, ask.GetCapabilities):
            self._finish(slot, self._facts(given(slot.command.ext, "kind", str, "")))
            return
        self._open[slot.own] = slot
        if slot.command is not None:  # without a command a slot has its answer from the start
            step.bursts.append(Burst(items=[slot.command], request=slot.own))

    def _facts(self, about: str) -> Any:
        """What this server can do."""
        match about:
            case "thread":
                return results.Capabilities(methods=thread_methods(self._generation))
            case "prompt":
                return results.Capabilities(methods=list(PROMPT_METHODS))
            case "app":
                return results.AppResponse(ok=True, data=raw(app_facts(self._generation)))
        families = ["thread/*", "app/*", "prompt/*"]
        return results.Capabilities(transport="stdio", families=families, methods=methods(self._generation))

    # -- what is answered --------------------------------------------------------------------------------

    def _answer(self, slot: Slot, item: Any, step: Step[Command]) -> None:
        command = slot.command
        failure = getattr(item, "failure", None)
        if isinstance(command, ask.ShutdownBackend):
            self._finish(slot, results.Stopped())  # whatever becomes of the backend, this client is let go
        elif isinstance(command, ask.CancelTurn):
            if failure is None or failure.cause in ("not_running", "not_found"):
                self._finish(slot, results.Interrupted(thread_id=slot.thread, interrupted=failure is None))
            else:
                self._finish(slot, refusals.refusal(command, failure, slot.thread, self._generation))
        elif failure is not None and command is not None:
            self._finish(slot, refusals.refusal(command, failure, slot.thread, self._generation))
        elif isinstance(item, say.SessionOpened) and item.session in self._sessions:
            self._show(slot, self._sessions[item.session])
        elif isinstance(item, say.Reply):
            self._finish(slot, self._well(slot, item))
        elif type(item) in ANSWERS:
            context = self._context(slot)
            slot.answer = tuple(bundled(FROM_EVENT.functions[type(item)](item, context)))
            step.losses += context.losses.take()
        else:
            step.losses.append(Loss(kind=type(item).__name__, why="no answer that a codewhale gives"))
            slot.answer = self._refused(slot, Problem(code=FAILED, message="the backend gave no answer to this"))

    def _show(self, slot: Slot, state: SessionState) -> None:
        """The session that was asked for. What another backend opens for an unknown name is not that thread."""
        if isinstance(slot.command, ask.ResumeSession) and slot.thread not in replies.public_ids(
            state.id, state.backend_ids
        ):
            missing = Failure(cause="not_found", text=UNKNOWN_THREAD)
            self._finish(slot, refusals.refusal(slot.command, missing, slot.thread, self._generation))
        else:
            self._finish(slot, replies.showing(state, slot.command, self._generation))

    def _well(self, slot: Slot, item: say.Reply) -> Any:
        """The result of a command that was done: its backend's own if that is one of this dialect, else its form."""
        command = slot.command
        is_app = isinstance(command, refusals.APPS)
        if item.result is not UNSET:
            result = result_in(typed(item.result), self._generation)
            if isinstance(command, ask.GetConfig) and self._generation != SEED:
                result = masked(command.key, result)
            if is_app is isinstance(result, results.AppResponse) and not isinstance(result, Raw):
                return result
            if is_app:
                return results.AppResponse(ok=True, data=item.result)
        if is_app:
            return results.AppResponse(ok=True, data=results.EMPTY)
        if isinstance(command, ask.SubmitInput):
            context = self._context(slot)
            context.thread, context.response_id = slot.thread, _own_response(slot)
            return accepted(context)
        done = results.ThreadResponse(thread_id=slot.thread, status=DONE.get(type(command), "ok"), data=results.EMPTY)
        state = self._sessions.get(command.session) if command is not None and command.session else None
        if state is None or not isinstance(command, ask.RenameSession):
            return done
        return replace(done, thread=replace(replies.described(state, self._generation), name=command.title))

    def _tell(self, item: say.QuestionAsked, step: Step[Command]) -> None:
        """Words to the client whose message waits for its answer."""
        head = self._order[0] if self._order else None
        if head is None or not head.acting:
            step.losses.append(Loss(kind=type(item).__name__, why="no request waits for an answer"))
            return
        context = self._context(head)
        context.response_id = _own_response(head)
        said_so = (say.ModelTurnStarted(), item)
        step.frames += bundled(m for event in said_so for m in FROM_EVENT.functions[type(event)](event, context))

    def _context(self, slot: Slot) -> Context:
        return Context(
            FROM_EVENT, at=self._clock(), request=slot.own or slot.said, asked=slot.command, generation=self._generation
        )

    def _finish(self, slot: Slot, said_so: Any) -> None:
        if isinstance(said_so, Problem):
            slot.answer = self._refused(slot, said_so)
        else:
            slot.answer = _encoded(self._context(slot).answer(said_so))

    def _refused(self, slot: Slot, problem: Problem) -> tuple[bytes, ...]:
        own = said(slot.said)
        return _encoded(results.Answer(id=results.NULL if own is UNSET else own, error=problem))


ANSWERS = frozenset((say.SessionOpened, say.SessionsListed, say.HistorySnapshot, say.Pong))

DONE: dict[type, str] = {ask.ArchiveSession: "archived", ask.UnarchiveSession: "unarchived", ask.ForkSession: "forked"}
"""The status of a result that says no more."""


def _own_response(slot: Slot) -> str:
    """Return the id of a response that is ours alone: no turn of the backend's answers this message."""
    return f"{slot.thread}:{slot.own.split()[1]}"


def _encoded(answer: results.Answer) -> tuple[bytes, ...]:
    return (EVENTS.encode(answer),)


def _blank(frame: Frame) -> bool:
    """Whether this is a line that servers skip (docs/dialects/codewhale.md, section 1)."""
    return isinstance(frame, bytes) and not frame.strip()
