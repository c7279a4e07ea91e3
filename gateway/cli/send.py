"""`dragoman send`: send one input to a backend, and print the answer as it streams."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable
from typing import Annotated, Any

import msgspec
import typer
from msgspec import Struct

from dragoman.gateway import registry
from dragoman.gateway.app import App
from dragoman.gateway.cli.options import AsJson, LogJson, LogLevel
from dragoman.gateway.cli.running import run, set_up
from dragoman.gateway.config.check import check_route
from dragoman.gateway.config.model import Config, Limits, Route
from dragoman.gateway.endpoint import Endpoint, parse
from dragoman.gateway.recording.printable import printable
from dragoman.gateway.replay.in_process import InProcessEvent, InProcessTransport, in_process_dialect
from dragoman.gateway.session.wording import Form, code, code_wanted, declines, in_words, verdict
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
    InteractionInvalid,
    InteractionRequired,
    OtpInvalid,
    OtpRequired,
    Reply,
    TextDelta,
    TurnAccepted,
    TurnEnded,
)
from dragoman.mappings.canonical.values import End, Failure, Text, Usage
from dragoman.mappings.errors import ConfigError, DragomanError

__all__ = ["EXAMPLES", "send"]

EXAMPLES = (
    "dragoman send smooth+ws://127.0.0.1:8787/ws 'Where is order A-1042?'",
    "dragoman send pod+name:atlas 'Run the tests' --json",
)

DEADLINE = 600.0  # seconds for the whole turn: a tool may work for minutes without a word
DRAIN = 1.0  # seconds for the backend to end a turn that was cancelled
UNANSWERED = 3  # the exit code if nobody is there to answer a question

Asked = ApprovalRequested | InteractionRequired | OtpRequired


class SendResult(Struct, frozen=True, kw_only=True, tag_field="type", tag="result"):
    """The last line of `--json`: how the turn ended, its whole text, and the question that nobody answered.

    `end` is None if the turn did not end. `failure` also says why an input was refused.
    """

    session: str
    end: End | None
    text: str
    usage: Usage | None
    failure: Failure | None
    question: str | None


class TurnSender:
    """A client that opens a session, sends one input and shows each event of its turn.

    `ask` returns the line that the user types, "" if there is none. `accepted` is true once the backend has the input.
    The queue needs no bound: the events of one turn are shown as fast as the gateway delivers them, in the same event
    loop.
    """

    def __init__(self, show: Callable[[Event], None], ask: Callable[[str], Any]) -> None:
        self._show = show
        self._ask = ask
        self._news: asyncio.Queue[InProcessEvent] = asyncio.Queue()
        self.transport = InProcessTransport(self._news.put_nowait)
        self.accepted = False
        self._session = ""
        self._asked: Asked | None = None
        self._question: str | None = None
        self._failure: Failure | None = None

    async def run(self, text: str, session: str, deadline: float) -> SendResult:
        """Return the result of the turn; after the deadline the turn is cancelled."""
        ended: TurnEnded | None = None
        try:
            async with asyncio.timeout(deadline):
                if await self._open(session):
                    ended = await self._send_input(text)
        except TimeoutError:
            self._failure = Failure(cause="timeout", text=f"the turn did not end within {deadline:g} s")
        if ended is None:
            self.transport.say(CancelTurn(request="cancel"))
        self.transport.leave()
        return SendResult(
            session=self._session,
            end=ended.end if ended is not None else None,
            text=ended.text if ended is not None else "",
            usage=ended.usage if ended is not None else None,
            failure=ended.failure if ended is not None else self._failure,
            question=self._question,
        )

    async def _open(self, session: str) -> bool:
        """Open a session, or resume a named one; return False if the backend refuses."""
        opening = ResumeSession(request="open", session=session) if session else OpenSession(request="open")
        self.transport.say(opening)
        while not self._session:
            told = await self._news.get()
            self._session = told.attached
            if self._is_refused(told.event, "open"):
                return False
        return True

    async def _send_input(self, text: str) -> TurnEnded | None:
        """Send the input and show its turn; return None if it was refused, or if a question was not answered."""
        self.transport.say(SubmitInput(request="send", segments=(Text(text=text),)))
        turn = ""
        while True:
            told = await self._news.get()
            event = told.event
            if self._is_refused(event, "send"):
                return None
            if isinstance(event, TurnAccepted) and event.request == "send":
                turn, self.accepted = told.turn, True
            if isinstance(event, InteractionInvalid | OtpInvalid) and not await self._answer_again(event):
                return None
            if event is None or not turn or told.turn != turn:
                continue
            self._show(event)
            if isinstance(event, TurnEnded):
                return event
            if isinstance(event, Asked) and not await self._answer(event):
                return None

    def _is_refused(self, event: Event | None, request: str) -> bool:
        """Note the refusal of a request, if this event is one."""
        refused = isinstance(event, Reply) and event.request == request and event.failure is not None
        if isinstance(event, Reply) and refused:
            self._failure = event.failure
        return refused

    async def _answer_again(self, refused: InteractionInvalid | OtpInvalid) -> bool:
        """Ask again after a refused answer, unless a code has no further try."""
        if self._asked is None or (isinstance(refused, OtpInvalid) and refused.attempts_remaining <= 0):
            return True
        return await self._answer(self._asked, refused.text)

    async def _answer(self, asked: Asked, fault: str = "") -> bool:
        """Ask the user and send the answer; return False if there is none. `fault` is what was wrong with the last."""
        self._asked = asked
        command = await self._typed(asked, fault)
        if command is None:
            self._question = _words(asked)
            return False
        self.transport.say(command)
        return True

    async def _typed(self, asked: Asked, fault: str) -> Command | None:
        """Return the answer that the user types, None without one."""
        if isinstance(asked, InteractionRequired):
            return await self._filled_in(asked, fault)
        words = _words(asked)
        while said := await self._ask(f"{fault}\n{words}" if fault else words):
            if isinstance(asked, OtpRequired):
                return AnswerOtp(request="answer", code=code(said) or said.strip())
            if (approved := verdict(said)) is not None:
                return AnswerApproval(request="answer", approved=approved, question=asked.question)
        return None

    async def _filled_in(self, asked: InteractionRequired, fault: str) -> Command | None:
        form = Form(asked)
        while not form.done:
            if not (said := await self._ask(form.prompt(fault))):
                return None
            if declines(said):
                return AnswerInteraction(request="answer", question=asked.question, kind=asked.kind, declined=True)
            fault = form.take(said)
        return AnswerInteraction(request="answer", question=asked.question, kind=asked.kind, values=form.values)


def send(
    endpoint: Annotated[str, typer.Argument(metavar="ENDPOINT", help="The backend, in any dialect.")],
    text: Annotated[str, typer.Argument(metavar="TEXT", help="The input.")],
    session: Annotated[
        str, typer.Option("--session", metavar="ID", help="Continue this session; a pod has only one.")
    ] = "",
    deadline: Annotated[float, typer.Option(metavar="SECONDS", min=0.1, help="The timeout for the turn.")] = DEADLINE,
    as_json: AsJson = False,
    log_level: LogLevel = "error",
    log_json: LogJson = False,
) -> None:
    """Send one input to a backend in a new session, and print the answer as it streams.

    A question is printed, and on a terminal you answer it. Exits 0 if the turn completed, 1 if it ended otherwise, 2 if
    the backend cannot be reached, 3 if a question has no answer. The turn is then cancelled.

    --json prints the canonical events of the turn, one a line, and last {type: result, session, end, text, usage,
    failure, question}.
    """
    set_up(log_level, log_json)
    sender = TurnSender(_show_json if as_json else _show_text, _ask)
    result = run(_send(parse(endpoint), sender, text, session, deadline))
    if as_json or sender.accepted:
        typer.echo(msgspec.json.encode(result) if as_json else "")
    if result.end is None and result.failure is not None:
        reached = result.session and result.failure.cause != "upstream_lost"
        raise (DragomanError if reached else ConfigError)(result.failure.text)
    if result.question is not None:
        raise typer.Exit(UNANSWERED)
    if result.end != "completed":
        why = f": {result.failure.text}" if result.failure is not None else ""
        raise DragomanError(f"the turn ended {result.end}{why}")


async def _send(upstream: Endpoint, sender: TurnSender, text: str, session: str, deadline: float) -> SendResult:
    """Run a gateway whose only client is the sender."""
    route = Route(name="send", listen=(), upstream=upstream)
    check_route(route)
    app = App(Config(routes=(route,), limits=Limits(drain_deadline=DRAIN)))
    async with asyncio.TaskGroup() as group:
        group.create_task(app.run(), name="send:gateway")
        await app.ready.wait()
        app.join(in_process_dialect(registry.dialect("pod")), sender.transport)
        try:
            result = await sender.run(text, session, deadline)
        finally:
            app.stop.set()
    return result


def _show_json(event: Event) -> None:
    typer.echo(msgspec.json.encode(event))


def _show_text(event: Event) -> None:
    if isinstance(event, TextDelta):
        typer.echo(printable(event.text), nl=False)
    elif isinstance(event, Asked) and not sys.stdin.isatty():
        typer.echo(f"\n\n{printable(_words(event))}", nl=False)


def _words(asked: Asked) -> str:
    return code_wanted(asked) if isinstance(asked, OtpRequired) else in_words(asked)


async def _ask(words: str) -> str:
    """Return the line that the user types at a question, "" without a terminal."""
    if not sys.stdin.isatty():
        return ""
    typer.echo(f"\n\n{printable(words)}\n> ", nl=False, err=True)
    typed = asyncio.Event()
    loop = asyncio.get_running_loop()
    loop.add_reader(sys.stdin, typed.set)  # a thread in input() would hold up the exit after Ctrl-C
    try:
        await typed.wait()
    finally:
        loop.remove_reader(sys.stdin)
    return sys.stdin.readline()
