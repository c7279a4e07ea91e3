"""The programs under test: dragoman as a user starts it, and its peers."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

from tests.bench.load import Bridge, Load, Started, compiled

LISTEN = {
    "smooth": "smooth+ws://127.0.0.1:0/ws",
    "pod": "pod+unix:{path}",
    "pando": "pando+tcp://127.0.0.1:0",
    "codewhale": "codewhale+unix:{path}",
}


def upstream(dialect: str, addresses: list[str]) -> str:
    """Return the endpoint of a backend of load.c."""
    first = addresses[0]
    if first.startswith("unix:"):
        return f"{dialect}+{first}"
    port = first.removeprefix("tcp:")
    if dialect == "smooth":
        return f"smooth+ws://127.0.0.1:{port}/ws"
    return f"pando+tcp://127.0.0.1:{port}?rpc={addresses[1].removeprefix('tcp:')}"


def listeners(load: Load, folder: Path) -> list[str]:
    """Return the endpoints that the callers need: a smooth listener serves all, any other one session."""
    many = 1 if load.client == "smooth" else load.sessions
    return [LISTEN[load.client].format(path=f"{folder}/c{n}") for n in range(many)]


def dragoman(load: Load, folder: Path, backends: list[str]) -> Started:
    """Start the gateway with one route."""
    dial = f"pod+dir:{folder}/pods" if (folder / "pods").exists() else upstream(load.backend, backends)
    endpoints = listeners(load, folder)
    config = folder / "config.toml"
    config.write_text(route("all", endpoints, dial))
    return Started(
        command=("dragoman", "serve", "--config", str(config), "--log-level", "warning"), listeners=len(endpoints)
    )


def route(name: str, endpoints: list[str], dial: str) -> str:
    """Return a route of the configuration."""
    return f'[[route]]\nname = "{name}"\nlisten = {endpoints!r}\nupstream = "{dial}"\n'


def naive_websockets(load: Load, folder: Path, backends: list[str]) -> Started:
    if load.client == "smooth":
        return Started(command=("tests.bench.naive_websockets", backends[0].removeprefix("unix:")))
    return Started(
        command=("tests.bench.naive_reverse", f"{folder}/c0", upstream("smooth", backends).partition("+")[2])
    )


def naive_aiohttp(_load: Load, _folder: Path, backends: list[str]) -> Started:
    return Started(command=("tests.bench.naive_aiohttp", backends[0].removeprefix("unix:")))


def relay(load: Load, folder: Path, backends: list[str]) -> Started:
    """Copy messages in C, from one framing to the other."""
    client = ("ws", "tcp:0") if load.framing == "c" else ("line", f"unix:{folder}/c0")
    backend = ("ws" if load.framing == "b" else "line", backends[0])
    return Started(command=(compiled(), "relay", *client, *backend))


def bare(load: Load, folder: Path, backends: list[str]) -> Started:
    """Start the bare bridge of a pair."""
    many = load.sessions if load.client == "pando" else 1
    endpoints = str(many) if load.client == "pando" else f"{folder}/c0"
    return Started(command=("tests.bench.bare", load.client, load.backend, endpoints, *backends), listeners=many)


def pairwise(load: Load, folder: Path, backends: list[str]) -> Started:
    """Start the gateway with a route, a listener and a backend for each session: the only way that all pairs have."""
    config = folder / "config.toml"
    each = len(backends) // load.sessions
    endpoints = [LISTEN[load.client].format(path=f"{folder}/c{n}") for n in range(load.sessions)]
    dials = [upstream(load.backend, backends[n * each :]) for n in range(load.sessions)]
    pairs = enumerate(zip(endpoints, dials, strict=False))
    config.write_text("".join(route(f"r{n}", [endpoint], dial) for n, (endpoint, dial) in pairs))
    return Started(
        command=("dragoman", "serve", "--config", str(config), "--log-level", "warning"), listeners=len(endpoints)
    )


def socat(_load: Load, folder: Path, backends: list[str]) -> Started:
    """Copy bytes from one Unix socket to another: a hop without any protocol."""
    program = shutil.which("socat") or "/usr/bin/socat"
    path = f"{folder}/c0"
    return Started(
        command=(program, f"UNIX-LISTEN:{path},fork", f"UNIX-CONNECT:{backends[0].removeprefix('unix:')}"),
        endpoints=(f"pod+unix:{path}",),
    )


TOKEN = "bench-0123456789abcdef"  # of a client, when it must authenticate
OPTIONS = {
    "nothing": "",
    "recording": '[recording]\npath = "{folder}/rec"\ncompress = false\n',
    "recording, not redacted": (
        '[recording]\npath = "{folder}/rec"\ncompress = false\n[recording.redact]\nenabled = false\n'
    ),
    "TLS": "",
    "authentication": '[auth.tokens]\nalice = "env:BENCH_TOKEN"\n',
    "ops port": '[ops]\nlisten = "unix:{folder}/ops"\n',
}
"""Name of an option of the gateway -> its part of the configuration file."""


def with_option(name: str) -> Bridge:
    """Return how the gateway is started with an option."""

    def start(load: Load, folder: Path, backends: list[str]) -> Started:
        dial = f"pod+dir:{folder}/pods" if (folder / "pods").exists() else upstream(load.backend, backends)
        endpoint = LISTEN["smooth"]
        if name == "TLS":
            key, cert = f"{folder}/key.pem", f"{folder}/cert.pem"
            ask = (
                "req",
                "-x509",
                "-nodes",
                "-subj",
                "/CN=localhost",
                "-newkey",
                "rsa:2048",
                "-keyout",
                key,
                "-out",
                cert,
            )
            subprocess.run(["openssl", *ask], check=True, capture_output=True)  # a certificate for this run
            endpoint = f"smooth+wss://127.0.0.1:0/ws?cert={cert}&key={key}"
        config = folder / "config.toml"
        config.write_text(route("all", [endpoint], dial) + OPTIONS[name].format(folder=folder))
        return Started(
            command=("dragoman", "serve", "--config", str(config), "--log-level", "warning"),
            environment={"BENCH_TOKEN": TOKEN},
            token=TOKEN if name == "authentication" else "",
            tls=name == "TLS",
        )

    return start
