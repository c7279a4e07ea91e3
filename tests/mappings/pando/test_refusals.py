"""Requests that a primary refuses by itself, compared with the answers of a real pando.

`tests/data/vectors/pando_refusals.jsonl` has its answers.
"""

from __future__ import annotations

from typing import Any

import pytest

from tests.data_files import vectors
from tests.mappings.pando.translator.test_server import Caller, error

REAL = vectors("pando_refusals")


@pytest.mark.parametrize("row", REAL, ids=[row["body"][:100] for row in REAL])
def test_a_request_is_refused_as_the_real_primary_refuses_it(row: dict[str, Any]) -> None:
    assert Caller().sends(row["body"].encode()) == [error(row["id"], row["code"], row["message"])]


def test_the_table_has_every_code() -> None:
    assert {row["code"] for row in REAL} == {-32700, -32601, -32000}
