"""Our own stdin and stdout: each test replaces descriptors 0 and 1 of this process while it runs."""

from __future__ import annotations

import asyncio
import os
import pty
import socket
import subprocess
import sys
import threading
import tty
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from dragoman.adapters.base import Transport, TransportLimits
from dragoman.adapters.stdio import OwnTransport, listen
from dragoman.mappings.errors import ConfigError
from tests.adapters.stdio.programs import open_files
from tests.transport_reader import receive, receive_all

DEADLINE = 20.0
LIMITS = TransportLimits(close_deadline=0.2)

OPEN: list[OwnTransport] = []  # a test that fails must not keep the descriptors of all others


class Client:
    """The process that spawned us: it writes to our stdin and reads our stdout."""

    def __init__(self, stdin: int, stdout: int, says: int, hears: int) -> None:
        self.stdin, self.stdout, self.says, self.hears = stdin, stdout, says, hears

    def say(self, data: bytes) -> None:
        os.write(self.says, data)

    def hear(self) -> bytes:
        return os.read(self.hears, 1 << 20)

    def hang_up(self) -> None:
        os.close(self.says)
        self.says = -1

    def hears_no_more(self) -> None:
        os.close(self.hears)
        self.hears = -1

    def close(self) -> None:
        for fd in {self.stdin, self.stdout, self.says, self.hears} - {-1}:
            os.close(fd)


def pipes() -> Client:
    (stdin, says), (hears, stdout) = os.pipe(), os.pipe()
    return Client(stdin, stdout, says, hears)


def one_socket() -> Client:
    """Use one socket for both directions, as Node and uvloop spawn their children."""
    ours, theirs = socket.socketpair()
    theirs_again = theirs.dup()
    return Client(ours.fileno(), os.dup(ours.detach()), theirs.detach(), theirs_again.detach())


def terminal() -> Client:
    master, slave = pty.openpty()
    tty.setraw(slave)
    return Client(slave, os.dup(slave), master, os.dup(master))


@asynccontextmanager
async def spawned_by(client: Client) -> AsyncIterator[Client]:
    """Give descriptors 0 and 1 to the client while the block runs; close what was taken before they are restored."""
    kept = os.dup(0), os.dup(1)
    os.dup2(client.stdin, 0)
    os.dup2(client.stdout, 1)
    try:
        yield client
    finally:
        for transport in OPEN:
            await transport.close()
        OPEN.clear()
        for number, original in enumerate(kept):
            os.dup2(original, number)
            os.close(original)
        client.close()


async def taken(limits: TransportLimits = LIMITS) -> OwnTransport:
    accepted: list[Transport] = []
    listener = await listen(limits, accepted.append)
    assert listener.address == "stdio:"
    await listener.close()  # the transport stays
    (transport,) = accepted
    assert isinstance(transport, OwnTransport)
    OPEN.append(transport)
    return transport


def named(descriptor: int) -> str:
    """Return the kernel's name for the file behind this descriptor."""
    return os.readlink(f"/proc/self/fd/{descriptor}")


# -- whatever they are ---------------------------------------------------------------------------------


@pytest.mark.parametrize("make", [pipes, one_socket, terminal])
async def test_frames_go_both_ways(make: Callable[[], Client]) -> None:
    async with spawned_by(make()) as client:
        transport = await taken()
        client.say(b'{"id":1}\n{"id":2}\n')
        assert await receive(transport) == [b'{"id":1}', b'{"id":2}']
        await transport.send([b'{"id":1,"ok":true}', b'{"id":2,"ok":true}'])
        assert client.hear() == b'{"id":1,"ok":true}\n{"id":2,"ok":true}\n'
        await transport.close()


async def test_files_are_read_and_written(tmp_path: Path) -> None:
    (tmp_path / "in").write_bytes(b"one\ntwo")
    stdin = os.open(tmp_path / "in", os.O_RDONLY)
    stdout = os.open(tmp_path / "out", os.O_WRONLY | os.O_CREAT)
    async with spawned_by(Client(stdin, stdout, -1, -1)):
        transport = await taken()
        assert await receive_all(transport) == [b"one", b"two"]
        await transport.send([b"1", b"2"])
        await transport.close()
    assert (tmp_path / "out").read_bytes() == b"1\n2\n"


async def test_dev_null_is_a_client_that_sends_nothing() -> None:
    null = os.open(os.devnull, os.O_RDWR)
    async with spawned_by(Client(null, os.dup(null), -1, -1)):
        transport = await taken()
        assert await receive_all(transport) == []
        await transport.send([b"nobody hears"])
        await transport.close()


@pytest.mark.parametrize("make", [pipes, one_socket])
async def test_a_megabyte_goes_out_to_a_client_that_reads_slowly(make: Callable[[], Client]) -> None:
    frame = b"x" * 1_000_000
    heard = bytearray()

    def read() -> None:
        while len(heard) <= len(frame):
            heard.extend(os.read(client.hears, 10_000))

    async with spawned_by(make()) as client:
        transport = await taken()
        reader = threading.Thread(target=read)
        reader.start()
        async with asyncio.timeout(DEADLINE):
            await transport.send([frame])
            await transport._out.flushed()
        reader.join(DEADLINE)
        await transport.close()
    assert heard == frame + b"\n"


async def test_flags_of_file_descriptors_shared_with_other_processes_do_not_change() -> None:
    async with spawned_by(pipes()) as client:
        transport = await taken()
        client.say(b"one\n")
        await receive(transport)
        transport._out.write(b"x" * 1_000_000)  # waits for room
        assert os.get_blocking(client.stdin)
        assert os.get_blocking(client.stdout)
        await transport.close()


# -- nothing but protocol ------------------------------------------------------------------------------


async def test_only_protocol_frames_reach_stdout(capfd: pytest.CaptureFixture[str]) -> None:
    async with spawned_by(pipes()) as client:
        transport = await taken()
        os.write(1, b"from a C library\n")
        subprocess.run([sys.executable, "-c", "print('from a child')"], check=True)  # noqa: ASYNC221  # short
        await transport.send([b"protocol"])
        assert client.hear() == b"protocol\n"
        await transport.close()
    assert capfd.readouterr().err.splitlines() == ["from a C library", "from a child"]


async def test_no_other_code_reads_our_stdin() -> None:
    async with spawned_by(pipes()) as client:
        transport = await taken()
        client.say(b"for us\n")
        assert os.read(0, 100) == b""
        assert await receive(transport) == [b"for us"]
        await transport.close()


async def test_close_gives_stdin_and_stdout_back() -> None:
    async with spawned_by(pipes()) as client:
        before = named(0), named(1)
        transport = await taken()
        assert (named(0), named(1)) != before
        await transport.close()
        await transport.close()
        assert (named(0), named(1)) == before
        os.write(1, b"ours again")
        assert client.hear() == b"ours again"


async def test_no_file_descriptor_stays_open() -> None:
    async def once() -> None:
        async with spawned_by(pipes()):
            transport = await taken()
            await transport.send([b"hello"])
            await transport.close()

    await once()  # a loop opens what it needs for the first one
    before = open_files()
    await once()
    assert open_files() == before


# -- who may have them ---------------------------------------------------------------------------------


async def test_a_second_listener_is_refused_until_the_first_is_closed() -> None:
    async with spawned_by(pipes()):
        transport = await taken()
        with pytest.raises(ConfigError, match="only one listener"):
            await taken()
        await transport.close()
        await (await taken()).close()


@pytest.mark.parametrize(("number", "name"), [(0, "stdin"), (1, "stdout")])
async def test_a_closed_stdin_or_stdout_is_a_config_error(number: int, name: str) -> None:
    async with spawned_by(pipes()):
        os.close(number)
        with pytest.raises(ConfigError, match=f"our own {name} is closed"):
            await taken()


async def test_a_closed_stderr_is_replaced_by_dev_null() -> None:
    client = pipes()
    kept = os.dup(2)
    try:
        async with spawned_by(client):
            os.close(2)
            transport = await taken()
            assert named(2) == "/dev/null"
            os.write(1, b"nobody hears")
            await transport.send([b"protocol"])
            assert client.hear() == b"protocol\n"
    finally:
        os.dup2(kept, 2)
        os.close(kept)


async def test_the_peer_is_named_by_the_process_that_spawned_us() -> None:
    async with spawned_by(pipes()):
        transport = await taken()
        assert transport.peer == f"stdio pid={os.getppid()}"
        await transport.close()


# -- the end -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("make", [pipes, one_socket])
async def test_at_the_end_of_stdin_everything_is_delivered_and_answers_are_still_written(
    make: Callable[[], Client],
) -> None:
    async with spawned_by(make()) as client:
        transport = await taken()
        client.say(b"ask\nagain")
        if make is pipes:
            client.hang_up()
        else:
            with socket.socket(fileno=os.dup(client.says)) as peer:
                peer.shutdown(socket.SHUT_WR)
        assert await receive_all(transport) == [b"ask", b"again"]
        await transport.send([b"answer"])
        assert client.hear() == b"answer\n"
        await transport.close()


async def test_a_terminal_that_hangs_up_ends_the_connection() -> None:
    async with spawned_by(terminal()) as client:
        transport = await taken()
        client.say(b"one\n")
        assert await receive(transport) == [b"one"]
        client.hang_up()
        client.hears_no_more()
        assert await receive_all(transport) == []
        await transport.close()


async def test_a_stopped_terminal_does_not_stop_dragoman() -> None:
    async with spawned_by(terminal()) as client:
        transport = await taken(TransportLimits(close_deadline=0.05, send_high=1 << 21))
        async with asyncio.timeout(DEADLINE):
            await transport.send([b"x" * 1_000_000])  # nobody reads the master
            assert transport._out._waiting > 0
            await transport.close()
        client.hears_no_more()


async def test_a_client_that_closed_our_stdout_is_gone() -> None:
    async with spawned_by(pipes()) as client:
        os.close(client.stdout)
        client.stdout = -1
        transport = await taken()
        client.hears_no_more()
        with pytest.raises(ConnectionError):
            await transport.send([b"anybody?"])
        await transport.close()


async def test_the_input_ends_after_what_has_arrived_once_a_write_fails_for_want_of_a_reader() -> None:
    async with spawned_by(pipes()) as client:
        os.close(client.stdout)
        client.stdout = -1
        transport = await taken()
        client.hears_no_more()
        client.say(b"first\nsecond\n")
        assert transport.try_send([b"anybody?"])
        async with asyncio.timeout(DEADLINE):
            assert await receive_all(transport) == [b"first", b"second"]


async def test_close_writes_the_pending_frames() -> None:
    heard = bytearray()

    def read() -> None:
        while data := os.read(client.hears, 1 << 16):
            heard.extend(data)

    async with spawned_by(pipes()) as client:
        os.close(client.stdout)
        client.stdout = -1
        transport = await taken(TransportLimits(send_high=1 << 21, close_deadline=DEADLINE))
        await transport.send([b"x" * 500_000])
        reader = threading.Thread(target=read)
        reader.start()
        await transport.close()
        os.close(1)  # the last one
        reader.join(DEADLINE)
        assert heard == b"x" * 500_000 + b"\n"


async def test_close_gives_up_on_a_client_that_does_not_read() -> None:
    async with spawned_by(pipes()):
        transport = await taken(TransportLimits(send_high=1 << 21, close_deadline=0.05))
        await transport.send([b"x" * 500_000])
        async with asyncio.timeout(DEADLINE):
            await transport.close()
        assert await receive(transport) == []
