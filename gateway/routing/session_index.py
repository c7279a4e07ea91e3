"""An index of the sessions of a route by every name that clients know them by."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

from msgspec import structs

from dragoman.gateway.session.session import Session
from dragoman.mappings.canonical.values import SessionSummary
from dragoman.mappings.dialect import Dialect

NAME_SIZE = 1024  # characters of a name: ids of real backends have 36 to 60
NAMES_MAX = 1024  # names of one session: who opens the one session of a backend chooses another each time

Rows = Sequence[SessionSummary]


class SessionIndex:
    """All sessions that live. A client's dialect shows a session under ids of its own: those are names too."""

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
        """Add a new session, or the names that its backend or a client gave it; those that it had stay."""
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

    def add_name(self, session: Session, name: str) -> None:
        """Accept one more name for a session that lives; the names shown to clients are never the oldest."""
        given = self._given[session.state.id]
        self._name(session, given, name)
        self.add(session)

    def move_names(self, session: Session, other: Session) -> None:
        """Let the names of a session that is about to end lead to another one."""
        names, self._given[session.state.id] = self.names(session), {}
        for name in names:
            del self._names[name]
            self.add_name(other, name)

    def _name(self, session: Session, given: dict[str, None], name: str) -> None:
        """Name a session, unless another one that lives has the name: links would be attached to both.

        A longer name is left out, because a backend or client may give others without end.
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
        """Return the sessions with these ids, without those that are over."""
        return [session for own in ids if (session := self._sessions.get(own)) is not None]

    def live_session(self, id: str) -> Session | None:
        """Return the session with this id, None if it is over."""
        return self._sessions.get(id)

    def find_session(self, name: str) -> Session | None:
        """Return the session that some client knows by this name.

        A reload may have added a listener of another dialect: then each session gets its names in that dialect, too.
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

    With `stored`, the backend answers histories: a list counts the messages that it has, and not what was said here,
    unless it has forgotten them.
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
