"""Results of an older backend for clients of a newer listener, and the reverse."""

from __future__ import annotations

import json
from typing import Any

import pytest

from dragoman.mappings.codewhale.from_canonical.generations import masked, result_in
from dragoman.mappings.codewhale.vocabulary import HEAD, SEED
from dragoman.mappings.codewhale.wire.codecs import typed
from dragoman.mappings.codewhale.wire.results import AppResponse
from dragoman.mappings.extras import raw
from tests.mappings.codewhale.data import vector

SEED_GOAL = vector("res.thread.goal.set.seed")["result"]


def told(result: Any, generation: str) -> Any:
    return json.loads(bytes(raw(result_in(typed(raw(result)), generation))))


def test_a_goal_of_an_older_backend_has_the_count_that_newer_clients_need() -> None:
    assert "continuation_count" not in SEED_GOAL["goal"]
    shown = told(SEED_GOAL, HEAD)
    assert shown["goal"]["continuation_count"] == 0
    assert [event["goal"] for event in shown["events"]] == [shown["goal"]]
    assert shown["data"]["goal"] == shown["goal"]
    assert told(shown, SEED) == SEED_GOAL


def test_a_goal_of_a_backend_of_the_same_generation_stays_as_it_is() -> None:
    assert told(SEED_GOAL, SEED) == SEED_GOAL


@pytest.mark.parametrize(
    ("key", "value", "shown"),
    [
        ("api_key", "sk-test-some-longer-value", "sk-t***alue"),
        ("providers.openai.api-key", "short", "********"),
        ("api_key", "sk-t***alue", "sk-t***alue"),
        ("max_tokens_hint", "a value that is no secret", "a value that is no secret"),
        ("model", "gpt-5", "gpt-5"),
        ("api_key", None, None),
    ],
)
def test_a_secret_of_an_older_backend_is_masked(key: str, value: str | None, shown: str | None) -> None:
    result = masked(key, AppResponse(ok=True, data=raw({"key": key, "value": value})))
    assert json.loads(bytes(result.data)) == {"key": key, "value": shown}
