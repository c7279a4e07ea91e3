"""The bounds of a ZeroMQ listener."""

from __future__ import annotations

from msgspec import Struct


class ZeroMQLimits(Struct, frozen=True, kw_only=True, gc=False):
    """The bounds of a ZeroMQ listener, beside TransportLimits. Times are in seconds.

    `publish_wait`: how long a publication waits for a full subscriber. `stall_deadline`: when a subscriber that reads
    nothing is disconnected, if there are others. `send_hwm`: messages queued for one subscriber. `answered`: when a
    silent caller that has its answers is removed, and `idle`: one that waits for an answer. `callers`: the largest
    number of callers. `subscribers`: connections for publications at once. `subscriptions`: topics of one of them;
    libzmq holds about 40 bytes of memory for each byte of a topic.
    """

    publish_wait: float = 0.2  # docs/design.md, section 6
    stall_deadline: float = 10.0  # a busy terminal reads again far sooner; a stopped one never does
    send_hwm: int = 1000  # libzmq's default; a full subscriber must read half of it before it takes more
    # a pando client ends each call after 10 s (docs/dialects/pando.md, section 5)
    idle: float = 60.0
    answered: float = 5.0  # a view makes one call and is abandoned; 1,000 of them held 40 MiB, with their connections
    callers: int = 1024  # a view abandons one every few seconds, and each stays for `answered`
    subscribers: int = 256  # a project has a terminal and a few viewers
    subscriptions: int = 256  # a real subscriber has at most ten
