from __future__ import annotations

import gzip
import json
import re
from base64 import b64decode, b64encode
from hashlib import sha256
from html.parser import HTMLParser
from pathlib import Path

import pytest

from dragoman.gateway.recording.format import CommandLine, EventLine, FrameLine, Line, Part
from dragoman.gateway.recording.reader import open_recording
from dragoman.gateway.recording.show.page import page
from dragoman.mappings.canonical.commands import PauseTurn, SubmitInput
from dragoman.mappings.canonical.events import (
    Reply,
    StatusChanged,
    TextDelta,
    TextDone,
    ToolCallArguments,
    ToolCallFinished,
)
from dragoman.mappings.canonical.values import Text
from tests.gateway.recording.lines import FROZEN, HEADER, in_parts, numbered, written
from tests.gateway.replay.recording_builder import RecordingBuilder

ATTACK = "</pre><script>alert(1)</script><img src=x onerror=alert(1)>'\"&<!--"
VOID = {"meta", "col", "link", "br", "img", "input", "rect"}


class Page(HTMLParser):
    """A page as a browser reads it: its tags, its attributes, and its text by cell."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.open: list[str] = []
        self.cells: list[bool] = []  # for each open element, whether it is in a cell of the wire
        self.attributes: list[tuple[str, str | None]] = []
        self.rows: list[list[str]] = []
        self.text = ""
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += attrs
        given = dict(attrs)
        if given.get("role") == "row":
            self.rows.append([])
        elif given.get("role") in ("cell", "columnheader"):
            self.rows[-1].append("")
        if tag not in VOID:
            self.open.append(tag)
            self.cells.append(given.get("role") in ("cell", "columnheader") or (bool(self.cells) and self.cells[-1]))

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += attrs

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag
        self.cells.pop()

    def handle_data(self, data: str) -> None:
        if self.cells and self.cells[-1]:
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
        CommandLine(seq=6, t=901, cursor="1:1", link="smooth-1", command=SubmitInput(segments=(Text(text="asked"),))),
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


def malicious(tmp_path: Path) -> str:
    lines: list[Line] = [
        FrameLine(seq=1, t=0, link=ATTACK, dir="receive", dialect=ATTACK, text=ATTACK),
        FrameLine(seq=2, t=0, link="up", dir="receive", dialect="pando", channel="sub", parts=(Part(text=ATTACK),)),
        FrameLine(seq=3, t=0, link="up", dir="receive", dialect="pando", missing=ATTACK),
        EventLine(seq=4, t=0, cursor="1:0", turn=ATTACK, event=TextDone(text=ATTACK)),
        EventLine(seq=5, t=0, cursor="1:0", event=ToolCallArguments(call="1", name=ATTACK, json=ATTACK, done=True)),
        EventLine(seq=6, t=0, cursor="1:0", event=ToolCallFinished(call="1", name=ATTACK, output=ATTACK)),
        CommandLine(seq=7, t=0, cursor="1:0", link=ATTACK, command=SubmitInput(segments=(Text(text=ATTACK),))),
    ]
    header = type(HEADER)(route=ATTACK, session=ATTACK, upstream=ATTACK, dialects={ATTACK: ATTACK}, gateway=ATTACK)
    recording = open_recording(written(tmp_path / "a.jsonl", lines, header))
    return "".join(page(recording))


def test_no_text_of_a_peer_is_markup(tmp_path: Path) -> None:
    text = malicious(tmp_path)
    shown = Page(text)
    assert shown.open == []
    assert not {"img", "iframe", "link", "object"} & set(shown.tags)
    assert shown.tags.count("script") == 1
    assert not [name for name, _ in shown.attributes if name == "style" or name.startswith("on")]
    assert shown.text.count("<script>alert(1)</script>") > 10  # it is shown


def test_the_page_needs_nothing_from_elsewhere_and_runs_only_its_own_script(tmp_path: Path) -> None:
    text = malicious(tmp_path)
    shown = Page(text)
    assert not [value for name, value in shown.attributes if name in ("src", "data", "action", "srcset")]
    assert all((value or "").startswith("#") for name, value in shown.attributes if name == "href")
    assert "url(" not in text
    assert "@import" not in text
    (policy,) = (value or "" for name, value in shown.attributes if (value or "").startswith("default-src"))
    for tag, directive in (("script", "script-src"), ("style", "style-src")):
        (content,) = re.findall(f"<{tag}>(.*?)</{tag}>", text, re.DOTALL)
        digest = b64encode(sha256(content.encode()).digest()).decode()
        assert f"{directive} 'sha256-{digest}';" in policy
    assert "default-src 'none';" in policy
    assert "unsafe" not in policy


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
    (entry,) = re.findall(r'<li class="entry loss".*?</li>', html)
    assert 'href="#l21"' in entry


def test_sender_and_receiver_are_shown_above_each_frame(tmp_path: Path) -> None:
    lines: list[Line] = [
        FrameLine(seq=1, t=0, link="smooth-1", dir="receive", dialect="smooth", text="a"),
        CommandLine(seq=2, t=0, cursor="1:0", link="smooth-1", command=PauseTurn(request="r")),
        CommandLine(seq=3, t=0, cursor="1:0", link="up", command=PauseTurn(request="s")),
        FrameLine(seq=4, t=0, link="up", dir="send", dialect="pod", text="b"),
        EventLine(seq=5, t=0, cursor="1:0", link="smooth-1", event=Reply(request="r")),
        EventLine(seq=6, t=0, cursor="1:7", turn="t", event=TextDelta(text="c")),
    ]
    html = "".join(page(open_recording(written(tmp_path / "a.jsonl", lines))))
    lines_of_page = [html.partition(f'id="l{seq}"')[2].partition("</summary>")[0] for seq in range(1, 7)]
    above = [line.partition('<span class="who">')[2].partition("</span>")[0] for line in lines_of_page]
    assert above == [
        "from smooth-1, smooth",
        "smooth-1 asks",
        "asked of the backend",
        "to the backend, pod",
        "told to smooth-1",
        "1:7",
    ]


def long_session(folder: Path, tokens: int) -> Path:
    """Return a recording of one turn with this many tokens, each in its own step."""
    lines: list[Line] = []
    for number in range(tokens):
        seq, text = 3 * number + 1, f"word{number} "
        frame = FrameLine(
            seq=seq, t=number * 900, link="up", dir="receive", dialect="pod", text=token("text_delta", text)
        )
        event = EventLine(seq=seq + 1, t=frame.t, cursor=f"1:{number}", turn="t", event=TextDelta(text=text))
        sent = token("stream_token", text, stamp=1_700_000_000_000 + number)
        lines += [
            frame,
            event,
            FrameLine(seq=seq + 2, t=frame.t, link="smooth-1", dir="send", dialect="smooth", text=sent),
        ]
    return written(folder / "long.jsonl", lines)


def token(kind: str, text: str, stamp: int = 0) -> str:
    return json.dumps({"type": kind, "requestId": "0d3f718c-cc34-4f99-964c-76eb3bf4ae1c", "at": stamp, "text": text})


def test_a_session_of_5000_tokens_is_one_row_of_a_page_below_half_a_mb(tmp_path: Path) -> None:
    html = "".join(page(open_recording(long_session(tmp_path, 5_000))))
    assert len(html.encode()) < 500_000
    assert html.count('role="row"') == 2  # the head, and the row of the tokens
    assert html.count('<span class="count">&times; 5,000</span>') == 3


def test_every_piece_of_a_fold_is_in_the_page_with_its_number_and_time(tmp_path: Path) -> None:
    html = "".join(page(open_recording(long_session(tmp_path, 30))))
    backend, _, _ = (unpacked(run) for run in re.findall(r'data-pieces="([^"]*)"', html))
    expected = [(3 * n + 1, n * 900, token("text_delta", f"word{n} ")) for n in range(30)]
    assert backend == expected


def unpacked(packed: str) -> list[tuple[int, int, str]]:
    seq = t = 0
    pieces = []
    for more, later, text in json.loads(gzip.decompress(b64decode(packed))):
        seq, t = seq + more, t + later
        pieces.append((seq, t, text))
    return pieces


def test_losses_stand_beside_the_row_to_which_they_belong(tmp_path: Path) -> None:
    lines: list[Line] = [
        FrameLine(seq=1, t=0, link="smooth-1", dir="receive", dialect="smooth", text="{}"),
        EventLine(seq=2, t=9000, cursor="1:0", turn="t", event=TextDone(text="fine")),
        EventLine(seq=3, t=18000, cursor="1:1", turn="t", event=ToolCallArguments(call="1", json="{}", done=True)),
    ]
    html = "".join(page(open_recording(written(tmp_path / "a.jsonl", lines))))
    lost = '<p class="lost">smooth clients get it without call</p>'
    entries = re.findall(r'<li class="entry.*?</li>', html)
    assert [lost in entry for entry in entries] == [False, True]
    assert [lost in row for row in re.findall(r'<div class="row" .*', html)] == [False, False, True]


def test_a_turn_that_begins_just_before_a_minute_does_not_begin_after_sixty_seconds(tmp_path: Path) -> None:
    html = "".join(page(open_recording(RecordingBuilder().at(59_999.9).turn("one").write(tmp_path))))
    assert "<td>0:59.999</td>" in html
    assert "0:60" not in html


def test_each_turn_has_a_row_of_figures_and_a_heading_with_an_anchor(tmp_path: Path) -> None:
    tape = RecordingBuilder().at(1000).turn("one", end=None).at(1250).sends(TextDelta(text="a")).at(3500).ends()
    html = "".join(page(open_recording(tape.turn("two").write(tmp_path))))
    first = html.partition('<a href="#turn-1">')[2].partition("</tr>")[0]
    for figure in ("one", "0:01.000", "2.500 s", "0.250 s", "completed"):
        assert figure in first
    for turn in (1, 2):
        assert f'<h3 id="turn-{turn}"><a href="#turn-{turn}">' in html


def test_a_long_text_on_the_wire_is_compressed(tmp_path: Path) -> None:
    line = EventLine(seq=1, t=0, cursor="1:0", turn="t", event=TextDone(text="word " * 40_000))
    html = "".join(page(open_recording(written(tmp_path / "a.jsonl", [line]))))
    assert len(html) < 300_000
    assert (
        "".join(text for _, _, text in unpacked(re.findall(r'data-pieces="([^"]*)"', html)[0])).count("word") == 40_000
    )


def test_a_turn_without_rows_leaves_the_page_in_order(tmp_path: Path) -> None:
    lines: list[Line] = [
        CommandLine(seq=1, t=0, cursor="1:0", link="smooth-1", command=PauseTurn(request="r")),
        EventLine(seq=2, t=1, cursor="1:0", turn="a", event=StatusChanged(status="running")),
        EventLine(seq=3, t=2, cursor="1:1", turn="b", event=TextDone(text="two")),
    ]
    shown = read(written(tmp_path / "a.jsonl", lines))
    assert shown.open == []
    assert "Turn 2" in shown.text


def test_turns_that_came_while_the_page_was_made_are_shown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dragoman.gateway.recording.show.page.turn_figures", lambda *_: [])
    shown = read(RecordingBuilder().turn("one").write(tmp_path))
    assert "Turn 1 still open" in shown.text
