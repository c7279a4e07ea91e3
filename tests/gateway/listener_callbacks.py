"""Callbacks for the listeners of tests."""

from __future__ import annotations

from dragoman.adapters.base import Accept, PeerFacts, Transport
from dragoman.gateway.transports.spec import ListenerCallbacks
from dragoman.mappings.dialect import Instance, Loss
from tests.adapters.websocket.peers import new_work, nothing_spawned


def nobody(_transport: Transport) -> None:
    """Do nothing with a peer; none is expected."""


def callbacks(accept: Accept = nobody, publish: Accept = nobody) -> ListenerCallbacks:
    """Return callbacks that fail the test if something is lost."""

    def lost(loss: Loss) -> None:
        raise AssertionError(f"lost: {loss}")

    async def admit(_facts: PeerFacts) -> Accept | str:
        return accept

    return ListenerCallbacks(
        accept=accept,
        accept_as=lambda _facts: accept,
        admit=admit,
        spawn=nothing_spawned,
        work=new_work,
        publish=publish,
        lost=lost,
        instance=Instance(id="us", started_at=1),
    )
