"""A bound on the JSON values of one message, for whoever reads it untyped.

The untyped reading of a message builds an object for each value and walks over all of them, which costs 1 to 10 µs a
value. A message of 16 MiB can hold 5 million, and would stop the gateway for a minute. The typed decoder needs no such
bound: it refuses what it does not know before it builds anything.
"""

from __future__ import annotations

import re

from dragoman.mappings.errors import PeerError

VALUES_MAX = 262_144  # one for each 64 bytes of the largest message: real ones have far fewer

STEP = 1024
SIGNS = re.compile(
    rb'(?:(?:[^",\[{]++|"(?:[^"\\]++|\\.)*+"?)*+[,\[{]){%d}+' % STEP,  # a string is passed over with its signs
    re.DOTALL,
)
"""So many signs that a further value follows, and all that stands before them."""


def check_value_count(frame: bytes) -> None:
    """Raise PeerError `too_large` if the JSON of a frame has more than VALUES_MAX values.

    A few counts clear almost all frames. In the others strings are passed over, up to the value that is one too many.
    """
    if sum(map(frame.count, (b",", b"[", b"{"))) <= VALUES_MAX:
        return
    counted, at = 0, 0
    while (found := SIGNS.match(frame, at)) is not None:
        counted, at = counted + STEP, found.end()
        if counted > VALUES_MAX:
            raise PeerError("too_large", f"more than {VALUES_MAX} JSON values in one message")
