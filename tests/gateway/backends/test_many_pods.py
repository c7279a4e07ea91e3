"""The number of system calls of an open, a look-up and a list in a directory of 5,000 pods."""

from __future__ import annotations

import asyncio
import os
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from contextlib import asynccontextmanager
from functools import partial
from io import BytesIO
from itertools import count
from pathlib import Path
from stat import S_IFSOCK
from threading import current_thread, main_thread
from types import SimpleNamespace
from typing import Any, TypeVar

import msgspec
import pytest

from dragoman.adapters.base import CloseReason
from dragoman.adapters.meter import Meter
from dragoman.gateway import registry
from dragoman.gateway.backends.pods import AT_ONCE, PodsKind
from dragoman.gateway.config.model import Route
from dragoman.gateway.endpoint import parse
from dragoman.gateway.ingress import LATEST, Ingress
from dragoman.gateway.pods import live
from dragoman.gateway.pods.index import NEWEST, SLICE
from dragoman.gateway.pods.live import Pod, Pods
from dragoman.gateway.routing.ids import session_id
from dragoman.gateway.routing.policy import Refused
from dragoman.gateway.routing.session_commands import SessionCommands
from dragoman.gateway.routing.sessions import Sessions
from dragoman.gateway.session.session import Session
from dragoman.mappings.canonical import Command
from dragoman.mappings.canonical.commands import GetSession, ListSessions, OpenSession, SubmitInput
from dragoman.mappings.canonical.events import SessionsListed
from dragoman.mappings.canonical.values import SessionSummary, Text
from tests.gateway.in_memory import ManualClock
from tests.gateway.listed import page_of
from tests.services import services

MANY, FEW = 5000, 200
DEADLINE = 20.0
T = TypeVar("T")


def link(name: str = "a") -> Any:
    ended: list[CloseReason] = []
    smooth = registry.dialect("smooth")
    fields = {"principal": "ann", "id": name, "alive": True, "dialect": smooth, "ended": ended, "end": ended.append}
    return SimpleNamespace(**fields, ingress=Ingress(), attaches=True, tap=None, meter=Meter())


LINK = link()


class CountedPods(Pods):
    """Pods that count how often a thread asks whether some of them are alive."""

    probes = 0

    def probe(self, names: Iterable[str], *, wanted: int = 1, idle: bool = False) -> list[Pod]:
        self.probes += 1
        return super().probe(names, wanted=wanted, idle=idle)


class ManyPods:
    """A directory of pods that counts system calls. It is also the backend of each session, and counts its starts."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch, group: asyncio.TaskGroup) -> None:
        self.folder, self.calls, self.dead = folder, Counter[str](), set[str]()
        self.many = MANY
        self.modified: dict[str, int] = {}  # times of the folders that have changed
        self.unbound: set[str] = set()  # folders without a socket
        self.status: dict[str, bytes] = {}
        self.on_the_loop: list[str] = []
        files = {"open": self._open, "read": lambda file, _size: file.getvalue(), "close": lambda file: file.close()}
        monkeypatch.setattr(live, "os", SimpleNamespace(stat=self._stat, listdir=self._listdir, **files))
        upstream = parse(f"pod+dir:{folder}")
        self.time = ManualClock()
        self.sessions = Sessions(
            Route(name="test", listen=(), upstream=upstream),
            services(self.time, group=group),
            registry.upstream(upstream),
            lambda _link: None,
            None,
        )
        self.pods = CountedPods(upstream, self._is_alive, clock=lambda: 1 << 62)
        self.kind = PodsKind(self.sessions, lambda _session, _endpoint: self, self.pods)
        self.lists = SessionCommands(self.sessions, self.kind)

    def _count(self, call: str) -> None:
        self.calls[call] += 1
        if current_thread() is main_thread():
            self.on_the_loop.append(call)

    def _stat(self, path: str) -> Any:
        if path == str(self.folder):
            self._count("stat directory")
            return os.stat(path)
        self._count("stat")
        name, file = path.removeprefix(f"{self.folder}/").split("/")
        if name in self.unbound if file == "sock" else file == "status.json" and name not in self.status:
            raise FileNotFoundError
        return SimpleNamespace(st_mtime_ns=self.modified.get(name, 5), st_mode=S_IFSOCK)

    def _listdir(self, path: str) -> list[str]:
        self._count("listdir")
        return [*(f"{number:04}" for number in range(self.many)), *os.listdir(path)]

    def _open(self, path: str, _flags: int) -> Any:
        self._count("open")
        told = self.status.get(Path(path).parent.name)
        if told is None:
            raise FileNotFoundError
        return BytesIO(told)

    def _is_alive(self, path: str) -> bool:
        self._count("connect")
        return Path(path).parent.name not in self.dead

    # -- as the backend of each session ----------------------------------------------------------------

    def start(self) -> None:
        self.calls["start"] += 1

    def send(self, commands: Sequence[Command]) -> None:
        raise AssertionError(f"{commands} were sent")

    def suspend(self) -> bool:
        return False

    def stop(self) -> None:
        pass

    # -- the test --------------------------------------------------------------------------------------

    async def perform(self, command: Command | None, act: Callable[[], T], client: Any = LINK) -> T:
        """Run a client's action as the router does; return its result."""
        done: asyncio.Future[T] = asyncio.get_running_loop().create_future()

        def run() -> None:
            try:
                done.set_result(act())
            except Refused as refused:
                done.set_exception(refused)

        assert self.kind.when_known(client, command, run)
        async with asyncio.timeout(DEADLINE):
            return await done

    async def open(self, client: Any = LINK, **fields: Any) -> str:
        """Open a session as a client; return the name of the pod that it gets."""
        command = OpenSession(**fields)

        def opened() -> str:
            session = self.kind.open_session(client, command)
            assert session is not None
            self.sessions.claim(client, session)
            return session.state.title

        return await self.perform(command, opened, client)

    async def knows(self, name: str) -> bool:
        """Return True if a client that asks for this name finds a session."""
        return await self.perform(GetSession(session=name), lambda: self.sessions.index.find_session(name) is not None)

    async def list(self, **fields: Any) -> SessionsListed:
        """Return a page of the list as a client receives it."""
        rows: list[SessionSummary] = []
        command = ListSessions(**fields)
        await self.perform(command, lambda: self.kind.list_sessions(LINK, command, rows.extend))
        self.calls["rows"] += len(rows)
        return page_of(self.lists, command, rows)

    def free(self, name: str) -> None:
        """Let the owner of a pod's session leave the session."""
        session = self.session(name)
        session.state.owner = ""
        self.sessions.announce(session)

    def id(self, name: str) -> str:
        return session_id("test", f"pod+unix:{self.folder}/{name}/sock")

    def session(self, name: str) -> Session:
        found = self.sessions.index.find_session(self.id(name))
        assert found is not None
        return found


@pytest.fixture
def many_pods(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    @asynccontextmanager
    async def made(many: int = MANY) -> AsyncIterator[ManyPods]:
        async with asyncio.TaskGroup() as group:
            pods = ManyPods(tmp_path, monkeypatch, group)
            pods.many = many
            yield pods

    return made


async def test_each_open_connects_only_to_its_pod_and_stats_the_directory(many_pods: Any) -> None:
    async with many_pods() as pods:
        await pods.open()
        pods.calls.clear()
        assert [await pods.open() for _ in range(100)] == [f"{number:04}" for number in range(1, 101)]
        assert pods.calls == {"connect": 100, "stat directory": 100, "stat": 300, "open": 100}


async def test_opens_at_once_connect_once_each_in_few_threads_and_get_a_pod_each(many_pods: Any) -> None:
    async with many_pods(FEW) as pods:
        names = await asyncio.gather(*(pods.open(link(f"{number}")) for number in range(SLICE + 1)))
        assert names == [f"{number:04}" for number in range(SLICE + 1)]
        assert pods.calls["connect"] == SLICE + 1
        assert pods.pods.probes == 2


async def test_pods_that_were_found_for_refused_clients_are_free_and_asked_again(many_pods: Any) -> None:
    async with many_pods(FEW) as pods:
        await asyncio.gather(*(pods.perform(OpenSession(), lambda: None, link(f"{number}")) for number in range(3)))
        pods.dead.add("0000")
        assert [await pods.open() for _ in range(3)] == ["0001", "0002", "0003"]


async def test_a_pod_that_was_found_free_is_asked_again_for_a_client_that_comes_later(many_pods: Any) -> None:
    async with many_pods(FEW) as pods:
        names: list[str] = []

        def come_later() -> None:  # the queue is never empty
            pods.dead.add("0000")
            found = partial(pods.kind.session_for_listener, "", "")
            pods.kind.when_known(link("b"), OpenSession(), lambda: names.append(found().state.title))

        await pods.perform(OpenSession(), come_later)
        await pods.list()
        assert names == ["0001"]


async def test_actions_that_wait_together_do_not_keep_the_loop_from_other_work(many_pods: Any) -> None:
    steps = count()

    async def work() -> None:
        while True:
            next(steps)
            await asyncio.sleep(0)

    async with many_pods(FEW) as pods, asyncio.TaskGroup() as group:
        other = group.create_task(work())
        opens = (pods.perform(OpenSession(), lambda: next(steps)) for _ in range(3 * AT_ONCE))
        performed = await asyncio.gather(*opens)
        other.cancel()
        assert all(later - earlier > AT_ONCE for earlier, later in zip(performed, performed[AT_ONCE:], strict=False))


async def test_a_pod_that_ends_while_its_client_waits_is_passed_over(many_pods: Any, tmp_path: Path) -> None:
    for name in ("atlas", "borealis", "ceres"):
        (tmp_path / name).mkdir()
    async with many_pods(0) as pods:
        ends = pods.perform(OpenSession(), (tmp_path / "atlas").rmdir)
        _, *names = await asyncio.gather(ends, pods.open(link("b")), pods.open(link("c")))
        assert names == ["borealis", "ceres"]
        assert pods.pods.probes == 1


async def test_only_a_stat_of_the_directory_is_made_on_the_loop(many_pods: Any) -> None:
    async with many_pods(FEW) as pods:
        await pods.open()
        await pods.open(agent="0150")
        await pods.list()
        assert set(pods.on_the_loop) == {"stat directory"}


async def test_a_named_pod_is_the_only_one_that_is_dialled(many_pods: Any) -> None:
    async with many_pods() as pods:
        assert not await pods.knows("nobody")
        pods.calls.clear()
        metadata = msgspec.Raw(b'{"pod":"4321"}')
        named: list[dict[str, Any]] = [{"agent": "4321"}, {"agent": session_id("test", "4321")}, {"metadata": metadata}]
        assert [await pods.open(**fields) for fields in named] == ["4321"] * 3
        assert await pods.knows(pods.id("4999"))
        assert pods.calls == {"connect": 4, "stat directory": 4, "stat": 12, "open": 4}


async def test_an_unknown_name_connects_to_nothing(many_pods: Any) -> None:
    async with many_pods() as pods:
        for number in range(100):
            assert not await pods.knows(f"unknown {number}")
        assert pods.calls == {"stat directory": 101, "listdir": 1}


async def test_dead_pods_are_dialled_once_and_not_with_each_open(many_pods: Any) -> None:
    async with many_pods() as pods:
        pods.dead = {f"{number:04}" for number in range(MANY - 10)}
        assert await pods.open() == f"{MANY - 10:04}"
        assert pods.calls["connect"] == MANY - 9
        for _ in range(9):
            await pods.open()
        assert pods.calls["connect"] == MANY


async def test_a_client_that_finds_none_reads_all_folders_at_most_once_a_second(many_pods: Any) -> None:
    async with many_pods() as pods:
        pods.dead = {f"{number:04}" for number in range(MANY)}
        for _ in range(10):
            with pytest.raises(Refused):
                await pods.open()
        pods.calls.clear()
        for _ in range(10):
            with pytest.raises(Refused):
                await pods.open()
        assert pods.calls == {"stat directory": 10, "stat": 10 * NEWEST}
        pods.time.passes(1)
        pods.calls.clear()
        with pytest.raises(Refused):
            await pods.open()
        assert pods.calls == {"stat directory": 1, "stat": MANY}


async def test_a_pod_that_was_dead_is_found_once_its_folder_has_changed(many_pods: Any) -> None:
    async with many_pods(FEW) as pods:
        pods.dead = {f"{number:04}" for number in range(1, FEW)}
        assert await pods.open() == "0000"
        with pytest.raises(Refused):
            await pods.open()
        pods.dead.discard("0077")
        pods.modified["0077"] = 6
        pods.time.passes(1)
        assert await pods.open() == "0077"


async def test_a_new_pod_whose_socket_comes_after_its_folder_is_found_at_once(many_pods: Any, tmp_path: Path) -> None:
    async with many_pods(FEW) as pods:
        pods.dead, pods.unbound = {f"{number:04}" for number in range(FEW)}, {"zeus"}
        with pytest.raises(Refused):
            await pods.open()
        (tmp_path / "zeus").mkdir()
        with pytest.raises(Refused):
            await pods.open()
        pods.unbound.clear()
        pods.modified["zeus"] = 6
        assert await pods.open() == "zeus"


async def test_a_busy_pod_is_free_once_its_status_has_changed(many_pods: Any) -> None:
    async with many_pods() as pods:
        pods.many, pods.status = 1, {"0000": b'{"state":"running"}'}
        with pytest.raises(Refused, match="no pod is free"):
            await pods.open()
        pods.status, pods.modified = {"0000": b'{"state":"idle"}'}, {"0000": 6}
        assert await pods.open() == "0000"


@pytest.mark.parametrize("is_over", [False, True])
async def test_a_pod_whose_owner_left_or_whose_session_is_over_is_the_first_again(
    many_pods: Any, is_over: bool
) -> None:
    async with many_pods(FEW) as pods:
        for _ in range(3):
            await pods.open()
        if is_over:
            pods.sessions.drop(pods.session("0001"))
        else:
            pods.free("0001")
        assert await pods.open() == "0001"


async def test_a_pod_that_comes_last_is_found_by_its_name(many_pods: Any, tmp_path: Path) -> None:
    async with many_pods(FEW) as pods:
        await pods.open()
        (tmp_path / "zeus").mkdir()
        assert await pods.open(agent="zeus") == "zeus"
        assert pods.calls["listdir"] == 2


async def test_the_latest_pod_is_the_live_one_whose_status_changed_last(many_pods: Any) -> None:
    async with many_pods(FEW) as pods:
        pods.dead, pods.modified = {"0042"}, {"0042": 9, "0043": 8}
        latest = link()
        latest.ingress = Ingress(session=LATEST)
        found = await pods.perform(None, lambda: pods.kind.session_for_listener(LATEST, "ann"), latest)
        assert found.state.title == "0043"
        assert pods.calls["connect"] == 2


async def test_a_list_connects_to_no_pod_and_shows_each(many_pods: Any) -> None:
    async with many_pods(5 * FEW) as pods:
        names: list[str] = []
        cursor: str | None = ""
        while cursor is not None:
            page = await pods.list(cursor=cursor, limit=FEW)
            names += [row.title for row in page.sessions]
            cursor = page.next_cursor
        assert sorted(names) == [f"{number:04}" for number in range(5 * FEW)]
        assert not pods.calls["connect"]
        assert not pods.calls["start"]


async def test_a_page_of_a_list_has_the_rows_of_that_page_alone(many_pods: Any) -> None:
    async with many_pods() as pods:
        pods.modified = {f"{number:04}": 5 + number for number in range(MANY)}
        page = await pods.list(limit=200)
        pods.calls.clear()
        page = await pods.list(limit=200, cursor=page.next_cursor)
        assert [row.title for row in page.sessions] == [f"{number:04}" for number in range(4799, 4599, -1)]
        assert pods.calls["rows"] == 202  # with the one of the cursor, and one that tells of a further page
        assert pods.calls["stat"] == NEWEST


async def test_a_further_list_reads_only_pods_whose_folder_has_changed(many_pods: Any) -> None:
    async with many_pods() as pods:
        await pods.list()
        pods.time.passes(1)
        pods.status, pods.modified = {"0042": b'{"state":"paused","segment_id":"x"}'}, {"0042": 6}
        pods.calls.clear()
        first = (await pods.list()).sessions[0]
        assert (first.title, first.status, first.updated_at, first.messages) == ("0042", "paused", 6, 1)
        assert pods.calls == {"stat directory": 1, "stat": MANY + 3, "open": 1, "rows": 51}


async def test_a_list_has_neither_dead_pods_nor_folders_without_a_socket(many_pods: Any) -> None:
    async with many_pods() as pods:
        pods.many, pods.unbound, pods.dead = 3, {"0000"}, {"0001"}
        assert not await pods.knows(pods.id("0001"))
        assert [row.title for row in (await pods.list()).sessions] == ["0002"]


async def test_a_pod_that_says_that_it_has_no_conversation_counts_no_message(many_pods: Any) -> None:
    async with many_pods() as pods:
        pods.many, pods.status = 2, {"0000": b'{"state":"idle","segment_id":null}'}
        assert {row.title: row.messages for row in (await pods.list()).sessions} == {"0000": 0, "0001": 1}


@pytest.mark.parametrize(("dead", "why"), [(0, "no pod is free"), (1, "no pod is running")])
async def test_the_refusal_of_a_client_says_whether_any_pod_runs(many_pods: Any, dead: int, why: str) -> None:
    async with many_pods() as pods:
        pods.many, pods.dead, pods.status = 1, {"0000"} if dead else set(), {"0000": b'{"state":"running"}'}
        with pytest.raises(Refused, match=why):
            await pods.open()


async def test_the_actions_of_a_client_keep_their_order(many_pods: Any) -> None:
    async with many_pods(FEW) as pods:
        done: list[int] = []
        for number, command in enumerate((OpenSession(), GetSession(), ListSessions(), GetSession())):
            assert pods.kind.when_known(LINK, command, partial(done.append, number))
        await pods.perform(OpenSession(), lambda: None)
        assert done == [0, 1, 2, 3]


async def test_a_client_that_floods_the_queue_is_refused_and_no_other(many_pods: Any) -> None:
    async with many_pods(FEW) as pods:
        flooding = link("b")
        taken = [pods.kind.when_known(flooding, GetSession(session="x"), lambda: None) for _ in range(257)]
        assert taken == [True] * 256 + [False]
        assert await pods.open() == "0000"


async def test_a_command_that_waits_for_a_pod_counts_as_memory_of_its_client(many_pods: Any) -> None:
    async with many_pods(FEW) as pods:
        waiting = link("b")
        command = SubmitInput(session="x", segments=(Text(text="x" * 1000),))
        assert pods.kind.when_known(waiting, command, lambda: None)
        assert waiting.meter.size >= 1000
        await pods.open()
        assert not waiting.meter.size


async def test_a_failure_of_one_client_is_not_that_of_the_next(many_pods: Any) -> None:
    async with many_pods(FEW) as pods:
        failing, logged = link("b"), list[str]()
        failing.log = SimpleNamespace(exception=logged.append)
        assert pods.kind.when_known(failing, OpenSession(), lambda: 1 // 0)
        assert await pods.open() == "0000"
        assert failing.ended == [CloseReason.INTERNAL]
        assert logged == ["cannot find a pod for the client, disconnecting it"]
