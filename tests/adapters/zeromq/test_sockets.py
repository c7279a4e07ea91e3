"""Connections that libzmq accepts with one of the last descriptors, tested with plain TCP sockets."""

from __future__ import annotations

import asyncio
import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
import zmq

from dragoman.adapters.zeromq import sockets
from dragoman.adapters.zeromq.sockets import ZeroMQLimits, refuse_connection
from tests.adapters.zeromq.peers import primary


@pytest.fixture
def listener() -> Iterator[zmq.Socket[bytes]]:
    with zmq.Context() as context, context.socket(zmq.ROUTER) as router:
        router.bind("tcp://127.0.0.1:0")
        yield router


@contextmanager
def accepted(server: socket.socket) -> Iterator[tuple[socket.socket, socket.socket]]:
    """Yield both ends of a connection: ours and the peer's."""
    with socket.create_connection(server.getsockname(), timeout=10) as peer, server.accept()[0] as ours:
        yield ours, peer


@pytest.mark.parametrize("listening", ["publish_port", "call_port"])
async def test_a_connection_with_a_descriptor_that_is_kept_for_others_is_shut_down_and_counted(listening: str) -> None:
    async with primary(bounds=ZeroMQLimits(descriptors=0)) as ours:
        reader, writer = await asyncio.open_connection("127.0.0.1", getattr(ours.listener, listening))
        await reader.read()  # until the end
        writer.close()
        assert [(loss.kind, loss.count) for loss in ours.losses] == [("connection", 1)]
        assert "too many open files" in ours.losses[0].why


async def test_a_listener_ends_although_libzmq_never_tells_that_its_ports_are_free(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """On a busy machine it may tell so too late: the context that ends then refuses every call of its sockets."""
    monkeypatch.setattr(sockets, "PORT_EVENTS", int(zmq.EVENT_ACCEPTED | zmq.EVENT_DISCONNECTED))
    monkeypatch.setattr(sockets, "STOP_MAX", 0.0)
    async with asyncio.timeout(20), primary():
        pass


def test_a_connection_of_another_listener_is_not_touched(listener: zmq.Socket[bytes]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server, accepted(server) as (ours, peer):
        assert not refuse_connection(listener, ours.fileno())
        ours.sendall(b"still here")
        assert peer.recv(100) == b"still here"


def test_a_number_of_a_file_or_of_nothing_is_not_touched(listener: zmq.Socket[bytes]) -> None:
    reading, writing = os.pipe()
    assert not refuse_connection(listener, writing)
    os.write(writing, b"still open")
    assert os.read(reading, 100) == b"still open"
    os.close(reading)
    os.close(writing)
    assert not refuse_connection(listener, writing)
