"""Who receives peers at a listener of a test."""

from __future__ import annotations

from dragoman.adapters.base import Accept, Transport
from dragoman.gateway.transports.way import Doorkeeper
from dragoman.mappings.dialect import Instance, Loss

__all__ = ["doorkeeper"]


def nobody(_transport: Transport) -> None:
    """Nobody is expected."""


def doorkeeper(accept: Accept = nobody, publish: Accept = nobody) -> Doorkeeper:
    """One that fails the test when something is lost."""

    def lost(loss: Loss) -> None:
        raise AssertionError(f"lost: {loss}")

    return Doorkeeper(accept=accept, publish=publish, lost=lost, instance=Instance(id="us", started_at=1))
