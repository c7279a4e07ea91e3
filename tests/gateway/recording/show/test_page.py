from __future__ import annotations

from html.parser import HTMLParser
from pathlib import Path

import pytest

from dragoman.gateway.recording.lines import EventLine, FrameLine, Line, Part
from dragoman.gateway.recording.reader import open_recording
from dragoman.gateway.recording.show.page import page
from dragoman.mappings.canonical.commands import PauseTurn, SubmitInput
from dragoman.mappings.canonical.events import Reply, TextDelta, TextDone, ToolCallArguments, ToolCallFinished
from dragoman.mappings.canonical.values import Text
from tests.gateway.recording.lines import FROZEN, HEADER, in_parts, numbered, written

ATTACK = "</pre><script>alert(1)</script><img src=x onerror=alert(1)>'\"&<!--"
VOID = {"meta", "col", "link", "br", "img"}


class Page(HTMLParser):
    """A page as a browser reads it: its tags, its attributes, its text by cell."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.open: list[str] = []
        self.attributes: list[tuple[str, str | None]] = []
        self.rows: list[list[str]] = []
        self.text = ""
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += attrs
        if tag not in VOID:
            self.open.append(tag)
        if tag == "tr":
            self.rows.append([])
        elif tag in ("td", "th"):
            self.rows[-1].append("")

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if "td" in self.open or "th" in self.open:
            self.rows[-1][-1] += data
        self.text += data


def read(path: Path) -> Page:
    recording = open_recording(path)
    return Page("".join(page(recording)))


def test_the_page_holds_the_transcript_and_every_line() -> None:
    shown = read(FROZEN / "v4.jsonl")
    assert shown.open == []
    for words in ("Grüße 🦀", "read_file", "Two lines.", "not_running: no turn is in progress", "invoke_start"):
        assert words in shown.text
    ids = {value for name, value in shown.attributes if name == "id"}
    assert {f"l{seq}" for seq in range(1, 22)} <= ids


def test_a_row_holds_the_received_frame_its_meaning_and_the_sent_frames(tmp_path: Path) -> None:
    lines: list[Line] = [
        FrameLine(seq=1, t=100, link="up", dir="receive", dialect="pod", text="from the pod 1"),
        FrameLine(seq=2, t=100, link="up", dir="receive", dialect="pod", text="from the pod 2"),
        EventLine(seq=3, t=120, cursor="1:0", turn="t", event=TextDelta(text="meant")),
        FrameLine(seq=4, t=130, link="smooth-1", dir="send", dialect="smooth", text="to the client"),
        FrameLine(seq=5, t=900, link="smooth-1", dir="receive", dialect="smooth", text="from the client"),
        EventLine(seq=6, t=901, cursor="1:1", link="smooth-1", command=SubmitInput(segments=(Text(text="asked"),))),
        FrameLine(seq=7, t=902, link="up", dir="send", dialect="pod", text="to the pod"),
    ]
    _, first, second = read(written(tmp_path / "a.jsonl", lines)).rows
    _, backend, canonical, clients = first
    assert "from the pod 1" in backend
    assert "from the pod 2" in backend
    assert "meant" in canonical
    assert "to the client" in clients
    _, backend, canonical, clients = second
    assert ("to the pod" in backend, "asked" in canonical, "from the client" in clients) == (True, True, True)


def hostile(tmp_path: Path) -> str:
    lines: list[Line] = [
        FrameLine(seq=1, t=0, link=ATTACK, dir="receive", dialect=ATTACK, text=ATTACK),
        FrameLine(seq=2, t=0, link="up", dir="receive", dialect="pando", channel="sub", parts=(Part(text=ATTACK),)),
        FrameLine(seq=3, t=0, link="up", dir="receive", dialect="pando", missing=ATTACK),
        EventLine(seq=4, t=0, cursor="1:0", turn=ATTACK, event=TextDone(text=ATTACK)),
        EventLine(seq=5, t=0, cursor="1:0", event=ToolCallArguments(call="1", name=ATTACK, json=ATTACK, done=True)),
        EventLine(seq=6, t=0, cursor="1:0", event=ToolCallFinished(call="1", name=ATTACK, output=ATTACK)),
        EventLine(seq=7, t=0, cursor="1:0", link=ATTACK, command=SubmitInput(segments=(Text(text=ATTACK),))),
    ]
    header = type(HEADER)(route=ATTACK, session=ATTACK, upstream=ATTACK, dialects={ATTACK: ATTACK}, gateway=ATTACK)
    recording = open_recording(written(tmp_path / "a.jsonl", lines, header))
    return "".join(page(recording))


def test_no_text_of_a_peer_is_markup(tmp_path: Path) -> None:
    text = hostile(tmp_path)
    shown = Page(text)
    assert shown.open == []
    assert not {"script", "img", "iframe", "link", "object"} & set(shown.tags)
    assert not [name for name, _ in shown.attributes if name.startswith("on")]
    assert shown.text.count("<script>alert(1)</script>") > 10  # it is shown


def test_the_page_needs_nothing_from_elsewhere_and_runs_nothing(tmp_path: Path) -> None:
    text = hostile(tmp_path)
    shown = Page(text)
    assert not [value for name, value in shown.attributes if name in ("src", "data", "action", "srcset")]
    assert all((value or "").startswith("#") for name, value in shown.attributes if name == "href")
    assert "url(" not in text
    assert "@import" not in text
    assert ("content", "default-src 'none'; style-src 'unsafe-inline'") in shown.attributes


@pytest.mark.parametrize("character", ["\x1b", "\x00", "\u202e"])
def test_control_characters_are_shown_as_escapes(tmp_path: Path, character: str) -> None:
    line = EventLine(seq=1, t=0, cursor="1:0", turn="t", event=TextDone(text=f"a{character}b"))
    recording = open_recording(written(tmp_path / "a.jsonl", [line]))
    assert character not in "".join(page(recording))


def test_missing_items_are_reported_at_the_top_and_in_their_place(tmp_path: Path) -> None:
    _, gone, _ = in_parts(tmp_path / "a.jsonl", numbered(30), 10, 20)
    gone.unlink()
    html = "".join(page(open_recording(tmp_path / "a.jsonl")))
    assert "<dt>not in it</dt><dd>part 1 is missing</dd>" in html
    assert '<div class="entry loss"><span class="time"><a href="#l21">' in html


def test_sender_and_receiver_are_shown_above_each_frame(tmp_path: Path) -> None:
    lines: list[Line] = [
        FrameLine(seq=1, t=0, link="smooth-1", dir="receive", dialect="smooth", text="a"),
        EventLine(seq=2, t=0, cursor="1:0", link="smooth-1", command=PauseTurn(request="r")),
        EventLine(seq=3, t=0, cursor="1:0", link="up", command=PauseTurn(request="s")),
        FrameLine(seq=4, t=0, link="up", dir="send", dialect="pod", text="b"),
        EventLine(seq=5, t=0, cursor="1:0", link="smooth-1", event=Reply(request="r")),
        EventLine(seq=6, t=0, cursor="1:7", turn="t", event=TextDelta(text="c")),
    ]
    html = "".join(page(open_recording(written(tmp_path / "a.jsonl", lines))))
    above = [html.partition(f'<b id="l{seq}">')[2].partition("</b>")[0] for seq in range(1, 7)]
    assert above == [
        "from smooth-1, smooth",
        "smooth-1 asks",
        "asked of the backend",
        "to the backend, pod",
        "told to smooth-1",
        "1:7",
    ]
