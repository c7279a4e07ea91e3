"""The cost that recording adds to a token, counted in Python calls of gateway/recording and never timed."""

from __future__ import annotations

import asyncio
import sys
from collections import Counter
from pathlib import Path
from types import FrameType
from typing import Any

from dragoman.gateway.app import App
from dragoman.gateway.config.model import Config, Recording, Route
from dragoman.gateway.endpoint import parse
from tests.conformance.fake_pod import FakePod, event
from tests.gateway.test_token_path import ROOT, WARM, tokens
from tests.pairs.gateway import LIMITS, SmoothClient, serving, socket_path

FOLDER = f"{ROOT}/dragoman/gateway/recording/"
CALLS_MAX = 8


async def counted_calls(folder: Path) -> Counter[str]:
    """The calls of gateway/recording for a lone token, from the read of a pod's line to a smooth client's frame."""
    path = socket_path(folder)
    route = Route(name="test", listen=(parse("smooth+ws://127.0.0.1:0/ws"),), upstream=parse(f"pod+unix:{path}"))
    recording = Recording(path=f"{folder}/rec/", compress=False)
    app = App(Config(routes=(route,), limits=LIMITS, recording=recording))
    called = Counter[str]()

    def note(frame: FrameType, what: str, _argument: Any) -> None:
        code = frame.f_code
        if what == "call" and code.co_filename.startswith(FOLDER):
            called[f"{Path(code.co_filename).stem}.{code.co_qualname}"] += 1

    async with (
        FakePod.serving(path) as pod,
        serving(app) as (endpoint,),
        SmoothClient.connected(endpoint.partition("+")[2]) as client,
    ):
        await client.say("hold")
        await pod.holds()
        await pod.say(event("turn_start", turn=0))
        for number in range(WARM):
            await pod.say(event("text_delta", text=f"{number}"))
            await client.until(lambda number=number: tokens(client) == number + 1)
        sys.setprofile(note)
        try:
            await pod.say(event("text_delta", text="counted"))
            await client.until(lambda: tokens(client) == WARM + 1)
        finally:
            sys.setprofile(None)
    return called


def test_recording_adds_few_calls_to_a_lone_token(tmp_path: Path) -> None:
    called = asyncio.run(counted_calls(tmp_path))
    assert 0 < called.total() <= CALLS_MAX, called
