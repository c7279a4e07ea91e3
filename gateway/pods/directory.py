"""Serve `pod+dir:DIR`: a socket DIR/NAME/sock for each session of a route, created and removed with it (docs/design.md,
section 5).

A pod client can only name the pod to which it connects. So each session gets its own folder, named after its title if
that is a valid name, else after its id. One more folder has the route's name: its clients get a session as with
`pod+unix:`. Only clients of this directory can list the other sessions (docs/dialects/pod.md, section 10).
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path

import msgspec
import structlog
from msgspec import Raw, structs

from dragoman.adapters.base import Listener
from dragoman.gateway.ingress import NEW, AboutPods, Ingress
from dragoman.gateway.pods.folder import PodFolder, check_name
from dragoman.gateway.public_reason import full_reason
from dragoman.mappings.canonical import Event, SessionState
from dragoman.mappings.canonical.commands import GetSession, ListSessions
from dragoman.mappings.canonical.events import PodAttached, PodInspected, Reply, SessionsListed
from dragoman.mappings.canonical.values import Failure, SessionSummary
from dragoman.mappings.errors import ConfigError

NAME_SIZE = 40  # bytes of a title in a folder's name: a socket's path has at most 107

Listen = Callable[[str, Ingress], Awaitable[Listener]]
"""Listens at the path of a Unix socket, for links of this ingress."""

log = structlog.get_logger("dragoman.pod")


class PodPlace(msgspec.Struct, kw_only=True, eq=False):
    """The state of a session and its folder, which is open once clients can connect."""

    state: SessionState
    folder: PodFolder


class PodDirectory:
    """The folders of one route. `entry` names the folder of clients that have no session yet.

    `behind` returns the session that clients of an ingress share, if it has one.
    """

    is_reachable = True
    certificate_end = None

    def __init__(
        self,
        base: Path,
        entry: str,
        *,
        listen: Listen,
        behind: Callable[[Ingress], SessionState | None],
    ) -> None:
        self.address = f"dir:{base}"
        self._base = base
        self._listen = listen
        self._behind = behind
        self._entry = PodFolder(base, entry)
        self._ingress = Ingress(endpoint=f"pod+{self._entry.address}", session=NEW, about_pods=self.answer)
        self._wanted: dict[str, PodPlace] = {}
        self._open: dict[str, PodPlace] = {}
        self._changed = asyncio.Event()
        self._closed = False

    async def open(self) -> None:
        """Create the route's own folder; raise OSError with the reason."""
        await self._entry.open(lambda path: self._listen(path, self._ingress))

    def update_session(self, state: SessionState, *, lives: bool) -> None:
        """Update the folders after a session of the route was created, has changed, or has ended."""
        place = self._wanted.get(state.id)
        if self._closed or not lives or self._behind(self._ingress) is state:
            if place is not None:
                del self._wanted[state.id]
                self._changed.set()
            if lives:
                _name_backend(state, self._entry.name)
                self._entry.write_status(state)
        elif place is not None:
            place.folder.write_status(state)
        elif state.owner or state.backend_ids is not None:  # it was opened: the session of a mere probe is not shown
            place = PodPlace(state=state, folder=PodFolder(self._base, self._free_name(state)))
            _name_backend(state, place.folder.name)
            self._wanted[state.id] = place
            self._changed.set()

    async def run(self) -> None:
        """Open and close folders as sessions are created and end; runs until cancelled."""
        while True:
            await self._changed.wait()
            self._changed.clear()
            for session, place in list(self._open.items()):
                if self._wanted.get(session) is not place:
                    await self._open.pop(session).folder.close()
            for session, place in list(self._wanted.items()):
                if session not in self._open:
                    await self._serve(session, place)

    async def close(self) -> None:
        """Stop accepting and remove the folders."""
        self._closed = True
        self._wanted.clear()
        open_folders = [place.folder for place in self._open.values()]
        self._open.clear()
        await asyncio.gather(*(folder.close() for folder in (self._entry, *open_folders)))

    async def _serve(self, id: str, place: PodPlace) -> None:
        ingress = Ingress(endpoint=f"pod+{place.folder.address}", session=id, about_pods=self.answer)
        try:
            await place.folder.open(lambda path: self._listen(path, ingress))
        except (OSError, ConfigError) as error:
            log.warning(
                "cannot serve the session in the directory of pods",
                session=id,
                folder=place.folder.name,
                error=full_reason(error),
            )
            self._wanted.pop(id, None)
            return
        if self._wanted.get(id) is not place:  # over before it was there
            await place.folder.close()
            return
        self._open[id] = place
        place.folder.write_status(place.state)

    def _free_name(self, state: SessionState) -> str:
        """Return an unused folder name: the title if it is a valid pod name, else the id."""
        title = state.title.strip().encode()[:NAME_SIZE].decode(errors="ignore")
        try:
            name = check_name(title)
        except ConfigError:
            return state.id
        taken = {self._entry.name, *(place.folder.name for place in self._wanted.values())}
        return name if name not in taken and not self._base.joinpath(name).exists() else f"{name}-{state.id[:8]}"

    # -- what clients are told -------------------------------------------------------------------------

    def answer(self, command: AboutPods, own: SessionState, sees: Callable[[SessionState], bool]) -> Event:
        """Answer a request about all sessions of this directory that the client sees, or about one by its name."""
        standing = {name: place for name, place in self._folders_by_name().items() if sees(place[1])}
        if isinstance(command, ListSessions):
            rows = [
                SessionSummary(
                    session=name,
                    title=name,
                    status=state.status,
                    ext={"pod.pod": _json({**_pod_record(name, folder, state, own), "state": "readable"})},
                )
                for name, (folder, state) in sorted(standing.items())
            ]
            return SessionsListed(request=command.request, sessions=tuple(rows))
        name = command.session
        if name == own.id:
            name = next((n for n, (_folder, state) in standing.items() if state is own), name)
        if name not in standing:
            failure = Failure(cause="not_found", text=f"pod {name!r} is not visible from here")
            return Reply(request=command.request, failure=failure)
        folder, state = standing[name]
        if isinstance(command, GetSession):
            return PodInspected(request=command.request, pod=_json(_pod_record(name, folder, state, own)))
        attached = {
            "action": "attached",
            "pod_name": name,
            "socket_path": str(folder.socket),
            "status": state.status,
        }
        return PodAttached(request=command.request, result=_json(attached))

    def _folders_by_name(self) -> dict[str, tuple[PodFolder, SessionState]]:
        """Return each folder with its session, by the folder's name."""
        standing = {place.folder.name: (place.folder, place.state) for place in self._open.values()}
        entered = self._behind(self._ingress)
        if entered is not None:
            standing[self._entry.name] = (self._entry, entered)
        return standing


def _name_backend(state: SessionState, name: str) -> None:
    """Name a backend without a name after the folder, because clients see that name."""
    if not state.backend.name:
        state.backend = structs.replace(state.backend, name=name)


def _pod_record(name: str, folder: PodFolder, state: SessionState, own: SessionState) -> dict[str, object]:
    """Return a session in the form in which pods describe a pod (docs/dialects/pod.md, section 10)."""
    return {
        "pod_name": name,
        "visibility": "self_pod" if state is own else "spawned_child",
        "active": {"session_id": state.id},
        "live": {"socket_path": str(folder.socket), "reachable": True, "status": state.status},
        "restore": {"possible": False, "reason": "sessions of a gateway are not restored by name"},
        "spawned_children": {"count": 0, "reachable": 0, "unreachable": 0},
    }


def _json(value: object) -> Raw:
    """Return the value as JSON with sorted keys, as pods write opaque JSON."""
    return Raw(msgspec.json.encode(value, order="sorted"))
