"""Unix sockets: by path, by the name of a pod, and as a directory of pods."""

from __future__ import annotations

import asyncio
import re
from pathlib import Path

import pytest

from dragoman.adapters.base import Transport
from dragoman.adapters.stdio import Children
from dragoman.gateway.config.model import Limits
from dragoman.gateway.endpoint import parse
from dragoman.gateway.pods.folder import RUNTIME
from dragoman.gateway.transports import unix
from dragoman.mappings.errors import ConfigError
from tests.gateway.listener_callbacks import callbacks
from tests.services import spawner_of
from tests.transport_reader import receive


async def test_dialling_a_path_reaches_its_listener(tmp_path: Path) -> None:
    endpoint = parse(f"pod+unix:{tmp_path}/sock")
    accepted: asyncio.Queue[Transport] = asyncio.Queue()
    assert unix.UNIX.listen is not None
    assert unix.UNIX.dial is not None
    async with asyncio.timeout(20):
        listener = await unix.UNIX.listen(endpoint, Limits(), callbacks(accepted.put_nowait))
        ours = await unix.UNIX.dial(endpoint, Limits(), spawner_of(Children(1)))()
        theirs = await accepted.get()
        await ours.send([b"{}"])
        assert await receive(theirs) == [b"{}"]
        for transport in (ours, theirs):
            await transport.close()
        await listener.close()


@pytest.mark.parametrize(
    ("option", "words"),
    [
        ("mode=999", "mode=999: write an octal number from 0600 to 0777"),
        ("owner=4294967295", "owner=4294967295: write a name, or a number up to 4294967294"),
        (f"group={'9' * 5000}", "group=99999999999999999999: write a name, or a number up to 4294967294"),
        ("owner=no-such-user", "this system has no user or group 'no-such-user'"),
        ("group=no-such-group", "this system has no user or group 'no-such-group'"),
    ],
)
def test_the_mode_owner_and_group_of_a_socket_must_exist(option: str, words: str) -> None:
    text = f"pod+unix:/x?{option}"
    with pytest.raises(ConfigError) as caught:
        unix.UNIX.check(parse(text))
    assert str(caught.value) == f"{text}: {words}"


def test_two_spellings_of_one_path_are_one_address(tmp_path: Path) -> None:
    one, same = parse(f"pod+unix:{tmp_path}/sock"), parse(f"pod+unix:{tmp_path}/./sock")
    assert unix.UNIX.places(one) == unix.UNIX.places(same)
    assert unix.UNIX.places(one) != unix.UNIX.places(parse(f"pod+unix:{tmp_path}/other"))


@pytest.mark.parametrize(
    ("name", "folder", "words"),
    [
        ("../atlas", "/run/pods", "invalid pod name"),
        ("atlas", "", "no runtime directory for pods: set INSOMNIA_RUNTIME_DIR"),
        ("x" * 100, "/run/pods", "at most 107 bytes"),
    ],
)
def test_a_name_that_is_no_socket_in_the_runtime_directory_is_refused(
    name: str, folder: str, words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for variable in RUNTIME:
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.setenv("INSOMNIA_RUNTIME_DIR", folder)
    with pytest.raises(ConfigError, match=rf"^pod\+name:{re.escape(name)}: .*{words}"):
        unix.NAME.check(parse(f"pod+name:{name}"))
