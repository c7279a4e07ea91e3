"""Build the sessions of a route, with the options of the route in their first state."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, TypeVar

from msgspec import structs

from dragoman.gateway.config.model import Route
from dragoman.gateway.overload.fair_queue import OPEN
from dragoman.gateway.routing.ids import agent_id
from dragoman.gateway.services import Services
from dragoman.gateway.session.ports import Backend
from dragoman.gateway.session.session import Session, SessionObserver
from dragoman.mappings.canonical import SessionState
from dragoman.mappings.canonical.commands import OpenSession, ResumeSession
from dragoman.mappings.canonical.values import BackendInfo, Ext
from dragoman.mappings.dialect import Dialect

if TYPE_CHECKING:
    from dragoman.gateway.recording.recorder import Recorder
    from dragoman.gateway.recording.session_recorder import SessionRecorder

Opening = TypeVar("Opening", bound=OpenSession | ResumeSession)


class SessionFactory:
    """Builds sessions with the options, limits and upstream dialect of a route.

    They are recorded if there is a `recorder`, and all have the same `observer`.
    """

    def __init__(
        self,
        route: Route,
        services: Services,
        upstream: Dialect,
        observer: SessionObserver,
        recorder: Recorder | None = None,
    ) -> None:
        self._upstream = upstream
        self._observer = observer
        self._recorder = recorder
        self.change_route(route, services)

    def change_route(self, route: Route, services: Services) -> None:
        self._route = route
        self._services = services
        self._opening = self.complete(OpenSession())
        self._pod_name = next((one.pod_name for one in route.listen if one.pod_name), "")

    def make(
        self,
        id: str,
        connect: Callable[[Session], Backend],
        *,
        name: str = "",
        ids: Ext | None = None,
        owner: str = "",
    ) -> Session:
        """Return a session with the backend that `connect` makes.

        `owner` is the owner of a forgotten session with the same id.
        """
        state = self._state(id, name, ids, owner)
        recorder = self._recorder.record_session(state) if self._recorder is not None else None
        return self._session(state, connect, recorder)

    def make_unopened(self, connect: Callable[[Session], Backend]) -> Session:
        """Return a session with a provisional id, under which its recording begins."""
        state = self._state(self._services.new_id())
        recorder = self._recorder.record_unopened(state) if self._recorder is not None else None
        return self._session(state, connect, recorder)

    def make_unlisted(self, id: str, connect: Callable[[Session], Backend]) -> Session:
        """Return a session that no client uses, and that is not recorded."""
        return self._session(self._state(id), connect, None)

    def _state(self, id: str, name: str = "", ids: Ext | None = None, owner: str = "") -> SessionState:
        return SessionState(
            id=id,
            owner=owner,
            opened_at=self._services.clock(),
            opening=self._opening,
            backend=BackendInfo(name=name or self._pod_name),
            backend_ids=ids,
        )

    def _session(
        self, state: SessionState, connect: Callable[[Session], Backend], recorder: SessionRecorder | None
    ) -> Session:
        self._services.queue.spend(OPEN)
        return Session(
            state,
            self._route,
            self._upstream,
            self._services,
            connect=connect,
            observer=self._observer,
            recorder=recorder,
        )

    def complete(self, command: Opening) -> Opening:
        """Return the command with the route's agent, user, model and folder, where the client named none."""
        upstream = self._route.upstream
        agent = command.agent or upstream.option("agent") or agent_id(self._route.name)
        user = command.user_name or upstream.option("user")
        if isinstance(command, OpenSession):
            model = command.model or upstream.option("model")
            cwd = command.cwd or upstream.option("cwd")
            command = structs.replace(command, model=model, cwd=cwd)
        return structs.replace(command, agent=agent, user_name=user)
