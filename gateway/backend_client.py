"""A client of one backend with blocking calls, for `dragoman send`, `chat` and `drive`.

    caller's thread                      thread with an event loop
    BackendClient.say  -> commands ->    InProcessTransport -> gateway -> backend
    next_event         <- bounded queue  <- canonical events

The gateway runs in a thread of its own. So the caller may block in a terminal, and Ctrl-C is an ordinary
KeyboardInterrupt.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import count
from queue import Empty, SimpleQueue
from types import TracebackType
from typing import Any

from msgspec import Struct, structs

from dragoman.gateway import registry
from dragoman.gateway.app import App
from dragoman.gateway.config.check import check_route
from dragoman.gateway.config.model import Config, Limits, Route
from dragoman.gateway.endpoint import Endpoint
from dragoman.gateway.public_reason import HIDDEN
from dragoman.gateway.replay.in_process import InProcessEvent, InProcessTransport, in_process_dialect
from dragoman.gateway.session.wording import (
    UNREACHABLE,
    code,
    code_invalid,
    code_wanted,
    find_question,
    in_words,
    verdict,
)
from dragoman.mappings.canonical import Command, Event
from dragoman.mappings.canonical.commands import (
    AnswerApproval,
    AnswerInteraction,
    AnswerOtp,
    CancelTurn,
    OpenSession,
    ResumeSession,
    SubmitInput,
)
from dragoman.mappings.canonical.events import (
    ApprovalRequested,
    ApprovalResolved,
    InteractionInvalid,
    InteractionRequired,
    InteractionResolved,
    OtpInvalid,
    OtpRequired,
    OtpVerified,
    Reply,
    TurnAccepted,
    TurnEnded,
)
from dragoman.mappings.canonical.state import Question
from dragoman.mappings.canonical.values import Failure, Text
from dragoman.mappings.errors import ConfigError, first_error
from dragoman.mappings.forms import Form, declines

ROUTE = "client"
OPEN_DEADLINE = 15.0  # seconds: above Limits.open_deadline, so that the gateway's own error comes first
CANCEL_WAIT = 3.0  # seconds for the end of a turn that the user cancelled
DRAIN = 1.0  # seconds for the gateway to end what is open
JOIN = 5.0  # seconds for its thread to end: a child gets a few to exit
QUEUE = 1024  # events that the caller has not taken: a screenful, many times over

Asked = Question | OtpRequired


def question_words(asked: Asked) -> str:
    """Return the words of a question, with those that answer it."""
    return code_wanted(asked) if isinstance(asked, OtpRequired) else in_words(asked)


class BackendClient:
    """A client of one backend, used as a context manager. `session` is the id of the session that it is shown.

    Events wait in a bounded queue for `next_event`. While `prompting` they are given to a function instead.
    """

    def __init__(self, endpoint: Endpoint) -> None:
        route = Route(name=ROUTE, listen=(), upstream=endpoint)
        check_route(route)
        self._app = App(Config(routes=(route,), limits=Limits(drain_deadline=DRAIN)))
        self._dialect = registry.upstream(endpoint)
        self._endpoint = endpoint
        self._loop: asyncio.AbstractEventLoop | None = None
        self._started = threading.Event()
        self._thread = threading.Thread(target=self._serve, name="dragoman:client", daemon=True)
        # Not a Queue, whose lock Python code takes: Ctrl-C at that moment would leave it locked for ever.
        self._waiting: SimpleQueue[InProcessEvent | BaseException] = SimpleQueue()
        self._lock = threading.Lock()
        self._prompting: Callable[[InProcessEvent], None] | None = None
        self._transport: InProcessTransport | None = None
        self._requests = count(1)
        self.session = ""

    def __enter__(self) -> BackendClient:
        self._thread.start()
        self._started.wait()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._leave()
        self._call(self._app.stop.set)
        self._thread.join(JOIN)

    def _serve(self) -> None:
        async def main() -> None:
            self._loop = asyncio.get_running_loop()
            async with asyncio.TaskGroup() as group:
                group.create_task(self._app.run(), name="client:gateway")
                await self._app.ready.wait()
                self._started.set()

        try:
            asyncio.run(main())
        except BaseException as error:  # noqa: BLE001  # raised again in the caller's thread
            with self._lock:
                self._waiting.put(first_error(error))
        self._started.set()

    def _call(self, function: Callable[..., object], *arguments: object) -> None:
        if self._loop is not None and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(function, *arguments)

    # -- sessions ----------------------------------------------------------------------------------------

    def open(self, session: str = "") -> None:
        """Open a new session, or resume a named one; raise ConfigError if the backend does not.

        The client leaves the session that it was shown before.
        """
        self._leave()
        transport = self._transport = InProcessTransport(lambda incoming: self._take(transport, incoming))
        self._call(self._app.join, in_process_dialect(self._dialect), transport)
        request = self.say(ResumeSession(session=session) if session else OpenSession())
        deadline = time.monotonic() + OPEN_DEADLINE
        while (incoming := self.next_event(deadline - time.monotonic())) is not None:
            if incoming.attached:
                self.session = incoming.attached
                if session and session not in incoming.names:
                    self._leave()
                    raise ConfigError(f"the backend has no session {session!r}; it shows {incoming.attached}")
                return
            event = incoming.event
            if isinstance(event, Reply) and event.request == request and event.failure is not None:
                missing = session and event.failure.cause == "not_found"
                who = f"the backend has no session {session!r}: " if missing else ""
                why = self.explain(event.failure)
                named = why.startswith(UNREACHABLE) or self._endpoint.masked in why
                raise ConfigError(f"{who}{why}" if named else f"{who}{why} ({self._endpoint.masked})")
        raise ConfigError(f"the backend {self._endpoint.masked} did not open a session within {OPEN_DEADLINE:g} s")

    def explain(self, failure: Failure) -> str:
        """Return the text of a failure; of a lost backend with its address, which only remote clients must not see."""
        status = self._app.upstreams.statuses.get(ROUTE)
        if HIDDEN in failure.text and failure.text.startswith(UNREACHABLE) and status is not None and status.fault:
            return f"{UNREACHABLE}: {status.fault}"
        return f"{failure.text} ({self._endpoint.masked})" if failure.cause == "upstream_lost" else failure.text

    def _leave(self) -> None:
        """Disconnect, and drop the events that came meanwhile."""
        with self._lock:
            transport, self._transport = self._transport, None
            while transport is not None and not self._waiting.empty():
                self._waiting.get_nowait()
        if transport is not None:
            self._call(transport.leave)

    # -- commands and events -----------------------------------------------------------------------------

    def say(self, command: Command) -> str:
        """Send a command; return its request id, by which its answer is known."""
        request = f"client-{next(self._requests)}"
        if self._transport is not None:
            self._call(self._transport.say, structs.replace(command, request=request))
        return request

    def next_event(self, timeout: float | None) -> InProcessEvent | None:
        """Wait for the next event and return it; return None after the timeout."""
        if timeout is not None and timeout <= 0:
            return None
        try:
            incoming = self._waiting.get(timeout=timeout)
        except Empty:
            return None
        if isinstance(incoming, BaseException):
            raise incoming
        return incoming

    @contextmanager
    def prompting(self, hear: Callable[[InProcessEvent], None]) -> Iterator[None]:
        """Give each event to `hear` while the caller waits for the user; `hear` is also called from another thread."""
        with self._lock:
            while not self._waiting.empty():
                incoming = self._waiting.get_nowait()
                if isinstance(incoming, BaseException):
                    raise incoming
                hear(incoming)
            self._prompting = hear
        try:
            yield
        finally:
            with self._lock:
                self._prompting = None

    def _take(self, transport: InProcessTransport, incoming: InProcessEvent | BaseException) -> bool:
        """Queue an event, or give it to the prompt; return False if the queue is full."""
        with self._lock:
            if transport is not self._transport:
                return True  # the client has left this session
            if self._prompting is not None and isinstance(incoming, InProcessEvent):
                self._prompting(incoming)
                return True
            if self._waiting.qsize() >= QUEUE:
                return False
            self._waiting.put(incoming)
        return True


class TypedAnswer:
    """The answer to one question, as a user types it line by line; `prompt` asks for the next line."""

    def __init__(self, asked: Asked) -> None:
        self.asked = asked
        self._form = Form(asked) if isinstance(asked, InteractionRequired) else None
        self._fault = ""

    @property
    def prompt(self) -> str:
        """Return the question, behind what was wrong with the line before."""
        if self._form is not None:
            return self._form.prompt(self._fault)
        words = question_words(self.asked)
        return f"{self._fault}\n{words}" if self._fault else words

    def take(self, line: str) -> Command | None:
        """Return the answer that this line completes, or None if a further line is needed."""
        asked, text = self.asked, line.strip()
        if isinstance(asked, OtpRequired):
            return AnswerOtp(code=code(text) or text) if text else None
        if isinstance(asked, ApprovalRequested):
            approved = verdict(text)
            return None if approved is None else AnswerApproval(approved=approved, question=asked.question)
        if declines(text):
            return AnswerInteraction(question=asked.question, kind=asked.kind, declined=True)
        return self._filled_in(asked, text)

    def _filled_in(self, asked: InteractionRequired, text: str) -> Command | None:
        form = self._form
        if form is None:
            return None
        self._fault = form.take(text)
        if not form.done:
            return None
        return AnswerInteraction(question=asked.question, kind=asked.kind, values=form.values)

    def refuse(self, event: InteractionInvalid | OtpInvalid) -> bool:
        """Note that the backend refused the answer; return False if it takes no other."""
        if isinstance(event, OtpInvalid):
            self._fault = code_invalid(event)
            return event.attempts_remaining > 0
        self._fault = self._form.again(event) if self._form is not None else event.text
        return True


ASKING_ENDS = ("paused", "completed", "cancelled")
PAUSED = "The turn is paused until the user continues it."


class TurnOutcome(Struct, frozen=True, kw_only=True):
    """How an input ended: its turn's end, the `failure` for which there is none, or a `question` without an answer.

    A turn that ended with a question in words has both `ended` and `question`: the next input is the answer.
    """

    ended: TurnEnded | None = None
    failure: Failure | None = None
    question: str | None = None


def question_at_end(ended: TurnEnded) -> str:
    """Return the question in words with which a turn ended, and which the next input answers; "" if there is none.

    A dialect that has no paused turns reports one that waits as completed or cancelled.
    """
    return find_question(ended.text) if ended.end in ASKING_ENDS else ""


def _outcome(ended: TurnEnded | None, failure: Failure | None) -> TurnOutcome:
    """Return the outcome of an input. A turn that ended `paused` waits for the user, whatever its words are."""
    question = question_at_end(ended) if ended is not None else ""
    if not question and ended is not None and ended.end == "paused":
        question = PAUSED
    return TurnOutcome(ended=ended, failure=failure, question=question or None)


class TurnRunner:
    """One turn at a time: sends an input, shows the events of its turn, and has its questions answered.

    `ask` returns the line that the user types at a prompt, None if nobody is there. It may give further events to
    `take` meanwhile. `show_other` is called with events of no turn, and of turns that others began. `accepted` is true
    once the backend has the input.
    """

    def __init__(
        self,
        client: BackendClient,
        show: Callable[[Event], None],
        ask: Callable[[str], str | None],
        show_other: Callable[[InProcessEvent], None] = lambda _event: None,
    ) -> None:
        self._client = client
        self._show = show
        self._ask = ask
        self._show_other = show_other
        self._begin("")

    def _begin(self, request: str) -> None:
        self._request = request
        self._turn = ""
        self.accepted = False
        self._ended: TurnEnded | None = None
        self._failure: Failure | None = None
        self._answer: TypedAnswer | None = None  # the question that is open
        self._given: TypedAnswer | None = None  # the question whose answer is on its way
        self._verified = False
        self._shown = True

    def run(self, text: str, deadline: float | None = None) -> TurnOutcome:
        """Send an input and return how its turn ended; raise TimeoutError after the deadline."""
        until = None if deadline is None else time.monotonic() + deadline
        while True:
            self._begin(self._client.say(SubmitInput(segments=(Text(text=text),))))
            while not self._over:
                incoming = self._client.next_event(None if until is None else until - time.monotonic())
                if incoming is None:
                    raise TimeoutError
                self.take(incoming)
                if self._answer is not None and not self._have_answered():
                    return TurnOutcome(question=question_words(self._answer.asked))
            if not self._verified:
                return _outcome(self._ended, self._failure)

    @property
    def _over(self) -> bool:
        """Return True if nothing more is expected: a code may be verified after the turn that asked for it."""
        codes = self._given is not None and isinstance(self._given.asked, OtpRequired)
        return self._verified or self._failure is not None or (self._ended is not None and not codes)

    def cancel(self, *, show: bool = True) -> TurnOutcome:
        """Cancel the turn, and wait for its end for a short time; without `show` its further events are not shown."""
        self._client.say(CancelTurn())
        self._answer = self._given = None
        self._shown = show
        until = time.monotonic() + CANCEL_WAIT
        while self._ended is None and self._failure is None:
            incoming = self._client.next_event(until - time.monotonic())
            if incoming is None:
                break
            self.take(incoming)
        return TurnOutcome(ended=self._ended, failure=self._failure)

    def take(self, incoming: InProcessEvent) -> None:
        """Act on an event: show it if it is one of the turn."""
        event = incoming.event
        self._note_answer(event)
        if isinstance(event, Reply) and event.failure is not None and event.request == self._request:
            self._failure = event.failure
        elif isinstance(event, TurnAccepted) and event.request == self._request:
            self._turn, self.accepted = incoming.turn, True
        if event is None or not self._turn or incoming.turn != self._turn:
            self._show_other(incoming)
            return
        if self._shown:
            self._show(event)
        if isinstance(event, Asked):
            self._answer = TypedAnswer(event)
        elif isinstance(event, TurnEnded):
            self._ended = event

    def _note_answer(self, event: Any) -> None:
        match event:
            case InteractionInvalid() | OtpInvalid() if self._given is not None:
                given, self._given = self._given, None
                self._answer = given if given.refuse(event) else None
            case OtpVerified() if self._given is not None:
                self._given, self._verified = None, True
            case ApprovalResolved() | InteractionResolved():
                self._answer = self._given = None

    def _have_answered(self) -> bool:
        """Have the user answer the open question; return False if nobody does."""
        while (answer := self._answer) is not None:
            line = self._ask(answer.prompt)
            if line is None:
                return False
            if self._answer is answer and (command := answer.take(line)) is not None:
                self._answer, self._given = None, answer
                self._client.say(command)
        return True
