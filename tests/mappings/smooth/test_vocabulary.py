"""The vocabulary of smooth: codes and causes, and an omitted `supports`."""

from __future__ import annotations

from typing import get_args

from dragoman.mappings.canonical.values import Cause
from dragoman.mappings.smooth.vocabulary import CAUSE_OF_CODE, CODE_OF_CAUSE, cause_of


def test_every_cause_has_a_code_whose_cause_is_known() -> None:
    assert set(CODE_OF_CAUSE) == set(get_args(Cause))
    assert set(CODE_OF_CAUSE.values()) <= set(CAUSE_OF_CODE)


def test_an_unknown_code_is_internal() -> None:
    assert cause_of("OUT_OF_CHEESE") == "internal"
