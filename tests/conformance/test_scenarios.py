"""The scenario corpus: the real server passes it directly and through the gateway, for a plain socket and for the real
client.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from copy import deepcopy
from typing import Any

import aiohttp
import pytest
from smooth_operator import SmoothAgentClient
from smooth_operator.client import MessageTurn, ProtocolError
from smooth_operator.transport import WebSocketTransport
from smooth_operator.types import parse_event

from tests.conformance.compared_visits import difference, normal
from tests.conformance.smooth_scenarios import DEADLINE, Diverged, Scenario, Wire, corpus, play, read, server_of
from tests.pairs.gateway import bridged
from tests.shared import needs_shared
from tests.smooth_frame_check import check

pytestmark = pytest.mark.peers

CORPUS = dict(corpus())
SCENARIOS: list[Any] = list(CORPUS) or [pytest.param("none", marks=needs_shared)]


Connect = Callable[[str], AbstractAsyncContextManager[Wire]]


class PlainWire:
    """A wire over a bare WebSocket."""

    def __init__(self, socket: aiohttp.ClientWebSocketResponse) -> None:
        self._socket = socket

    @classmethod
    @asynccontextmanager
    async def connected(cls, url: str) -> AsyncIterator[PlainWire]:
        async with aiohttp.ClientSession() as http, http.ws_connect(url) as socket:
            yield cls(socket)

    async def send(self, frame: dict[str, Any]) -> None:
        await self._socket.send_str(json.dumps(frame))

    async def receive(self) -> dict[str, Any]:
        frame: dict[str, Any] = await self._socket.receive_json()
        return frame


class ClientWire:
    """A wire over the real client: frames are sent by its methods, and only frames that its strict models accept count
    as received.
    """

    def __init__(self, url: str, group: asyncio.TaskGroup) -> None:
        transport = WebSocketTransport(url)
        self._request = ""
        self._group = group
        self._frames: asyncio.Queue[dict[str, Any]] = asyncio.Queue(maxsize=1024)
        self.client = SmoothAgentClient(url, transport=transport, generate_request_id=lambda: self._request)
        self.turns: list[MessageTurn] = []
        transport.on_message(self._tap)

    @classmethod
    @asynccontextmanager
    async def connected(cls, url: str) -> AsyncIterator[ClientWire]:
        async with asyncio.TaskGroup() as group:
            wire = cls(url, group)
            await wire.client.connect()
            try:
                yield wire
                for turn in wire.turns:
                    await wire.settled(turn)
            finally:
                await wire.client.disconnect()

    def _tap(self, data: str) -> None:
        frame = json.loads(data)
        try:
            parse_event(frame)
        except ValueError as error:
            frame = {"type": "dropped by the client", "why": str(error), "frame": frame}
        self._frames.put_nowait(frame)

    async def receive(self) -> dict[str, Any]:
        return await self._frames.get()

    async def send(self, frame: dict[str, Any]) -> None:
        self._request = frame["requestId"]
        match frame:
            case {"action": "send_message", "sessionId": session, "message": message, "stream": stream}:
                self.turns.append(self.client.send_message(session_id=session, message=message, stream=stream))
            case {"action": "confirm_tool_action", "sessionId": session, "approved": approved}:
                self.client.confirm_tool_action(session_id=session, request_id=self._request, approved=approved)
            case {"action": "submit_interaction", "sessionId": session, "interactionId": interaction}:
                self.client.submit_interaction(
                    session_id=session,
                    request_id=self._request,
                    interaction_id=interaction,
                    kind=frame.get("kind"),
                    values=frame.get("values"),
                    declined=frame.get("declined", False),
                )
            case {"action": "cancel"}:
                self.client.cancel(request_id=self._request, session_id=frame.get("sessionId"))
            case _:  # it has no verb for `supports`, nor for what no server knows
                self._group.create_task(self._ask(frame), name=self._request)

    async def _ask(self, frame: dict[str, Any]) -> None:
        """Wait for one answer as the client does; a RequestTimeoutError ends the test."""
        with contextlib.suppress(ProtocolError):  # what it was refused with is the scenario's to say
            await self.client._request(frame)

    async def settled(self, turn: MessageTurn) -> None:
        """Wait until the client also knows that its turn ended."""
        with contextlib.suppress(ProtocolError):
            async with asyncio.timeout(DEADLINE):
                await turn


class StrictWire:
    """A wire that checks every received frame against the strict shape that we promise."""

    def __init__(self, wire: Wire) -> None:
        self._wire = wire

    async def send(self, frame: dict[str, Any]) -> None:
        await self._wire.send(frame)

    async def receive(self) -> dict[str, Any]:
        frame = await self._wire.receive()
        check(frame)
        return frame


WIRES = [PlainWire, ClientWire]


@pytest.fixture(params=WIRES, ids=["socket", "client"])
def connect(request: pytest.FixtureRequest) -> Connect:
    wire: type[PlainWire | ClientWire] = request.param
    return wire.connected


@pytest.mark.parametrize("name", SCENARIOS)
async def test_the_real_server_passes_the_scenario(name: str, connect: Connect) -> None:
    scenario = CORPUS[name]
    async with server_of(scenario) as server, connect(server.ws_url()) as wire:
        await play(scenario, wire)


@pytest.mark.parametrize("name", SCENARIOS)
async def test_the_gateway_in_front_of_the_real_server_passes_the_scenario(name: str, connect: Connect) -> None:
    scenario = CORPUS[name]
    async with (
        server_of(scenario) as server,
        bridged(f"smooth+{server.ws_url()}") as (_, url),
        connect(url) as wire,
    ):
        await play(scenario, StrictWire(wire))


@pytest.mark.parametrize("name", SCENARIOS)
async def test_the_gateway_sends_the_same_frames_as_the_real_server(name: str) -> None:
    scenario = CORPUS[name]
    async with server_of(scenario) as server, PlainWire.connected(server.ws_url()) as wire:
        straight = normal(await play(scenario, wire))
    async with (
        server_of(scenario) as server,
        bridged(f"smooth+{server.ws_url()}") as (_, url),
        PlainWire.connected(url) as wire,
    ):
        through = normal(await play(scenario, wire))
    assert not difference(straight, through), difference(straight, through)


@needs_shared
def test_scenarios_of_both_generations_exist() -> None:
    assert {name.partition("/")[0] for name in CORPUS} == {"spec", "spec-1.3.0"}
    assert len(CORPUS) >= 14


# -- that the runner can fail -----------------------------------------------------------------------

ANSWER = "It weighs three kilograms."
OWN: dict[str, Any] = {
    "name": "own",
    "description": "A tool call and an answer.",
    "server": {"tools": [{"name": "weigh", "description": "Weigh it.", "parameters": {}, "result": "3 kg"}]},
    "mockLlmScript": [{"kind": "toolCall", "name": "weigh"}, {"kind": "text", "text": ANSWER}],
    "steps": [
        {
            "send": {"action": "create_conversation_session", "requestId": "r1", "agentId": "a"},
            "expect": [{"type": "immediate_response", "status": 200, "capture": {"session": "data.sessionId"}}],
        },
        {
            "send": {
                "action": "send_message",
                "requestId": "r2",
                "sessionId": "{{session}}",
                "message": "?",
                "stream": True,
            },
            "expect": [
                {"type": "immediate_response", "status": 202, "assert": {"requestId": "r2"}},
                {"type": "stream_chunk", "repeat": True, "assert": {"requestId": "r2"}},
                {"type": "stream_token", "repeat": True, "accumulate": "token", "assertAccumulated": ANSWER},
                {"type": "eventual_response", "assert": {"data.data.response.responseParts": [ANSWER]}},
            ],
        },
    ],
}


def doctored(change: Callable[[Any], object]) -> Scenario:
    """Return our own scenario with these changes."""
    raw = deepcopy(OWN)
    change(raw)
    return read(json.dumps(raw))


def turn(raw: Any) -> Any:
    """Return the expected frames of the first step of a turn."""
    return raw["steps"][1]["expect"]


CHANGES: dict[str, tuple[Callable[[Any], object], str]] = {
    "status": (lambda raw: turn(raw)[0].update(status=200), "status is not 200"),
    "type": (lambda raw: turn(raw)[3].update(type="error"), "not error"),
    "order": (lambda raw: turn(raw).insert(1, turn(raw).pop(2)), "not stream_token"),
    "asserted value": (lambda raw: turn(raw)[0].update({"assert": {"requestId": "r1"}}), "requestId is not 'r1'"),
    "asserted path": (lambda raw: turn(raw)[3].update({"assert": {"data.data.more.0": 1}}), "more.0 is not 1"),
    "every one of a repeat": (lambda raw: turn(raw)[1].update({"assert": {"node": "weigh", "data.x": 1}}), "data.x"),
    "joined text": (lambda raw: turn(raw)[2].update(assertAccumulated="It weighs"), "token is 'It weighs three"),
    "captured": (lambda raw: raw["steps"][0]["expect"][0].update(capture={"session": "data.id"}), "nothing at data.id"),
    "more than comes": (lambda raw: turn(raw).append({"type": "cancelled"}), "nothing came, waiting for cancelled"),
    "less than comes": (lambda raw: turn(raw).__delitem__(slice(1, None)), "after the last step"),
    "nothing": (lambda raw: raw["steps"].insert(0, {"send": {"action": "x"}, "expect": []}), "not immediate_response"),
    "never captured": (lambda raw: raw["steps"].pop(0), "nothing was captured as session"),
}


@pytest.mark.parametrize("what", CHANGES)
async def test_a_scenario_with_one_changed_expectation_fails(what: str) -> None:
    change, told = CHANGES[what]
    scenario = doctored(change)
    async with server_of(scenario) as server, PlainWire.connected(server.ws_url()) as wire:
        with pytest.raises(Diverged, match=told):
            await play(scenario, wire, deadline=2.0 if what == "more than comes" else DEADLINE)


async def test_the_unchanged_scenario_passes() -> None:
    scenario = doctored(lambda raw: None)
    async with server_of(scenario) as server, PlainWire.connected(server.ws_url()) as wire:
        received = await play(scenario, wire)
    assert [frame["type"] for frame in received][-2:] == ["eventual_response", "pong"]


@pytest.mark.parametrize(
    "change",
    [
        lambda raw: raw.update(timeoutMs=5),
        lambda raw: turn(raw)[0].update(matches={"requestId": "r.*"}),
        lambda raw: raw["server"].update(confirmTool=["weigh"]),
        lambda raw: raw["mockLlmScript"][1].update(kind="error"),
        lambda raw: turn(raw).pop(),
    ],
    ids=["a key", "a matcher", "a server's key", "a model's word", "a repeat without an end"],
)
def test_an_expectation_that_the_runner_does_not_check_is_refused(change: Callable[[Any], object]) -> None:
    raw = deepcopy(OWN)
    change(raw)
    with pytest.raises(ValueError, match=r"unknown field|model says|repeat ends"):
        read(json.dumps(raw))
