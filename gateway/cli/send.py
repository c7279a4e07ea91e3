"""`dragoman send`: send one input to a backend, and print the answer as it streams."""

from __future__ import annotations

import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Annotated

import typer
from msgspec import Struct, structs

from dragoman.gateway.backend_client.client import BackendClient, OpeningError
from dragoman.gateway.backend_client.turn_runner import Asked, TurnOutcome, TurnRunner, question_words
from dragoman.gateway.cli import quick_start
from dragoman.gateway.cli.options import AsJson, Deadline, LogJson, LogLevel
from dragoman.gateway.cli.output import print_json
from dragoman.gateway.cli.plain_values import is_encodable
from dragoman.gateway.cli.running import set_up
from dragoman.gateway.cli.terminal import NOT_UTF8
from dragoman.gateway.endpoint import parse
from dragoman.gateway.process.signals import KILLED, Interrupted, raising_on_signals
from dragoman.gateway.recording.printable import printable
from dragoman.gateway.session.wording import UNREACHABLE
from dragoman.mappings.canonical import Event
from dragoman.mappings.canonical.events import TextDelta
from dragoman.mappings.canonical.values import Cause, End, Failure, Usage
from dragoman.mappings.errors import ConfigError, DragomanError

EXAMPLES = (
    "dragoman send smooth+ws://127.0.0.1:8787/ws 'Where is order A-1042?'",
    "dragoman send pod+name:atlas 'Run the tests' --json",
)

DEADLINE = 600.0  # seconds for each turn: a tool may work for minutes without a word
UNANSWERED = 3  # the exit code if a question has no answer


class SendResult(Struct, frozen=True, kw_only=True, tag_field="type", tag="result"):
    """The last line of `--json`: how the turn ended, its whole text, and the question without an answer.

    `end` is None if the turn did not end. `failure` also says why an input was refused.
    """

    session: str
    end: End | None
    text: str
    usage: Usage | None
    failure: Failure | None
    question: str | None


def send(
    endpoint: Annotated[str, typer.Argument(metavar="ENDPOINT", help="The backend, in any dialect.")],
    text: Annotated[str, typer.Argument(metavar="TEXT", help="The input to send.")],
    session: Annotated[
        str, typer.Option("--session", metavar="ID", help="Continue this session; a pod has only one.")
    ] = "",
    deadline: Deadline = DEADLINE,
    as_json: AsJson = False,
    log_level: LogLevel = "error",
    log_json: LogJson = False,
) -> None:
    """Send one input to a backend in a new session, and print the answer as it streams.

    A question is printed, and on a terminal you answer it. Exits 0 if the turn completed, 1 if it ended otherwise or
    the input is refused, as an empty one is. Exits 2 if the backend cannot be reached or has no session with this id, 3
    if a question has no answer. The turn is cancelled after Ctrl-C (130), SIGTERM (143) or SIGHUP (129), or if the
    reader of the output has closed it (141).

    --json prints the canonical events of the turn, one a line, and last {type: result, session, end, text, usage,
    failure, question}.
    """
    set_up(log_level, log_json)
    number = 0  # of the signal that ended the turn
    with _reporting_errors(as_json), BackendClient(parse(endpoint)) as client:
        quick_start.end()
        turn = TurnRunner(client, print_json if as_json else _show_text, _ask)
        with raising_on_signals():
            try:
                client.open(session)
                outcome = _run(turn, text, deadline, streams=sys.stdout.isatty() and not as_json)
            except KeyboardInterrupt as error:
                number = error.number if isinstance(error, Interrupted) else signal.SIGINT
                outcome = turn.cancel() if client.session else TurnOutcome()
            except BrokenPipeError:
                turn.cancel(show=False)
                raise
    result = _result(client.session, outcome)
    if as_json:
        print_json(result)
    elif turn.accepted:
        typer.echo()
    if number:
        raise typer.Exit(KILLED + number)
    try:
        _show_end(result, client)
    except DragomanError as error:
        error.in_result = as_json
        raise


@contextmanager
def _reporting_errors(as_json: bool) -> Iterator[None]:
    """Print the result of a turn that could not begin, for a script."""
    try:
        yield
    except DragomanError as error:
        if as_json:
            cause: Cause = error.cause if isinstance(error, OpeningError) else "invalid"
            print_json(_result("", TurnOutcome(failure=Failure(cause=cause, text=str(error)))))
            error.in_result = True
        raise


def _run(turn: TurnRunner, text: str, deadline: float, *, streams: bool) -> TurnOutcome:
    """Run the turn of an input, and of each answer that the user types to a question in words.

    With `streams`, the text of each turn was printed, so a question at its end is not printed again.
    """
    while True:
        try:
            outcome = turn.run(text, deadline)
        except TimeoutError:
            failure = Failure(cause="timeout", text=f"the turn did not end within {deadline:g} s")
            return structs.replace(turn.cancel(), ended=None, failure=failure)
        if outcome.question is None:
            return outcome
        if outcome.ended is None:  # a cancel ends a question without an answer
            turn.cancel(show=False)
            return outcome
        if (answer := _ask("" if streams and outcome.question in outcome.ended.text else outcome.question)) is None:
            return outcome
        text = answer.strip()


def _result(session: str, outcome: TurnOutcome) -> SendResult:
    ended = outcome.ended
    return SendResult(
        session=session,
        end=ended.end if ended is not None else None,
        text=ended.text if ended is not None else "",
        usage=ended.usage if ended is not None else None,
        failure=ended.failure if ended is not None else outcome.failure,
        question=outcome.question,
    )


def _show_end(result: SendResult, client: BackendClient) -> None:
    """Raise the error or the exit code for a turn that did not complete."""
    failure = result.failure
    if failure is not None and (result.end is None or UNREACHABLE in failure.text):
        lost = failure.cause == "upstream_lost" or UNREACHABLE in failure.text
        raise (ConfigError if lost else DragomanError)(client.explain(failure))
    if result.question is not None:
        raise typer.Exit(UNANSWERED)
    if result.end != "completed":
        how = "failed" if result.end in (None, "failed") else f"ended: {result.end.replace('_', ' ')}"
        why = f": {failure.text}" if failure is not None else ""
        raise DragomanError(f"the turn {how}{why}")


def _show_text(event: Event) -> None:
    if isinstance(event, TextDelta):
        typer.echo(printable(event.text), nl=False)
    elif isinstance(event, Asked) and not sys.stdin.isatty():
        typer.echo(f"\n\n{printable(question_words(event))}", nl=False)


def _ask(words: str) -> str | None:
    """Return the line that the user types at a question; None without a terminal, and at the end of the input.

    `words` is the question, or "" if it was printed before.
    """
    if not sys.stdin.isatty():
        return None
    typer.echo(f"\n\n{printable(words)}\n> " if words else "\n> ", nl=False, err=True)
    while not is_encodable(line := sys.stdin.readline()):
        typer.echo(f"{NOT_UTF8}\n> ", nl=False, err=True)
    return line or None
