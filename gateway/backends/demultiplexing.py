"""Pass answers and streamed text of a connection that carries many sessions to the right session.

SharedRequests   an answer goes to what asked      SharedTexts   a piece of streamed text, to the session it names
"""

from __future__ import annotations

from collections.abc import Callable

from msgspec import Struct

from dragoman.adapters.base import do_nothing
from dragoman.gateway.backends.asking import Asking
from dragoman.gateway.session.session import Session
from dragoman.mappings.canonical import Command, Event
from dragoman.mappings.canonical.events import TextDelta
from dragoman.mappings.dialect import Burst, DeltaType, StreamedBlock, TextSink


class SharedRequest(Struct, frozen=True, kw_only=True):
    """A request that waits for its answer.

    `session` is told if the connection is lost; None if none must be told. `asking` runs the script that asked.
    """

    answer: Callable[[Burst[Event]], None]
    session: Session | None = None
    asking: Asking[Command] | None = None

    def take_answer(self, answer: Burst[Event]) -> None:
        """Pass on the answer, and record it as a part of the session that asked."""
        if self.session is not None:
            self.session.delivery.enter()
        self.answer(answer)


class SharedRequests:
    """The requests of one connection that wait for their answers."""

    def __init__(self) -> None:
        self._waiting: dict[str, SharedRequest] = {}
        self._of_session: dict[str, set[str]] = {}  # session id -> ids of its requests

    def __len__(self) -> int:
        return len(self._waiting)

    def add(self, request: str, waiting: SharedRequest) -> None:
        self._waiting[request] = waiting
        if waiting.session is not None:
            self._of_session.setdefault(waiting.session.state.id, set()).add(request)

    def take(self, request: str) -> SharedRequest | None:
        """Return the request that an answer is for, and stop waiting for it."""
        waiting = self._waiting.pop(request, None) if request else None
        if waiting is not None and waiting.session is not None:
            of_session = self._of_session[waiting.session.state.id]
            of_session.discard(request)
            if not of_session:
                del self._of_session[waiting.session.state.id]
        return waiting

    def take_all(self) -> dict[str, SharedRequest]:
        """Return all requests, and stop waiting: the connection is lost."""
        waiting, self._waiting = self._waiting, {}
        self._of_session.clear()
        return waiting

    def drop_session(self, session: Session) -> None:
        """Drop the answers to a session that has ended; a late answer would create the session again."""
        for request in self._of_session.pop(session.state.id, ()):
            self._waiting[request] = SharedRequest(answer=do_nothing)


class SharedTexts:
    """The open text of all sessions that stream, as one block: a piece finds its session by its id at the backend."""

    delta: DeltaType = TextDelta  # no backend of many sessions reports reasoning

    def __init__(self) -> None:
        self._sinks: dict[str, TextSink] = {}

    def note(self, session: str, block: StreamedBlock | None) -> None:
        """Pass further pieces of a session's text to this block; with None, stop that."""
        if block is not None and block.delta is self.delta:
            self._sinks[session] = block.add_text
        else:
            self._sinks.pop(session, None)

    def clear(self) -> None:
        """Forget the blocks of all sessions, after the end of one. Each session that streams calls `note` again."""
        self._sinks.clear()

    def add_text(self, text: str, at: int, session: str) -> bool:
        """Append a piece of text to the open block of its session; return False if the session does not accept it."""
        sink = self._sinks.get(session)
        return sink is not None and sink(text, at, session)
