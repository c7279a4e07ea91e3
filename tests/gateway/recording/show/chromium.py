"""Chromium in headless mode, driven over its DevTools protocol, for tests of pages as browsers show them."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from threading import Thread
from typing import Any

import aiohttp

PROGRAM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")

OPTIONS = (
    "--headless=new",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--no-first-run",
    "--remote-debugging-port=0",
)


class BrowserPage:
    """A page in a browser."""

    def __init__(self, socket: aiohttp.ClientWebSocketResponse) -> None:
        self._socket = socket
        self._calls = 0
        self._session = ""
        self.events: list[dict[str, Any]] = []

    async def call(self, method: str, **params: Any) -> dict[str, Any]:
        """Call a method of the protocol; keep the events that come before its result."""
        self._calls += 1
        message: dict[str, Any] = {"id": self._calls, "method": method, "params": params}
        if self._session:
            message["sessionId"] = self._session
        await self._socket.send_json(message)
        while True:
            answer = await self._socket.receive_json()
            if answer.get("id") == self._calls:
                assert "error" not in answer, answer["error"]
                result: dict[str, Any] = answer["result"]
                return result
            self.events.append(answer)

    async def open(self, path: Path, hash: str = "", *, dark: bool = False) -> None:
        """Open a file, wait until it is loaded, and note the browser's complaints."""
        context = await self.call("Target.createBrowserContext", disposeOnDetach=True)
        target = await self.call("Target.createTarget", url="about:blank", **context)
        attached = await self.call("Target.attachToTarget", targetId=target["targetId"], flatten=True)
        self._session = attached["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            await self.call(f"{domain}.enable")
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        await self.call("Emulation.setEmulatedMedia", features=[scheme])
        await self.call("Page.navigate", url=f"{path.as_uri()}{hash}")
        while not any(event["method"] == "Page.loadEventFired" for event in self.events):
            self.events.append(await self._socket.receive_json())

    async def run(self, script: str) -> Any:
        """Return the value of an expression in the page, which may be a promise."""
        answer = await self.call(
            "Runtime.evaluate", expression=script, awaitPromise=True, returnByValue=True, userGesture=True
        )
        assert "exceptionDetails" not in answer, answer["exceptionDetails"]
        return answer["result"].get("value")

    async def press(self, *keys: str) -> None:
        """Press keys, one after the other."""
        for key in keys:
            text = {"text": "\r" if key == "Enter" else key} if len(key) == 1 or key == "Enter" else {}
            await self.call("Input.dispatchKeyEvent", type="keyDown", key=key, **text)
            await self.call("Input.dispatchKeyEvent", type="keyUp", key=key)

    @property
    def complaints(self) -> list[str]:
        """The errors that the browser reported: exceptions, and violations of the content security policy."""
        told = []
        for event in self.events:
            if event["method"] == "Runtime.exceptionThrown":
                told.append(str(event["params"]["exceptionDetails"]))
            elif event["method"] == "Log.entryAdded" and event["params"]["entry"]["level"] == "error":
                told.append(str(event["params"]["entry"]["text"]))
        return told

    @property
    def requests(self) -> list[str]:
        """The addresses that the page asked for."""
        sent = (event for event in self.events if event["method"] == "Network.requestWillBeSent")
        return [event["params"]["request"]["url"] for event in sent]


@contextmanager
def running_browser(folder: Path) -> Iterator[str]:
    """Run a browser, whose profile is in `folder`; yield the address of its DevTools."""
    assert PROGRAM is not None
    command = (PROGRAM, *OPTIONS, f"--user-data-dir={folder}")
    with subprocess.Popen(command, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL) as process:
        assert process.stderr is not None
        lines = iter(process.stderr.readline, b"")
        found = next(filter(None, (re.search(rb"DevTools listening on (ws://\S+)", line) for line in lines)), None)
        assert found is not None, "the browser did not start"
        drain = Thread(target=process.stderr.read)
        drain.start()
        try:
            yield found[1].decode()
        finally:
            process.terminate()
            drain.join()


@asynccontextmanager
async def opened(address: str, path: Path, hash: str = "", *, dark: bool = False) -> AsyncIterator[BrowserPage]:
    """Show a file in a new context of the browser at `address`, which shares nothing with other contexts."""
    async with aiohttp.ClientSession() as session, session.ws_connect(address, max_msg_size=1 << 28) as socket:
        page = BrowserPage(socket)
        await page.open(path, hash, dark=dark)
        yield page
