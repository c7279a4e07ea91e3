"""Resume a conversation: find it, open it, and load its history page by page into its session.

A HistoryLoader stands between a session and a backend that opens conversations and returns their history in pages,
newest first (docs/dialects/smooth.md, section 5). While it works, the commands of clients wait in their order, so
that their effects come after the history. Its own requests have ids of their own, and their answers go to it alone.

    an endpoint's `session=latest`   ListSessions, then as with an id; a new conversation if there is none
    an endpoint's `session=ID`       ResumeSession, then the pages, then SessionOpened and one HistorySnapshot
    a client resumed it              the pages, then SessionOpened, one HistorySnapshot, and the client's answer
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from msgspec import structs

from dragoman.gateway.backends.asking import Asking, ConnectionLost, Refused, Script, TimedOut
from dragoman.gateway.backends.paging import PAGE
from dragoman.gateway.backends.upstream import Backend, Connected
from dragoman.gateway.routing.ids import canonical_id
from dragoman.gateway.routing.ingress import LATEST
from dragoman.gateway.services import Services
from dragoman.gateway.session.weight import of_item
from dragoman.mappings.canonical import Command, SessionState
from dragoman.mappings.canonical.commands import GetHistory, GetSession, ListSessions, OpenSession, ResumeSession
from dragoman.mappings.canonical.events import Alert, Event, HistorySnapshot, Reply, SessionOpened, SessionsListed
from dragoman.mappings.canonical.values import Cause, Failure, Item
from dragoman.mappings.dialect import Burst, Loss

__all__ = ["HistoryLoader"]

PAGES_MAX = 20
# seconds for all pages: a pod's parent waits 5 s for its run to begin (docs/dialects/pod.md, section 11)
PATIENCE = 3.0
HELD_MAX = 64  # commands that wait meanwhile: as many as wait for a connection


class HistoryLoader:
    """The way of one session to its backend, with the history of a resumed conversation; `backend` is set first.

    `resume` is the conversation that an endpoint asks for. `taken` returns True if another session has it open already;
    the clients of this session then go there.
    """

    backend: Backend

    def __init__(
        self,
        session: Connected,
        services: Services,
        *,
        resume: str = "",
        taken: Callable[[str], bool] = lambda _id: False,
    ) -> None:
        self._session = session
        self._limits = services.limits
        self._ledger = services.ledger
        self._resume = resume
        self._taken = taken
        self._asking: Asking[Command] = Asking(
            lambda command: self.backend.send([command]),
            self.send,
            self._fail,
            services=services,
            bound=HELD_MAX,
        )
        self._openings: set[str] = set()  # requests of clients that resume

    # -- what the session asks -------------------------------------------------------------------------

    def start(self) -> None:
        self._begin()
        self.backend.start()

    def send(self, commands: Sequence[Command]) -> None:
        self._begin()
        if not self._asking.active:
            self._openings.update(c.request for c in commands if isinstance(c, ResumeSession | GetSession))
            self.backend.send(commands)
        elif excess := self._asking.hold(commands):
            self._session.lost("too many commands wait for the history of the conversation", excess, "busy")

    def rest(self) -> None:
        self.backend.rest()

    def stop(self) -> None:
        self._asking.stop()
        self.backend.stop()

    # -- what the backend says -------------------------------------------------------------------------

    def connected(self) -> SessionState:
        return self._session.connected()

    def receive(self, bursts: list[Burst[Event]]) -> None:
        if not self._asking.active and not self._openings:
            self._session.receive(bursts)
            return
        answers = [i for burst in bursts for i in burst.items if self._asking.is_asked(getattr(i, "request", ""))]
        others = [structs.replace(burst, items=[i for i in burst.items if i not in answers]) for burst in bursts]
        opened = self._opened_for_client(others)
        others = [burst for burst in others if burst.items]
        if opened is not None and not self._asking.active and not self.connected().transcript:
            self._asking.begin(self._load(opened, others))
        elif others:
            self._session.receive(others)
        for answer in answers[:1]:
            self._asking.answer(answer)

    def lost(self, text: str, unsent: Sequence[Command], cause: Cause = "upstream_lost") -> None:
        self._openings.clear()
        others, held = self._asking.lost(unsent)
        self._session.lost(text, [*others, *held], cause)

    def _opened_for_client(self, bursts: Sequence[Burst[Event]]) -> SessionOpened | None:
        """Return the answer to a client that resumes, if it is among these."""
        items = [item for burst in bursts for item in burst.items]
        opened = (item for item in items if isinstance(item, SessionOpened) and item.request in self._openings)
        found = next(opened, None)
        self._openings -= {request for item in items if (request := getattr(item, "request", ""))}
        return found

    # -- step by step ----------------------------------------------------------------------------------

    def _begin(self) -> None:
        if self._resume and not self._asking.active:
            self._asking.begin(self._open(), self._limits.accept_deadline)

    def _open(self) -> Script:
        """Open the conversation that the endpoint asks for, then load its history."""
        if self._resume == LATEST:
            listed = yield ListSessions(limit=1)
            if not isinstance(listed, SessionsListed) or not listed.sessions:
                self._tell(None, [])  # there is nothing to resume
                return
            self._resume = listed.sessions[0].session
            if self._taken(self._resume):
                raise Refused(failure("the conversation is open here already; say it again there"))
        wanted = self.connected().opening or OpenSession()
        opened = yield ResumeSession(
            session=self._resume,
            agent=wanted.agent,
            user_name=wanted.user_name,
            user_email=wanted.user_email,
            supports=wanted.supports,
            metadata=wanted.metadata,
        )
        if isinstance(opened, SessionOpened):
            yield from self._load(opened, [])
        elif isinstance(opened, Reply) and opened.failure is not None:
            raise Refused(failure(opened.failure.text))
        else:
            self._tell(None, [])

    def _load(self, opened: SessionOpened, answers: Sequence[Burst[Event]]) -> Script:
        """Load the history of an open conversation page by page, then tell it and `answers`."""
        self._asking.within(PATIENCE)
        items: list[Item] = []  # newest first
        cursor = ""
        try:
            for _ in range(PAGES_MAX):
                page = yield GetHistory(limit=PAGE, cursor=cursor)
                cursor = ""
                if isinstance(page, HistorySnapshot):
                    items += page.items
                    cursor = page.next_cursor or ""
                if not cursor or sum(map(of_item, items)) > self._limits.transcript_max:
                    break
            if cursor:
                self._lose("older than what is loaded of a resumed conversation")
        except TimedOut:
            self._lose("the backend did not tell the history in time")
        except ConnectionLost:
            pass  # the pages that came are the history
        self._tell(opened, items, answers)

    def _tell(self, opened: SessionOpened | None, items: Sequence[Item], answers: Sequence[Burst[Event]] = ()) -> None:
        """Give the session what was resumed, then the answers to clients that waited for it."""
        wanted, self._resume = self._resume, ""
        events: list[Event] = []
        if opened is not None:
            events.append(structs.replace(opened, request=""))
        if opened is not None or wanted:
            events.append(HistorySnapshot(items=tuple(reversed(items))))
        if opened is not None and wanted not in ("", LATEST) and not _same(wanted, opened.session):
            text = f"the backend does not know the conversation {wanted} and began another"
            events.append(Alert(level="warn", source="gateway", text=text))  # kept for who comes later, as no Gap is
        self._session.receive([Burst(items=events), *answers])

    def _fail(self, held: list[Command], why: Failure) -> None:
        self._session.lost(why.text, held)

    def _lose(self, why: str) -> None:
        loss = Loss(kind="HistorySnapshot", field="items", why=why)
        self._ledger.record([loss], session=self.connected().id)


def failure(text: str) -> Failure:
    """Return the failure of commands that waited for a conversation which cannot be resumed."""
    return Failure(cause="upstream_lost", text=text)


def _same(wanted: str, opened: str) -> bool:
    """Return True if both names mean one conversation: a thread is its UUID, bare or behind `thread-`."""
    return canonical_id("", wanted) == canonical_id("", opened)
