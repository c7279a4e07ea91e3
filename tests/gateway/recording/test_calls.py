"""The cost of recording a turn, counted in Python calls of gateway/recording and never timed."""

from __future__ import annotations

import asyncio
import sys
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

from dragoman.gateway.app import App
from dragoman.gateway.config.model import Config, Recording, Redact, Route
from dragoman.gateway.endpoint import parse
from tests.conformance.fake_pod import FakePod
from tests.gateway.pod_messages import FINISHED, say
from tests.gateway.test_calls import ROOT, WARM, tokens
from tests.pairs.gateway import LIMITS, SmoothClient, serving, socket_path

FOLDER = f"{ROOT}/dragoman/gateway/recording/"
TOKEN_CALLS_MAX = 1
"""For the piece with its frames."""
FLUSHED, FLUSH_CALLS_MAX = 60, 3  # lone tokens that are flushed at once, and calls for each of them
TURN_CALLS_MAX = 230  # for the first items of a turn, and again for its end: 218 to 226, as the ids of a session are
DEADLINE = 20.0
TEXT_DONE = '"type":"text_done"'


@asynccontextmanager
async def recorded(folder: Path, *, redacts: bool = True) -> AsyncIterator[tuple[FakePod, SmoothClient]]:
    """Run a recording gateway with a pod and a smooth client on its two sides."""
    path = socket_path(folder)
    route = Route(name="test", listen=(parse("smooth+ws://127.0.0.1:0/ws"),), upstream=parse(f"pod+unix:{path}"))
    redact = Redact(enabled=redacts, window_seconds=60)  # no flush in the middle of a text, also on a busy machine
    recording = Recording(path=f"{folder}/rec/", compress=False, redact=redact)
    app = App(Config(routes=(route,), limits=LIMITS, recording=recording))
    async with (
        FakePod.serving(path) as pod,
        serving(app) as (endpoint,),
        SmoothClient.connected(endpoint.partition("+")[2]) as client,
    ):
        yield pod, client


@contextmanager
def counting() -> Iterator[Counter[str]]:
    """Count the calls of gateway/recording by function."""
    called = Counter[str]()

    def note(frame: FrameType, what: str, _argument: Any) -> None:
        code = frame.f_code
        if what == "call" and code.co_filename.startswith(FOLDER):
            called[f"{Path(code.co_filename).stem}.{code.co_qualname}"] += 1

    sys.setprofile(note)
    try:
        yield called
    finally:
        sys.setprofile(None)


async def until_written(folder: Path, word: str, times: int) -> None:
    """Wait until the recording contains `word` this many times."""
    async with asyncio.timeout(DEADLINE):
        while count_written(folder, word) < times:
            await a_moment()


def count_written(folder: Path, word: str) -> int:
    return sum(path.read_text().count(word) for path in (folder / "rec").glob("*.jsonl"))


async def a_moment() -> None:
    await asyncio.sleep(0.005)


async def calls_of_tokens(folder: Path, *, redacts: bool) -> tuple[Counter[str], Counter[str]]:
    """Return the calls for a lone token, from the read of a pod's line to a smooth client's frame, and for a text.

    The second are those for FLUSHED tokens and the end of their text, until all of them are written.
    """
    async with recorded(folder, redacts=redacts) as (pod, client):
        await client.say("hold")
        await pod.holds()
        await pod.say(say("turn_start", turn=0))
        await until_written(folder, '"type":"model_turn_started"', 1)
        for number in range(WARM):
            await pod.say(say("text_delta", text=f"{number}"))
            await client.until(lambda number=number: tokens(client) == number + 1)
        with counting() as called:
            await pod.say(say("text_delta", text="counted"))
            await client.until(lambda: tokens(client) == WARM + 1)
        await calls_of_a_text(folder, pod, client, said="01234counted")  # fills the caches of the redaction
        whole = await calls_of_a_text(folder, pod, client)
    return called, whole


async def calls_of_a_text(folder: Path, pod: FakePod, client: SmoothClient, said: str = "") -> Counter[str]:
    """Return the calls for FLUSHED further tokens of a text and its end, until all is written; `said` came before."""
    seen, ended = tokens(client), count_written(folder, TEXT_DONE)
    words = [f"word {number}, " for number in range(FLUSHED)]
    with counting() as called:
        for number, word in enumerate(words, seen + 1):
            await pod.say(say("text_delta", text=word))
            await client.until(lambda number=number: tokens(client) == number)
        await pod.say(say("text_done", text=said + "".join(words)))
        await until_written(folder, TEXT_DONE, ended + 1)
    return called


async def calls_of_a_turn(folder: Path, *, redacts: bool) -> tuple[Counter[str], Counter[str]]:
    """Return the calls for the beginning and the end of the third turn, until its items are written."""
    begin, end = Counter[str](), Counter[str]()
    async with recorded(folder, redacts=redacts) as (pod, client):
        for turn in range(1, 4):
            with counting() as begin:
                await client.say("hold")
                await client.until(lambda turn=turn: accepted(client) == turn)
                await pod.say(say("turn_start", turn=turn))
                await until_written(folder, '"type":"model_turn_started"', turn)
            words = [f"word {number} of turn {turn}, " for number in range(WARM)]
            for number, word in enumerate(words, WARM * (turn - 1) + 1):
                await pod.say(say("text_delta", text=word))
                await client.until(lambda number=number: tokens(client) == number)
            with counting() as end:
                await pod.say(say("text_done", text="".join(words)), *FINISHED)
                await until_written(folder, '"type":"turn_ended"', turn)
    return begin, end


def accepted(client: SmoothClient) -> int:
    return sum(frame.get("status") == 202 for frame in client.frames)


@pytest.mark.parametrize("redacts", [True, False])
def test_recording_adds_few_calls_to_a_lone_token_and_to_its_flush(tmp_path: Path, redacts: bool) -> None:
    called, whole = asyncio.run(calls_of_tokens(tmp_path, redacts=redacts))
    assert 0 < called.total() <= TOKEN_CALLS_MAX, called
    assert whole.total() <= FLUSHED * (TOKEN_CALLS_MAX + FLUSH_CALLS_MAX), whole


@pytest.mark.parametrize("redacts", [True, False])
def test_recording_adds_few_calls_to_the_begin_and_the_end_of_a_turn(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, redacts: bool
) -> None:
    monkeypatch.setattr(
        "dragoman.gateway.recording.session_recorder.FLUSH", 0.1
    )  # one flush each, also on a busy machine
    for called in asyncio.run(calls_of_a_turn(tmp_path, redacts=redacts)):
        assert 0 < called.total() <= TURN_CALLS_MAX, called
