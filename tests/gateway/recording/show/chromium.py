"""Chromium in headless mode, driven over its DevTools protocol, for tests of pages as browsers show them."""

from __future__ import annotations

import asyncio
import re
import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
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
        target = await self.call("Target.createTarget", url="about:blank")
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


@asynccontextmanager
async def opened(path: Path, folder: Path, hash: str = "", *, dark: bool = False) -> AsyncIterator[BrowserPage]:
    """Show a file in a browser of its own, whose profile is in `folder`."""
    assert PROGRAM is not None
    process = await asyncio.create_subprocess_exec(
        PROGRAM,
        *OPTIONS,
        f"--user-data-dir={folder / 'profile'}",
        stderr=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.DEVNULL,
    )
    try:
        address = await _address(process)
        async with (
            aiohttp.ClientSession() as session,
            session.ws_connect(address, max_msg_size=1 << 28) as socket,
        ):
            page = BrowserPage(socket)
            await page.open(path, hash, dark=dark)
            yield page
            page._session = ""
            await page.call("Browser.close")
    finally:
        if process.returncode is None:
            try:
                async with asyncio.timeout(5):
                    await process.wait()
            except TimeoutError:
                process.kill()
                await process.wait()


async def _address(process: asyncio.subprocess.Process) -> str:
    assert process.stderr is not None
    async with asyncio.timeout(30):
        while line := await process.stderr.readline():
            if found := re.search(rb"DevTools listening on (ws://\S+)", line):
                return found[1].decode()
    raise AssertionError("the browser did not start")
