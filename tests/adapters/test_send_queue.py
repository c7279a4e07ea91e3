"""The count of sent bytes that a peer has not confirmed; the tests of the transports use it with real peers."""

from __future__ import annotations

import os

from dragoman.adapters.send_queue import count_confirmed, count_unread


def test_nothing_is_unread_or_confirmed_where_the_system_does_not_tell() -> None:
    read, write = os.pipe()
    os.close(write)
    os.close(read)
    assert (count_unread(read), count_confirmed(read)) == (0, 0)
