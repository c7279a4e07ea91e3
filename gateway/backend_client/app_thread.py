"""Run an app in a thread of its own, for a program that calls it without an event loop."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from contextlib import suppress

from dragoman.gateway.app import App
from dragoman.gateway.process.runtime import start_thread
from dragoman.mappings.errors import DragomanError, first_error

START = 30.0  # seconds until the app must be ready
JOIN = 5.0  # seconds for the thread to end: a child gets a few to exit


class AppThread:
    """Runs an app in a thread until the `with` block ends.

    `failed` is called, in any thread, with the error if the app is not ready within START, or ends by an exception.
    """

    def __init__(self, app: App, name: str, failed: Callable[[BaseException], None]) -> None:
        self._app, self._failed = app, failed
        self._loop: asyncio.AbstractEventLoop | None = None
        self._started = threading.Event()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self.endpoints: list[str] = []
        """The bound endpoints of the app."""

    def __enter__(self) -> AppThread:
        start_thread(self._thread)
        if not self._started.wait(START):
            self._failed(DragomanError(f"the gateway was not ready within {START:g} s"))
        return self

    def __exit__(self, *_error: object) -> None:
        self.call(self._app.stop.set)
        self._thread.join(JOIN)

    def call(self, function: Callable[..., object], *arguments: object) -> None:
        """Call a function in the thread of the app."""
        if self._loop is not None:
            with suppress(RuntimeError):  # the loop is closed: the app has ended
                self._loop.call_soon_threadsafe(function, *arguments)

    def _run(self) -> None:
        async def main() -> None:
            self._loop = asyncio.get_running_loop()
            async with asyncio.TaskGroup() as group:
                waiting = group.create_task(self._note_ready(), name="ready")
                await self._app.run(self.endpoints.append)
                waiting.cancel()

        try:
            asyncio.run(main())
        except BaseException as error:  # noqa: BLE001  # the caller's thread raises it again
            self._failed(first_error(error))
        self._started.set()

    async def _note_ready(self) -> None:
        await self._app.ready.wait()
        self._started.set()
