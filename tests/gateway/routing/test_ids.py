"""The ids of sessions are functions of the objects for which they stand."""

from __future__ import annotations

from uuid import NAMESPACE_URL, uuid5

import pytest

from dragoman.gateway.routing.ids import agent_id, canonical_id, session_id

KNOWN = "0198c3a1-7b52-7c40-9d1e-5f0a6b7c8d9e"


@pytest.mark.parametrize("name", [KNOWN, f"thread-{KNOWN}", KNOWN.upper()])
def test_a_uuid_is_its_own_canonical_id(name: str) -> None:
    assert canonical_id("r", name) == KNOWN


def test_any_other_name_has_an_id_of_its_own_in_each_route() -> None:
    """The id is the same after a restart (docs/translation.md, rule 3.1)."""
    assert canonical_id("r", "a") == session_id("r", "a") == str(uuid5(NAMESPACE_URL, "dragoman:r:a"))
    assert len({canonical_id("r", "a"), canonical_id("q", "a"), canonical_id("r", "b"), agent_id("r")}) == 4
