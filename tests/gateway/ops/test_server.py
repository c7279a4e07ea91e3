"""The ops port as a whole: a thread that answers also while the gateway's own loop does not."""

from __future__ import annotations

import asyncio
import errno
import json
import logging
import socket
import stat
import sys
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any
from unittest.mock import AsyncMock, Mock
from urllib.parse import urlsplit

import aiohttp
import pytest
from aiohttp.http import HttpProcessingError
from structlog.testing import capture_logs

from dragoman.gateway.app import App
from dragoman.gateway.config.model import Config, Ops, Route
from dragoman.gateway.endpoint import parse
from dragoman.gateway.ops import gateway_loop
from dragoman.gateway.ops.server import OpsServer, RequestLogger
from dragoman.mappings.errors import DragomanError
from tests.awaited import until
from tests.gateway.ops.running import operated

STUCK = Ops(listen="http://127.0.0.1:0", stuck_after=0.05)


def ask_blocking(url: str) -> tuple[int, dict[str, object]]:
    """Send a request without the test's event loop, which is the gateway's."""
    try:
        with urllib.request.urlopen(url, timeout=20) as answer:
            return answer.status, json.load(answer)
    except urllib.error.HTTPError as error:
        with error:
            return error.code, json.load(error)


async def send_malformed(port: int) -> bytes:
    """Send a request with a header that is too long, and return the status of the answer, without its version."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(b"GET /livez HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: " + b"s3cret" * 20_000 + b"\r\n\r\n")
    answer = await reader.readline()
    writer.close()
    return answer.partition(b" ")[2]


async def test_malformed_requests_are_counted_and_logged_once_a_second_without_their_content() -> None:
    metrics = ""
    async with operated() as port:
        refusals = {
            port.url: b"400 Bad Request\r\n",
            port.listening[0].removeprefix("smooth+"): b"431 Request Header Fields Too Large\r\n",
        }
        for url, refusal in refusals.items():
            with capture_logs() as logs:
                answers = [await send_malformed(urlsplit(url).port or 0) for _ in range(3)]
                _, metrics, _ = await port.ask_raw("/metrics")
            assert answers == [refusal] * 3
            said = [line for line in logs if line["log_level"] in ("warning", "error")]
            assert [line["event"] for line in said] == ["HTTP requests or TLS handshakes refused"]
            assert "s3cret" not in str(logs)
        assert 'dragoman_refused_total{reason="malformed",what="request"} 6.0' in metrics


async def test_a_gateway_whose_loop_is_stuck_is_neither_alive_nor_ready(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gateway_loop, "ANSWER_DEADLINE", 0.05)
    async with operated(ops=STUCK) as port:
        with capture_logs() as logs:
            while ask_blocking(f"{port.url}/livez")[0] == 200:  # the loop of the gateway is stuck in this line
                pass
            status, body = ask_blocking(f"{port.url}/readyz")
            assert (status, body["status"]) == (503, "not ready")
            while not logs:
                ask_blocking(f"{port.url}/livez")
        assert logs[0]["event"] == "the event loop is stuck"
        assert "ask_blocking" in logs[0]["stack"], "the log shows where"
        alive = [(await port.ask("/livez"))[0] for _ in range(20)]
        assert alive[-1] == 200, "the loop turns again"


async def test_an_ops_port_that_failed_is_logged_and_ends_with_the_gateway(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def fail(_heartbeat: object) -> float:
        raise ZeroDivisionError

    monkeypatch.setattr("dragoman.gateway.ops.server.LOOK", 0.01)
    monkeypatch.setattr("dragoman.gateway.ops.server.LoopHeartbeat.look", fail)
    with capture_logs() as logs:
        async with operated(ops=Ops(listen=f"unix:{tmp_path}/ops")):
            await until(lambda: bool(logs))
    assert [line["event"] for line in logs if line["log_level"] == "error"] == ["the ops port failed"]


@pytest.mark.parametrize("limit", ["its own thread", "those of its loop"])
async def test_an_ops_port_that_cannot_start_leaves_nothing_behind(
    limit: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    beats: list[int] = []
    monkeypatch.setattr("dragoman.gateway.ops.gateway_loop.BEAT", 0.01)
    monkeypatch.setattr(
        "dragoman.gateway.observability.traffic.Histogram.add_value", lambda _lag, _late: beats.append(1)
    )

    if limit == "its own thread":
        monkeypatch.setattr("threading.Thread.start", Mock(side_effect=RuntimeError("can't start new thread")))
    else:
        error = DragomanError("the limit of processes is too low")
        monkeypatch.setattr("dragoman.gateway.ops.server.start_threads", AsyncMock(side_effect=error))
    path = tmp_path / "ops"
    with pytest.raises(DragomanError, match="limit of processes"):
        async with operated(ops=Ops(listen=f"unix:{path}")):
            pass
    beats.clear()
    await asyncio.sleep(0.05)
    assert (path.exists(), beats) == (False, [])


class ExhaustedSocket(socket.socket):
    """A listening socket that cannot accept, for want of descriptors, in the first iteration that tries it."""

    failures = 0
    is_exhausted = True

    def accept(self) -> tuple[socket.socket, Any]:
        if not self.is_exhausted:
            return super().accept()
        asyncio.get_running_loop().call_soon(setattr, self, "is_exhausted", False)
        self.failures += 1
        raise OSError(errno.EMFILE, "Too many open files")


async def test_a_connection_that_cannot_be_accepted_is_logged_without_a_traceback_and_tried_again_once(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    exhausted = ExhaustedSocket()
    exhausted.bind(("127.0.0.1", 0))
    exhausted.listen(1)
    monkeypatch.setattr("dragoman.gateway.ops.server._bind", lambda _address: [exhausted])
    monkeypatch.setattr("asyncio.constants.ACCEPT_RETRY_DELAY", 0.0)
    with capture_logs() as logs:
        async with operated() as port:
            assert (await port.ask("/livez"))[0] == 200
    told = [line["error"] for line in logs if line["log_level"] == "warning"]
    assert (set(told), len(told), caplog.records) == ({"Too many open files"}, exhausted.failures, [])
    # asyncio accepts as often as the backlog of 1 says, since Python 3.14 once more.
    assert exhausted.failures == (2 if sys.version_info >= (3, 14) else 1)


async def test_a_host_name_stands_for_each_of_its_addresses_that_this_machine_has(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    found = [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (at, 0)) for at in ("203.0.113.7", "127.0.0.1", "127.0.0.2")]
    monkeypatch.setattr("socket.getaddrinfo", lambda *_, **__: found)
    ops = Ops(listen="http://localhost:0")
    route = Route(name="test", listen=(parse("smooth+ws://localhost:0/ws"),), upstream=parse("pod+unix:/nowhere/sock"))
    async with operated(ops=ops, app=App(Config(routes=(route,), ops=ops))) as port:
        (listening,) = port.listening
        chosen = urlsplit(listening).port
        for address in ("127.0.0.1", "127.0.0.2"):
            async with aiohttp.request("GET", f"http://{address}:{port.url.rpartition(':')[2]}/livez") as answer:
                assert answer.status == 200
            async with aiohttp.request("GET", f"http://{address}:{chosen}/elsewhere") as answer:
                assert answer.status == 404


async def test_a_unix_socket_is_for_the_gateway_s_user_alone_and_goes_with_it(tmp_path: Path) -> None:
    path = tmp_path / "ops.sock"
    async with operated(ops=Ops(listen=f"unix:{path}")) as port:
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
        assert (await port.ask("/livez"))[0] == 200
    assert not path.exists()


async def test_a_socket_that_another_process_has_put_in_its_place_stays(tmp_path: Path) -> None:
    path = tmp_path / "ops.sock"
    with socket.socket(socket.AF_UNIX) as other:
        async with operated(ops=Ops(listen=f"unix:{path}")):
            path.unlink()
            other.bind(str(path))
        assert path.exists()


async def test_the_error_names_a_port_in_use() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        ops = Ops(listen=f"http://127.0.0.1:{taken.getsockname()[1]}")
        route = Route(name="test", listen=(), upstream=parse("pod+unix:/nowhere/sock"))
        with pytest.raises(
            OSError, match=f"the ops port {ops.listen}: .* is in use by another program; write another port"
        ):
            async with OpsServer(ops, App(Config(routes=(route,)))):
                pass


def test_a_malformed_request_is_reported_by_its_kind_and_not_logged(caplog: pytest.LogCaptureFixture) -> None:
    kinds: list[str] = []
    RequestLogger(kinds.append).exception("Error", exc_info=HttpProcessingError(message="token=s3cret"))
    assert (kinds, caplog.records) == (["HttpProcessingError"], [])


def test_any_other_error_is_logged_with_its_traceback(caplog: pytest.LogCaptureFixture) -> None:
    kinds: list[str] = []
    with caplog.at_level(logging.ERROR):
        RequestLogger(kinds.append).exception("Unhandled exception", exc_info=ValueError("x"))
    assert kinds == []
    assert [(record.message, bool(record.exc_info)) for record in caplog.records] == [("Unhandled exception", True)]
