"""The demo backend: its scripts, its states, what it says on a real socket, and the demo that joins it to a client."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Callable, Coroutine, Sequence
from contextlib import asynccontextmanager
from importlib.resources import files
from itertools import islice
from pathlib import Path
from typing import Any

import pytest

from gateway.demo.backend import DemoBackend
from gateway.demo.client import QUESTIONS, demo_backend
from gateway.demo.script import COUNT_MAX, Scripts, read
from gateway.endpoint import parse
from mappings.canonical import Command, SessionState
from mappings.canonical import commands as ask
from mappings.canonical import events as say
from mappings.canonical.values import Text
from mappings.dialect import Burst
from mappings.errors import ConfigError

DEADLINE = 20.0  # seconds for anything that a test waits for
BUNDLED = {file.name: file.read_text("utf-8") for file in (files("gateway.demo") / "scripts").iterdir()}

# -- scripts ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", BUNDLED)
def test_a_bundled_script_can_be_read_and_each_turn_ends_once(name: str) -> None:
    turns = read(BUNDLED[name], name)
    assert turns
    for turn in turns:
        assert [type(line.event) for line in turn].count(say.TurnEnded) == 1
        assert isinstance(turn[-1].event, say.TurnEnded)


@pytest.mark.parametrize("name", BUNDLED)
def test_a_bundled_script_says_in_its_done_what_its_deltas_said(name: str) -> None:
    for turn in read(BUNDLED[name], name):
        text = ""
        for line in turn:
            match line.event:
                case say.TextDelta() | say.ReasoningDelta():
                    text += line.event.text
                case say.TextDone() | say.ReasoningDone():
                    assert line.event.text == text
                    text = ""


def test_the_conversation_shows_thinking_a_tool_and_streamed_text() -> None:
    kinds = {type(line.event) for turn in read(BUNDLED["conversation.jsonl"], "x") for line in turn}
    assert kinds >= {say.ReasoningDelta, say.ToolCallStarted, say.ToolCallFinished, say.TextDelta, say.UsageReported}


END = '{"type":"turn_ended","end":"completed"}'


def test_delays_are_milliseconds_and_blank_lines_nothing() -> None:
    (turn,) = read('\n{"type":"text_delta","text":"x","delay_ms":250}\n\n' + END + "\n", "s")
    assert [(line.event, line.delay) for line in turn] == [
        *((say.TextDelta(text="x"), 0.25), (say.TurnEnded(end="completed"), 0.0)),
    ]


@pytest.mark.parametrize(
    ("text", "where"),
    [
        ("nonsense", "s.jsonl:1: "),
        (END + '\n{"type":"text_dance"}', "s.jsonl:2: "),
        ('{"type":"text_delta"}', "s.jsonl:1: "),
        ('{"type":"text_delta","text":"x","delay_ms":"soon"}', "s.jsonl:1: "),
        ("[]", "s.jsonl:1: "),
        (END + '\n{"type":"text_delta","text":"x"}', "s.jsonl: the last turn has no `turn_ended` line"),
    ],
)
def test_a_script_that_is_wrong_is_refused_by_its_line(text: str, where: str) -> None:
    with pytest.raises(ConfigError) as caught:
        read(text, "s.jsonl")
    assert str(caught.value).startswith(where)


def words(scripts: Scripts, text: str) -> str:
    return "".join(line.event.text for line in scripts.turn(text) if isinstance(line.event, say.TextDelta))


def test_any_input_plays_the_next_turn_of_the_conversation_and_then_begins_again() -> None:
    scripts, turns = Scripts(), read(BUNDLED["conversation.jsonl"], "x")
    said = [words(scripts, text) for text in ("hello", "", *("more",) * (len(turns) - 1))]
    assert len(set(said)) == len(turns)
    assert said[-1] == said[0]


@pytest.mark.parametrize("name", sorted(set(BUNDLED) - {"conversation.jsonl"}))
def test_a_script_plays_when_an_input_begins_with_its_name(name: str) -> None:
    word = name.removesuffix(".jsonl")
    scripted = "".join(
        line.event.text for line in read(BUNDLED[name], name)[0] if isinstance(line.event, say.TextDelta)
    )
    assert words(Scripts(), f"{word.upper()} please") == scripted


def test_count_n_gives_n_tokens_and_the_end() -> None:
    start, *tokens, end = (line.event for line in Scripts().turn("count 3"))
    assert start == say.ModelTurnStarted()
    assert [event.text for event in tokens] == ["0 ", "1 ", "2 "]
    assert end == say.TurnEnded(end="completed")


@pytest.mark.parametrize("digits", [str(COUNT_MAX * 1000), "9" * 5000])
def test_count_is_bounded(digits: str) -> None:
    turn = Scripts().turn(f"count {digits}")
    assert sum(1 for _ in turn) == COUNT_MAX + 2


@pytest.mark.parametrize("text", ["count", "count me in", "count -3", "counting 3", "count ²", "count 3.5"])
def test_count_without_a_number_is_the_conversation(text: str) -> None:
    first = read(BUNDLED["conversation.jsonl"], "x")[0]
    assert [line.event for line in islice(Scripts().turn(text), 2)] == [line.event for line in first[:2]]


# -- the backend's states ---------------------------------------------------------------------------


class Stage:
    """A session of the backend that notes what it hears."""

    def __init__(self, group: asyncio.TaskGroup) -> None:
        self._group = group
        self._news = asyncio.Event()
        self.heard: list[Any] = []
        self.backend = DemoBackend(self, self._spawn)

    def _spawn(self, work: Coroutine[Any, Any, None], name: str) -> None:
        self._group.create_task(work, name=name)

    def receive(self, bursts: list[Burst]) -> None:
        self.heard += [item for burst in bursts for item in burst.items]
        self._news.set()

    def connected(self) -> SessionState:
        raise AssertionError("played in process: never connected")

    def lost(self, cause: str, unsent: Sequence[Command]) -> None:
        raise AssertionError(f"played in process: never lost ({cause})")

    async def until(self, condition: Callable[[], bool]) -> None:
        async with asyncio.timeout(DEADLINE):
            while not condition():
                self._news.clear()
                await self._news.wait()

    async def sent(self, *commands: Command) -> list[Any]:
        """Send commands at once; what is heard at once."""
        before = len(self.heard)
        self.backend.send(commands)
        return self.heard[before:]

    def text(self) -> str:
        return "".join(event.text for event in self.heard if isinstance(event, say.TextDelta))

    def statuses(self) -> list[str]:
        return [event.status for event in self.heard if isinstance(event, say.StatusChanged)]

    def results(self) -> list[str]:
        return [event.end for event in self.heard if isinstance(event, say.TurnResult)]


@asynccontextmanager
async def staged() -> AsyncIterator[Stage]:
    async with asyncio.timeout(DEADLINE), asyncio.TaskGroup() as group:
        stage = Stage(group)
        stage.backend.start()
        try:
            yield stage
        finally:
            stage.backend.stop()  # and then its task ends, or the test fails


def run(text: str, request: str = "r") -> ask.SubmitInput:
    return ask.SubmitInput(request=request, segments=(Text(text=text),))


def refusal(items: list[Any]) -> tuple[str, str]:
    (reply,) = items
    assert isinstance(reply, say.Reply)
    assert reply.failure is not None
    return reply.request, reply.failure.cause


async def test_it_introduces_itself_once() -> None:
    async with staged() as stage:
        stage.backend.start()
        (history,) = stage.heard
        assert (history.items, history.status, history.backend.name) == ((), "idle", "demo")


async def test_a_run_is_accepted_at_once_and_ends() -> None:
    async with staged() as stage:
        assert await stage.sent(run("count 700")) == [
            *(say.TurnAccepted(request="r"), say.StatusChanged(status="running")),
        ]
        await stage.until(lambda: isinstance(stage.heard[-1], say.TurnEnded))
        assert stage.text() == "".join(f"{n} " for n in range(700))


async def test_a_second_run_is_busy_until_the_first_ended() -> None:
    async with staged() as stage:
        await stage.sent(run("count 1", "a"))
        assert refusal(await stage.sent(run("count 1", "b"))) == ("b", "busy")
        await stage.until(lambda: isinstance(stage.heard[-1], say.TurnEnded))
        accepted, _ = await stage.sent(run("count 1", "c"))
        assert accepted == say.TurnAccepted(request="c")


@pytest.mark.parametrize("stop", [ask.CancelTurn, ask.PauseTurn])
async def test_a_stop_before_any_output_rolls_back_to_idle(stop: type[ask.CancelTurn | ask.PauseTurn]) -> None:
    async with staged() as stage:
        await stage.sent(run("wait"))
        assert await stage.sent(stop(request="s")) == [say.Reply(request="s")]
        await stage.until(lambda: stage.statuses() == ["running", "idle"])
        assert (stage.results(), stage.text()) == (["rolled_back"], "")


async def test_a_cancel_after_output_ends_cancelled_and_idle() -> None:
    async with staged() as stage:
        await stage.sent(run("slow"))
        await stage.until(lambda: bool(stage.text()))
        await stage.sent(ask.CancelTurn(request="s"))
        await stage.until(lambda: stage.statuses() == ["running", "idle"])
        assert stage.results() == ["cancelled"]
        assert refusal(await stage.sent(ask.ResumeTurn(request="t"))) == ("t", "not_running")


async def test_a_paused_turn_goes_on_where_it_stopped() -> None:
    scripted = [line.event for line in read(BUNDLED["slow.jsonl"], "x")[0]]
    async with staged() as stage:
        await stage.sent(run("slow"))
        for pause in range(1, 4):
            so_far = len(stage.text())
            await stage.until(lambda enough=so_far + 30: len(stage.text()) > enough)  # type: ignore[misc]  # bound now
            await stage.sent(ask.PauseTurn(request="p"))
            await stage.until(lambda count=pause: stage.results() == ["paused"] * count)  # type: ignore[misc]  # as above
            assert stage.statuses()[-1] == "paused"
            assert await stage.sent(ask.ResumeTurn(request="q")) == [
                *(say.Reply(request="q"), say.StatusChanged(status="running")),
            ]
        await stage.sent(ask.CancelTurn(request="s"))
        await stage.until(lambda: stage.statuses()[-1] == "idle")
        said = [event for event in stage.heard if type(event) is say.TextDelta]
        assert said == [event for event in scripted if type(event) is say.TextDelta][: len(said)]


async def test_a_paused_session_takes_a_new_run() -> None:
    async with staged() as stage:
        await stage.sent(run("slow"))
        await stage.until(lambda: bool(stage.text()))
        await stage.sent(ask.PauseTurn())
        await stage.until(lambda: stage.statuses()[-1] == "paused")
        before = len(stage.heard)
        await stage.sent(run("count 2"))
        await stage.until(lambda: isinstance(stage.heard[-1], say.TurnEnded))
        assert [e.text for e in stage.heard[before:] if isinstance(e, say.TextDelta)] == ["0 ", "1 "]


@pytest.mark.parametrize(
    "command", [ask.CancelTurn(request="r"), ask.PauseTurn(request="r"), ask.ResumeTurn(request="r")]
)
async def test_there_is_nothing_to_stop_or_resume_while_idle(command: Command) -> None:
    async with staged() as stage:
        assert refusal(await stage.sent(command)) == ("r", "not_running")


async def test_completions_begin_with_the_prefix() -> None:
    async with staged() as stage:
        (listed,) = await stage.sent(ask.ListCompletions(request="r", kind="file", prefix="no"))
        assert (listed.request, listed.kind, [entry.value for entry in listed.entries]) == ("r", "file", ["notes.md"])


async def test_what_it_does_not_know_is_unsupported() -> None:
    async with staged() as stage:
        assert refusal(await stage.sent(ask.Compact(request="r"))) == ("r", "unsupported")


async def test_a_shutdown_is_answered_and_it_serves_on() -> None:
    async with staged() as stage:
        assert await stage.sent(ask.ShutdownBackend(request="r")) == [say.Reply(request="r")]
        assert len(await stage.sent(run("count 1"))) == 2


async def test_a_failing_script_tells_its_error_before_the_end() -> None:
    async with staged() as stage:
        await stage.sent(run("fail"))
        await stage.until(lambda: isinstance(stage.heard[-1], say.TurnEnded))
        error, end = stage.heard[-2:]
        assert (error.cause, end.end, end.failure.cause) == ("model_failed", "failed", "model_failed")


# -- on a real socket, as a pod ---------------------------------------------------------------------


class Raw:
    """A pod client of nothing but lines."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader, self.writer = reader, writer
        self.lines: list[dict[str, Any]] = []

    def say(self, method: str, **params: Any) -> None:
        self.writer.write(json.dumps({"method": method, **({"params": params} if params else {})}).encode() + b"\n")

    def run(self, text: str) -> None:
        self.say("run", input=[{"kind": "text", "content": text}])

    async def next(self) -> dict[str, Any]:
        async with asyncio.timeout(DEADLINE):
            line = await self._reader.readline()
        assert line.endswith(b"\n"), "the pod hung up"
        self.lines.append(json.loads(line))
        return self.lines[-1]

    async def until(self, event: str, **data: Any) -> list[str]:
        """Read to this event; the names of what was read."""
        names: list[str] = []
        while True:
            line = await self.next()
            names.append(line["event"])
            if line["event"] == event and data.items() <= line.get("data", {}).items():
                return names

    async def hung_up(self) -> bool:
        async with asyncio.timeout(DEADLINE):
            return await self._reader.read() == b""


@asynccontextmanager
async def pod(tmp_path: Path) -> AsyncIterator[Callable[[], Coroutine[Any, Any, Raw]]]:
    """A demo backend on a socket, and what connects a raw client to it."""
    path = tmp_path / "sock"
    app = demo_backend(parse(f"pod+unix:{path}"))
    clients: list[Raw] = []

    async def connect() -> Raw:
        clients.append(Raw(*await asyncio.open_unix_connection(path, limit=1 << 24)))
        return clients[-1]

    ready: asyncio.Queue[str] = asyncio.Queue()
    async with asyncio.TaskGroup() as group:
        group.create_task(app.run(ready.put_nowait), name="demo")
        try:
            await ready.get()
            yield connect
        finally:
            for client in clients:
                client.writer.close()
            app.stop.set()


async def test_a_client_is_shown_an_idle_snapshot_first(tmp_path: Path) -> None:
    async with pod(tmp_path) as connect:
        client = await connect()
        snapshot = await client.next()
        assert (snapshot["event"], snapshot["data"]["status"]) == ("snapshot", "idle")
        assert snapshot["data"]["greeting"]["pod_name"] == "demo"


async def test_a_run_is_told_in_a_pod_s_order(tmp_path: Path) -> None:
    async with pod(tmp_path) as connect:
        client = await connect()
        await client.next()
        client.run("retry")
        names = await client.until("status", status="idle")
        assert names == [
            *("user_message", "status", "turn_start", "llm_call_start", "llm_retry", "text_delta", "text_delta"),
            *("text_done", "usage", "llm_call_end", "turn_end", "run_end", "status"),
        ]
        assert client.lines[1]["data"] == {"segments": [{"kind": "text", "content": "retry"}]}
        assert client.lines[-2]["data"] == {"result": "finished"}


@pytest.mark.parametrize(
    ("word", "said"),
    [("limit", ("run_end", "result", "limit_reached")), ("fail", ("error", "code", "provider_error"))],
)
async def test_the_other_ends_are_told_as_a_pod_does(tmp_path: Path, word: str, said: tuple[str, str, str]) -> None:
    async with pod(tmp_path) as connect:
        client = await connect()
        client.run(word)
        await client.until("status", status="idle")
        event, key, value = said
        assert [line["data"][key] for line in client.lines if line["event"] == event] == [value]
        assert ("run_end" in [line["event"] for line in client.lines]) == (event == "run_end")


async def test_a_second_run_is_refused_to_its_sender_and_the_first_goes_on(tmp_path: Path) -> None:
    async with pod(tmp_path) as connect:
        client = await connect()
        client.run("wait")
        await client.until("status", status="running")
        client.run("more")
        await client.until("error", code="already_running")
        client.say("cancel")
        await client.until("run_end", result="rolled_back")


@pytest.mark.parametrize("line", [b"nonsense", b'{"method":"dance"}', b'{"method":"run"}', b"\xff\xfe", b"[[["])
async def test_a_bad_line_is_answered_and_the_next_one_read(tmp_path: Path, line: bytes) -> None:
    async with pod(tmp_path) as connect:
        client = await connect()
        await client.next()
        client.writer.write(line + b"\n\n \r\n")
        answer = await client.next()
        assert (answer["event"], answer["data"]["code"]) == ("error", "internal")
        assert answer["data"]["message"].startswith("invalid method: ")
        client.run("count 1")
        await client.until("run_end", result="finished")


async def test_a_bad_line_is_answered_to_its_sender_alone(tmp_path: Path) -> None:
    async with pod(tmp_path) as connect:
        good, bad = await connect(), await connect()
        await good.next()
        bad.writer.write(b"nonsense\n")
        await bad.until("error", code="internal")
        good.run("count 1")
        assert "error" not in await good.until("run_end")


async def test_a_client_that_connects_and_drops_disturbs_nobody(tmp_path: Path) -> None:
    async with pod(tmp_path) as connect:
        client = await connect()
        client.run("retry")
        for _ in range(20):
            probe = await connect()
            probe.writer.transport.abort()
        names = await client.until("status", status="idle")
        assert names[-2:] == ["run_end", "status"]


async def test_a_last_line_without_its_newline_is_executed_at_eof(tmp_path: Path) -> None:
    async with pod(tmp_path) as connect:
        watcher, leaver = await connect(), await connect()
        await watcher.next()
        leaver.writer.write(b'{"method":"run","params":{"input":[{"kind":"text","content":"count 1"}]}}')
        leaver.writer.write_eof()
        assert (await watcher.until("user_message"))[-1] == "user_message"
        await watcher.until("run_end", result="finished")


async def test_a_run_of_a_client_that_reads_nothing_and_leaves_is_executed(tmp_path: Path) -> None:
    async with pod(tmp_path) as connect:
        watcher = await connect()
        await watcher.next()
        leaver = await connect()
        leaver.run("count 1")
        leaver.writer.close()
        await watcher.until("run_end", result="finished")


async def test_a_late_client_is_shown_what_was_said(tmp_path: Path) -> None:
    async with pod(tmp_path) as connect:
        first = await connect()
        first.run("count 3")
        await first.until("status", status="idle")
        late = await connect()
        entries = (await late.next())["data"]["entries"]
        assert [entry["kind"] for entry in entries] == ["invoke", "user_input", "assistant_item", "run_completed"]


async def test_a_client_s_shutdown_ends_its_own_connection_alone(tmp_path: Path) -> None:
    async with pod(tmp_path) as connect:
        stays, leaves = await connect(), await connect()
        await stays.next()
        await leaves.next()
        leaves.say("shutdown")
        await leaves.until("shutdown")
        stays.run("count 1")
        await stays.until("run_end", result="finished")


async def test_completions_are_answered_to_their_asker(tmp_path: Path) -> None:
    async with pod(tmp_path) as connect:
        client = await connect()
        client.say("list_completions", kind="file", prefix="")
        await client.until("completions")
        values = [entry["value"] for entry in client.lines[-1]["data"]["entries"]]
        assert values == ["notes.md", "orders.csv"]


async def test_twenty_thousand_tokens_arrive_in_order(tmp_path: Path) -> None:
    async with pod(tmp_path) as connect:
        client = await connect()
        client.run("count 20000")
        await client.until("status", status="idle")
        text = "".join(line["data"]["text"] for line in client.lines if line["event"] == "text_delta")
        assert text == "".join(f"{n} " for n in range(20_000))


# -- the demo ---------------------------------------------------------------------------------------


def test_the_demo_shows_both_turns_and_ends_by_itself_with_exit_0() -> None:
    began = time.monotonic()
    done = subprocess.run(
        [sys.executable, "-m", "gateway", "demo"], capture_output=True, text=True, timeout=30, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert time.monotonic() - began < 15
    for question in QUESTIONS:
        assert question in done.stdout
    unwrapped = done.stdout.replace("\n", "")
    for turn in read(BUNDLED["conversation.jsonl"], "x"):
        for line in turn:
            if isinstance(line.event, say.TextDone):
                assert line.event.text.replace(" ", "") in unwrapped.replace(" ", "")
    assert "lookup_order" in done.stdout
    assert "dragoman bridge smooth+ws://" in done.stdout
