"""The protocols through which a session uses links, backends and recorders, none of which it imports.

    Client          one live peer that is attached to the session, or calls it     gateway.link.Link
    Backend         takes the commands of the session                        gateway.backends.upstream.Upstream
    BackendEvents   what the backend calls; the session implements it        gateway.session.session.Session
    EventRecorder   records what happens in the session                      gateway.recording: SessionRecorder
    Effects         what the parts of the session do to it                   gateway.session.session.Session

Timers come from `Services.schedule` (gateway/timers.py).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Protocol

import structlog

from dragoman.adapters.base import CloseReason
from dragoman.adapters.meter import Meter
from dragoman.gateway.observability.trace_context import TraceContext
from dragoman.gateway.outbox import Outbox
from dragoman.gateway.session.runs import Run
from dragoman.mappings.alike import Around
from dragoman.mappings.canonical import Batch, Command, Event, SessionState
from dragoman.mappings.canonical.events import SessionOpened
from dragoman.mappings.canonical.values import Cause, Failure, SessionSummary
from dragoman.mappings.dialect import Burst, Dialect, StreamedBlock
from dragoman.mappings.errors import PeerError


class Client(Protocol):
    """A live peer that attaches to a session or calls it.

    `id` is unique in this process, `principal` names the user, and `trace` is the trace context that it came with.
    `attaches` is False for a peer that only makes calls and gets only their answers. `publishes` is True for the peer
    that stands for all subscribers. `outbox` has the frames that wait for it; `alive` is False once it is gone.

    `sessions` has the ids of the sessions to which it is attached or waits to be attached. `behind` has those with
    events that it was not sent. So no other session is involved when a client leaves or catches up. `meter` counts the
    memory that the gateway holds for it.
    """

    id: str
    dialect: Dialect
    principal: str
    trace: TraceContext | None
    attaches: bool
    publishes: bool
    alive: bool
    outbox: Outbox
    meter: Meter
    sessions: dict[str, None]
    behind: dict[str, None]

    @property
    def log(self) -> structlog.stdlib.BoundLogger:
        """Return the log whose lines name this client."""

    @property
    def view(self) -> str:
        """Name of the peer's view of a session: clients of one view share a rendering."""

    def attach(self, state: SessionState, request: str) -> None:
        """Show the session to the peer."""

    def send(self, items: Sequence[Any]) -> None:
        """Send canonical items to this peer alone."""

    def refuse(self, request: str, cause: Cause, text: str) -> None:
        """Answer a command of this peer with an error."""

    @property
    def put(self) -> Callable[[Sequence[bytes]], None]:
        """Return the function that records rendered frames, and writes or queues them.

        A stream of text records its pieces itself, and calls `outbox.put`.
        """

    def can_be_asked(self, question: Event) -> bool:
        """Return True if the peer's dialect has a form for this question."""

    def on_delivered(self, batch: Batch) -> None:
        """Handle the delivery of a batch that begins or ends a turn of this peer."""

    def add_work(self, slices: Iterator[None]) -> None:
        """Do work for this peer in slices, after its earlier work; other peers are served between them."""

    def cut(self, fault: PeerError) -> None:
        """Disconnect the peer for this fault, and drop the frames that wait for it."""

    def end(self, reason: CloseReason) -> None:
        """Disconnect the peer after the frames that wait for it are written."""


class Backend(Protocol):
    """The backend of one session: dialled (Upstream), or played in process (the demo backend)."""

    def start(self) -> None:
        """Connect for a client that has attached, if the backend describes its session to each connection."""

    def send(self, commands: Sequence[Command]) -> None:
        """Write each command once, now or when the connection is established; report those that fail to `lost`."""

    def suspend(self) -> bool:
        """Close an idle connection until the next `start` or `send`.

        Return True if it stays open, because other sessions need it now.
        """

    def stop(self) -> None:
        """Close the connection; it is not used again."""


class BackendEvents(Protocol):
    """The calls that a backend makes to its session."""

    def receive(self, bursts: list[Burst[Event]]) -> StreamedBlock | None:
        """Handle events of the backend. If they are a few pieces of a block, return the block, for further pieces."""

    @property
    def state(self) -> SessionState:
        """Return the state of the session whose connection this is."""

    def connected(self) -> None:
        """Note a new connection, before its translator is attached to any session."""

    def lost(self, text: str, unsent: Sequence[Command], cause: Cause = "upstream_lost") -> bool:
        """Handle a backend that cannot be reached; `unsent` were never written. The cause `busy` is temporary.

        Return True if a turn may continue over a new connection: the backend then connects immediately, and keeps its
        translator.
        """


class EventRecorder(Protocol):
    """The recording of one session. `enter` and `batch` return a token: the session that acted before."""

    def enter(self) -> Any:
        """Make this the acting session, to which the frames that are sent meanwhile belong."""

    def batch(self, batch: Batch) -> Any:
        """Record events that were added to the log, and make this the acting session."""

    def leave(self, before: Any) -> None:
        """Make the session of this token the acting one again."""

    def open_text(self, links: Sequence[Sequence[str]], around: Sequence[Around | None]) -> TextRecorder:
        """Return the recorder of further pieces of the open text, rendered for each of these groups of links.

        `around` has the strings around the text in the frames of each group, None if its frames differ in more.
        """


class TextRecorder(Protocol):
    """The recording of further pieces of one open text."""

    def add_text(self, text: str, seq: int, at: int, rendered: Sequence[Sequence[bytes]]) -> bool:
        """Record a piece and its frames, with its number and time in the log. Return False if this is not possible."""


class Effects(Protocol):
    """The effects that the parts of a session have on it.

    They are calls, and not a list of values as in mappings, because most must be done at once (docs/design.md, section
    5): an input is accepted before the events after it are read, a request has its id before its answer comes.
    """

    backend: Backend

    def deliver(self, runs: list[Run], at: int) -> None:
        """Append runs to the log, and deliver them to every client."""

    def deliver_event(self, event: Event) -> None:
        """Deliver an event of the gateway itself to all clients."""

    def note_quiet(self) -> None:
        """Update whether the session is busy, after a turn or input may have begun or ended."""

    def give_up(self, failure: Failure) -> None:
        """Fail the open turn, and all commands that wait for the backend."""

    def opened(self, event: SessionOpened) -> Effects:
        """Store the names that the backend gave the session.

        Return the session to attach clients to, which may be another one.
        """

    def show(self, client: Client, request: str, event: SessionOpened, next_command: Command | None) -> None:
        """Attach the client that asked for the session, and perform the command that it sent for it."""

    def refused(self) -> None:
        """Drop the session: its backend did not open it."""

    def summary(self) -> SessionSummary:
        """Return the row of the session in a list."""

    def on_last_detach(self) -> None:
        """Handle the detachment of the last client."""

    def suspended(self) -> None:
        """Handle a session that had neither a client nor a turn for `session_ttl`."""
