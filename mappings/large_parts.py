"""The parts of a client's command that may make it longer than `max_command`: attachments, stored messages, histories.

They are found by their names, without an object for any other value. So a word in the text of a message, or a field
that another command does not have, makes no room.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress

import msgspec
from msgspec import Raw, Struct, structs

from dragoman.mappings.codec import MALFORMED


def part_size(command: type[Struct]) -> Callable[[bytes], int]:
    """Return a function that returns the size (bytes) of the large parts of a frame; 0 if it is another command.

    `command` has the names of the commands as a Literal, and the large parts as fields of type Raw.
    """
    decoder = msgspec.json.Decoder(command)

    def size(frame: bytes) -> int:
        with suppress(*MALFORMED):
            return _size(decoder.decode(frame))
        return 0

    return size


def _size(value: object) -> int:
    if isinstance(value, Struct):
        return sum(map(_size, structs.astuple(value)))
    return len(memoryview(value)) if isinstance(value, Raw) else 0
