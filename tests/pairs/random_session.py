"""Random sessions: clients of all dialects, the real gateway in memory, and a random backend.

A session is a list of steps (verb, who, n), each of which is legal at any time: `who` and `n` choose among the clients,
or among the backend's moves. The invariants are checked after each step. At the end all clients read, the backend ends
its open turns, and the test compares what the clients saw.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable

from dragoman.adapters.base import CloseReason
from dragoman.gateway.config.model import Limits
from dragoman.gateway.ingress import Ingress
from dragoman.gateway.session.session import Session
from tests.dialects import parts
from tests.gateway.in_memory import AT_ONCE, InMemoryGateway
from tests.oracle import PandoOracle
from tests.pairs.random_backend import Frame, Move, RandomBackend
from tests.pairs.random_clients import RandomClient, RandomPandoClient, RandomPodClient
from tests.pairs.table import DIALECTS
from tests.pairs.views import TEXT, SeenTurn

Step = tuple[str, int, int]

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


class RandomSession:
    """A session with many clients, which runs random steps and checks what each client sees."""

    def __init__(self, stage: InMemoryGateway, backend: RandomBackend) -> None:
        self.stage = stage
        self.backend = backend
        self.clients: list[RandomClient] = []
        self.away = False
        self._connections = 0
        self._heard = 0  # frames of the newest connection that the backend has heard
        self._oracle = parts(backend.dialect).oracle()

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
                if isinstance(self._oracle, PandoOracle):
                    self._oracle.called("", frame)
                else:
                    self._oracle.said(frame)
                self.backend.hears(frame)
            if not news and not self.backend.out:
                return
            self._speak()

    def _connect(self) -> None:
        pods = self.stage.pods
        if len(pods) > self._connections:
            self._connections = len(pods)
            self._heard, self._oracle = 0, parts(self.backend.dialect).oracle()
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
                if isinstance(self._oracle, PandoOracle) and "topic" not in frame:
                    self._oracle.replied("", frame)
                else:
                    self._oracle.got(frame)
            self.stage.pod.sends(*map(_framed, said))

    def play(self, how_often: int, n: int) -> None:
        """Let the backend make its nth move and some more, in one piece."""
        if not self._connected and self.backend.dialect != "pod":
            return  # a turn belongs to its connection
        before = len(self.backend.turns) - (self.backend.turn is not None)
        for more in range(1 + how_often):
            moves: list[Move] = self.backend.moves()
            moves[(n + 11 * more) % len(moves)]()
        for turn in self.backend.turns[before:]:
            turn.whole = turn.whole and self._connected
        self._speak()

    def join(self, who: int, n: int) -> None:
        """Connect a further client of any dialect."""
        self.connect_client(DIALECTS[n % len(DIALECTS)])

    def connect_client(self, dialect: str) -> None:
        """Connect a client of this dialect, which looks for the existing session."""
        here = [client.dialect for client in self.clients if client.here]
        if len(here) >= CLIENTS_MAX or (dialect == "pando" and dialect in here):
            return  # a listener publishes once for all its subscribers
        session = self.session
        if session is None and {*here} - {"pando"}:
            return  # the backend is away: this client would open a second session
        name = f"{dialect} {len(self.clients)}"
        ingress = Ingress(endpoint=name, session="" if session is None else session.state.id)
        peer = self.stage.join(name, dialect=dialect, ingress=ingress)
        if dialect == "pando":
            caller = self.stage.join(f"{name}, calls", dialect=dialect, calls=True)
            client: RandomClient = RandomPandoClient(name, peer, self.backend.dialect, caller)
        else:
            client = parts(dialect).random_client(name, peer, self.backend.dialect)
        self.clients.append(client)
        client.opens(session)

    @property
    def session(self) -> Session | None:
        """The only session, or None if there is none yet."""
        sessions = self.stage.router.sessions
        return sessions[0] if sessions else None

    def _client(self, who: int) -> RandomClient | None:
        here = [client for client in self.clients if client.here]
        return here[who % len(here)] if here else None

    def _act(self, who: int, act: Callable[[RandomClient, Session], None]) -> None:
        """Let a client act on the session, if there are both."""
        client, session = self._client(who), self.session
        if client is not None and session is not None:
            act(client, session)

    def speak(self, who: int, n: int) -> None:
        """Send an input as a client."""
        self._act(who, lambda client, session: client.speaks(session, f"What is {n}?"))

    def cancel(self, who: int, n: int) -> None:
        """Cancel the turn as a client."""
        self._act(who, lambda client, session: client.cancels(session, n))

    def answer(self, who: int, n: int) -> None:
        """Answer a question as a client, also if there is none."""
        self._act(who, lambda client, session: client.answers(session, approved=n % 2 == 0))

    def answer_at_once(self, who: int, n: int) -> None:
        """Answer a question as all clients, of whom every second one says the opposite."""
        for place in range(len(self.clients)):
            self.answer(who + place, n + place)

    def ask(self, who: int, n: int) -> None:
        """Send a request that does not concern the turn."""
        self._act(who, lambda client, session: client.asks(session, n))

    def resume(self, who: int, n: int) -> None:
        """Resume a paused run as a pod client."""
        pods = [client for client in self.clients if client.here and isinstance(client, RandomPodClient)]
        if pods and self.session is not None:
            pods[who % len(pods)].resumes()

    def show(self, who: int, n: int) -> None:
        """Send an input with an image as a client."""
        self._act(who, lambda client, session: client.shows(session, f"What is in picture {n}?"))

    def rename(self, who: int, n: int) -> None:
        """Give the session a title as a client."""
        self._act(who, lambda client, session: client.renames(session, f"Title {n}"))

    def close(self, who: int, n: int) -> None:
        """Close the session as an operator, after which its clients leave; the one of a pod cannot be closed."""
        session, pods = self.session, [c for c in self.clients if c.here and isinstance(c, RandomPodClient)]
        if session is None or pods or self.backend.dialect == "pando":
            return  # a pod client goes over to another session; the run of a pando goes on without its beginning
        if not self.stage.router.close_session(session):
            for turn in self.backend.turns:
                turn.whole = False
            for client in self.clients:
                client.leaves()

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
            client.leaves()

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
        is_pando = self.backend.dialect == "pando"  # it must be heard of, and its silence may end a turn
        seconds = (1.0, 11.0, 11.0 if is_pando else 31.0)[n % 3]
        if self.backend.turn is not None and (is_pando or (seconds > 10 and self.backend.stopping)):
            self.backend.turn.whole = False
        self.stage.time.passes(seconds)

    # -- invariants ------------------------------------------------------------------------------------

    def look(self) -> None:
        """Assert the invariants of a running session."""
        session = self.session
        if session is None:
            return
        for client in self.clients:
            if client.first is None and client.peer.link.id in session.delivery.attachments:
                turn = self.backend.turn
                client.first = len(self.backend.turns) - (turn is not None and client.joins_turns)
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
            for _ in range(3):
                self.stage.time.passes(11.0)
                await self.rest()
        self.look()
        for client in self.clients:
            for frame in client.peer.frames():
                client.check(frame)
            if client.here:
                self._whole(client)
            if client.here and isinstance(client, RandomPandoClient):
                assert client.unanswered == 0, "each call has one reply"
        self._agree()

    def _whole(self, client: RandomClient) -> None:
        """Assert that the client saw each whole turn since it joined: equal to the character, once and in order."""
        shown: dict[int, SeenTurn] = {}
        order: list[int] = []
        for seen in client.seen():
            numbers = _numbers(seen)
            if not numbers:
                continue  # a call that was cut off before its first piece
            assert len(numbers) == 1, f"{client.name}: one turn shows words of {numbers}"
            order.append(number := numbers.pop())
            shown[number] = seen
        assert order == sorted(order), f"{client.name}: turns in the order {order}"
        for played in self.backend.turns[len(self.backend.turns) if client.first is None else client.first :]:
            said = client.shown_of(played.seen)
            if played.whole and not said.empty and NUMBER.search(str(said)) and client.sees_others:
                assert order.count(played.number) == 1, f"{client.name}: turn {played.number} is shown once"
        for number, seen in shown.items():
            played = self.backend.turns[number]
            is_known = client.sees_others or not played.asked  # another client may have got its other run
            if played.whole and client.first is not None and number >= client.first and is_known:
                is_equal = client.shown_of(seen) == client.shown_of(played.seen)
                assert is_equal, f"{client.name}: {client.shown_of(seen)} of {client.shown_of(played.seen)}"
        for number, seen in shown.items():
            text = "".join(words for kind, words in seen.parts if kind == TEXT)
            whole = "".join(words for kind, words in self.backend.turns[number].seen.parts if kind == TEXT)
            rest = iter(whole)  # of a turn in which the backend was lost live clients may miss a piece
            is_part = text in whole or (not self.backend.turns[number].whole and all(c in rest for c in text))
            assert is_part, f"{client.name}: {text!r} is no part of {whole!r}"

    def _agree(self) -> None:
        """Assert that a late client sees what all others see: a fresh rendering equals the shared one.

        If the gateway heard a block from its middle on, live clients miss its beginning, and late ones do not.
        """
        here = [(client, client.seen()) for client in self.clients if client.here and client.sees_all]
        if not here:
            return
        most, expected = max(here, key=lambda known: len(known[1]))
        for client, seen in here:
            for turn, other in zip(seen, expected[len(expected) - len(seen) :], strict=True):
                agrees = turn == other or (turn.end == other.end and not self._was_whole(other))
                assert agrees, f"{client.name} sees another turn than {most.name}:\n{turn}\n{other}"

    def _was_whole(self, seen: SeenTurn) -> bool:
        """Return True if every part of the turn reached the gateway; of one without words that is unknown."""
        numbers = _numbers(seen)
        return not numbers or self.backend.turns[numbers.pop()].whole


def _framed(frame: Frame) -> Frame | bytes:
    """Return a frame of the backend as it is sent: a publication of a pando begins with its topic."""
    return frame["topic"].encode() + b"\0" + json.dumps(frame).encode() if "topic" in frame else frame


def _numbers(seen: SeenTurn) -> set[int]:
    """Return the numbers of the played turns whose words this turn has."""
    return {int(number) for _, words in [*seen.parts, *seen.results] for number in NUMBER.findall(words)}


VERBS: dict[str, Callable[[RandomSession, int, int], None]] = {
    "play": RandomSession.play,
    "speak": RandomSession.speak,
    "join": RandomSession.join,
    "cancel": RandomSession.cancel,
    "resume": RandomSession.resume,
    "answer": RandomSession.answer,
    "ask": RandomSession.ask,
    "show": RandomSession.show,
    "rename": RandomSession.rename,
    "close": RandomSession.close,
    "stall": RandomSession.stall,
    "drop": RandomSession.drop,
    "lose": RandomSession.lose,
    "come back": RandomSession.come_back,
    "wait": RandomSession.wait,
    "answer at once": RandomSession.answer_at_once,
}
