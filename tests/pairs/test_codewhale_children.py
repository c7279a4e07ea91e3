"""A gateway that spawns codewhales, and one that a codewhale client has spawned: which processes live, which
end.

The children are programs with an inner server of their own, as the real ones have; none of them is ever left.
"""

from __future__ import annotations

import asyncio
import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

import pytest

from dragoman.gateway.app import App
from dragoman.gateway.config.check import load
from dragoman.gateway.config.model import Config, Limits, Route
from dragoman.gateway.demo.backend import demo_backend
from dragoman.gateway.endpoint import parse
from tests.adapters.stdio.programs import DEADLINE, marker, running, unreaped
from tests.awaited import until
from tests.pairs.codewhale_child import child
from tests.pairs.codewhale_client import CodewhaleClient
from tests.pairs.gateway import SmoothClient, serving
from tests.pairs.pod_client import PodClient
from tests.pairs.recorded import LIMITS

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="/proc tells who runs")

INVALID = -32603


@pytest.fixture
def mark() -> Iterator[str]:
    made = marker()
    yield made
    assert running(made) == []
    assert unreaped() == []


# -- spawned by its client ---------------------------------------------------------------------------


class Spawned:
    """A gateway `dragoman bridge codewhale+stdio: UPSTREAM` as a child of the test, with blocking pipes as scripts use
    them.
    """

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self.process = process
        self._number = 0

    def send(self, method: str, **params: Any) -> None:
        assert self.process.stdin is not None
        self._number += 1
        line = {"jsonrpc": "2.0", "id": self._number, "method": method, "params": params}
        os.write(self.process.stdin.fileno(), json.dumps(line).encode() + b"\n")

    def answer(self) -> dict[str, Any]:
        """Return the answer to the last request, skipping the lines before it."""
        assert self.process.stdout is not None
        while line := self.process.stdout.readline():
            told: dict[str, Any] = json.loads(line)
            if told.get("id") == self._number:
                return told
        raise AssertionError("it ended")

    def begin(self) -> str:
        """Begin a thread and a turn in it; return its id."""
        self.send("thread/start")
        thread = str(self.answer()["result"]["thread_id"])
        self.send("thread/message", thread_id=thread, input="hello")
        assert self.answer()["result"]["status"] == "accepted"
        return thread


IMPATIENT = "tests.pairs.impatient_gateway"
"""The program for children that end neither at EOF nor at SIGTERM."""


def argv(upstream: str, program: str = "dragoman") -> list[str]:
    return [sys.executable, "-m", program, "bridge", "codewhale+stdio:", upstream]


@contextmanager
def spawned(upstream: str, program: str = "dragoman") -> Iterator[Spawned]:
    pipe = subprocess.PIPE
    with subprocess.Popen(argv(upstream, program), stdin=pipe, stdout=pipe, stderr=pipe, bufsize=0) as process:
        try:
            yield Spawned(process)
        finally:
            process.kill()


def test_a_restarted_gateway_lists_and_continues_the_threads_of_the_one_before(mark: str, tmp_path: Path) -> None:
    with spawned(child(mark, tmp_path)) as gateway:
        thread = gateway.begin()
        gateway.process.send_signal(signal.SIGTERM)
        assert gateway.process.wait(DEADLINE) == 0
    with spawned(child(mark, tmp_path)) as gateway:
        gateway.send("thread/list")
        assert [row["id"] for row in gateway.answer()["result"]["threads"]] == [thread]
        gateway.send("thread/message", thread_id=thread, input="hello again")
        assert gateway.answer()["result"]["status"] == "accepted"
        gateway.send("thread/list")
        assert [row["id"] for row in gateway.answer()["result"]["threads"]] == [thread], "it is listed once"
        gateway.process.send_signal(signal.SIGTERM)
        assert gateway.process.wait(DEADLINE) == 0


@pytest.mark.parametrize(
    ("number", "manners", "program"), [(signal.SIGTERM, "deaf", IMPATIENT), (signal.SIGINT, "orderly", "dragoman")]
)
def test_no_child_outlives_a_gateway_that_gets_sigterm(
    mark: str, tmp_path: Path, number: signal.Signals, manners: str, program: str
) -> None:
    with spawned(child(mark, tmp_path, manners), program) as gateway:
        gateway.begin()
        asyncio.run(until(lambda: len(running(mark)) == 2))  # the child and its inner server
        gateway.process.send_signal(number)
        assert gateway.process.wait(DEADLINE) == 0


def test_no_child_outlives_the_end_of_our_stdin(mark: str, tmp_path: Path) -> None:
    with spawned(child(mark, tmp_path)) as gateway:
        gateway.begin()
        assert gateway.process.stdin is not None
        gateway.process.stdin.close()
        assert gateway.process.wait(DEADLINE) == 0


def test_no_child_outlives_a_client_that_leaves_during_a_turn(mark: str, tmp_path: Path) -> None:
    with spawned(child(mark, tmp_path, "deaf"), IMPATIENT) as gateway:
        thread = gateway.begin()
        gateway.send("thread/message", thread_id=thread, input="mute")
        assert gateway.process.stdin is not None
        assert gateway.process.stdout is not None
        gateway.process.stdin.close()
        gateway.process.stdout.close()
        assert gateway.process.wait(DEADLINE) == 0


def test_no_child_outlives_a_client_that_stops_reading_and_keeps_our_stdin_open(mark: str, tmp_path: Path) -> None:
    with spawned(child(mark, tmp_path, "deaf"), IMPATIENT) as gateway:
        gateway.begin()
        assert gateway.process.stdout is not None
        gateway.process.stdout.close()
        gateway.send("healthz")
        assert gateway.process.wait(DEADLINE) == 0


def test_no_grandchild_outlives_a_child_that_crashes(mark: str, tmp_path: Path) -> None:
    with spawned(child(mark, tmp_path, "deaf"), IMPATIENT) as gateway:
        thread = gateway.begin()
        gateway.send("thread/message", thread_id=thread, input="crash")
        error = gateway.answer()["error"]
        assert error["code"] == INVALID
        assert "lost" in error["message"]
        gateway.send("shutdown")
        assert gateway.answer()["result"] == {"ok": True, "status": "stopped"}
        assert gateway.process.wait(DEADLINE) == 0


@pytest.mark.parametrize("manners", ["orderly", "deaf"])
def test_a_gateway_killed_during_a_turn_leaves_no_child_and_no_inner_server(
    mark: str, tmp_path: Path, manners: str
) -> None:
    with spawned(child(mark, tmp_path, manners)) as gateway:
        thread = gateway.begin()
        gateway.send("thread/message", thread_id=thread, input="wait a while")
        assert gateway.process.stdout is not None
        while b"while" not in gateway.process.stdout.readline():  # it streams, and waits for an interrupt
            pass
        gateway.process.kill()
        assert gateway.process.wait(DEADLINE) == -signal.SIGKILL
        asyncio.run(until(lambda: running(mark) == []))


def test_invalid_utf8_ends_the_program_like_a_real_server(mark: str, tmp_path: Path) -> None:
    """The error is fatal, with one line on stderr and status 1 (docs/dialects/codewhale.md, section 1)."""
    done = subprocess.run(
        argv(child(mark, tmp_path)), input=b'{"id":1,"method":"healthz"}\n\xff\n', capture_output=True, check=False
    )
    assert done.returncode == 1
    assert [json.loads(line)["id"] for line in done.stdout.splitlines()] == [1]
    assert b"error: stream did not contain valid UTF-8" in done.stderr.splitlines()


def test_a_script_that_pipes_its_requests_gets_every_answer_and_the_whole_turn(mark: str, tmp_path: Path) -> None:
    """At EOF pending requests are answered, then the process ends with 0 (docs/dialects/codewhale.md, section 1)."""
    with spawned(child(mark, tmp_path)) as gateway:
        thread = gateway.begin()
        lines = [
            {"id": "a", "method": "thread/message", "params": {"thread_id": thread, "input": "one two"}},
            {"id": "b", "method": "healthz"},
        ]
        told, _ = gateway.process.communicate("".join(json.dumps(line) + "\n" for line in lines).encode(), DEADLINE)
        assert gateway.process.returncode == 0
        rows = [json.loads(line) for line in told.splitlines()]
        assert "".join(row.get("delta", "") for row in rows) == "one two "
        assert [row["id"] for row in rows if "id" in row] == ["a", "b"]
        assert b'"result":{"status":"ok"' in told, "a client may grep for compact substrings"


async def test_a_client_that_can_only_spawn_a_program_joins_a_running_gateway(tmp_path: Path) -> None:
    listen = (parse(f"codewhale+unix:{tmp_path}/front"), parse("smooth+ws://127.0.0.1:0/ws"))
    backend = demo_backend(parse(f"pod+unix:{tmp_path}/pod"))
    route = Route(name="shared", listen=listen, upstream=parse(f"pod+unix:{tmp_path}/pod"))
    async with (
        serving(backend),
        serving(App(Config(routes=(route,), limits=LIMITS))) as (front, other),
        CodewhaleClient.spawned(argv(front)) as codewhale,
        SmoothClient.connected(other.partition("+")[2]) as smooth,
    ):
        answer = await codewhale.answer(await codewhale.say("retry"))
        assert answer["result"]["status"] == "accepted"
        assert codewhale.text() == "The second try worked."
        asked = {"action": "get_conversation_messages", "sessionId": smooth.session}
        messages = (await smooth.ask(asked))["data"]["messages"]
        assert [m["content"]["text"] for m in messages] == ["The second try worked.", "retry"], "one session"


# -- as a parent -------------------------------------------------------------------------------------


@asynccontextmanager
async def parent(upstream: str, folder: Path, limits: Limits = LIMITS) -> AsyncIterator[list[str]]:
    """Run a gateway in this process that spawns children; yield its codewhale and pod listeners without their
    dialects.
    """
    (folder / "atlas").mkdir()
    listen = (parse(f"codewhale+unix:{folder}/front"), parse(f"pod+unix:{folder}/atlas/sock"))
    route = Route(name="parent", listen=listen, upstream=parse(upstream))
    async with serving(App(Config(routes=(route,), limits=limits))) as endpoints:
        yield [endpoint.partition(":")[2] for endpoint in endpoints]


async def test_a_restarted_child_continues_and_every_client_learns_of_the_lost_context(
    mark: str, tmp_path: Path
) -> None:
    async with (
        parent(child(mark, tmp_path), tmp_path) as (front, pod_front),
        PodClient.connected(pod_front) as pod,
    ):
        await pod.turn("hello")
        (thread,) = [path.name for path in (tmp_path / "threads").iterdir()]
        async with CodewhaleClient.connected(front, thread) as codewhale:
            crashed = await codewhale.answer(await codewhale.say("crash"))
            assert crashed["error"]["code"] == INVALID
            again = await codewhale.answer(await codewhale.say("again"))
            assert codewhale.text() == "again "
            errors = [frame["message"] for frame in again["result"]["events"] if frame["event"] == "error"]
            await pod.until(lambda: pod.joined("text_delta").endswith("again "))
            alerts = [data["message"] for name, data in pod.events if name == "alert"]
            assert [path.name for path in (tmp_path / "threads").iterdir()] == [thread], "the thread went on"
            assert any("knows nothing of what was said before" in text for text in [*errors, *alerts])
            assert any("knows nothing of what was said before" in text for text in alerts)


async def test_a_child_that_dies_at_its_start_is_reported_to_the_client_and_the_gateway_keeps_running(
    mark: str, tmp_path: Path
) -> None:
    async with (
        parent(child(mark, tmp_path, "dies"), tmp_path) as (front, _),
        CodewhaleClient.connected(front, "") as client,
    ):
        for _ in range(2):
            error = (await client.ask("thread/start"))["error"]
            assert error["code"] == INVALID
            assert "no configuration" in error["message"], "its last words"
        assert (await client.call("healthz"))["status"] == "ok"


FEW = Limits(children=3, drain_deadline=0.5, backoff_first=0.05)


async def test_threads_that_were_used_keep_their_children_and_further_ones_are_refused(
    mark: str, tmp_path: Path
) -> None:
    async with (
        parent(child(mark, tmp_path), tmp_path, FEW) as (front, _),
        CodewhaleClient.connected(front, "") as client,
    ):
        for _ in range(FEW.children):
            await begin(client)
            assert "result" in await client.answer(await client.say("hello"))
        refused = [(await client.ask("thread/start"))["error"] for _ in range(5)]
        assert all(error["code"] == INVALID and "`children` in `[limits]`" in error["message"] for error in refused)
        await until(lambda: len(running(mark)) == FEW.children * 2)
        assert "result" in await client.answer(await client.say("still here"))


async def test_a_thread_in_which_nothing_was_said_lends_its_child_to_a_further_one(mark: str, tmp_path: Path) -> None:
    async with (
        parent(child(mark, tmp_path), tmp_path, FEW) as (front, _),
        CodewhaleClient.connected(front, "") as client,
    ):
        first, *_ = [await begin(client) for _ in range(FEW.children * 3)]
        await until(lambda: len(running(mark)) == FEW.children * 2)
        client.thread = first
        answer = await client.answer(await client.say("hello"))
        assert (answer["result"]["events"], client.text()) == ([], "hello "), "no context was lost"


async def test_threads_of_a_server_that_stores_them_take_turns_with_the_children(mark: str, tmp_path: Path) -> None:
    async with (
        parent(child(mark, tmp_path, "guest"), tmp_path, FEW) as (front, _),
        CodewhaleClient.connected(front, "") as client,
    ):
        threads = []
        for _ in range(FEW.children * 3):
            threads.append(await begin(client))
            await client.answer(await client.say("hello"))
        for client.thread in threads:
            answer = await client.answer(await client.say("hello again"))
            assert answer["result"]["events"] == [], "no context was lost"
        await until(lambda: len(running(mark)) == FEW.children * 2)


async def test_a_child_with_an_open_turn_is_not_ended_for_another_session(mark: str, tmp_path: Path) -> None:
    async with (
        parent(child(mark, tmp_path, "guest"), tmp_path, FEW) as (front, _),
        CodewhaleClient.connected(front) as busy,
        CodewhaleClient.connected(front, "") as client,
    ):
        turn = await busy.say("wait here")
        await busy.until(lambda: busy.text() == "wait here ")
        for _ in range(FEW.children):
            await begin(client)
            assert "result" in await client.answer(await client.say("hello"))
        await busy.call("thread/interrupt", thread_id=busy.thread)
        assert (await busy.answer(turn))["error"]["message"] == "turn interrupted"


async def begin(client: CodewhaleClient) -> str:
    """Begin a thread, in which the client speaks from now on; return its id."""
    client.thread = (await client.call("thread/start"))["thread_id"]
    return client.thread


async def test_a_flood_on_stderr_delays_no_client(mark: str, tmp_path: Path) -> None:
    async with (
        parent(child(mark, tmp_path), tmp_path) as (front, _),
        CodewhaleClient.connected(front) as client,
    ):
        assert "result" in await client.answer(await client.say("flood"))


async def test_requests_about_no_session_use_one_more_child(mark: str, tmp_path: Path) -> None:
    async with (
        parent(child(mark, tmp_path), tmp_path) as (front, _),
        CodewhaleClient.connected(front) as client,
    ):
        first, second = [(await client.call("app/models"))["data"]["models"] for _ in range(2)]
        assert first == second, "the same process"
        await until(lambda: len(running(mark)) == 2 * 2)


async def test_a_child_has_the_folder_the_variables_and_the_limits_that_its_route_in_a_file_says(
    mark: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NAMED_BY_THE_ROUTE", "named")
    monkeypatch.setenv("OF_THE_GATEWAY_ALONE", "secret")
    (tmp_path / "config.toml").write_text(
        f"""
        [[route]]
        listen = ["codewhale+unix:{tmp_path}/front"]
        upstream = "{child(mark, tmp_path)} -- ?cwd={tmp_path}"
        env = ["NAMED_BY_THE_ROUTE", "SET_BY_THE_ROUTE=set"]
        rlimits = {{ nofile = 77 }}
        """
    )
    async with (
        serving(App(load(tmp_path / "config.toml"))) as (endpoint, *_),
        CodewhaleClient.connected(endpoint.partition(":")[2]) as client,
    ):
        assert "result" in await client.answer(await client.say("hello"))
        process = Path(f"/proc/{running(mark)[0]}")
        variables = process.joinpath("environ").read_text().split("\0")
        assert {"NAMED_BY_THE_ROUTE=named", "SET_BY_THE_ROUTE=set"} <= {*variables}
        assert not any(variable.startswith("OF_THE_GATEWAY_ALONE") for variable in variables)
        assert re.search(r"Max open files +77 +77", process.joinpath("limits").read_text())
        assert process.joinpath("cwd").resolve() == tmp_path
