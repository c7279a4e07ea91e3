"""G9: many sessions at reading speed, each token alone; CPU of dragoman an event against the naive bridge, both ways.

Here the kernel's part is the largest: a wake, a read and a write for each token (docs/performance.md, section 0). The
load (backends, clients, the clock) is this process on one core, the bridge another process on the other; what it costs
to connect is not counted. Each session is checked whole.

A pod is one session, on either side: dragoman gets a route for each pod, and a listener for each pod client. The naive
bridge needs neither: it has one connection to the backend for each client.
"""

from __future__ import annotations

import selectors
import socket
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

from msgspec import Struct

from tests.bench.backend import answer
from tests.bench.backends import PodConversation, SmoothConversation
from tests.bench.client import Client
from tests.bench.pod_client import PodClient
from tests.bench.processes import Process, cores, pin

__all__ = [
    "BRIDGES",
    "DRAGOMAN",
    "FROM_POD",
    "NAIVE",
    "QUICK_SECONDS",
    "RECORDING",
    "SECONDS",
    "SESSIONS",
    "WAYS",
    "Sample",
    "measure",
    "sample",
]

DRAGOMAN, NAIVE = "dragoman", "naive websockets"
RECORDING = "dragoman, recording"  # for recording.py: to smooth clients alone
BRIDGES = (NAIVE, DRAGOMAN)
FROM_POD, FROM_SMOOTH = "a pod's tokens to smooth clients", "a smooth server's tokens to pod clients"
WAYS = (FROM_POD, FROM_SMOOTH)

# with RATE 15,000 tokens a second, as in docs/performance.md's table of scaling: what one core can offer
SESSIONS = 250
RATE = 60  # tokens a second and session, as docs/performance.md measures "steady"
SECONDS, QUICK_SECONDS = 5, 2

Conversation = PodConversation | SmoothConversation
Load = tuple[Process, Sequence[Client | PodClient], list[Conversation]]
"""A bridge, its clients, and the backend's end of each one's turn."""


class Sample(Struct, frozen=True, kw_only=True):
    """The result of a bridge in a round and direction.

    `seconds` is what the tokens took, `planned` what they should take.
    """

    way: str
    bridge: str
    events: int
    cpu: float
    seconds: float
    planned: float

    @property
    def cost(self) -> float:
        """Seconds of CPU an event."""
        return self.cpu / self.events


def measure(rounds: int, quick: bool) -> list[list[Sample]]:
    """The samples of each round."""
    pair = cores()
    if pair is not None:
        pin(pair[0])
    core = pair[1] if pair else None
    seconds = QUICK_SECONDS if quick else SECONDS
    return [[sample(way, bridge, seconds, core) for way in WAYS for bridge in BRIDGES] for _ in range(rounds)]


def sample(way: str, bridge: str, seconds: int, core: int | None) -> Sample:
    print(f"steady: {bridge}, {way} ...", file=sys.stderr, flush=True)
    with tempfile.TemporaryDirectory(prefix="dragoman-bench-") as folder, ExitStack() as stack:
        set_up = _from_pod if way == FROM_POD else _from_smooth
        process, clients, conversations = stack.enter_context(set_up(Path(folder), bridge, core))
        count = RATE * seconds
        before, started = process.cpu(), time.perf_counter()
        _stream(clients, conversations, count)
        taken, cpu = time.perf_counter() - started, process.cpu() - before
        expected = answer(count)
        for client in clients:
            seen = client.seen()
            assert seen.text == expected, f"{len(seen.text)} characters in tokens instead of {len(expected)}"
            assert seen.final == expected, f"{len(seen.final)} characters at the end instead of {len(expected)}"
            client.close()
    return Sample(way=way, bridge=bridge, events=SESSIONS * count, cpu=cpu, seconds=taken, planned=seconds)


def _stream(clients: Sequence[Client | PodClient], conversations: list[Conversation], count: int) -> None:
    """Each conversation says `count` tokens, one after the other evenly spread; until every client has its end."""
    selector = selectors.DefaultSelector()
    for client in clients:
        selector.register(client, selectors.EVENT_READ, client)
    open_turns = len(clients)

    def read_until(moment: float) -> None:
        nonlocal open_turns
        while open_turns:
            for key, _ in selector.select(max(0.0, moment - time.perf_counter())):
                if key.data.take():
                    open_turns -= 1
                    selector.unregister(key.fileobj)
            if time.perf_counter() >= moment:
                return

    due, step = time.perf_counter(), 1 / (RATE * len(conversations))
    for _ in range(count):
        for conversation in conversations:
            read_until(due)
            conversation.token()
            due += step
    for conversation in conversations:
        conversation.finish()
    read_until(time.perf_counter() + 60.0)
    assert not open_turns, f"{open_turns} sessions have no end"


# -- both ways ----------------------------------------------------------------------------------------


@contextmanager
def _from_pod(folder: Path, bridge: str, core: int | None) -> Iterator[Load]:
    """Smooth clients of pods."""
    with ExitStack() as stack:
        pods = 1 if bridge == NAIVE else SESSIONS
        paths = [folder / f"{n}" for n in range(pods)]
        listeners = [stack.enter_context(_listener(path)) for path in paths]
        process = stack.enter_context(_bridge_to_pods(folder, bridge, paths, core))
        clients, conversations = [], []
        for n in range(SESSIONS):
            endpoint = process.endpoints[n % pods]
            client = Client(endpoint.partition("+")[2])
            conversation = PodConversation(listeners[n % pods].accept()[0])
            clients.append(client)
            conversations.append(conversation)
            _begin(client, conversation.accept_run, n)
        yield process, clients, list(conversations)


def _bridge_to_pods(folder: Path, bridge: str, paths: list[Path], core: int | None) -> Process:
    if bridge == NAIVE:
        return Process("tests.bench.naive_websockets", str(paths[0]), core=core)
    routes = [
        f'[[route]]\nname = "{path.name}"\nlisten = ["smooth+ws://127.0.0.1:0/ws"]\nupstream = "pod+unix:{path}"\n'
        for path in paths
    ]
    if bridge == RECORDING:
        routes.append(f'[recording]\npath = "{folder}/rec"\ncompress = false\n')
    config = folder / "config.toml"
    config.write_text("\n".join(routes))
    arguments = ("dragoman", "serve", "--config", str(config), "--log-level", "warning")
    return Process(*arguments, core=core, listeners=len(paths))


@contextmanager
def _from_smooth(folder: Path, bridge: str, core: int | None) -> Iterator[Load]:
    """Pod clients of a smooth server."""
    paths = [folder / f"{n}" for n in range(1 if bridge == NAIVE else SESSIONS)]
    with ExitStack() as stack:
        listener = stack.enter_context(socket.create_server(("127.0.0.1", 0)))
        listener.settimeout(20)
        url = f"ws://127.0.0.1:{listener.getsockname()[1]}/ws"
        arguments: tuple[str, ...] = ("tests.bench.naive_reverse", str(paths[0]), url)
        if bridge == DRAGOMAN:
            doors = [f"pod+unix:{path}" for path in paths]
            arguments = ("dragoman", "bridge", *doors, f"smooth+{url}", "--log-level", "warning")
        process = stack.enter_context(Process(*arguments, core=core, listeners=len(paths)))
        clients, conversations = [], []
        for n in range(SESSIONS):
            client = PodClient(str(paths[n % len(paths)]))
            client.begin(str(n))
            conversation = SmoothConversation(listener.accept()[0])
            assert conversation.accept_run() == n
            clients.append(client)
            conversations.append(conversation)
        yield process, clients, list(conversations)


def _begin(client: Client, accept_run: Callable[[], int], n: int) -> None:
    client.begin(str(n))
    assert accept_run() == n, "every client has a conversation of its own"


@contextmanager
def _listener(path: Path) -> Iterator[socket.socket]:
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as listener:
        listener.bind(str(path))
        listener.listen(SESSIONS)
        listener.settimeout(20)
        yield listener
