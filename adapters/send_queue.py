"""Count the sent bytes of a TCP connection: those that the kernel still holds, and those that arrived."""

from __future__ import annotations

import fcntl
import socket
import struct
import termios

_SIZE = struct.Struct("i")
_CONFIRMED = struct.Struct("=120xQ")  # tcpi_bytes_acked of struct tcp_info (linux/tcp.h)


def count_unread(descriptor: int) -> int:
    """Return the number of sent bytes that the peer's system has not confirmed; 0 if that is unknown."""
    try:
        (unread,) = _SIZE.unpack(fcntl.ioctl(descriptor, termios.TIOCOUTQ, bytes(_SIZE.size)))
    except OSError:
        return 0
    return int(unread)


def count_confirmed(descriptor: int) -> int:
    """Return the number of sent bytes that the peer's system has confirmed so far; 0 if that is unknown."""
    try:
        with socket.fromfd(descriptor, socket.AF_INET, socket.SOCK_STREAM) as connection:
            (confirmed,) = _CONFIRMED.unpack(
                connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, _CONFIRMED.size)
            )
    except (OSError, AttributeError, struct.error):  # only Linux has TCP_INFO, and this field since 4.1
        return 0
    return int(confirmed)
