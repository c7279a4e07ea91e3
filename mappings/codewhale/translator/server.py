"""The server's side of a link with a codewhale client, where we are `app-server --stdio`.

The source is docs/dialects/codewhale.md, sections 1.4, 2, 3 and 11. Requests are executed one at a time, and each line
that is not blank gets exactly one answer, in order. While a `thread/message` runs, later lines are read but not
executed, with two exceptions: an interrupt acts at once, and a shutdown interrupts the turn. Their answers keep the
order. The projection writes the answer of a turn after the turn's text; `on_delivered` then executes the next request.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from msgspec import UNSET, Raw
from msgspec.structs import replace

from dragoman.mappings.bounded import remember
from dragoman.mappings.canonical import Batch, Event, SessionState, Unmapped, commands, events
from dragoman.mappings.canonical.commands import Command
from dragoman.mappings.canonical.values import Failure
from dragoman.mappings.codewhale.directions import FROM_CLIENT, is_blank
from dragoman.mappings.codewhale.from_canonical import replies
from dragoman.mappings.codewhale.from_canonical.context import Context, bundled
from dragoman.mappings.codewhale.from_canonical.events import FROM_EVENT, accepted
from dragoman.mappings.codewhale.from_canonical.generations import masked, result_in
from dragoman.mappings.codewhale.ids import answer_id, mark_id, thread_id
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
from dragoman.mappings.codewhale.wire import results
from dragoman.mappings.codewhale.wire.codecs import EVENTS, GROUPS, typed
from dragoman.mappings.codewhale.wire.results import Problem
from dragoman.mappings.dialect import Alarm, Burst, Clock, Frame, Loss, NewId, Step, Translator
from dragoman.mappings.errors import PeerError
from dragoman.mappings.extras import raw
from dragoman.mappings.jsonrpc import PENDING_MAX, PeerCall, Replies, read_frame

NESTED_MAX = 32  # requests; each takes 10 to 20 levels of Python's recursion limit of 1,000
TOO_MANY = "too many inputs wait for the turn before them (`pending_commands`); try again later"
SHOWN_MAX = 1_000
"""Sessions that are remembered for one client; past the limit, `thread/read` of the oldest has no history.

Each takes 0.5 KB, and its transcript as well (16 MiB at most, `transcript_max`). `memory` does not count the transcript
any more once the session itself is forgotten.
"""


class ThreadCall(PeerCall, kw_only=True, eq=False):
    """A client's request: the thread id that it names, and whether it is being executed."""

    thread: str = ""
    executing: bool = False


class ServerTranslator(Translator[Command, Event]):
    """The protocol state of a link with a codewhale client; `generation` is our version, "" for the default."""

    def __init__(self, clock: Clock, new_id: NewId, generation: str = "") -> None:
        self._clock = clock
        self._new_id = new_id
        self._generation = generation or HEAD
        self._replies = Replies[ThreadCall]()
        self._sessions: dict[str, SessionState] = {}
        self._shut = False
        self._inputs, self._inputs_max = 0, PENDING_MAX  # inputs that wait for the requests before them
        self._nested = 0  # requests whose execution is nested in the answer to the previous request, at most
        self._refusal = ""  # the reason why this client is about to be disconnected

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
        """Set the limit of queued inputs; `count` is called with each change of the queued bytes."""
        self._inputs_max, self._replies.count = inputs, count

    def receive(self, frames: Sequence[Frame]) -> Step[Command]:
        """Read requests as commands, one at a time; queue an error for each request that a server refuses by itself."""
        step: Step[Command] = Step()
        for frame in frames:
            if self._shut or is_blank(frame):
                continue
            for item in read_frame(FROM_CLIENT, frame, step):
                if not isinstance(item, PeerError):
                    self._take_command(item, len(frame) if isinstance(frame, bytes) else 0, step)
                elif item.can_continue:
                    own, problem = refusals.of_fault(item)
                    reply = _encoded(results.Answer(id=own, error=problem))
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
                self._ask_in_words(item, step)
                continue
            if isinstance(item, events.Reply) and not item.request and item.failure is not None:
                self._refuse_client(item.failure, step)
                continue
            call = self._replies.find_waiting(getattr(item, "request", ""))
            if call is None or isinstance(item, events.TurnAccepted):
                if call is None:  # a server writes nothing that was not requested
                    step.losses.append(Loss(kind=type(item).__name__, why="answers no request"))
                continue
            self._replies.take_waiting(call.id)
            self._answer(call, item, step)
        return self._advance_in_turn(step)

    def attach(self, state: SessionState, request: str) -> Step[Command]:
        """Write the answer to the request that asked for this session; a request that only names it gets none here."""
        remember(self._sessions, state.id, state, SHOWN_MAX)
        call = self._replies.take_waiting(request)
        if call is None:
            return Step()
        self._show_session(call, state)
        return self._advance_in_turn(Step())

    def on_delivered(self, batch: Batch) -> Step[Command]:
        """Execute the next request once this client's turn has ended; the projection has written its answer."""
        last = batch.events[-1]
        over = isinstance(last, events.TurnEnded) or (isinstance(last, events.QuestionAsked) and last.parked)
        call = self._replies.take_waiting(batch.origin.request) if over else None
        if call is None:
            return Step()
        call.reply = ()
        return self._advance(Step())

    def closed(self, cause: str) -> Step[Command]:
        """Answer every pending request; the ones that were not executed are refused."""
        self._shut = True
        text = self._refusal or (f"the gateway closes: {cause}" if cause else "the gateway closes")
        problem = Problem(code=FAILED, message=text)
        return Step(frames=self._replies.close(lambda call: _refused(call, problem)))

    # -- from the client --------------------------------------------------------------------------------

    def _take_command(self, command: Command, size: int, step: Step[Command]) -> None:
        is_input = isinstance(command, commands.SubmitInput)
        full = is_input and self._inputs >= self._inputs_max
        call = ThreadCall(peer_id=command.request, size=size if not full else 0)
        self._replies.add(call)
        if full:
            call.reply = _refused(call, Problem(code=FAILED, message=TOO_MANY))
            return
        if isinstance(command, Unmapped):
            step.losses.append(Loss(kind="Unmapped", why="unsupported method", sample=command.tag[:80]))
            call.reply = _refused(call, refusals.unknown_method(command.tag))
            return
        later = refusals.of_seed(command) if self._generation == SEED else None
        if later is not None:
            call.reply = _refused(call, later)
            return
        call.thread = given(command.ext, "thread_id", str, thread_id(command.session))
        call.id = mark_id(command.request, self._new_id(), call.thread)
        call.command = replace(command, request=call.id)
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
            self._set_answer(call, _capabilities(given(call.command.ext, "kind", str, ""), self._generation))
            return
        self._replies.wait(call)
        if call.command is not None:  # a call without a command was refused when it was read
            step.bursts.append(Burst(items=[call.command], request=call.id))

    # -- to the client ----------------------------------------------------------------------------------

    def _answer(self, call: ThreadCall, item: Any, step: Step[Command]) -> None:
        command = call.command
        failure = getattr(item, "failure", None)
        if isinstance(command, commands.ShutdownBackend):
            self._set_answer(call, results.Stopped())  # this client may leave, whatever the backend does
        elif isinstance(command, commands.CancelTurn):
            if failure is None or failure.cause in ("not_running", "not_found"):
                self._set_answer(call, results.Interrupted(thread_id=call.thread, interrupted=failure is None))
            else:
                self._set_answer(call, refusals.refusal(command, failure, call.thread, self._generation))
        elif failure is not None and command is not None:
            self._set_answer(call, refusals.refusal(command, failure, call.thread, self._generation))
        elif isinstance(item, events.SessionOpened) and item.session in self._sessions:
            self._show_session(call, self._sessions[item.session])
        elif isinstance(item, events.Reply):
            self._set_answer(call, self._result_of(call, item))
        elif type(item) in ANSWERS:
            context = self._context(call)
            call.reply = tuple(bundled(FROM_EVENT.functions[type(item)](item, context)))
            step.losses += context.take_losses()
        else:
            step.losses.append(Loss(kind=type(item).__name__, why="codewhale has no form for this answer"))
            call.reply = _refused(call, Problem(code=FAILED, message="the backend gave no answer to this"))

    def _show_session(self, call: ThreadCall, state: SessionState) -> None:
        """Answer with the requested session; a new session that was opened for an unknown thread id does not count."""
        if isinstance(call.command, commands.ResumeSession) and call.thread not in replies.public_ids(
            state.id, state.backend_ids
        ):
            missing = Failure(cause="not_found", text=UNKNOWN_THREAD)
            self._set_answer(call, refusals.refusal(call.command, missing, call.thread, self._generation))
        else:
            self._set_answer(call, replies.showing(state, call.command, self._generation))

    def _result_of(self, call: ThreadCall, item: events.Reply) -> Any:
        """Return the result of a successful command: the backend's own if it has the right form, else ours."""
        command = call.command
        is_app = isinstance(command, refusals.APPS)
        if item.result is not UNSET:
            result = result_in(typed(item.result), self._generation)
            if isinstance(command, commands.GetConfig) and self._generation != SEED:
                result = masked(command.key, result)
            if is_app is isinstance(result, results.AppResponse) and not isinstance(result, Raw):
                return result
            if is_app:
                return results.AppResponse(ok=True, data=item.result)
        if is_app:
            return results.AppResponse(ok=True, data=results.EMPTY)
        if isinstance(command, commands.SubmitInput):
            context = self._context(call)
            context.thread, context.response_id = call.thread, _own_response(call)
            return accepted(context)
        done = results.ThreadResponse(thread_id=call.thread, status=DONE.get(type(command), "ok"), data=results.EMPTY)
        state = self._sessions.get(command.session) if command is not None and command.session else None
        if state is None or not isinstance(command, commands.RenameSession):
            return done
        return replace(done, thread=replace(replies.described(state, self._generation), name=command.title))

    def _refuse_client(self, failure: Failure, step: Step[Command]) -> None:
        """Send the reason of a disconnection as the error of each pending request; if there is none, with id null."""
        self._refusal = failure.text
        if self._replies.head is None:
            step.frames += _refused(ThreadCall(peer_id=""), Problem(code=FAILED, message=failure.text))

    def _ask_in_words(self, item: events.QuestionAsked, step: Step[Command]) -> None:
        """Send a question in words to the client whose `thread/message` is running."""
        head = self._replies.head
        if head is None or not head.executing:
            step.losses.append(Loss(kind=type(item).__name__, why="no request waits for an answer"))
            return
        context = self._context(head)
        context.response_id = _own_response(head)
        started = (events.ModelTurnStarted(), item)
        step.frames += bundled(m for event in started for m in FROM_EVENT.functions[type(event)](event, context))

    def _context(self, call: ThreadCall) -> Context:
        return Context(
            FROM_EVENT,
            at=self._clock(),
            request=call.id or call.peer_id,
            asked=call.command,
            generation=self._generation,
        )

    def _set_answer(self, call: ThreadCall, reply: Any) -> None:
        if isinstance(reply, Problem):
            call.reply = _refused(call, reply)
        else:
            call.reply = _encoded(self._context(call).answer(reply))


ANSWERS = frozenset((events.SessionOpened, events.SessionsListed, events.HistorySnapshot, events.Pong))

DONE: dict[type, str] = {
    commands.ArchiveSession: "archived",
    commands.UnarchiveSession: "unarchived",
    commands.ForkSession: "forked",
}
"""Commands whose result has only a status -> that status."""


def _running_turn(head: ThreadCall | None, generation: str) -> ThreadCall | None:
    """Return the running `thread/message`, during which later lines are read; None before generation 0.9.2."""
    command = head.command if head is not None and head.executing else None
    if generation == SEED or not isinstance(command, commands.SubmitInput):
        return None
    return None if given(command.ext, "method", str, "") in GROUPS else head


def _refused(call: ThreadCall, problem: Problem) -> tuple[bytes, ...]:
    """Return the answer to a request that is refused for this problem."""
    return _encoded(results.Answer(id=answer_id(call.peer_id), error=problem))


def _own_response(call: ThreadCall) -> str:
    """Return a response id of our own, for a message that no turn of the backend answers."""
    return f"{call.thread}:{call.id.split()[1]}"


def _encoded(answer: results.Answer) -> tuple[bytes, ...]:
    return (EVENTS.encode(answer),)


def _capabilities(about: str, generation: str) -> Any:
    """Return the capabilities of this server about `thread`, `prompt`, `app` or all methods."""
    match about:
        case "thread":
            return results.Capabilities(methods=thread_methods(generation))
        case "prompt":
            return results.Capabilities(methods=list(PROMPT_METHODS))
        case "app":
            return results.AppResponse(ok=True, data=raw(app_facts(generation)))
    families = ["thread/*", "app/*", "prompt/*"]
    return results.Capabilities(transport="stdio", families=families, methods=methods(generation))
