"""The clients of a random session, one class for each dialect: what they send, and what they must be shown.

A client sends wire messages of its dialect without any code of the gateway. Each of them is legal at any time.
"""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from typing import Any, ClassVar

from dragoman.gateway.session.session import Session
from dragoman.mappings.codewhale.ids import thread_id
from dragoman.mappings.smooth.from_canonical.replies import public_ids
from tests.gateway.codewhale_messages import line
from tests.gateway.in_memory import InMemoryPeer
from tests.gateway.smooth_client_messages import AGENT
from tests.pairs.random_backend import INTERNAL, REASONING, Frame
from tests.pairs.views import TEXT, SeenTurn, seen
from tests.players.capture_readers import Wire

IMAGE = "data:image/png;base64,iVBORw0KGgo="


class RandomClient(ABC):
    """A client at the other end of `peer`. `backend` is the dialect of the route's backend.

    `first` is the number of the first turn that it must see, None before it sees any.
    """

    dialect: ClassVar[str]
    sees_others: ClassVar[bool] = True
    """True if it is shown the turns of other clients."""
    sees_all: ClassVar[bool] = True
    """True if it is shown all of a turn, with its thoughts and its end."""
    joins_turns: ClassVar[bool] = True
    """True if it is shown the turn in whose middle it joins."""

    def __init__(self, name: str, peer: InMemoryPeer, backend: str) -> None:
        self.name = name
        self.peer = peer
        self.backend = backend
        self.first: int | None = None
        self.sent: list[Frame] = []

    @property
    def here(self) -> bool:
        """True if this client is still connected."""
        return self.peer.link.alive

    @property
    def reads(self) -> bool:
        """True if this client reads."""
        return self.peer.transport.reading.is_set()

    def leaves(self) -> None:
        """Disconnect the client."""
        self.peer.transport.reading.set()
        self.peer.transport.hang_up()

    def seen(self) -> list[SeenTurn]:
        """The turns that this client has seen."""
        return seen(self.dialect, self.wire())

    def wire(self) -> Wire:
        """Return the messages that show the client its turns, in their order."""
        return [(way, json.loads(frame)) for way, frame in self.peer.wire() if frame]

    def says(self, message: Frame) -> None:
        """Send a message."""
        self.sent.append(message)
        self.peer.sends(message)

    @abstractmethod
    def opens(self, session: Session | None) -> None:
        """Look for the session, or open one if there is none."""

    @abstractmethod
    def speaks(self, session: Session, text: str) -> None:
        """Send an input."""

    @abstractmethod
    def cancels(self, session: Session, n: int) -> None:
        """Cancel the turn."""

    def answers(self, session: Session, *, approved: bool) -> None:
        """Answer a question, in words unless the dialect has a form for it."""
        self.speaks(session, "approve" if approved else "deny")

    def shows(self, session: Session, text: str) -> None:
        """Send an input with an image, if the dialect has a form for it."""
        self.speaks(session, text)

    @abstractmethod
    def renames(self, session: Session, title: str) -> None:
        """Give the session a title, if the dialect has a form for it."""

    @abstractmethod
    def asks(self, session: Session, n: int) -> None:
        """Send the nth request that does not concern the turn."""

    def shown_of(self, turn: SeenTurn) -> SeenTurn:
        """Return what a client of this dialect can know of a turn."""
        return turn

    @abstractmethod
    def check(self, frame: Frame) -> None:
        """Assert that a frame has nothing that this client must not see (docs/translation.md, rule 3.8)."""


class RandomSmoothClient(RandomClient):
    dialect = "smooth"

    def says(self, message: Frame) -> None:
        super().says({"requestId": f"{self.name}.{len(self.sent)}", **message})

    def opens(self, session: Session | None) -> None:
        if session is None or self.backend == "pod":
            self.says({"action": "create_conversation_session", "agentId": AGENT})
        else:
            self._says_to(session, "get_session")

    def _says_to(self, session: Session, action: str, **keys: Any) -> None:
        state = session.state
        self.says({"action": action, "sessionId": public_ids(state.id, state.backend_ids)[0], **keys})

    def speaks(self, session: Session, text: str) -> None:
        self._says_to(session, "send_message", message=text)

    def shows(self, session: Session, text: str) -> None:
        self._says_to(session, "send_message", message=text, images=[{"url": IMAGE}])

    def renames(self, session: Session, title: str) -> None:
        self.says({"action": "rename_conversation", "conversationId": session.state.id, "title": title})

    def cancels(self, session: Session, n: int) -> None:
        self._says_to(session, "cancel")

    def answers(self, session: Session, *, approved: bool) -> None:
        self._says_to(session, "confirm_tool_action", approved=approved)

    def asks(self, session: Session, n: int) -> None:
        match n % 7:
            case 0:
                self.says({"action": "ping"})
            case 1:
                self.says({"action": "list_conversations"})
            case 2:
                self._says_to(session, "get_session")
            case 3:
                self._says_to(session, "verify_otp", code="123456")
            case 4:
                form = {"interactionId": "i", "kind": "choice", "values": {}, "declined": True}
                self._says_to(session, "submit_interaction", **form)
            case 5:
                conversation = public_ids(session.state.id, session.state.backend_ids)[1]
                self.says({"action": "create_conversation_session", "agentId": AGENT, "conversationId": conversation})
            case _:
                self._says_to(session, "get_conversation_messages", limit=1 + n)

    def check(self, frame: Frame) -> None:
        text = json.dumps(frame)
        assert INTERNAL not in text, f"internal to a smooth client: {text}"
        assert REASONING not in text or frame["type"] == "stream_reasoning", f"reasoning as text: {text}"


class RandomPodClient(RandomClient):
    dialect = "pod"
    QUESTIONS: ClassVar[list[Frame]] = [
        {"method": "list_completions", "params": {"kind": "file", "prefix": "s"}},
        {"method": "list_visible_pods"},
        {"method": "compact"},
        {"method": "notify", "params": {"message": INTERNAL}},
        {"method": "pod_event", "params": {"kind": "turn_ended", "pod_name": "child"}},
        {"method": "attach_or_restore_pod", "params": {"name": "nobody"}},
        {"method": "inspect_pod", "params": {"name": "other"}},  # it would find another session, unless of a pod
    ]

    def opens(self, session: Session | None) -> None:
        """Say nothing: the listener leads to the session."""

    def speaks(self, session: Session, text: str) -> None:
        self.says({"method": "run", "params": {"input": [{"kind": "text", "content": text}]}})

    def cancels(self, session: Session, n: int) -> None:
        self.says({"method": "pause" if n % 3 == 0 else "cancel"})

    def renames(self, session: Session, title: str) -> None:
        """Do nothing: a pod has its name."""

    def asks(self, session: Session, n: int) -> None:
        questions = self.QUESTIONS if self.backend == "pod" else self.QUESTIONS[:-1]
        self.says(questions[n % len(questions)])

    def resumes(self) -> None:
        """Resume a paused run."""
        self.says({"method": "resume"})

    def check(self, frame: Frame) -> None:
        text = json.dumps(frame)
        if frame["event"] in ("text_delta", "text_done", "tool_call_done", "tool_result", "user_message"):
            assert REASONING not in text, f"reasoning as text: {text}"
        elif frame["event"] == "snapshot":
            said = [entry for entry in frame["data"]["entries"] if REASONING in json.dumps(entry)]
            assert all(entry["item"]["kind"] == "reasoning" for entry in said), f"reasoning as text: {said}"


class RandomCodewhaleClient(RandomClient):
    """A client that is shown its own turns alone, and of one that failed the text alone."""

    dialect = "codewhale"
    sees_others = sees_all = False
    QUESTIONS: ClassVar[tuple[str, ...]] = (
        "healthz",
        "capabilities",
        "thread/read",
        "thread/list",
        "thread/goal/get",
        "app/config/get",
        "app/models",
        "app/thread_loaded_list",
        "prompt/run",
    )

    def opens(self, session: Session | None) -> None:
        if session is None:
            self._requests("thread/start")
        else:
            self._requests("thread/resume", thread_id=thread_id(session.state.id))

    def _requests(self, method: str, **params: Any) -> None:
        self.says(line(len(self.sent), method, **params))

    def _requests_of_thread(self, method: str, **params: Any) -> None:
        """Send a request about the thread, if the client has learned its id."""
        shown = [frame["result"]["thread"] for frame in self.peer.frames() if "thread" in frame.get("result", {})]
        threads = [thread["id"] for thread in shown if thread]
        if threads:
            self._requests(method, thread_id=threads[-1], **params)

    def speaks(self, session: Session, text: str) -> None:
        self._requests_of_thread("thread/message", input=text)

    def renames(self, session: Session, title: str) -> None:
        self._requests_of_thread("thread/set_name", name=title)

    def cancels(self, session: Session, n: int) -> None:
        self._requests_of_thread("thread/interrupt")

    def asks(self, session: Session, n: int) -> None:
        self._requests_of_thread(self.QUESTIONS[n % len(self.QUESTIONS)], key="model", prompt="Hi")

    def shown_of(self, turn: SeenTurn) -> SeenTurn:
        whole = turn.regrouped()
        if whole.end == "completed":
            return whole
        return SeenTurn(parts=[part for part in whole.parts if part[0] == TEXT], end=whole.end)

    def check(self, frame: Frame) -> None:
        text = json.dumps(frame)
        is_bare = "type" in frame
        assert not (is_bare and (REASONING in text or INTERNAL in text)), f"not an answer's text: {text}"


class RandomPandoClient(RandomClient):
    """A client that subscribes by `peer`, and calls by `caller`: it is shown neither thoughts nor how a turn ended."""

    dialect = "pando"
    sees_all = False
    joins_turns = False
    QUESTIONS: ClassVar[tuple[str, ...]] = (
        "instance.ping",
        "instance.info",
        "session.list",
        "session.get",
        "session.activate",
        "message.list",
        "state.sync",
    )

    def __init__(self, name: str, peer: InMemoryPeer, backend: str, caller: InMemoryPeer) -> None:
        super().__init__(name, peer, backend)
        self.caller = caller
        caller.judged = False  # the oracle knows calls by their identities

    def leaves(self) -> None:
        super().leaves()
        self.caller.transport.hang_up()

    def _calls(self, session: Session, method: str, **params: Any) -> None:
        self._call({"method": method, "params": {"session_id": session.state.id, **params}})

    def _call(self, request: Frame) -> None:
        call = {"jsonrpc": "2.0", "id": f"req-{len(self.sent)}", **request}
        self.sent.append(call)
        self.caller.calls(json.dumps(call).encode())

    def opens(self, session: Session | None) -> None:
        """Say nothing: a subscription is of all sessions."""

    def speaks(self, session: Session, text: str) -> None:
        self._calls(session, "message.send", content=text)

    def renames(self, session: Session, title: str) -> None:
        numbers = dict.fromkeys(("prompt_tokens", "completion_tokens", "cost"), 0)
        row = {"id": session.state.id, "title": title, "summary_message_id": {"String": "", "Valid": False}, **numbers}
        self._call({"method": "db.write", "params": {"method": "UpdateSession", "params": row}})

    def cancels(self, session: Session, n: int) -> None:
        self._calls(session, "session.interrupt")

    def asks(self, session: Session, n: int) -> None:
        self._calls(session, self.QUESTIONS[n % len(self.QUESTIONS)])

    def wire(self) -> Wire:
        return [("got", frame) for frame in self.peer.frames()]

    def shown_of(self, turn: SeenTurn) -> SeenTurn:
        return turn.published()

    @property
    def unanswered(self) -> int:
        """The number of calls without a reply."""
        return len(self.sent) - len(self.caller.transport.got)

    def check(self, frame: Frame) -> None:
        text = json.dumps(frame)
        assert REASONING not in text or frame["topic"] == "message.append", f"reasoning as text: {text}"
