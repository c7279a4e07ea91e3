"""A limit on the JSON values in one message, for every untyped reader.

Untyped reading builds an object for each value and walks over all of them, which costs 1 to 10 µs a value. A message of
16 MiB can hold 5 million values and would block the gateway for a minute. The typed decoder needs no such limit: it
refuses unknown content before it builds anything.

Each value but the first follows a comma or an opening bracket outside of strings, so these signs are counted. Counting
bytes with `translate` takes a third of the time of `bytes.count`: about 1 ms for each MiB. Strings are removed by a
split at their quotes, after escaped characters were overwritten and all strings without a sign were removed together.
That takes 0.5 ms for each MiB of text, and 3 ms for small values. It takes 8 ms if the text is full of escapes, or of
short strings with signs. A regular expression would take three times as long. It is done in pieces that fit the
processor's cache, so it ends with the piece that exceeds the limit.
"""

from __future__ import annotations

from collections.abc import Iterator

from dragoman.mappings.errors import PeerError

VALUES_MAX = 262_144  # one for each 64 bytes of the largest message; real messages have far fewer

SIGNS = b",[{"
OTHER_BYTES = bytes(set(range(256)) - set(b',[{]}"'))  # neither a sign nor a quote
NO_SIGNS = bytes(set(range(256)) - set(SIGNS))
PIECE = 64 * 1024  # bytes
SLICE = 16  # pieces that are counted at once, by a caller that does other work between slices: 1 to 8 ms


def check_value_count(frame: bytes, limit: int = VALUES_MAX) -> None:
    """Raise PeerError `too_large` if the JSON of a frame has more than `limit` values."""
    for _ in count_values(frame, limit):
        pass


def count_values(frame: bytes, limit: int) -> Iterator[None]:
    """Do what `check_value_count` does, and yield after each slice.

    Almost all frames pass a first count of bytes. In all others the strings are removed before the count.
    """
    for pieces in (_slices(frame), signs_outside_strings(frame)):
        signs = 0
        for number, piece in enumerate(pieces, 1):
            signs += len(piece.translate(None, NO_SIGNS))
            if signs > limit:
                break
            if number % SLICE == 0:
                yield
        else:
            return
    raise PeerError("too_large", f"more than {limit} JSON values in one message")


def signs_outside_strings(frame: bytes) -> Iterator[bytes]:
    """Yield the commas and brackets of a frame that are outside of strings, in pieces."""
    in_string = False
    for piece in _pieces(frame):
        # Two quotes without a sign between them are a string without one, or stand between two strings.
        parts = piece.translate(None, OTHER_BYTES).replace(b'""', b"").split(b'"')
        yield b"".join(parts[in_string::2])
        in_string ^= len(parts) % 2 == 0


def _slices(frame: bytes) -> Iterator[bytes]:
    return (frame[start : start + PIECE] for start in range(0, len(frame), PIECE))


def _pieces(frame: bytes) -> Iterator[bytes]:
    """Yield the frame in pieces with escaped quotes and backslashes overwritten. No piece ends inside an escape."""
    start = 0
    while start < len(frame):
        piece = frame[start : start + PIECE]
        if (len(piece) - len(piece.rstrip(b"\\"))) % 2:
            piece = frame[start : start + PIECE + 1]
        start += len(piece)
        yield piece.replace(rb"\\", b"__").replace(rb"\"", b"__") if b"\\" in piece else piece
