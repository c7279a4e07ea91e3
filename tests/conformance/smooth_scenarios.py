"""Run the scenario corpus of the smooth protocol against a server, directly or through a gateway.

A scenario scripts the server (model, tools, knowledge). Each step has the frame that the client sends and the frames
that must come back. A key of the corpus that this runner does not know is an error, because ignoring it would skip a
check.
"""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Iterator
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any, Protocol

import msgspec
from msgspec import Struct, field
from smooth_operator_core import FunctionTool, InMemoryKnowledge, MockLlmProvider

from tests.peers.smooth_server import hosted
from tests.shared import SHARED

DEADLINE = 20.0  # seconds for the next frame of a scripted server on this machine
PASSED_OVER = {"keepalive", "pong"}  # types that are ignored, because they are not part of a conversation
FENCE = "fence"  # the request id of a ping: its answer proves that no more frames are on the way


class Diverged(AssertionError):  # noqa: N818  # what happened, as pytest's own Failed and Skipped
    """The received frames differ from the scenario."""


class Expected(Struct, rename="camel", forbid_unknown_fields=True):
    """An expected frame, or with `repeat` one or more frames of a type."""

    type: str
    status: int | None = None
    asserted: dict[str, Any] = field(name="assert", default_factory=dict)
    capture: dict[str, str] = {}
    repeat: bool = False
    accumulate: str = ""
    assert_accumulated: str | None = None


class Step(Struct, forbid_unknown_fields=True):
    """A frame to send, and the frames that must arrive before the next step."""

    send: dict[str, Any]
    expect: list[Expected]


class Said(Struct, rename="camel", forbid_unknown_fields=True):
    """Describe one output of the scripted model: a text or a tool call."""

    kind: str
    text: str = ""
    name: str = ""
    arguments: str = "{}"


class Tool(Struct, forbid_unknown_fields=True):
    """A tool with a constant result."""

    name: str
    description: str
    parameters: dict[str, Any]
    result: str


class Document(Struct, forbid_unknown_fields=True):
    """A text in the knowledge base of the server."""

    content: str
    source: str


class Server(Struct, rename="camel", forbid_unknown_fields=True):
    """The configuration of the server, apart from its model."""

    tools: list[Tool] = []
    confirm_tools: list[str] = []
    knowledge: list[Document] = []


class Scenario(Struct, rename="camel", forbid_unknown_fields=True):
    """A scenario: the content of one file of the corpus."""

    name: str
    description: str
    mock_llm_script: list[Said]
    steps: list[Step]
    server: Server = field(default_factory=Server)


class Wire(Protocol):
    """The connection of a client, over which a scenario sends and receives."""

    async def send(self, frame: dict[str, Any]) -> None:
        """Send this frame unchanged."""

    async def receive(self) -> dict[str, Any]:
        """Return the next frame."""


def read(text: str) -> Scenario:
    """Return a scenario from the text of its file; raise ValueError for content that is not checked here."""
    scenario = msgspec.json.decode(text, type=Scenario)
    for step in scenario.steps:
        if step.expect and step.expect[-1].repeat:
            raise ValueError(f"{scenario.name}: a repeat ends only where another type follows")
        if any(said.kind not in ("text", "toolCall") for said in scenario.mock_llm_script):
            raise ValueError(f"{scenario.name}: a model says text or toolCall")
    return scenario


def corpus() -> Iterator[tuple[str, Scenario]]:
    """Return every scenario of every available generation, by generation and name."""
    if SHARED is None:
        return
    for file in sorted((SHARED / "smooth-operator").glob("spec*/conformance/scenarios/*.json")):
        yield f"{_generation(file)}/{file.stem}", read(file.read_text("utf-8"))


def _generation(file: Path) -> str:
    return file.parents[2].name


def server_of(scenario: Scenario) -> AbstractAsyncContextManager[Any]:
    """Run the real server with the script of the scenario."""
    model = MockLlmProvider()
    for number, said in enumerate(scenario.mock_llm_script):
        if said.kind == "text":
            model.push_text(said.text)
        else:
            model.push_tool_call(f"call-{number}", said.name, said.arguments)
    parts: dict[str, Any] = {}
    if scenario.server.knowledge:
        parts["knowledge"] = InMemoryKnowledge()
        for document in scenario.server.knowledge:
            parts["knowledge"].ingest(document.content, source=document.source)
    tools = [_function(tool) for tool in scenario.server.tools]
    return hosted(model, tools=tools, confirm_tools=scenario.server.confirm_tools, **parts)


def _function(tool: Tool) -> FunctionTool:
    async def answer(_arguments: dict[str, Any]) -> str:
        return tool.result

    return FunctionTool(name=tool.name, description=tool.description, parameters=tool.parameters, func=answer)


# -- playing ----------------------------------------------------------------------------------------


async def play(scenario: Scenario, wire: Wire, deadline: float = DEADLINE) -> list[dict[str, Any]]:
    """Play all steps; return the received frames. Raise Diverged with the step at which the answers differ."""
    player = _Player(wire, deadline)
    for number, step in enumerate(scenario.steps, 1):
        player.where = f"{scenario.name}, step {number}"
        await wire.send(player.filled(step.send))
        for expected in step.expect:
            await player.match(expected)
    player.where = f"{scenario.name}, after the last step"
    await player.nothing_more()
    return player.received


class _Player:
    """The position in a scenario: the captured values so far, and a frame that ended a repeat."""

    def __init__(self, wire: Wire, deadline: float) -> None:
        self.received: list[dict[str, Any]] = []
        self.where = ""
        self._wire = wire
        self._deadline = deadline
        self._captured: dict[str, Any] = {}
        self._peeked: dict[str, Any] | None = None

    def filled(self, value: Any) -> Any:
        """Return `value` with every {{name}} replaced by the value captured under this name."""
        match value:
            case dict():
                return {key: self.filled(item) for key, item in value.items()}
            case list():
                return [self.filled(item) for item in value]
            case str():
                return re.sub(r"\{\{(\w+)\}\}", lambda found: self._recall(found[1]), value)
            case _:
                return value

    def _recall(self, name: str) -> str:
        if name not in self._captured:
            raise Diverged(f"{self.where}: nothing was captured as {name}")
        return str(self._captured[name])

    async def match(self, expected: Expected) -> None:
        frame = await self._next(f"waiting for {expected.type}")
        self._check(frame, expected)
        if not expected.repeat:
            return
        joined = ""
        while True:
            joined += str(_at(frame, expected.accumulate) if expected.accumulate else "")
            frame = await self._next(f"after {expected.type}")
            if frame["type"] != expected.type:
                break
            self._check(frame, expected)
        self._peeked = frame
        if expected.assert_accumulated is not None and joined != expected.assert_accumulated:
            raise Diverged(f"{self.where}: {expected.accumulate} is {joined!r}, not {expected.assert_accumulated!r}")

    async def nothing_more(self) -> None:
        """Assert that nothing arrives before the answer to a ping."""
        await self._wire.send({"action": "ping", "requestId": FENCE})
        while self._peeked is None:
            frame = await self._received("waiting for a pong")
            if frame["type"] == "pong" and frame["requestId"] == FENCE:
                return
            if frame["type"] not in PASSED_OVER:
                self._peeked = frame
        raise Diverged(f"{self.where}: {json.dumps(self._peeked)}")

    async def _next(self, purpose: str) -> dict[str, Any]:
        if self._peeked is not None:
            frame, self._peeked = self._peeked, None
            return frame
        while True:
            frame = await self._received(purpose)
            if frame["type"] not in PASSED_OVER:
                return frame

    async def _received(self, purpose: str) -> dict[str, Any]:
        try:
            async with asyncio.timeout(self._deadline):
                frame = await self._wire.receive()
        except TimeoutError:
            raise Diverged(f"{self.where}: nothing came, {purpose}") from None
        self.received.append(frame)
        return frame

    def _check(self, frame: dict[str, Any], expected: Expected) -> None:
        said = json.dumps(frame)
        if frame["type"] != expected.type:
            raise Diverged(f"{self.where}: not {expected.type}: {said}")
        if expected.status is not None and frame.get("status") != expected.status:
            raise Diverged(f"{self.where}: status is not {expected.status}: {said}")
        for path, value in expected.asserted.items():
            if _at(frame, path) != self.filled(value):
                raise Diverged(f"{self.where}: {path} is not {value!r}: {said}")
        for name, path in expected.capture.items():
            self._captured[name] = _at(frame, path)
            if self._captured[name] is None:
                raise Diverged(f"{self.where}: nothing at {path}: {said}")


def _at(value: Any, path: str) -> Any:
    """Return the value at a path of keys and list indices, joined by dots; None if there is none."""
    for key in path.split("."):
        if isinstance(value, dict):
            value = value.get(key)
        elif isinstance(value, list) and key.isdecimal() and int(key) < len(value):
            value = value[int(key)]
        else:
            return None
    return value
