"""The ports to which a listener binds, and the reasons why it cannot."""

from __future__ import annotations

import asyncio
import errno
import socket

import pytest
import zmq

from dragoman.adapters.zeromq import server, sockets
from dragoman.adapters.zeromq.server import listen
from tests.adapters.zeromq.peers import DEADLINE, LIMITS, dialled, peer, primary
from tests.reserved_ports import reserved_port

UNHEARD = sockets.PrimaryEvents(accept=lambda _transport: None, lost=lambda _loss: None)


async def listen_at(port: int, call_port: int | None) -> None:
    await listen("127.0.0.1", port, call_port, LIMITS, UNHEARD)


async def test_calls_go_to_the_port_after_a_given_one() -> None:
    with reserved_port(neighbours=1) as port:
        async with primary(port=port) as ours:
            assert (ours.listener.publish_port, ours.listener.call_port) == (port, port + 1)
            assert ours.listener.address == f"tcp://127.0.0.1:{port}"


async def test_a_primary_serves_its_clients_over_ipv6() -> None:
    async with primary(host="::1") as ours:
        assert ours.listener.address == f"tcp://[::1]:{ours.listener.publish_port}"
        async with dialled(ours) as client:
            await client.send([b"{}"])
            await ours.accepted.get()


async def test_chosen_ports_are_neighbours() -> None:
    async with primary() as ours:
        assert ours.listener.publish_port > 0
        assert ours.listener.call_port == ours.listener.publish_port + 1


async def test_the_address_names_both_ports_if_they_are_not_neighbours() -> None:
    with reserved_port(neighbours=2) as port:
        async with primary(port=port, call_port=port + 2) as ours:
            assert ours.listener.address == f"tcp://127.0.0.1:{port}?rpc={port + 2}"


@pytest.mark.parametrize("which", [0, 1])
async def test_a_port_in_use_is_refused_with_its_address_and_the_other_port_is_freed(which: int) -> None:
    with reserved_port(neighbours=1) as port, socket.create_server(("127.0.0.1", port + which)):
        with pytest.raises(OSError, match=f"127.0.0.1:{port + which}") as refusal:
            await listen_at(port, None)
        assert refusal.value.errno == errno.EADDRINUSE
        socket.create_server(("127.0.0.1", port + 1 - which)).close()


async def test_when_the_neighbour_of_a_chosen_port_is_in_use_another_one_is_chosen(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    bind = server._bind
    refused: list[int] = []

    def once(where: zmq.Socket[bytes], host: str, port: int) -> None:
        if port and not refused:
            refused.append(port)
            raise OSError(errno.EADDRINUSE, "in use")
        bind(where, host, port)

    monkeypatch.setattr(server, "_bind", once)
    async with primary() as ours:
        assert refused
        assert ours.listener.call_port == ours.listener.publish_port + 1


async def test_an_address_of_another_machine_is_refused() -> None:
    with pytest.raises(OSError, match=r"192\.0\.2\.1"):
        await listen("192.0.2.1", 0, None, LIMITS, UNHEARD)


async def test_a_listener_without_a_free_socket_is_refused_with_its_address(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sockets, "SOCKETS_MAX", 8)  # a listener needs six
    async with primary():
        with pytest.raises(OSError, match=r"127\.0\.0\.1:0"):
            await listen_at(0, None)


async def test_closing_twice_closes_once() -> None:
    async with primary() as ours:
        await ours.listener.close()
        await ours.listener.close()
        with peer(zmq.SUB, ours.publications):
            await ours.publication.close()


async def test_a_close_that_is_cancelled_still_ends_the_context() -> None:
    context = sockets.CountedContext(sockets.SOCKETS_MAX)
    ours = sockets.Sockets(LIMITS, context, None)
    ours._ends.append(asyncio.get_running_loop().create_future())  # of a port that does not become free
    async with asyncio.timeout(DEADLINE), asyncio.TaskGroup() as group:
        closing = group.create_task(ours.release(0))
        await asyncio.sleep(0)
        closing.cancel()
    assert closing.cancelled()
    assert context._context.closed


async def test_the_ports_are_free_once_everything_is_closed() -> None:
    with reserved_port(neighbours=1) as port:
        for _ in range(3):
            async with primary(port=port):
                pass


async def test_a_peer_with_zeromq_protocol_1_is_disconnected_before_its_messages_are_read() -> None:
    async with asyncio.timeout(DEADLINE), primary() as made:
        reader, writer = await asyncio.open_connection("127.0.0.1", made.listener.call_port)
        writer.write(b"\x01\x00\x03\x00hey")  # an identity and a message of ZMTP 1
        await reader.read()  # until it is disconnected
        writer.close()
        assert made.callers == []
