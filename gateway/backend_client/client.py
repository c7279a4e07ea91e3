"""A client of one backend with blocking calls, for `dragoman send`, `chat` and `drive`.

    caller's thread                              thread with an event loop
    BackendClient.send_command -> commands ->    InProcessTransport -> gateway -> backend
    next_event                 <- bounded queue  <- canonical events

The gateway runs in a thread of its own. So the caller may block in a terminal, and Ctrl-C is an ordinary
KeyboardInterrupt.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import count
from queue import Empty, SimpleQueue

from msgspec import structs

from dragoman.gateway import registry
from dragoman.gateway.app import App
from dragoman.gateway.backend_client.app_thread import AppThread
from dragoman.gateway.backend_client.in_process import InProcessEvent, InProcessTransport, in_process_dialect
from dragoman.gateway.config.check import check_route
from dragoman.gateway.config.model import Config, Limits, Route
from dragoman.gateway.endpoint import Endpoint
from dragoman.gateway.public_reason import HIDDEN
from dragoman.gateway.session.wording import UNREACHABLE
from dragoman.mappings.canonical import Command
from dragoman.mappings.canonical.commands import OpenSession, ResumeSession
from dragoman.mappings.canonical.events import Reply
from dragoman.mappings.canonical.values import Cause, Failure
from dragoman.mappings.errors import ConfigError

ROUTE = "client"
OPEN_DEADLINE = 15.0  # seconds: above Limits.open_deadline, so that the gateway's own error comes first
DRAIN = 1.0  # seconds for the gateway to end what is open
QUEUE = 1024  # events that the caller has not taken: many times the lines of a screen


class OpeningError(ConfigError):
    """Raised if the backend opens no session for the client. `cause` says why."""

    def __init__(self, cause: Cause, text: str) -> None:
        super().__init__(text)
        self.cause: Cause = cause


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
        self._gateway = AppThread(self._app, "dragoman:client", self._fail)
        # Not a Queue, whose lock Python code takes: Ctrl-C at that moment would leave it locked forever.
        self._waiting: SimpleQueue[InProcessEvent | BaseException] = SimpleQueue()
        self._lock = threading.Lock()
        self._prompting: Callable[[InProcessEvent], None] | None = None
        self._transport: InProcessTransport | None = None
        self._requests = count(1)
        self.session = ""

    def __enter__(self) -> BackendClient:
        self._gateway.__enter__()
        return self

    def __exit__(self, *_error: object) -> None:
        self._leave()
        self._gateway.__exit__()

    def _fail(self, error: BaseException) -> None:
        with self._lock:
            self._waiting.put(error)

    # -- sessions ----------------------------------------------------------------------------------------

    def open(self, session: str = "") -> None:
        """Open a new session, or resume a named one; raise OpeningError if the backend does not.

        The client leaves the session that it was shown before.
        """
        self._leave()
        transport = self._transport = InProcessTransport(lambda incoming: self._take(transport, incoming))
        self._gateway.call(self._app.join, in_process_dialect(self._dialect), transport)
        request = self.send_command(ResumeSession(session=session) if session else OpenSession())
        deadline = time.monotonic() + OPEN_DEADLINE
        while (incoming := self.next_event(deadline - time.monotonic())) is not None:
            if incoming.attached:
                self.session = incoming.attached
                if session and session not in incoming.names:
                    self._leave()
                    raise OpeningError(
                        "not_found", f"the backend has no session {session!r}; it shows {incoming.attached}"
                    )
                return
            event = incoming.event
            if isinstance(event, Reply) and event.request == request and event.failure is not None:
                missing = session and event.failure.cause == "not_found"
                who = f"the backend has no session {session!r}: " if missing else ""
                why = self.explain(event.failure)
                named = why.startswith(UNREACHABLE) or self._endpoint.masked in why
                text = f"{who}{why}" if named else f"{who}{why} ({self._endpoint.masked})"
                raise OpeningError(event.failure.cause, text)
        text = f"the backend {self._endpoint.masked} did not open a session within {OPEN_DEADLINE:g} s"
        raise OpeningError("timeout", text)

    def explain(self, failure: Failure) -> str:
        """Return the text of a failure.

        That of a lost backend includes the address, which is hidden only from remote clients.
        """
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
            self._gateway.call(transport.end)

    # -- commands and events -----------------------------------------------------------------------------

    def send_command(self, command: Command) -> str:
        """Send a command; return its request id, which the answer repeats."""
        request = f"client-{next(self._requests)}"
        if self._transport is not None:
            self._gateway.call(self._transport.send_command, structs.replace(command, request=request))
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
    def prompting(self, on_event: Callable[[InProcessEvent], None]) -> Iterator[None]:
        """Call `on_event` with each event, from either thread, while the caller waits for input of the user."""
        with self._lock:
            while not self._waiting.empty():
                incoming = self._waiting.get_nowait()
                if isinstance(incoming, BaseException):
                    raise incoming
                on_event(incoming)
            self._prompting = on_event
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
