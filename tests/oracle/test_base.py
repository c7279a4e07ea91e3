"""The oracle of histories accepts the spoken messages, however they were cut, and nothing else."""

from __future__ import annotations

import pytest

from tests.oracle import told_as_said
from tests.oracle.base import Said

SAID: list[Said] = [("user", "a"), ("assistant", "xy"), ("user", "b"), ("user", "c"), ("assistant", "z")]


def test_blocks_of_one_answer_are_one_message() -> None:
    assert told_as_said([("user", "a"), ("assistant", "x"), ("assistant", "y"), *SAID[2:]], SAID)


@pytest.mark.parametrize(
    "told",
    [
        SAID[1:],
        [*SAID[:2], ("user", "bc"), SAID[4]],
        [SAID[0], SAID[2], SAID[3], SAID[1], SAID[4]],
        [*SAID[:4], ("assistant", "Z")],
    ],
    ids=["an input is missing", "two inputs are one", "an answer comes late", "an answer is another"],
)
def test_another_order_or_another_text_is_another_history(told: list[Said]) -> None:
    assert not told_as_said(told, SAID)
