"""A route in memory: clients and a backend, frame by frame through the real router, session, links and
upstream.

The test plays every peer and moves the clock; a conversation is a Script. Each frame that a smooth
client is sent must be one that a strict client takes. The backend is a pod, or a smooth server.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Generator, Sequence
from contextlib import asynccontextmanager
from functools import cached_property, partial
from heapq import heappop, heappush
from itertools import count
from typing import Any

from msgspec import structs

from dragoman.adapters.base import CloseReason, Transport
from dragoman.gateway import registry
from dragoman.gateway.backends.target import RouteDials, UpstreamTarget
from dragoman.gateway.backends.upstream import Upstream
from dragoman.gateway.config.model import Limits, Overflow, Route
from dragoman.gateway.endpoint import Endpoint, parse
from dragoman.gateway.identity.principal import Principal
from dragoman.gateway.ingress import Ingress
from dragoman.gateway.link import Link, LinkEvents
from dragoman.gateway.observability.ledger import Ledger
from dragoman.gateway.peer import Peer
from dragoman.gateway.routing.ids import session_id
from dragoman.gateway.routing.router import Router
from dragoman.gateway.routing.sessions import RouteEvents
from dragoman.gateway.session.ports import BackendEvents
from dragoman.gateway.session.session import Session
from dragoman.gateway.upstreams import kind_of
from dragoman.mappings.canonical import Command
from dragoman.mappings.dialect import Burst, Parts
from tests.dialects import parts
from tests.gateway.pod_messages import run, say, snapshot
from tests.gateway.smooth_client_messages import CREATE, opened, send
from tests.gateway.smooth_server_messages import CREATED, acknowledged, create, told
from tests.idle import run_turns, settle
from tests.memory_transport import MemoryTransport
from tests.oracle import PandoOracle, PodOracle, SmoothOracle, heard
from tests.services import services
from tests.smooth_frame_check import check

LISTEN = (parse("smooth+ws://127.0.0.1:1/ws"),)
POD = parse("pod+unix:/pod")
SESSION = session_id("test", str(POD))
START = 1_700_000_000_000_000_000  # ns
AT_ONCE = 1e-9
NEVER = 1e6  # seconds: a backoff that no test waits for
LIMITS = Limits(backoff_first=AT_ONCE, backoff_max=AT_ONCE)


class ManualTimer:
    """A timer that fires when the test advances the clock."""

    def __init__(self, ring: Callable[[], None]) -> None:
        self.ring: Callable[[], None] | None = ring  # None once it has fired or was cancelled

    def cancel(self) -> None:
        self.ring = None


class ManualClock:
    """A clock with timers that advances only by `passes`. `error` is what its time of day is wrong by, in seconds."""

    def __init__(self, start: int = START) -> None:
        self.seconds = 0.0
        self.error = 0.0
        self._start = start
        self._timers: list[tuple[float, int, ManualTimer]] = []  # a heap
        self._numbers = count()

    def clock(self) -> int:
        return self._start + int((self.seconds + self.error) * 1e9)

    def monotonic(self) -> int:
        return self._start + int(self.seconds * 1e9)

    def later(self, delay: float, ring: Callable[[], None]) -> ManualTimer:
        timer = ManualTimer(ring)
        heappush(self._timers, (self.seconds + delay, next(self._numbers), timer))
        return timer

    @property
    def waiting(self) -> list[float]:
        """The seconds until each active timer fires."""
        return sorted(due - self.seconds for due, _, timer in self._timers if timer.ring is not None)

    def passes(self, seconds: float) -> None:
        """Advance the clock, and fire the timers that are due in their order."""
        end = self.seconds + seconds
        while self._timers and self._timers[0][0] <= end:
            self.seconds, _, timer = heappop(self._timers)
            if (ring := timer.ring) is not None:
                timer.ring = None
                ring()
        self.seconds = end

    async def elapses(self, seconds: float) -> None:
        """Advance the clock, and let the gateway act on the timers that fired."""
        self.passes(seconds)
        await settle()


class InMemoryPeer:
    """A peer played by the test; `news` are the frames that no step has checked yet."""

    def __init__(self, transport: MemoryTransport, link: Link | None = None) -> None:
        self.transport = transport
        self.seen = 0
        self.judged = True
        self.gone = False  # it hung up
        self._link = link
        self._said: list[tuple[int, bytes]] = []  # how many frames it had been sent, and what it then said

    @property
    def link(self) -> Link:
        assert self._link is not None
        return self._link

    def frames(self) -> list[dict[str, Any]]:
        """All frames that this peer was sent."""
        written = [frame for frame in self.transport.got if frame]  # a codewhale skips blank lines
        return [json.loads(frame.rpartition(b"\0")[2]) for frame in written]  # a publication has topics

    def news(self) -> list[dict[str, Any]]:
        frames = self.frames()[self.seen :]
        self.seen += len(frames)
        return frames

    def sends(self, *messages: dict[str, Any] | bytes) -> None:
        """Send these frames in one write."""
        frames = [m if isinstance(m, bytes) else json.dumps(m).encode() for m in messages]
        self._said += [(len(self.transport.got), frame) for frame in frames]
        self.transport.say(*frames)

    async def says(self, *messages: dict[str, Any] | bytes) -> None:
        """Send these frames, and let the gateway act on them."""
        self.sends(*messages)
        await settle()

    def calls(self, call: dict[str, Any] | bytes) -> None:
        """Send this call as a pando client."""
        body = call if isinstance(call, bytes) else json.dumps({"jsonrpc": "2.0", "id": "1", **call}).encode()
        self._said.append((len(self.transport.got), body))
        self.transport.say(Parts("rpc", b"", (b"", body)))

    def send_directly(self, router: Router, command: Command, action: str) -> None:
        """Pass a command to the router past its translator, which would refuse it; the client's record shows it as
        `action`.
        """
        said = {"action": action, "requestId": command.request}
        self._said.append((len(self.transport.got), json.dumps(said).encode()))
        router.receive(self.link, [Burst(items=[command])])

    def wire(self) -> list[tuple[str, bytes]]:
        """Return the sent and received frames, in their order."""
        wire, said = [], list(self._said)
        for at, frame in enumerate(self.transport.got):
            while said and said[0][0] <= at:
                wire.append(("said", said.pop(0)[1]))
            wire.append(("got", frame))
        return wire + [("said", frame) for _, frame in said]

    def judge(self, dialect: str, gaps: int = 0, *, lost_pod: bool = False) -> list[str]:
        """Return the open requests and turns; raise AssertionError if the frames are not in a legal order for a client.
        `gaps` is the number of gaps that the gateway counted, `lost_pod` True if it connected to its pod again.
        """
        oracle = parts(dialect).oracle()
        if isinstance(oracle, SmoothOracle):
            oracle.gaps = gaps
        elif isinstance(oracle, PandoOracle | PodOracle):
            oracle.lost_pod = lost_pod
        for way, frame in self.wire():
            if way == "said":
                heard(oracle, frame)
            else:
                oracle.got(json.loads(frame.rpartition(b"\0")[2]))
        return oracle.open


class InMemoryGateway:
    """A route in memory; `clients` by name, `pods` are the connections to the backend, newest last."""

    def __init__(
        self,
        group: asyncio.TaskGroup,
        limits: Limits,
        overflow: Overflow,
        upstream: Endpoint = POD,
        *,
        keeps: bool = True,
        dial: Callable[[], Awaitable[Transport]] | None = None,
        **options: Any,
    ) -> None:
        self.group = group
        self.limits = limits
        self.time = ManualClock()
        self.ledger = Ledger()
        self.clients: dict[str, InMemoryPeer] = {}
        self.pods: list[InMemoryPeer] = []
        self.dialled = 0
        self.refusals = 0  # how many attempts to connect still fail
        self.away = False  # all of them fail
        self.scripts: list[Script] = []
        self._ids = count(1)
        self._backend = registry.dialect(upstream.dialect)
        self._connect = dial or self._dial
        route = Route(name="test", listen=LISTEN, upstream=upstream, overflow=overflow, **options)
        self.services = services(self.time, limits=limits, ledger=self.ledger, new_id=self.new_id, group=group)
        kind = partial(kind_of, self._backend, make_backend=self._upstream, in_process=not keeps)
        self.shutdowns: list[str] = []  # the clients that said `shutdown`
        events = RouteEvents(on_shutdown=lambda link: self.shutdowns.append(link.id))
        self.router = Router(route, self.services, self._backend, kind, events=events)

    @cached_property
    def session(self) -> Session:
        """The first session; behind a pod there is always exactly one."""
        return self.router.sessions[0]

    def new_id(self) -> str:
        return f"00000000-0000-4000-8000-{next(self._ids):012d}"

    def _upstream(self, session: BackendEvents, endpoint: Endpoint) -> Upstream:
        dials = RouteDials(lambda: self.services.limits, self.services.monotonic)
        target = UpstreamTarget(endpoint=str(endpoint), dialect=self._backend, connect=self._connect, dials=dials)
        self.upstream = Upstream(target, session, self.services)
        return self.upstream

    async def _dial(self) -> Transport:
        self.dialled += 1
        if self.refusals or self.away:
            self.refusals -= not self.away
            raise ConnectionRefusedError(111, "nobody listens")
        transport = MemoryTransport()
        self.pods.append(InMemoryPeer(transport))
        return transport

    # -- peers -----------------------------------------------------------------------------------------

    @property
    def pod(self) -> InMemoryPeer:
        """The newest connection to the pod."""
        return self.pods[-1]

    def join(
        self,
        name: str,
        principal: str = "local",
        dialect: str = "smooth",
        ingress: Ingress = Ingress(),  # noqa: B008  # frozen
        limits: Limits | None = None,
        *,
        calls: bool = False,
    ) -> InMemoryPeer:
        """Connect a client by `ingress`; `limits` are those of its outbox. A pando client either `calls` or is the
        publication for all subscribers.
        """
        own = self.services if limits is None else structs.replace(self.services, limits=limits)
        transport, spoken = MemoryTransport(), registry.dialect(dialect)
        publication = None if calls else spoken.publication
        made = publication or spoken.server
        link = Link(
            Peer(
                id=name,
                dialect=spoken,
                principal=Principal(name=principal),
                ingress=ingress,
                attaches=not calls and publication is None,
                publishes=publication is not None,
                limited=publication is None,
            ),
            transport,
            made(self.time.clock, self.new_id),
            own,
            LinkEvents(sink=self.router.receive, drained=self.router.drained),
        )
        peer = self.clients[name] = InMemoryPeer(transport, link)
        peer.judged = not calls  # the oracle of a pando client judges what is published
        _ = self.services.start_task(self._serve(link), name)
        return peer

    async def _serve(self, link: Link) -> None:
        try:
            await link.run(self.router.connected)
        finally:
            self.router.gone(link)

    async def settle(self) -> None:
        """Run every task until it waits; while the backend is away, attempts to connect follow without end."""
        await (run_turns() if self.away else settle())

    def script(self) -> Script:
        """Return a new script, which runs when it is awaited."""
        script = Script(self)
        self.scripts.append(script)
        return script

    def connects(
        self, name: str, principal: str = "local", *, dialect: str = "smooth", limits: Limits | None = None
    ) -> Script:
        """Return a new script that begins with this step, as the two below do."""
        return self.script().connects(name, principal, dialect=dialect, limits=limits)

    def opens(self, name: str) -> Script:
        return self.script().opens(name)

    def asks_server(self, name: str, text: str) -> Script:
        return self.script().asks_server(name, text)

    def losses(self, kind: str) -> int:
        """Return the number of losses of this kind in the ledger."""
        return sum(entry.count for entry in self.ledger.entries() if entry.kind == kind)

    @property
    def gaps(self) -> int:
        """The number of gaps in the ledger, each counted once."""
        return sum(entry.count for entry in self.ledger.entries() if entry.kind == "Gap" and not entry.target)

    # -- the end ---------------------------------------------------------------------------------------

    async def end(self) -> None:
        """Assert that every script was run and that every frame was strict and in a legal order; then disconnect all
        clients.
        """
        assert all(script.held for script in self.scripts), "a script was written and never held: await it"
        for peer in self.clients.values():
            if peer.link.dialect.name == "smooth":
                for frame in peer.frames():
                    check(frame)
            if peer.judged:
                peer.judge(peer.link.dialect.name, self.gaps, lost_pod=len(self.pods) > 1)
            peer.link.end(CloseReason.DONE)
        await self.router.stop()
        assert not any(self.time.waiting), "a timer outlives the gateway"


@asynccontextmanager
async def in_memory_gateway(
    *, limits: Limits = LIMITS, overflow: Overflow = "coalesce", upstream: str = "pod", **options: Any
) -> AsyncIterator[InMemoryGateway]:
    """Run an in-memory gateway; all its tasks have ended when the block is left. `upstream` is the endpoint of its
    backend, or only its dialect; `options` are further keys of its route.
    """
    async with asyncio.timeout(20), asyncio.TaskGroup() as group:
        endpoint = parse(upstream) if "+" in upstream else parts(upstream).upstream
        made = InMemoryGateway(group, limits, overflow, endpoint, **options)
        yield made
        await made.end()


Step = Callable[[], object]


class Script:
    """A conversation: the frames that each peer sends, and exactly those that it then receives. `await ... `
    runs it. A frame that no step expected fails the script. Expected objects need only contain the named keys. None
    means that a key is absent, and "$name" matches any text, the same one each time. Sent frames may contain such
    names too, for ids that a peer has received.
    """

    def __init__(self, stage: InMemoryGateway) -> None:
        self._stage = stage
        self._steps: list[tuple[str, Step]] = []
        self._bound: dict[str, str] = {}
        self.held = False

    def __await__(self) -> Generator[Any, None, dict[str, str]]:
        return self._run().__await__()

    async def _run(self) -> dict[str, str]:
        self.held = True
        for number, (text, step) in enumerate(self._steps, start=1):
            try:
                step()
            except AssertionError as error:
                raise AssertionError(f"step {number}, {text}: {error}") from None
            await self._stage.settle()
        everybody = {**self._stage.clients, **{f"pod {n}": pod for n, pod in enumerate(self._stage.pods, 1)}}
        left = {name: news for name, peer in everybody.items() if (news := peer.news())}
        assert not left, f"said and not expected: {left}"
        return self._bound

    def _then(self, text: str, step: Step) -> Script:
        self._steps.append((text, step))
        return self

    # -- clients ---------------------------------------------------------------------------------------

    def connects(
        self, name: str, principal: str = "local", *, dialect: str = "smooth", limits: Limits | None = None
    ) -> Script:
        """Connect a client."""
        return self._then(
            f"{name} connects", lambda: self._ignore(self._stage.join(name, principal, dialect, limits=limits))
        )

    def opens(self, name: str) -> Script:
        """Connect a smooth client and open the session; a newly dialled pod sends its snapshot."""
        created = self.connects(name).sends(name, CREATE)._then("the pod shows itself", self._shows)
        return created.receives(name, opened("open"))

    def sends(self, name: str, *messages: dict[str, Any] | bytes) -> Script:
        """Send these frames as this client, in one write."""
        return self._then(f"{name} sends", lambda: self._stage.clients[name].sends(*map(self._filled, messages)))

    def submits(self, name: str, request: str, text: str) -> Script:
        """Send an input as this client, and assert that the pod receives it."""
        return self.sends(name, send(request, text)).pod_receives(run(text))

    def receives(self, name: str, *expected: dict[str, Any]) -> Script:
        """Assert that the client received exactly these frames since it was last checked."""
        return self._then(f"{name} receives", lambda: self._compare(self._stage.clients[name].news(), expected))

    def ignores(self, *names: str) -> Script:
        """Skip the frames that these clients have received since the last step."""
        return self._then(f"{names} were sent something", lambda: [self._stage.clients[name].news() for name in names])

    def leaves(self, name: str) -> Script:
        """Disconnect a client."""
        return self._then(f"{name} leaves", lambda: self._hang_up(self._stage.clients[name]))

    def stops_reading(self, name: str) -> Script:
        """Let a client read nothing more until `reads_on`."""
        return self._then(f"{name} stops reading", lambda: self._reading(name).clear())

    def reads_on(self, name: str) -> Script:
        """Let a client read everything that waits for it."""
        return self._then(f"{name} reads on", lambda: self._reading(name).set())

    # -- the pod ---------------------------------------------------------------------------------------

    def pod_sends(self, *messages: dict[str, Any] | bytes) -> Script:
        """Send these events as the pod, in one write."""
        return self._then("the pod sends", lambda: self._stage.pod.sends(*map(self._filled, messages)))

    def pod_receives(self, *expected: dict[str, Any]) -> Script:
        """Assert that the pod received exactly these methods since it was last checked."""
        return self._then("the pod receives", lambda: self._compare(self._stage.pod.news(), expected))

    def pod_dies(self) -> Script:
        """Lose the connection to the pod."""
        return self._then("the pod dies", lambda: self._hang_up(self._stage.pod))

    # -- the smooth server -----------------------------------------------------------------------------

    def asks_server(self, name: str, text: str) -> Script:
        """Connect a pod client whose input opens a session at the server; its turn there is "$t"."""
        return (
            self.connects(name, dialect="pod")
            .receives(name, say("snapshot"))
            .sends(name, run(text))
            .server_receives(create("$open"))
            .server_sends(acknowledged("$open", **CREATED))
            .server_receives(told("$t", text))
        )

    def server_sends(self, *messages: dict[str, Any]) -> Script:
        """Send these events as the smooth server, in one write."""
        return self._then("the server sends", lambda: self._stage.pod.sends(*map(self._filled, messages)))

    def server_receives(self, *expected: dict[str, Any]) -> Script:
        """Assert that the smooth server received exactly these actions since it was last checked."""
        return self._then("the server receives", lambda: self._compare(self._stage.pod.news(), expected))

    def server_dies(self) -> Script:
        """Lose the connection to the smooth server."""
        return self._then("the server dies", lambda: self._hang_up(self._stage.pod))

    # -- the world -------------------------------------------------------------------------------------

    def passes(self, seconds: float) -> Script:
        """Advance the clock by this many seconds."""
        return self._then(f"{seconds} s pass", lambda: self._stage.time.passes(seconds))

    def sees(self, claim: str, holds: Callable[[], bool]) -> Script:
        """Assert that `holds()` is true now."""

        def look() -> None:
            assert holds(), "it does not hold"

        return self._then(claim, look)

    # --------------------------------------------------------------------------------------------------

    def _shows(self) -> None:
        if self._stage.pods and not self._stage.session.state.backend.name:
            self._stage.pod.sends(snapshot())

    def _hang_up(self, peer: InMemoryPeer) -> None:
        peer.transport.hang_up()

    def _filled(self, part: Any) -> Any:
        """Return a message with its "$names" filled in."""
        if isinstance(part, dict):
            return {key: self._filled(value) for key, value in part.items()}
        if isinstance(part, list):
            return [self._filled(value) for value in part]
        return self._bound[part] if isinstance(part, str) and part.startswith("$") else part

    def _reading(self, name: str) -> asyncio.Event:
        return self._stage.clients[name].transport.reading

    def _ignore(self, _peer: InMemoryPeer) -> None:
        """Ignore a value, as the result of a lambda."""

    def _compare(self, got: Sequence[dict[str, Any]], expected: Sequence[dict[str, Any]]) -> None:
        right = len(got) == len(expected) and all(
            self._matches(part, frame) for part, frame in zip(expected, got, strict=True)
        )
        lines = ["expected", *map(json.dumps, expected), f"but got, with {self._bound}", *map(json.dumps, got)]
        assert right, "\n    ".join(lines)

    def _matches(self, part: Any, value: Any) -> bool:
        if isinstance(part, dict):
            return isinstance(value, dict) and all(self._matches(part[key], value.get(key)) for key in part)
        if isinstance(part, list):
            return (
                isinstance(value, list)
                and len(part) == len(value)
                and all(self._matches(p, v) for p, v in zip(part, value, strict=True))
            )
        if isinstance(part, str) and part.startswith("$"):
            return isinstance(value, str) and self._bound.setdefault(part, value) == value
        return bool(part == value)
