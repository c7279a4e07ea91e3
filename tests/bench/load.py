"""Run load.c against a program: compile it, describe what it plays, start the program, and return what it measured.

The load plays all callers and all backends in one process on one core; the program under test has the other core.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from functools import cache
from pathlib import Path

import msgspec
from msgspec import Struct

from tests.bench.dialects import BACKENDS, CALLERS, described
from tests.bench.processes import Process, cores, pin

SOURCE = Path(__file__).with_name("load.c")
PATIENCE = 300  # seconds for a whole run


class Load(Struct, frozen=True, kw_only=True):
    """The sessions that are played. With a `rate`, each sends so many tokens a second, and else as fast as it can."""

    client: str = "smooth"
    backend: str = "pod"
    sessions: int = 1
    tokens: int = 50_000  # in a turn
    rate: float = 0.0  # tokens a second and session
    turns: int = 1  # of each session, one after the other
    block: int = 32  # tokens in one write, without a rate
    framing: str = (
        ""  # of the end whose framing the relay changes: of the caller, or with backend smooth of the backend
    )


class Result(Struct, frozen=True, kw_only=True):
    """The result of a run: latencies in microseconds, memory in bytes before, with open sessions, and at the end.

    With a rate, `events`, `seconds`, `cpu`, `p50` and `p99` are of the time in which all turns were open. `p99_all` and
    `worst` include the openings.
    """

    sessions: int
    events: int
    seconds: float
    cpu: float
    total_cpu: float
    open_cpu: float
    connect: float
    connect_cpu: float
    merged: int
    p50: float
    p99: float
    p99_all: float
    worst: float
    memory: tuple[float, float, float]

    @property
    def rate(self) -> float:
        """Events a second."""
        return self.events / self.seconds

    @property
    def cost(self) -> float:
        """Seconds of CPU for an event."""
        return self.cpu / self.events


class Started(Struct, frozen=True, kw_only=True):
    """The start of a program: its command, the number of its endpoints, and what its callers need to know."""

    command: tuple[str, ...]
    listeners: int = 1
    environment: Mapping[str, str] = {}
    token: str = ""  # of the callers
    endpoints: tuple[str, ...] = ()  # of a program that does not say where it listens
    tls: bool = False  # the callers need somebody who speaks TLS for them


Bridge = Callable[[Load, Path, list[str]], Started]
"""Return how the program is started, given what is played, an empty folder and the addresses of the backends."""


@cache
def compiled() -> str:
    """Compile the load, once for each process; say plainly what is missing where there is no compiler."""
    compiler = shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")
    if compiler is None:
        raise SystemExit("error: make bench needs a C compiler (cc) for its load generator, and there is none")
    folder = tempfile.mkdtemp(prefix="dragoman-bench-load-")
    target = f"{folder}/load"
    subprocess.run([compiler, "-O2", "-o", target, str(SOURCE)], check=True)  # our own source
    return target


def run(load: Load, bridge: Bridge, *, separate: bool = True, directory: bool = False) -> Result:
    """Play `load` through the program that `bridge` starts.

    `separate` gives each session a backend address of its own; `directory` names pods as `pod+dir:` finds them.
    """
    pair = cores()
    tested = pair[1] if pair else None
    with tempfile.TemporaryDirectory(prefix="dragoman-bench-") as name:
        folder = Path(name)
        lines = [*_described(load), *_listening(load, folder, separate, directory), "listen"]
        environment = dict(os.environ)
        with subprocess.Popen(
            [compiled(), "run"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=environment,
        ) as playing:
            try:
                if pair is not None:
                    pin(pair[0], playing.pid)
                return _played(playing, load, bridge, folder, lines, tested)
            finally:
                playing.kill()


def _played(
    playing: subprocess.Popen[str], load: Load, bridge: Bridge, folder: Path, lines: list[str], core: int | None
) -> Result:
    assert playing.stdin is not None
    assert playing.stderr is not None
    playing.stdin.write("\n".join(lines) + "\n")
    playing.stdin.flush()
    backends = []
    for line in playing.stderr:
        if line == "ready\n":
            break
        backends.append(line.removeprefix("listening ").strip())
    started = bridge(load, folder, backends)
    with ExitStack() as stack:
        process = stack.enter_context(_process(started, core))
        endpoints = [endpoint for endpoint in process.endpoints if "+" in endpoint or endpoint[:4] in ("tcp:", "unix")]
        if started.tls:
            front = Process("tests.bench.tls_client", endpoints[0], core=playing_core())
            endpoints = stack.enter_context(front).endpoints
        more = [f"c.at\t{address}" for endpoint in endpoints for address in _addresses(endpoint)]
        more += [f"pid\t{process.pid}", f"bearer\t{started.token}", "run"]
        out, errors = playing.communicate("\n".join(more) + "\n", timeout=PATIENCE)
        if playing.returncode:
            what = " ".join(started.command)[:300]
            raise RuntimeError(f"{what}, {load}:\n{errors.strip()[-600:]} (exit {playing.returncode})")
    return msgspec.json.decode(out, type=Result)


def playing_core() -> int | None:
    """Return the core of the load."""
    pair = cores()
    return pair[0] if pair else None


def _process(started: Started, core: int | None) -> Process:
    return Process(
        *started.command,
        core=core,
        listeners=started.listeners,
        endpoints=started.endpoints,
        environment={**os.environ, **started.environment},
    )


def _described(load: Load) -> list[str]:
    caller, backend = CALLERS[load.client], BACKENDS[load.backend]
    lines = [*described("c", caller), *described("b", backend)]
    numbers = {"count": load.sessions, "want": load.tokens, "rate": load.rate * load.sessions, "turns": load.turns}
    return [*lines, *(f"{name}\t{value}" for name, value in numbers.items()), f"block\t{load.block}", *_framed(load)]


def _framed(load: Load) -> list[str]:
    """A relay changes only the framing, so both ends speak pod, one of them in WebSocket frames."""
    return [f"{load.framing}.framing\tws"] if load.framing else []


def _listening(load: Load, folder: Path, separate: bool, directory: bool) -> list[str]:
    """Return the addresses of the backends."""
    many = load.sessions if separate else 1
    framing = "ws" if load.framing == "b" else BACKENDS[load.backend].framing
    if framing != "line":
        return ["b.at\ttcp:0"] * (2 * many if framing == "zmtp" else many)
    if not directory:
        return [f"b.at\tunix:{folder}/b{n}" for n in range(many)]
    for n in range(many):
        (folder / "pods" / f"pod{n}").mkdir(parents=True)
    return [f"b.at\tunix:{folder}/pods/pod{n}/sock" for n in range(many)]


def _addresses(endpoint: str) -> Sequence[str]:
    """Return the addresses of an endpoint for load.c: one, or of a pando two."""
    address = endpoint.partition("+")[2] or endpoint
    if address.startswith("unix:"):
        return [address]
    port, _, query = address.rpartition(":")[2].partition("?")
    port = port.partition("/")[0]
    if not endpoint.startswith("pando"):
        return [f"tcp:{port}"]
    calls = query.partition("rpc=")[2].partition("&")[0] or str(int(port) + 1)
    return [f"tcp:{port}", f"tcp:{calls}"]
