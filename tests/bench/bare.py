"""The bare bridge of each pair: the least that an honest translation costs on uvloop, aiohttp, msgspec and pyzmq.

    python -m tests.bench.bare CLIENT BACKEND LISTENERS ADDRESS_OF_A_BACKEND...

Typed decoding, a neutral event between the two dialects, one write for what one read brought. There are no identities,
limits, counters, history or recording, and one backend connection for each client. pod to smooth is the optimum of
docs/performance.md.
"""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import Awaitable, Callable
from typing import Any, Protocol
from uuid import uuid4

import msgspec
import uvloop
import zmq
from aiohttp import ClientSession, TCPConnector, WSMsgType, web
from msgspec import Struct

from tests.gateway.pod_messages import GREETING

encode = msgspec.json.Encoder().encode

TASKS = asyncio.TaskGroup()  # owns whatever the bridge does beside reading and writing


class Client(Protocol):
    """The client's side of a session."""

    def send_text(self, tokens: list[str]) -> None: ...
    def send_end(self, text: str) -> None: ...


class Backend:
    """The backend's side of a session; it collects the text, which most dialects repeat at the end."""

    def __init__(self, client: Client) -> None:
        self.client = client
        self.said: list[str] = []

    def run(self, text: str) -> None:
        raise NotImplementedError

    def tell(self, tokens: list[str], ended: bool) -> None:
        """Pass on what one read brought."""
        if tokens:
            self.said += tokens
            self.client.send_text(tokens)
        if ended:
            text = "".join(self.said)
            self.said = []
            self.client.send_end(text)


Dial = Callable[[Client], Awaitable[Backend]]

# -- smooth -----------------------------------------------------------------------------------------------------


class TokenData(Struct, gc=False, rename="camel"):
    request_id: str
    token: str


class StreamToken(Struct, gc=False, rename="camel", tag="stream_token"):
    request_id: str
    token: str
    data: TokenData
    timestamp: int


class Smooth(Struct, gc=False, rename="camel"):
    """Every message of a smooth peer, as far as a bridge reads it."""

    type: str = ""
    action: str = ""
    request_id: str = ""
    token: str = ""
    message: str = ""


SMOOTH = msgspec.json.Decoder(Smooth).decode


def framed(payload: bytes) -> bytes:
    """Return a text frame of a server."""
    size = len(payload)
    if size < 126:
        return b"\x81%c" % size + payload
    return (b"\x81\x7e" + size.to_bytes(2) if size < 65536 else b"\x81\x7f" + size.to_bytes(8)) + payload


class SmoothClient:
    def __init__(self, transport: asyncio.WriteTransport) -> None:
        self.transport = transport
        self.request = ""

    def send_text(self, tokens: list[str]) -> None:
        now, request = int(time.time() * 1000), self.request
        said = [encode(StreamToken(request, token, TokenData(request, token), now)) for token in tokens]
        self.transport.write(b"".join([framed(payload) for payload in said]))

    def send(self, kind: str, request: str, **fields: object) -> None:
        self.transport.write(framed(encode({"type": kind, "requestId": request, **fields, "timestamp": 1})))

    def send_end(self, text: str) -> None:
        answer = {"messageId": str(uuid4()), "response": {"responseParts": [text]}, "needsEscalation": False}
        data = {"requestId": self.request, "status": 200, "data": answer}
        self.send("eventual_response", self.request, status=200, data=data)


async def serve_smooth(dials: list[Dial]) -> None:
    taken = iter(dials * 10_000)

    async def handle(request: web.Request) -> web.WebSocketResponse:
        socket = web.WebSocketResponse(compress=False)
        await socket.prepare(request)
        assert request.transport is not None
        client = SmoothClient(request.transport)
        backend = await next(taken)(client)
        async for message in socket:
            if message.type is not WSMsgType.TEXT:
                break
            action = SMOOTH(message.data)
            if action.action == "send_message":
                client.request = action.request_id
                client.send("immediate_response", action.request_id, status=202, message="Accepted", data={})
                backend.run(action.message)
            else:
                names = ("sessionId", "conversationId", "agentId", "userParticipantId", "agentParticipantId")
                data = {name: str(uuid4()) for name in names}
                client.send("immediate_response", action.request_id, status=200, message="OK", data=data)
        return socket

    app = web.Application()
    app.router.add_get("/ws", handle)
    runner = web.AppRunner(app)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0, backlog=4096).start()
    say_listening(f"smooth+ws://127.0.0.1:{runner.addresses[0][1]}/ws")


class SmoothBackend(Backend):
    async def connect(self, session: ClientSession, address: str) -> None:
        url = f"ws://127.0.0.1:{address.removeprefix('tcp:')}/ws"
        self.socket = await session.ws_connect(url, decode_text=False)
        self.sends: set[asyncio.Task[None]] = set()
        await self.act("create_conversation_session", agentId=str(uuid4()))
        self.session = msgspec.json.decode((await self.socket.receive()).data)["data"]["sessionId"]
        self.reading = TASKS.create_task(self.read())

    async def act(self, action: str, **fields: str) -> None:
        await self.socket.send_str(encode({"action": action, "requestId": str(uuid4()), **fields}).decode())

    def run(self, text: str) -> None:
        task = TASKS.create_task(self.act("send_message", sessionId=self.session, message=text))
        self.sends.add(task)
        task.add_done_callback(self.sends.discard)

    async def read(self) -> None:
        """Read messages, and tell all that one read brought at once: the reader's queue says what is left of it."""
        tokens: list[str] = []
        queue = self.socket._reader._buffer  # what a joined write needs to know, and aiohttp does not tell
        async for message in self.socket:
            event = SMOOTH(message.data)
            if event.type == "stream_token":
                tokens.append(event.token)
            ended = event.type == "eventual_response"
            if ended or not queue:
                self.tell(tokens, ended)
                tokens = []


# -- lines: pod and codewhale -------------------------------------------------------------------------------------


class Lines(asyncio.Protocol):
    """A connection of JSON lines: whole lines of each read go to `take`."""

    transport: Any
    rest = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = transport

    def data_received(self, data: bytes) -> None:
        *lines, self.rest = (self.rest + data).split(b"\n")
        if lines:
            self.take(lines)

    def take(self, lines: list[bytes]) -> None:
        raise NotImplementedError

    def write(self, *messages: object) -> None:
        self.transport.write(b"".join([encode(message) + b"\n" for message in messages]))


class LinesClient(Lines):
    """A client that is not read before its backend is connected."""

    def __init__(self, dial: Dial) -> None:
        self.dial = dial

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = transport
        self.transport.pause_reading()
        self.dialling = TASKS.create_task(self.begin())

    async def begin(self) -> None:
        self.backend = await self.dial(self)  # type: ignore[arg-type]  # its subclasses are clients
        self.greet()
        self.transport.resume_reading()

    def greet(self) -> None: ...


class PodData(Struct, gc=False):
    text: str = ""
    status: str = ""


class Pod(Struct, gc=False):
    event: str
    data: PodData | None = None


POD = msgspec.json.Decoder(Pod).decode


class DeltaText(Struct, gc=False):
    text: str


class TextDelta(Struct, gc=False):
    event: str
    data: DeltaText


def pod(name: str, **data: object) -> dict[str, object]:
    return {"event": name, "data": data}


class PodClient(LinesClient):
    def greet(self) -> None:
        self.write(pod("snapshot", entries=[], greeting=GREETING, status="idle"))

    def take(self, lines: list[bytes]) -> None:
        for line in lines:
            method = msgspec.json.decode(line)
            if method["method"] == "run":
                segments = method["params"]["input"]
                self.write(pod("user_message", segments=segments), pod("status", status="running"))
                self.backend.run("".join(segment["content"] for segment in segments))

    def send_text(self, tokens: list[str]) -> None:
        said = [encode(TextDelta("text_delta", DeltaText(token))) for token in tokens]
        said.append(b"")
        self.transport.write(b"\n".join(said))

    def send_end(self, text: str) -> None:
        ends = [pod("turn_end", turn=0, result="finished"), pod("run_end", result="finished")]
        self.write(pod("text_done", text=text), *ends, pod("status", status="idle"))


class PodBackend(Lines, Backend):
    def run(self, text: str) -> None:
        self.write({"method": "run", "params": {"input": [{"kind": "text", "content": text}]}})

    def take(self, lines: list[bytes]) -> None:
        tokens, ended = [], False
        for line in lines:
            event = POD(line)
            if event.event == "text_delta" and event.data:
                tokens.append(event.data.text)
            elif event.event == "run_end":
                ended = True
        self.tell(tokens, ended)


class Delta(Struct, gc=False, tag="response_delta"):
    response_id: str
    delta: str


class Codewhale(Struct, gc=False):
    type: str = ""
    delta: str = ""
    result: msgspec.Raw = msgspec.Raw()


CODEWHALE = msgspec.json.Decoder(Codewhale).decode


class CodewhaleClient(LinesClient):
    asked: Any = None

    def take(self, lines: list[bytes]) -> None:
        for line in lines:
            call = msgspec.json.decode(line)
            if call["method"] == "thread/start":
                self.reply(call["id"], thread_id="thread", status="started")
            else:
                self.asked = call["id"]
                self.write({"type": "response_start", "response_id": "response"})
                self.backend.run(call["params"]["input"])

    def reply(self, to: object, **result: object) -> None:
        self.write({"jsonrpc": "2.0", "id": to, "result": result})

    def send_text(self, tokens: list[str]) -> None:
        said = [encode(Delta("response", token)) for token in tokens]
        said.append(b"")
        self.transport.write(b"\n".join(said))

    def send_end(self, text: str) -> None:
        self.write({"type": "response_end", "response_id": "response"})
        self.reply(self.asked, thread_id="thread", status="accepted", data={"turn_id": "turn"})


class CodewhaleBackend(Lines, Backend):
    thread: asyncio.Future[str] | None = None

    async def begin(self) -> None:
        self.thread = asyncio.get_running_loop().create_future()
        self.write({"jsonrpc": "2.0", "id": 1, "method": "thread/start", "params": {}})
        self.name = await self.thread

    def run(self, text: str) -> None:
        params = {"thread_id": self.name, "input": text}
        self.write({"jsonrpc": "2.0", "id": 2, "method": "thread/message", "params": params})

    def take(self, lines: list[bytes]) -> None:
        tokens, ended = [], False
        for line in lines:
            event = CODEWHALE(line)
            if event.type == "response_delta":
                tokens.append(event.delta)
            elif event.type == "response_end":
                ended = True
            elif self.thread and not self.thread.done():
                self.thread.set_result(msgspec.json.decode(event.result)["thread_id"])
        self.tell(tokens, ended)


# -- pando ------------------------------------------------------------------------------------------------------

CONTEXT = zmq.Context()
CONTEXT.set(zmq.MAX_SOCKETS, 8192)


class PandoPayload(Struct, gc=False):
    session_id: str
    token: str = ""


class PandoEvent(Struct, gc=False, rename="camel"):
    topic: str
    timestamp: str
    payload: PandoPayload
    instance_id: str = "bare"
    project_id: str = ""


PANDO = msgspec.json.Decoder(PandoEvent).decode


class Socket:
    """A ZeroMQ socket that is drained when its descriptor says so."""

    def __init__(self, kind: int, take: Callable[[list[list[bytes]]], None] | None = None) -> None:
        self.socket = CONTEXT.socket(kind)
        self.socket.set_hwm(0)
        self.take = take
        if take is not None:
            asyncio.get_running_loop().add_reader(self.socket.fileno(), self.drain)

    def drain(self) -> None:
        got: list[list[bytes]] = []
        while self.take is not None:
            try:
                got.append(self.socket.recv_multipart(zmq.NOBLOCK))
            except zmq.Again:
                break
            if len(got) == 256:
                asyncio.get_running_loop().call_soon(self.drain)  # the descriptor tells of an edge only
                break
        if got and self.take is not None:
            self.take(got)

    def send(self, *parts: bytes) -> None:
        self.socket.send_multipart(parts, zmq.NOBLOCK)
        if self.take is not None and int(self.socket.getsockopt(zmq.EVENTS)) & zmq.POLLIN:
            asyncio.get_running_loop().call_soon(self.drain)  # a send takes the edge away


class PandoClient:
    def __init__(self) -> None:
        self.told, self.calls = Socket(zmq.PUB), Socket(zmq.ROUTER, self.take)
        ports = [each.socket.bind_to_random_port("tcp://127.0.0.1") for each in (self.told, self.calls)]
        say_listening(f"pando+tcp://127.0.0.1:{ports[0]}?rpc={ports[1]}")
        self.session = ""

    async def begin(self, dial: Dial) -> None:
        self.backend = await dial(self)

    def take(self, got: list[list[bytes]]) -> None:
        for identity, _, payload in got:
            call = msgspec.json.decode(payload)
            params = call["params"]
            result = params["params"] if call["method"] == "db.write" else {"ok": True}
            self.calls.send(identity, b"", encode({"jsonrpc": "2.0", "id": call["id"], "result": result}))
            if call["method"] == "message.send":
                self.session = params["session_id"]
                self.publish("llm.start", "")
                self.backend.run(params["content"])

    def publish(self, topic: str, token: str) -> None:
        event = PandoEvent(topic, "2026-05-09T21:28:20.123456789Z", PandoPayload(self.session, token))
        self.told.send(topic.encode() + b"\0" + encode(event))

    def send_text(self, tokens: list[str]) -> None:
        for token in tokens:
            self.publish("llm.token", token)

    def send_end(self, text: str) -> None:
        self.publish("llm.end", "")


class PandoBackend(Backend):
    async def connect(self, told: str, calls: str) -> None:
        self.opened: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.told, self.calls = Socket(zmq.SUB, self.take_events), Socket(zmq.DEALER, self.take_replies)
        self.told.socket.subscribe(b"")
        for each, address in ((self.told, told), (self.calls, calls)):
            each.socket.connect(f"tcp://127.0.0.1:{address.removeprefix('tcp:')}")
        self.session = str(uuid4())
        self.call("db.write", meta={}, method="CreateSession", params={"id": self.session})
        await self.opened
        await asyncio.sleep(0.1)  # nothing tells when the subscription has been heard of

    def call(self, method: str, /, **params: object) -> None:
        self.calls.send(b"", encode({"jsonrpc": "2.0", "id": str(uuid4()), "method": method, "params": params}))

    def take_replies(self, got: list[list[bytes]]) -> None:
        if not self.opened.done():
            self.opened.set_result(None)

    def run(self, text: str) -> None:
        self.call("message.send", session_id=self.session, content=text)

    def take_events(self, got: list[list[bytes]]) -> None:
        tokens, ended = [], False
        for (message,) in got:
            topic, _, body = message.partition(b"\0")
            if topic == b"llm.token":
                tokens.append(PANDO(body).payload.token)
            elif topic == b"llm.end":
                ended = True
        self.tell(tokens, ended)


# -- together ---------------------------------------------------------------------------------------------------


def say_listening(endpoint: str) -> None:
    print(f"listening {endpoint}", file=sys.stderr, flush=True)


def dials_of(backend: str, addresses: list[str], session: ClientSession) -> list[Dial]:
    """Return how to connect to each backend."""
    loop = asyncio.get_running_loop()

    def lines(kind: type[PodBackend] | type[CodewhaleBackend], address: str) -> Dial:
        async def dial(client: Client) -> Backend:
            path = address.removeprefix("unix:")
            _, made = await loop.create_unix_connection(lambda: kind(client), path)
            if isinstance(made, CodewhaleBackend):
                await made.begin()
            return made

        return dial

    def smooth(address: str) -> Dial:
        async def dial(client: Client) -> Backend:
            made = SmoothBackend(client)
            await made.connect(session, address)
            return made

        return dial

    def pando(told: str, calls: str) -> Dial:
        async def dial(client: Client) -> Backend:
            made = PandoBackend(client)
            await made.connect(told, calls)
            return made

        return dial

    if backend == "pando":
        return [pando(*pair) for pair in zip(addresses[::2], addresses[1::2], strict=True)]
    if backend == "smooth":
        return [smooth(address) for address in addresses]
    kind = PodBackend if backend == "pod" else CodewhaleBackend
    return [lines(kind, address) for address in addresses]


async def main(client: str, backend: str, place: str, *addresses: str) -> None:
    """Serve until killed. `place` is a path, or for pando the number of listeners."""
    async with ClientSession(connector=TCPConnector(limit=0)) as session, TASKS:
        dials = dials_of(backend, list(addresses), session)
        if client == "smooth":
            await serve_smooth(dials)
        elif client == "pando":
            for n in range(int(place)):
                TASKS.create_task(PandoClient().begin(dials[n % len(dials)]))
        else:
            taken = iter(dials * 10_000)
            made = PodClient if client == "pod" else CodewhaleClient
            loop = asyncio.get_running_loop()
            await loop.create_unix_server(lambda: made(next(taken)), place, backlog=4096)
            say_listening(f"{client}+unix:{place}")
        await asyncio.Event().wait()


if __name__ == "__main__":
    uvloop.run(main(*sys.argv[1:]))
