"""The settings of the Python interpreter."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable

import msgspec
import pytest

from dragoman.gateway.cli.running import set_up
from dragoman.gateway.launched.route import run_program
from dragoman.gateway.process.interpreter import DIGITS_MAX


def set_up_command() -> None:
    set_up("info", log_json=False)


def run_launched() -> None:
    with pytest.raises(SystemExit) as ended:
        run_program(lambda: asyncio.sleep(0))
    assert ended.value.code == 0


@pytest.mark.parametrize("start", [set_up_command, run_launched])
def test_a_serving_program_reads_no_integer_of_a_thousand_digits(start: Callable[[], None]) -> None:
    start()
    assert msgspec.json.decode(b"9" * DIGITS_MAX) == 10**DIGITS_MAX - 1
    with pytest.raises(msgspec.DecodeError):
        msgspec.json.decode(b"9" * (DIGITS_MAX + 1))


@pytest.mark.parametrize("start", [set_up_command, run_launched])
def test_a_serving_program_waits_for_a_busy_thread_only_shortly(start: Callable[[], None]) -> None:
    start()
    assert sys.getswitchinterval() <= 0.001, "seconds for each system call of the event loop while a thread redacts"
