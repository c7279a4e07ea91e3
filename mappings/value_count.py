"""A limit on the JSON values in one message, for every untyped reader.

Untyped reading builds an object for each value and walks over all of them, which costs 1 to 10 µs a value. A message of
16 MiB can hold 5 million values and would block the gateway for a minute. The typed decoder needs no such limit: it
refuses unknown content before it builds anything.

Each value but the first follows a comma or an opening bracket outside of strings, so these signs are counted. Counting
bytes with `translate` takes a third of the time of `bytes.count`. Strings are removed by a split at their quotes, after
escaped quotes were removed. That takes 5 ms for each MiB; a regular expression would take three times as long.
"""

from __future__ import annotations

from dragoman.mappings.errors import PeerError

VALUES_MAX = 262_144  # one for each 64 bytes of the largest message; real messages have far fewer

SIGNS = b",[{"
BEGINNING = 1024 * 1024  # bytes that are counted first: if they exceed the limit, the rest is not read


def check_value_count(frame: bytes, limit: int = VALUES_MAX) -> None:
    """Raise PeerError `too_large` if the JSON of a frame has more than `limit` values.

    Almost all frames pass a first count of bytes. In all others the strings are removed before the count.
    """
    if _count_signs(frame) <= limit:
        return
    if _exceeds(frame[:BEGINNING], limit) or (len(frame) > BEGINNING and _exceeds(frame, limit)):
        raise PeerError("too_large", f"more than {limit} JSON values in one message")


def _exceeds(text: bytes, limit: int) -> bool:
    """Return True if `text` has more than `limit` commas and opening brackets outside of strings."""
    most = 4 * limit  # quotes: two strings, a key and its value, follow a sign, so more quotes have too many signs
    pieces = text.replace(rb"\\", b"").replace(rb"\"", b"").split(b'"', most)
    return len(pieces) > most or _count_signs(b"".join(pieces[::2])) > limit


def _count_signs(text: bytes) -> int:
    return len(text) - len(text.translate(None, SIGNS))
