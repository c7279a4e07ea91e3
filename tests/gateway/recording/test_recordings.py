"""Recording as users run it: through a gateway on real sockets, and as a program."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from msgspec import structs

from dragoman.adapters.meter import STEP, Meter
from dragoman.gateway.app import App
from dragoman.gateway.config.check import check
from dragoman.gateway.config.model import Auth, Config, Limits, Recording, Route
from dragoman.gateway.demo.backend import demo_backend
from dragoman.gateway.endpoint import parse
from dragoman.gateway.observability.ledger import Ledger
from dragoman.gateway.overload.memory import MemoryBudget
from dragoman.gateway.recording.reader import Reader, open_recording
from dragoman.gateway.recording.recordings import FLUSH, Recordings, secrets_of
from dragoman.mappings.canonical.commands import OpenSession, SubmitInput
from dragoman.mappings.canonical.events import MessageAppended, TextDelta, TurnAccepted, TurnEnded
from dragoman.mappings.errors import ConfigError
from tests.forked_program import dragoman
from tests.gateway.in_memory import ManualClock
from tests.gateway.recording.lines import commands_of, frames_of
from tests.gateway.recording.recorded_session import RecorderHarness, default_redactor
from tests.gateway.recording.redaction.corpus import SHAPES
from tests.pairs.gateway import SmoothClient, serving

SECRET = SHAPES["github_token"]
DEMO_PANDO = "pando+tcp://127.0.0.1:0?rpc=0"
LIMITS = Limits(drain_deadline=0.5, backoff_first=0.05, backoff_max=0.2)


@asynccontextmanager
async def recorded(
    folder: Path, recording: Recording | None, backend: str = "pod+unix:{folder}/backend.sock", *, record: bool = True
) -> AsyncIterator[tuple[App, str]]:
    """Run a demo backend and a recording gateway; both have ended when the block is left."""
    async with serving(demo_backend(parse(backend.format(folder=folder)))) as (upstream,):
        listen = (parse("smooth+ws://127.0.0.1:0/ws"),)
        route = Route(name="test", listen=listen, upstream=parse(upstream), record=record)
        app = App(Config(routes=(route,), limits=LIMITS, recording=recording))
        async with serving(app) as (endpoint,):
            yield app, endpoint.partition("+")[2]


def only(folder: Path) -> Reader:
    (path,) = folder.glob("*.jsonl*")
    return open_recording(path)


async def test_a_secret_of_the_gateway_itself_is_never_recorded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tokens = {"alice": "correct-horse-battery", "bob": "staple-of-the-day"}
    monkeypatch.setenv("BACKEND_TOKEN", "a-token-of-the-backend")
    monkeypatch.setenv("WIKI_PASSWORD", "what-the-child-knows")
    recording = Recording(path=str(tmp_path / "rec"), compress=False)
    async with recorded(tmp_path, recording) as (app, url):
        (route,) = app.config.routes
        upstream = structs.replace(route.upstream, options=(("token", "env:BACKEND_TOKEN"),))
        route = structs.replace(route, failover=(upstream,), env=("WIKI_PASSWORD", "MODE=development-mode"))
        changed = structs.replace(app.config, auth=Auth(tokens=tokens), routes=(route,))
        await app.change_config(changed)
        async with SmoothClient.connected(f"{url}?token={tokens['alice']}") as client:
            known = (*tokens.values(), "a-token-of-the-backend", "what-the-child-knows", "development-mode")
            await client.turn(f"count 1 {' '.join(known)}")
    (path,) = (tmp_path / "rec").glob("*.jsonl")
    text = path.read_text()
    assert "[redacted:known_secret:" in text
    assert " development-mode" in text
    assert [secret for secret in (*tokens.values(), "a-token", "what-the-child") if secret in text] == []


def test_a_pipe_with_a_secret_is_left_for_the_connection_that_needs_it(tmp_path: Path) -> None:
    read, write = os.pipe()
    os.write(write, b"a-token-of-the-backend")
    os.close(write)
    (tmp_path / "token").write_text("another-token-of-it\n")
    endpoints = [
        parse(f"smooth+ws://localhost:1/?token=file:{path}") for path in (f"/dev/fd/{read}", tmp_path / "token")
    ]
    config = Config(routes=tuple(Route(name="", listen=(), upstream=one) for one in endpoints), inherit_env=False)
    assert [*filter(None, secrets_of(config))] == ["another-token-of-it"]
    assert endpoints[0].secret("token") == "a-token-of-the-backend"
    os.close(read)


async def test_a_recording_is_the_conversation(tmp_path: Path) -> None:
    folder = tmp_path / "rec"
    async with (
        recorded(tmp_path, Recording(path=str(folder), compress=False)) as (_, url),
        SmoothClient.connected(url) as client,
    ):
        await client.turn("count 40")
        session = client.session
    recording = only(folder)
    assert recording.header.route == "test"
    assert recording.header.dialects == {"smooth": "", "pod": ""}
    commands = commands_of(recording)
    assert isinstance(commands[0], OpenSession)
    assert isinstance(commands[1], SubmitInput)
    assert commands[1].session == session
    positions = [line.position for line in recording.events()]
    assert positions == [(1, seq) for seq in range(len(positions))]  # each once, in order, nothing left out
    events = [line.event for line in recording.events()]
    accepted = next(e for e in events if isinstance(e, TurnAccepted))
    assert accepted.request == commands[1].request
    ended = [e for e in events if isinstance(e, TurnEnded)]
    assert len(ended) == 1
    assert ended[0].text == "".join(e.text for e in events if isinstance(e, TextDelta))
    assert any(isinstance(e, MessageAppended) and e.message.text == "count 40" for e in events)


async def test_a_file_gets_the_first_session_with_an_input(tmp_path: Path) -> None:
    """The first client opens a session without an input; that session is recorded beside the file."""
    out = tmp_path / "out.jsonl"
    backend = "smooth+ws://127.0.0.1:0/ws"
    async with (
        recorded(tmp_path, Recording(path=str(out), compress=False), backend) as (_, url),
        SmoothClient.connected(url),
        SmoothClient.connected(url) as client,
    ):
        await client.turn("count 40")
    inputs = {
        path.name: [command for command in commands_of(open_recording(path)) if isinstance(command, SubmitInput)]
        for path in tmp_path.glob("*.jsonl")
    }
    assert {name: len(commands) for name, commands in inputs.items()} == {"out.jsonl": 1, "out-2.jsonl": 0}


async def test_heartbeats_of_a_pando_do_not_take_the_name_of_a_file(tmp_path: Path) -> None:
    out = tmp_path / "out.jsonl"
    async with recorded(tmp_path, Recording(path=str(out), compress=False, links="all"), DEMO_PANDO) as (_, url):
        async with SmoothClient.connected(url):
            pass
        async with SmoothClient.connected(url) as client:
            await client.turn("count 40")
    assert any(isinstance(line.event, TurnEnded) for line in open_recording(out).events())
    assert open_recording(tmp_path / "out-route.jsonl").header.session == ""


async def test_every_frame_of_the_backend_and_of_the_clients_turn_is_recorded(tmp_path: Path) -> None:
    folder = tmp_path / "rec"
    async with (
        recorded(tmp_path, Recording(path=str(folder), compress=False)) as (_, url),
        SmoothClient.connected(url) as client,
    ):
        await client.turn("count 40")
        frames = list(client.frames)
    recording = only(folder)
    sent = [
        json.loads(line.text or "") for line in frames_of(recording) if line.dir == "send" and line.dialect == "smooth"
    ]
    assert sent[: len(frames)] == frames
    up = [json.loads(line.text or "") for line in frames_of(recording) if line.upstream and line.dir == "receive"]
    assert [message["event"] for message in up][:2] == ["snapshot", "user_message"]
    assert sum(message["event"] == "text_delta" for message in up) == 40
    times = [line.t for line in recording.lines()]
    assert times == sorted(times)


@pytest.mark.parametrize("upstream", ["smooth+ws://127.0.0.1:0/ws", "pod+unix:{folder}/pod"])
async def test_the_header_has_the_id_that_a_client_shows(tmp_path: Path, upstream: str) -> None:
    folder = tmp_path / "rec"
    async with (
        recorded(tmp_path, Recording(path=str(folder), compress=False), upstream.format(folder=tmp_path)) as (_, url),
        SmoothClient.connected(url) as client,
    ):
        await client.turn("count 40")
        session = client.session
    header = only(folder).header
    assert session in header.shown_as
    assert header.session not in header.shown_as


async def test_each_session_has_a_file_which_is_compressed_at_the_end(tmp_path: Path) -> None:
    folder = tmp_path / "rec"
    async with (
        recorded(tmp_path, Recording(path=str(folder)), "smooth+ws://127.0.0.1:0/ws") as (_, url),
        SmoothClient.connected(url) as one,
        SmoothClient.connected(url) as other,
    ):
        await one.turn("count 40")
        await other.turn("count 40")
        await one.turn("count 40")
    paths = list(folder.iterdir())
    assert len(paths) == 2
    assert all(path.suffix == ".zst" for path in paths)
    ends = [sum(isinstance(line.event, TurnEnded) for line in open_recording(path).events()) for path in paths]
    assert sorted(ends) == [1, 2]


async def test_a_route_with_record_false_is_not_recorded(tmp_path: Path) -> None:
    folder = tmp_path / "rec"
    async with (
        recorded(tmp_path, Recording(path=str(folder)), record=False) as (_, url),
        SmoothClient.connected(url) as client,
    ):
        await client.turn("count 40")
    assert not folder.exists()


async def test_with_an_unusable_disk_traffic_goes_on_and_failures_are_counted(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    async with recorded(tmp_path, Recording(path=f"{tmp_path}/file/rec/")) as (app, url):
        async with SmoothClient.connected(url) as client:
            await client.turn("count 40")
            await client.turn("count 40")
            assert len(client.terminals()) == 2
        async with asyncio.timeout(10):
            while not app.ledger.counters["recordings_failed"]:
                await turn_of_the_loop()
    assert app.ledger.counters["recording_items_lost"] > 80


async def turn_of_the_loop() -> None:
    await asyncio.sleep(0.001)


def test_a_gateway_does_not_begin_where_its_recording_would_overwrite_something(tmp_path: Path) -> None:
    (tmp_path / "out.jsonl").touch()
    route = Route(name="r", listen=(parse("smooth+ws://127.0.0.1:0/ws"),), upstream=parse("pod+unix:/x"))
    with pytest.raises(ConfigError, match="not overwritten"):
        App(Config(routes=(route,), recording=Recording(path=f"{tmp_path}/out.jsonl")))


CONFIG = """
[[route]]
listen = ["smooth+ws://127.0.0.1:0/ws"]
upstream = "pod+unix:/tmp/x/sock"

[recording]
path = "{path}"
{more}
"""


def problems(folder: Path, path: str, more: str = "") -> list[str]:
    file = folder / "config.toml"
    file.write_text(CONFIG.format(path=path, more=more))
    return [str(problem).removeprefix(f"{file}:") for problem in check(file).problems]


def test_a_valid_recording_section_has_no_problem(tmp_path: Path) -> None:
    assert problems(tmp_path, f"{tmp_path}/rec", "keep_count = 3\nkeep_age = 1.5\nkeep_bytes = 4096") == []


@pytest.mark.parametrize(
    ("path", "more", "problem"),
    [
        ("{0}/config.toml", "", "7: recording.path: {0}/config.toml exists already"),
        (f"{{0}}/{'n' * 300}", "", f"7: recording.path: {{0}}/{'n' * 300}: File name too long: name another place"),
        ("{0}/new.jsonl", "keep_count = 3", "8: recording.keep_count: {0}/new.jsonl is a file"),
        ("{0}", "keep_count = 0", "8: recording.keep_count: expected a whole number >= 1, got 0"),
        ("{0}", 'links = "some"', "8: recording.links: 'some' is not one of turn, all"),
    ],
)
def test_an_invalid_recording_section_is_reported_with_its_line(
    tmp_path: Path, path: str, more: str, problem: str
) -> None:
    (said,) = problems(tmp_path, path.format(tmp_path), more)
    assert said.startswith(problem.format(tmp_path))


def bridged(tmp_path: Path, *options: str) -> tuple[Reader, str]:
    """Return the recording of a client that sends a secret to `bridge`, and the output of `bridge`."""
    gateway = subprocess.Popen(
        [
            sys.executable,
            "-m",
            "dragoman",
            "bridge",
            "smooth+ws://127.0.0.1:0/ws",
            f"pod+unix:{tmp_path}/none",
            "--record",
            f"{tmp_path}/out.jsonl",
            *options,
        ],
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONUNBUFFERED": "1"},
    )
    assert gateway.stderr is not None
    told = [""]
    while not told[-1].startswith("listening"):
        told.append(gateway.stderr.readline())
    asyncio.run(_one_client(told[-1].removeprefix("listening smooth+").strip()))
    gateway.terminate()
    assert gateway.wait(20) == 0
    gateway.stderr.close()
    return open_recording(tmp_path / "out.jsonl"), "".join(told)


@pytest.mark.parametrize(("options", "redacts"), [((), True), (("--no-redact",), False)])
def test_bridge_records_into_a_file_until_it_is_stopped(
    tmp_path: Path, options: tuple[str, ...], redacts: bool
) -> None:
    recording, told = bridged(tmp_path, *options)
    commands = commands_of(recording)
    assert isinstance(commands[0], OpenSession)
    assert isinstance(commands[1], SubmitInput)
    assert (SECRET in recording.path.read_text()) is not redacts
    assert ("RECORDINGS WILL CONTAIN SECRETS" in told) is not redacts


async def _one_client(url: str) -> None:
    async with SmoothClient.connected(url) as client:
        await client.say(f"the key is {SECRET}")
        await client.until(lambda: bool(client.terminals()))


@pytest.mark.parametrize(
    ("options", "error"),
    [
        (["--no-redact"], "--no-redact needs --record"),
        (["--record", ""], "recordings need a place: name a folder, or a new file"),
    ],
)
def test_a_bridge_is_refused_whose_options_for_recordings_cannot_be_followed(options: list[str], error: str) -> None:
    done = dragoman("bridge", "smooth+ws://127.0.0.1:0/ws", "pod+unix:/tmp/none", *options)
    assert (done.returncode, done.stderr) == (2, f"error: {error}\n")


# -- bytes that wait for a thread count as memory, and are dropped when it is short ----------------


class Queue(SimpleNamespace):
    """A thread's queue of so many bytes; stands for a writer and for a worker."""

    backlog = 0

    def flush(self) -> None:
        """Write nothing: the test sets the backlog."""

    def discard(self) -> None:
        self.backlog = 0


class Backlog:
    """Recordings whose writer and worker hold as many bytes as a test says, and their timer."""

    def __init__(self, limit: int) -> None:
        self.memory, self.writer, self.worker, self.time = MemoryBudget(limit), Queue(), Queue(), ManualClock()
        queues = cast("Any", self.writer), cast("Any", self.worker)
        self.recordings = Recordings(*queues, Ledger(), self.memory, self.time.later, redactor=default_redactor)

    def flush(self) -> None:
        self.recordings.wants_flush(lambda: 0, FLUSH)
        self.time.passes(FLUSH)


def test_bytes_that_wait_for_a_thread_count_as_memory_until_they_are_written() -> None:
    backlog = Backlog(100 * STEP)
    before = backlog.memory.used
    backlog.writer.backlog, backlog.worker.backlog = 3 * STEP, 2 * STEP
    backlog.flush()
    assert backlog.memory.used - before == 5 * STEP
    backlog.writer.backlog = backlog.worker.backlog = 0
    backlog.time.passes(FLUSH)  # they are counted again without a further flush
    assert backlog.memory.used == before


def test_the_backlog_is_dropped_at_the_limit_and_a_smaller_holder_is_kept() -> None:
    backlog = Backlog(10 * STEP)
    client, cut = Meter(), list[str]()
    backlog.memory.watch(client, lambda: cut.append("client"))
    client.add(3 * STEP)
    backlog.writer.backlog, backlog.worker.backlog = 5 * STEP, 4 * STEP
    backlog.flush()
    assert (backlog.writer.backlog, backlog.worker.backlog, cut) == (0, 0, [])


async def test_closed_recordings_count_nothing() -> None:
    harness = RecorderHarness()
    harness.disk.backlog = 3 * STEP
    flush(harness)
    assert harness.memory.used > 3 * STEP
    await harness.recordings.close()
    assert harness.memory.used == 0


def flush(harness: RecorderHarness) -> None:
    """Flush this recording at once, as much text does, and then all that wait for the shared timer."""
    harness.recorder.flush()
    harness.recordings.wants_flush(lambda: 0, FLUSH)
    harness.passes(0.05)


def test_text_that_redaction_holds_back_counts_as_memory_until_it_is_written() -> None:
    harness = RecorderHarness()
    before = harness.memory.used
    harness.happens(TextDelta(text="word " * (STEP // 2)))
    flush(harness)
    assert harness.memory.used - before > STEP
    harness.happens(TurnEnded(end="completed"))
    flush(harness)
    assert harness.memory.used == before


def test_text_that_redaction_holds_back_is_dropped_and_counted_when_memory_is_short() -> None:
    harness = RecorderHarness()
    harness.memory.change_limit(2 * STEP)
    harness.happens(TextDelta(text="word " * (STEP // 2)))
    flush(harness)
    assert harness.memory.relieved == 1
    assert harness.memory.used <= 2 * STEP
    assert harness.ledger.counters["recording_items_lost"] == 1
