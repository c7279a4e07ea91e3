"""A limit on the JSON values in one message, for every untyped reader.

Untyped reading builds an object for each value and walks over all of them, which costs 1 to 10 µs a value. A message of
16 MiB can hold 5 million values and would block the gateway for a minute. The typed decoder needs no such limit: it
refuses unknown content before it builds anything.
"""

from __future__ import annotations

import re

from dragoman.mappings.errors import PeerError

VALUES_MAX = 262_144  # one for each 64 bytes of the largest message; real messages have far fewer

STEP = 1024
SIGNS = re.compile(
    rb'(?:(?:[^",\[{]++|"(?:[^"\\]++|\\.)*+"?)*+[,\[{]){%d}+' % STEP,  # skips a string with the signs in it
    re.DOTALL,
)
"""Matches text with STEP signs that a further value follows."""


def check_value_count(frame: bytes, limit: int = VALUES_MAX) -> None:
    """Raise PeerError `too_large` if the JSON of a frame has more than `limit` values.

    A few counts clear almost all frames. In the others a pattern skips strings, up to the first value above the limit.
    """
    if sum(map(frame.count, (b",", b"[", b"{"))) <= limit:
        return
    counted, at = 0, 0
    while (found := SIGNS.match(frame, at)) is not None:
        counted, at = counted + STEP, found.end()
        if counted > limit:
            raise PeerError("too_large", f"more than {limit} JSON values in one message")
