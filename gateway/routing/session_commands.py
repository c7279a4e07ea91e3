"""The commands of clients about sessions: list, open, resume, show and delete them.

A session of another principal is answered exactly like an unknown one. A list has the open sessions and those that the
backend has. A client whose listener shows one session gets that session, or those in its listener's directory.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from dragoman.gateway.backends.kind import BackendKind, not_found
from dragoman.gateway.ingress import AboutPods
from dragoman.gateway.link import COUNTED, Link, opening_trace
from dragoman.gateway.observability import audit
from dragoman.gateway.routing.policy import Refused
from dragoman.gateway.routing.session_index import Rows, completed
from dragoman.gateway.routing.session_list import ListedRow, WantedPage
from dragoman.gateway.routing.sessions import Sessions, replace_session
from dragoman.gateway.session.history import count_left_out
from dragoman.gateway.session.session import Session
from dragoman.mappings.canonical import Command
from dragoman.mappings.canonical.commands import (
    DeleteSession,
    GetSession,
    ListSessions,
    OpenSession,
    ResumeSession,
    SubmitInput,
)
from dragoman.mappings.canonical.events import Reply, SessionActivated, SessionClosed, SessionOpened, SessionsListed
from dragoman.mappings.canonical.values import Failure, SessionSummary, is_chat_message

ID_IN_USE = "sqlite3: constraint failed: UNIQUE constraint failed: sessions.id"
"""The error text of a real pando; only pando clients choose ids."""


class SessionCommands:
    """The commands of clients about the sessions of a route."""

    def __init__(self, sessions: Sessions, backend: BackendKind) -> None:
        self._sessions = sessions
        self._backend = backend

    def find_session(self, link: Link, name: str) -> Session | None:
        """Return the session that `link` calls `name`, or its own for ""; None if there is none that it may see."""
        if not name:
            mine = self._sessions.index.live_sessions(link.sessions)
            return mine[0] if len(mine) == 1 else None
        session = self.find_named(name)
        if session is None or self._sessions.policy.sees(link.principal, session.state):
            return session
        refuse = partial(audit.refuse, link, "the session belongs to another principal", session=session.state.id)
        self._sessions.services.schedule(0, refuse)  # after the answer, whose time would tell that the session exists
        return None

    def act_late(self, link: Link, command: Command, session: Session) -> None:
        """Perform a command that has waited in its session, or in the session to which the client was moved."""
        if link.alive:
            (self.find_session(link, command.session) or session).commands.act(link, command)

    def refuse_write(self, link: Link, command: Command) -> None:
        """Refuse a write into a store: the backend is of another dialect than this client, and has none."""
        if command.session and self.find_session(link, command.session) is None:
            refuse_unknown(link, command)
        else:
            link.refuse(command.request, "unsupported", "there is no database here")

    def is_answer(self, link: Link, command: Command) -> bool:
        """Return True for an input that answers a question in words, of a session that `link` may see."""
        if not isinstance(command, SubmitInput):
            return False
        session = self.find_named(command.session) if command.session else self.find_session(link, "")
        if session is None or not self._sessions.policy.sees(link.principal, session.state):
            return False
        return session.questions.is_typed_answer(link, command)

    def find_named(self, name: str) -> Session | None:
        """Return the session with this name, whoever owns it; restore a forgotten one if possible."""
        return self._sessions.index.find_session(name) or self._backend.find_session(name)

    def show_session(
        self, link: Link, session: Session, request: str, agent: str = "", *, awaits_history: bool = True
    ) -> None:
        """Answer with a session, and attach the client to it. Await the history if it is a part of the answer."""
        if awaits_history and link.dialect.answers_with_history:
            show = partial(self.show_session, link, session, request, agent, awaits_history=False)
            self._sessions.claim(link, session)
            session.presence.connect_for_query()
            session.pending.when_known(lambda: show() if link.alive else None)
            return
        state = session.state
        if link.dialect.answers_with_history:
            services = self._sessions.services
            services.queue.spend(COUNTED * len(state.transcript))
            others = (item for item in state.transcript if not is_chat_message(item))
            count_left_out(services.ledger, state, self._sessions.upstream, link.dialect, others)
        session.delivery.enter()
        if link.id in session.delivery.attachments:
            opened = SessionOpened(
                request=request,
                session=state.id,
                agent=agent or state.agent,
                title=state.title,
                status=state.status,
                ext=state.ids,
            )
            link.send([opened])
        else:
            self._sessions.claim(link, session)
            session.presence.attach(link, request)

    def open_session(self, link: Link, command: OpenSession) -> None:
        """Open a session for a client, unless the id that it chose is in use."""
        name = command.session
        if name and (self._sessions.in_use(link, name) or self._backend.find_session(name) is not None):
            link.refuse(command.request, "busy", ID_IN_USE)
        else:
            self._show_opened(link, command, lambda: self._backend.open_session(link, command))

    def resume_session(self, link: Link, command: ResumeSession) -> None:
        """Show a client the session that it resumes, or let the backend find or change the session."""
        session, upstream = self.find_session(link, command.session), self._sessions.upstream
        may_open = link.roles is None or "open" in link.roles
        may_change = may_open and link.dialect.name == upstream.name
        if session is not None and may_change and link.dialect.changes_session(command, session.state.opening):
            self._sessions.claim(link, session)
            session.delivery.enter()
            session.commands.act(link, self._sessions.complete(command))
            return
        if session is not None:
            self._sessions.services.ledger.count_partial(link.dialect, upstream, [command], commands=True)
            self.show_session(link, session, command.request, self._backend.agent_of(session, command.agent))
            session.describe(SessionActivated)
        elif self._sessions.past.is_hidden(command.session):
            refuse_unknown(link, command)
        elif not may_open:  # an unknown name may open another session
            self.get_session(link, GetSession(request=command.request, session=command.session))
        else:
            self._show_opened(link, command, lambda: self._backend.resume_session(link, command))

    def _show_opened(
        self, link: Link, command: OpenSession | ResumeSession, find: Callable[[], Session | None]
    ) -> None:
        """Show the client the session that `find` returns (None: the backend was asked).

        Answer with a Refused of it.
        """
        try:
            session = find()
        except Refused as refused:
            refused.send_to(link, command)
            return
        if session is None:
            return
        ledger, upstream = self._sessions.services.ledger, self._sessions.upstream
        answered = self._backend.without_session_choice(command)
        ledger.count_partial(link.dialect, upstream, [answered], commands=True)  # the gateway answers it
        if session.state.id not in link.sessions:  # a repeated open has no effect, and may come without end
            audit.note("open", link, session=session.state.id)
        agent = self._backend.agent_of(session, command.agent)
        session.state.agent = agent or session.state.agent
        session.state.trace = session.state.trace or opening_trace(link, command)
        if isinstance(command, OpenSession):
            self._sessions.choose(link, session, command.session)
            session.describe()
        is_new = isinstance(command, OpenSession)
        self.show_session(link, session, command.request, agent, awaits_history=not is_new)

    def get_session(self, link: Link, command: GetSession) -> None:
        """Answer a client that asks about a session, or let the backend answer."""
        session = self.find_session(link, command.session)
        if session is not None:
            self.show_session(link, session, command.request)
        elif self._sessions.past.is_hidden(command.session):
            refuse_unknown(link, command)
        else:
            try:
                self._backend.get_session(link, command)
            except Refused as refused:
                if refused.failure.cause == "busy":  # a limit is reached; no line tells of sessions that do not exist
                    audit.refuse(link, refused.failure.text, command=type(command).__name__)
                link.send([Reply(request=command.request, failure=refused.failure)])

    def describe_own(self, link: Link, command: AboutPods) -> None:
        """Answer a client whose listener shows one session with that session, or with those of the directory."""
        own = self._sessions.listener_sessions.find_session(link.ingress)
        if own is not None and link.ingress.about_pods is not None:
            sees = partial(self._sessions.policy.sees, link.principal)
            link.send([link.ingress.about_pods(command, own.state, sees)])
        elif own is not None and isinstance(command, ListSessions):
            link.send([SessionsListed(request=command.request, sessions=(own.summary(),))])
        elif own is not None and command.session == own.state.id:
            self.show_session(link, own, command.request)
        else:
            refuse_unknown(link, command)

    def delete_session(self, link: Link, command: DeleteSession) -> None:
        """Forget a session whose backend cannot delete it, and hide it from all clients."""
        session = self.find_session(link, command.session)
        listed = self._backend.listed(command.session)
        past = self._sessions.past
        if session is not None and self._backend.cannot_delete:
            link.refuse(command.request, "unsupported", self._backend.cannot_delete)
            return
        if session is not None:
            past.hide(self._sessions.index.names(session))
            session.delivery.enter()
            audit.note("close", link, session=session.state.id)
            session.give_up(Failure(cause="upstream_lost", text="the session was deleted"))
            session.describe(SessionClosed)
            self._sessions.drop(session)
        elif listed is not None and not past.is_hidden(command.session):
            past.hide((command.session, listed.session))
        else:
            refuse_unknown(link, command)
            return
        link.send([Reply(request=command.request)])

    def close_session(self, session: Session) -> str:
        """Close a session for an operator. Return why it cannot be closed, or ""."""
        if self._backend.cannot_delete:
            return self._backend.cannot_delete.replace("deleted", "closed")
        audit.note("close", "operator", session=session.state.id)
        session.delivery.enter()
        session.give_up(Failure(cause="upstream_lost", text="an operator closed the session"))
        session.describe(SessionClosed)
        replace_session(self._sessions, session)
        return ""

    # -- lists -----------------------------------------------------------------------------------------

    def list_sessions(self, link: Link, command: ListSessions) -> None:
        """Answer with a page of the list, once the backend has listed its sessions."""
        self._backend.list_sessions(link, command, lambda rows: self._send_page(link, command, rows))

    def _send_page(self, link: Link, command: ListSessions, rows: Rows) -> None:
        def send_page(page: SessionsListed | None) -> None:
            if page is not None:
                link.send([page])
            else:  # the first page again would be paged through forever
                link.refuse(command.request, "invalid", "unknown cursor")

        open_rows, other_rows = self._divide(link, rows)
        wanted = WantedPage(
            principal=link.principal,
            silent=link.dialect.lists_silent,
            command=command,
            row_of=self._row_of,
            open_rows=open_rows,
            other_rows=other_rows,
        )
        link.add_work(self._sessions.list.take_page(wanted, send_page))

    def _divide(self, link: Link, rows: Rows) -> tuple[dict[str, ListedRow], list[ListedRow]]:
        """Return the rows of sessions that are open here, by their ids, and of others that the client sees."""
        open_rows: dict[str, ListedRow] = {}
        others: list[ListedRow] = []
        stored = self._sessions.upstream.stores_history
        for row in rows:
            session = self._find_open(row)
            if self._sessions.past.is_hidden(row.session) or self._sessions.is_foreign(link, row.session):
                continue
            if session is not None:
                open_rows[session.state.id] = self._listed(completed(session, row, stored=stored), session)
            else:
                others.append(self._listed(row))
        return open_rows, others

    def _find_open(self, row: SessionSummary) -> Session | None:
        """Return the open session of a row, found by the id that its backend gave it or by an older id."""
        names = (row.session, *self._sessions.upstream.public_ids(row.session, row.ext))
        return next(filter(None, map(self._sessions.index.find_session, names)), None)

    def _row_of(self, session: Session) -> ListedRow | None:
        """Return the row of an open session; None if no list shows it."""
        row = self._backend.row_of(session)
        return self._listed(row, session) if self._backend.is_worth_listing(row) else None

    def _listed(self, row: SessionSummary, session: Session | None = None) -> ListedRow:
        exists = session is not None and session.state.backend_ids is not None and self._sessions.upstream.lists_silent
        return ListedRow(row=row, is_shown=bool(row.messages or row.title) or exists)


def refuse_unknown(link: Link, command: Command) -> None:
    """Answer a command whose session is unknown, or is hidden from the client."""
    link.send([Reply(request=command.request, failure=not_found(command.session))])
