"""Find out whether the gateway is ready for clients, and why not (docs/operations.md, section 2)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

from msgspec import Struct

from dragoman.gateway.app import App

__all__ = ["Check", "Liveness", "Readiness", "find_readiness"]

Status = Literal["ready", "not ready", "starting", "draining"]


class Check(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A condition of readiness. `cause` says why it does not hold."""

    name: str
    ready: bool
    cause: str = ""


class Liveness(Struct, frozen=True, kw_only=True):
    """The answer of /livez. `stuck_for` is how many seconds the event loop is late."""

    live: bool
    stuck_for: float = 0.0


class Readiness(Struct, frozen=True, kw_only=True):
    """The answer of /readyz. `checks` are those that do not hold, or all of them if that was asked for."""

    ready: bool
    status: Status
    checks: list[Check] = []


async def find_readiness(gateway: App) -> Readiness:
    """Return all checks of the gateway. Call this in its event loop."""
    if gateway.stop.is_set():
        cause = "the gateway stops: it accepts no client, and open turns finish"
        return Readiness(ready=False, status="draining", checks=[Check(name="gateway", ready=False, cause=cause)])
    if not gateway.ready.is_set():
        cause = "not every listener accepts clients yet"
        return Readiness(ready=False, status="starting", checks=[Check(name="gateway", ready=False, cause=cause)])
    checks = [Check(name="gateway", ready=True), *_resources(gateway)]
    ready = all(check.ready for check in checks)
    return Readiness(ready=ready, status="ready" if ready else "not ready", checks=checks)


def _resources(gateway: App) -> Iterator[Check]:
    refusal = gateway.memory.refusal()
    yield Check(name="memory", ready=not refusal, cause=refusal)
