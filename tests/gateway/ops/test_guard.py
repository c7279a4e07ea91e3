"""The checks of the ops port before each request: tokens, hosts and web pages."""

from __future__ import annotations

import json

import pytest
from aiohttp import web
from aiohttp.test_utils import make_mocked_request
from structlog.testing import capture_logs

from dragoman.gateway.config.model import Ops
from dragoman.gateway.ops import guard
from tests.gateway.ops.running import LOCAL, operated

TOKEN = "0123456789abcdef-ops"
GUARDED = Ops(listen="http://127.0.0.1:0", tokens=("another-token-of-an-operator", TOKEN), hosts=("Agents.Example",))


@pytest.fixture(autouse=True)
def undelayed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(guard, "DELAY", 0.0)


async def test_each_configured_token_is_accepted() -> None:
    async with operated(ops=GUARDED) as port:
        for token in GUARDED.tokens:
            status, _ = await port.ask("/", headers={"Authorization": f"Bearer {token}"})
            assert status == 404


async def test_a_request_without_a_valid_token_is_refused() -> None:
    async with operated(ops=GUARDED) as port:
        for header in (None, "Bearer", "Bearer wrong", f"Basic {TOKEN}", f"Bearer {TOKEN}x", "Bearer \xff"):
            sent = {} if header is None else {"Authorization": header}
            status, text, headers = await port.ask_raw("/", headers=sent)
            assert (status, headers["WWW-Authenticate"]) == (401, "Bearer"), header
            assert headers["Content-Type"] == "application/problem+json"
            assert json.loads(text)["title"] == "Unauthorized"


async def test_probes_without_a_token_get_the_status_without_causes() -> None:
    async with operated(ops=GUARDED) as port:
        port.app.stop.set()
        assert await port.ask("/livez") == (200, {"live": True, "stuck_for": 0.0})
        assert await port.ask("/readyz?verbose") == (503, {"ready": False, "status": "draining", "checks": []})


async def test_an_address_or_a_configured_name_is_accepted_as_host() -> None:
    async with operated(ops=Ops(listen="http://127.0.0.1:0", hosts=("Agents.Example",))) as port:
        for host in ("127.0.0.1", "localhost:8790", "[::1]:8790", "10.0.0.7:8790", "agents.example:80"):
            assert (await port.ask("/livez", headers={"Host": host}))[0] == 200, host


async def test_a_host_name_of_a_dns_rebinding_attack_is_refused() -> None:
    async with operated() as port:
        for host in ("evil.example", "127.0.0.1.evil.example", "localhost.evil.example:8790"):
            status, body = await port.ask("/livez", headers={"Host": host})
            assert (status, "add it to `hosts`" in body["detail"]) == (421, True), host


@pytest.mark.parametrize("header", [{"Origin": "http://127.0.0.1"}, {"Sec-Fetch-Site": "cross-site"}])
async def test_a_web_page_is_refused(header: dict[str, str]) -> None:
    async with operated() as port:
        assert (await port.ask("/livez", headers=header))[0] == 403


async def test_answers_allow_no_other_origin_and_are_not_cached() -> None:
    async with operated() as port:
        _, _, headers = await port.ask_raw("/livez")
        assert not [name for name in headers if name.lower().startswith("access-control")]
        assert headers["Cache-Control"] == "no-store"


async def test_an_unknown_path_is_answered_as_a_problem() -> None:
    async with operated() as port:
        status, body = await port.ask("/nothing")
        assert (status, body["status"], body["detail"]) == (404, 404, "there is nothing at /nothing")


async def test_the_answer_to_a_wrong_method_names_the_right_ones() -> None:
    async with operated() as port:
        status, text, headers = await port.ask_raw("/livez", "DELETE")
        assert (status, headers["Allow"]) == (405, "GET, HEAD")
        assert json.loads(text)["detail"] == "/livez has only GET, HEAD"


async def test_a_failure_in_a_handler_is_logged_and_shows_nothing_of_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    async def fail(_health: object) -> None:
        raise ZeroDivisionError("a secret")

    monkeypatch.setattr("dragoman.gateway.ops.health.Health.find_readiness", fail)
    async with operated(ops=LOCAL) as port:
        status, body = await port.ask("/readyz")
        assert (status, "secret" in body["detail"]) == (500, False)


async def test_a_client_that_leaves_before_the_end_of_its_request_is_no_failure_of_ours() -> None:
    async def read_body(_request: web.Request) -> web.Response:
        raise ConnectionResetError("Connection lost")

    request = make_mocked_request("PUT", "/log-level", {"Host": "localhost"})
    with capture_logs() as logs, pytest.raises(ConnectionResetError):
        await guard.Guard(LOCAL, local=False).middleware(request, read_body)
    assert logs == []


async def test_a_body_that_cannot_be_decoded_is_refused_and_not_logged(caplog: pytest.LogCaptureFixture) -> None:
    with capture_logs() as logs:
        async with operated(ops=LOCAL) as port:
            packed = {"Content-Encoding": "gzip"}
            status, body = await port.ask("/log-level", "PUT", data=b"not packed", headers=packed)
            assert (status, body["title"]) == (400, "Bad Request")
    assert not [line for line in logs if line["log_level"] == "error"]
    assert not caplog.records
