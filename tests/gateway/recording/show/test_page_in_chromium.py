"""The exported page as Chromium shows it; skipped if Chromium is not installed (Debian's package is `chromium`)."""

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
import pytest

from dragoman.gateway.recording.format import CommandLine, EventLine, FrameLine, Line, Part
from dragoman.gateway.recording.reader import open_recording
from dragoman.gateway.recording.show.page import page
from dragoman.mappings.canonical.commands import SubmitInput
from dragoman.mappings.canonical.events import TextDelta, TextDone, ToolCallArguments, ToolCallFinished
from dragoman.mappings.canonical.values import Text
from tests.gateway.recording.lines import FROZEN, HEADER, written

PROGRAM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")

OPTIONS = (
    "--headless=new",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--no-first-run",
    "--remote-debugging-port=0",
)
pytestmark = pytest.mark.skipif(PROGRAM is None, reason="no Chromium is installed (Debian: apt install chromium)")

ATTACK = (
    "</pre></script><!--<script>window.owned=1</script><img src=x onerror='window.owned=1'>"
    "<svg onload=window.owned=1>\"' onfocus=window.owned=1 autofocus x=' javascript:window.owned=1"
)
VISIBLE = "[...document.querySelectorAll('.entry, .row:not(.head)')].filter(row => !row.hidden)"

CONTRAST = """(names => {
  const style = getComputedStyle(document.documentElement);
  const light = colour => colour.slice(1).replace(/^(.)(.)(.)$/, "$1$1$2$2$3$3").match(/../g)
    .map(hex => parseInt(hex, 16) / 255)
    .map(part => part <= .04045 ? part / 12.92 : ((part + .055) / 1.055) ** 2.4)
    .reduce((sum, part, at) => sum + part * [.2126, .7152, .0722][at], 0);
  const colour = name => light(style.getPropertyValue(`--${name}`).trim());
  const ratio = (a, b) => (Math.max(a, b) + .05) / (Math.min(a, b) + .05);
  const backs = name => ["back", "soft", ...(["bad", "text"].includes(name) ? ["bad-back"] : [])];
  return names.map(name => Math.min(...backs(name).map(back => ratio(colour(back), colour(name)))));
})"""
"""The least contrast of each colour of text, by WCAG's formula, over the backgrounds on which it stands."""

COLOURS = ["text", "dim", "link", "input", "reasoning", "tool", "result", "question"]
COLOURS += ["bad", "key", "string", "number", "word"]


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


@pytest.fixture(scope="module")
def devtools(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Run one browser for all tests of this file, because its start takes longer than a test."""
    with running_browser(tmp_path_factory.mktemp("profile")) as address:
        yield address


@asynccontextmanager
async def shown(
    devtools: str, recording: Path, folder: Path, hash: str = "", *, dark: bool = False
) -> AsyncIterator[BrowserPage]:
    """Show the page of a recording; at the end, fail if the browser complained or made other requests."""
    html = folder / "page.html"
    html.write_text("".join(page(open_recording(recording))), "utf-8")
    async with opened(devtools, html, hash, dark=dark) as browser:
        yield browser
        await browser.run("1")  # so that the last complaints have come
        assert browser.complaints == []
        assert {address.partition("#")[0] for address in browser.requests} == {html.as_uri()}


def tokens(folder: Path, count: int) -> Path:
    lines: list[Line] = []
    for number in range(count):
        seq, t, text = 3 * number + 1, number * 900, f"word{number} "
        json = f'{{"event":"text_delta","data":{{"text":"{text}"}}}}'
        lines += [
            FrameLine(seq=seq, t=t, link="up", dir="receive", dialect="pod", text=json),
            EventLine(seq=seq + 1, t=t, cursor=f"1:{number}", turn="t", event=TextDelta(text=text)),
            FrameLine(seq=seq + 2, t=t, link="smooth-1", dir="send", dialect="smooth", text=json),
        ]
    return written(folder / "tokens.jsonl", lines)


async def test_a_folded_row_expands_into_its_pieces(devtools: str, tmp_path: Path) -> None:
    async with shown(devtools, tokens(tmp_path, 1_200), tmp_path) as browser:
        before = await browser.run("document.querySelectorAll('*').length")
        assert before < 500
        pieces = await browser.run(
            "(async () => { const run = document.querySelector('.backend .run'); run.open = true;"
            "while (!run.querySelector('.more')) await new Promise(done => setTimeout(done, 5));"
            "const texts = item => [...item.children].map(cell => cell.textContent);"
            "return [...run.querySelectorAll('.pieces li')].map(texts); })()"
        )
        assert pieces[1] == ["0:00.000900", '{"event": "text_delta", "data": {"text": "word1 "}}']
        more = await browser.run("document.querySelector('.more').textContent")
        assert more == "Show 500 of 700 more"
        assert len(pieces) == 500


async def test_a_page_link_to_a_text_piece_opens_its_fold(devtools: str, tmp_path: Path) -> None:
    async with shown(devtools, tokens(tmp_path, 900), tmp_path, "#l2401") as browser:
        text = await browser.run(
            "(async () => { while (!document.getElementById('l2401')) await new Promise(done => setTimeout(done, 5));"
            "const item = document.getElementById('l2401'); return item.closest('.run').open && item.textContent; })()"
        )
        assert "word800" in text


async def test_json_is_shown_in_lines_and_colours_and_copied_as_it_was(devtools: str, tmp_path: Path) -> None:
    raw = '{"event":"x","data":{"big":12345678901234567890,"a":[1,null],"a":"twice\\u0041"}}'
    frame = FrameLine(seq=1, t=0, link="up", dir="receive", dialect="pod", text=raw)
    async with shown(devtools, written(tmp_path / "a.jsonl", [frame]), tmp_path) as browser:
        shown_text, kinds, copied = await browser.run(
            "(async () => { const line = document.getElementById('l1'); line.open = true;"
            "while (!line.querySelector('.copy')) await new Promise(done => setTimeout(done, 5));"
            "let copied; navigator.clipboard.writeText = async text => { copied = text; };"
            "line.querySelector('.copy').click(); while (!copied) await new Promise(done => setTimeout(done, 5));"
            "const spans = [...line.querySelectorAll('pre span')].map(span => span.className);"
            "return [line.querySelector('pre').textContent, [...new Set(spans)].sort().join(''), copied]; })()"
        )
        assert shown_text.split("\n")[:4] == ["{", '  "event": "x",', '  "data": {', '    "big": 12345678901234567890,']
        assert kinds == "knsw"
        assert copied == raw


async def test_keys_move_open_filter_and_help(devtools: str, tmp_path: Path) -> None:
    async with shown(devtools, FROZEN / "v4.jsonl", tmp_path) as browser:
        current = "document.querySelector('.now')"
        await browser.press("j", "j", "k")
        first = await browser.run(f"{VISIBLE}.indexOf({current})")
        await browser.press("j")
        assert await browser.run(f"{VISIBLE}.indexOf({current})") == first + 1
        await browser.press("ArrowDown", "ArrowUp", "w")
        assert await browser.run(f"{current}.matches('.row')") is True
        await browser.press("Enter")
        assert await browser.run(f"[...{current}.querySelectorAll('details')].every(line => line.open)") is True
        await browser.press("?")
        assert await browser.run("document.getElementById('help').open") is True
        await browser.run("document.getElementById('close').click()")
        await browser.press("/")
        assert await browser.run("document.activeElement.id") == "filter"


async def test_rows_are_filtered_by_text_and_by_kind(devtools: str, tmp_path: Path) -> None:
    async with shown(devtools, FROZEN / "v4.jsonl", tmp_path) as browser:
        every = await browser.run(f"{VISIBLE}.length")
        await browser.run("document.querySelector('[data-kind=tool]').click()")
        kinds = await browser.run(f"{VISIBLE}.map(row => row.dataset.kinds)")
        assert kinds
        assert all("tool" in of.split() for of in kinds)
        await browser.run("document.querySelector('[data-kind=tool]').click()")
        await browser.press("/", *"two lines")
        await browser.press("Enter")
        await browser.run("new Promise(done => setTimeout(done, 100))")
        texts = await browser.run(f"{VISIBLE}.map(row => row.textContent.toLowerCase())")
        assert 0 < len(texts) < every
        assert all("two lines" in text for text in texts)
        await browser.press("Escape")
        assert await browser.run(f"{VISIBLE}.length") == every


async def test_the_filter_finds_text_inside_of_a_fold(devtools: str, tmp_path: Path) -> None:
    async with shown(devtools, tokens(tmp_path, 900), tmp_path) as browser:
        for text, count in (('"text":"word777 "', 1), ("word901", 0)):
            await browser.run(f"filter.value = {text!r}; applyFilter()")
            await browser.run("(async () => { while (!unpacked) await new Promise(done => setTimeout(done, 5)); })()")
            assert await browser.run(f"{VISIBLE}.length") == count
        assert await browser.run("document.getElementById('nothing').hidden") is False


async def test_text_of_a_peer_is_never_executed_and_never_becomes_an_html_element(
    devtools: str, tmp_path: Path
) -> None:
    lines: list[Line] = [
        FrameLine(seq=1, t=0, link=ATTACK, dir="receive", dialect=ATTACK, text=f'{{"type":"{ATTACK[:20]}"}}'),
        FrameLine(seq=2, t=0, link="up", dir="receive", dialect="pando", channel=ATTACK, parts=(Part(text=ATTACK),)),
        FrameLine(seq=3, t=0, link="up", dir="receive", dialect="pando", missing=ATTACK),
        EventLine(seq=4, t=0, cursor="1:0", turn=ATTACK, event=TextDone(text=ATTACK)),
        EventLine(seq=5, t=0, cursor="1:0", event=ToolCallArguments(call="1", name=ATTACK, json=ATTACK, done=True)),
        EventLine(seq=6, t=0, cursor="1:0", event=ToolCallFinished(call="1", name=ATTACK, output=ATTACK)),
        CommandLine(seq=7, t=0, cursor="1:0", link=ATTACK, command=SubmitInput(segments=(Text(text=ATTACK),))),
        *(EventLine(seq=seq, t=0, cursor="1:1", turn="t", event=TextDelta(text=ATTACK)) for seq in range(8, 20)),
    ]
    header = type(HEADER)(route=ATTACK, session=ATTACK, upstream=ATTACK, dialects={ATTACK: ATTACK}, gateway=ATTACK)
    async with shown(devtools, written(tmp_path / "a.jsonl", lines, header), tmp_path) as browser:
        await browser.run("document.getElementById('expand').click()")
        await browser.run("new Promise(done => setTimeout(done, 200))")
        assert await browser.run("document.querySelectorAll('.pieces li').length") == 12
        assert await browser.run("window.owned === undefined") is True
        assert await browser.run("document.querySelectorAll('img, svg[onload], [onfocus], [autofocus]').length") == 0
        assert await browser.run("document.querySelectorAll('script').length") == 1


async def test_the_page_has_landmarks_labels_and_headings_with_anchors(devtools: str, tmp_path: Path) -> None:
    async with shown(devtools, FROZEN / "v4.jsonl", tmp_path) as browser:
        for landmark in ("header", "nav[aria-label]", "main", "[role=search]"):
            assert await browser.run(f"document.querySelectorAll('{landmark}').length") == 1
        unnamed = "[...document.querySelectorAll('button')].filter(button => !button.textContent.trim()).length"
        assert await browser.run(unnamed) == 0
        assert await browser.run("document.getElementById('filter').labels.length") == 1
        heads = "[...document.querySelectorAll('main h2, main h3')]"
        assert await browser.run(f"{heads}.length") == 4
        assert await browser.run(f"{heads}.every(head => head.querySelector('a').hash === '#' + head.id)") is True


@pytest.mark.parametrize("dark", [False, True])
async def test_text_has_enough_contrast_in_both_colour_schemes(devtools: str, tmp_path: Path, dark: bool) -> None:
    async with shown(devtools, FROZEN / "v4.jsonl", tmp_path, dark=dark) as browser:
        ratios = await browser.run(f"{CONTRAST}({COLOURS})")
        assert [name for name, ratio in zip(COLOURS, ratios, strict=True) if ratio < 4.5] == []
