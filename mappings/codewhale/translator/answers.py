"""The answers to a codewhale client, in the form that each method requires (docs/dialects/codewhale.md, section 2)."""

from __future__ import annotations

from typing import Any

from msgspec import UNSET, Raw
from msgspec.structs import replace

from dragoman.mappings.bounded import remember
from dragoman.mappings.canonical import SessionState, commands, events
from dragoman.mappings.canonical.values import Ext
from dragoman.mappings.codewhale.from_canonical import replies
from dragoman.mappings.codewhale.from_canonical.context import Context, bundled
from dragoman.mappings.codewhale.from_canonical.events import FROM_EVENT, accepted
from dragoman.mappings.codewhale.from_canonical.generations import masked, result_in
from dragoman.mappings.codewhale.ids import answer_id
from dragoman.mappings.codewhale.translator import refusals
from dragoman.mappings.codewhale.vocabulary import (
    FAILED,
    HEAD,
    LATER,
    PROMPT_METHODS,
    SEED,
    app_facts,
    carried,
    given,
    methods,
    thread_methods,
)
from dragoman.mappings.codewhale.wire import results
from dragoman.mappings.codewhale.wire.codecs import EVENTS, typed
from dragoman.mappings.codewhale.wire.requests import OperationKey
from dragoman.mappings.codewhale.wire.results import Capabilities, Problem
from dragoman.mappings.dialect import Clock, Dialect, Loss
from dragoman.mappings.extras import raw
from dragoman.mappings.jsonrpc import PeerCall

SHOWN_MAX = 1_000
"""Maximum number of sessions that are remembered for one client. Above it, `thread/read` of the oldest has no history.

Each takes 0.5 KB, and its transcript as well (16 MiB at most, `transcript_max`). `memory` does not count the transcript
any more once the session itself is forgotten.
"""


class ThreadCall(PeerCall, kw_only=True, eq=False):
    """A client's request: the thread id that it names, and whether it is being executed."""

    thread: str = ""
    executing: bool = False


class Answers:
    """The answers to one client; `generation` is the one that we speak.

    They are about the sessions given to `note_session`.
    """

    def __init__(self, clock: Clock, generation: str) -> None:
        self._clock = clock
        self._generation = generation
        self._refuses_as = generation  # the generation in which unknown threads are refused
        self._sessions: dict[str, SessionState] = {}
        self._facts = Capabilities(methods=[])  # facts about the backend

    def note_backend(self, backend: Dialect) -> None:
        """Store the abilities of the backend for the answer to `capabilities`.

        The seed generation does not report them.
        """
        if self._generation != SEED:
            self._facts = Capabilities(
                turn_image_inputs=backend.takes_images or UNSET,
                keeps_context=True,
                methods=[],
            )

    def note_session(self, state: SessionState) -> None:
        """Remember a session that the client was shown."""
        remember(self._sessions, state.id, state, SHOWN_MAX)

    def _find_shown(self, session: str) -> SessionState | None:
        """Return the session that the client was shown, under this id or another one that it had then."""
        known = self._sessions.get(session)
        return known or next((state for state in self._sessions.values() if state.id == session), None)

    def note_params(self, ext: Ext | None) -> None:
        """Detect a client made for 0.10.2 by a param of its request that older servers ignore."""
        is_keyed = given(ext, "params", OperationKey, NO_KEY).operation_key is not None
        if self._generation == HEAD and (is_keyed or carried(ext, "allowed_tools") is not None):
            self._refuses_as = LATER

    def answer(self, call: ThreadCall, item: Any) -> list[Loss]:
        """Set the answer to a request that the gateway has answered with this item; return its losses."""
        command = call.command
        failure = getattr(item, "failure", None)
        if isinstance(command, commands.ShutdownBackend):
            self._set_answer(call, results.Stopped())  # a client's shutdown always succeeds
        elif isinstance(command, commands.CancelTurn) and (failure is None or failure.cause in NOTHING_RAN):
            self._set_answer(call, results.Interrupted(thread_id=call.thread, interrupted=failure is None))
        elif failure is not None and command is not None:
            self._set_answer(call, refusals.refusal(command, failure, call.thread, self._refuses_as))
        elif isinstance(item, events.SessionOpened) and (state := self._find_shown(item.session)) is not None:
            self.show_session(call, state)
        elif isinstance(item, events.Reply):
            self._set_answer(call, self._result_of(call, item))
        elif type(item) in ANSWERS:
            context = self._context(call)
            call.reply = tuple(bundled(FROM_EVENT.functions[type(item)](item, context)))
            return context.take_losses()
        else:
            call.reply = refused(call, Problem(code=FAILED, message="the backend gave no answer to this"))
            return [Loss(kind=type(item).__name__, why="codewhale has no form for this answer")]
        return []

    def send_capabilities(self, call: ThreadCall) -> None:
        """Answer with the capabilities of this server that the client asked for."""
        about = given(call.command.ext, "kind", str, "") if isinstance(call.command, commands.GetCapabilities) else ""
        self._set_answer(call, _capabilities(about, self._generation, self._facts))

    def show_session(self, call: ThreadCall, state: SessionState) -> None:
        """Answer with the requested session."""
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

    def ask_in_words(self, call: ThreadCall, question: events.QuestionAsked) -> list[bytes]:
        """Return the lines of a question in words, for the client whose `thread/message` is running."""
        context = self._context(call)
        context.response_id = _own_response(call)
        asked = (events.ModelTurnStarted(), question)
        return bundled(message for event in asked for message in FROM_EVENT.functions[type(event)](event, context))

    def _context(self, call: ThreadCall) -> Context:
        return Context(
            at=self._clock(),
            request=call.id or call.peer_id,
            asked=call.command,
            generation=self._generation,
        )

    def _set_answer(self, call: ThreadCall, reply: Any) -> None:
        if isinstance(reply, Problem):
            call.reply = refused(call, reply)
        else:
            call.reply = encoded(self._context(call).answer(reply))


NO_KEY = OperationKey()

NOTHING_RAN = ("not_running", "not_found")
"""Causes of failure of an interrupt which a server answers with a result, and no error."""

ANSWERS = frozenset((events.SessionOpened, events.SessionsListed, events.HistorySnapshot, events.Pong))

DONE: dict[type, str] = {
    commands.ArchiveSession: "archived",
    commands.UnarchiveSession: "unarchived",
    commands.ForkSession: "forked",
}
"""Commands whose result has only a status -> that status."""


def refused(call: ThreadCall, problem: Problem) -> tuple[bytes, ...]:
    """Return the answer to a request that is refused for this problem."""
    return encoded(results.Answer(id=answer_id(call.peer_id), error=problem))


def _own_response(call: ThreadCall) -> str:
    """Return a response id of our own, for a message that no turn of the backend answers."""
    return f"{call.thread}:{call.id.split()[1]}"


def encoded(answer: results.Answer) -> tuple[bytes, ...]:
    """Return the line of an answer, as the reply to its request."""
    return (EVENTS.encode(answer),)


def _capabilities(about: str, generation: str, facts: Capabilities) -> Any:
    """Return the capabilities of this server about `thread`, `prompt`, `app` or all methods."""
    match about:
        case "thread":
            return replace(facts, methods=thread_methods(generation))
        case "prompt":
            return Capabilities(methods=list(PROMPT_METHODS))
        case "app":
            return results.AppResponse(ok=True, data=raw(app_facts(generation)))
    families = ["thread/*", "app/*", "prompt/*"]
    return replace(facts, transport="stdio", families=families, methods=methods(generation))
