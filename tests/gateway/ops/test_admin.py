"""The requests of operators at the ops port of a running gateway, and the document that describes them."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import jsonschema
from msgspec import structs
from structlog.testing import capture_logs

from dragoman.gateway.app import App
from dragoman.gateway.config.model import Config, Ops, Route
from dragoman.gateway.demo.backend import demo_backend
from dragoman.gateway.endpoint import parse
from dragoman.gateway.observability import logs
from dragoman.mappings.dialect import Loss
from tests.conformance.fake_pod import FakePod
from tests.gateway.ops.running import OpsClient, operated
from tests.pairs.gateway import DEADLINE, SmoothClient, socket_path

SECRET = f"ghp_{'Xa9' * 12}"


@asynccontextmanager
async def talking(folder: Path) -> AsyncIterator[tuple[OpsClient, SmoothClient, str]]:
    """Run a gateway in front of a pod with a client that had one turn; yield it and the id of its session."""
    path = socket_path(folder)
    async with (
        FakePod.serving(path),
        operated(f"pod+unix:{path}") as port,
        SmoothClient.connected(port.listening[0].partition("+")[2]) as client,
    ):
        await client.turn(f"hello {SECRET}")
        _, body = await port.ask("/sessions")
        yield port, client, body["sessions"][0]["id"]


async def test_a_session_is_listed_with_its_route_state_and_clients(tmp_path: Path) -> None:
    async with talking(tmp_path) as (port, _client, session):
        _, body = await port.ask("/sessions")
        (row,) = body["sessions"]
        assert (body["total"], body["next_cursor"]) == (1, None)
        assert (row["route"], row["backend"], row["status"], row["clients"]) == ("test", "pod", "idle", 1)
        _, detail = await port.ask(f"/sessions/{session}")
        assert [link["dialect"] for link in detail["links"]] == ["smooth"]


async def test_the_title_of_a_session_is_shown_without_secrets(tmp_path: Path) -> None:
    async with talking(tmp_path) as (port, _client, session):
        _, body = await port.ask(f"/sessions/{session}")
        title = body["session"]["title"]
        assert title.startswith("hello [redacted:github_token:")
        assert SECRET not in title


async def test_a_list_of_sessions_can_be_filtered(tmp_path: Path) -> None:
    expected = {
        "route=test": 1,
        "route=other": 0,
        "state=idle": 1,
        "state=running": 0,
        "dialect=pod": 1,
        "dialect=smooth": 0,
        "owner=nobody": 0,
    }
    async with talking(tmp_path) as (port, _client, _session):
        assert {query: (await port.ask(f"/sessions?{query}"))[1]["total"] for query in expected} == expected


@asynccontextmanager
async def with_three_sessions(app: App | None = None) -> AsyncIterator[tuple[OpsClient, list[SmoothClient]]]:
    async with operated(app=app or demo_backend(parse("smooth+ws://127.0.0.1:0/ws"))) as port:
        url = port.listening[0].partition("+")[2]
        async with (
            SmoothClient.connected(url) as one,
            SmoothClient.connected(url) as two,
            SmoothClient.connected(url) as three,
        ):
            yield port, [one, two, three]


async def test_pages_of_sessions_show_each_session_once() -> None:
    async with with_three_sessions() as (port, _clients):
        assert len({row["id"] for row in await paged(port)}) == len(await paged(port)) == 3


async def test_pages_of_sessions_can_be_sorted_in_both_directions() -> None:
    async with with_three_sessions() as (port, clients):
        await clients[1].turn("count 3")
        for sort in ("id", "opened_at", "updated_at", "memory", "clients"):
            upwards, downwards = [await paged(port, f"sort={sign}{sort}") for sign in ("", "-")]
            assert [row["id"] for row in downwards] == [row["id"] for row in upwards[::-1]], sort
            assert [row[sort] for row in upwards] == sorted(row[sort] for row in upwards), sort
            assert len(upwards) == 3


async def test_unused_sessions_are_sorted_by_the_time_that_their_rows_show() -> None:
    app = demo_backend(parse("smooth+ws://127.0.0.1:0/ws"))
    async with with_three_sessions(app) as (port, _clients):
        (router,) = app.routers
        sessions = sorted(router._all.index, key=lambda session: session.state.id, reverse=True)
        for number, session in enumerate(sessions):
            session.state.opened_at, session.state.updated_at = number * 10**9, 0
        assert [row["id"] for row in await paged(port, "sort=updated_at")] == [one.state.id for one in sessions]


async def test_sessions_are_listed_if_a_backend_tells_a_time_of_no_calendar() -> None:
    app = demo_backend(parse("smooth+ws://127.0.0.1:0/ws"))
    async with with_three_sessions(app) as (port, _clients):
        (router,) = app.routers
        times = (10**30, -(10**20), 1_500_000_000_123_999_999)
        for session, at in zip(router._all.index, times, strict=True):
            session.state.updated_at = at
        rows = await paged(port, "sort=updated_at")
        assert [row["updated_at"] for row in rows] == ["", "2017-07-14T02:40:00.123+00:00", ""]


async def paged(port: OpsClient, query: str = "") -> list[dict[str, Any]]:
    """Return all sessions, from pages of one."""
    rows: list[dict[str, Any]] = []
    cursor: str | None = ""
    while cursor is not None:
        _, page = await port.ask(f"/sessions?limit=1&cursor={cursor}&{query}")
        rows += page["sessions"]
        cursor = page["next_cursor"]
    return rows


async def test_pages_of_links_show_each_link_once() -> None:
    async with with_three_sessions() as (port, _clients):
        _, page = await port.ask("/links?limit=2")
        _, rest = await port.ask(f"/links?cursor={page['next_cursor']}")
        assert [row["id"] for row in (*page["links"], *rest["links"])] == ["smooth-1", "smooth-2", "smooth-3"]
        assert rest["next_cursor"] is None


async def test_the_next_page_of_links_does_not_begin_again_if_the_last_client_of_a_page_left() -> None:
    async with with_three_sessions() as (port, clients):
        _, page = await port.ask("/links?limit=2")
        await clients[1].socket.close()
        async with asyncio.timeout(DEADLINE):
            while (await port.ask("/links"))[1]["total"] == 3:
                pass
        _, rest = await port.ask(f"/links?cursor={page['next_cursor']}")
        assert [row["id"] for row in rest["links"]] == ["smooth-3"]


async def test_a_closed_session_is_gone_and_the_others_stay() -> None:
    async with with_three_sessions() as (port, _clients):
        _, before = await port.ask("/sessions")
        closed = before["sessions"][0]["id"]
        status, _, _ = await port.ask_raw(f"/sessions/{closed}", "DELETE")
        assert status == 204
        _, after = await port.ask("/sessions")
        assert [row["id"] for row in after["sessions"]] == [row["id"] for row in before["sessions"][1:]]
        assert (await port.ask(f"/sessions/{closed}", "DELETE"))[0] == 404


async def test_the_one_session_of_a_backend_cannot_be_closed(tmp_path: Path) -> None:
    async with talking(tmp_path) as (port, _client, session):
        status, body = await port.ask(f"/sessions/{session}", "DELETE")
        assert (status, body["detail"]) == (409, "the backend is one session, and cannot be closed")


async def test_detaching_disconnects_the_clients_of_a_session_and_keeps_it(tmp_path: Path) -> None:
    async with talking(tmp_path) as (port, _client, session):
        with capture_logs() as lines:
            assert await port.ask(f"/sessions/{session}/detach", "POST") == (200, {"detached": 1})
        (line,) = [line for line in lines if line.get("action") == "detach"]
        assert (line["principal"], line["session"], line["clients"]) == ("operator", session, 1)
        async with asyncio.timeout(DEADLINE):
            while (await port.ask("/links"))[1]["total"]:
                pass
        assert (await port.ask(f"/sessions/{session}"))[1]["links"] == []


WRONG = (
    *("/sessions?limit=0", "/links?limit=x", "/losses?limit=1001", "/links?limit=%D9%A3", "/sessions?colour=red"),
    *("/sessions?state=asleep", "/sessions?sort=colour", "/losses?sort=colour", "/links?limit=1&limit=2"),
    *("/sessions?status=idle", "/readyz?bogus"),
)


async def test_a_wrong_parameter_is_refused() -> None:
    async with operated() as port:
        for path in WRONG:
            status, body = await port.ask(path)
            assert (status, body["status"]) == (400, 400), path


async def test_a_route_shows_the_connections_to_its_backend(tmp_path: Path) -> None:
    async with talking(tmp_path) as (port, _client, _session):
        (row,) = (await port.ask("/routes"))[1]["routes"]
        assert (row["name"], row["sessions"], row["connected"], row["fault"]) == ("test", 1, 1, "")


async def test_losses_are_those_of_the_ledger_the_largest_first() -> None:
    async with operated() as port:
        port.app.ledger.record([Loss(kind="Small")], session="a")
        port.app.ledger.record([Loss(kind="Large", count=7)], session="b")
        _, body = await port.ask("/losses")
        assert [row["kind"] for row in body["losses"]] == ["Large", "Small"]
        assert [row["kind"] for row in (await port.ask("/losses?session=a"))[1]["losses"]] == ["Small"]
        assert [row["kind"] for row in (await port.ask("/losses?kind=Large"))[1]["losses"]] == ["Large"]
        assert [row["kind"] for row in (await port.ask("/losses?sort=count"))[1]["losses"]] == ["Small", "Large"]


async def test_pages_of_losses_show_each_row_once() -> None:
    async with operated() as port:
        for number in range(3):
            port.app.ledger.record([Loss(kind=f"Kind{number}")])
        _, first = await port.ask("/losses?limit=2&sort=kind")
        _, rest = await port.ask(f"/losses?limit=2&sort=kind&cursor={first['next_cursor']}")
        assert [row["kind"] for row in (*first["losses"], *rest["losses"])] == ["Kind0", "Kind1", "Kind2"]
        assert rest["next_cursor"] is None


async def test_the_configuration_is_shown_without_its_secrets() -> None:
    ops = Ops(listen="http://127.0.0.1:0", tokens=("0123456789-a-secret-one",))
    route = Route(name="test", listen=(), upstream=parse("smooth+ws://127.0.0.1:1/ws?token=hidden-from-all"))
    async with operated(ops=ops, app=App(Config(routes=(route,), ops=ops))) as port:
        _, text, _ = await port.ask_raw("/config", headers={"Authorization": f"Bearer {ops.tokens[0]}"})
        assert "drain_deadline" in text
        assert "secret-one" not in text
        assert "hidden-from-all" not in text


async def test_the_level_of_a_component_can_be_changed_and_given_back() -> None:
    async with operated() as port:
        answer = await port.ask("/log-level", "PUT", json={"level": "warning", "components": {"link": "debug"}})
        assert answer == (200, {"level": "warning", "components": {"link": "debug"}})
        assert logs.LEVEL.passes("dragoman.link", "debug")
        assert not logs.LEVEL.passes("dragoman.session", "info")
        answer = await port.ask("/log-level", "PUT", json={"components": {"link": None}})
        assert answer == (200, {"level": "warning", "components": {}})
        assert await port.ask("/log-level") == answer


async def test_a_wrong_log_level_is_refused() -> None:
    async with operated() as port:
        for body in ("", "{", '{"level": "loud"}', '{"components": {"nobody": "info"}}', '{"colour": 1}', "\xff"):
            assert (await port.ask("/log-level", "PUT", data=body.encode("latin-1")))[0] == 400, body


async def test_the_error_for_an_unknown_log_level_names_the_levels() -> None:
    async with operated() as port:
        _, answer = await port.ask("/log-level", "PUT", json={"level": "loud"})
    assert "the levels are debug, info, warning, error" in answer["detail"]


async def test_a_too_large_body_is_refused() -> None:
    async with operated() as port:
        assert (await port.ask("/log-level", "PUT", data=b" " * 20_000))[0] == 413


async def test_a_refused_reload_shows_beside_the_generation_in_force() -> None:
    async with operated() as port:
        status = port.app.config_status
        port.app.note_config(structs.replace(status, generation=3, refused_at=1_000_000_000, cause="line 4"))
        _, body = await port.ask("/config")
        assert (body["generation"], body["refusal"], body["refused_at"]) == (
            3,
            "line 4",
            "1970-01-01T00:00:01.000+00:00",
        )


PAGE = (Path(__file__).parents[3] / "docs/operations.md").read_text("utf-8")
REQUEST = re.compile(r"`(GET|PUT|POST|DELETE) (/[\w./-]+)\??([^`]*)`")
Operations = dict[tuple[str, str], set[str]]


def documented() -> Operations:
    """Return the method and path of each request in docs/operations.md, with its parameters."""
    found: Operations = {}
    for method, path, query in REQUEST.findall(PAGE):
        names = {name.rstrip("=") for name in query.split("&") if name}
        found.setdefault((method.lower(), path.replace("/ID", "/{id}")), set()).update(names)
    return found


def described(document: dict[str, Any]) -> Operations:
    """Return the method and path of each request in an OpenAPI document, with its parameters."""
    return {
        (method, path): {row["name"] for row in one.get("parameters", ()) if row["in"] == "query"}
        for path, methods in document["paths"].items()
        for method, one in methods.items()
    }


async def test_each_operation_is_served_and_each_answer_has_its_described_form() -> None:
    async with operated() as port:
        _, document = await port.ask("/openapi.json")
        assert described(document) == documented(), "docs/operations.md has not the requests that the port answers"
        for method, path in documented():
            status, text, _ = await port.ask_raw(path.replace("{id}", "none"), method.upper())
            assert "there is nothing at" not in text
            assert status != 405
        for path in ("/livez", "/readyz", "/sessions", "/links", "/routes", "/losses", "/config", "/log-level"):
            status, body = await port.ask(path)
            content = document["paths"][path]["get"]["responses"][str(status)]["content"]
            check(body, content["application/json"]["schema"], document)


async def test_the_parameters_of_a_list_are_described_with_their_types() -> None:
    async with operated() as port:
        _, document = await port.ask("/openapi.json")
        schemas = {row["name"]: row["schema"] for row in document["paths"]["/sessions"]["get"]["parameters"]}
        assert schemas["limit"] == {"type": "integer", "minimum": 1, "maximum": 1000, "default": 100}
        assert set(schemas["state"]["enum"]) == {"", "idle", "paused", "running"}


async def test_the_limits_of_the_cursor_of_losses_are_described() -> None:
    async with operated() as port:
        _, document = await port.ask("/openapi.json")
        assert "a row may be missing on a page, or be on two" in document["paths"]["/losses"]["get"]["description"]


def check(body: Any, schema: dict[str, Any], document: dict[str, Any]) -> None:
    jsonschema.Draft202012Validator({**schema, "components": document["components"]}).validate(body)
