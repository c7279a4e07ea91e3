"""An index of the sessions of a route by every name that clients know them by."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

from msgspec import structs

from dragoman.gateway.session.session import Session
from dragoman.mappings.canonical.values import Ext, SessionSummary
from dragoman.mappings.dialect import Dialect

NAME_SIZE = 1024  # characters of a name: ids of real backends have 36 to 60
NAMES_MAX = 1024  # names of one session: each client that opens the only session of a backend may choose a name

Rows = Sequence[SessionSummary]


class SessionIndex:
    """The live sessions of a route by name.

    The ids under which a dialect shows a session to its clients are names, too.
    """

    def __init__(self, dialects: Callable[[], Mapping[str, Dialect]]) -> None:
        self._dialects = dialects()  # it grows while the process runs
        self._named_in = 0  # dialects in which every session that lives has its names
        self._sessions: dict[str, Session] = {}
        self._names: dict[str, Session] = {}
        self._given: dict[str, dict[str, None]] = {}  # the names of each session, those last given last

    def __iter__(self) -> Iterator[Session]:
        return iter(list(self._sessions.values()))

    def __contains__(self, session: Session) -> bool:
        return self._sessions.get(session.state.id) is session

    def add(self, session: Session) -> None:
        """Add a session, or add the names that its backend or a client gave it since; older names stay valid."""
        state = session.state
        self._sessions[state.id] = session
        names = [state.id]
        for dialect in [*self._dialects.values()]:  # a copy: a reload may add one in a thread
            names += dialect.public_ids(state.id, state.backend_ids)
            if state.backend_ids is None and state.chosen_ids is not None:
                names += dialect.public_ids(state.id, state.chosen_ids)
        given = self._given.setdefault(state.id, {})
        for name in names:
            self._name(session, given, name)

    def names_of(self, id: str, ids: Ext | None) -> list[str]:
        """Return every name by which clients know the session with this id, whose backend has these `ids` for it."""
        names = [id]
        for dialect in [*self._dialects.values()]:
            names += dialect.public_ids(id, ids)
        return names

    def add_name(self, session: Session, name: str) -> None:
        """Add a name to a live session.

        The names that clients are shown are moved to the end, so that they are dropped last.
        """
        given = self._given[session.state.id]
        self._name(session, given, name)
        self.add(session)

    def move_names(self, session: Session, other: Session) -> None:
        """Assign the names of a session that is about to end to another session."""
        names, self._given[session.state.id] = self.names(session), {}
        for name in names:
            del self._names[name]
            self.add_name(other, name)

    def _name(self, session: Session, given: dict[str, None], name: str) -> None:
        """Add a name to a session, unless another live session has it: links would be attached to both.

        A name of more than NAME_SIZE characters is left out, because a backend or client may send others without end.
        """
        if len(name) > NAME_SIZE or self._names.setdefault(name, session) is not session:
            return
        given.pop(name, None)
        given[name] = None
        if len(given) > NAMES_MAX:
            oldest = next(iter(given))
            del given[oldest]
            del self._names[oldest]

    def names(self, session: Session) -> list[str]:
        """Return every name under which clients know `session`."""
        return list(self._given[session.state.id])

    def drop(self, session: Session) -> None:
        del self._sessions[session.state.id]
        for name in self._given.pop(session.state.id):
            del self._names[name]

    def live_sessions(self, ids: Iterable[str]) -> list[Session]:
        """Return the sessions with these ids that have not ended."""
        return [session for own in ids if (session := self._sessions.get(own)) is not None]

    def live_session(self, id: str) -> Session | None:
        """Return the session with this id; None if it has ended."""
        return self._sessions.get(id)

    def find_session(self, name: str) -> Session | None:
        """Return the session with this name, or None.

        If a reload has added a listener of another dialect, each session first gets its names in that dialect.
        """
        found = self._names.get(name)
        if found is None and self._named_in < len(self._dialects):
            self._named_in = len(self._dialects)
            for session in self._sessions.values():
                self.add(session)
            found = self._names.get(name)
        return found


def completed(session: Session, row: SessionSummary, *, stored: bool = False) -> SessionSummary:
    """Return the row of an open session, completed by the backend's own row.

    With `stored`, the backend answers requests for histories. Then its own count of messages is listed instead of the
    session's, unless the backend has forgotten them.
    """
    own, counts = session.summary(), stored and session.state.forgotten is None
    return structs.replace(
        own,
        title=session.state.title or row.title or own.title,
        updated_at=max(own.updated_at, row.updated_at),
        messages=row.messages if counts else max(own.messages, row.messages),
        archived=row.archived,
        ext={**(own.ext or {}), **(row.ext or {})},
    )
