"""The reason that every transport gives for a connect that failed."""

from __future__ import annotations

import errno

import pytest

from dragoman.adapters.base import connect_reason


@pytest.mark.parametrize(
    ("number", "told"),
    [
        (errno.ECONNREFUSED, "nothing listens there; start the backend, or correct the address"),
        (errno.EHOSTUNREACH, "No route to host"),
    ],
)
def test_a_refused_connect_is_explained_and_others_keep_the_words_of_the_system(number: int, told: str) -> None:
    assert connect_reason(number) == told
