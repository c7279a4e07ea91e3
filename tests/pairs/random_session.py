"""Random sessions: clients of smooth and pod, the real gateway in memory, and a random backend.

A session is a list of steps (verb, who, n), each of which is legal at any time: `who` and `n` choose among the clients,
or among the backend's moves. The invariants are checked after each step. At the end all clients read, the backend ends
its open turns, and the test compares what the clients saw.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any

from msgspec import Struct, field

from dragoman.adapters.base import CloseReason
from dragoman.gateway.config.model import Limits
from dragoman.gateway.endpoint import Endpoint, parse
from dragoman.gateway.ingress import Ingress
from dragoman.gateway.session.session import Session
from dragoman.mappings.smooth.from_canonical.replies import public_ids
from tests.gateway.in_memory import AT_ONCE, InMemoryGateway, InMemoryPeer
from tests.gateway.smooth_client_messages import AGENT
from tests.oracle import ORACLES
from tests.pairs.random_backend import INTERNAL, REASONING, Move, RandomBackend
from tests.pairs.random_pod import RandomPod
from tests.pairs.random_smooth_server import RandomSmoothServer
from tests.pairs.views import READ, TEXT, SeenTurn

Step = tuple[str, int, int]
Frame = dict[str, Any]

UPSTREAMS = {"pod": parse("pod+unix:/pod"), "smooth": parse("smooth+ws://127.0.0.1:1/ws")}
CLIENTS_MAX = 4
NUMBER = re.compile(r"\[(\d+)\.\d+\]")


def limits(log_max: int) -> Limits:
    """Return limits with small outboxes, so that few frames make a client slow, and with unlimited connects."""
    return Limits(
        backoff_first=AT_ONCE,
        backoff_max=AT_ONCE,
        failed_dial_burst=1_000_000,
        outbox_soft=1024,
        catch_up=8,
        log_max=log_max,
    )


class RandomSessionClient(Struct, kw_only=True, eq=False):
    """A client of a random session. `first` is the number of the first turn that it must see, None before it sees any.
    `offset` is the constant difference between its count of offered events and the log.
    """

    name: str
    dialect: str
    peer: InMemoryPeer
    asked: int = 0
    first: int | None = None
    offset: int | None = None
    sent: list[Frame] = field(default_factory=list)

    @property
    def here(self) -> bool:
        """True if this client is still connected."""
        return self.peer.link.alive

    @property
    def reads(self) -> bool:
        """Return True if this client reads."""
        return self.peer.transport.reading.is_set()

    def seen(self) -> list[SeenTurn]:
        """The turns that this client has seen."""
        return READ[self.dialect](self.peer.frames(), self.sent)


class RandomSession:
    """A session with many clients, which runs random steps and checks what each client sees."""

    def __init__(self, stage: InMemoryGateway, backend: RandomBackend) -> None:
        self.stage = stage
        self.backend = backend
        self.clients: list[RandomSessionClient] = []
        self.away = False
        self._connections = 0
        self._heard = 0  # frames of the newest connection that the backend has heard
        self._oracle = ORACLES[backend.dialect]()

    @staticmethod
    def upstream(dialect: str) -> Endpoint:
        """Return the endpoint of a random backend of this dialect."""
        return UPSTREAMS[dialect]

    @staticmethod
    def played(dialect: str) -> RandomBackend:
        """Return a random backend of this dialect."""
        return RandomPod() if dialect == "pod" else RandomSmoothServer()

    # -- steps -----------------------------------------------------------------------------------------

    async def step(self, step: Step) -> None:
        """Run a step, and wait until everything is idle."""
        verb, who, n = step
        VERBS[verb](self, who, n)
        await self.rest()
        self.look()

    async def rest(self) -> None:
        """Wait until the backend receives nothing new and has sent its answers."""
        while True:
            await self.stage.settle()
            self._connect()
            news = self._news()
            for frame in news:
                self._oracle.said(frame)
                self.backend.hears(frame)
            if not news and not self.backend.out:
                return
            self._speak()

    def _connect(self) -> None:
        pods = self.stage.pods
        if len(pods) > self._connections:
            self._connections = len(pods)
            self._heard, self._oracle = 0, ORACLES[self.backend.dialect]()
            self.backend.out = []
            self.backend.connected()

    def _news(self) -> list[Frame]:
        if not self._connected:
            return []
        frames = self.stage.pod.frames()[self._heard :]
        self._heard += len(frames)
        return frames

    @property
    def _connected(self) -> bool:
        return bool(self.stage.pods) and self.stage.pod.transport.is_open() and not self.stage.pod.gone

    def _speak(self) -> None:
        """Send the backend's waiting frames in one piece; drop them while there is no connection."""
        said, self.backend.out = self.backend.out, []
        if self._connected and said:
            for frame in said:
                self._oracle.got(frame)
            self.stage.pod.sends(*said)

    def play(self, how_often: int, n: int) -> None:
        """Let the backend make its nth move and some more, in one piece."""
        if not self._connected and self.backend.dialect == "smooth":
            return  # a server's turns belong to its connection
        before = len(self.backend.turns) - (self.backend.turn is not None)
        for more in range(1 + how_often):
            moves: list[Move] = self.backend.moves()
            moves[(n + more) % len(moves)]()
        for turn in self.backend.turns[before:]:
            turn.whole = turn.whole and self._connected
        self._speak()

    def join(self, who: int, n: int) -> None:
        """Connect a further client of either dialect."""
        self.connect_client(("smooth", "pod")[n % 2])

    def connect_client(self, dialect: str) -> None:
        """Connect a client of this dialect, which looks for the existing session."""
        if sum(client.here for client in self.clients) >= CLIENTS_MAX:
            return
        name = f"{dialect} {len(self.clients)}"
        session = self.session
        ingress = Ingress(endpoint=name, session="" if session is None else session.state.id)
        peer = self.stage.join(name, dialect=dialect, ingress=ingress)
        client = RandomSessionClient(name=name, dialect=dialect, peer=peer)
        self.clients.append(client)
        if dialect == "smooth":
            if session is None or self.backend.dialect == "pod":
                self._say(client, {"action": "create_conversation_session", "agentId": AGENT})
            else:
                self._say(client, self._to_session("get_session"))

    @property
    def session(self) -> Session | None:
        """The only session, or None if there is none yet."""
        sessions = self.stage.router.sessions
        return sessions[0] if sessions else None

    def _to_session(self, action: str, **keys: Any) -> Frame:
        state = self.stage.session.state
        return {"action": action, "sessionId": public_ids(state.id, state.backend_ids)[0], **keys}

    def _say(self, client: RandomSessionClient, message: Frame) -> None:
        client.asked += 1
        if client.dialect == "smooth":
            message = {"requestId": f"{client.name}.{client.asked}", **message}
        client.sent.append(message)
        client.peer.sends(message)

    def _client(self, who: int, *dialects: str) -> RandomSessionClient | None:
        here = [client for client in self.clients if client.here and client.dialect in (dialects or ORACLES)]
        return here[who % len(here)] if here and self.session is not None else None

    def speak(self, who: int, n: int) -> None:
        """Send an input as a client."""
        client = self._client(who)
        if client is None:
            return
        if client.dialect == "smooth":
            self._say(client, self._to_session("send_message", message=f"What is {n}?"))
        else:
            self._say(client, {"method": "run", "params": {"input": [{"kind": "text", "content": f"What is {n}?"}]}})

    def cancel(self, who: int, n: int) -> None:
        """Cancel the turn as a client."""
        client = self._client(who)
        if client is None:
            return
        if client.dialect == "smooth":
            self._say(client, self._to_session("cancel"))
        else:
            self._say(client, {"method": "pause" if n % 3 == 0 else "cancel"})

    def ask(self, who: int, n: int) -> None:
        """Send a request that does not concern the turn."""
        client = self._client(who)
        if client is None:
            return
        if client.dialect == "smooth":
            questions = [
                {"action": "ping"},
                {"action": "list_conversations"},
                self._to_session("get_session"),
                self._to_session("get_conversation_messages", limit=1 + n),
            ]
        else:
            questions = [
                {"method": "list_completions", "params": {"kind": "file", "prefix": "s"}},
                {"method": "list_visible_pods"},
                {"method": "compact"},
                {"method": "notify", "params": {"message": INTERNAL}},
                {"method": "inspect_pod", "params": {"name": "other"}},
            ]
            questions = questions if self.backend.dialect == "pod" else questions[:-1]  # it would find another session
        self._say(client, questions[n % len(questions)])

    def resume(self, who: int, n: int) -> None:
        """Resume a paused run as a pod client."""
        client = self._client(who, "pod")
        if client is not None:
            self._say(client, {"method": "resume"})

    def stall(self, who: int, n: int) -> None:
        """Let a client stop reading, or read again."""
        client = self._client(who)
        if client is not None and client.reads:
            client.peer.transport.reading.clear()
        elif client is not None:
            client.peer.transport.reading.set()

    def drop(self, who: int, n: int) -> None:
        """Disconnect a client."""
        client = self._client(who)
        if client is not None:
            client.peer.transport.reading.set()
            client.peer.transport.hang_up()

    def lose(self, who: int, n: int) -> None:
        """Lose the connection to the backend; every second time the backend also goes away for a while."""
        self.stage.away = n % 2 == 1
        if self._connected:
            self.backend.lost(dies=n % 4 < 2)
            self.stage.pod.transport.hang_up()
            self.stage.pod.gone = True

    def come_back(self, who: int, n: int) -> None:
        """Make the backend reachable again."""
        self.stage.away = False

    def wait(self, who: int, n: int) -> None:
        """Advance the clock by a second, or to the deadline of a cancel or an acceptance."""
        seconds = (1.0, 11.0, 31.0)[n % 3]
        if seconds > 10 and self.backend.stopping and self.backend.turn is not None:
            self.backend.turn.whole = False
        self.stage.time.passes(seconds)

    # -- invariants ------------------------------------------------------------------------------------

    def look(self) -> None:
        """Assert the invariants of a running session."""
        session = self.session
        if session is None:
            return
        for client in self.clients:
            attachment = session.delivery.attachments.get(client.peer.link.id)
            if attachment is None:
                continue
            if client.first is None:
                turn = self.backend.turn
                client.first = len(self.backend.turns) if turn is None else turn.number
            reached = session.state.seq if attachment.behind is None else attachment.cursor
            text = session.delivery.groups.text  # counts its pieces when it is closed
            streamed = text.count if text is not None and text.open and attachment.behind is None else 0
            offered = attachment.offered + streamed - reached
            if client.offset is None:
                client.offset = offered
            assert offered == client.offset, f"{client.name}: events that were not offered"
        rules = {peer.transport.closed for peer in [*self.stage.clients.values(), *self.stage.pods]}
        assert CloseReason.INTERNAL not in rules, "a rule failed: see the log"

    # -- the end ---------------------------------------------------------------------------------------

    async def finish_and_compare(self) -> None:
        """Let all clients read and the backend end its turns; then compare what the clients saw."""
        self.stage.away = False
        for client in self.clients:
            client.peer.transport.reading.set()
        await self.rest()
        for _ in range(3):  # after the end of a turn, a waiting input may begin another one
            self.backend.finish()
            self._speak()
            await self.rest()
            self.stage.time.passes(31.0)
            await self.rest()
        self.look()
        for client in self.clients:
            self._hides(client)
            if client.here:
                self._whole(client)
        self._agree()

    def _hides(self, client: RandomSessionClient) -> None:
        """Assert that no client sees events that it must not see (docs/translation.md, rule 3.8)."""
        for frame in client.peer.frames():
            text = json.dumps(frame, ensure_ascii=False)
            if client.dialect == "smooth":
                assert INTERNAL not in text, f"internal to a smooth client: {text}"
                assert REASONING not in text or frame["type"] == "stream_reasoning", f"reasoning as text: {text}"
            elif frame["event"] in ("text_delta", "text_done", "tool_call_done", "tool_result", "user_message"):
                assert REASONING not in text, f"reasoning as text: {text}"
            elif frame["event"] == "snapshot":
                said = [entry for entry in frame["data"]["entries"] if REASONING in json.dumps(entry)]
                assert all(entry["item"]["kind"] == "reasoning" for entry in said), f"reasoning as text: {said}"

    def _whole(self, client: RandomSessionClient) -> None:
        """Assert that the client saw each whole turn since it joined: equal to the character, once and in order."""
        shown: dict[int, SeenTurn] = {}
        order: list[int] = []
        for seen in client.seen():
            numbers = {int(n) for _, words in [*seen.parts, *seen.results] for n in NUMBER.findall(words)}
            if not numbers:
                continue  # a call that was cut off before its first piece
            assert len(numbers) == 1, f"{client.name}: one turn shows words of {numbers}"
            order.append(number := numbers.pop())
            shown[number] = seen
        assert order == sorted(order), f"{client.name}: turns in the order {order}"
        for played in self.backend.turns[len(self.backend.turns) if client.first is None else client.first :]:
            if played.whole and not played.seen.empty and NUMBER.search(str(played.seen)):
                assert order.count(played.number) == 1, f"{client.name}: turn {played.number} is shown once"
                assert shown[played.number] == played.seen, f"{client.name}: {shown[played.number]} of {played.seen}"
        for number, seen in shown.items():
            text = "".join(words for kind, words in seen.parts if kind == TEXT)
            whole = "".join(words for kind, words in self.backend.turns[number].seen.parts if kind == TEXT)
            rest = iter(whole)  # of a turn in which the backend was lost live clients may miss a piece
            is_part = text in whole or (not self.backend.turns[number].whole and all(c in rest for c in text))
            assert is_part, f"{client.name}: {text!r} is no part of {whole!r}"

    def _agree(self) -> None:
        """Assert that a late client sees what all others see: a fresh rendering equals the shared one."""
        here = [(client, client.seen()) for client in self.clients if client.here]
        if not here:
            return
        most, expected = max(here, key=lambda known: len(known[1]))
        for client, seen in here:
            end = expected[len(expected) - len(seen) :]
            assert seen == end, f"{client.name} sees other turns than {most.name}:\n{seen}\n{end}"


VERBS: dict[str, Callable[[RandomSession, int, int], None]] = {
    "play": RandomSession.play,
    "speak": RandomSession.speak,
    "join": RandomSession.join,
    "cancel": RandomSession.cancel,
    "resume": RandomSession.resume,
    "ask": RandomSession.ask,
    "stall": RandomSession.stall,
    "drop": RandomSession.drop,
    "lose": RandomSession.lose,
    "come back": RandomSession.come_back,
    "wait": RandomSession.wait,
}
