"""`dragoman sessions` and `dragoman status` against a gateway in the test's own loop."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from pytest_aiohttp import AiohttpRawServer
from structlog.testing import capture_logs

from dragoman.gateway.config.model import Ops
from tests.conformance.fake_pod import FakePod
from tests.gateway.cli.program import Run
from tests.gateway.ops.running import answering, operated
from tests.gateway.ops.test_admin import talking, with_three_sessions
from tests.pairs.gateway import socket_path

TOKEN = "0123456789-operator"


@pytest.fixture(autouse=True)
def silent() -> Iterator[None]:
    """Keep the log of the gateway out of the output of the command, which runs in the same process."""
    with capture_logs():
        yield


async def test_sessions_are_listed_in_a_table_with_one_line_each(dragoman: Run) -> None:
    async with with_three_sessions() as (port, _clients):
        code, out, _ = await asyncio.to_thread(dragoman, "sessions", "--ops", port.url, "--limit", "2")
        head, one, two, more = out.splitlines()
        assert (code, more) == (0, "2 of 3 sessions; --limit shows more")
        assert head.split()[:3] == ["id", "route", "backend"]
        assert ["demo-backend" in line for line in (one, two)] == [True, True]


async def test_a_session_is_shown_and_its_clients_are_disconnected(dragoman: Run, tmp_path: Path) -> None:
    async with talking(tmp_path) as (port, _client, session):
        code, out, _ = await asyncio.to_thread(dragoman, "sessions", "show", session, "--ops", port.url)
        assert code == 0
        assert "smooth-1" in out
        code, out, _ = await asyncio.to_thread(dragoman, "sessions", "detach", session, "--ops", port.url)
        assert (code, out) == (0, f"disconnected 1 client of {session}\n")


async def test_a_session_is_closed_once(dragoman: Run) -> None:
    async with with_three_sessions() as (port, _clients):
        session = (await port.ask("/sessions"))[1]["sessions"][0]["id"]
        closing = ("sessions", "close", session, "--ops", port.url)
        assert (await asyncio.to_thread(dragoman, *closing))[:2] == (0, f"closed {session}\n")
        code, _, err = await asyncio.to_thread(dragoman, *closing)
        assert (code, err) == (1, f"error: there is no session '{session}'\n")


async def test_the_status_of_a_gateway_is_its_exit_code(
    dragoman: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = socket_path(tmp_path)
    async with operated(f"pod+unix:{path}") as port:
        monkeypatch.setenv("DRAGOMAN_OPS", port.url)
        code, out, _ = await asyncio.to_thread(dragoman, "status")
        assert code == 1
        assert f"route test: pod+unix:{path} cannot be reached" in out
    async with FakePod.serving(path), operated(f"pod+unix:{path}") as port:
        code, out, _ = await asyncio.to_thread(dragoman, "status", "--json", "--ops", port.url)
        assert (code, json.loads(out)["status"]) == (0, "ready")


async def test_the_port_and_its_token_are_found_by_the_configuration_file(dragoman: Run, tmp_path: Path) -> None:
    socket, file = tmp_path / "ops.sock", tmp_path / "config.toml"
    file.write_text(
        f'[[route]]\nlisten = ["pod+unix:{tmp_path}/s"]\nupstream = "pod+unix:{tmp_path}/u"\n'
        f'[ops]\nlisten = "unix:{socket}"\ntokens = ["{TOKEN}"]\n'
    )
    file.chmod(0o600)
    async with operated(ops=Ops(listen=f"unix:{socket}", tokens=(TOKEN,))):
        code, out, _ = await asyncio.to_thread(dragoman, "status", "--config", str(file))
        assert (code, out.splitlines()[0]) == (1, "not ready, 0 clients")
        code, _, err = await asyncio.to_thread(dragoman, "status", "--ops", f"unix:{socket}")
        assert code == 2
        assert "set DRAGOMAN_OPS_TOKEN" in err


async def test_a_filter_that_no_session_can_have_is_a_wrong_usage_which_names_the_choices(dragoman: Run) -> None:
    async with operated() as port:
        for option, name in (("--state", "paused"), ("--sort", "-updated_at")):
            code, _, err = await asyncio.to_thread(dragoman, "sessions", option, "bogus", "--ops", port.url)
            assert (code, "'bogus'" in err, name in err) == (2, True, True), err


def test_a_gateway_that_is_not_there_is_an_error_that_says_what_to_check(dragoman: Run, tmp_path: Path) -> None:
    code, _, err = dragoman("status", "--ops", f"unix:{tmp_path}/none.sock")
    assert (code, "no gateway answers at" in err, "is it running with [ops]?" in err) == (2, True, True)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("sessions",), "name the gateway: use --config FILE, --ops URL or the variable DRAGOMAN_OPS"),
        (("sessions", "open"), "'open' is not one of list, show, close, detach"),
        (("sessions", "show"), "write dragoman sessions show ID"),
        (("sessions", "close", "--ops", "http://127.0.0.1:1"), "write dragoman sessions close ID"),
        (("sessions", "list", "x", "--ops", "http://127.0.0.1:1"), "sessions list takes no session"),
        (("status", "--ops", "127.0.0.1:8790"), "write for example http://127.0.0.1:8790"),
        (("status", "--ops", "http://a..b:8790"), "error: 'a..b' is not a valid host name"),
    ],
)
def test_wrong_usage_says_what_to_write(arguments: tuple[str, ...], words: str, dragoman: Run) -> None:
    code, _, err = dragoman(*arguments)
    assert code == 2
    assert words in err


SHOW = ("sessions", "show", "x")


@pytest.mark.parametrize(
    ("arguments", "status", "answer"),
    [
        *((command, 200, '{"ready": true, "added": 1}') for command in (("status",), ("sessions",), SHOW)),
        *((command, 200, "[1, 2]") for command in (("status",), ("sessions",), SHOW)),
        (("status",), 200, "<html>"),
        (("status",), 404, "Not Found"),
        (("status",), 404, '{"error": "Not Found"}'),
    ],
)
async def test_an_answer_of_another_version_or_server_is_explained(
    arguments: tuple[str, ...], status: int, answer: str, dragoman: Run, aiohttp_raw_server: AiohttpRawServer
) -> None:
    url = await answering(aiohttp_raw_server, answer, status)
    code, out, err = await asyncio.to_thread(dragoman, *arguments, "--ops", url)
    assert (code, out) == (2, "")
    assert err == (
        f"error: {url} answers in a form that this program does not know: "
        "is it a dragoman of another version, or another server?\n"
    )
