"""Clients of the four dialects in memory: each sends a user's actions in its own dialect, and keeps what it
receives.
"""

from __future__ import annotations

import json
from typing import Any
from uuid import NAMESPACE_URL, uuid5

from dragoman.gateway.ingress import Ingress
from dragoman.gateway.session.session import Session
from tests.data_files import value_of
from tests.gateway.in_memory import InMemoryPeer
from tests.gateway.smooth_client_messages import AGENT
from tests.oracle.base import Said
from tests.oracle.pando import PandoOracle
from tests.pando_frame_check import check_published
from tests.players.capture_readers import Turn, turns_of
from tests.players.in_memory import AnyBackendGateway
from tests.smooth_frame_check import check

Frame = dict[str, Any]
FORMS = ["identity_form", "choice_chips"]


class InMemoryClient:
    """A client of one dialect. `since` is the number of frames that it had received when it began to look."""

    dialect: str

    def __init__(self, stage: AnyBackendGateway, name: str) -> None:
        self.stage = stage
        self.name = name
        self.peer = self._connect()
        self.session: Session | None = None
        self._number = 1000  # above the ids that recorded clients use

    def _connect(self) -> InMemoryPeer:
        return self.stage.join(self.name, dialect=self.dialect, ingress=Ingress(endpoint=self.name))

    async def open(self) -> None:
        """Begin a conversation, or join the one that the backend has."""
        raise NotImplementedError

    async def look(self) -> None:
        """List the conversations, as a client does that wants to join one."""
        raise NotImplementedError

    async def join(self, session: Session) -> None:
        """Join a conversation."""
        raise NotImplementedError

    def say(self, text: str) -> None:
        """Send this input as the user."""
        raise NotImplementedError

    def cancel(self) -> None:
        """Stop the turn."""
        raise NotImplementedError

    def answer(self, *, approved: bool) -> None:
        """Answer the open question, in words if there is no form."""
        self.say("approve" if approved else "deny")

    async def history(self) -> list[Said]:
        """Return the messages with their speakers, as this client sees them now."""
        raise NotImplementedError

    def turns(self) -> list[Turn]:
        """Return the turns that this client was shown."""
        return turns_of(self.dialect, self.wire())

    def wire(self) -> list[tuple[str, Any]]:
        """Return the sent and received frames, in that order."""
        return [(way, value_of(frame)) for way, frame in self.peer.wire()]

    def check(self) -> list[str]:
        """Return the requests without an answer; raise AssertionError if the frames are illegal for a real client."""
        return self.peer.judge(self.dialect)

    def unanswered(self) -> tuple[list[str], str]:
        """Return the requests without an answer, the open turns, and the illegal messages."""
        try:
            return self.check(), ""
        except AssertionError as error:
            return [], str(error)

    def public(self) -> str:
        """The id by which this client knows its session."""
        assert self.session is not None, f"{self.name} has no session"
        return self.stage.public(self.session, self.dialect)

    def number(self) -> int:
        """Return the number of the next request."""
        self._number += 1
        return self._number


class InMemorySmoothClient(InMemoryClient):
    """A smooth client with all forms."""

    dialect = "smooth"

    def __init__(self, stage: AnyBackendGateway, name: str) -> None:
        super().__init__(stage, name)
        self.turn = ""

    def ask(self, action: str, **keys: Any) -> str:
        request = f"{self.name}.{self.number()}"
        self.peer.sends({"action": action, "requestId": request, **keys})
        return request

    async def open(self) -> None:
        self.ask("create_conversation_session", agentId=AGENT, supports=FORMS)
        await self.stage.rest()
        self.session = self.stage.router.sessions[0]

    async def look(self) -> None:
        self.ask("list_conversations")
        await self.stage.rest()

    async def join(self, session: Session) -> None:
        self.session = session
        self.ask("get_session", sessionId=self.public())
        await self.stage.rest()

    def say(self, text: str) -> None:
        self.turn = self.ask("send_message", sessionId=self.public(), message=text)

    def cancel(self) -> None:
        self.ask("cancel", sessionId=self.public())

    def answer(self, *, approved: bool) -> None:
        self.ask("confirm_tool_action", sessionId=self.public(), approved=approved)

    async def history(self) -> list[Said]:
        found: list[Frame] = []
        cursor: dict[str, str] = {}
        while True:
            page = await self._answer("get_conversation_messages", limit=100, **cursor)
            found += page["messages"]
            if not page["hasMore"]:
                break
            cursor = {"cursor": page["nextCursor"]}
        roles = {"inbound": "user", "outbound": "assistant"}
        return [(roles[message["direction"]], message["content"]["text"]) for message in reversed(found)]

    async def _answer(self, action: str, **keys: Any) -> Frame:
        request = self.ask(action, sessionId=self.public(), **keys)
        await self.stage.rest()
        (frame,) = [frame for frame in self.peer.frames() if frame.get("requestId") == request]
        return dict(frame["data"])

    def check(self) -> list[str]:
        for frame in self.peer.frames():
            check(frame)
        return super().check()


class InMemoryPodClient(InMemoryClient):
    """A pod client: its session is the one of its listener."""

    dialect = "pod"

    def _connect(self) -> InMemoryPeer:
        return InMemoryPeer(None)  # type: ignore[arg-type]  # a placeholder: the client connects later

    async def open(self) -> None:
        await self.look()
        self.session = self.stage.router.sessions[0]

    async def look(self) -> None:
        self.peer = self.stage.join(self.name, dialect="pod", ingress=Ingress(endpoint=self.name))
        await self.stage.rest()

    async def join(self, session: Session) -> None:
        self.session = session
        if hasattr(self.peer, "transport") and self.peer.transport is not None:
            return  # the client is connected already, and has its snapshot
        self.peer = self.stage.join(
            self.name, dialect="pod", ingress=Ingress(endpoint=self.name, session=session.state.id)
        )
        await self.stage.rest()

    def say(self, text: str) -> None:
        self.run([{"kind": "text", "content": text}])

    def run(self, segments: list[Frame]) -> None:
        """Send this input in segments."""
        self.peer.sends({"method": "run", "params": {"input": segments}})

    def cancel(self) -> None:
        self.peer.sends({"method": "cancel"})

    async def history(self) -> list[Said]:
        """Return the history that a pod sends to each client that connects."""
        assert self.session is not None
        late = InMemoryPodClient(self.stage, f"{self.name}+")
        await late.join(self.session)
        found: list[Said] = []
        for frame in late.peer.frames():
            entries = frame["data"]["entries"] if frame["event"] == "snapshot" else []
            found += [said for entry in entries for said in pod_said(entry)]
        late.peer.transport.hang_up()
        return found


def pod_said(entry: Frame) -> list[Said]:
    """Return what user and assistant say in a log entry (docs/dialects/pod.md, section 9)."""
    if entry["kind"] == "segment_start":
        return [said for item in entry["history"] for said in _item_said(item)]
    if entry["kind"] == "user_input":
        return [("user", flat(entry["segments"]))]
    return _item_said(entry.get("item") or {})


def _item_said(item: Frame) -> list[Said]:
    if item.get("kind") == "message" and item["role"] in ("user", "assistant"):
        return [(item["role"], "".join(part.get("text", "") for part in item["content"]))]
    return []


SIGILS = {"file_ref": ("@", "path"), "knowledge_ref": ("#", "slug"), "workflow_invoke": ("/", "slug")}


def flat(segments: list[Frame]) -> str:
    """Return segments as one text, by pod's own rule (docs/dialects/pod.md, section 5)."""
    text = ""
    for segment in segments:
        sigil, key = SIGILS.get(segment["kind"], ("", "content"))
        text += sigil + segment.get(key, "")
    return text


class InMemoryPandoClient(InMemoryClient):
    """A pando client: it reads the publication from now on, and makes calls."""

    dialect = "pando"

    def __init__(self, stage: AnyBackendGateway, name: str) -> None:
        super().__init__(stage, name)
        self._since = len(stage.publication.transport.got)

    def _connect(self) -> InMemoryPeer:
        return self.stage.caller(self.name)

    def call(self, method: str, /, **params: Any) -> str:
        request = {"jsonrpc": "2.0", "id": f"{self.name}.{self.number()}", "method": method, "params": params}
        self.peer.calls(json.dumps(request).encode())
        return str(request["id"])

    async def result(self, method: str, /, **params: Any) -> Any:
        request = self.call(method, **params)
        await self.stage.rest()
        (reply,) = [reply for reply in self.peer.frames() if reply["id"] == request]
        assert "error" not in reply, reply
        return reply.get("result")

    async def open(self) -> None:
        nobody = {"String": "", "Valid": False}
        params = {
            "id": str(uuid5(NAMESPACE_URL, self.name)),
            "parent_session_id": nobody,
            "title": "New Session",
            "message_count": 0,
            "prompt_tokens": 0,
            "completion_tokens": 0,
            "cost": 0,
        }
        self.call("db.write", method="CreateSession", params=params)
        await self.stage.rest()
        self.session = self.stage.router.sessions[0]

    async def look(self) -> None:
        self.call("session.list")
        await self.stage.rest()

    async def join(self, session: Session) -> None:
        self.session = session

    def say(self, text: str) -> None:
        self.call("message.send", session_id=self.public(), content=text)

    def cancel(self) -> None:
        self.call("session.interrupt", session_id=self.public())

    async def history(self) -> list[Said]:
        told = await self.result("message.list", session_id=self.public())
        return [(message["role"], message["content"]) for message in told if message["role"] in ("user", "assistant")]

    def wire(self) -> list[tuple[str, Any]]:
        public = self.public()
        told = [e for e in self._told() if public in (e["payload"].get("session_id"), e["payload"].get("id"))]
        return [("got", envelope) for envelope in told]

    def _told(self) -> list[Frame]:
        return [check_published([frame]) for frame in self.stage.publication.transport.got[self._since :]]

    def check(self) -> list[str]:
        oracle = PandoOracle()
        for envelope in self._told():
            oracle.got(envelope)
        for way, frame in super().wire():
            (oracle.called if way == "said" else oracle.replied)(self.name, frame)
        return oracle.open


class InMemoryCodewhaleClient(InMemoryClient):
    """A codewhale client."""

    dialect = "codewhale"

    def ask(self, method: str, **params: Any) -> int:
        """Send a request; return its id."""
        number = self.number()
        self.peer.sends({"jsonrpc": "2.0", "id": number, "method": method, "params": params})
        return number

    async def open(self) -> None:
        self.ask("thread/start")
        await self.stage.rest()
        self.session = self.stage.router.sessions[0]

    async def look(self) -> None:
        self.ask("thread/list")
        await self.stage.rest()

    async def join(self, session: Session) -> None:
        self.session = session
        self.ask("thread/resume", thread_id=self.public())
        await self.stage.rest()

    def say(self, text: str) -> None:
        self.ask("thread/message", thread_id=self.public(), input=text)

    def cancel(self) -> None:
        self.ask("thread/interrupt", thread_id=self.public())

    async def history(self) -> list[Said]:
        request = self.ask("thread/read", thread_id=self.public())
        await self.stage.rest()
        (answer,) = [frame for frame in self.peer.frames() if frame.get("id") == request]
        return [(item["role"], item["content"]) for item in answer["result"]["data"]["history"]]
