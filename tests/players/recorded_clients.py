"""Recorded clients that repeat their frames exactly, in front of backends of any dialect with the recorded answers."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from dragoman.gateway.demo.backend import DemoBackend
from dragoman.gateway.demo.script import Line, Scripts
from dragoman.gateway.endpoint import Endpoint
from dragoman.gateway.session.ports import BackendEvents
from dragoman.mappings.canonical.events import (
    ModelTurnStarted,
    ReasoningDelta,
    ReasoningDone,
    ReasoningStarted,
    TextDelta,
    TextDone,
    ToolCallArguments,
    ToolCallFinished,
    ToolCallStarted,
    TurnEnded,
)
from dragoman.mappings.canonical.values import End
from tests.dialects import parts
from tests.gateway.in_memory import InMemoryPeer
from tests.idle import settle
from tests.oracle.base import Said
from tests.players.capture_readers import Turn, turns_of
from tests.players.captured.codewhale import usual
from tests.players.captured.pando import SESSION
from tests.players.captures import Message, messages
from tests.players.clients import InMemoryClient, InMemoryPandoClient, InMemoryPodClient, flat
from tests.players.in_memory import AnyBackendGateway, any_backend_gateway

WAITS = 1.0  # a delay that ends when the test calls `release`
PIECE = 5  # characters of a piece of text
ONE_SESSION = ("pod",)
END: dict[str, End] = {"completed": "completed", "failed": "failed", "cancelled": "cancelled", "": "completed"}
PARTING = {"shutdown"}


def script(turn: Turn, *, acts: bool) -> list[Line]:
    """Return the script of the demo backend for this turn; with `acts` it waits before the last word."""
    told: list[Any] = [ModelTurnStarted()] if not turn.empty else []
    if turn.thought:
        told += [ReasoningStarted(), ReasoningDelta(text=turn.thought), ReasoningDone(text=turn.thought)]
    results = list(turn.results)
    for number, (name, arguments) in enumerate(turn.calls):
        call = f"call-{number}"
        told.append(ToolCallStarted(call=call, name=name))
        told.append(ToolCallArguments(call=call, name=name, json=arguments, done=True))
        found = next((result for result in results if result[0] == name), None)
        if found is not None:
            results.remove(found)
            told.append(ToolCallFinished(call=call, name=name, summary="done", output=found[1]))
    told += [TextDelta(text=turn.text[at : at + PIECE]) for at in range(0, len(turn.text), PIECE)]
    ends = [TextDone(text=turn.text)] if turn.text and turn.end == "completed" else []
    last = [Line(event=event) for event in (*ends, TurnEnded(end=END[turn.end]))]
    if acts:
        last[0] = Line(event=last[0].event, delay=WAITS)
    return [*(Line(event=event) for event in told), *last]


class PausableDemoBackend(DemoBackend):
    """A demo backend whose delays end when `release` is called."""

    waits = False

    def release(self) -> None:
        """Continue the turn that waits, if any."""
        self.waits = False
        self._wake.set()

    async def _pause(self, delay: float) -> None:
        self.waits = bool(delay)
        while self.waits and self._stop is None and not self._stopped:
            self._wake.clear()
            await self._wake.wait()


class RecordedTurnsGateway(AnyBackendGateway):
    """A route whose backend is the demo backend."""

    def __init__(self, group: asyncio.TaskGroup, dialect: str, turns: list[list[Line]]) -> None:
        self.turns = turns
        self.actors: list[PausableDemoBackend] = []
        self._rotates = dialect == "pod"  # as the first run of each pod does
        nowhere = Endpoint(dialect="pod" if dialect in ONE_SESSION else "smooth", transport="demo", address="play")
        super().__init__(group, dialect, upstream=nowhere, keeps=False)

    def _upstream(self, session: BackendEvents, endpoint: Endpoint) -> Any:
        actor = PausableDemoBackend(session, self.services.start_task, Scripts(self.turns), rotates=self._rotates)
        self.actors.append(actor)
        return actor


class RecordedTurnsBackend:
    """The backend of `stage`, which sends the recorded content of each turn. `rest` passes on what both sides sent.

    It is the demo backend behind a second route. Frames of the gateway under test go to a client link of that route,
    and its frames go back. A turn waits at the places where the recorded client sent something during the turn.
    """

    def __init__(self, stage: AnyBackendGateway, turns: list[list[Line]]) -> None:
        self._stage = stage
        self._acted = RecordedTurnsGateway(stage.group, stage.backend, turns)
        self._peers: list[InMemoryPeer] = []
        self._passed: dict[int, int] = {}

    def release(self) -> None:
        """Continue the turn that waits."""
        for actor in self._acted.actors:
            actor.release()

    async def rest(self) -> None:
        """Run until neither side sends anything."""
        await settle()
        while self._hand_over():
            await settle()

    def _hand_over(self) -> bool:
        """Pass on what was sent since the last time; return False if there was nothing."""
        any_news = False
        for number, outer in enumerate(self._stage.pods):
            if number == len(self._peers):
                self._peers.append(self._connect(number))
            inner = self._peers[number]
            for frame in self._news(outer):
                any_news = True
                if self._stage.backend == "pando":
                    inner.calls(frame)
                else:
                    inner.transport.say(frame)
            for frame in self._told(number, inner):
                any_news = True
                outer.transport.say(frame)
        return any_news

    def _connect(self, number: int) -> InMemoryPeer:
        if self._stage.backend == "pando":
            return self._acted.caller(f"connection {number}")
        return self._acted.join(f"connection {number}", dialect=self._stage.backend)

    def _told(self, number: int, inner: InMemoryPeer) -> Iterator[bytes]:
        yield from self._news(inner)
        if self._stage.backend == "pando" and number == len(self._stage.pods) - 1:
            yield from self._news(self._acted.publication)

    def _news(self, peer: InMemoryPeer) -> list[bytes]:
        before = self._passed.get(id(peer), 0)
        self._passed[id(peer)] = len(peer.transport.got)
        return peer.transport.got[before:]

    async def end(self) -> None:
        """Disconnect all clients."""
        await self._acted.end()


class RepeatedConversation(Struct):
    """The turns and history shown to a recorded client, its requests without an answer, and faults in their order."""

    due: list[Turn]
    said: list[Said]
    turns: list[Turn]
    history: list[Said]
    open: list[str]
    illegal: str = ""


def steps(dialect: str, number: str) -> list[Message]:
    """Return the conversation of a recorded client's first connection; of a codewhale the turns of its first thread."""
    kept: list[Message] = []
    thread = ""
    for message in messages(dialect, number):
        if not message.text:
            break
        if message.conn != "a" or not isinstance(message.value, dict):
            continue
        if message.way == "said" and dialect == "codewhale":
            frame = usual(message.value)
            if frame["method"] in PARTING:
                break
            if frame["method"] == "thread/message":
                thread = thread or frame["params"]["thread_id"]
                if frame["params"]["thread_id"] != thread:
                    continue
        kept.append(message)
    return kept


def _ours(dialect: str, number: str) -> list[Turn]:
    return [turn for turn in parts(dialect).captured_backend(number).turns() if turn.ours]


def _is_input(frame: dict[str, Any]) -> bool:
    frame = usual(frame)
    return (frame.get("method") or frame.get("action")) in ("run", "message.send", "thread/message", "send_message")


class _RepeatedClient:
    """A recorded client in front of a played backend."""

    def __init__(self, client: InMemoryClient, backend: RecordedTurnsBackend, recorded: list[Message]) -> None:
        self._client = client
        self._backend = backend
        self._recorded = recorded
        self.names: dict[str, str] = {}  # ids that were recorded -> ids that were given

    async def run(self) -> None:
        """Send all recorded messages, in the middle of a turn if they were recorded there."""
        client = self._client
        for at, message in enumerate(self._recorded):
            if message.way != "said":
                continue
            if not self._in_turn(at):
                self._backend.release()
                await self._backend.rest()
            text = message.text
            for recorded, given in self.names.items():
                text = text.replace(recorded, given)
            if isinstance(client, InMemoryPandoClient):
                client.peer.calls(text.encode())
            else:
                client.peer.sends(text.encode())
            await self._backend.rest()
            self._learn(message.value)

    def _in_turn(self, at: int) -> bool:
        turns = turns_of(self._client.dialect, ((message.way, message.value) for message in self._recorded[:at]))
        return bool(turns) and not turns[-1].end

    def _learn(self, asked: dict[str, Any]) -> None:
        """Learn the ids in the answer to a request that replace recorded ones."""
        key = "requestId" if self._client.dialect == "smooth" else "id"
        if key not in asked:
            return
        answers = [m.value for m in self._recorded if m.way == "got" and m.value.get(key) == asked[key]]
        given = [frame for frame in self._client.peer.frames() if frame.get(key) == asked[key]]
        for recorded, now in zip(_ids(answers[-1:]), _ids(given[-1:]), strict=False):
            if recorded and now:
                self.names.setdefault(recorded, now)


def _ids(answers: list[dict[str, Any]]) -> list[str]:
    """Return the ids that name a conversation in an answer."""
    if not answers:
        return []
    data = answers[0].get("data") or answers[0].get("result")
    known = data if isinstance(data, dict) else {}
    return [str(known.get(name) or "") for name in ("sessionId", "conversationId", "thread_id")]


async def repeated(dialect: str, number: str, backend: str) -> RepeatedConversation:
    """Let a recorded client send everything again, to a backend of this dialect."""
    recorded = steps(dialect, number)
    turns = _ours(dialect, number) if parts(dialect).captured_backend.plays(number) else []
    acts = _acts(dialect, recorded, len(turns))
    lines = [script(turn, acts=act or turn.end in ("", "cancelled")) for turn, act in zip(turns, acts, strict=True)]
    async with any_backend_gateway(backend) as stage:
        acted = RecordedTurnsBackend(stage, lines or [script(Turn(end="completed"), acts=False)])
        try:
            return await _repeat(parts(dialect).in_memory_client(stage, "recorded"), acted, recorded, turns)
        finally:
            await acted.end()


async def _repeat(
    client: InMemoryClient, acted: RecordedTurnsBackend, recorded: list[Message], turns: list[Turn]
) -> RepeatedConversation:
    stage = client.stage
    stage.rest = acted.rest
    if isinstance(client, InMemoryPodClient | InMemoryPandoClient):  # else it opens its conversation itself
        await client.open()
    repetition = _RepeatedClient(client, acted, recorded)
    if isinstance(client, InMemoryPandoClient):
        repetition.names[SESSION] = client.public()
    await repetition.run()
    if not turns or turns[-1].end:
        acted.release()
    await acted.rest()
    due = list(turns)
    if stage.backend == "pando":  # its `llm.end` does not say whether the turn was cancelled
        acts = _acts(client.dialect, recorded, len(turns))
        due = [_as_completed(turn) if not act else turn for turn, act in zip(turns, acts, strict=True)]
    done = RepeatedConversation(due, _said(recorded, turns, rolls_back=stage.backend == "pod"), [], [], [])
    if client.session is None and stage.router.sessions:
        client.session = stage.router.sessions[0]
    if client.session is not None:
        done.turns = client.turns()
        done.history = await client.history()
    done.open, done.illegal = client.unanswered()
    return done


def _acts(dialect: str, recorded: list[Message], turns: int) -> list[bool]:
    """Return for each turn whether the recorded client did anything in its middle."""
    acts: list[bool] = []
    wire: list[tuple[str, Any]] = []
    for message in recorded:
        if message.way == "said" and _is_input(message.value):
            acts.append(False)
        elif message.way == "said" and acts:
            shown = turns_of(dialect, wire)
            acts[-1] = acts[-1] or (bool(shown) and not shown[-1].end)
        wire.append((message.way, message.value))
    return [*acts, *[False] * turns][:turns]


def _as_completed(turn: Turn) -> Turn:
    return replace(turn, end="completed") if turn.end == "cancelled" else turn


def _said(recorded: list[Message], turns: list[Turn], *, rolls_back: bool) -> list[Said]:
    """Return the messages with their speakers; a pod takes back an input that was stopped before any output."""
    inputs = [_text(usual(m.value)) for m in recorded if m.way == "said" and _is_input(m.value)]
    said: list[Said] = []
    for text, turn in zip(inputs, turns, strict=False):
        if rolls_back and turn.empty and turn.end == "cancelled":
            continue
        said += [("user", text), ("assistant", turn.text)]
    return said


def _text(frame: dict[str, Any]) -> str:
    params = frame.get("params") or frame
    value = params.get("input") or params.get("content") or params.get("message")
    return flat(value) if isinstance(value, list) else str(value)
