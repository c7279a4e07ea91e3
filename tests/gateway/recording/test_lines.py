from __future__ import annotations

import pytest

from dragoman.gateway.recording.lines import UP, EventLine, FrameLine, frame_line
from dragoman.mappings.canonical.commands import SubmitInput
from dragoman.mappings.canonical.events import Reply, TextDelta
from dragoman.mappings.canonical.unmapped import Unmapped
from dragoman.mappings.canonical.values import Origin, Text
from dragoman.mappings.dialect import Missed, Oversize, Parts
from tests.gateway.recording.lines import read_back


@pytest.mark.parametrize("frame", [b'{"a":1}', "Grüße 🦀\u2028".encode(), b"\xff\xfe", b""])
def test_a_frame_is_read_back_byte_for_byte(frame: bytes) -> None:
    line = frame_line(1, 2, "smooth-1", "send", "smooth", frame)
    (again,) = read_back([line])
    assert isinstance(again, FrameLine)
    assert again == line
    assert again.frame() == frame


def test_a_zeromq_message_is_read_back_with_its_parts_and_without_its_identity() -> None:
    line = frame_line(1, 2, UP, "receive", "pando", Parts("sub", b"who", (b"topic", b"", b"\xff")))
    (again,) = read_back([line])
    assert isinstance(again, FrameLine)
    assert again.frame() == Parts("sub", b"", (b"topic", b"", b"\xff"))


@pytest.mark.parametrize(
    ("frame", "why"),
    [
        (Oversize(20, 10), "too large: 20 bytes"),
        (Oversize(65, 64, "parts"), "too large: 65 parts"),
        (Missed("sub", 3), "3 messages"),
    ],
)
def test_a_row_without_a_frame_gives_the_reason(frame: Oversize | Missed, why: str) -> None:
    line = frame_line(1, 2, UP, "receive", "pod", frame)
    assert line.missing.startswith(why)
    assert line.frame() is None


def test_an_event_is_read_back_with_its_cursor() -> None:
    line = EventLine(
        seq=4, t=9, cursor="2:31", turn="t", origin=Origin(link="a", request="r"), at=8, event=TextDelta(text="x")
    )
    (again,) = read_back([line])
    assert again == line
    assert isinstance(again, EventLine)
    assert again.position == (2, 31)
    assert again.logged


def test_a_command_is_read_back_and_is_not_in_the_log() -> None:
    command = SubmitInput(request="r", segments=(Text(text="hello"),))
    (again,) = read_back([EventLine(seq=1, t=0, cursor="1:0", link="pod-1", command=command)])
    assert isinstance(again, EventLine)
    assert again.command == command
    assert not again.logged


def test_a_reply_is_not_in_the_log() -> None:
    assert not EventLine(seq=1, t=0, cursor="1:0", link="pod-1", event=Reply(request="r")).logged


def test_an_unknown_message_is_read_back_as_command_and_as_event() -> None:
    unknown = Unmapped(dialect="pod", tag="x", raw="{}")
    for line in (
        EventLine(seq=1, t=0, cursor="1:0", command=unknown),
        EventLine(seq=1, t=0, cursor="1:0", event=unknown),
    ):
        assert read_back([line]) == [line]
