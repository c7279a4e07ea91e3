"""A change of the routes while clients are connected: only changed parts are touched, and a failure changes nothing."""

from __future__ import annotations

import asyncio
import json
import socket
import threading
from collections.abc import AsyncIterator, Coroutine, Iterator
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from msgspec import structs

from dragoman.adapters.listening import ARRIVING
from dragoman.gateway.app import App
from dragoman.gateway.config.model import Auth, Config, Limits, Route
from dragoman.gateway.endpoint import parse
from dragoman.gateway.reload import ConfigReloader
from dragoman.gateway.routes import NOT_SERVED
from dragoman.gateway.session.ports import BackendEvents
from dragoman.mappings.canonical.events import StatusChanged, TextDelta, TurnAccepted, TurnResult
from tests.gateway.played_backend import PlayedBackend, PodClients, route_of, running
from tests.idle import settle
from tests.pairs.gateway import DEADLINE, serving
from tests.pairs.pando_client import PandoClient
from tests.reserved_ports import reserved_port

LIMITS = Limits(drain_deadline=0.05)


@pytest.fixture
async def clients(tmp_path: Path) -> AsyncIterator[PodClients]:
    clients = PodClients(tmp_path)
    yield clients
    clients.close()


def config_of(*routes: Route) -> Config:
    return Config(routes=routes, limits=LIMITS)


async def rounds(work: Coroutine[Any, Any, None]) -> int:
    """Return how many rounds of the event loop this work takes."""
    count = 0
    async with asyncio.TaskGroup() as group:
        task = group.create_task(work, name="work")
        while not task.done():
            await asyncio.sleep(0)
            count += 1
    return count


async def test_ten_listeners_close_in_as_few_rounds_of_the_event_loop_as_one(tmp_path: Path) -> None:
    taken = []
    for number in (1, 10):
        async with running(config_of(route_of(tmp_path, "a", *map(str, range(number))))) as (app, _, _):
            taken.append(await rounds(app._routes.stop_accepting()))
            assert await rounds(app._routes.stop_accepting()) < ARRIVING, "they are closed already"
    assert taken[1] == taken[0]


async def test_a_client_of_an_unchanged_listener_stays_connected(tmp_path: Path, clients: PodClients) -> None:
    route = route_of(tmp_path, "a", "s")
    async with running(config_of(route)) as (app, played, told):
        reader = await clients.connect("s")
        inode = (tmp_path / "s").stat().st_ino
        await app.change_config(config_of(structs.replace(route, overflow="disconnect")))
        played[0].sends(TextDelta(text="still here"))
        assert b"still here" in await reader.readuntil(b"here")
        assert (tmp_path / "s").stat().st_ino == inode
        assert len(told) == 1


@pytest.mark.parametrize("by", ["a reload", "itself"])
@pytest.mark.parametrize("loss", ["removed", "replaced"])
async def test_a_listener_whose_file_is_gone_is_opened_again_and_its_clients_stay(
    tmp_path: Path, clients: PodClients, loss: str, by: str
) -> None:
    route = route_of(tmp_path, "a", "s")
    async with running(config_of(route)) as (app, played, _):
        reader = await clients.connect("s")
        assert app.unreachable_listeners == []
        (tmp_path / "s").unlink()
        if loss == "replaced":
            with socket.socket(socket.AF_UNIX) as other:
                other.bind(str(tmp_path / "s"))
        assert app.unreachable_listeners == [f"pod+unix:{tmp_path}/s"]
        await (app.reopen_listeners() if by == "itself" else app.change_config(config_of(route)))
        assert app.unreachable_listeners == []
        await clients.connect("s")
        played[0].sends(TextDelta(text="still here"))
        assert b"still here" in await reader.readuntil(b"here")
    assert not (tmp_path / "s").exists()


async def test_a_socket_that_another_process_has_taken_over_is_left_to_it(tmp_path: Path) -> None:
    route = route_of(tmp_path, "a", "s")
    async with running(config_of(route)) as (app, *_):
        (tmp_path / "s").unlink()
        with socket.socket(socket.AF_UNIX) as other:
            other.bind(str(tmp_path / "s"))
            other.listen()
            with pytest.raises(OSError, match="another process listens here"):
                await app.change_config(config_of(route))
            assert (tmp_path / "s").exists()
            assert app.unreachable_listeners == [f"pod+unix:{tmp_path}/s"]
            (cause,) = await app.reopen_listeners()
            assert "another process listens here" in cause
            assert app.unreachable_listeners == [f"pod+unix:{tmp_path}/s"]
            (tmp_path / "s").unlink()
        assert await app.reopen_listeners() == []
        assert app.unreachable_listeners == []


async def test_a_new_session_gets_the_new_options_and_an_open_one_keeps_its_own(
    tmp_path: Path, clients: PodClients
) -> None:
    route = route_of(tmp_path, "a", "s", "t", upstream="smooth+ws://played:1/ws")  # a session for each listener
    async with running(config_of(route)) as (app, *_):
        await clients.connect("s")
        changed = structs.replace(route, overflow="disconnect")
        await app.change_config(Config(routes=(changed,), limits=Limits(session_ttl=7.0, drain_deadline=0.05)))
        await clients.connect("t")
        before, after = sorted(app.routers[0].sessions, key=lambda session: session.state.opened_at)
        assert (before._route.overflow, after._route.overflow) == ("coalesce", "disconnect")
        assert (before._services.limits.session_ttl, after._services.limits.session_ttl) == (3600.0, 7.0)


async def test_a_new_session_and_a_new_client_get_the_new_limits_of_their_route(
    tmp_path: Path, clients: PodClients
) -> None:
    route = route_of(tmp_path, "a", "s", "t", upstream="smooth+ws://played:1/ws")
    limits = Limits(session_ttl=7.0, drain_deadline=0.05)
    async with running(Config(routes=(structs.replace(route, limits={"session_ttl": 8.0}),), limits=limits)) as (
        app,
        *_,
    ):
        await clients.connect("s")
        changed = structs.replace(route, limits={"session_ttl": 9.0, "outbox_soft": 2048})
        await app.change_config(Config(routes=(changed,), limits=limits))
        await clients.connect("t")
        before, after = sorted(app.routers[0].sessions, key=lambda session: session.state.opened_at)
        assert (before._services.limits.session_ttl, after._services.limits.session_ttl) == (8.0, 9.0)
        assert [link.outbox._soft for link in app.links] == [Limits().outbox_soft, 2048]


async def test_the_limits_of_the_whole_gateway_change(tmp_path: Path) -> None:
    route = route_of(tmp_path, "a", "s")
    async with running(config_of(route)) as (app, *_):
        limits = structs.replace(LIMITS, memory=1 << 20, children=3, links=7)
        await app.change_config(Config(routes=(route,), limits=limits))
        assert (app.memory.limit, app.children.most, app._clients.admission._limits.links) == (1 << 20, 3, 7)


async def test_an_added_route_is_served_and_a_removed_one_is_not(tmp_path: Path, clients: PodClients) -> None:
    async with running(config_of(route_of(tmp_path, "a", "s"))) as (app, played, told):
        reader = await clients.connect("s")
        await app.change_config(config_of(route_of(tmp_path, "b", "t")))
        assert b"GOING_AWAY" not in await reader.read()  # the connection ends
        assert not (tmp_path / "s").exists()
        await settle()
        assert played[0].stopped
        await clients.connect("t")
        assert told[-1] == f"pod+unix:{tmp_path}/t"


async def test_the_backend_of_a_removed_route_is_forgotten(tmp_path: Path) -> None:
    app = App(config_of(route_of(tmp_path, "a", "s"), route_of(tmp_path, "b", "t")))
    async with serving(app):
        await app.ready.wait()
        await app.change_config(config_of(route_of(tmp_path, "b", "t", upstream="pod+unix:/other")))
        await settle()
        assert list(app.upstreams.statuses) == ["b"]


async def test_after_a_refused_reload_the_status_is_that_of_the_backend_in_use(tmp_path: Path) -> None:
    app = App(config_of(route_of(tmp_path, "a", "s")))
    async with serving(app):
        await app.ready.wait()
        status = app.upstreams.statuses["a"]
        (tmp_path / "taken").mkdir()
        with pytest.raises(OSError, match="taken"):
            await app.change_config(config_of(route_of(tmp_path, "a", "s", "taken", upstream="pod+unix:/other")))
        assert app.upstreams.statuses["a"] is status


async def test_the_backend_of_a_route_is_forgotten_if_a_later_route_cannot_be_made(tmp_path: Path) -> None:
    first, second = route_of(tmp_path, "a", "s"), route_of(tmp_path, "b", "t")
    missing = route_of(tmp_path, "c", "u", upstream=f"replay+file:{tmp_path}/none.jsonl")
    app = App(config_of(first))
    async with serving(app):
        await app.ready.wait()
        with pytest.raises(OSError, match="none"):
            await app.change_config(config_of(first, second, missing))
        assert list(app.upstreams.statuses) == ["a"]


async def test_a_removed_route_lets_an_open_turn_finish(tmp_path: Path, clients: PodClients) -> None:
    patient = Limits(drain_deadline=DEADLINE)
    async with running(config_of(route_of(tmp_path, "a", "s"))) as (app, played, _):
        reader = await clients.connect("s")
        played[0].sends(TurnAccepted(request="1"), TextDelta(text="half"))
        assert b"half" in await reader.readuntil(b"half")
        await app.change_config(Config(routes=(route_of(tmp_path, "b", "t"),), limits=patient))
        await settle()
        assert not played[0].stopped
        played[0].sends(TextDelta(text="whole"))
        assert b"whole" in await reader.readuntil(b"whole")
        await app.change_config(config_of(route_of(tmp_path, "b", "t")))  # so that the test does not wait


async def test_a_client_of_a_removed_route_is_told_that_its_turn_failed(tmp_path: Path, clients: PodClients) -> None:
    async with running(config_of(route_of(tmp_path, "a", "s"))) as (app, played, _):
        reader = await clients.connect("s")
        played[0].sends(TurnAccepted(request="1"), TextDelta(text="half"))
        await app.change_config(config_of(route_of(tmp_path, "b", "t")))
        *_, error, status, shutdown = map(json.loads, (await reader.read()).splitlines())
        assert (error["event"], error["data"]["message"]) == ("error", NOT_SERVED)
        assert (status, shutdown["event"]) == ({"event": "status", "data": {"status": "idle"}}, "shutdown")
        await settle()
        assert played[0].stopped


async def test_a_session_stays_with_the_backend_that_a_reload_takes_from_its_route(
    tmp_path: Path, clients: PodClients
) -> None:
    route = route_of(tmp_path, "a", "s")
    async with running(config_of(route)) as (app, played, _):
        older = await clients.connect("s")
        await app.change_config(config_of(structs.replace(route, upstream=parse("pod+unix:/other"))))
        newer = await clients.connect("s")
        assert len(played) == 2
        for backend, reader, text in ((played[0], older, b"old"), (played[1], newer, b"new")):
            backend.sends(TextDelta(text=text.decode()))
            assert text in await reader.readuntil(text)


@pytest.mark.parametrize("by", ["a reload", "another route"])
async def test_a_further_router_of_a_backend_knows_the_owners_of_its_sessions(
    tmp_path: Path, clients: PodClients, by: str
) -> None:
    route = route_of(tmp_path, "a", "s", upstream="smooth+ws://played:1/ws?agent=a")
    route = structs.replace(route, share="owner", authenticated=True)
    async with running(config_of(route)) as (app, *_):
        await clients.connect("s")
        (former,) = app.routers
        (session,) = former.sessions
        changed = structs.replace(route, record=False)
        other = route_of(tmp_path, "b", "t", upstream="smooth+ws://played:1/ws?agent=b")
        await app.change_config(config_of(changed) if by == "a reload" else config_of(route, other))
        (further,) = (router for router in app.routers if router is not former)
        assert session.state.owner.startswith("uid:")
        assert further._all.past.owner_of(session.state.id) == session.state.owner


async def test_the_router_of_a_former_backend_stops_once_its_clients_have_left(
    tmp_path: Path, clients: PodClients
) -> None:
    route = route_of(tmp_path, "a", "s")
    async with running(config_of(route)) as (app, played, _):
        await clients.connect("s")
        await app.change_config(config_of(structs.replace(route, upstream=parse("pod+unix:/other"))))
        assert len(app.routers) == 2
        clients.close()
        await app._clients.wait_until_gone(app.routers[1])
        await settle()
        assert len(app.routers) == 1
        assert played[0].stopped


async def test_a_port_that_cannot_be_bound_changes_nothing(tmp_path: Path, clients: PodClients) -> None:
    route = route_of(tmp_path, "a", "s")
    with socket.create_server(("127.0.0.1", 0)) as taken:
        full = parse(f"smooth+ws://127.0.0.1:{taken.getsockname()[1]}/ws")
        changed = structs.replace(route, overflow="disconnect", listen=(parse(f"pod+unix:{tmp_path}/t"), full))
        async with running(config_of(route)) as (app, played, told):
            reader = await clients.connect("s")
            with pytest.raises(OSError, match="in use"):
                await app.change_config(config_of(changed))
            assert app.config.routes == (route,)
            assert len(told) == 1
            assert not (tmp_path / "t").exists()
            played[0].sends(TextDelta(text="still here"))
            assert b"still here" in await reader.readuntil(b"here")
            await clients.connect("s")


async def test_a_listener_with_other_options_is_opened_again_at_its_place(tmp_path: Path, clients: PodClients) -> None:
    route = route_of(tmp_path, "a", "s")
    changed = structs.replace(route, listen=(parse(f"pod+unix:{tmp_path}/s?session=new"),))
    async with running(config_of(route)) as (app, _, told):
        await clients.connect("s")
        await app.change_config(config_of(changed))
        await clients.connect("s")
        assert len(told) == 2


@pytest.fixture
def pando(tmp_path: Path) -> Iterator[str]:
    """The address of a pando listener."""
    with reserved_port(1) as port:
        yield f"tcp://127.0.0.1:{port}"


@pytest.mark.parametrize("change", [{"upstream": parse("pod+unix:/other")}, {"name": "b"}], ids=["upstream", "name"])
async def test_a_pando_listener_is_opened_again_for_another_backend(pando: str, change: dict[str, Any]) -> None:
    route = Route(name="a", listen=(parse(f"pando+{pando}"),), upstream=parse("pod+unix:/played"))
    async with running(config_of(route)) as (app, played, told):
        async with PandoClient.connected(pando) as client:
            await app.change_config(config_of(structs.replace(route, **change)))
            assert len(told) == 2
            assert await client.call("instance.ping")
        async with PandoClient.connected(pando) as other:
            assert other.session
        assert played[0].stopped, "the clients of the former backend are gone"


@pytest.mark.parametrize("kept", [False, True], ids=["route removed", "listener removed"])
async def test_a_pando_client_is_told_the_end_of_a_turn_that_a_removed_route_ends(
    pando: str, tmp_path: Path, kept: bool
) -> None:
    route = route_of(tmp_path, "a", "s")
    with_pando = structs.replace(route, listen=(*route.listen, parse(f"pando+{pando}")))
    async with running(config_of(with_pando)) as (app, played, _), PandoClient.connected(pando) as client:
        played[0].sends(TurnAccepted(request="1"), TextDelta(text="half"))
        await app.change_config(config_of(route if kept else route_of(tmp_path, "b", "t")))
        await client.until(lambda: client.told[-1][0] == "instance.shutdown")
        assert ("llm.end" in client.topics()) is not kept


async def test_a_pando_listener_that_was_closed_can_be_opened_again(pando: str, tmp_path: Path) -> None:
    route = route_of(tmp_path, "a", "s")
    with_pando = structs.replace(route, listen=(*route.listen, parse(f"pando+{pando}")))
    async with running(config_of(with_pando)) as (app, *_):
        async with PandoClient.connected(pando):
            await app.change_config(config_of(route))
        await app.change_config(config_of(with_pando))
        async with PandoClient.connected(pando) as client:
            assert await client.call("instance.ping")


async def test_a_listener_moves_to_another_route_without_closing(tmp_path: Path) -> None:
    moving, other = parse("smooth+ws://127.0.0.1:0/ws"), parse(f"pod+unix:{tmp_path}/s")
    first = Route(name="a", listen=(moving, other), upstream=parse("pod+unix:/played"))
    second = structs.replace(first, name="b", listen=(moving,))
    async with running(config_of(first)) as (app, _, told), aiohttp.ClientSession() as http:
        await app.change_config(config_of(structs.replace(first, listen=(other,)), second))
        assert len(told) == 2  # none was opened
        async with http.ws_connect(told[0].removeprefix("smooth+")):
            (link,) = app.links
            assert link in app._clients.links_of(app.routers[1])


async def test_a_reload_that_the_stop_of_the_app_overtakes_opens_no_listener(tmp_path: Path) -> None:
    asked, answered = threading.Event(), threading.Event()
    app = App(config_of(route_of(tmp_path, "a", "1")), make_backend=PlayedBackend)  # type: ignore[arg-type]  # none is made

    def read() -> Config:
        asked.set()
        assert answered.wait(DEADLINE)
        return config_of(route_of(tmp_path, "a", "1", "2"))

    told: list[str] = []
    reloader = ConfigReloader(app, read)
    async with asyncio.timeout(DEADLINE), asyncio.TaskGroup() as group:
        serving = group.create_task(app.run(told.append, reloader.run))
        reloader.request()
        await asyncio.to_thread(asked.wait, DEADLINE)
        app.stop.set()
        await serving
        answered.set()
    await settle()
    assert told == [f"pod+unix:{tmp_path}/1"]
    assert list(tmp_path.iterdir()) == []


async def test_a_reload_that_is_requested_while_the_app_drains_is_not_done(tmp_path: Path, clients: PodClients) -> None:
    played: list[PlayedBackend] = []

    def make(session: BackendEvents) -> PlayedBackend:
        played.append(PlayedBackend(session))  # type: ignore[arg-type]  # the test asks nothing else of it
        return played[-1]

    route = route_of(tmp_path, "a", "1")
    app = App(Config(routes=(route,), limits=Limits(drain_deadline=DEADLINE)), make_backend=make)
    reloader = ConfigReloader(app, lambda: config_of(structs.replace(route, name="b")))
    async with asyncio.timeout(DEADLINE), asyncio.TaskGroup() as group:
        group.create_task(app.run(meanwhile=reloader.run))
        await app.ready.wait()
        await clients.connect("1")
        played[0].sends(TurnAccepted(request="1"), TextDelta(text="half"))
        app.stop.set()
        await settle()
        reloader.request()
        await settle()
        assert app.config_status.generation == 1
        played[0].sends(TurnResult(end="completed"), StatusChanged(status="idle"))


async def test_a_token_that_a_reload_takes_away_is_refused(tmp_path: Path) -> None:
    listen = (parse("smooth+ws://127.0.0.1:0/ws"),)
    route = Route(name="a", listen=listen, upstream=parse("pod+unix:/played"), authenticated=True)
    limits = Limits(auth_delay=0.001)
    config = Config(routes=(route,), limits=limits, auth=Auth(tokens={"a": "token-of-a-client"}))
    headers = {"Authorization": "Bearer token-of-a-client"}
    async with running(config) as (app, _, told), aiohttp.ClientSession() as http:
        url = told[0].removeprefix("smooth+")
        async with http.ws_connect(url, headers=headers):
            pass
        await app.change_config(structs.replace(config, auth=Auth(tokens={"a": "another-token"})))
        with pytest.raises(aiohttp.WSServerHandshakeError, match="401"):
            await http.ws_connect(url, headers=headers)
