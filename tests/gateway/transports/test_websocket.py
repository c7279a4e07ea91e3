"""WebSocket endpoints: a dialled connection carries the token, and a listener has its port for itself."""

from __future__ import annotations

import os
from datetime import timedelta
from pathlib import Path

import pytest

from dragoman.adapters.base import TransportLimits
from dragoman.adapters.stdio import Children
from dragoman.gateway.config.model import Limits
from dragoman.gateway.endpoint import parse
from dragoman.gateway.transports.websocket import WS, WSS
from dragoman.mappings.errors import ConfigError
from tests.adapters.websocket.certificates import NOW, Authority
from tests.services import spawner_of


@pytest.fixture
def dialled(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return the URLs that are dialled in the test; nothing is connected."""
    urls: list[str] = []

    async def connect(url: str, _limits: TransportLimits, _tls: object, _headers: object) -> None:
        urls.append(url)

    monkeypatch.setattr("dragoman.adapters.websocket.connect", connect)
    return urls


@pytest.mark.parametrize(
    ("endpoint", "url"),
    [
        ("smooth+ws://h:1/ws", "ws://h:1/ws"),
        ("smooth+ws://h:1/ws?token=a%26b", "ws://h:1/ws?token=a%26b"),
        ("smooth+wss://h:1/ws?agent=a", "wss://h:1/ws"),
    ],
)
async def test_only_the_token_option_is_sent_when_dialling(endpoint: str, url: str, dialled: list[str]) -> None:
    assert WS.dial is not None
    await WS.dial(parse(endpoint), Limits(), spawner_of(Children(1)))()
    assert dialled == [url]


async def test_the_file_of_a_token_is_read_for_each_connection(tmp_path: Path, dialled: list[str]) -> None:
    assert WS.dial is not None
    dial = WS.dial(parse(f"smooth+ws://h:1/ws?token=file:{tmp_path}/token"), Limits(), spawner_of(Children(1)))
    with pytest.raises(OSError, match="token cannot be read"):
        await dial()
    for token in ("old", "new"):
        (tmp_path / "token").write_text(token, "utf-8")
        await dial()
    assert dialled == ["ws://h:1/ws?token=old", "ws://h:1/ws?token=new"]
    (tmp_path / "token").unlink()
    os.mkfifo(tmp_path / "token")
    with pytest.raises(OSError, match="a pipe or a device without data"):
        await dial()


def test_websocket_endpoints_on_one_port_share_an_address_and_port_0_has_none() -> None:
    assert WS.places(parse("smooth+ws://LOCALHOST:1/a")) == WS.places(parse("smooth+ws://localhost:1/b"))
    assert WS.places(parse("smooth+ws://localhost:0/a")) == ()


def test_the_port_of_a_backend_cannot_be_left_to_the_system() -> None:
    with pytest.raises(ConfigError, match="write the port of the backend"):
        WS.check_upstream(parse("smooth+ws://127.0.0.1:0/ws"))
    with pytest.raises(ConfigError, match="write the port of the backend"):
        WSS.check_upstream(parse("smooth+wss://127.0.0.1:0/ws"))
    WS.check_upstream(parse("smooth+ws://127.0.0.1/ws"))


@pytest.mark.parametrize("options", ["", "?cert=/c.pem", "?key=/k.pem"])
def test_a_tls_listener_needs_a_certificate_and_a_key(options: str) -> None:
    with pytest.raises(ConfigError, match=r"a TLS listener needs `\?cert=FILE&key=FILE`"):
        WSS.check_place(parse(f"smooth+wss://127.0.0.1:0/ws{options}"))


@pytest.mark.parametrize("key", ["ca", "cert"])
async def test_the_error_names_an_upstream_whose_certificate_cannot_be_read(key: str) -> None:
    endpoint = parse(f"smooth+wss://h:1/ws?{key}=/no/such.pem")
    with pytest.raises(ConfigError, match=r"/no/such\.pem cannot be read"):
        WSS.check_upstream(endpoint)
    assert WSS.dial is not None
    with pytest.raises(OSError, match=r"/no/such\.pem cannot be read"):
        await WSS.dial(endpoint, Limits(), spawner_of(Children(1)))()


@pytest.mark.parametrize(
    "option",
    ["origin=*", "origin=null", "origin=https://App.example", "origin=app://x:1/", "host=*", "host=Gateway.example"],
)
def test_a_page_or_a_name_that_a_request_can_have_is_accepted(option: str) -> None:
    WS.check(parse(f"smooth+ws://h:1/ws?{option}"))


@pytest.mark.parametrize(
    ("option", "words"),
    [
        *((f"origin={text}", "scheme and host") for text in ("app.example", "https://a/b", "https://u@a", "https://")),
        *(
            (f"host={text}", "only a name")
            for text in ("http://gateway.example", "gateway.example:8787", "a/b", "[::1]")
        ),
    ],
)
def test_a_page_or_a_name_that_no_request_can_have_is_refused(option: str, words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        WS.check(parse(f"smooth+ws://h:1/ws?{option}"))


def test_a_tls_listener_with_an_expired_certificate_is_a_hazard(tmp_path: Path) -> None:
    certificate, key = Authority(tmp_path).issue("server", around=NOW - timedelta(days=1))
    endpoint = parse(f"smooth+wss://127.0.0.1:0/ws?cert={certificate}&key={key}")
    end = NOW - timedelta(days=1) + timedelta(hours=1)
    assert WSS.find_hazard(endpoint) == f"{endpoint.masked}: certificate has expired on {end:%Y-%m-%d %H:%M} UTC"
