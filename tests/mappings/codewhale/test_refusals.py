"""Requests that a server refuses by itself, compared with the answers of a real codewhale 0.10.2.

`tests/data/vectors/codewhale_refusals.jsonl` has its answers. The real program adds ` at line L column C` to the text
about a line that is not a request; that is left out.
"""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.data_files import vectors
from tests.mappings.codewhale.server_link import Client

REAL = vectors("codewhale_refusals")


@pytest.mark.parametrize("row", REAL, ids=[row["line"][:100] for row in REAL])
def test_a_request_is_refused_as_the_real_server_refuses_it(row: dict[str, Any]) -> None:
    client = Client().writes(row["line"])
    error = {"code": row["code"], "message": row["message"], "data": None}
    (line,) = client.raw
    assert json.loads(line) == {"jsonrpc": "2.0", "id": row["id"], "error": error}


def test_the_table_has_every_code_of_a_request_that_is_not_executed() -> None:
    assert {row["code"] for row in REAL} == {-32700, -32600, -32601, -32602}
