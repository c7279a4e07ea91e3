"""Resume a conversation: find it, open it, and load its history page by page into its session.

A Recall stands between a session and a backend that opens conversations and returns their history in pages, newest
first (docs/dialects/smooth.md, section 5). While it works, the commands of clients wait in their order, so that their
effects come after the history. Its own requests have ids of their own, and their answers go to it alone.

    an endpoint's `session=latest`   ListSessions, then as with an id; a new conversation if there is none
    an endpoint's `session=ID`       ResumeSession, then the pages, then SessionOpened and one HistorySnapshot
    a client resumed it              the pages, then SessionOpened, one HistorySnapshot, and the client's answer
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from msgspec import structs

from dragoman.gateway.config.model import Limits
from dragoman.gateway.ledger import Ledger
from dragoman.gateway.routing.door import LATEST
from dragoman.gateway.routing.ids import canonical_id
from dragoman.gateway.routing.paging import PAGE
from dragoman.gateway.session.weight import of_item
from dragoman.gateway.timers import Later, Timer
from dragoman.gateway.upstream import Backend, Connected
from dragoman.mappings.canonical import Command, SessionState
from dragoman.mappings.canonical.commands import GetHistory, GetSession, ListSessions, OpenSession, ResumeSession
from dragoman.mappings.canonical.events import Alert, Event, HistorySnapshot, Reply, SessionOpened, SessionsListed
from dragoman.mappings.canonical.values import Cause, Item
from dragoman.mappings.dialect import Burst, Loss, NewId

__all__ = ["Recall"]

PAGES_MAX = 20
# seconds for all pages: a pod's parent waits 5 s for its run to begin (docs/dialects/pod.md, section 11)
PATIENCE = 3.0
HELD_MAX = 64  # commands that wait meanwhile: as many as wait for a connection


class Recall:
    """The way of one session to its backend, with the history of a resumed conversation; `backend` is set first.

    `resume` is the conversation that an endpoint asks for. `taken` returns True if another session has it open already;
    the clients of this session then go there.
    """

    backend: Backend

    def __init__(
        self, session: Connected, *, limits: Limits, ledger: Ledger, new_id: NewId, later: Later, resume: str = "",
        taken: Callable[[str], bool] = lambda _id: False,
    ) -> None:  # fmt: skip
        self._session = session
        self._limits = limits
        self._ledger = ledger
        self._new_id = new_id
        self._later = later
        self._resume = resume
        self._taken = taken
        self._asked: Command | None = None  # what we wait for
        self._answer: Any = None
        self._timer: Timer | None = None
        self._held: list[Command] = []
        self._openings: set[str] = set()  # requests of clients that resume
        self._late_answers: list[Burst] = []  # to them, once the history is here
        self._opened: SessionOpened | None = None
        self._items: list[Item] = []  # newest first
        self._pages = 0

    # -- what the session asks -------------------------------------------------------------------------

    def start(self) -> None:
        if self._resume and self._asked is None:
            self._begin()
        self.backend.start()

    def send(self, commands: Sequence[Command]) -> None:
        if self._resume and self._asked is None:
            self._begin()
        if self._asked is None:
            self._openings.update(c.request for c in commands if isinstance(c, ResumeSession | GetSession))
            self.backend.send(commands)
            return
        room = HELD_MAX - len(self._held)
        self._held += commands[:room]
        if commands[room:]:
            self._session.lost("too many commands wait for the history of the conversation", commands[room:], "busy")

    def rest(self) -> None:
        self.backend.rest()

    def stop(self) -> None:
        self._rung()
        self.backend.stop()

    # -- what the backend says -------------------------------------------------------------------------

    def connected(self) -> SessionState:
        return self._session.connected()

    def receive(self, bursts: list[Burst]) -> None:
        if self._asked is None and not self._openings:
            self._session.receive(bursts)
            return
        others = [structs.replace(burst, items=[i for i in burst.items if not self._takes(i)]) for burst in bursts]
        opened = self._opened_for_client(others)
        others = [burst for burst in others if burst.items]
        if opened is not None and self._asked is None and not self.connected().transcript:
            self._opened, self._late_answers = opened, others
            self._page("")
        elif others:
            self._session.receive(others)
        if self._answer is not None:
            answer, self._answer = self._answer, None
            self._go_on(answer)

    def lost(self, text: str, unsent: Sequence[Command], cause: Cause = "upstream_lost") -> None:
        asked, held = self._asked, self._held
        self._openings.clear()
        if asked is not None:
            unsent = [c for c in unsent if c.request != asked.request]
            self._tell() if isinstance(asked, GetHistory) else self._settle()
        self._session.lost(text, [*unsent, *held], cause)

    def _takes(self, item: Any) -> bool:
        if self._asked is None or getattr(item, "request", None) != self._asked.request:
            return False
        self._answer = item
        return True

    def _opened_for_client(self, bursts: Sequence[Burst]) -> SessionOpened | None:
        """Return the answer to a client that resumes, if it is among these."""
        items = [item for burst in bursts for item in burst.items]
        opened = (item for item in items if isinstance(item, SessionOpened) and item.request in self._openings)
        found = next(opened, None)
        self._openings -= {request for item in items if (request := getattr(item, "request", ""))}
        return found

    # -- step by step ----------------------------------------------------------------------------------

    def _begin(self) -> None:
        self._wait(self._limits.accept_deadline)
        if self._resume == LATEST:
            self._ask(ListSessions(limit=1))
        else:
            self._open(self._resume)

    def _open(self, conversation: str) -> None:
        wanted = self.connected().opening or OpenSession()
        self._ask(
            ResumeSession(
                session=conversation, agent=wanted.agent, user_name=wanted.user_name, user_email=wanted.user_email,
                supports=wanted.supports, metadata=wanted.metadata,
            )
        )  # fmt: skip

    def _page(self, cursor: str) -> None:
        if not self._pages:
            self._wait(PATIENCE)
        self._pages += 1
        self._ask(GetHistory(limit=PAGE, cursor=cursor))

    def _go_on(self, answer: Event) -> None:
        asked = self._asked
        match answer:
            case SessionsListed(sessions=(newest, *_)):
                self._resume = newest.session
                if self._taken(newest.session):
                    self._fail("the conversation is open here already; say it again there")
                else:
                    self._open(newest.session)
            case SessionOpened():
                self._opened = answer
                self._page("")
            case HistorySnapshot():
                self._read(answer)
            case Reply(failure=failure) if failure is not None and isinstance(asked, ResumeSession):
                self._fail(failure.text)
            case _:  # nothing to resume, or no more pages
                self._finish()

    def _read(self, page: HistorySnapshot) -> None:
        self._items += page.items
        full = sum(map(of_item, self._items)) > self._limits.transcript_max
        if page.next_cursor and not full and self._pages < PAGES_MAX:
            self._page(page.next_cursor)
            return
        if page.next_cursor:
            self._lose("older than what is loaded of a resumed conversation")
        self._finish()

    def _finish(self) -> None:
        """Give the session its history, then send the commands that waited."""
        held = self._held
        self._tell()
        if held:
            self.send(held)

    def _tell(self) -> None:
        opened, wanted = self._opened, self._resume
        items = tuple(reversed(self._items))
        self._resume = ""
        self._settle()
        events: list[Event] = []
        if opened is not None:
            events.append(structs.replace(opened, request=""))
        if opened is not None or items or wanted:
            events.append(HistorySnapshot(items=items))
        if opened is not None and wanted not in ("", LATEST) and not _same(wanted, opened.session):
            text = f"the backend does not know the conversation {wanted} and began another"
            events.append(Alert(level="warn", source="gateway", text=text))  # kept for who comes later, as no Gap is
        answers, self._late_answers = self._late_answers, []
        bursts = [Burst(items=events)] if events else []
        if bursts or answers:
            self._session.receive([*bursts, *answers])

    def _fail(self, text: str) -> None:
        held = self._held
        self._settle()
        self._session.lost(text, held)

    def _late(self) -> None:
        self._timer = None
        if isinstance(self._asked, GetHistory):
            self._lose("the backend did not tell the history in time")
            self._finish()
        else:
            self._fail("the backend did not answer in time")

    # --------------------------------------------------------------------------------------------------

    def _ask(self, command: Command) -> None:
        self._asked = structs.replace(command, request=self._new_id())
        self.backend.send([self._asked])

    def _wait(self, seconds: float) -> None:
        self._rung()
        self._timer = self._later(seconds, self._late)

    def _rung(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _settle(self) -> None:
        """Forget the open request and everything that belongs to it."""
        self._rung()
        self._asked, self._opened, self._items, self._pages, self._held = None, None, [], 0, []

    def _lose(self, why: str) -> None:
        loss = Loss(kind="HistorySnapshot", field="items", why=why)
        self._ledger.record([loss], session=self.connected().id)


def _same(wanted: str, opened: str) -> bool:
    """Return True if both names mean one conversation: a thread is its UUID, bare or behind `thread-`."""
    return canonical_id("", wanted) == canonical_id("", opened)
