"""Count the sent bytes of a TCP connection that the kernel still holds."""

from __future__ import annotations

import fcntl
import struct
import termios

_SIZE = struct.Struct("i")


def count_unread(descriptor: int) -> int:
    """Return the number of sent bytes that the peer's system has not confirmed; 0 if the system does not tell."""
    try:
        (unread,) = _SIZE.unpack(fcntl.ioctl(descriptor, termios.TIOCOUTQ, bytes(_SIZE.size)))
    except OSError:
        return 0
    return int(unread)
