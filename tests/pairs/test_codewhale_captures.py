"""Each recorded codewhale conversation, played by a child that the gateway spawned, as clients of all dialects see it.

Where the recording has a turn, each client says what was said, interrupts where it was interrupted, and is shown the
same text and the same end as far as the table goes. A codewhale client asks all that was asked, line by line, and is
answered what was answered; what the gateway answers itself is compared as far as it can know it.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from gateway.config.model import Limits
from mappings.codewhale.vocabulary import HEAD, methods
from tests.mappings.codewhale.data import CAPTURES, captured
from tests.pairs.codewhale_client import CodewhaleClient
from tests.pairs.codewhale_player import Recorded, player, recorded
from tests.pairs.gateway import bridged
from tests.pairs.table import DIALECTS, must_see
from tests.pairs.turns import Peer, join

LIMITS = Limits(drain_deadline=0.5, snapshot_wait=10.0, backoff_first=0.05, backoff_max=0.2)
LISTEN = {
    "smooth": "smooth+ws://127.0.0.1:0/ws",
    "pod": "pod+unix:{folder}/atlas/sock",
    "pando": "pando+tcp://127.0.0.1:0",
    "codewhale": "codewhale+unix:{folder}/atlas/sock",
}
ENDS = {"completed": "an answer ends", "failed": "a failure ends", "cancelled": "a cancel ends"}


def capture(number: str) -> Path:
    return next(path for path in CAPTURES if path.stem.startswith(number))


@asynccontextmanager
async def playing(path: Path, dialect: str, folder: Path) -> AsyncIterator[str]:
    """A gateway before a child that plays a capture; where its clients of this dialect connect."""
    (folder / "atlas").mkdir()
    listen = LISTEN[dialect].format(folder=folder)
    async with bridged(player(path, folder, methods(HEAD)), listen=listen, limits=LIMITS) as (_, url):
        yield url


def here(path: Path) -> list[Recorded]:
    """The turns of a capture's first thread: the gateway has no session for one that nobody opened."""
    turns = list(recorded(path))
    return [turn for turn in turns if turn.thread == turns[0].thread]


async def said(peer: Peer, turn: Recorded) -> tuple[str, str]:
    """What a client sees of a turn, text and end."""
    if turn.interrupted is None:
        seen = await peer.turn(turn.text)
    else:
        await peer.begin(turn.text, turn.interrupted)
        await peer.cancel()
        seen = await peer.finish()
    return seen.text, seen.end


@pytest.mark.parametrize("dialect", DIALECTS)
@pytest.mark.parametrize("number", ["02", "04", "05", "13"])
async def test_the_recorded_turns_reach_a_client_with_their_text_and_their_ends(
    number: str, dialect: str, tmp_path: Path
) -> None:
    path = capture(number)
    turns = here(path)
    async with playing(path, dialect, tmp_path) as url, join(dialect, url) as peer:
        shown = [await said(peer, turn) for turn in turns]
    ends = [must_see(ENDS[turn.end], dialect, "codewhale") for turn in turns]
    assert shown == [("".join(turn.deltas), end) for turn, end in zip(turns, ends, strict=True)]


def test_the_captures_show_turns_of_each_end() -> None:
    turns = [turn for number in ("02", "04", "05", "13") for turn in here(capture(number))]
    assert len(turns) == 4 + 3 + 9 + 6
    assert {turn.end for turn in turns} == set(ENDS)
    assert [turn.interrupted for turn in here(capture("04"))] == [25, 0, None]


# -- line by line ------------------------------------------------------------------------------------

ORDER = "the child that is asked for lists plays those that were recorded in their order, to their end"
TIMES = "the gateway's list is ordered by when something was said, in parts of a second"
HISTORY = "what a child's store knows from before is not taken over: the history is what was said here"

OWN: dict[str, dict[int, str]] = {
    "01": {5: "which configuration file a child reads is its own affair", 7: ORDER, 14: ORDER, 16: ORDER},
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
    """An answer without times: the gateway's sessions have their own."""
    if isinstance(value, dict):
        return {key: timeless(member) for key, member in value.items() if key not in ("created_at", "updated_at")}
    return [timeless(member) for member in value] if isinstance(value, list) else value


@pytest.mark.parametrize("number", OWN)
async def test_a_codewhale_client_that_asks_all_that_was_asked_is_answered_what_was_answered(
    number: str, tmp_path: Path
) -> None:
    asked = [json.loads(line) for _, way, line in captured(capture(number)) if way == "c2s"]
    due = {a["id"]: a for a in (json.loads(line) for _, way, line in captured(capture(number)) if way == "s2c")}
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


async def test_a_name_that_one_client_gave_is_shown_to_the_next_one(tmp_path: Path) -> None:
    async with (
        playing(capture("06"), "codewhale", tmp_path) as url,
        CodewhaleClient.connected(url.removeprefix("unix:")) as client,
        CodewhaleClient.connected(url.removeprefix("unix:"), client.thread) as other,
    ):
        await client.call("thread/set_name", thread_id=client.thread, name="ログ")
        assert (await other.call("thread/read", thread_id=client.thread))["thread"]["name"] == "ログ"
