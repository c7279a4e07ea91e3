"""The protocol of a connection: it gives what it reads to its parser, and tells of its end once."""

from __future__ import annotations

from dragoman.adapters.websocket.connection import Connection
from tests.adapters.websocket.test_client_reader import Tcp


class Parser:
    """A parser that notes what it is given."""

    def __init__(self) -> None:
        self.fed: list[bytes | None] = []

    def feed_data(self, data: bytes) -> None:
        self.fed.append(data)

    def feed_eof(self) -> None:
        self.fed.append(None)


async def test_a_connection_feeds_its_newest_parser_until_it_is_lost() -> None:
    lost: list[Connection] = []
    connection = Connection("peer", "", lost.append)
    first, second = Parser(), Parser()
    connection.use_parser(first)
    connection.data_received(b"a")
    connection.use_parser(second)
    connection.data_received(b"b")
    connection.connection_lost(None)
    connection.data_received(b"c")
    assert (first.fed, second.fed, lost) == ([b"a"], [b"b", None], [connection])


async def test_pausing_a_connection_pauses_its_transport() -> None:
    tcp = Tcp()
    connection = Connection("peer", "", lambda _connection: None)
    connection.start(tcp, Parser())  # type: ignore[arg-type]  # has what is called
    connection.pause_reading()
    assert not tcp.is_read
    connection.resume_reading()
    assert tcp.is_read
