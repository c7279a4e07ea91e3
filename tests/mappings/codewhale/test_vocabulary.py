"""Causes and codes, and the lists of each generation."""

from __future__ import annotations

from typing import get_args

import pytest

from dragoman.mappings.canonical.values import Cause
from dragoman.mappings.codewhale.vocabulary import (
    CODE_OF_CAUSE,
    HEAD,
    SEED,
    app_facts,
    cause_of,
    methods,
    thread_methods,
)


def test_every_cause_has_a_code() -> None:
    assert set(CODE_OF_CAUSE) == set(get_args(Cause))


@pytest.mark.parametrize(
    ("code", "text", "cause"),
    [
        (-32700, "", "invalid"),
        (-32600, "", "invalid"),
        (-32601, "", "unsupported"),
        (-32602, "", "invalid"),
        (-32004, "", "not_found"),
        (-32603, "thread not found", "not_found"),
        (-32603, "failed to query thread current leaf id for thread t", "not_found"),
        (-32603, "runtime event stream ended before turn.completed", "upstream_lost"),
        (-32603, "provider exploded", "internal"),
        (-32603, "x" * 10_000 + " not found", "internal"),  # only the beginning is read
        # docs/dialects/codewhale.md, section 3: [run] on a 0.10.2 and a 0.9.10
        (-32603, "Rate limit exceeded: no: 429", "rate_limited"),
        (-32603, "Authentication failed: no: 401", "model_failed"),
        (-32603, "Authorization failed: no: 403", "model_failed"),
        (-32603, "Invalid request (404): model not found", "model_failed"),
        (-32603, "LLM error: HTTP 402: no: 402", "model_failed"),
        (-32603, "Server error (529): no: 529", "model_failed"),
        (-32603, "Provider stream connection dropped while reading the response body.", "model_failed"),
        (-32603, "Model returned terminal stop reason `stop` with no answer or tool call.", "model_failed"),
        (-32603, "Model returned reasoning but no answer or tool call; the provider response", "model_failed"),
        (-32603, "The request still exceeds this model's context budget and automatic recovery", "model_failed"),
        (-32603, "runtime API returned 400 Bad Request: images exceed the 10 attachment limit", "invalid"),
        (-32603, "runtime API returned 409 Conflict: a turn runs", "busy"),
        (-32603, "runtime API returned 500 Internal Server Error: no", "upstream_lost"),
    ],
)
def test_the_cause_of_an_error_is_read_from_its_code_then_from_its_text(code: int, text: str, cause: Cause) -> None:
    assert cause_of(code, text) == cause


def test_the_later_generation_lists_two_methods_more() -> None:
    later = [method for method in methods(HEAD) if method not in methods(SEED)]
    assert (later, len(methods(SEED)), len(methods(HEAD))) == (["thread/interrupt", "app/config/reload"], 28, 30)
    assert [m for m in thread_methods(HEAD) if m not in thread_methods(SEED)] == ["thread/interrupt"]
    assert app_facts(SEED)["config"] == ["get", "set", "unset", "list"]
