"""The protocol of a connection: it gives what it reads to its parser, and tells of its end once."""

from __future__ import annotations

from typing import Any

from dragoman.adapters.websocket.connection import AcceptedConnection


class Parser:
    """A parser that notes what it is given."""

    def __init__(self) -> None:
        self.fed: list[bytes | None] = []

    def feed_data(self, data: bytes) -> None:
        self.fed.append(data)

    def feed_eof(self) -> None:
        self.fed.append(None)


class WebSocket:
    """A transport that counts how often it was lost."""

    losses = 0

    def lost(self) -> None:
        self.losses += 1


async def test_a_connection_feeds_its_newest_parser_until_it_is_lost() -> None:
    lost: list[AcceptedConnection] = []
    connection = AcceptedConnection("peer", "", lost.append)
    first, second, websocket = Parser(), Parser(), WebSocket()
    tcp: Any = None  # nothing is written
    connection.start(tcp, first)
    connection.data_received(b"a")
    connection.open_websocket(websocket, tcp, second)  # type: ignore[arg-type]  # has what is called
    connection.data_received(b"b")
    connection.connection_lost(None)
    connection.data_received(b"c")
    assert (first.fed, second.fed) == ([b"a"], [b"b", None])
    assert (websocket.losses, lost) == (1, [connection])
