"""Services of a gateway for an object under test: clock and timers that the test controls, and its children."""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import Callable, Coroutine
from functools import cache
from itertools import count
from typing import Any

from dragoman.adapters.stdio import Children, ChildSettings
from dragoman.gateway import registry
from dragoman.gateway.config.model import Limits
from dragoman.gateway.observability.ledger import Ledger
from dragoman.gateway.overload.fair_queue import FairQueue
from dragoman.gateway.services import Services
from dragoman.gateway.timers import Timer
from dragoman.gateway.transports.spec import Spawner
from dragoman.mappings.dialect import NewId

all_dialects = cache(registry.dialects)  # the search for those of other packages takes 3 ms


class Never:
    """A timer that never fires."""

    def cancel(self) -> None:
        pass


def never(_seconds: float, _callback: Callable[[], None]) -> Timer:
    return Never()


def soon(act: Callable[[], None]) -> None:
    """Call `act` in the next iteration of the event loop; never in a test without one."""
    with contextlib.suppress(RuntimeError):
        asyncio.get_running_loop().call_soon(act)


def services(
    time: Any = None,
    *,
    limits: Limits | None = None,
    ledger: Ledger | None = None,
    new_id: NewId | None = None,
    queue: FairQueue | None = None,
    group: asyncio.TaskGroup | None = None,
) -> Services:
    """Return services whose clock and timers are those of `time`; without it the clock and the timers stand still.

    Their tasks are those of `group`; without it, of the event loop.
    """
    numbers = count(1)

    def start_task(work: Coroutine[Any, Any, None], name: str) -> asyncio.Task[None]:
        return (group or asyncio.get_running_loop()).create_task(work, name=name)

    return Services(
        clock=time.clock if time is not None else lambda: 0,
        monotonic=time.monotonic if time is not None else lambda: 0,
        new_id=new_id or (lambda: f"id-{next(numbers)}"),
        schedule=time.later if time is not None else never,
        start_task=start_task,
        limits=limits or Limits(),
        ledger=ledger or Ledger(),
        dialects=all_dialects,
        all_dialects=all_dialects,
        queue=queue or FairQueue(soon),
    )


def spawner_of(children: Children) -> Spawner:
    """Return a spawner whose children get the whole environment."""
    return Spawner(children, ChildSettings(env=os.environ))
