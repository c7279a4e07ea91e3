"""The connection of a command to the ops port, and how it is found."""

from __future__ import annotations

import asyncio
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from itertools import chain, cycle
from pathlib import Path

import pytest

from dragoman.gateway.config.ops_address import parse_ops_address
from dragoman.gateway.ops import client
from dragoman.gateway.ops.client import GatewayRefusalError, OpsClient, find_ops_port
from dragoman.mappings.errors import ConfigError
from tests.gateway.ops.running import operated


async def test_an_answer_is_decoded_and_a_refusal_is_raised_with_its_reason() -> None:
    async with operated() as port:
        connection = find_ops_port(None, port.url)
        assert (await asyncio.to_thread(connection.ask, "/livez"))["live"] is True
        with pytest.raises(GatewayRefusalError, match="there is no session 'x'"):
            await asyncio.to_thread(connection.ask, "/sessions/x")


@contextmanager
def answering(*pieces: bytes, pause: float = 0.0) -> Iterator[OpsClient]:
    """Yield the client of a port that answers with these bytes again and again, and never ends its answer."""
    with socket.create_server(("127.0.0.1", 0)) as listening:

        def answer() -> None:
            peer, _ = listening.accept()
            with peer, suppress(OSError):
                for piece in chain((b"HTTP/1.1 200 OK\r\n",), cycle(pieces)):
                    peer.sendall(piece)
                    time.sleep(pause)

        thread = threading.Thread(target=answer)
        thread.start()
        yield OpsClient(parse_ops_address(f"http://127.0.0.1:{listening.getsockname()[1]}"), "")
        thread.join()


@pytest.mark.parametrize("head", [b"", b"\r\n"], ids=["header", "body"])
def test_an_answer_that_comes_too_slowly_is_given_up(head: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client, "TIMEOUT", 0.3)
    slowly = answering(head or b"X", b" ", pause=0.05)
    with slowly as connection, pytest.raises(ConfigError, match="gave no answer within"):
        connection.ask("/livez")


def test_an_answer_without_an_end_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client, "ANSWER_MAX", 1 << 20)
    endless = answering(b"\r\n", b" " * 65536)
    with endless as connection, pytest.raises(ConfigError, match="its answer has more than 1048576 bytes"):
        connection.ask("/livez")


def test_an_answer_that_is_nested_too_deep_is_of_an_unknown_form() -> None:
    answer = b"Content-Length: 100000\r\n\r\n" + b"[" * 100_000
    with answering(answer) as connection, pytest.raises(ConfigError, match="answers in a form"):
        connection.ask("/livez")


def test_the_error_names_a_configuration_without_an_ops_port(tmp_path: Path) -> None:
    file = tmp_path / "config.toml"
    file.write_text(f'[[route]]\nlisten = ["pod+unix:{tmp_path}/s"]\nupstream = "pod+unix:{tmp_path}/u"\n')
    with pytest.raises(ConfigError, match=r"has no \[ops\]"):
        find_ops_port(file, None)


def test_a_port_chosen_by_the_system_needs_the_option_ops() -> None:
    with pytest.raises(ConfigError, match="its first log line has the URL for --ops"):
        find_ops_port(None, "http://127.0.0.1:0")


def test_a_gateway_whose_recording_is_one_file_is_found_by_its_configuration(tmp_path: Path) -> None:
    recording = tmp_path / "one.jsonl"
    recording.touch()
    file = tmp_path / "dragoman.toml"
    tables = f'[recording]\npath = "{recording}"\n[ops]\nlisten = "http://127.0.0.1:8790"\n'
    file.write_text(tables + f'[[route]]\nupstream = "pod+unix:{tmp_path}/u"\n')
    assert isinstance(find_ops_port(file, None), OpsClient)
