"""The settings that a serving command makes for its whole process."""

from __future__ import annotations

import msgspec
import pytest

from dragoman.gateway.cli.running import DIGITS_MAX, set_up


def test_a_serving_command_reads_no_integer_of_a_thousand_digits() -> None:
    set_up("info", log_json=False)
    assert msgspec.json.decode(b"9" * DIGITS_MAX) == 10**DIGITS_MAX - 1
    with pytest.raises(msgspec.DecodeError):
        msgspec.json.decode(b"9" * (DIGITS_MAX + 1))
