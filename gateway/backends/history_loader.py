"""Read histories page by page from a backend that returns at most PAGE messages at a time, newest first
(docs/dialects/smooth.md, section 5).

A HistoryLoader is a proxy between a session and its backend. It loads the history of a resumed conversation into the
session. Meanwhile it holds the commands of clients, so that their effects come after the history.

    what is wanted                  what the backend is asked, and what the session gets
    `session=latest` of a listener  ListSessions, then as with an id; a new conversation if there is none
    `session=ID` of a listener      ResumeSession and the pages; SessionOpened and one HistorySnapshot. If the backend
                                    does not know the id: ListSessions, then as with the id that this one was made of
    a client resumes                its ResumeSession and the pages; SessionOpened, one HistorySnapshot, the answer
    a client changes an open one    its ResumeSession, and the newest page if it may not be `stored`; as above
    a client runs a prompt in it    its PromptOnce and the newest page; one HistorySnapshot, the result
    a client asks for a history     the pages, under its request id; one HistorySnapshot as the answer
    a lost connection is made again the newest page, or all after a refusal; one HistorySnapshot, of which the session
                                    adds what is new
    a turn ends after a refusal,    the pages, once more; one HistorySnapshot
    or a newest page that was late

So the session may lack two parts of the history, each or both of them:

    it may lack                     from                             until
    the newest messages             the loss of a connection, while  the newest page, or more, was asked for
                                    others may go on
    all that was stored before      a refusal of the history, or a   all pages came, or it was asked for after a turn:
                                    newest page that was late        some backends tell it only then
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from typing import Any, TypeGuard

from msgspec import structs

from dragoman.adapters.base import do_nothing
from dragoman.gateway.backends.asking import Asking, AskingBackend, ConnectionLost, Script, TimedOut, failure_in
from dragoman.gateway.ingress import LATEST
from dragoman.gateway.routing.ids import canonical_id
from dragoman.gateway.routing.policy import Refused
from dragoman.gateway.services import Services
from dragoman.gateway.session.ports import Backend, BackendEvents
from dragoman.gateway.session.weight import of_item
from dragoman.mappings.canonical import Command, Event, SessionState
from dragoman.mappings.canonical.commands import (
    GetHistory,
    GetSession,
    ListSessions,
    OpenSession,
    PromptOnce,
    ResumeSession,
    resume_session,
)
from dragoman.mappings.canonical.events import Alert, HistorySnapshot, Reply, SessionOpened, SessionsListed, TurnEnded
from dragoman.mappings.canonical.values import Cause, Failure, Item
from dragoman.mappings.dialect import Burst, Loss, StreamedBlock

PAGE = 100  # messages: the largest page that the schema of every server allows (docs/dialects/smooth.md, section 3)
LISTED_MAX = 200  # conversations that are searched for one: the largest page of servers
RESUMED_MAX = 20 * PAGE  # messages of a resumed conversation that are loaded
# seconds for all pages: a pod's parent waits 5 s for its run to begin (docs/dialects/pod.md, section 11)
PATIENCE = 3.0
MISSING = "earlier messages are missing: "


class LongHistories:
    """The histories of more than PAGE messages that clients of one session have asked for."""

    def __init__(self, session: BackendEvents, services: Services) -> None:
        self._session = session
        self._services = services
        self.readings: dict[str, Asking[Command]] = {}
        """The histories that are read, by the request id of the client. Each page is asked for under the same id."""

    def read(self, command: GetHistory, send: Callable[[Sequence[Command]], None]) -> None:
        """Read a history from the backend of `send`, for as long as its client waits for an answer."""
        reading: Asking[Command] = Asking(
            lambda page: send([page]),
            do_nothing,
            lambda _held, _failure: self.readings.pop(command.request, None),
            services=self._services,
        )
        self.readings[command.request] = reading
        reading.begin(self._answer(command), self._services.limits.accept_deadline)

    def lost(self, unsent: Sequence[Command]) -> None:
        """Stop reading for these requests. Without requests, stop all: a new connection answers no old request."""
        for request in [command.request for command in unsent] or [*self.readings]:
            if request in self.readings:
                self.readings.pop(request).stop()

    def stop(self) -> None:
        self.lost([])

    def _answer(self, command: GetHistory) -> Script:
        items: list[Item] = []
        answer = yield from read_pages(command, items, self._services.limits.transcript_max)
        del self.readings[command.request]
        if isinstance(answer, HistorySnapshot):
            if answer.next_cursor and len(items) < command.limit:
                count_loss(self._services, self._session, "older than the part of a history that is read")
            answer = structs.replace(answer, items=tuple(items))
        self._session.receive([Burst(items=[answer])])


def read_pages(command: GetHistory, items: list[Item], most: int) -> Generator[Command, Any, Any]:
    """Add pages to `items` up to `command.limit` messages or a weight of `most`; return the last answer."""
    weight, cursor = 0, command.cursor
    while True:
        page = yield structs.replace(command, limit=min(PAGE, command.limit - len(items)), cursor=cursor)
        if not isinstance(page, HistorySnapshot):
            return page
        items += page.items
        weight += sum(map(of_item, page.items))
        cursor = page.next_cursor or ""
        complete = not cursor or not page.items or len(items) >= command.limit
        if complete or weight > most:
            return page


def count_loss(services: Services, session: BackendEvents, why: str) -> None:
    """Count messages of a history that are not read."""
    loss = Loss(kind="HistorySnapshot", field="items", why=why)
    services.ledger.record([loss], session=session.state.id)


class HistoryLoader(AskingBackend):
    """The backend of one session, with the whole history of its conversation.

    `resume` is the conversation that a listener asks for. `taken` returns True if another session has it open already;
    the clients of this session then go there. `find` returns the one that `resume` means among those that the backend
    lists, "" if these clients may see none. `stored` is True if the backend stores all messages, also of other clients.
    """

    def __init__(
        self,
        session: BackendEvents,
        services: Services,
        connect: Callable[[BackendEvents], Backend],
        *,
        resume: str = "",
        taken: Callable[[str], bool] = lambda _id: False,
        find: Callable[[Sequence[str]], str] = lambda _listed: "",
        stored: bool = True,
    ) -> None:
        self._services = services
        self._resume = resume
        self._taken = taken
        self._find = find
        self._stored = stored
        self._openings: set[str] = set()  # requests of clients that resume, or run a prompt in the conversation
        self._lacks_newest = False
        self._lacks_all = False
        self._long = LongHistories(session, services)
        super().__init__(session, services, connect)

    # -- what the session asks -------------------------------------------------------------------------

    def start(self) -> None:
        self._begin()
        super().start()

    def send(self, commands: Sequence[Command]) -> None:
        self._begin()
        if self._lacks_newest and not self._asking.active:
            self._asking.begin(self._catch_up())
        if self._asking.active:
            self._hold(commands)
            return
        for command in commands:
            if isinstance(command, GetHistory) and command.limit > PAGE:
                self._long.read(command, self._backend.send)
                continue
            resumes = isinstance(command, ResumeSession) and not self._has_history()
            if resumes or isinstance(command, GetSession | PromptOnce):
                self._openings.add(command.request)
            self._backend.send([command])

    def suspend(self) -> bool:
        self._long.stop()
        return super().suspend()

    def stop(self) -> None:
        self._long.stop()
        super().stop()

    # -- what the backend says -------------------------------------------------------------------------

    def receive(self, bursts: list[Burst[Event]]) -> StreamedBlock | None:
        if not (self._asking.active or self._openings or self._long.readings or self._lacks_newest or self._lacks_all):
            return self._session.receive(bursts)
        answers = [item for burst in bursts for item in burst.items if self._asked_for(item) is not None]
        others = [structs.replace(burst, items=[i for i in burst.items if i not in answers]) for burst in bursts]
        opened = self._opened_for_client(others)
        others = [burst for burst in others if burst.items]
        if opened is not None and not self._asking.active:
            if isinstance(opened, SessionOpened) and not self.state.transcript:
                self._asking.begin(self._load(opened, others))
            else:
                self._asking.begin(self._catch_up(others))
        elif others:
            self._session.receive(others)
            if self._lacks_newest and not self._asking.active and _is_open_again(others):
                self._asking.begin(self._catch_up())
            elif self._lacks_all and not self._asking.active and _ends_turn(others):
                self._lacks_all = False  # it is asked once more, and not after each turn
                self._asking.begin(self._load(None, []))
        for answer in answers:
            asking = self._asked_for(answer)
            if asking is not None:
                asking.answer(answer)
        return None

    def lost(self, text: str, unsent: Sequence[Command], cause: Cause = "upstream_lost") -> bool:
        self._openings.clear()
        self._lacks_newest = self.state.backend_ids is not None  # it has opened the conversation
        self._long.lost(unsent)
        return super().lost(text, unsent, cause)

    def _has_history(self) -> bool:
        """Return True if the backend may have messages of this conversation: it stores them, and has opened it."""
        return self._stored and self.state.backend_ids is not None

    def _asked_for(self, item: Any) -> Asking[Command] | None:
        request = getattr(item, "request", "")
        return self._asking if self._asking.is_asked(request) else self._long.readings.get(request)

    def _opened_for_client(self, bursts: Sequence[Burst[Event]]) -> SessionOpened | Reply | None:
        """Return the answer to a client that resumes, or the result of its prompt, if it is among these events."""
        items = [item for burst in bursts for item in burst.items]
        opened = (item for item in items if _is_done(item) and item.request in self._openings)
        found = next(opened, None)
        self._openings -= {request for item in items if (request := getattr(item, "request", ""))}
        return found

    # -- a conversation that is resumed ----------------------------------------------------------------

    def _begin(self) -> None:
        if self._resume and not self._asking.active:
            self._asking.begin(self._open(), self._services.limits.accept_deadline)

    def _open(self) -> Script:
        """Open the conversation that the listener asks for, then load its history."""
        if self._resume == LATEST:
            latest = self._find(_names((yield ListSessions(limit=1))))
            if not latest:
                self._pass_on_history(None, [])  # there is nothing to resume for these clients
                return
            self._resume = latest
            if self._taken(self._resume):
                text = "the conversation is already open in another session"
                raise Refused(Failure(cause="upstream_lost", text=text))
        wanted = self.state.opening or OpenSession()
        resume = structs.replace(resume_session(wanted, self._resume), request="", ext=None)
        opened = yield resume
        if _is_unknown(opened) and (own := self._find(_names((yield ListSessions(limit=LISTED_MAX))))):
            self._resume = own
            opened = yield structs.replace(resume, session=own)
        if isinstance(opened, SessionOpened):
            yield from self._load(opened, [])
        elif isinstance(opened, Reply) and opened.failure is not None:
            raise Refused(Failure(cause="upstream_lost", text=opened.failure.text))
        else:
            self._pass_on_history(None, [])

    def _load(
        self, opened: SessionOpened | None, answers: Sequence[Burst[Event]], *, limit: int = RESUMED_MAX
    ) -> Script:
        """Load the history of an open conversation, at most `limit` messages; then pass on the history and `answers`.

        `opened` is None if the session knows a part of it, or after a refusal: a codewhale 0.10.2 shows an unloaded
        thread only after an input.
        """
        self._asking.within(PATIENCE)
        self._lacks_newest = False
        items: list[Item] = []
        refusal = None
        try:
            page = yield from read_pages(GetHistory(limit=limit), items, self._services.limits.transcript_max)
            refusal = failure_in([page])
            if refusal is not None:
                count_loss(self._services, self._session, "the backend refused to return the history")
            elif limit == RESUMED_MAX:
                self._note_loaded(page, items)
        except TimedOut:
            self._lacks_all |= limit == PAGE
            count_loss(self._services, self._session, "the backend did not return the history in time")
        except ConnectionLost:
            pass  # the pages that came are the history
        if opened is None:
            refusal = None  # clients were told before
        self._lacks_all |= refusal is not None
        self._pass_on_history(opened, items, answers, refusal)

    def _note_loaded(self, page: Event, items: Sequence[Item]) -> None:
        """Note that the whole history was loaded, also after an earlier refusal. `page` is its last page."""
        self._lacks_all = False
        if isinstance(page, HistorySnapshot) and page.next_cursor:
            count_loss(self._services, self._session, "older than the part of a resumed conversation that is loaded")
        if items:
            _remove_alert(self.state)

    def _catch_up(self, answers: Sequence[Burst[Event]] = ()) -> Script:
        """Load the newest page, or all after a refusal. The session adds the messages that it does not know."""
        return self._load(None, answers, limit=RESUMED_MAX if self._lacks_all else PAGE)

    def _pass_on_history(
        self,
        opened: SessionOpened | None,
        items: Sequence[Item],
        answers: Sequence[Burst[Event]] = (),
        refusal: Failure | None = None,
    ) -> None:
        """Pass the resumed conversation to the session, then the answers to clients that waited for it.

        `refusal` is the failure of a backend that does not send the history, or not all of it.
        """
        wanted, self._resume = self._resume, ""
        events: list[Event] = []
        if opened is not None:
            events.append(structs.replace(opened, request=""))
        if opened is not None or wanted or items:
            events.append(HistorySnapshot(items=tuple(reversed(items))))
        if opened is not None and wanted not in ("", LATEST) and not _same(wanted, opened.session):
            events.append(_alert(f"the backend does not know the conversation {wanted} and began another"))
        if refusal is not None:
            events.append(_alert(f"{MISSING}{refusal.text}"))
        self._session.receive([Burst(items=events), *answers])


def _alert(text: str) -> Alert:
    """Return an alert, which the session keeps for clients that come later."""
    return Alert(level="warn", source="gateway", text=text)


def _remove_alert(state: SessionState) -> None:
    """Remove the alert of missing messages, which clients that come later would get."""
    state.alerts[:] = [alert for alert in state.alerts if not alert.text.startswith(MISSING)]


def _names(listed: Any) -> list[str]:
    return [row.session for row in listed.sessions] if isinstance(listed, SessionsListed) else []


def _is_unknown(answer: Any) -> bool:
    return isinstance(answer, Reply) and answer.failure is not None and answer.failure.cause == "not_found"


def _is_done(item: Event) -> TypeGuard[SessionOpened | Reply]:
    return isinstance(item, SessionOpened) or (isinstance(item, Reply) and item.failure is None)


def _is_open_again(bursts: Sequence[Burst[Event]]) -> bool:
    """Return True if these events show that a new connection has the conversation open."""
    return any(isinstance(item, SessionOpened) and not item.request for burst in bursts for item in burst.items)


def _ends_turn(bursts: Sequence[Burst[Event]]) -> bool:
    return any(isinstance(item, TurnEnded) for burst in bursts for item in burst.items)


def _same(wanted: str, opened: str) -> bool:
    """Return True if both names mean one conversation: a thread is its UUID, bare or after `thread-`."""
    return canonical_id("", wanted) == canonical_id("", opened)
