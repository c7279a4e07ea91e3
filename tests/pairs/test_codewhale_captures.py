"""A codewhale client sends all recorded requests, line by line, to a child that plays the recording.

It is answered what was answered; what the gateway answers itself is compared as far as it can know it. The recorded
turns are played to clients of all dialects in tests/players.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from dragoman.mappings.codewhale.vocabulary import HEAD, methods
from tests.mappings.codewhale.data import capture, captured, captured_answers
from tests.pairs.captured_codewhale import captured_codewhale
from tests.pairs.codewhale_client import CodewhaleClient
from tests.pairs.gateway import bridged
from tests.pairs.recorded import LIMITS
from tests.pairs.table import LISTEN


@asynccontextmanager
async def playing(path: Path, dialect: str, folder: Path) -> AsyncIterator[str]:
    """Run a gateway before a child that plays a capture; yield the address for clients of this dialect."""
    listen = LISTEN[dialect].format(folder=folder)
    async with bridged(captured_codewhale(path, folder, methods(HEAD)), listen=listen, limits=LIMITS) as (_, url):
        yield url


# -- line by line ------------------------------------------------------------------------------------

ORDER = "the child that is asked for lists plays those that were recorded in their order, to their end"
TIMES = "the gateway's list is ordered by when something was said, in parts of a second"
IMAGES = "`turn_image_inputs` is told: before a codewhale runs, nobody knows whether it takes images"
HISTORY = "what a child's store knows from before is not taken over: the history is what was said here"

OWN: dict[str, dict[int, str]] = {
    "01": {
        2: IMAGES,
        3: IMAGES,
        5: "which configuration file a child reads is its own affair",
        7: ORDER,
        14: ORDER,
        16: ORDER,
    },
    "06": {
        4: "a session that is open is shown: nothing is added to its history",
        5: HISTORY,
        7: HISTORY,
        10: TIMES,
        11: TIMES,
        13: HISTORY,
        14: ORDER,
    },
    "07": {},
}
"""Capture -> id of a request -> why the gateway answers it otherwise than that server alone did."""


def timeless(value: Any) -> Any:
    """Return an answer without times, because the gateway's sessions have their own."""
    if isinstance(value, dict):
        return {key: timeless(member) for key, member in value.items() if key not in ("created_at", "updated_at")}
    return [timeless(member) for member in value] if isinstance(value, list) else value


@pytest.mark.parametrize("number", OWN)
async def test_a_codewhale_client_that_repeats_captured_requests_gets_the_captured_answers(
    number: str, tmp_path: Path
) -> None:
    asked = [json.loads(line) for _, way, line in captured(capture(number)) if way == "c2s"]
    due = {answer["id"]: answer for answer in captured_answers(number)}
    other: list[int] = []
    async with (
        playing(capture(number), "codewhale", tmp_path) as url,
        CodewhaleClient.connected(url.removeprefix("unix:"), "") as client,
    ):
        for request in asked:
            answer = await client.answer(await client.send(request["method"], **request.get("params", {})))
            assert answer["id"] == request["id"]
            if timeless(answer) != timeless(due[request["id"]]):
                other.append(request["id"])
    assert other == list(OWN[number])


async def test_a_name_given_by_one_client_is_shown_to_the_next_one(tmp_path: Path) -> None:
    async with (
        playing(capture("06"), "codewhale", tmp_path) as url,
        CodewhaleClient.connected(url.removeprefix("unix:")) as client,
        CodewhaleClient.connected(url.removeprefix("unix:"), client.thread) as other,
    ):
        await client.call("thread/set_name", thread_id=client.thread, name="ログ")
        assert (await other.call("thread/read", thread_id=client.thread))["thread"]["name"] == "ログ"
