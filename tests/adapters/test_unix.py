"""Unix sockets: their paths, their files, and who is at the other end."""

from __future__ import annotations

import asyncio
import errno
import os
import socket
import stat
import sys
from pathlib import Path
from typing import Any

import pytest

from dragoman.adapters.base import Transport, TransportLimits
from dragoman.adapters.unix import SUN_PATH, SocketFile, alive, bind_socket, connect, listen
from dragoman.mappings.errors import ConfigError
from tests.adapters.unix_server import DEADLINE, LIMITS, dialled, serving
from tests.transport_reader import receive


async def test_the_address_with_its_dialect_is_the_endpoint(tmp_path: Path) -> None:
    async with serving(tmp_path) as server:
        assert server.listener.address == f"unix:{tmp_path}/sock"


async def test_only_the_owner_may_use_the_socket_file(tmp_path: Path) -> None:
    before = os.umask(0)
    os.umask(before)
    async with serving(tmp_path) as server:
        assert stat.S_IMODE(os.stat(server.path).st_mode) == 0o600
    after = os.umask(before)
    assert after == before


@pytest.mark.skipif(sys.platform != "linux", reason="SO_PEERCRED is Linux's")
async def test_the_peer_is_named_by_its_credentials(tmp_path: Path) -> None:
    async with serving(tmp_path) as server, dialled(server) as (client, ours):
        assert ours.peer == client.peer == f"uid={os.getuid()} pid={os.getpid()}"


async def test_a_stale_socket_file_is_replaced(tmp_path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as dead:
        dead.bind(str(tmp_path / "sock"))
    async with serving(tmp_path) as server, dialled(server) as (client, ours):
        await client.send([b"hello"])
        assert await receive(ours) == [b"hello"]


async def test_listening_at_a_live_socket_is_refused_and_leaves_it_alone(tmp_path: Path) -> None:
    async with serving(tmp_path) as server:
        with pytest.raises(OSError, match=r"another process listens here.*sock") as refused:
            await listen(server.path, LIMITS, server.accept)
        assert refused.value.errno == errno.EADDRINUSE
        await (await server.next()).close()  # the probe
        async with dialled(server) as (client, ours):
            await client.send([b"still here"])
            assert await receive(ours) == [b"still here"]


async def test_listening_at_a_file_that_is_no_socket_is_refused_and_leaves_it_alone(tmp_path: Path) -> None:
    path = tmp_path / "sock"
    path.write_text("precious")
    with pytest.raises(FileExistsError, match="not a socket"):
        await listen(str(path), LIMITS, lambda _: None)
    assert path.read_text() == "precious"


async def test_a_path_that_is_too_long_is_refused_with_the_limit(tmp_path: Path) -> None:
    path = str(tmp_path / ("x" * SUN_PATH))
    with pytest.raises(ConfigError, match=f"at most {SUN_PATH} bytes"):
        await listen(path, LIMITS, lambda _: None)
    with pytest.raises(OSError, match=f"at most {SUN_PATH} bytes"):
        await connect(path, LIMITS)


async def test_a_client_reaches_a_socket_path_of_the_maximum_length(tmp_path: Path) -> None:
    path = f"{tmp_path}/"
    path += "x" * (SUN_PATH - len(path))
    accepted: asyncio.Queue[Transport] = asyncio.Queue()
    listener = await listen(path, LIMITS, accepted.put_nowait)
    client = await connect(path, LIMITS)
    async with asyncio.timeout(DEADLINE):
        ours = await accepted.get()
    for closable in (client, ours, listener):
        await closable.close()


async def test_closing_a_listener_removes_its_file_and_keeps_its_peers(tmp_path: Path) -> None:
    async with serving(tmp_path) as server, dialled(server) as (client, ours):
        await server.listener.close()
        await server.listener.close()
        assert not os.path.exists(server.path)
        with pytest.raises(FileNotFoundError, match="sock"):
            await connect(server.path, LIMITS)
        await client.send([b"still here"])
        assert await receive(ours) == [b"still here"]


async def test_a_listener_whose_file_cannot_be_removed_is_closed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(path: str) -> None:
        raise OSError(errno.EROFS, os.strerror(errno.EROFS), path)

    async with serving(tmp_path) as server:
        with monkeypatch.context() as patched:
            patched.setattr("os.unlink", refuse)
            await server.listener.close()
        with pytest.raises(ConnectionRefusedError):
            await connect(server.path, LIMITS)


async def test_closing_a_listener_leaves_a_file_that_is_not_its_own(tmp_path: Path) -> None:
    async with serving(tmp_path) as server:
        os.unlink(server.path)
        with socket.socket(socket.AF_UNIX) as other:
            other.bind(server.path)
            await server.listener.close()
            assert os.path.exists(server.path)


@pytest.mark.parametrize(
    ("kind", "why"),
    [
        ("missing", "the socket does not exist; start the backend, or correct the path"),
        ("stale", "nothing listens there; start the backend, or correct the address"),
        ("file", "this is not a stream socket; correct the path"),
        ("folder", "this is not a stream socket; correct the path"),
        ("under a file", "a part of the path is not a folder; correct the path"),
        ("long", f"the path of a socket has at most {SUN_PATH} bytes; choose a shorter folder"),
    ],
)
async def test_the_error_of_a_failed_connect_says_where_and_what_to_do(kind: str, why: str, tmp_path: Path) -> None:
    path = tmp_path / ("x" * SUN_PATH if kind == "long" else "sock")
    if kind == "stale":
        with socket.socket(socket.AF_UNIX) as bound:
            bound.bind(str(path))
    elif kind == "folder":
        path.mkdir()
    elif kind in ("file", "under a file"):
        path.touch()
    path = path / "sock" if kind == "under a file" else path
    with pytest.raises(OSError, match=why) as caught:
        await connect(str(path), LIMITS)
    assert (caught.value.strerror, caught.value.filename) == (why, str(path))


@pytest.mark.parametrize(
    ("number", "why"),
    [
        (errno.EACCES, "this user may not connect; run as the socket's owner, or change its mode"),
        (errno.EPROTOTYPE, "this is not a stream socket; correct the path"),
        (errno.ENOTSOCK, "this is not a stream socket; correct the path"),
    ],
)
async def test_a_connect_that_the_kernel_refuses_is_explained(
    number: int, why: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def refuse(*_arguments: object) -> None:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(asyncio.get_running_loop(), "create_unix_connection", refuse)
    with pytest.raises(OSError, match=why):
        await connect(str(tmp_path / "sock"), LIMITS)


async def test_a_socket_is_alive_while_a_process_listens_at_it(tmp_path: Path) -> None:
    path = str(tmp_path / "sock")
    assert not alive(path)
    probes: list[Transport] = []
    listener = await listen(path, TransportLimits(), probes.append)
    (tmp_path / "link").symlink_to(path)
    assert alive(path)
    assert alive(str(tmp_path / "link"))
    await listener.close()
    assert not alive(path)
    for probe in probes:
        await probe.close()
    assert len(probes) == 2, "who was accepted before the end is served"


@pytest.mark.parametrize("kind", ["file", "stale", "long"])
def test_a_socket_without_a_listener_is_not_alive(kind: str, tmp_path: Path) -> None:
    path = tmp_path / ("x" * SUN_PATH if kind == "long" else "sock")
    if kind == "file":
        path.touch()
    elif kind == "stale":
        with socket.socket(socket.AF_UNIX) as bound:
            bound.bind(str(path))
    assert not alive(str(path))


async def test_nobody_can_connect_to_a_socket_before_it_has_its_group(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    chown, path = os.chown, tmp_path / "sock"
    seen: list[bool] = []

    def watched(*changed: Any, **options: Any) -> None:
        seen.append(alive(str(path)))
        chown(*changed, **options)

    monkeypatch.setattr(os, "chown", watched)
    file = SocketFile(mode=0o660, gid=os.getgid())
    listener = await listen(str(path), LIMITS, lambda _transport: None, file)
    mode = stat.S_IMODE(path.stat().st_mode)
    await listener.close()
    assert (seen, mode) == ([False], 0o660)


async def test_a_link_that_replaces_a_new_socket_leads_to_no_change_of_another_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    other, path = tmp_path / "other", tmp_path / "sock"
    other.touch(mode=0o600)
    bind = bind_socket

    def bind_and_replace(*options: Any) -> socket.socket:
        bound = bind(*options)
        path.unlink()
        path.symlink_to(other)
        return bound

    monkeypatch.setattr("dragoman.adapters.unix.bind_socket", bind_and_replace)
    before = other.stat()
    listener = await listen(str(path), LIMITS, lambda _transport: None, SocketFile(mode=0o666, gid=os.getgid()))
    await listener.close()
    assert (other.stat().st_mode, other.stat().st_ctime_ns) == (before.st_mode, before.st_ctime_ns)


async def test_a_socket_whose_group_cannot_be_set_is_removed_and_the_error_tells_why(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(_path: str, _uid: int, _gid: int, **_options: bool) -> None:
        raise PermissionError(errno.EPERM, os.strerror(errno.EPERM))

    monkeypatch.setattr(os, "chown", refuse)
    with pytest.raises(PermissionError, match="its owner or group cannot be changed by this user"):
        await listen(f"{tmp_path}/sock", LIMITS, lambda _transport: None, SocketFile(gid=os.getgid()))
    assert list(tmp_path.iterdir()) == []
