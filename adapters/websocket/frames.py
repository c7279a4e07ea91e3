"""Encode WebSocket frames without I/O: text messages in a row, and control frames (RFC 6455, sections 5.2 and 5.5).

A server sends a message unmasked. A client masks each message with its own unpredictable key (section 5.3).
"""

from __future__ import annotations

import os
import struct
from collections.abc import Callable, Sequence

from msgspec import Struct

FINAL_TEXT = 0x81
CLOSE = 0x88
PING = 0x89
PONG = 0x8A
MASKED = 0x80  # in the second byte of a header
KEY_SIZE = 4
SHORT = [bytes((FINAL_TEXT, size)) for size in range(126)]
MEDIUM = struct.Struct(">BBH").pack
LONG = struct.Struct(">BBQ").pack


def text_frames(frames: Sequence[bytes]) -> bytes:
    """Return the frames encoded as a server's text messages."""
    try:
        if len(frames) == 1:
            (frame,) = frames
            return HEADERS[len(frame)] + frame
        return b"".join([part for frame in frames for part in (HEADERS[len(frame)], frame)])
    except IndexError:
        return b"".join([part for frame in frames for part in (_header(len(frame)), frame)])


def masked_text_frames(frames: Sequence[bytes]) -> bytes:
    """Return the frames encoded as a client's text messages, each masked with a random key."""
    return b"".join([part for frame in frames for part in _client_message(frame, os.urandom(KEY_SIZE))])


def control_frame(first: int, data: bytes) -> bytes:
    """Return a server's ping, pong or close frame with at most 125 bytes of data; `first` is its first byte."""
    return bytes((first, len(data))) + data


def masked_control_frame(first: int, data: bytes) -> bytes:
    """Return a client's ping, pong or close frame, masked with a random key; `first` is its first byte."""
    key = os.urandom(KEY_SIZE)
    return bytes((first, MASKED | len(data))) + key + masked(data, key)


def masked(data: bytes, key: bytes) -> bytes:
    """Return the data XORed with a key of 4 bytes; applying it twice returns the original."""
    size = len(data)
    keys = (key * (size // KEY_SIZE + 1))[:size]
    return (int.from_bytes(data) ^ int.from_bytes(keys)).to_bytes(size)


def _client_message(frame: bytes, key: bytes) -> tuple[bytes, bytes, bytes]:
    header = bytearray(_header(len(frame)))
    header[1] |= MASKED
    return bytes(header), key, masked(frame, key)


def _header(size: int) -> bytes:
    if size < 126:
        return SHORT[size]
    if size < 65536:
        return MEDIUM(FINAL_TEXT, 126, size)
    return LONG(FINAL_TEXT, 127, size)


HEADERS = [_header(size) for size in range(4096)]


class Encoding(Struct, frozen=True):
    """The functions that encode the frames of one side."""

    text: Callable[[Sequence[bytes]], bytes]
    control: Callable[[int, bytes], bytes]


OF_SERVER = Encoding(text_frames, control_frame)
OF_CLIENT = Encoding(masked_text_frames, masked_control_frame)
