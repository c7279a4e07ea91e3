"""A part of `make chaos`, with a fixed seed: no turn is lost, none ends twice, and nothing is left behind."""

from __future__ import annotations

import asyncio
import json
import os
from pathlib import Path
from random import Random

import pytest

from tests.chaos.faults import choose_rounds
from tests.chaos.kills import KILLS, KillTally, process_harness
from tests.chaos.pair import Tally, faulty_pair, play_rounds
from tests.chaos.sessions import leave_sessions
from tests.chaos.shapes import SHAPES, ShapeTally, play_backend_shapes, send_shape
from tests.pairs.table import DIALECTS, PAIRS

SEED = 20261122
SHAPE_BYTES = 1 << 14
ROUNDS = 12  # one of each fault on each side


def descriptors() -> int:
    return len(os.listdir("/proc/self/fd"))


@pytest.mark.parametrize(("client", "backend"), PAIRS)
async def test_faults_of_a_connection_lose_no_turn_and_end_none_twice(
    client: str, backend: str, tmp_path: Path
) -> None:
    tally = Tally()
    dice = Random(f"{SEED} {client} {backend}")
    side = (DIALECTS.index(client) + DIALECTS.index(backend)) % 2  # each dialect has faults on its side in two pairs
    await play_rounds(client, backend, tmp_path, choose_rounds(dice, ROUNDS)[side::2], tally)
    assert tally.clean, "\n".join(tally.details)


@pytest.mark.parametrize("dialect", DIALECTS)
async def test_a_gateway_still_works_after_the_worst_shapes_of_a_client(dialect: str, tmp_path: Path) -> None:
    async with faulty_pair(dialect, "pod", tmp_path) as pair:
        for name, make in SHAPES.items():
            await send_shape(dialect, pair.address, make(SHAPE_BYTES), read=0.02)
            assert await pair.recovers(), name


@pytest.mark.parametrize("backend", DIALECTS)
async def test_a_gateway_still_works_after_the_worst_shapes_of_a_backend(backend: str, tmp_path: Path) -> None:
    tally = ShapeTally()
    async with faulty_pair("smooth", backend, tmp_path) as pair:
        await play_backend_shapes(pair, backend, SHAPE_BYTES, tally)
    assert tally.not_recovered == []
    assert tally.played_by_backends == len(SHAPES)


async def test_kills_lose_no_turn_and_leave_no_process(tmp_path: Path) -> None:
    tally = KillTally()
    async with process_harness(tmp_path, tally) as (made, innocent):
        for number, what in enumerate(KILLS):
            await made.kill(what, Random(SEED + number))
        innocent.close_input()
        assert json.loads(await innocent.next_line()), "the innocent client had answers to its pings"
    assert tally.clean, "\n".join(tally.details)
    assert tally.kills.total() == len(KILLS)


async def test_a_pair_leaves_no_task_and_no_descriptor(tmp_path: Path) -> None:
    before = asyncio.all_tasks(), descriptors()
    await play_rounds("smooth", "pod", tmp_path, choose_rounds(Random(SEED), ROUNDS), Tally())
    assert (asyncio.all_tasks(), descriptors()) == before


async def test_sessions_are_opened_and_left_before_a_real_gateway(tmp_path: Path) -> None:
    told: list[str] = []
    samples = await leave_sessions(tmp_path, 20, told.append)
    assert [sample.opened for sample in samples] == [*range(2, 21, 2)]
    assert len(told) == len(samples)
    assert min(sample.descriptors for sample in samples) > 0
