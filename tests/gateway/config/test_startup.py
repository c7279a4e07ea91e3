"""Problems of a configuration that show on this machine, and backends that cannot be reached."""

from __future__ import annotations

import asyncio
import json
import socket
import sys
from functools import partial
from pathlib import Path
from typing import Literal

import pytest
import websockets
from websockets.asyncio.server import ServerConnection

from dragoman.adapters.stdio import ChildLimits, Children
from dragoman.gateway.config.model import Config, Limits, Recording, Route
from dragoman.gateway.config.startup import find_hazards, probe
from dragoman.gateway.endpoint import parse
from tests.gateway.pod_messages import snapshot
from tests.pairs.gateway import DEADLINE
from tests.reserved_ports import reserved_port


def hazards(listen: str = "pod+unix:/l", upstream: str = "pod+unix:/u", record: str = "") -> list[str]:
    route = Route(name="a", listen=(parse(listen),), upstream=parse(upstream))
    return list(find_hazards(Config(routes=(route,), recording=Recording(path=record) if record else None)))


@pytest.mark.parametrize("host", ["127.0.0.1", "127.1.2.3", "localhost", "[::1]"])
def test_a_listener_on_loopback_is_no_hazard(host: str) -> None:
    assert hazards(listen=f"smooth+ws://{host}:0/ws") == []


@pytest.mark.parametrize("listen", ["smooth+ws://0.0.0.0:0/ws", "smooth+ws://[::]:0/ws", "pando+tcp://192.0.2.7:40000"])
def test_a_listener_for_other_machines_is_a_hazard(listen: str) -> None:
    assert hazards(listen=listen) == [f"{listen} accepts clients from other machines without authentication"]


@pytest.mark.parametrize("command", ["sh -c x", sys.executable, "./relative --stdio", "'sh' -c x"])
def test_a_program_that_can_be_found_is_no_hazard(command: str) -> None:
    assert hazards(upstream=f"codewhale+stdio:{command}") == []


@pytest.mark.parametrize(
    ("command", "why"),
    [
        ("no-such-program", "no such program in PATH; install it, or write its full path"),
        ("'no such program' -x", "no such program in PATH; install it, or write its full path"),
        ("/no/such/program", "no such program; check its path"),
        (__file__, "not executable; use chmod +x"),
    ],
)
def test_a_program_that_cannot_be_found_is_a_hazard(command: str, why: str) -> None:
    (line,) = hazards(upstream=f"codewhale+stdio:{command}")
    assert line.endswith(f": {why}")


def test_a_program_is_searched_in_the_path_of_its_child(tmp_path: Path) -> None:
    (tmp_path / "agent").touch(mode=0o755)
    for path, found in ((str(tmp_path), True), ("/nowhere", False)):
        route = Route(name="a", listen=(), upstream=parse("codewhale+stdio:agent"), env=(f"PATH={path}",))
        assert (list(find_hazards(Config(routes=(route,)))) == []) is found


@pytest.mark.parametrize(
    ("upstreams", "share", "mode", "warned"),
    [
        (("pod+unix:/u", "pod+unix:/x/../u"), "owner", "busy", True),
        (("pod+dir:/u", "pod+dir:/u"), "owner", "busy", True),
        (("pod+unix:/u", "pod+unix:/other"), "owner", "busy", False),
        (("pod+unix:/u", "pod+unix:/u"), "all", "busy", False),
        (("pod+unix:/u", "pod+unix:/u"), "owner", "attach", False),
        (("smooth+ws://127.0.0.1:1/ws", "smooth+ws://127.0.0.1:1/ws"), "owner", "busy", False),
    ],
    ids=["two spellings", "a directory", "two pods", "shared by all", "open to all", "sessions with ids of their own"],
)
def test_two_routes_to_one_pod_are_a_hazard_if_its_session_has_an_owner(
    upstreams: tuple[str, str], share: Literal["all", "owner"], mode: Literal["busy", "attach"], warned: bool
) -> None:
    routes = [
        Route(name=name, listen=(), upstream=parse(upstream), share=share, open=mode)
        for name, upstream in zip("ab", upstreams, strict=True)
    ]
    lines = list(find_hazards(Config(routes=tuple(routes))))
    assert [line.partition(",")[0] for line in lines] == ["routes 'a' and 'b' lead to one pod"] * warned


@pytest.mark.parametrize("name", ["", "new/", "new/deeper/", "one.jsonl", "new/one.jsonl"])
def test_a_writable_folder_for_recordings_is_accepted_and_not_changed(tmp_path: Path, name: str) -> None:
    assert hazards(record=f"{tmp_path}/{name}") == []
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("path", ["/proc/nowhere/", "/proc/one.jsonl"])
def test_an_unwritable_folder_for_recordings_is_a_hazard(path: str) -> None:
    (line,) = hazards(record=path)
    assert line.startswith(f"recordings cannot be written to {path}: ")


SECRET = f"ghp_{'Xa9' * 12}"
LISTEN = (parse("smooth+ws://127.0.0.1:0/ws"),)


def config(*upstreams: str, deadline: float = DEADLINE) -> Config:
    routes = (Route(name=str(n), listen=LISTEN, upstream=parse(text)) for n, text in enumerate(upstreams))
    return Config(routes=tuple(routes), limits=Limits(connect_deadline=deadline))


async def test_a_probe_connects_to_a_backend_and_disconnects(tmp_path: Path) -> None:
    left = asyncio.Event()

    async def served(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        assert await reader.read() == b""
        writer.close()
        left.set()

    async with await asyncio.start_unix_server(served, tmp_path / "sock"):
        assert await probe(config(f"pod+unix:{tmp_path}/sock")) == [""]
        async with asyncio.timeout(DEADLINE):
            await left.wait()


async def test_each_route_is_reported_separately(tmp_path: Path) -> None:
    with reserved_port() as port, socket.socket(socket.AF_UNIX) as there:
        there.bind(str(tmp_path / "sock"))
        there.listen()
        answers = await probe(
            config(
                f"pod+unix:{tmp_path}/none", f"pod+unix:{tmp_path}/sock", f"smooth+ws://127.0.0.1:{port}/ws?token=t0p"
            )
        )
    assert answers[0] == (
        f"pod+unix:{tmp_path}/none cannot be reached: the socket does not exist; start the backend, or correct the path"
    )
    assert answers[1] == ""
    assert answers[2].startswith(f"smooth+ws://127.0.0.1:{port}/ws?token=*** cannot be reached: ")
    assert "t0p" not in answers[2]


async def test_a_probe_starts_and_ends_a_child_and_prints_none_of_its_arguments(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    patient = partial(Children, bounds=ChildLimits(start_watch=DEADLINE))  # a program may start slowly here
    monkeypatch.setattr("dragoman.gateway.config.startup.Children", patient)
    scripts = ("echo; read first; read second", f"echo bad key {SECRET} >&2; exit 1")
    waits, ends = (f"codewhale+stdio:sh -c '{script}'" for script in scripts)
    reached, ended, missing = await probe(config(waits, ends, "codewhale+stdio:no-such-program --key s3cret"))
    assert reached == ""
    assert "cannot be reached: the child exited at once" in ended
    assert "exited with status 1: bad key [redacted:" in ended
    assert SECRET not in ended
    assert missing.startswith("codewhale+stdio:no-such-program ... cannot be reached: ")
    assert "s3cret" not in missing


async def test_a_backend_of_another_dialect_is_reported_with_its_first_frame(tmp_path: Path) -> None:
    async def greets(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(json.dumps(snapshot()).encode() + b"\n")
        await reader.read()
        writer.close()

    async with asyncio.timeout(DEADLINE), await asyncio.start_unix_server(greets, tmp_path / "sock"):
        wrong, right = await probe(config(f"codewhale+unix:{tmp_path}/sock", f"pod+unix:{tmp_path}/sock"))
    assert wrong.startswith(f"codewhale+unix:{tmp_path}/sock speaks something else than codewhale; its first frame is ")
    assert wrong.endswith(": if it is pod, name that in the endpoint")
    assert right == ""


async def test_a_child_that_dies_during_the_probe_is_reported_with_its_last_stderr_lines() -> None:
    (died,) = await probe(config("codewhale+stdio:sh -c 'read first; echo no licence >&2; exit 4'"))
    assert died == "codewhale+stdio:sh ... sh exited with status 4: no licence"


async def test_a_silent_backend_is_given_up_at_its_deadline() -> None:
    with socket.create_server(("127.0.0.1", 0)) as deaf:
        endpoint = f"smooth+ws://127.0.0.1:{deaf.getsockname()[1]}/ws"
        assert await probe(config(endpoint, deadline=0.05)) == [f"{endpoint} did not accept within 0.05 s"]


async def test_a_backend_that_ends_the_connection_before_its_first_message_is_reported(tmp_path: Path) -> None:
    async def leave(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.close()

    async with await asyncio.start_unix_server(leave, tmp_path / "sock"):
        (ended,) = await probe(config(f"pod+unix:{tmp_path}/sock"))
    assert ended == f"pod+unix:{tmp_path}/sock ended the connection before its first message"


async def test_a_backend_that_refuses_the_connection_by_a_close_code_is_reported_with_it() -> None:
    async def refuse(connection: ServerConnection) -> None:
        await connection.close(1008, "no such tenant")

    async with websockets.serve(refuse, "127.0.0.1", 0) as server:
        endpoint = f"smooth+ws://127.0.0.1:{next(iter(server.sockets)).getsockname()[1]}/ws"
        assert await probe(config(endpoint)) == [f"{endpoint} closed with code 1008, no such tenant"]
