"""The accounts that a route keeps of its sessions by id: places in lists, owners, losses and recordings."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dragoman.gateway.routing.busy import BusySessions
from dragoman.gateway.routing.quota import SessionQuota
from dragoman.gateway.routing.session_list import SessionList
from dragoman.gateway.services import Services
from dragoman.gateway.session.session import Session
from dragoman.mappings.canonical import SessionState

if TYPE_CHECKING:
    from dragoman.gateway.recording.recorder import Recorder
    from dragoman.gateway.recording.session_recorder import SessionRecorder


class SessionAccounts:
    """The accounts of a route's sessions: all of them move when a session gets its id, and end with the session."""

    def __init__(
        self,
        services: Services,
        list: SessionList,
        quota: SessionQuota,
        busy: BusySessions,
        recorder: Recorder | None,
    ) -> None:
        self._ledger = services.ledger
        self._list = list
        self._quota = quota
        self._busy = busy
        self._recorder = recorder

    def record_session(self, state: SessionState) -> SessionRecorder | None:
        """Return the recorder of a new session, None if nothing is recorded."""
        return self._recorder.record_session(state) if self._recorder is not None else None

    def record_unopened(self, state: SessionState) -> SessionRecorder | None:
        """Return the recorder of a new session with a provisional id, None if nothing is recorded."""
        return self._recorder.record_unopened(state) if self._recorder is not None else None

    def rename(self, session: Session, own: str) -> None:
        """Give a session the id that its backend has for it, and move everything there from the provisional one."""
        state, provisional = session.state, session.state.id
        session.presence.rename(own)
        self._list.forget(provisional)
        self._quota.forget(provisional)
        self._ledger.move_session(provisional, state.id)
        if self._recorder is not None:
            self._recorder.name_session(provisional, state)

    def forget(self, session: Session) -> None:
        """Forget a session that has stopped; its losses stay in the sums, and its recording is closed."""
        self._list.forget(session.state.id)
        self._quota.forget(session.state.id)
        self._busy.note(session, False)  # the observer of the session is not called any more
        self._ledger.move_session(session.state.id, "")
        if self._recorder is not None:
            self._recorder.end_session(session.state.id)
