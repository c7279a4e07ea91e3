"""The connection of a session to its backend: connect, connect again, and never repeat a command.

The connection is made when the first link attaches, and kept while the session lives. A lost connection is reported to
the session at once. The next attempt waits with backoff and jitter, unless a command needs the backend: then it is made
now, and the command is either written once or answered with the reason why not. If the open turn may outlive its
connection, the first attempt is made at once, and further ones soon, until `reconnect_grace` ends.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import random
from collections.abc import Sequence
from functools import partial

import structlog

from dragoman.adapters.base import CloseReason, Transport
from dragoman.adapters.flag import Flag
from dragoman.gateway.backends.target import ConnectionReport, UpstreamTarget
from dragoman.gateway.first_frames import QUOTED, FirstFrames, import_others
from dragoman.gateway.link import Link, LinkEvents
from dragoman.gateway.observability.trace_context import OUTGOING
from dragoman.gateway.overload.fair_queue import DIAL
from dragoman.gateway.peer import Peer
from dragoman.gateway.public_reason import exit_reason, full_reason, public_reason, without_secrets
from dragoman.gateway.services import Services
from dragoman.gateway.session.ports import BackendEvents
from dragoman.gateway.session.wording import UNREACHABLE
from dragoman.gateway.transports import ChildTransport
from dragoman.mappings.canonical import Command, Event, SessionState
from dragoman.mappings.canonical.values import Cause
from dragoman.mappings.dialect import Burst, Frame, Translator
from dragoman.mappings.rfc3339 import NS

log = structlog.get_logger("dragoman.upstream")


class Upstream:
    """The connection of a session, or of all sessions of a backend, to a backend that we dial."""

    # Slots, because each session has one.
    __slots__ = (
        "_ended_by_peer",
        "_first",
        "_is_suspended",
        "_link",
        "_lost_at",
        "_may_go_on",
        "_over_at",
        "_report",
        "_running",
        "_services",
        "_session",
        "_stopped",
        "_target",
        "_translator",
        "_waiting",
        "_wanted",
    )

    def __init__(self, target: UpstreamTarget, session: BackendEvents, services: Services) -> None:
        self._target = target
        self._report = ConnectionReport(session.state, target, services.clock)
        self._session = session
        self._services = services
        self._link: Link | None = None
        self._first: FirstFrames | None = None
        self._waiting: list[Command] = []
        self._wanted = Flag()
        self._running = False
        self._is_suspended = False
        self._stopped = False
        self._ended_by_peer = False  # the backend ended the last connection, so the connection may be closed now
        self._over_at = 0  # ns: when the last connection ended, before the session was told
        self._lost_at: int | None = None  # ns: when the connection was lost in a turn
        self._may_go_on = False  # True if that turn may continue over a new connection
        self._translator: Translator[Event, Command] | None = None

    def start(self) -> None:
        # A backend that opens conversations is dialled with the first command that needs it.
        if self._target.dialect.single_session or self._target.dialect.session_ref is not None:
            self._connect_now()

    def _connect_now(self) -> None:
        self._is_suspended = False
        if not self._running and not self._stopped:
            self._running = True
            self._services.queue.spend(DIAL)
            _ = self._services.start_task(self._keep_connected(), f"{self._session.state.id}:upstream")

    def send(self, commands: Sequence[Command]) -> None:
        if self._link is not None and self._link.alive:
            self._link.send(commands)
            return
        room = self._services.limits.unsent_commands - len(self._waiting)
        self._waiting += commands[:room]
        if commands[room:]:
            self._session.lost(
                "too many commands wait for a connection to the backend (`unsent_commands`)", commands[room:], "busy"
            )
        self._wanted.set()
        self._connect_now()

    def attach(self, state: SessionState) -> None:
        """Attach the translator to this session now, or once the connection is established."""
        if self._link is not None and self._link.alive:
            self._link.attach(state, "")

    def detach(self, state: SessionState) -> None:
        """Detach the translator of the connection from a session that no client uses any more."""
        if self._translator is not None:
            self._translator.detach(state)

    def fail(self, error: Exception) -> None:
        """Disconnect the backend after work for it raised this exception."""
        if self._link is not None:
            self._link.fail(error)

    def suspend(self) -> bool:
        if self._target.children.is_needed(self):
            return True
        self._is_suspended = True
        self._close()
        return False

    def stop(self) -> None:
        self._stopped = True
        self._close()

    def _close(self) -> None:
        self._wanted.set()
        link = self._link
        if self.is_spare:
            self._link = None  # a command that comes now waits for the next connection
        if link is not None:
            link.end(CloseReason.DONE)

    @property
    def is_spare(self) -> bool:
        """True if the connection is established, and its session loses nothing when it is closed and made again."""
        is_up = self._link is not None and self._link.alive
        return is_up and self._translator is not None and self._translator.may_be_closed()

    @property
    def state(self) -> SessionState:
        return self._session.state

    @property
    def _ending(self) -> bool:
        return self._stopped or self._is_suspended

    async def _keep_connected(self) -> None:
        self._target.status.wanted += 1
        try:
            failures = 0
            while not self._ending:
                self._wanted.clear()
                self._target.status.attempts += 1
                OUTGOING.set(self._target.headers())  # a context variable, set for this task alone
                try:
                    deadline = self._services.limits.connect_deadline if self._target.failover is None else None
                    transport = await self._target.dials.connect(self._report.endpoint, self._target.connect, deadline)
                except OSError as error:  # TimeoutError is one
                    self._note_unreachable(error)
                    failures += 1
                else:
                    self._report.note_reached()
                    heard = await self._serve(transport)
                    failures = 0 if heard else failures + 1  # a backend that only accepts is not dialled again at once
                    if self._may_go_on and heard:
                        was_in_grace = self._is_in_grace()
                        self._lost_at = self._over_at
                        if not was_in_grace:
                            continue
                await self._pause(0 if self._is_in_grace() else failures)
            self._running = False
        finally:
            self._target.status.wanted -= 1

    def _note_unreachable(self, error: OSError) -> None:
        """Fail the commands that wait for a backend that cannot be reached."""
        late = f"no connection within {self._services.limits.connect_deadline:g} s"
        self._report.note_unreachable(full_reason(error) or late)
        unsent, self._waiting = self._waiting, []
        cause: Cause = "busy" if error.errno == errno.EBUSY else "upstream_lost"
        text = f"{UNREACHABLE}: {public_reason(error) or late}"
        self._may_go_on = self._session.lost(text, unsent, cause)

    def _is_in_grace(self) -> bool:
        """Return True while a turn that was open when the connection was lost may be recovered."""
        grace = int(self._services.limits.reconnect_grace * NS)
        return self._lost_at is not None and self._services.monotonic() - self._lost_at < grace

    async def _serve(self, transport: Transport) -> bool:
        """Use this connection until it ends; return True if the backend sent anything."""
        if self._ending:  # while we were connecting
            await transport.close()
            self._report.note_unused()
            return False
        services = self._services
        if self._translator is None or not (self._may_go_on and self._is_in_grace()):
            self._translator = self._target.dialect.client(services.clock, services.new_id, services.monotonic)
        self._first = FirstFrames(
            self._target.dialect,
            services.all_dialects,
            services.schedule,
            self._give_up,
            lambda: services.start_task(import_others(services.all_dialects), f"{self._session.state.id}:import"),
        )
        traffic = self._services.ledger.counted_traffic(self._target.dialect.name, "backend")
        link = Link(
            Peer(id=f"{self._session.state.id}:up", dialect=self._target.dialect, traffic=traffic),
            transport,
            self._translator,
            self._services,
            LinkEvents(sink=self._receive, over=partial(self._link_over, transport), understands=self._understands),
            self._target.tap,
        )
        self._link = link
        self._report.note_start()
        is_child = isinstance(transport, ChildTransport)
        try:
            with self._target.children.holding(self, self._translator) if is_child else contextlib.nullcontext():
                await link.run(self._begin)
        finally:
            self._link = self._first = None
            self._report.note_end(heard=link.intake.heard, by_peer=self._ended_by_peer)
        return link.intake.heard

    def _understands(self, frames: Sequence[Frame]) -> bool:
        if self._first is None or not self._first.take(frames):
            return False
        self._first = None
        self._report.note_heard()
        return True

    def _give_up(self, first: FirstFrames) -> None:
        """Disconnect a backend that speaks another dialect.

        The commands that wait for it fail with the complaint of `first`.
        """
        if first is self._first and self._link is not None:  # else they are those of an earlier connection
            self._report.note_wrong_dialect(first)
            self._link.end(CloseReason.PROTOCOL, f"it {first.complaint(quoted=False)}")

    def _link_over(self, transport: Transport, link: Link) -> None:
        """Report the lost connection before it is closed, because the end of a child may take seconds."""
        self._ended_by_peer = self._link is link and not self._ending
        if self._stopped or self._link is not link:
            return
        refusal = self._first.refusal if self._first is not None else ""
        reason = (without_secrets(refusal, QUOTED) or exit_reason(transport)) if self._ended_by_peer else ""
        text = "the connection to the backend was lost"
        wrong = self._first if self._first is not None and self._first.are_wrong else None
        if wrong is not None:
            text = f"the backend {wrong.complaint(quoted=False)}"
            self._report.note_wrong_dialect(wrong)
        if self._ended_by_peer:
            self._report.note_lost(text, reason, is_wrong=wrong is not None)
        if reason:
            text = f"{text}: {public_reason(OSError(reason))}"
        if self._translator is not None:
            self._session.state.abandoned = self._translator.unfinished_turn()
        self._over_at = self._services.monotonic()
        self._may_go_on = self._session.lost(text, [])

    def _receive(self, link: Link, bursts: list[Burst[Event]]) -> None:
        link.intake.stream_text(self._session.receive(bursts))

    def _begin(self, link: Link) -> None:
        link.greet()
        self._session.connected()
        link.attach(state := self._session.state, "")
        state.abandoned = ""  # the translator knows it now
        waiting, self._waiting = self._waiting, []
        if waiting:
            link.send(waiting)

    async def _pause(self, failures: int) -> None:
        """Wait before the next attempt, until a command needs the backend."""
        if self._ending:
            return
        delay = min(self._services.limits.backoff_max, self._services.limits.backoff_first * 2 ** min(failures, 16))
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(delay * random.uniform(0.5, 1.0)):  # noqa: S311  # jitter, not a secret
                await self._wanted.wait()
