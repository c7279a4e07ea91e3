"""Headers and masks, compared with the standard and with another implementation."""

from __future__ import annotations

import struct
from collections.abc import Generator

from hypothesis import given
from hypothesis import strategies as st
from websockets.frames import Frame as OtherFrame
from websockets.frames import Opcode
from websockets.streams import StreamReader

from dragoman.adapters.websocket.frames import masked, masked_text_frames, text_frames


def test_the_headers_are_those_of_the_standard() -> None:
    assert text_frames([b"a" * 125]) == b"\x81\x7d" + b"a" * 125
    assert text_frames([b"a" * 126]) == b"\x81\x7e\x00\x7e" + b"a" * 126
    assert text_frames([b"a" * 65_535])[:4] == b"\x81\x7e\xff\xff"
    assert text_frames([b"a" * 65_536])[:10] == b"\x81\x7f" + struct.pack(">Q", 65_536)
    assert text_frames([]) == b""


def read_by_another(data: bytes) -> list[bytes]:
    """Return the messages that the websockets library reads from the bytes of a client."""
    stream = StreamReader()
    stream.feed_data(data)
    stream.feed_eof()
    read: list[OtherFrame] = []

    def parse() -> Generator[None, None, None]:
        while not (yield from stream.at_eof()):
            read.append((yield from OtherFrame.parse(stream.read_exact, mask=True)))

    assert list(parse()) == [], "it never waited for more"
    assert {(frame.opcode, frame.fin) for frame in read} <= {(Opcode.TEXT, True)}
    return [bytes(frame.data) for frame in read]


def test_a_client_s_headers_are_those_of_the_standard() -> None:
    for size, header in (
        (0, b"\x80"),
        (125, b"\xfd"),
        (126, b"\xfe\x00\x7e"),
        (65_536, b"\xff" + struct.pack(">Q", 65_536)),
    ):
        assert masked_text_frames([b"a" * size]).startswith(b"\x81" + header)
    assert masked_text_frames([]) == b""


def test_the_websocket_standards_example_of_a_mask_is_reproduced() -> None:
    assert masked(b"Hello", bytes.fromhex("37fa213d")) == bytes.fromhex("7f9f4d5158")


@given(st.lists(st.binary(max_size=300) | st.sampled_from([b"a" * 65_535, b"b" * 65_536])))
def test_another_implementation_reads_what_a_client_masks(frames: list[bytes]) -> None:
    assert read_by_another(masked_text_frames(frames)) == frames


def test_no_two_messages_have_the_same_key() -> None:
    written = masked_text_frames([b"\0\0\0\0"] * 2)
    assert written[2:6] == written[6:10], "zeros show the key"
    assert written[:10] != written[10:]
