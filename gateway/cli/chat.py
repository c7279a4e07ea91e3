"""`dragoman chat`: a terminal client for a backend of any dialect."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Annotated, Any, ClassVar

import structlog
import typer

from dragoman.gateway.backend_client.client import BackendClient
from dragoman.gateway.backend_client.in_process import InProcessEvent
from dragoman.gateway.backend_client.turn_runner import TurnOutcome, TurnRunner, TypedAnswer
from dragoman.gateway.cli import quick_start
from dragoman.gateway.cli.options import LogJson, LogLevel
from dragoman.gateway.cli.running import set_up
from dragoman.gateway.cli.terminal import Terminal, TurnDisplay
from dragoman.gateway.endpoint import parse
from dragoman.gateway.observability import logs
from dragoman.gateway.session.wording import UNREACHABLE
from dragoman.mappings.canonical import Command, events
from dragoman.mappings.canonical.commands import CancelTurn, GetHistory, ListSessions
from dragoman.mappings.canonical.values import Message
from dragoman.mappings.errors import ConfigError

EXAMPLES = (
    "dragoman chat pod+name:atlas",
    "dragoman chat smooth+ws://127.0.0.1:8787/ws --session 5f1d8c3e-5d0f-4a53-8f0e-2f1e0c6b7a90",
)

PROMPT = "> "
ANSWER = "? "
CALL_DEADLINE = 10.0  # seconds for the answer to a command: a pando call may take so long
HISTORY = 20  # messages that /history shows: about a screenful
UNREACHED, UNANSWERED, INTERRUPTED = 2, 3, 130  # exit codes, as those of `send`

NOTICES = {
    "backend lost, connecting again": "The connection to the backend is lost; connecting again.",
    "backend not reachable, trying again": "The backend cannot be reached; trying again.",
    "backend of another dialect, trying again": "The backend speaks another dialect; trying again.",
    "backend connected": "The backend is connected again.",
}
"""Log event -> what the user is told."""


class Leave(Exception):  # noqa: N818  # not an error: the user leaves
    """Raised to leave the chat with this exit code."""

    def __init__(self, code: int = 0) -> None:
        self.code = code


class Chat:
    """A conversation: reads inputs and commands, shows turns, and asks the questions of the backend."""

    def __init__(self, client: BackendClient, terminal: Terminal) -> None:
        self._client = client
        self._terminal = terminal
        self._display = TurnDisplay(terminal)
        self._turn = TurnRunner(client, self._display.show, self._ask, self._show_other)
        self._question: TypedAnswer | None = None  # the open question of a turn that another client began
        self._sending = False  # an input of this client, which a backend may echo before it accepts it
        self._code = 0

    def run(self) -> int:
        """Talk until the user leaves; return the exit code."""
        try:
            while True:
                self._act(self._read())
        except EOFError:
            return self._code
        except Leave as leave:
            return leave.code

    def _read(self) -> str:
        """Return the next line at the prompt; Ctrl-C clears it, and leaves if it is empty."""
        while True:
            try:
                with self._client.prompting(self._show_other):
                    return self._terminal.read(PROMPT, keep=self._question is None)
            except KeyboardInterrupt:
                if not self._terminal.clear_prompt():
                    raise Leave(INTERRUPTED) from None

    def _act(self, line: str) -> None:
        """Act on a line: a command, the answer to an open question, or an input."""
        word, _, rest = line.strip().partition(" ")
        if word in self.COMMANDS:
            act, _ = self.COMMANDS[word]
            act(self, rest.strip())
        elif self._question is not None:
            self._answer(self._question, line)
        elif word.startswith("/") and not word.startswith("//") and "/" not in word[1:]:
            self._terminal.note(f"Unknown command {word}; /help lists them, and //... sends a text that begins with /.")
        elif word:
            self._send(line[1:] if word.startswith("//") else line)

    # -- turns -------------------------------------------------------------------------------------------

    def _send(self, text: str) -> None:
        self._sending = True
        self._display.begin()
        try:
            outcome = self._turn.run(text)
        except KeyboardInterrupt:
            outcome = self._interrupted()
        finally:
            self._sending = False
        self._show_end(outcome)

    def _interrupted(self) -> TurnOutcome:
        """Cancel the turn; a second Ctrl-C leaves."""
        self._terminal.note("Cancelling the turn; Ctrl-C again leaves.")
        try:
            outcome = self._turn.cancel()
        except KeyboardInterrupt:
            raise Leave(INTERRUPTED) from None
        if outcome.ended is None and outcome.failure is None:
            self._terminal.note("The backend has not ended the turn yet.")
        return outcome

    def _show_end(self, outcome: TurnOutcome) -> None:
        self._terminal.end_line()
        ended, failure = outcome.ended, outcome.failure
        self._code = _exit_code(outcome)
        if outcome.question is not None:
            self._code = UNANSWERED
            if ended is None:  # the input is over
                self._turn.cancel(show=False)
                raise Leave(UNANSWERED)
        if failure is not None:
            self._terminal.fail(f"Not sent: {self._client.explain(failure).removeprefix('not sent: ')}")
        elif ended is not None:
            self._display.show_end(ended)

    def _ask(self, words: str) -> str | None:
        """Return the line that the user types at a question of this client's turn."""
        self._terminal.line(words)
        try:
            with self._client.prompting(self._turn.take):
                return self._terminal.read(ANSWER)
        except EOFError:
            return None

    def _answer(self, question: TypedAnswer, line: str) -> None:
        """Answer a question of a turn that another client began."""
        if (command := question.take(line)) is None:
            self._terminal.line(question.prompt)
            return
        self._question = None
        self._call(command)

    # -- what happens ------------------------------------------------------------------------------------

    def _show_other(self, incoming: InProcessEvent) -> None:
        """Show an event of a turn that this client did not begin, in whole lines."""
        event = incoming.event
        match event:
            case events.TextDone() if event.text.strip():
                self._terminal.line(f"agent: {event.text.strip()}")
            case events.MessageAppended() if event.message.role == "user" and not self._sending:
                self._terminal.line(f"another client: {event.message.text}")
            case events.ApprovalRequested() | events.InteractionRequired() | events.OtpRequired():
                self._question = TypedAnswer(event)
                self._terminal.line(self._question.prompt)
            case events.ApprovalResolved() | events.InteractionResolved():
                self._question = None
            case events.TurnEnded():
                if self._question is not None and not isinstance(self._question.asked, events.OtpRequired):
                    self._question = None  # a code may be typed after the turn
                self._display.show_end(event)
            case events.BackendShutdown():
                self._terminal.note("The backend shuts down.")
            case None:
                pass
            case _ if incoming.turn or isinstance(event, events.Alert | events.Gap):
                self._display.show_detail(event)

    # -- commands ----------------------------------------------------------------------------------------

    def _call(self, command: Command) -> Any:
        """Return the answer to a command. If it is refused or late, print that and return None."""
        request = self._client.send_command(command)
        until = time.monotonic() + CALL_DEADLINE
        while (incoming := self._client.next_event(until - time.monotonic())) is not None:
            if getattr(incoming.event, "request", "") != request:
                self._show_other(incoming)
            elif isinstance(incoming.event, events.Reply) and incoming.event.failure is not None:
                self._terminal.fail(self._client.explain(incoming.event.failure))
                return None
            else:
                return incoming.event
        self._terminal.fail("The backend did not answer.")
        return None

    def _help(self, _rest: str) -> None:
        for word, (_, text) in self.COMMANDS.items():
            self._terminal.line(f"{word:10} {text}")

    def _list(self, _rest: str) -> None:
        listed = self._call(ListSessions())
        for row in listed.sessions if isinstance(listed, events.SessionsListed) else ():
            mark = "*" if row.session == self._client.session else " "
            self._terminal.line(f"{mark} {row.session}  {row.messages:4} messages  {row.title}".rstrip())

    def _begin(self, _rest: str) -> None:
        before = self._client.session
        self._open("")
        if self._client.session == before:
            self._terminal.note("This backend has only one session.")

    def _attach(self, session: str) -> None:
        if session:
            self._open(session)
        else:
            self._terminal.note("Write /attach ID; /sessions lists the ids.")

    def _open(self, session: str) -> None:
        """Open another session; if that fails, the former session is continued."""
        before = self._client.session
        self._question = None
        try:
            self._client.open(session)
        except ConfigError as error:
            self._terminal.fail(str(error))
            self._client.open(before)
        self._terminal.note(f"Session {self._client.session}")

    def _cancel(self, _rest: str) -> None:
        if self._call(CancelTurn()) is not None:
            self._terminal.note("Cancelling the turn.")

    def _history(self, _rest: str) -> None:
        page = self._call(GetHistory(limit=HISTORY, session=self._client.session))
        items = page.items if isinstance(page, events.HistorySnapshot) else ()
        for item in reversed(items):
            if isinstance(item, Message):
                self._terminal.line(f"{'you' if item.role == 'user' else 'agent'}: {item.text}")
        if not items:
            self._terminal.note("This session has no messages.")

    def _leave(self, _rest: str) -> None:
        raise Leave

    COMMANDS: ClassVar[dict[str, tuple[Callable[[Chat, str], None], str]]] = {
        "/help": (_help, "list these commands"),
        "/sessions": (_list, "list the sessions of the backend"),
        "/new": (_begin, "begin a new session"),
        "/attach": (_attach, "ID: continue another session"),
        "/cancel": (_cancel, "cancel the turn that runs in this session"),
        "/history": (_history, "show the last messages of this session"),
        "/quit": (_leave, "leave; so does Ctrl-D, and Ctrl-C at an empty prompt"),
    }


def chat(
    endpoint: Annotated[str, typer.Argument(metavar="ENDPOINT", help="The backend, in any dialect.")],
    session: Annotated[
        str, typer.Option("--session", metavar="ID", help="Continue this session; a pod has only one.")
    ] = "",
    log_level: LogLevel = "error",
    log_json: LogJson = False,
) -> None:
    """Talk to a backend in the terminal.

    Text appears as it comes, and questions are answered in place. Ctrl-C cancels the turn; a second one, or one at an
    empty prompt, leaves. So does Ctrl-D. /help lists the commands.

    Without a terminal each line of stdin is an input, or the answer to a question, and stdout has the answers. Then it
    exits 0 if the last turn completed, 1 if it ended otherwise, 3 if a question has no answer. It exits 2 if the
    backend cannot be reached or has no session with this id.
    """
    set_up(log_level, log_json)
    terminal = Terminal(tuple(Chat.COMMANDS))
    _show_notices(terminal, log_level)
    with BackendClient(parse(endpoint)) as client:
        quick_start.end()
        client.open(session)
        if terminal.live:
            terminal.note(f"{parse(endpoint).masked}, session {client.session}. /help lists the commands.")
        try:
            code = Chat(client, terminal).run()
        finally:
            terminal.close()
    raise typer.Exit(code)


def _exit_code(outcome: TurnOutcome) -> int:
    """Return the exit code of a chat whose last turn has no open question."""
    ended, failure = outcome.ended, outcome.failure
    if failure is not None and (failure.cause == "upstream_lost" or UNREACHABLE in failure.text):
        return UNREACHED
    return 0 if ended is not None and ended.end == "completed" else 1


def _show_notices(terminal: Terminal, level: str) -> None:
    """Tell the user of a lost and found connection, which the gateway only logs; other logs stay as configured."""
    lost = False

    def show_notice(_logger: object, method: str, fields: Any) -> Any:
        nonlocal lost
        event = fields["event"]
        if event in NOTICES:
            was_lost, lost = lost, event != "backend connected"
            if was_lost or lost:
                terminal.note(NOTICES[event] + (f" ({fields['cause']})" if fields.get("cause") else ""))
        if method not in logs.LEVELS[logs.LEVELS.index(level) :]:
            raise structlog.DropEvent
        return fields

    logs.LEVEL.change(components={"upstream": "info"})  # so that the notices reach `show_notice`
    structlog.configure(
        processors=[show_notice, *structlog.get_config()["processors"]],
        wrapper_class=structlog.make_filtering_bound_logger("info" if level != "debug" else "debug"),
    )
