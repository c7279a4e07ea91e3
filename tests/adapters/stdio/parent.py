"""A small gateway that tests run as a process: its own stdin and stdout on one side, children on the other.

    python -m tests.adapters.stdio.parent LOOP MARK MANNERS

What the client says goes to the first child and back; the client's end, the child's, SIGTERM and SIGINT end it all.
It says `ready` on stderr, then why it ends.
"""

from __future__ import annotations

import asyncio
import contextlib
import signal
import sys
from collections.abc import Callable

import uvloop

from dragoman.adapters.base import Transport, TransportLimits
from dragoman.adapters.stdio import ChildLimits, Children, ChildSettings, listen
from tests.adapters.stdio.programs import ENV, family
from tests.transport_reader import receive

LOOPS: dict[str, Callable[[], asyncio.AbstractEventLoop]] = {
    "asyncio": asyncio.new_event_loop,
    "uvloop": uvloop.new_event_loop,
}
LIMITS = TransportLimits(close_deadline=0.2)
BOUNDS = ChildLimits(eof_wait=0.2, term_wait=0.1, kill_wait=5.0)
CHILDREN = 2


class Parent:
    """The client at the process's own stdin and stdout, and the children."""

    def __init__(self) -> None:
        self._stop = asyncio.Event()

    async def run(self, argv: list[str]) -> None:
        accepted: list[Transport] = []
        for number in (signal.SIGTERM, signal.SIGINT):
            asyncio.get_running_loop().add_signal_handler(number, self.stop, signal.Signals(number).name)
        await listen(LIMITS, accepted.append)
        client = accepted[0]
        sys.stdout.write("this is not protocol\n")
        async with Children(CHILDREN, BOUNDS) as children:
            spawned = [await children.spawn(argv, LIMITS, ChildSettings(env=ENV)) for _ in range(CHILDREN)]
            for child in spawned:
                heard = 0
                while heard < 2:  # the child and the grandchild
                    heard += len(await receive(child))
            sys.stderr.write("ready\n")
            async with asyncio.TaskGroup() as group:
                tasks = [
                    group.create_task(self.pump(client, spawned[0], "the client is gone")),
                    group.create_task(self.pump(spawned[0], client, "the child is gone")),
                ]
                await self._stop.wait()
                for task in tasks:
                    task.cancel()
            await client.close()

    async def pump(self, source: Transport, target: Transport, end: str) -> None:
        with contextlib.suppress(ConnectionError):
            while frames := await receive(source):
                await target.send([frame for frame in frames if isinstance(frame, bytes)])
            self.stop(end)
            return
        self.stop("the reader has closed its end")

    def stop(self, why: str) -> None:
        if not self._stop.is_set():
            sys.stderr.write(f"ends: {why}\n")
            self._stop.set()


def main() -> None:
    loop, mark, manners = sys.argv[1:]

    async def run() -> None:
        await Parent().run(family(mark, manners))

    with asyncio.Runner(loop_factory=LOOPS[loop]) as runner:
        runner.run(run())


if __name__ == "__main__":
    main()
