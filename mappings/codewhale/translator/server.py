"""The server's side of a link with a codewhale client, where we are `app-server --stdio`.

The source is docs/dialects/codewhale.md, sections 1.4, 2, 3 and 11. Requests are executed one at a time, and each line
that is not blank gets exactly one answer, in order. While a `thread/message` runs, later lines are read but not
executed, with two exceptions: an interrupt acts at once, and a shutdown interrupts the turn. Their answers keep the
order. The projection writes the answer of a turn after the turn's text; `on_delivered` then executes the next request.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from msgspec.structs import replace

from dragoman.mappings.canonical import Batch, Command, Event, SessionState, Unmapped, commands, events
from dragoman.mappings.canonical.values import Failure
from dragoman.mappings.codewhale.directions import FROM_CLIENT, is_blank
from dragoman.mappings.codewhale.ids import mark_id, thread_id
from dragoman.mappings.codewhale.translator import refusals
from dragoman.mappings.codewhale.translator.answers import Answers, ThreadCall, encoded, refused
from dragoman.mappings.codewhale.vocabulary import (
    FAILED,
    HEAD,
    SEED,
    UNKNOWN_THREAD,
    given,
)
from dragoman.mappings.codewhale.wire import results
from dragoman.mappings.codewhale.wire.codecs import GROUPS
from dragoman.mappings.codewhale.wire.results import Problem
from dragoman.mappings.dialect import Alarm, Burst, Clock, Dialect, Frame, Loss, NewId, Step, Translator
from dragoman.mappings.errors import PeerError
from dragoman.mappings.jsonrpc import PENDING_MAX, Replies, read_frame

NESTED_MAX = 32  # requests; each takes 10 to 20 levels of Python's recursion limit of 1,000
OF_A_THREAD = (
    commands.SubmitInput,
    commands.CancelTurn,
    commands.GetSession,
    commands.ResumeSession,
    commands.ForkSession,
    commands.RenameSession,
    commands.ArchiveSession,
    commands.UnarchiveSession,
    commands.SetGoal,
    commands.GetGoal,
    commands.ClearGoal,
)
"""Commands of requests that name a thread. Without a name they would be about the session of the link."""

NO_THREAD = Failure(cause="not_found", text=UNKNOWN_THREAD)
TOO_MANY = "too many inputs wait for the turn before them (`pending_commands`); try again later"


class ServerTranslator(Translator[Command, Event]):
    """The protocol state of a link with a codewhale client; `generation` is our version, "" for the default."""

    def __init__(self, clock: Clock, new_id: NewId, generation: str = "") -> None:
        self._new_id = new_id
        self._generation = generation or HEAD
        self._replies = Replies[ThreadCall]()
        self._answers = Answers(clock, self._generation)
        self._shut = False
        self._inputs, self._inputs_max = 0, PENDING_MAX  # inputs that wait for the requests before them
        self._nested = 0  # requests whose execution is nested in the answer to the previous request, at most

    @property
    def view(self) -> str:
        """Return the generation that this client speaks, which decides the form of its frames."""
        return self._generation

    @property
    def has_pending_replies(self) -> bool:
        """True while a request has no answer: servers answer all of them before they end.

        The source is docs/dialects/codewhale.md, section 1.
        """
        return self._replies.head is not None

    def limit_requests(self, inputs: int, count: Callable[[int], None]) -> None:
        self._inputs_max = inputs
        self._replies.count_bytes(count)

    def note_backend(self, backend: Dialect) -> None:
        """Note the dialect of the backend, which decides the capabilities of this server."""
        self._answers.note_backend(backend)

    def receive(self, frames: Sequence[Frame]) -> Step[Command]:
        """Read requests as commands, one at a time; queue an error for each request that a server refuses by itself."""
        step: Step[Command] = Step()
        for frame in frames:
            if self._shut or is_blank(frame):
                continue
            for item in read_frame(FROM_CLIENT, frame, step):
                if not isinstance(item, PeerError):
                    self._take_command(item, len(frame), step)  # type: ignore[arg-type]  # only bytes are read as commands
                elif item.can_continue:
                    own, problem = refusals.of_fault(item)
                    reply = encoded(results.Answer(id=own, error=problem))
                    self._replies.add(ThreadCall(peer_id="", reply=reply))
            self._advance(step)  # before the next line is read, because it may be about the turn that begins here
        self._replies.check_flood(step)
        return step

    def send(self, items: Sequence[Event]) -> Step[Command]:
        """Write answers to pending requests, each in the form that its method requires; write questions in words."""
        step: Step[Command] = Step()
        for item in items:
            if isinstance(item, events.BackendShutdown):
                continue  # the client learns this from the answer to `shutdown`
            if isinstance(item, events.QuestionAsked):
                head = self._replies.head
                if head is not None and head.executing:
                    step.frames += self._answers.ask_in_words(head, item)
                else:
                    step.losses.append(Loss(kind=type(item).__name__, why="no request waits for an answer"))
                continue
            if isinstance(item, events.Reply) and not item.request and item.failure is not None:
                self._refuse_client(item.failure, step)
                continue
            call = self._replies.waiting.get(getattr(item, "request", ""))
            if call is None or isinstance(item, events.TurnAccepted):
                if call is None:  # a server writes nothing that was not requested
                    step.losses.append(Loss(kind=type(item).__name__, why="answers no request"))
                continue
            del self._replies.waiting[call.id]
            step.losses += self._answers.answer(call, item)
        return self._advance_in_turn(step)

    def attach(self, state: SessionState, request: str) -> Step[Command]:
        """Write the answer to the request that asked for this session.

        A request that only names the session is not answered here.
        """
        self._answers.note_session(state)
        call = self._replies.waiting.pop(request, None)
        if call is None:
            return Step()
        self._answers.show_session(call, state)
        return self._advance_in_turn(Step())

    def on_delivered(self, batch: Batch) -> Step[Command]:
        """Execute the next request once this client's turn has ended; the projection has written its answer."""
        last = batch.events[-1]
        over = isinstance(last, events.TurnEnded) or (isinstance(last, events.QuestionAsked) and last.parked)
        call = self._replies.waiting.pop(batch.origin.request, None) if over else None
        if call is None:
            return Step()
        call.reply = ()
        return self._advance(Step())

    def closed(self, cause: str) -> Step[Command]:
        """Answer every pending request; the ones that were not executed are refused."""
        self._shut = True
        return Step(
            frames=self._replies.close(cause, lambda call, text: refused(call, Problem(code=FAILED, message=text)))
        )

    # -- from the client --------------------------------------------------------------------------------

    def _take_command(self, command: Command, size: int, step: Step[Command]) -> None:
        is_input = isinstance(command, commands.SubmitInput)
        full = is_input and self._inputs >= self._inputs_max
        call = ThreadCall(peer_id=command.request, size=size if not full else 0)
        self._replies.add(call)
        if full:
            call.reply = refused(call, Problem(code=FAILED, message=TOO_MANY))
            return
        if isinstance(command, Unmapped):
            step.losses.append(Loss(kind="Unmapped", why="unsupported method", sample=command.tag))
            call.reply = refused(call, refusals.unknown_method(command.tag))
            return
        later = refusals.of_seed(command) if self._generation == SEED else None
        if later is not None:
            call.reply = refused(call, later)
            return
        call.thread = given(command.ext, "thread_id", str, thread_id(command.session))
        call.id = mark_id(command.request, self._new_id(), call.thread)
        call.command = replace(command, request=call.id)
        if isinstance(command, OF_A_THREAD) and not command.session:
            self._answers.answer(call, events.Reply(request=call.id, failure=NO_THREAD))
            return
        self._answers.note_params(command.ext)
        self._inputs += is_input
        self._shut = self._shut or isinstance(command, commands.ShutdownBackend)
        running = _running_turn(self._replies.head, self._generation)
        if running is None:
            return
        if isinstance(command, commands.CancelTurn):
            self._execute(call, step)
        elif isinstance(command, commands.ShutdownBackend) and running.command is not None:
            stop = commands.CancelTurn(session=running.command.session)
            step.bursts.append(Burst(items=[stop]))

    def _advance(self, step: Step[Command]) -> Step[Command]:
        """Write the known answers, and execute requests up to the first one whose answer is not known at once."""
        while True:
            step.frames += self._replies.flush()
            head = self._replies.head
            if head is None or head.executing:
                return step
            self._execute(head, step)

    def _advance_in_turn(self, step: Step[Command]) -> Step[Command]:
        """Like `_advance`, but after NESTED_MAX requests continue in a later step of the event loop.

        The gateway may answer a request in the call that executes it, so the calls of successive requests can nest.
        """
        self._nested = (self._nested + 1) % NESTED_MAX
        if self._nested:
            return self._advance(step)
        step.frames += self._replies.flush()
        step.alarm = Alarm(0, lambda: self._advance(Step()))
        return step

    def _execute(self, call: ThreadCall, step: Step[Command]) -> None:
        call.executing = True
        self._inputs -= isinstance(call.command, commands.SubmitInput)
        if isinstance(call.command, commands.GetCapabilities):
            self._answers.send_capabilities(call)
            return
        self._replies.waiting[call.id] = call
        if call.command is not None:  # a call without a command was refused when it was read
            step.bursts.append(Burst(items=[call.command], request=call.id))

    # -- to the client ----------------------------------------------------------------------------------

    def _refuse_client(self, failure: Failure, step: Step[Command]) -> None:
        """Send the reason of a disconnection as the error of each pending request; if there is none, with id null."""
        self._replies.note_refusal(failure.text)
        if self._replies.head is None:
            step.frames += refused(ThreadCall(peer_id=""), Problem(code=FAILED, message=failure.text))


def _running_turn(head: ThreadCall | None, generation: str) -> ThreadCall | None:
    """Return the running `thread/message`, during which later lines are read; None before generation 0.9.2."""
    command = head.command if head is not None and head.executing else None
    if generation == SEED or not isinstance(command, commands.SubmitInput):
        return None
    return None if given(command.ext, "method", str, "") in GROUPS else head
