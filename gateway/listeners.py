"""Open a listener for an endpoint of a route, and connect its clients to the router of the route."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from os import urandom
from pathlib import Path

from msgspec import structs

from dragoman.adapters.base import Listener, Transport
from dragoman.gateway import registry
from dragoman.gateway.clients import ClientPort, Clients, ListenerTarget
from dragoman.gateway.endpoint import Endpoint
from dragoman.gateway.identity.listeners import ListenerIdentity
from dragoman.gateway.identity.principal import LOCAL, Principal, Refusal
from dragoman.gateway.ingress import Ingress
from dragoman.gateway.overload.fair_queue import READ, SlicedWork
from dragoman.gateway.pods.directory import PodDirectory
from dragoman.gateway.pods.folder import PodFolder
from dragoman.gateway.session.session import Session
from dragoman.gateway.transports.spec import ListenerCallbacks
from dragoman.mappings.canonical import SessionState
from dragoman.mappings.dialect import Instance


def new_id() -> str:
    """Return a random UUID, of version 4. `uuid4` takes three times as long, and a history may have 20,000 items."""
    digits = urandom(16).hex()
    variant = "89ab"[int(digits[16], 16) % 4]
    return f"{digits[:8]}-{digits[8:12]}-4{digits[13:16]}-{variant}{digits[17:20]}-{digits[20:]}"


class OpenListener:
    """A listener that accepts clients. `address` is its endpoint, with the port that was chosen.

    `keeper` is a task that ends with it.
    """

    def __init__(
        self,
        endpoint: Endpoint,
        listener: Listener,
        target: ListenerTarget,
        keeper: asyncio.Task[None] | None = None,
    ) -> None:
        self.endpoint = endpoint
        self.target = target
        self.address = f"{endpoint.versioned_dialect}+{listener.address}"
        self._listener = listener
        self._keeper = keeper

    @property
    def can_move(self) -> bool:
        """True if the target may get another router: it publishes nothing, and no folder shows its sessions."""
        return not (self.shares_sockets or isinstance(self._listener, PodFolder | PodDirectory))

    @property
    def is_reachable(self) -> bool:
        """Return False if clients cannot connect any more: the file of its socket was removed or replaced."""
        return self._listener.is_reachable

    @property
    def certificate_end(self) -> float | None:
        """Return the time at which the TLS certificate expires, in seconds since 1970; None without a certificate."""
        return self._listener.certificate_end

    @property
    def shares_sockets(self) -> bool:
        """True if its clients are connected to its own sockets, so that it is closed only when all of them are gone."""
        return registry.dialect(self.endpoint.dialect).publication is not None

    async def close(self) -> None:
        if self._keeper is not None:
            self._keeper.cancel()
        await self._listener.close()


class Listeners:
    """Opens listeners. `attend` is called with the session of a pod's folder whenever it is new or has changed."""

    def __init__(self, clients: Clients, attend: Callable[[Session], None]) -> None:
        self._clients = clients
        self._attend = attend

    async def open(self, endpoint: Endpoint, target: ListenerTarget) -> OpenListener:
        """Listen on an endpoint for clients of this target; raise OSError if that fails."""
        if endpoint.is_pod_directory:
            return await self._open_directory(endpoint, target)
        ingress = Ingress(endpoint=str(endpoint), session=endpoint.option("session"), spawned=endpoint.is_command)
        listener = await self._listen(endpoint, target, ingress)
        if isinstance(listener, PodFolder):
            folder, router = listener, target.router

            def write_status(session: Session) -> None:
                if router.find_listener_session(ingress) is session:
                    folder.write_status(session.state)
                    self._attend(session)

            router.watch(write_status)
        return OpenListener(endpoint, listener, target)

    async def _open_directory(self, endpoint: Endpoint, target: ListenerTarget) -> OpenListener:
        router = target.router

        async def listen(path: str, ingress: Ingress) -> Listener:
            return await self._listen(structs.replace(endpoint, transport="unix", address=path), target, ingress)

        def behind(ingress: Ingress) -> SessionState | None:
            session = router.find_listener_session(ingress)
            return session.state if session is not None else None

        directory = PodDirectory(Path(endpoint.address), router.route.name, listen=listen, behind=behind)
        await directory.open()
        router.watch(lambda session: directory.update_session(session.state, lives=router.is_live(session)))
        keeper = self._clients.services.start_task(directory.run(), f"{router.route.name}:directory")
        return OpenListener(endpoint, directory, target, keeper)

    async def _listen(self, endpoint: Endpoint, target: ListenerTarget, ingress: Ingress) -> Listener:
        us = Instance(id=new_id(), started_at=time.time_ns(), sessions=lambda: target.router.published)
        dialect = registry.dialect(endpoint.dialect)
        served_dialect = dialect.served(us) if dialect.served is not None else dialect
        publication = served_dialect.publication
        counts = registry.spec_of(endpoint).counts_connections
        port = ClientPort(dialect=served_dialect, target=target, ingress=ingress, counts=counts)
        clients = self._clients

        def accept(transport: Transport, principal: Principal | Refusal = LOCAL) -> None:
            translator = served_dialect.server(time.time_ns, new_id, endpoint.generation)
            clients.welcome(port, transport, translator, principal, attaches=publication is None)

        def publish(transport: Transport) -> None:
            if publication is not None:
                clients.welcome(port, transport, publication(time.time_ns, new_id), attaches=False, publishes=True)

        def identity() -> ListenerIdentity:
            """Return the authentication in force: a reload may change it."""
            return target.identities.listener(endpoint, target.router.route, accept)

        queue = clients.services.queue
        callbacks = ListenerCallbacks(
            accept=accept,
            accept_as=lambda facts: identity().accept_as(facts),
            admit=lambda facts: identity().admit(facts),
            authenticated=identity().authenticated,
            connect=clients.connect,
            disconnect=clients.disconnect,
            bad_request=clients.note_bad_request,
            not_authenticated=target.identities.count_failure,
            spawn=clients.services.start_task,
            publish=publish,
            instance=us,
            lost=lambda loss: clients.services.ledger.record([loss], target=dialect.name),
            subscribed=lambda: target.router.subscribed(),  # noqa: PLW0108  # a reload may change the router
            work=lambda fail: SlicedWork(queue, fail, READ),
        )
        return await registry.listen(endpoint, target.router.services.limits, callbacks)
