"""CURVE between two gateways: the keys of `pando+tcp:` endpoints, and who may connect with which."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
import zmq
import zmq.auth
from msgspec import structs

from dragoman.adapters import zeromq
from dragoman.adapters.base import Transport
from dragoman.adapters.stdio import Children
from dragoman.gateway import registry
from dragoman.gateway.config.check import check
from dragoman.gateway.config.model import Limits
from dragoman.gateway.endpoint import parse
from dragoman.gateway.transports.zeromq import TCP
from dragoman.mappings.errors import ConfigError
from tests.gateway.listener_callbacks import callbacks
from tests.services import spawner_of

DEADLINE = 20
LISTEN = "pando+tcp://127.0.0.1:0?curve_key=file:{keys}/server.key_secret&client_keys={keys}/clients"


@pytest.fixture
def keys(tmp_path: Path) -> Path:
    """Return a folder with the certificates of a server, a client and a stranger; the server knows the client."""
    for name in ("server", "client", "stranger"):
        zmq.auth.create_certificates(tmp_path, name)
    (tmp_path / "clients").mkdir()
    (tmp_path / "empty").mkdir()
    (tmp_path / "client.key").rename(tmp_path / "clients/client.key")
    return tmp_path


class Listening:
    """A listener of ours, its callers, and the reasons why others were refused."""

    def __init__(self) -> None:
        self.callers: asyncio.Queue[Transport] = asyncio.Queue()
        self.refused: list[str] = []
        self.port = 0

    async def dial(self, options: str = "") -> Transport:
        """Connect as another gateway does."""
        assert TCP.dial is not None
        endpoint = parse(f"pando+tcp://127.0.0.1:{self.port}{options}")
        return await TCP.dial(endpoint, Limits(), spawner_of(Children(1)))()


@asynccontextmanager
async def listening(keys: Path) -> AsyncIterator[Listening]:
    ours, published = Listening(), list[Transport]()
    made = structs.replace(
        callbacks(ours.callers.put_nowait, published.append),
        not_authenticated=lambda _listener, why: ours.refused.append(why),
    )
    assert TCP.listen is not None
    async with asyncio.timeout(DEADLINE):
        listener = await TCP.listen(parse(LISTEN.format(keys=keys)), Limits(), made)
        ours.port = int(listener.address.rpartition(":")[2])
        try:
            yield ours
        finally:
            for transport in published:
                await transport.close()
            await listener.close()


def of(keys: Path, client: str, server: str = "server") -> str:
    """Return the options of a client with this secret key, for the server with this public key."""
    return f"?curve_key=file:{keys}/{client}.key_secret&server_key=file:{keys}/{server}.key"


async def test_a_client_with_a_known_key_is_served(keys: Path) -> None:
    async with listening(keys) as ours:
        client = await ours.dial(of(keys, "client"))
        await client.send([b"{}"])
        caller = await ours.callers.get()
        await caller.close()
        await client.close()


async def test_a_client_with_an_unknown_key_and_its_listener_get_the_reason(keys: Path) -> None:
    async with listening(keys) as ours:
        with pytest.raises(PermissionError, match="the listener does not accept our public key"):
            await ours.dial(of(keys, "stranger"))
        public, _ = zmq.auth.load_certificate(keys / "stranger.key")
        assert set(ours.refused) == {f"the public key {public.decode()} is not in client_keys"}


async def test_a_server_with_another_key_is_not_trusted(keys: Path) -> None:
    async with listening(keys) as ours:
        with pytest.raises(ConnectionAbortedError, match="the listener has another key than `server_key`"):
            await ours.dial(of(keys, "client", server="stranger"))


async def test_a_client_without_a_key_is_refused_with_a_reason(keys: Path) -> None:
    async with listening(keys) as ours:
        with pytest.raises(ConnectionAbortedError, match="or needs CURVE"):
            await ours.dial()


async def test_a_key_that_is_added_or_removed_counts_for_the_next_client(keys: Path) -> None:
    async with listening(keys) as ours:
        (keys / "stranger.key").rename(keys / "clients/stranger.key")
        await (await ours.dial(of(keys, "stranger"))).close()
        (keys / "clients/client.key").unlink()
        with pytest.raises(PermissionError):
            await ours.dial(of(keys, "client"))


async def test_broken_keys_of_clients_leave_the_known_ones_in_force(keys: Path) -> None:
    async with listening(keys) as ours:
        (keys / "clients/broken.key").write_text("nothing")
        await (await ours.dial(of(keys, "client"))).close()


def test_a_secret_key_may_stand_in_a_variable(keys: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _, secret = zmq.auth.load_certificate(keys / "server.key_secret")
    assert secret is not None
    monkeypatch.setenv("SECRET", secret.decode())
    registry.check_place(parse(f"pando+tcp://127.0.0.1:0?curve_key=env:SECRET&client_keys={keys}/clients"))


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ("curve_key=file:{keys}/server.key_secret", "CURVE needs both keys"),
        ("client_keys={keys}/clients", "CURVE needs both keys"),
        ("curve_key=file:{keys}/none&client_keys={keys}/clients", "none cannot be read"),
        ("curve_key=file:{keys}/server.key&client_keys={keys}/clients", "curve_key has no secret key"),
        ("curve_key=file:{keys}/server.key_secret&client_keys={keys}/none", "none: No such file or directory"),
        ("curve_key=file:{keys}/server.key_secret&client_keys={keys}/pipe", "a pipe or a device without data"),
        ("curve_key=file:{keys}/server.key_secret&client_keys={keys}/empty", "empty has no file `\\*.key`"),
    ],
)
def test_a_listener_whose_keys_cannot_be_used_is_refused_with_the_reason(keys: Path, options: str, words: str) -> None:
    os.mkfifo(keys / "pipe")
    endpoint = parse(f"pando+tcp://127.0.0.1:0?{options.format(keys=keys)}")
    with pytest.raises(ConfigError, match=words) as error:
        registry.check_place(endpoint)
    assert str(error.value).startswith(endpoint.masked)


def test_keys_are_refused_where_libzmq_has_no_curve(keys: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(zeromq, "has_curve", lambda: False)
    with pytest.raises(ConfigError, match="this libzmq has no CURVE"):
        registry.check_upstream(parse(f"pando+tcp://127.0.0.1:7{of(keys, 'client')}"))


def test_an_encrypted_listener_beyond_loopback_is_accepted_without_insecure(keys: Path, tmp_path: Path) -> None:
    path = tmp_path / "c.toml"
    listen = "pando+tcp://0.0.0.0:48254{}"
    text = "[[route]]\nlisten = ['{}']\nupstream = 'pod+unix:/u'\n"
    path.write_text(text.format(listen.format("?curve_key=file:server.key_secret&client_keys=clients")))
    assert check(path).errors == []
    path.write_text(text.format(listen.format("")))
    (problem,) = check(path).errors
    assert "add `?curve_key=...&client_keys=...`" in problem.text
