"""Smooth servers of the kinds that no package index has, in the test's own loop: R, T and the seed's 1.3.0.

Each difference is one value of a `SmoothVersion`, with the section of docs/dialects/smooth.md that describes it.
What they say is scripted by what they are asked: "hello", "look up", "delete", "fail", "wait".
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import Any
from uuid import uuid4

from msgspec import Struct
from websockets.asyncio.server import ServerConnection, serve
from websockets.exceptions import ConnectionClosed

from tests.smooth_frame_check import check_action

SEED_ACTIONS = frozenset(
    (
        "create_conversation_session",
        "get_session",
        "get_conversation_messages",
        "send_message",
        "confirm_tool_action",
        "ping",
    )
)  # section 10; verify_otp had a schema and no server (section 3)
HEAD_ACTIONS = SEED_ACTIONS | {"list_conversations", "verify_otp", "submit_interaction", "cancel"}  # section 3

PARK = 300.0  # section 6: R denies what nobody answered for so long


class SmoothVersion(Struct, frozen=True, kw_only=True):
    """A version of the smooth server, as far as it differs from the others."""

    name: str
    actions: frozenset[str] = HEAD_ACTIONS
    arguments_as_text: bool = True  # section 4, stream_chunk: a JSON string from R, an object from P and T
    needs_request: bool = True  # section 2: R refuses a send_message without requestId, P and T mint one
    phases: bool = True  # section 4, stream_chunk: `{}` for an R phase boundary
    reasons: bool = True  # section 4: of all servers only R emits stream_reasoning
    suggests: bool = True  # section 4, eventual_response: R fills suggestedNextActions, others always []
    tells_usage: bool = True  # section 4: usage is later
    pong_data: bool = True  # section 4: T omits it
    stored_records: bool = True  # section 5: R's page has conversationId, and records with content.items
    thread: bool = True  # section 3, get_session: threadId and status from R
    bare_session: bool = False  # section 3, get_session: T sends four of the fields
    missing_session: str = "VALIDATION_ERROR"  # section 8: T says SESSION_NOT_FOUND
    failure: str = "AGENT_ERROR"  # section 8: R's word for a failed turn; T's is INTERNAL_ERROR
    one_turn: bool = True  # section 6: TURN_IN_PROGRESS is later
    resumes: bool = True  # section 10: the seed ignores conversationId on create
    streams: bool = True  # section 9: a client must not rely on tokens; here the text is in the terminal alone
    optional: bool = True  # section 4: times, words of an acknowledgement and top-level mirrors may be left out
    deaf: bool = False  # none of the five: one that is too busy to cancel
    park: float | None = PARK  # section 6: R denies at the end of it, T waits on


R = SmoothVersion(name="R")
T = SmoothVersion(
    name="T",
    arguments_as_text=False,
    needs_request=False,
    phases=False,
    reasons=False,
    suggests=False,
    pong_data=False,
    stored_records=False,
    thread=False,
    bare_session=True,
    missing_session="SESSION_NOT_FOUND",
    failure="INTERNAL_ERROR",
    park=None,
)
SEED = SmoothVersion(
    name="seed", actions=SEED_ACTIONS, reasons=False, suggests=False, tells_usage=False, one_turn=False, resumes=False
)
TERSE = SmoothVersion(
    name="terse",
    phases=False,
    reasons=False,
    suggests=False,
    tells_usage=False,
    pong_data=False,
    stored_records=False,
    thread=False,
    bare_session=True,
    streams=False,
    optional=False,
)
"""None of the five: one that says no more than the schemas want."""

FLAVOURS = {flavour.name: flavour for flavour in (R, T, SEED, TERSE)}


class Session(Struct):
    """The record of a session in a server."""

    ids: dict[str, str]
    agent: str | None
    history: list[dict[str, Any]] = []


class SmoothVersionServer:
    """A version on a port of its own; `heard` is every action, `release` lets a "wait" go on."""

    def __init__(self, flavour: SmoothVersion) -> None:
        self.flavour = flavour
        self.heard: list[dict[str, Any]] = []
        self.release = asyncio.Event()
        self.sessions: dict[str, Session] = {}
        self.links: set[Link] = set()
        self.url = ""
        self.illegal: list[str] = []

    @property
    def endpoint(self) -> str:
        """The endpoint that dragoman dials."""
        return f"smooth+{self.url}"

    @asynccontextmanager
    async def serving(self) -> AsyncIterator[SmoothVersionServer]:
        async with serve(self._connected, "127.0.0.1", 0) as server:
            self.url = f"ws://127.0.0.1:{server.sockets[0].getsockname()[1]}/ws"
            yield self

    async def forget(self) -> None:
        """Drop all sessions and connections, as a restart does."""
        self.sessions.clear()
        for link in list(self.links):
            await link.socket.close()

    async def _connected(self, socket: ServerConnection) -> None:
        link = Link(self, socket)
        self.links.add(link)
        try:
            await link.run()
        finally:
            self.links.discard(link)


class Link:
    """A connection: its turns, and the parked one."""

    def __init__(self, server: SmoothVersionServer, socket: ServerConnection) -> None:
        self.server = server
        self.flavour = server.flavour
        self.socket = socket
        self.turns: dict[str, asyncio.Task[None]] = {}
        self.parked: dict[str, asyncio.Future[bool]] = {}
        self.group: asyncio.TaskGroup

    async def run(self) -> None:
        async with asyncio.TaskGroup() as self.group:
            with suppress(ConnectionClosed):
                async for text in self.socket:
                    await self._hear(json.loads(text))
            for turn in self.turns.values():  # section 6: a disconnect aborts the turn; nobody sees the seed's run on
                turn.cancel()

    async def say(self, kind: str, request: str | None, **fields: Any) -> None:
        """Send an event with its time, and its request id if it has one (section 2)."""
        ids = {} if request is None else {"requestId": request}
        if self.flavour.optional:
            fields["timestamp"] = 1_750_000_000_000
        else:
            fields = {key: value for key, value in fields.items() if key not in ("message", "error")}
        await self.socket.send(json.dumps({"type": kind, **fields, **ids}))

    async def _refuse(self, request: str | None, code: str) -> None:
        error = {"code": code, "message": f"refused: {code}"}
        ids = {} if request is None else {"requestId": request}
        await self.say("error", request, error=error, data={**ids, "error": error})

    async def _done(self, request: str | None, data: dict[str, Any]) -> None:
        await self.say("immediate_response", request, status=200, message="OK", data=data)

    # -- actions ---------------------------------------------------------------------------------------

    async def _hear(self, frame: dict[str, Any]) -> None:
        self.server.heard.append(frame)
        try:
            check_action(frame)
        except AssertionError as error:  # told when the server stops: raised here it would end the link alone
            self.server.illegal.append(f"{error}: {frame}")
        action, request = frame.get("action"), frame.get("requestId")
        if action not in self.flavour.actions:
            await self._refuse(request, "UNSUPPORTED_ACTION")
        elif action == "ping":
            data = {"data": {"timestamp": 1_750_000_000_000}} if self.flavour.pong_data else {}
            await self.say("pong", request, **data)
        elif action == "create_conversation_session":
            await self._create(frame, request)
        elif action == "cancel":
            for turn in () if self.flavour.deaf else self.turns.values():  # section 6: whatever its ids say
                turn.cancel()
        else:
            await self._in_session(action, frame, request)

    async def _in_session(self, action: str, frame: dict[str, Any], request: str | None) -> None:
        session = self.server.sessions.get(frame.get("sessionId", ""))
        if action == "send_message" and request is None and self.flavour.needs_request:
            await self._refuse(None, "VALIDATION_ERROR")
        elif "sessionId" not in frame:
            await self._refuse(request, self.flavour.missing_session)
        elif action == "confirm_tool_action":
            await self._confirm(frame, request)
        elif session is None:
            await self._refuse(request, "SESSION_NOT_FOUND")
        elif action == "get_session":
            await self._done(request, self._described(session))
        elif action == "get_conversation_messages":
            await self._done(request, self._page(session))
        elif action == "send_message":
            await self._send(frame["message"], session, request or str(uuid4()))
        else:
            await self._refuse(request, "NO_PENDING_INTERACTION")

    async def _create(self, frame: dict[str, Any], request: str | None) -> None:
        names = ("sessionId", "conversationId", "userParticipantId", "agentParticipantId")
        session = Session(ids={name: str(uuid4()) for name in names}, agent=frame.get("agentId"))
        if self.flavour.resumes and "conversationId" in frame:
            session.ids["conversationId"] = frame["conversationId"]
        self.server.sessions[session.ids["sessionId"]] = session
        await self._done(request, {**session.ids, "agentId": session.agent, "agentName": "smooth-agent"})

    def _described(self, session: Session) -> dict[str, Any]:
        described = {**session.ids, "agentName": "smooth-agent", "agentId": session.agent}
        if self.flavour.bare_session:
            return {key: described[key] for key in ("sessionId", "conversationId", "agentId", "agentName")}
        # section 2: R's explicit null for a session without an agent
        return {**described, "agentId": None, "threadId": str(uuid4()), "status": "active"}

    def _page(self, session: Session) -> dict[str, Any]:
        newest_first = list(reversed(session.history))
        if not self.flavour.stored_records:
            return {"messages": newest_first, "nextCursor": None, "hasMore": False}
        conversation = session.ids["conversationId"]
        stored = [
            {
                **message,
                "conversationId": conversation,
                "content": {"items": [{"type": "text", "text": message["content"]["text"]}]},
                "updatedAt": message["createdAt"],
            }
            for message in newest_first
        ]
        return {"conversationId": conversation, "messages": stored, "nextCursor": None, "hasMore": False}

    async def _confirm(self, frame: dict[str, Any], request: str | None) -> None:
        parked = self.parked.pop(frame["sessionId"], None)
        if parked is None:
            await self._refuse(request, "NO_PENDING_CONFIRMATION")
            return
        await self._done(request, {"sessionId": frame["sessionId"], "approved": frame["approved"]})
        parked.set_result(frame["approved"])

    # -- turns -----------------------------------------------------------------------------------------

    async def _send(self, text: str, session: Session, request: str) -> None:
        if self.turns and self.flavour.one_turn:
            await self._refuse(request, "TURN_IN_PROGRESS")
            return
        self.turns[request] = self.group.create_task(self._run(text, session, request), name=request)

    async def _run(self, text: str, session: Session, request: str) -> None:
        try:
            await self._turn(Turn(self, session, request), text)
        except asyncio.CancelledError:
            if self.socket.state.name == "OPEN":
                await self.say("cancelled", request, status=499, data={"requestId": request, "status": 499})
        except ConnectionClosed:
            pass  # nobody is there to see the rest
        finally:
            del self.turns[request]

    async def _turn(self, turn: Turn, text: str) -> None:
        turn.remember("inbound", text)
        await self.say("immediate_response", turn.request, status=202, message="Accepted", data={})
        if self.flavour.phases:
            await turn.chunk("intake", {})
        if self.flavour.reasons:
            await turn.token("stream_reasoning", "Let me see.")
        match text.split()[0]:
            case "look":
                await turn.call("lookup_order", {"id": "7"})
                await turn.result("lookup_order", "Order 7 shipped.")
            case "delete":
                await self._gated(turn)
            case "fail":
                await turn.answer("I was about", " to say")
                await self._refuse(turn.request, self.flavour.failure)
                return
            case "wait":
                await turn.answer("One moment. ")
                await self.server.release.wait()
        await turn.answer("Well, ", "that is it.")
        await turn.end()

    async def _gated(self, turn: Turn) -> None:
        """Ask the question, then run the deferred call; R denies after a timeout (section 6)."""
        asked = {"toolId": "delete_record", "actionDescription": "Delete record 7"}
        data = {"requestId": turn.request, "data": asked}
        parked = asyncio.get_running_loop().create_future()
        self.parked[turn.session.ids["sessionId"]] = parked
        await self.say("write_confirmation_required", turn.request, data=data)
        await turn.call("delete_record", {"id": "7"})
        try:
            async with asyncio.timeout(self.flavour.park):
                approved = await parked
        except TimeoutError:
            approved = False
        finally:
            self.parked.pop(turn.session.ids["sessionId"], None)
        await turn.result("delete_record", "Deleted." if approved else "The user said no.", failed=not approved)


class Turn:
    """A turn as this version writes it."""

    def __init__(self, link: Link, session: Session, request: str) -> None:
        self.link = link
        self.session = session
        self.request = request
        self._said = ""

    def remember(self, direction: str, text: str) -> str:
        """Store a message; return its id (section 5)."""
        message = {
            "id": str(uuid4()),
            "direction": direction,
            "content": {"text": text},
            "createdAt": "2026-08-22T10:00:00Z",
        }
        self.session.history.append(message)
        return str(message["id"])

    async def token(self, kind: str, text: str) -> None:
        await self.link.say(kind, self.request, token=text, data={"requestId": self.request, "token": text})

    async def answer(self, *tokens: str) -> None:
        for text in tokens:
            self._said += text
            if self.link.flavour.streams:
                await self.token("stream_token", text)

    async def chunk(self, node: str, state: dict[str, Any]) -> None:
        data = {"requestId": self.request, "node": node, "state": state}
        await self.link.say("stream_chunk", self.request, node=node, data=data)

    async def call(self, name: str, arguments: dict[str, str]) -> None:
        said = json.dumps(arguments) if self.link.flavour.arguments_as_text else arguments
        await self.chunk(name, {"rawResponse": {"toolCall": {"name": name, "arguments": said}}})

    async def result(self, name: str, text: str, *, failed: bool = False) -> None:
        result = {"name": name, "isError": failed, "result": text}
        await self.chunk(name, {"rawResponse": {"toolResult": result}})

    async def end(self) -> None:
        flavour = self.link.flavour
        response = {
            "responseParts": [self._said],
            "customerHappinessScore": 0.5,
            "needsSatisfactionScore": 0.5,
            "requestSummary": "",
            "resolutionStatus": "in_progress",
            "suggestedNextActions": ["Track it"] if flavour.suggests else [],
        }
        answer = {"messageId": self.remember("outbound", self._said), "response": response, "needsEscalation": False}
        if flavour.tells_usage:
            answer["usage"] = {"costUsd": 0.5, "promptTokens": 10, "completionTokens": 5}
        data = {"requestId": self.request, "status": 200, "data": answer}
        await self.link.say("eventual_response", self.request, status=200, data=data)
