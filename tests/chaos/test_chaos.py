"""A part of `make chaos`, with a fixed seed: no turn is lost, none ends twice, and nothing is left behind."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path
from random import Random

import pytest

from tests.chaos.faults import choose_rounds
from tests.chaos.pair import PAIRS, Tally, play_rounds

SEED = 20261122
ROUNDS = 12  # one of each fault on each side


def descriptors() -> int:
    return len(os.listdir("/proc/self/fd"))


@pytest.mark.parametrize(("client", "backend"), PAIRS)
async def test_faults_of_a_connection_lose_no_turn_and_end_none_twice(
    client: str, backend: str, tmp_path: Path
) -> None:
    tally = Tally()
    dice = Random(f"{SEED} {client} {backend}")
    await play_rounds(client, backend, tmp_path, choose_rounds(dice, ROUNDS), tally)
    assert tally.clean, "\n".join(tally.details)


async def test_a_pair_leaves_no_task_and_no_descriptor(tmp_path: Path) -> None:
    before = asyncio.all_tasks(), descriptors()
    await play_rounds("smooth", "pod", tmp_path, choose_rounds(Random(SEED), ROUNDS), Tally())
    assert (asyncio.all_tasks(), descriptors()) == before
