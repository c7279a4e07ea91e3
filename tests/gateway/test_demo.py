"""The demo backend: its scripts, its states, its frames on a real socket, and the demo that joins it to a client."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from collections.abc import AsyncIterator, Coroutine, Sequence
from contextlib import asynccontextmanager
from importlib.resources import files
from itertools import islice
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from dragoman.gateway.cli.demo import QUESTIONS
from dragoman.gateway.demo import script
from dragoman.gateway.demo.backend import DemoBackend, demo_backend
from dragoman.gateway.demo.script import DELAY_MAX, Line, Scripts, load, read
from dragoman.gateway.endpoint import parse
from dragoman.mappings.canonical import Command, SessionState, commands, events
from dragoman.mappings.canonical.values import Cause, Text
from dragoman.mappings.dialect import Burst
from dragoman.mappings.errors import ConfigError
from tests.awaited import Awaited
from tests.pairs.gateway import SmoothClient, serving

DEADLINE = 20.0  # seconds for anything that a test waits for
BUNDLED = {file.name: file.read_text("utf-8") for file in (files("dragoman.gateway.demo") / "scripts").iterdir()}

# -- scripts ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", BUNDLED)
def test_each_turn_of_a_bundled_script_ends_once(name: str) -> None:
    turns = read(BUNDLED[name], name)
    assert turns
    for turn in turns:
        assert [type(line.event) for line in turn].count(events.TurnEnded) == 1
        assert isinstance(turn[-1].event, events.TurnEnded)


@pytest.mark.parametrize("name", BUNDLED)
def test_the_done_text_of_a_bundled_script_equals_its_deltas(name: str) -> None:
    for turn in read(BUNDLED[name], name):
        text = ""
        for line in turn:
            match line.event:
                case events.TextDelta() | events.ReasoningDelta():
                    text += line.event.text
                case events.TextDone() | events.ReasoningDone():
                    assert line.event.text == text
                    text = ""


END = '{"type":"turn_ended","end":"completed"}'


def test_delays_are_milliseconds_and_blank_lines_are_ignored() -> None:
    (turn,) = read('\n{"type":"text_delta","text":"x","delay_ms":250}\n\n' + END + "\n", "s")
    assert [(line.event, line.delay) for line in turn] == [
        *((events.TextDelta(text="x"), 0.25), (events.TurnEnded(end="completed"), 0.0)),
    ]


@pytest.mark.parametrize(
    ("text", "where"),
    [
        ("nonsense", "s.jsonl:1: not JSON: "),
        pytest.param("[" * 100_000, "s.jsonl:1: not JSON: ", id="deep"),
        (END + '\n\n{"type":"text_detla"}', "s.jsonl:3: invalid type 'text_detla'; did you mean 'text_delta'?"),
        ('{"type":"confetti"}', "s.jsonl:1: invalid type 'confetti'; `dragoman schema events` lists the events"),
        ('{"type":"turn_accepted","request":"r"}', "s.jsonl:1: invalid type 'turn_accepted'"),
        ('{"type":"text_delta"}', "s.jsonl:1: Object missing required field `text`"),
        ('{"type":"text_delta","text":3}', "s.jsonl:1: Expected `str`, got `int` - at `$.text`"),
        (
            '{"type":"text_delta","text":"x","dely_ms":3}',
            "s.jsonl:1: text_delta has no 'dely_ms'; did you mean 'delay_ms'?",
        ),
        (
            '{"type":"text_delta","text":"x","delay_ms":"soon"}',
            "s.jsonl:1: delay_ms 'soon': write milliseconds, from 0",
        ),
        ('{"type":"text_delta","text":"x","delay_ms":-1}', "s.jsonl:1: delay_ms -1: write milliseconds, from 0 to"),
        (
            f'{{"type":"text_delta","text":"x","delay_ms":{DELAY_MAX + 1}}}',
            f"s.jsonl:1: delay_ms {DELAY_MAX + 1}: write",
        ),
        (
            '{"type":"text_delta","text":"x","when":"soon"}',
            "s.jsonl:1: when 'soon': write approved, denied, ",
        ),
        ("[]", "s.jsonl:1: no event: write "),
        ('{"text":"x"}', "s.jsonl:1: no event: write "),
        ("\n \n", "s.jsonl: the script has no turn: write events"),
        (END + '\n{"type":"text_delta","text":"x"}', "s.jsonl: the last turn has no `turn_ended` line"),
    ],
)
def test_an_invalid_script_is_refused_with_the_line_number(text: str, where: str) -> None:
    with pytest.raises(ConfigError) as caught:
        read(text, "s.jsonl")
    assert str(caught.value).startswith(where)


def test_a_script_may_contain_any_json() -> None:
    form = '{"type":"interaction_required","question":"q","kind":"choices","spec":{"questions":[1]},"reason":"r"}'
    ((line, _),) = read(form + "\n" + END, "s")
    assert bytes(line.event.spec) == b'{"questions":[1]}'


def test_the_error_names_a_script_file_that_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=f"{tmp_path}/none: No such file or directory"):
        load(tmp_path / "none")
    (tmp_path / "latin").write_bytes(b"\xff")
    with pytest.raises(ConfigError, match=f"{tmp_path}/latin: not UTF-8"):
        load(tmp_path / "latin")
    (tmp_path / "bad").write_text("{}\n")
    with pytest.raises(ConfigError, match=f"{tmp_path}/bad:1: no event"):
        load(tmp_path / "bad")


def test_a_script_without_an_end_is_refused() -> None:
    with pytest.raises(ConfigError, match="/dev/zero: it has more than"):
        load(Path("/dev/zero"))


def test_a_custom_script_answers_inputs_turn_after_turn() -> None:
    one, two = (f'{{"type":"text_delta","text":"{word}"}}\n{END}\n' for word in ("one", "two"))
    scripts = Scripts(read(one + two, "s"))
    assert [words(scripts, said) for said in ("hi", "fail", "count 3", "approve")] == ["one", "two", "one", "two"]


def words(scripts: Scripts, text: str) -> str:
    return "".join(line.event.text for line in scripts.turn(text) if isinstance(line.event, events.TextDelta))


def test_inputs_play_the_turns_of_the_conversation_in_a_cycle() -> None:
    scripts, turns = Scripts(), read(BUNDLED["conversation.jsonl"], "x")
    said = [words(scripts, text) for text in ("hello", "", *("more",) * (len(turns) - 1))]
    assert len(set(said)) == len(turns)
    assert said[-1] == said[0]


@pytest.mark.parametrize("name", sorted(set(BUNDLED) - {"conversation.jsonl"}))
def test_a_script_plays_when_an_input_begins_with_its_name(name: str) -> None:
    word = name.removesuffix(".jsonl")
    scripted = "".join(
        line.event.text for line in read(BUNDLED[name], name)[0] if isinstance(line.event, events.TextDelta)
    )
    assert words(Scripts(), f"{word.upper()} please") == scripted


def test_the_script_count_n_sends_n_tokens_and_the_end() -> None:
    start, *tokens, end = (line.event for line in Scripts().turn("count 3"))
    assert start == events.ModelTurnStarted()
    assert [event.text for event in tokens] == ["0 ", "1 ", "2 "]
    assert end == events.TurnEnded(end="completed")


@pytest.mark.parametrize("digits", ["101", "9" * 5000])
def test_script_count_is_bounded(digits: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(script, "COUNT_MAX", 100)
    turn = Scripts().turn(f"count {digits}")
    assert sum(1 for _ in turn) == 100 + 2


@pytest.mark.parametrize("text", ["count", "count me in", "count -3", "counting 3", "count ²", "count 3.5"])
def test_the_input_count_without_a_number_plays_the_conversation(text: str) -> None:
    first = read(BUNDLED["conversation.jsonl"], "x")[0]
    assert [line.event for line in islice(Scripts().turn(text), 2)] == [line.event for line in first[:2]]


# -- the backend's states ---------------------------------------------------------------------------


class DemoStage(Awaited):
    """A session of the backend that notes the events it receives."""

    def __init__(self, group: asyncio.TaskGroup, turns: Sequence[list[Line]] = ()) -> None:
        super().__init__()
        self._group = group
        self.state = SessionState(id="00000000-0000-0000-0000-00000000000a")
        self.heard: list[Any] = []
        self.backend = DemoBackend(self, self._spawn, Scripts(turns))

    def _spawn(self, work: Coroutine[Any, Any, None], name: str) -> None:
        self._group.create_task(work, name=name)

    def receive(self, bursts: list[Burst[Any]]) -> None:
        self.heard += [item for burst in bursts for item in burst.items]
        self.note()

    def connected(self) -> None: ...

    def lost(self, text: str, unsent: Sequence[Command], cause: Cause = "upstream_lost") -> bool:
        raise AssertionError(f"played in process: never lost ({text})")

    async def sent(self, *commands: Command) -> list[Any]:
        """Send these commands at once; return the events that follow at once."""
        before = len(self.heard)
        self.backend.send(commands)
        return self.heard[before:]

    def text(self) -> str:
        return "".join(event.text for event in self.heard if isinstance(event, events.TextDelta))

    def statuses(self) -> list[str]:
        return [event.status for event in self.heard if isinstance(event, events.StatusChanged)]

    def results(self) -> list[str]:
        return [event.end for event in self.heard if isinstance(event, events.TurnResult)]


@asynccontextmanager
async def staged(script: str = "") -> AsyncIterator[DemoStage]:
    async with asyncio.timeout(DEADLINE), asyncio.TaskGroup() as group:
        stage = DemoStage(group, read(script, "s") if script else ())
        stage.backend.start()
        try:
            yield stage
        finally:
            stage.backend.stop()  # and then its task ends, or the test fails


def run(text: str, request: str = "r") -> commands.SubmitInput:
    return commands.SubmitInput(request=request, segments=(Text(text=text),))


def refusal(items: list[Any]) -> tuple[str, str]:
    (reply,) = items
    assert isinstance(reply, events.Reply)
    assert reply.failure is not None
    return reply.request, reply.failure.cause


async def test_the_demo_backend_introduces_itself_once() -> None:
    async with staged() as stage:
        stage.backend.start()
        (history,) = stage.heard
        assert (history.items, history.status, history.backend.name) == ((), "idle", "demo")


async def test_a_second_run_is_busy_until_the_first_ends() -> None:
    async with staged() as stage:
        await stage.sent(run("count 1", "a"))
        assert refusal(await stage.sent(run("count 1", "b"))) == ("b", "busy")
        await stage.until(lambda: isinstance(stage.heard[-1], events.TurnEnded))
        accepted, _ = await stage.sent(run("count 1", "c"))
        assert accepted == events.TurnAccepted(request="c")


@pytest.mark.parametrize("stop", [commands.CancelTurn, commands.PauseTurn])
async def test_a_stop_before_any_output_rolls_back_to_idle(
    stop: type[commands.CancelTurn | commands.PauseTurn],
) -> None:
    async with staged() as stage:
        await stage.sent(run("wait"))
        assert await stage.sent(stop(request="s")) == [events.Reply(request="s")]
        await stage.until(lambda: stage.statuses() == ["running", "idle"])
        assert (stage.results(), stage.text()) == (["rolled_back"], "")


async def test_a_cancel_after_output_ends_cancelled_and_idle() -> None:
    async with staged() as stage:
        await stage.sent(run("slow"))
        await stage.until(lambda: bool(stage.text()))
        await stage.sent(commands.CancelTurn(request="s"))
        await stage.until(lambda: stage.statuses() == ["running", "idle"])
        assert stage.results() == ["cancelled"]
        assert refusal(await stage.sent(commands.ResumeTurn(request="t"))) == ("t", "not_running")


async def test_a_paused_turn_continues_where_it_stopped() -> None:
    script = BUNDLED["slow.jsonl"].replace('"delay_ms": 100', '"delay_ms": 5')
    scripted = [line.event for line in read(script, "x")[0]]
    async with staged(script) as stage:
        await stage.sent(run("go on"))
        for pause in range(1, 4):
            so_far = len(stage.text())
            await stage.until(lambda enough=so_far + 30: len(stage.text()) > enough)
            await stage.sent(commands.PauseTurn(request="p"))
            await stage.until(lambda count=pause: stage.results() == ["paused"] * count)
            assert stage.statuses()[-1] == "paused"
            assert await stage.sent(commands.ResumeTurn(request="q")) == [
                *(events.Reply(request="q"), events.StatusChanged(status="running")),
            ]
        await stage.sent(commands.CancelTurn(request="s"))
        await stage.until(lambda: stage.statuses()[-1] == "idle")
        said = [event for event in stage.heard if type(event) is events.TextDelta]
        assert said == [event for event in scripted if type(event) is events.TextDelta][: len(said)]


async def test_a_paused_session_takes_a_new_run() -> None:
    async with staged() as stage:
        await stage.sent(run("slow"))
        await stage.until(lambda: bool(stage.text()))
        await stage.sent(commands.PauseTurn())
        await stage.until(lambda: stage.statuses()[-1] == "paused")
        before = len(stage.heard)
        await stage.sent(run("count 2"))
        await stage.until(lambda: isinstance(stage.heard[-1], events.TurnEnded))
        assert [e.text for e in stage.heard[before:] if isinstance(e, events.TextDelta)] == ["0 ", "1 "]


@pytest.mark.parametrize(
    "command", [commands.CancelTurn(request="r"), commands.PauseTurn(request="r"), commands.ResumeTurn(request="r")]
)
async def test_cancel_pause_and_resume_are_refused_while_idle(command: Command) -> None:
    async with staged() as stage:
        assert refusal(await stage.sent(command)) == ("r", "not_running")


# -- questions --------------------------------------------------------------------------------------

ASKING = """\
{"type":"text_delta","text":"May I? "}
{"type":"approval_requested","tool":"write","description":"Write it"}
{"type":"text_delta","text":"Yes.","when":"approved"}
{"type":"text_delta","text":"No.","when":"denied"}
{"type":"turn_ended","end":"completed"}
"""

FORM = """\
{"type":"interaction_required","question":"q1","kind":"identity_intake","spec":{"fields":[]},"reason":"r"}
{"type":"text_delta","text":"Thanks.","when":"submitted"}
{"type":"text_delta","text":"Never mind.","when":"declined"}
{"type":"turn_ended","end":"completed"}
"""


def asks(stage: DemoStage) -> bool:
    return bool(stage.heard) and isinstance(stage.heard[-1], events.ApprovalRequested | events.InteractionRequired)


async def until_asked(stage: DemoStage) -> None:
    """Begin a turn, and wait for its question."""
    await stage.sent(run("go"))
    await stage.until(lambda: asks(stage))


def ended(stage: DemoStage) -> bool:
    return isinstance(stage.heard[-1], events.TurnEnded)


@pytest.mark.parametrize(
    "answer",
    [
        commands.AnswerApproval(request="r", approved=True),
        commands.AnswerInteraction(request="r", question="q1"),
    ],
)
async def test_an_answer_without_a_question_is_not_found(answer: Command) -> None:
    async with staged(ASKING) as stage:
        assert refusal(await stage.sent(answer)) == ("r", "not_found")


async def test_a_code_that_was_not_requested_is_invalid() -> None:
    async with staged(ASKING) as stage:
        (verdict,) = await stage.sent(commands.AnswerOtp(request="r", code="123456"))
        assert (type(verdict), verdict.request, verdict.reason) == (events.OtpInvalid, "r", "NOT_FOUND")


async def test_a_question_is_answered_once_and_in_its_kind() -> None:
    async with staged(ASKING) as stage:
        await until_asked(stage)
        wrong = commands.AnswerInteraction(request="w", question="q1")
        assert refusal(await stage.sent(wrong)) == ("w", "not_found")
        first, second = (
            commands.AnswerApproval(request="a", approved=True),
            commands.AnswerApproval(request="b", approved=False),
        )
        told = await stage.sent(first, second)
        assert told[0] == events.Reply(request="a")
        assert refusal(told[1:]) == ("b", "not_found")
        await stage.until(lambda: ended(stage))
        assert stage.text() == "May I? Yes."


async def test_an_answer_to_another_form_is_invalid_and_the_turn_stays_parked() -> None:
    async with staged(FORM) as stage:
        await until_asked(stage)
        assert refusal(await stage.sent(commands.AnswerInteraction(request="r", question="q0"))) == ("r", "invalid")
        assert await stage.sent(commands.AnswerInteraction(request="a", question="q1", declined=True)) == [
            events.Reply(request="a")
        ]


async def test_cancelling_a_parked_turn_removes_its_question() -> None:
    async with staged(ASKING) as stage:
        await until_asked(stage)
        assert refusal(await stage.sent(run("more", "s"))) == ("s", "busy")
        await stage.sent(commands.CancelTurn(request="c"))
        await stage.until(lambda: stage.results() == ["cancelled"])
        assert refusal(await stage.sent(commands.AnswerApproval(request="r", approved=True))) == ("r", "not_found")


async def test_a_parked_turn_that_was_paused_asks_again_when_resumed() -> None:
    async with staged(ASKING) as stage:
        await until_asked(stage)
        await stage.sent(commands.PauseTurn(request="p"))
        await stage.until(lambda: stage.results() == ["paused"])
        await stage.sent(commands.ResumeTurn(request="q"))
        await stage.until(lambda: asks(stage))
        await stage.sent(commands.AnswerApproval(request="a", approved=True))
        await stage.until(lambda: ended(stage))
        assert stage.text() == "May I? Yes."


async def test_an_answer_is_forgotten_with_its_turn() -> None:
    async with staged(ASKING + FORM.replace(', "when"', "")) as stage:
        await until_asked(stage)
        await stage.sent(commands.AnswerApproval(approved=True))
        await stage.until(lambda: ended(stage))
        await until_asked(stage)
        assert stage.text() == "May I? Yes."


# -- sessions ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "command", [commands.OpenSession(request="r"), commands.ResumeSession(request="r", session="gone")]
)
async def test_a_conversation_is_opened_as_the_session_that_asks(command: Command) -> None:
    async with staged() as stage:
        (opened,) = await stage.sent(command)
        assert (opened.request, opened.session) == ("r", stage.state.id)


# -- the rest ---------------------------------------------------------------------------------------


async def test_completions_begin_with_the_prefix() -> None:
    async with staged() as stage:
        (listed,) = await stage.sent(commands.ListCompletions(request="r", kind="file", prefix="no"))
        assert (listed.request, listed.kind, [entry.value for entry in listed.entries]) == ("r", "file", ["notes.md"])


async def test_an_unknown_command_is_unsupported() -> None:
    async with staged() as stage:
        assert refusal(await stage.sent(commands.Compact(request="r"))) == ("r", "unsupported")


async def test_a_shutdown_is_answered_and_the_demo_backend_keeps_running() -> None:
    async with staged() as stage:
        assert await stage.sent(commands.ShutdownBackend(request="r")) == [events.Reply(request="r")]
        assert len(await stage.sent(run("count 1"))) == 2


# -- on a real socket, as a pod ---------------------------------------------------------------------


class Raw:
    """A pod client that reads and writes bare lines."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader, self.writer = reader, writer
        self.lines: list[dict[str, Any]] = []

    def run(self, text: str) -> None:
        params = {"input": [{"kind": "text", "content": text}]}
        self.writer.write(json.dumps({"method": "run", "params": params}).encode() + b"\n")

    async def next(self) -> dict[str, Any]:
        async with asyncio.timeout(DEADLINE):
            line = await self._reader.readline()
        assert line.endswith(b"\n"), "the pod hung up"
        self.lines.append(json.loads(line))
        return self.lines[-1]

    async def until_idle(self) -> list[str]:
        """Read up to the end of the run; return the names of the events read."""
        names: list[str] = []
        while True:
            line = await self.next()
            names.append(line["event"])
            if line == {"event": "status", "data": {"status": "idle"}}:
                return names


@asynccontextmanager
async def pod(tmp_path: Path) -> AsyncIterator[Raw]:
    """Run a demo backend on a socket; yield a raw client of it."""
    path = tmp_path / "sock"
    async with serving(demo_backend(parse(f"pod+unix:{path}"))):
        client = Raw(*await asyncio.open_unix_connection(path, limit=1 << 24))
        try:
            yield client
        finally:
            client.writer.close()


async def test_a_client_is_shown_an_idle_snapshot_first(tmp_path: Path) -> None:
    async with pod(tmp_path) as client:
        snapshot = await client.next()
        assert (snapshot["event"], snapshot["data"]["status"]) == ("snapshot", "idle")
        assert snapshot["data"]["greeting"]["pod_name"] == "demo"


async def test_a_run_has_the_order_of_a_pod(tmp_path: Path) -> None:
    async with pod(tmp_path) as client:
        await client.next()
        client.run("retry")
        names = await client.until_idle()
        assert names == [
            *("user_message", "status", "segment_rotated"),  # it is the first run of this pod
            *("turn_start", "llm_call_start", "llm_retry", "text_delta", "text_delta"),
            *("text_done", "usage", "llm_call_end", "turn_end", "run_end", "status"),
        ]
        assert client.lines[1]["data"] == {"segments": [{"kind": "text", "content": "retry"}]}
        assert client.lines[-2]["data"] == {"result": "finished"}


# -- on a real socket, as a smooth server -----------------------------------------------------------


@asynccontextmanager
async def smooth_server(script: str = "") -> AsyncIterator[str]:
    app = demo_backend(parse("smooth+ws://127.0.0.1:0/ws"), read(script, "s") if script else ())
    async with serving(app) as (endpoint,):
        yield endpoint.partition("+")[2]


async def test_each_smooth_client_opens_a_conversation_of_its_own() -> None:
    async with smooth_server() as url, SmoothClient.connected(url) as one, SmoothClient.connected(url) as other:
        assert one.session != other.session
        await one.turn("count 3")
        asked = {"action": "get_conversation_messages"}
        mine = await one.ask({**asked, "sessionId": one.session})
        assert [m["content"]["text"] for m in mine["data"]["messages"]] == ["0 1 2 ", "count 3"]
        foreign = await other.ask({**asked, "sessionId": other.session})
        assert foreign["data"]["messages"] == []
        assert [frame["type"] for frame in other.frames] == ["immediate_response"] * 2


async def test_a_smooth_client_can_resume_its_conversation() -> None:
    async with smooth_server() as url:
        async with SmoothClient.connected(url) as first:
            await first.turn("count 1")
        async with SmoothClient.connected(url) as again:
            found = await again.ask({"action": "get_session", "sessionId": first.session})
            assert found["data"]["sessionId"] == first.session
            unknown = await again.ask({"action": "get_session", "sessionId": str(uuid4())})
            assert unknown["error"]["code"] == "SESSION_NOT_FOUND"


@pytest.mark.parametrize(("approved", "words"), [(True, " Done: 42.00 EUR"), (False, " Then I leave the order")])
async def test_the_bundled_question_can_be_answered_by_a_smooth_client(approved: bool, words: str) -> None:
    async with smooth_server() as url, SmoothClient.connected(url) as client:
        turn = await client.say("approve it")
        await client.until(lambda: any(f["type"] == "write_confirmation_required" for f in client.frames))
        answer = {"action": "confirm_tool_action", "sessionId": client.session, "approved": approved}
        assert (await client.ask(answer))["status"] == 200
        await client.until(client.terminals)
        (end,) = client.terminals()
        assert (end["requestId"], end["type"]) == (turn, "eventual_response")
        assert words in end["data"]["data"]["response"]["responseParts"][0]
        assert (await client.ask(answer))["error"]["code"] in ("NO_PENDING_CONFIRMATION", "SESSION_NOT_FOUND")


@pytest.mark.parametrize(
    ("answer", "words"),
    [({"values": {"name": "Ada"}}, " Thank you"), ({"declined": True}, " Then look here again")],
)
async def test_the_bundled_form_can_be_answered_by_a_smooth_client(answer: dict[str, Any], words: str) -> None:
    async with smooth_server() as url, SmoothClient.connected(url) as client:
        await client.say("form please")
        await client.until(lambda: any(f["type"] == "interaction_required" for f in client.frames))
        asked = next(f["data"]["data"] for f in client.frames if f["type"] == "interaction_required")
        submit = {"action": "submit_interaction", "sessionId": client.session, "interactionId": asked["interactionId"]}
        assert (await client.ask({**submit, **answer}))["status"] == 200
        await client.until(client.terminals)
        assert words in client.terminals()[0]["data"]["data"]["response"]["responseParts"][0]


# -- the demo ---------------------------------------------------------------------------------------


def test_the_demo_command_shows_both_turns_and_exits_0() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "dragoman", "demo"], capture_output=True, text=True, timeout=50, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")
    for client, question in QUESTIONS.items():
        assert f"{client:<9} {question}" in done.stdout
    assert "smooth, pod, pando, codewhale: all in one conversation" in done.stdout
    wires = ('{"type":"stream_', '{"event":"text_delta"', '{"instanceId"', '{"type":"response_')
    assert all(wire in done.stdout for wire in wires)
    unwrapped = done.stdout.replace("\n", "")
    for turn in read(BUNDLED["conversation.jsonl"], "x"):
        for line in turn:
            if isinstance(line.event, events.TextDone):
                assert line.event.text.replace(" ", "") in unwrapped.replace(" ", "")
    assert "lookup_order" in done.stdout
    assert " dragoman bridge smooth+ws://" in done.stdout


def test_the_demo_shows_commands_that_run_where_dragoman_is_not_in_path(tmp_path: Path) -> None:
    program = tmp_path / "dragoman"
    program.write_text(f"#!{sys.executable}\nfrom dragoman.gateway.entry import main\nmain()\n")
    program.chmod(0o700)
    environment = {"PATH": "/nowhere"}
    done = subprocess.run([program, "demo"], capture_output=True, text=True, timeout=50, check=True, env=environment)
    assert f" {program} chat smooth+ws://127.0.0.1:8787/ws" in done.stdout
