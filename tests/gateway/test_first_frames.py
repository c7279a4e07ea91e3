"""A backend of another dialect is distinguished from one that is slow, silent, newer, or sends a banner."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any
from uuid import uuid4

import aiohttp
import pytest
from structlog.testing import capture_logs

from dragoman.gateway import first_frames, registry
from dragoman.gateway.first_frames import PATIENCE, READ_MAX, FirstFrames, import_others
from dragoman.mappings.dialect import Dialect, Frame, Oversize
from tests.gateway.pod_messages import snapshot
from tests.pairs.gateway import DEADLINE, SmoothClient, bridged, socket_path

WHALE = b'{"jsonrpc":"2.0","id":null,"error":{"code":-32601,"message":"unsupported method: run"}}'
POD = json.dumps(snapshot()).encode()
NEWER = b'{"event":"never_seen","data":{}}'
FULL = "too many clients"
REFUSALS = {
    "pod": b'{"event":"error","data":{"code":"already_running","message":"too many clients"}}',
    "codewhale": b'{"jsonrpc":"2.0","id":null,"error":{"code":-32603,"message":"too many clients"}}',
    "smooth": b'{"type":"error","error":{"code":"BUSY","message":"too many clients"},"timestamp":1}',
}
ANSWER = b'{"jsonrpc":"2.0","id":"1","error":{"code":-32601,"message":"unsupported method: capabilities"}}'
DENIED = b'{"type":"error","requestId":"1","error":{"code":"BUSY","message":"no such agent"},"timestamp":1}'
PONG = b'{"type":"pong","requestId":"1","timestamp":1}'
OPENS = {"action": "create_conversation_session", "requestId": "r", "agentId": str(uuid4())}


class Watched:
    """The first frames of a backend, with a clock that the test advances by a second."""

    def __init__(self, dialect: str, dialects: Callable[[], Mapping[str, Dialect]] = registry.ours) -> None:
        self.given_up: list[str] = []
        self.timers: list[tuple[float, Any]] = []
        self.prepared: list[str] = []
        self.frames = FirstFrames(registry.dialect(dialect), dialects, self._schedule, self._give_up, self._prepare)

    def _schedule(self, seconds: float, callback: Any) -> Any:
        self.timers.append((seconds, callback))

    def _give_up(self, _first: FirstFrames) -> None:
        self.given_up.append("given up")

    def _prepare(self) -> None:
        self.prepared.append("prepared")

    def pass_time(self) -> None:
        for _seconds, callback in self.timers:
            callback()


@pytest.mark.parametrize(
    ("dialect", "frame", "words"),
    [
        ("pod", WHALE, "speaks something else than pod: if it is codewhale, name that in the endpoint"),
        ("codewhale", POD, "speaks something else than codewhale: if it is pod, name that in the endpoint"),
        ("smooth", POD, "speaks something else than smooth: if it is pod, name that in the endpoint"),
        (
            "pod",
            b'{"type":"error","error":{"code":"X","message":"x"},"timestamp":1}',
            "than pod: if it is smooth, name that in the endpoint",
        ),
        ("pod", b"Welcome!", "speaks something else than pod"),
    ],
)
def test_a_backend_of_another_dialect_is_disconnected_after_a_second(dialect: str, frame: bytes, words: str) -> None:
    watched = Watched(dialect)
    assert not watched.frames.take([b""])
    assert not watched.frames.take([frame])
    assert watched.given_up == []
    watched.frames.take([frame])
    assert [seconds for seconds, _callback in watched.timers] == [PATIENCE]
    assert len(watched.prepared) == 1
    watched.pass_time()
    assert len(watched.given_up) == 1
    assert watched.frames.complaint(quoted=False).endswith(words)
    assert frame[:20].decode() in watched.frames.complaint(quoted=True)


def test_a_wrong_frame_is_compared_with_the_other_dialects_once() -> None:
    compared: list[str] = []

    def dialects() -> Mapping[str, Dialect]:
        compared.append("compared")
        return registry.ours()

    watched = Watched("pod", dialects)
    watched.frames.take([WHALE])
    for quoted in (False, True, False):
        assert watched.frames.complaint(quoted=quoted).endswith("if it is codewhale, name that in the endpoint")
    assert compared == ["compared"]


@pytest.mark.parametrize(
    "batches",
    [
        [],
        [[POD]],
        [[NEWER]],
        [[b"Welcome!", POD]],
        [[b"Welcome!"], [POD]],
        [[b""], [b"  "]],
        [[Oversize(size=9, limit=8)]],
        [[b"x" * (READ_MAX + 1)]],
    ],
    ids=["silent", "good", "newer", "banner", "banner alone", "empty lines", "too large", "very long"],
)
def test_a_slow_silent_or_newer_backend_is_never_disconnected(batches: Sequence[Sequence[Frame]]) -> None:
    watched = Watched("pod")
    for batch in batches:
        watched.frames.take(batch)
    watched.pass_time()
    assert watched.given_up == []
    assert not watched.frames.are_wrong


@pytest.mark.parametrize("dialect", REFUSALS)
def test_an_error_without_a_request_is_a_refusal_until_another_message_comes(dialect: str) -> None:
    watched = Watched(dialect)
    assert not watched.frames.take([REFUSALS[dialect]])
    assert watched.frames.refusal == FULL
    assert watched.frames.take([{"pod": POD, "codewhale": ANSWER, "smooth": PONG}[dialect]])
    assert not watched.frames.refusal
    assert watched.timers == []


@pytest.mark.parametrize(("dialect", "answer"), [("codewhale", ANSWER), ("smooth", DENIED)])
def test_an_error_that_answers_a_request_is_no_refusal(dialect: str, answer: bytes) -> None:
    watched = Watched(dialect)
    assert watched.frames.take([answer])
    assert not watched.frames.refusal


async def test_the_text_of_a_refusal_reaches_client_and_log(tmp_path: Path) -> None:
    path = socket_path(tmp_path)

    async def refuse(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(REFUSALS["codewhale"] + b"\n")
        writer.close()

    with capture_logs() as logs:
        async with (
            asyncio.timeout(DEADLINE),
            await asyncio.start_unix_server(refuse, path),
            bridged(f"codewhale+unix:{path}") as (_app, url),
            aiohttp.ClientSession() as http,
            http.ws_connect(url) as client,
        ):
            await client.send_json(OPENS)
            answer = await client.receive_json()
    assert answer["error"]["message"] == f"the connection to the backend was lost: {FULL}"
    assert FULL in [entry.get("cause") for entry in logs if entry["event"] == "backend lost, connecting again"]


@pytest.mark.parametrize("error", [ImportError, TypeError], ids=["removed", "replaced"])
async def test_other_dialects_are_imported_in_a_thread_or_not_at_all(error: type[Exception]) -> None:
    """The task belongs to the gateway, which an error in it would end."""
    threads: list[int] = []

    def removed() -> Mapping[str, Dialect]:
        threads.append(threading.get_ident())
        raise error("the package was removed or replaced")

    with capture_logs() as logs:
        await import_others(removed)
    assert threads != [threading.get_ident()]
    assert [line["event"] for line in logs] == ["the other dialects cannot be imported: restart the gateway"]


def test_a_first_frame_is_quoted_shortened_and_redacted() -> None:
    watched = Watched("pod")
    watched.frames.take([b'{"url":"ws://h/?token=s3cretS3cret","rest":"' + b"x" * 1000 + b'"}'])
    said = watched.frames.complaint(quoted=True)
    assert "s3cretS3cret" not in said
    assert len(said) < 300


@asynccontextmanager
async def answering(path: Path, line: bytes) -> AsyncIterator[None]:
    """Run a server that answers each line with the same line."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while await reader.readline():
            writer.write(line + b"\n")
        writer.close()

    async with await asyncio.start_unix_server(serve, path):
        yield


async def test_a_wrong_backend_is_reported_to_its_client_within_a_second_and_logged_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(first_frames, "PATIENCE", 0.01)
    path = socket_path(tmp_path)
    with capture_logs() as logs:
        async with (
            asyncio.timeout(DEADLINE),
            answering(path, WHALE),
            bridged(f"pod+unix:{path}") as (_app, url),
            SmoothClient.connected(url) as client,
        ):
            for number in (1, 2):
                await client.say("hello")
                await client.until(lambda number=number: len(errors(client)) == number)
    assert "it speaks something else than pod: if it is codewhale, name that in the endpoint" in errors(client)[0]
    assert str(path) not in errors(client)[0]
    (warning,) = [entry for entry in logs if entry["event"] == "backend of another dialect, trying again"]
    assert warning["log_level"] == "warning"
    assert "its first frame is {" in warning["cause"]
    assert warning["cause"].endswith("if it is codewhale, name that in the endpoint")


async def test_the_last_stderr_lines_and_the_exit_status_of_a_child_reach_client_and_log() -> None:
    dies = "codewhale+stdio:sh -c 'read first; read second; echo no licence in /etc/whale >&2; exit 4'"
    with capture_logs() as logs:
        async with (
            asyncio.timeout(DEADLINE),
            bridged(dies) as (_app, url),
            aiohttp.ClientSession() as http,
            http.ws_connect(url) as client,
        ):
            await client.send_json(OPENS)
            answer = await client.receive_json()
    assert "sh exited with status 4: no licence in …" in answer["error"]["message"]
    (lost,) = [entry for entry in logs if entry["event"] == "backend lost, connecting again"]
    assert lost["cause"] == "sh exited with status 4: no licence in /etc/whale"


def errors(client: SmoothClient) -> list[str]:
    return [frame["error"]["message"] for frame in client.frames if frame["type"] == "error"]


def test_a_wrong_frame_is_told_also_if_no_other_dialect_can_be_imported() -> None:
    """The package may be replaced while the gateway runs."""

    def removed() -> Mapping[str, Dialect]:
        raise ModuleNotFoundError("dragoman.mappings.codewhale")

    watched = Watched("pod", removed)
    watched.frames.take([WHALE])
    assert watched.frames.complaint(quoted=False) == "speaks something else than pod"
